//! Replications on all cores, collected in order: results do not depend on the number of threads.

use std::io::{self, IsTerminal};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rayon::prelude::*;
use reports::interval::Replicated;
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
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .map_err(Failure::internal)?;
        let bar = ProgressBar::with_draw_target(Some(runs), ProgressDrawTarget::hidden());
        let style = "{wide_bar} {pos} of {len} replications, {eta} left";
        bar.set_style(ProgressStyle::with_template(style).map_err(Failure::internal)?);
        Ok(Self {
            pool,
            bar,
            since: Instant::now(),
            shown: AtomicBool::new(!io::stderr().is_terminal()),
        })
    }

    /// All replications of a world.
    pub(crate) fn replicate(&self, world: &World) -> Replicated {
        let summaries = self.pool.install(|| {
            (0..world.replications)
                .into_par_iter()
                .map_init(
                    || Simulation::new(world),
                    |simulation, run| {
                        simulation.run(run);
                        self.advance();
                        simulation.summary()
                    },
                )
                .collect()
        });
        Replicated { summaries }
    }

    fn advance(&self) {
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
