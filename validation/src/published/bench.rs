//! Scenarios read once, and played with their numbers as stated or with others.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use sim::diag::{Diagnostic, Faults};
use sim::load::{Inputs, Numbers, Source};
use sim::metrics::LoadVerdict;
use sim::world::World;

use super::experiments::Play;
use super::metric::{Metric, Missing};
use super::play::{Outcome, play, read_kernel};
use super::rows::{Measurements, OwnPlay, Row};
use crate::folder::Stock;

/// A scenario by where it is found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scenario {
    /// One of the published experiments, without `.toml`.
    Published(String),
    /// A file.
    File(String),
}

/// A scenario under a policy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Configuration {
    /// The scenario.
    pub scenario: Scenario,
    /// Policy as on the command line; `None`: the file's own.
    pub policy: Option<String>,
}

impl From<Play> for Configuration {
    fn from(play: Play) -> Self {
        Self {
            scenario: Scenario::Published(play.scenario.to_owned()),
            policy: play.policy.map(str::to_owned),
        }
    }
}

/// Scenarios, each read once.
pub(crate) struct Bench<'s> {
    stock: &'s dyn Stock,
    inputs: RefCell<BTreeMap<Scenario, Rc<Inputs>>>,
}

/// What came of a configuration.
#[derive(Debug)]
pub(crate) struct Played {
    pub(crate) world: World,
    pub(crate) outcomes: Vec<Outcome>,
}

impl<'s> Bench<'s> {
    pub(crate) fn new(stock: &'s dyn Stock) -> Self {
        Self {
            stock,
            inputs: RefCell::default(),
        }
    }

    /// The worlds of a row's scenarios under their policies, if all can be played and the row is of the first one's SoC.
    /// What the measurement file names wrongly is a fault of that file.
    pub(crate) fn open(
        &self,
        file: &Measurements,
        row: &Row,
        configurations: &[Configuration],
    ) -> Result<Vec<World>, Faults> {
        let mut all = Faults::default();
        let mut worlds = Vec::with_capacity(configurations.len());
        for (at, configuration) in configurations.iter().enumerate() {
            let own = row.own.as_ref();
            let place = own.and_then(|own| match at {
                0 => Some(&own.this),
                _ => own.against.as_ref(),
            });
            match (self.world(configuration, &Numbers::default()), place) {
                (Err(faults), Some(place)) if faults.sources.is_empty() => {
                    all.add(at_place(faults, file, place));
                }
                (Err(faults), _) => all.add(faults),
                (Ok(world), _) => {
                    // What it is measured against may be another SoC.
                    if at == 0 && place.is_some() && world.soc_key != row.platform {
                        all.add(other_soc(file, row, &world.soc_key));
                    }
                    worlds.push(world);
                }
            }
        }
        if all.list.is_empty() {
            return Ok(worlds);
        }
        Err(all)
    }

    /// The scenario of a configuration with other numbers.
    fn inputs(&self, scenario: &Scenario) -> Result<Rc<Inputs>, Faults> {
        if let Some(inputs) = self.inputs.borrow().get(scenario) {
            return Ok(Rc::clone(inputs));
        }
        let source = self.source(scenario)?;
        let library = self.stock.library(&source.name);
        let files = self.stock.files();
        let inputs = Inputs::read(&source.name, &source.text, library.as_ref(), files)?;
        let inputs = Rc::new(inputs);
        let mut all = self.inputs.borrow_mut();
        all.insert(scenario.clone(), Rc::clone(&inputs));
        Ok(inputs)
    }

    /// See [`Inputs::read_by`]; `worlds` are of this scenario.
    pub(crate) fn read_by(&self, scenario: &Scenario, worlds: &[World]) -> Result<(), Faults> {
        match self.inputs(scenario) {
            Ok(inputs) => inputs.read_by(worlds),
            Err(_) => Ok(()),
        }
    }

    /// Name of a scenario's file, if it is there.
    pub(crate) fn name(&self, scenario: &Scenario) -> Option<String> {
        self.source(scenario).ok().map(|source| source.name)
    }

    /// A scenario that is not there is a fault without a source and without bytes.
    fn source(&self, scenario: &Scenario) -> Result<Source, Faults> {
        let absent = |message: String, label: &str| Faults {
            list: vec![Diagnostic::new("", 0..0, message, label)],
            sources: Vec::new(),
        };
        match scenario {
            Scenario::Published(key) => self.stock.published(key).ok_or_else(|| {
                let message = format!("no scenario `{key}` of the published experiments");
                absent(message, "not there")
            }),
            Scenario::File(path) => match self.stock.files().read(path) {
                Ok(text) => Ok(Source {
                    name: path.clone(),
                    text,
                }),
                Err(error) => Err(absent(format!("`{path}` cannot be read"), &error)),
            },
        }
    }

    /// The world of a configuration with other numbers. A wrong policy is a fault without a source.
    pub(crate) fn world(
        &self,
        configuration: &Configuration,
        numbers: &Numbers,
    ) -> Result<World, Faults> {
        self.session(numbers).world(configuration)
    }

    /// Plays with these numbers.
    pub(crate) fn session<'b>(&'b self, numbers: &'b Numbers) -> Session<'b, 's> {
        Session {
            bench: self,
            numbers,
            inputs: BTreeMap::new(),
            played: BTreeMap::new(),
            run: None,
        }
    }
}

