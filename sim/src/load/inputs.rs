//! The files that a scenario stands on: found, read and checked.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::compile::{self, Keys, Parts};
use super::cured::Stand;
use super::file::{File, Ledger, Reading};
use super::finder::{Finder, key_of, read_script};
use super::numbers::Numbers;
use super::policy::Scripts;
use super::trace::Traces;
use super::{Kind, policy, without_effect};
use crate::diag::{Diagnostic, Faults};
use crate::spec::costs::CostsFile;
use crate::spec::model::ModelFile;
use crate::spec::scenario::{Policy, ScenarioFile};
use crate::spec::soc::SocFile;
use crate::world::World;

/// The files of a scenario, as far as each can be read.
struct Readings {
    scenario: Reading<ScenarioFile>,
    soc: Reading<SocFile>,
    model: Reading<ModelFile>,
    costs: Reading<CostsFile>,
    /// Absent where none is named.
    believed: Option<Reading<CostsFile>>,
}

impl Readings {
    fn are_sound(&self) -> bool {
        fn sound<T>(reading: &Reading<T>) -> bool {
            matches!(reading, Reading::Sound(_))
        }
        sound(&self.scenario)
            && sound(&self.soc)
            && sound(&self.model)
            && sound(&self.costs)
            && self.believed.as_ref().is_none_or(sound)
    }

    /// Faults of meaning beside those of form: of all files together or, where one cannot be read at all, of each by
    /// itself.
    fn look(&self, traces: &Traces, scripts: &Scripts, keys: &Keys, ledger: &mut Ledger) {
        ledger.look(|stand, faults| {
            let believed = self.believed.as_ref().map(|reading| reading.with(stand));
            let files = (
                self.scenario.with(stand),
                self.soc.with(stand),
                self.model.with(stand),
                self.costs.with(stand),
            );
            if let (Some(scenario), Some(soc), Some(model), Some(costs)) = files
                && !matches!(believed, Some(None))
            {
                let parts = Parts {
                    scenario,
                    soc,
                    model,
                    costs,
                    believed: believed.flatten(),
                    traces,
                    scripts,
                    keys,
                };
                return compile::partly(&parts, faults);
            }
            let (scenario, soc, model, costs) = files;
            compile::each(scenario.map(|file| (file, traces)), soc, model, faults);
            for costs in [costs, believed.flatten()].into_iter().flatten() {
                super::costs::lower(costs, None, faults);
            }
        });
    }
}

/// Reads a file, if it was found.
fn read_found<T: DeserializeOwned>(
    ledger: &mut Ledger,
    kind: Kind,
    found: Option<Source>,
) -> Reading<T> {
    found.map_or(Reading::Lost, |source| {
        ledger.read(kind, &source.name, &source.text)
    })
}

/// Reads files, which this crate does not.
pub trait Files {
    /// The text of the file at `path`, or why it cannot be read.
    fn read(&self, path: &str) -> Result<String, String>;
}

/// A file's name and text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Name for messages.
    pub name: String,
    /// Text.
    pub text: String,
}

/// Profiles by key.
pub trait Library {
    /// The SoC profile called `key`.
    fn soc(&self, key: &str) -> Option<Source>;
    /// The model called `key`.
    fn model(&self, key: &str) -> Option<Source>;
    /// The costs of a model on a SoC.
    fn costs(&self, soc_key: &str, model_key: &str) -> Option<Source>;
    /// Keys of a kind: of SoCs, of models, and `soc/model` of costs.
    fn names(&self, kind: Kind) -> Vec<String>;
}

/// A scenario with everything that it names, read and each checked by itself.
#[derive(Debug)]
pub struct Inputs {
    scenario: Arc<File<ScenarioFile>>,
    soc: Arc<File<SocFile>>,
    model: Arc<File<ModelFile>>,
    costs: Arc<File<CostsFile>>,
    believed: Option<Arc<File<CostsFile>>>,
    traces: Arc<Traces>,
    scripts: Scripts,
    keys: Keys,
    sources: Vec<(String, String)>,
}

impl Inputs {
    /// Reads the scenario `text`, called `name`, and what it names.
    pub fn read(
        name: &str,
        text: &str,
        library: &dyn Library,
        files: &dyn Files,
    ) -> Result<Self, Faults> {
        let mut ledger = Ledger::default();
        match Self::read_all(name, text, library, files, &mut ledger) {
            Some(mut inputs) => {
                // All that the files say together is checked here too, so that one pass shows all faults.
                compile::compile(&inputs.parts(), None, &mut ledger.faults);
                if ledger.faults.is_empty() {
                    inputs.sources = ledger.into_faults().sources;
                    return Ok(inputs);
                }
                Err(ledger.into_faults())
            }
            None => Err(ledger.into_faults()),
        }
    }

