//! Walks a plan over a world's lanes, and keeps what it measured.

use std::collections::BTreeMap;
use std::sync::Arc;

use sim::dispatch::Task;
use sim::spec::model::StageKind;
use sim::world::{EngineId, LaneId, StageId, StreamId, World};

use super::bench::{Bench, Timed};
use super::plan::Plan;
use super::stream;
use crate::engine::{Engine, EngineError, Item, Notice, Order, Owner};
use crate::registry::Registry;

/// The stream that is measured with; its name and plan do not matter.
const STREAM: StreamId = StreamId(0);

/// What a series of samples is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    /// A stage alone.
    Stage {
        /// Engine, by name.
        engine: String,
        /// Kind of stage.
        kind: StageKind,
        /// Size: tokens, or bytes of a copy.
        size: u64,
        /// Tokens of context before it.
        context: u32,
    },
    /// A stage of one lane, with or without another lane busy.
    Pair {
        /// Engine that is watched.
        victim: String,
        /// What it does.
        does: StageKind,
        /// Engine beside it.
        aggressor: String,
        /// What that does.
        beside: StageKind,
        /// Whether that is busy in this series.
        busy: bool,
    },
    /// Reading memory, GB/s.
    Stream {
        /// Lane, by name.
        lane: String,
        /// Whether all lanes with cores of their own read at once.
        together: bool,
    },
}

/// Samples of one point, in the order in which they were taken.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// By the clock, s (GB/s of [`Point::Stream`]).
    pub wall: Vec<f64>,
    /// CPU time of the lane's thread, s, where known.
    pub cpu: Vec<Option<f64>>,
}

impl Series {
    /// The middle one; `None` of nothing.
    pub fn median(&self) -> Option<f64> {
        let mut sorted = self.wall.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        match sorted.len() {
            0 => None,
            length if length % 2 == 1 => Some(sorted[middle]),
            _ => Some(0.5 * (sorted[middle - 1] + sorted[middle])),
        }
    }

    /// Mean and standard deviation; `None` of fewer than two.
    pub fn moments(&self) -> Option<(f64, f64)> {
        let count = self.wall.len() as f64;
        if self.wall.len() < 2 {
            return None;
        }
        let mean = self.wall.iter().sum::<f64>() / count;
        let square: f64 = self.wall.iter().map(|x| (x - mean).powi(2)).sum();
        Some((mean, (square / (count - 1.0)).sqrt()))
    }

    /// Half the 95 % interval of the mean, by Student's t, as a share of the mean.
    pub fn half_width(&self) -> Option<f64> {
        // Two-sided 95 % quantiles of 1 to 10 degrees of freedom; 2.23 falls to 1.96 beyond.
        const T: [f64; 10] = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23];
        let (mean, deviation) = self.moments()?;
        let freedom = self.wall.len() - 1;
        let t = T.get(freedom - 1).copied().unwrap_or(2.1);
        Some(t * deviation / (self.wall.len() as f64).sqrt() / mean)
    }

    /// Samples whose thread waited for more than 5 % of the time, and samples of which that is known.
    pub fn disturbed(&self) -> (usize, usize) {
        let known = self.wall.iter().zip(&self.cpu);
        let known = known.filter_map(|(wall, cpu)| Some((*wall, (*cpu)?)));
        known.fold((0, 0), |(disturbed, all), (wall, cpu)| {
            (disturbed + usize::from(wall > 1.05 * cpu), all + 1)
        })
    }
}

/// All that was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Series by point.
    pub series: BTreeMap<Point, Series>,
}

impl Measured {
    /// Adds a sample.
    pub fn add(&mut self, point: Point, timed: Timed) {
        let series = self.series.entry(point).or_default();
        series.wall.push(timed.wall_s);
        series.cpu.push(timed.cpu_s);
    }

