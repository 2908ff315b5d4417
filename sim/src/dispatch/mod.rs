//! The scheduler: a state machine without IO, clock or randomness.
//!
//! [`Dispatcher::handle`] takes what happened and when, and appends what it asks for. It owns queues,
//! lanes, versioned contexts, residency and memory, and keeps the numbered invariants. Choices are a
//! [`policy::Policy`]'s.
//!
//! Path of a frame: accepted as the next item of its stream's context, its free stages (encode, …)
//! placed at once, its ingest placed when all earlier items are published; then it is published.
//! Path of a query: bound to a version, ready when that is published, placed by the policy on a lane,
//! prepared there (reuse, import, reconstruct), prefilled, decoded, complete.

mod audit;
mod begin;
mod beside;
mod context;
mod estimate;
mod fail;
mod frames;
mod memo;
mod message;
pub mod policy;
mod requests;
mod residency;
mod run;
mod start;
mod starting;
mod state;

use std::cell::{Cell, OnceCell};
use std::collections::VecDeque;

pub use estimate::Estimate;
pub(crate) use estimate::intensity;
pub use message::{Completion, Effect, Effects, Input, Preparation, Reason, Task};
pub(crate) use state::lanes_of;

use context::{StreamState, answer_item, chain, frame_item};
use estimate::Quote;
use memo::{Service, ServiceMemo, SlowdownMemo};
use policy::{Policy, View};
use residency::Resident;
use state::{Class, Job, JobId, LaneState, NO_TICKET, Plan, State, Step, UNBOUND};

use crate::contention::Load;
use crate::diag::Faults;
use crate::spec::model::StageKind;
use crate::time::Instant;
use crate::world::{
    ENGINES_MAX, EngineId, Graph, Lane, LaneId, STAGES_MAX, StageId, StreamId, World,
};

/// Versions after which a windowed context's old items are looked at for pruning.
const PRUNE_EVERY: usize = 1024;

/// Digest of an answer: what it read, and what was asked.
///
/// The serial run gives the same for the same version and query.
pub fn answer_digest(version_digest: u64, query: u32, prompt: u32) -> u64 {
    chain(version_digest, answer_item(query, prompt))
}

/// Digest of a stream's empty context.
pub fn stream_digest(name: &str) -> u64 {
    name.bytes()
        .fold(0, |digest, byte| chain(digest, byte.into()))
}

/// Digest of a context after one more frame.
pub fn frame_digest(digest: u64, index: u32, tokens: u32) -> u64 {
    chain(digest, frame_item(index, tokens))
}

/// Digest of a context after one more answer of `tokens` tokens, its prompt included.
pub fn joined_digest(digest: u64, query: u32, tokens: u32) -> u64 {
    chain(digest, answer_item(query, tokens))
}

/// The scheduler.
#[derive(Debug)]
pub struct Dispatcher<'w> {
    state: State<'w>,
    policy: Box<dyn Policy>,
    ready_scratch: Vec<JobId>,
    /// Streams of which a question has ended, where answers join.
    joins_due: Vec<StreamId>,
    part_ended: bool,
}

/// Of no request.
const NO_ESTIMATE: (JobId, LaneId, Instant) = (JobId(u32::MAX), LaneId(u8::MAX), Instant::NEVER);

impl<'w> Dispatcher<'w> {
    /// A scheduler with the world's own policy.
    pub fn new(world: &'w World) -> Self {
        Self::with_policy(world, policy::build(world))
    }

    /// A scheduler with a policy that the caller wrote.
    pub fn with_policy(world: &'w World, policy: Box<dyn Policy>) -> Self {
        let lane = |of: &Lane| LaneState {
            engine: of.engine,
            queries: VecDeque::with_capacity(64),
            frames: VecDeque::with_capacity(64),
            held: None,
            paused: None,
            step: Step::Blocked,
            stage: StageId(0),
            running: false,
            groups: 0,
            expected_end: Instant::ZERO,
            backlog_queries: 0,
            backlog: 0,
            stage_end: Instant::ZERO,
            load: Load::NONE,
            later: Load::NONE,
            failed: false,
        };
        let streams = world.streams.len();
        let state = State {
            world,
            jobs: Vec::with_capacity(64),
            free_jobs: Vec::with_capacity(64),
            lanes: world.lanes.iter().map(lane).collect(),
            streams: vec![StreamState::default(); streams],
            residents: vec![Resident::default(); streams * world.engines.len()],
            kv_used: [0; ENGINES_MAX],
            kv_total: 0,
            kv_peak: 0,
            ready: VecDeque::with_capacity(64),
            stage_lanes: [0; STAGES_MAX],
            answer_lanes: 0,
            ingest_lanes: 0,
            rebuilders: 0,
            dead_engines: 0,
            any_failed: false,
            rebuild_lanes: 0,
            transfer: policy.transfer().unwrap_or(world.modes.state_transfer),
            serial: policy.serial(),
            requests: 0,
            answers_running: 0,
            lanes_busy: 0,
            exclusive_running: 0,
            memo: SlowdownMemo::new(),
            delays: vec![Cell::new(0); world.lanes.len()],
            delays_of: Cell::new(NO_ESTIMATE),
            services: ServiceMemo::new(),
            now: Instant::ZERO,
            quotes: std::array::from_fn(|_| Cell::new(Quote::NONE)),
            fits_everywhere: 0,
            throttled: 0,
            past: VecDeque::new(),
            fault: OnceCell::new(),
        };
        let mut dispatcher = Self {
            state,
            policy,
            ready_scratch: Vec::new(),
            joins_due: Vec::new(),
            part_ended: false,
        };
        dispatcher.reset();
        dispatcher
    }

