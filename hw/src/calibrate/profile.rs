//! Measurements to a profile: costs of a model on a SoC, and the SoC's ports and pair slowdowns.

use std::fmt::Write as _;

use sim::dispatch::Task;
use sim::soc::Beside;
use sim::spec::model::StageKind;
use sim::world::{EngineId, LaneId, StageId, StreamId, World};
use toml_edit::Value;

use super::drift::Drift;
use super::fit::{Fit, Mean, Terms, block, fit, fit_beside};
use super::point::{Measured, Point, Series, kind_name};
use soc::soc_text;

mod soc;

/// What the notes of a profile say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// Date, as people write it.
    pub date: String,
    /// Machine.
    pub host: String,
    /// Versions of what computed.
    pub versions: String,
    /// Bytes of the language model's copy that each processor loads for itself; `None`: not known.
    pub weights_copy_bytes: Option<u64>,
}

/// How well a stage's form fits, for people.
#[derive(Clone, Debug, PartialEq)]
pub struct Quality {
    /// Engine, by name.
    pub engine: String,
    /// Kind of stage.
    pub kind: StageKind,
    /// The fit.
    pub fit: Fit,
    /// Mean over all samples of time ÷ the form that fits the medians; the form has been multiplied by it,
    /// since costs are means. Above 1 where single samples took much longer than others.
    pub mean: f64,
    /// Samples.
    pub samples: usize,
    /// Spread of the samples of one point: coefficient of variation.
    pub cv: f64,
    /// How much the whole stage is faster at one time than at another.
    pub drift: Drift,
    /// What was measured after all of that, if anything was.
    pub refreshed: Option<Refreshed>,
    /// Time of the first run of a size in a process ÷ time by the form; `None`: it was not seen.
    pub cold: Option<f64>,
}

/// Later samples of a stage beside the form of earlier ones: how fast the machine is now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Refreshed {
    /// Mean over the later samples of time ÷ the form.
    pub ratio: f64,
    /// Standard error of that mean.
    pub error: f64,
    /// Later samples.
    pub samples: usize,
}

impl Refreshed {
    /// Of times ÷ the form's; `None` of fewer than two.
    fn of(ratios: &[f64]) -> Option<Self> {
        let samples = ratios.len();
        if samples < 2 {
            return None;
        }
        let ratio = ratios.iter().sum::<f64>() / samples as f64;
        let square: f64 = ratios.iter().map(|each| (each - ratio).powi(2)).sum();
        let error = (square / (samples - 1) as f64 / samples as f64).sqrt();
        Some(Self {
            ratio,
            error,
            samples,
        })
    }

    /// What the form is multiplied by: the ratio, drawn towards 1 as far as noise may have made it (positive-part
    /// shrinkage of James and Stein). Copies scatter so much that a few say little.
    pub fn factor(&self) -> f64 {
        let change = self.ratio - 1.0;
        let noise = (self.error / change).powi(2);
        if noise < 1.0 {
            1.0 + change * (1.0 - noise)
        } else {
            1.0
        }
    }
}

impl Quality {
    /// How far the form may be off, as a part of it, about 95 %: by what it leaves unexplained at the measured
    /// points, by how few samples there are, and because what is predicted happens at another time.
    fn uncertainty(&self) -> f64 {
        let square: f64 = self.fit.residuals.iter().map(|error| error * error).sum();
        let freedom = self.fit.points.saturating_sub(self.fit.form.coefficients());
        let unexplained = if freedom > 0 {
            square / freedom as f64
        } else {
            square
        };
        let rounds = self.drift.rounds.max(1) as f64;
        // What was measured last replaces what the rounds before had in common.
        let common = self
            .refreshed
            .map_or(self.drift.cv.powi(2) / rounds, |now| now.error.powi(2));
        let sampled = self.cv.powi(2) / self.samples.max(1) as f64 + self.drift.cv.powi(2) + common;
        // A cost cannot be negative.
        (2.0 * (unexplained + sampled).sqrt()).min(0.9)
    }
}

