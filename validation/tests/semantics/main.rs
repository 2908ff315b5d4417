//! The semantics that must hold, each on a timeline worked out by hand.
//!
//! Every file says which line to break to see its tests fail.

mod cases;
mod causes;
mod estimate;
mod failures;
mod heat;
mod memory;
mod memory_rate;
mod metrics;
mod modes;
mod toy;
mod versions;
mod without_effect;
mod work;
