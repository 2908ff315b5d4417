//! The sink that folds a run into its detail.

use std::collections::BTreeMap;

use sim::dispatch::{Completion, Effect, Input, Task};
use sim::drive::Sink;
use sim::metrics::Metrics;
use sim::simulation::Pace;
use sim::spec::model::StageKind;
use sim::time::Instant;
use sim::world::{ENGINES_MAX, EngineId, LANES_MAX, LaneId, StreamId, World};

use super::{Class, EngineShare, Parts, Requests, Run, Series, Slices, Versions};
use crate::perfetto::book::Book;
use crate::requests::preparation_name;

/// Quantiles of a distribution.
const POINTS: usize = 200;

/// A query in the system.
#[derive(Clone, Copy, Debug, Default)]
struct Open {
    /// Until when its stages' time has been counted, ns.
    covered: u64,
    /// Time alone of preparation and of the rest, and what they took more, ns.
    preparing: u64,
    service: u64,
    slowdown: i64,
}

/// A lane's task.
#[derive(Clone, Copy, Debug)]
struct Running {
    since: Instant,
    task: Task,
}

/// Folds a run into its [`Run`], in bounded memory.
#[derive(Debug)]
pub struct Recorder<'w> {
    world: &'w World,
    pace: Option<&'w Pace>,
    slices_max: usize,
    /// Stages and versions of other times have no row, ns.
    window: (u64, u64),
    requests_max: usize,
    running: [Option<Running>; LANES_MAX],
    open: BTreeMap<u32, Open>,
    book: Book,
    /// When each version of a stream was published, as long as somebody may read it.
    published: Vec<BTreeMap<u32, Instant>>,
    /// Engines that run, with the number of their busy lanes.
    lanes_busy: [u8; ENGINES_MAX],
    changed: Instant,
    active: [u64; ENGINES_MAX],
    corun: [u64; ENGINES_MAX],
    last: Instant,
    /// Temperature at the last input, °C.
    celsius: Option<f64>,
    slices: Slices,
    versions: Versions,
    requests: Requests,
    sums: Parts,
    answers: u64,
    series: Series,
}

impl<'w> Recorder<'w> {
    /// Nothing yet. At most `rows` stages and as many requests are kept one by one; `pace` gives stages'
    /// times alone, without it they are unknown.
    pub fn new(world: &'w World, pace: Option<&'w Pace>, rows: usize) -> Self {
        Self {
            world,
            pace,
            slices_max: rows,
            window: (0, u64::MAX),
            requests_max: rows.max(2),
            running: [None; LANES_MAX],
            open: BTreeMap::new(),
            book: Book::new(world),
            published: vec![BTreeMap::new(); world.streams.len()],
            lanes_busy: [0; ENGINES_MAX],
            changed: Instant::ZERO,
            active: [0; ENGINES_MAX],
            corun: [0; ENGINES_MAX],
            last: Instant::ZERO,
            celsius: world.heat.as_ref().map(|heat| heat.start_c),
            slices: Slices::default(),
            versions: Versions::default(),
            requests: Requests {
                stride: 1,
                ..Requests::default()
            },
            sums: Parts::default(),
            answers: 0,
            series: Series {
                busy: vec![Default::default(); world.lanes.len()],
                watts: world.power.map(|_| super::Bins::default()),
                celsius: world
                    .heat
                    .as_ref()
                    .zip(pace)
                    .map(|_| super::Bins::default()),
                ..Series::default()
            },
        }
    }

    /// Of stages and versions, only those between two instants get a row.
    #[must_use]
    pub fn within(self, window: (Instant, Instant)) -> Self {
        Self {
            window: (window.0.0, window.1.0),
            ..self
        }
    }

