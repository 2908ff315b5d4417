//! The live executor: the simulator's scheduler, unchanged, over engines on threads and real time.
//!
//! [`rig::Rig`] is to engines what `sim::soc::Soc` is to cost tables; [`engine::Engine`] is what a
//! backend implements; [`mock`] is a backend that only pretends, and checks that it is told to do what
//! can be done. Nothing here decides: that is the scheduler's.

mod cancel;
mod clock;
pub mod engine;
pub mod mock;
pub mod registry;
pub mod rig;
mod tickets;
mod worker;
