//! Walks a plan over a world's lanes, and keeps what it measured.

use std::collections::BTreeSet;
use std::sync::Arc;

use sim::spec::model::StageKind;
use sim::world::{EngineId, LaneId, StageId, StreamId, World};

use super::bench::{Bench, Timed};
use super::check;
use super::plan::Plan;
use super::point::{Measured, Point};
use super::stream;
use crate::engine::{Engine, EngineError};
use crate::registry::Registry;

/// The stream that is measured with; its name and plan do not matter.
pub(super) const STREAM: StreamId = StreamId(0);

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
    pub(super) world: &'w World,
    pub(super) registry: Arc<Registry>,
    pub(super) bench: Bench,
    pub(super) plan: Plan,
    pub(super) measured: Measured,
    listener: Box<dyn FnMut(&Event) + 'w>,
    /// Stages that have run on an engine.
    pub(super) warm: BTreeSet<(EngineId, StageKind, u64)>,
    /// Whether lanes rest before pieces of work; every second walk.
    pub(super) rests: bool,
    /// Versions that were published.
    pub(super) published: u32,
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
        let (lanes, least) = (world.lanes.len() as u32, plan.least);
        Ok(Self {
            world,
            registry,
            bench: Bench::start(engines)?,
            plan,
            measured: earlier,
            listener: Box::new(listener),
            warm: BTreeSet::new(),
            rests: false,
            published: 0,
            parts: (0, lanes * (1 + least) + lanes * lanes.saturating_sub(1) + 2),
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
            self.clock(lane)?;
        }
        self.alone(&lanes)?;
        for &victim in &lanes {
            for &aggressor in &lanes {
                // Lanes of one processor share its store, and with it the request that is measured with.
                let apart = self.world.engine_of(victim) != self.world.engine_of(aggressor);
                if self.plan.pairs && apart {
                    self.pair(victim, aggressor)?;
                }
            }
        }
        if self.plan.checks {
            self.group()?;
            self.prefixes(&lanes)?;
        }
        for &lane in &lanes {
            self.clock(lane)?;
        }
        Ok(self.measured)
    }

    /// Looks at a lane's clock once more.
    fn clock(&mut self, lane: LaneId) -> Result<(), EngineError> {
        let wall_s = self.bench.time(lane, stream::turns_per_ns)?;
        let point = Point::Clock {
            lane: self.lane_name(lane),
        };
        self.keep(
            point,
            Timed {
                wall_s,
                cpu_s: None,
            },
        );
        Ok(())
    }

    pub(super) fn lane_name(&self, lane: LaneId) -> String {
        self.world.lanes[lane.0 as usize].name.clone()
    }

    pub(super) fn part(&mut self, what: String) {
        self.parts.0 += 1;
        let (number, of) = (self.parts.0, self.parts.1.max(self.parts.0));
        (self.listener)(&Event::Part { what, number, of });
    }

    pub(super) fn keep(&mut self, point: Point, timed: Timed) {
        let event = Event::Sample { point, timed };
        (self.listener)(&event);
        if let Event::Sample { point, timed } = event {
            self.measured.add(point, timed);
        }
    }

    pub(super) fn short_of(&self, point: &Point) -> bool {
        let series = self.measured.series.get(point);
        series.map_or(0, |series| series.wall.len()) < self.plan.least as usize
    }

    pub(super) fn stage(&self, kind: StageKind) -> Option<StageId> {
        check::stage(self.world, kind)
    }

    pub(super) fn runs(&self, lane: LaneId, kind: StageKind) -> bool {
        let engine = self.world.engine_of(lane);
        let stage = self.stage(kind);
        stage.is_some_and(|stage| self.world.costs.get(engine, stage).is_some())
    }

    pub(super) fn name(&self, engine: EngineId) -> String {
        self.world.engines[engine.0 as usize].name.clone()
    }

    /// Every stage alone, walk after walk until intervals are narrow; lanes take turns, so that the samples of
    /// each are spread over the whole time: a machine is faster at one time than at another.
    fn alone(&mut self, lanes: &[LaneId]) -> Result<(), EngineError> {
        // A lane, and whether its last walk ran something for the first time: that has no sample yet.
        let mut going: Vec<(LaneId, bool)> = lanes.iter().map(|&lane| (lane, false)).collect();
        while !going.is_empty() {
            let mut next = Vec::new();
            for (lane, fresh) in going {
                if let Some(fresh) = self.walk_again(lane, fresh)? {
                    next.push((lane, fresh));
                }
            }
            going = next;
        }
        Ok(())
    }

    /// Walks on a lane unless enough is known of it; whether it ran something for the first time.
    fn walk_again(&mut self, lane: LaneId, fresh: bool) -> Result<Option<bool>, EngineError> {
        let engine = self.name(self.world.engine_of(lane));
        // Copies are measured on the way, also by the walks of others.
        let own = |point: &Point| match point {
            Point::Stage {
                engine: on, kind, ..
            } => *on == engine && !matches!(kind, StageKind::Export | StageKind::Import),
            _ => false,
        };
        let encodes = self.plan.encodes.max(1) as usize;
        // The fewest samples of a point, by how many a walk takes, and how many there are at all.
        let done = |measured: &Measured| {
            let series = measured.series.iter().filter(|(point, _)| own(point));
            let counts = series.map(|(point, series)| match point {
                Point::Stage {
                    kind: StageKind::Encode,
                    ..
                } => (series.wall.len() / encodes, series.wall.len()),
                _ => (series.wall.len(), series.wall.len()),
            });
            let least = counts.clone().map(|(walks, _)| walks).min().unwrap_or(0) as u32;
            (least, counts.map(|(_, samples)| samples).sum::<usize>())
        };
        let (walks, samples) = done(&self.measured);
        let narrow = self.measured.widest(own) <= self.plan.narrow;
        let enough = walks >= self.plan.most || walks >= self.plan.least && narrow;
        if enough && !fresh {
            return Ok(None);
        }
        self.part(format!("stages on {}", self.lane_name(lane)));
        let before = (samples, self.warm.len());
        self.rests = walks % 2 == 1;
        if self.runs(lane, StageKind::Encode) {
            for frame in 0..self.plan.encodes {
                self.encode(lane, frame, true)?;
            }
        }
        if self.runs(lane, StageKind::Ingest) {
            self.walk(lane)?;
        }
        // Else nothing of this lane can be measured, or a point is out of reach.
        let went_on = (done(&self.measured).1, self.warm.len()) != before;
        Ok(went_on.then_some(self.warm.len() > before.1))
    }
}
