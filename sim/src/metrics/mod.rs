//! What a run amounted to, folded from the trace as it streams: bounded memory, one definition for
//! simulated, live and replayed runs.
//!
//! Requests that arrive before the warm-up ends are left out of every latency and count. Rates of
//! answers refer to the time from the end of the warm-up to the last answer; busy times, traffic and
//! energy to that from the end of the warm-up to the end of the run.

mod sample;
mod summary;

pub use sample::Sample;
pub use summary::{EngineSummary, Latency, LoadVerdict, Preparations, Summary};

use crate::dispatch::{Effect, Input, Preparation, Reason};
use crate::drive::Sink;
use crate::spec::model::StageKind;
use crate::time::{Duration, Instant};
use crate::world::{LANES_MAX, STAGES_MAX, World};

/// Metrics of a run.
#[derive(Clone, Debug)]
pub struct Metrics<'w> {
    world: &'w World,
    /// Arrival to first token.
    pub ttft: Sample,
    /// Arrival to last token.
    pub completion: Sample,
    /// Mean time per token after the first.
    pub tpot: Sample,
    /// Age, at the first token, of the newest frame that the answer knows.
    pub staleness: Sample,
    /// Arrival to the start of the first stage on the answering lane.
    pub queueing: Sample,
    /// Frame arrival to publication.
    pub publication: Sample,
    frames_behind: u64,
    stale_answers: u64,
    arrived: u64,
    frames: u64,
    completed: u64,
    late: u64,
    tokens: u64,
    refused: [u64; Reason::ALL.len()],
    refused_frames: u64,
    evictions: u64,
    preparations: [u64; 4],
    since: [Instant; LANES_MAX],
    stage: [u8; LANES_MAX],
    busy: [u64; LANES_MAX],
    busy_by_stage: Vec<[u64; STAGES_MAX]>,
    bytes: u64,
    nanojoules: u64,
    frame_arrivals: Vec<std::collections::VecDeque<Instant>>,
    in_system: u64,
    crowd: Crowd,
    /// The crowd when the newest query arrived: what came after only drained it.
    crowd_at_arrival: Crowd,
    events: u64,
    last: Instant,
    last_completion: Instant,
}

/// Time integrals of the number of requests in the system.
#[derive(Clone, Copy, Debug, Default)]
struct Crowd {
    at: Instant,
    /// ∫ N dt, request-nanoseconds.
    area: f64,
    /// ∫ t·N dt, request-ns².
    moment: f64,
    /// N at `at`.
    count: u64,
}

impl<'w> Metrics<'w> {
    /// Empty metrics for a world.
    pub fn new(world: &'w World) -> Self {
        Self {
            world,
            ttft: Sample::default(),
            completion: Sample::default(),
            tpot: Sample::default(),
            staleness: Sample::default(),
            queueing: Sample::default(),
            publication: Sample::default(),
            frames_behind: 0,
            stale_answers: 0,
            arrived: 0,
            frames: 0,
            completed: 0,
            late: 0,
            tokens: 0,
            refused: [0; Reason::ALL.len()],
            refused_frames: 0,
            evictions: 0,
            preparations: [0; 4],
            since: [Instant::NEVER; LANES_MAX],
            stage: [0; LANES_MAX],
            busy: [0; LANES_MAX],
            busy_by_stage: vec![[0; STAGES_MAX]; world.engines.len()],
            bytes: 0,
            nanojoules: 0,
            frame_arrivals: vec![std::collections::VecDeque::new(); world.streams.len()],
            in_system: 0,
            crowd: Crowd::default(),
            crowd_at_arrival: Crowd::default(),
            events: 0,
            last: Instant::ZERO,
            last_completion: Instant::ZERO,
        }
    }

    /// Back to nothing; allocations stay.
    pub fn reset(&mut self) {
        for sample in [
            &mut self.ttft,
            &mut self.completion,
            &mut self.tpot,
            &mut self.staleness,
            &mut self.queueing,
            &mut self.publication,
        ] {
            sample.clear();
        }
        (
            self.frames_behind,
            self.stale_answers,
            self.arrived,
            self.frames,
        ) = (0, 0, 0, 0);
        (self.completed, self.late, self.tokens) = (0, 0, 0);
        (self.refused_frames, self.evictions) = (0, 0);
        self.refused = [0; Reason::ALL.len()];
        self.preparations = [0; 4];
        self.since = [Instant::NEVER; LANES_MAX];
        self.busy = [0; LANES_MAX];
        for row in &mut self.busy_by_stage {
            row.fill(0);
        }
        (self.bytes, self.nanojoules, self.in_system, self.events) = (0, 0, 0, 0);
        for queue in &mut self.frame_arrivals {
            queue.clear();
        }
        self.crowd = Crowd::default();
        self.crowd_at_arrival = Crowd::default();
        self.last = Instant::ZERO;
        self.last_completion = Instant::ZERO;
    }

