//! Keys of a scenario that change nothing with the values of the others, whatever the policy.

use super::super::compile::Parts;
use super::super::document::Place;
use super::super::streams::first_plan;
use super::Idle;
use crate::contention::Load;
use crate::cost::{Noise, StageCosts};
use crate::memory::gigabytes;
use crate::spec::model::StageKind;
use crate::spec::scenario::{Keep, LengthPrediction, StateTransfer};
use crate::spec::soc::EngineKind;
use crate::time::{Duration, Instant};
use crate::workload::{FrameTimes, LengthPlan, QueryTimes};
use crate::world::{EngineId, Lane, StageId, World};

/// All of them in a world.
pub(super) fn of<'d>(parts: &Parts<'d>, world: &World) -> Vec<Idle<'d>> {
    let root = parts.scenario.root();
    let mut found = Vec::new();
    let mut idle = |key: Place<'d>, why: String| {
        if key.is_present() {
            found.push(Idle::whatever_the_policy(key, why));
        }
    };
    without_frames(&root, world, &mut idle);
    modes(&root.key("modes"), world, &mut idle);
    beliefs(&root.key("beliefs"), world, &mut idle);
    let mut costs = world.costs.rows.iter().flatten().flatten();
    if costs.all(|costs| costs.noise == Noise::None) {
        idle(root.key("noise"), "no stage cost states a spread".into());
    }
    background(parts, world, &mut idle);
    placement(&root.key("placement"), world, &mut idle);
    keep(&root.key("context").key("keep"), world, &mut idle);
    budgets(parts, world, &mut idle);
    cut_counts(parts, world, &mut idle);
    found
}

/// Other software where none of the stages meets it.
fn background<'d>(parts: &Parts<'d>, world: &World, idle: &mut dyn FnMut(Place<'d>, String)) {
    let place = parts.scenario.root().key("background");
    let background = &parts.scenario.raw.background;
    let costs = || {
        let lanes = world.lanes.iter().map(|lane| lane.engine);
        lanes.flat_map(|engine| {
            let row = world.costs.rows[engine.0 as usize].iter().flatten();
            row.map(move |costs| (engine, costs))
        })
    };
    for (key, value) in [
        ("memory_bytes", background.memory_bytes),
        ("bandwidth_gbps", background.bandwidth_gbps),
        ("cpu_cores", background.cpu_cores),
    ] {
        if value == 0.0 {
            idle(place.key(key), "0 is its value without the key, too".into());
        }
    }
    if background.bandwidth_gbps > 0.0 {
        let key = place.key("bandwidth_gbps");
        let moves = |costs: &StageCosts| costs.alone.moves_bytes();
        let model = world.contention.name();
        if matches!(model, "none" | "pairwise") {
            idle(
                key,
                format!("contention `{model}` looks at no bandwidth of others"),
            );
        } else if !costs().any(|(_, costs)| moves(costs)) && !slows_what_moves_nothing(world) {
            idle(key, "no stage states the bytes that it moves".into());
        }
    }
    if background.cpu_cores > 0.0 {
        let on_cpu = |engine: EngineId| world.engines[engine.0 as usize].kind == EngineKind::Cpu;
        if !costs().any(|(engine, costs)| on_cpu(engine) || costs.host_share > 0.0) {
            let why = "no stage runs on the CPU or has a `host_share`";
            idle(place.key("cpu_cores"), why.into());
        }
    }
}

/// Whether contention slows even stages that move no bytes, alone or on all lanes at once.
pub(super) fn slows_what_moves_nothing(world: &World) -> bool {
    let none = |lane: &Lane| Load {
        engine: lane.engine,
        mu: 0.0,
    };
    let all: Vec<Load> = world.lanes.iter().map(none).collect();
    let alone = all.chunks(1);
    let mut sets = alone.chain(std::iter::once(all.as_slice()));
    sets.any(|set| {
        let mut slowdowns = vec![1.0; set.len()];
        world.contention.slowdowns(set, &mut slowdowns);
        slowdowns.iter().any(|&slowdown| slowdown > 1.0)
    })
}

