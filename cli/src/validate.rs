//! `crossinfer validate`: predictions beside measurements, and closed forms beside simulations.

use std::env;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use sim::load::Inputs;
use validation::corun::{self, CorunError, Matrix, Score, Splits};
use validation::fit::{self, Fit, read_spec};
use validation::folder::Stock;
use validation::oracles;
use validation::published::{Comparison, Draws, Lab, Measurements, Role, compare};
use validation::report::{self, Section};

use crate::document::{self, Document};
use crate::failure::{Failure, print, say};
use crate::library::{FITS, Shelf};
use crate::options::{Format, inputs, read, world};
use crate::{validate_live, validate_roofline};

/// Independent runs of a queue with a closed form.
const REPLICATIONS: u32 = 30;

/// Hold the simulator against measurements and closed forms.
#[derive(Debug, Args)]
#[command(
    after_long_help = "Example:\n  crossinfer validate published --measurements measurements.toml --max-error 25"
)]
pub(crate) struct Arguments {
    /// Against what.
    #[command(subcommand)]
    against: Against,
}

#[derive(Debug, Subcommand)]
enum Against {
    Live(validate_live::Arguments),
    Published(Published),
    Oracles(Oracles),
    Contention(Contention),
    Roofline(validate_roofline::Arguments),
    Report(Report),
}

/// Where measurements are.
#[derive(Debug, Args)]
pub(crate) struct Source {
    /// Measurements (TOML; docs/validate.md describes the file), instead of the one
    /// that the environment variable `CROSSINFER_MEASUREMENTS` names.
    #[arg(long, value_name = "FILE")]
    measurements: Option<PathBuf>,
}

/// How uncertain predictions are.
#[derive(Debug, Args)]
struct Intervals {
    /// Draws of all numbers within their intervals, for the intervals of
    /// predictions, 20 or more; 0: none.
    #[arg(long, value_name = "N", default_value_t = Draws::default().count, value_parser = draws)]
    draws: u32,

    /// Seed of the draws.
    #[arg(long, value_name = "N", default_value_t = Draws::default().seed)]
    seed: u64,
}

/// Set measured values beside predictions.
///
/// Every row of the file is listed: outcomes with prediction, 90 % interval, error and what the
/// prediction was calibrated on; calibration rows as residuals; rows that no scenario covers with the
/// reason. Rows of published experiments are recognised by their table; a row or an `[[experiment]]` of
/// the file can name a scenario of its own. Exit status 1 if an outcome is further off than
/// --max-error or than its own `max_error`, 2 for a file with faults.
#[derive(Debug, Args)]
#[command(
    after_long_help = "Example:\n  crossinfer validate published --measurements board.toml --max-error 20 --out board.md"
)]
struct Published {
    #[command(flatten)]
    source: Source,

    #[command(flatten)]
    intervals: Intervals,

    /// Largest error of an outcome, in per cent (in points for shares and changes).
    #[arg(long, value_name = "PCT", allow_negative_numbers = true, value_parser = percent)]
    max_error: Option<f64>,

    /// Form of the result on standard output.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,

    /// Also write the tables to this file, with plots of predicted against measured:
    /// one page if it ends in .html, else Markdown with the plots as SVG beside it.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Set closed forms of queueing theory beside simulations.
///
/// M/M/1, M/D/1, M/G/1, M/M/c, processor sharing with two classes, closed networks by exact mean
/// value analysis, and Little's law, also on every scenario that comes with crossinfer. Exit status 1
/// if one lies outside its 99 % interval.
#[derive(Debug, Args)]
#[command(after_long_help = "Example:\n  crossinfer validate oracles --replications 100")]
struct Oracles {
    /// Scenarios on which Little's law is checked, instead of all that come with
    /// crossinfer.
    #[arg(value_name = "SCENARIO")]
    scenarios: Vec<PathBuf>,

    /// Independent runs of each queue.
    #[arg(long, value_name = "N", default_value_t = REPLICATIONS, value_parser = clap::value_parser!(u32).range(2..=100_000))]
    replications: u32,

    /// Form of the result on standard output.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,

    /// Also write the table to this file (Markdown).
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Hold contention models against a measured co-run matrix.
///
/// The file is a CSV in GB/s: a head line with the external demands, then a line for each demand of the
/// measured engine alone and what it achieves beside them. Every model is fitted to a quarter of the
/// points and predicts the rest (docs/contention.md). Exit status 1 if --max-error is given and no
/// water-filling model is within it, 2 for a file with faults.
#[derive(Debug, Args)]
#[command(
    after_long_help = "Example:\n  crossinfer validate contention corun.csv --peak-gbps 136.5"
)]
struct Contention {
    /// Measured matrix (CSV).
    #[arg(value_name = "FILE")]
    matrix: PathBuf,

