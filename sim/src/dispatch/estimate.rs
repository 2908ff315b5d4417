//! What the policy expects: queued work, preparation and service; what co-running adds is in `beside`.
//!
//! Everything here comes from the believed costs and predicted lengths, never from drawn ones.

use super::NO_ESTIMATE;
use super::memo::{Service, ServiceMemo};
use super::state::{Class, Item, Job, JobId, Part, State, UNBOUND, Work};
use crate::cost::{At, CostTable};
use crate::spec::model::StageKind;
use crate::time::Instant;
use crate::world::{EngineId, LANES_MAX, LaneId, StageId, StreamId};

/// Longest estimate of an item, ns (19 h): what cannot be done counts as this, and a full queue of
/// such still adds up.
pub(crate) const ESTIMATE_MAX: u64 = 1 << 46;
/// Time of what an engine cannot do, ns, and the longest of what it can: sums of a few stay in range.
const UNABLE: u64 = u64::MAX / 8;

/// What a request costs on a lane, as the policy expects it. Times in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// W: until the lane is free for it.
    pub wait: u64,
    /// P: cheapest preparation of the version that it reads.
    pub prepare: u64,
    /// S: query prefill and decode, alone.
    pub alone: u64,
    /// S under the slowdown that it would see.
    pub beside: u64,
    /// Delay that it would cause to what runs and waits on other lanes.
    pub harm: u64,
}

/// What the policy was last told of a request on a lane: placing it there need not ask again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quote {
    job: u32,
    at: Instant,
    /// Preparation, ns.
    pub(crate) prepare: u64,
    /// Of an ingest only the time alone.
    pub(crate) service: Service,
}

impl Quote {
    pub(crate) const NONE: Self = Self {
        job: u32::MAX,
        at: Instant::NEVER,
        prepare: 0,
        service: Service::NONE,
    };
}

pub(crate) fn ns(secs: f64) -> u64 {
    crate::time::Duration::from_secs_f64(secs).0.min(UNABLE)
}