    /// Back to the start of a run; allocations stay.
    pub fn reset(&mut self) {
        let state = &mut self.state;
        let world = state.world;
        state.jobs.clear();
        state.free_jobs.clear();
        state.ready.clear();
        for lane in &mut state.lanes {
            lane.queries.clear();
            lane.frames.clear();
            lane.held = None;
            lane.paused = None;
            lane.step = Step::Blocked;
            lane.running = false;
            lane.backlog = 0;
            lane.backlog_queries = 0;
            lane.failed = false;
        }
        state.now = Instant::ZERO;
        state.delays_of.set(NO_ESTIMATE);
        state.quotes = std::array::from_fn(|_| Cell::new(Quote::NONE));
        state.fits_everywhere = world
            .engines
            .iter()
            .map(|engine| engine.kv_budget)
            .fold(world.memory.kv_budget, u64::min);
        for (stream, plan) in state.streams.iter_mut().zip(&world.streams) {
            stream.reset(world.model.system_tokens, stream_digest(&plan.name));
        }
        state.residents.fill(Resident::default());
        state.kv_used = [0; ENGINES_MAX];
        state.kv_total = 0;
        state.kv_peak = 0;
        state.requests = 0;
        state.answers_running = 0;
        state.lanes_busy = 0;
        state.exclusive_running = 0;
        state.dead_engines = 0;
        state.any_failed = false;
        state.fault.take();
        state.past.clear();
        if state.throttled > 0 {
            state.throttle(0);
        }
        self.joins_due.clear();
        self.policy.reset();
        self.find_able_lanes();
    }

