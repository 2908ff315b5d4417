//! `crossinfer validate roofline`: chips predicted from their datasheets alone.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use profiles::roofline::{chip, holdout, report};

use crate::failure::{Failure, print};
use crate::options::read;

/// Predict every measured chip as if it had never been measured.
///
/// Reads benchmark results below a folder (`llama-bench/`, `apple/`, `rkllm/`), leaves one chip out at a
/// time, and predicts its prefill, decode and encode times from its datasheet figures and the model's shape, with
/// efficiencies fitted on the other chips. Then long contexts from short ones, and rows of a prompt with
/// its answer from separate rows. Exit status 1 if a bound is missed (docs/plan.md).
#[derive(Debug, Args)]
#[command(after_long_help = "Example:\n  crossinfer validate roofline --samples benchmarks/")]
pub(crate) struct Arguments {
    /// Folder of benchmark results. None come with crossinfer: they belong to
    /// those who measured them.
    #[arg(long, value_name = "DIR")]
    samples: PathBuf,

    /// Datasheet figures of chips (TOML, as profiles/src/roofline/chips.toml),
    /// instead of those that come with crossinfer.
    #[arg(long, value_name = "FILE")]
    chips: Option<PathBuf>,

    /// Write the efficiencies fitted on all chips, with their spread, to FILE.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) fn main(arguments: &Arguments) -> Result<(), Failure> {
    let folder = &arguments.samples;
    if !folder.is_dir() {
        return Err(Failure::usage(
            format!("there is no folder `{}`", folder.display()),
            "give a folder with llama-bench/, apple/ or rkllm/ in it",
        ));
    }
    let own = arguments.chips.as_ref().map(|path| {
        let text = read(path)?;
        chip::parse(&text).map_err(|error| {
            Failure::usage(
                format!("`{}`: {error}", path.display()),
                "profiles/src/roofline/chips.toml is the layout",
            )
        })
    });
    let own = own.transpose()?;
    let chips = own.as_deref().unwrap_or_else(|| chip::shipped());
    let held = holdout::over(folder, chips).map_err(|error| {
        Failure::usage(
            format!("`{}` cannot be read: {error}", folder.display()),
            "give a folder with llama-bench/ or rkllm/ in it",
        )
    })?;
    if held.files == 0 {
        return Err(Failure::usage(
            format!(
                "`{}` has neither llama-bench/ nor apple/ nor rkllm/",
                folder.display()
            ),
            "give the folder above them",
        ));
    }
    let (text, met) = report::text(&held);
    print(&text)?;
    if let Some(path) = &arguments.out {
        let text = held.efficiencies.to_toml();
        fs::write(path, text).map_err(|error| Failure::write(path.display(), &error))?;
    }
    if met { Ok(()) } else { Err(Failure::No) }
}
