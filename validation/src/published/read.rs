//! The file of measurements: its form, and the checks of what its rows say.

use std::collections::BTreeMap;
use std::ops::Range;

use schemars::JsonSchema;
use serde::Deserialize;
use sim::diag::{Diagnostic, Faults};
use toml::Spanned;

use super::experiments::{PUBLICATION, recognised};
use super::metric::Metric;
use super::rows::{Measurements, Own, OwnPlay, Places, Role, Row};
use super::unit::Dimension;
use crate::words::{exact, with_unit};

/// Measurements: rows, and which scenarios play them.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RawFile {
    /// Who measured, and with what.
    source: Option<String>,
    /// Measured values.
    #[serde(default)]
    measurement: Vec<RawRow>,
    /// What plays rows that name no scenario themselves.
    #[serde(default)]
    experiment: Vec<RawExperiment>,
}

/// A measured value.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RawRow {
    /// Table, figure or series.
    #[schemars(with = "String")]
    id: Spanned<String>,
    /// Key of the SoC, that of the scenario that plays the row; summaries are grouped by it.
    #[schemars(with = "String")]
    platform: Spanned<String>,
    /// Model, for people.
    #[serde(default)]
    model: String,
    /// What was done, for people.
    #[serde(default)]
    setting: String,
    /// Row of the table.
    #[schemars(with = "String")]
    config: Spanned<String>,
    /// What was measured, as `ttft_mean` or `throughput`.
    #[schemars(with = "String")]
    metric: Spanned<String>,
    /// Unit of the value.
    #[schemars(with = "String")]
    unit: Spanned<String>,
    /// The measured value, in its unit.
    #[schemars(with = "f64")]
    value: Spanned<f64>,
    /// Its standard deviation, if known.
    #[schemars(with = "Option<f64>")]
    sd: Option<Spanned<f64>>,
    /// Whether profiles may be fitted to it (`calibration`) or it must be predicted (`outcome`).
    role: Role,
    /// How far off a prediction may be: per cent of the value, or points of a share or change.
    #[schemars(with = "Option<f64>", range(min = 0.0))]
    max_error: Option<Spanned<f64>>,
    /// What was read into it.
    note: Option<String>,
    /// Who measured it, if not whoever measured the whole file.
    source: Option<String>,
    /// Scenario that plays it, relative to this file.
    #[schemars(with = "Option<String>")]
    scenario: Option<Spanned<String>>,
    /// Policy, as on the command line, instead of the scenario's own.
    #[schemars(with = "Option<String>")]
    policy: Option<Spanned<String>>,
    /// What a ratio or change is measured against.
    #[schemars(with = "Option<RawAgainst>")]
    against: Option<Spanned<RawAgainst>>,
}

/// Which rows of the file a scenario plays.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RawExperiment {
    /// `id` of the rows.
    #[schemars(with = "String")]
    id: Spanned<String>,
    /// Their `config`, if it matters.
    config: Option<String>,
    /// Their `model`, if it matters.
    model: Option<String>,
    /// Their `setting`, if it matters.
    setting: Option<String>,
    /// Scenario that plays them, relative to this file.
    #[schemars(with = "String")]
    scenario: Spanned<String>,
    /// Policy, as on the command line, instead of the scenario's own.
    #[schemars(with = "Option<String>")]
    policy: Option<Spanned<String>>,
    /// What ratios and changes are measured against.
    against: Option<RawAgainst>,
}

/// What a ratio or change is measured against.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RawAgainst {
    /// Another scenario; absent: the same.
    #[schemars(with = "Option<String>")]
    scenario: Option<Spanned<String>>,
    /// Policy of it.
    #[schemars(with = "Option<String>")]
    policy: Option<Spanned<String>>,
}

/// The JSON Schema of a file of measurements, as text.
pub fn measurements_schema() -> String {
    sim::load::schema_of::<RawFile>("crossinfer measurements")
}

