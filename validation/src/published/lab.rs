//! Plays scenarios, each once however many rows it predicts, with all their numbers drawn within their
//! intervals.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use serde::Serialize;
use sim::diag::{Diagnostic, Faults};
use sim::load::Numbers;
use sim::spec::quantity::OriginKind;
use sim::world::World;

use super::bench::{Bench, Configuration, Played, Scenario, first_of, mean};
use super::experiments::experiment;
use super::metric::{Metric, Missing};
use super::numbers::{Uncertain, uncertain};
use super::play::Outcome;
use super::rows::{Measurements, Own, OwnPlay, Row};
use crate::folder::Stock;

/// How a scenario's note begins that says what is not known of an experiment.
const MISSING: &str = "Missing:";
/// How a scenario begins a note on what it took the workload to be.
const INFERRED: &str = "Inferred";

/// How intervals are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draws {
    /// How many; below [`Draws::LEAST`]: no intervals.
    pub count: u32,
    /// Seed of their order.
    pub seed: u64,
}

impl Draws {
    /// Draws that an interval needs: among fewer, none lies beyond the 5th percentile.
    pub const LEAST: u32 = 20;
}

impl Default for Draws {
    fn default() -> Self {
        Self {
            count: 256,
            seed: 1,
        }
    }
}

/// What the simulator says in place of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Predicted {
    /// A value.
    Value(Box<Prediction>),
    /// No scenario plays the row, or it shows no such thing; with the reason.
    Not(String),
}

/// A predicted value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// Mean over the replications, in the row's unit.
    pub value: f64,
    /// Where the value lies when the numbers that it rests on vary within theirs; absent if fewer than
    /// [`Draws::LEAST`] draws were asked for or could be played, or if nothing that varies changes it.
    pub interval: Option<Interval>,
    /// Why draws could not be played, the commonest reason first.
    pub failed: Vec<Failed>,
    /// Replications behind the value.
    pub replications: u32,
    /// Numbers that have an interval.
    pub uncertain: usize,
    /// What it rests on.
    pub basis: Basis,
    /// What its scenarios say is not known of the experiment: their notes that begin with `Missing:`.
    pub missing: Vec<String>,
    /// What was played for it, in the order of what it compares.
    pub played: Vec<PlayedAs>,
}

/// A scenario under a policy, as it was played.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct PlayedAs {
    /// The scenario: a name of `scenarios/published/`, or a file's path.
    pub scenario: String,
    /// The policy; absent where nothing is dispatched, since the contention model alone is read.
    pub policy: Option<String>,
    /// What the scenario says was inferred of the workload: its notes that begin with `Inferred`.
    pub inferred: Vec<String>,
}

/// The 5th to the 95th percentile of the draws, in the row's unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Draws that could be played.
    pub draws: u32,
    /// Draws that could not: their numbers contradict each other.
    pub failed: u32,
}

/// Draws that could not be played, for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failed {
    /// How many.
    pub draws: u32,
    /// The reason, as the first of them gave it.
    pub why: String,
}

/// Where the numbers of a prediction came from.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Basis {
    /// Numbers by kind of origin.
    pub numbers: BTreeMap<&'static str, usize>,
    /// What the stages' costs were measured on, fitted to, copied from or derived from: file and origin,
    /// with the kind and source of the origin.
    pub calibrated: BTreeMap<String, String>,
}

/// Predicts rows.
pub struct Lab<'s> {
    bench: Bench<'s>,
    draws: Draws,
    played: BTreeMap<Configuration, Rc<Played>>,
    drawn: BTreeMap<Configuration, Vec<Result<Rc<Played>, String>>>,
}

impl std::fmt::Debug for Lab<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lab")
            .field("draws", &self.draws)
            .finish_non_exhaustive()
    }
}

