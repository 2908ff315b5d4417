//! Frames and queries: when they arrive and how long they are, all drawn at arrival from generators
//! named by the seed, the run, the stream's name and the purpose.
//!
//! A [`StreamPlan`] says what a stream does; [`Workload`] plays the plans of all streams, one arrival
//! at a time, to the simulated and the live executor alike; [`trace_file`] reads arrivals that somebody
//! recorded.

mod agenda;
mod clock;
mod describe;
mod lengths;
mod plan;
mod source;
#[cfg(test)]
mod tests;
pub mod trace_file;

pub use describe::{describe, seed_matters};
pub use lengths::{mean_length, mean_output};
pub use plan::{FramePlan, FrameTimes, LengthPlan, QueryPlan, QueryTimes, StreamPlan};
pub use source::{Arrival, Workload};