/// Stages fixed to the only lane that can run them.
fn placement<'d>(place: &Place<'d>, world: &World, idle: &mut dyn FnMut(Place<'d>, String)) {
    let graph = &world.frame_graph;
    let ingest = graph.stages[graph.bound_at as usize];
    for (at, stage) in world.stages.iter().enumerate() {
        let id = StageId(at as u8);
        // Without reuse, the lane of ingests rebuilds each request's context.
        if world.placement[at].is_none() || id == ingest && !world.modes.context_reuse {
            continue;
        }
        let able = |lane: &&Lane| world.costs.get(lane.engine, id).is_some();
        if world.lanes.iter().filter(able).count() == 1 {
            idle(place.key(&stage.name), "no other lane can run it".into());
        }
    }
}

/// A window that no stream fills.
fn keep<'d>(place: &Place<'d>, world: &World, idle: &mut dyn FnMut(Place<'d>, String)) {
    let (Keep::Window { frames: window } | Keep::Sinks { recent: window, .. }) = world.keep else {
        return;
    };
    if let Some(most) = world
        .most_frames()
        .filter(|&most| most <= u64::from(window))
    {
        let why = format!("no stream has more than {most} frames: all of them stay");
        idle(place.clone(), why);
    }
}

/// What is about versions, where the first is the only one.
fn without_frames<'d>(root: &Place<'d>, world: &World, idle: &mut dyn FnMut(Place<'d>, String)) {
    let frames = world.streams.iter().any(|stream| stream.frames.is_some());
    if frames || world.answers_join_history {
        return;
    }
    let why = "no stream has frames, and no answer joins: there is one version only";
    idle(root.key("context").key("binding"), why.into());
    // Without reuse its lane rebuilds each request's context.
    if world.modes.context_reuse {
        let graph = &world.frame_graph;
        let ingest = graph.stages[graph.bound_at as usize];
        let name = &world.stages[ingest.0 as usize].name;
        let why = "no stream has frames, and no answer joins: nothing is ingested";
        idle(root.key("placement").key(name), why.into());
    }
}

/// Budgets of KV above what there is.
fn budgets<'d>(parts: &Parts<'d>, world: &World, idle: &mut dyn FnMut(Place<'d>, String)) {
    let limits = &parts.scenario.raw.limits;
    let place = parts.scenario.root().key("limits");
    let left = world.memory.kv_budget;
    if limits
        .kv_budget_bytes
        .is_some_and(|limit| limit as u64 > left)
    {
        let why = format!("the memory leaves {}", gigabytes(left as f64));
        idle(place.key("kv_budget_bytes"), why);
    }
    for engine in &world.engines {
        let limit = limits.engine_kv_budget_bytes.get(&engine.name);
        if limit.is_some_and(|limit| *limit as u64 > engine.kv_budget) {
            let why = format!("the engine may hold {}", gigabytes(engine.kv_budget as f64));
            idle(place.key("engine_kv_budget_bytes").key(&engine.name), why);
        }
    }
}

