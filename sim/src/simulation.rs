//! A world ready to be simulated again and again.

use std::cell::Cell;

use crate::diag::Faults;
use crate::dispatch::{Dispatcher, Effect, Effects, Input};
use crate::drive::{Executor, Sink, drive};
use crate::metrics::{Metrics, Summary};
use crate::soc::{Progress, Soc};
use crate::time::Instant;
use crate::world::{LANES_MAX, LaneId, World};

/// A simulated SoC, its scheduler and its metrics; one run reuses the last one's allocations.
#[derive(Debug)]
pub struct Simulation<'w> {
    soc: Soc<'w>,
    dispatcher: Dispatcher<'w>,
    metrics: Metrics<'w>,
    effects: Effects,
    lanes: u8,
    fresh: bool,
}

/// What the executor knows of each lane and no trace holds: a sink that keeps a reference can ask for it
/// while [`Simulation::run_watched`] runs.
#[derive(Debug, Default)]
pub struct Pace {
    lanes: [Cell<Progress>; LANES_MAX],
    celsius: Cell<Option<f64>>,
}

impl Pace {
    /// A lane's task, or its last one if it has just ended.
    pub fn of(&self, lane: LaneId) -> Progress {
        self.lanes[lane.0 as usize].get()
    }

    /// The SoC's temperature, °C, where the profile states heat.
    pub fn celsius(&self) -> Option<f64> {
        self.celsius.get()
    }
}

/// The simulated SoC, with its lanes' progress laid open before each event is handled.
struct Watched<'s, 'w> {
    soc: &'s mut Soc<'w>,
    lanes: u8,
    pace: &'s Pace,
}

impl Executor for Watched<'_, '_> {
    fn next(&mut self) -> Option<(Instant, Input)> {
        let next = self.soc.next();
        for lane in (0..self.lanes).map(LaneId) {
            self.pace.lanes[lane.0 as usize].set(self.soc.progress(lane));
        }
        self.pace.celsius.set(self.soc.celsius());
        next
    }

    fn apply(&mut self, now: Instant, effect: &Effect) {
        self.soc.apply(now, effect);
    }
}

impl<'w> Simulation<'w> {
    /// Ready for the first run.
    pub fn new(world: &'w World) -> Self {
        Self::with_dispatcher(world, Dispatcher::new(world))
    }

    /// With a scheduler that the caller made.
    pub fn with_dispatcher(world: &'w World, dispatcher: Dispatcher<'w>) -> Self {
        Self {
            soc: Soc::new(world, 0),
            dispatcher,
            metrics: Metrics::new(world),
            effects: Effects::new(),
            lanes: world.lanes.len() as u8,
            fresh: true,
        }
    }

    /// Simulates replication `run` and folds its metrics.
    ///
    /// # Errors
    ///
    /// As [`drive`], here and below: what a policy of the user's own stopped the run with.
    pub fn run(&mut self, run: u32) -> Result<&Metrics<'w>, Faults> {
        self.run_into(run, &mut ())
    }

    /// As [`Self::run`], showing every input and effect to `sink` too.
    pub fn run_into<S: Sink>(&mut self, run: u32, sink: &mut S) -> Result<&Metrics<'w>, Faults> {
        self.prepare(run);
        drive(
            &mut self.soc,
            &mut self.dispatcher,
            &mut self.effects,
            &mut (&mut self.metrics, sink),
        )?;
        Ok(&self.metrics)
    }

    /// As [`Self::run_into`], with each lane's progress in `pace` whenever `sink` sees an input.
    pub fn run_watched<S: Sink>(
        &mut self,
        run: u32,
        pace: &Pace,
        sink: &mut S,
    ) -> Result<&Metrics<'w>, Faults> {
        self.prepare(run);
        drive(
            &mut Watched {
                lanes: self.lanes,
                soc: &mut self.soc,
                pace,
            },
            &mut self.dispatcher,
            &mut self.effects,
            &mut (&mut self.metrics, sink),
        )?;
        Ok(&self.metrics)
    }

    fn prepare(&mut self, run: u32) {
        if !self.fresh || run != 0 {
            self.soc.reset(run);
            self.dispatcher.reset();
            self.metrics.reset();
        }
        self.fresh = false;
    }

    /// The summary of the last run.
    pub fn summary(&self) -> Summary {
        self.metrics.summary(
            self.dispatcher.peak_kv_bytes(),
            self.soc.unmeasured(),
            self.soc.warmth(),
        )
    }

    /// The metrics of the last run.
    pub fn metrics(&self) -> &Metrics<'w> {
        &self.metrics
    }
}
