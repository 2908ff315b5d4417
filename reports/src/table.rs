//! Text for the terminal: at most 100 columns, readable without colour, units in the headers.

mod compare;
mod layout;
mod run;

pub use compare::comparison;
pub use run::run;

/// Widest line of any text.
pub const WIDTH: usize = 100;
