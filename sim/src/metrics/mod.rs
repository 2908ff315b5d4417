//! What a run amounted to, folded from the trace as it streams: bounded memory, one definition for
//! simulated, live and replayed runs.
//!
//! Requests that arrive before the warm-up ends are left out of every latency and count. Rates count what
//! is completed within the window, whoever asked for it and when: what waits at its start stands for what
//! waits at its end. It reaches from the end of the warm-up to the horizon where a source asks until then (one with a
//! count or list that is not through by then does), else to the last query or answer; busy times, traffic and energy refer to the time from the end of the
//! warm-up to the end of the run.

mod growth;
mod named;
mod queue;
mod sample;
mod summary;

pub use growth::Growth;
pub use named::{Count, Metric, Statistic, Time};
pub use sample::Sample;
pub use summary::{EngineSummary, Latency, LoadVerdict, Preparations, Summary};

use crate::dispatch::{Effect, Input, Preparation, Reason};
use crate::drive::Sink;
use crate::soc::Warmth;
use crate::time::{Duration, Instant};
use crate::workload::QueryTimes;
use crate::world::{ENGINES_MAX, LANES_MAX, STAGES_MAX, World};
use queue::Queue;

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
    /// Age, at the first token, of the newest frame that the answer knows ([`Completion::staleness`](crate::dispatch::Completion::staleness)).
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
    /// Answers after the warm-up, whenever their queries arrived: up to the horizon, and beyond it.
    answered: Answered,
    answered_later: Answered,
    /// Queries that arrived, by stream.
    asked: Vec<u64>,
    refused: [u64; Reason::ALL.len()],
    refused_frames: [u64; Reason::ALL.len()],
    evictions: u64,
    preparations: [u64; 4],
    since: [Instant; LANES_MAX],
    stage: [u8; LANES_MAX],
    busy: [u64; LANES_MAX],
    busy_by_stage: Vec<[u64; STAGES_MAX]>,
    /// Lanes of each engine that run, since when any does, and the time in which any did.
    running: [u8; ENGINES_MAX],
    running_since: [Instant; ENGINES_MAX],
    active: [u64; ENGINES_MAX],
    bytes: u64,
    nanojoules: u64,
    frame_arrivals: Vec<std::collections::VecDeque<Instant>>,
    /// Whether a stream's queries come without waiting for answers.
    open: Vec<bool>,
    /// Queries of such streams.
    queries: Queue,
    /// Frames neither published nor refused.
    backlog: Queue,
    events: u64,
    last: Instant,
    last_query: Instant,
    last_completion: Instant,
}

