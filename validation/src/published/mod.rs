//! Measurements, and what the simulator predicts in their place.
//!
//! A file of measurements ([`read_measurements`]) holds rows. Which scenario plays a row is said by the
//! file itself or, for published experiments, by [`EXPERIMENTS`]. [`Lab`] plays it and reads the row's
//! [`Metric`], with an interval; [`compare`] sets all rows beside their predictions. The published
//! numbers themselves are not part of this crate: the caller brings them.

mod bench;
mod bounds;
mod check;
mod compare;
mod conditions;
mod experiments;
mod lab;
mod metric;
pub(crate) mod numbers;
pub(crate) mod play;
mod read;
mod rows;
mod unit;

pub(crate) use bench::Bench;
pub use bench::{Configuration, Scenario};
pub use bounds::Bound;
pub use compare::{Compared, Comparison, Errors, compare};
pub use experiments::{EXPERIMENTS, Experiment, Play, experiment};
pub use lab::{Basis, Draws, Failed, Interval, Lab, PlayedAs, Predicted, Prediction};
pub use metric::{Metric, Missing};
pub use play::Outcome;
pub use read::{is_measurements, measurements_schema, read_measurements};
pub use rows::{Measurements, Own, OwnPlay, Role, Row};
pub use unit::Dimension;
