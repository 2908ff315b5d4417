//! A user's own board: measurements held against scenarios, and profiles fitted to them.
//!
//! The board is synthetic. What is "measured" is what the simulator says with known numbers, with an
//! error of known size on it, so a fit can be held against the truth.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod board;
mod fits;
mod rows;
