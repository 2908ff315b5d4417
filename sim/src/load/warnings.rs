//! What is right but worth knowing: assumed numbers, settings without effect.

use super::compile::Parts;
use super::{lengths, trace, without_effect};
use crate::cost::{Noise, Time};
use crate::dispatch::{Dispatcher, lanes_of};
use crate::spec::model::StageKind;
use crate::spec::quantity::OriginKind;
use crate::spec::scenario::LengthPrediction;
use crate::spec::soc::EngineKind;
use crate::time::Instant;
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
    warnings.extend(without_contexts(world));
    if !world.contention_off && world.lanes.len() > 1 {
        without_bytes(world, warnings);
    }
    warnings.extend(faster_than_port(world));
    warnings.extend(lanes_of_one_engine(world));
    warnings.extend(wider_than_memory(parts));
    warnings.extend(below_tables(world));
    warnings.extend(trace::warnings(scenario, parts.traces));
}

/// Without reuse: whether no lane that answers can rebuild a context or be handed one.
fn without_contexts(world: &World) -> Option<String> {
    let asks = world.streams.iter().any(|stream| stream.queries.is_some());
    let sees = world.streams.iter().any(|stream| stream.frames.is_some());
    if world.modes.context_reuse || !asks || !sees {
        return None;
    }
    let dispatcher = Dispatcher::new(world);
    let state = dispatcher.view(Instant::ZERO).state;
    let able = |lane, stage| world.costs.get(world.engine_of(lane), stage).is_some();
    let transfer = world.transfer;
    let handed = lanes_of(state.rebuild_lanes)
        .any(|lane| able(lane, transfer.reconstruct) && able(lane, transfer.export));
    let served = lanes_of(state.answer_lanes)
        .any(|lane| able(lane, transfer.reconstruct) || handed && able(lane, transfer.import));
    (!served).then(|| {
        "`modes.context_reuse = false` has every request rebuild its context, which no lane that answers can have under this policy: their engines have no cost of `reconstruct`, and no other lane can rebuild one and hand it over (`reconstruct` and `export` there, `import` here): every query that reads a frame will be refused as `context_lost`".to_owned()
    })
}

/// Stages that contention cannot see.
fn without_bytes(world: &World, warnings: &mut Vec<String>) {
    let mut silent = Vec::new();
    for (engine, row) in world.engines.iter().zip(&world.costs.rows) {
        for (stage, costs) in world.stages.iter().zip(row) {
            if costs
                .as_ref()
                .is_some_and(|costs| !costs.alone.moves_bytes())
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

/// Engines on which several lanes run without taking compute from each other: a CPU's share its cores.
fn lanes_of_one_engine(world: &World) -> Vec<String> {
    let mut found = Vec::new();
    for (index, engine) in world.engines.iter().enumerate() {
        let lanes = world.lanes.iter().map(|lane| lane.engine.0 as usize);
        let lanes = lanes.filter(|&of| of == index).count();
        let beside_itself = world.costs.corun_beside[index] >> index & 1 != 0;
        if lanes > 1 && engine.kind != EngineKind::Cpu && !beside_itself {
            found.push(format!(
                "engine `{0}` has {lanes} lanes, each of which runs its stages as if it had the engine's compute to itself (they share its port to the memory, and its power counts once): state what they lose beside each other as `[engines.{0}.corun.STAGE]` of the costs, or give the engine one lane",
                engine.name
            ));
        }
    }
    found
}

/// Engines that read faster alone than the memory can be read by all of them.
fn wider_than_memory(parts: &Parts<'_>) -> Vec<String> {
    let soc = &parts.soc.raw;
    let bandwidth = soc.memory.bandwidth_gbps.value;
    let engines = soc.engines.iter();
    let wider = engines.filter(|(_, engine)| engine.port_gbps.value > bandwidth);
    wider
        .map(|(name, engine)| {
            format!(
                "`port_gbps` of engine `{name}` is {}, above the memory's `bandwidth_gbps` of {bandwidth}: alone, too, its stages take as long as their bytes do at {bandwidth} GB/s, longer than `{}` states (docs/contention.md)",
                engine.port_gbps.value,
                parts.costs.name()
            )
        })
        .collect()
}

/// Tables that start above the smallest size in use: what is played there was measured nowhere.
fn below_tables(world: &World) -> Vec<String> {
    let mut found = Vec::new();
    for (engine, row) in world.engines.iter().zip(&world.costs.rows) {
        for (stage, costs) in world.stages.iter().zip(row) {
            let (Some(costs), Some(size)) = (costs, smallest_size(world, stage.kind)) else {
                continue;
            };
            let Time::Table { size: sizes, .. } = &costs.alone.time else {
                continue;
            };
            // Of a rebuild the ingest's table tells it, and a copy has no least size.
            let told = !matches!(
                stage.kind,
                StageKind::Import | StageKind::Export | StageKind::Reconstruct
            );
            if let Some(first) = sizes.first().filter(|first| size < **first && told) {
                let secs = costs.alone.at(size, 0.0).secs;
                let measure = match stage.kind {
                    StageKind::Ingest | StageKind::QueryPrefill => {
                        format!("`llama-bench -p {size}` and `crossinfer import` give that size")
                    }
                    _ => "`crossinfer calibrate` measures that size".to_owned(),
                };
                found.push(format!(
                    "the table of `{}@{}` starts at size {first}, and the streams ask for {size}: below its least size a time goes on along the first two, but is at least in proportion to the size ({secs:.3} s here); {measure}",
                    stage.name, engine.name
                ));
            }
        }
    }
    found
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
