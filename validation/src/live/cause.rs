//! Where the error of a prediction comes from: what it would have been with this put right, then that.
//!
//! Live runs say how long stages took: alone, beside others, as transfers, and how late the driver was.
//! Each in turn is put into the simulated world in place of what the profile says, and the replications are
//! simulated again; how much a metric moves is that cause's part of its error. Decisions stay those of the
//! profile: the scheduler believes it throughout. What is left in the end is the noise of the host and what
//! the model does not have. The order matters where causes act on each other: stages first, then transfers,
//! contention, delay. What a stage that never ran alone took longer counts as contention.

use serde::{Deserialize, Serialize};
use sim::cost::{Cost, Time};
use sim::diag::Faults;
use sim::dispatch::{Dispatcher, Effects};
use sim::drive::drive;
use sim::metrics::{Metrics, Summary};
use sim::soc::Soc;
use sim::spec::model::StageKind;
use sim::world::World;

use super::prediction::{Values, expected};
use super::{Row, StageRow, StageTimes};

/// Parts of an error, each (simulated as predicted − simulated with this put right) ÷ measured. They and the
/// rest add up to the error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Causes {
    /// Costs of stages alone.
    pub stage_cost: f64,
    /// Costs of transfers.
    pub transfer: f64,
    /// Slowdown beside others.
    pub contention: f64,
    /// How late the driver handles what happens.
    pub delay: f64,
    /// Noise of the host, and what the model does not have.
    pub rest: f64,
}

/// Metrics of one policy after each correction, means over replications: as predicted, with stages put right,
/// with transfers, with contention, with delay.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps([Values; 5]);

/// Simulates one replication with one draw of how stage times vary.
///
/// # Errors
///
/// What the policy stopped the run with.
pub(super) fn simulate(
    world: &World,
    run: u32,
    noise: u32,
    stages: Option<&mut StageTimes<'_>>,
) -> Result<Summary, Faults> {
    let mut soc = Soc::new(world, run).with_noise(noise);
    let mut metrics = Metrics::new(world);
    let mut dispatcher = Dispatcher::new(world);
    let mut effects = Effects::new();
    match stages {
        Some(stages) => drive(
            &mut soc,
            &mut dispatcher,
            &mut effects,
            &mut (&mut metrics, stages),
        ),
        None => drive(&mut soc, &mut dispatcher, &mut effects, &mut metrics),
    }?;
    Ok(metrics.summary(dispatcher.peak_kv_bytes(), soc.unmeasured(), soc.warmth()))
}

/// Simulates `world` again and again, each time with one cause more put right. `live` and `simulated` are the
/// stage times of all live runs and of their predictions; `delay_s` is how late the driver was, on average.
pub fn steps(
    mut world: World,
    runs: &[u32],
    live: &[StageRow],
    simulated: &[StageRow],
    delay_s: f64,
) -> Result<Steps, Faults> {
    let mut steps = Steps([Values::default(); 5]);
    steps.0[0] = means(&world, runs)?;
    if world.believed_costs.is_none() {
        world.believed_costs = Some(world.costs.clone());
    }
    let solo = |row: &StageRow| {
        let whole = row.solo_s - row.solo as f64 * delay_s;
        (row.solo > 0 && row.solo_alone_s > 0.0).then(|| whole / row.solo_alone_s)
    };
    let transfers = [StageKind::Import, StageKind::Export];
    for (step, moves) in [(1, false), (2, true)] {
        each(&mut world, live, |world, engine, stage, row| {
            let kind = world.stages[stage].kind;
            if transfers.contains(&kind) != moves {
                return;
            }
            let Some(factor) = solo(row).filter(|factor| *factor > 0.0) else {
                return;
            };
            scale(world, engine, stage, factor);
            if kind == StageKind::Import {
                // Its first half is the export of where it comes from, which no task of its own measures.
                let export = usize::from(world.transfer.export.0);
                let sources = (0..world.engines.len()).filter(|&source| source != engine);
                for source in sources.collect::<Vec<_>>() {
                    scale(world, source, export, factor);
                }
            }
        });
        steps.0[step] = means(&world, runs)?;
    }
    each(&mut world, live, |world, engine, stage, row| {
        let predicted = simulated
            .iter()
            .find(|other| (&other.engine, &other.stage) == (&row.engine, &row.stage));
        let predicted = predicted.and_then(|row| row.shared_ratio);
        let Some((live, predicted)) = row.shared_ratio.zip(predicted) else {
            return;
        };
        let factor = live / (predicted * solo(row).unwrap_or(1.0));
        if let Some(costs) = &mut world.costs.rows[engine][stage] {
            costs.corun_ratio *= factor;
            let beside = &mut world.costs.corun_beside[engine];
            if *beside == 0 {
                *beside = u16::MAX;
            }
        }
    });
    steps.0[3] = means(&world, runs)?;
    for costs in world.costs.rows.iter_mut().flatten().flatten() {
        let more = |cost: &mut Cost| match &mut cost.time {
            Time::Linear { fixed, .. } | Time::Transfer { fixed, .. } => *fixed += delay_s,
            Time::Table { secs, .. } => {
                for secs in secs {
                    *secs += delay_s;
                }
            }
        };
        more(&mut costs.alone);
    }
    steps.0[4] = means(&world, runs)?;
    Ok(steps)
}

impl Steps {
    /// The parts of a row's error; `None` where its metric does not exist in some simulation.
    pub fn causes(&self, row: &Row) -> Option<Causes> {
        let mut values = [0.0; 5];
        for (value, step) in values.iter_mut().zip(&self.0) {
            *value = step.of(row.metric)?;
        }
        let part = |step: usize| (values[step] - values[step + 1]) / row.measured;
        let (stage_cost, transfer, contention, delay) = (part(0), part(1), part(2), part(3));
        Some(Causes {
            stage_cost,
            transfer,
            contention,
            delay,
            // What the first step differs from the row by, its runs being the same, is nothing.
            rest: row.error - stage_cost - transfer - contention - delay,
        })
    }
}

fn means(world: &World, runs: &[u32]) -> Result<Values, Faults> {
    let values = runs.iter().map(|&run| expected(world, run, None));
    Ok(Values::mean(&values.collect::<Result<Vec<_>, _>>()?))
}

/// Calls with the engine and stage of each row that the world has.
fn each(
    world: &mut World,
    rows: &[StageRow],
    mut change: impl FnMut(&mut World, usize, usize, &StageRow),
) {
    for row in rows {
        let engine = world
            .engines
            .iter()
            .position(|engine| engine.name == row.engine);
        let stage = world
            .stages
            .iter()
            .position(|stage| stage.name == row.stage);
        if let Some((engine, stage)) = engine.zip(stage) {
            change(world, engine, stage, row);
        }
    }
}

fn scale(world: &mut World, engine: usize, stage: usize, factor: f64) {
    if let Some(costs) = &mut world.costs.rows[engine][stage] {
        scale_cost(&mut costs.alone, factor);
    }
}

fn scale_cost(cost: &mut Cost, factor: f64) {
    cost.secs_per_context *= factor;
    match &mut cost.time {
        Time::Linear {
            fixed,
            per_token,
            per_token_context,
        } => {
            for value in [fixed, per_token, per_token_context] {
                *value *= factor;
            }
        }
        Time::Table {
            secs,
            per_token_context,
            ..
        } => {
            *per_token_context *= factor;
            for secs in secs {
                *secs *= factor;
            }
        }
        Time::Transfer { fixed, bytes_per_s } => {
            *fixed *= factor;
            *bytes_per_s /= factor;
        }
    }
}
