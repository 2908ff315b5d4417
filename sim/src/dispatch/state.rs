//! What the scheduler remembers: jobs, lanes, streams, residency.

use std::cell::{Cell, OnceCell};
use std::collections::VecDeque;

use super::context::StreamState;
use super::estimate::{ESTIMATE_MAX, Quote};
use super::memo::{Service, ServiceMemo, SlowdownMemo};
use super::message::Preparation;
use super::residency::Resident;
use crate::contention::Load;
use crate::diag::Faults;
use crate::spec::scenario::StateTransfer;
use crate::time::{Duration, Instant};
use crate::world::{
    ENGINES_MAX, EngineId, LANES_MAX, LaneId, STAGES_MAX, StageId, StreamId, World,
};

/// No version yet: bound when the request starts.
pub(crate) const UNBOUND: u32 = u32::MAX;
/// Ticket of a job that the executor does not know.
pub(crate) const NO_TICKET: u32 = u32::MAX;

/// Index of a job in the slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JobId(pub(crate) u32);

/// What a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// A frame on its way into the context.
    Frame,
    /// A query.
    Query,
    /// An answer on its way into the context.
    Join,
}

/// A frame, query or answer in the system.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) class: Class,
    pub(crate) stream: StreamId,
    pub(crate) index: u32,
    pub(crate) ticket: u32,
    pub(crate) arrived: Instant,
    pub(crate) deadline: Option<Instant>,
    pub(crate) prompt: u32,
    pub(crate) predicted: u32,
    pub(crate) max_output: u32,
    /// Query: version that it reads. Frame, join: version that it makes.
    pub(crate) version: u32,
    /// Frame, join: tokens that it adds.
    pub(crate) tokens: u32,
    /// Positions of its graph that have ended, and that have been issued.
    pub(crate) done: u32,
    pub(crate) issued: u32,
    /// Lane that holds its bound stages.
    pub(crate) lane: LaneId,
    pub(crate) plan: Plan,
    pub(crate) preparation: Preparation,
    /// Query: tokens of its version, once bound.
    pub(crate) context: u32,
    /// Once it has started: its expected service on its lane.
    pub(crate) service: Service,
    /// KV bytes held for it alone on its lane's engine.
    pub(crate) private_bytes: u64,
    /// Engine of a context rebuilt for it alone (reuse off), and its bytes.
    pub(crate) rebuilt_on: Option<EngineId>,
    pub(crate) rebuilt_bytes: u64,
    pub(crate) started: Instant,
    pub(crate) first_token: Instant,
    pub(crate) newest_frame: Option<Instant>,
    pub(crate) missed_frame: Option<Instant>,
    pub(crate) frames_behind: u32,
    pub(crate) output: u32,
    /// Lanes that could not serve it and sent it on, as bits.
    pub(crate) avoid: u16,
    /// It was refused while a lane ran a part of it; the slot is free once that ends.
    pub(crate) gone: bool,
    /// The slot is on the free list.
    pub(crate) free: bool,
}

/// How a version becomes usable on an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Frames to encode again.
    pub(crate) encode: u32,
    /// Tokens to copy.
    pub(crate) import: u32,
    /// Engine to copy from.
    pub(crate) source: u8,
    /// Tokens to prefill again.
    pub(crate) rebuild: u32,
    /// Tokens resident before the prefill.
    pub(crate) context: u32,
    /// Whether the copy's source stays pinned until the copy ends.
    pub(crate) source_pinned: bool,
}

impl Plan {
    pub(crate) fn kind(self) -> Preparation {
        match (self.import > 0, self.rebuild > 0 || self.encode > 0) {
            (false, false) => Preparation::Reuse,
            (true, false) => Preparation::Import,
            (false, true) => Preparation::Reconstruct,
            (true, true) => Preparation::ImportAndReconstruct,
        }
    }
}

/// A job's part that waits for a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) job: JobId,
    pub(crate) part: Part,
    pub(crate) query: bool,
    /// Arrival of the frame or query.
    pub(crate) arrived: Instant,
    /// Expected time on the lane, ns.
    pub(crate) estimate: u64,
}

impl Item {
    /// The bit of its stage within its graph; 0 for a part of several.
    pub(crate) fn stage_bit(&self) -> u32 {
        match self.part {
            Part::Free(position) => 1 << position,
            Part::Bound | Part::Rebuild => 0,
        }
    }

    /// Whether it is a stage of a query outside its bound chain.
    pub(crate) fn is_stage(&self) -> bool {
        self.query && matches!(self.part, Part::Free(_))
    }
}

/// Part of a job that a lane runs without interruption by other jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A stage outside the bound chain, by position in its graph.
    Free(u8),
    /// Preparation and the bound stages.
    Bound,
    /// A context rebuilt for one request on the lane that ingests (reuse off).
    Rebuild,
}

