//! Laws that hold in every run, tried on scenarios at random.

mod play;
mod random;
mod scenario;
