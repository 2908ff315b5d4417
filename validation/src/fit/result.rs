//! What a fit found.

use serde::Serialize;
use serde_json::{Value, json};
use sim::diag::Faults;
use sim::load::Numbers;
use statrs::distribution::{ChiSquared, ContinuousCDF};

use super::account::Account;
use super::identify::{Direction, Group, Shape};
use super::likelihood::{Ends, Profiled, freedom, misfit};
use super::predict::{HeldOut, predict};
use super::problem::{Place, Problem, plain};
use super::solve::Best;
use super::write::{self, Overlay, Written};
use crate::folder::Stock;
use crate::published::{Bench, Configuration, Measurements, Role, Row};

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
    /// Rows less the parameters that they see; 0 where there are no more rows than those.
    pub freedom: usize,
    /// By what factor the squares of the rows' errors were enlarged for the intervals, because the fit is
    /// worse than they say; at least 1.
    pub misfit: f64,
    /// Sum of squares that each start came to; `None` where the rows could not be predicted.
    pub starts: Vec<Option<f64>>,
    /// Of these, starts that came to the best minimum.
    pub came: usize,
    /// Of these, starts whose search ended without a minimum: it could not go on.
    pub unsettled: usize,
    /// Why the rows could not be predicted at starts, each reason once.
    pub start_failures: Vec<String>,
    /// Starts that came to another minimum, which explains the rows nearly as well; the intervals reach to it.
    pub apart: usize,
    /// Error of the rows that state no standard deviation, as a part of their values: assumed, not measured.
    pub assumed_error: f64,
    /// Combinations of parameters that the rows see and do not pin down.
    pub weak: Vec<Direction>,
    /// The parameters in groups that no row ties to each other; empty where a row cannot be predicted beside the
    /// minimum.
    pub groups: Vec<Group>,
    /// Whether some of these are flat were the rows' errors as stated; else they are open only because the errors are
    /// taken as large as the residuals.
    pub flat: bool,
    /// Outcomes that the filters match; they took no part.
    pub held_out: Vec<Row>,
    /// Calibration rows that the filters match and no scenario plays, with the reason.
    pub left_out: Vec<(Row, String)>,
    /// Calibration rows that no filter matches.
    pub not_taken: Vec<Row>,
    /// Filters, or what they list, that match no row of the file.
    pub unmatched: Vec<String>,
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
    /// Whether any row moves with it; else it is the profile's, and the profile stays as it is.
    pub seen: bool,
    /// Value that the profile had.
    pub was: f64,
    /// The least and the most that it could be, as the fit's file says.
    pub bounds: [f64; 2],
    /// The bound at which the best value lies, if it does.
    pub at_bound: Option<Side>,
    /// Profiles and numbers that it sets.
    pub sets: Vec<String>,
    /// Why its bounds are as they are.
    pub note: Option<String>,
}

/// A bound of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The lower.
    Low,
    /// The upper.
    High,
}

/// A value as near to a bound as this part of its scale is at it.
const AT_BOUND: f64 = 1e-3;

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

impl FittedRow {
    /// By how many standard deviations it is off.
    pub fn sigmas(&self) -> f64 {
        (self.fitted - self.row.value) / self.sigma
    }

    /// Its error; see [`Row::error_of`].
    pub fn error(&self) -> f64 {
        self.row.error_of(self.fitted)
    }
}