/// What a lane is doing within the part that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing: waiting for another stage of the job, or for an exclusive stage to end.
    Blocked,
    /// Encoding a rebuilt context's frames again.
    Encode,
    /// Copying KV.
    Import,
    /// Prefilling a prefix.
    Reconstruct,
    /// The stage at this position of the job's graph.
    Stage(u8),
}

/// A lane.
#[derive(Clone, Debug)]
pub(crate) struct LaneState {
    pub(crate) engine: EngineId,
    /// Parts that wait for it. Queries' go first, in order of placement; frames' in order of the frames'
    /// arrival, so that no newer frame overtakes an older one's ingest.
    pub(crate) queries: VecDeque<Item>,
    pub(crate) frames: VecDeque<Item>,
    /// The part that holds the lane.
    pub(crate) held: Option<Item>,
    /// The part that gave the lane up for a stage that a request waits for, and gets it back after.
    pub(crate) paused: Option<Item>,
    pub(crate) step: Step,
    /// Stage that runs, for exclusion and contention; meaningful while `running`.
    pub(crate) stage: StageId,
    pub(crate) running: bool,
    /// Exclusion groups of that stage.
    pub(crate) groups: u32,
    /// Expected end of the part that holds the lane.
    pub(crate) expected_end: Instant,
    /// Expected time of the queued items: queries, and everything.
    pub(crate) backlog_queries: u64,
    pub(crate) backlog: u64,
    /// Expected end of the running stage, if nothing slows it.
    pub(crate) stage_end: Instant,
    /// Believed load of the running stage, and of what the part ends with after it.
    pub(crate) load: Load,
    pub(crate) later: Load,
    pub(crate) failed: bool,
}

impl LaneState {
    #[inline]
    pub(crate) fn queue(&self, query: bool) -> &VecDeque<Item> {
        if query { &self.queries } else { &self.frames }
    }

    #[inline]
    pub(crate) fn queue_mut(&mut self, query: bool) -> &mut VecDeque<Item> {
        if query {
            &mut self.queries
        } else {
            &mut self.frames
        }
    }

    /// Queues a query's part.
    #[inline]
    pub(crate) fn push_query(&mut self, item: Item) {
        self.backlog += item.estimate;
        self.backlog_queries += item.estimate;
        self.queries.push_back(item);
    }

    /// Everything here takes so many times as long from `now` on.
    #[cold]
    pub(crate) fn lengthen(&mut self, now: Instant, by: f64) {
        let longer = |ns: u64| (ns as f64 * by).round() as u64;
        let later = |end: Instant| now + Duration(longer(end.saturating_since(now).0));
        self.expected_end = later(self.expected_end);
        self.stage_end = later(self.stage_end);
        self.load = self.load.lengthened(by);
        self.later = self.later.lengthened(by);
        let backlogs = [&mut self.queries, &mut self.frames].map(|queue| {
            let mut sum = 0;
            for item in queue {
                item.estimate = longer(item.estimate).min(ESTIMATE_MAX);
                sum += item.estimate;
            }
            sum
        });
        self.backlog_queries = backlogs[0];
        self.backlog = backlogs[0] + backlogs[1];
    }

    /// Everything that waits.
    pub(crate) fn queued(&self) -> impl Iterator<Item = &Item> {
        self.queries.iter().chain(&self.frames)
    }

    /// Whether nothing waits.
    #[inline]
    pub(crate) fn queue_is_empty(&self) -> bool {
        self.queries.is_empty() && self.frames.is_empty()
    }
}

/// The expected work of a lane.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    /// Expected end of the part that holds it; the start of the run: none does.
    pub(crate) held_until: Instant,
    pub(crate) backlog_queries: u64,
    pub(crate) backlog: u64,
}

/// A request whose version is published and that no lane has yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) job: JobId,
    pub(crate) rank: u64,
}

