//! Lanes that fail: what they ran goes elsewhere, or is refused; nothing hangs and nothing leaks.

use super::context::Resident;
use super::state::{Class, Item, JobId, Part, Plan, State};
use super::{Dispatcher, Effect, Effects, Reason};
use crate::time::Instant;
use crate::world::{EngineId, Graph, LaneId, StageId, StreamId};

impl Dispatcher<'_> {
    /// A lane is out of service: what it ran or held goes to other lanes, or is refused.
    pub(super) fn on_fail(&mut self, now: Instant, lane: LaneId, effects: &mut Effects) {
        let world = self.state.world;
        let engine = world.engine_of(lane);
        let state = self.state.lane_mut(lane);
        if state.failed {
            return;
        }
        state.failed = true;
        let held = state.held.take();
        let (running, stage) = (state.running, state.stage);
        state.running = false;
        state.backlog = 0;
        state.backlog_queries = 0;
        let queries = std::mem::take(&mut state.queries);
        let frames = std::mem::take(&mut state.frames);
        if running {
            self.state.exclusive_running &= !world.exclusive[engine.0 as usize][stage.0 as usize];
        }
        self.find_able_lanes();
        if let Some(item) = held {
            self.state.lanes_busy -= 1;
            self.undo(item, engine, now);
            if self.state.job(item.job).lost {
                self.free_lost(item.job);
            }
        }
        let alive = |lane: LaneId| !self.state.lane(lane).failed;
        let mut lanes = (0..world.lanes.len() as u8).map(LaneId);
        if !lanes.any(|other| world.engine_of(other) == engine && alive(other)) {
            self.lose_engine(engine);
        }
        if !self
            .state
            .lanes_for_all(&world.frame_graph, world.modes.context_reuse)
        {
            for index in 0..self.state.streams.len() as u16 {
                self.lose_frames(StreamId(index), effects);
            }
        }
        for item in held.into_iter().chain(queries).chain(frames) {
            let job = self.state.job(item.job);
            if !job.free && !job.lost {
                self.reroute(item, now, effects);
            }
        }
        if !self.state.lanes_for_all(&world.query_graph, true) {
            self.lose_queries(effects);
        }
    }

    /// Gives back what a part that will not end had reserved.
    pub(super) fn undo(&mut self, item: Item, engine: EngineId, now: Instant) {
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
                let bytes = std::mem::take(&mut self.state.job_mut(item.job).rebuilt_bytes);
                self.state.take_kv(engine, bytes);
                self.state.stream_mut(stream).ingesting -= 1;
            }
            Part::Bound => {
                if plan.source_pinned {
                    self.state.unpin(EngineId(plan.source), stream, now);
                }
                if class == Class::Query {
                    self.state.stream_mut(stream).ready_answers += 1;
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
        job.done &= !graph.bound_mask();
        job.output = 0;
    }

    /// Finds another lane for a part, as when it first came.
    fn reroute(&mut self, item: Item, now: Instant, effects: &mut Effects) {
        let id = item.job;
        let graph = self.state.graph(id);
        let stream = self.state.job(id).stream;
        match item.part {
            Part::Free(position) => {
                self.state.job_mut(id).issued &= !(1 << position);
                self.issue(id, now);
            }
            Part::Rebuild => self.make_ready(id, now, effects),
            Part::Bound if item.query => {
                self.state.stream_mut(stream).ready_answers -= 1;
                self.make_ready(id, now, effects);
            }
            Part::Bound => {
                self.state.job_mut(id).issued &= !(1 << graph.bound_at);
                self.advance_stream(stream, now, effects);
            }
        }
    }

    /// No lane can bring the frames of a stream into its context any more: they, and the queries that
    /// wait for them, are refused.
    fn lose_frames(&mut self, id: StreamId, effects: &mut Effects) {
        let stream = self.state.stream_mut(id);
        if stream.pending.is_empty() {
            return;
        }
        let waiting = std::mem::take(&mut stream.waiting);
        let pending = std::mem::take(&mut stream.pending);
        stream.pending_frames = 0;
        let after = stream.published;
        stream.forget_after(after);
        for query in waiting {
            self.refuse_query(query, Reason::EngineFailed, effects);
        }
        for frame in pending {
            let job = self.state.job_mut(frame);
            job.lost = true;
            if job.class == Class::Frame {
                effects.push(Effect::Refuse {
                    ticket: job.ticket,
                    stream: id,
                    index: job.index,
                    query: false,
                    arrived: job.arrived,
                    reason: Reason::EngineFailed,
                });
            }
            self.state.unqueue(frame);
            self.free_lost(frame);
        }
        effects.push(Effect::Abandon { stream: id, after });
    }

    /// No lane can take a query through its stages any more.
    fn lose_queries(&mut self, effects: &mut Effects) {
        self.state.ready.clear();
        for index in 0..self.state.jobs.len() as u32 {
            let id = JobId(index);
            let job = self.state.job(id);
            if job.free || job.class != Class::Query || self.state.is_held(id) {
                continue;
            }
            self.state.unqueue(id);
            let (on, bytes) = {
                let job = self.state.job_mut(id);
                (
                    job.rebuilt_on.take(),
                    std::mem::take(&mut job.rebuilt_bytes),
                )
            };
            if let Some(on) = on {
                self.state.take_kv(on, bytes);
            }
            self.refuse_query(id, Reason::EngineFailed, effects);
        }
        for stream in &mut self.state.streams {
            stream.waiting.clear();
            stream.ready_answers = 0;
        }
    }

    /// A part of a lost frame ended.
    pub(super) fn end_lost(&mut self, item: Item, engine: EngineId, now: Instant) {
        self.undo(item, engine, now);
        self.free_lost(item.job);
    }

    /// Gives a lost frame's slot back once no lane holds a part of it.
    fn free_lost(&mut self, id: JobId) {
        if !self.state.is_held(id) {
            self.state.remove(id);
        }
    }

    /// The KV of a dead engine is gone; what a running copy reads stays until the copy has ended.
    fn lose_engine(&mut self, engine: EngineId) {
        self.state.dead_engines |= 1 << engine.0;
        for index in 0..self.state.streams.len() {
            self.state.drop_if_dead(engine, StreamId(index as u16));
        }
    }
}