impl Parameter {
    /// Whether the profile's own value lies outside the bounds.
    pub fn was_outside(&self) -> bool {
        let [low, high] = self.bounds;
        // The last digit of a bound that a fit wrote may be rounded.
        self.was < low * (1.0 - 1e-5) || self.was > high * (1.0 + 1e-5)
    }

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
    solved: &[Option<Best>],
    start_failures: Vec<String>,
    profiled: &Profiled,
    shape: Shape,
) -> Result<Fit, Faults> {
    let spec = problem.spec;
    let ended = || solved.iter().flatten();
    let account = Account::of(spec, file);
    let misfit = misfit(problem, &profiled.best, profiled.unseen.len());
    let outcomes = problem.outcomes(file)?;
    let parts = &profiled.best.parts;
    let values = problem.values(parts);
    let parameters = spec.free.iter().zip(values).zip(&profiled.ends);
    let parameters = parameters.zip(problem.places()).zip(parts).enumerate();
    let parameters = parameters.map(|(at, ((((free, value), &ends), places), part))| {
        let seen = !profiled.unseen.contains(&at);
        let at = |part: f64| free.scale.at(free.low, free.high, part);
        Parameter {
            name: free.name.clone(),
            value,
            low: at(ends.low).min(value),
            high: at(ends.high).max(value),
            identified: Identified::of(ends),
            seen,
            was: places[0].number.value / places[0].times,
            bounds: [free.low, free.high],
            at_bound: match *part {
                part if part < AT_BOUND => Some(Side::Low),
                part if part > 1.0 - AT_BOUND => Some(Side::High),
                _ => None,
            },
            sets: free
                .sets
                .iter()
                .map(|target| format!("{}: {}", target.profile, target.path))
                .collect(),
            note: free.note.clone(),
        }
    });
    let parameters: Vec<Parameter> = parameters.collect();
    Ok(Fit {
        title: spec.title.clone(),
        spec: spec.name.clone(),
        origin: spec.origin(),
        measurements: file.name.clone(),
        source: file.source.clone(),
        parameters,
        rows: problem.fitted(parts),
        chi2: profiled.best.chi2,
        freedom: freedom(problem, profiled.unseen.len()),
        misfit,
        starts: solved
            .iter()
            .map(|best| best.as_ref().map(|best| best.chi2))
            .collect(),
        came: ended()
            .filter(|best| best.settled && best.chi2 <= profiled.best.chi2 + 0.1 * misfit)
            .count(),
        unsettled: ended().filter(|best| !best.settled).count(),
        start_failures,
        apart: profiled.apart,
        assumed_error: spec.relative_error,
        weak: shape.weak,
        flat: shape.flat,
        groups: shape.groups,
        held_out: spec
            .chosen(file, Role::Outcome)
            .into_iter()
            .cloned()
            .collect(),
        left_out: account.left_out,
        not_taken: account.not_taken,
        unmatched: account.unmatched,
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
            // What no row sees stays as it is, with the origin that it has.
            let numbers = numbers.filter(|(parameter, _)| parameter.seen);
            let numbers: Vec<_> = numbers.collect();
            if numbers.is_empty() {
                continue;
            }
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

    /// The parameters that rows see: the ones that are fitted.
    pub fn seen(&self) -> impl Iterator<Item = &Parameter> {
        self.parameters.iter().filter(|parameter| parameter.seen)
    }

    /// The parameters that no row sees: the profiles' values stay.
    pub fn unseen(&self) -> impl Iterator<Item = &Parameter> {
        self.parameters.iter().filter(|parameter| !parameter.seen)
    }

    /// Groups of parameters with rows, but no more rows than parameters: their rows' residuals say nothing.
    pub fn bare(&self) -> impl Iterator<Item = &Group> {
        let groups = self.groups.iter();
        groups.filter(|group| (1..=group.parameters.len()).contains(&group.rows))
    }

    /// Whether the sum of squares is so large that errors as stated would give one like it less than once in a
    /// thousand fits: rows contradict each other, or the model cannot explain them.
    pub fn contradicted(&self) -> bool {
        let law = ChiSquared::new(self.freedom as f64);
        law.is_ok_and(|law| law.sf(self.chi2) < 1e-3)
    }

    /// The rows that are furthest off, more than three of their standard deviations, the furthest first; at most three.
    pub fn furthest(&self) -> Vec<&FittedRow> {
        let mut rows: Vec<&FittedRow> = self.rows.iter().collect();
        rows.retain(|fitted| fitted.sigmas().abs() > 3.0);
        rows.sort_by(|a, b| b.sigmas().abs().total_cmp(&a.sigmas().abs()));
        rows.truncate(3);
        rows
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
                ("with_unseen", json!(held.hidden)),
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
            "starts_unsettled": self.unsettled,
            "starts_failed": self.start_failures,
            "starts_apart": self.apart,
            "assumed_error": self.assumed_error,
            "evaluations": self.evaluations,
            "calibration_left_out": self.left_out.iter().map(|(out, why)| with(row(out), &[("why", json!(why))])).collect::<Vec<_>>(),
            "calibration_not_taken": self.not_taken.iter().map(row).collect::<Vec<_>>(),
            "filters_without_rows": self.unmatched,
            "held_out": self.held_out.iter().map(row).collect::<Vec<_>>(),
            "predicted": predicted.collect::<Vec<_>>(),
        })
    }
}
