//! Rows of measurements.

use std::ops::Range;

use schemars::JsonSchema;
use serde::Deserialize;
use sim::diag::{Diagnostic, Faults};

use super::metric::Metric;
use crate::words::{plain, with_unit};

/// What a row may be used for.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A single-engine, serial or microbenchmark figure that profiles may be fitted to.
    Calibration,
    /// What the simulator must predict; nothing is fitted to it.
    Outcome,
}

/// A measured value.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Table, figure or series.
    pub id: String,
    /// Key of the SoC, that of the scenario that plays the row.
    pub platform: String,
    /// Model, as published.
    pub model: String,
    /// What was done.
    pub setting: String,
    /// Row of the table.
    pub config: String,
    /// Column of the table: a name of [`Metric`].
    pub metric: String,
    /// Unit of the value.
    pub unit: String,
    /// Measured value.
    pub value: f64,
    /// Its standard deviation, if known.
    pub sd: Option<f64>,
    /// What it may be used for.
    pub role: Role,
    /// How far off a prediction may be, if the file says.
    pub max_error: Option<f64>,
    /// What was read into it.
    pub note: Option<String>,
    /// Who measured it: as the row says, else its file, else the publication that it is recognised as of.
    pub source: Option<String>,
    /// What to play, if the row or an experiment of its file says so.
    pub own: Option<Own>,
    /// Where it stands.
    pub(crate) at: Places,
}

/// What a measurement file says is to be played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    /// What was measured.
    pub this: OwnPlay,
    /// What it is measured against, of a ratio or change.
    pub against: Option<OwnPlay>,
}

/// A scenario under a policy, as a measurement file names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnPlay {
    /// Path relative to the measurement file.
    pub scenario: String,
    /// Policy as on the command line; `None`: the file's own.
    pub policy: Option<String>,
    /// Bytes of the path.
    pub(super) scenario_at: Range<usize>,
    /// Bytes of the policy, or of the path where it is the file's own.
    pub(super) policy_at: Range<usize>,
}

/// Bytes of a row's values.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Places {
    pub(crate) metric: Range<usize>,
    pub(crate) platform: Range<usize>,
    pub(crate) config: Range<usize>,
}

/// A file of measurements.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurements {
    /// Name of the file as the user gave it.
    pub name: String,
    /// Its text.
    pub text: String,
    /// Who measured, if the file says.
    pub source: Option<String>,
    /// The rows, in order.
    pub rows: Vec<Row>,
}

impl Measurements {
    /// A fault of this file.
    pub(crate) fn faults(&self, fault: Diagnostic) -> Faults {
        Faults {
            list: vec![fault],
            sources: vec![(self.name.clone(), self.text.clone())],
        }
    }
}

impl Row {
    /// What identifies it for people: table, model, configuration and metric.
    pub fn label(&self) -> String {
        let parts = [&self.id, &self.model, &self.config, &self.metric];
        let parts = parts.iter().filter(|part| !part.is_empty());
        parts
            .map(|part| part.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// The metric, by its own name or a publication's.
    pub fn metric(&self) -> Option<Metric> {
        Metric::published(&self.metric)
    }

    /// SoC and table, figure or series.
    pub fn series(&self) -> String {
        format!("{} {}", self.platform, self.id)
    }

    /// Value with its standard deviation, if it has one, and unit; bare numbers have none.
    pub fn measured(&self) -> String {
        let sd = self.sd.map(|sd| format!(" ± {}", plain(sd)));
        let sd = sd.unwrap_or_default();
        with_unit(&format!("{}{sd}", plain(self.value)), &self.unit)
    }

    /// Whether errors are in points (hundredths), not in per cent of the value.
    pub fn in_points(&self) -> bool {
        let metric = self.metric();
        metric.is_some_and(|metric| metric.dimension().in_points())
    }

    /// By how much a prediction, in the row's unit, is above the measured value: in per cent of that
    /// value, or in points of a share or change. Infinite where 0 was measured and something else
    /// predicted.
    pub fn error_of(&self, predicted: f64) -> f64 {
        let metric = self.metric().map(|metric| metric.dimension());
        if let Some(dimension) = metric.filter(|dimension| dimension.in_points()) {
            let factor = dimension.factor(&self.unit).unwrap_or(f64::NAN);
            return (predicted - self.value) * factor * 100.0;
        }
        if predicted == self.value {
            0.0
        } else if self.value == 0.0 {
            f64::INFINITY * predicted
        } else {
            (predicted - self.value) / self.value.abs() * 100.0
        }
    }
}