    /// Samples disturbed by other load, and samples of which that is known.
    pub fn disturbed(&self) -> (usize, usize) {
        self.series
            .iter()
            .filter(|(point, _)| matches!(point, Point::Stage { .. }))
            .map(|(_, series)| series.disturbed())
            .fold((0, 0), |(a, b), (c, d)| (a + c, b + d))
    }

    /// The widest interval of a stage's mean, as a share of it.
    fn widest(&self, wanted: impl Fn(&Point) -> bool) -> f64 {
        self.series
            .iter()
            .filter(|(point, _)| wanted(point))
            .map(|(_, series)| series.half_width().unwrap_or(f64::INFINITY))
            .fold(0.0, f64::max)
    }
}

/// What happens while it measures.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A part of the work begins; of so many, this is the n-th, from 1.
    Part {
        /// What it is.
        what: String,
        /// Its number.
        number: u32,
        /// How many there are, as far as known.
        of: u32,
    },
    /// A sample was taken.
    Sample {
        /// Of what.
        point: Point,
        /// The sample.
        timed: Timed,
    },
}

/// Measures a world's lanes.
pub struct Measurer<'w> {
    world: &'w World,
    registry: Arc<Registry>,
    bench: Bench,
    plan: Plan,
    measured: Measured,
    listener: Box<dyn FnMut(&Event) + 'w>,
    /// Versions that were published.
    published: u32,
    parts: (u32, u32),
}

impl std::fmt::Debug for Measurer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Measurer")
            .field("plan", &self.plan)
            .field("measured", &self.measured)
            .finish_non_exhaustive()
    }
}

impl<'w> Measurer<'w> {
    /// Gets the engines of a world's lanes ready. `registry` is theirs; `earlier` is what an interrupted
    /// measurement left, which is not measured again where it suffices.
    pub fn start(
        world: &'w World,
        engines: Vec<Box<dyn Engine>>,
        registry: Arc<Registry>,
        plan: Plan,
        earlier: Measured,
        listener: impl FnMut(&Event) + 'w,
    ) -> Result<Self, EngineError> {
        let lanes = world.lanes.len() as u32;
        Ok(Self {
            world,
            registry,
            bench: Bench::start(engines)?,
            plan,
            measured: earlier,
            listener: Box::new(listener),
            published: 0,
            parts: (0, 2 * lanes + lanes * lanes.saturating_sub(1)),
        })
    }

    /// Measures everything.
    pub fn measure(mut self) -> Result<Measured, EngineError> {
        let lanes: Vec<LaneId> = (0..self.world.lanes.len())
            .map(|index| LaneId(index as u8))
            .collect();
        if self.plan.streams {
            self.streams(&lanes)?;
        }
        for &lane in &lanes {
            self.alone(lane)?;
        }
        for &victim in &lanes {
            for &aggressor in &lanes {
                // Lanes of one processor share its store, and with it the request that is measured with.
                let apart = self.world.engine_of(victim) != self.world.engine_of(aggressor);
                if self.plan.pairs && apart {
                    self.pair(victim, aggressor)?;
                }
            }
        }
        Ok(self.measured)
    }

    fn part(&mut self, what: String) {
        self.parts.0 += 1;
        let (number, of) = (self.parts.0, self.parts.1.max(self.parts.0));
        (self.listener)(&Event::Part { what, number, of });
    }

    fn keep(&mut self, point: Point, timed: Timed) {
        let event = Event::Sample { point, timed };
        (self.listener)(&event);
        if let Event::Sample { point, timed } = event {
            self.measured.add(point, timed);
        }
    }

