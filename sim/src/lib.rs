//! The simulator: a sans-IO scheduler, a virtual-time SoC for it to drive, and the models of cost and
//! contention between them.
//!
//! This crate knows nothing of files, threads, clocks or screens.
#![forbid(unsafe_code)]

pub mod contention;
pub mod cost;
pub mod diag;
pub mod rng;
pub mod spec;
pub mod time;
pub mod workload;
pub mod world;