/// Modes of what does not happen with this model and the other modes.
fn modes<'d>(place: &Place<'d>, world: &World, idle: &mut dyn FnMut(Place<'d>, String)) {
    let (modes, graph) = (&world.modes, &world.frame_graph);
    let kind = |id: &StageId| world.stages[id.0 as usize].kind;
    if !modes.context_reuse && modes.state_transfer != StateTransfer::Auto {
        let why = "without context reuse every request rebuilds its context";
        idle(place.key("state_transfer"), why.into());
    }
    let streams = || world.streams.iter();
    if streams().any(|stream| stream.frames.is_some())
        && !graph.stages.iter().any(|id| kind(id) == StageKind::Encode)
        // Without reuse, it says whether a frame's other stages run ahead of any query.
        && (modes.context_reuse || graph.free == 0)
    {
        let why = "the model has no stage that encodes frames";
        idle(place.key("embedding_cache"), why.into());
    }
    if !streams().any(|stream| stream.queries.is_some()) {
        return;
    }
    let ingest = graph.stages[graph.bound_at as usize];
    let ingests = if modes.context_reuse {
        world.answers_join_history
    } else {
        // Its lane rebuilds each request's context.
        world.placement[ingest.0 as usize].is_some()
    };
    let prepared = modes.context_reuse || modes.embedding_cache && graph.free != 0;
    let both = streams().any(|stream| stream.frames.is_some() && stream.queries.is_some());
    if !(ingests || prepared && both) {
        let why = if both {
            "without context reuse no frame is ingested ahead of a query"
        } else {
            "no stream has both frames and queries"
        };
        idle(place.key("ingest_during_generation"), why.into());
    }
}

/// Believed costs that are the true ones, and a prediction where the mean tells every length already.
fn beliefs<'d>(place: &Place<'d>, world: &World, idle: &mut dyn FnMut(Place<'d>, String)) {
    if let Some(believed) = &world.believed_costs
        && format!("{believed:?}") == format!("{:?}", world.costs)
    {
        let why = "the believed costs equal the true ones";
        idle(place.key("costs"), why.into());
    }
    let constant = world
        .streams
        .iter()
        .filter_map(|stream| stream.queries.as_ref())
        .all(|queries| {
            let most = queries.output_max;
            match &queries.output {
                LengthPlan::Fixed(_) => true,
                LengthPlan::Uniform(low, high) => low == high || *low >= most,
                LengthPlan::Geometric { mean } => *mean <= 1.0,
                LengthPlan::Empirical(list) | LengthPlan::Listed(list) => list
                    .windows(2)
                    .all(|pair| pair[0].min(most) == pair[1].min(most)),
                LengthPlan::LogNormal { .. } => false,
            }
        });
    if constant && !matches!(world.prediction, LengthPrediction::Noisy { .. }) {
        let why = "the answers of each stream are all of one length";
        idle(place.key("output_tokens"), why.into());
    }
}

/// Counts that the horizon cuts before they are reached.
fn cut_counts<'d>(parts: &Parts<'d>, world: &World, idle: &mut dyn FnMut(Place<'d>, String)) {
    let streams = parts.scenario.root().key("streams");
    if world.horizon == Instant::NEVER {
        return;
    }
    for (index, raw) in parts.scenario.raw.streams.iter().enumerate() {
        let Some(plan) = first_plan(&world.streams, raw) else {
            continue;
        };
        let frames = plan.frames.as_ref().and_then(|frames| {
            let last = match &frames.clock {
                FrameTimes::Periodic { period_s, jitter_s } if *jitter_s == 0.0 => {
                    nth(frames.start, *period_s, frames.count)
                }
                FrameTimes::Listed(list) => listed(list, frames.count)?,
                FrameTimes::Periodic { .. } => return None,
            };
            Some(("frames", frames.count, last))
        });
        let queries = plan.queries.as_ref().and_then(|queries| {
            let last = match &queries.arrivals {
                QueryTimes::Periodic { period_s } => nth(queries.start, *period_s, queries.count),
                QueryTimes::Listed(list) => listed(list, queries.count)?,
                _ => return None,
            };
            Some(("queries", queries.count, last))
        });
        for (source, count, last) in frames.into_iter().chain(queries) {
            if last >= world.horizon {
                let key = streams.index(index).key(source).key("count");
                let why = format!("`run.horizon_s` comes before number {count}");
                idle(key, why);
            }
        }
    }
}

/// When a periodic source would have its last arrival.
fn nth(start: Instant, period_s: f64, count: u64) -> Instant {
    start + Duration::from_secs_f64(count.saturating_sub(1) as f64 * period_s)
}

fn listed(list: &[Instant], count: u64) -> Option<Instant> {
    list.get(count.checked_sub(1)? as usize).copied()
}
