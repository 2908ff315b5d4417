//! Experiments over many simulations: comparisons to an asked precision, sweeps over the keys of a scenario,
//! bounds that no schedule beats, searches for parameters.
//!
//! Everything here is a function of its inputs and a seed: the number of threads, and whether a sweep was
//! interrupted, change no result.
#![forbid(unsafe_code)]

pub mod bounds;
pub mod gaps;
pub mod oracle;
pub mod plan;
pub mod precision;
pub mod robustness;
pub mod sweep;
pub mod tune;
pub mod warm_up;
