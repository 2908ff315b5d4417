//! One load simulated and held against the targets.

use rayon::prelude::*;
use sim::diag::Faults;
use sim::metrics::{Count, LoadVerdict, Summary};
use sim::simulation::Simulation;
use sim::world::World;

use super::target::{Metric, Target};
use reports::interval::{Estimate, Replicated};
use sim::metrics::Growth;

/// Whether a load meets its targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The system carries the load, and every target's 95 % interval lies on the right side.
    Meets,
    /// An interval spans a bound, or some of the runs are saturated, and none is missed.
    Unclear,
    /// A target is missed, or the system cannot carry the load.
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
    /// Why it is not met, where that is not the value.
    pub reason: Option<String>,
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
    /// Root seed of the runs.
    pub seed: u64,
    /// Every run.
    pub runs: Replicated,
    /// Why the load cannot be simulated at all; then every target is missed.
    pub refused: Option<String>,
}

/// Share of queries that a load may be refused where no target says how many.
const REFUSED_MOST: f64 = 0.05;
/// Standard deviations on either side of the mean that hold 95 % of normal values.
const NORMAL: f64 = 1.96;

/// Causes of overload that are refused queries: with a target on them, they are what it bounds.
const REFUSALS: [&str; 3] = ["queries_refused", "queries_never_fit", "queries_unserved"];

impl Probe {
    /// A load that has no world: a model that does not fit, an engine that cannot run a stage.
    pub fn refused(load: f64, why: String) -> Self {
        Self {
            load,
            held: Vec::new(),
            verdict: Verdict::Misses,
            seed: 0,
            runs: Replicated::default(),
            refused: Some(why),
        }
    }

    /// Simulates `replications` runs of a world.
    ///
    /// With `again`, a verdict other than unclear holds with a margin: that many runs on draws of their own are to come
    /// out the same with a probability of about 97.5 % ([`Estimate::another`]).
    ///
    /// # Errors
    ///
    /// What a policy's script stopped a run with.
    pub fn run(
        world: &World,
        load: f64,
        replications: u32,
        again: Option<u32>,
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
        let judge = Judge::of(&runs, again.map(|runs| runs as usize), targets);
        let held: Vec<Held> = targets.iter().map(|target| judge.hold(target)).collect();
        let worst = held.iter().map(|held| held.verdict).max();
        Ok(Self {
            load,
            verdict: worst.unwrap_or(Verdict::Meets),
            held,
            seed: world.seed,
            runs,
            refused: None,
        })
    }

    /// Whether the system cannot carry it, whatever the targets.
    pub fn overloaded(&self) -> bool {
        self.refused.is_none() && self.runs.verdict() == LoadVerdict::Saturated
    }

    /// The mean of a target's metric.
    pub fn value(&self, target: usize) -> Option<f64> {
        self.held.get(target)?.value.map(|value| value.mean)
    }
}

/// What is common to all targets of a load.
struct Judge<'a> {
    runs: &'a Replicated,
    /// Runs of another look that is to come out the same.
    again: Option<usize>,
    /// What the system cannot carry, or may not.
    carries: Option<(Verdict, String)>,
}

impl<'a> Judge<'a> {
    fn of(runs: &'a Replicated, again: Option<usize>, targets: &[Target]) -> Self {
        let mut judge = Self {
            runs,
            again,
            carries: None,
        };
        let mut metrics = targets.iter().map(|target| target.metric);
        let bounded = metrics.any(|metric| metric == Metric::Share(Count::Refused));
        judge.carries = judge.saturated(bounded);
        // Latencies of those who were answered say nothing of those who were turned away.
        if judge.carries.is_none() && !bounded {
            let verdict =
                judge.within(Metric::Share(Count::Refused), |share| share <= REFUSED_MOST);
            judge.carries = match verdict {
                Some((Verdict::Misses, _)) => Some((
                    Verdict::Misses,
                    "more than 5 % of the queries are refused".to_owned(),
                )),
                Some((Verdict::Unclear, share)) => Some((
                    Verdict::Unclear,
                    format!("{:.1} % of the queries are refused", 100.0 * share.mean),
                )),
                _ => None,
            };
        }
        judge
    }

