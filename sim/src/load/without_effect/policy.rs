//! Keys of a scenario that its policy never reads, and policies that have nothing to decide.

use super::super::compile::Parts;
use super::super::document::Place;
use super::Idle;
use crate::cost::StageCosts;
use crate::dispatch::{Dispatcher, lanes_of, policy};
use crate::spec::scenario::{LengthPrediction, Policy, StateTransfer};
use crate::spec::soc::EngineKind;
use crate::time::Instant;
use crate::world::{EngineId, Graph, Lane, LaneId, StageId, World};

/// Keys, other than at their defaults, that the world's policy does not read.
pub(super) fn of<'d>(parts: &Parts<'d>, world: &World) -> Vec<Idle<'d>> {
    let root = parts.scenario.root();
    let mut found = unasked(&root, world);
    let mut unread = |table: &str, key: &str, why: Option<String>| {
        let place = root.key(table).key(key);
        if let Some(why) = why.filter(|_| place.is_present()) {
            found.push(Idle::under_the_policy(place, why));
        }
    };
    let transfer = world.modes.context_reuse && world.modes.state_transfer != StateTransfer::Auto;
    let lengths = world.prediction != LengthPrediction::Mean;
    let costs = world.believed_costs.is_some();
    let modes = &world.modes;
    let all = modes.concurrent_generation && modes.ingest_during_generation;
    let confined = Confined::of(parts);
    if all && !transfer && !lengths && !costs && !confined.any() {
        return found;
    }
    let reach = Reach::of(world);
    if transfer {
        unread("modes", "state_transfer", reach.no_transfer(world));
    }
    if !world.modes.concurrent_generation {
        let why = reach.never_concurrent(world);
        unread("modes", "concurrent_generation", why);
    }
    if !world.modes.ingest_during_generation {
        let why = reach.never_beside(world);
        unread("modes", "ingest_during_generation", why);
    }
    if lengths {
        unread("beliefs", "output_tokens", reach.no_lengths(world));
    }
    if costs {
        unread("beliefs", "costs", reach.no_costs(world));
    }
    if confined.background {
        let bandwidth = world.memory.background_bandwidth > 0.0;
        let why = bandwidth.then(|| reach.no_traffic(world)).flatten();
        unread("background", "bandwidth_gbps", why);
        let cores = world.cpu.background_cores > 0.0;
        let why = cores.then(|| reach.no_cores(world)).flatten();
        unread("background", "cpu_cores", why);
    }
    found.extend(confined.unread(&root, &reach, world));
    found
}

/// Keys that are about single engines or lanes, of which the policy may leave out some.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each key is judged or not, whatever the others are"
)]
struct Confined {
    background: bool,
    budgets: bool,
    exclusive: bool,
    placement: bool,
}

impl Confined {
    fn of(parts: &Parts<'_>) -> Self {
        let scenario = &parts.scenario.raw;
        let background = &scenario.background;
        Self {
            background: background.bandwidth_gbps > 0.0 || background.cpu_cores > 0.0,
            budgets: !scenario.limits.engine_kv_budget_bytes.is_empty(),
            exclusive: !scenario.exclusive.is_empty(),
            placement: !scenario.placement.is_empty(),
        }
    }

    fn any(&self) -> bool {
        self.background || self.budgets || self.exclusive || self.placement
    }

    fn unread<'d>(&self, root: &Place<'d>, reach: &Reach, world: &World) -> Vec<Idle<'d>> {
        let mut found = Vec::new();
        let policy = &world.policy;
        if self.budgets {
            let budgets = root.key("limits").key("engine_kv_budget_bytes");
            for (engine, id) in world.engines.iter().zip((0..).map(EngineId)) {
                let place = budgets.key(&engine.name);
                if place.is_present() && !reach.holds_contexts(world, id) {
                    let why = format!("under policy `{policy}` the engine holds no context");
                    found.push(Idle::under_the_policy(place, why));
                }
            }
        }
        if self.exclusive {
            let groups = root.key("exclusive");
            for group in 0..groups.len() {
                let place = groups.index(group);
                if let Some(why) = reach.never_excludes(world, group) {
                    found.push(Idle::under_the_policy(place, why));
                }
            }
        }
        if self.placement
            && let Some(only) = reach.policy.only_lane()
            // Without reuse, the lane of ingests rebuilds each request's context.
            && world.modes.context_reuse
        {
            let placement = root.key("placement");
            for (stage, fixed) in world.stages.iter().zip(&world.placement) {
                if *fixed == Some(only) {
                    let why = format!("policy `{policy}` puts it there anyway");
                    found.push(Idle::under_the_policy(placement.key(&stage.name), why));
                }
            }
        }
        found
    }
}

