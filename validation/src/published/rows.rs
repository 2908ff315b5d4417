//! The file of measurements: rows, and which scenario plays them.

use std::ops::Range;

use serde::Deserialize;
use sim::diag::{Diagnostic, Faults};
use toml::Spanned;

use super::metric::Metric;

/// What a row may be used for.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, serde::Serialize)]
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
    /// Key of the SoC.
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
    /// What was read into it.
    pub note: Option<String>,
    /// Who measured it, if not whoever measured the whole file.
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    source: Option<String>,
    #[serde(default)]
    measurement: Vec<RawRow>,
    #[serde(default)]
    experiment: Vec<RawExperiment>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRow {
    id: String,
    platform: String,
    #[serde(default)]
    model: String,
    #[serde(default)]
    setting: String,
    config: String,
    metric: Spanned<String>,
    unit: Spanned<String>,
    value: Spanned<f64>,
    sd: Option<Spanned<f64>>,
    role: Role,
    note: Option<String>,
    source: Option<String>,
    scenario: Option<Spanned<String>>,
    policy: Option<Spanned<String>>,
    against: Option<RawAgainst>,
}

/// Which rows of the file a scenario plays.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawExperiment {
    id: Spanned<String>,
    config: Option<String>,
    model: Option<String>,
    setting: Option<String>,
    scenario: Spanned<String>,
    policy: Option<Spanned<String>>,
    against: Option<RawAgainst>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAgainst {
    scenario: Option<Spanned<String>>,
    policy: Option<Spanned<String>>,
}

/// Reads and checks a file of measurements, called `name`.
pub fn read_measurements(name: &str, text: &str) -> Result<Measurements, Faults> {
    let fail = |list| Faults {
        list,
        sources: vec![(name.to_owned(), text.to_owned())],
    };
    let file: RawFile =
        toml::from_str(text).map_err(|error| fail(vec![crate::toml_fault(name, text, &error)]))?;
    let mut faults = Vec::new();
    for experiment in &file.experiment {
        if !file.measurement.iter().any(|row| experiment.plays(row)) {
            faults.push(
                Diagnostic::new(
                    name,
                    experiment.id.span(),
                    "the experiment plays no row",
                    "no row has this `id` and what else the experiment names",
                )
                .help("`id`, `config`, `model` and `setting` must be as the rows have them"),
            );
        }
    }
    let mut rows = Vec::with_capacity(file.measurement.len());
    for row in file.measurement {
        let own = own(name, &row, &file.experiment, &mut faults);
        check(name, &row, own.is_some(), &mut faults);
        rows.push(row.lower(own));
    }
    if !faults.is_empty() {
        faults.sort_by_key(|fault| fault.span.start);
        return Err(fail(faults));
    }
    Ok(Measurements {
        name: name.to_owned(),
        text: text.to_owned(),
        source: file.source,
        rows,
    })
}

/// What the row, else an experiment of the file, says is to be played.
fn own(
    name: &str,
    row: &RawRow,
    experiments: &[RawExperiment],
    faults: &mut Vec<Diagnostic>,
) -> Option<Own> {
    if let Some(scenario) = &row.scenario {
        return Some(Own::of(scenario, row.policy.as_ref(), row.against.as_ref()));
    }
    let mut matching = experiments
        .iter()
        .filter(|experiment| experiment.plays(row));
    let found = matching.next();
    if let Some(second) = matching.next() {
        faults.push(
            Diagnostic::new(
                name,
                second.id.span(),
                "two experiments play the same row",
                "the second one",
            )
            .help("tell them apart by `config`, `model` or `setting`"),
        );
    }
    let stray = row.policy.as_ref().map(Spanned::span);
    let stray = stray.or(row.against.as_ref().and_then(RawAgainst::span));
    if let Some(span) = stray {
        faults.push(
            Diagnostic::new(
                name,
                span,
                "a row without a scenario",
                "says nothing by itself",
            )
            .help("add `scenario = \"path.toml\"` to the row, or put this into its [[experiment]]"),
        );
    }
    found.map(|found| {
        let (policy, against) = (found.policy.as_ref(), found.against.as_ref());
        Own::of(&found.scenario, policy, against)
    })
}