    /// The view that the policy decides by.
    pub fn view(&self, now: Instant) -> View<'_> {
        View {
            state: &self.state,
            now,
        }
    }

    /// What the policy stopped the run with during the last input, if it did. What that input asked for is then
    /// of no use.
    #[inline]
    pub fn take_fault(&mut self) -> Option<Faults> {
        self.state.fault.take().map(|faults| *faults)
    }

    /// Most KV bytes held at once so far.
    pub fn peak_kv_bytes(&self) -> u64 {
        self.state.kv_peak
    }

    /// Takes one input, and appends what it asks for. `now` never falls from call to call.
    pub fn handle(&mut self, now: Instant, input: Input, effects: &mut Effects) {
        self.state.now = now;
        let old_queues = self.state.world.queue_delay.0 > 0;
        if old_queues {
            self.state.forget_past(now);
        }
        match input {
            Input::Frame {
                ticket,
                stream,
                index,
                tokens,
            } => {
                self.on_frame(now, ticket, stream, index, tokens, effects);
            }
            Input::Query {
                ticket,
                stream,
                index,
                prompt,
                predicted,
                max_output,
                deadline,
            } => {
                let job = Job {
                    ticket,
                    prompt,
                    predicted: predicted.max(1),
                    max_output,
                    deadline,
                    ..blank(Class::Query, stream, index, now)
                };
                self.on_query(now, job, effects);
            }
            Input::Finish { lane, tokens, .. } => self.on_finish(now, lane, tokens, effects),
            Input::Fail { lane } => self.on_fail(now, lane, effects),
            Input::Throttle { level } => self.state.throttle(level),
            Input::Close => return self.refuse_everything(effects),
        }
        loop {
            self.part_ended = false;
            if !self.joins_due.is_empty() {
                self.join_in_turn(now, effects);
            }
            self.place_ready(now, effects);
            self.start_lanes(now, effects);
            // A part without work ends as it starts, and may have made something ready.
            if !self.part_ended && self.joins_due.is_empty() {
                break;
            }
        }
        if old_queues {
            self.state.keep_past(now);
        }
    }

    /// The run is over: what no lane has taken ends now.
    #[cold]
    fn refuse_everything(&mut self, effects: &mut Effects) {
        for index in 0..self.state.jobs.len() as u32 {
            let id = JobId(index);
            let job = self.state.job(id);
            if job.free || job.gone {
                continue;
            }
            match job.class {
                Class::Query => self.refuse_query(id, Reason::Unserved, effects),
                Class::Frame => {
                    effects.push(Effect::Refuse {
                        ticket: job.ticket,
                        stream: job.stream,
                        index: job.index,
                        query: false,
                        arrived: job.arrived,
                        reason: Reason::Unserved,
                    });
                    self.withdraw(id);
                }
                Class::Join => self.withdraw(id),
            }
        }
        for stream in &mut self.state.streams {
            stream.pending.clear();
            stream.pending_frames = 0;
        }
    }

    /// Which lanes can do what, failed ones left out.
    fn find_able_lanes(&mut self) {
        let world = self.state.world;
        let only = self.policy.only_lane();
        self.state.rebuilders = (0..world.engines.len() as u8)
            .filter(|&engine| {
                let reconstruct = world.transfer.reconstruct;
                world.costs.get(EngineId(engine), reconstruct).is_some()
            })
            .fold(0, |mask, engine| mask | 1 << engine);
        let able =
            |lane: LaneId, stage: StageId| world.costs.get(world.engine_of(lane), stage).is_some();
        let mut usable = 0u16;
        for (index, lane) in self.state.lanes.iter().enumerate() {
            usable |= u16::from(!lane.failed) << index;
        }
        for (index, stage) in world.stages.iter().enumerate() {
            let id = StageId(index as u8);
            let mut mask = lanes_of(usable)
                .filter(|&lane| able(lane, id))
                .fold(0, with);
            if let Some(lane) = world.placement[index] {
                mask &= 1 << lane.0;
            } else if let Some(lane) = only
                && mask & (1 << lane.0) != 0
                && stage.kind != StageKind::Export
            {
                mask = 1 << lane.0;
            }
            self.state.stage_lanes[index] = mask;
        }
        let of = |state: &State<'_>, graph: &Graph, position: u8| {
            state.stage_lanes[graph.stages[position as usize].0 as usize]
        };
        let query = &world.query_graph;
        self.state.answer_lanes =
            of(&self.state, query, query.bound_at) & of(&self.state, query, query.bound_end);
        let frame = &world.frame_graph;
        self.state.ingest_lanes = of(&self.state, frame, frame.bound_at);
        let ingest = frame.stages[frame.bound_at as usize];
        let transfer = world.transfer;
        let mut answering = lanes_of(self.state.answer_lanes);
        self.state.rebuild_lanes = if world.modes.context_reuse {
            0
        } else if let Some(lane) = world.placement[ingest.0 as usize] {
            usable & (1 << lane.0)
        } else if answering
            .clone()
            .any(|lane| able(lane, transfer.reconstruct))
            || !answering.any(|lane| able(lane, transfer.import))
        {
            0
        } else {
            lanes_of(self.state.stage_lanes[transfer.reconstruct.0 as usize])
                .filter(|&lane| able(lane, transfer.export))
                .fold(0, with)
        };
    }
}

fn with(mask: u16, lane: LaneId) -> u16 {
    mask | (1 << lane.0)
}

impl Graph {
    /// Whether the stage at `position` runs on the lane that holds the job.
    #[inline]
    pub(crate) fn is_bound(&self, position: u8) -> bool {
        self.bound & (1 << position) != 0
    }
}

impl<'w> State<'w> {
    /// The stage graph of a job.
    #[inline]
    pub(crate) fn graph(&self, id: JobId) -> &'w Graph {
        self.graph_of(self.job(id))
    }

    /// As [`Self::graph`].
    #[inline(always)]
    pub(crate) fn graph_of(&self, job: &Job) -> &'w Graph {
        match job.class {
            Class::Query => &self.world.query_graph,
            Class::Frame | Class::Join => &self.world.frame_graph,
        }
    }
}

fn blank(class: Class, stream: StreamId, index: u32, now: Instant) -> Job {
    Job {
        class,
        stream,
        index,
        ticket: NO_TICKET,
        arrived: now,
        deadline: None,
        prompt: 0,
        predicted: 0,
        max_output: 0,
        version: UNBOUND,
        tokens: 0,
        done: 0,
        issued: 0,
        lane: LaneId(0),
        plan: Plan::default(),
        preparation: Preparation::Reuse,
        context: 0,
        service: Service::NONE,
        private_bytes: 0,
        rebuilt_on: None,
        rebuilt_bytes: 0,
        started: Instant::ZERO,
        first_token: Instant::ZERO,
        newest_frame: None,
        missed_frame: None,
        frames_behind: 0,
        output: 0,
        avoid: 0,
        gone: false,
        free: false,
    }
}
