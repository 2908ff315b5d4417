//! Frames, and answers that join: on their way into a stream's context, in order, to publication.

use super::context::{Turn, answer_item, frame_item};
use super::policy::{Request, View};
use super::state::{Class, Job, JobId, NO_TICKET, Part, UNBOUND};
use super::{Dispatcher, Effect, Effects, PRUNE_EVERY, Reason, blank};
use crate::time::Instant;
use crate::world::{EngineId, StreamId};

impl Dispatcher<'_> {
    #[inline(never)]
    pub(super) fn on_frame(
        &mut self,
        now: Instant,
        ticket: u32,
        stream_id: StreamId,
        index: u32,
        tokens: u32,
        effects: &mut Effects,
    ) {
        let world = self.state.world;
        let refuse = |reason| Effect::Refuse {
            ticket,
            stream: stream_id,
            index,
            query: false,
            arrived: now,
            reason,
        };
        let stream = self.state.stream_mut(stream_id);
        stream.frames += 1;
        stream.first_frame.get_or_insert(now);
        let stream = self.state.stream(stream_id);
        let context = stream.tokens_with(tokens, world.keep) + stream.unjoined;
        // A window slides only after the ingest: for a moment it holds one frame more.
        let held = stream.tokens(stream.accepted, world.keep) + u64::from(tokens) + stream.unjoined;
        if stream.pending_frames >= world.max_pending_frames {
            return effects.push(refuse(Reason::FramesPending));
        }
        if context > world.model.max_context_tokens.into() {
            return effects.push(refuse(Reason::ContextTooLong));
        }
        if !self.stages_have_lanes(Class::Frame, 0) {
            return effects.push(refuse(Reason::EngineFailed));
        }
        if world.modes.context_reuse && !self.ever_fits(self.state.ingest_lanes, held) {
            return effects.push(refuse(Reason::NeverFits));
        }
        let stream = self.state.stream_mut(stream_id);
        let version = stream.accept(Some(now), tokens, frame_item(index, tokens), world.keep);
        stream.pending_frames += 1;
        let job = self.state.insert(Job {
            ticket,
            version,
            tokens,
            ..blank(Class::Frame, stream_id, index, now)
        });
        self.state.stream_mut(stream_id).pending.push_back(job);
        self.issue(job, now);
        self.advance_stream(stream_id, now, effects);
    }

    /// Publishes what is complete, in order, and places the next ingest.
    pub(super) fn advance_stream(&mut self, id: StreamId, now: Instant, effects: &mut Effects) {
        let world = self.state.world;
        let graph = &world.frame_graph;
        while let Some(&front) = self.state.stream(id).pending.front() {
            let job = self.state.job(front);
            let bound = 1u32 << graph.bound_at;
            let stages_done = job.class == Class::Join
                || !world.modes.context_reuse && !world.modes.embedding_cache
                || graph.after[graph.bound_at as usize] & !job.done == 0;
            if !stages_done {
                return;
            }
            if world.modes.context_reuse && job.done & bound == 0 {
                if job.issued & bound == 0 {
                    let lane = self.policy.ingest(
                        &View {
                            state: &self.state,
                            now,
                        },
                        Request(front),
                    );
                    let Some(lane) = lane else { return };
                    self.state.job_mut(front).issued |= bound;
                    self.enqueue(front, Part::Bound, lane);
                }
                return;
            }
            self.publish(front, now, effects);
        }
    }

    pub(super) fn publish(&mut self, front: JobId, now: Instant, effects: &mut Effects) {
        let job = self.state.job(front);
        let (class, ticket, id, version) = (job.class, job.ticket, job.stream, job.version);
        self.state.remove(front);
        let keep = self.state.world.keep;
        let stream = self.state.stream_mut(id);
        assert!(
            version == stream.published + 1,
            "INV-5: versions are published in order"
        );
        stream.pending.pop_front();
        stream.published = version;
        if class == Class::Frame {
            stream.pending_frames -= 1;
        }
        effects.push(Effect::Publish {
            stream: id,
            version,
            tokens: stream.tokens(version, keep) as u32,
            ticket: (class == Class::Frame).then_some(ticket),
            digest: stream.item(version).digest,
        });
        let mut released = std::mem::take(&mut self.ready_scratch);
        let jobs = &self.state.jobs;
        self.state.streams[id.0 as usize]
            .waiting
            .retain(|&waiting| {
                let ready = jobs[waiting.0 as usize].version <= version;
                if ready {
                    released.push(waiting);
                }
                !ready
            });
        for waiting in released.drain(..) {
            self.await_version(waiting, now, effects);
        }
        self.ready_scratch = released;
        if self.state.stream(id).items.len() > PRUNE_EVERY {
            self.prune(id, effects);
        }
    }

    /// Forgets items below every version in use. A resident that lags so far is of no more use.
    pub(super) fn prune(&mut self, id: StreamId, effects: &mut Effects) {
        let stream = self.state.stream(id);
        let in_use = self
            .state
            .jobs
            .iter()
            .filter(|job| !job.free && !job.gone && job.stream == id && job.class == Class::Query)
            .map(|job| {
                if job.version == UNBOUND {
                    stream.published
                } else {
                    job.version
                }
            })
            .chain([stream.published])
            .map(|version| stream.item(version).low)
            .min()
            .unwrap_or(0);
        let mut keep_from = in_use;
        for engine in 0..self.state.world.engines.len() {
            let engine = EngineId(engine as u8);
            let resident = *self.state.resident(engine, id);
            if !resident.present {
                continue;
            }
            if resident.version <= in_use && resident.pins == 0 {
                self.state.evict(engine, id, effects);
            } else {
                keep_from = keep_from.min(resident.low);
            }
        }
        self.state.stream_mut(id).prune(keep_from);
    }

    /// Whether an answer can become an item of its stream's context: once the longest context is
    /// reached, or no lane ingests any more, it cannot, and the completion says so.
    pub(super) fn may_join(&self, answered: &Job) -> bool {
        let world = self.state.world;
        let tokens = answered.prompt + answered.output;
        let stream = self.state.stream(answered.stream);
        let before = stream.tokens(stream.accepted, world.keep) + stream.unjoined;
        let held = before + u64::from(tokens);
        held <= world.model.max_context_tokens.into()
            && (!world.modes.context_reuse || self.ever_fits(self.state.ingest_lanes, held))
    }

    /// A question has ended: its answer joins its stream's context in its turn, or never.
    pub(super) fn take_turn(&mut self, stream: StreamId, question: u32, turn: Turn) {
        self.state.stream_mut(stream).take_turn(question, turn);
        self.joins_due.push(stream);
    }

    /// Answers whose turn has come become the next items of their streams' contexts.
    #[inline(never)]
    pub(super) fn join_in_turn(&mut self, now: Instant, effects: &mut Effects) {
        let keep = self.state.world.keep;
        while let Some(id) = self.joins_due.pop() {
            while let Some((question, tokens)) = self.state.stream_mut(id).next_to_join() {
                let stream = self.state.stream_mut(id);
                let version = stream.accept(None, tokens, answer_item(question, tokens), keep);
                let job = self.state.insert(Job {
                    ticket: NO_TICKET,
                    version,
                    tokens,
                    ..blank(Class::Join, id, question, now)
                });
                self.state.stream_mut(id).pending.push_back(job);
                self.advance_stream(id, now, effects);
            }
        }
    }
}
