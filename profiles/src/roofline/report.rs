//! The held-out accuracy as text, with the bounds that it is held to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use screen::{GLUE, Head, Table, hanging, paragraph};

use super::efficiency::Phase;
use super::holdout::{Holdout, Prediction, score};
use super::reach::Reached;

/// Largest median error.
const MEDIAN: f64 = 0.20;
/// Largest 90th percentile.
const P90: f64 = 0.40;
/// Least share within the intervals.
const INSIDE: f64 = 0.90;
/// Largest error of a rate at a long context.
const LONG: f64 = 0.10;
/// Largest error of a combined row.
const COMBINED: f64 = 0.08;

/// Text of what came out, and whether every bound is met.
pub fn text(of: &Holdout) -> (String, bool) {
    let mut out = String::new();
    paragraph(
        &mut out,
        "Each chip left out: predicted from its datasheet and the model's shape, with factors of the other chips",
    );
    let words = ["family", "chip", "phase"].map(Head::text);
    let numbers = ["values", "median\n%", "p90\n%", "mean\n%", "inside\n%"].map(Head::number);
    let mut table = Table::new(words.into_iter().chain(numbers));
    let mut groups: BTreeMap<(&str, &str, Phase), Vec<&Prediction>> = BTreeMap::new();
    for one in &of.predictions {
        groups
            .entry((&one.family, &one.chip, one.phase))
            .or_default()
            .push(one);
    }
    for ((family, chip, phase), list) in &groups {
        line(&mut table, [family, chip, phase.name()], list);
    }
    for phase in Phase::ALL {
        let list: Vec<&Prediction> = of.predictions.iter().filter(|p| p.phase == phase).collect();
        line(&mut table, ["all", "", phase.name()], &list);
    }
    let all: Vec<&Prediction> = of.predictions.iter().collect();
    line(&mut table, ["all", "", ""], &all);
    _ = write!(out, "\n{table}");
    let mut met = true;
    let mut verdict = |out: &mut String, what: &str, value: f64, bound: f64, least: bool| {
        let holds = if least {
            value >= bound
        } else {
            value <= bound
        };
        met &= holds;
        _ = writeln!(
            out,
            "{} {what}: {:.1} % ({} {:.0} %)",
            if holds { "met   " } else { "MISSED" },
            100.0 * value,
            if least { "at least" } else { "at most" },
            100.0 * bound
        );
    };
    out.push('\n');
    if let Some(score) = score(of.predictions.iter()) {
        verdict(&mut out, "median error", score.median, MEDIAN, false);
        verdict(&mut out, "90th percentile", score.p90, P90, false);
        let what = "measured within the 90 % intervals";
        verdict(&mut out, what, score.inside, INSIDE, true);
    } else {
        out += "MISSED no value can be predicted from other chips\n";
        met = false;
    }
    for (title, list, bound) in [
        ("Rates at long contexts from shorter ones", &of.long, LONG),
        (
            "Prompt and answer in one, from separate rows",
            &of.combined,
            COMBINED,
        ),
    ] {
        met &= reached(&mut out, title, list, bound);
    }
    if !of.unjudged.is_empty() {
        out += "\nRows at a depth that no shorter ones predict\n";
        for one in &of.unjudged {
            out += &hanging(one, 2);
        }
    }
    if !of.isas.is_empty() {
        out += "\nCPUs by factors of another instruction set, of which their interval comes\n";
        for (chip, values, worst) in &of.isas {
            out += &hanging(
                &format!("{chip}: {values} values, at most {worst:.2} times off"),
                2,
            );
        }
    }
    left_out(&mut out, of);
    (out, met)
}

fn line(table: &mut Table, names: [&str; 3], list: &[&Prediction]) {
    let Some(score) = score(list.iter().copied()) else {
        return;
    };
    let mean = list.iter().map(|one| one.error()).sum::<f64>() / list.len() as f64;
    let numbers = [
        score.count.to_string(),
        format!("{:.1}", 100.0 * score.median),
        format!("{:.1}", 100.0 * score.p90),
        format!("{:+.1}", 100.0 * mean),
        format!("{:.0}", 100.0 * score.inside),
    ];
    table.row(names.map(str::to_owned).into_iter().chain(numbers));
}

fn reached(out: &mut String, title: &str, list: &[Reached], bound: f64) -> bool {
    _ = writeln!(out, "\n{title}");
    let mut met = true;
    let mut judged = 0;
    for one in list {
        let note = if let Some(scatter) = &one.scatters {
            format!("not judged: {scatter}")
        } else {
            judged += 1;
            let holds = one.error.abs() <= bound;
            met &= holds;
            match &one.lacks {
                _ if holds => String::new(),
                Some(lacks) => format!("MISSED: {lacks}"),
                None => "MISSED".to_owned(),
            }
        };
        *out += &hanging(
            &format!("{:+.1}{GLUE}%  {}  {note}", 100.0 * one.error, one.what),
            2,
        );
    }
    if judged == 0 {
        _ = writeln!(out, "none is judged: neither met nor missed");
        return met;
    }
    _ = writeln!(
        out,
        "{} {judged} of {} judged, each within {:.0} %{}",
        if met { "met   " } else { "MISSED" },
        files(list),
        100.0 * bound,
        middle(list)
    );
    met
}

/// Of how many files the judged values are, and how many are of the one that has most.
fn files(list: &[Reached]) -> String {
    let mut files: BTreeMap<&str, usize> = BTreeMap::new();
    for one in list.iter().filter(|one| one.scatters.is_none()) {
        *files.entry(&one.file).or_default() += 1;
    }
    match files.values().max() {
        Some(most) if files.len() > 1 => format!("{} files ({most} of one)", files.len()),
        _ => "one file".to_owned(),
    }
}

/// Median and worst of the errors that are judged.
fn middle(list: &[Reached]) -> String {
    let judged = list.iter().filter(|one| one.scatters.is_none());
    let mut errors: Vec<f64> = judged.map(|one| 100.0 * one.error.abs()).collect();
    errors.sort_by(f64::total_cmp);
    let (Some(middle), Some(worst)) = (errors.get(errors.len() / 2), errors.last()) else {
        return String::new();
    };
    let lower = errors
        .get(errors.len().saturating_sub(1) / 2)
        .unwrap_or(middle);
    format!(
        ": median {:.1} %, worst {worst:.1} %",
        f64::midpoint(*lower, *middle)
    )
}

fn left_out(out: &mut String, of: &Holdout) {
    let total: usize = of.left_out.values().sum();
    let chips: BTreeSet<&str> = of.predictions.iter().map(|p| p.chip.as_str()).collect();
    _ = writeln!(
        out,
        "\n{} values of {} chips predicted; {total} rows of {} files were not:",
        of.predictions.len(),
        chips.len(),
        of.files
    );
    let mut list: Vec<(&String, &usize)> = of.left_out.iter().collect();
    list.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    for (reason, count) in list {
        *out += &hanging(&format!("{count}  {reason}"), 2);
    }
}
