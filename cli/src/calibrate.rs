//! `crossinfer calibrate`: measure this machine's engines, and write a profile.

use std::path::PathBuf;

use clap::Args;

#[cfg(not(feature = "live"))]
use crate::failure::Failure;
use crate::live::{Effort, Setup};

/// Measure this machine's engines and write a profile.
///
/// The scenario names the SoC, whose lanes and cores are used, and the model's stages. Each stage is
/// measured over sizes and context depths until its interval is narrow or a cap is met, then pairs of
/// lanes, alone and beside each other in turns. DIR/profiles gets the SoC's file and the cost file with
/// every number's date, host, versions and samples; a scenario in DIR uses them.
///
/// Samples are kept in DIR/samples.tsv as they come: the same command goes on where it was interrupted.
/// A machine that is shared, warm or throttled is faster at one time than at another: `--refresh` brings a
/// calibration up to date in a fraction of its time.
#[derive(Debug, Args)]
#[command(
    after_long_help = "Example:\n  crossinfer calibrate scenarios/x86-two-streams.toml --out board"
)]
pub(crate) struct Arguments {
    /// Scenario file (TOML).
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenario: PathBuf,

    /// Folder for the profile and the samples; it is made if missing.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,

    /// How much is measured.
    #[arg(long, value_enum, default_value_t = Effort::Quick)]
    pub(crate) effort: Effort,

    /// Measure what DIR has a calibration of once more, briefly, and multiply its costs
    /// by how much faster or slower each stage is now. It is done anew each time.
    #[arg(long)]
    pub(crate) refresh: bool,

    #[command(flatten)]
    pub(crate) setup: Setup,
}

#[cfg(feature = "live")]
pub(crate) use crate::live::calibrate as main;

#[cfg(not(feature = "live"))]
pub(crate) fn main(_: &Arguments) -> Result<(), Failure> {
    Err(crate::live::not_built())
}