    /// The run, with the distributions of its metrics.
    pub fn finish(mut self, metrics: &Metrics<'_>) -> Run {
        let end = self.last;
        self.advance(end);
        let Self { world, .. } = self;
        let series = &mut self.series;
        for bins in series.busy.iter_mut().flatten().chain([
            &mut series.waiting,
            &mut series.answering,
            &mut series.context_bytes,
            &mut series.bytes_per_s,
        ]) {
            bins.close(end.0);
        }
        if let (Some(bins), Some(power)) = (&mut series.watts, world.power) {
            let idle = world.engines.iter().filter_map(|engine| engine.power);
            let idle: f64 = idle.map(|power| power.idle_w).sum();
            bins.add(0, end.0, power.base_w + idle);
            bins.close(end.0);
        }
        if let Some(bins) = &mut series.celsius {
            bins.close(end.0);
        }
        let run = end.saturating_since(world.warm_up).0.max(1) as f64;
        let points: [f64; POINTS] = std::array::from_fn(|i| (i + 1) as f64 / POINTS as f64);
        let curve = |sample: &sim::metrics::Sample| {
            let values = sample.quantiles_s(points);
            values.map_or_else(Vec::new, |values| values.to_vec())
        };
        let mean = |sum: f64| sum / self.answers as f64;
        Run {
            policy: world.policy.to_string(),
            end_ns: end.0,
            warm_up_ns: world.warm_up.0,
            slices: self.slices,
            versions: self.versions,
            requests: self.requests,
            parts_s: (self.answers > 0).then(|| Parts {
                waiting: mean(self.sums.waiting),
                preparing: mean(self.sums.preparing),
                slowdown: mean(self.sums.slowdown),
                service: mean(self.sums.service),
            }),
            series: self.series,
            engines: (0..world.engines.len())
                .map(|engine| EngineShare {
                    active: self.active[engine] as f64 / run,
                    corun: self.corun[engine] as f64 / run,
                })
                .collect(),
            ttft_s: curve(&metrics.ttft),
            completion_s: curve(&metrics.completion),
            choices: None,
        }
    }

    /// Counts what has been the same since the last change.
    fn advance(&mut self, now: Instant) {
        let (from, to) = (self.changed.0, now.0);
        if to <= from {
            return;
        }
        let (waiting, answering) = self.book.requests();
        self.series.waiting.add(from, to, waiting as f64);
        self.series.answering.add(from, to, answering as f64);
        let tokens: u64 = (0..self.world.engines.len())
            .map(|engine| self.book.resident_tokens(EngineId(engine as u8)))
            .sum();
        let bytes = tokens * self.world.model.kv_bytes_per_token;
        self.series.context_bytes.add(from, to, bytes as f64);
        let counted = to.saturating_sub(from.max(self.world.warm_up.0));
        let engines = self.world.engines.len();
        let count = self.lanes_busy[..engines]
            .iter()
            .filter(|&&n| n > 0)
            .count();
        for engine in (0..engines).filter(|&engine| self.lanes_busy[engine] > 0) {
            self.active[engine] += counted;
            self.corun[engine] += if count > 1 { counted } else { 0 };
            if let (Some(bins), Some(power)) =
                (&mut self.series.watts, self.world.engines[engine].power)
            {
                // What it draws while it runs is in the energy of its stages.
                bins.add(from, to, -power.idle_w);
            }
        }
        self.changed = now;
    }

    fn stop(&mut self, now: Instant, lane: LaneId, moved: Option<(u64, u64)>) {
        let Some(Running { since, task }) = self.running[lane.0 as usize].take() else {
            return;
        };
        let world = self.world;
        self.lanes_busy[world.engine_of(lane).0 as usize] -= 1;
        let kind = world.stages[task.stage.0 as usize].kind;
        let query = self.book.query(task.ticket);
        let class = Class::of(kind, query.is_some());
        let (from, to) = (since.0, now.0);
        let length = to - from;
        self.series.busy[lane.0 as usize][class as usize].add(from, to, 1.0);
        if let Some((bytes, nanojoules)) = moved
            && length > 0
        {
            let secs = length as f64 / 1e9;
            let series = &mut self.series;
            series.bytes_per_s.add(from, to, bytes as f64 / secs);
            if let Some(bins) = &mut series.watts {
                bins.add(from, to, nanojoules as f64 * 1e-9 / secs);
            }
        }
        // A task that failed did only a part of its work.
        let alone = self
            .pace
            .filter(|_| moved.is_some())
            .map(|pace| pace.of(lane).alone.0);
        if let Some(open) = self.open.get_mut(&task.ticket) {
            open.ran(from, to, alone, class == Class::Transfer);
        }
        self.slices.total += 1;
        let shows = from < self.window.1 && to > self.window.0;
        if shows && self.slices.len() < self.slices_max {
            if moved.is_none() {
                self.slices.failed.push(self.slices.len());
            }
            self.slices.push(lane, &task, since, length, alone, query);
        }
    }

