//! `crossinfer schema`: the JSON Schema of a kind of file.

use clap::{Args, ValueEnum};
use sim::load::{Kind, schema};
use validation::fit::fit_schema;
use validation::published::measurements_schema;

use crate::failure::{Failure, print};

/// Print the JSON Schema of a kind of file, for editors.
///
/// Editors with a TOML language server complete and check a file whose first line is
/// `#:schema PATH`.
#[derive(Debug, Args)]
#[command(after_long_help = "Example:\n  crossinfer schema scenario > scenario.schema.json")]
pub(crate) struct Arguments {
    /// Kind of file.
    #[arg(value_enum, value_name = "KIND")]
    kind: Name,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Name {
    /// What runs on a SoC, how and for how long.
    Scenario,
    /// Engines, lanes, memory, contention and power of a SoC.
    Soc,
    /// Sizes and stages of a model.
    Model,
    /// What a model costs on a SoC.
    Costs,
    /// Measured values, for `validate` and `fit`.
    Measurements,
    /// What `fit` may change, and what it is to explain.
    Fit,
}

pub(crate) fn main(arguments: &Arguments) -> Result<(), Failure> {
    print(&match arguments.kind {
        Name::Scenario => schema(Kind::Scenario),
        Name::Soc => schema(Kind::Soc),
        Name::Model => schema(Kind::Model),
        Name::Costs => schema(Kind::Costs),
        Name::Measurements => measurements_schema(),
        Name::Fit => fit_schema(),
    })
}
