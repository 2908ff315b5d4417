//! `crossinfer tune`: the values of keys that serve an objective best.

use clap::Args;
use lab::sweep::{Axis, Study};
use lab::tune::{self, Objective};
use sim::world::World;

use crate::failure::{Failure, print, say};
use crate::library::{Disk, Profiles};
use crate::options::{Simulated, inputs, with_scripts};
use crate::replicate::Workers;
use crate::sweep;

/// Search the values of keys that serve an objective best.
///
/// CMA-ES tries points of the box that the keys span, each with all replications of the scenario. What it
/// found is then measured on a seed that it has not seen, beside the scenario's own values on the same
/// arrivals and lengths: that figure is the one to report.
#[derive(Debug, Args)]
#[command(
    after_long_help = "Example:\n  crossinfer tune scenarios/two-cameras-rk3588.toml --objective ttft_p95 \\\n    --vary 'streams.yard.frames.start_s=0..10' --vary policy=state_aware,serial"
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    simulated: Simulated,

    /// A key and its values, as `sweep` takes them; ends without `/N` are searched
    /// between.
    #[arg(long, value_name = "KEY=VALUES", required = true, value_parser = sweep::axis)]
    vary: Vec<Axis>,

    /// `ttft`, `ttft_p95`, `completion`, `completion_p95`, `staleness`, `energy` (J an
    /// answer) or `throughput`; behind it, if wanted, a limit, as
    /// `throughput:ttft_p95<=2` (s).
    #[arg(long, value_name = "NAME", value_parser = Objective::parse)]
    objective: Objective,

    /// Points to try.
    #[arg(long, value_name = "N", default_value_t = 200,
        value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    evaluations: u32,

    /// Seed of the search; the runs have the scenario's.
    #[arg(long, value_name = "N", default_value_t = 1)]
    search_seed: u64,
}

pub(crate) fn main(arguments: &Arguments) -> Result<(), Failure> {
    let simulated = &arguments.simulated;
    simulated.leaves(&arguments.vary)?;
    let inputs = with_scripts(inputs(&simulated.scenario)?, &arguments.vary)?;
    let profiles = Profiles::beside(&simulated.scenario);
    let prepare = |world: &mut World| simulated.apply(world);
    let study = Study::new(&inputs, &profiles, &Disk, &prepare).map_err(sweep::failure)?;
    let workers = Workers::of_points(simulated.jobs)?;
    workers.expect(arguments.evaluations.into());
    let found = workers.install(|| {
        tune::search(
            &study,
            &arguments.vary,
            &arguments.objective,
            arguments.evaluations as usize,
            arguments.search_seed,
            &|| workers.advance(),
        )
    });
    drop(workers);
    let found = found.map_err(|message| {
        Failure::usage(message, "see the keys and their values, and the objective")
    })?;
    if let Some(why) = &found.why {
        say(&format!(
            "warning: {} of {} points are no valid scenario, the first: {why}",
            found.faulty, found.tried
        ));
    }
    print(&tune::text(&found, &arguments.vary, &arguments.objective))?;
    if found.holds {
        Ok(())
    } else {
        Err(Failure::No)
    }
}