/// Parameters that the scenario gives a script which never asks for them.
fn unasked<'d>(root: &Place<'d>, world: &World) -> Vec<Idle<'d>> {
    let (Policy::Script { script, params }, Some(program)) = (&world.policy, &world.script) else {
        return Vec::new();
    };
    let given = root.key("policy").key("params");
    let unasked = params.keys().filter(|name| !program.may_ask_for(name));
    let unread = unasked.map(|name| {
        let why = format!("`{script}` never asks for `param(\"{name}\")`");
        Idle::under_the_policy(given.key(name), why)
    });
    unread.filter(|unread| unread.place.is_present()).collect()
}

/// A policy that has nothing to decide.
pub(super) fn undecided(root: &Place<'_>, world: &World) -> Option<String> {
    let mut queries = world.streams.iter().filter_map(|s| s.queries.as_ref());
    if world.policy == Policy::EarliestDeadlineFirst {
        let no_deadline = queries.all(|queries| queries.deadline.is_none());
        return no_deadline.then(|| {
            "policy `earliest_deadline_first` orders nothing: no query has `deadline_s`".to_owned()
        });
    }
    // Who left the policy out chose none.
    if !root.key("policy").is_present() && world.policy == Policy::default() {
        return None;
    }
    let graph = &world.query_graph;
    let bound = [graph.bound_at, graph.bound_end].map(|at| graph.stages[at as usize]);
    let stage = bound
        .into_iter()
        .find(|stage| world.placement[stage.0 as usize].is_some())?;
    let lane = world.placement[stage.0 as usize]?;
    let able = |lane: &&Lane| {
        bound
            .iter()
            .all(|&stage| world.costs.get(lane.engine, stage).is_some())
    };
    if world.lanes.iter().filter(able).count() < 2 {
        return None;
    }
    let stage = &world.stages[stage.0 as usize].name;
    let lane = &world.lanes[lane.0 as usize].name;
    match &world.policy {
        Policy::Single { lane: wanted } if wanted == lane => None,
        Policy::Single { lane: wanted } => Some(format!(
            "`placement` fixes `{stage}` on lane `{lane}`: answers run there, and not on `{wanted}` as policy `single` says"
        )),
        // These choose an order, too.
        Policy::Serial | Policy::ShortestJobFirst | Policy::EarliestDeadlineFirst => None,
        _ => Some(format!(
            "`placement` fixes `{stage}` on lane `{lane}`: the policy chooses no lane for answers"
        )),
    }
}

/// The lanes between which a policy, or the scheduler for it, chooses.
struct Reach {
    policy: Box<dyn policy::Policy>,
    answer: Vec<LaneId>,
    ingest: Vec<LaneId>,
    /// Most lanes of a stage that is placed by itself.
    free: usize,
    /// Whether all stages of frames and answers run on one lane.
    one_lane: bool,
    /// Lanes that may run each stage that runs at all, by stage.
    lanes: Vec<(StageId, Vec<LaneId>)>,
}

