//! The files that users write: TOML schemas of scenarios, SoC profiles, models and costs.
//!
//! These are the raw types, one field a key. [`crate::load`] turns them into a checked
//! [`crate::world::World`].

pub mod costs;
pub mod heat;
pub mod model;
pub mod quantity;
pub mod scenario;
pub mod soc;
