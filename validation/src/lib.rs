//! The simulator held against closed forms and published measurements.

pub mod folder;
pub mod inline;
pub mod oracles;
pub mod published;
