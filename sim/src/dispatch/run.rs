//! Lanes at work: what a part does step by step, and how it ends.

use super::context::Turn;
use super::estimate::{intensity, ns};
use super::state::{Class, Item, Job, JobId, Part, Plan, State, Step, UNBOUND};
use super::{Completion, Dispatcher, Effect, Effects, Task, answer_digest};
use crate::contention::Load;
use crate::spec::model::StageKind;
use crate::time::{Duration, Instant};
use crate::world::{EngineId, LaneId, StageId};

/// A task, and what the policy believes of it.
pub(super) struct Believed {
    task: Task,
    /// Time alone, ns.
    pub(super) alone: u64,
    /// Memory intensity.
    pub(super) mu: f64,
    /// Of what its part ends with.
    pub(super) later_mu: f64,
}

impl Dispatcher<'_> {
    /// Starts the next stage of the part that holds a lane, or ends the part.
    pub(super) fn step(&mut self, lane: LaneId, held: Item, now: Instant, effects: &mut Effects) {
        let world = self.state.world;
        let job = self.state.job(held.job);
        if job.gone {
            self.part_ended = true;
            return self.forget_if_idle(held.job);
        }
        let Some((step, stage)) = self.state.next_step(job, held.part) else {
            return self.end_part(lane, held, now, effects);
        };
        let engine = self.state.lane(lane).engine;
        let groups = world.exclusive[engine.0 as usize][stage.0 as usize];
        if groups & self.state.exclusive_running != 0
            || self.state.serial && self.state.anything_runs()
        {
            return;
        }
        if let Step::Stage(position) = step {
            if self.state.stage_waits(job, position) {
                return;
            }
            self.check_version(job, position, engine);
        }
        let believed = self.state.task(job, held.part, step, stage, engine);
        self.state.exclusive_running |= groups;
        let state = self.state.lane_mut(lane);
        state.step = step;
        state.stage = stage;
        state.running = true;
        state.groups = groups;
        state.stage_end = now + Duration(believed.alone);
        state.load = Load {
            engine,
            mu: believed.mu,
        };
        state.later = Load {
            engine,
            mu: believed.later_mu,
        };
        let task = believed.task;
        effects.push(Effect::Start { lane, task });
    }

    /// INV-5: a request's stages read exactly the version that it is bound to.
    #[inline(always)]
    fn check_version(&self, job: &Job, position: u8, engine: EngineId) {
        if job.class != Class::Query
            || position != self.state.world.query_graph.bound_at
            || !self.state.world.modes.context_reuse
        {
            return;
        }
        let stream = self.state.stream(job.stream);
        assert!(
            job.version <= stream.published,
            "INV-5: an unpublished version would be read"
        );
        let resident = self.state.resident(engine, job.stream);
        let gone_for_others = || resident.present && job.version <= resident.low;
        assert!(
            stream.missing(resident, job.version, self.state.world.keep) == 0 || gone_for_others(),
            "INV-5: the bound version is not resident"
        );
    }

    pub(super) fn on_finish(
        &mut self,
        now: Instant,
        lane: LaneId,
        tokens: u32,
        effects: &mut Effects,
    ) {
        let state = self.state.lane_mut(lane);
        let (engine, step, groups) = (state.engine, state.step, state.groups);
        let Some(held) = state.held.filter(|_| state.running) else {
            debug_assert!(
                false,
                "INV-3: lane {} ended a task that it was not running",
                lane.0
            );
            return;
        };
        state.running = false;
        state.step = Step::Blocked;
        self.state.exclusive_running &= !groups;
        let id = held.job;
        match step {
            Step::Blocked => {}
            Step::Encode => self.state.job_mut(id).plan.encode = 0,
            Step::Import => self.end_import(id, held.part, engine, now),
            Step::Reconstruct => {
                self.state.job_mut(id).plan.rebuild = 0;
                self.prepared(id, held.part, engine, now);
            }
            Step::Stage(position) => {
                self.end_stage(id, held.part, position, tokens, now);
                if held.part == Part::Bound {
                    // A stage between prefill and decode may go on another lane now.
                    self.issue(id, now);
                }
            }
        }
        self.step(lane, held, now, effects);
    }

    #[inline(never)]
    fn end_import(&mut self, id: JobId, part: Part, engine: EngineId, now: Instant) {
        let job = self.state.job_mut(id);
        let (stream, plan) = (job.stream, job.plan);
        job.plan.import = 0;
        job.plan.source_pinned = false;
        if plan.source_pinned {
            self.state.unpin(EngineId(plan.source), stream, now);
        }
        if plan.rebuild == 0 {
            self.prepared(id, part, engine, now);
        }
    }

    /// The version that a part starts from is now usable on its engine.
    #[inline(never)]
    fn prepared(&mut self, id: JobId, part: Part, engine: EngineId, now: Instant) {
        if part != Part::Bound || !self.state.world.modes.context_reuse {
            return;
        }
        let job = self.state.job(id);
        let version = if job.class == Class::Query {
            job.version
        } else {
            job.version - 1
        };
        let stream = job.stream;
        self.state.settle(engine, stream, version, now);
    }

    #[inline(always)]
    fn end_stage(&mut self, id: JobId, part: Part, position: u8, tokens: u32, now: Instant) {
        let graph = self.state.graph(id);
        let job = &mut self.state.jobs[id.0 as usize];
        job.done |= 1 << position;
        match job.class {
            Class::Query if part == Part::Bound && position == graph.bound_at => {
                // The answer starts: what it lacks is counted by now.
                let read = &self.state.streams[job.stream.0 as usize];
                let item = read.item(job.version);
                job.newest_frame = item.newest_frame;
                job.missed_frame = read.first_frame.filter(|_| item.newest_frame.is_none());
                job.frames_behind = read.frames.saturating_sub(item.frames);
                job.first_token = now;
                job.output = 1;
                if job.max_output <= 1 {
                    job.done |= 1 << graph.bound_end;
                }
            }
            Class::Query if part == Part::Bound && position == graph.bound_end => {
                job.output += tokens;
            }
            _ => {}
        }
    }

    /// The part that holds a lane leaves it to the one that it had paused, if any.
    #[inline(always)]
    pub(super) fn let_go(&mut self, lane: LaneId) {
        let state = self.state.lane_mut(lane);
        state.held = state.paused.take();
        state.step = Step::Blocked;
        if state.held.is_none() {
            self.state.lanes_busy -= 1;
        }
    }

    /// The part that held a lane is over.
    fn end_part(&mut self, lane: LaneId, held: Item, now: Instant, effects: &mut Effects) {
        self.let_go(lane);
        self.part_ended = true;
        let id = held.job;
        let engine = self.state.lane(lane).engine;
        match held.part {
            Part::Free(_) => {
                self.issue(id, now);
                let job = self.state.job(id);
                if job.class == Class::Query {
                    self.await_version(id, now, effects);
                    if self.state.job_ends(id) {
                        self.complete(id, now, effects);
                    }
                } else {
                    let stream = job.stream;
                    self.state.stream_mut(stream).ingesting -= 1;
                    self.advance_stream(stream, now, effects);
                }
            }
            Part::Rebuild => {
                let stream = self.state.job(id).stream;
                self.state.stream_mut(stream).ingesting -= 1;
                self.make_ready(id, now, effects);
            }
            Part::Bound if self.state.job(id).class == Class::Query => {
                self.release_answer(id, engine, now);
                self.issue(id, now);
                if self.state.job_ends(id) {
                    self.complete(id, now, effects);
                }
            }
            Part::Bound => {
                let (stream, version) = (self.state.job(id).stream, self.state.job(id).version);
                self.state.job_mut(id).done |= 1 << self.state.world.frame_graph.bound_at;
                self.state.settle(engine, stream, version, now);
                self.state.unpin(engine, stream, now);
                self.state.stream_mut(stream).ingesting -= 1;
                self.advance_stream(stream, now, effects);
            }
        }
    }

    #[inline(always)]
    pub(super) fn release_answer(&mut self, id: JobId, engine: EngineId, now: Instant) {
        let job = self.state.job_mut(id);
        let stream = job.stream;
        let private = std::mem::take(&mut job.private_bytes);
        let rebuilt = std::mem::take(&mut job.rebuilt_bytes);
        let on = job.rebuilt_on;
        self.state.take_kv(engine, private);
        if let Some(on) = on {
            self.state.take_kv(on, rebuilt);
        }
        if self.state.world.modes.context_reuse {
            self.state.unpin(engine, stream, now);
        }
        self.state.stream_mut(stream).answering -= 1;
        self.state.answers_running -= 1;
    }

    #[inline(always)]
    fn complete(&mut self, id: JobId, now: Instant, effects: &mut Effects) {
        let world = self.state.world;
        let job = self.state.job(id);
        let joins = world.answers_join_history && self.may_join(job);
        let version_digest = self.state.stream(job.stream).item(job.version).digest;
        effects.push(Effect::Complete(Completion {
            ticket: job.ticket,
            stream: job.stream,
            index: job.index,
            lane: job.lane,
            preparation: job.preparation,
            version: job.version,
            prompt: job.prompt,
            output: job.output,
            arrived: job.arrived,
            started: job.started,
            first_token: job.first_token,
            newest_frame: job.newest_frame,
            missed_frame: job.missed_frame,
            frames_behind: job.frames_behind,
            late: job.deadline.is_some_and(|deadline| now > deadline),
            joins,
            digest: answer_digest(version_digest, job.index, job.prompt),
        }));
        let (stream, index, tokens) = (job.stream, job.index, job.prompt + job.output);
        self.state.requests -= 1;
        self.state.remove(id);
        if world.answers_join_history {
            let turn = if joins {
                Turn::Joins(tokens)
            } else {
                Turn::Passed
            };
            self.take_turn(stream, index, turn);
        }
    }
}