    fn answered(&mut self, now: Instant, done: &Completion) {
        let open = self.open.remove(&done.ticket).unwrap_or_default();
        let took = now.saturating_since(done.arrived).0;
        let worked = (open.preparing + open.service)
            .saturating_add_signed(open.slowdown)
            .min(took);
        let waiting = took - worked;
        if done.arrived >= self.world.warm_up {
            self.answers += 1;
            self.sums.waiting += waiting as f64 / 1e9;
            self.sums.preparing += open.preparing as f64 / 1e9;
            self.sums.slowdown += open.slowdown as f64 / 1e9;
            self.sums.service += open.service as f64 / 1e9;
        }
        let published = self.published[done.stream.0 as usize].get(&done.version);
        let for_version = published.map(|at| at.saturating_since(done.arrived).0.min(waiting));
        self.ended(now, done.ticket);
        if !self.keep_row() {
            return;
        }
        let rows = &mut self.requests;
        rows.ttft
            .push(Some(done.first_token.saturating_since(done.arrived).0));
        rows.lane.push(Some(done.lane.0));
        rows.version.push(Some(done.version));
        let name = preparation_name(done.preparation).to_owned();
        rows.preparation.push(Some(name));
        rows.prompt.push(Some(done.prompt));
        rows.output.push(Some(done.output));
        rows.frames_behind
            .push(done.staleness().map(|_| done.frames_behind));
        rows.waiting.push(Some(waiting));
        rows.waiting_for_version.push(for_version);
        rows.preparing.push(Some(open.preparing));
        rows.slowdown.push(Some(open.slowdown));
        rows.service.push(Some(open.service));
        rows.refused.push(None);
        rows.head(now, done.stream, done.index, done.arrived);
        self.thin();
    }

    fn refused(
        &mut self,
        now: Instant,
        (stream, index): (StreamId, u32),
        ticket: u32,
        arrived: Instant,
        reason: &str,
    ) {
        self.open.remove(&ticket);
        self.ended(now, ticket);
        if !self.keep_row() {
            return;
        }
        let rows = &mut self.requests;
        rows.ttft.push(None);
        rows.lane.push(None);
        rows.version.push(None);
        rows.preparation.push(None);
        rows.prompt.push(None);
        rows.output.push(None);
        rows.frames_behind.push(None);
        rows.waiting.push(None);
        rows.waiting_for_version.push(None);
        rows.preparing.push(None);
        rows.slowdown.push(None);
        rows.service.push(None);
        rows.refused.push(Some(reason.to_owned()));
        rows.head(now, stream, index, arrived);
        self.thin();
    }

    fn ended(&mut self, now: Instant, ticket: u32) {
        self.advance(now);
        self.book.ended(ticket);
        self.requests.total += 1;
    }

    /// Whether the request that ended last has a row.
    fn keep_row(&self) -> bool {
        (self.requests.total - 1).is_multiple_of(self.requests.stride)
    }

    /// Leaves out every other row once there are too many.
    fn thin(&mut self) {
        if self.requests.len() >= self.requests_max {
            self.requests.halve();
        }
    }
}

impl Open {
    /// One of its stages ran from `from` to `to`, ns. What ran at the same time counts once.
    fn ran(&mut self, from: u64, to: u64, alone: Option<u64>, prepares: bool) {
        let length = to - from;
        let counted = to.saturating_sub(from.max(self.covered));
        self.covered = self.covered.max(to);
        let alone = alone.unwrap_or(length);
        let alone = if counted == length {
            alone
        } else {
            (alone as f64 * counted as f64 / length.max(1) as f64) as u64
        };
        self.slowdown += counted.cast_signed() - alone.cast_signed();
        if prepares {
            self.preparing += alone;
        } else {
            self.service += alone;
        }
    }
}

impl Slices {
    fn push(
        &mut self,
        lane: LaneId,
        task: &Task,
        since: Instant,
        length: u64,
        alone: Option<u64>,
        query: Option<u32>,
    ) {
        self.lane.push(lane.0);
        self.stage.push(task.stage.0);
        self.stream.push(task.stream.0);
        self.start.push(since.0);
        self.length.push(length);
        self.alone.push(alone);
        self.query.push(query);
        self.version.push(task.version);
        self.size.push(task.size);
        self.context.push(task.context);
    }
}

