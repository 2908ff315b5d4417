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
mod context;
mod estimate;
mod fail;
mod frames;
mod memo;
mod message;
pub mod policy;
mod run;
mod start;
mod state;

use std::cell::{Cell, OnceCell};
use std::collections::VecDeque;

pub use estimate::Estimate;
pub(crate) use estimate::intensity;
pub use message::{Completion, Effect, Effects, Input, Preparation, Reason, Task};
pub(crate) use state::lanes_of;

use context::{Resident, StreamState, answer_item, chain, frame_item};
use estimate::Quote;
use memo::{Service, ServiceMemo, SlowdownMemo};
use policy::{Decision, Policy, Request, View};
use state::{Class, Job, JobId, LaneState, NO_TICKET, Part, Plan, Ready, State, Step, UNBOUND};

use crate::contention::Load;
use crate::diag::Faults;
use crate::spec::model::StageKind;
use crate::spec::scenario::Binding;
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
    part_ended: bool,
}

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
            load: Load::NONE,
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
            rebuild_lane: None,
            transfer: policy.transfer().unwrap_or(world.modes.state_transfer),
            serial: policy.serial(),
            requests: 0,
            answers_running: 0,
            lanes_busy: 0,
            exclusive_running: 0,
            memo: SlowdownMemo::new(),
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
            self.place_ready(now, effects);
            self.start_lanes(now, effects);
            // A part without work ends as it starts, and may have made something ready.
            if !self.part_ended {
                break;
            }
        }
        if old_queues {
            self.state.keep_past(now);
        }
    }

    fn on_query(&mut self, now: Instant, mut job: Job, effects: &mut Effects) {
        let world = self.state.world;
        let reason = if self.state.requests >= world.max_requests {
            Some(Reason::QueueFull)
        } else if self.state.any_failed && !self.stages_have_lanes(Class::Query, 0) {
            Some(Reason::EngineFailed)
        } else {
            None
        };
        if let Some(reason) = reason {
            return effects.push(Effect::Refuse {
                ticket: job.ticket,
                stream: job.stream,
                index: job.index,
                query: true,
                arrived: now,
                reason,
            });
        }
        let stream = self.state.stream(job.stream);
        job.version = match world.binding {
            Binding::Arrived => stream.accepted,
            Binding::Published => stream.published,
            Binding::AtDispatch => UNBOUND,
        };
        if job.version != UNBOUND {
            job.context = stream.tokens(job.version, world.keep) as u32;
            let (stream, index, version) = (job.stream, job.index, job.version);
            effects.push(Effect::Bind {
                stream,
                index,
                version,
            });
        }
        self.state.requests += 1;
        let id = self.state.insert(job);
        self.issue(id, now);
        self.await_version(id, now, effects);
    }

    /// Places every free stage whose predecessors have ended.
    #[inline(always)]
    fn issue(&mut self, id: JobId, now: Instant) {
        let job = self.state.job(id);
        let graph = self.state.graph_of(job);
        if graph.free & !job.issued != 0 {
            self.issue_free(id, graph, now);
        }
    }

    /// Apart from [`Self::issue`], which most models end at: their queries have no free stage.
    #[inline(never)]
    fn issue_free(&mut self, id: JobId, graph: &Graph, now: Instant) {
        let modes = &self.state.world.modes;
        let nothing = match self.state.job(id).class {
            Class::Query => false,
            Class::Frame => !modes.context_reuse && !modes.embedding_cache,
            Class::Join => true,
        };
        if nothing {
            return;
        }
        for position in 0..graph.stages.len() as u8 {
            let job = self.state.job(id);
            let bit = 1u32 << position;
            let after = graph.after[position as usize];
            if job.issued & bit != 0 || after & !job.done != 0 || graph.is_bound(position) {
                continue;
            }
            self.state.job_mut(id).issued |= bit;
            let lanes = self.state.stage_lanes[graph.stages[position as usize].0 as usize];
            match self.state.earliest(id, Part::Free(position), lanes, now) {
                Some(lane) => self.enqueue(id, Part::Free(position), lane),
                None => self.state.job_mut(id).issued &= !bit,
            }
        }
    }

    /// Lets a request on once its version is published and the stages before its prefill have ended.
    fn await_version(&mut self, id: JobId, now: Instant, effects: &mut Effects) {
        let graph = &self.state.world.query_graph;
        let job = self.state.job(id);
        let before = graph.after[graph.bound_at as usize];
        if before & !job.done != 0 || job.issued & (1 << graph.bound_at) != 0 {
            return;
        }
        let stream = job.stream;
        if job.version != UNBOUND && job.version > self.state.stream(stream).published {
            if !self.state.stream(stream).waiting.contains(&id) {
                self.state.stream_mut(stream).waiting.push(id);
            }
            return;
        }
        self.state.job_mut(id).issued |= 1 << graph.bound_at;
        self.make_ready(id, now, effects);
    }

    #[inline(always)]
    fn make_ready(&mut self, id: JobId, now: Instant, effects: &mut Effects) {
        let job = self.state.job(id);
        let tokens = self.state.tokens_needed(job);
        let reason = if tokens > self.state.world.model.max_context_tokens.into() {
            Some(Reason::ContextTooLong)
        } else if self.state.answer_lanes == 0 {
            Some(Reason::EngineFailed)
        } else if !self.ever_fits(self.state.answer_lanes, tokens) {
            Some(Reason::NeverFits)
        } else {
            None
        };
        if let Some(reason) = reason {
            return self.refuse_query(id, reason, effects);
        }
        match self.rebuild_lane(id) {
            Some(lane) => self.enqueue(id, Part::Rebuild, lane),
            None => self.offer(id, now),
        }
    }

    /// The lane that rebuilds a request's context for it alone, if one does and has not yet.
    #[inline(always)]
    fn rebuild_lane(&self, id: JobId) -> Option<LaneId> {
        let world = self.state.world;
        let lane = self.state.rebuild_lane?;
        let job = self.state.job(id);
        let bytes = self.state.kv_bytes(self.state.context_for(job).into());
        let budget = world.engines[world.engine_of(lane).0 as usize].kv_budget;
        (job.rebuilt_on.is_none() && bytes <= budget).then_some(lane)
    }

    /// Offers a request to the policy.
    #[inline(always)]
    fn offer(&mut self, id: JobId, now: Instant) {
        let stream = self.state.job(id).stream;
        self.state.stream_mut(stream).ready_answers += 1;
        let rank = self.policy.rank(
            &View {
                state: &self.state,
                now,
            },
            Request(id),
        );
        let (job, ready) = (id, &mut self.state.ready);
        if ready.back().is_none_or(|last| last.rank <= rank) {
            ready.push_back(Ready { job, rank });
        } else {
            let at = ready.partition_point(|ready| ready.rank <= rank);
            ready.insert(at, Ready { job, rank });
        }
    }

    /// Whether a context of `tokens` fits an empty engine behind one of `lanes`.
    #[inline(always)]
    fn ever_fits(&self, lanes: u16, tokens: u64) -> bool {
        let bytes = self.state.kv_bytes(tokens);
        if bytes <= self.state.fits_everywhere {
            return lanes != 0;
        }
        let world = self.state.world;
        bytes <= world.memory.kv_budget
            && lanes_of(lanes)
                .any(|lane| bytes <= world.engines[world.engine_of(lane).0 as usize].kv_budget)
    }

    /// Queues a part on a lane: queries before frames, in order of placement within each.
    fn enqueue(&mut self, id: JobId, part: Part, lane: LaneId) {
        let item = self.state.item(id, part, lane);
        let lane = self.state.lane_mut(lane);
        if item.query {
            return lane.push_query(item);
        }
        lane.backlog += item.estimate;
        let at = lane
            .frames
            .partition_point(|other| other.arrived <= item.arrived);
        lane.frames.insert(at, item);
    }

    /// Asks the policy about every ready request, in order of rank.
    #[inline(always)]
    fn place_ready(&mut self, now: Instant, effects: &mut Effects) {
        if self.state.ready.is_empty() {
            return;
        }
        if self.state.answer_lanes == 0 {
            while let Some(ready) = self.state.ready.pop_front() {
                let stream = self.state.job(ready.job).stream;
                self.state.stream_mut(stream).ready_answers -= 1;
                self.refuse_query(ready.job, Reason::EngineFailed, effects);
            }
            return;
        }
        let mut at = 0;
        while at < self.state.ready.len() {
            let job = self.state.ready[at].job;
            match self.policy.place(
                &View {
                    state: &self.state,
                    now,
                },
                Request(job),
            ) {
                decision @ (Decision::Place(lane) | Decision::PlaceFor(lane, _)) => {
                    assert!(
                        self.state.answer_lanes & (1 << lane.0) != 0,
                        "the policy placed a request on lane {}, which cannot answer",
                        lane.0
                    );
                    if at == 0 {
                        self.state.ready.pop_front();
                    } else {
                        self.state.ready.remove(at);
                    }
                    let item = match decision {
                        Decision::PlaceFor(_, expected) => {
                            self.state.item_for(job, Part::Bound, expected.0)
                        }
                        _ => self.state.item(job, Part::Bound, lane),
                    };
                    self.state.lane_mut(lane).push_query(item);
                }
                Decision::Wait => at += 1,
                Decision::WaitAll => return,
            }
        }
    }

    #[cold]
    fn refuse_query(&mut self, id: JobId, reason: Reason, effects: &mut Effects) {
        let job = self.state.job(id);
        effects.push(Effect::Refuse {
            ticket: job.ticket,
            stream: job.stream,
            index: job.index,
            query: true,
            arrived: job.arrived,
            reason,
        });
        self.state.requests -= 1;
        self.withdraw(id);
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
        self.state.rebuild_lane = if world.modes.context_reuse {
            None
        } else {
            world.placement[ingest.0 as usize].filter(|lane| usable & (1 << lane.0) != 0)
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
        frames_behind: 0,
        output: 0,
        avoid: 0,
        gone: false,
        free: false,
    }
}
