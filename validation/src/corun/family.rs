//! The models that are held against a matrix, with what is free in each.
//!
//! The matrix is that of two engines: the measured one, and one that stands for all others. Their
//! ports are the largest demands of the matrix.

use sim::contention::{
    ContentionModel, ModelError, NoContention, PairGrid, Pairwise, Pccs, PccsCurve, Ports, Shape,
    WaterFilling,
};
use sim::world::EngineId;

use super::matrix::Matrix;

/// Knots of a fitted pair grid along each axis.
const KNOTS: usize = 4;

/// A model with its free parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// No slowdown.
    None,
    /// Water-filling with default exponents: bandwidth and weight.
    WaterFilling,
    /// The same with both exponents free.
    WaterFillingExponents,
    /// With overlap, occupancy exponent and latency loss free; the burst exponent is the default.
    WaterFillingQueueing,
    /// A PCCS curve: the three regions' seven numbers.
    Pccs,
    /// A pair grid of four by four knots.
    Pairwise,
}

impl Family {
    /// Every one.
    pub const ALL: [Self; 6] = [
        Self::None,
        Self::WaterFilling,
        Self::WaterFillingExponents,
        Self::WaterFillingQueueing,
        Self::Pccs,
        Self::Pairwise,
    ];

    /// Name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::WaterFilling => "water_filling",
            Self::WaterFillingExponents => "water_filling, exponents",
            Self::WaterFillingQueueing => "water_filling, queueing",
            Self::Pccs => "pccs",
            Self::Pairwise => "pairwise",
        }
    }
}

/// Where a free parameter lies.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Free {
    pub(super) name: String,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// A SoC of two engines, of which one is measured.
#[derive(Clone, Debug)]
pub(super) struct Bench {
    /// Rates, GB/s.
    own: f64,
    external: f64,
    peak: f64,
    own_low: f64,
    external_low: f64,
}

impl Bench {
    /// `peak`: the most that the memory can give, GB/s, if known.
    pub(super) fn new(matrix: &Matrix, peak: Option<f64>) -> Self {
        let last = |axis: &[f64]| axis.last().copied().unwrap_or(1.0);
        let (own, external) = (last(&matrix.own), last(&matrix.external));
        Self {
            own,
            external,
            peak: peak.unwrap_or(own + external),
            own_low: matrix.own[0],
            external_low: matrix.external[0],
        }
    }

    /// Memory intensities of both engines.
    pub(super) fn intensities(&self, own: f64, external: f64) -> (f64, f64) {
        (own / self.own, external / self.external)
    }

    /// The free parameters, with their bounds.
    pub(super) fn free(&self, family: Family) -> Vec<Free> {
        let free = |name: &str, low: f64, high: f64| Free {
            name: name.to_owned(),
            low,
            high,
        };
        let mut shared = vec![
            free("bandwidth_gbps", self.own, self.peak),
            free("share", 0.05, 0.95),
        ];
        match family {
            Family::None => Vec::new(),
            Family::WaterFilling => shared,
            Family::WaterFillingExponents => {
                shared.push(free("overlap_exponent", 1.0, 30.0));
                shared.push(free("burst_exponent", 0.0, 1.0));
                shared
            }
            Family::WaterFillingQueueing => {
                shared.push(free("overlap_exponent", 1.0, 30.0));
                shared.push(free("occupancy_exponent", 0.0, 1.0));
                shared.push(free("latency_loss", 0.0, 0.5));
                shared
            }
            Family::Pccs => vec![
                free("normal_from_gbps", self.own_low, self.own),
                free("intensive_from_gbps", self.own_low, self.own),
                free("minor_loss", 0.0, 0.5),
                free("balance_gbps", self.external_low, self.external),
                free("onset_gbps", 0.0, self.own + self.external),
                free("normal_rate", 0.0, 2.0 / self.external),
                free("intensive_rate", 0.0, 2.0 / self.external),
            ],
            Family::Pairwise => (0..KNOTS * KNOTS)
                .map(|at| free(&format!("speed[{}][{}]", at / KNOTS, at % KNOTS), 0.05, 1.0))
                .collect(),
        }
    }

    /// The model with these values.
    pub(super) fn model(
        &self,
        family: Family,
        values: &[f64],
    ) -> Result<Box<dyn ContentionModel>, ModelError> {
        let shape = Shape::default();
        Ok(match (family, values) {
            (Family::WaterFilling, &[bandwidth, share]) => {
                Box::new(self.filling(bandwidth, share, shape)?)
            }
            (Family::WaterFillingExponents, &[bandwidth, share, overlap, burst]) => {
                let shape = Shape {
                    overlap_exponent: overlap,
                    burst_exponent: burst,
                    ..shape
                };
                Box::new(self.filling(bandwidth, share, shape)?)
            }
            (Family::WaterFillingQueueing, &[bandwidth, share, overlap, occupancy, latency]) => {
                let shape = Shape {
                    overlap_exponent: overlap,
                    occupancy_exponent: occupancy,
                    latency_loss: latency,
                    ..shape
                };
                Box::new(self.filling(bandwidth, share, shape)?)
            }
            (Family::Pccs, &[one, other, minor_loss, balance, onset, normal, intensive]) => {
                let curve = PccsCurve {
                    normal_from: one.min(other),
                    intensive_from: one.max(other),
                    minor_loss,
                    balance,
                    onset,
                    normal_rate: normal,
                    intensive_rate: intensive,
                };
                // The floor by weight is not part of the curve; it is kept out of the way.
                let ports = self.ports(self.own + self.external, 1e-3);
                Box::new(Pccs::new(ports, vec![Some(curve); 2])?)
            }
            (Family::Pairwise, speeds) => {
                let axis = |low: f64| {
                    let step = (1.0 - low) / (KNOTS - 1) as f64;
                    (0..KNOTS)
                        .map(|at| {
                            if at + 1 == KNOTS {
                                1.0
                            } else {
                                low + step * at as f64
                            }
                        })
                        .collect::<Vec<f64>>()
                };
                let grid = PairGrid {
                    victim: EngineId(0),
                    aggressor: EngineId(1),
                    victim_mu: axis(self.own_low / self.own),
                    aggressor_mu: axis(self.external_low / self.external),
                    slowdown: speeds.iter().map(|speed| 1.0 / speed).collect(),
                };
                let back = PairGrid {
                    victim: EngineId(1),
                    aggressor: EngineId(0),
                    ..grid.clone()
                };
                Box::new(Pairwise::new(2, vec![grid, back])?)
            }
            _ => Box::new(NoContention),
        })
    }

    fn filling(
        &self,
        bandwidth: f64,
        share: f64,
        shape: Shape,
    ) -> Result<WaterFilling, ModelError> {
        WaterFilling::with_shape(self.ports(bandwidth, share), shape, vec![])
    }

    fn ports(&self, bandwidth: f64, share: f64) -> Ports {
        Ports {
            port: vec![self.own * 1e9, self.external * 1e9],
            weight: vec![share, 1.0 - share],
            bandwidth: bandwidth * 1e9,
            background: 0.0,
        }
    }

    /// What keeps knots that no point touches near their neighbours: differences of speed along both
    /// axes of a pair grid, none for the other models.
    pub(super) fn roughness(family: Family, values: &[f64]) -> Vec<f64> {
        let mut all = Vec::new();
        if family == Family::Pairwise {
            for at in 0..values.len() {
                if at % KNOTS + 1 < KNOTS {
                    all.push(values[at + 1] - values[at]);
                }
                if at + KNOTS < values.len() {
                    all.push(values[at + KNOTS] - values[at]);
                }
            }
        }
        all
    }
}
