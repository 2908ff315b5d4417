//! The live executor: the simulator's scheduler, unchanged, over engines on threads and real time.
//!
//! [`rig::Rig`] is to engines what `sim::soc::Soc` is to cost tables; [`engine::Engine`] is what a
//! backend implements. Nothing here decides: that is the scheduler's.

mod cancel;
mod clock;
pub mod engine;
pub mod registry;
pub mod rig;
mod worker;
