//! Measuring an SoC's engines: what each stage costs alone, and how lanes slow each other down.
//!
//! It measures through the same [`Engine`](crate::engine::Engine)s, threads and stores that the live driver
//! uses, so what is measured is what will run: forks, state copies and chunked prefills included. What
//! pretends can be measured too, which is how this is tested: the fit must find the mock's cost table.
//!
//! - [`mod@bench`]: lanes on their threads, one task at a time, timed; a lane kept busy beside another.
//! - [`plan`]: which sizes and depths, how often.
//! - [`point`]: what is measured, and samples of it.
//! - [`measure`]: walks the plan; keeps samples, which are saved as they come, so that it can go on later.
//! - [`journal`]: samples as lines of text.
//! - [`Drift`]: how much the machine is faster at one time than at another.
//! - [`Stalls`]: its pauses, which are no part of a stage's cost.
//! - [`fit`]: samples to cost forms, with residuals and leave-one-out errors.
//! - [`profile`]: cost forms to a profile whose every number says where it was measured.
//! - [`check`]: what the profile predicts of samples that no fit used.
//! - [`watch`]: what may have spoilt a measurement.
//! - [`stream`]: how fast a lane's cores read memory.

mod beside;
mod drift;
mod squares;
mod stalls;
mod twin;
mod walk;

pub mod bench;
pub mod check;
pub mod fit;
pub mod journal;
pub mod measure;
pub mod plan;
pub mod point;
pub mod profile;
pub mod stream;
pub mod watch;

pub use drift::Drift;
pub use measure::{Event, Measurer};
pub use plan::Plan;
pub use point::{Measured, Point, Series, kind_name};
pub use stalls::Stalls;
