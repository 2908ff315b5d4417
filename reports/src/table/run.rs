//! One configuration: what was simulated, what came out, and how far to trust it.

use std::fmt::Write as _;

use screen::{
    GLUE, Head, LABEL, Table, WIDTH, labelled as line, pad, paragraph, visible, width, wrap,
};
use sim::dispatch::Reason;
use sim::metrics::{Latency, LoadVerdict, Summary};

use super::layout;
use crate::facts::Facts;
use crate::interval::Replicated;
use crate::json::outside;
use crate::metric::refused;
use crate::number::{self, ABSENT, bar, bytes, count, percent, short};
use crate::warning::{self, frames_refused_for, queries_refused_for};
use sim::metrics::Growth;

/// Busy share from which a lane has nothing left.
const FULL: f64 = 0.99;
/// Busy share up to which a lane has room: what keeps the run from being steady is its queue.
const ROOM: f64 = 0.85;
/// Width of an engine's bar.
const BAR: usize = 20;

type GetLatency = fn(&Summary) -> &Latency;

/// The text of one configuration.
pub fn run(facts: &Facts, runs: &Replicated) -> String {
    let mut out = String::new();
    layout::facts(&mut out, facts, &facts.policy, runs.count());
    out.push('\n');
    load(&mut out, facts, runs);
    out.push('\n');
    latencies(&mut out, runs);
    out.push('\n');
    totals(&mut out, runs);
    out.push('\n');
    engines(&mut out, runs);
    let mut warnings = warning::of(facts, runs);
    // The assumed numbers have a line of their own.
    warnings.retain(|warning| !warning.contains("crossinfer check"));
    warnings.extend(from_runs(runs));
    layout::warnings(&mut out, &warnings);
    out
}

/// Mean of a number, as text.
fn mean(runs: &Replicated, get: impl Fn(&Summary) -> Option<f64>) -> Option<f64> {
    runs.estimate(get).map(|estimate| estimate.mean)
}

/// Whether a steady latency exists, and how far away the edge is.
fn load(out: &mut String, facts: &Facts, runs: &Replicated) {
    let busiest = mean(runs, |s| Some(s.busiest_lane)).unwrap_or(0.0);
    let text = match runs.verdict() {
        LoadVerdict::Finite => format!(
            "finite run: too few queries, or users who wait for answers, for a trend; busiest lane {} busy",
            percent(busiest)
        ),
        LoadVerdict::Steady => format!(
            "steady: the queue stays level; busiest lane {} busy",
            percent(busiest)
        ),
        LoadVerdict::Near if busiest > FULL => format!(
            "at the edge: busiest lane {} busy; this run is too short to tell whether its queue grows, and latencies may be of this run only",
            percent(busiest)
        ),
        LoadVerdict::Near if busiest <= ROOM => format!(
            "unsettled: the queue rose while queries arrived, though the busiest lane is {} busy; a longer run tells whether it goes on",
            percent(busiest)
        ),
        LoadVerdict::Near => format!(
            "near saturation: busiest lane {} busy, {} left; latencies react strongly to load",
            percent(busiest),
            percent(1.0 - busiest)
        ),
        LoadVerdict::Saturated => {
            let causes = runs.overload();
            let mut text = format!(
                "SATURATED: {}; busiest lane {} busy",
                overload(&causes),
                percent(busiest)
            );
            text += &frames_beyond(facts, runs, &causes);
            text += &queries_beyond(facts, runs, &causes);
            text
        }
    };
    line(out, "Load", &text);
    let (count, saturated) = (runs.count(), runs.verdicts(LoadVerdict::Saturated));
    if saturated > 0 && saturated < count {
        line(
            out,
            "",
            &format!("the queue grew in {saturated} of {count} replications"),
        );
    }
}

