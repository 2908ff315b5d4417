//! Capacity planning: the largest load that meets targets, what limits it, what more of each resource buys, and the
//! least of each resource that a load needs.

mod axis;
mod beyond;
mod doubt;
mod json;
mod length;
mod limits;
mod need;
mod probe;
pub mod question;
mod scale;
mod search;
mod target;
mod text;

#[cfg(test)]
mod tests;

use sim::diag::Faults;
use sim::load::{Files, Inputs, Kind, Library};
use sim::metrics::Metric as Number;
use sim::rng::mix;
use sim::world::World;

pub use axis::Axis;
pub use doubt::{Doubt, Edges, Ends, Times};
pub use json::{all_needs_json, json, needs_json};
pub use length::Rise;
pub use limits::{Buys, Limits, limits};
pub use need::{Need, Needs, needs};
pub use probe::{Held, Probe, Verdict};
pub use scale::Resource;
pub use search::{Edge, Look, Range, grid, search};
pub use target::{Metric, Target, targets};
pub use text::{largest, largest_model, needs_table, region, table};

/// Runs near the edge, for each one elsewhere.
const DEEP: u32 = 4;
/// Runs on fresh draws at an end of the edge, for each one near it. With no more than as many, the first of a row of
/// loads that passes would too often be a lucky one.
const SURE: u32 = 4;
/// Replications where the scenario asks for fewer: an edge needs an interval.
const REPLICATIONS: u32 = 10;
/// What makes another seed of a scenario's, for draws that no search has seen.
const FRESH: u64 = 0x6672_6573_685f_3432;

/// A scenario as text, with where its profiles are.
pub struct Case<'a> {
    /// Name of the file, to which other paths are relative.
    pub name: String,
    /// Its text.
    pub text: String,
    /// Profiles.
    pub library: &'a dyn Library,
    /// Other files.
    pub files: &'a dyn Files,
    /// Replications of a probe, instead of the scenario's.
    pub replications: Option<u32>,
    /// Root seed, instead of the scenario's.
    pub seed: Option<u64>,
    /// At which end of their intervals stage times are taken.
    pub times: Times,
}

impl std::fmt::Debug for Case<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Case")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Why there is no plan.
#[derive(Debug)]
pub enum PlanError {
    /// The scenario as it is has faults.
    Faults(Faults),
    /// What was asked does not fit the scenario.
    Question(String),
    /// What a policy's script stopped a run with: no load, but the script is at fault.
    Stopped(Faults),
}

impl From<String> for PlanError {
    fn from(text: String) -> Self {
        Self::Question(text)
    }
}

