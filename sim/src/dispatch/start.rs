//! What a lane may start next.

use super::begin::Begun;
use super::state::{Class, Item, Job, Part, State, Step, lanes_of};
use super::{Dispatcher, Effects, Reason};
use crate::time::{Duration, Instant};
use crate::world::LaneId;

impl Dispatcher<'_> {
    /// Starts what may start, lane by lane, each lane's queue in order.
    pub(super) fn start_lanes(&mut self, now: Instant, effects: &mut Effects) {
        for index in 0..self.state.lanes.len() {
            let lane = LaneId(index as u8);
            let state = &self.state.lanes[index];
            if state.running || state.failed {
                continue;
            }
            if let Some(held) = state.held {
                self.step(lane, held, now, effects);
                let state = self.state.lane(lane);
                if state.held.is_some() {
                    if !state.running && !state.queries.is_empty() {
                        self.start_meanwhile(lane, now, effects);
                    }
                    continue;
                }
            }
            let state = self.state.lane(lane);
            if state.queries.is_empty() || !self.start_queued(lane, true, now, effects) {
                let state = self.state.lane(lane);
                if !state.frames.is_empty() {
                    self.start_queued(lane, false, now, effects);
                }
            }
        }
    }

    /// While the part that holds a lane waits for a stage of its request, the lane runs such stages:
    /// else two requests could wait for each other, or one for itself.
    #[inline(never)]
    fn start_meanwhile(&mut self, lane: LaneId, now: Instant, effects: &mut Effects) {
        let state = self.state.lane(lane);
        let Some(held) = state.held.filter(|&held| self.state.awaits_stage(held)) else {
            return;
        };
        if state.paused.is_some() || self.state.serial && self.state.anything_runs() {
            return;
        }
        if let Some(at) = state.queries.iter().position(Item::is_stage) {
            let item = state.queries[at];
            self.dequeue(lane, item, at);
            let state = self.state.lane_mut(lane);
            state.paused = Some(held);
            state.held = Some(item);
            self.step(lane, item, now, effects);
        }
    }

    /// Starts the first part of a lane's queries, or of its frames, that may start now.
    fn start_queued(
        &mut self,
        lane: LaneId,
        query: bool,
        now: Instant,
        effects: &mut Effects,
    ) -> bool {
        let one_at_a_time = self.state.serial && self.state.lanes_busy > 0;
        if one_at_a_time && self.state.anything_runs() {
            return false;
        }
        let mut at = 0;
        while let Some(&item) = self.state.lane(lane).queue(query).get(at) {
            // A part that waits for a stage of its request lets that stage run.
            if one_at_a_time && !item.is_stage() || !self.state.may_hold(item) {
                at += 1;
                continue;
            }
            match self.begin(lane, item, now, effects) {
                Begun::Yes => {
                    self.dequeue(lane, item, at);
                    let state = self.state.lane_mut(lane);
                    state.held = Some(item);
                    state.step = Step::Blocked;
                    state.expected_end = now + Duration(item.estimate);
                    self.state.lanes_busy += 1;
                    self.step(lane, item, now, effects);
                    return true;
                }
                Begun::NotYet => at += 1,
                Begun::NeverHere => {
                    self.dequeue(lane, item, at);
                    self.elsewhere(lane, item, now, effects);
                }
                Begun::Refused(reason) => {
                    self.dequeue(lane, item, at);
                    self.turn_away(item, reason, effects);
                }
            }
        }
        false
    }

    #[inline(always)]
    pub(super) fn dequeue(&mut self, lane: LaneId, item: Item, at: usize) {
        let state = self.state.lane_mut(lane);
        let queue = state.queue_mut(item.query);
        if at == 0 {
            queue.pop_front();
        } else {
            queue.remove(at);
        }
        state.backlog -= item.estimate;
        if item.query {
            state.backlog_queries -= item.estimate;
        }
    }

    /// Queues an item that `lane`'s engine cannot serve on the best lane that can.
    #[inline(never)]
    fn elsewhere(&mut self, lane: LaneId, item: Item, now: Instant, effects: &mut Effects) {
        let id = item.job;
        // What moves may start on a lane that has been looked at already.
        self.part_ended = true;
        if item.part == Part::Rebuild {
            return self.offer(id, now);
        }
        let able = if item.query {
            self.state.answer_lanes
        } else {
            self.state.ingest_lanes
        };
        self.state.job_mut(id).avoid |= 1 << lane.0;
        let rest = able & !self.state.job(id).avoid;
        let fitting = lanes_of(rest)
            .filter(|&other| self.state.can_begin(id, self.state.world.engine_of(other)))
            .fold(0, super::with);
        if let Some(other) = self.state.earliest(id, item.part, fitting, now) {
            return self.enqueue(id, item.part, other);
        }
        if let Some(lane) = self.rebuild_lane(id, now).filter(|_| item.query) {
            // What had been rebuilt for it made room for another.
            let stream = self.state.job(id).stream;
            self.state.stream_mut(stream).ready_answers -= 1;
            self.state.job_mut(id).avoid = 0;
            return self.enqueue(id, Part::Rebuild, lane);
        }
        let needed = self.state.bytes_needed(id);
        let engines = &self.state.world.engines;
        let somewhere = lanes_of(able)
            .any(|other| needed <= engines[self.state.world.engine_of(other).0 as usize].kv_budget);
        let reason = if somewhere {
            Reason::ContextLost
        } else {
            Reason::NeverFits
        };
        self.turn_away(item, reason, effects);
    }

    /// Refuses what a lane took from its queue.
    #[cold]
    fn turn_away(&mut self, item: Item, reason: Reason, effects: &mut Effects) {
        self.part_ended = true;
        if item.query && item.part == Part::Bound {
            let stream = self.state.job(item.job).stream;
            self.state.stream_mut(stream).ready_answers -= 1;
        }
        self.lose(item.job, reason, effects);
    }
}

impl State<'_> {
    /// Whether the modes let a part take a lane now.
    #[inline(always)]
    pub(crate) fn may_hold(&self, item: Item) -> bool {
        let modes = &self.world.modes;
        let job = self.job(item.job);
        let stream = self.stream(job.stream);
        let answers = item.query && item.part == Part::Bound;
        if answers {
            (modes.concurrent_generation || self.answers_running == 0)
                && (modes.ingest_during_generation || stream.ingesting == 0)
        } else if item.query && item.part != Part::Rebuild {
            true
        } else {
            modes.ingest_during_generation || (stream.answering == 0 && stream.ready_answers == 0)
        }
    }

    pub(super) fn anything_runs(&self) -> bool {
        self.lanes.iter().any(|lane| lane.running)
    }

    /// Whether a part's next stage waits for another stage of its request.
    fn awaits_stage(&self, item: Item) -> bool {
        let job = self.job(item.job);
        match self.next_step(job, item.part) {
            Some((Step::Stage(position), _)) => self.stage_waits(job, position),
            _ => false,
        }
    }

    /// Whether a stage of a job waits for another.
    #[inline(always)]
    pub(super) fn stage_waits(&self, job: &Job, position: u8) -> bool {
        self.graph_of(job).after[position as usize] & !job.done != 0 && job.class != Class::Join
    }
}