/// How far away what queries ask is from what is answered while they come, where that is too little.
fn queries_beyond(facts: &Facts, runs: &Replicated, causes: &[&str]) -> String {
    let refused = causes.contains(&"queries_refused");
    // Refusals for memory say nothing of what the lanes can serve.
    if !refused && !causes.contains(&"queries_wait") {
        return String::new();
    }
    let rates = (
        mean(runs, |s| s.queries_rps),
        mean(runs, |s| s.answered_rps),
    );
    let (Some(came), Some(served)) = rates else {
        return String::new();
    };
    let whose = if facts.offered_rps.is_none() {
        " (of streams that do not wait for answers)"
    } else {
        ""
    };
    let mut text = format!(
        "; {} queries /s came, {} /s were answered meanwhile{whose}",
        short(came),
        short(served)
    );
    if refused {
        // What a full queue turns away, lanes with time left might have served.
        _ = write!(
            text,
            ", {} of {} were refused at `limits.max_requests` = {}",
            count(runs.estimate(|s| Some(queries_refused_for(s, Reason::QueueFull) as f64))),
            count(runs.estimate(|s| Some(s.arrived as f64))),
            facts.max_requests
        );
    } else if served > 0.0 {
        _ = write!(text, ": {} times what it can serve", short(came / served));
    }
    text
}

/// How far away what frames ask is from what is ingested while they come, where that is too little.
fn frames_beyond(facts: &Facts, runs: &Replicated, causes: &[&str]) -> String {
    let refused = causes.contains(&"frames_refused");
    if !refused && !causes.contains(&"frames_wait") {
        return String::new();
    }
    let rates = (
        mean(runs, |s| s.frames_rps),
        mean(runs, |s| s.published_rps),
    );
    let (Some(came), Some(published)) = rates else {
        return String::new();
    };
    let mut text = format!(
        "; {} frames /s came, {} /s were published meanwhile",
        short(came),
        short(published)
    );
    if refused {
        // What a full queue turns away, lanes with time left might have ingested.
        _ = write!(
            text,
            ", {} of {} were refused at `limits.max_pending_frames` = {}",
            count(runs.estimate(|s| Some(frames_refused_for(s, Reason::FramesPending) as f64))),
            count(runs.estimate(|s| Some(s.frames as f64))),
            facts.max_pending_frames
        );
    } else if published > 0.0 {
        _ = write!(
            text,
            ": {} times what it can ingest beside these queries",
            short(came / published)
        );
    }
    text
}

/// What is overloaded, in words.
fn overload(causes: &[&str]) -> String {
    let words: Vec<&str> = [
        ("queries_wait", "the queue grows as long as queries arrive"),
        (
            "queries_refused",
            "queries are refused because the queue is full",
        ),
        ("frames_wait", "frames arrive faster than they are ingested"),
        ("frames_refused", "frames are refused because too many wait"),
        (
            "context_full",
            "frames are refused because the context is full, and before that is another load than after",
        ),
        (
            "memory_full",
            "frames are refused because no engine can hold their context, and before that is another load than after",
        ),
        (
            "queries_never_fit",
            "queries are refused because no engine can hold their context and answer",
        ),
        (
            "queries_unserved",
            "queries are refused because no lane could serve them",
        ),
    ]
    .into_iter()
    .filter(|(name, _)| causes.contains(name))
    .map(|(_, words)| words)
    .collect();
    words.join(", ")
}

