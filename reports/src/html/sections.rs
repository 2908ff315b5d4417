//! The parts of the page that are text and tables.

use std::fmt::Write as _;

use maud::{Markup, html};
use serde_json::Value;

use super::limits;
use super::read::{Entry, Folder, number, replications, unsteady};
use crate::interval::Estimate;
use crate::metric::Better;
use crate::number::{self, ABSENT, bytes, percent, short};

/// A column of the table of numbers: title, path in the results, which way is better, whether it exists
/// only while the queue does not grow.
pub(super) type Column = (&'static str, &'static str, Better, bool);

/// Columns whose best value is marked.
pub(super) const COLUMNS: [Column; 9] = [
    ("answers/s", "throughput_rps", Better::Higher, false),
    ("TTFT, s", "ttft_s.mean", Better::Lower, true),
    ("TTFT p95, s", "ttft_s.p95", Better::Lower, true),
    ("completion, s", "completion_s.mean", Better::Lower, true),
    ("completion p95, s", "completion_s.p95", Better::Lower, true),
    ("per token, s", "tpot_s.mean", Better::Lower, false),
    ("staleness, s", "staleness_s.mean", Better::Lower, true),
    ("J/answer", "energy_per_request_j", Better::Lower, false),
    ("makespan, s", "makespan_s", Better::Lower, false),
];

/// Differences to the reference that are shown.
const DIFFERENCES: [(&str, &str); 4] = [
    ("answers/s", "throughput_rps"),
    ("TTFT, s", "ttft_s.mean"),
    ("TTFT p95, s", "ttft_s.p95"),
    ("completion, s", "completion_s.mean"),
];

pub(super) fn text<'v>(value: &'v Value, path: &str) -> &'v str {
    let found = path.split('.').try_fold(value, |value, key| value.get(key));
    found.and_then(Value::as_str).unwrap_or(ABSENT)
}

pub(super) fn texts<'v>(value: &'v Value, key: &str) -> Vec<&'v str> {
    let list = value[key].as_array().into_iter().flatten();
    list.filter_map(Value::as_str).collect()
}

/// The value of a column, where a steady one exists.
pub(super) fn steady(entry: &Entry<'_>, (_, path, _, steady_only): &Column) -> Option<Estimate> {
    entry
        .number(path)
        .filter(|_| entry.steady() || !steady_only)
}

/// What was simulated, in words.
pub(super) fn scenarios(folders: &[Folder]) -> Markup {
    html! {
        section aria-labelledby="scenario" {
            h2 #scenario { "What was simulated" }
            @for folder in folders {
                @let d = &folder.document;
                @if folders.len() > 1 { h3 { (folder.name) ": " (folder.title()) } }
                @if let Some(detail) = &folder.detail {
                    @for note in &detail.notes { p.soft { (note) } }
                }
                dl {
                    dt { "SoC" } dd { (text(d, "soc.name")) " (" (text(d, "soc.key")) ")" }
                    dt { "Model" } dd { (text(d, "model.name")) " (" (text(d, "model.key")) ")" }
                    dt { "Policy" } dd {
                        @let runs = folder.runs();
                        @if let [(policy, _)] = runs.as_slice() { (policy) }
                        @else {
                            (runs.len()) " compared on the same arrivals and lengths; the reference is "
                            (text(d, "reference"))
                        }
                    }
                    dt { "Modes" } dd { (texts(d, "modes").join(", ")) "; contention " (text(d, "contention")) }
                    dt { "Context" } dd { (texts(d, "context").join("; ")) }
                    @let conditions = texts(d, "conditions");
                    @if !conditions.is_empty() { dt { "Conditions" } dd { (conditions.join("; ")) } }
                    dt { "Runs" } dd { (repeated(d)) }
                    @for stream in d["streams"].as_array().into_iter().flatten().take(24) {
                        dt { "Stream " (text(stream, "name")) } dd { (texts(stream, "arrivals").join("; ")) }
                    }
                    @let more = d["streams"].as_array().map_or(0, Vec::len).saturating_sub(24);
                    @if more > 0 { dt { "Streams" } dd { "and " (more) " more" } }
                }
            }
        }
    }
}

fn repeated(document: &Value) -> String {
    let count = replications(document);
    let mut text = match count {
        1 => "1 replication, so no intervals".to_owned(),
        n => format!("{n} replications; ± is the 95 % interval of the mean"),
    };
    _ = write!(text, "; seed {}", document["seed"]);
    if let Some(horizon) = document["horizon_s"].as_f64() {
        _ = write!(text, "; arrivals until {} s", short(horizon));
    }
    if let Some(warm_up) = document["warm_up_s"].as_f64().filter(|&secs| secs > 0.0) {
        _ = write!(text, "; the first {} s left out", short(warm_up));
    }
    text
}