    fn streams(&mut self, lanes: &[LaneId]) -> Result<(), EngineError> {
        // Lanes that share cores cannot read at once.
        let mut apart: Vec<LaneId> = Vec::new();
        for &lane in lanes {
            let cores = |lane: LaneId| &self.world.lanes[lane.0 as usize].pin_cores;
            let shares =
                |other: &LaneId| cores(*other).iter().any(|core| cores(lane).contains(core));
            if !cores(lane).is_empty() && !apart.iter().any(shares) {
                apart.push(lane);
            }
        }
        for &lane in lanes {
            let name = self.world.lanes[lane.0 as usize].name.clone();
            self.part(format!("memory reads on {name}"));
            let point = Point::Stream {
                lane: name,
                together: false,
            };
            while self.short_of(&point) {
                let wall_s = self.bench.time(lane, stream::read_gbps)?;
                self.keep(
                    point.clone(),
                    Timed {
                        wall_s,
                        cpu_s: None,
                    },
                );
            }
        }
        let together = |lane: LaneId| Point::Stream {
            lane: self.world.lanes[lane.0 as usize].name.clone(),
            together: true,
        };
        let points: Vec<Point> = apart.iter().map(|&lane| together(lane)).collect();
        while points.len() > 1 && points.iter().any(|point| self.short_of(point)) {
            let rates = self.bench.time_together(&apart, stream::read_gbps)?;
            for (point, wall_s) in points.iter().zip(rates) {
                self.keep(
                    point.clone(),
                    Timed {
                        wall_s,
                        cpu_s: None,
                    },
                );
            }
        }
        Ok(())
    }

    fn short_of(&self, point: &Point) -> bool {
        let series = self.measured.series.get(point);
        series.map_or(0, |series| series.wall.len()) < self.plan.least as usize
    }

    fn stage(&self, kind: StageKind) -> Option<StageId> {
        let index = self
            .world
            .stages
            .iter()
            .position(|stage| stage.kind == kind);
        index.map(|index| StageId(index as u8))
    }

    fn runs(&self, lane: LaneId, kind: StageKind) -> bool {
        let engine = self.world.engine_of(lane);
        let stage = self.stage(kind);
        stage.is_some_and(|stage| self.world.costs.get(engine, stage).is_some())
    }

    fn name(&self, engine: EngineId) -> String {
        self.world.engines[engine.0 as usize].name.clone()
    }

    /// Every stage of a lane alone, walk after walk until intervals are narrow.
    fn alone(&mut self, lane: LaneId) -> Result<(), EngineError> {
        let engine = self.name(self.world.engine_of(lane));
        self.part(format!(
            "stages on {}",
            self.world.lanes[lane.0 as usize].name
        ));
        // Copies are measured on the way, also by the walks of others.
        let own = |point: &Point| match point {
            Point::Stage {
                engine: on, kind, ..
            } => *on == engine && !matches!(kind, StageKind::Export | StageKind::Import),
            Point::Pair { .. } | Point::Stream { .. } => false,
        };
        let done = |measured: &Measured| {
            let count = measured.series.iter().filter(|(point, _)| own(point));
            let count = count.map(|(_, series)| series.wall.len()).min();
            count.unwrap_or(0) as u32
        };
        loop {
            let walks = done(&self.measured);
            let narrow = self.measured.widest(own) <= self.plan.narrow;
            if walks >= self.plan.most || walks >= self.plan.least && narrow {
                return Ok(());
            }
            let before = walks;
            if self.runs(lane, StageKind::Encode) {
                for frame in 0..self.plan.encodes {
                    self.encode(lane, frame, true)?;
                }
            }
            if self.runs(lane, StageKind::Ingest) {
                self.walk(lane)?;
            }
            if done(&self.measured) == before {
                // Nothing of this lane can be measured, or a point is out of reach.
                return Ok(());
            }
        }
    }

    fn order(&self, kind: StageKind, item: Item, reads: u32, owner: Owner) -> Option<Order> {
        Some(Order {
            task: Task {
                stage: self.stage(kind)?,
                ticket: 0,
                stream: STREAM,
                size: 1,
                context: 0,
                version: reads,
                source: EngineId(0),
            },
            kind,
            item,
            reads,
            owner,
            noise: 0,
        })
    }

    fn timed(&mut self, lane: LaneId, order: Order, size: u64) -> Result<Timed, EngineError> {
        let (timed, _) = self.bench.run(lane, order)?;
        let point = Point::Stage {
            engine: self.name(self.world.engine_of(lane)),
            kind: order.kind,
            size,
            context: order.task.context,
        };
        self.keep(point, timed);
        Ok(timed)
    }