fn latencies(out: &mut String, runs: &Replicated) {
    let waits = |cause: &&str| cause.ends_with("_wait");
    let none = match runs.growth() {
        Growth::Open => runs.unsteady().map(|text| format!("– ({text})")),
        _ if runs.overload().iter().any(waits) => Some("– (queue grows)".to_owned()),
        _ => Some("– (not steady)".to_owned()),
    };
    let none = none.filter(|_| !runs.steady());
    let rows: [(&str, bool, GetLatency); 6] = [
        ("TTFT", true, |s| &s.ttft_s),
        ("completion", true, |s| &s.completion_s),
        ("queueing", true, |s| &s.queueing_s),
        ("per token", false, |s| &s.tpot_s),
        ("staleness", true, |s| &s.staleness_s),
        ("publication", true, |s| &s.publication_s),
    ];
    let numbers = ["mean", "p50", "p95", "p99", "max"].map(Head::number);
    let mut table = Table::new(std::iter::once(Head::text("seconds")).chain(numbers));
    for (name, steady_only, get) in rows {
        if let Some(none) = none.as_deref().filter(|_| steady_only) {
            table.row([name, none, ABSENT, ABSENT, ABSENT, ABSENT]);
            continue;
        }
        let cell =
            |part: fn(&Latency) -> Option<f64>| number::estimate(runs.estimate(|s| part(get(s))));
        table.row([
            name.to_owned(),
            cell(|l| l.mean),
            cell(|l| l.p50),
            cell(|l| l.p95),
            cell(|l| l.p99),
            cell(|l| l.max),
        ]);
    }
    _ = write!(out, "{table}");
}

fn totals(out: &mut String, runs: &Replicated) {
    let estimate = |get: fn(&Summary) -> Option<f64>| runs.estimate(get);
    let text = |get: fn(&Summary) -> Option<f64>| number::estimate(estimate(get));
    line(
        out,
        "throughput",
        &format!(
            "{} answers/s, {} tokens/s",
            text(|s| s.throughput_rps),
            text(|s| s.tokens_per_s)
        ),
    );
    line(out, "answers", &answers(runs));
    line(out, "contexts", &contexts(runs));
    if runs.steady()
        && let Some(behind) = estimate(|s| s.frames_behind)
    {
        line(
            out,
            "lag",
            &format!("{} frames behind", number::estimate(Some(behind))),
        );
    }
    line(
        out,
        "makespan",
        &format!("{} s", text(|s| Some(s.makespan_s))),
    );
    let mut memory = format!(
        "peak {}, of it {} KV",
        mean(runs, |s| Some(s.peak_memory_bytes as f64)).map_or_else(|| ABSENT.into(), bytes),
        mean(runs, |s| Some(s.peak_kv_bytes as f64)).map_or_else(|| ABSENT.into(), bytes),
    );
    // Profiles need not say what stages move.
    if runs.summaries.iter().any(|s| s.mean_bandwidth_gbps > 0.0) {
        let moved = text(|s| Some(s.mean_bandwidth_gbps));
        _ = write!(memory, "; {moved} GB/s moved on average");
    }
    line(out, "memory", &memory);
    let energy = match estimate(|s| s.energy_j) {
        None => "not reported: the profile has no power".to_owned(),
        Some(_) => format!(
            "{} J, {} J/answer, {} W on average",
            text(|s| s.energy_j),
            text(|s| s.energy_per_request_j),
            text(|s| s.mean_power_w)
        ),
    };
    line(out, "energy", &energy);
    if estimate(|s| s.peak_temperature_c).is_some() {
        let heat = format!(
            "at most {} °C; throttled for {} % of the run",
            text(|s| s.peak_temperature_c),
            text(|s| s.throttled.map(|share| 100.0 * share))
        );
        line(out, "heat", &heat);
    }
}