/// Whether a text looks like a file of measurements, by its top-level keys.
pub fn is_measurements(text: &str) -> bool {
    let table: Option<toml::Table> = text.parse().ok();
    table.is_some_and(|table| {
        let list = |key: &str| table.get(key).is_some_and(toml::Value::is_array);
        list("measurement") || list("experiment")
    })
}

/// Reads and checks a file of measurements, called `name`.
///
/// # Errors
///
/// Everything that is wrong with the file's form; if its form is right, everything that is wrong with
/// what it says.
pub fn read_measurements(name: &str, text: &str) -> Result<Measurements, Faults> {
    match read(name, text)? {
        (file, list) if list.is_empty() => Ok(file),
        (_, list) => Err(Faults {
            list,
            sources: vec![(name.to_owned(), text.to_owned())],
        }),
    }
}

/// Reads a file, with everything that is wrong with what it says; faults of its form are an error.
pub(super) fn read(name: &str, text: &str) -> Result<(Measurements, Vec<Diagnostic>), Faults> {
    let file: RawFile = sim::load::read_as(name, text)?;
    let mut checker = Checker {
        name,
        faults: Vec::new(),
    };
    if file.measurement.is_empty() {
        checker.fault(
            0..text.find('\n').unwrap_or(text.len()),
            "the file holds no measurement",
            "nothing to predict",
            "add [[measurement]] tables; docs/validate.md describes them",
        );
    }
    for experiment in &file.experiment {
        checker.experiment(experiment, &file.measurement);
    }
    let mut rows = Vec::with_capacity(file.measurement.len());
    let mut known = BTreeMap::new();
    for row in file.measurement {
        let own = checker.own(&row, &file.experiment);
        let metric = checker.metric(&row, own.as_ref());
        checker.value(&row, metric.as_ref());
        checker.bound(&row);
        let places = [row.id.span(), row.value.span()];
        let mut row = row.lower(own);
        row.source = row.source.or_else(|| file.source.clone());
        if row.source.is_none() && recognised(&row) {
            row.source = Some(PUBLICATION.to_owned());
        }
        checker.twice(&mut known, &row, places);
        rows.push(row);
    }
    let mut list = checker.faults;
    list.sort_by_key(|fault| fault.span.start);
    let file = Measurements {
        name: name.to_owned(),
        text: text.to_owned(),
        source: file.source,
        rows,
    };
    Ok((file, list))
}

/// What tells rows apart: all that people read, and what plays them.
type Key = (Vec<String>, Option<Vec<Option<String>>>);

struct Checker<'n> {
    name: &'n str,
    faults: Vec<Diagnostic>,
}

