//! What a script may see, copied out of the scheduler when it is asked: estimates and state, never drawn work.
//!
//! A part that the script's text never names is not worked out.

use std::sync::Arc;

use rhai::ImmutableString;

use super::program::Program;
use crate::cost::CostTable;
use crate::dispatch::policy::{Request, View};
use crate::dispatch::state::{Class, Item, LaneState, Part, State};
use crate::dispatch::{Preparation, estimate};
use crate::spec::scenario::StateTransfer;
use crate::spec::soc::EngineKind;
use crate::time::Instant;
use crate::world::{EngineId, LaneId, StageId, StreamId, World};

/// Greatest time that a script sees, ns (73 years): what cannot be done counts as this, as in the estimator, and
/// four of them add up without overflow.
pub(super) const FOREVER: i64 = i64::MAX / 4;

/// A time in ns as a script sees it.
pub(super) fn ns(time: u64) -> i64 {
    i64::try_from(time).map_or(FOREVER, |time| time.min(FOREVER))
}

/// A count as a script sees it.
fn count(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn instant(at: Instant) -> i64 {
    ns(at.0)
}

/// What a part of a request is called.
pub(super) fn kind(class: Class) -> &'static str {
    match class {
        Class::Query => "query",
        Class::Frame => "frame",
        Class::Join => "answer",
    }
}

/// Names, and what of the view the script asks for.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a part of the view by itself"
)]
pub(super) struct Names {
    pub(super) lanes: Vec<ImmutableString>,
    pub(super) engines: Vec<ImmutableString>,
    pub(super) engine_kinds: Vec<ImmutableString>,
    pub(super) stages: Vec<ImmutableString>,
    pub(super) streams: Vec<ImmutableString>,
    /// Believed costs, with the stages that each engine can run.
    pub(super) costs: Option<(CostTable, CostTable)>,
    corun: bool,
    preparations: bool,
    queue: bool,
    contexts: bool,
}

fn text(name: &str) -> ImmutableString {
    name.into()
}

impl Names {
    pub(super) fn of(world: &World, program: Option<&Program>) -> Self {
        let asks = |words: &[&str]| {
            program.is_some_and(|program| words.iter().any(|word| program.names(word)))
        };
        let engines = || world.engines.iter();
        let kind = |engine: &crate::world::Engine| {
            text(match engine.kind {
                EngineKind::Cpu => "cpu",
                EngineKind::Gpu => "gpu",
                EngineKind::Npu => "npu",
            })
        };
        let costs = asks(&["stage_ns"]).then(|| {
            let believed = world.believed_costs.as_ref().unwrap_or(&world.costs);
            (believed.clone(), world.costs.clone())
        });
        Self {
            lanes: world.lanes.iter().map(|lane| text(&lane.name)).collect(),
            engines: engines().map(|engine| text(&engine.name)).collect(),
            engine_kinds: engines().map(kind).collect(),
            stages: world.stages.iter().map(|stage| text(&stage.name)).collect(),
            streams: world.streams.iter().map(|plan| text(&plan.name)).collect(),
            costs,
            corun: asks(&["beside_ns", "harm_ns"]),
            preparations: asks(&["preparation", "import_ns", "reconstruct_ns"]),
            queue: asks(&["queue"]),
            contexts: asks(&[
                "published",
                "accepted",
                "published_tokens",
                "pending_frames",
                "ready_queries",
                "resident_tokens",
                "resident_version",
            ]),
        }
    }
}

/// The whole view of one call.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) names: Arc<Names>,
    pub(super) now: i64,
    pub(super) ready: i64,
    pub(super) requests: i64,
    pub(super) kv_used: i64,
    pub(super) kv_budget: i64,
    pub(super) throttle: i64,
    pub(super) request: Asked,
    pub(super) candidates: Vec<Candidate>,
    pub(super) lanes: Vec<Lane>,
    pub(super) engines: Vec<Engine>,
    pub(super) streams: Vec<Stream>,
}

/// What is to be placed.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) stream: u16,
    pub(super) index: i64,
    pub(super) kind: &'static str,
    pub(super) arrived: i64,
    pub(super) deadline: Option<i64>,
    pub(super) prompt: i64,
    pub(super) predicted: i64,
    pub(super) max_output: i64,
    pub(super) tokens: i64,
    pub(super) version: i64,
    pub(super) context: i64,
}