/// The tables of numbers.
pub(super) fn tables(folders: &[Folder], entries: &[Entry<'_>]) -> Markup {
    html! {
        section aria-labelledby="numbers" {
            h2 #numbers { "Numbers" }
            // Two tables, so that neither is wider than a window.
            @let (first, more) = COLUMNS.split_at(5);
            (latency_table(entries, first, "Rates and times"))
            (latency_table(entries, more, "More times, and energy"))
            @if entries.len() > 1 { p.soft { "Bold: best of its column, to the digits shown"
                @if folders.len() > 1 { ", among the configurations of its folder; what the answer says of runs of different folders is tested" } "." } }
            @for folder in folders { (difference_table(folder, folders.len() > 1)) }
            (limits::all(folders, entries))
            (work_table(entries))
        }
    }
}

fn latency_table(entries: &[Entry<'_>], columns: &[Column], name: &str) -> Markup {
    let columns: Vec<&Column> = columns
        .iter()
        .filter(|column| entries.iter().any(|entry| entry.number(column.1).is_some()))
        .collect();
    // Runs of different folders need not be comparable, and are not paired.
    let alike = |entry: &Entry<'_>| {
        let folder = entry.folder;
        entries.iter().filter(move |other| other.folder == folder)
    };
    let best = |entry: &Entry<'_>, column: &Column| {
        let means = alike(entry).filter_map(|entry| Some(steady(entry, column)?.mean));
        match column.2 {
            Better::Higher => means.max_by(f64::total_cmp),
            Better::Lower => means.min_by(f64::total_cmp),
        }
    };
    html! {
        div.wide tabindex="0" role="region" aria-label=(name) {
            table {
                caption { (name) ", means over replications" }
                thead { tr { th scope="col" { "configuration" } th scope="col" { "load" }
                    @for column in &columns { th scope="col" { (column.0) } } } }
                tbody { @for entry in entries { tr {
                    th scope="row" { (entry.label()) }
                    td { (text(entry.fields, "load.verdict")) }
                    @for column in &columns {
                        @match steady(entry, column) {
                            Some(value) => {
                                @let same = best(entry, column).is_some_and(|best| short(best) == short(value.mean));
                                td.best[same && alike(entry).count() > 1] { (number::estimate(Some(value))) }
                            }
                            None => td { (entry.unsteady().filter(|_| column.3).unwrap_or_else(|| ABSENT.into())) }
                        }
                    }
                } } }
            }
        }
    }
}

fn difference_table(folder: &Folder, named: bool) -> Markup {
    let runs = folder.runs();
    let Some(((reference, first), others)) = runs.split_first() else {
        return html! {};
    };
    if others.is_empty() {
        return html! {};
    }
    let all = replications(&folder.document);
    let cell = |fields: &Value, path: &str| {
        let difference = &fields["difference"][path];
        let Some(mean) = difference["value"].as_f64() else {
            return ABSENT.to_owned();
        };
        let half_width = difference["ci95"].as_f64();
        let own = unsteady(fields, all).filter(|_| half_width.is_none());
        let other = unsteady(first, all).filter(|_| path != "throughput_rps");
        if let Some(unsteady) = own.or(other) {
            return unsteady;
        }
        let scale = number(first, path).map_or(0.0, |own| own.mean);
        let text = number::difference(
            Some(Estimate {
                mean,
                half_width,
                n: 0,
            }),
            scale,
        );
        if difference["differs"] == true {
            format!("{text} ≠")
        } else {
            text
        }
    };
    html! {
        div.wide tabindex="0" role="region" aria-label="Differences to the reference" {
            table {
                caption {
                    @if named { (folder.name) ": " }
                    "Paired differences to " (reference) "; ≠ marks those shown after Holm's correction over their column, unmarked: it may be none"
                }
                thead { tr { th scope="col" { "policy" }
                    @for (title, _) in DIFFERENCES { th scope="col" { (title) } } } }
                tbody { @for (policy, fields) in others { tr {
                    th scope="row" { (policy) }
                    @for (_, path) in DIFFERENCES { td { (cell(fields, path)) } }
                } } }
            }
        }
    }
}

