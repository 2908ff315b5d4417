//! Co-run slowdown: how much longer a stage takes because of what runs beside it.

use std::fmt;

use crate::world::EngineId;

/// A running stage, as contention sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Engine that it runs on.
    pub engine: EngineId,
    /// Memory intensity μ = (DRAM bytes / port rate) / time alone, within [0, 1].
    pub mu: f64,
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
/// slowdown is below 1; the order of `running` does not matter; adding a stage never lowers
/// another's slowdown; the bandwidth handed out never exceeds the SoC's.
pub trait ContentionModel: fmt::Debug + Send + Sync {
    /// Writes the slowdown (time beside the others ÷ time alone, ≥ 1) of each running stage.
    ///
    /// `out` has the length of `running`, which has at most [`crate::world::LANES_MAX`] entries.
    fn slowdowns(&self, running: &[Load], out: &mut [f64]);

    /// Name, as in scenario files.
    fn name(&self) -> &'static str;
}
