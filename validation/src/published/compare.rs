//! Every row beside its prediction.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sim::diag::Faults;

use super::bounds::Bound;
use super::lab::{Lab, Predicted, Prediction, quantile};
use super::rows::{Measurements, Role, Row};

/// A row beside its prediction.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// The row.
    pub row: Row,
    /// What the simulator says in its place.
    pub predicted: Predicted,
}

/// All rows of a file beside their predictions.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Name of the measurement file.
    pub file: String,
    /// Who measured, if the file says.
    pub source: Option<String>,
    /// The rows, in order.
    pub rows: Vec<Compared>,
    /// Profiles that take the place of those that come with crossinfer, for published rows too: file, with the keys of
    /// its fitted origins. Whoever knows what comes with it fills this in.
    pub replaced: Vec<(String, Vec<String>)>,
}

/// Sizes of the errors of several rows, in per cent or in points.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Errors {
    /// Rows.
    pub rows: usize,
    /// Median.
    pub median: f64,
    /// 90th percentile, interpolated between neighbours.
    pub p90: f64,
    /// Largest.
    pub worst: f64,
    /// Rows with an interval.
    pub with_interval: usize,
    /// Of these, rows whose measured value lies within it.
    pub inside: usize,
}

/// Predicts every row of a file.
///
/// # Errors
///
/// All faults of what the rows name ([`Lab::check`]).
pub fn compare(lab: &mut Lab<'_>, file: &Measurements) -> Result<Comparison, Faults> {
    lab.check(file)?;
    let mut rows = Vec::with_capacity(file.rows.len());
    for row in &file.rows {
        rows.push(Compared {
            row: row.clone(),
            predicted: lab.predict(file, row)?,
        });
    }
    Ok(Comparison {
        file: file.name.clone(),
        source: file.source.clone(),
        rows,
        replaced: Vec::new(),
    })
}

impl Compared {
    /// The prediction, if there is one.
    pub fn prediction(&self) -> Option<&Prediction> {
        match &self.predicted {
            Predicted::Value(prediction) => Some(prediction),
            Predicted::Not(_) => None,
        }
    }

    /// Whether the error is in points (hundredths), not in per cent of the value.
    pub fn in_points(&self) -> bool {
        self.row.in_points()
    }

    /// The prediction's error, see [`Row::error_of`]; `None` also where 0 was measured and something
    /// else predicted: no per cent say how far that is off.
    pub fn error(&self) -> Option<f64> {
        let error = self.row.error_of(self.prediction()?.value);
        error.is_finite().then_some(error)
    }

    /// How far off the prediction may be, and whether it is within that; `None` for a row without a
    /// bound or without a prediction.
    pub fn bound(&self) -> Option<(Bound, bool)> {
        let bound = Bound::of(&self.row)?;
        Some((bound, bound.met(&self.row, self.prediction()?.value)))
    }

    /// Whether the measured value lies within the prediction's interval, if there is one; or would,
    /// were it two standard deviations nearer.
    pub fn inside(&self) -> Option<bool> {
        let interval = self.prediction()?.interval?;
        let spread = 2.0 * self.row.sd.unwrap_or(0.0);
        Some((interval.low - spread..=interval.high + spread).contains(&self.row.value))
    }
}

impl Errors {
    /// Of these rows; `None` if none has a prediction.
    pub fn of<'c>(rows: impl Iterator<Item = &'c Compared>) -> Option<Self> {
        let mut sizes = Vec::new();
        let (mut with_interval, mut inside) = (0, 0);
        for row in rows {
            let Some(error) = row.error() else { continue };
            sizes.push(error.abs());
            with_interval += usize::from(row.inside().is_some());
            inside += usize::from(row.inside() == Some(true));
        }
        sizes.sort_by(f64::total_cmp);
        Some(Self {
            rows: sizes.len(),
            median: quantile(&sizes, 0.5),
            p90: quantile(&sizes, 0.9),
            worst: *sizes.last()?,
            with_interval,
            inside,
        })
    }
}

impl Comparison {
    /// The rows of a role that have a prediction.
    pub fn predicted(&self, role: Role) -> impl Iterator<Item = &Compared> {
        let rows = self.rows.iter();
        rows.filter(move |row| row.row.role == role && row.prediction().is_some())
    }

