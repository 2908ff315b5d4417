//! `crossinfer compare`: policies on the same arrivals and lengths.

use std::path::PathBuf;

use clap::Args;
use lab::robustness::Disturbance;
use lab::{gaps, precision, robustness, warm_up};
use reports::facts::Facts;
use reports::interval::Replicated;
use reports::table::Extras;
use reports::{json, table};
use sim::load::Inputs;
use sim::spec::scenario::Policy;
use sim::time::{Duration, Instant};
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
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
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

    /// Requests that arrive earlier are left out of the statistics: seconds, or `mser`
    /// for the cut that MSER-5 finds, the latest of all policies [default: the
    /// scenario's warm-up].
    #[arg(long, value_name = "S|mser", value_parser = cut)]
    warm_up: Option<Cut>,

    /// Run more replications until the 95 % intervals of answers/s, mean TTFT and mean
    /// completion are within this of their values, for every policy.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    precision: Option<f64>,

    /// Most replications that `--precision` may run.
    #[arg(long, value_name = "N", default_value_t = 1000, requires = "precision",
        value_parser = clap::value_parser!(u32).range(2..=100_000))]
    max_replications: u32,

    /// Also print the quantiles of TTFT and completion with their intervals.
    #[arg(long)]
    quantiles: bool,

    /// Also print how far each policy is from what no schedule beats: bounds of
    /// latency and throughput and, for up to 8 requests, the best schedule.
    #[arg(long)]
    bounds: bool,

    /// Also print how each policy fares when the costs and lengths that it believes
    /// are wrong.
    #[arg(long)]
    robustness: bool,

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
    inputs.read_by(&worlds).map_err(Failure::Faults)?;
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
    let mut extras = Extras {
        quantiles: arguments.quantiles,
        lines: Vec::new(),
    };
    if let Some(cut) = &arguments.warm_up {
        let text = cut_at(&mut worlds, *cut, &workers)?;
        extras.lines.push(("warm-up", text));
    }
    let mut compared: Vec<(String, Replicated)> = worlds
        .iter()
        .map(|world| Ok((world.policy.to_string(), workers.replicate(world)?)))
        .collect::<Result<_, Failure>>()?;
    if let Some(goal) = arguments.precision {
        let text = refine(
            &worlds,
            &mut compared,
            goal,
            arguments.max_replications,
            &workers,
        )?;
        extras.lines.push(("precision", text));
    }
    let mut sections = (String::new(), Vec::new());
    if arguments.bounds {
        let gaps = workers.install(|| gaps::of(&worlds));
        let gaps = gaps.map_err(Failure::Faults)?;
        sections.0 += &gaps::text(&gaps);
        sections.1.push(("bounds", gaps::json(&gaps)));
    }
    if arguments.robustness {
        let disturbed = workers.install(|| robustness::disturb(&mut worlds, &Disturbance::ALL));
        let disturbed = disturbed.map_err(Failure::Faults)?;
        sections.0 += &robustness::text(&compared, &disturbed);
        sections
            .1
            .push(("robustness", robustness::json(&compared, &disturbed)));
    }
    drop(workers);
    let Some(facts) = Facts::of_all(&worlds, &options.file()) else {
        return Ok(());
    };
    let mut document = json::comparison(&facts, &compared);
    for (label, text) in &extras.lines {
        document["method"][*label] = text.as_str().into();
    }
    for (name, section) in sections.1 {
        document[name] = section;
    }
    if let Some(folder) = &mut folder {
        folder.comparison(&document, &worlds, reproduce(&inputs))?;
    }
    match options.format {
        Format::Table => print(&(table::comparison(&facts, &compared, &extras) + &sections.0))?,
        Format::Json => print(&format!("{document:#}\n"))?,
    }
    if let Some(folder) = &folder {
        say(&folder.contents());
    }
    Ok(())
}

/// Where the statistics begin.
#[derive(Clone, Copy, Debug)]
enum Cut {
    At(Instant),
    Mser,
}

fn cut(text: &str) -> Result<Cut, String> {
    if text == "mser" {
        return Ok(Cut::Mser);
    }
    match text.parse::<f64>() {
        Ok(secs) if (0.0..=1e9).contains(&secs) => {
            Ok(Cut::At(Instant::ZERO + Duration::from_secs_f64(secs)))
        }
        _ => Err("give seconds from 0 to 1e9, or `mser`".into()),
    }
}

/// A precision: `1%`, or `1`.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    match number.parse::<f64>() {
        Ok(percent) if (0.001..100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("give a percentage from 0.001 to 100, as `1%`".into()),
    }
}

/// Sets the warm-up of all worlds, and says by which rule.
fn cut_at(worlds: &mut [World], cut: Cut, workers: &Workers) -> Result<String, Failure> {
    let (until, text) = match cut {
        Cut::At(until) => {
            if let Some(world) = worlds.iter().find(|world| until >= world.horizon) {
                return Err(Failure::usage(
                    format!(
                        "`--warm-up {}`: the warm-up leaves nothing of the run",
                        until.as_secs_f64()
                    ),
                    format!(
                        "must be less than `run.horizon_s`, {} s",
                        world.horizon.as_secs_f64()
                    ),
                ));
            }
            (until, "as given".to_owned())
        }
        Cut::Mser => {
            let runs = worlds.first().map_or(1, |world| world.replications);
            let found = workers.install(|| warm_up::of(worlds, runs));
            let found = found.map_err(Failure::Faults)?;
            (found.until, warm_up::describe(&found, worlds))
        }
    };
    for world in worlds {
        world.warm_up = until;
    }
    Ok(text)
}

/// Runs more replications until the goal or the cap is reached, and says which.
fn refine(
    worlds: &[World],
    compared: &mut [(String, Replicated)],
    goal: f64,
    cap: u32,
    workers: &Workers,
) -> Result<String, Failure> {
    if !worlds.iter().any(random) {
        return Ok("exact: nothing is drawn at random".into());
    }
    loop {
        let have = compared.first().map_or(0, |(_, runs)| runs.count() as u32);
        let widest = precision::widest(compared);
        let Some(count) = precision::next(have, widest.as_ref(), goal, cap) else {
            return Ok(precision::describe(have, widest.as_ref(), goal));
        };
        workers.expect(u64::from(count - have) * worlds.len() as u64);
        for (world, (_, runs)) in worlds.iter().zip(compared.iter_mut()) {
            workers.extend(world, runs, count)?;
        }
    }
}

/// A world for each policy; `all` adds those that are not named beside it.
fn worlds(inputs: &Inputs, policies: &[String]) -> Result<Vec<World>, Failure> {
    let mut list: Vec<World> = Vec::new();
    let mut named: Vec<Policy> = Vec::new();
    let knows =
        |list: &[World], world: &World| list.iter().any(|known| known.policy == world.policy);
    for text in policies.iter().map(|text| text.trim()) {
        match text {
            "" if policies.len() > 1 => {
                return Err(Failure::usage(
                    "`--policies` has a name without letters between two commas, or at an end",
                    "name policies with one comma between two: `--policies serial,naive`",
                ));
            }
            "" => {}
            "all" => {
                for world in sensible(inputs)? {
                    if !knows(&list, &world) {
                        list.push(world);
                    }
                }
            }
            _ => {
                let world = with_policy(inputs, "--policies", text)?;
                if named.contains(&world.policy) {
                    return Err(Failure::usage(
                        format!("`--policies` names policy `{}` twice", world.policy),
                        "name each once: the second would show the same numbers",
                    ));
                }
                named.push(world.policy.clone());
                if !knows(&list, &world) {
                    list.push(world);
                }
            }
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
