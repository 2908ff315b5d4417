//! Co-run slowdown: how much longer a stage takes because of what runs beside it.
//!
//! Four models, to be compared on the same data:
//!
//! | model | knows | hands out at most the bandwidth |
//! | --- | --- | --- |
//! | [`NoContention`] | nothing | no |
//! | [`WaterFilling`] | ports, weights and bandwidth; measured pairs where it falls short of them | yes |
//! | [`Pccs`] | one curve per engine | as far as the curves do |
//! | [`Pairwise`] | a measured grid per ordered pair of engines | as far as the grids do |

mod grid;
#[cfg(test)]
mod laws;
pub(crate) mod lengthened;
mod none;
mod pairwise;
mod pccs;
mod water_filling;

use std::fmt;

use crate::world::{ENGINES_MAX, EngineId, LANES_MAX};

pub use none::NoContention;
pub use pairwise::Pairwise;
pub use pccs::{Pccs, PccsCurve};
pub(crate) use water_filling::Overlap;
pub use water_filling::{Shape, WaterFilling};

/// A running stage, as contention sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Engine that it runs on.
    pub engine: EngineId,
    /// Memory intensity μ = (DRAM bytes / port rate) / time alone, within [0, 1].
    pub mu: f64,
}

impl Load {
    /// Of nothing: a place to be filled.
    pub(crate) const NONE: Self = Self {
        engine: EngineId(0),
        mu: 0.0,
    };
}

/// What every model is built from: the SoC's memory and the engines' ports, by [`EngineId`].
#[derive(Clone, Debug)]
pub struct Ports {
    /// Streaming rate of each engine alone, bytes/s.
    pub port: Vec<f64>,
    /// Arbitration weight of each engine.
    pub weight: Vec<f64>,
    /// Sustained bandwidth of all together, bytes/s.
    pub bandwidth: f64,
    /// Bandwidth that other software draws all the time, bytes/s.
    pub background: f64,
}

/// A measured pair grid.
#[derive(Clone, Debug)]
pub struct PairGrid {
    /// The engine that is slowed down.
    pub victim: EngineId,
    /// The engine beside it.
    pub aggressor: EngineId,
    /// Rising memory intensities of the victim.
    pub victim_mu: Vec<f64>,
    /// Rising memory intensities of the aggressor.
    pub aggressor_mu: Vec<f64>,
    /// Slowdown by victim row and aggressor column, row-major.
    pub slowdown: Vec<f64>,
}

/// A model of co-run slowdown.
///
/// Laws that every model keeps, and the property tests check: a stage alone has slowdown 1; no
/// slowdown is below 1; the order of `running` does not matter, to the bit; adding a stage never
/// lowers another's slowdown. [`WaterFilling`] also never hands out more than the SoC's bandwidth.
///
/// Alone means with no background traffic either, on a memory that carries the engine's port:
/// costs alone are measured so. Background traffic slows a stage that runs by itself as well.
pub trait ContentionModel: fmt::Debug + Send + Sync {
    /// Writes the slowdown (time beside the others ÷ time alone, ≥ 1) of each running stage.
    ///
    /// `out` has the length of `running`, which has at most [`crate::world::LANES_MAX`] entries.
    fn slowdowns(&self, running: &[Load], out: &mut [f64]);

    /// Name, as in scenario files.
    fn name(&self) -> &'static str;

    /// Whether every measured grid that [`Self::slowdowns`] consults covers these stages.
    ///
    /// Past its edge a grid holds the edge's value; the caller says so where this is false.
    fn within_range(&self, running: &[Load]) -> bool {
        let _ = running;
        true
    }
}

/// Why a contention model cannot be built. It names engines by id; the loader knows their names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A parameter is out of its domain.
    #[error("{0}")]
    BadValue(String),
    /// Two grids for the same victim and aggressor.
    #[error("two pair grids for engine {} beside engine {}", victim.0, aggressor.0)]
    DuplicatePair {
        /// The engine that is slowed down.
        victim: EngineId,
        /// The engine beside it.
        aggressor: EngineId,
    },
    /// No curve for an engine.
    #[error("no PCCS curve for engine {}", engine.0)]
    MissingCurve {
        /// The engine that lacks it.
        engine: EngineId,
    },
    /// No grid for an ordered pair of engines.
    #[error("no pair grid for engine {} beside engine {}", victim.0, aggressor.0)]
    MissingPair {
        /// The engine that is slowed down.
        victim: EngineId,
        /// The engine beside it.
        aggressor: EngineId,
    },
}

impl Ports {
    /// Refuses values that no memory system has.
    fn check(&self) -> Result<(), ModelError> {
        if self.port.is_empty() || self.port.len() > ENGINES_MAX {
            return Err(ModelError::BadValue(format!(
                "{} engines where 1 to {ENGINES_MAX} are possible",
                self.port.len()
            )));
        }
        if self.weight.len() != self.port.len() {
            return Err(ModelError::BadValue(format!(
                "{} weights for {} engines",
                self.weight.len(),
                self.port.len()
            )));
        }
        for (engine, (&port, &weight)) in self.port.iter().zip(&self.weight).enumerate() {
            require_positive(port, || format!("port of engine {engine}"))?;
            require_positive(weight, || format!("weight of engine {engine}"))?;
        }
        require_positive(self.bandwidth, || "bandwidth".to_owned())?;
        require_within(self.background, 0.0, f64::MAX, || "background".to_owned())
    }

    /// Weight of the background flow: that of an average engine.
    fn background_weight(&self) -> f64 {
        self.weight.iter().sum::<f64>() / self.weight.len() as f64
    }
}

fn require_positive(value: f64, what: impl FnOnce() -> String) -> Result<(), ModelError> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(ModelError::BadValue(format!(
        "{} is {value}, must be finite and greater than 0",
        what()
    )))
}

fn require_within(
    value: f64,
    low: f64,
    high: f64,
    what: impl FnOnce() -> String,
) -> Result<(), ModelError> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(ModelError::BadValue(format!(
        "{} is {value}, must be within {low} to {high}",
        what()
    )))
}

/// Positions in `running` by engine, then by intensity.
///
/// Sums taken in this order have the same bits however `running` was ordered: loads that tie are
/// equal. Only the first `running.len()` entries count.
fn canonical(running: &[Load]) -> [u8; LANES_MAX] {
    let key = |at: u8| {
        let load = running[at as usize];
        // Of non-negative floats the bits order as the numbers do.
        (load.engine, load.mu.to_bits())
    };
    let mut order = [0; LANES_MAX];
    for next in 0..running.len() {
        let mut hole = next;
        while hole > 0 && key(order[hole - 1]) > key(next as u8) {
            order[hole] = order[hole - 1];
            hole -= 1;
        }
        order[hole] = next as u8;
    }
    order
}