fn work_table(entries: &[Entry<'_>]) -> Markup {
    let count = |entry: &Entry<'_>, of: &str| number::count(entry.number(&format!("counts.{of}")));
    let refused = |entry: &Entry<'_>| {
        let reasons = entry.fields["counts"]["refused"].as_object();
        let counts = reasons
            .into_iter()
            .flatten()
            .filter_map(|(_, count)| count["value"].as_f64());
        number::count(Some(Estimate {
            mean: counts.sum(),
            half_width: None,
            n: entry.replications,
        }))
    };
    let engines = |entry: &Entry<'_>| {
        let list = entry.fields["busy"].as_object().into_iter().flatten();
        let list: Vec<String> = list
            .map(|(name, share)| {
                format!(
                    "{name} {}",
                    share["value"]
                        .as_f64()
                        .map_or_else(|| ABSENT.into(), percent)
                )
            })
            .collect();
        list.join(", ")
    };
    // Profiles need not say what stages move.
    let moved = entries.iter().any(|entry| {
        entry
            .number("mean_bandwidth_gbps")
            .is_some_and(|rate| rate.mean > 0.0)
    });
    html! {
        div.wide tabindex="0" role="region" aria-label="Work" {
            table {
                caption { "What was done, means of a replication" }
                thead { tr {
                    @for title in ["configuration", "arrived", "answered", "late", "refused", "reused", "imported",
                        "reconstructed", "both", "evictions"] { th scope="col" { (title) } }
                } }
                tbody { @for entry in entries { tr {
                    th scope="row" { (entry.label()) }
                    @for path in ["arrived", "completed", "late"] { td { (count(entry, path)) } }
                    td { (refused(entry)) }
                    @for path in ["reuse", "import", "reconstruct", "import_and_reconstruct", "evictions"] {
                        td { (count(entry, path)) }
                    }
                } } }
            }
        }
        div.wide tabindex="0" role="region" aria-label="Use of the SoC" {
            table {
                caption { "How the SoC was used, means of a replication" }
                thead { tr {
                    th scope="col" { "configuration" }
                    th scope="col" { "peak memory" }
                    @if moved { th scope="col" { "GB/s moved" } }
                    th.text scope="col" { "busy" }
                } }
                tbody { @for entry in entries { tr {
                    th scope="row" { (entry.label()) }
                    td { (entry.number("peak_memory_bytes").map_or_else(|| ABSENT.into(), |e| bytes(e.mean))) }
                    @if moved { td { (entry.number("mean_bandwidth_gbps").map_or_else(|| ABSENT.into(), |e| short(e.mean))) } }
                    td.text { (engines(entry)) }
                } } }
            }
        }
    }
}

/// Where the time of answers went, by configuration and by request.
pub(super) fn parts(entries: &[Entry<'_>]) -> Markup {
    let names = ["waiting", "preparing", "slowdown", "service"];
    let rows: Vec<_> = entries
        .iter()
        .filter_map(|entry| Some((entry.label(), entry.detail?.1.parts_s?)))
        .map(|(label, parts)| {
            (
                label,
                [
                    parts.waiting,
                    parts.preparing,
                    parts.slowdown,
                    parts.service,
                ],
            )
        })
        .collect();
    // A queue that grows would dwarf all others, so that its bar is cut.
    let sums = || rows.iter().map(|(_, parts)| parts.iter().sum::<f64>());
    let least = sums().fold(f64::INFINITY, f64::min);
    let most = sums()
        .filter(|sum| *sum < 20.0 * least)
        .fold(1e-9, f64::max);
    html! {
        section aria-labelledby="time" {
            h2 #time { "Where the time went" }
            p.soft {
                "First replication, requests after the warm-up. The four parts add up to the completion time: waiting (none of \
                 its stages ran), preparation alone (import, reconstruct), slowdown (what its stages took more than alone) and \
                 service alone (prefill, decode)."
            }
            ul.key { @for name in names { li { span class={ "chip " (name) } aria-hidden="true" {} (name) } } }
            div.wide tabindex="0" role="region" aria-label="Parts of the completion time" {
                table {
                    caption { "Means of an answer, s" }
                    thead { tr { th scope="col" { "configuration" }
                        @for name in names { th scope="col" { (name) } }
                        th scope="col" { "together" } th { span.skip { "bar" } } } }
                    tbody { @for (label, parts) in &rows { tr {
                        th scope="row" { (label) }
                        @for part in parts { td { (short(*part)) } }
                        td { (short(parts.iter().sum())) }
                        td { div.parts aria-hidden="true" { @for (name, part) in names.iter().zip(parts) {
                            i class=(name) style=(format!("width:{:.2}%", 100.0 * part.max(0.0) / most)) {}
                        } } }
                    } } }
                }
            }
            h3 { "Request by request" }
            div #parts {
                div.controls {
                    label { "Of " select #which {} }
                    label { "Order " select #order { option value="slowest" { "slowest first" } option value="arrived" { "by arrival" } } }
                    span #count .soft {}
                }
                div.wide tabindex="0" role="region" aria-label="Requests" {
                    table {
                        thead { tr {
                            @for title in ["request", "arrived", "TTFT", "completion", "waiting", "preparing", "slowdown",
                                "service", "version"] { th scope="col" { (title) } }
                            th { span.skip { "bar" } }
                        } }
                        tbody #requests {}
                    }
                }
                button #more type="button" { "Show more" }
            }
        }
    }
}
