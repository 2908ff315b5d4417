//! Tables of what `compare` was asked for beside its numbers: how latencies spread, how far from what no schedule
//! beats, and how policies fare where their beliefs are wrong.

use maud::{Markup, html};
use serde_json::Value;

use super::read::{Entry, Folder, unsteady};
use super::sections::text;
use crate::interval::Estimate;
use crate::number::{self, ABSENT, short};

/// Quantiles of a latency.
const QUANTILES: [(&str, &str); 4] = [
    ("half within", "p50"),
    ("95 % within", "p95"),
    ("99 % within", "p99"),
    ("the longest", "max"),
];
/// Latencies whose quantiles are shown: title, path.
const LATENCIES: [(&str, &str); 2] = [("TTFT, s", "ttft_s"), ("Completion, s", "completion_s")];
/// Numbers with bounds: title, path.
const BOUNDED: [(&str, &str); 3] = [
    ("answers/s, at most", "throughput_rps"),
    ("TTFT, s, at least", "ttft_s"),
    ("completion, s, at least", "completion_s"),
];

/// Everything of these that the results hold.
pub(super) fn all(folders: &[Folder], entries: &[Entry<'_>]) -> Markup {
    html! {
        @for (title, path) in LATENCIES { (quantiles(entries, title, path)) }
        (bounds(folders, entries))
        @for (index, folder) in folders.iter().enumerate() { (robustness(index, folder, entries)) }
    }
}

fn quantiles(entries: &[Entry<'_>], title: &str, path: &str) -> Markup {
    let cell = |entry: &Entry<'_>, of: &str| {
        if let Some(unsteady) = entry.unsteady() {
            return unsteady;
        }
        number::estimate(entry.number(&format!("{path}.{of}")))
    };
    let any = |entry: &Entry<'_>| entry.number(&format!("{path}.p50")).is_some();
    html! {
        @if entries.iter().any(any) {
            div.wide tabindex="0" role="region" aria-label=(format!("Quantiles of {title}")) {
                table {
                    caption { "Quantiles: " (title) ", means over replications" }
                    thead { tr { th scope="col" { "configuration" }
                        @for (name, _) in QUANTILES { th scope="col" { (name) } } } }
                    tbody { @for entry in entries { tr {
                        th scope="row" { (entry.label()) }
                        @for (_, of) in QUANTILES { td { (cell(entry, of)) } }
                    } } }
                }
            }
        }
    }
}

/// The element of a list of policies that is of this one.
fn of_policy<'v>(list: &'v Value, policy: &str) -> Option<&'v Value> {
    let mut list = list.as_array()?.iter();
    list.find(|one| one["policy"] == policy)
}

fn bounds(folders: &[Folder], entries: &[Entry<'_>]) -> Markup {
    let rows: Vec<(String, &Value)> = entries
        .iter()
        .filter_map(|entry| {
            let list = &folders[entry.folder].document["bounds"]["policies"];
            Some((entry.label(), of_policy(list, entry.policy)?))
        })
        .collect();
    let cell = |row: &Value, path: &str| match (
        row[path]["value"].as_f64(),
        row[path]["bound"].as_f64(),
    ) {
        (Some(value), Some(bound)) => format!("{} of {}", short(value), short(bound)),
        _ => ABSENT.to_owned(),
    };
    let several = folders.len() > 1;
    html! {
        @if !rows.is_empty() {
            div.wide tabindex="0" role="region" aria-label="Bounds" {
                table {
                    caption { "Beside bounds that no schedule of the same requests beats; they leave out transfers, memory \
                        and modes, so not every gap can be closed" }
                    thead { tr { th scope="col" { "configuration" }
                        @for (title, _) in BOUNDED { th scope="col" { (title) } } } }
                    tbody { @for (label, row) in &rows { tr {
                        th scope="row" { (label) }
                        @for (_, path) in BOUNDED { td { (cell(row, path)) } }
                    } } }
                }
            }
            @for folder in folders {
                @for sentence in best_schedules(folder) {
                    p { @if several { (folder.name) ": " } (sentence) }
                }
            }
        }
    }
}

/// The best schedules of a small case, in sentences.
fn best_schedules(folder: &Folder) -> Vec<String> {
    let list = &folder.document["bounds"]["best_schedules_of_first_replication"];
    let list = list.as_array().into_iter().flatten();
    list.filter_map(|best| {
        let (sum, requests) = (best["sum_s"].as_f64()?, best["requests"].as_u64()?);
        let less = if best["exact"] == true {
            ""
        } else {
            ", or less: not every schedule was tried"
        };
        Some(format!(
            "The best schedule of the first replication, of {requests} requests, has a {} of {} s in all{less}.",
            text(best, "objective"),
            short(sum)
        ))
    })
    .collect()
}

/// How policies fare where what they believe is wrong.
fn robustness(index: usize, folder: &Folder, entries: &[Entry<'_>]) -> Markup {
    let rows: Vec<(&Entry<'_>, &Vec<Value>)> = entries
        .iter()
        .filter(|entry| entry.folder == index)
        .filter_map(|entry| {
            let row = of_policy(&folder.document["robustness"], entry.policy)?;
            Some((entry, row["disturbed"].as_array()?))
        })
        .collect();
    let Some((_, first)) = rows.first() else {
        return html! {};
    };
    let cell = |entry: &Entry<'_>, one: &Value| {
        if let Some(unsteady) = unsteady(one, entry.replications).or_else(|| entry.unsteady()) {
            return unsteady;
        }
        let Some(mean) = one["difference"].as_f64() else {
            return ABSENT.to_owned();
        };
        let scale = entry
            .number("completion_s.mean")
            .map_or(0.0, |own| own.mean);
        let half_width = one["ci95"].as_f64();
        let difference = Estimate {
            mean,
            half_width,
            n: 0,
        };
        let text = number::difference(Some(difference), scale);
        if half_width.is_some_and(|half| mean.abs() > half) {
            format!("{text} *")
        } else {
            text
        }
    };
    // So many that they would be wider than a page: a row each.
    html! {
        div.wide tabindex="0" role="region" aria-label="Robustness" {
            table {
                caption { @if rows[0].0.of_many { (folder.name) ": " }
                    "Where beliefs are wrong: change of the mean completion, s, to the policy's own; * its 95 % interval excludes 0" }
                thead { tr { th scope="col" { "wrong" }
                    @for (entry, _) in &rows { th scope="col" { (entry.policy) } } } }
                tbody { @for (row_index, one) in first.iter().enumerate() { tr {
                    th scope="row" { (text(one, "by")) }
                    @for (entry, row) in &rows {
                        td { (row.get(row_index).map_or_else(|| ABSENT.to_owned(), |one| cell(entry, one))) }
                    }
                } } }
            }
        }
    }
}
