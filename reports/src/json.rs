//! `summary.json`: a run's numbers, stable and versioned. `docs/results.md` says what each field means.
//!
//! What a run does not have is `null`, never 0. Each number over replications is
//! `{"value": mean, "ci95": half-width, "n": replications that have it}`, with `ci95` null for one
//! replication. Where the queue grows, in all replications or in more than a few, latencies are of that
//! finite run: they have no `ci95` either, and `steady` is false.

use serde_json::{Map, Value, json};
use sim::dispatch::Reason;
use sim::metrics::{Latency, LoadVerdict, Summary};

use crate::facts::Facts;
use crate::interval::{Estimate, Replicated};
use crate::metric::COMPARED;
use crate::significance;
use crate::warning::{self, frames_refused_for};

/// Version of the fields; it rises when one is renamed, removed or changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// Reads a latency of a summary.
type GetLatency = fn(&Summary) -> &Latency;

/// `summary.json` of one configuration.
pub fn summary(facts: &Facts, runs: &Replicated) -> Value {
    let mut object = head("summary", facts, runs.count(), warning::of(facts, runs));
    object.insert("policy".into(), facts.policy.clone().into());
    object.append(&mut measured(runs));
    Value::Object(object)
}

/// `compare.json`: several policies on the same arrivals and lengths. The first is the reference.
pub fn comparison(facts: &Facts, policies: &[(String, Replicated)]) -> Value {
    let count = policies.first().map_or(0, |(_, runs)| runs.count());
    let warnings = warning::of_all(facts, policies);
    let mut object = head("comparison", facts, count, warnings);
    let reference = policies.first();
    let mut differences = differences(policies).into_iter();
    object.insert(
        "reference".into(),
        reference.map_or(Value::Null, |(name, _)| name.clone().into()),
    );
    let list = policies.iter().enumerate().map(|(index, (name, runs))| {
        let mut entry = Map::new();
        entry.insert("policy".into(), name.clone().into());
        entry.append(&mut measured(runs));
        let difference = match reference {
            Some(_) if index > 0 => differences.next().unwrap_or(Value::Null),
            _ => Value::Null,
        };
        entry.insert("difference".into(), difference);
        Value::Object(entry)
    });
    object.insert("policies".into(), list.collect());
    Value::Object(object)
}

/// By policy but the first, its differences to the first.
fn differences(policies: &[(String, Replicated)]) -> Vec<Value> {
    let mut objects = vec![Map::new(); policies.len().saturating_sub(1)];
    for metric in COMPARED {
        let list = significance::differences(&metric, policies);
        for (object, difference) in objects.iter_mut().zip(list) {
            let value = difference.map_or(Value::Null, |difference| {
                let estimate = difference.estimate;
                let comparable = difference.p_holm.is_some();
                json!({
                    "value": estimate.mean,
                    "ci95": estimate.half_width.filter(|_| comparable),
                    "excludes_zero": estimate.excludes_zero().filter(|_| comparable),
                    "p_holm": difference.p_holm,
                    "differs": difference.shown(),
                })
            });
            object.insert(metric.key.into(), value);
        }
    }
    objects.into_iter().map(Value::Object).collect()
}

/// What was simulated.
fn head(
    kind: &str,
    facts: &Facts,
    replications: usize,
    warnings: Vec<String>,
) -> Map<String, Value> {
    let streams: Vec<Value> = facts
        .streams
        .iter()
        .map(|(name, arrivals)| json!({ "name": name, "arrivals": arrivals }))
        .collect();
    let assumed: Vec<Value> = facts
        .assumed
        .iter()
        .map(|number| {
            json!({
                "file": number.file,
                "path": number.path,
                "value": number.value,
                "interval": number.interval,
                "origin": number.origin,
                "source": number.source,
                "note": number.note,
            })
        })
        .collect();
    object([
        ("kind", kind.into()),
        ("schema_version", SCHEMA_VERSION.into()),
        (
            "tool",
            json!({ "name": "crossinfer", "version": env!("CARGO_PKG_VERSION") }),
        ),
        (
            "scenario",
            json!({ "title": facts.title, "file": facts.file }),
        ),
        ("soc", json!({ "key": facts.soc.0, "name": facts.soc.1 })),
        (
            "model",
            json!({ "key": facts.model.0, "name": facts.model.1 }),
        ),
        ("contention", facts.contention.clone().into()),
        ("modes", facts.modes.clone().into()),
        ("context", facts.context.clone().into()),
        ("conditions", facts.conditions.clone().into()),
        ("seed", facts.seed.into()),
        ("replications", replications.into()),
        ("horizon_s", facts.horizon_s.into()),
        ("warm_up_s", facts.warm_up_s.into()),
        ("streams", streams.into()),
        ("offered_rps", facts.offered_rps.into()),
        (
            "assumptions",
            json!({
                "count": facts.assumed.len(),
                "of": facts.numbers,
                "list": assumed,
            }),
        ),
        ("warnings", warnings.into()),
    ])
}

