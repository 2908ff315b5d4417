//! `crossinfer plan`: the largest load within targets, or the least chip for a load.

mod edge;
mod plot;

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::Args;
use lab::plan::question::Question;
use lab::plan::{self, Axis, Case, PlanError, Range, Target};

use self::edge::{replayable, write_edge};
use self::plot::{draw, drawable, drawn_against, second};
use crate::failure::{Failure, print};
use crate::library::{Disk, Profiles};
use crate::options::{Format, read};

/// Find the largest load that meets targets, or the least chip that a load needs.
///
/// Simulates loads, halves where more load can only be worse and scans where it need not be, and runs
/// more replications near the edge, which is given as an interval: the largest load whose 95 % intervals
/// meet every target, and the smallest larger one that misses. Says what limits it, and what 1 % more of
/// each resource buys. Exit status 1 if no load meets the targets.
#[derive(Debug, Args)]
#[command(
    after_long_help = "Examples:\n  crossinfer plan scenarios/two-cameras-rk3588.toml \\\n    --slo 'ttft_p95 <= 5s' --slo 'memory <= 6GiB' --max streams\n  crossinfer plan scenarios/two-cameras-rk3588.toml --slo 'ttft_p95 <= 5s' --need"
)]
pub(crate) struct Arguments {
    /// Scenario, or a file with a question (`scenario`, `targets`, `maximise`).
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,

    /// Target: a metric, a bound and its unit, as in `ttft_p95 <= 2s`,
    /// `staleness_p95 <= 1s`, `energy <= 5 W`, `memory <= 6GiB`. Several: all hold.
    #[arg(long, value_name = "TARGET")]
    slo: Vec<String>,

    /// What is made as large as possible: `streams`, `frame_rate`, `query_rate`,
    /// `context`, or `model` (of --models, the largest that meets the targets).
    #[arg(long, value_name = "LOAD")]
    max: Option<String>,

    /// Least load that is tried.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    from: Option<f64>,

    /// Greatest load that is tried.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    to: Option<f64>,

    /// Instead, the least bandwidth, compute and memory that the scenario's load
    /// needs, each with the others as they are.
    #[arg(long, conflicts_with_all = ["max", "from", "to", "plot"])]
    need: bool,

    /// SoCs side by side, by key or path, with commas between.
    #[arg(long, value_name = "SOCS", value_delimiter = ',')]
    socs: Vec<String>,

    /// Models side by side, by key or path, with commas between.
    #[arg(long, value_name = "MODELS", value_delimiter = ',')]
    models: Vec<String>,

    /// Draw the feasible region to FILE (.svg or .png): loads against --by, or
    /// against the SoCs and models side by side.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,

    /// Second load of the plot: `streams`, `frame_rate`, `query_rate`, `context`.
    #[arg(long, value_name = "LOAD", requires = "plot")]
    by: Option<String>,

    /// Write the scenario of the largest load that meets the targets to FILE, with
    /// the draws that confirmed it: `crossinfer run FILE` replays them. Nothing is
    /// written where no load meets.
    #[arg(long, value_name = "FILE", conflicts_with = "need")]
    edge: Option<PathBuf>,

    /// Root seed of every random draw, instead of the scenario's.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Runs of each load [default: the scenario's, at least 10; four times as many
    /// near the edge].
    #[arg(long, value_name = "N")]
    replications: Option<NonZeroU32>,

    /// Threads [default: one per core].
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,