/// A slowdown of one engine by another.
#[derive(Clone, Debug, PartialEq)]
pub struct Slowdown {
    /// Engine that is watched.
    pub victim: String,
    /// What it does.
    pub does: StageKind,
    /// Engine beside it.
    pub aggressor: String,
    /// What that does.
    pub beside: StageKind,
    /// Time beside ÷ time alone, as measured; noise may make it less than 1.
    pub factor: f64,
    /// The part of it that comes from sharing CPU cores, as the simulator has it: pins say so, and it is
    /// not the memory's.
    pub cpu: f64,
}

/// A calibrated profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The cost file.
    pub costs: String,
    /// The SoC's file, with what was measured put in.
    pub soc: String,
    /// How well each form fits.
    pub quality: Vec<Quality>,
    /// Slowdowns by pair.
    pub slowdowns: Vec<Slowdown>,
}

/// Why there is no profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The SoC's file is not one.
    #[error("the SoC's profile cannot be changed: {0}")]
    Soc(String),
    /// Nothing was measured of a stage that the profile must have.
    #[error("no sample of `{stage}` on engine `{engine}`: its cost cannot be given")]
    NoSample {
        /// Engine, by name.
        engine: String,
        /// Stage, by name.
        stage: String,
    },
}

/// Fits what was measured. `later` is what was measured again after that: each stage's form is multiplied by what
/// its samples there take of it. `soc` is the SoC's file as it is; its memory, lanes, weights and power stay.
pub fn profile(
    world: &World,
    measured: &Measured,
    later: Option<&Measured>,
    soc: &str,
    provenance: &Provenance,
) -> Result<Profile, ProfileError> {
    let fits = fits(world, measured, later)?;
    let ports = ports(world, measured);
    let costs = costs_text(world, &fits, provenance);
    let slowdowns = slowdowns(world, measured);
    let soc = soc_text(world, soc, &fits, &ports, &slowdowns, measured, provenance)?;
    Ok(Profile {
        costs,
        soc,
        quality: fits,
        slowdowns,
    })
}

const KINDS: [StageKind; 7] = [
    StageKind::Encode,
    StageKind::Project,
    StageKind::Ingest,
    StageKind::QueryPrefill,
    StageKind::Decode,
    StageKind::Export,
    StageKind::Import,
];

fn fits(
    world: &World,
    measured: &Measured,
    later: Option<&Measured>,
) -> Result<Vec<Quality>, ProfileError> {
    let mut all = Vec::new();
    for (index, engine) in world.engines.iter().enumerate() {
        let points = |kind| points(measured, &engine.name, kind);
        let means = |kind| {
            points(kind)
                .iter()
                .map(|(mean, _)| *mean)
                .collect::<Vec<_>>()
        };
        // A decode shows best in what blocks an engine reads contexts; its other stages read the same ones.
        let block = block(&means(StageKind::Decode), Terms::DECODE);
        for kind in KINDS {
            let stage = world.stages.iter().position(|stage| stage.kind == kind);
            let Some(stage) = stage else { continue };
            let id = EngineId(index as u8);
            if world.costs.get(id, StageId(stage as u8)).is_none() {
                continue;
            }
            let terms = |kind| Terms {
                block,
                ..terms(kind)
            };
            let missing = || ProfileError::NoSample {
                engine: engine.name.clone(),
                stage: world.stages[stage].name.clone(),
            };
            let twin = match kind {
                StageKind::Ingest => Some(StageKind::QueryPrefill),
                StageKind::QueryPrefill => Some(StageKind::Ingest),
                _ => None,
            };
            let fit = match twin.map(|twin| (means(twin), terms(twin))) {
                Some((twin, its)) => fit_beside(&means(kind), terms(kind), (&twin, its)),
                None => fit(&means(kind), terms(kind)),
            };
            let mut fit = fit.ok_or_else(missing)?;
            let series = points(kind);
            let mean = mean_of(&over_form(&series, &fit)).unwrap_or(1.0);
            fit.form.scale(mean);
            let refreshed = later.and_then(|later| {
                Refreshed::of(&over_form(&self::points(later, &engine.name, kind), &fit))
            });
            if let Some(refreshed) = refreshed {
                fit.form.scale(refreshed.factor());
            }
            all.push(Quality {
                engine: engine.name.clone(),
                kind,
                cold: cold(measured, &engine.name, kind, &fit),
                fit,
                mean,
                samples: series.iter().map(|(_, series)| series.wall.len()).sum(),
                cv: spread(series.iter().map(|(_, series)| *series)),
                drift: Drift::of(series.iter().map(|(_, series)| series.wall.as_slice())),
                refreshed,
            });
        }
    }
    Ok(all)
}

