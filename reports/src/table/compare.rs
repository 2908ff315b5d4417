//! Policies side by side, and their paired differences to the first.

use std::fmt::Write as _;

use screen::{Head, Table, labelled as line};
use sim::metrics::Summary;

use super::layout;
use crate::facts::Facts;
use crate::interval::Replicated;
use crate::metric::{
    Better, COMPLETION, Metric, STALENESS, THROUGHPUT, TTFT_MEAN, TTFT_P95, refused,
};
use crate::number::{self, ABSENT, short};
use crate::significance;
use crate::warning;
use sim::metrics::Growth;

/// Marks the best value of a column.
const BEST: &str = "*";
/// Marks a difference that is shown.
const DIFFERENT: &str = "≠";

/// What a comparison shows beside its tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// Print quantiles with their intervals.
    pub quantiles: bool,
    /// Label and text of further lines.
    pub lines: Vec<(&'static str, String)>,
}

/// The text of several policies on the same arrivals and lengths. The first is the reference.
pub fn comparison(facts: &Facts, policies: &[(String, Replicated)], extras: &Extras) -> String {
    let mut out = String::new();
    let Some((reference, first)) = policies.first() else {
        return out;
    };
    let count = policies.len();
    let which = format!("{count} compared on the same arrivals and lengths; reference {reference}");
    layout::facts(&mut out, facts, &which, first.count());
    out.push('\n');
    values(&mut out, policies);
    if policies.len() > 1 {
        out.push('\n');
        differences(&mut out, policies);
    }
    if extras.quantiles {
        out.push('\n');
        quantiles(&mut out, policies);
    }
    out.push('\n');
    let chance = first.count() > 1 && count > 1;
    let best = if chance {
        "best mean of its column; where the differences show none to another, chance may have decided"
    } else {
        "best of its column"
    };
    line(&mut out, BEST, best);
    if count > 1 {
        let reading = "this policy's mean less that of the first: below 0 it is the smaller";
        let interval = "; ± is the 95 % interval of that one difference";
        let text = format!("{reading}{}", if chance { interval } else { "" });
        line(&mut out, "against", &text);
    }
    if chance {
        let mark = "the difference is there: all that are marked in a column are right at once with 95 % confidence \
                    (Holm's correction). Without the mark nothing is shown: it may be none, or one for which more \
                    replications are needed";
        line(&mut out, DIFFERENT, mark);
    }
    let any = |growth| policies.iter().any(|(_, runs)| runs.growth() == growth);
    if any(Growth::Grows) {
        let text = "queues grow, or too much is refused: there is no steady latency";
        line(&mut out, "grows", text);
    }
    if any(Growth::Open) {
        let text = "they do in so many of the replications: whether there is a steady latency is open, and a \
                    longer run may tell";
        line(&mut out, "k/n grow", text);
    }
    let contexts =
        "queries by how their context was prepared; reconstructed: also those that imported a part";
    line(&mut out, "contexts", contexts);
    for (label, text) in &extras.lines {
        line(&mut out, label, text);
    }
    let mut warnings = warning::of_all(facts, policies);
    warnings.retain(|warning| !warning.contains("crossinfer check"));
    layout::warnings(&mut out, &warnings);
    out
}

/// A number's mean, where it has one.
fn mean(metric: &Metric, runs: &Replicated) -> Option<f64> {
    if metric.steady_only && !runs.steady() {
        return None;
    }
    runs.estimate(metric.get).map(|estimate| estimate.mean)
}

fn best(metric: &Metric, policies: &[(String, Replicated)]) -> Option<f64> {
    let means = policies.iter().filter_map(|(_, runs)| mean(metric, runs));
    match metric.better {
        Better::Higher => means.max_by(f64::total_cmp),
        Better::Lower => means.min_by(f64::total_cmp),
    }
}

/// Means of all policies; in two tables where one would be too wide.
fn values(out: &mut String, policies: &[(String, Replicated)]) {
    let (latencies, work) = (latencies(policies), work(policies));
    let joined: Vec<Vec<String>> = latencies
        .iter()
        .zip(&work)
        .map(|(left, right)| left.iter().chain(&right[1..]).cloned().collect())
        .collect();
    let whole = table(&joined);
    _ = if whole.fits() {
        write!(out, "{whole}")
    } else {
        write!(out, "{}\n{}", table(&latencies), table(&work))
    };
}

/// A name and numbers in each row; the first row is the header.
fn table<T: AsRef<str>>(rows: &[Vec<T>]) -> Table {
    let mut heads = rows.first().into_iter().flatten();
    let name = heads.next().map(Head::text);
    let mut table = Table::new(name.into_iter().chain(heads.map(Head::number)));
    for row in rows.iter().skip(1) {
        table.row(row);
    }
    table
}

/// Rates and times, header first.
fn latencies(policies: &[(String, Replicated)]) -> Vec<Vec<String>> {
    let columns = [
        ("answers\n/s", THROUGHPUT),
        ("TTFT\ns", TTFT_MEAN),
        ("TTFT p95\ns", TTFT_P95),
        ("completion\ns", COMPLETION),
        ("staleness\ns", STALENESS),
    ];
    let best: Vec<_> = columns.iter().map(|(_, m)| best(m, policies)).collect();
    let mut header = vec!["policy".to_owned()];
    header.extend(columns.iter().map(|(title, _)| (*title).to_owned()));
    let rows = policies.iter().map(|(name, runs)| {
        let unsteady = runs.unsteady();
        let cells = columns.iter().zip(&best).map(|((_, metric), best)| {
            let unsteady = unsteady.as_deref().filter(|_| metric.steady_only);
            match mean(metric, runs) {
                None => format!("{} ", unsteady.unwrap_or(ABSENT)),
                Some(value) => {
                    // What reads the same is marked the same.
                    let text = short(value);
                    let mark = best.filter(|best| short(*best) == text);
                    format!("{text}{}", mark.map_or(" ", |_| BEST))
                }
            }
        });
        std::iter::once(name.clone()).chain(cells).collect()
    });
    std::iter::once(header).chain(rows).collect()
}

