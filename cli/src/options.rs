//! What `run` and `compare` have in common: the scenario, how often, with what seed, and to where.

use std::fs;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use sim::load::Inputs;
use sim::world::World;

use crate::failure::Failure;
use crate::library::{Disk, Profiles};

/// Form of the result on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text for people.
    Table,
    /// The document that `docs/results.md` describes.
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Scenario file (TOML).
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenario: PathBuf,

    /// Root seed of every random draw, instead of the scenario's.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// Independent runs, instead of the scenario's number; intervals need two.
    #[arg(long, value_name = "N")]
    pub(crate) replications: Option<NonZeroU32>,

    /// Threads that replications run on; results do not depend on it [default: one
    /// per core].
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,

    /// Form of the result on standard output.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

impl Options {
    /// Reads the scenario and what it names.
    pub(crate) fn inputs(&self) -> Result<Inputs, Failure> {
        inputs(&self.scenario)
    }

    /// The scenario's file as the user gave it.
    pub(crate) fn file(&self) -> String {
        self.scenario.to_string_lossy().into_owned()
    }

    /// Puts seed and replications into a world.
    pub(crate) fn apply(&self, world: &mut World) {
        if let Some(seed) = self.seed {
            world.seed = seed;
        }
        if let Some(replications) = self.replications {
            world.replications = replications.get();
        }
    }
}

/// Reads a scenario and what it names.
pub(crate) fn inputs(path: &Path) -> Result<Inputs, Failure> {
    let text = read(path)?;
    let name = path.to_string_lossy();
    Inputs::read(&name, &text, &Profiles::beside(path), &Disk).map_err(Failure::Faults)
}

/// The text of a file that the user named.
pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| {
        Failure::usage(
            format!("`{}` cannot be read: {error}", path.display()),
            "give the path of a text file, relative to the folder that you are in",
        )
    })
}