    /// Whether what waits piles up, or more is turned away than a system may that carries its load.
    fn saturated(&self, refusals_bounded: bool) -> Option<(Verdict, String)> {
        let counts = |cause: &&str| !(refusals_bounded && REFUSALS.contains(cause));
        let all = self.runs.count();
        let mut causes: Vec<(&str, usize)> = Vec::new();
        let mut saturated = 0;
        for run in &self.runs.summaries {
            let own = run.overload.iter().copied().filter(counts);
            let mut any = false;
            for cause in own {
                any = true;
                match causes.iter_mut().find(|(known, _)| *known == cause) {
                    Some((_, count)) => *count += 1,
                    None => causes.push((cause, 1)),
                }
            }
            saturated += usize::from(any && run.load == LoadVerdict::Saturated);
        }
        // Of causes in as many runs, the first: `max_by_key` would take the last.
        let (cause, _) = *causes.iter().rev().max_by_key(|(_, count)| *count)?;
        let why = cause_in_words(cause);
        let share = saturated as f64 / all as f64;
        let margin = self.again.map_or(0.0, |runs| {
            let both = 1.0 / all as f64 + 1.0 / runs as f64;
            NORMAL * (share * (1.0 - share) * both).sqrt()
        });
        match Growth::of(saturated, all, margin) {
            Growth::Grows => Some((Verdict::Misses, why.to_owned())),
            Growth::Open => Some((
                Verdict::Unclear,
                format!("{why} in {saturated} of {all} runs"),
            )),
            Growth::Level => None,
        }
    }

    /// On which side of a bound a metric's interval lies; `None` where no run has it.
    fn within(&self, metric: Metric, right: impl Fn(f64) -> bool) -> Option<(Verdict, Estimate)> {
        let estimate = self.runs.estimate(|summary| metric.of(summary))?;
        let half = match self.again {
            // Of another look, too, some runs lack the number.
            Some(runs) => {
                let runs = (runs * estimate.n).div_ceil(self.runs.count().max(1));
                estimate.another(runs.max(2))
            }
            None => estimate.half_width,
        };
        let half = half.unwrap_or(0.0);
        let verdict = match (right(estimate.mean - half), right(estimate.mean + half)) {
            (true, true) => Verdict::Meets,
            (false, false) => Verdict::Misses,
            _ => Verdict::Unclear,
        };
        Some((verdict, estimate))
    }

    fn hold(&self, target: &Target) -> Held {
        let found = self.within(target.metric, |value| target.met(value));
        let (verdict, reason) = match &found {
            Some((verdict, _)) => (*verdict, None),
            None if self.runs.summaries.iter().all(|run| run.arrived == 0) => {
                (Verdict::Unclear, Some("no query arrives".to_owned()))
            }
            None => (Verdict::Misses, Some("no run has this number".to_owned())),
        };
        let value = found.map(|(_, estimate)| estimate);
        match &self.carries {
            Some((carries, why)) if *carries == Verdict::Misses || verdict == Verdict::Meets => {
                Held {
                    value,
                    verdict: verdict.max(*carries),
                    reason: Some(why.clone()),
                }
            }
            _ => Held {
                value,
                verdict,
                reason,
            },
        }
    }
}

/// A cause of overload (`Summary::overload`) in a few words.
fn cause_in_words(cause: &str) -> &str {
    match cause {
        "queries_wait" => "the queue grows",
        "queries_refused" => "the queue is full",
        "frames_wait" => "frames pile up",
        "frames_refused" => "too many frames wait",
        "context_full" => "contexts fill up",
        "memory_full" => "no engine can hold the contexts",
        "queries_never_fit" => "no engine can hold context and answer",
        "queries_unserved" => "no lane serves the queries",
        other => other,
    }
}
