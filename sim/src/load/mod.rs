//! From files to a checked world.
//!
//! Text is parsed to a tree with spans, checked against the JSON Schema of its kind, read into the raw
//! types of [`crate::spec`], and lowered to a [`World`]. Each step collects every fault that it can see,
//! so that a user mends a file once; a file with faults of form is still read as far as it can be (`cured`). The crate reads no files: the caller passes text, a library of
//! profiles and a way to read further files.

mod arrivals;
mod checks;
mod compile;
mod contention;
mod cost_form;
mod costs;
mod cured;
mod document;
mod durations;
mod file;
mod finder;
mod graph;
mod heat;
mod inputs;
mod lengths;
mod memory;
mod names;
mod numbers;
mod placement;
mod policy;
mod provenance;
mod room;
mod rows;
mod schema;
mod schema_check;
mod schema_words;
mod shape;
mod soc;
mod streams;
mod suggest;
#[cfg(test)]
mod tests;
mod trace;
mod warnings;
mod without_effect;

use std::fmt;

use document::Document;
use file::Ledger;
pub use inputs::{Files, Inputs, Library, Source};
pub use numbers::Numbers;
pub use policy::{parse_policy, script_path};
pub use schema::{schema, schema_of};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::diag::Faults;
use crate::spec::costs::CostsFile;
use crate::spec::model::ModelFile;
use crate::spec::soc::SocFile;
use crate::world::{Provenance, World};

/// Kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A scenario.
    Scenario,
    /// A SoC profile.
    Soc,
    /// A model.
    Model,
    /// Costs of a model on a SoC.
    Costs,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Scenario, Self::Soc, Self::Model, Self::Costs];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scenario => "scenario",
            Self::Soc => "soc",
            Self::Model => "model",
            Self::Costs => "costs",
        })
    }
}

/// Loads the scenario `text`, which is called `name` (its path, to which other paths are relative).
pub fn load_scenario(
    name: &str,
    text: &str,
    library: &dyn Library,
    files: &dyn Files,
) -> Result<World, Faults> {
    Inputs::read(name, text, library, files)?.world()
}

/// Checks a SoC profile and lists its numbers.
pub fn check_soc(name: &str, text: &str) -> Result<Vec<Provenance>, Faults> {
    let mut ledger = Ledger::default();
    let file = ledger.read::<SocFile>(Kind::Soc, name, text);
    ledger.look(|stand, faults| {
        if let Some(file) = file.with(stand) {
            soc::lower(file, faults);
        }
    });
    finish(file.sound().map(|file| file.provenance), ledger)
}

/// Checks a model and lists its numbers.
pub fn check_model(name: &str, text: &str) -> Result<Vec<Provenance>, Faults> {
    let mut ledger = Ledger::default();
    let file = ledger.read::<ModelFile>(Kind::Model, name, text);
    ledger.look(|stand, faults| {
        if let Some(file) = file.with(stand) {
            graph::lower(file, faults);
            compile::model_sizes(file, faults);
        }
    });
    finish(file.sound().map(|file| file.provenance), ledger)
}

/// Checks a cost file, as far as it goes without its SoC and model, and lists its numbers.
pub fn check_costs(name: &str, text: &str) -> Result<Vec<Provenance>, Faults> {
    let mut ledger = Ledger::default();
    let file = ledger.read::<CostsFile>(Kind::Costs, name, text);
    ledger.look(|stand, faults| {
        if let Some(file) = file.with(stand) {
            costs::lower(file, None, faults);
        }
    });
    finish(file.sound().map(|file| file.provenance), ledger)
}

/// Reads a file of another crate's type, checked as files of this crate are: every fault of its form at
/// once, each with its place and what would be right.
///
/// # Panics
///
/// If the type's schema has a form that [`Kind`]'s types do not need.
pub fn read_as<T: JsonSchema + DeserializeOwned>(name: &str, text: &str) -> Result<T, Faults> {
    let mut ledger = Ledger::default();
    let shape = shape::Shape::of_type::<T>();
    let raw = ledger
        .parse(name, text)
        .and_then(|document| ledger.fit(&document, &shape));
    raw.ok_or_else(|| ledger.into_faults())
}

fn finish(list: Option<Vec<Provenance>>, ledger: Ledger) -> Result<Vec<Provenance>, Faults> {
    match list {
        Some(list) if ledger.faults.is_empty() => Ok(list),
        _ => Err(ledger.into_faults()),
    }
}

/// The kind of file that `text` looks most like by its top-level keys; `None` if it looks like none.
pub fn detect_kind(text: &str) -> Option<Kind> {
    let document = Document::parse("", text).ok()?;
    let root = document.root();
    let likeness = |kind: Kind| match shape::Shape::of(kind) {
        shape::Shape::Table(fields) => {
            let known = root.keys().filter(|key| fields.contains_key(*key)).count();
            let required = fields.iter().filter(|(_, field)| field.required);
            let (there, needed) = required.fold((0, 0), |(there, needed), (key, _)| {
                (there + usize::from(root.key(key).is_present()), needed + 1)
            });
            // A file of a kind has most of what the kind requires; other keys break ties.
            (2 * there >= needed).then_some((100 * there / needed, known))
        }
        _ => None,
    };
    Kind::ALL
        .into_iter()
        .filter_map(|kind| Some((likeness(kind)?, kind)))
        .max_by_key(|(likeness, _)| *likeness)
        .map(|(_, kind)| kind)
}
