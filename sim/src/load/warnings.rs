//! What is right but worth knowing: assumed numbers, settings without effect.

use super::compile::Parts;
use super::{lengths, trace, without_effect};
use crate::cost::Noise;
use crate::spec::model::StageKind;
use crate::spec::quantity::OriginKind;
use crate::spec::scenario::LengthPrediction;
use crate::workload;
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
    if !seed_matters(world) {
        for key in ["seed", "replications"] {
            let given = root.key(key).is_present();
            if given && (key == "seed" || scenario.replications > 1) {
                warnings.push(format!("nothing is drawn at random: `{key}` has no effect"));
            }
        }
    }
    warnings.extend(without_effect::warnings(parts, world));
    if !world.contention_off && world.lanes.len() > 1 {
        without_bytes(world, warnings);
    }
    warnings.extend(faster_than_port(world));
    warnings.extend(wider_than_memory(world));
    warnings.extend(trace::warnings(scenario, parts.traces));
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

/// Costs whose bytes cannot pass the engine's port in their time, at the smallest sizes in use: one of the numbers is
/// off, and bytes count up to what the port carries ([`crate::cost::Cost::bytes_per_s_at_most`]).
fn faster_than_port(world: &World) -> Vec<String> {
    let mut found = Vec::new();
    for (engine, row) in world.engines.iter().zip(&world.costs.rows) {
        for (stage, costs) in world.stages.iter().zip(row) {
            let (Some(costs), Some(size)) = (costs, smallest_size(world, stage.kind)) else {
                continue;
            };
            let worst = costs.alone.too_fast(size);
            if worst > 1.0 {
                found.push(format!(
                    "`{}@{}` at size {size} moves its bytes {worst:.2} times as fast as the engine's port can: its time, its bytes or `port_gbps` is off; it counts as memory-bound, with the bytes that the port carries",
                    stage.name, engine.name
                ));
            }
        }
    }
    found
}

/// Engines that read faster alone than the memory can be read by all of them.
fn wider_than_memory(world: &World) -> Vec<String> {
    let bandwidth = world.memory.bandwidth;
    let wider = world.engines.iter();
    let wider = wider.filter(|engine| engine.port_bytes_per_s > bandwidth);
    wider
        .map(|engine| {
            format!(
                "`port_gbps` of engine `{}` is {}, above the memory's `bandwidth_gbps` of {}: one of them is off; alone the engine runs at its own rate",
                engine.name,
                engine.port_bytes_per_s / 1e9,
                bandwidth / 1e9
            )
        })
        .collect()
}

/// The smallest size of a stage of this kind that the streams ask for, if that is known.
fn smallest_size(world: &World, kind: StageKind) -> Option<f64> {
    let frames = || world.streams.iter().filter_map(|s| s.frames.as_ref());
    let queries = || world.streams.iter().filter_map(|s| s.queries.as_ref());
    match kind {
        StageKind::Encode => frames().map(|f| f.megapixels).min_by(f64::total_cmp),
        StageKind::Project | StageKind::Ingest => frames().map(|f| f.tokens).min().map(f64::from),
        StageKind::QueryPrefill => queries()
            .map(|q| lengths::least(&q.prompt))
            .min()
            .map(f64::from),
        StageKind::Decode | StageKind::Custom => Some(1.0),
        // A transfer's rate shows once its fixed part does not count.
        StageKind::Import | StageKind::Export => Some(1e9),
        StageKind::Reconstruct => {
            let system = Some(world.model.system_tokens).filter(|&tokens| tokens > 0);
            let least = frames().map(|f| f.tokens).chain(system).min();
            least.map(f64::from)
        }
    }
}

/// Whether anything of the world is drawn at random.
fn seed_matters(world: &World) -> bool {
    let mut costs = world.costs.rows.iter().flatten().flatten();
    let noise = world.noise && costs.any(|costs| costs.noise != Noise::None);
    let predictions = matches!(world.prediction, LengthPrediction::Noisy { .. });
    workload::seed_matters(&world.streams, noise || predictions)
}
