//! What must be reserved for a part before a lane starts it: memory, pins, a version.

use super::state::{Class, Item, Job, JobId, Part, Plan, State, UNBOUND};
use super::{Dispatcher, Effect, Effects, Preparation, Reason};
use crate::time::Instant;
use crate::world::{EngineId, LaneId, StreamId};

/// Whether a part may start.
pub(super) enum Begun {
    Yes,
    NotYet,
    NeverHere,
    Refused(Reason),
}

impl Dispatcher<'_> {
    /// Reserves what a part needs. A version is bound here at the latest.
    #[inline(always)]
    pub(super) fn begin(
        &mut self,
        lane: LaneId,
        item: Item,
        now: Instant,
        effects: &mut Effects,
    ) -> Begun {
        let id = item.job;
        let engine = self.state.lane(lane).engine;
        let job = self.state.job(id);
        let stream = job.stream;
        match item.part {
            Part::Free(_) => {
                if job.class != Class::Query {
                    self.state.stream_mut(stream).ingesting += 1;
                }
                Begun::Yes
            }
            Part::Rebuild => self.begin_rebuild(lane, id, effects),
            Part::Bound if job.class == Class::Query => {
                if job.version == UNBOUND && self.state.too_long(job) {
                    return Begun::Refused(Reason::ContextTooLong);
                }
                if !self.state.can_begin(id, engine) {
                    return Begun::NeverHere;
                }
                self.begin_answer(lane, id, now, effects)
            }
            Part::Bound => {
                if !self.state.can_begin(id, engine) {
                    return Begun::NeverHere;
                }
                self.begin_ingest(lane, id, now, effects)
            }
        }
    }

    /// Reserves what a context rebuilt for one request alone needs (reuse off).
    #[inline(never)]
    fn begin_rebuild(&mut self, lane: LaneId, id: JobId, effects: &mut Effects) -> Begun {
        let world = self.state.world;
        let engine = world.engine_of(lane);
        let job = self.state.job(id);
        let stream = job.stream;
        let version = self.state.version_for(job);
        if self.state.too_long(job) {
            return Begun::Refused(Reason::ContextTooLong);
        }
        let tokens = self.state.context_for(job);
        let bytes = self.state.kv_bytes(tokens.into());
        if bytes > world.engines[engine.0 as usize].kv_budget {
            return Begun::NeverHere;
        }
        if !self.room_for_copy(id, engine, bytes, effects) {
            return Begun::NotYet;
        }
        self.state.give_kv(engine, bytes);
        let encode = self.state.frames_among(stream, version, tokens.into());
        self.bind(id, version, tokens, effects);
        let job = self.state.job_mut(id);
        job.lane = lane;
        job.rebuilt_on = Some(engine);
        job.rebuilt_bytes = bytes;
        job.plan = Plan {
            encode,
            rebuild: tokens,
            ..Plan::default()
        };
        self.state.stream_mut(stream).ingesting += 1;
        Begun::Yes
    }

    /// Makes room for a version that a part reads and for what the part adds, in tokens; says how much
    /// of the version is missing then.
    #[inline(always)]
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
        if state.make_room(engine, stream, Some(version), bytes, effects) {
            return Ok(missing);
        }
        self.room_without_resident(engine, stream, version, added, effects)
    }

    /// As [`Self::room_for`], after what nobody uses was not enough.
    #[inline(never)]
    fn room_without_resident(
        &mut self,
        engine: EngineId,
        stream: StreamId,
        version: u32,
        added: u64,
        effects: &mut Effects,
    ) -> Result<u64, Begun> {
        let state = &mut self.state;
        if state.lanes_busy > 0 {
            return Err(Begun::NotYet);
        }
        // Nothing runs that could give memory back: other versions of the stream are in the way.
        if state.resident(engine, stream).present && state.rebuilders & (1 << engine.0) != 0 {
            state.evict(engine, stream, effects);
            let whole = state.context_tokens(stream, version);
            let bytes = state.kv_bytes(whole + added);
            if state.make_room(engine, stream, Some(version), bytes, effects) {
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
        if self.state.make_room(engine, stream, None, bytes, effects) {
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
        self.state.make_room(engine, stream, None, bytes, effects)
    }

    #[inline(always)]
    fn begin_answer(
        &mut self,
        lane: LaneId,
        id: JobId,
        now: Instant,
        effects: &mut Effects,
    ) -> Begun {
        let engine = self.state.lane(lane).engine;
        let job = self.state.job(id);
        let stream = job.stream;
        let version = self.state.version_for(job);
        let (prompt, predicted) = (job.prompt, job.predicted);
        let own = u64::from(prompt) + u64::from(job.max_output);
        let context = self.state.context_for(job);
        let reserved = if self.state.world.modes.context_reuse {
            self.room_for(engine, stream, version, own, effects)
                .map(|missing| {
                    let plan = self.reserve(stream, version, engine, missing, now);
                    (plan, self.state.kv_bytes(own))
                })
        } else {
            self.room_for_private(id, version, engine, own, effects)
        };
        let (plan, private) = match reserved {
            Ok(reserved) => reserved,
            Err(begun) => return begun,
        };
        self.state.give_kv(engine, private);
        self.bind(id, version, context, effects);
        let service = self.state.service(engine, prompt, predicted, context);
        let state = &mut self.state;
        let read = &mut state.streams[stream.0 as usize];
        read.ready_answers -= 1;
        read.answering += 1;
        let job = &mut state.jobs[id.0 as usize];
        // A context rebuilt on the ingesting lane was reconstructed, wherever it is copied to.
        job.preparation = if job.rebuilt_on.is_some() {
            Preparation::Reconstruct
        } else {
            plan.kind()
        };
        job.plan = plan;
        job.lane = lane;
        job.private_bytes = private;
        job.started = now;
        job.service = service;
        self.state.answers_running += 1;
        Begun::Yes
    }

    /// Makes room for a request whose context is its own alone (reuse off), and for what it adds, in
    /// tokens; says how the context becomes usable, and its bytes.
    #[inline(never)]
    fn room_for_private(
        &mut self,
        id: JobId,
        version: u32,
        engine: EngineId,
        added: u64,
        effects: &mut Effects,
    ) -> Result<(Plan, u64), Begun> {
        let job = self.state.job(id);
        let (stream, rebuilt) = (job.stream, job.rebuilt_on);
        let context = self.state.context_for(job);
        let copy = if rebuilt == Some(engine) { 0 } else { context };
        let mut bytes = self.state.kv_bytes(added + u64::from(copy));
        if !self.room_for_copy(id, engine, bytes, effects) {
            if self.state.lanes_busy > 0 {
                return Err(Begun::NotYet);
            }
            // Not even with nothing else there: its own rebuilt context is in the way.
            self.state.drop_rebuilt(id);
            bytes = self.state.kv_bytes(added + u64::from(context));
            if !self.state.can_begin(id, engine)
                || !self.state.make_room(engine, stream, None, bytes, effects)
            {
                return Err(Begun::Refused(Reason::NeverFits));
            }
        }
        Ok((self.state.private_plan(id, version, engine, context), bytes))
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
    #[inline(always)]
    fn reserve(
        &mut self,
        stream: StreamId,
        version: u32,
        engine: EngineId,
        missing: u64,
        now: Instant,
    ) -> Plan {
        let mut plan = if missing == 0 {
            Plan::default()
        } else {
            self.state.plan(stream, version, engine).0
        };
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

    /// Binds a request, unless it is bound, to a version of so many tokens.
    #[inline(always)]
    fn bind(&mut self, id: JobId, version: u32, context: u32, effects: &mut Effects) {
        let job = self.state.job_mut(id);
        if job.version == UNBOUND {
            job.version = version;
            job.context = context;
            effects.push(Effect::Bind {
                stream: job.stream,
                index: job.index,
                version,
            });
        }
    }
}

impl State<'_> {
    /// How a context that is this request's alone becomes usable (reuse off).
    pub(super) fn private_plan(
        &self,
        id: JobId,
        version: u32,
        engine: EngineId,
        tokens: u32,
    ) -> Plan {
        let job = self.job(id);
        match job.rebuilt_on {
            Some(source) if source == engine => Plan::default(),
            Some(source) if self.import_time(source, engine, tokens).is_some() => Plan {
                import: tokens,
                source: source.0,
                ..Plan::default()
            },
            _ => Plan {
                encode: self.frames_among(job.stream, version, tokens.into()),
                rebuild: tokens,
                ..Plan::default()
            },
        }
    }

    /// Whether an engine could hold a bound part with nothing else there, and have its version.
    #[inline(always)]
    pub(super) fn can_begin(&self, id: JobId, engine: EngineId) -> bool {
        self.bytes_needed(id) <= self.world.engines[engine.0 as usize].kv_budget
            && (self.rebuilders & (1 << engine.0) != 0 || self.can_prepare(id, engine))
    }

    /// Whether an engine that cannot rebuild a context can have a bound part's version.
    #[inline(never)]
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

    /// Whether a request exceeds the model's longest context.
    pub(super) fn too_long(&self, job: &Job) -> bool {
        self.tokens_needed(job) > self.world.model.max_context_tokens.into()
    }

    /// Tokens of a request with all that it reads and adds.
    #[inline(always)]
    pub(super) fn tokens_needed(&self, job: &Job) -> u64 {
        let own = u64::from(job.prompt) + u64::from(job.max_output);
        u64::from(self.context_for(job)) + own
    }

    /// KV bytes that a bound part needs on its engine, if nothing of its stream were there.
    #[inline(always)]
    pub(super) fn bytes_needed(&self, id: JobId) -> u64 {
        let job = self.job(id);
        let tokens = match job.class {
            Class::Query => self.tokens_needed(job),
            Class::Frame | Class::Join => {
                self.context_tokens(job.stream, job.version - 1) + u64::from(job.tokens)
            }
        };
        self.kv_bytes(tokens)
    }
}
