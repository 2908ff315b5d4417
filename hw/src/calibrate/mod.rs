//! Measuring an SoC's engines: what each stage costs alone, and how lanes slow each other down.
//!
//! It measures through the same [`Engine`](crate::engine::Engine)s, threads and stores that the live driver
//! uses, so what is measured is what will run: forks, state copies and chunked prefills included. What
//! pretends can be measured too, which is how this is tested: the fit must find the mock's cost table.
//!
//! - [`mod@bench`]: lanes on their threads, one task at a time, timed; a lane kept busy beside another.
//! - [`plan`]: which sizes and depths, how often.
//! - [`measure`]: walks the plan; keeps samples, which are saved as they come, so that it can go on later.
//! - [`journal`]: samples as lines of text.
//! - [`fit`]: samples to cost forms, with residuals and leave-one-out errors.
//! - [`profile`]: cost forms to a profile whose every number says where it was measured.
//! - [`stream`]: how fast a lane's cores read memory.

pub mod bench;
pub mod fit;
pub mod journal;
pub mod measure;
pub mod plan;
pub mod profile;
pub mod stream;

pub use measure::{Event, Measured, Measurer, Point, Series};
pub use plan::Plan;