    /// The most that the memory can give, GB/s: no fit hands out more. Without it the
    /// fitted bandwidth is free, up to the largest demands together.
    #[arg(long, value_name = "GBPS", allow_negative_numbers = true)]
    peak_gbps: Option<f64>,

    /// Random quarters.
    #[arg(long, value_name = "N", default_value_t = Splits::default().count, value_parser = clap::value_parser!(u32).range(1..=1000))]
    splits: u32,

    /// Seed of the quarters.
    #[arg(long, value_name = "N", default_value_t = Splits::default().seed)]
    seed: u64,

    /// Largest mean error of the best water-filling model on points left out, in
    /// points of relative speed.
    #[arg(long, value_name = "POINTS", allow_negative_numbers = true, value_parser = percent)]
    max_error: Option<f64>,

    /// Form of the result on standard output.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,

    /// Also write the tables to this file (Markdown, or HTML if it ends in .html).
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Write the whole report: measurements beside predictions, contention models, closed forms.
///
/// Without measurements, of what else is named (--live, --corun) alone.
#[derive(Debug, Args)]
#[command(
    after_long_help = "Examples:\n  crossinfer validate report --measurements measurements.toml --out validation.md\n  crossinfer validate report --live live.json"
)]
struct Report {
    #[command(flatten)]
    source: Source,

    #[command(flatten)]
    intervals: Intervals,

    /// Measured co-run matrix (CSV, as for `validate contention`): adds the section on
    /// contention models.
    #[arg(long, value_name = "FILE")]
    corun: Option<PathBuf>,

    /// The most that the memory of that matrix can give, GB/s.
    #[arg(
        long,
        value_name = "GBPS",
        requires = "corun",
        allow_negative_numbers = true
    )]
    peak_gbps: Option<f64>,

    /// Fit (as for `crossinfer fit`) to run for the section on what was fitted, instead of
    /// those that come with crossinfer; may be given several times.
    #[arg(long, value_name = "FILE")]
    fit: Vec<PathBuf>,

    /// Result of `validate live` (its live.json); may be given several times: adds the
    /// section on live runs.
    #[arg(long, value_name = "FILE")]
    live: Vec<PathBuf>,

    /// File for the report, instead of standard output: one page if it ends in .html,
    /// else Markdown with the plots as SVG beside it.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) fn main(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.against {
        Against::Live(arguments) => validate_live::main(arguments),
        Against::Published(arguments) => published(arguments),
        Against::Oracles(arguments) => oracles(arguments),
        Against::Contention(arguments) => contention(arguments),
        Against::Roofline(arguments) => validate_roofline::main(arguments),
        Against::Report(arguments) => whole(arguments),
    }
}

impl Source {
    /// The file that the user named.
    fn path(&self) -> Option<PathBuf> {
        let named = self.measurements.clone();
        named.or_else(|| env::var_os("CROSSINFER_MEASUREMENTS").map(PathBuf::from))
    }

    /// Reads the measurements that the user named, and checks what they name.
    pub(crate) fn read(&self, stock: &dyn Stock) -> Result<Measurements, Failure> {
        let path = self.path().ok_or_else(|| {
            Failure::usage(
                "no measurements are named",
                "give `--measurements FILE`, or set CROSSINFER_MEASUREMENTS; published figures are third-party and do not come with crossinfer",
            )
        })?;
        let text = read(&path)?;
        let lab = Lab::new(stock, Draws { count: 0, seed: 0 });
        lab.read(&path.to_string_lossy(), &text)
            .map_err(Failure::Faults)
    }
}

fn predictions(source: &Source, intervals: &Intervals) -> Result<Comparison, Failure> {
    let shelf = Shelf::here();
    let file = source.read(&shelf)?;
    let draws = Draws {
        count: intervals.draws,
        seed: intervals.seed,
    };
    let mut lab = Lab::new(&shelf, draws);
    let mut comparison = compare(&mut lab, &file).map_err(Failure::Faults)?;
    let profiles = lab.profiles().into_iter();
    let replaced = profiles.filter(|(file, _)| Shelf::replaces(file));
    comparison.replaced = replaced
        .map(|(file, fits)| (file, fits.into_iter().collect()))
        .collect();
    Ok(comparison)
}

