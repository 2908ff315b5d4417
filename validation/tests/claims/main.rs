//! What the README and `profiles/INFERENCES.md` say of predictions is what comes out.
//!
//! The published numbers are not part of this repository: where they lie in `shared/paper/` beside the checkout, each
//! figure is held against its prediction.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a reader is told that nothing was compared, and a test fails by panicking"
)]

mod inferences;
mod readme;
mod rows;