/// A lane that may take it, with the estimator's costs.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) lane: LaneId,
    pub(super) wait: i64,
    pub(super) prepare: i64,
    pub(super) prefill: i64,
    pub(super) alone: i64,
    pub(super) beside: i64,
    pub(super) harm: i64,
    pub(super) missing: i64,
    pub(super) preparation: &'static str,
    pub(super) import: Option<i64>,
    pub(super) reconstruct: Option<i64>,
}

/// A lane.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) engine: u8,
    pub(super) in_service: bool,
    pub(super) idle: bool,
    pub(super) free: bool,
    pub(super) stage: Option<u8>,
    pub(super) held: Option<Queued>,
    pub(super) left: i64,
    pub(super) queued: i64,
    pub(super) backlog: i64,
    pub(super) queries: i64,
    pub(super) frames: i64,
    pub(super) intensity: f64,
    pub(super) queue: Vec<Queued>,
}

/// A part of a request or frame that a lane holds or that waits for it.
#[derive(Clone, Debug)]
pub(super) struct Queued {
    pub(super) stream: u16,
    pub(super) index: i64,
    pub(super) kind: &'static str,
    pub(super) arrived: i64,
    pub(super) expected: i64,
    pub(super) deadline: Option<i64>,
    pub(super) predicted: i64,
}

/// An engine.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) in_service: bool,
    pub(super) idle_w: Option<f64>,
    pub(super) active_w: Option<f64>,
    pub(super) kv_used: i64,
    pub(super) kv_budget: i64,
    pub(super) stretch: f64,
    /// By stream: newest version held, and its tokens.
    pub(super) residents: Vec<Option<(i64, i64)>>,
}

/// A stream's context.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) published: i64,
    pub(super) published_tokens: i64,
    pub(super) accepted: i64,
    pub(super) pending_frames: i64,
    pub(super) ready_queries: i64,
}

impl Facts {
    pub(super) fn of(
        view: &View<'_>,
        request: Request,
        lanes: impl Iterator<Item = LaneId>,
        names: &Arc<Names>,
    ) -> Self {
        let state = view.state;
        let world = state.world;
        let contexts = names.contexts;
        let all = || (0..world.streams.len() as u16).map(StreamId);
        Self {
            now: instant(view.now),
            ready: count(state.ready.len() as u64),
            requests: state.requests.into(),
            kv_used: count(state.kv_total),
            kv_budget: count(world.memory.kv_budget),
            throttle: state.throttled.into(),
            request: asked(state, request),
            candidates: lanes
                .map(|lane| candidate(view, request, lane, names))
                .collect(),
            lanes: (0..state.lanes.len() as u8)
                .map(|lane| lane_of(view, LaneId(lane), names))
                .collect(),
            engines: (0..world.engines.len() as u8)
                .map(|engine| engine_of(state, EngineId(engine), contexts))
                .collect(),
            streams: if contexts {
                all().map(|stream| stream_of(state, stream)).collect()
            } else {
                Vec::new()
            },
            names: Arc::clone(names),
        }
    }
}

fn asked(state: &State<'_>, request: Request) -> Asked {
    let job = state.job(request.0);
    let (version, context) = match job.class {
        Class::Query => (state.version_for(job), state.context_for(job).into()),
        Class::Frame | Class::Join => (
            job.version,
            count(state.context_tokens(job.stream, job.version - 1)),
        ),
    };
    Asked {
        stream: job.stream.0,
        index: job.index.into(),
        kind: kind(job.class),
        arrived: instant(job.arrived),
        deadline: job.deadline.map(instant),
        prompt: job.prompt.into(),
        predicted: job.predicted.into(),
        max_output: job.max_output.into(),
        tokens: job.tokens.into(),
        version: version.into(),
        context,
    }
}

