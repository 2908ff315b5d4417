//! The simulator: a sans-IO scheduler, a virtual-time SoC for it to drive, and the models of cost and
//! contention between them.
//!
//! This crate knows nothing of files, threads, clocks or screens.
#![forbid(unsafe_code)]

pub mod check;
pub mod contention;
pub mod cost;
pub mod diag;
pub mod dispatch;
pub mod drive;
pub mod load;
pub mod memory;
pub mod metrics;
pub mod rng;
pub mod simulation;
pub mod soc;
pub mod spec;
pub mod time;
pub mod trace;
pub mod workload;
pub mod world;
