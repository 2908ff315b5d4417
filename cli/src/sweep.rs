//! `crossinfer sweep` and `merge`: many cells, one table.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use clap::Args;
use lab::sweep::{Axis, Error, Goals, Grid, Outcome, Plan, Sampling, Shard, Study};
use sim::world::World;

use crate::failure::{Failure, say};
use crate::library::{Disk, Profiles};
use crate::options::{Simulated, inputs, with_scripts};
use crate::output::{Folder, png};
use crate::replicate::Workers;

/// What is drawn.
const FRONT: [&str; 2] = ["front.svg", "front.html"];
const MAP: [&str; 2] = ["map.svg", "map.png"];

/// Run a scenario with any keys of it, or of its profiles, varied.
///
/// Every combination of the listed values is a cell; with `--sample`, each is combined with every point
/// of the sample. Rows go to DIR/journal as they are found; once all are there, DIR/results.csv and
/// DIR/results.parquet hold them in order. The same command goes on where an interrupted one ended.
#[derive(Debug, Args)]
#[command(
    after_long_help = "Example:\n  crossinfer sweep scenarios/two-cameras-rk3588.toml --out cameras \\\n    --vary 'streams.door.queries.arrivals.poisson.rate_hz=log:0.01..0.2/10' \\\n    --vary policy=state_aware,serial"
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    simulated: Simulated,

    /// A key and its values: `KEY=1,2,5`, `KEY=1..10/4` (4 values with both ends),
    /// `KEY=log:0.01..1/5`, `KEY=int:1..9/5`; without `/N`, ends between which
    /// `--sample` chooses. KEY is `run.horizon_s`, `streams.NAME.…`, `policy` (as
    /// `run --policy` takes them), or `soc:…`, `model:…`, `costs:…` of a profile.
    #[arg(long, value_name = "KEY=VALUES", required = true, value_parser = axis)]
    vary: Vec<Axis>,

    /// Points of the keys that have only ends: `sobol:N` or `lhs:N` (a Latin
    /// hypercube).
    #[arg(long, value_name = "KIND:N", value_parser = Sampling::parse)]
    sample: Option<Sampling>,

    /// Seed of the sample; the runs have the scenario's.
    #[arg(long, value_name = "N", default_value_t = 1)]
    sample_seed: u64,

    /// Run only every n-th cell, from the i-th on; `crossinfer merge` joins all
    /// shards.
    #[arg(long, value_name = "I/N", default_value = "1/1")]
    shard: Shard,

    /// Folder for journal, results.csv and results.parquet; it is made if missing. No
    /// file there that the same sweep did not write is written over.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    #[command(flatten)]
    drawn: Drawn,
}

/// What is drawn of the whole sweep.
#[derive(Debug, Args)]
struct Drawn {
    /// Also draw the cells by two numbers, those marked that no other beats in both
    /// (the Pareto front): front.svg, and front.html with their table. The numbers
    /// are columns such as `completion_s.mean,energy_per_request_j`.
    #[arg(long, value_name = "X,Y", value_parser = Goals::parse)]
    front: Option<Goals>,

    /// Also draw a number over two keys that vary as a heat map: map.svg and
    /// map.png. KEY are two keys of the sweep (columns, then rows), and NUMBER is a
    /// column such as `ttft_s.mean`; other keys that vary need `--map-at`.
    #[arg(long, value_name = "KEY,KEY,NUMBER", value_parser = Grid::parse)]
    map: Option<Grid>,

    /// The value of a further key in the heat map.
    #[arg(long, value_name = "KEY=VALUE", requires = "map", value_parser = lab::sweep::fixed)]
    map_at: Vec<(String, String)>,
}

/// Join the shards of a sweep.
///
/// The result is, byte for byte, that of one run without shards.
#[derive(Debug, Args)]
#[command(after_long_help = "Example:\n  crossinfer merge shard-1 shard-2 --out cameras")]
pub(crate) struct MergeArguments {
    /// Folders that `sweep --shard` wrote, all of one sweep.
    #[arg(value_name = "DIR", required = true)]
    shards: Vec<PathBuf>,

    /// Folder for the whole; it is made if missing.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    #[command(flatten)]
    drawn: Drawn,
}