impl Reach {
    fn of(world: &World) -> Self {
        let dispatcher = Dispatcher::new(world);
        let view = dispatcher.view(Instant::ZERO);
        let frames = world.streams.iter().any(|stream| stream.frames.is_some());
        let asks = world.streams.iter().any(|stream| stream.queries.is_some());
        let free = |graph: &Graph| {
            let stages = graph.stages.iter().enumerate();
            let free = stages.filter(|(position, _)| graph.free & (1 << position) != 0);
            let lanes =
                free.map(|(_, stage)| lanes_of(view.state.stage_lanes[stage.0 as usize]).count());
            lanes.max().unwrap_or(0)
        };
        let ingests = frames || world.answers_join_history;
        let stages = world.frame_graph.stages.iter();
        let ingesting = stages.fold(0, |lanes, stage| {
            lanes | view.state.stage_lanes[stage.0 as usize]
        });
        let used = lanes_of(ingesting).chain(view.answer_lanes());
        let mut used: Vec<LaneId> = used.collect();
        used.sort_unstable();
        used.dedup();
        let graphs = [(asks, &world.query_graph), (frames, &world.frame_graph)];
        let graphs = graphs.into_iter().filter(|(runs, _)| *runs);
        let mut reach = Self {
            policy: policy::build(world),
            answer: view.answer_lanes().filter(|_| asks).collect(),
            ingest: view.ingest_lanes().filter(|_| ingests).collect(),
            free: graphs
                .clone()
                .map(|(_, graph)| free(graph))
                .max()
                .unwrap_or(0),
            one_lane: used.len() == 1,
            lanes: Vec::new(),
        };
        for (_, graph) in graphs {
            for (position, &stage) in graph.stages.iter().enumerate() {
                let lanes = if graph.free & (1 << position) != 0 {
                    lanes_of(view.state.stage_lanes[stage.0 as usize]).collect()
                } else if std::ptr::eq(graph, &raw const world.query_graph) {
                    reach.answer.clone()
                } else {
                    reach.ingest.clone()
                };
                reach.lanes.push((stage, lanes));
            }
        }
        if ingests && !frames {
            let graph = &world.frame_graph;
            let ingest = graph.stages[graph.bound_at as usize];
            reach.lanes.push((ingest, reach.ingest.clone()));
        }
        let mut holders: Vec<LaneId> = reach.answer.iter().chain(&reach.ingest).copied().collect();
        holders.sort_unstable();
        holders.dedup();
        // Where reuse is off, other lanes may rebuild.
        holders.extend(lanes_of(view.state.rebuild_lanes));
        if reach.no_transfer(world).is_none() && world.modes.context_reuse {
            reach.lanes.push((world.transfer.import, holders.clone()));
            // It never runs by itself: its bytes are the import's.
            reach.lanes.push((world.transfer.export, holders.clone()));
        }
        reach.lanes.push((world.transfer.reconstruct, holders));
        reach
    }

