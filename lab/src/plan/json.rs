//! Plans and needs for programs (docs/plan.md).

use serde_json::{Value, json};

use super::need::Needs;
use super::probe::Probe;
use super::target::Target;
use super::text::remarks;
use super::{Doubt, Plan, Rise};

/// Plans for programs (docs/plan.md).
pub fn json(plans: &[Plan], refused: &[(String, String)]) -> Value {
    let list: Vec<Value> = plans
        .iter()
        .map(|plan| {
            json!({
                "title": plan.title,
                "axis": plan.axis.name(),
                "unit": plan.axis.unit(),
                "conditions": plan.conditions,
                "stage_times": open_json(&plan.doubt, plan.doubtful.as_ref().map(|ends| {
                    let one = |of: (Option<f64>, Option<f64>)| {
                        // One look at each load, and no fresh draws.
                        json!({ "meets": of.0, "misses": of.1, "confirmed": false })
                    };
                    (one(ends.slow), one(ends.fast))
                })),
                "meets": plan.edge.meets,
                "misses": plan.edge.misses,
                "monotone": plan.edge.monotone,
                "range": { "from": plan.edge.range.low, "to": plan.edge.range.high, "ends": plan.reach },
                "remarks": remarks(plan),
                "rises_with_length": plan.rises.iter().map(|rise| rise_json(rise, "load")).collect::<Vec<_>>(),
                "scenarios": { "meets": plan.scenarios.0, "misses": plan.scenarios.1 },
                "probes": plan.edge.probes.iter().map(|p| probe_json(&plan.targets, p, "load")).collect::<Vec<_>>(),
                "limits": plan.limits.as_ref().map(|limits| json!({
                    "load": limits.load,
                    "target": limits.target,
                    "reason": limits.reason,
                    "because": limits.because,
                    "sensitivity_load": limits.buys_at,
                    "sensitivity_untold": limits.untold,
                    "sensitivity": limits.buys.iter().map(|buys| json!({
                        "resource": buys.resource.to_string(),
                        "metric_percent": buys.metric.map(|change| change.mean),
                        "metric_half_width": buys.metric.and_then(|change| change.half_width),
                        "load_percent": buys.load,
                    })).collect::<Vec<_>>(),
                })),
            })
        })
        .collect();
    json!({ "version": 1, "plans": list, "refused": refused_json(refused) })
}

/// What cannot run, and why, for programs.
fn refused_json(refused: &[(String, String)]) -> Vec<Value> {
    let list = refused.iter();
    list.map(|(title, why)| json!({ "title": title, "why": why }))
        .collect()
}

/// What several chips or models need, side by side, for programs.
pub fn all_needs_json(all: &[Needs], refused: &[(String, String)]) -> Value {
    let list: Vec<Value> = all.iter().map(needs_json).collect();
    json!({ "version": 1, "side_by_side": list, "refused": refused_json(refused) })
}

/// What was simulated, for programs; `at` names what tells where.
fn probe_json(targets: &[Target], probe: &Probe, at: &str) -> Value {
    let held: Vec<Value> = targets
        .iter()
        .zip(&probe.held)
        .map(|(target, held)| {
            json!({
                "target": target.text,
                "mean": held.value.map(|value| value.mean),
                "half_width": held.value.and_then(|value| value.half_width),
                "verdict": held.verdict.word(),
                "reason": held.reason,
            })
        })
        .collect();
    json!({
        at: probe.load,
        "verdict": probe.verdict.word(),
        "seed": probe.seed,
        "replications": probe.runs.count(),
        "refused": probe.refused,
        "targets": held,
    })
}

/// How far stage times are open, for programs; `ends` of a search with all at one end.
fn open_json(doubt: &Doubt, ends: Option<(Value, Value)>) -> Value {
    let (slow, fast) = ends.unwrap_or_default();
    json!({
        "count": doubt.numbers.1,
        "with_interval": doubt.numbers.0,
        "low_times": doubt.span.0,
        "high_times": doubt.span.1,
        "measured": doubt.measured,
        "slow": slow,
        "fast": fast,
    })
}

/// A metric that rises with the length of the runs, for programs; `at` names what tells where.
fn rise_json(rise: &Rise, at: &str) -> Value {
    json!({
        "target": rise.target,
        at: rise.load,
        "run_s": rise.run_s,
        "longer_s": rise.longer_s,
        "mean": rise.means.0,
        "longer_mean": rise.means.1,
        "longer_verdict": rise.verdict.word(),
        "cause": rise.cause,
    })
}

/// What a need is, for programs.
pub fn needs_json(needs: &Needs) -> Value {
    let list: Vec<Value> = needs
        .list
        .iter()
        .map(|need| {
            json!({
                "resource": need.resource.to_string(),
                "now": need.now.map(|(now, _)| now),
                "unit": need.now.map_or("times", |(_, unit)| unit),
                "misses_times": need.between.0,
                "meets_times": need.between.1,
                // One look at each, and no fresh draws.
                "meets_times_slow_and_fast_confirmed": need.doubtful.as_ref().map(|_| false),
                "meets_times_slow": need.doubtful.as_ref().and_then(|ends| ends.slow),
                "meets_times_fast": need.doubtful.as_ref().and_then(|ends| ends.fast),
                "socs": { "misses": need.socs.0, "meets": need.socs.1 },
                "remark": need.remark,
                "probes": need.probes.iter().map(|p| probe_json(&needs.targets, p, "times")).collect::<Vec<_>>(),
                "rises_with_length": need.rises.iter().map(|rise| rise_json(rise, "times")).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "version": 1,
        "title": needs.title,
        "conditions": needs.conditions,
        "remarks": needs.remarks,
        "stage_times": open_json(&needs.doubt, None),
        "needs": list,
    })
}