/// What was measured.
fn measured(runs: &Replicated) -> Map<String, Value> {
    let number = |get: fn(&Summary) -> Option<f64>| value(runs.estimate(get));
    let latencies: [(&str, GetLatency); 6] = [
        ("ttft_s", |s| &s.ttft_s),
        ("completion_s", |s| &s.completion_s),
        ("tpot_s", |s| &s.tpot_s),
        ("staleness_s", |s| &s.staleness_s),
        ("queueing_s", |s| &s.queueing_s),
        ("publication_s", |s| &s.publication_s),
    ];
    let steady = runs.steady();
    let mut object = object([
        ("load", load(runs)),
        ("steady", steady.into()),
        ("throughput_rps", number(|s| s.throughput_rps)),
        ("tokens_per_s", number(|s| s.tokens_per_s)),
    ]);
    for (name, get) in latencies {
        // The time per token does not depend on who waits.
        object.insert(name.into(), latency(runs, get, steady || name == "tpot_s"));
    }
    let behind = runs.estimate(|s| s.frames_behind);
    object.insert("frames_behind".into(), value(of_steady(behind, steady)));
    object.insert("makespan_s".into(), number(|s| Some(s.makespan_s)));
    object.insert("window_s".into(), number(|s| Some(s.window_s)));
    object.insert("run_s".into(), number(|s| Some(s.run_s)));
    object.insert("busy".into(), busy(runs));
    object.insert("stages_s".into(), stages(runs));
    object.insert(
        "mean_bandwidth_gbps".into(),
        number(|s| Some(s.mean_bandwidth_gbps)),
    );
    object.insert("energy_j".into(), number(|s| s.energy_j));
    object.insert(
        "energy_per_request_j".into(),
        number(|s| s.energy_per_request_j),
    );
    object.insert("mean_power_w".into(), number(|s| s.mean_power_w));
    object.insert(
        "peak_temperature_c".into(),
        number(|s| s.peak_temperature_c),
    );
    object.insert("throttled".into(), number(|s| s.throttled));
    object.insert(
        "peak_memory_bytes".into(),
        number(|s| Some(s.peak_memory_bytes as f64)),
    );
    object.insert(
        "peak_kv_bytes".into(),
        number(|s| Some(s.peak_kv_bytes as f64)),
    );
    object.insert("counts".into(), counts(runs));
    object.insert("unmeasured".into(), unmeasured(runs));
    object
}

/// An estimate without its interval where there is nothing steady that it could hold.
fn of_steady(estimate: Option<Estimate>, steady: bool) -> Option<Estimate> {
    estimate.map(|estimate| Estimate {
        half_width: estimate.half_width.filter(|_| steady),
        ..estimate
    })
}

fn load(runs: &Replicated) -> Value {
    json!({
        "verdict": verdict_name(runs.verdict()),
        "saturated_replications": runs.verdicts(LoadVerdict::Saturated),
        "busiest_lane": value(runs.estimate(|s| Some(s.busiest_lane))),
        "saturation_index": value(runs.estimate(|s| s.saturation_index)),
        "frames_index": value(runs.estimate(|s| s.frames_index)),
        "overload": runs.overload(),
        "open_rps": value(runs.estimate(|s| s.open_rps)),
        "queries_rps": value(runs.estimate(|s| s.queries_rps)),
        "answered_rps": value(runs.estimate(|s| s.answered_rps)),
        "frames_rps": value(runs.estimate(|s| s.frames_rps)),
        "published_rps": value(runs.estimate(|s| s.published_rps)),
    })
}

/// The verdict, as in results.
pub fn verdict_name(verdict: LoadVerdict) -> &'static str {
    match verdict {
        LoadVerdict::Steady => "steady",
        LoadVerdict::Near => "near",
        LoadVerdict::Saturated => "saturated",
        LoadVerdict::Finite => "finite",
    }
}

fn latency(runs: &Replicated, get: GetLatency, steady: bool) -> Value {
    let part =
        |of: fn(&Latency) -> Option<f64>| value(of_steady(runs.estimate(|s| of(get(s))), steady));
    json!({
        "mean": part(|l| l.mean),
        "p50": part(|l| l.p50),
        "p95": part(|l| l.p95),
        "p99": part(|l| l.p99),
        "max": part(|l| l.max),
        "count": value(runs.estimate(|s| Some(get(s).count as f64))),
    })
}