/// One set of numbers: what they give is played once, whoever asks.
pub(crate) struct Session<'b, 's> {
    bench: &'b Bench<'s>,
    numbers: &'b Numbers,
    inputs: BTreeMap<Scenario, Rc<Inputs>>,
    played: BTreeMap<Configuration, Rc<Played>>,
    /// The only replication to play (modulo their number); `None`: all.
    run: Option<u32>,
}

impl Session<'_, '_> {
    /// Plays only one replication of each scenario.
    pub(crate) fn only(self, run: u32) -> Self {
        Self {
            run: Some(run),
            ..self
        }
    }

    fn world(&mut self, configuration: &Configuration) -> Result<World, Faults> {
        let scenario = &configuration.scenario;
        if !self.inputs.contains_key(scenario) {
            let mut inputs = self.bench.inputs(scenario)?;
            if !self.numbers.is_empty() {
                inputs = Rc::new(inputs.with_numbers(self.numbers)?);
            }
            self.inputs.insert(scenario.clone(), inputs);
        }
        let inputs = &self.inputs[scenario];
        match &configuration.policy {
            None => inputs.world(),
            Some(policy) => inputs.with_policy_text(policy).map_err(|why| Faults {
                list: vec![Diagnostic::new("", 0..1, why, "cannot be played")],
                sources: Vec::new(),
            }),
        }
    }

    /// What comes of a configuration.
    pub(crate) fn play(&mut self, configuration: &Configuration) -> Result<Rc<Played>, Faults> {
        if let Some(played) = self.played.get(configuration) {
            return Ok(Rc::clone(played));
        }
        let world = self.world(configuration)?;
        let count = world.replications.max(1);
        let runs = match self.run {
            Some(run) => run % count..run % count + 1,
            None => 0..count,
        };
        let outcomes = runs.clone().map(|run| play(&world, run));
        let mut outcomes = outcomes.collect::<Result<Vec<_>, _>>()?;
        let mut loads: Vec<LoadVerdict> = outcomes.iter().map(|one| one.load).collect();
        // One replication of several settles nothing: a queue grows where it does in all of them together.
        if loads.contains(&LoadVerdict::Saturated) {
            for run in (0..count).filter(|run| !runs.contains(run)) {
                loads.push(play(&world, run)?.load);
            }
        }
        let load = LoadVerdict::over(loads);
        for outcome in &mut outcomes {
            outcome.load = load;
        }
        let played = Rc::new(Played { world, outcomes });
        let known = Rc::clone(&played);
        self.played.insert(configuration.clone(), known);
        Ok(played)
    }

    /// A metric of what was measured first, against the others: mean over the replications, in the
    /// simulator's own unit; the reason where these numbers give none.
    pub(crate) fn read(
        &mut self,
        metric: &Metric,
        row: &Row,
        configurations: &[Configuration],
    ) -> Result<f64, String> {
        let played = configurations.iter();
        let played = played.map(|configuration| self.play(configuration));
        let played = played.collect::<Result<Vec<_>, _>>();
        let played = played.map_err(|faults| first_of(&faults))?;
        mean(metric, row, &played).map_err(|(Missing::Absent(why) | Missing::Wrong(why))| why)
    }
}

/// The first of several faults, in a line: why numbers make no run.
pub(crate) fn first_of(faults: &Faults) -> String {
    let first = faults.list.first();
    first.map_or_else(
        || "its numbers contradict each other".to_owned(),
        |fault| format!("{} ({})", fault.message, fault.label),
    )
}

/// A metric, averaged over the replications.
pub(crate) fn mean(metric: &Metric, row: &Row, played: &[Rc<Played>]) -> Result<f64, Missing> {
    if let Some(victim) = metric.kernel(&row.config) {
        return read_kernel(&played[0].world, victim, &row.config).map_err(Missing::Wrong);
    }
    let runs = played.iter().map(|played| played.outcomes.len()).max();
    let runs = runs.unwrap_or(0);
    let mut sum = 0.0;
    for run in 0..runs {
        let outcomes: Vec<&Outcome> = played
            .iter()
            // What is not random is played once.
            .map(|played| &played.outcomes[run.min(played.outcomes.len() - 1)])
            .collect();
        sum += metric.read(&outcomes)?;
    }
    Ok(sum / runs as f64)
}

/// A row of one SoC that a scenario of another plays.
fn other_soc(file: &Measurements, row: &Row, soc: &str) -> Faults {
    let platform = &row.platform;
    let fault = Diagnostic::new(
        &file.name,
        row.at.platform.clone(),
        format!("the row is of `{platform}`, the scenario that plays it of `{soc}`"),
        "another SoC",
    );
    file.faults(fault.help(format!(
        "write `platform = \"{soc}\"`, or name a scenario with `soc = \"{platform}\"`; boards of one SoC are told apart by `setting` or `source`"
    )))
}

/// Faults of what the measurement file names, at the place where it does.
fn at_place(faults: Faults, file: &Measurements, place: &OwnPlay) -> Faults {
    let list = faults.list.into_iter().map(|mut fault| {
        fault.file.clone_from(&file.name);
        fault.span = if fault.span.is_empty() {
            place.scenario_at.clone()
        } else {
            place.policy_at.clone()
        };
        fault
    });
    Faults {
        list: list.collect(),
        sources: vec![(file.name.clone(), file.text.clone())],
    }
}