fn terms(kind: StageKind) -> Terms {
    match kind {
        StageKind::Encode => Terms::FIXED,
        StageKind::Export | StageKind::Import | StageKind::Project => Terms::NO_CONTEXT,
        StageKind::QueryPrefill => Terms::FORK,
        StageKind::Decode => Terms::DECODE,
        _ => Terms::INGEST,
    }
}

/// The points of a stage on an engine, medians, with their samples.
fn points<'m>(measured: &'m Measured, on: &str, of: StageKind) -> Vec<(Mean, &'m Series)> {
    let points = measured
        .series
        .iter()
        .filter_map(|(point, series)| match point {
            Point::Stage {
                engine,
                kind,
                size,
                context,
            } if engine == on && *kind == of => {
                let mean = Mean {
                    size: *size as f64,
                    context: f64::from(*context),
                    secs: series.median()?,
                };
                Some((mean, series))
            }
            _ => None,
        });
    points.collect()
}

/// Time ÷ time by the form, of all samples.
fn over_form(series: &[(Mean, &Series)], fit: &Fit) -> Vec<f64> {
    let ratios = series.iter().flat_map(|(point, series)| {
        let form = fit.form.at(point.size, point.context);
        series.wall.iter().map(move |secs| secs / form)
    });
    ratios.collect()
}

/// Their mean; `None` of nothing.
fn mean_of(ratios: &[f64]) -> Option<f64> {
    let sum = ratios.iter().sum::<f64>();
    (sum > 0.0).then(|| sum / ratios.len() as f64)
}

/// Time of the first run of a size in a process ÷ its time by the form; the mean over sizes and processes.
fn cold(measured: &Measured, on: &str, of: StageKind, fit: &Fit) -> Option<f64> {
    let mut ratios = Vec::new();
    for (point, series) in &measured.series {
        if let Point::Cold {
            engine,
            kind,
            size,
            context,
        } = point
            && (engine.as_str(), *kind) == (on, of)
        {
            let warm = fit.form.at(*size as f64, f64::from(*context));
            ratios.extend(series.wall.iter().map(|secs| secs / warm));
        }
    }
    mean_of(&ratios)
}

/// Pooled coefficient of variation of samples about their points' means.
fn spread<'s>(series: impl Iterator<Item = &'s Series>) -> f64 {
    let (mut square, mut freedom) = (0.0, 0.0);
    for series in series {
        if let Some((mean, deviation)) = series.moments()
            && mean > 0.0
        {
            let degrees = (series.wall.len() - 1) as f64;
            square += degrees * (deviation / mean).powi(2);
            freedom += degrees;
        }
    }
    if freedom > 0.0 {
        (square / freedom).sqrt()
    } else {
        0.0
    }
}

/// The greatest reading rate of an engine's lanes alone, GB/s, by engine.
fn ports(world: &World, measured: &Measured) -> Vec<Option<f64>> {
    let rate = |lane: &str| {
        let point = Point::Stream {
            lane: lane.to_owned(),
            together: false,
        };
        measured.series.get(&point).and_then(Series::median)
    };
    (0..world.engines.len())
        .map(|engine| {
            let lanes = world.lanes.iter();
            lanes
                .filter(|lane| usize::from(lane.engine.0) == engine)
                .filter_map(|lane| rate(&lane.name))
                .max_by(f64::total_cmp)
        })
        .collect()
}

/// The part of a stage's slowdown beside another that comes from sharing CPU cores.
fn cpu_factor(world: &World, pair: [(&str, StageKind); 2]) -> Option<f64> {
    let beside = |(engine, kind): (&str, StageKind)| {
        let lane = world
            .lanes
            .iter()
            .position(|lane| world.engines[usize::from(lane.engine.0)].name == engine)?;
        let stage = world.stages.iter().position(|stage| stage.kind == kind)?;
        let (lane, stage) = (LaneId(lane as u8), StageId(stage as u8));
        world.costs.get(world.engine_of(lane), stage)?;
        let task = Task {
            stage,
            ticket: 0,
            stream: StreamId(0),
            size: 1,
            context: 0,
            version: 0,
            source: EngineId(0),
        };
        Some(Beside { lane, task })
    };
    let [victim, aggressor] = pair;
    let tasks = [beside(victim)?, beside(aggressor)?];
    sim::soc::corun(world, &tasks)
        .first()
        .map(|corun| corun.cpu)
}

