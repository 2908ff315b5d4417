//! What a stage is bound by on an engine: seconds of each bound at the engine's peaks, before any efficiency.

use std::fmt;

use sim::memory::{self, Taken, Weights};

use super::chip::{self, Chip, Engine};
use super::shape::{DATA_TYPES, Shape, Vision, pairs};
use super::soc;

/// What a chip cannot do with a model: an answer, not a fault.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// The engine takes no weights of this data type.
    DataType {
        /// Engine.
        engine: String,
        /// Data type.
        datatype: String,
        /// What it takes.
        takes: Vec<String>,
    },
    /// The model does not fit the engine's addresses or the memory.
    Fit(memory::Refusal),
    /// The datasheet has no peak for the arithmetic of this data type.
    NoPeak {
        /// Engine.
        engine: String,
        /// Arithmetic.
        arithmetic: String,
    },
    /// The name of the quantisation does not say how many bits a weight has.
    UnknownType {
        /// Data type.
        datatype: String,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DataType {
                engine,
                datatype,
                takes,
            } => write!(
                f,
                "data type not supported: {engine} takes {}, not {datatype}",
                takes.join(", ")
            ),
            Self::Fit(refusal) => refusal.fmt(f),
            Self::NoPeak { engine, arithmetic } => write!(
                f,
                "data type not supported: the datasheet states no {arithmetic} rate of {engine}"
            ),
            Self::UnknownType { datatype } => write!(
                f,
                "how many bits a weight of `{datatype}` has is unknown: give the model's GGUF file, or one of {DATA_TYPES}"
            ),
        }
    }
}

/// Whether a model fits, by [`sim::memory`] as of a scenario: in the memory beside its tower and what the SoC's profile
/// reserves, with bytes left for a context, and in the addresses of an engine with the weights of all that it runs.
/// `runs` says whether this engine runs the language model and the tower.
///
/// # Errors
///
/// What it does not fit.
pub fn fits(
    chip: &Chip,
    name: &str,
    engine: &Engine,
    weights: Weights,
    runs: [bool; 2],
) -> Result<(), Refusal> {
    let taken = Taken {
        weights,
        reserved: soc::reserved(chip),
        background: 0.0,
    };
    taken.left(chip.capacity_gb * 1e9).map_err(Refusal::Fit)?;
    let of = |runs: bool, bytes: f64| if runs { bytes } else { 0.0 };
    let own = Weights {
        language: of(runs[0], weights.language),
        tower: of(runs[1], weights.tower),
    };
    memory::addressed(name, own, soc::address_limit(engine)).map_err(Refusal::Fit)
}

/// Seconds of each bound of a stage, at peaks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Operations ÷ peak rate.
    pub compute: f64,
    /// Weights (and KV) read once ÷ peak bandwidth of the DRAM.
    pub stream: f64,
    /// Activations ÷ what the engine's own cores can fetch.
    pub feed: f64,
    /// Layers ÷ rate of one CPU core: s times 1e9 operations a layer.
    pub host: f64,
}

impl Work {
    /// The four, in order.
    pub fn terms(self) -> [f64; 4] {
        [self.compute, self.stream, self.feed, self.host]
    }
}

/// A model on an engine of a chip, in a data type that fits there.
#[derive(Clone, Debug)]
pub struct Placed<'a> {
    shape: &'a Shape,
    datatype: String,
    weights: f64,
    read: f64,
    /// Bytes that a prefill reads once: all experts, but of an embedding of its own next to nothing.
    layers: f64,
    /// Operations a second.
    peak: f64,
    /// Bytes a second.
    dram: f64,
    port: f64,
    /// Operations a second.
    host: f64,
}

