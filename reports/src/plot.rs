//! Plots as SVG text.

mod ecdf;
mod gantt;

use std::fmt;

pub use ecdf::latencies;
pub use gantt::{Slices, timeline};

/// Why a plot could not be drawn.
#[derive(Debug)]
pub struct DrawError(String);

impl fmt::Display for DrawError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the plot could not be drawn: {}", self.0)
    }
}

impl std::error::Error for DrawError {}

/// Text of a drawing error, whatever its type.
fn failed(error: impl fmt::Display) -> DrawError {
    DrawError(error.to_string())
}