impl Case<'_> {
    /// The scenario as it is.
    ///
    /// # Errors
    ///
    /// Its faults.
    pub fn inputs(&self) -> Result<Inputs, PlanError> {
        Inputs::read(&self.name, &self.text, self.library, self.files).map_err(PlanError::Faults)
    }

    /// The same with another value for a key at the top of the scenario, such as `soc`.
    ///
    /// # Errors
    ///
    /// Where the scenario is no TOML.
    pub fn with(&self, key: &str, to: &str) -> Result<String, PlanError> {
        let mut document: toml_edit::DocumentMut = self
            .text
            .parse()
            .map_err(|error| PlanError::Question(format!("{error}")))?;
        document[key] = toml_edit::value(to);
        // Costs of a file are of one SoC and one model.
        document.remove("costs");
        Ok(document.to_string())
    }

    /// Whether another reads the same from where it lies, and `crossinfer run` takes it.
    ///
    /// # Errors
    ///
    /// Faults of the other; that a profile or another file of it is a different one.
    pub fn reads_as(&self, other: &Case<'_>) -> Result<(), PlanError> {
        let files = |case: &Case<'_>| {
            let inputs = case.inputs()?;
            let texts = inputs.sources().iter().skip(1);
            Ok::<_, PlanError>(texts.map(|(_, text)| text.clone()).collect::<Vec<_>>())
        };
        if files(self)? != files(other)? {
            return Err(PlanError::Question(format!(
                "profiles or other files of `{}` would be different ones at `{}`: write it beside the scenario",
                self.name, other.name
            )));
        }
        other.own_world().map(|_| ())
    }

    /// The world as it is written, where every key changes something.
    fn own_world(&self) -> Result<World, PlanError> {
        let inputs = self.inputs()?;
        let world = inputs.world().map_err(PlanError::Faults)?;
        let own = std::slice::from_ref(&world);
        inputs.read_by(own).map_err(PlanError::Faults)?;
        Ok(world)
    }

    /// Replications of a probe.
    fn count(&self, world: &World, deep: bool) -> u32 {
        let least = self
            .replications
            .unwrap_or_else(|| world.replications.max(REPLICATIONS));
        if deep {
            least.saturating_mul(DEEP)
        } else {
            least
        }
    }

    /// The world at a load, with other numbers in its profiles.
    fn world(
        &self,
        axis: Option<(Axis, f64)>,
        change: Option<(&Resource, f64)>,
    ) -> Result<World, String> {
        let text = match axis {
            Some((axis, load)) => axis.at(&self.text, load)?,
            None => self.text.clone(),
        };
        let first = |faults: Faults| {
            faults.list.first().map_or_else(
                || "the scenario has a fault".to_owned(),
                |fault| format!("{}: {}", fault.message, fault.label),
            )
        };
        let inputs = Inputs::read(&self.name, &text, self.library, self.files).map_err(first)?;
        let mut world = inputs.world().map_err(first)?;
        let times = doubt::numbers(&world, &inputs, self.times);
        let inputs = inputs.with_numbers(&times).map_err(first)?;
        if !times.is_empty() {
            world = inputs.world().map_err(first)?;
        }
        if let Some((resource, times)) = change {
            let soc = scale::soc(inputs.file(Kind::Soc).1, &world, resource, times)?;
            world = inputs
                .with_texts(&[(Kind::Soc, soc)])
                .and_then(|inputs| inputs.world())
                .map_err(first)?;
        }
        if let Some(seed) = self.seed {
            world.seed = seed;
        }
        Ok(world)
    }

    /// Root seed of draws that no search has seen, as a scenario can state it.
    fn fresh_seed(world: &World) -> u64 {
        mix(world.seed ^ FRESH) >> 1
    }

    /// A load simulated with some times of a resource.
    fn probe(
        &self,
        axis: Option<(Axis, f64)>,
        change: Option<(&Resource, f64)>,
        targets: &[Target],
        look: Look,
    ) -> Result<Probe, Faults> {
        let load = axis.map_or(0.0, |(_, load)| load);
        match self.world(axis, change) {
            Ok(mut world) => {
                let deep = self.count(&world, true);
                let (runs, again) = match look {
                    Look::First => (self.count(&world, false), None),
                    Look::Deep => (deep, None),
                    Look::Fresh => (deep.saturating_mul(SURE), Some(deep)),
                };
                if again.is_some() {
                    world.seed = Self::fresh_seed(&world);
                }
                Probe::run(&world, load, runs, again, targets)
            }
            Err(why) => Ok(Probe::refused(load, why)),
        }
    }

    /// A probe of a load as a scenario, which `crossinfer run` simulates to the same numbers; `None` where the load has
    /// no world.
    fn replay(&self, axis: Axis, probe: &Probe) -> Option<String> {
        if probe.refused.is_some() {
            return None;
        }
        let text = axis.at(&self.text, probe.load).ok()?;
        let mut document: toml_edit::DocumentMut = text.parse().ok()?;
        document["seed"] = toml_edit::value(i64::try_from(probe.seed).ok()?);
        document["replications"] = toml_edit::value(i64::try_from(probe.runs.count()).ok()?);
        Some(document.to_string())
    }
}

/// What was planned of one scenario.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What tells it from others: a SoC, a model.
    pub title: String,
    /// What was made as large as possible.
    pub axis: Axis,
    /// The targets.
    pub targets: Vec<Target>,
    /// What of the stage times is not known.
    pub doubt: Doubt,
    /// What was found with all stage times at one end of their intervals; absent where none has one.
    pub doubtful: Option<Edges>,
    /// What differs from the defaults or is assumed, in words.
    pub conditions: Vec<String>,
    /// Memory that is taken before any context: weights, the system's and others', bytes.
    pub taken: u64,
    /// What was found.
    pub edge: Edge,
    /// Why no greater load was looked at, where the scenario has none.
    pub reach: Option<String>,
    /// Targets whose metrics rise with the length of the runs.
    pub rises: Vec<Rise>,
    /// The scenarios of the two ends of the edge, with the draws that confirmed them: the load that meets, and the one
    /// that misses.
    pub scenarios: (Option<String>, Option<String>),
    /// What limits it; absent where no load meets the targets or none misses.
    pub limits: Option<Limits>,
}

/// What a plot shows of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawn {
    /// It was simulated.
    Verdict(Verdict),
    /// It has no world: a stage without a cost, a model that does not fit.
    CannotRun,
    /// It was not simulated: it would change nothing.
    NotSimulated,
}

impl Drawn {
    /// Its words.
    pub fn word(self) -> &'static str {
        match self {
            Self::Verdict(verdict) => verdict.word(),
            Self::CannotRun => "cannot run",
            Self::NotSimulated => "not simulated",
        }
    }
}