pub(crate) fn main(arguments: &Arguments) -> Result<(), Failure> {
    let simulated = &arguments.simulated;
    simulated.leaves(&arguments.vary)?;
    let inputs = with_scripts(inputs(&simulated.scenario)?, &arguments.vary)?;
    let plan = Plan::new(
        arguments.vary.clone(),
        arguments.sample,
        arguments.sample_seed,
    );
    let plan = plan.map_err(failure)?;
    if let Some(grid) = &arguments.drawn.map {
        let fits = grid.fits(&plan, &arguments.drawn.map_at);
        fits.map_err(failure)?;
    }
    let mut folder = arguments.drawn.folder(&arguments.out)?;
    let profiles = Profiles::beside(&simulated.scenario);
    let prepare = |world: &mut World| simulated.apply(world);
    let study = Study::new(&inputs, &profiles, &Disk, &prepare).map_err(failure)?;
    let workers = Workers::of_cells(simulated.jobs)?;
    let salt = format!("{:?} {:?}", simulated.seed, simulated.replications);
    let missing = OnceLock::new();
    let started = |count| {
        missing.get_or_init(|| count);
        workers.expect(count);
    };
    let ended = || workers.advance();
    let outcome = workers.install(|| {
        lab::sweep::run(
            &plan,
            &study,
            &arguments.out,
            arguments.shard,
            &salt,
            (&started, &ended),
        )
    });
    drop(workers);
    report(&outcome.map_err(failure)?, &arguments.out);
    arguments.drawn.draw(&arguments.out, &mut folder)
}

pub(crate) fn merge(arguments: &MergeArguments) -> Result<(), Failure> {
    let mut folder = arguments.drawn.folder(&arguments.out)?;
    let outcome = lab::sweep::merge(&arguments.shards, &arguments.out).map_err(failure)?;
    report(&outcome, &arguments.out);
    arguments.drawn.draw(&arguments.out, &mut folder)
}

impl Drawn {
    /// The folder that is drawn into, unless a picture would be drawn over a file of somebody else.
    fn folder(&self, out: &Path) -> Result<Folder, Failure> {
        let mut files = Vec::new();
        if self.front.is_some() {
            files.extend(FRONT);
        }
        if self.map.is_some() {
            files.extend(MAP);
        }
        Folder::among(out, &files)
    }

    /// Draws what was asked for into the folder of a finished sweep.
    fn draw(&self, out: &Path, folder: &mut Folder) -> Result<(), Failure> {
        if let Some(goals) = &self.front {
            let front = lab::sweep::front(out, goals).map_err(failure)?;
            let picture = reports::plot::svg(&front).map_err(Failure::internal)?;
            folder.put(FRONT[0], picture.as_bytes())?;
            let text = format!("# {}\n\n{}", front.title, front.table());
            let page = reports::html::document(&front.title, &text, std::slice::from_ref(&front));
            let page = page.map_err(Failure::internal)?;
            folder.put(FRONT[1], page.as_bytes())?;
            say(&format!("wrote {}", FRONT.join(", ")));
        }
        if let Some(grid) = &self.map {
            let map = lab::sweep::map(out, grid, &self.map_at).map_err(failure)?;
            let picture = reports::plot::svg(&map).map_err(Failure::internal)?;
            folder.put(MAP[0], picture.as_bytes())?;
            let picture = png(MAP[1], &map)?;
            folder.put(MAP[1], &picture)?;
            say(&format!("wrote {}", MAP.join(", ")));
        }
        Ok(())
    }
}

fn report(outcome: &Outcome, out: &Path) {
    if outcome.damaged > 0 {
        say(&format!(
            "warning: {} damaged lines of the journal were left out",
            outcome.damaged
        ));
    }
    if let Some(why) = &outcome.why {
        say(&format!(
            "warning: {} of {} cells are no valid scenario; column `error` says why, the first: {why}",
            outcome.failed, outcome.cells
        ));
    }
    say(&format!(
        "wrote results.csv, results.parquet to {}: {} cells, {} of them found in the journal",
        out.display(),
        outcome.cells,
        outcome.found
    ));
}

pub(crate) fn axis(text: &str) -> Result<Axis, String> {
    Axis::parse(text).map_err(|error| match error {
        Error::Asked { message, help } => format!("{message}; give {help}"),
        other => other.to_string(),
    })
}

pub(crate) fn failure(error: Error) -> Failure {
    match error {
        Error::Asked { message, help } => Failure::usage(message, help),
        Error::File { what: "read", .. } => Failure::usage(
            error.to_string(),
            "give folders that `sweep` wrote and that you may read",
        ),
        Error::File { .. } | Error::Parquet { .. } => Failure::Write(error.to_string()),
        other => Failure::internal(other),
    }
}
