//! `crossinfer compare`: policies on the same arrivals and lengths.

use std::path::PathBuf;

use clap::Args;
use reports::facts::Facts;
use reports::interval::Replicated;
use reports::{json, table};
use sim::load::Inputs;
use sim::world::World;

use crate::failure::{Failure, print, say};
use crate::options::{Format, Options, random, reproduce, with_policy};
use crate::output::{COMPARE_FILES, Folder};
use crate::replicate::Workers;

/// Replications where the scenario asks for one: a difference needs an interval.
const REPLICATIONS: u32 = 10;

/// Compare dispatch policies on the same arrivals and lengths.
///
/// Every policy meets the same requests in each replication, so differences are paired: the 95 %
/// interval of a difference is much narrower than those of the two values. Where the scenario asks for
/// one replication, 10 are run unless nothing is random.
///
/// The first policy is the reference that the others are compared with.
#[derive(Debug, Args)]
#[command(
    after_long_help = "Example:\n  crossinfer compare scenarios/two-cameras-rk3588.toml \\\n    --policies state_aware,serial,single:gpu"
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: Options,

    /// Policies with commas between, as `run --policy` takes them; `all`: every
    /// one that can serve the scenario.
    #[arg(
        long,
        value_name = "POLICIES",
        value_delimiter = ',',
        default_value = "all"
    )]
    policies: Vec<String>,

    /// Folder for compare.json, what `crossinfer report` draws, and plots; it is made
    /// if missing. Files of an earlier `compare` there are replaced, unless they
    /// have changed since; files of `run` stay.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Write into DIR even if it holds files that crossinfer did not write, or that
    /// have changed since.
    #[arg(long, requires = "out")]
    force: bool,
}

pub(crate) fn main(arguments: &Arguments) -> Result<(), Failure> {
    let options = &arguments.options;
    let inputs = options.inputs()?;
    let mut worlds = worlds(&inputs, &arguments.policies)?;
    for world in &mut worlds {
        options.apply(world);
        if options.replications.is_none() && world.replications == 1 && random(world) {
            world.replications = REPLICATIONS;
        }
    }
    let Some(first) = worlds.first() else {
        return Err(Failure::usage(
            "there is nothing to compare",
            "name policies with commas between, or leave --policies out",
        ));
    };
    let asked = options.replications.is_some();
    let scenario = inputs.world().map_err(Failure::Faults)?;
    if !asked && first.replications > scenario.replications {
        say(&format!(
            "note: the scenario asks for 1 replication; {REPLICATIONS} are run, so that differences have intervals (--replications N to choose)"
        ));
    }
    let folder = arguments.out.as_ref();
    let mut folder = folder
        .map(|path| Folder::open(path, &COMPARE_FILES, arguments.force))
        .transpose()?;

    let runs = worlds.iter().map(|world| u64::from(world.replications));
    let workers = Workers::new(options.jobs, runs.sum())?;
    let compared: Vec<(String, Replicated)> = worlds
        .iter()
        .map(|world| (world.policy.to_string(), workers.replicate(world)))
        .collect();
    drop(workers);
    let facts = Facts::of(first, &options.file());
    let document = json::comparison(&facts, &compared);
    if let Some(folder) = &mut folder {
        folder.comparison(&document, &worlds, reproduce(&inputs))?;
    }
    match options.format {
        Format::Table => print(&table::comparison(&facts, &compared))?,
        Format::Json => print(&format!("{document:#}\n"))?,
    }
    if let Some(folder) = &folder {
        say(&folder.contents());
    }
    Ok(())
}

/// A world for each policy, without doubles.
fn worlds(inputs: &Inputs, policies: &[String]) -> Result<Vec<World>, Failure> {
    let mut list: Vec<World> = Vec::new();
    let mut add = |world: World| {
        if !list.iter().any(|known| known.policy == world.policy) {
            list.push(world);
        }
    };
    for text in policies.iter().map(|text| text.trim()) {
        match text {
            "" => {}
            "all" => sensible(inputs)?.into_iter().for_each(&mut add),
            _ => add(with_policy(inputs, "--policies", text)?),
        }
    }
    Ok(list)
}

/// The scenario's own policy, then every other that can serve it.
fn sensible(inputs: &Inputs) -> Result<Vec<World>, Failure> {
    let own = inputs.world().map_err(Failure::Faults)?;
    let due = own.streams.iter().any(|stream| {
        let queries = stream.queries.as_ref();
        queries.is_some_and(|queries| queries.deadline.is_some())
    });
    let mut names: Vec<String> = ["w", "w+p", "w+p+s"]
        .map(|terms| format!("state_aware:{terms}"))
        .to_vec();
    names.reverse();
    names.extend(inputs.lanes().iter().map(|lane| format!("single:{lane}")));
    let rest = [
        "serial",
        "naive",
        "idle_first",
        "reuse_first",
        "fixed",
        "round_robin",
        "shortest_job_first",
    ];
    names.extend(rest.map(str::to_owned));
    if due {
        names.push("earliest_deadline_first".into());
    }
    let mut list = vec![own];
    // A lane that cannot answer is no alternative.
    list.extend(
        names
            .iter()
            .filter_map(|name| inputs.with_policy_text(name).ok()),
    );
    Ok(list)
}