    /// Inputs handled.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Requests answered after the warm-up.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    fn crowd_changes(&mut self, now: Instant, by: i64) {
        let start = self.world.warm_up;
        if now > start {
            let from = self.crowd.at.saturating_since(start).0 as f64;
            let to = now.saturating_since(start).0 as f64;
            let area = self.in_system as f64 * (to - from);
            self.crowd.area += area;
            self.crowd.moment += area * 0.5 * (from + to);
        }
        self.in_system = self.in_system.saturating_add_signed(by);
        self.crowd.at = now;
        self.crowd.count = self.in_system;
    }

    /// Counts a lane's busy time, and of the traffic and energy the share after the warm-up.
    fn lane_stops(&mut self, now: Instant, lane: usize, bytes: u64, nanojoules: u64) {
        let since = std::mem::replace(&mut self.since[lane], Instant::NEVER);
        let busy = now.saturating_since(since.max(self.world.warm_up)).0;
        if since >= self.world.warm_up {
            self.bytes += bytes;
            self.nanojoules += nanojoules;
        } else {
            let share = busy as f64 / now.saturating_since(since).0.max(1) as f64;
            self.bytes += (bytes as f64 * share) as u64;
            self.nanojoules += (nanojoules as f64 * share) as u64;
        }
        let engine = self.world.lanes[lane].engine.0 as usize;
        self.busy[lane] += busy;
        self.busy_by_stage[engine][self.stage[lane] as usize] += busy;
    }
}

impl Sink for Metrics<'_> {
    #[inline]
    fn input(&mut self, now: Instant, input: &Input) {
        self.last = now;
        self.events += 1;
        match input {
            Input::Frame { stream, .. } => {
                self.frames += 1;
                self.frame_arrivals[stream.0 as usize].push_back(now);
            }
            Input::Query { .. } => {
                self.crowd_changes(now, 1);
                self.crowd_at_arrival = self.crowd;
                if now >= self.world.warm_up {
                    self.arrived += 1;
                }
            }
            Input::Finish {
                lane,
                bytes,
                nanojoules,
                ..
            } => {
                self.lane_stops(now, lane.0 as usize, *bytes, *nanojoules);
            }
            Input::Fail { lane } => {
                if self.since[lane.0 as usize] != Instant::NEVER {
                    self.lane_stops(now, lane.0 as usize, 0, 0);
                }
            }
            Input::Close => {}
        }
    }

    #[inline]
    fn effect(&mut self, now: Instant, effect: &Effect) {
        match effect {
            Effect::Start { lane, task } => {
                self.since[lane.0 as usize] = now;
                self.stage[lane.0 as usize] = task.stage.0;
            }
            Effect::Publish { stream, ticket, .. } => {
                if ticket.is_some()
                    && let Some(arrived) = self.frame_arrivals[stream.0 as usize].pop_front()
                    && arrived >= self.world.warm_up
                {
                    self.publication.add(now.saturating_since(arrived));
                }
            }
            Effect::Complete(done) => {
                self.crowd_changes(now, -1);
                self.last_completion = now;
                if done.arrived < self.world.warm_up {
                    return;
                }
                self.completed += 1;
                self.late += u64::from(done.late);
                self.tokens += u64::from(done.output);
                self.ttft
                    .add(done.first_token.saturating_since(done.arrived));
                self.completion.add(now.saturating_since(done.arrived));
                self.queueing
                    .add(done.started.saturating_since(done.arrived));
                if done.output > 1 {
                    let later = now.saturating_since(done.first_token).0;
                    self.tpot.add(Duration(later / u64::from(done.output - 1)));
                }
                if let Some(frame) = done.newest_frame {
                    self.staleness.add(done.first_token.saturating_since(frame));
                    self.frames_behind += u64::from(done.frames_behind);
                    self.stale_answers += 1;
                }
                self.preparations[match done.preparation {
                    Preparation::Reuse => 0,
                    Preparation::Import => 1,
                    Preparation::Reconstruct => 2,
                    Preparation::ImportAndReconstruct => 3,
                }] += 1;
            }
            Effect::Refuse {
                query,
                reason,
                arrived,
                stream,
                ..
            } => {
                if *query {
                    self.crowd_changes(now, -1);
                    if *arrived >= self.world.warm_up {
                        self.refused[*reason as usize] += 1;
                    }
                } else {
                    self.refused_frames += 1;
                    let queue = &mut self.frame_arrivals[stream.0 as usize];
                    // The newest when refused at arrival; of a lost row, older ones may stay.
                    if let Some(at) = queue.iter().rposition(|at| at == arrived) {
                        queue.remove(at);
                    }
                }
            }
            Effect::Evict { .. } => self.evictions += 1,
            Effect::Bind { .. } | Effect::Abandon { .. } => {}
        }
    }
}

impl Metrics<'_> {
    /// The run's summary. `peak_kv_bytes` comes from the scheduler, `unmeasured` from the executor.
    pub fn summary(&self, peak_kv_bytes: u64, unmeasured: &[[u64; STAGES_MAX]]) -> Summary {
        summary::build(self, peak_kv_bytes, unmeasured)
    }

    /// Stages that answer requests, for shares by kind.
    fn kind(&self, stage: usize) -> StageKind {
        self.world.stages[stage].kind
    }
}