impl Checker<'_> {
    fn fault(
        &mut self,
        span: Range<usize>,
        message: impl Into<String>,
        label: impl Into<String>,
        help: impl Into<String>,
    ) {
        let fault = Diagnostic::new(self.name, span, message.into(), label.into());
        self.faults.push(fault.help(help.into()));
    }

    fn experiment(&mut self, experiment: &RawExperiment, rows: &[RawRow]) {
        if !rows.iter().any(|row| experiment.plays(row)) {
            self.fault(
                experiment.id.span(),
                "the experiment plays no row",
                "no row has this `id` and what else the experiment names",
                "`id`, `config`, `model` and `setting` must be as the rows have them",
            );
        }
    }

    /// What the row or else an experiment of the file says is to be played; what the row says of it goes
    /// first.
    fn own(&mut self, row: &RawRow, experiments: &[RawExperiment]) -> Option<Own> {
        let against = row.against.as_ref().map(Spanned::get_ref);
        if let Some(scenario) = &row.scenario {
            return Some(Own::of(scenario, row.policy.as_ref(), against));
        }
        let mut matching = experiments
            .iter()
            .filter(|experiment| experiment.plays(row));
        let found = matching.next();
        if let Some(second) = matching.next() {
            self.fault(
                second.id.span(),
                "two experiments play the same row",
                "the second one",
                "tell them apart by `config`, `model` or `setting`",
            );
        }
        let Some(found) = found else {
            let stray = row.policy.as_ref().map(Spanned::span);
            if let Some(span) = stray.or(row.against.as_ref().map(Spanned::span)) {
                self.fault(
                    span,
                    "a row without a scenario",
                    "says nothing by itself",
                    "add `scenario = \"path.toml\"` to the row, or an [[experiment]] that plays it",
                );
            }
            return None;
        };
        let policy = row.policy.as_ref().or(found.policy.as_ref());
        Some(Own::of(
            &found.scenario,
            policy,
            against.or(found.against.as_ref()),
        ))
    }

    /// The row's metric in a unit that it has. Rows of published experiments may have others: those are
    /// listed as not covered.
    fn metric(&mut self, row: &RawRow, own: Option<&Own>) -> Option<Metric> {
        let name = row.metric.get_ref();
        let Some(metric) = Metric::published(name) else {
            if own.is_some() {
                self.fault(
                    row.metric.span(),
                    format!("unknown metric `{name}`"),
                    "not a metric",
                    format!(
                        "there are {}; each also as _ratio, _speedup or _change against a second configuration",
                        Metric::names().join(", ")
                    ),
                );
            }
            return None;
        };
        if let Some(against) = row.against.as_ref().filter(|_| !metric.compares()) {
            self.fault(
                against.span(),
                format!("`{name}` is compared with nothing"),
                "has no effect",
                format!("name the metric `{name}_ratio`, `{name}_speedup` or `{name}_change`, or leave this out"),
            );
        }
        if metric.compares() && own.is_some_and(|own| own.against.is_none()) {
            self.fault(
                row.metric.span(),
                "it compares two configurations and only one is named",
                "cannot be read",
                "add `against = { policy = \"serial\" }` or `against = { scenario = \"other.toml\" }`",
            );
        }
        if let Some(own) = own
            && metric.compares()
            && own
                .against
                .as_ref()
                .is_some_and(|against| against.plays_as(&own.this))
        {
            let at = row
                .against
                .as_ref()
                .map_or(row.metric.span(), Spanned::span);
            self.fault(
                at,
                format!("`{name}` compares a configuration with itself"),
                "the same scenario under the same policy",
                "name another: `against = { policy = \"serial\" }` or `against = { scenario = \"other.toml\" }`",
            );
        }
        if own.is_some_and(|own| own.against.is_some())
            && let Err(needs) = metric.of_configurations(2)
            && metric.compares()
        {
            self.fault(
                row.metric.span(),
                format!("`{name}` is read from {needs}"),
                "cannot be read here",
                "a change against one other configuration is `completion_mean_change`",
            );
        }
        if own.is_some() && metric.dimension().factor(row.unit.get_ref()).is_none() {
            let units: Vec<&str> = metric.dimension().units().collect();
            self.fault(
                row.unit.span(),
                format!("`{}` is no unit of `{name}`", row.unit.get_ref()),
                "not a unit of this metric",
                format!("there are {}", units.join(", ")),
            );
        }
        Some(metric)
    }

    /// Whether the value is one that can be measured.
    fn value(&mut self, row: &RawRow, metric: Option<&Metric>) {
        if let Some(sd) = &row.sd
            && *sd.get_ref() <= 0.0
        {
            self.fault(
                sd.span(),
                format!("`sd` is {}", exact(*sd.get_ref())),
                "must be greater than 0",
                "leave it out where the spread is not known",
            );
        }
        let Some(dimension) = metric.map(Metric::dimension) else {
            return;
        };
        let Some(factor) = dimension.factor(row.unit.get_ref()) else {
            return;
        };
        let value = *row.value.get_ref();
        let wrong = match dimension {
            // Nothing falls by more than all of it.
            Dimension::Change => (value * factor < -1.0).then(|| at_least(-1.0 / factor)),
            _ if value < 0.0 => Some(at_least(0.0)),
            // A part of the whole; the last digit may be rounded up.
            Dimension::Share => (value * factor > 1.0 + 1e-9)
                .then(|| format!("must be at most {}", exact(1.0 / factor))),
            _ => None,
        };
        if let Some(wrong) = wrong {
            let (name, unit) = (row.metric.get_ref(), row.unit.get_ref());
            self.fault(
                row.value.span(),
                format!("`value` is {}", with_unit(&exact(value), unit)),
                wrong,
                format!("no `{name}` can be measured so: check the value and its unit"),
            );
        }
    }

    /// A bound is on what is predicted, not on what may be fitted.
    fn bound(&mut self, row: &RawRow) {
        if let Some(most) = row
            .max_error
            .as_ref()
            .filter(|_| row.role == Role::Calibration)
        {
            self.fault(
                most.span(),
                "`max_error` of a calibration row",
                "bounds are on outcomes",
                "profiles may be fitted to this row, so its error is no prediction's: leave `max_error` out, or write \
                 `role = \"outcome\"`",
            );
        }
    }

    /// A row that says again what an earlier one does, or something else of the same thing.
    fn twice(
        &mut self,
        known: &mut BTreeMap<Key, (f64, String)>,
        row: &Row,
        [id_at, value_at]: [Range<usize>; 2],
    ) {
        let says = (row.value, row.unit.clone());
        let Some((value, unit)) = known.get(&row.key()) else {
            known.insert(row.key(), says);
            return;
        };
        if (*value, unit) == (says.0, &says.1) {
            self.fault(
                id_at,
                format!("{} stands here twice", row.label()),
                "the second time",
                "it would count twice: take one of the rows out",
            );
        } else {
            let message = format!("{} has two values", row.label());
            self.fault(
                value_at,
                message,
                format!("an earlier row has {}", with_unit(&exact(*value), unit)),
                "give one row with their mean and `sd`, or tell them apart by `setting`",
            );
        }
    }
}

