//! One walk through a context: the orders of its stages, and their samples.

use sim::dispatch::Task;
use sim::spec::model::StageKind;
use sim::world::{EngineId, LaneId};

use super::bench::Timed;
use super::measure::{Measurer, STREAM};
use super::point::Point;
use crate::engine::{EngineError, Item, Notice, Order, Owner};

impl Measurer<'_> {
    pub(super) fn order(
        &self,
        kind: StageKind,
        item: Item,
        reads: u32,
        owner: Owner,
    ) -> Option<Order> {
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

    /// Lets lanes rest, in walks that do.
    pub(super) fn rest(&self) {
        if self.rests && self.plan.rest_s > 0.0 {
            std::thread::sleep(std::time::Duration::from_secs_f64(self.plan.rest_s));
        }
    }

    fn timed(&mut self, lane: LaneId, order: Order, size: u64) -> Result<Timed, EngineError> {
        let (timed, _) = self.bench.run(lane, order)?;
        let on = self.world.engine_of(lane);
        let (engine, kind, context) = (self.name(on), order.kind, order.task.context);
        // A GPU compiles kernels, or looks them up, for each size that is new.
        let point = if self.warm.insert((on, kind, size)) {
            Point::Cold {
                engine,
                kind,
                size,
                context,
            }
        } else {
            Point::Stage {
                engine,
                kind,
                size,
                context,
            }
        };
        self.keep(point, timed);
        Ok(timed)
    }

    pub(super) fn frame(&self, frame: u32) -> Item {
        let tokens = self.plan.frames[frame as usize % self.plan.frames.len()];
        Item::Frame {
            index: frame,
            tokens,
        }
    }

    pub(super) fn encode(
        &mut self,
        lane: LaneId,
        frame: u32,
        keep: bool,
    ) -> Result<(), EngineError> {
        let item = self.frame(frame);
        let order = self.order(StageKind::Encode, item, 0, Owner::Stream(STREAM));
        let Some(order) = order else { return Ok(()) };
        if keep {
            self.rest();
            self.timed(lane, order, 1).map(drop)
        } else {
            self.bench.run(lane, order).map(drop)
        }
    }

    /// Has the frame's embedding made, if there is a tower and it has not been.
    pub(super) fn prepare(&mut self, frame: u32) -> Result<(), EngineError> {
        if self.registry.embedding(STREAM, frame).is_some() {
            return Ok(());
        }
        let mut lanes = (0..self.world.lanes.len()).map(|index| LaneId(index as u8));
        match lanes.find(|&lane| self.runs(lane, StageKind::Encode)) {
            Some(lane) => self.encode(lane, frame, false),
            None => Ok(()),
        }
    }

    pub(super) fn evict(&self, lane: LaneId) -> Result<(), EngineError> {
        self.bench.tell(lane, Notice::Evicted { stream: STREAM })
    }

    /// Makes a context deeper on a lane, frame by frame, up to `depth` frames, and asks at each depth.
    pub(super) fn walk(&mut self, lane: LaneId) -> Result<(), EngineError> {
        self.evict(lane)?;
        let others = self.others(lane);
        for &other in &others {
            self.evict(other)?;
        }
        self.system(lane)?;
        for frame in 0..self.plan.frames.len() as u32 {
            self.prepare(frame)?;
            self.project(lane, frame)?;
            if let Some(order) = self.ingest_order(frame)? {
                self.rest();
                self.timed(lane, order, order.task.size.into())?;
            }
            self.publish(frame)?;
            // What was added, and then all of it, each time after other work: caches hold none of it.
            for &other in others.iter().filter(|_| frame > 0) {
                self.import(lane, other, frame + 1, Some(frame))?;
            }
            for query in 0..self.plan.queries.len() as u32 {
                self.ask(lane, frame + 1, query)?;
                for &other in &others {
                    self.evict(other)?;
                    self.rest();
                    self.import(lane, other, frame + 1, None)?;
                }
            }
        }
        Ok(())
    }

    /// Tokens of a version.
    pub(super) fn context(&self, version: u32) -> u32 {
        let frames = (0..version).map(|frame| match self.frame(frame) {
            Item::Frame { tokens, .. } => tokens,
            Item::Query { .. } | Item::Answer { .. } => 0,
        });
        self.world.model.system_tokens + frames.sum::<u32>()
    }

    /// Prefills the system prompt, with which every context begins.
    pub(super) fn system(&mut self, lane: LaneId) -> Result<(), EngineError> {
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

    pub(super) fn ingest_order(&mut self, frame: u32) -> Result<Option<Order>, EngineError> {
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
    pub(super) fn publish(&mut self, frame: u32) -> Result<(), EngineError> {
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
    pub(super) fn query_orders(
        &self,
        version: u32,
        prompt: u32,
        output: u32,
    ) -> Option<(Order, Order)> {
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

    pub(super) fn over(&self, lane: LaneId) -> Result<(), EngineError> {
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
        self.rest();
        self.timed(lane, prefill, prompt.into())?;
        self.timed(lane, decode, u64::from(output - 1))?;
        self.over(lane)
    }

    /// A lane of each other processor that takes contexts over.
    pub(super) fn others(&self, lane: LaneId) -> Vec<LaneId> {
        let mut engines = vec![self.world.engine_of(lane)];
        let mut lanes = Vec::new();
        for index in 0..self.world.lanes.len() {
            let other = LaneId(index as u8);
            let engine = self.world.engine_of(other);
            if !engines.contains(&engine) && self.runs(other, StageKind::Import) {
                engines.push(engine);
                lanes.push(other);
            }
        }
        lanes
    }

    /// Copies a context that `from` holds to `to`, which holds version `held`, or nothing. The whole import
    /// is timed, as a workload meets it, then its export again by itself; what is left is the import's own.
    /// The other way round, the whole would find in caches what was just read, and the sum be too small.
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
        let mut order = order;
        order.task.source = source;
        order.task.size = tokens;
        let (whole, _) = self.bench.run(to, order)?;
        let export = self.bench.export(to, store, owner, version, held)?;
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
}