/// What engines and contexts did, header first.
fn work(policies: &[(String, Replicated)]) -> Vec<Vec<String>> {
    let first = policies
        .first()
        .and_then(|(_, runs)| runs.summaries.first());
    let engines: Vec<&str> = first
        .into_iter()
        .flat_map(|summary| summary.engines.iter().map(|engine| engine.name.as_str()))
        .collect();
    let any = |get: fn(&Summary) -> u64| {
        let mut all = policies.iter().flat_map(|(_, runs)| &runs.summaries);
        all.any(|summary| get(summary) > 0)
    };
    let late = any(|s| s.late);
    let mut header = vec![
        "policy".to_owned(),
        format!("busy %\n{}", engines.join("/")),
        "contexts, queries\nreused/imported/reconstr.".to_owned(),
        "refused\nqueries".to_owned(),
    ];
    if late {
        header.push("late\nqueries".to_owned());
    }
    let rows = policies.iter().map(|(name, runs)| {
        let mut row = vec![
            name.clone(),
            shares(runs, engines.len()),
            contexts(runs),
            whole(runs, refused),
        ];
        if late {
            row.push(whole(runs, |s| s.late));
        }
        row
    });
    std::iter::once(header).chain(rows).collect()
}

fn shares(runs: &Replicated, engines: usize) -> String {
    let share = |index: usize| {
        let busy = runs.estimate(|s| s.engines.get(index).map(|engine| engine.busy));
        busy.map_or_else(|| ABSENT.into(), |b| format!("{:.0}", 100.0 * b.mean))
    };
    let list: Vec<String> = (0..engines).map(share).collect();
    list.join("/")
}

fn contexts(runs: &Replicated) -> String {
    [
        whole(runs, |s| s.preparations.reuse),
        whole(runs, |s| s.preparations.import),
        whole(runs, |s| {
            s.preparations.reconstruct + s.preparations.import_and_reconstruct
        }),
    ]
    .join("/")
}

/// A mean count, rounded; what is not quite none is not shown as none.
fn whole(runs: &Replicated, get: fn(&Summary) -> u64) -> String {
    match runs.estimate(|s| Some(get(s) as f64)) {
        None => ABSENT.into(),
        Some(estimate) if estimate.mean > 0.0 && estimate.mean < 0.5 => "<1".into(),
        Some(estimate) => format!("{:.0}", estimate.mean),
    }
}

/// Differences of the others to the first.
fn differences(out: &mut String, policies: &[(String, Replicated)]) {
    let columns = [
        ("answers  \n/s  ", THROUGHPUT),
        ("TTFT  \ns  ", TTFT_MEAN),
        ("TTFT p95  \ns  ", TTFT_P95),
        ("completion  \ns  ", COMPLETION),
    ];
    let Some(((reference, first), others)) = policies.split_first() else {
        return;
    };
    let mut header = vec![format!("against\n{reference}")];
    header.extend(columns.iter().map(|(title, _)| (*title).to_owned()));
    let mut rows: Vec<Vec<String>> = others.iter().map(|(name, _)| vec![name.clone()]).collect();
    for (_, metric) in &columns {
        let scale = first.estimate(metric.get).map(|estimate| estimate.mean);
        let differences = significance::differences(metric, policies);
        for ((row, (_, runs)), difference) in rows.iter_mut().zip(others).zip(differences) {
            let unsteady = runs.unsteady().or_else(|| first.unsteady());
            if let Some(unsteady) = unsteady.filter(|_| metric.steady_only) {
                row.push(format!("{unsteady}  "));
                continue;
            }
            let shown = difference.and_then(|difference| difference.shown());
            let mark = if shown == Some(true) { DIFFERENT } else { " " };
            let estimate = difference.map(|difference| difference.estimate);
            let text = number::difference(estimate, scale.unwrap_or(0.0));
            row.push(format!("{text} {mark}"));
        }
    }
    rows.insert(0, header);
    _ = write!(out, "{}", table(&rows));
}

/// Quantiles of the times to first and last token, with 95 % intervals over replications.
fn quantiles(out: &mut String, policies: &[(String, Replicated)]) {
    type Get = fn(&Summary) -> Option<f64>;
    let [ttft, completion]: [(&str, [Get; 3]); 2] = [
        (
            "TTFT",
            [|s| s.ttft_s.p50, |s| s.ttft_s.p95, |s| s.ttft_s.p99],
        ),
        (
            "completion",
            [
                |s| s.completion_s.p50,
                |s| s.completion_s.p95,
                |s| s.completion_s.p99,
            ],
        ),
    ];
    for (title, parts) in [ttft, completion] {
        let mut rows = vec![
            [title, "p50\ns", "p95\ns", "p99\ns"]
                .map(str::to_owned)
                .to_vec(),
        ];
        for (name, runs) in policies {
            let cells = parts.iter().map(|&get| {
                let unsteady = runs.unsteady();
                unsteady.unwrap_or_else(|| number::estimate(runs.estimate(get)))
            });
            rows.push(std::iter::once(name.clone()).chain(cells).collect());
        }
        _ = write!(out, "{}", table(&rows));
        if title == "TTFT" {
            out.push('\n');
        }
    }
}