    /// Form of the result on standard output.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

fn failed(error: PlanError) -> Failure {
    match error {
        PlanError::Faults(faults) | PlanError::Stopped(faults) => Failure::Faults(faults),
        PlanError::Question(text) => Failure::usage(text, "`crossinfer plan --help` has examples"),
    }
}

pub(crate) fn main(arguments: &Arguments) -> Result<(), Failure> {
    let threads = arguments.jobs.map_or(0, NonZeroUsize::get);
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(Failure::internal)?;
    pool.install(|| on_threads(arguments))
}

fn on_threads(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(file) = &arguments.plot {
        drawable(file)?;
    }
    if let Some(by) = &arguments.by {
        second(by)?;
    }
    if arguments.replications == NonZeroU32::new(1) {
        return Err(Failure::usage(
            "`--replications 1`: one run has no interval, so no load would be told to meet or miss",
            "at least 2; 10 or more for a narrow edge",
        ));
    }
    let (path, question) = question(arguments)?;
    let targets = plan::targets(&question.targets)
        .map_err(|faults| Failure::usage(faults.join("\n  "), "as in `--slo 'ttft_p95 <= 2s'`"))?;
    let library = Profiles::beside(&path);
    let base = Case {
        name: path.to_string_lossy().into_owned(),
        text: read(&path)?,
        library: &library,
        files: &Disk,
        replications: arguments.replications.map(NonZeroU32::get),
        seed: arguments.seed,
        times: plan::Times::Stated,
    };
    let cases = variants(&base, &arguments.socs, &arguments.models)?;
    if let Some(file) = &arguments.edge {
        replayable(file, &path, cases.len())?;
    }
    if arguments.need {
        return needs(&cases, &targets, arguments.format);
    }
    let by_model = question.maximise == "model";
    let axis = if by_model {
        if arguments.models.is_empty() {
            return Err(Failure::usage(
                "`--max model` needs the models to choose from",
                "as in `--models onevision-0.5b-int4,onevision-7b-int4`",
            ));
        }
        Axis::Streams
    } else {
        Axis::parse(&question.maximise)
            .map_err(|text| Failure::usage(text, "as in `--max streams`"))?
    };
    if let Some(by) = &arguments.by {
        drawn_against(by, axis, cases.len())?;
    }
    let range = range(arguments, axis, by_model, &base)?;
    let mut plans = Vec::new();
    let mut refused = Vec::new();
    let alone = cases.len() == 1;
    for (title, case) in &cases {
        match plan::plan(case, title, axis, &targets, range) {
            Ok(plan) => plans.push(plan),
            Err(error) => refused.push((title.clone(), side_by_side(error, alone)?)),
        }
    }
    match arguments.format {
        Format::Table => {
            let table = plan::table(&plans, &refused);
            if by_model {
                print(&(plan::largest_model(&plans) + &table))?;
            } else {
                print(&table)?;
            }
        }
        Format::Json => {
            let mut value = plan::json(&plans, &refused);
            if by_model {
                value["largest_model"] = plan::largest(&plans).map(|plan| &*plan.title).into();
            }
            print(&format!("{value:#}\n"))?;
        }
    }
    if let (Some(file), [plan], [(_, case)]) = (&arguments.edge, &plans[..], &cases[..])
        && let Some(text) = &plan.scenarios.0
    {
        write_edge(file, case, text)?;
    }
    if let Some(file) = &arguments.plot {
        draw(file, arguments, &cases, &targets, &plans)?;
    }
    if plans.iter().any(|plan| plan.edge.meets.is_some()) {
        Ok(())
    } else {
        Err(Failure::No)
    }
}

/// The scenario and what is asked of it: of a file with a question, or of the options.
fn question(arguments: &Arguments) -> Result<(PathBuf, Question), Failure> {
    let text = read(&arguments.scenario)?;
    let mut asked = match Question::read(&text) {
        None => Question {
            scenario: String::new(),
            targets: Vec::new(),
            maximise: "streams".to_owned(),
        },
        Some(read) => read.map_err(|error| {
            Failure::usage(
                format!("`{}`: {error}", arguments.scenario.display()),
                "a question has `scenario`, `targets` and `maximise`",
            )
        })?,
    };
    if !arguments.slo.is_empty() {
        asked.targets.clone_from(&arguments.slo);
    }
    if let Some(max) = &arguments.max {
        asked.maximise = max.trim().to_lowercase();
    }
    let path = if asked.scenario.is_empty() {
        arguments.scenario.clone()
    } else {
        let folder = arguments.scenario.parent().unwrap_or(Path::new(""));
        folder.join(&asked.scenario)
    };
    Ok((path, asked))
}

fn variants<'a>(
    base: &Case<'a>,
    socs: &[String],
    models: &[String],
) -> Result<Vec<(String, Case<'a>)>, Failure> {
    let own = |text: String| Case {
        name: base.name.clone(),
        text,
        ..*base
    };
    let mut list = vec![(base.name.clone(), own(base.text.clone()))];
    for (key, values) in [("soc", socs), ("model", models)] {
        if values.is_empty() {
            continue;
        }
        for (at, value) in values.iter().enumerate() {
            if value.trim().is_empty() {
                return Err(Failure::usage(
                    format!("`--{key}s {}` has an empty name", values.join(",")),
                    "a name stands between every two commas: remove the comma, or name what is missing",
                ));
            }
            if values[..at]
                .iter()
                .any(|other| other.trim() == value.trim())
            {
                return Err(Failure::usage(
                    format!("`--{key}s` has `{}` twice", value.trim()),
                    "each stands once: remove one",
                ));
            }
        }
        let mut next = Vec::new();
        for (title, case) in &list {
            for value in values {
                let text = case.with(key, value.trim()).map_err(failed)?;
                let title = if *title == base.name {
                    value.trim().to_owned()
                } else {
                    format!("{title}, {}", value.trim())
                };
                next.push((title, own(text)));
            }
        }
        list = next;
    }
    Ok(list)
}

