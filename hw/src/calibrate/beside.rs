//! Measures lanes beside each other: reading memory, in pairs, and all at once.

use std::time::Instant;

use sim::spec::model::StageKind;
use sim::world::LaneId;

use super::bench::Timed;
use super::check;
use super::measure::{Measurer, STREAM};
use super::point::Point;
use super::stream;
use crate::engine::{EngineError, Item, Order, Owner};

/// Imports of a prefix for each time that it is prefilled again. They take a thousandth of the time, and scatter
/// ten times as much.
const IMPORTS: usize = 16;

impl Measurer<'_> {
    pub(super) fn streams(&mut self, lanes: &[LaneId]) -> Result<(), EngineError> {
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
    pub(super) fn pair(&mut self, victim: LaneId, aggressor: LaneId) -> Result<(), EngineError> {
        let (one, other) = (self.lane_name(victim), self.lane_name(aggressor));
        self.part(format!("{one} beside {other}"));
        self.first_version([victim, aggressor])?;
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
        self.in_turns((victim, does), &[(aggressor, beside)], &points)
    }

    /// Has lanes hold the first version of the stream that is measured with.
    fn first_version(
        &mut self,
        lanes: impl IntoIterator<Item = LaneId>,
    ) -> Result<(), EngineError> {
        for lane in lanes {
            if self.runs(lane, StageKind::Ingest) {
                self.evict(lane)?;
                self.system(lane)?;
                if let Some(order) = self.ingest_order(0)? {
                    self.bench.run(lane, order)?;
                }
                self.publish(0)?;
            }
        }
        Ok(())
    }

    /// Whether a slowdown is not known well enough: a single decode of a GPU varies by 10 % on a shared host, and
    /// what four of them differ by is no slowdown.
    fn wants_turn(&self, [alone, busy]: &[Point; 2], began: Instant) -> bool {
        if self.short_of(alone) || self.short_of(busy) {
            return true;
        }
        let slowdown = self.measured.turns(alone, busy);
        let wide = slowdown
            .half_width()
            .is_none_or(|half| half > self.plan.narrow);
        let left = slowdown.wall.len() < self.plan.turns as usize
            && began.elapsed().as_secs_f64() < self.plan.turns_s;
        wide && left
    }

    /// Times a stage alone, for the first point, and with others busy, for the second, in turns.
    fn in_turns(
        &mut self,
        (victim, does): (LaneId, StageKind),
        others: &[(LaneId, StageKind)],
        points: &[Point; 2],
    ) -> Result<(), EngineError> {
        let began = Instant::now();
        while self.wants_turn(points, began) {
            for (point, together) in points.iter().zip([false, true]) {
                let mut busy = Vec::new();
                for &(lane, kind) in others.iter().filter(|_| together) {
                    busy.push(self.bench.busy(lane, self.busy_orders(kind))?);
                }
                let orders = self.busy_orders(does);
                // A decode is measured alone, its prefill is not.
                let mut timed = None;
                for order in orders.into_iter().take(2) {
                    timed = Some(self.bench.run(victim, order)?.0);
                }
                for busy in &busy {
                    self.bench.rest(busy)?;
                }
                if let Some(timed) = timed {
                    self.keep(point.clone(), timed);
                }
            }
        }
        for lane in others.iter().map(|(lane, _)| *lane).chain([victim]) {
            if self.runs(lane, StageKind::Decode) {
                self.over(lane)?;
            }
        }
        Ok(())
    }

    /// One lane of every engine at once: each is watched in turn.
    pub(super) fn group(&mut self) -> Result<(), EngineError> {
        let members = check::members(self.world);
        // Two are a pair, which is measured already.
        if members.len() < 3 {
            return Ok(());
        }
        self.part(format!("{} engines at once", members.len()));
        self.first_version(members.iter().map(|(lane, _)| *lane))?;
        for &(victim, does) in &members {
            let point = |busy| Point::Group {
                victim: self.name(self.world.engine_of(victim)),
                does,
                busy,
            };
            let points = [point(false), point(true)];
            let others = members.iter().filter(|(lane, _)| *lane != victim);
            let others: Vec<_> = others.copied().collect();
            self.in_turns((victim, does), &others, &points)?;
        }
        Ok(())
    }

    /// Prefixes on each engine that has them from another.
    pub(super) fn prefixes(&mut self, lanes: &[LaneId]) -> Result<(), EngineError> {
        for &from in lanes {
            if self.runs(from, StageKind::Ingest) {
                for to in self.others(from) {
                    self.prefix(from, to)?;
                }
            }
        }
        Ok(())
    }

    /// A prefix on an engine that has it from another: imported, and prefilled again, in turns.
    fn prefix(&mut self, from: LaneId, to: LaneId) -> Result<(), EngineError> {
        let version = (self.plan.frames.len() as u32).div_ceil(2);
        let point = |imported| Point::Prefix {
            from: self.name(self.world.engine_of(from)),
            to: self.name(self.world.engine_of(to)),
            tokens: self.context(version),
            imported,
        };
        let points = [point(true), point(false)];
        if !points.iter().any(|point| self.short_of(point)) {
            return Ok(());
        }
        let (one, other) = (self.lane_name(from), self.lane_name(to));
        self.part(format!("a prefix of {one} on {other}"));
        self.first_version([from])?;
        for frame in 1..version {
            if let Some(order) = self.ingest_order(frame)? {
                self.bench.run(from, order)?;
            }
            self.publish(frame)?;
        }
        // A version that is published first drops its frame's embedding.
        for frame in 0..version {
            self.prepare(frame)?;
        }
        self.rests = false;
        while points.iter().any(|point| self.short_of(point)) {
            self.rests = !self.rests;
            for point in &points {
                let imported = matches!(point, Point::Prefix { imported: true, .. });
                let Some(order) = self.prefix_order(from, version, imported) else {
                    return Ok(());
                };
                for _ in 0..if imported { IMPORTS } else { 1 } {
                    self.ask_briefly(from, version)?;
                    self.evict(to)?;
                    self.rest();
                    let (timed, _) = self.bench.run(to, order)?;
                    self.keep(point.clone(), timed);
                }
            }
        }
        Ok(())
    }

    /// Work between two copies, as a workload has and calibration too: a short answer from the context.
    fn ask_briefly(&self, lane: LaneId, version: u32) -> Result<(), EngineError> {
        let Some((prefill, decode)) = self.query_orders(version, self.plan.beside.0, 2) else {
            return Ok(());
        };
        self.bench.run(lane, prefill)?;
        self.bench.run(lane, decode)?;
        self.over(lane)
    }

    fn prefix_order(&self, from: LaneId, version: u32, imported: bool) -> Option<Order> {
        let kind = if imported {
            StageKind::Import
        } else {
            StageKind::Reconstruct
        };
        let item = Item::Query {
            index: 0,
            prompt: 1,
            output: 1,
        };
        let mut order = self.order(kind, item, version, Owner::Stream(STREAM))?;
        order.task.source = self.world.engine_of(from);
        order.task.size = self.context(version);
        Some(order)
    }
}
