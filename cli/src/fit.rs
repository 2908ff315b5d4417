//! `crossinfer fit`: numbers of profiles that explain calibration rows best.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use validation::fit::{self, Fit, Written, read_spec};
use validation::report;

use crate::failure::{Failure, print, say};
use crate::library::Shelf;
use crate::options::{Format, read};
use crate::validate::Source;

/// Fit numbers of profiles to measured baselines.
///
/// The file names free numbers with their bounds, and calibration rows. Prints the fitted values with
/// 95 % intervals, says which the rows do not identify, shows every row's residual, and predicts the
/// outcomes that were held out: rows with `role = "outcome"` never take part.
///
/// With --out, the profiles are written with the fitted numbers, each with its origin and interval.
#[derive(Debug, Args)]
#[command(
    after_long_help = "Example:\n  crossinfer fit board-fit.toml --measurements board.toml --out fitted"
)]
pub(crate) struct Arguments {
    /// What is free and which rows it is fitted to (TOML; docs/validate.md describes
    /// the file).
    #[arg(value_name = "FIT")]
    spec: PathBuf,

    #[command(flatten)]
    source: Source,

    /// Folder for the profiles with the fitted numbers, laid out as `profiles` is; it
    /// is made if missing.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Replace profiles that are in DIR already.
    #[arg(long, requires = "out")]
    force: bool,

    /// Form of the result on standard output.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

pub(crate) fn main(arguments: &Arguments) -> Result<(), Failure> {
    let text = read(&arguments.spec)?;
    let spec = read_spec(&arguments.spec.to_string_lossy(), &text).map_err(Failure::Faults)?;
    let shelf = Shelf::near(&arguments.spec);
    let file = arguments.source.read(&shelf)?;
    let fit: Fit = fit::fit(&shelf, &spec, &file).map_err(Failure::Faults)?;
    if let Some(folder) = &arguments.out {
        for written in fit.profiles(&shelf).map_err(Failure::Faults)? {
            save(folder, &written, arguments.force)?;
        }
    }
    match arguments.format {
        Format::Table => {
            let text = report::document(&spec.title, &report::fit(&fit));
            print(&reports::table::markdown(&text))
        }
        Format::Json => print(&format!("{:#}\n", fit.json())),
    }
}

/// Writes a profile below `folder`, under the last two parts of its name.
fn save(folder: &Path, written: &Written, force: bool) -> Result<(), Failure> {
    let path = folder.join(written.place());
    if path.exists() && !force {
        return Err(Failure::usage(
            format!("`{}` is there already", path.display()),
            "name another folder, or replace it with `--force`",
        ));
    }
    let parent = path.parent().unwrap_or(folder);
    fs::create_dir_all(parent)
        .and_then(|()| fs::write(&path, &written.text))
        .map_err(|error| Failure::write(path.display(), &error))?;
    say(&format!("wrote {}", path.display()));
    Ok(())
}
