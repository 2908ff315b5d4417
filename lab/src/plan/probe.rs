//! One load simulated and held against the targets.

use rayon::prelude::*;
use sim::diag::Faults;
use sim::metrics::{Count, LoadVerdict, Summary};
use sim::simulation::Simulation;
use sim::world::World;

use super::target::{Metric, Target};
use reports::interval::{Estimate, Replicated};

/// Whether a load meets its targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every target's 95 % interval lies on the right side.
    Meets,
    /// The interval of one or more spans the bound, and none is missed.
    Unclear,
    /// A target is missed.
    Misses,
}

impl Verdict {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Meets => "meets",
            Self::Unclear => "unclear",
            Self::Misses => "misses",
        }
    }
}

/// A target at a load.
#[derive(Clone, Debug)]
pub struct Held {
    /// The metric over the replications; `None` where no run has it.
    pub value: Option<Estimate>,
    /// Whether it is met.
    pub verdict: Verdict,
    /// Why it is missed, where that is not the value.
    pub reason: Option<&'static str>,
}

/// A load that was simulated.
#[derive(Clone, Debug)]
pub struct Probe {
    /// The load.
    pub load: f64,
    /// Every target.
    pub held: Vec<Held>,
    /// All targets together.
    pub verdict: Verdict,
    /// Every run.
    pub runs: Replicated,
    /// Why the load cannot be simulated at all; then every target is missed.
    pub refused: Option<String>,
}

impl Probe {
    /// A load that has no world: a model that does not fit, an engine that cannot run a stage.
    pub fn refused(load: f64, why: String) -> Self {
        Self {
            load,
            held: Vec::new(),
            verdict: Verdict::Misses,
            runs: Replicated::default(),
            refused: Some(why),
        }
    }

    /// Simulates `replications` runs of a world.
    ///
    /// # Errors
    ///
    /// What a policy's script stopped a run with.
    pub fn run(
        world: &World,
        load: f64,
        replications: u32,
        targets: &[Target],
    ) -> Result<Self, Faults> {
        let summaries: Vec<Result<Summary, Faults>> = (0..replications)
            .into_par_iter()
            .map_init(
                || Simulation::new(world),
                |simulation, run| {
                    simulation.run(run)?;
                    Ok(simulation.summary())
                },
            )
            .collect();
        let summaries = summaries.into_iter().collect::<Result<_, _>>()?;
        let runs = Replicated { summaries };
        let held: Vec<Held> = targets.iter().map(|target| hold(target, &runs)).collect();
        let worst = held
            .iter()
            .map(|held| held.verdict)
            .max_by_key(|verdict| match verdict {
                Verdict::Meets => 0,
                Verdict::Unclear => 1,
                Verdict::Misses => 2,
            });
        Ok(Self {
            load,
            verdict: worst.unwrap_or(Verdict::Meets),
            held,
            runs,
            refused: None,
        })
    }

    /// Whether its queue grows.
    pub fn overloaded(&self) -> bool {
        self.refused.is_none() && self.runs.verdict() == LoadVerdict::Saturated
    }

    /// The mean of a target's metric.
    pub fn value(&self, target: usize) -> Option<f64> {
        self.held.get(target)?.value.map(|value| value.mean)
    }
}

fn hold(target: &Target, runs: &Replicated) -> Held {
    let value = runs.estimate(|summary| target.metric.of(summary));
    let missed = |reason| Held {
        value,
        verdict: Verdict::Misses,
        reason: Some(reason),
    };
    if target.metric.needs_steady() && runs.verdict() == LoadVerdict::Saturated {
        return missed(if runs.overload().contains(&"context_full") {
            "contexts fill up"
        } else {
            "the queue grows"
        });
    }
    // Latencies of those who were answered say nothing of those who were turned away.
    let refusals = runs.estimate(|summary| {
        let refused: u64 = summary.refused.iter().map(|(_, count)| count).sum();
        (summary.arrived > 0).then(|| refused as f64 / summary.arrived as f64)
    });
    let most = match target.metric {
        Metric::Share(Count::Refused) => f64::INFINITY,
        _ => 0.05,
    };
    if target.metric.needs_steady() && refusals.is_some_and(|share| share.mean > most) {
        return missed("more than 5 % of the queries are refused");
    }
    let Some(estimate) = value else {
        return missed("no run has this number");
    };
    let half = estimate.half_width.unwrap_or(0.0);
    let (low, high) = (estimate.mean - half, estimate.mean + half);
    let verdict = match (target.met(low), target.met(high)) {
        (true, true) => Verdict::Meets,
        (false, false) => Verdict::Misses,
        _ => Verdict::Unclear,
    };
    Held {
        value,
        verdict,
        reason: None,
    }
}
