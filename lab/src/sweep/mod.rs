//! Sweeps: a scenario with any keys of it, or of its profiles, varied.
//!
//! A [`Plan`] says which values every cell has, by its number alone. Cells run on all cores, each row goes
//! to an append-only journal as it is found, and once all are there they are written in order as CSV and
//! Parquet. Order, threads, interruptions and the number of shards change nothing in those files, and memory
//! does not grow with the number of cells.

mod axis;
mod edit;
mod front;
mod guard;
mod journal;
mod map;
mod plan;
mod row;
mod run;
mod sample;
mod study;
mod table;

pub use axis::{Axis, Value};
pub use edit::{Key, KeyKind};
pub use front::{Goals, front};
pub use journal::Shard;
pub use map::{Grid, fixed, map};
pub use plan::{Plan, Sampling};
pub use row::{Column, Type};
pub use run::{Outcome, merge, run};
pub use study::{Prepare, Study};

use std::io;
use std::path::PathBuf;

/// Why a sweep cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What was asked makes no sense.
    #[error("{message}")]
    Asked {
        /// What is wrong.
        message: String,
        /// What would be right.
        help: String,
    },
    /// A file cannot be read or written.
    #[error("`{}` cannot be {what}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Read, written, …
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The Parquet file cannot be written.
    #[error("`{}` cannot be written: {source}", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// Why.
        source: parquet::errors::ParquetError,
    },
}

impl Error {
    fn asked(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Asked {
            message: message.into(),
            help: help.into(),
        }
    }
}
