//! A world ready to be simulated again and again.

use crate::dispatch::{Dispatcher, Effects};
use crate::drive::{Sink, drive};
use crate::metrics::{Metrics, Summary};
use crate::soc::Soc;
use crate::world::World;

/// A simulated SoC, its scheduler and its metrics; one run reuses the last one's allocations.
#[derive(Debug)]
pub struct Simulation<'w> {
    soc: Soc<'w>,
    dispatcher: Dispatcher<'w>,
    metrics: Metrics<'w>,
    effects: Effects,
    fresh: bool,
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
            fresh: true,
        }
    }

    /// Simulates replication `run` and folds its metrics.
    pub fn run(&mut self, run: u32) -> &Metrics<'w> {
        self.run_into(run, &mut ())
    }

    /// As [`Self::run`], showing every input and effect to `sink` too.
    pub fn run_into<S: Sink>(&mut self, run: u32, sink: &mut S) -> &Metrics<'w> {
        if !self.fresh || run != 0 {
            self.soc.reset(run);
            self.dispatcher.reset();
            self.metrics.reset();
        }
        self.fresh = false;
        drive(
            &mut self.soc,
            &mut self.dispatcher,
            &mut self.effects,
            &mut (&mut self.metrics, sink),
        );
        &self.metrics
    }

    /// The summary of the last run.
    pub fn summary(&self) -> Summary {
        self.metrics
            .summary(self.dispatcher.peak_kv_bytes(), self.soc.unmeasured())
    }

    /// The metrics of the last run.
    pub fn metrics(&self) -> &Metrics<'w> {
        &self.metrics
    }
}
