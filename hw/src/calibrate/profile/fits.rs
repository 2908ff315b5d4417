//! Forms of stages fitted to what was measured, and how well they fit.

use sim::spec::model::StageKind;
use sim::world::{EngineId, StageId, World};

use super::ProfileError;
use crate::calibrate::drift::Drift;
use crate::calibrate::fit::{Fit, Mean, Terms, block, fit, fit_beside};
use crate::calibrate::point::{Measured, Point, Series};
use crate::calibrate::stalls::{self, Stalls};

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
    /// Samples, without those that stalled.
    pub samples: usize,
    /// Spread of the samples of one point taken at about the same time: coefficient of variation.
    pub cv: f64,
    /// What stalled: no part of the form or of the spread.
    pub stalls: Stalls,
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
    pub(super) fn uncertainty(&self) -> f64 {
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
        // How often it stalls while it is used is not known better than how often it did here.
        let stalled = self.stalls.share.powi(2);
        (2.0 * (unexplained + sampled + stalled).sqrt()).min(0.9)
    }
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

pub(super) fn fits(
    world: &World,
    measured: &Measured,
    later: Option<&Measured>,
) -> Result<Vec<Quality>, ProfileError> {
    let mut all = Vec::new();
    for (index, engine) in world.engines.iter().enumerate() {
        let points = |kind| points(measured, &engine.name, kind);
        let means = |kind| {
            let (points, _) = points(kind);
            points.iter().map(|(mean, _)| *mean).collect::<Vec<_>>()
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
            let (series, stalls) = points(kind);
            let mean = mean_of(&over_form(&series, &fit)).unwrap_or(1.0);
            fit.form.scale(mean);
            let refreshed = later.and_then(|later| {
                let (series, _) = self::points(later, &engine.name, kind);
                Refreshed::of(&over_form(&series, &fit))
            });
            if let Some(refreshed) = refreshed {
                fit.form.scale(refreshed.factor());
            }
            let by_form: Vec<(&Series, f64)> = series
                .iter()
                .map(|(point, series)| (series, fit.form.at(point.size, point.context)))
                .collect();
            let walls = by_form.iter();
            let drift = Drift::of(walls.map(|(series, form)| (series.wall.as_slice(), *form)));
            let spread = spread(&by_form);
            all.push(Quality {
                engine: engine.name.clone(),
                kind,
                cold: cold(measured, &engine.name, kind, &fit),
                fit,
                mean,
                samples: series.iter().map(|(_, series)| series.wall.len()).sum(),
                // What samples of a round have in common, those of a run have too: it makes none of its stages later
                // than another, and is in the interval.
                cv: (spread.powi(2) - drift.cv.powi(2)).max(0.0).sqrt(),
                stalls,
                drift,
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

/// The points of a stage on an engine, medians, with their samples but for those that stalled.
fn points(measured: &Measured, on: &str, of: StageKind) -> (Vec<(Mean, Series)>, Stalls) {
    let points = measured
        .series
        .iter()
        .filter_map(|(point, series)| match point {
            Point::Stage {
                engine,
                kind,
                size,
                context,
            } if engine == on && *kind == of => Some(((*size, *context), series.clone())),
            _ => None,
        });
    let (at, mut series): (Vec<_>, Vec<_>) = points.unzip();
    let stalls = stalls::take(of, &mut series);
    let points = at.into_iter().zip(series).filter_map(|(at, series)| {
        let (size, context) = at;
        let mean = Mean {
            size: size as f64,
            context: f64::from(context),
            secs: series.median()?,
        };
        Some((mean, series))
    });
    (points.collect(), stalls)
}

/// Time ÷ time by the form, of all samples.
fn over_form(series: &[(Mean, Series)], fit: &Fit) -> Vec<f64> {
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

/// Pooled coefficient of variation: samples about their points' means, by the points' times by the form, since that is
/// what the simulator multiplies.
fn spread(series: &[(&Series, f64)]) -> f64 {
    let (mut square, mut freedom) = (0.0, 0.0);
    for (series, form) in series {
        if let Some((_, deviation)) = series.moments() {
            let degrees = (series.wall.len() - 1) as f64;
            square += degrees * (deviation / form).powi(2);
            freedom += degrees;
        }
    }
    if freedom > 0.0 {
        (square / freedom).sqrt()
    } else {
        0.0
    }
}