fn slowdowns(world: &World, measured: &Measured) -> Vec<Slowdown> {
    let beside = measured.series.iter().filter_map(|(point, series)| {
        let Point::Pair {
            victim,
            does,
            aggressor,
            beside,
            busy: true,
        } = point
        else {
            return None;
        };
        let alone = Point::Pair {
            victim: victim.clone(),
            does: *does,
            aggressor: aggressor.clone(),
            beside: *beside,
            busy: false,
        };
        let alone = measured.series.get(&alone)?.median()?;
        Some(Slowdown {
            victim: victim.clone(),
            does: *does,
            aggressor: aggressor.clone(),
            beside: *beside,
            factor: series.median()? / alone,
            cpu: cpu_factor(world, [(victim, *does), (aggressor, *beside)])?,
        })
    });
    beside.collect()
}

/// Greatest of some errors, as a percentage.
fn worst(errors: &[f64]) -> f64 {
    100.0 * errors.iter().map(|error| error.abs()).fold(0.0, f64::max)
}

fn costs_text(world: &World, fits: &[Quality], provenance: &Provenance) -> String {
    let mut text = String::new();
    let mut origins = String::new();
    _ = write!(
        text,
        "# Written by `crossinfer calibrate`.\nsoc = {}\nmodel = {}\n",
        quoted(&world.soc_key),
        quoted(&world.model_key)
    );
    for (index, engine) in world.engines.iter().enumerate() {
        let id = EngineId(index as u8);
        let computes = |kind| {
            fits.iter()
                .any(|fit| fit.engine == engine.name && fit.kind == kind)
        };
        if let Some(bytes) = provenance.weights_copy_bytes
            && computes(StageKind::Ingest)
        {
            _ = write!(
                text,
                "\n[engines.{}]\nweights_copy_bytes = {{ value = {bytes}, origin = \"own_copy\" }}\n",
                quoted(&engine.name)
            );
        }
        for quality in fits.iter().filter(|fit| fit.engine == engine.name) {
            let key = format!("{}_{}", engine.name, kind_name(quality.kind));
            stage_text(&mut text, world, id, quality, &key);
            _ = write!(
                origins,
                "\n[origins.{}]\nkind = \"measured\"\nnote = {}\n",
                quoted(&key),
                quoted(&note(quality, provenance))
            );
        }
        let mut unsupported = String::new();
        for (stage, of) in world.stages.iter().enumerate() {
            let runs = world.costs.get(id, StageId(stage as u8)).is_some();
            if !runs && of.kind != StageKind::Custom {
                _ = writeln!(
                    unsupported,
                    "{} = \"the profile that was calibrated has no cost of it here\"",
                    quoted(&of.name)
                );
            }
        }
        if !unsupported.is_empty() {
            _ = write!(
                text,
                "\n[engines.{}.unsupported]\n{unsupported}",
                quoted(&engine.name)
            );
        }
    }
    if text.contains("origin = \"own_copy\"") {
        text += "\n[origins.own_copy]\nkind = \"measured\"\nnote = ";
        text += &quoted(&format!(
            "{}, {}: size of the model's file; each processor loads a copy of its own",
            provenance.date, provenance.host
        ));
        text.push('\n');
    }
    if text.contains("origin = \"carried\"") {
        text += "\n[origins.carried]\nkind = \"derived\"\nnote = \"DRAM bytes, CPU cores beside the engine and power are as in the profile that was calibrated\"\n";
    }
    text + &origins
}