fn answers(runs: &Replicated) -> String {
    let text = |get: fn(&Summary) -> u64| count(runs.estimate(|s| Some(get(s) as f64)));
    let any = |get: fn(&Summary) -> u64| runs.summaries.iter().any(|s| get(s) > 0);
    let mut parts = vec![format!(
        "{} of {} queries answered",
        text(|s| s.completed),
        text(|s| s.arrived)
    )];
    if any(|s| s.late) {
        parts.push(format!("{} late", text(|s| s.late)));
    }
    if any(refused) {
        let mut reasons: Vec<&str> = Vec::new();
        for (reason, _) in runs.summaries.iter().flat_map(|s| &s.refused) {
            if !reasons.contains(reason) {
                reasons.push(reason);
            }
        }
        let why: Vec<String> = reasons
            .iter()
            .map(|reason| {
                let of = |s: &Summary| {
                    let found = s.refused.iter().find(|(name, _)| name == reason);
                    Some(found.map_or(0, |(_, count)| *count) as f64)
                };
                format!("{reason} {}", count(runs.estimate(of)))
            })
            .collect();
        parts.push(format!("{} refused ({})", text(refused), why.join(", ")));
    }
    parts.push(format!("{} frames", text(|s| s.frames)));
    if any(|s| s.frames_refused) {
        let why: Vec<String> = Reason::ALL
            .into_iter()
            .filter_map(|reason| {
                let of = |s: &Summary| frames_refused_for(s, reason);
                let mean = runs.estimate(|s| Some(of(s) as f64));
                let any = runs.summaries.iter().any(|s| of(s) > 0);
                any.then(|| format!("{} {}", reason.name(), count(mean)))
            })
            .collect();
        let total = text(|s| s.frames_refused);
        parts.push(format!("{total} frames dropped ({})", why.join(", ")));
    }
    format!("{}{}", parts.join(", "), per_run(runs))
}

fn contexts(runs: &Replicated) -> String {
    let text = |get: fn(&Summary) -> u64| count(runs.estimate(|s| Some(get(s) as f64)));
    format!(
        "{} reused, {} imported, {} reconstructed, {} both; {} evictions{}",
        text(|s| s.preparations.reuse),
        text(|s| s.preparations.import),
        text(|s| s.preparations.reconstruct),
        text(|s| s.preparations.import_and_reconstruct),
        text(|s| s.evictions),
        per_run(runs)
    )
}

fn per_run(runs: &Replicated) -> &'static str {
    if runs.count() > 1 {
        " (means of a replication)"
    } else {
        ""
    }
}

/// Busy share of each engine as a bar, with where its time went.
fn engines(out: &mut String, runs: &Replicated) {
    let Some(first) = runs.summaries.first() else {
        return;
    };
    out.push_str("engine      busy\n");
    for (index, engine) in first.engines.iter().enumerate() {
        let share = mean(runs, |s| s.engines.get(index).map(|engine| engine.busy));
        let share = share.unwrap_or(0.0);
        let stages: Vec<String> = engine
            .stages_s
            .iter()
            .map(|(stage, _)| {
                let secs = mean(runs, |s| {
                    let row = &s.engines.get(index)?.stages_s;
                    Some(row.iter().find(|(name, _)| name == stage)?.1)
                });
                format!("{stage}{GLUE}{}{GLUE}s", short(secs.unwrap_or(0.0)))
            })
            .collect();
        let mut name = visible(&engine.name).into_owned();
        if width(&name) >= LABEL {
            paragraph(out, &name);
            name.clear();
        }
        let mut lead = format!(
            "{}{} {:>5}  ",
            pad(&name, LABEL),
            bar(share, BAR),
            percent(share)
        );
        let indent = width(&lead);
        for part in wrap(&stages.join(", "), WIDTH - indent) {
            out.push_str(lead.trim_end_matches(|c| part.is_empty() && c == ' '));
            out.push_str(&part);
            out.push('\n');
            lead = " ".repeat(indent);
        }
    }
}

/// What the runs themselves warn of.
fn from_runs(runs: &Replicated) -> Vec<String> {
    let mut list = Vec::new();
    let far = outside(runs);
    if !far.is_empty() {
        let stages: Vec<String> = far
            .iter()
            .map(|(engine, stage, times)| format!("{stage}@{engine} ({times})"))
            .collect();
        list.push(format!(
            "stages ran outside the range in which they were measured, so their times are extrapolated, or a measured grid's edge holds: {}",
            stages.join(", ")
        ));
    }
    list
}