/// The faults of a row by itself.
fn check(name: &str, row: &RawRow, own: bool, faults: &mut Vec<Diagnostic>) {
    let value = *row.value.get_ref();
    if !value.is_finite() {
        let fault = Diagnostic::new(name, row.value.span(), "`value` is no number", "here");
        faults.push(fault.help("give the measured value, in the row's `unit`"));
    }
    if let Some(sd) = &row.sd
        && !(sd.get_ref().is_finite() && *sd.get_ref() > 0.0)
    {
        let message = format!("`sd` is {}", sd.get_ref());
        let fault = Diagnostic::new(name, sd.span(), message, "must be greater than 0");
        faults.push(fault.help("leave it out where the spread is not known"));
    }
    if !own {
        return;
    }
    let Some(metric) = Metric::published(row.metric.get_ref()) else {
        faults.push(
            Diagnostic::new(
                name,
                row.metric.span(),
                format!("unknown metric `{}`", row.metric.get_ref()),
                "not a metric",
            )
            .help(format!(
                "there are {}; each also as _ratio, _speedup or _change against a second configuration",
                Metric::names().join(", ")
            )),
        );
        return;
    };
    if metric.dimension().factor(row.unit.get_ref()).is_none() {
        let units: Vec<&str> = metric.dimension().units().collect();
        faults.push(
            Diagnostic::new(
                name,
                row.unit.span(),
                format!(
                    "`{}` is no unit of `{}`",
                    row.unit.get_ref(),
                    row.metric.get_ref()
                ),
                "not a unit of this metric",
            )
            .help(format!("there are {}", units.join(", "))),
        );
    }
}

impl RawExperiment {
    fn plays(&self, row: &RawRow) -> bool {
        let same = |wanted: &Option<String>, has: &String| {
            wanted.as_ref().is_none_or(|wanted| wanted == has)
        };
        *self.id.get_ref() == row.id
            && same(&self.config, &row.config)
            && same(&self.model, &row.model)
            && same(&self.setting, &row.setting)
    }
}

impl RawAgainst {
    fn span(&self) -> Option<Range<usize>> {
        let part = self.scenario.as_ref().or(self.policy.as_ref());
        part.map(Spanned::span)
    }
}

impl Own {
    fn of(
        scenario: &Spanned<String>,
        policy: Option<&Spanned<String>>,
        against: Option<&RawAgainst>,
    ) -> Self {
        Self {
            this: OwnPlay::of(scenario, policy),
            against: against.map(|against| {
                let scenario = against.scenario.as_ref().unwrap_or(scenario);
                OwnPlay::of(scenario, against.policy.as_ref())
            }),
        }
    }
}

impl OwnPlay {
    fn of(scenario: &Spanned<String>, policy: Option<&Spanned<String>>) -> Self {
        Self {
            scenario: scenario.get_ref().clone(),
            policy: policy.map(|policy| policy.get_ref().clone()),
            scenario_at: scenario.span(),
            policy_at: policy.map_or_else(|| scenario.span(), Spanned::span),
        }
    }
}

impl RawRow {
    fn lower(self, own: Option<Own>) -> Row {
        let at = Places {
            metric: self.metric.span(),
        };
        Row {
            id: self.id,
            platform: self.platform,
            model: self.model,
            setting: self.setting,
            config: self.config,
            metric: self.metric.into_inner(),
            unit: self.unit.into_inner(),
            value: self.value.into_inner(),
            sd: self.sd.map(Spanned::into_inner),
            role: self.role,
            note: self.note,
            source: self.source,
            own,
            at,
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