fn published(arguments: &Published) -> Result<(), Failure> {
    document::check(arguments.out.as_deref())?;
    let comparison = predictions(&arguments.source, &arguments.intervals)?;
    let document = Document {
        title: "Measurements and predictions",
        sections: report::published(&comparison),
        figures: report::figures(&comparison),
    };
    document.save(arguments.out.as_deref())?;
    match arguments.format {
        Format::Table => print(&document.shown())?,
        Format::Json => print(&format!("{:#}\n", comparison.json()))?,
    }
    let most = arguments.max_error;
    if most.is_some() && comparison.predicted(Role::Outcome).next().is_none() {
        return Err(Failure::usage(
            "no outcome was held against a prediction, so --max-error says nothing",
            "give rows with `role = \"outcome\"` that a scenario predicts",
        ));
    }
    let beyond = comparison.beyond(most);
    for compared in &beyond {
        let off = compared.error().map_or_else(
            || "0 was measured".to_owned(),
            |error| report::error_text(&compared.row, error),
        );
        let bounds = [most, compared.row.max_error].into_iter().flatten();
        let bound = bounds.fold(f64::INFINITY, f64::min);
        say(&format!(
            "further off than {bound}: {} ({off})",
            compared.row.label()
        ));
    }
    if beyond.is_empty() {
        Ok(())
    } else {
        Err(Failure::No)
    }
}

fn oracles(arguments: &Oracles) -> Result<(), Failure> {
    document::check(arguments.out.as_deref())?;
    let mut outcomes = closed_forms(arguments.replications);
    let shelf = Shelf::here();
    if arguments.scenarios.is_empty() {
        outcomes.extend(little_on_shipped(&shelf)?);
    }
    for path in &arguments.scenarios {
        let world = world(&inputs(path)?, None)?;
        let outcome = oracles::little_on(&path.to_string_lossy(), &world);
        outcomes.push(outcome.map_err(Failure::Faults)?);
    }
    let document = Document {
        title: "Simulations and closed forms",
        sections: vec![report::oracles(&outcomes)],
        ..Document::default()
    };
    document.save(arguments.out.as_deref())?;
    match arguments.format {
        Format::Table => print(&document.shown())?,
        Format::Json => {
            let text = serde_json::to_string_pretty(&outcomes).map_err(Failure::internal)?;
            print(&format!("{text}\n"))?;
        }
    }
    if outcomes.iter().all(|outcome| outcome.inside) {
        Ok(())
    } else {
        Err(Failure::No)
    }
}

fn contention(arguments: &Contention) -> Result<(), Failure> {
    document::check(arguments.out.as_deref())?;
    let splits = Splits {
        count: arguments.splits,
        seed: arguments.seed,
        peak_gbps: arguments.peak_gbps,
    };
    let scores = scores(&arguments.matrix, splits)?;
    let document = Document {
        title: "Contention models",
        sections: vec![contention_section(&arguments.matrix, &scores, splits)?],
        ..Document::default()
    };
    document.save(arguments.out.as_deref())?;
    match arguments.format {
        Format::Table => print(&document.shown())?,
        Format::Json => {
            let text = serde_json::to_string_pretty(&scores).map_err(Failure::internal)?;
            print(&format!("{text}\n"))?;
        }
    }
    match arguments.max_error {
        Some(bound) if corun::best_filling(&scores) > bound => Err(Failure::No),
        _ => Ok(()),
    }
}

/// The section on a matrix, with what its file says of itself.
fn contention_section(path: &Path, scores: &[Score], splits: Splits) -> Result<Section, Failure> {
    let comments = Matrix::comments(&read(path)?);
    let file = path.to_string_lossy();
    Ok(report::corun(scores, splits.peak_gbps, (&file, &comments)))
}

/// How well each contention model predicts a measured matrix.
fn scores(path: &Path, splits: Splits) -> Result<Vec<Score>, Failure> {
    let fault = |error: &dyn Display| {
        Failure::usage(
            format!("`{}`: {error}", path.display()),
            "`crossinfer validate contention --help` describes the file",
        )
    };
    let matrix = Matrix::read(&read(path)?).map_err(|error| fault(&error))?;
    if splits.peak_gbps.is_none() {
        say(
            "warning: without --peak-gbps the fitted bandwidth is free, also above what the memory can give, and the errors flatter",
        );
    }
    corun::compare(&matrix, splits).map_err(|error| match error {
        CorunError::Peak { .. } => Failure::usage(
            format!("`--peak-gbps`: {error}"),
            "give what the memory can give at most, as its datasheet says",
        ),
        _ => fault(&error),
    })
}

