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

#[cfg(test)]
mod tests {
    use sim::simulation::Simulation;

    use super::*;
    use crate::toy;

    #[test]
    fn plots_show_what_ran() {
        let world = toy::world(&toy::scenario(0.2));
        let mut slices = Slices::new(&world);
        let mut simulation = Simulation::new(&world);
        simulation.run_into(0, &mut slices);
        let gantt = timeline(&world, &slices).expect("it can be drawn");
        for word in ["cpu", "npu", "encode", "query prefill", "time, s"] {
            assert!(gantt.contains(word), "{word}");
        }
        assert!(gantt.matches("<rect").count() > slices.drawn());
        let ecdf = latencies(&world, simulation.metrics()).expect("it can be drawn");
        assert!(ecdf.contains("time to first token") && ecdf.contains("completion"));
    }

    #[test]
    fn a_run_without_anything_is_drawn_empty() {
        let world = toy::world(&toy::scenario(0.2));
        let gantt = timeline(&world, &Slices::new(&world)).expect("it can be drawn");
        assert!(gantt.contains("<svg"));
        let nothing = sim::metrics::Metrics::new(&world);
        assert!(latencies(&world, &nothing).is_ok());
    }
}
