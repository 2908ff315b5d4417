//! `validate live`: files and what is printed. The comparison is `validation`'s.

use std::fs;

use screen::paragraph;
use sim::load::Inputs;
use sim::world::World;
use validation::live::{
    Bound, Check, Comparison, Document, Metric, Pair, Played, Predictions, Ran, StageTimes,
    compare, expected, steps, text,
};

use super::engines::provenance;
use super::measure::{Calibrated, Work};
use super::plays::{Head, Play, Plays};
use crate::failure::{Failure, print, say};
use crate::options::{inputs, read, with_policy};
use crate::validate_live::Arguments;

pub(crate) fn validate(arguments: &Arguments) -> Result<(), Failure> {
    let (library, checks) = library(arguments)?;
    print(&library.quality)?;
    print(&text::checks(&checks))?;
    let inputs = library.inputs(&arguments.scenario)?;
    let policies = policies(arguments, &inputs);
    let worlds = policies
        .iter()
        .map(|policy| world(&inputs, policy))
        .collect::<Result<Vec<World>, _>>()?;
    let Some(first) = worlds.first() else {
        return Err(Failure::usage("there is no policy to run", "name one"));
    };
    let calibrated = |number: &sim::world::Provenance| number.file == library.costs_name();
    if !first.provenance.iter().any(calibrated) {
        return Err(Failure::usage(
            "the scenario names costs of its own, so that calibrated ones have no effect",
            "remove its `costs` key",
        ));
    }
    if arguments.predict_only {
        let predictions = predictions(arguments, &inputs, &worlds)?;
        return print(&text::predictions(&predictions));
    }
    let head = head(arguments, &library)?;
    let mut provenance = provenance(&arguments.setup);
    let mut plays = match &arguments.out {
        Some(out) if arguments.kept => {
            let (plays, host) = Plays::kept(out, &head)?;
            provenance.host = host;
            plays
        }
        out => Plays::open(out.as_deref(), &head)?,
    };
    let rounds = rounds(arguments, &plays, &worlds)?;
    let predictions = predictions(arguments, &inputs, &worlds)?;
    let (mut live_stages, mut simulated_stages) = (StageTimes::new(first), StageTimes::new(first));
    let (mut pairs, mut ran): (Vec<Pair>, Vec<Ran>) = (Vec::new(), Vec::new());
    let runs: Vec<u32> = (0..arguments.replications.get()).collect();
    for repeat in 0..rounds {
        for &run in &runs {
            for world in &worlds {
                let play = Play { run, repeat };
                let (live, one) = plays.of(world, &arguments.setup, play, &mut live_stages)?;
                let policy = world.policy.to_string();
                let values = Metric::values(&live);
                ran.push(Ran::new(policy.clone(), [run, repeat], &values, one));
                pairs.push(Pair {
                    policy,
                    run,
                    live,
                    expected: expected(world, run, Some(&mut simulated_stages))
                        .map_err(Failure::Faults)?,
                });
            }
        }
    }
    let bound = Bound {
        median: arguments.median / 100.0,
        worst: arguments.worst / 100.0,
    };
    let mut comparison = compare(&pairs, bound);
    comparison.with_intervals(&predictions);
    let late = ran.iter().map(|one| one.played.ends_late_s).sum::<f64>();
    let late = late / ran.len().max(1) as f64;
    let stages = (live_stages.rows(), simulated_stages.rows());
    for policy in &policies {
        let world = world(&inputs, policy)?;
        let name = world.policy.to_string();
        let steps = steps(world, &runs, &stages.0, &stages.1, late).map_err(Failure::Faults)?;
        let rows = comparison.rows.iter_mut();
        for row in rows.filter(|row| row.policy == name) {
            row.causes = steps.causes(row);
        }
    }
    print(&text::comparison(&comparison, &stages.0, &stages.1, late))?;
    print(&answers(&ran))?;
    if let Some(out) = &arguments.out {
        let document = Document {
            kind: Document::KIND.to_owned(),
            version: Document::VERSION,
            scenario: arguments.scenario.to_string_lossy().into_owned(),
            date: provenance.date,
            host: provenance.host,
            engines: provenance.versions,
            comparison: comparison.clone(),
            live_stages: stages.0,
            simulated_stages: stages.1,
            checks,
            runs: ran,
        };
        let text = serde_json::to_string_pretty(&document).map_err(Failure::internal)?;
        let path = out.join("live.json");
        fs::write(&path, text + "\n").map_err(|error| Failure::write(path.display(), &error))?;
    }
    verdict(&comparison)
}

/// How many rounds over replications and policies are compared: all, or as many as were played.
fn rounds(arguments: &Arguments, plays: &Plays, worlds: &[World]) -> Result<u32, Failure> {
    let asked = arguments.repeats.get();
    if !arguments.kept {
        return Ok(asked);
    }
    let played = |repeat| {
        (0..arguments.replications.get())
            .flat_map(|run| {
                worlds
                    .iter()
                    .map(move |world| (world, Play { run, repeat }))
            })
            .all(|(world, play)| plays.has(world, play))
    };
    let whole = (0..asked).take_while(|&repeat| played(repeat)).count() as u32;
    if whole == 0 {
        return Err(Failure::usage(
            "`--out` holds no whole round over these policies and replications",
            "name the policies that were played, or play them without --kept",
        ));
    }
    if whole < asked {
        say(&format!(
            "{whole} of {asked} rounds were played to their end, and are compared"
        ));
    }
    Ok(whole)
}