    /// What may run where: each stage with its costs on the engine of a lane.
    fn costs<'w>(&self, world: &'w World) -> impl Iterator<Item = (LaneId, &'w StageCosts)> {
        self.lanes.iter().flat_map(move |(stage, lanes)| {
            lanes.iter().filter_map(move |&lane| {
                Some((lane, world.costs.get(world.engine_of(lane), *stage)?))
            })
        })
    }

    fn holds_contexts(&self, world: &World, engine: EngineId) -> bool {
        let mut lanes = self.answer.iter().chain(&self.ingest);
        lanes.any(|&lane| world.engine_of(lane) == engine)
    }

    fn never_excludes(&self, world: &World, group: usize) -> Option<String> {
        if self.policy.serial() {
            return Some(format!("policy `{}` runs one part at a time", world.policy));
        }
        let mut running: Vec<LaneId> = Vec::new();
        for (stage, lanes) in &self.lanes {
            let in_group = lanes.iter().filter(|&&lane| {
                let engine = world.engine_of(lane).0 as usize;
                world.exclusive[engine][stage.0 as usize] >> group & 1 != 0
            });
            running.extend(in_group);
        }
        running.sort_unstable();
        running.dedup();
        (running.len() < 2).then(|| {
            format!(
                "under policy `{}` what it names runs on one lane at most",
                world.policy
            )
        })
    }

    fn no_traffic(&self, world: &World) -> Option<String> {
        let moves = |costs: &StageCosts| costs.alone.moves_bytes();
        let none = !self.costs(world).any(|(_, costs)| moves(costs));
        (none && !super::values::slows_what_moves_nothing(world)).then(|| {
            format!(
                "under policy `{}` no stage that runs states the bytes that it moves",
                world.policy
            )
        })
    }

    fn no_cores(&self, world: &World) -> Option<String> {
        let on_cpu = |lane| {
            let engine = world.engine_of(lane).0 as usize;
            world.engines[engine].kind == EngineKind::Cpu
        };
        let mut costs = self.costs(world);
        let wants = costs.any(|(lane, costs)| on_cpu(lane) || costs.host_share > 0.0);
        (!wants).then(|| {
            format!(
                "under policy `{}` no stage runs on the CPU or has a `host_share`",
                world.policy
            )
        })
    }

    /// Engines that may hold contexts.
    fn engines(&self, world: &World) -> usize {
        let lanes = self.answer.iter().chain(&self.ingest);
        let mut engines: Vec<EngineId> = lanes.map(|&lane| world.engine_of(lane)).collect();
        engines.sort_unstable();
        engines.dedup();
        engines.len()
    }

    fn no_transfer(&self, world: &World) -> Option<String> {
        if self.policy.transfer().is_some() {
            return Some(format!(
                "policy `{}` moves no KV between engines",
                world.policy
            ));
        }
        (self.engines(world) < 2).then(|| {
            format!(
                "under policy `{}` one engine holds all contexts",
                world.policy
            )
        })
    }

    fn never_concurrent(&self, world: &World) -> Option<String> {
        if self.policy.serial() {
            return Some(format!("policy `{}` runs one part at a time", world.policy));
        }
        (self.answer.len() < 2)
            .then(|| format!("under policy `{}` one lane gives all answers", world.policy))
    }

    /// Answers go first in a lane's queue, so on one lane ingestion never overtakes them, if the policy places them at
    /// once: others hold them back, and the mode then holds ingestion back.
    fn never_beside(&self, world: &World) -> Option<String> {
        let at_once = matches!(
            world.policy,
            Policy::Single { .. } | Policy::Fixed { .. } | Policy::RoundRobin
        );
        let apart = world.modes.context_reuse && self.one_lane && at_once;
        apart.then(|| {
            format!(
                "under policy `{}` one lane ingests and gives all answers",
                world.policy
            )
        })
    }

    /// Expected lengths matter where something is chosen by expected times, or by the lengths themselves.
    fn no_lengths(&self, world: &World) -> Option<String> {
        let (answers, ingests) = match world.policy {
            Policy::Single { .. } | Policy::IdleFirst => (false, true),
            Policy::Naive | Policy::Fixed { .. } | Policy::RoundRobin => (false, false),
            // What an ingest takes by itself depends on no answer.
            Policy::Serial => (true, false),
            Policy::ReuseFirst | Policy::EarliestDeadlineFirst => (true, true),
            // Others order requests by them, or may let one wait for a better time.
            _ => return None,
        };
        (!self.chooses(answers, ingests)).then(|| {
            format!(
                "policy `{}` chooses nothing here by how long answers are",
                world.policy
            )
        })
    }

    /// Expected times choose lanes, the order of some policies, and how a version reaches an engine.
    fn no_costs(&self, world: &World) -> Option<String> {
        let (answers, ingests) = match world.policy {
            Policy::Single { .. } | Policy::IdleFirst => (false, true),
            Policy::Naive | Policy::Fixed { .. } | Policy::RoundRobin => (false, false),
            Policy::Serial | Policy::ReuseFirst | Policy::EarliestDeadlineFirst => (true, true),
            _ => return None,
        };
        let engines = self.engines(world);
        let moves = match self.policy.transfer().unwrap_or(world.modes.state_transfer) {
            _ if !world.modes.context_reuse => false,
            StateTransfer::Auto => engines > 1,
            // From which engine.
            StateTransfer::Import => engines > 2,
            StateTransfer::Reconstruct => false,
        };
        (!moves && !self.chooses(answers, ingests)).then(|| {
            format!(
                "policy `{}` chooses nothing here by expected times",
                world.policy
            )
        })
    }

    /// Whether there is a choice of lanes where a policy looks at its expectations for answers, or for ingests.
    fn chooses(&self, answers: bool, ingests: bool) -> bool {
        // What finds no room where it was placed goes to the best of the others.
        let moves = self.answer.len() > 2 || self.ingest.len() > 2;
        answers && self.answer.len() > 1
            || ingests && self.ingest.len() > 1
            || self.free > 1
            || moves
    }
}