fn at_least(least: f64) -> String {
    format!("must be at least {}", exact(least))
}

impl Row {
    fn key(&self) -> Key {
        let parts = [
            &self.id,
            &self.platform,
            &self.model,
            &self.setting,
            &self.config,
            &self.metric,
        ];
        let play = |play: &OwnPlay| [Some(play.scenario.clone()), play.policy.clone()];
        let own = self.own.as_ref().map(|own| {
            let plays = [Some(&own.this), own.against.as_ref()];
            plays.into_iter().flatten().flat_map(play).collect()
        });
        (parts.into_iter().cloned().collect(), own)
    }
}

impl RawExperiment {
    fn plays(&self, row: &RawRow) -> bool {
        let same = |wanted: &Option<String>, has: &String| {
            wanted.as_ref().is_none_or(|wanted| wanted == has)
        };
        self.id.get_ref() == row.id.get_ref()
            && same(&self.config, row.config.get_ref())
            && same(&self.model, &row.model)
            && same(&self.setting, &row.setting)
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
    /// Whether both are the same scenario under the same policy.
    fn plays_as(&self, other: &Self) -> bool {
        (&self.scenario, &self.policy) == (&other.scenario, &other.policy)
    }

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
            platform: self.platform.span(),
            config: self.config.span(),
        };
        Row {
            id: self.id.into_inner(),
            platform: self.platform.into_inner(),
            model: self.model,
            setting: self.setting,
            config: self.config.into_inner(),
            metric: self.metric.into_inner(),
            unit: self.unit.into_inner(),
            value: self.value.into_inner(),
            sd: self.sd.map(Spanned::into_inner),
            role: self.role,
            max_error: self.max_error.map(Spanned::into_inner),
            note: self.note,
            source: self.source,
            own,
            at,
        }
    }
}