impl State<'_> {
    /// Whether every lane of an engine has failed.
    #[inline]
    pub(super) fn is_dead(&self, engine: EngineId) -> bool {
        self.dead_engines & (1 << engine.0) != 0
    }

    /// Drops what a dead engine holds of a stream, unless somebody still reads it.
    pub(super) fn drop_if_dead(&mut self, engine: EngineId, stream: StreamId) {
        let resident = *self.resident(engine, stream);
        if self.is_dead(engine) && resident.pins == 0 && (resident.present || resident.tokens > 0) {
            self.take_kv(engine, self.kv_bytes(resident.tokens));
            *self.resident_mut(engine, stream) = Resident::default();
        }
    }

    /// Whether every stage of a graph has a lane; the bound ones only count if `bound`.
    pub(super) fn lanes_for_all(&self, graph: &Graph, bound: bool) -> bool {
        let able = |stage: &StageId| self.stage_lanes[stage.0 as usize] != 0;
        let bound_able = if graph.bound_at == graph.bound_end {
            self.ingest_lanes != 0
        } else {
            self.answer_lanes != 0
        };
        let free_needed = bound || self.world.modes.embedding_cache;
        (!bound || bound_able)
            && (0..)
                .zip(&graph.stages)
                .all(|(position, stage)| graph.is_bound(position) || !free_needed || able(stage))
    }

    /// Whether a lane holds a part of a job.
    fn is_held(&self, id: JobId) -> bool {
        self.lanes
            .iter()
            .any(|lane| lane.held.is_some_and(|held| held.job == id))
    }

    /// Takes every queued part of a job off its lane.
    fn unqueue(&mut self, id: JobId) {
        for lane in &mut self.lanes {
            for query in [true, false] {
                let mut gone = 0;
                lane.queue_mut(query).retain(|item| {
                    gone += if item.job == id { item.estimate } else { 0 };
                    item.job != id
                });
                lane.backlog -= gone;
                lane.backlog_queries -= if query { gone } else { 0 };
            }
        }
    }
}