impl<'a> Placed<'a> {
    /// Puts a model on an engine.
    ///
    /// # Errors
    ///
    /// Why it does not go there.
    pub fn new(
        chip: &Chip,
        name: &str,
        engine: &Engine,
        shape: &'a Shape,
        datatype: &str,
        threads: Option<u32>,
    ) -> Result<Self, Refusal> {
        if !engine.takes(datatype) {
            return Err(Refusal::DataType {
                engine: name.to_owned(),
                datatype: datatype.to_owned(),
                takes: engine.types.clone(),
            });
        }
        let unknown = || Refusal::UnknownType {
            datatype: datatype.to_owned(),
        };
        let weights = shape.weights(datatype).ok_or_else(unknown)?;
        let read = shape.read_a_token(datatype).ok_or_else(unknown)?;
        let alone = Weights {
            language: weights,
            tower: 0.0,
        };
        memory::addressed(name, alone, soc::address_limit(engine)).map_err(Refusal::Fit)?;
        // What was measured ran, on whatever a board reserved: what a profile reserves is asked of by `fits`.
        let taken = Taken {
            weights: alone,
            ..Taken::default()
        };
        taken.left(chip.capacity_gb * 1e9).map_err(Refusal::Fit)?;
        let arithmetic = chip::arithmetic(datatype, &engine.kind);
        let peak = engine
            .peak_gops(arithmetic, threads)
            .ok_or_else(|| Refusal::NoPeak {
                engine: name.to_owned(),
                arithmetic: arithmetic.to_owned(),
            })?;
        Ok(Self {
            shape,
            datatype: datatype.to_owned(),
            weights,
            read,
            layers: read * (shape.stored + shape.head) / (shape.active + shape.head),
            peak: peak * 1e9,
            dram: chip.peak_gbps * 1e9,
            port: engine.port_gbps.unwrap_or(chip.peak_gbps) * 1e9,
            host: chip.host_gflops * 1e9,
        })
    }

    /// The model.
    pub fn shape(&self) -> &'a Shape {
        self.shape
    }

    /// The data type of its weights.
    pub fn datatype(&self) -> &str {
        &self.datatype
    }

    /// Bytes of the weights.
    pub fn weights_bytes(&self) -> f64 {
        self.weights
    }

    /// Bytes of weights that a token of an answer reads.
    pub fn read_bytes(&self) -> f64 {
        self.read
    }

    /// Bytes of weights that a prefill reads: of a mixture of experts those of all, since its tokens choose different
    /// ones.
    pub fn chunk_bytes(&self) -> f64 {
        self.layers
    }

    /// A prefill of `tokens` on a context of `context` tokens.
    pub fn prefill(&self, tokens: f64, context: f64) -> Work {
        let kv = self.shape.kv_bytes();
        Work {
            compute: self.shape.prefill_ops(tokens, context) / self.peak,
            stream: (self.layers + kv * context) / self.dram,
            feed: self.shape.activation_bytes() * tokens / self.port,
            host: self.shape.layers * 1e9 / self.host,
        }
    }

    /// `tokens` of an answer after a context of `context` tokens.
    pub fn decode(&self, tokens: f64, context: f64) -> Work {
        let seen = pairs(tokens, context);
        Work {
            compute: (self.shape.token_ops() * tokens + self.shape.attention_ops() * seen)
                / self.peak,
            stream: (self.read * tokens + self.shape.kv_bytes() * seen) / self.dram,
            feed: self.shape.activation_bytes() * tokens / self.port,
            host: self.shape.layers * tokens * 1e9 / self.host,
        }
    }
}

/// One frame through a vision tower at 16 bits, if the engine computes so.
///
/// Of an NPU one core counts: Rockchip's runtime splits convolutions and additions among cores, and runs the
/// operators that a transformer is made of on one (RKNN SDK 1.5, multi-core operators).
pub fn encode(chip: &Chip, engine: &Engine, vision: &Vision, threads: Option<u32>) -> Option<Work> {
    let units = f64::from(engine.units.unwrap_or(1));
    let peak = engine.peak_gops("fp16", threads)? * 1e9 / units;
    let port = engine.port_gbps.map_or(chip.peak_gbps, |port| port / units) * 1e9;
    Some(Work {
        compute: vision.ops() / peak,
        stream: 2.0 * vision.parameters / (chip.peak_gbps * 1e9),
        feed: vision.activation_bytes() / port,
        host: vision.depth * 1e9 / (chip.host_gflops * 1e9),
    })
}
