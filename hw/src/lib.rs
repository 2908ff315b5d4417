//! The live executor: the simulator's scheduler, unchanged, over engines on threads and real time.
//!
//! [`rig::Rig`] is to engines what `sim::soc::Soc` is to cost tables; [`engine::Engine`] is what a
//! backend implements; [`mock`] is a backend that only pretends, and checks that it is told to do what
//! can be done. Nothing here decides: that is the scheduler's.
//!
//! Real engines are behind cargo features: `llama` (`live-llama`), `onnx` (`live-ort`) and `rknn`, which
//! `live` (the first two, and the third if it is there) makes into engines for a world.

#[cfg(any(feature = "live-llama", feature = "live-ort"))]
pub mod affinity;
pub mod calibrate;
mod cancel;
mod clock;
pub mod cpu_time;
pub mod devices;
pub mod engine;
#[cfg(all(feature = "live-llama", feature = "live-ort"))]
pub mod generate;
#[cfg(all(feature = "live-llama", feature = "live-ort"))]
pub mod live;
#[cfg(feature = "live-llama")]
pub mod llama;
pub mod mock;
#[cfg(feature = "live-ort")]
pub mod onnx;
pub mod registry;
pub mod rig;
#[cfg(feature = "rknn")]
pub mod rknn;
mod tickets;
mod worker;
