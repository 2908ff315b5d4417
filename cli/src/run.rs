//! `crossinfer run`: one configuration.

use std::path::PathBuf;

use clap::Args;
use reports::facts::Facts;
use reports::{json, table};

use crate::failure::{Failure, print, say};
use crate::options::{Format, Options, reproduce, world};
use crate::output::{Folder, RUN_FILES, sketch};
use crate::replicate::Workers;

/// Simulate a scenario.
///
/// Prints what was simulated, how near it is to saturation, latencies, throughput, memory, energy and
/// what every engine did. With several replications each number has its 95 % interval.
///
/// With --out, a folder gets the same as JSON, a row per request, a timeline to open in
/// ui.perfetto.dev, and plots; all but the JSON show the first replication. `crossinfer report` makes
/// one page of it.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
#[command(
    after_long_help = "Example:\n  crossinfer run scenarios/two-cameras-rk3588.toml --out out"
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: Options,

    /// Dispatch policy, instead of the scenario's: `state_aware` (also with `:w`,
    /// `:w+p` or `:w+p+s`), `single:LANE`, `serial`, `naive`, `idle_first`,
    /// `reuse_first`, `fixed`, `round_robin`, `shortest_job_first`,
    /// `earliest_deadline_first`, or `script:FILE` for one of your own.
    #[arg(long, value_name = "POLICY")]
    policy: Option<String>,

    /// Also sketch the first replication in letters: lanes over time, and how
    /// latencies spread.
    #[arg(long)]
    sketch: bool,

    /// Folder for results; it is made if missing. Files of an earlier `run` there
    /// are replaced if crossinfer-out.json says that crossinfer wrote them and they
    /// have not changed since; files of `compare` stay.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Write into DIR even if it holds files that crossinfer did not write, or that
    /// have changed since.
    #[arg(long, requires = "out")]
    force: bool,

    /// Also write trace.jsonl, every input and effect of the first replication,
    /// for `crossinfer replay`.
    #[arg(long, requires = "out")]
    trace: bool,

    /// What timeline.svg and timeline.png show, in seconds of the first replication,
    /// instead of its beginning: `100..160`. They hold 80 stages at most.
    #[arg(long, value_name = "START..END", requires = "out", value_parser = window)]
    window: Option<(f64, f64)>,

    /// Leave out trace.perfetto.json, which holds every event of the first
    /// replication: of a long run it is by far the largest file.
    #[arg(long, requires = "out")]
    no_perfetto: bool,
}

pub(crate) fn main(arguments: &Arguments) -> Result<(), Failure> {
    let options = &arguments.options;
    let inputs = options.inputs()?;
    let mut world = world(&inputs, arguments.policy.as_deref())?;
    options.apply(&mut world);
    let folder = arguments.out.as_ref();
    let mut folder = folder
        .map(|path| Folder::open(path, &RUN_FILES, arguments.force))
        .transpose()?;

    let workers = Workers::new(options.jobs, world.replications.into())?;
    let runs = workers.replicate(&world)?;
    drop(workers);
    let facts = Facts::of(&world, &options.file());
    let summary = json::summary(&facts, &runs);
    if let Some(folder) = &mut folder {
        folder.write(
            &world,
            &summary,
            reproduce(&inputs),
            (!arguments.no_perfetto, arguments.trace),
            arguments.window,
        )?;
    }
    match options.format {
        Format::Table => {
            let mut text = table::run(&facts, &runs);
            if arguments.sketch {
                text.push('\n');
                text += &sketch(&world)?;
            }
            print(&text)?;
        }
        Format::Json => print(&format!("{summary:#}\n"))?,
    }
    if let Some(folder) = &folder {
        say(&folder.contents());
    }
    Ok(())
}

/// A part of a run: `100..160`.
fn window(text: &str) -> Result<(f64, f64), String> {
    let ends = text.split_once("..").and_then(|(from, to)| {
        let end = |text: &str| text.trim().parse::<f64>().ok();
        Some((end(from)?, end(to)?))
    });
    let (from, to) = ends.ok_or("give two times in seconds, such as `100..160`")?;
    if !(0.0..=1e9).contains(&from) || !(0.0..=1e9).contains(&to) {
        return Err("give times within 0 and 1000000000 s, such as `100..160`".into());
    }
    if from >= to {
        return Err("give the earlier time first, such as `100..160`".into());
    }
    Ok((from, to))
}
