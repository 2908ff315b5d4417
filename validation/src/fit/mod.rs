//! Fits numbers of profiles to calibration rows, and predicts the rows that were held out.
//!
//! A fit is described by a file ([`Spec`]): free numbers with their bounds, and which rows they are to
//! explain. [`fit`] minimises the weighted sum of squared residuals (Levenberg–Marquardt, several
//! starts), walks the profile likelihood of each parameter for its interval, and says which the rows
//! do not identify. Only rows with `role = "calibration"` enter. [`Fit::profiles`] writes the profiles.

mod account;
mod check;
mod contour;
mod identify;
mod likelihood;
mod predict;
mod problem;
mod result;
mod solve;
mod spec;
mod unseen;
mod write;

pub use check::{Checked, is_spec};
pub use identify::{Direction, Group};
pub use predict::{HeldOut, Hidden};
pub use problem::fit;
pub use result::{Fit, FittedRow, Identified, Parameter, Side};
pub use spec::{Filter, Free, Scale, Spec, Target, fit_schema, read_spec};
pub use write::Written;