impl PlayedAs {
    /// Of a `kernel` only the chip is played: neither its policy nor its workload.
    fn of(configuration: &Configuration, world: &World, kernel: bool) -> Self {
        let (Scenario::Published(scenario) | Scenario::File(scenario)) = &configuration.scenario;
        let notes = world.notes.iter().filter(|note| note.starts_with(INFERRED));
        Self {
            scenario: scenario.clone(),
            policy: (!kernel).then(|| world.policy.to_string()),
            inferred: if kernel {
                Vec::new()
            } else {
                notes.cloned().collect()
            },
        }
    }
}

impl Prediction {
    /// Whether the stated value itself lies outside its interval: where most of what is uncertain can only move it to one
    /// side, it lies near an end, and beyond it by some seeds of the draws.
    pub fn beside_itself(&self) -> bool {
        let interval = self.interval;
        interval.is_some_and(|interval| !(interval.low..=interval.high).contains(&self.value))
    }
}

impl<'s> Lab<'s> {
    /// A lab over scenarios and profiles.
    pub fn new(stock: &'s dyn Stock, draws: Draws) -> Self {
        Self {
            bench: Bench::new(stock),
            draws,
            played: BTreeMap::new(),
            drawn: BTreeMap::new(),
        }
    }

    /// What to play for a row, or why nothing can be.
    pub fn configurations(file: &Measurements, row: &Row) -> Result<Vec<Configuration>, String> {
        if let Some(Own { this, against }) = &row.own {
            let all = [Some(this), against.as_ref()].into_iter().flatten();
            return Ok(all.map(|play| own(file, play)).collect());
        }
        let plays = experiment(row)?.into_iter();
        Ok(plays.map(Into::into).collect())
    }