fn stage_text(text: &mut String, world: &World, id: EngineId, quality: &Quality, key: &str) {
    let engine = &world.engines[id.0 as usize].name;
    let form = &quality.fit.form;
    _ = write!(
        text,
        "\n[engines.{}.stages.{}]\norigin = {}\n",
        quoted(engine),
        kind_name(quality.kind),
        quoted(key)
    );
    let within = quality.uncertainty();
    let mut number = |key: &str, value: f64| {
        if value > 0.0 {
            let (low, high) = (value * (1.0 - within), value * (1.0 + within));
            _ = writeln!(
                text,
                "{key} = {{ value = {value:e}, low = {low:e}, high = {high:e} }}"
            );
        }
    };
    let transfer = matches!(quality.kind, StageKind::Export | StageKind::Import);
    number("fixed_s", form.fixed);
    if transfer {
        if form.per_token > 0.0 {
            number("gbps", 1e-9 / form.per_token);
        }
    } else {
        number("per_token_s", form.per_token);
        number("per_token_context_s", form.per_token_context);
        number("per_context_s", form.per_context);
    }
    if quality.cv > 0.0 {
        _ = writeln!(text, "cv = {:e}", quality.cv);
    }
    if form.block > 0.0 && form.per_token_context > 0.0 {
        _ = writeln!(text, "context_block = {}", form.block);
    }
    if !form.table.is_empty() {
        let (sizes, secs): (Vec<String>, Vec<String>) = form
            .table
            .iter()
            .map(|(size, secs)| (format!("{size:?}"), format!("{secs:e}")))
            .unzip();
        _ = writeln!(
            text,
            "table = {{ size = [{}], time_s = [{}] }}",
            sizes.join(", "),
            secs.join(", ")
        );
    }
    let stage = world
        .stages
        .iter()
        .position(|stage| stage.kind == quality.kind);
    let costs = stage.and_then(|stage| world.costs.get(id, StageId(stage as u8)));
    if let Some(costs) = costs {
        let carried = [
            ("host_cores", costs.host_cores),
            ("host_share", costs.host_share),
            ("active_w", costs.active_w.unwrap_or(0.0)),
            ("bytes", costs.alone.bytes_fixed),
            ("bytes_per_token", costs.alone.bytes_per_token),
            (
                "bytes_per_token_context",
                costs.alone.bytes_per_token_context,
            ),
            ("bytes_per_context", costs.alone.bytes_per_context),
        ];
        for (key, value) in carried.into_iter().filter(|(_, value)| *value > 0.0) {
            _ = writeln!(
                text,
                "{key} = {{ value = {value:e}, origin = \"carried\" }}"
            );
        }
    }
    if !transfer && quality.kind != StageKind::Encode {
        let range = |values: &[f64]| {
            let low = values.iter().copied().fold(f64::INFINITY, f64::min);
            let high = values.iter().copied().fold(0.0, f64::max);
            format!("[{low}, {high}]")
        };
        _ = writeln!(text, "measured_tokens = {}", range(&quality.fit.sizes));
        if quality.kind != StageKind::Project {
            _ = writeln!(text, "measured_context = {}", range(&quality.fit.contexts));
        }
    }
}

fn note(quality: &Quality, provenance: &Provenance) -> String {
    let Provenance {
        date,
        host,
        versions,
        ..
    } = provenance;
    let cold = quality.cold.map_or_else(String::new, |cold| {
        format!("; the first run of a size in a process took {cold:.2} times as long")
    });
    let left_out = if quality.fit.left_out.is_empty() {
        "too few points to leave one out".to_owned()
    } else {
        format!("left out {:.1} %", worst(&quality.fit.left_out))
    };
    let refreshed = quality.refreshed.map_or_else(String::new, |now| {
        format!(
            "; multiplied by {:.3}, since {} samples taken later are {:.3} ± {:.3} of that",
            now.factor(),
            now.samples,
            now.ratio,
            now.error
        )
    });
    format!(
        "{date}, {host}, {versions}: {} samples of {} points, fitted to medians and multiplied by {:.3}, the mean of samples ÷ form; worst error of the form {:.1} %, {left_out}; its {} rounds differ by {:.1} %{cold}{refreshed}",
        quality.samples,
        quality.fit.points,
        quality.mean,
        worst(&quality.fit.residuals),
        quality.drift.rounds,
        100.0 * quality.drift.cv,
    )
}

/// A TOML string.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
