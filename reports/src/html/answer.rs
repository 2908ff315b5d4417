//! What came out, in sentences.

use maud::{Markup, html};

use super::read::{Entry, Folder, mixed, number};
use super::sections::{COLUMNS, steady, text, texts};
use super::unpaired;
use crate::interval::{Estimate, GROWS};
use crate::number::{self, ABSENT, percent, short};

/// What came out, in sentences.
pub(super) fn answers(folders: &[Folder], entries: &[Entry<'_>]) -> Markup {
    html! {
        section aria-labelledby="answer" {
            h2 #answer { "The answer" }
            div.answer {
                @for sentence in sentences(folders, entries) { p { (sentence) } }
            }
            @for folder in folders {
                @if let Some(lacks) = folder.lacks() {
                    div.answer.warning { p { strong { "Not shown: " } (lacks) } }
                }
                @for warning in texts(&folder.document, "warnings") {
                    div.answer.warning { p { strong { "Warning: " } @if folders.len() > 1 { (folder.name) ": " } (warning) } }
                }
            }
        }
    }
}

/// Sentences on all configurations; only those of the same scenario are ranked.
fn sentences(folders: &[Folder], entries: &[Entry<'_>]) -> Vec<String> {
    if !mixed(entries) {
        return ranked(folders, &entries.iter().collect::<Vec<_>>());
    }
    let mut list = vec![
        "These results are of different scenarios (title, SoC, model or streams differ): a number of one says nothing \
         against a number of another, so only configurations of the same scenario are ranked."
            .to_owned(),
    ];
    for (index, folder) in folders.iter().enumerate() {
        let alike: Vec<&Entry<'_>> = entries.iter().filter(|entry| entry.like == index).collect();
        let Some(first) = alike.first() else { continue };
        let whose = if first.of_many && alike.iter().any(|entry| entry.folder != first.folder) {
            String::new()
        } else {
            format!("{}: ", first.name)
        };
        let head = format!(
            "{whose}{} on {}",
            folder.title(),
            text(&folder.document, "soc.name")
        );
        list.push(format!("{head}. {}", ranked(folders, &alike).join(" ")));
    }
    list
}

/// Sentences on configurations of one scenario.
fn ranked(folders: &[Folder], entries: &[&Entry<'_>]) -> Vec<String> {
    let (entries, mut list) = unpaired::distinct(folders, entries);
    list.extend(unpaired::settings(folders, &entries));
    if let [only] = entries.as_slice() {
        list.extend([latencies(only), load(only)]);
        return list;
    }
    let several = entries.windows(2).any(|two| two[0].folder != two[1].folder);
    let before = list.len();
    for (column, what, to_do) in [
        (COLUMNS[3], "completes answers", "complete answers"),
        (COLUMNS[1], "gives first tokens", "give first tokens"),
    ] {
        if several {
            list.extend(unpaired::leader(&entries, &column, (what, to_do)));
            continue;
        }
        let means = entries
            .iter()
            .filter_map(|entry| Some((entry, steady(entry, &column)?)));
        let Some((best, estimate)) = means.min_by(|a, b| a.1.mean.total_cmp(&b.1.mean)) else {
            continue;
        };
        let same: Vec<String> = entries
            .iter()
            .filter(|entry| entry.label() != best.label())
            .filter(|entry| {
                steady(entry, &column)
                    .is_some_and(|other| short(other.mean) == short(estimate.mean))
            })
            .map(|entry| entry.label())
            .collect();
        let with = if same.is_empty() {
            String::new()
        } else {
            format!(" (as do, to three digits, {})", same.join(", "))
        };
        list.push(format!(
            "Of {} configurations, {} {what} soonest{with}: after {} s on average{}.",
            entries.len(),
            best.label(),
            number::estimate(Some(estimate)),
            against(best, column.1),
        ));
    }
    if several && list.len() > before {
        list.push(unpaired::RULE.to_owned());
    }
    let (mut growing, mut open) = (Vec::new(), Vec::new());
    for entry in &entries {
        match entry.unsteady() {
            Some(all) if all == GROWS => growing.push(entry.label()),
            Some(some) => open.push(format!("{} ({some})", entry.label())),
            None => {}
        }
    }
    if !open.is_empty() {
        list.push(format!(
            "Whether there is a steady latency is open, and a longer run may tell, with {}: queues grow, or too much is \
             refused, in so many of the replications.",
            open.join(", ")
        ));
    }
    if !growing.is_empty() {
        list.push(format!(
            "Queues grow, or too much is refused, so that there is no steady latency, with {}.",
            growing.join(", ")
        ));
    }
    list
}

/// The paired difference to the reference, in words.
fn against(entry: &Entry<'_>, path: &str) -> String {
    let difference = &entry.fields["difference"][path];
    let (Some(mean), Some(half)) = (difference["value"].as_f64(), difference["ci95"].as_f64())
    else {
        return String::new();
    };
    let estimate = Estimate {
        mean,
        half_width: Some(half),
        n: 0,
    };
    let scale = entry.number(path).map_or(0.0, |own| own.mean);
    let sure = if difference["differs"] == true {
        "a difference after Holm's correction for all policies"
    } else {
        "no difference shown: this may be chance"
    };
    format!(
        "; against the reference {} s ({sure})",
        number::difference(Some(estimate), scale)
    )
}

fn latencies(entry: &Entry<'_>) -> String {
    if number(entry.fields, "counts.completed").is_some_and(|count| count.mean == 0.0) {
        return format!(
            "With {}, no query was answered after the warm-up: there are no latencies.",
            entry.policy
        );
    }
    let rate = number::estimate(entry.number("throughput_rps"));
    if let Some(unsteady) = entry.unsteady() {
        if unsteady != GROWS {
            return format!(
                "With {}, queues grow or too much is refused in some replications ({unsteady}): whether there is a steady \
                 latency is open, and a longer run may tell. {rate} answers per second come out.",
                entry.policy
            );
        }
        return format!(
            "With {}, queues grow or too much is refused: there is no steady latency. {rate} answers per second come out.",
            entry.policy
        );
    }
    let of = |path: &str| number::estimate(entry.number(path));
    format!(
        "With {}, the first token comes after {} s on average (95 % of them within {} s) and the answer is complete after \
         {} s (95 % within {} s), at {rate} answers per second.",
        entry.policy,
        of("ttft_s.mean"),
        of("ttft_s.p95"),
        of("completion_s.mean"),
        of("completion_s.p95"),
    )
}

fn load(entry: &Entry<'_>) -> String {
    let busiest = number(entry.fields, "load.busiest_lane")
        .map_or_else(|| ABSENT.into(), |e| percent(e.mean));
    match text(entry.fields, "load.verdict") {
        "steady" => format!(
            "The load is steady: the queue stays level, and the busiest lane is {busiest} busy."
        ),
        "near" => format!(
            "The load is near saturation: the busiest lane is {busiest} busy, and latencies react strongly to load."
        ),
        "saturated" => {
            let causes = texts(&entry.fields["load"], "overload");
            let limits: Vec<&str> = [
                ("queries_refused", "queries for `limits.max_requests`"),
                ("frames_refused", "frames for `limits.max_pending_frames`"),
            ]
            .into_iter()
            .filter(|(cause, _)| causes.contains(cause))
            .map(|(_, what)| what)
            .collect();
            let why = if limits.is_empty() {
                "The load is above what can be served or held".to_owned()
            } else {
                format!(
                    "The load is above what the scenario's limits let in, which refuse {}",
                    limits.join(" and ")
                )
            };
            format!("{why}; the busiest lane is {busiest} busy.")
        }
        _ => format!(
            "This is a finite run, without a steady state to judge; the busiest lane is {busiest} busy."
        ),
    }
}
