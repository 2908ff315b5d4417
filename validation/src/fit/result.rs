//! What a fit found.

use serde::Serialize;
use serde_json::{Value, json};
use sim::diag::Faults;
use sim::load::Numbers;

use super::identify::{Direction, Group, Shape};
use super::likelihood::{Ends, Profiled, misfit};
use super::problem::{Observation, Place, Problem, plain};
use super::write::{self, Overlay, Written};
use crate::folder::Stock;
use crate::published::{Bench, Configuration, Measurements, Role, Row};

/// Points of the confidence set at which the outcomes are predicted.
const POINTS_MAX: usize = 64;

/// A fit.
#[derive(Debug)]
pub struct Fit {
    /// What it is for.
    pub title: String,
    /// File that describes it.
    pub spec: String,
    /// Key of the origin of its numbers.
    pub origin: String,
    /// File of the measurements.
    pub measurements: String,
    /// Who measured, if the file says.
    pub source: Option<String>,
    /// The parameters.
    pub parameters: Vec<Parameter>,
    /// The rows that were fitted.
    pub rows: Vec<FittedRow>,
    /// Sum of squared residuals, in standard deviations.
    pub chi2: f64,
    /// Rows less parameters; 0 where there are no more rows than parameters.
    pub freedom: usize,
    /// By what factor the squares of the rows' errors were enlarged for the intervals, because the fit is
    /// worse than they say; at least 1.
    pub misfit: f64,
    /// Sum of squares that each start came to; `None` where the rows could not be predicted.
    pub starts: Vec<Option<f64>>,
    /// Starts that came to another minimum, which explains the rows nearly as well; the intervals reach to it.
    pub apart: usize,
    /// Error of the rows that state no standard deviation, as a part of their values: assumed, not measured.
    pub assumed_error: f64,
    /// Combinations of parameters that the rows do not pin down.
    pub weak: Vec<Direction>,
    /// The parameters in groups that no row ties to each other; empty where a row cannot be predicted beside the
    /// minimum.
    pub groups: Vec<Group>,
    /// Outcomes that the filters match; they took no part.
    pub held_out: Vec<Row>,
    /// Outcomes that read a fitted number, as the fit predicts them.
    pub predicted: Vec<HeldOut>,
    /// How often the rows were predicted.
    pub evaluations: u64,
    places: Vec<Vec<Place>>,
    texts: Vec<(String, String)>,
    configurations: Vec<Configuration>,
}

/// A fitted parameter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parameter {
    /// Name.
    pub name: String,
    /// Best value.
    pub value: f64,
    /// Lower end of its 95 % interval, or its bound.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Whether the rows give the ends.
    pub identified: Identified,
    /// Value that the profile had.
    pub was: f64,
    /// Profiles and numbers that it sets.
    pub sets: Vec<String>,
    /// Why its bounds are as they are.
    pub note: Option<String>,
}

/// What the rows say of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Identified {
    /// Both ends of its interval.
    Both,
    /// The lower end; above, its bound stops it.
    Below,
    /// The upper end; below, its bound stops it.
    Above,
    /// Nothing within its bounds.
    No,
}

/// A calibration row with what the fit makes of it.
#[derive(Clone, Debug, PartialEq)]
pub struct FittedRow {
    /// The row.
    pub row: Row,
    /// Value that comes out, in the row's unit.
    pub fitted: f64,
    /// Standard deviation that it was weighted by, in the row's unit: the row's own, or, where it states none, the
    /// assumed error.
    pub sigma: f64,
}

/// An outcome as the fit predicts it.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldOut {
    /// The row.
    pub row: Row,
    /// Value with the best parameters, in the row's unit.
    pub value: f64,
    /// Least value over the fit's 95 % confidence set.
    pub low: f64,
    /// Largest value over it.
    pub high: f64,
}

impl FittedRow {
    /// Its error; see [`Row::error_of`].
    pub fn error(&self) -> f64 {
        self.row.error_of(self.fitted)
    }
}

impl HeldOut {
    /// Its error; see [`Row::error_of`].
    pub fn error(&self) -> f64 {
        self.row.error_of(self.value)
    }
}

impl Parameter {
    /// Whether the profile held this value before, as far as the fit resolves it.
    pub fn was_so(&self) -> bool {
        let room = f64::max(0.05 * (self.high - self.low), 1e-3 * self.value.abs());
        (self.was - self.value).abs() <= room
    }
}

impl Identified {
    fn of(ends: Ends) -> Self {
        match (ends.low_found, ends.high_found) {
            (true, true) => Self::Both,
            (true, false) => Self::Below,
            (false, true) => Self::Above,
            (false, false) => Self::No,
        }
    }
}

pub(super) fn build(
    problem: &Problem<'_>,
    file: &Measurements,
    starts: Vec<Option<f64>>,
    profiled: &Profiled,
    shape: Shape,
) -> Result<Fit, Faults> {
    let spec = problem.spec;
    let outcomes = problem.outcomes(file)?;
    let parts = &profiled.best.parts;
    let values = problem.values(parts);
    let parameters = spec.free.iter().zip(values).zip(&profiled.ends);
    let parameters = parameters.zip(problem.places());
    let parameters = parameters.map(|(((free, value), &ends), places)| {
        let at = |part: f64| free.scale.at(free.low, free.high, part);
        Parameter {
            name: free.name.clone(),
            value,
            low: at(ends.low).min(value),
            high: at(ends.high).max(value),
            identified: Identified::of(ends),
            was: places[0].number.value / places[0].times,
            sets: free
                .sets
                .iter()
                .map(|target| format!("{}: {}", target.profile, target.path))
                .collect(),
            note: free.note.clone(),
        }
    });
    Ok(Fit {
        title: spec.title.clone(),
        spec: spec.name.clone(),
        origin: spec.origin(),
        measurements: file.name.clone(),
        source: file.source.clone(),
        parameters: parameters.collect(),
        rows: problem.fitted(parts),
        chi2: profiled.best.chi2,
        freedom: problem.rows.len().saturating_sub(parts.len()),
        misfit: misfit(problem, &profiled.best),
        starts,
        apart: profiled.apart,
        assumed_error: spec.relative_error,
        weak: shape.weak,
        groups: shape.groups,
        held_out: spec
            .chosen(file, Role::Outcome)
            .into_iter()
            .cloned()
            .collect(),
        predicted: predict(problem, &outcomes, profiled),
        evaluations: problem.evaluations(),
        places: problem.places().to_vec(),
        texts: problem.texts().to_vec(),
        configurations: problem
            .rows
            .iter()
            .flat_map(|row| row.configurations.clone())
            .collect(),
    })
}