impl State<'_> {
    pub(crate) fn believed(&self) -> &CostTable {
        self.world
            .believed_costs
            .as_ref()
            .unwrap_or(&self.world.costs)
    }

    #[inline]
    pub(super) fn believed_at(
        &self,
        engine: EngineId,
        stage: StageId,
        n: f64,
        context: f64,
    ) -> Option<At> {
        // A belief in a stage that the engine cannot run is of no use.
        self.world.costs.get(engine, stage)?;
        let mut at = self.believed().get(engine, stage)?.alone.at(n, context);
        if self.throttled > 0 {
            at.secs *= self.stretch(engine);
        }
        Some(at)
    }

    /// Expected time of prefilling `tokens` again, ns; 0 for none.
    pub(crate) fn rebuild_time(&self, engine: EngineId, tokens: u32, context: u32) -> u64 {
        if tokens == 0 {
            return 0;
        }
        self.believed_at(
            engine,
            self.world.transfer.reconstruct,
            tokens.into(),
            context.into(),
        )
        .map_or(UNABLE, |at| ns(at.secs))
    }

    /// Expected time of copying `tokens` of KV, ns; `None` where a side cannot.
    pub(crate) fn import_time(
        &self,
        source: EngineId,
        engine: EngineId,
        tokens: u32,
    ) -> Option<u64> {
        self.believed_copy(source, engine, tokens)
            .map(|at| ns(at.secs))
    }

    /// Expected cost of copying `tokens` of KV.
    pub(super) fn believed_copy(
        &self,
        source: EngineId,
        engine: EngineId,
        tokens: u32,
    ) -> Option<At> {
        let bytes = self.kv_bytes(tokens.into()) as f64;
        let transfer = self.world.transfer;
        // A belief in a stage that the engine cannot run is of no use.
        self.world.costs.get(source, transfer.export)?;
        self.world.costs.get(engine, transfer.import)?;
        let mut at = self.believed().copy(transfer, source, engine, bytes)?;
        at.secs *= self.stretch(engine);
        Some(at)
    }

    /// Expected time of a stage on a lane alone, ns.
    #[inline(never)]
    pub(crate) fn stage_time(&self, job: JobId, stage: StageId, lane: LaneId) -> u64 {
        let job = self.job(job);
        let (n, context) = match self.world.stages[stage.0 as usize].kind {
            StageKind::Encode => (self.megapixels(job.stream), 0),
            StageKind::Project => (f64::from(job.tokens), 0),
            StageKind::Ingest => (
                f64::from(job.tokens),
                self.context_tokens(job.stream, job.version - 1),
            ),
            _ => (1.0, 0),
        };
        self.believed_at(self.world.engine_of(lane), stage, n, context as f64)
            .map_or(UNABLE, |at| ns(at.secs))
    }

    /// A request's service on an engine, by its sizes.
    #[inline(always)]
    pub(crate) fn service(
        &self,
        engine: EngineId,
        prompt: u32,
        predicted: u32,
        context: u32,
    ) -> Service {
        let key = (engine, prompt, predicted, context);
        self.services.get(key, || {
            self.service_anew(engine, prompt, predicted, context)
        })
    }

    #[cold]
    #[inline(never)]
    fn service_anew(&self, engine: EngineId, prompt: u32, predicted: u32, context: u32) -> Service {
        let graph = &self.world.query_graph;
        let port = self.world.engines[engine.0 as usize].port_bytes_per_s;
        let at = |position: u8, n: u32, context: u32| {
            self.believed_at(
                engine,
                graph.stages[position as usize],
                n.into(),
                context.into(),
            )
        };
        let prefill = at(graph.bound_at, prompt, context);
        let later = predicted.saturating_sub(1);
        let decode = at(graph.bound_end, later, context + prompt);
        // With no later token there is no decode, but its intensity is still that of one step.
        let step = if later == 0 {
            at(graph.bound_end, 1, context + prompt)
        } else {
            decode
        };
        let time = |at: Option<At>| at.map_or(UNABLE, |at| ns(at.secs));
        Service {
            prefill: time(prefill),
            alone: time(prefill) + time(decode),
            prefill_mu: prefill.map_or(0.0, |at| intensity(at, port)),
            decode_mu: step.map_or(0.0, |at| intensity(at, port)),
        }
    }

    pub(crate) fn megapixels(&self, stream: StreamId) -> f64 {
        self.world.streams[stream.0 as usize]
            .frames
            .as_ref()
            .map_or(1.0, |frames| frames.megapixels)
    }

    /// The version that a request reads, or would read if it started now.
    #[inline(always)]
    pub(crate) fn version_for(&self, job: &Job) -> u32 {
        if job.version == UNBOUND {
            self.stream(job.stream).published
        } else {
            job.version
        }
    }

    /// Tokens of that version.
    #[inline(always)]
    pub(crate) fn context_for(&self, job: &Job) -> u32 {
        if job.version == UNBOUND {
            self.context_tokens(job.stream, self.stream(job.stream).published) as u32
        } else {
            job.context
        }
    }

    /// Time until `lane` has ended what precedes a new item, ns.
    #[inline(always)]
    pub(crate) fn wait(&self, lane: LaneId, now: Instant, query: bool) -> u64 {
        if self.world.queue_delay.0 > 0 {
            return self.past_wait(lane, now, query);
        }
        let lane = self.lane(lane);
        let held = if lane.held.is_some() {
            lane.expected_end.saturating_since(now).0
        } else {
            0
        };
        held + if query {
            lane.backlog_queries
        } else {
            lane.backlog
        }
    }

    /// As [`Self::wait`], by the queues as they were some time ago.
    #[cold]
    fn past_wait(&self, lane: LaneId, now: Instant, query: bool) -> u64 {
        let known = self
            .past
            .front()
            .filter(|(at, _)| *at + self.world.queue_delay <= now);
        // Before the first is known, lanes are as at the start: empty.
        let work = known.map_or_else(Work::default, |(_, lanes)| lanes[lane.0 as usize]);
        let held = work.held_until.saturating_since(now).0;
        held + if query {
            work.backlog_queries
        } else {
            work.backlog
        }
    }

    /// Forgets the past that is over by `now`.
    #[cold]
    pub(super) fn forget_past(&mut self, now: Instant) {
        let delay = self.world.queue_delay;
        while self.past.get(1).is_some_and(|(at, _)| *at + delay <= now) {
            self.past.pop_front();
        }
    }

    /// Keeps the lanes' expected work as it is after an input.
    #[cold]
    pub(super) fn keep_past(&mut self, now: Instant) {
        let mut lanes = [Work::default(); LANES_MAX];
        for (work, lane) in lanes.iter_mut().zip(&self.lanes) {
            *work = Work {
                held_until: match lane.held {
                    Some(_) => lane.expected_end,
                    None => Instant::ZERO,
                },
                backlog_queries: lane.backlog_queries,
                backlog: lane.backlog,
            };
        }
        self.past.push_back((now, lanes));
    }

    /// Expected preparation and service of a request (or ingest) on a lane, alone.
    #[inline(always)]
    pub(crate) fn quote(&self, id: JobId, lane: LaneId) -> Quote {
        let quote = &self.quotes[lane.0 as usize];
        let known = quote.get();
        if known.job != id.0 || known.at != self.now {
            self.quote_anew(id, lane);
        }
        quote.get()
    }

    #[inline(never)]
    fn quote_anew(&self, id: JobId, lane: LaneId) {
        let job = self.job(id);
        let engine = self.world.engine_of(lane);
        let (prepare, service) = match job.class {
            Class::Query => {
                let context = self.context_for(job);
                let service = self.service(engine, job.prompt, job.predicted, context);
                (self.preparation_time(job, lane), service)
            }
            Class::Frame | Class::Join => {
                let graph = &self.world.frame_graph;
                let ingest = graph.stages[graph.bound_at as usize];
                let service = Service {
                    alone: self.stage_time(id, ingest, lane),
                    ..Service::NONE
                };
                (self.plan_on(job.stream, job.version - 1, lane).1, service)
            }
        };
        self.quotes[lane.0 as usize].set(Quote {
            job: id.0,
            at: self.now,
            prepare,
            service,
        });
    }

    /// Throttle steps in force from now on: what an engine is expected to take grows as its speed falls, of what runs
    /// and waits there too.
    #[cold]
    pub(crate) fn throttle(&mut self, level: u8) {
        let engines = self.world.engines.len();
        let before: Vec<f64> = self.stretches(engines).collect();
        self.throttled = level;
        self.services = ServiceMemo::new();
        for quote in &self.quotes {
            quote.set(Quote::NONE);
        }
        self.delays_of.set(NO_ESTIMATE);
        let by: Vec<f64> = self
            .stretches(engines)
            .zip(before)
            .map(|(now, before)| now / before)
            .collect();
        for index in 0..self.lanes.len() {
            let by = by[self.lanes[index].engine.0 as usize];
            if by != 1.0 {
                self.lanes[index].lengthen(self.now, by);
                self.serve_anew(index);
            }
        }
    }

    fn stretches(&self, engines: usize) -> impl Iterator<Item = f64> {
        (0..engines as u8).map(|engine| self.stretch(EngineId(engine)))
    }

    /// What the request that holds a lane is expected to take there, at its engine's present speed.
    fn serve_anew(&mut self, index: usize) {
        let lane = &self.lanes[index];
        let engine = lane.engine;
        for held in [lane.held, lane.paused].into_iter().flatten() {
            let job = self.job(held.job);
            if job.class == Class::Query && held.part == Part::Bound {
                let service = self.service(engine, job.prompt, job.predicted, job.context);
                self.job_mut(held.job).service = service;
            }
        }
    }

    /// An engine's time ÷ that at full speed.
    pub(crate) fn stretch(&self, engine: EngineId) -> f64 {
        let heat = self.world.heat.as_ref();
        heat.map_or(1.0, |heat| {
            1.0 / heat.speed(self.throttled)[engine.0 as usize]
        })
    }

    #[inline(always)]
    fn preparation_time(&self, job: &Job, lane: LaneId) -> u64 {
        let version = self.version_for(job);
        if self.world.modes.context_reuse {
            return self.plan_on(job.stream, version, lane).1;
        }
        self.private_preparation_time(job, version, self.world.engine_of(lane))
    }

    /// Of a context that is this request's alone (reuse off).
    #[inline(never)]
    fn private_preparation_time(&self, job: &Job, version: u32, engine: EngineId) -> u64 {
        let tokens = self.context_for(job);
        match job.rebuilt_on {
            Some(source) if source == engine => 0,
            Some(source) if !self.is_dead(source) => self
                .import_time(source, engine, tokens)
                .unwrap_or_else(|| self.rebuild_time(engine, tokens, 0)),
            _ => self.rebuild_anew(job.stream, version, engine),
        }
    }

    /// Expected time of prefilling a whole version again, its frames encoded again where needed, ns.
    #[inline(never)]
    fn rebuild_anew(&self, stream: StreamId, version: u32, engine: EngineId) -> u64 {
        let tokens = self.context_tokens(stream, version);
        let frames = self.frames_among(stream, version, tokens);
        self.encode_time(stream, frames, engine) + self.rebuild_time(engine, tokens as u32, 0)
    }

    /// Expected time of encoding so many frames of a stream again, ns.
    pub(crate) fn encode_time(&self, stream: StreamId, frames: u32, engine: EngineId) -> u64 {
        if frames == 0 {
            return 0;
        }
        let Some(stage) = self.encode_stage() else {
            return 0;
        };
        self.believed_at(engine, stage, self.megapixels(stream), 0.0)
            .map_or(0, |at| {
                ns(at.secs).saturating_mul(frames.into()).min(UNABLE)
            })
    }

    /// Frames that prefilling the newest `tokens` of a version again encodes again; none where
    /// embeddings are kept.
    pub(crate) fn frames_among(&self, stream: StreamId, version: u32, tokens: u64) -> u32 {
        if self.world.modes.embedding_cache || tokens == 0 {
            return 0;
        }
        let context = self.stream(stream);
        let (newest, mut from) = (context.item(version), version);
        while from > context.base.max(newest.low)
            && newest.total - context.item(from).total < tokens
        {
            from -= 1;
        }
        newest.frames - context.item(from).frames
    }

    /// The model's encode stage, if it has one.
    pub(crate) fn encode_stage(&self) -> Option<StageId> {
        self.world
            .frame_graph
            .stages
            .iter()
            .copied()
            .find(|stage| self.world.stages[stage.0 as usize].kind == StageKind::Encode)
    }

    /// Expected time of an item on a lane, ns.
    #[inline(always)]
    pub(crate) fn item_time(&self, job: JobId, part: Part, lane: LaneId) -> u64 {
        match part {
            Part::Free(position) => {
                let graph = self.graph(job);
                self.stage_time(job, graph.stages[position as usize], lane)
            }
            Part::Bound => {
                let quote = self.quote(job, lane);
                quote.prepare + quote.service.alone
            }
            Part::Rebuild => {
                let engine = self.world.engine_of(lane);
                let job = self.job(job);
                self.rebuild_anew(job.stream, self.version_for(job), engine)
            }
        }
    }

    /// The lane among `lanes` that is expected to end an item first.
    pub(crate) fn earliest(
        &self,
        job: JobId,
        part: Part,
        lanes: u16,
        now: Instant,
    ) -> Option<LaneId> {
        super::state::lanes_of(lanes).min_by_key(|&lane| {
            self.wait(lane, now, false)
                .saturating_add(self.item_time(job, part, lane))
        })
    }

    /// An item with its expected time on `lane`.
    #[inline(always)]
    pub(crate) fn item(&self, job: JobId, part: Part, lane: LaneId) -> Item {
        self.item_for(job, part, self.item_time(job, part, lane))
    }

    /// An item that is expected to take so long, ns.
    #[inline(always)]
    pub(crate) fn item_for(&self, job: JobId, part: Part, expected: u64) -> Item {
        Item {
            job,
            part,
            query: self.job(job).class == Class::Query,
            arrived: self.job(job).arrived,
            estimate: expected.min(ESTIMATE_MAX),
        }
    }
}

/// Memory intensity μ of a cost on an engine of this port rate.
#[inline]
pub(crate) fn intensity(at: At, port_bytes_per_s: f64) -> f64 {
    if at.secs > 0.0 {
        (at.bytes / port_bytes_per_s / at.secs).clamp(0.0, 1.0)
    } else {
        0.0
    }
}
