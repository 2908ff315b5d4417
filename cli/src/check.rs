//! `crossinfer check`: faults, and what is assumed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use screen::hanging;
use sim::diag::Faults;
use sim::load::{self, Kind};
use sim::spec::quantity::OriginKind;
use sim::world::Provenance;
use validation::fit::{is_spec, read_spec};
use validation::published::{Draws, Lab, Role, is_measurements};

use crate::failure::{Failure, print, say};
use crate::library::Shelf;
use crate::options::{inputs, read, world};

/// Check files, and list every number that is assumed.
///
/// Scenarios are checked with the profiles that they name, measurements with the scenarios that they
/// name, and files of fits with the profiles whose numbers they set. A file's kind is found from its
/// keys. Exit status 2 if any file has a fault; all faults of all files are shown.
#[derive(Debug, Args)]
#[command(after_long_help = "Example:\n  crossinfer check scenarios/*.toml")]
pub(crate) struct Arguments {
    /// Scenarios, SoC profiles, models, cost files, measurements and files of fits (TOML),
    /// or folders of them.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub(crate) fn main(arguments: &Arguments) -> Result<(), Failure> {
    let mut all = Faults::default();
    let mut failed = None;
    let mut files = Vec::new();
    for path in &arguments.files {
        if path.is_dir() {
            let before = files.len();
            below(path, &mut files)?;
            if files.len() == before {
                return Err(Failure::usage(
                    format!(
                        "`{}` has no TOML file that crossinfer knows",
                        path.display()
                    ),
                    "give a folder with scenarios or profiles",
                ));
            }
        } else {
            files.push(path.clone());
        }
    }
    for path in &files {
        match check(path) {
            Ok(text) => print(&text)?,
            // Two scenarios may name the same faulty profile.
            Err(Failure::Faults(faults)) => all.add(faults),
            Err(failure) => {
                failure.report();
                failed = Some(failure);
            }
        }
    }
    if !all.list.is_empty() {
        return Err(Failure::Faults(all));
    }
    // It has been reported; only its exit status is left.
    failed.map_or(Ok(()), |_| Err(Failure::Reported))
}

/// The TOML files below a folder that look like one of ours, in the order of their names; nothing hidden, no links.
fn below(folder: &Path, to: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let failed = |error: io::Error| {
        Failure::usage(
            format!("`{}` cannot be read: {error}", folder.display()),
            "give a folder that you may read",
        )
    };
    let entries = fs::read_dir(folder).map_err(failed)?;
    let mut inside: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    inside.sort();
    for path in inside {
        let name = path.file_name().map(|name| name.to_string_lossy());
        if name.is_none_or(|name| name.starts_with('.')) || path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            below(&path, to)?;
        } else if path.extension().is_some_and(|end| end == "toml") {
            let text = read(&path)?;
            if other(&text).is_some() || load::detect_kind(&text).is_some() {
                to.push(path);
            } else {
                say(&format!(
                    "skipped: {} is no file of crossinfer's",
                    path.display()
                ));
            }
        }
    }
    Ok(())
}

/// A file that validation reads.
#[derive(Clone, Copy)]
enum Other {
    Fit,
    Measurements,
}

/// What validation would read a text as.
fn other(text: &str) -> Option<Other> {
    if is_measurements(text) {
        Some(Other::Measurements)
    } else {
        is_spec(text).then_some(Other::Fit)
    }
}

/// What there is to say of a fit's file without faults.
fn fit(path: &Path, name: &str, text: &str) -> Result<String, Failure> {
    let spec = read_spec(name, text).map_err(Failure::Faults)?;
    let checked = spec.check(&Shelf::near(path)).map_err(Failure::Faults)?;
    let so_many = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    };
    let says = format!(
        "{name}: ok, a fit of {} in {} of profiles (`crossinfer fit` checks its rows)",
        so_many(spec.free.len(), "parameter"),
        so_many(checked.numbers, "place"),
    );
    let mut out = hanging(&says, 0);
    for profile in &checked.absent {
        out += &hanging(
            &format!(
                "warning: profile `{profile}` is not found from here; its numbers were not checked"
            ),
            2,
        );
    }
    Ok(out)
}

