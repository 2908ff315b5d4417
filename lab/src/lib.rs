//! Experiments over many simulations: sweeps over the keys of a scenario, bounds that no schedule beats,
//! searches for policy parameters.
#![forbid(unsafe_code)]

pub mod plan;
