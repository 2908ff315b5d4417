//! A cell's world: the scenario with other values.

use std::fmt;
use std::path::Path;

use reports::interval::Replicated;
use sim::diag::{Faults, line_column};
use sim::load::{Files, Inputs, Kind, Library};
use sim::simulation::Simulation;
use sim::world::World;
use toml_edit::DocumentMut;

use super::Error;
use super::axis::{Axis, Value};
use super::edit::{Key, KeyKind};
use super::plan::Plan;
use super::row;

/// Changes every world before it is run: seed, replications.
pub type Prepare<'a> = &'a (dyn Fn(&mut World) + Sync);

/// What a sweep or a search varies.
pub struct Study<'a> {
    inputs: &'a Inputs,
    library: &'a (dyn Library + Sync),
    files: &'a (dyn Files + Sync),
    prepare: Prepare<'a>,
    /// The files as documents, by kind.
    documents: Vec<(Kind, DocumentMut)>,
}

impl fmt::Debug for Study<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Study").finish_non_exhaustive()
    }
}

impl<'a> Study<'a> {
    /// Of a scenario that has been read with this library and these files, and with the scripts that the policies
    /// among the values name.
    ///
    /// # Errors
    ///
    /// A file that is no TOML, which a read scenario has not.
    pub fn new(
        inputs: &'a Inputs,
        library: &'a (dyn Library + Sync),
        files: &'a (dyn Files + Sync),
        prepare: Prepare<'a>,
    ) -> Result<Self, Error> {
        let documents = Kind::ALL.into_iter().map(|kind| {
            let (name, text) = inputs.file(kind);
            let document = text
                .parse()
                .map_err(|error| Error::asked(format!("`{name}`: {error}"), "mend the file"))?;
            Ok((kind, document))
        });
        Ok(Self {
            inputs,
            library,
            files,
            prepare,
            documents: documents.collect::<Result<_, Error>>()?,
        })
    }

    /// The world with these values, or what is wrong with them, in a line.
    ///
    /// # Errors
    ///
    /// Values that make no scenario.
    pub fn world(&self, axes: &[Axis], values: &[Value]) -> Result<World, String> {
        let of = |kind| {
            let all = axes
                .iter()
                .zip(values)
                .map(|(axis, value)| (&axis.key, value));
            all.filter(move |(key, _)| key.kind == kind)
                .collect::<Vec<(&Key, &Value)>>()
        };
        let scenario = of(KeyKind::File(Kind::Scenario));
        let again = scenario.iter().any(|(key, _)| key.names_files());
        let mut texts = Vec::new();
        for kind in Kind::ALL {
            let changes = of(KeyKind::File(kind));
            let now = kind == Kind::Scenario || !again;
            if now && !changes.is_empty() {
                texts.push((kind, self.edited(kind, &changes)?));
            }
        }
        let mut inputs = match texts.first() {
            Some((Kind::Scenario, text)) if again => {
                let name = self.inputs.file(Kind::Scenario).0;
                let inputs = Inputs::read(name, text, self.library, self.files);
                inputs.map(|inputs| inputs.with_scripts_of(self.inputs))
            }
            _ => self.inputs.with_texts(&texts),
        }
        .map_err(|faults| line(&faults))?;
        if again {
            // Other profiles may have been read: these are the ones to change.
            let mut texts = Vec::new();
            for kind in [Kind::Soc, Kind::Model, Kind::Costs] {
                let changes = of(KeyKind::File(kind));
                if !changes.is_empty() {
                    let document = inputs.file(kind).1.parse::<DocumentMut>();
                    let mut document = document.map_err(|error| error.to_string())?;
                    set(&mut document, &changes)?;
                    texts.push((kind, document.to_string()));
                }
            }
            inputs = inputs.with_texts(&texts).map_err(|faults| line(&faults))?;
        }
        let mut world = match of(KeyKind::Policy).first() {
            Some((_, policy)) => {
                let policy = sim::load::parse_policy(&policy.to_string(), &inputs.lanes())?;
                inputs.with_policy(&policy)
            }
            None => inputs.world(),
        }
        .map_err(|faults| line(&faults))?;
        (self.prepare)(&mut world);
        Ok(world)
    }

    fn edited(&self, kind: Kind, changes: &[(&Key, &Value)]) -> Result<String, String> {
        let document = self.documents.iter().find(|(of, _)| *of == kind);
        let mut document = document
            .map(|(_, document)| document.clone())
            .unwrap_or_default();
        set(&mut document, changes)?;
        Ok(document.to_string())
    }

    /// The texts of a cell's row, the cell first.
    pub(super) fn row(&self, plan: &Plan, cell: u64) -> Vec<String> {
        let values = plan.values(cell);
        let found = self
            .world(plan.axes(), &values)
            .and_then(|world| replicate(&world).map_err(|faults| line(&faults)));
        std::iter::once(cell.to_string())
            .chain(values.iter().map(Value::to_string))
            .chain(row::measured(&found))
            .collect()
    }

    /// Texts that results depend on.
    pub(super) fn sources(&self) -> impl Iterator<Item = &str> {
        let sources = self.inputs.sources().iter();
        sources.flat_map(|(name, text)| [name.as_str(), text.as_str()])
    }
}

/// All replications of a world, one after another.
pub(super) fn replicate(world: &World) -> Result<Replicated, Faults> {
    let mut simulation = Simulation::new(world);
    let summaries = (0..world.replications).map(|run| {
        simulation.run(run)?;
        Ok(simulation.summary())
    });
    Ok(Replicated {
        summaries: summaries.collect::<Result<_, Faults>>()?,
    })
}

fn set(document: &mut DocumentMut, changes: &[(&Key, &Value)]) -> Result<(), String> {
    changes
        .iter()
        .try_for_each(|(key, value)| key.set(document, value))
}

/// The first fault, in a line.
fn line(faults: &Faults) -> String {
    let Some(first) = faults.list.first() else {
        return "is no scenario".into();
    };
    let more = match faults.list.len() {
        1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    // Places in files whose keys were set mean nothing; those in a script do.
    let toml = Path::new(&first.file).extension();
    let place = if toml.is_none_or(|ending| ending != "toml") {
        let (line, column) = line_column(faults.source(&first.file), first.span.start);
        format!("{}:{line}:{column}: ", first.file)
    } else {
        String::new()
    };
    format!("{place}{}: {}{more}", first.message, first.label)
}
