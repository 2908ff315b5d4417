//! Searching the values of keys that serve an objective best: CMA-ES, with a held-out seed for what is reported.
//!
//! The search sees the scenario's seed only. What it found best there is the luckiest of many, so its figure is
//! measured anew on another seed, beside the scenario's own values on the same arrivals and lengths.

use std::cell::RefCell;
use std::fmt::Write as _;

use cmaes::{CMAESOptions, DVector};
use rayon::prelude::*;
use reports::interval::{Estimate, Replicated};
use reports::metric::{
    COMPLETION, COMPLETION_P95, ENERGY_PER_REQUEST, Metric, STALENESS, THROUGHPUT, TTFT_MEAN,
    TTFT_P95,
};
use reports::number;
use screen::{Head, Table};
use sim::diag::Faults;
use sim::metrics::LoadVerdict;
use sim::rng::mix;
use sim::simulation::Simulation;
use sim::world::World;

use crate::sweep::{Axis, Study, Value};

/// Names of what can be searched for, and their metrics.
const OBJECTIVES: [(&str, Metric); 7] = [
    ("ttft", TTFT_MEAN),
    ("ttft_p95", TTFT_P95),
    ("completion", COMPLETION),
    ("completion_p95", COMPLETION_P95),
    ("staleness", STALENESS),
    ("energy", ENERGY_PER_REQUEST),
    ("throughput", THROUGHPUT),
];
/// Costs of what has no value are above this; of those that have one, below.
const WORTHLESS: f64 = 1e12;

/// What is searched for.
#[derive(Clone, Copy, Debug)]
pub struct Objective {
    /// What should be small, or large where its metric says so.
    pub metric: Metric,
    /// A latency that must stay within so many seconds.
    pub within: Option<(Metric, f64)>,
}

impl Objective {
    /// Reads `NAME` or `NAME:LATENCY<=SECONDS`, as `ttft_p95` or `throughput:ttft_p95<=2`.
    ///
    /// # Errors
    ///
    /// An unknown name, or no number.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, limit) = match text.split_once(':') {
            Some((name, limit)) => (name, Some(limit)),
            None => (text, None),
        };
        let within = limit.map(|limit| {
            let (name, secs) = limit
                .split_once("<=")
                .ok_or_else(|| format!("`{limit}` is no limit: write LATENCY<=SECONDS"))?;
            let metric = named(name)?;
            let secs = secs
                .parse::<f64>()
                .ok()
                .filter(|secs| *secs > 0.0 && secs.is_finite());
            let secs = secs.ok_or_else(|| format!("`{limit}`: give seconds above 0"))?;
            Ok::<_, String>((metric, secs))
        });
        Ok(Self {
            metric: named(name)?,
            within: within.transpose()?,
        })
    }

    fn sign(&self) -> f64 {
        match self.metric.better {
            reports::metric::Better::Lower => 1.0,
            reports::metric::Better::Higher => -1.0,
        }
    }

    /// What is made small. A saturated run has no latency, and one beyond its limit no worth: the nearer to
    /// having them, the smaller.
    fn cost(&self, runs: &Replicated) -> f64 {
        let saturated = runs.verdict() == LoadVerdict::Saturated;
        let needs_steady = self.metric.steady_only || self.within.is_some();
        if needs_steady && saturated {
            let index = runs
                .estimate(|s| s.saturation_index)
                .map_or(1.0, |e| e.mean);
            return WORTHLESS * (3.0 + bounded(index));
        }
        if let Some((metric, limit)) = &self.within {
            let Some(found) = runs.estimate(metric.get) else {
                return WORTHLESS * 20.0;
            };
            if found.mean > *limit {
                return WORTHLESS * (1.0 + bounded(found.mean / limit - 1.0));
            }
        }
        let value = runs.estimate(self.metric.get);
        value.map_or(WORTHLESS * 20.0, |value| self.sign() * value.mean)
    }
}

/// A number from 0 on, within [0, 1) in the same order: how far off a point is stays told, however far.
fn bounded(x: f64) -> f64 {
    let x = x.max(0.0);
    if x.is_finite() { x / (1.0 + x) } else { 1.0 }
}