impl Requests {
    fn head(&mut self, now: Instant, stream: StreamId, index: u32, arrived: Instant) {
        self.stream.push(stream.0);
        self.index.push(index);
        self.arrived.push(arrived.0);
        self.ended.push(now.0);
    }

    /// Keeps every other row.
    pub(super) fn halve(&mut self) {
        fn half<T>(column: &mut Vec<T>) {
            let mut row = 0;
            column.retain(|_| {
                row += 1;
                row % 2 == 1
            });
        }
        self.stride *= 2;
        half(&mut self.stream);
        half(&mut self.index);
        half(&mut self.arrived);
        half(&mut self.ended);
        half(&mut self.ttft);
        half(&mut self.lane);
        half(&mut self.version);
        half(&mut self.preparation);
        half(&mut self.prompt);
        half(&mut self.output);
        half(&mut self.frames_behind);
        half(&mut self.waiting);
        half(&mut self.waiting_for_version);
        half(&mut self.preparing);
        half(&mut self.slowdown);
        half(&mut self.service);
        half(&mut self.refused);
    }
}

impl Recorder<'_> {
    /// Counts the temperature since the last input; between two it is taken as a straight line.
    fn warm(&mut self, now: Instant) {
        let celsius = self.pace.and_then(Pace::celsius);
        if let (Some(bins), Some(before), Some(after)) =
            (&mut self.series.celsius, self.celsius, celsius)
            && now > self.last
        {
            bins.add(self.last.0, now.0, 0.5 * (before + after));
        }
        self.celsius = celsius.or(self.celsius);
    }
}

impl Sink for Recorder<'_> {
    fn input(&mut self, now: Instant, input: &Input) {
        self.advance(now);
        self.warm(now);
        self.last = now;
        match *input {
            Input::Query {
                ticket,
                stream,
                index,
                ..
            } => {
                self.book.asked(ticket, stream, index);
                self.open.insert(ticket, Open::default());
            }
            Input::Finish {
                lane,
                tokens,
                bytes,
                nanojoules,
            } => {
                let kind = |task: Task| self.world.stages[task.stage.0 as usize].kind;
                if let Some(running) = &mut self.running[lane.0 as usize]
                    && kind(running.task) == StageKind::Decode
                {
                    // What it generated, not the most that it might have.
                    running.task.size = tokens;
                }
                self.stop(now, lane, Some((bytes, nanojoules)));
                self.book.stopped(self.world, now, lane, tokens);
            }
            Input::Fail { lane } => {
                self.stop(now, lane, None);
                self.book.failed(lane);
            }
            Input::Frame { .. } | Input::Throttle { .. } | Input::Close => {}
        }
    }

    fn effect(&mut self, now: Instant, effect: &Effect) {
        match *effect {
            Effect::Start { lane, task } => {
                self.advance(now);
                self.book.started(self.world, now, lane, task);
                self.lanes_busy[self.world.engine_of(lane).0 as usize] += 1;
                self.running[lane.0 as usize] = Some(Running { since: now, task });
            }
            Effect::Bind {
                stream,
                index,
                version,
            } => self.book.bound(stream, index, version),
            Effect::Publish {
                stream,
                version,
                tokens,
                ..
            } => {
                self.advance(now);
                let made = self.book.publish(self.world, stream, version, tokens);
                let times = &mut self.published[stream.0 as usize];
                times.insert(version, now);
                let oldest = self.book.oldest_read(stream).unwrap_or(version);
                *times = times.split_off(&oldest.min(version));
                let shows = (self.window.0..=self.window.1).contains(&now.0);
                if shows && self.slices.len() < self.slices_max {
                    let rows = &mut self.versions;
                    rows.stream.push(stream.0);
                    rows.version.push(version);
                    rows.at.push(now.0);
                    rows.tokens.push(tokens);
                    rows.lane.push(made.map(|lane| lane.0));
                }
            }
            Effect::Evict { engine, stream, .. } => {
                self.advance(now);
                self.book.evicted(engine, stream);
            }
            Effect::Complete(done) => self.answered(now, &done),
            Effect::Refuse {
                ticket,
                stream,
                index,
                query: true,
                arrived,
                reason,
            } => self.refused(now, (stream, index), ticket, arrived, reason.name()),
            Effect::Refuse { .. } | Effect::Abandon { .. } => {}
        }
    }
}
