//! What is right but worth knowing: assumed numbers, settings without effect.

use super::compile::Parts;
use crate::cost::Noise;
use crate::spec::quantity::OriginKind;
use crate::spec::scenario::{LengthPrediction, StateTransfer};
use crate::workload::{FrameTimes, LengthPlan, QueryTimes};
use crate::world::World;

/// Adds what the user should know of `world`.
pub(super) fn collect(parts: &Parts<'_>, world: &World, warnings: &mut Vec<String>) {
    let scenario = &parts.scenario.raw;
    let root = parts.scenario.root();
    let assumed: Vec<&str> = world
        .provenance
        .iter()
        .filter(|number| number.kind == OriginKind::Assumed)
        .map(|number| number.path.as_str())
        .collect();
    if let Some(first) = assumed.first() {
        warnings.push(format!(
            "{} of {} numbers are assumed, `{first}` for one; `crossinfer check` lists them",
            assumed.len(),
            world.provenance.len()
        ));
    }
    if let Some(believed) = &world.believed_costs
        && format!("{believed:?}") == format!("{:?}", world.costs)
    {
        warnings
            .push("the believed costs equal the true ones: `beliefs.costs` has no effect".into());
    }
    if !seed_matters(world) {
        for key in ["seed", "replications"] {
            let given = root.key(key).is_present();
            if given && (key == "seed" || scenario.replications > 1) {
                warnings.push(format!("nothing is drawn at random: `{key}` has no effect"));
            }
        }
    }
    if !scenario.modes.context_reuse && scenario.modes.state_transfer != StateTransfer::Auto {
        warnings.push(
            "`modes.state_transfer` has no effect: without context reuse every request rebuilds its context"
                .into(),
        );
    }
    if world.contention_off && scenario.background.bandwidth_gbps > 0.0 {
        warnings.push("`background.bandwidth_gbps` has no effect with contention `none`".into());
    }
    if !world.contention_off && world.lanes.len() > 1 {
        without_bytes(world, warnings);
    }
}

/// Stages that contention cannot see.
fn without_bytes(world: &World, warnings: &mut Vec<String>) {
    let mut silent = Vec::new();
    for (engine, row) in world.engines.iter().zip(&world.costs.rows) {
        for (stage, costs) in world.stages.iter().zip(row) {
            if let Some(costs) = costs
                && costs.alone.bytes_fixed == 0.0
                && costs.alone.bytes_per_token == 0.0
                && costs.alone.bytes_per_token_context == 0.0
            {
                silent.push(format!("`{}@{}`", stage.name, engine.name));
            }
        }
    }
    if let Some(first) = silent.first() {
        warnings.push(format!(
            "{} stage costs state no DRAM bytes ({first} for one): contention neither slows them nor comes from them",
            silent.len()
        ));
    }
}

/// Whether anything of the world is drawn at random.
///
/// MERGE: the workload module will say so itself.
fn seed_matters(world: &World) -> bool {
    let drawn_length =
        |length: &LengthPlan| !matches!(length, LengthPlan::Fixed(_) | LengthPlan::Listed(_));
    let noisy = || {
        let mut costs = world.costs.rows.iter().flatten().flatten();
        costs.any(|costs| costs.noise != Noise::None)
    };
    matches!(world.prediction, LengthPrediction::Noisy { .. })
        || world.noise && noisy()
        || world.streams.iter().any(|stream| {
            let frames = stream.frames.as_ref().is_some_and(|frames| {
                matches!(frames.clock, FrameTimes::Periodic { jitter_s, .. } if jitter_s > 0.0)
            });
            let queries = stream.queries.as_ref().is_some_and(|queries| {
                drawn_length(&queries.prompt)
                    || drawn_length(&queries.output)
                    || match queries.arrivals {
                        QueryTimes::Periodic { .. } | QueryTimes::Listed(_) => false,
                        QueryTimes::ClosedLoop { exponential, .. } => exponential,
                        QueryTimes::Poisson { .. }
                        | QueryTimes::Mmpp { .. }
                        | QueryTimes::Gamma { .. } => true,
                    }
            });
            frames || queries
        })
}