    fn read_all(
        name: &str,
        text: &str,
        library: &dyn Library,
        files: &dyn Files,
        ledger: &mut Ledger,
    ) -> Option<Self> {
        let document = ledger.parse(name, text)?;
        let root = document.root();
        let finder = Finder {
            scenario: name,
            library,
            files,
        };
        let soc_name = root.key("soc").text().map(str::to_owned);
        let model_name = root.key("model").text().map(str::to_owned);
        let costs_name = root.key("costs").text().map(str::to_owned);
        let believed_name = root.key("beliefs").key("costs").text().map(str::to_owned);
        let places = [
            root.key("soc").fault("", "").span,
            root.key("model").fault("", "").span,
            root.key("costs").fault("", "").span,
            root.key("beliefs").key("costs").fault("", "").span,
        ];
        let [soc_at, model_at, costs_at, believed_at] = places;

        let scenario: Reading<ScenarioFile> = ledger.check(Kind::Scenario, document);
        let mut find = |what: Result<Source, Diagnostic>| match what {
            Ok(source) => Some(source),
            Err(fault) => {
                ledger.faults.push(fault);
                None
            }
        };
        let soc = soc_name
            .as_ref()
            .and_then(|key| find(finder.profile(Kind::Soc, key, &soc_at)));
        let model = model_name
            .as_ref()
            .and_then(|key| find(finder.profile(Kind::Model, key, &model_at)));
        let keys = Keys {
            soc: key_of(soc_name.as_deref().unwrap_or_default()),
            model: key_of(model_name.as_deref().unwrap_or_default()),
            own_costs: costs_name.is_some(),
        };
        let costs = match &costs_name {
            Some(path) => find(finder.path(path, &costs_at)),
            None if soc.is_some() && model.is_some() => find(finder.costs(&keys, &soc_at)),
            None => None,
        };
        let believed = believed_name
            .as_ref()
            .map(|path| find(finder.path(path, &believed_at)));

        let known = scenario.with(Stand::Small);
        let traces = known.map_or_else(Traces::new, |file| finder.traces(file, ledger));
        let scripts = known.map_or_else(Scripts::new, |file| finder.script(file, ledger));
        let soc = read_found::<SocFile>(ledger, Kind::Soc, soc);
        let model = read_found::<ModelFile>(ledger, Kind::Model, model);
        let costs = read_found::<CostsFile>(ledger, Kind::Costs, costs);
        let believed = believed.map(|found| read_found::<CostsFile>(ledger, Kind::Costs, found));
        let all = Readings {
            scenario,
            soc,
            model,
            costs,
            believed,
        };
        if !all.are_sound() {
            all.look(&traces, &scripts, &keys, ledger);
            return None;
        }
        Some(Self {
            scenario: Arc::new(all.scenario.sound()?),
            soc: Arc::new(all.soc.sound()?),
            model: Arc::new(all.model.sound()?),
            costs: Arc::new(all.costs.sound()?),
            believed: match all.believed {
                Some(believed) => Some(Arc::new(believed.sound()?)),
                None => None,
            },
            traces: Arc::new(traces),
            scripts,
            keys,
            sources: Vec::new(),
        })
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            scenario: &self.scenario,
            soc: &self.soc,
            model: &self.model,
            costs: &self.costs,
            believed: self.believed.as_deref(),
            traces: &self.traces,
            scripts: &self.scripts,
            keys: &self.keys,
        }
    }

    /// The same with other numbers in the profiles, without reading any file again. Numbers of files
    /// that the scenario does not name change nothing.
    ///
    /// # Errors
    ///
    /// A file that cannot be read with these numbers.
    pub fn with_numbers(&self, numbers: &Numbers) -> Result<Self, Faults> {
        let mut faults = Vec::new();
        let other = Self {
            scenario: Arc::clone(&self.scenario),
            soc: renumber(&self.soc, numbers, &mut faults),
            model: renumber(&self.model, numbers, &mut faults),
            costs: renumber(&self.costs, numbers, &mut faults),
            believed: self
                .believed
                .as_ref()
                .map(|file| renumber(file, numbers, &mut faults)),
            traces: Arc::clone(&self.traces),
            scripts: self.scripts.clone(),
            keys: self.keys.clone(),
            sources: self.sources.clone(),
        };
        if faults.is_empty() {
            return Ok(other);
        }
        Err(Faults {
            list: faults,
            sources: other.sources,
        })
    }

    /// The same with other texts for some of its files, the rest shared. A scenario's text must name the
    /// same profiles and trace files as before: what it names is not read again. What the files say
    /// together is checked when a world is made.
    ///
    /// # Errors
    ///
    /// Faults of these files, each by itself.
    pub fn with_texts(&self, texts: &[(Kind, String)]) -> Result<Self, Faults> {
        let mut ledger = Ledger::default();
        let mut other = Self {
            scenario: Arc::clone(&self.scenario),
            soc: Arc::clone(&self.soc),
            model: Arc::clone(&self.model),
            costs: Arc::clone(&self.costs),
            believed: self.believed.clone(),
            traces: Arc::clone(&self.traces),
            scripts: self.scripts.clone(),
            keys: self.keys.clone(),
            sources: Vec::new(),
        };
        for (kind, text) in texts {
            let name = self.file(*kind).0;
            match kind {
                Kind::Scenario => replace(&mut other.scenario, *kind, name, text, &mut ledger),
                Kind::Soc => replace(&mut other.soc, *kind, name, text, &mut ledger),
                Kind::Model => replace(&mut other.model, *kind, name, text, &mut ledger),
                Kind::Costs => replace(&mut other.costs, *kind, name, text, &mut ledger),
            }
        }
        if !ledger.faults.is_empty() {
            return Err(ledger.into_faults());
        }
        other.sources.clone_from(&self.sources);
        for (name, text) in ledger.into_faults().sources {
            if let Some(known) = other.sources.iter_mut().find(|(known, _)| *known == name) {
                known.1 = text;
            }
        }
        Ok(other)
    }

    /// Name and text of the file of a kind.
    pub fn file(&self, kind: Kind) -> (&str, &str) {
        match kind {
            Kind::Scenario => (self.scenario.name(), self.scenario.text()),
            Kind::Soc => (self.soc.name(), self.soc.text()),
            Kind::Model => (self.model.name(), self.model.text()),
            Kind::Costs => (self.costs.name(), self.costs.text()),
        }
    }

    /// The world with the scenario's policy.
    pub fn world(&self) -> Result<World, Faults> {
        self.build(None)
    }

    /// The world with another policy.
    pub fn with_policy(&self, policy: &Policy) -> Result<World, Faults> {
        self.build(Some(policy))
    }

    /// The world with another policy, given as on the command line (see
    /// [`parse_policy`](super::parse_policy)).
    ///
    /// # Errors
    ///
    /// A message that says what is wrong with the policy.
    pub fn with_policy_text(&self, text: &str) -> Result<World, String> {
        let policy = policy::parse_policy(text, &self.lanes())?;
        self.with_policy(&policy)
            .map_err(|faults| faults.to_string())
    }

    /// The same with one more script that a policy may name by its path: `script:PATH` on the command line.
    ///
    /// # Errors
    ///
    /// A text that is no policy.
    pub fn with_script(&self, source: Source) -> Result<Self, Faults> {
        let mut ledger = Ledger::default();
        let mut other = self.with_texts(&[])?;
        read_script(
            &source.name.clone(),
            source,
            &mut other.scripts,
            &mut ledger,
        );
        if !ledger.faults.is_empty() {
            return Err(ledger.into_faults());
        }
        other.sources.extend(ledger.into_faults().sources);
        Ok(other)
    }

    /// The same with the scripts of other inputs, where it has none of that path.
    #[must_use]
    pub fn with_scripts_of(mut self, other: &Self) -> Self {
        for (path, program) in &other.scripts {
            let own = self.scripts.entry(path.clone());
            own.or_insert_with(|| program.clone());
        }
        self
    }

    /// Whether a script of this path has been read.
    pub fn has_script(&self, path: &str) -> bool {
        self.scripts.contains_key(path)
    }

    /// Name and text of every file that the scenario stands on, itself the first.
    pub fn sources(&self) -> &[(String, String)] {
        &self.sources
    }

    /// Names of the SoC's lanes.
    pub fn lanes(&self) -> Vec<&str> {
        self.soc.raw.lanes.keys().map(String::as_str).collect()
    }

    /// Checks that each key that the scenario sets changes something in at least one of `worlds`, which were made
    /// of these inputs; in others it is only worth a warning.
    ///
    /// # Errors
    ///
    /// A fault for each key that changes nothing in any of them.
    pub fn read_by(&self, worlds: &[World]) -> Result<(), Faults> {
        let parts = self.parts();
        let mut worlds = worlds.iter().map(|world| without_effect::of(&parts, world));
        let mut list = worlds.next().unwrap_or_default();
        for other in worlds {
            list.retain(|key| {
                let mut paths = other.iter().map(|idle| idle.place.path());
                paths.any(|path| path == key.place.path())
            });
        }
        if list.is_empty() {
            return Ok(());
        }
        Err(Faults {
            list: list.iter().map(without_effect::Idle::fault).collect(),
            sources: self.sources.clone(),
        })
    }

    fn build(&self, policy: Option<&Policy>) -> Result<World, Faults> {
        let mut list = Vec::new();
        match compile::compile(&self.parts(), policy, &mut list) {
            Some(world) if list.is_empty() => Ok(world),
            _ => Err(Faults {
                list,
                sources: self.sources.clone(),
            }),
        }
    }
}

/// Reads a file again from another text, where that has no fault.
fn replace<T: DeserializeOwned>(
    file: &mut Arc<File<T>>,
    kind: Kind,
    name: &str,
    text: &str,
    ledger: &mut Ledger,
) {
    if let Some(other) = ledger.read::<T>(kind, name, text).sound() {
        *file = Arc::new(other);
    }
}

/// A file with other numbers, or the file itself where none of them is in it.
fn renumber<T: DeserializeOwned>(
    file: &Arc<File<T>>,
    numbers: &Numbers,
    faults: &mut Vec<Diagnostic>,
) -> Arc<File<T>> {
    match file.with_numbers(numbers) {
        None => Arc::clone(file),
        Some(Ok(other)) => Arc::new(other),
        Some(Err(fault)) => {
            faults.push(fault);
            Arc::clone(file)
        }
    }
}
