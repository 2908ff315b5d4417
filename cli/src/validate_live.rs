//! `crossinfer validate live`: the same scenario on real engines and simulated.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::Args;

#[cfg(not(feature = "live"))]
use crate::failure::Failure;
use crate::live::{Effort, Setup};

const TWO: NonZeroU32 = NonZeroU32::MIN.saturating_add(1);

/// Run a scenario on this machine's engines and simulated, and compare.
///
/// Calibrates first, unless a profile is given; predicts; then plays each replication live under one policy
/// after the other. Prints measured value, prediction with its interval, and error of throughput, mean and
/// 95th percentile of the time to first token and mean completion time, with the noise that repeats of a
/// replication leave; where each error comes from; and how long stages took against their cost. Every live
/// trace must replay through a fresh scheduler, and the answers of each replication's first run must equal a
/// serial reference.
///
/// Exit status 1 if the median or the worst error is past its bound.
#[derive(Debug, Args)]
#[command(
    after_long_help = "Example:\n  crossinfer validate live scenarios/x86-two-streams.toml --out live"
)]
pub(crate) struct Arguments {
    /// Scenario file (TOML).
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenario: PathBuf,

    /// Policies with commas between, as `run --policy` takes them [default: the first
    /// lane that can serve the scenario alone, `naive,idle_first,state_aware:w+p+s`].
    #[arg(long, value_name = "POLICIES", value_delimiter = ',')]
    pub(crate) policies: Vec<String>,

    /// Replications of the workload; each is played under every policy in turn.
    #[arg(long, value_name = "N", default_value_t = TWO)]
    pub(crate) replications: NonZeroU32,

    /// How often each replication is played live under a policy; the noise of the
    /// machine needs two.
    #[arg(long, value_name = "N", default_value_t = TWO)]
    pub(crate) repeats: NonZeroU32,

    /// How much is measured, if no profile is given.
    #[arg(long, value_enum, default_value_t = Effort::Quick)]
    pub(crate) effort: Effort,

    /// Folder that `calibrate --out` wrote, instead of calibrating.
    #[arg(long, value_name = "DIR")]
    pub(crate) profile: Option<PathBuf>,

    /// Greatest median of the absolute errors, in per cent.
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    pub(crate) median: f64,

    /// Greatest absolute error, in per cent.
    #[arg(long, value_name = "PERCENT", default_value_t = 12.0)]
    pub(crate) worst: f64,

    /// Folder for the comparison (live.json), the trace of every live run, and the
    /// calibration; it is made if missing. The same command goes on where it was
    /// interrupted.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Predict only, and write it to `predicted.json` in `--out`: to be published before
    /// there is anything to compare with. A later run with the same `--out` insists that
    /// its predictions are those.
    #[arg(long, requires_all = ["profile", "out"])]
    pub(crate) predict_only: bool,

    /// Play nothing, and compare the live runs that `--out` holds, played on whatever
    /// machine. A round over the policies that was interrupted is left out.
    #[arg(long, requires_all = ["profile", "out"], conflicts_with = "predict_only")]
    pub(crate) kept: bool,

    #[command(flatten)]
    pub(crate) setup: Setup,
}

#[cfg(feature = "live")]
pub(crate) use crate::live::validate as main;

#[cfg(not(feature = "live"))]
pub(crate) fn main(_: &Arguments) -> Result<(), Failure> {
    Err(crate::live::not_built())
}