/// Busy share by engine.
fn busy(runs: &Replicated) -> Value {
    let mut object = Map::new();
    for (index, engine) in engines(runs).enumerate() {
        let share = runs.estimate(|s| s.engines.get(index).map(|engine| engine.busy));
        object.insert(engine.into(), value(share));
    }
    Value::Object(object)
}

/// Busy seconds by engine and stage.
fn stages(runs: &Replicated) -> Value {
    let mut object = Map::new();
    for (index, engine) in engines(runs).enumerate() {
        let mut names: Vec<&str> = Vec::new();
        let rows = runs.summaries.iter().filter_map(|s| s.engines.get(index));
        for (name, _) in rows.flat_map(|engine| &engine.stages_s) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        let mut row = Map::new();
        for name in names {
            // A stage that a replication did not run took it no time.
            let secs = runs.estimate(|s| {
                let stages = &s.engines.get(index)?.stages_s;
                let found = stages.iter().find(|(stage, _)| stage == name);
                Some(found.map_or(0.0, |(_, secs)| *secs))
            });
            row.insert(name.into(), value(secs));
        }
        object.insert(engine.into(), Value::Object(row));
    }
    Value::Object(object)
}

fn engines(runs: &Replicated) -> impl Iterator<Item = &str> {
    let first = runs.summaries.first();
    first
        .into_iter()
        .flat_map(|summary| summary.engines.iter().map(|engine| engine.name.as_str()))
}

fn counts(runs: &Replicated) -> Value {
    let number = |get: fn(&Summary) -> u64| value(runs.estimate(|s| Some(get(s) as f64)));
    let mut refused = Map::new();
    for reason in Reason::ALL {
        let count = runs.estimate(|s| Some(refused_for(s, reason) as f64));
        refused.insert(reason.name().into(), value(count));
    }
    let mut frames_refused = Map::new();
    for reason in Reason::ALL {
        let count = runs.estimate(|s| Some(frames_refused_for(s, reason) as f64));
        frames_refused.insert(reason.name().into(), value(count));
    }
    json!({
        "arrived": number(|s| s.arrived),
        "completed": number(|s| s.completed),
        "answers_in_window": number(|s| s.answers_in_window),
        "late": number(|s| s.late),
        "refused": refused,
        "frames": number(|s| s.frames),
        "frames_refused": number(|s| s.frames_refused),
        "frames_refused_by": frames_refused,
        "reuse": number(|s| s.preparations.reuse),
        "import": number(|s| s.preparations.import),
        "reconstruct": number(|s| s.preparations.reconstruct),
        "import_and_reconstruct": number(|s| s.preparations.import_and_reconstruct),
        "evictions": number(|s| s.evictions),
        "events": number(|s| s.events),
    })
}

/// Stages played outside their measured range, in any replication, with the times it happened in all.
fn unmeasured(runs: &Replicated) -> Value {
    let list = outside(runs)
        .into_iter()
        .map(|(engine, stage, times)| json!({ "engine": engine, "stage": stage, "times": times }));
    list.collect()
}

/// Stages played outside their measured range: engine, stage, times in all replications.
pub fn outside(runs: &Replicated) -> Vec<(String, String, u64)> {
    let mut list: Vec<(String, String, u64)> = Vec::new();
    for (engine, stage, times) in runs.summaries.iter().flat_map(|s| &s.unmeasured) {
        match list.iter_mut().find(|(e, s, _)| e == engine && s == stage) {
            Some((_, _, total)) => *total += times,
            None => list.push((engine.clone(), stage.clone(), *times)),
        }
    }
    list
}

/// Requests that were refused for a reason.
fn refused_for(summary: &Summary, reason: Reason) -> u64 {
    let mut all = summary.refused.iter();
    all.find(|(name, _)| *name == reason.name())
        .map_or(0, |(_, count)| *count)
}

/// A number over the replications that have it.
fn value(estimate: Option<Estimate>) -> Value {
    match estimate {
        None => Value::Null,
        Some(Estimate {
            mean,
            half_width,
            n,
        }) => json!({ "value": mean, "ci95": half_width, "n": n }),
    }
}

fn object<const N: usize>(entries: [(&str, Value); N]) -> Map<String, Value> {
    let entries = entries.into_iter();
    entries
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

#[cfg(test)]
mod tests;
