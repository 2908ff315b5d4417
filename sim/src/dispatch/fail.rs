//! Lanes that fail: what they ran goes elsewhere, or is refused; nothing hangs and nothing leaks.

use super::residency::Resident;
use super::state::{Class, Item, JobId, Part, Plan, State, UNBOUND};
use super::{Dispatcher, Effect, Effects, Reason};
use crate::time::Instant;
use crate::world::{EngineId, LaneId, StreamId};

impl Dispatcher<'_> {
    /// A lane is out of service: what it ran or held goes to other lanes, or is refused.
    #[cold]
    pub(super) fn on_fail(&mut self, now: Instant, lane: LaneId, effects: &mut Effects) {
        let engine = self.state.world.engine_of(lane);
        let state = self.state.lane_mut(lane);
        state.failed = true;
        self.state.any_failed = true;
        let state = self.state.lane_mut(lane);
        if std::mem::take(&mut state.running) {
            let groups = state.groups;
            self.state.exclusive_running &= !groups;
        }
        self.find_able_lanes();
        while let Some(item) = self.state.lane(lane).held {
            self.release_lane(lane);
            if self.state.job(item.job).gone {
                self.forget_if_idle(item.job);
            } else if self.can_run(item.job) {
                self.reroute(item, now, effects);
            }
        }
        for index in 0..self.state.jobs.len() as u32 {
            let id = JobId(index);
            let job = self.state.job(id);
            if !job.free && !job.gone && !self.can_run(id) {
                self.lose(id, Reason::EngineFailed, effects);
            }
        }
        // What a rerouted job takes with it leaves the queue too.
        for query in [true, false] {
            while let Some(&item) = self.state.lane_mut(lane).queue_mut(query).front() {
                self.dequeue(lane, item, 0);
                if item.query && item.part == Part::Bound {
                    let stream = self.state.job(item.job).stream;
                    self.state.stream_mut(stream).ready_answers -= 1;
                }
                self.reroute(item, now, effects);
            }
        }
        if !self.state.lanes.iter().enumerate().any(|(index, other)| {
            !other.failed && self.state.world.engine_of(LaneId(index as u8)) == engine
        }) {
            self.lose_engine(engine);
        }
    }

    /// Takes a lane from a part that will not end, and gives back what the part had reserved.
    pub(super) fn release_lane(&mut self, lane: LaneId) {
        if let Some(held) = self.state.lane(lane).held {
            self.let_go(lane);
            self.give_back(lane, held);
        }
    }

    /// Gives back what a part that will not end had reserved.
    fn give_back(&mut self, lane: LaneId, item: Item) {
        let (engine, now) = (self.state.world.engine_of(lane), self.state.now);
        let job = self.state.job(item.job);
        let (stream, class, plan) = (job.stream, job.class, job.plan);
        match item.part {
            Part::Free(_) => {
                if class != Class::Query {
                    self.state.stream_mut(stream).ingesting -= 1;
                }
                return;
            }
            Part::Rebuild => {
                let job = self.state.job_mut(item.job);
                let bytes = std::mem::take(&mut job.rebuilt_bytes);
                job.rebuilt_on = None;
                self.state.take_kv(engine, bytes);
                self.state.stream_mut(stream).ingesting -= 1;
            }
            Part::Bound => {
                if plan.source_pinned {
                    self.state.unpin(EngineId(plan.source), stream, now);
                }
                if class == Class::Query {
                    self.release_answer(item.job, engine, now);
                } else {
                    self.state.unpin(engine, stream, now);
                    self.state.stream_mut(stream).ingesting -= 1;
                }
            }
        }
        let graph = self.state.graph(item.job);
        let job = self.state.job_mut(item.job);
        job.plan = Plan::default();
        job.rebuilt_on = None;
        job.done &= !graph.bound;
        job.output = 0;
        if class == Class::Query && graph.free != 0 {
            self.recall_stages(item.job);
        }
    }

    /// Takes back the stages of a query that waited for what must be done again.
    fn recall_stages(&mut self, id: JobId) {
        let graph = self.state.graph(id);
        let done = self.state.job(id).done;
        let early = |item: &Item| match item.part {
            Part::Free(position) => item.job == id && graph.after[position as usize] & !done != 0,
            Part::Bound | Part::Rebuild => false,
        };
        let mut recalled = 0;
        for index in 0..self.state.lanes.len() {
            let lane = LaneId(index as u8);
            while let Some(at) = self.state.lane(lane).queries.iter().position(early) {
                let item = self.state.lane(lane).queries[at];
                self.dequeue(lane, item, at);
                recalled |= item.stage_bit();
            }
            let state = self.state.lane(lane);
            if let Some(held) = state.held.filter(early)
                && !state.running
            {
                self.let_go(lane);
                recalled |= held.stage_bit();
            }
        }
        self.state.job_mut(id).issued &= !recalled;
    }

    fn reroute(&mut self, item: Item, now: Instant, effects: &mut Effects) {
        let id = item.job;
        let graph = self.state.graph(id);
        let class = self.state.job(id).class;
        let stream = self.state.job(id).stream;
        match item.part {
            Part::Free(position) => {
                self.state.job_mut(id).issued &= !(1 << position);
                self.issue(id, now);
            }
            Part::Rebuild => self.make_ready(id, now, effects),
            Part::Bound if class == Class::Query => self.make_ready(id, now, effects),
            Part::Bound => {
                self.state.job_mut(id).issued &= !(1 << graph.bound_at);
                self.advance_stream(stream, now, effects);
            }
        }
    }

    /// A job that no lane can serve any more. A lost frame takes the later frames of its stream and
    /// the queries that read them with it: their contexts cannot be built.
    pub(super) fn lose(&mut self, id: JobId, reason: Reason, effects: &mut Effects) {
        let job = self.state.job(id);
        let (class, stream, version) = (job.class, job.stream, job.version);
        if class == Class::Query {
            return self.refuse_query(id, reason, effects);
        }
        for index in 0..self.state.jobs.len() as u32 {
            let query = JobId(index);
            let job = self.state.job(query);
            let reads = job.class == Class::Query && job.stream == stream && !job.free && !job.gone;
            if reads && job.version != UNBOUND && job.version >= version {
                self.refuse_query(query, reason, effects);
            }
        }
        let mut lost = self.state.stream(stream).pending.len();
        while lost > 0
            && self
                .state
                .job(self.state.stream(stream).pending[lost - 1])
                .version
                >= version
        {
            lost -= 1;
        }
        for frame in self.state.stream_mut(stream).pending.split_off(lost) {
            let job = self.state.job(frame);
            if job.class == Class::Frame {
                effects.push(Effect::Refuse {
                    ticket: job.ticket,
                    stream,
                    index: job.index,
                    query: false,
                    arrived: job.arrived,
                    reason,
                });
                self.state.stream_mut(stream).pending_frames -= 1;
            }
            self.withdraw(frame);
        }
        self.state.stream_mut(stream).forget_after(version - 1);
        effects.push(Effect::Abandon {
            stream,
            after: version - 1,
        });
    }

    /// The KV of a dead engine is gone, once what is being copied from it has ended.
    fn lose_engine(&mut self, engine: EngineId) {
        self.state.dead_engines |= 1 << engine.0;
        for index in 0..self.state.jobs.len() as u32 {
            let id = JobId(index);
            let mut held = self.state.lanes.iter().filter_map(|lane| lane.held);
            let waits = !held.any(|held| held.job == id);
            if waits && self.state.job(id).rebuilt_on == Some(engine) {
                self.state.drop_rebuilt(id);
            }
        }
        for index in 0..self.state.streams.len() {
            let stream = StreamId(index as u16);
            let resident = *self.state.resident(engine, stream);
            if resident.pins == 0 {
                self.state
                    .take_kv(engine, self.state.kv_bytes(resident.tokens));
                *self.state.resident_mut(engine, stream) = Resident::default();
            }
        }
    }

    /// Whether every stage of a job that has not ended has a lane left.
    pub(super) fn can_run(&self, id: JobId) -> bool {
        let job = self.state.job(id);
        self.stages_have_lanes(job.class, job.done)
    }

    /// Whether every stage that the modes ask of a job, but for those in `done`, has a lane left.
    pub(super) fn stages_have_lanes(&self, class: Class, done: u32) -> bool {
        let world = self.state.world;
        let modes = &world.modes;
        let graph = match class {
            Class::Query => &world.query_graph,
            Class::Frame | Class::Join => &world.frame_graph,
        };
        (0..graph.stages.len() as u8).all(|position| {
            let needed = match class {
                Class::Query => true,
                _ if graph.is_bound(position) => modes.context_reuse,
                Class::Frame => modes.context_reuse || modes.embedding_cache,
                Class::Join => false,
            };
            let lanes = self.state.stage_lanes[graph.stages[position as usize].0 as usize];
            !needed || done & (1 << position) != 0 || lanes != 0
        })
    }

    /// Takes a job that will not be served out of every queue. Its slot is free once no lane runs a
    /// part of it.
    pub(super) fn withdraw(&mut self, id: JobId) {
        let stream = self.state.job(id).stream;
        for index in 0..self.state.lanes.len() {
            let lane = LaneId(index as u8);
            for query in [true, false] {
                let mut at = 0;
                while let Some(&item) = self.state.lane_mut(lane).queue_mut(query).get(at) {
                    if item.job == id {
                        self.dequeue(lane, item, at);
                        if item.query && item.part == Part::Bound {
                            self.state.stream_mut(stream).ready_answers -= 1;
                        }
                    } else {
                        at += 1;
                    }
                }
            }
        }
        self.state.stream_mut(stream).waiting.retain(|&w| w != id);
        if let Some(at) = self.state.ready.iter().position(|ready| ready.job == id) {
            self.state.ready.remove(at);
            self.state.stream_mut(stream).ready_answers -= 1;
        }
        self.state.job_mut(id).gone = true;
        self.forget_if_idle(id);
    }

    /// Frees the slot of a job that is gone, once no lane runs a part of it.
    pub(super) fn forget_if_idle(&mut self, id: JobId) {
        for index in 0..self.state.lanes.len() {
            let lane = LaneId(index as u8);
            let state = self.state.lane(lane);
            if state.held.is_some_and(|held| held.job == id) {
                if state.running {
                    return;
                }
                self.release_lane(lane);
            }
            if let Some(paused) = self.state.lane(lane).paused.filter(|part| part.job == id) {
                self.state.lane_mut(lane).paused = None;
                self.give_back(lane, paused);
            }
        }
        self.state.drop_rebuilt(id);
        self.state.remove(id);
    }
}

impl State<'_> {
    /// Whether every lane of an engine has failed.
    #[inline]
    pub(super) fn is_dead(&self, engine: EngineId) -> bool {
        self.dead_engines & (1 << engine.0) != 0
    }
}