/// The outcomes at the minimum, and their range over the confidence set.
fn predict(
    problem: &Problem<'_>,
    outcomes: &[Observation<'_>],
    profiled: &Profiled,
) -> Vec<HeldOut> {
    let within = &profiled.within;
    let step = within.len().div_ceil(POINTS_MAX).max(1);
    let points = || within.iter().step_by(step);
    outcomes
        .iter()
        .filter_map(|outcome| {
            let one = std::slice::from_ref(outcome);
            let mut values = points().filter_map(|parts| Some(problem.predict(one, parts)?[0]));
            // The first point is the minimum.
            let value = values.next()?;
            let (low, high) = values.fold((value, value), |(low, high), value| {
                (low.min(value), high.max(value))
            });
            Some(HeldOut {
                row: outcome.row.clone(),
                value,
                low,
                high,
            })
        })
        .collect()
}

impl Fit {
    /// The profiles with the fitted numbers: their text as it was but for these numbers and their origin.
    ///
    /// # Errors
    ///
    /// A number that cannot carry an origin of its own, because it is one of a list; and what makes a
    /// profile wrong now that a number is fitted: it must say where it was measured, as
    /// `measured_tokens` does.
    pub fn profiles(&self, stock: &dyn Stock) -> Result<Vec<Written>, Faults> {
        let mut all = Vec::new();
        for (name, text) in &self.texts {
            let numbers = self.parameters.iter().zip(&self.places);
            let numbers = numbers.flat_map(|(parameter, places)| {
                let same = |place: &&Place| plain(&place.number.file) == plain(name);
                let here = places.iter().filter(same);
                here.map(move |place| (parameter, place))
            });
            let numbers: Vec<_> = numbers.collect();
            all.push(write::write(self, name, text, &numbers)?);
        }
        let overlay = Overlay {
            stock,
            written: &all,
        };
        let bench = Bench::new(&overlay);
        for configuration in &self.configurations {
            bench.world(configuration, &Numbers::default())?;
        }
        Ok(all)
    }

    /// Groups of parameters with rows, but no more rows than parameters: their rows' residuals say nothing.
    pub fn bare(&self) -> impl Iterator<Item = &Group> {
        let groups = self.groups.iter();
        groups.filter(|group| (1..=group.parameters.len()).contains(&group.rows))
    }

    /// Rows whose weight is an assumption.
    pub fn assumed(&self) -> usize {
        let rows = self.rows.iter();
        rows.filter(|fitted| fitted.row.sd.is_none()).count()
    }

    /// Largest error of the fitted rows, per cent (points for shares and changes).
    pub fn worst(&self) -> f64 {
        let errors = self.rows.iter().map(|row| row.error().abs());
        errors.fold(0.0, f64::max)
    }

    /// The same as JSON; `docs/validate.md` describes it.
    pub fn json(&self) -> Value {
        let row = |row: &Row| {
            json!({
                "id": row.id, "platform": row.platform, "model": row.model, "setting": row.setting,
                "config": row.config, "metric": row.metric, "unit": row.unit, "measured": row.value,
                "sd": row.sd, "measured_by": row.source,
            })
        };
        let unit = |row: &Row| if row.in_points() { "points" } else { "%" };
        let with = |mut document: Value, more: &[(&str, Value)]| {
            for (key, value) in more {
                document[*key] = value.clone();
            }
            document
        };
        let rows = self.rows.iter().map(|fitted| {
            let more = [
                ("fitted", json!(fitted.fitted)),
                ("sigma", json!(fitted.sigma)),
                ("sigma_assumed", json!(fitted.row.sd.is_none())),
                ("error", json!(fitted.error())),
                ("error_in", json!(unit(&fitted.row))),
            ];
            with(row(&fitted.row), &more)
        });
        let predicted = self.predicted.iter().map(|held| {
            let more = [
                ("predicted", json!(held.value)),
                ("low", json!(held.low)),
                ("high", json!(held.high)),
                ("error", json!(held.error())),
                ("error_in", json!(unit(&held.row))),
            ];
            with(row(&held.row), &more)
        });
        json!({
            "title": self.title,
            "spec": self.spec,
            "measurements": self.measurements,
            "source": self.source,
            "parameters": self.parameters,
            "weak_directions": self.weak,
            "groups": self.groups,
            "rows": rows.collect::<Vec<_>>(),
            "chi2": self.chi2,
            "freedom": self.freedom,
            "misfit": self.misfit,
            "starts_chi2": self.starts,
            "starts_apart": self.apart,
            "assumed_error": self.assumed_error,
            "evaluations": self.evaluations,
            "held_out": self.held_out.iter().map(row).collect::<Vec<_>>(),
            "predicted": predicted.collect::<Vec<_>>(),
        })
    }
}
