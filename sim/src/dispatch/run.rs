//! Lanes at work: what may start, what a part does step by step, and how it ends.

use super::context::answer_item;
use super::state::{Class, Item, JobId, Part, Plan, State, Step, UNBOUND, lanes_of};
use super::{
    Completion, Dispatcher, Effect, Effects, Job, NO_TICKET, Preparation, Reason, Task,
    answer_digest, blank,
};
use crate::contention::Load;
use crate::spec::model::StageKind;
use crate::time::{Duration, Instant};
use crate::world::{EngineId, LaneId, StageId, StreamId};

impl Dispatcher<'_> {
    /// Starts what may start, lane by lane, each lane's queue in order.
    pub(super) fn start_lanes(&mut self, now: Instant, effects: &mut Effects) {
        for index in 0..self.state.lanes.len() {
            let lane = LaneId(index as u8);
            let state = &self.state.lanes[index];
            if state.failed {
                continue;
            }
            if let Some(held) = state.held {
                if !state.running {
                    self.step(lane, held, now, effects);
                }
                let state = self.state.lane(lane);
                if state.held.is_some() {
                    if !state.running && !state.queries.is_empty() {
                        self.start_meanwhile(lane, now, effects);
                    }
                    continue;
                }
            }
            if self.state.lane(lane).queue_is_empty() {
                continue;
            }
            if !self.start_queued(lane, true, now, effects) {
                self.start_queued(lane, false, now, effects);
            }
        }
    }

    /// While the part that holds a lane waits for a stage of its request, the lane runs such stages:
    /// else two requests could wait for each other, or one for itself.
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
        while let Some(&item) = self.state.lane_mut(lane).queue_mut(query).get(at) {
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
        if let Some(lane) = self.rebuild_lane(id).filter(|_| item.query) {
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
    fn turn_away(&mut self, item: Item, reason: Reason, effects: &mut Effects) {
        self.part_ended = true;
        if item.query && item.part == Part::Bound {
            let stream = self.state.job(item.job).stream;
            self.state.stream_mut(stream).ready_answers -= 1;
        }
        self.lose(item.job, reason, effects);
    }

    /// Reserves what a part needs. A version is bound here at the latest.
    fn begin(&mut self, lane: LaneId, item: Item, now: Instant, effects: &mut Effects) -> Begun {
        let world = self.state.world;
        let id = item.job;
        let engine = world.engine_of(lane);
        let job = self.state.job(id);
        let stream = job.stream;
        match item.part {
            Part::Free(_) => {
                if job.class != Class::Query {
                    self.state.stream_mut(stream).ingesting += 1;
                }
                Begun::Yes
            }
            Part::Rebuild => {
                let version = self.state.version_for(job);
                if self.state.too_long(job, version) {
                    return Begun::Refused(Reason::ContextTooLong);
                }
                let tokens = self.state.context_tokens(stream, version);
                let bytes = self.state.kv_bytes(tokens);
                if bytes > world.engines[engine.0 as usize].kv_budget {
                    return Begun::NeverHere;
                }
                if !self.room_for_copy(id, engine, bytes, effects) {
                    return Begun::NotYet;
                }
                self.state.give_kv(engine, bytes);
                let encode = self.state.frames_among(stream, version, tokens);
                self.bind(id, version, effects);
                let job = self.state.job_mut(id);
                job.lane = lane;
                job.rebuilt_on = Some(engine);
                job.rebuilt_bytes = bytes;
                job.plan = Plan {
                    encode,
                    rebuild: tokens as u32,
                    ..Plan::default()
                };
                self.state.stream_mut(stream).ingesting += 1;
                Begun::Yes
            }
            Part::Bound => {
                if job.class == Class::Query
                    && job.version == UNBOUND
                    && self.state.too_long(job, self.state.version_for(job))
                {
                    return Begun::Refused(Reason::ContextTooLong);
                }
                if !self.state.can_begin(id, engine) {
                    return Begun::NeverHere;
                }
                if self.state.job(id).class == Class::Query {
                    self.begin_answer(lane, id, now, effects)
                } else {
                    self.begin_ingest(lane, id, now, effects)
                }
            }
        }
    }

    /// Makes room for a version that a part reads and for what the part adds, in tokens; says how much
    /// of the version is missing then.
    fn room_for(
        &mut self,
        engine: EngineId,
        stream: StreamId,
        version: u32,
        added: u64,
        effects: &mut Effects,
    ) -> Result<u64, Begun> {
        let state = &mut self.state;
        let resident = state.resident(engine, stream);
        let missing = state
            .stream(stream)
            .missing(resident, version, state.world.keep);
        let bytes = state.kv_bytes(missing + added);
        if state.make_room(engine, stream, bytes, effects) {
            return Ok(missing);
        }
        if state.lanes_busy > 0 {
            return Err(Begun::NotYet);
        }
        // Nothing runs that could give memory back: other versions of the stream are in the way.
        if state.resident(engine, stream).present && state.rebuilders & (1 << engine.0) != 0 {
            state.evict(engine, stream, effects);
            let whole = state.context_tokens(stream, version);
            let bytes = state.kv_bytes(whole + added);
            if state.make_room(engine, stream, bytes, effects) {
                return Ok(whole);
            }
        }
        Err(Begun::NeverHere)
    }

    /// Makes room for a copy that is one request's alone (reuse off).
    fn room_for_copy(
        &mut self,
        id: JobId,
        engine: EngineId,
        bytes: u64,
        effects: &mut Effects,
    ) -> bool {
        let stream = self.state.job(id).stream;
        if self.state.make_room(engine, stream, bytes, effects) {
            return true;
        }
        if self.state.lanes_busy > 0 {
            return false;
        }
        // Nothing runs that could give memory back: contexts rebuilt for requests that wait go.
        for index in 0..self.state.jobs.len() as u32 {
            if JobId(index) != id {
                self.state.drop_rebuilt(JobId(index));
            }
        }
        self.state.make_room(engine, stream, bytes, effects)
    }

    fn begin_answer(
        &mut self,
        lane: LaneId,
        id: JobId,
        now: Instant,
        effects: &mut Effects,
    ) -> Begun {
        let world = self.state.world;
        let engine = world.engine_of(lane);
        let job = self.state.job(id);
        let stream = job.stream;
        let version = self.state.version_for(job);
        let own = u64::from(job.prompt) + u64::from(job.max_output);
        let context = self.state.context_tokens(stream, version);
        let plan;
        if world.modes.context_reuse {
            let missing = match self.room_for(engine, stream, version, own, effects) {
                Ok(missing) => missing,
                Err(begun) => return begun,
            };
            let private = self.state.kv_bytes(own);
            plan = self.reserve(stream, version, engine, missing, now);
            self.state.give_kv(engine, private);
            self.state.job_mut(id).private_bytes = private;
        } else {
            let rebuilt = self.state.job(id).rebuilt_on;
            let copy = if rebuilt == Some(engine) { 0 } else { context };
            let mut private = self.state.kv_bytes(own + copy);
            if !self.room_for_copy(id, engine, private, effects) {
                if self.state.lanes_busy > 0 {
                    return Begun::NotYet;
                }
                // Not even with nothing else there: its own rebuilt context is in the way.
                self.state.drop_rebuilt(id);
                private = self.state.kv_bytes(own + context);
                if !self.state.can_begin(id, engine)
                    || !self.state.make_room(engine, stream, private, effects)
                {
                    return Begun::Refused(Reason::NeverFits);
                }
            }
            self.state.give_kv(engine, private);
            self.state.job_mut(id).private_bytes = private;
            plan = self.private_plan(id, version, engine, context as u32);
        }
        self.bind(id, version, effects);
        let (newest_frame, behind) = {
            let context = self.state.stream(stream);
            let item = context.item(version);
            (
                item.newest_frame,
                context.frames.saturating_sub(item.frames),
            )
        };
        let job = self.state.job_mut(id);
        // A context rebuilt on the ingesting lane was reconstructed, wherever it is copied to.
        job.preparation = if job.rebuilt_on.is_some() {
            Preparation::Reconstruct
        } else {
            plan.kind()
        };
        job.plan = plan;
        job.lane = lane;
        job.context = context as u32;
        job.started = now;
        job.newest_frame = newest_frame;
        job.frames_behind = behind;
        let (prompt, predicted) = (job.prompt, job.predicted);
        let service = self
            .state
            .service(engine, prompt, predicted, context as u32);
        self.state.job_mut(id).service = service;
        let streams = self.state.stream_mut(stream);
        streams.ready_answers -= 1;
        streams.answering += 1;
        self.state.answers_running += 1;
        Begun::Yes
    }

    /// How a context that is this request's alone becomes usable (reuse off).
    fn private_plan(&self, id: JobId, version: u32, engine: EngineId, tokens: u32) -> Plan {
        let job = self.state.job(id);
        match job.rebuilt_on {
            Some(source) if source == engine => Plan::default(),
            Some(source) if self.state.import_time(source, engine, tokens).is_some() => Plan {
                import: tokens,
                source: source.0,
                ..Plan::default()
            },
            _ => Plan {
                encode: self.state.frames_among(job.stream, version, tokens.into()),
                rebuild: tokens,
                ..Plan::default()
            },
        }
    }

    fn begin_ingest(
        &mut self,
        lane: LaneId,
        id: JobId,
        now: Instant,
        effects: &mut Effects,
    ) -> Begun {
        let world = self.state.world;
        let engine = world.engine_of(lane);
        let job = self.state.job(id);
        let (stream, before, tokens) = (job.stream, job.version - 1, u64::from(job.tokens));
        let missing = match self.room_for(engine, stream, before, tokens, effects) {
            Ok(missing) => missing,
            Err(begun) => return begun,
        };
        let plan = self.reserve(stream, before, engine, missing, now);
        self.state.give_kv(engine, self.state.kv_bytes(tokens));
        self.state.resident_mut(engine, stream).tokens += tokens;
        let job = self.state.job_mut(id);
        job.plan = plan;
        job.lane = lane;
        self.state.stream_mut(stream).ingesting += 1;
        Begun::Yes
    }

    /// Pins what a part reads, and counts what it will add.
    fn reserve(
        &mut self,
        stream: StreamId,
        version: u32,
        engine: EngineId,
        missing: u64,
        now: Instant,
    ) -> Plan {
        let (mut plan, _) = self.state.plan(stream, version, engine);
        if plan.import > 0 {
            self.state.resident_mut(EngineId(plan.source), stream).pins += 1;
            plan.source_pinned = true;
        }
        self.state.give_kv(engine, self.state.kv_bytes(missing));
        let resident = self.state.resident_mut(engine, stream);
        resident.pins += 1;
        resident.tokens += missing;
        resident.used = resident.used.max(now);
        if missing == 0 && !resident.present {
            // An empty context without a system prompt: nothing to prepare.
            self.state.settle(engine, stream, version, now);
        }
        plan
    }

    fn bind(&mut self, id: JobId, version: u32, effects: &mut Effects) {
        let job = self.state.job_mut(id);
        if job.version == UNBOUND {
            job.version = version;
            effects.push(Effect::Bind {
                stream: job.stream,
                index: job.index,
                version,
            });
        }
    }

    /// Starts the next stage of the part that holds a lane, or ends the part.
    fn step(&mut self, lane: LaneId, held: Item, now: Instant, effects: &mut Effects) {
        let world = self.state.world;
        let engine = world.engine_of(lane);
        let id = held.job;
        if self.state.job(id).gone {
            self.part_ended = true;
            return self.forget_if_idle(id);
        }
        let Some((step, stage)) = self.state.next_step(id, held.part) else {
            return self.end_part(lane, held, now, effects);
        };
        let groups = world.exclusive[engine.0 as usize][stage.0 as usize];
        let job = self.state.job(id);
        if let Step::Stage(position) = step {
            let graph = self.state.graph(id);
            if graph.after[position as usize] & !job.done != 0 && job.class != Class::Join {
                return;
            }
        }
        if groups & self.state.exclusive_running != 0
            || self.state.serial && self.state.anything_runs()
        {
            return;
        }
        let task = self.state.task(id, step, stage, engine);
        let load = self.load(id, engine, &task);
        if let Step::Stage(position) = step {
            self.check_version(id, position, engine);
        }
        self.state.exclusive_running |= groups;
        let state = self.state.lane_mut(lane);
        state.step = step;
        state.stage = stage;
        state.running = true;
        state.load = load;
        effects.push(Effect::Start { lane, task });
    }

    fn load(&self, id: JobId, engine: EngineId, task: &Task) -> Load {
        let kind = self.state.world.stages[task.stage.0 as usize].kind;
        let n = match kind {
            StageKind::QueryPrefill | StageKind::Decode => {
                let service = &self.state.job(id).service;
                let prefill = kind == StageKind::QueryPrefill;
                let mu = if prefill {
                    service.prefill_mu
                } else {
                    service.decode_mu
                };
                return Load { engine, mu };
            }
            StageKind::Encode => self.state.megapixels(task.stream),
            StageKind::Import => self.state.kv_bytes(task.size.into()) as f64,
            _ => f64::from(task.size),
        };
        self.state
            .believed_load(engine, task.stage, n, task.context.into())
    }

    /// INV-5: a request's stages read exactly the version that it is bound to.
    fn check_version(&self, id: JobId, position: u8, engine: EngineId) {
        let job = self.state.job(id);
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
        let gone_for_others = resident.present && job.version <= resident.low;
        assert!(
            gone_for_others || stream.missing(resident, job.version, self.state.world.keep) == 0,
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
        let engine = self.state.world.engine_of(lane);
        let state = self.state.lane_mut(lane);
        let (step, stage) = (state.step, state.stage);
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
        self.state.exclusive_running &=
            !self.state.world.exclusive[engine.0 as usize][stage.0 as usize];
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

    fn end_stage(&mut self, id: JobId, part: Part, position: u8, tokens: u32, now: Instant) {
        let graph = self.state.graph(id);
        let job = self.state.job_mut(id);
        job.done |= 1 << position;
        match job.class {
            Class::Query if part == Part::Bound && position == graph.bound_at => {
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
        let engine = self.state.world.engine_of(lane);
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

    fn complete(&mut self, id: JobId, now: Instant, effects: &mut Effects) {
        let world = self.state.world;
        let job = self.state.job(id).clone();
        let joins = world.answers_join_history && self.may_join(&job);
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
            frames_behind: job.frames_behind,
            late: job.deadline.is_some_and(|deadline| now > deadline),
            joins,
            digest: answer_digest(version_digest, job.index, job.prompt),
        }));
        self.state.requests -= 1;
        self.state.remove(id);
        if joins {
            self.join(&job, now, effects);
        }
    }

    /// Whether an answer can become an item of its stream's context: once the longest context is
    /// reached, or no lane ingests any more, it cannot, and the completion says so.
    fn may_join(&self, answered: &Job) -> bool {
        let world = self.state.world;
        let tokens = answered.prompt + answered.output;
        let stream = self.state.stream(answered.stream);
        let held = stream.tokens(stream.accepted, world.keep) + u64::from(tokens);
        held <= world.model.max_context_tokens.into()
            && (!world.modes.context_reuse || self.ever_fits(self.state.ingest_lanes, held))
    }

    /// The answer becomes the next item of its stream's context.
    fn join(&mut self, answered: &Job, now: Instant, effects: &mut Effects) {
        let keep = self.state.world.keep;
        let tokens = answered.prompt + answered.output;
        let stream = self.state.stream_mut(answered.stream);
        let version = stream.accept(None, tokens, answer_item(answered.index, tokens), keep);
        let id = self.state.insert(Job {
            ticket: NO_TICKET,
            version,
            tokens,
            ..blank(Class::Join, answered.stream, answered.index, now)
        });
        self.state.stream_mut(answered.stream).pending.push_back(id);
        self.advance_stream(answered.stream, now, effects);
    }
}

enum Begun {
    Yes,
    NotYet,
    NeverHere,
    Refused(Reason),
}

impl State<'_> {
    /// Whether the modes let a part take a lane now.
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

    /// Whether an engine could hold a bound part with nothing else there, and have its version.
    fn can_begin(&self, id: JobId, engine: EngineId) -> bool {
        self.bytes_needed(id) <= self.world.engines[engine.0 as usize].kv_budget
            && (self.rebuilders & (1 << engine.0) != 0 || self.can_prepare(id, engine))
    }

    /// Whether an engine that cannot rebuild a context can have a bound part's version.
    fn can_prepare(&self, id: JobId, engine: EngineId) -> bool {
        let job = self.job(id);
        let version = match job.class {
            Class::Query => self.version_for(job),
            Class::Frame | Class::Join => job.version - 1,
        };
        if self.world.modes.context_reuse {
            return self.plan(job.stream, version, engine).0.rebuild == 0;
        }
        let tokens = self.context_tokens(job.stream, version) as u32;
        match job.rebuilt_on {
            Some(source) if source == engine => true,
            Some(source) if self.import_time(source, engine, tokens).is_some() => true,
            _ => tokens == 0,
        }
    }

    /// Whether a request on this version exceeds the model's longest context.
    pub(super) fn too_long(&self, job: &Job, version: u32) -> bool {
        let tokens = self.context_tokens(job.stream, version)
            + u64::from(job.prompt)
            + u64::from(job.max_output);
        tokens > self.world.model.max_context_tokens.into()
    }

    fn anything_runs(&self) -> bool {
        self.lanes.iter().any(|lane| lane.running)
    }

    /// Whether a part's next stage waits for another stage of its request.
    fn awaits_stage(&self, item: Item) -> bool {
        match self.next_step(item.job, item.part) {
            Some((Step::Stage(position), _)) => {
                let job = self.job(item.job);
                self.graph(item.job).after[position as usize] & !job.done != 0
                    && job.class != Class::Join
            }
            _ => false,
        }
    }

    /// KV bytes that a bound part needs on its engine, if nothing of its stream were there.
    fn bytes_needed(&self, id: JobId) -> u64 {
        let job = self.job(id);
        let tokens = match job.class {
            Class::Query => {
                self.context_tokens(job.stream, self.version_for(job))
                    + u64::from(job.prompt)
                    + u64::from(job.max_output)
            }
            Class::Frame | Class::Join => {
                self.context_tokens(job.stream, job.version - 1) + u64::from(job.tokens)
            }
        };
        self.kv_bytes(tokens)
    }

    /// The next step of a part and its stage; `None`: the part is over.
    fn next_step(&self, id: JobId, part: Part) -> Option<(Step, StageId)> {
        let job = self.job(id);
        let graph = self.graph(id);
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
            graph.bound_mask() & !job.done
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
    fn job_ends(&self, id: JobId) -> bool {
        let job = self.job(id);
        job.class == Class::Query && job.done.count_ones() as usize == self.graph(id).stages.len()
    }

    fn task(&self, id: JobId, step: Step, stage: StageId, engine: EngineId) -> Task {
        let job = self.job(id);
        let (size, context) = match step {
            Step::Encode => (job.plan.encode, 0),
            Step::Import => (job.plan.import, 0),
            Step::Reconstruct => (job.plan.rebuild, job.plan.context),
            Step::Stage(_) | Step::Blocked => {
                let before = |version| self.context_tokens(job.stream, version) as u32;
                match self.world.stages[stage.0 as usize].kind {
                    StageKind::Project => (job.tokens, 0),
                    StageKind::Ingest => (job.tokens, before(job.version - 1)),
                    StageKind::QueryPrefill => (job.prompt, job.context),
                    StageKind::Decode => (job.max_output - 1, job.context + job.prompt),
                    _ => (1, 0),
                }
            }
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
        Task {
            stage,
            ticket: job.ticket,
            stream: job.stream,
            size,
            context,
            version,
            source,
        }
    }
}