/// What there is to say of measurements without faults.
fn measurements(name: &str, text: &str) -> Result<String, Failure> {
    let shelf = Shelf::here();
    let lab = Lab::new(&shelf, Draws { count: 0, seed: 0 });
    let file = lab.read(name, text).map_err(Failure::Faults)?;
    let of = |role: Role| file.rows.iter().filter(|row| row.role == role).count();
    let rows = file.rows.iter();
    let unplayed = rows.filter(|row| Lab::configurations(&file, row).is_err());
    let says = format!(
        "{name}: ok, measurements, {} outcomes and {} calibration rows; {} in all have no scenario (`crossinfer validate \
         published` says why)",
        of(Role::Outcome),
        of(Role::Calibration),
        unplayed.count()
    );
    Ok(hanging(&says, 0))
}

/// What there is to say of a file without faults.
fn check(path: &Path) -> Result<String, Failure> {
    let text = read(path)?;
    let name = path.to_string_lossy();
    match other(&text) {
        Some(Other::Fit) => return fit(path, &name, &text),
        Some(Other::Measurements) => return measurements(&name, &text),
        None => {}
    }
    let kind = load::detect_kind(&text);
    let numbers = match kind {
        Some(Kind::Soc) => load::check_soc(&name, &text),
        Some(Kind::Model) => load::check_model(&name, &text),
        Some(Kind::Costs) => load::check_costs(&name, &text),
        // What looks like nothing is most likely a scenario in the making.
        Some(Kind::Scenario) | None => {
            let world = world(&inputs(path)?, None)?;
            let mut out = summary(&name, Kind::Scenario, &world.provenance);
            for warning in &world.warnings {
                // The assumed numbers are listed here.
                if !warning.contains("crossinfer check") {
                    out += &hanging(&format!("warning: {warning}"), 2);
                }
            }
            return Ok(out);
        }
    };
    let numbers = numbers.map_err(Failure::Faults)?;
    Ok(summary(&name, kind.unwrap_or(Kind::Scenario), &numbers))
}

/// One line, then the assumed numbers by file and reasoning.
fn summary(name: &str, kind: Kind, numbers: &[Provenance]) -> String {
    let assumed: Vec<&Provenance> = numbers
        .iter()
        .filter(|number| number.kind == OriginKind::Assumed)
        .collect();
    let mut out = hanging(
        &format!(
            "{name}: ok, {kind}, {} numbers, {} assumed",
            numbers.len(),
            assumed.len()
        ),
        0,
    );
    let mut files: Vec<&str> = Vec::new();
    for number in &assumed {
        if !files.contains(&number.file.as_str()) {
            files.push(&number.file);
        }
    }
    for file in files {
        let of_file = || assumed.iter().filter(|number| number.file == file);
        if file != name {
            out += &hanging(file, 2);
        }
        let mut origins: Vec<&str> = Vec::new();
        for number in of_file() {
            if origins.contains(&number.origin.as_str()) {
                continue;
            }
            origins.push(&number.origin);
            let why = number.note.as_deref().unwrap_or("no reasoning given");
            out += &hanging(&format!("{}: {why}", number.origin), 4);
            for same in of_file().filter(|other| other.origin == number.origin) {
                let interval = same.interval.map_or_else(
                    || "no interval".to_owned(),
                    |(low, high)| format!("{} to {}", plain(low), plain(high)),
                );
                // One that no file holds is another's again.
                let place = |other: &&Provenance| other.file == file && other.span == same.span;
                let stated = numbers
                    .iter()
                    .find(place)
                    .filter(|first| first.path != same.path);
                let stated =
                    stated.map_or_else(String::new, |first| format!(", stated as {}", first.path));
                let value = format!("{} = {} ({interval}){stated}", same.path, plain(same.value));
                out += &hanging(&value, 6);
            }
        }
    }
    out
}

/// A number as a person would write it.
fn plain(x: f64) -> String {
    if x != 0.0 && !(1e-4..1e7).contains(&x.abs()) {
        format!("{x:e}")
    } else {
        format!("{x}")
    }
}