fn closed_forms(replications: u32) -> Vec<oracles::Outcome> {
    let all = oracles::all();
    all.iter()
        .map(|oracle| oracle.check(replications))
        .collect()
}

/// Little's law on every scenario that comes with crossinfer.
fn little_on_shipped(shelf: &Shelf) -> Result<Vec<oracles::Outcome>, Failure> {
    let mut outcomes = Vec::new();
    for source in shelf.shipped() {
        let (library, files) = (shelf.library(&source.name), shelf.files());
        let inputs = Inputs::read(&source.name, &source.text, library.as_ref(), files);
        let world = inputs
            .and_then(|inputs| inputs.world())
            .map_err(Failure::Faults)?;
        outcomes.push(oracles::little_on(&source.name, &world).map_err(Failure::Faults)?);
    }
    Ok(outcomes)
}

/// The fits that the user named, else those that come with crossinfer and find rows; and the others' names.
fn fits(arguments: &Report) -> Result<(Vec<Fit>, Vec<String>), Failure> {
    let file = arguments.source.read(&Shelf::here())?;
    let (mut fits, mut without_rows) = (Vec::new(), Vec::new());
    let mut run = |shelf: &Shelf, name: &str, text: &str, named: bool| {
        let spec = read_spec(name, text)?;
        if named || spec.applies(&file) {
            fits.push(fit::fit(shelf, &spec, &file)?);
        } else {
            without_rows.push(name.to_owned());
        }
        Ok(())
    };
    for path in &arguments.fit {
        let (shelf, name) = (Shelf::near(path), path.to_string_lossy());
        run(&shelf, &name, &read(path)?, true).map_err(Failure::Faults)?;
    }
    if arguments.fit.is_empty() {
        for (name, text) in FITS {
            run(&Shelf::here(), name, text, false).map_err(Failure::Faults)?;
        }
    }
    Ok((fits, without_rows))
}

fn whole(arguments: &Report) -> Result<(), Failure> {
    document::check(arguments.out.as_deref())?;
    // What was measured elsewhere is shown without rows of one's own.
    let named = arguments.source.path().is_some() || !arguments.fit.is_empty();
    let whole = named || (arguments.live.is_empty() && arguments.corun.is_none());
    let mut sections = Vec::new();
    let mut figures = Vec::new();
    // In the order in which a sceptic asks.
    if whole {
        let comparison = predictions(&arguments.source, &arguments.intervals)?;
        let (fits, without_rows) = fits(arguments)?;
        sections = report::published(&comparison);
        sections.push(report::fitted(&fits, &without_rows, &comparison));
        figures = report::figures(&comparison);
    }
    if let Some(path) = &arguments.corun {
        let splits = Splits {
            peak_gbps: arguments.peak_gbps,
            ..Splits::default()
        };
        sections.push(contention_section(path, &scores(path, splits)?, splits)?);
    }
    if !arguments.live.is_empty() {
        let documents: Result<Vec<_>, _> = arguments.live.iter().map(|path| live(path)).collect();
        sections.push(report::live(&documents?));
    }
    if whole {
        let mut outcomes = closed_forms(REPLICATIONS);
        outcomes.extend(little_on_shipped(&Shelf::here())?);
        sections.push(report::oracles(&outcomes));
    }
    let document = Document {
        title: "Validation",
        sections,
        figures,
    };
    match &arguments.out {
        Some(_) => document.save(arguments.out.as_deref()),
        None => print(&document.shown()),
    }
}

/// As many draws as an interval needs, or none.
fn draws(text: &str) -> Result<u32, String> {
    let count = text.parse().ok();
    count
        .filter(|count| *count == 0 || (Draws::LEAST..=100_000).contains(count))
        .ok_or_else(|| {
            format!(
                "give 0 for no intervals, or {} to 100000: among fewer draws none lies beyond the 5th percentile",
                Draws::LEAST
            )
        })
}

fn live(path: &Path) -> Result<validation::live::Document, Failure> {
    validation::live::Document::read(&read(path)?).map_err(|says| {
        Failure::usage(
            format!("`{}` is no result of live runs: {says}", path.display()),
            "give a live.json as `crossinfer validate live --out DIR` wrote it",
        )
    })
}

fn percent(text: &str) -> Result<f64, String> {
    let value = text.parse().ok();
    value
        .filter(|value: &f64| value.is_finite() && *value >= 0.0)
        .ok_or_else(|| "give a number of per cent, 0 or more".to_owned())
}
