//! `crossinfer validate live`: the same scenario on real engines and simulated.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::Args;

#[cfg(not(feature = "live"))]
use crate::failure::Failure;
use crate::live::Setup;

/// Run a scenario on this machine's engines and simulated, and compare.
///
/// Calibrates first, unless a profile is given; then plays each replication live under one policy after
/// the other, and simulates the same. Prints measured value, prediction and error of throughput, mean
/// time to first token and mean completion time, and how long stages took against their cost. Every live
/// trace must replay through a fresh scheduler, and the answers of the first replication must equal a
/// serial reference.
///
/// Exit status 1 if the median or the worst error is past its bound.
#[derive(Debug, Args)]
#[command(
    after_long_help = "Example:\n  crossinfer validate live scenarios/x86-two-streams.toml --out live.json"
)]
pub(crate) struct Arguments {
    /// Scenario file (TOML).
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenario: PathBuf,

    /// Policies with commas between, as `run --policy` takes them.
    #[arg(
        long,
        value_name = "POLICIES",
        value_delimiter = ',',
        default_value = "naive,idle_first,state_aware:w+p+s"
    )]
    pub(crate) policies: Vec<String>,

    /// Live runs under each policy; intervals need two.
    #[arg(long, value_name = "N", default_value_t = NonZeroU32::new(3).unwrap_or(NonZeroU32::MIN))]
    pub(crate) replications: NonZeroU32,

    /// Folder that `calibrate --out` wrote, instead of calibrating.
    #[arg(long, value_name = "DIR")]
    pub(crate) profile: Option<PathBuf>,

    /// Greatest median of the absolute errors, in per cent.
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    pub(crate) median: f64,

    /// Greatest absolute error, in per cent.
    #[arg(long, value_name = "PERCENT", default_value_t = 12.0)]
    pub(crate) worst: f64,

    /// File for the comparison (JSON).
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) setup: Setup,
}

#[cfg(feature = "live")]
pub(crate) use crate::live::validate as main;

#[cfg(not(feature = "live"))]
pub(crate) fn main(_: &Arguments) -> Result<(), Failure> {
    Err(crate::live::not_built())
}