fn named(name: &str) -> Result<Metric, String> {
    let names: Vec<&str> = OBJECTIVES.iter().map(|(name, _)| *name).collect();
    OBJECTIVES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, metric)| *metric)
        .ok_or_else(|| format!("there is no `{name}`, only {}", names.join(", ")))
}

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The best values, key by key.
    pub values: Vec<Value>,
    /// The objective with them, on the seed that they were searched with.
    pub searched: Option<Estimate>,
    /// The same on the held-out seed: the figure to report.
    pub held_out: Option<Estimate>,
    /// The scenario's own values on the held-out seed.
    pub own: Option<Estimate>,
    /// The difference of the two, paired.
    pub difference: Option<Estimate>,
    /// The held-out figure of the latency that is limited.
    pub limited: Option<Estimate>,
    /// Whether the best values keep the limit, and have a steady latency, on the held-out seed too.
    pub holds: bool,
    /// Whether a point that was tried keeps the limit, and has a steady latency where one is asked for.
    pub met: bool,
    /// Points that were tried.
    pub tried: usize,
    /// Of them, those that are no valid scenario.
    pub faulty: usize,
    /// What is wrong with the first of those.
    pub why: Option<String>,
}

impl Found {
    /// Whether the held-out figure is worse than that of the scenario's own values, and whether the difference can be
    /// told from none.
    pub fn worse(&self, objective: &Objective) -> Option<bool> {
        let difference = self.difference?;
        let worse = objective.sign() * difference.mean > 0.0;
        worse.then(|| difference.excludes_zero() == Some(true))
    }
}

/// Searches `evaluations` points of the box that the axes span, each with all replications of the study, on the
/// threads of the current pool. `seed` is the search's; `tried_one` hears of every point.
///
/// # Errors
///
/// Values of which none makes a scenario, with what is wrong with the best; a scenario that cannot be run.
pub fn search(
    study: &Study<'_>,
    axes: &[Axis],
    objective: &Objective,
    evaluations: usize,
    seed: u64,
    tried_one: &(dyn Fn() + Sync),
) -> Result<Found, String> {
    let stopped = RefCell::new(None);
    let faulty = RefCell::new((0, None));
    let evaluate = |point: &[f64]| {
        tried_one();
        match study.world(axes, &values(axes, point)) {
            Ok(world) => match replicate(&world) {
                Ok(runs) => objective.cost(&runs),
                Err(faults) => {
                    // The search has no way to stop early.
                    stopped.borrow_mut().get_or_insert(faults.to_string());
                    WORTHLESS * 30.0
                }
            },
            Err(fault) => {
                let mut faulty = faulty.borrow_mut();
                faulty.0 += 1;
                faulty.1.get_or_insert(fault);
                WORTHLESS * 30.0
            }
        }
    };
    let middle = vec![0.5; axes.len()];
    let (mut best, mut least) = (middle.clone(), evaluate(&middle));
    let mut tried = 1;
    if axes.len() == 1 {
        // CMA-ES needs a covariance; a line is searched by golden sections of its best part instead.
        line(
            &mut |x| evaluate(&[x]),
            evaluations,
            &mut best,
            &mut least,
            &mut tried,
        );
    } else {
        let state = RefCell::new((best.clone(), least, tried));
        let cost = |x: &DVector<f64>| {
            let point: Vec<f64> = x.iter().map(|x| mirrored(*x)).collect();
            let cost = evaluate(&point);
            let mut state = state.borrow_mut();
            state.2 += 1;
            if cost < state.1 {
                (state.0, state.1) = (point, cost);
            }
            cost
        };
        let mut search = CMAESOptions::new(middle, 0.3)
            .seed(seed)
            .max_function_evals(evaluations)
            .build(cost)
            .map_err(|error| format!("the search cannot begin: {error:?}"))?;
        search.run();
        drop(search);
        (best, least, tried) = state.into_inner();
    }
    if let Some(error) = stopped.take() {
        return Err(error);
    }
    let (faulty, why) = faulty.take();
    let values = values(axes, &best);
    let tuned = study.world(axes, &values)?;
    if least >= WORTHLESS * 20.0 {
        return Err("no point that was tried has a value of the objective".into());
    }
    let own = study.world(&[], &[])?;
    let replicate = |world: &World| replicate(world).map_err(|faults| faults.to_string());
    let searched = replicate(&tuned)?.estimate(objective.metric.get);
    let [tuned, own] = [tuned, own].map(|mut world| {
        world.seed = held_out(world.seed);
        world
    });
    let (tuned, own) = (replicate(&tuned)?, replicate(&own)?);
    Ok(Found {
        values,
        searched,
        held_out: tuned.estimate(objective.metric.get),
        own: own.estimate(objective.metric.get),
        difference: tuned.difference(&own, objective.metric.get),
        limited: objective
            .within
            .and_then(|(metric, _)| tuned.estimate(metric.get)),
        holds: objective.cost(&tuned) < WORTHLESS,
        met: least < WORTHLESS,
        tried,
        faulty,
        why,
    })
}