impl State<'_> {
    /// The next step of a part and its stage; `None`: the part is over.
    #[inline(always)]
    pub(super) fn next_step(&self, job: &Job, part: Part) -> Option<(Step, StageId)> {
        let graph = self.graph_of(job);
        if let Part::Free(position) = part {
            let stage = graph.stages[position as usize];
            return (job.done & (1 << position) == 0).then_some((Step::Stage(position), stage));
        }
        let plan = job.plan;
        if plan.encode | plan.import | plan.rebuild != 0
            && let Some(next) = self.next_preparation(job.lane, plan)
        {
            return Some(next);
        }
        // Topological order puts the prefill's position before the decode's.
        let left = if part == Part::Rebuild {
            0
        } else {
            graph.bound & !job.done
        };
        (left != 0).then(|| {
            let position = left.trailing_zeros() as u8;
            (Step::Stage(position), graph.stages[position as usize])
        })
    }

    /// The next step of a preparation: encode again, copy, prefill again.
    #[inline(never)]
    fn next_preparation(&self, lane: LaneId, plan: Plan) -> Option<(Step, StageId)> {
        let engine = self.world.engine_of(lane);
        if plan.encode > 0
            && let Some(stage) = self.encode_stage()
            && self.world.costs.get(engine, stage).is_some()
        {
            return Some((Step::Encode, stage));
        }
        let transfer = self.world.transfer;
        if plan.import > 0 {
            return Some((Step::Import, transfer.import));
        }
        (plan.rebuild > 0).then_some((Step::Reconstruct, transfer.reconstruct))
    }

    /// Whether every stage of a query has ended.
    #[inline(always)]
    fn job_ends(&self, id: JobId) -> bool {
        let job = self.job(id);
        let graph = &self.world.query_graph;
        job.class == Class::Query && (graph.bound | graph.free) & !job.done == 0
    }

    /// The task of a step, and what is believed of it.
    #[inline(always)]
    pub(super) fn task(
        &self,
        job: &Job,
        part: Part,
        step: Step,
        stage: StageId,
        engine: EngineId,
    ) -> Believed {
        let service = &job.service;
        let (size, context, alone, mu) = match self.world.stages[stage.0 as usize].kind {
            StageKind::QueryPrefill => {
                (job.prompt, job.context, service.prefill, service.prefill_mu)
            }
            StageKind::Decode => (
                job.max_output - 1,
                job.context + job.prompt,
                service.alone - service.prefill,
                service.decode_mu,
            ),
            kind => self.other_task(job, step, stage, kind, engine),
        };
        let source = if step == Step::Import {
            EngineId(job.plan.source)
        } else {
            engine
        };
        let version = if job.version == UNBOUND {
            0
        } else {
            job.version
        };
        let task = Task {
            stage,
            ticket: job.ticket,
            stream: job.stream,
            size,
            context,
            version,
            source,
        };
        // Of a query's answering part the decode is the last, and mostly the longest.
        let ends_with_decode = job.class == Class::Query && part == Part::Bound;
        Believed {
            task,
            alone,
            mu,
            later_mu: if ends_with_decode {
                service.decode_mu
            } else {
                mu
            },
        }
    }

    /// Size, context, believed time alone (ns) and memory intensity of a task that is no prefill of a query or
    /// decode.
    #[inline(never)]
    fn other_task(
        &self,
        job: &Job,
        step: Step,
        stage: StageId,
        kind: StageKind,
        engine: EngineId,
    ) -> (u32, u32, u64, f64) {
        let (size, context) = match step {
            Step::Encode => (job.plan.encode, 0),
            Step::Import => (job.plan.import, 0),
            Step::Reconstruct => (job.plan.rebuild, job.plan.context),
            Step::Stage(_) | Step::Blocked => match kind {
                StageKind::Project => (job.tokens, 0),
                StageKind::Ingest => {
                    let before = self.context_tokens(job.stream, job.version - 1);
                    (job.tokens, before as u32)
                }
                _ => (1, 0),
            },
        };
        let at = if step == Step::Import {
            self.believed_copy(EngineId(job.plan.source), engine, size)
        } else {
            let n = match kind {
                StageKind::Encode => self.megapixels(job.stream),
                _ => f64::from(size),
            };
            self.believed_at(engine, stage, n, context.into())
        };
        let times = match kind {
            StageKind::Encode => size.into(),
            _ => 1.0,
        };
        let port = self.world.engines[engine.0 as usize].port_bytes_per_s;
        let (alone, mu) = at.map_or((0, 0.0), |at| (ns(at.secs * times), intensity(at, port)));
        (size, context, alone, mu)
    }
}
