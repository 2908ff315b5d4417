//! `crossinfer replay`: is a recorded trace what this scheduler would do?

use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;

use clap::Args;
use sim::dispatch::{Dispatcher, Input};
use sim::time::Instant;
use sim::trace::{self, Header, Record};
use sim::world::World;

use crate::failure::{Failure, print};
use crate::options::{inputs, read, world};

/// Feed a recorded trace to a fresh scheduler and compare what it asks for.
///
/// A trace holds every input with its time, so the same scheduler must ask for the same effects,
/// whether the trace was simulated or recorded on a device. Exit status 1 at the first difference, and
/// where a trace ends before its run did.
#[derive(Debug, Args)]
#[command(
    after_long_help = "Example:\n  crossinfer run scenarios/two-cameras-rk3588.toml --out out --trace\n  crossinfer replay out/trace.jsonl scenarios/two-cameras-rk3588.toml"
)]
pub(crate) struct Arguments {
    /// Trace, as `crossinfer run --out DIR --trace` writes it.
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    /// Scenario that the trace was recorded with (TOML).
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,

    /// Dispatch policy instead of the scenario's: the one that it was recorded under, or another to
    /// see where it would first do otherwise.
    #[arg(long, value_name = "POLICY")]
    policy: Option<String>,
}

pub(crate) fn main(arguments: &Arguments) -> Result<(), Failure> {
    let inputs = inputs(&arguments.scenario)?;
    let world = world(&inputs, arguments.policy.as_deref())?;
    let name = arguments.trace.display().to_string();
    let (header, records) = trace::read(&read(&arguments.trace)?).map_err(|error| {
        Failure::usage(
            format!("`{name}` cannot be replayed: {error}"),
            "record one with `crossinfer run SCENARIO --out DIR --trace`",
        )
    })?;
    let own = Header::of(&world, header.run);
    let same = Header {
        seed: header.seed,
        title: header.title.clone(),
        policy: header.policy.clone(),
        ..own.clone()
    };
    if header != same {
        return Err(Failure::usage(
            format!(
                "`{name}` was recorded with other engines, lanes, stages or streams than `{}` has",
                arguments.scenario.display()
            ),
            "give the scenario that it was recorded with",
        ));
    }
    if arguments.policy.is_none() && header.policy != own.policy {
        return Err(Failure::usage(
            format!(
                "`{name}` was recorded under policy `{}`, and the scenario has `{}`",
                header.policy, own.policy
            ),
            format!("give `--policy {}`", header.policy),
        ));
    }
    possible(&world, &records)
        .map_err(|message| Failure::usage(format!("`{name}`: {message}"), ""))?;

    // The scheduler asserts its invariants, which no live or simulated run breaks, but a file may.
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let replayed = panic::catch_unwind(AssertUnwindSafe(|| {
        trace::replay(&mut Dispatcher::new(&world), &records)
    }));
    panic::set_hook(hook);
    match replayed {
        Err(_) => Err(Failure::usage(
            format!("`{name}` holds inputs that no run gives: the scheduler cannot follow them"),
            "",
        )),
        Ok(Err(faults)) => Err(Failure::Faults(faults)),
        Ok(Ok(None)) => {
            let said = format!(
                "identical: {} records of replication {}",
                records.len(),
                header.run
            );
            if ends(&records) {
                return print(&format!("{said}\n"));
            }
            let last = records.last().map_or(0.0, |(at, _)| at.as_secs_f64());
            print(&format!(
                "{said}, up to {last:.3} s, where the trace was cut: it has no `close`\n"
            ))?;
            Err(Failure::No)
        }
        Ok(Ok(Some(difference))) => {
            print(&format!("different: {}\n", difference.tell(&header)))?;
            Err(Failure::No)
        }
    }
}

/// Whether a run came to its end: what it hears last is that nothing more comes.
fn ends(records: &[(Instant, Record)]) -> bool {
    let mut inputs = records.iter();
    inputs.any(|(_, record)| matches!(record, Record::Input(Input::Close)))
}

/// Whether times rise and every id is within the world.
fn possible(world: &World, records: &[(Instant, Record)]) -> Result<(), String> {
    let mut last = Instant::ZERO;
    for (index, (at, record)) in records.iter().enumerate() {
        if *at < last {
            return Err(format!("time falls at record {index}"));
        }
        last = *at;
        let Record::Input(input) = record else {
            continue;
        };
        let known = match *input {
            Input::Frame { stream, .. } | Input::Query { stream, .. } => {
                usize::from(stream.0) < world.streams.len()
            }
            Input::Finish { lane, .. } | Input::Fail { lane } => {
                usize::from(lane.0) < world.lanes.len()
            }
            Input::Throttle { level } => {
                let steps = world.heat.as_ref().map_or(0, |heat| heat.steps.len());
                usize::from(level) <= steps
            }
            Input::Close => true,
        };
        if !known {
            return Err(format!(
                "record {index} names an unknown stream, lane or throttle step"
            ));
        }
    }
    Ok(())
}
