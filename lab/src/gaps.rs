//! How far policies are from what no schedule beats, in numbers and in lines.

use rayon::prelude::*;
use reports::interval::Estimate;
use reports::number;
use screen::{Head, Table, paragraph};
use serde_json::{Value, json};
use sim::diag::Faults;
use sim::world::World;

use crate::bounds::{self, Bounded, Run};
use crate::oracle::{self, Objective, Optimum, REPLAYS_MAX};

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
    pub optima: Vec<(Objective, Optimum)>,
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
            Ok(optimum.map(|optimum| (objective, optimum)))
        })
        .collect();
    let optima = optima.into_iter().filter_map(Result::transpose);
    Ok(Gaps {
        policies,
        optima: optima.collect::<Result<_, Faults>>()?,
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
    for (objective, optimum) in &gaps.optima {
        let count = optimum.requests as f64;
        let text = format!(
            "best schedule of the first replication ({} requests): mean {} {} s{}",
            optimum.requests,
            name(*objective),
            number::short(optimum.value_s / count),
            match (optimum.exact, optimum.ended) {
                (true, _) => "",
                (false, false) => ", or less: not every alternative was tried",
                (false, true) => ", or less: not every schedule is within the search",
            }
        );
        paragraph(&mut out, &text);
    }
    paragraph(
        &mut out,
        "No schedule of the same requests beats these bounds; they leave out transfers, memory and modes, so not \
         every gap can be closed.",
    );
    out
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
    let optima = gaps.optima.iter().map(|(objective, optimum)| {
        json!({
            "objective": name(*objective),
            "sum_s": optimum.value_s,
            "requests": optimum.requests,
            "exact": optimum.exact,
            "replays": optimum.replays,
        })
    });
    json!({
        "policies": policies.collect::<Vec<_>>(),
        "best_schedules_of_first_replication": optima.collect::<Vec<_>>(),
    })
}
