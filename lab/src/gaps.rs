//! How far policies are from what no schedule beats, in numbers and in lines.

use rayon::prelude::*;
use reports::interval::Estimate;
use reports::number;
use screen::{Head, Table, paragraph};
use serde_json::{Value, json};
use sim::diag::Faults;
use sim::world::World;

use crate::bounds::{self, Bounded, Run};
use crate::oracle::{self, LeftOut, Objective, Optimum, REPLAYS_MAX};

/// A policy beside its bounds: means over replications.
#[derive(Clone, Debug, PartialEq)]
pub struct Gap {
    /// The policy.
    pub policy: String,
    /// Answers per second of the window ([`Run::throughput_rps`]), and their upper bound.
    pub throughput_rps: Option<(Estimate, Estimate)>,
    /// Mean TTFT, s, and the mean of its lower bounds.
    pub ttft_s: Option<(Estimate, Estimate)>,
    /// Mean time to the last token, s, and the mean of its lower bounds.
    pub completion_s: Option<(Estimate, Estimate)>,
}

/// Policies beside their bounds and, for a small case, the best schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct Gaps {
    /// Policies, in order.
    pub policies: Vec<Gap>,
    /// The best schedules of the first replication: least sum of times to the last token, and to the first.
    /// Or why there is none.
    pub optima: Vec<(Objective, Result<Optimum, LeftOut>)>,
}

/// The gaps of worlds that differ in their policy alone, on the threads of the current pool.
///
/// # Errors
///
/// What a policy stopped a run with.
pub fn of(worlds: &[World]) -> Result<Gaps, Faults> {
    let policies = worlds.iter().map(|world| {
        let runs = bounds::runs(world)?;
        let over = |get: &dyn Fn(&Run) -> Option<(f64, f64)>| {
            let (values, bounds): (Vec<f64>, Vec<f64>) = runs.iter().filter_map(get).unzip();
            Some((Estimate::of(&values)?, Estimate::of(&bounds)?))
        };
        let mean = |get: fn(&Bounded) -> (f64, f64)| {
            move |run: &Run| {
                let counted: Vec<(f64, f64)> = run
                    .requests
                    .iter()
                    .filter(|request| request.counts)
                    .map(get)
                    .collect();
                let count = counted.len() as f64;
                let sums = counted
                    .iter()
                    .fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
                (count > 0.0).then(|| (sums.0 / count, sums.1 / count))
            }
        };
        Ok(Gap {
            policy: world.policy.to_string(),
            throughput_rps: over(&|run| Some((run.throughput_rps?, run.throughput_bound_rps?))),
            ttft_s: over(&mean(|request| (request.ttft_s, request.ttft_bound_s))),
            completion_s: over(&mean(|request| {
                (request.completion_s, request.completion_bound_s)
            })),
        })
    });
    let policies = policies.collect::<Result<_, Faults>>()?;
    let optima: Vec<_> = [Objective::Completion, Objective::Ttft]
        .into_par_iter()
        .map(|objective| {
            let optimum = oracle::optimum(worlds, 0, objective, REPLAYS_MAX)?;
            Ok((objective, optimum))
        })
        .collect();
    Ok(Gaps {
        policies,
        optima: optima.into_iter().collect::<Result<_, Faults>>()?,
    })
}

/// The gaps as lines.
pub fn text(gaps: &Gaps) -> String {
    let mut rows = Table::new([
        Head::text("to bounds"),
        Head::number("answers/s\nof at most"),
        Head::number("TTFT, s\nof at least"),
        Head::number("completion, s\nof at least"),
    ]);
    for gap in &gaps.policies {
        let cell = |pair: &Option<(Estimate, Estimate)>| match pair {
            None => number::ABSENT.to_owned(),
            Some((value, bound)) => {
                format!(
                    "{} of {}",
                    number::short(value.mean),
                    number::short(bound.mean)
                )
            }
        };
        rows.row([
            gap.policy.clone(),
            cell(&gap.throughput_rps),
            cell(&gap.ttft_s),
            cell(&gap.completion_s),
        ]);
    }
    let mut out = format!("\n{rows}");
    paragraph(
        &mut out,
        "No schedule of the same requests beats these bounds; they leave out transfers, memory and modes, so not \
         every gap can be closed.",
    );
    out + &best_schedules(gaps)
}