/// Verdicts of loads on one axis, for a plot.
///
/// # Errors
///
/// What a policy's script stopped a run with.
pub fn row(
    case: &Case<'_>,
    targets: &[Target],
    axis: Axis,
    loads: &[f64],
) -> Result<Vec<Drawn>, PlanError> {
    let world = case.world(None, None);
    let reach = world.ok().and_then(|world| axis.reach(&world));
    let probe = |load: &f64| {
        // What changes nothing tells nothing.
        if reach.as_ref().is_some_and(|(most, _)| load > most) {
            return Ok(Drawn::NotSimulated);
        }
        let probe = case.probe(Some((axis, *load)), None, targets, Look::First)?;
        Ok(if probe.refused.is_some() {
            Drawn::CannotRun
        } else {
            Drawn::Verdict(probe.verdict)
        })
    };
    let verdicts = loads.iter().map(probe).collect::<Result<_, Faults>>();
    verdicts.map_err(PlanError::Stopped)
}

/// Verdicts of loads on two axes, for a plot: `columns` of one, `rows` of the other.
///
/// # Errors
///
/// A load that the scenario cannot carry in form; what a policy's script stopped a run with.
pub fn verdicts(
    case: &Case<'_>,
    targets: &[Target],
    (x, columns): (Axis, &[f64]),
    (y, rows): (Axis, &[f64]),
) -> Result<Vec<Vec<Drawn>>, PlanError> {
    let mut list = Vec::new();
    for row in rows {
        let text = y.at(&case.text, *row)?;
        let own = Case {
            name: case.name.clone(),
            text,
            ..*case
        };
        list.push(self::row(&own, targets, x, columns)?);
    }
    Ok(list)
}

/// The largest load of a scenario that meets the targets.
///
/// # Errors
///
/// Faults of the scenario; a load that it cannot carry in form (no periodic frames for a frame rate); what a policy's
/// script stopped a run with.
pub fn plan(
    case: &Case<'_>,
    title: &str,
    axis: Axis,
    targets: &[Target],
    range: Option<Range>,
) -> Result<Plan, PlanError> {
    let world = case.own_world()?;
    for target in targets {
        let powerless = matches!(
            target.metric,
            Metric::Of(Number::MeanPower | Number::EnergyPerRequest)
        ) && world.power.is_none();
        if powerless {
            return Err(PlanError::Question(format!(
                "`{}`: the profile of {} states no power, so energy is unknown",
                target.text, world.soc_name
            )));
        }
    }
    let now = axis.now(&case.text)?;
    let mut range = range.unwrap_or(if axis.whole() {
        Range {
            low: 1.0,
            high: 1024.0,
        }
    } else {
        Range {
            low: now / 64.0,
            high: now * 64.0,
        }
    });
    let reach = axis.reach(&world).filter(|(most, _)| *most < range.high);
    let reach = match reach {
        Some((most, why)) if most < range.low => {
            return Err(PlanError::Question(format!(
                "{} {} change nothing: {why}",
                range.low,
                axis.unit()
            )));
        }
        Some((most, why)) => {
            range.high = most;
            Some(why)
        }
        None => None,
    };
    // Faults of form show at once, not as a load that is refused.
    axis.at(&case.text, range.low)?;
    let mut edge = search(axis, targets, range, |load, look| {
        case.probe(Some((axis, load)), None, targets, look)
    })
    .map_err(PlanError::Stopped)?;
    let said = edge.meets.or(edge.misses).and_then(|load| {
        let world = case.world(Some((axis, load)), None).ok()?;
        Some(beyond::remarks(&world, edge.probe(load)?))
    });
    edge.remarks.extend(said.into_iter().flatten());
    let limits = limits(case, axis, targets, &edge).map_err(PlanError::Stopped)?;
    let rises = length::rises(case, axis, targets, &edge).map_err(PlanError::Stopped)?;
    let doubt = Doubt::of(&world, &case.inputs()?);
    let doubtful = (doubt.numbers.0 > 0)
        .then(|| doubt::edges(case, axis, targets, range))
        .transpose()?;
    let mut conditions = reports::facts::conditions_of(&world);
    conditions.extend(doubt.condition());
    let end = |load: Option<f64>| case.replay(axis, edge.probe(load?)?);
    Ok(Plan {
        title: title.to_owned(),
        axis,
        targets: targets.to_vec(),
        doubt,
        doubtful,
        conditions,
        taken: world.memory.taken,
        scenarios: (end(edge.meets), end(edge.misses)),
        edge,
        reach,
        rises,
        limits,
    })
}