/// All of it.
#[derive(Debug)]
pub(crate) struct State<'w> {
    pub(crate) world: &'w World,
    pub(crate) jobs: Vec<Job>,
    pub(crate) free_jobs: Vec<JobId>,
    pub(crate) lanes: Vec<LaneState>,
    pub(crate) streams: Vec<StreamState>,
    /// By engine, then stream.
    pub(crate) residents: Vec<Resident>,
    pub(crate) kv_used: [u64; ENGINES_MAX],
    pub(crate) kv_total: u64,
    pub(crate) kv_peak: u64,
    pub(crate) ready: VecDeque<Ready>,
    /// Lanes that may run each stage, as bits; failed lanes are taken out.
    pub(crate) stage_lanes: [u16; STAGES_MAX],
    /// Lanes that may answer and that may ingest.
    pub(crate) answer_lanes: u16,
    pub(crate) ingest_lanes: u16,
    /// Lanes that rebuild contexts for others, as bits: when reuse is off, the lane that ingestion has of its
    /// own or, where no lane that answers can rebuild one, those that can and can hand it over.
    pub(crate) rebuild_lanes: u16,
    pub(crate) transfer: StateTransfer,
    /// One part at a time on the whole SoC.
    pub(crate) serial: bool,
    pub(crate) requests: u32,
    pub(crate) answers_running: u32,
    pub(crate) lanes_busy: u32,
    pub(crate) exclusive_running: u32,
    /// Engines that can prefill a prefix again, as bits.
    pub(crate) rebuilders: u8,
    /// Engines without a lane in service, as bits.
    pub(crate) dead_engines: u8,
    /// Whether any lane has failed.
    pub(crate) any_failed: bool,
    pub(crate) memo: SlowdownMemo,
    /// By which the request of the last estimate would delay each lane, ns, and which estimate that was.
    pub(crate) delays: Vec<Cell<i64>>,
    pub(crate) delays_of: Cell<(JobId, LaneId, Instant)>,
    pub(crate) services: ServiceMemo,
    /// Time of the input being handled.
    pub(crate) now: Instant,
    /// By lane.
    pub(crate) quotes: [Cell<Quote>; LANES_MAX],
    /// KV bytes that fit every engine that may answer.
    pub(crate) fits_everywhere: u64,
    /// Throttle steps in force.
    pub(crate) throttled: u8,
    /// The lanes' expected work after earlier inputs, where estimates see old queues: the first is in force.
    pub(crate) past: VecDeque<(Instant, [Work; LANES_MAX])>,
    /// What the policy stopped the run with, the first of it.
    pub(crate) fault: OnceCell<Box<Faults>>,
}

impl State<'_> {
    #[inline]
    pub(crate) fn job(&self, id: JobId) -> &Job {
        &self.jobs[id.0 as usize]
    }

    #[inline]
    pub(crate) fn job_mut(&mut self, id: JobId) -> &mut Job {
        &mut self.jobs[id.0 as usize]
    }

    #[inline]
    pub(crate) fn stream(&self, id: StreamId) -> &StreamState {
        &self.streams[id.0 as usize]
    }

    #[inline]
    pub(crate) fn stream_mut(&mut self, id: StreamId) -> &mut StreamState {
        &mut self.streams[id.0 as usize]
    }

    #[inline]
    pub(crate) fn lane(&self, id: LaneId) -> &LaneState {
        &self.lanes[id.0 as usize]
    }

    #[inline]
    pub(crate) fn lane_mut(&mut self, id: LaneId) -> &mut LaneState {
        &mut self.lanes[id.0 as usize]
    }

    #[inline]
    pub(crate) fn resident_index(&self, engine: EngineId, stream: StreamId) -> usize {
        engine.0 as usize * self.streams.len() + stream.0 as usize
    }

    #[inline]
    pub(crate) fn resident(&self, engine: EngineId, stream: StreamId) -> &Resident {
        &self.residents[self.resident_index(engine, stream)]
    }

    #[inline]
    pub(crate) fn resident_mut(&mut self, engine: EngineId, stream: StreamId) -> &mut Resident {
        let index = self.resident_index(engine, stream);
        &mut self.residents[index]
    }

    /// A slot for a job.
    #[inline]
    pub(crate) fn insert(&mut self, job: Job) -> JobId {
        if let Some(id) = self.free_jobs.pop() {
            self.jobs[id.0 as usize] = job;
            id
        } else {
            self.jobs.push(job);
            JobId(self.jobs.len() as u32 - 1)
        }
    }

    /// Gives a job's slot back.
    #[inline(always)]
    pub(crate) fn remove(&mut self, id: JobId) {
        let job = self.job_mut(id);
        debug_assert!(!job.free, "job {} ended twice", id.0);
        job.free = true;
        self.free_jobs.push(id);
    }
}

/// The lanes of a bit set, in order.
#[derive(Clone, Debug)]
pub struct Lanes(u16);

impl Iterator for Lanes {
    type Item = LaneId;

    #[inline]
    fn next(&mut self) -> Option<LaneId> {
        if self.0 == 0 {
            return None;
        }
        let lane = LaneId(self.0.trailing_zeros() as u8);
        self.0 &= self.0 - 1;
        Some(lane)
    }
}

#[inline]
pub(crate) fn lanes_of(mask: u16) -> Lanes {
    Lanes(mask)
}

const _: () = assert!(LANES_MAX <= u16::BITS as usize && ENGINES_MAX <= u8::BITS as usize);
