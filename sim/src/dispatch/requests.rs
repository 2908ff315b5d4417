//! Requests on their way to a lane: bound to a version, ready when that is published, placed by the policy; and the
//! free stages of all jobs.

use super::Dispatcher;
use super::message::{Effect, Effects, Reason};
use super::policy::{Decision, Request, View};
use super::state::{Class, Job, JobId, Part, Ready, UNBOUND, lanes_of};
use crate::spec::scenario::Binding;
use crate::time::Instant;
use crate::world::{Graph, LaneId};

impl Dispatcher<'_> {
    pub(super) fn on_query(&mut self, now: Instant, mut job: Job, effects: &mut Effects) {
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
    pub(super) fn issue(&mut self, id: JobId, now: Instant) {
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
    pub(super) fn await_version(&mut self, id: JobId, now: Instant, effects: &mut Effects) {
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
    pub(super) fn make_ready(&mut self, id: JobId, now: Instant, effects: &mut Effects) {
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
    pub(super) fn rebuild_lane(&self, id: JobId) -> Option<LaneId> {
        let world = self.state.world;
        let lane = self.state.rebuild_lane?;
        let job = self.state.job(id);
        let bytes = self.state.kv_bytes(self.state.context_for(job).into());
        let budget = world.engines[world.engine_of(lane).0 as usize].kv_budget;
        (job.rebuilt_on.is_none() && bytes <= budget).then_some(lane)
    }

    /// Offers a request to the policy.
    #[inline(always)]
    pub(super) fn offer(&mut self, id: JobId, now: Instant) {
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
    pub(super) fn ever_fits(&self, lanes: u16, tokens: u64) -> bool {
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
    pub(super) fn enqueue(&mut self, id: JobId, part: Part, lane: LaneId) {
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
    pub(super) fn place_ready(&mut self, now: Instant, effects: &mut Effects) {
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
                            self.state.delay_others(job, lane, now);
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
    pub(super) fn refuse_query(&mut self, id: JobId, reason: Reason, effects: &mut Effects) {
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
}