/// Each policy's gap to the best schedules as lines, or why there are none.
fn best_schedules(gaps: &Gaps) -> String {
    let found: Vec<(Objective, &Optimum)> = gaps
        .optima
        .iter()
        .filter_map(|(objective, optimum)| Some((*objective, optimum.as_ref().ok()?)))
        .collect();
    let mut out = String::new();
    if !found.is_empty() {
        let mut heads = vec![Head::text("to best schedule")];
        for (objective, _) in &found {
            heads.push(Head::number(format!(
                "{}, s\nof at least",
                name(*objective)
            )));
            heads.push(Head::number("gap\n%"));
        }
        let mut rows = Table::new(heads);
        for (at, gap) in gaps.policies.iter().enumerate() {
            let mut cells = vec![gap.policy.clone()];
            for (_, optimum) in &found {
                let count = optimum.requests as f64;
                match optimum.own_s.get(at).copied().flatten() {
                    Some(own) => {
                        let (value, best) = (own / count, optimum.value_s / count);
                        let (value, best) = (number::short(value), number::short(best));
                        cells.push(format!("{value} of {best}"));
                        cells.push(percent(own, optimum));
                    }
                    None => cells.extend([number::ABSENT.to_owned(), number::ABSENT.to_owned()]),
                }
            }
            rows.row(cells);
        }
        out = format!("\n{rows}");
    }
    let mut told: Option<&LeftOut> = None;
    for (objective, optimum) in &gaps.optima {
        let text = match optimum {
            Ok(optimum) => format!(
                "best schedule of the first replication ({} requests): mean {} {} s{}",
                optimum.requests,
                name(*objective),
                number::short(optimum.value_s / optimum.requests as f64),
                match (optimum.exact, optimum.ended) {
                    (true, _) => String::new(),
                    (false, false) => format!(
                        ", or less: not every alternative was tried, the search ended after {} replays",
                        optimum.replays
                    ),
                    (false, true) =>
                        ", or less: not every schedule is within the search".to_owned(),
                }
            ),
            Err(why) if told == Some(why) => continue,
            Err(why) => {
                told = Some(why);
                format!("no best schedule of the first replication: {why}")
            }
        };
        paragraph(&mut out, &text);
    }
    out
}

/// By how much a policy's own schedule is worse than the best, %; `≥`: than the best found.
fn percent(own_s: f64, optimum: &Optimum) -> String {
    let mark = if optimum.exact { "" } else { "≥" };
    match excess(own_s, optimum) {
        Some(gap) if gap < 100.0 => format!("{mark}{:.1}", 100.0 * gap),
        Some(gap) => format!("{mark}{}", number::short(100.0 * gap)),
        None => number::ABSENT.to_owned(),
    }
}

/// The share of the best schedule's sum by which a policy's own is above it.
fn excess(own_s: f64, optimum: &Optimum) -> Option<f64> {
    (optimum.value_s > 0.0).then(|| own_s / optimum.value_s - 1.0)
}

fn name(objective: Objective) -> &'static str {
    match objective {
        Objective::Completion => "completion",
        Objective::Ttft => "TTFT",
        Objective::Makespan => "makespan",
    }
}

/// The gaps as a part of `compare.json`.
pub fn json(gaps: &Gaps) -> Value {
    let pair = |pair: &Option<(Estimate, Estimate)>| {
        pair.as_ref().map_or(
            Value::Null,
            |(value, bound)| json!({ "value": value.mean, "bound": bound.mean }),
        )
    };
    let policies = gaps.policies.iter().map(|gap| {
        json!({
            "policy": gap.policy,
            "throughput_rps": pair(&gap.throughput_rps),
            "ttft_s": pair(&gap.ttft_s),
            "completion_s": pair(&gap.completion_s),
        })
    });
    let optima = gaps
        .optima
        .iter()
        .map(|(objective, optimum)| match optimum {
            Err(why) => json!({
                "objective": name(*objective),
                "sum_s": null,
                "left_out": why.to_string(),
            }),
            Ok(optimum) => {
                let own = gaps.policies.iter().zip(&optimum.own_s).map(|(gap, own)| {
                    json!({
                        "policy": gap.policy,
                        "sum_s": own,
                        "gap": own.and_then(|own| excess(own, optimum)),
                    })
                });
                json!({
                    "objective": name(*objective),
                    "sum_s": optimum.value_s,
                    "requests": optimum.requests,
                    "exact": optimum.exact,
                    "ended": optimum.ended,
                    "replays": optimum.replays,
                    "policies": own.collect::<Vec<_>>(),
                })
            }
        });
    json!({
        "policies": policies.collect::<Vec<_>>(),
        "best_schedules_of_first_replication": optima.collect::<Vec<_>>(),
    })
}
