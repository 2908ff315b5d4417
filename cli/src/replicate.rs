//! Replications on all cores, collected in order: results do not depend on the number of threads.

use std::io::{self, IsTerminal};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rayon::prelude::*;
use reports::interval::Replicated;
use sim::diag::Faults;
use sim::metrics::Summary;
use sim::simulation::Simulation;
use sim::world::World;

use crate::failure::Failure;

/// Work shorter than this shows no progress.
const PATIENCE: Duration = Duration::from_secs(1);

/// Threads and the progress of what runs on them.
#[derive(Debug)]
pub(crate) struct Workers {
    pool: rayon::ThreadPool,
    bar: ProgressBar,
    since: Instant,
    shown: AtomicBool,
}

impl Workers {
    /// Workers for `runs` replications in all.
    pub(crate) fn new(jobs: Option<NonZeroUsize>, runs: u64) -> Result<Self, Failure> {
        // More threads than runs would only wait; 0 is one per core.
        let most = usize::try_from(runs).unwrap_or(usize::MAX);
        let threads = jobs.map_or(0, |jobs| jobs.get().min(most));
        Self::start(threads, runs, "replications")
    }

    /// Workers for cells, whose number is told by [`Self::expect`].
    pub(crate) fn of_cells(jobs: Option<NonZeroUsize>) -> Result<Self, Failure> {
        Self::start(jobs.map_or(0, NonZeroUsize::get), 0, "cells")
    }

    /// Workers for points of a search, whose number is told by [`Self::expect`].
    pub(crate) fn of_points(jobs: Option<NonZeroUsize>) -> Result<Self, Failure> {
        Self::start(jobs.map_or(0, NonZeroUsize::get), 0, "points")
    }

    fn start(threads: usize, runs: u64, what: &str) -> Result<Self, Failure> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .map_err(Failure::internal)?;
        let bar = ProgressBar::with_draw_target(Some(runs), ProgressDrawTarget::hidden());
        let style = format!("{{wide_bar}} {{pos}} of {{len}} {what}, {{eta}} left");
        bar.set_style(ProgressStyle::with_template(&style).map_err(Failure::internal)?);
        Ok(Self {
            pool,
            bar,
            since: Instant::now(),
            shown: AtomicBool::new(!io::stderr().is_terminal()),
        })
    }

    /// All replications of a world.
    pub(crate) fn replicate(&self, world: &World) -> Result<Replicated, Failure> {
        let mut runs = Replicated::default();
        self.extend(world, &mut runs, world.replications)?;
        Ok(runs)
    }

    /// Runs what is missing of `count` replications.
    pub(crate) fn extend(
        &self,
        world: &World,
        runs: &mut Replicated,
        count: u32,
    ) -> Result<(), Failure> {
        let missing = runs.count() as u32..count;
        let found: Vec<Result<Summary, Faults>> = self.pool.install(|| {
            missing
                .into_par_iter()
                .map_init(
                    || Simulation::new(world),
                    |simulation, run| {
                        simulation.run(run)?;
                        self.advance();
                        Ok(simulation.summary())
                    },
                )
                .collect()
        });
        // The first that was stopped is told, whichever thread was faster.
        let found = found.into_iter().collect::<Result<Vec<_>, _>>();
        runs.summaries.extend(found.map_err(Failure::Faults)?);
        Ok(())
    }

    /// Announces more replications.
    pub(crate) fn expect(&self, more: u64) {
        self.bar.inc_length(more);
    }

    /// Does something else on these threads.
    pub(crate) fn install<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.pool.install(work)
    }

    /// One more is done.
    pub(crate) fn advance(&self) {
        self.bar.inc(1);
        if self.since.elapsed() > PATIENCE && !self.shown.swap(true, Ordering::Relaxed) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