    fn frame(&self, frame: u32) -> Item {
        let tokens = self.plan.frames[frame as usize % self.plan.frames.len()];
        Item::Frame {
            index: frame,
            tokens,
        }
    }

    fn encode(&mut self, lane: LaneId, frame: u32, keep: bool) -> Result<(), EngineError> {
        let item = self.frame(frame);
        let order = self.order(StageKind::Encode, item, 0, Owner::Stream(STREAM));
        let Some(order) = order else { return Ok(()) };
        if keep {
            self.timed(lane, order, 1).map(drop)
        } else {
            self.bench.run(lane, order).map(drop)
        }
    }

    /// Has the frame's embedding made, if there is a tower and it has not been.
    fn prepare(&mut self, frame: u32) -> Result<(), EngineError> {
        if self.registry.embedding(STREAM, frame).is_some() {
            return Ok(());
        }
        let mut lanes = (0..self.world.lanes.len()).map(|index| LaneId(index as u8));
        match lanes.find(|&lane| self.runs(lane, StageKind::Encode)) {
            Some(lane) => self.encode(lane, frame, false),
            None => Ok(()),
        }
    }

    fn evict(&self, lane: LaneId) -> Result<(), EngineError> {
        self.bench.tell(lane, Notice::Evicted { stream: STREAM })
    }

    /// Makes a context deeper on a lane, frame by frame, up to `depth` frames, and asks at each depth.
    fn walk(&mut self, lane: LaneId) -> Result<(), EngineError> {
        self.evict(lane)?;
        let other = self.other(lane);
        if let Some(other) = other {
            self.evict(other)?;
        }
        self.system(lane)?;
        for frame in 0..self.plan.frames.len() as u32 {
            self.prepare(frame)?;
            self.project(lane, frame)?;
            if let Some(order) = self.ingest_order(frame)? {
                self.timed(lane, order, order.task.size.into())?;
            }
            self.publish(frame)?;
            for query in 0..self.plan.queries.len() as u32 {
                self.ask(lane, frame + 1, query)?;
            }
            if let Some(other) = other {
                // What was added, and then all of it.
                if frame > 0 {
                    self.import(lane, other, frame + 1, Some(frame))?;
                }
                self.evict(other)?;
                self.import(lane, other, frame + 1, None)?;
            }
        }
        Ok(())
    }

    /// Tokens of a version.
    fn context(&self, version: u32) -> u32 {
        let frames = (0..version).map(|frame| match self.frame(frame) {
            Item::Frame { tokens, .. } => tokens,
            Item::Query { .. } | Item::Answer { .. } => 0,
        });
        self.world.model.system_tokens + frames.sum::<u32>()
    }

    /// Prefills the system prompt, with which every context begins.
    fn system(&mut self, lane: LaneId) -> Result<(), EngineError> {
        let size = self.world.model.system_tokens;
        let order = self.order(
            StageKind::Reconstruct,
            self.frame(0),
            0,
            Owner::Stream(STREAM),
        );
        match order {
            Some(mut order) if size > 0 => {
                order.task.size = size;
                self.bench.run(lane, order).map(drop)
            }
            _ => Ok(()),
        }
    }

    fn project(&mut self, lane: LaneId, frame: u32) -> Result<(), EngineError> {
        let item = self.frame(frame);
        let order = self.order(StageKind::Project, item, 0, Owner::Stream(STREAM));
        let (Some(mut order), Item::Frame { tokens, .. }) = (order, item) else {
            return Ok(());
        };
        if self.runs(lane, StageKind::Project) {
            order.task.size = tokens;
            self.timed(lane, order, tokens.into())?;
        }
        Ok(())
    }