/// What was found, in lines.
pub fn text(found: &Found, axes: &[Axis], objective: &Objective) -> String {
    let mut out = String::new();
    let mut rows = Table::new([Head::text(""), Head::text("")]);
    let mut line = |name: &str, value: &str| rows.row([name, value]);
    for (axis, value) in axes.iter().zip(&found.values) {
        line(&axis.key.to_string(), &value.to_string());
    }
    line("points tried", &found.tried.to_string());
    let title = objective.metric.title;
    line(
        &format!("{title}: searched"),
        &number::estimate(found.searched),
    );
    line(
        &format!("{title}: held-out seed"),
        &number::estimate(found.held_out),
    );
    line("  the scenario's own values", &number::estimate(found.own));
    let scale = found.own.map_or(0.0, |own| own.mean);
    let shown = match found
        .difference
        .and_then(|difference| difference.excludes_zero())
    {
        Some(true) => "",
        Some(false) => " (it may be none: the interval includes 0)",
        None => " (no interval)",
    };
    let difference = number::difference(found.difference, scale);
    line("  difference, paired", &format!("{difference}{shown}"));
    if let Some((metric, limit)) = &objective.within {
        let value = number::estimate(found.limited);
        line(
            &format!("{}: held-out seed", metric.title),
            &format!("{value}, at most {} asked", number::given(*limit)),
        );
    }
    _ = write!(out, "{rows}");
    if !found.met {
        out += match objective.within {
            Some(_) => {
                "no point that was tried keeps the limit without saturation: these come nearest\n"
            }
            None => "every point that was tried is saturated: these come nearest to steady\n",
        };
    }
    match found.worse(objective) {
        Some(true) => {
            out += "on the held-out seed the values found are worse than the scenario's own\n";
        }
        Some(false) => {
            out += "on the held-out seed the values found are no better than the scenario's own\n";
        }
        None => {}
    }
    if !found.holds {
        out += "on the held-out seed the values found are saturated or break the limit\n";
    }
    out
}

/// The seed that no search has seen.
fn held_out(seed: u64) -> u64 {
    mix(seed ^ 0x6865_6c64_206f_7574)
}

/// Coordinates folded back into the box.
fn mirrored(x: f64) -> f64 {
    let x = x.rem_euclid(2.0);
    if x > 1.0 { 2.0 - x } else { x }
}

fn values(axes: &[Axis], point: &[f64]) -> Vec<Value> {
    axes.iter()
        .zip(point)
        .map(|(axis, &unit)| axis.along(unit))
        .collect()
}