/// What is predicted; it must be what was written to the folder earlier.
fn predictions(
    arguments: &Arguments,
    inputs: &Inputs,
    worlds: &[World],
) -> Result<Predictions, Failure> {
    let policies: Vec<_> = worlds.iter().map(|world| world.policy.clone()).collect();
    let (replications, repeats) = (arguments.replications.get(), arguments.repeats.get());
    let predictions = Predictions::of(inputs, &policies, replications, repeats);
    let predictions = predictions.map_err(Failure::Faults)?;
    let Some(path) = arguments.out.as_ref().map(|out| out.join("predicted.json")) else {
        return Ok(predictions);
    };
    if path.exists() {
        let wrong = |says: String| {
            Failure::usage(
                format!("`{}`: {says}", path.display()),
                "what was predicted before must stay: delete it to predict anew, or give another folder",
            )
        };
        let known = Predictions::read(&read(&path)?).map_err(wrong)?;
        return match known.differs(&predictions) {
            Some(difference) => Err(wrong(difference)),
            None => Ok(known),
        };
    }
    let fail = |error: std::io::Error| Failure::write(path.display(), &error);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(fail)?;
    }
    let text = serde_json::to_string_pretty(&predictions).map_err(Failure::internal)?;
    fs::write(&path, text + "\n").map_err(fail)?;
    Ok(predictions)
}

/// What live runs depend on: the machine, the engines, the scenario and the profile, whose notes say when
/// it was made.
fn head(arguments: &Arguments, library: &Calibrated) -> Result<Head, Failure> {
    let scenario = read(&arguments.scenario)?;
    let texts = library.texts();
    let profile = texts.iter().flat_map(|text| text.lines());
    let numbers = profile.filter(|line| !line.starts_with("note = "));
    let inputs = [scenario.as_str()].into_iter().chain(numbers);
    Ok(Head {
        machine: [
            provenance(&arguments.setup).host,
            format!("{:?}", arguments.setup),
        ],
        inputs: inputs.collect::<Vec<_>>().join("\n"),
    })
}

fn verdict(comparison: &Comparison) -> Result<(), Failure> {
    if comparison.holds {
        Ok(())
    } else {
        Err(Failure::No)
    }
}

/// The policies that were asked for, or the usual ones.
fn policies(arguments: &Arguments, inputs: &Inputs) -> Vec<String> {
    if !arguments.policies.is_empty() {
        return arguments.policies.clone();
    }
    let lanes = inputs.lanes();
    let mut alone = lanes.iter().map(|lane| format!("single:{lane}"));
    let alone = alone.find(|policy| inputs.with_policy_text(policy).is_ok());
    let others = ["naive", "idle_first", "state_aware:w+p+s"].map(String::from);
    alone.into_iter().chain(others).collect()
}

fn world(inputs: &Inputs, policy: &str) -> Result<World, Failure> {
    with_policy(inputs, "--policies", policy.trim())
}

/// Checks, before anything is measured, that each key that the scenario sets changes something under one of the
/// policies, or under its own.
fn read_by(arguments: &Arguments, inputs: &Inputs) -> Result<(), Failure> {
    let mut worlds = policies(arguments, inputs)
        .iter()
        .map(|policy| world(inputs, policy))
        .collect::<Result<Vec<World>, _>>()?;
    worlds.extend(inputs.world());
    inputs.read_by(&worlds).map_err(Failure::Faults)
}

fn library(arguments: &Arguments) -> Result<(Calibrated, Vec<Check>), Failure> {
    let inputs = inputs(&arguments.scenario)?;
    read_by(arguments, &inputs)?;
    let world = inputs.world().map_err(Failure::Faults)?;
    if let Some(folder) = &arguments.profile {
        let library = Calibrated::read(&arguments.scenario, &world, folder)?;
        return Ok((library, Vec::new()));
    }
    let plan = arguments.effort.plan(&world);
    let work = Work {
        scenario: &arguments.scenario,
        world: &world,
        setup: &arguments.setup,
        plan: &plan,
        out: arguments.out.as_deref(),
        refresh: false,
    };
    work.measured()
}

fn answers(ran: &[Ran]) -> String {
    let played = || ran.iter().map(|one| &one.played);
    let sum = |of: fn(&Played) -> usize| played().map(of).sum::<usize>();
    let mut text = String::new();
    let says = format!(
        "{} live runs, every trace replays; {} answers, of {} held against the serial reference {} differ.",
        ran.len(),
        sum(|one| one.answers),
        sum(|one| one.checked),
        sum(|one| one.differ)
    );
    paragraph(&mut text, &says);
    let stolen = played().filter_map(|one| one.stolen);
    let stolen: Vec<f64> = stolen.map(|share| 100.0 * share).collect();
    if let Some(most) = stolen.iter().copied().reduce(f64::max) {
        let says = format!(
            "Of the CPU time that was wanted, the host gave {:.1} % to other machines on average, {most:.1} % in the worst run.",
            stolen.iter().sum::<f64>() / stolen.len() as f64
        );
        paragraph(&mut text, &says);
    }
    text
}