/// Answers that were given.
#[derive(Clone, Copy, Debug, Default)]
struct Answered {
    count: u64,
    /// Of these, of streams whose queries come without waiting for answers.
    open: u64,
    tokens: u64,
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
            answered: Answered::default(),
            answered_later: Answered::default(),
            asked: vec![0; world.streams.len()],
            refused: [0; Reason::ALL.len()],
            refused_frames: [0; Reason::ALL.len()],
            evictions: 0,
            preparations: [0; 4],
            since: [Instant::NEVER; LANES_MAX],
            stage: [0; LANES_MAX],
            busy: [0; LANES_MAX],
            busy_by_stage: vec![[0; STAGES_MAX]; world.engines.len()],
            running: [0; ENGINES_MAX],
            running_since: [Instant::ZERO; ENGINES_MAX],
            active: [0; ENGINES_MAX],
            bytes: 0,
            nanojoules: 0,
            frame_arrivals: vec![std::collections::VecDeque::new(); world.streams.len()],
            open: world
                .streams
                .iter()
                .map(|stream| {
                    stream.queries.as_ref().is_some_and(|queries| {
                        !matches!(queries.arrivals, QueryTimes::ClosedLoop { .. })
                    })
                })
                .collect(),
            queries: Queue::default(),
            backlog: Queue::default(),
            events: 0,
            last: Instant::ZERO,
            last_query: Instant::ZERO,
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
        (self.completed, self.late) = (0, 0);
        self.answered = Answered::default();
        self.answered_later = Answered::default();
        self.asked.fill(0);
        self.evictions = 0;
        self.refused = [0; Reason::ALL.len()];
        self.refused_frames = [0; Reason::ALL.len()];
        self.preparations = [0; 4];
        self.since = [Instant::NEVER; LANES_MAX];
        self.busy = [0; LANES_MAX];
        for row in &mut self.busy_by_stage {
            row.fill(0);
        }
        self.running = [0; ENGINES_MAX];
        self.active = [0; ENGINES_MAX];
        (self.bytes, self.nanojoules, self.events) = (0, 0, 0);
        for queue in &mut self.frame_arrivals {
            queue.clear();
        }
        self.queries = Queue::default();
        self.backlog = Queue::default();
        self.last = Instant::ZERO;
        self.last_query = Instant::ZERO;
        self.last_completion = Instant::ZERO;
    }

    /// Inputs handled.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Answers to requests that arrived after the warm-up.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// Busy time of the busiest lane after the warm-up, what runs now included.
    fn busiest_so_far(&self, now: Instant) -> u64 {
        let lanes = self.busy.iter().zip(&self.since);
        let busy = lanes.take(self.world.lanes.len()).map(|(&busy, &since)| {
            // An idle lane's start is never: no time has passed since.
            busy + now.saturating_since(since.max(self.world.warm_up)).0
        });
        busy.max().unwrap_or(0)
    }

    #[inline(always)]
    fn lane_starts(&mut self, now: Instant, lane: usize, stage: u8) {
        self.since[lane] = now;
        self.stage[lane] = stage;
        let engine = self.world.lanes[lane].engine.0 as usize;
        if self.running[engine] == 0 {
            self.running_since[engine] = now;
        }
        self.running[engine] += 1;
    }

    /// Counts a lane's busy time, and of the traffic and energy the share after the warm-up.
    #[inline(always)]
    fn lane_stops(&mut self, now: Instant, lane: usize, bytes: u64, nanojoules: u64) {
        let since = std::mem::replace(&mut self.since[lane], Instant::NEVER);
        let busy = now.saturating_since(since.max(self.world.warm_up)).0;
        if since >= self.world.warm_up {
            self.bytes = self.bytes.saturating_add(bytes);
            self.nanojoules = self.nanojoules.saturating_add(nanojoules);
        } else {
            let share = busy as f64 / now.saturating_since(since).0.max(1) as f64;
            self.bytes = self.bytes.saturating_add((bytes as f64 * share) as u64);
            self.nanojoules = self
                .nanojoules
                .saturating_add((nanojoules as f64 * share) as u64);
        }
        let engine = self.world.lanes[lane].engine.0 as usize;
        self.busy[lane] += busy;
        self.busy_by_stage[engine][self.stage[lane] as usize] += busy;
        self.running[engine] -= 1;
        if self.running[engine] == 0 {
            let since = self.running_since[engine].max(self.world.warm_up);
            self.active[engine] += now.saturating_since(since).0;
        }
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
                let busiest = self.busiest_so_far(now);
                self.backlog.arrives(now, self.world.warm_up, busiest);
            }
            Input::Query { stream, .. } => {
                self.last_query = now;
                self.asked[stream.0 as usize] += 1;
                if self.open[stream.0 as usize] {
                    let busiest = self.busiest_so_far(now);
                    self.queries.arrives(now, self.world.warm_up, busiest);
                }
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
            Input::Throttle { .. } | Input::Close => {}
        }
    }

    #[inline]
    fn effect(&mut self, now: Instant, effect: &Effect) {
        match effect {
            Effect::Start { lane, task } => {
                self.lane_starts(now, lane.0 as usize, task.stage.0);
            }
            Effect::Publish { stream, ticket, .. } => {
                if ticket.is_some()
                    && let Some(arrived) = self.frame_arrivals[stream.0 as usize].pop_front()
                {
                    self.backlog.ends(now);
                    self.backlog.served(now, self.world.warm_up);
                    if arrived >= self.world.warm_up {
                        self.publication.add(now.saturating_since(arrived));
                    }
                }
            }
            Effect::Complete(done) => {
                let open = self.open[done.stream.0 as usize];
                if open {
                    self.queries.ends(now);
                    self.queries.served(now, self.world.warm_up);
                }
                self.last_completion = now;
                if now >= self.world.warm_up {
                    // Whether the window goes on beyond the horizon shows at the end.
                    let answered = if now <= self.world.horizon {
                        &mut self.answered
                    } else {
                        &mut self.answered_later
                    };
                    answered.count += 1;
                    answered.open += u64::from(open);
                    answered.tokens += u64::from(done.output);
                }
                if done.arrived < self.world.warm_up {
                    return;
                }
                self.completed += 1;
                self.late += u64::from(done.late);
                self.ttft
                    .add(done.first_token.saturating_since(done.arrived));
                self.completion.add(now.saturating_since(done.arrived));
                self.queueing
                    .add(done.started.saturating_since(done.arrived));
                if done.output > 1 {
                    let later = now.saturating_since(done.first_token).0;
                    self.tpot.add(Duration(later / u64::from(done.output - 1)));
                }
                if let Some(age) = done.staleness() {
                    self.staleness.add(age);
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
                let counts = *arrived >= self.world.warm_up;
                if *query {
                    self.refused[*reason as usize] += u64::from(counts);
                    if self.open[stream.0 as usize] {
                        self.queries.ends(now);
                        if counts && *reason == Reason::QueueFull {
                            self.queries.turned_away();
                        }
                    }
                } else {
                    self.refused_frames[*reason as usize] += 1;
                    self.backlog.ends(now);
                    if counts && *reason == Reason::FramesPending {
                        self.backlog.turned_away();
                    }
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
    /// The run's summary. `peak_kv_bytes` comes from the scheduler, `unmeasured` and `warmth` from the
    /// executor.
    pub fn summary(
        &self,
        peak_kv_bytes: u64,
        unmeasured: &[[u64; STAGES_MAX]],
        warmth: Option<Warmth>,
    ) -> Summary {
        summary::build(self, peak_kv_bytes, unmeasured, warmth)
    }
}