/// A line: first evenly, then around the best of that.
fn line(
    cost: &mut dyn FnMut(f64) -> f64,
    evaluations: usize,
    best: &mut Vec<f64>,
    least: &mut f64,
    tried: &mut usize,
) {
    let mut step = 1.0;
    let per_round = (evaluations / 4).clamp(3, 33);
    while *tried + per_round <= evaluations + 1 {
        let centre = if step == 1.0 { 0.5 } else { best[0] };
        for at in 0..per_round {
            let x = centre + step * (at as f64 / (per_round - 1) as f64 - 0.5);
            let x = x.clamp(0.0, 1.0);
            let found = cost(x);
            *tried += 1;
            if found < *least {
                (*best, *least) = (vec![x], found);
            }
        }
        step *= 2.5 / per_round as f64;
    }
}

/// All replications of a world, side by side.
fn replicate(world: &World) -> Result<Replicated, Faults> {
    let summaries: Vec<_> = (0..world.replications)
        .into_par_iter()
        .map_init(
            || Simulation::new(world),
            |simulation, run| {
                simulation.run(run)?;
                Ok(simulation.summary())
            },
        )
        .collect();
    let summaries = summaries.into_iter().collect::<Result<_, Faults>>()?;
    Ok(Replicated { summaries })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_are_read() {
        let objective = Objective::parse("throughput:ttft_p95<=2").expect("is one");
        assert_eq!(objective.metric.key, "throughput_rps");
        let (metric, limit) = objective.within.expect("has a limit");
        assert_eq!((metric.key, limit), ("ttft_s.p95", 2.0));
        for text in [
            "",
            "speed",
            "ttft:",
            "ttft:ttft<2",
            "ttft:ttft<=x",
            "ttft:ttft<=-1",
        ] {
            assert!(Objective::parse(text).is_err(), "{text}");
        }
    }

    /// A search that is far from its limit everywhere still knows where it is nearer.
    #[test]
    fn how_far_off_a_point_is_stays_told() {
        let far: Vec<f64> = [0.0, 0.1, 1.0, 3.0, 40.0, 1e6]
            .into_iter()
            .map(bounded)
            .collect();
        assert!(far.is_sorted_by(|a, b| a < b), "{far:?}");
        assert!(far.iter().all(|x| (0.0..1.0).contains(x)));
    }

    #[test]
    fn what_is_worse_or_never_met_is_said() {
        let estimate = |mean: f64, half_width: Option<f64>| {
            Some(Estimate {
                mean,
                half_width,
                n: 4,
            })
        };
        let found = |difference| Found {
            values: Vec::new(),
            searched: None,
            held_out: None,
            own: None,
            difference,
            limited: None,
            holds: true,
            met: true,
            tried: 3,
            faulty: 0,
            why: None,
        };
        for (objective, mean, worse) in [
            ("ttft", 0.5, true),
            ("ttft", -0.5, false),
            ("throughput", -0.5, true),
            ("throughput", 0.5, false),
        ] {
            let objective = Objective::parse(objective).expect("is one");
            let clear = found(estimate(mean, Some(0.1)));
            assert_eq!(clear.worse(&objective), worse.then_some(true));
            let said = text(&clear, &[], &objective);
            assert_eq!(said.contains("worse than the scenario's own"), worse);
            let unclear = found(estimate(mean, Some(2.0)));
            assert_eq!(unclear.worse(&objective), worse.then_some(false));
        }
        let objective = Objective::parse("throughput:ttft<=1").expect("is one");
        let never = Found {
            met: false,
            ..found(None)
        };
        assert!(text(&never, &[], &objective).contains("no point that was tried keeps the limit"));
        assert!(!text(&found(None), &[], &objective).contains("keeps the limit"));
    }

    #[test]
    fn coordinates_are_folded_into_the_box() {
        for (x, folded) in [(0.25, 0.25), (1.25, 0.75), (-0.25, 0.25), (2.5, 0.5)] {
            assert_eq!(mirrored(x), folded);
        }
    }

    #[test]
    fn a_line_is_searched_closely() {
        let (mut best, mut least, mut tried) = (vec![0.5], f64::INFINITY, 0);
        line(
            &mut |x| (x - 0.3).abs(),
            60,
            &mut best,
            &mut least,
            &mut tried,
        );
        assert!(least < 0.005 && tried <= 61, "{best:?} {tried}");
    }
}