    /// The rows that no scenario predicts, with the reasons.
    pub fn not_covered(&self) -> impl Iterator<Item = (&Row, &str)> {
        self.rows.iter().filter_map(|row| match &row.predicted {
            Predicted::Not(why) => Some((&row.row, why.as_str())),
            Predicted::Value(_) => None,
        })
    }

    /// Errors of a role by SoC, then overall (`None`): in per cent, or in points.
    pub fn errors(&self, role: Role, points: bool) -> Vec<(Option<&str>, Errors)> {
        let of = |platform: Option<&str>| {
            let rows = self.predicted(role);
            Errors::of(rows.filter(|row| {
                row.in_points() == points
                    && platform.is_none_or(|platform| row.row.platform == platform)
            }))
        };
        let platforms = self.predicted(role).map(|row| row.row.platform.as_str());
        let mut platforms: Vec<&str> = platforms.collect();
        platforms.sort_unstable();
        platforms.dedup();
        let platforms = platforms.into_iter().map(Some).chain([None]);
        platforms
            .filter_map(|platform| Some((platform, of(platform)?)))
            .collect()
    }

    /// The outcomes whose error is larger than `most`, in per cent or points, or larger than the file
    /// itself allows them, or has no size.
    pub fn beyond(&self, most: Option<f64>) -> Vec<&Compared> {
        let beyond = |row: &&Compared| {
            let bounds = [most, row.row.max_error].into_iter().flatten();
            let least = bounds.reduce(f64::min);
            least.is_some_and(|most| row.error().is_none_or(|error| error.abs() > most))
        };
        self.predicted(Role::Outcome).filter(beyond).collect()
    }

    /// The rows that have a bound, each with whether it is met.
    pub fn bounds(&self) -> impl Iterator<Item = (&Compared, Bound, bool)> {
        let rows = self.rows.iter();
        rows.filter_map(|row| row.bound().map(|(bound, met)| (row, bound, met)))
    }

    /// The same as JSON; `docs/validate.md` describes it.
    pub fn json(&self) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(Compared::json).collect();
        let summary = |role: Role| {
            let unit = |points: bool| {
                let errors = self.errors(role, points).into_iter();
                let named = errors.map(|(platform, errors)| (platform.unwrap_or("all"), errors));
                json!(named.collect::<BTreeMap<_, _>>())
            };
            json!({ "per_cent": unit(false), "points": unit(true) })
        };
        json!({
            "measurements": self.file,
            "source": self.source,
            "profiles_replaced": self.replaced.iter().map(|(file, fits)| json!({ "file": file, "fits": fits })).collect::<Vec<_>>(),
            "rows": rows,
            "errors": {
                "outcome": summary(Role::Outcome),
                "calibration": summary(Role::Calibration),
            },
        })
    }
}

impl Compared {
    fn json(&self) -> Value {
        let row = &self.row;
        let mut document = json!({
            "id": row.id,
            "platform": row.platform,
            "model": row.model,
            "setting": row.setting,
            "config": row.config,
            "metric": row.metric,
            "unit": row.unit,
            "role": row.role,
            "measured": row.value,
            "sd": row.sd,
            "measured_by": row.source,
        });
        match &self.predicted {
            Predicted::Not(why) => document["not_covered"] = json!(why),
            Predicted::Value(prediction) => {
                document["predicted"] = json!(prediction.value);
                document["interval"] = json!(prediction.interval);
                document["beside_itself"] = json!(prediction.beside_itself());
                document["replications"] = json!(prediction.replications);
                document["uncertain_numbers"] = json!(prediction.uncertain);
                document["basis"] = json!(prediction.basis);
                document["error"] = json!(self.error());
                document["error_in"] = json!(if self.in_points() { "points" } else { "%" });
                document["inside"] = json!(self.inside());
                document["missing"] = json!(prediction.missing);
                document["played"] = json!(prediction.played);
                document["failed_draws"] = json!(prediction.failed);
                if let Some((bound, met)) = self.bound() {
                    document["bound"] = json!(bound);
                    document["bound"]["met"] = json!(met);
                }
            }
        }
        document
    }
}
