//! A roofline for what nobody has measured: from the datasheet figures of a chip and the shape of a model to the
//! time and the DRAM bytes of every stage.
//!
//! Prefill is bound by an engine's arithmetic, or by how fast it can feed its arithmetic; decode by the bytes of
//! the weights and the KV. How near engines come to their peaks is fitted on chips that have been measured
//! ([`efficiency`]), for each runtime and kind of engine, and how far a prediction of a chip that was left out was
//! off is the interval ([`holdout`]). What a chip cannot do is an answer ([`Refusal`]).

pub mod bandwidth;
pub mod chip;
pub mod efficiency;
mod fitted;
pub mod holdout;
pub mod joined;
pub mod profile;
mod reach;
pub mod report;
pub mod rows;
pub mod shape;
pub mod soc;
pub mod stage;

pub use chip::{Chip, Engine};
pub use efficiency::{Efficiencies, Family};
pub use shape::Shape;
pub use stage::{Placed, Refusal, Work};

#[cfg(test)]
mod tests;