    /// Its scenarios.
    pub(super) fn bench(&self) -> &Bench<'s> {
        &self.bench
    }

    /// What the simulator says in place of a row.
    ///
    /// # Errors
    ///
    /// Faults of the scenario and its profiles, or of what the row names that they do not have.
    pub fn predict(&mut self, file: &Measurements, row: &Row) -> Result<Predicted, Faults> {
        let configurations = match Self::configurations(file, row) {
            Ok(list) => list,
            Err(why) => return Ok(Predicted::Not(why)),
        };
        let Some((metric, factor)) = row.metric().and_then(|metric| {
            let factor = metric.dimension().factor(&row.unit)?;
            Some((metric, factor))
        }) else {
            return Ok(Predicted::Not("its metric or unit is not known".to_owned()));
        };
        self.bench.open(file, row, &configurations)?;
        let played = configurations
            .iter()
            .map(|configuration| self.play(configuration));
        let played = played.collect::<Result<Vec<_>, _>>()?;
        let value = match mean(&metric, row, &played) {
            Ok(value) => value / factor,
            Err(Missing::Absent(why)) => return Ok(Predicted::Not(why)),
            Err(Missing::Wrong(why)) if row.own.is_none() => return Ok(Predicted::Not(why)),
            Err(Missing::Wrong(why)) => {
                let fault =
                    Diagnostic::new(&file.name, row.at.metric.clone(), why, "cannot be read");
                return Err(file.faults(fault));
            }
        };
        let replications = played.iter().map(|played| played.outcomes.len() as u32);
        let replications = replications.max().unwrap_or(0);
        let uncertain = numbers(&played).len();
        let notes = played.iter().flat_map(|played| &played.world.notes);
        let mut missing: Vec<String> = Vec::new();
        for note in notes.filter_map(|note| note.strip_prefix(MISSING)) {
            if !missing.iter().any(|known| known == note.trim()) {
                missing.push(note.trim().to_owned());
            }
        }
        let kernel = metric.kernel(&row.config).is_some();
        let shown = configurations.iter().zip(&played);
        let shown =
            shown.map(|(configuration, played)| PlayedAs::of(configuration, &played.world, kernel));
        let shown = shown.collect();
        let varies = uncertain > 0 || replications > 1;
        let (interval, failed) = if varies {
            self.interval(row, &metric, factor, &configurations)
        } else {
            (None, Vec::new())
        };
        Ok(Predicted::Value(Box::new(Prediction {
            value,
            interval,
            failed,
            replications,
            uncertain,
            basis: Basis::of(played.iter().map(|played| &played.world)),
            missing,
            played: shown,
        })))
    }

    /// The first replication of a configuration.
    ///
    /// # Errors
    ///
    /// Faults of the scenario or of its policy.
    pub fn outcome(&mut self, configuration: &Configuration) -> Result<Outcome, Faults> {
        Ok(self.play(configuration)?.outcomes[0].clone())
    }

    /// The profiles behind what was played so far: each file with the keys of its fitted origins.
    pub fn profiles(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut profiles: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let worlds = self.played.values().map(|played| &played.world);
        for number in worlds.flat_map(|world| &world.provenance) {
            let fits = profiles.entry(number.file.clone()).or_default();
            if number.kind == OriginKind::Fitted {
                fits.insert(number.origin.clone());
            }
        }
        profiles
    }

    fn play(&mut self, configuration: &Configuration) -> Result<Rc<Played>, Faults> {
        if let Some(played) = self.played.get(configuration) {
            return Ok(Rc::clone(played));
        }
        let none = Numbers::default();
        let played = self.bench.session(&none).play(configuration)?;
        self.played
            .insert(configuration.clone(), Rc::clone(&played));
        Ok(played)
    }

    /// The 5th to the 95th percentile of the draws, and why some of them could not be played.
    fn interval(
        &mut self,
        row: &Row,
        metric: &Metric,
        factor: f64,
        configurations: &[Configuration],
    ) -> (Option<Interval>, Vec<Failed>) {
        if self.draws.count < Draws::LEAST {
            return (None, Vec::new());
        }
        for configuration in configurations {
            self.draw(configuration);
        }
        let mut values = Vec::with_capacity(self.draws.count as usize);
        let mut failed: Vec<Failed> = Vec::new();
        for draw in 0..self.draws.count as usize {
            let played = configurations
                .iter()
                .map(|configuration| self.drawn[configuration][draw].clone());
            let played: Result<Vec<_>, String> = played.collect();
            let value = played.and_then(|played| {
                mean(metric, row, &played)
                    .map_err(|(Missing::Absent(why) | Missing::Wrong(why))| why)
            });
            match value {
                Ok(value) => values.push(value / factor),
                Err(why) => count(&mut failed, why),
            }
        }
        failed.sort_by_key(|failed| std::cmp::Reverse(failed.draws));
        values.sort_by(f64::total_cmp);
        let draws = values.len() as u32;
        let (low, high) = (quantile(&values, 0.05), quantile(&values, 0.95));
        // What varies may not matter here: then there is nothing to say.
        let matters = (high - low).abs() > 1e-9 * high.abs().max(low.abs());
        let interval = (draws >= Draws::LEAST && matters).then_some(Interval {
            low,
            high,
            draws,
            failed: self.draws.count - draws,
        });
        (interval, failed)
    }

    /// Plays a configuration with every draw of its numbers, a replication each.
    fn draw(&mut self, configuration: &Configuration) {
        if self.drawn.contains_key(configuration) {
            return;
        }
        let Draws { count, seed } = self.draws;
        let mut all = vec![Numbers::default(); count as usize];
        let played = self.played.get(configuration);
        for number in played.map_or_else(Vec::new, |played| uncertain(&played.world)) {
            for (numbers, value) in all.iter_mut().zip(number.values(count, seed)) {
                number.put(numbers, value);
            }
        }
        let drawn = all.iter().zip(0..).map(|(numbers, draw)| {
            let mut session = self.bench.session(numbers).only(draw);
            session
                .play(configuration)
                .map_err(|faults| first_of(&faults))
        });
        let drawn = drawn.collect();
        self.drawn.insert(configuration.clone(), drawn);
    }
}