    fn ingest_order(&mut self, frame: u32) -> Result<Option<Order>, EngineError> {
        self.prepare(frame)?;
        let item = self.frame(frame);
        let order = self.order(StageKind::Ingest, item, frame, Owner::Stream(STREAM));
        Ok(order.map(|mut order| {
            order.task.version = frame + 1;
            order.task.context = self.context(frame);
            if let Item::Frame { tokens, .. } = item {
                order.task.size = tokens;
            }
            order
        }))
    }

    /// Tells all processors of a version, once.
    fn publish(&mut self, frame: u32) -> Result<(), EngineError> {
        if frame < self.published {
            return Ok(());
        }
        self.published = frame + 1;
        let notice = Notice::Published {
            stream: STREAM,
            version: frame + 1,
            item: self.frame(frame),
        };
        for engine in 0..self.world.engines.len() {
            let engine = EngineId(engine as u8);
            let mut lanes = (0..self.world.lanes.len()).map(|index| LaneId(index as u8));
            if let Some(lane) = lanes.find(|&lane| self.world.engine_of(lane) == engine) {
                self.bench.tell(lane, notice)?;
            }
        }
        Ok(())
    }

    /// Prefill and decode of a query of `prompt` and `output` tokens.
    fn query_orders(&self, version: u32, prompt: u32, output: u32) -> Option<(Order, Order)> {
        let item = Item::Query {
            index: 0,
            prompt,
            output,
        };
        let context = self.context(version);
        let mut prefill = self.order(
            StageKind::QueryPrefill,
            item,
            version,
            Owner::Stream(STREAM),
        )?;
        prefill.task.size = prompt;
        prefill.task.context = context;
        let mut decode = self.order(StageKind::Decode, item, version, Owner::Request(0))?;
        decode.task.size = output - 1;
        decode.task.context = context + prompt;
        Some((prefill, decode))
    }

    fn over(&self, lane: LaneId) -> Result<(), EngineError> {
        let item = Item::Query {
            index: 0,
            prompt: 0,
            output: 0,
        };
        self.bench.tell(
            lane,
            Notice::Ended {
                stream: STREAM,
                ticket: 0,
                item,
            },
        )
    }

    fn ask(&mut self, lane: LaneId, version: u32, query: u32) -> Result<(), EngineError> {
        let (prompt, output) = self.plan.queries[query as usize];
        let Some((prefill, decode)) = self.query_orders(version, prompt, output) else {
            return Ok(());
        };
        self.timed(lane, prefill, prompt.into())?;
        self.timed(lane, decode, u64::from(output - 1))?;
        self.over(lane)
    }

    /// A lane of another processor that takes contexts over.
    fn other(&self, lane: LaneId) -> Option<LaneId> {
        let engine = self.world.engine_of(lane);
        (0..self.world.lanes.len())
            .map(|index| LaneId(index as u8))
            .find(|&other| {
                self.world.engine_of(other) != engine && self.runs(other, StageKind::Import)
            })
    }

    /// Copies a context that `from` holds to `to`, which holds version `held`, or nothing. The export is
    /// timed by itself, then the whole import, which exports again; what is left is the import's own.
    fn import(
        &mut self,
        from: LaneId,
        to: LaneId,
        version: u32,
        held: Option<u32>,
    ) -> Result<(), EngineError> {
        let tokens = self.context(version) - held.map_or(0, |held| self.context(held));
        let source = self.world.engine_of(from);
        let owner = Owner::Stream(STREAM);
        let item = Item::Query {
            index: 0,
            prompt: 1,
            output: 1,
        };
        let (Some(order), Some(store)) = (
            self.order(StageKind::Import, item, version, owner),
            self.registry.store(source),
        ) else {
            return Ok(());
        };
        let size = u64::from(tokens) * self.world.model.kv_bytes_per_token;
        let export = self.bench.export(to, store, owner, version, held)?;
        let mut order = order;
        order.task.source = source;
        order.task.size = tokens;
        let (whole, _) = self.bench.run(to, order)?;
        let point = |engine: EngineId, kind| Point::Stage {
            engine: self.name(engine),
            kind,
            size,
            context: 0,
        };
        let (out, into) = (
            point(source, StageKind::Export),
            point(self.world.engine_of(to), StageKind::Import),
        );
        let rest = Timed {
            wall_s: whole.wall_s - export.wall_s,
            cpu_s: whole.cpu_s.zip(export.cpu_s).map(|(a, b)| a - b),
        };
        self.keep(out, export);
        self.keep(into, rest);
        Ok(())
    }