fn candidate(view: &View<'_>, request: Request, lane: LaneId, names: &Names) -> Candidate {
    let state = view.state;
    let job = state.job(request.0);
    let query = job.class == Class::Query;
    let quote = state.quote(request.0, lane);
    let mut candidate = Candidate {
        lane,
        wait: ns(state.wait(lane, view.now, query)),
        prepare: ns(quote.prepare),
        prefill: ns(quote.service.prefill),
        alone: ns(quote.service.alone),
        beside: 0,
        harm: 0,
        missing: 0,
        preparation: "",
        import: None,
        reconstruct: None,
    };
    let engine = state.world.engine_of(lane);
    let version = if query {
        state.version_for(job)
    } else {
        job.version - 1
    };
    let stream = state.stream(job.stream);
    let resident = state.resident(engine, job.stream);
    candidate.missing = count(stream.missing(resident, version, state.world.keep));
    if names.corun {
        candidate.beside = candidate.alone;
        if query {
            let estimate = view.estimate(request, lane);
            candidate.beside = ns(estimate.beside);
            candidate.harm = ns(estimate.harm);
        }
    }
    if names.preparations && state.world.modes.context_reuse {
        let by = |transfer| state.plan_behind(job.stream, version, lane, transfer);
        let (copy, copied) = by(StateTransfer::Import);
        candidate.import = (copy.import > 0).then(|| ns(copied));
        let rebuilt = ns(by(StateTransfer::Reconstruct).1);
        candidate.reconstruct = (rebuilt < FOREVER).then_some(rebuilt);
        candidate.preparation = match state.plan_on(job.stream, version, lane).0.kind() {
            Preparation::Reuse => "reuse",
            Preparation::Import => "import",
            Preparation::Reconstruct => "reconstruct",
            Preparation::ImportAndReconstruct => "import_and_reconstruct",
        };
    } else if names.preparations {
        // Every request rebuilds its context, or copies what was rebuilt for it.
        candidate.preparation = "reconstruct";
        candidate.reconstruct = (candidate.prepare < FOREVER).then_some(candidate.prepare);
    }
    candidate
}

fn lane_of(view: &View<'_>, id: LaneId, names: &Names) -> Lane {
    let state = view.state;
    let lane: &LaneState = state.lane(id);
    let queue = if names.queue {
        lane.queued().map(|item| queued(state, item)).collect()
    } else {
        Vec::new()
    };
    Lane {
        engine: lane.engine.0,
        in_service: !lane.failed,
        idle: view.is_idle(id),
        free: view.is_free(id),
        stage: lane.running.then_some(lane.stage.0),
        held: lane.held.map(|item| queued(state, &item)),
        left: if lane.held.is_some() {
            ns(lane.expected_end.saturating_since(view.now).0)
        } else {
            0
        },
        queued: ns(lane.backlog_queries),
        backlog: ns(lane.backlog),
        queries: count(lane.queries.len() as u64),
        frames: count(lane.frames.len() as u64),
        intensity: if lane.running { lane.load.mu } else { 0.0 },
        queue,
    }
}

fn queued(state: &State<'_>, item: &Item) -> Queued {
    let job = state.job(item.job);
    Queued {
        stream: job.stream.0,
        index: job.index.into(),
        kind: match item.part {
            Part::Bound => kind(job.class),
            Part::Free(_) => "stage",
            Part::Rebuild => "rebuild",
        },
        arrived: instant(job.arrived),
        expected: ns(item.estimate),
        deadline: job.deadline.map(instant),
        predicted: job.predicted.into(),
    }
}

fn engine_of(state: &State<'_>, id: EngineId, contexts: bool) -> Engine {
    let engine = &state.world.engines[id.0 as usize];
    let streams = if contexts {
        state.world.streams.len() as u16
    } else {
        0
    };
    let resident = |stream| {
        let stream = StreamId(stream);
        let resident = state.resident(id, stream);
        let tokens = state
            .stream(stream)
            .resident_tokens(resident, state.world.keep);
        resident
            .present
            .then(|| (i64::from(resident.version), count(tokens)))
    };
    Engine {
        in_service: !state.is_dead(id),
        idle_w: engine.power.map(|power| power.idle_w),
        active_w: engine.power.map(|power| power.active_w),
        kv_used: count(state.kv_used[id.0 as usize]),
        kv_budget: count(engine.kv_budget),
        stretch: state.stretch(id),
        residents: (0..streams).map(resident).collect(),
    }
}

fn stream_of(state: &State<'_>, id: StreamId) -> Stream {
    let stream = state.stream(id);
    Stream {
        published: stream.published.into(),
        published_tokens: count(state.context_tokens(id, stream.published)),
        accepted: stream.accepted.into(),
        pending_frames: stream.pending_frames.into(),
        ready_queries: stream.ready_answers.into(),
    }
}

impl Facts {
    /// Expected time of a stage of this size on this context alone; `None` where the engine cannot run it.
    pub(super) fn stage_ns(
        &self,
        engine: usize,
        stage: usize,
        size: f64,
        context: f64,
    ) -> Option<i64> {
        let (believed, able) = self.names.costs.as_ref()?;
        let (id, stage) = (EngineId(engine as u8), StageId(stage as u8));
        able.get(id, stage)?;
        let secs = believed.get(id, stage)?.alone.at(size, context).secs;
        Some(ns(estimate::ns(secs * self.engines[engine].stretch)))
    }
}