/// Counts a failure; reasons that differ by numbers alone are one.
fn count(failed: &mut Vec<Failed>, why: String) {
    let words = |why: &str| -> String { why.chars().filter(|c| !c.is_ascii_digit()).collect() };
    match failed
        .iter_mut()
        .find(|known| words(&known.why) == words(&why))
    {
        Some(known) => known.draws += 1,
        None => failed.push(Failed { draws: 1, why }),
    }
}

/// The configuration that a measurement file names; paths are relative to that file.
pub(super) fn own(file: &Measurements, play: &OwnPlay) -> Configuration {
    let folder = std::path::Path::new(&file.name).parent();
    let path = match folder {
        Some(folder) if !folder.as_os_str().is_empty() => {
            folder.join(&play.scenario).to_string_lossy().into_owned()
        }
        _ => play.scenario.clone(),
    };
    Configuration {
        scenario: Scenario::File(path),
        policy: play.policy.clone(),
    }
}

/// The numbers of several worlds that have an interval.
fn numbers(played: &[Rc<Played>]) -> Vec<Uncertain> {
    let mut all: Vec<Uncertain> = Vec::new();
    for number in played.iter().flat_map(|played| uncertain(&played.world)) {
        if !all.iter().any(|known| known.is(&number)) {
            all.push(number);
        }
    }
    all
}

/// The quantile `q` of sorted values, interpolated linearly between neighbours.
pub(crate) fn quantile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let at = q * last as f64;
    let below = (at.floor() as usize).min(last);
    let above = (below + 1).min(last);
    let part = at - below as f64;
    sorted[below] + (sorted[above] - sorted[below]) * part
}

impl Basis {
    fn of<'w>(worlds: impl Iterator<Item = &'w World>) -> Self {
        let mut basis = Self::default();
        let mut counted = Vec::new();
        for number in worlds.flat_map(|world| &world.provenance) {
            // What `reconstruct` takes over from `ingest` stands in the file once.
            let place = (&number.file, &number.span);
            if counted.contains(&place) {
                continue;
            }
            counted.push(place);
            let kind = match number.kind {
                OriginKind::Measured => "measured",
                OriginKind::Published => "published",
                OriginKind::Derived => "derived",
                OriginKind::Fitted => "fitted",
                OriginKind::Assumed => "assumed",
            };
            *basis.numbers.entry(kind).or_default() += 1;
            let stage = number.path.contains(".stages.") || number.path.contains(".corun.");
            let says = match number.kind {
                OriginKind::Measured | OriginKind::Fitted => {
                    number.source.as_ref().or(number.note.as_ref())
                }
                OriginKind::Published | OriginKind::Derived => number.source.as_ref(),
                OriginKind::Assumed => None,
            };
            if let Some(says) = says.filter(|_| stage) {
                let origin = format!("{}, {}", short(&number.file), number.origin);
                let says = format!("{kind}: {says}");
                basis.calibrated.insert(origin, says);
            }
        }
        basis
    }
}

/// The last two parts of a path.
fn short(file: &str) -> String {
    let mut parts: Vec<&str> = file.rsplit(['/', '\\']).take(2).collect();
    parts.reverse();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prediction_may_lie_outside_its_own_interval() {
        let with = |value: f64, ends: Option<(f64, f64)>| Prediction {
            value,
            interval: ends.map(|(low, high)| Interval {
                low,
                high,
                draws: 64,
                failed: 0,
            }),
            failed: Vec::new(),
            replications: 1,
            uncertain: 1,
            basis: Basis::default(),
            missing: Vec::new(),
            played: Vec::new(),
        };
        assert!(with(0.9, Some((1.0, 2.0))).beside_itself());
        assert!(with(2.1, Some((1.0, 2.0))).beside_itself());
        assert!(!with(1.0, Some((1.0, 2.0))).beside_itself());
        assert!(!with(1.0, None).beside_itself());
    }
}
