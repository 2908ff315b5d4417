//! `crossinfer explain`: one request, told.

use std::path::PathBuf;

use clap::Args;
use reports::explain::{ExplainError, Wanted, explain};

use crate::failure::{Failure, print};
use crate::options::{inputs, world};

/// Tell what happened to one request, and why.
///
/// When it arrived and what it met, what it waited for, what the policy expected of each lane (W: until
/// the lane is free, P: preparation, S: service alone and beside what runs then), what was chosen, how
/// co-running changed its speed on the way, and where its time went.
#[derive(Debug, Args)]
#[command(
    after_long_help = "Example:\n  crossinfer explain scenarios/two-cameras-rk3588.toml --request door:3"
)]
pub(crate) struct Arguments {
    /// Scenario file (TOML).
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,

    /// Number of the request by order of arrival, from 0; or STREAM:NUMBER, counted
    /// within a stream.
    #[arg(long, value_name = "N")]
    request: Wanted,

    /// Dispatch policy, instead of the scenario's.
    #[arg(long, value_name = "POLICY")]
    policy: Option<String>,

    /// Root seed, instead of the scenario's.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Replication, from 0.
    #[arg(long, value_name = "N", default_value_t = 0)]
    replication: u32,
}

pub(crate) fn main(arguments: &Arguments) -> Result<(), Failure> {
    let inputs = inputs(&arguments.scenario)?;
    let mut world = world(&inputs, arguments.policy.as_deref())?;
    if let Some(seed) = arguments.seed {
        world.seed = seed;
    }
    if arguments.replication >= world.replications {
        let count = world.replications;
        let there = match count {
            1 => "1 replication".to_owned(),
            _ => format!("{count} replications, counted from 0"),
        };
        return Err(Failure::usage(
            format!(
                "there is no replication {}: the scenario asks for {there}",
                arguments.replication
            ),
            format!(
                "give at most `--replication {}`, or raise `replications` in the scenario",
                count - 1
            ),
        ));
    }
    match explain(&world, arguments.replication, &arguments.request) {
        Ok(text) => print(&text),
        Err(ExplainError::Stopped(faults)) => Err(Failure::Faults(faults)),
        Err(error) => Err(Failure::usage(
            error.to_string(),
            "requests.csv of `crossinfer run --out DIR` lists the requests",
        )),
    }
}