    /// What a lane can be kept busy with.
    fn work(&self, lane: LaneId) -> Vec<StageKind> {
        let kinds = [
            StageKind::QueryPrefill,
            StageKind::Decode,
            StageKind::Encode,
        ];
        kinds
            .into_iter()
            .filter(|&kind| self.runs(lane, kind))
            .collect()
    }

    /// The orders that keep a lane busy with a kind of stage; the first may be a preparation.
    fn busy_orders(&self, kind: StageKind) -> Vec<Order> {
        // A prompt as long as a frame: a prefill, whatever it is of.
        let (prompt, output) = self.plan.beside;
        let long = self.plan.frames.first().copied().unwrap_or(prompt);
        match kind {
            StageKind::QueryPrefill => {
                let orders = self.query_orders(1, long, 2);
                orders.map(|(prefill, _)| vec![prefill]).unwrap_or_default()
            }
            StageKind::Decode => {
                let Some((prefill, decode)) = self.query_orders(1, prompt, output) else {
                    return Vec::new();
                };
                // The prefill starts a new answer, so that the context does not fill up.
                let mut orders = vec![prefill];
                orders.extend(std::iter::repeat_n(decode, 4));
                orders
            }
            StageKind::Encode => {
                let order = self.order(kind, self.frame(0), 0, Owner::Stream(STREAM));
                order.into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    /// How one lane slows down another, by what each does; alone and beside in turns.
    fn pair(&mut self, victim: LaneId, aggressor: LaneId) -> Result<(), EngineError> {
        let name = |lane: LaneId| self.world.lanes[lane.0 as usize].name.clone();
        self.part(format!("{} beside {}", name(victim), name(aggressor)));
        for lane in [victim, aggressor] {
            if self.runs(lane, StageKind::Ingest) {
                self.evict(lane)?;
                self.system(lane)?;
                if let Some(order) = self.ingest_order(0)? {
                    self.bench.run(lane, order)?;
                }
                self.publish(0)?;
            }
        }
        for does in self.work(victim) {
            for beside in self.work(aggressor) {
                self.pair_of(victim, does, aggressor, beside)?;
            }
        }
        Ok(())
    }

    fn pair_of(
        &mut self,
        victim: LaneId,
        does: StageKind,
        aggressor: LaneId,
        beside: StageKind,
    ) -> Result<(), EngineError> {
        let point = |busy| Point::Pair {
            victim: self.name(self.world.engine_of(victim)),
            does,
            aggressor: self.name(self.world.engine_of(aggressor)),
            beside,
            busy,
        };
        let points = [point(false), point(true)];
        while points.iter().any(|point| self.short_of(point)) {
            for point in &points {
                let together = matches!(point, Point::Pair { busy: true, .. });
                let busy = if together {
                    let orders = self.busy_orders(beside);
                    Some(self.bench.busy(aggressor, orders)?)
                } else {
                    None
                };
                let orders = self.busy_orders(does);
                // A decode is measured alone, its prefill is not.
                let mut timed = None;
                for order in orders.into_iter().take(2) {
                    timed = Some(self.bench.run(victim, order)?.0);
                }
                if let Some(busy) = busy {
                    self.bench.rest(&busy)?;
                }
                if let Some(timed) = timed {
                    self.keep(point.clone(), timed);
                }
            }
        }
        for lane in [victim, aggressor] {
            if self.runs(lane, StageKind::Decode) {
                self.over(lane)?;
            }
        }
        Ok(())
    }
}
