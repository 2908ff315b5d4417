//! The simulator held against closed forms, measurements and live runs, and fitted to them.

pub mod corun;
pub mod fit;
pub mod folder;
pub mod inline;
pub mod live;
pub mod oracles;
pub mod published;
pub mod report;
mod words;