fn range(
    arguments: &Arguments,
    axis: Axis,
    by_model: bool,
    base: &Case<'_>,
) -> Result<Option<Range>, Failure> {
    if by_model {
        // The load stays as it is.
        let now = axis
            .now(&base.text)
            .map_err(|text| Failure::usage(text, "check the scenario"))?;
        return Ok(Some(Range {
            low: now,
            high: now,
        }));
    }
    let (from, to) = (arguments.from, arguments.to);
    let parts = |load: f64| axis.whole() && load.is_finite() && load.fract() != 0.0;
    if let Some(load) = [from, to].into_iter().flatten().find(|load| parts(*load)) {
        return Err(Failure::usage(
            format!("{load} {}: there are whole ones only", axis.unit()),
            "`--from` and `--to` are whole numbers for this load",
        ));
    }
    if from.is_none() && to.is_none() {
        return Ok(None);
    }
    let now = axis
        .now(&base.text)
        .map_err(|text| Failure::usage(text, "check the scenario"))?;
    let low = from.unwrap_or(if axis.whole() { 1.0 } else { now / 64.0 });
    let high = to.unwrap_or(if axis.whole() { 1024.0 } else { now * 64.0 });
    let least = if axis.whole() { 1.0 } else { f64::MIN_POSITIVE };
    if !(low.is_finite() && high.is_finite() && low >= least && high >= low) {
        return Err(Failure::usage(
            format!("loads from {low} to {high} are none"),
            "`--from` and `--to` are above 0 (1 for whole numbers), and the first is not the greater",
        ));
    }
    Ok(Some(Range { low, high }))
}

fn needs(cases: &[(String, Case<'_>)], targets: &[Target], format: Format) -> Result<(), Failure> {
    let alone = cases.len() == 1;
    let mut list = Vec::new();
    let mut refused = Vec::new();
    for (title, case) in cases {
        match plan::needs(case, title, targets) {
            Ok(needs) => list.push(needs),
            Err(error) => refused.push((title.clone(), side_by_side(error, alone)?)),
        }
    }
    match format {
        Format::Table => {
            for needs in &list {
                print(&plan::needs_table(targets, needs))?;
            }
            for (title, why) in &refused {
                print(&screen_line(title, why))?;
            }
        }
        Format::Json => {
            let value = match (&list[..], alone) {
                ([needs], true) => plan::needs_json(needs),
                (all, _) => plan::all_needs_json(all, &refused),
            };
            print(&format!("{value:#}\n"))?;
        }
    }
    let mut all = list.iter().flat_map(|needs| &needs.list);
    if all.any(|need| need.between.1.is_some()) {
        Ok(())
    } else {
        Err(Failure::No)
    }
}

/// Why one of several cannot be planned, which is a row of the answer; of one alone it is a failure.
fn side_by_side(error: PlanError, alone: bool) -> Result<String, Failure> {
    match error {
        PlanError::Faults(faults) if !alone => {
            let first = faults.list.first().map(|fault| match &fault.help {
                // What would be right: the names that there are, or a smaller model.
                Some(help) => format!("{} ({help})", fault.message),
                None => fault.message.clone(),
            });
            Ok(first.unwrap_or_default())
        }
        PlanError::Question(why) if !alone => Ok(why),
        error => Err(failed(error)),
    }
}

/// A chip or a model without an answer, and why.
fn screen_line(title: &str, why: &str) -> String {
    screen::hanging(&format!("{title}: none: {why}"), 2)
}

/// Whether a file can be written there, as far as can be told before.
fn writable(file: &Path) -> Result<(), Failure> {
    let folder = match file.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let is_folder = fs::metadata(folder).and_then(|found| {
        if found.is_dir() {
            Ok(())
        } else {
            Err(io::ErrorKind::NotADirectory.into())
        }
    });
    let fault = |error: io::Error| Failure::write(file.display(), &error);
    is_folder.map_err(fault)?;
    if file.is_dir() {
        return Err(fault(io::ErrorKind::IsADirectory.into()));
    }
    Ok(())
}
