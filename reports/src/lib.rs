//! What people look at: text tables, `summary.json`, per-request CSV, Perfetto traces and plots.
//!
//! Everything is computed from the trace and the summaries of [`sim`], so a live run is reported as a
//! simulated one is.
#![forbid(unsafe_code)]

mod conditions;
pub mod decision;
pub mod detail;
pub mod explain;
pub mod facts;
pub mod html;
pub mod interval;
pub mod json;
pub mod metric;
pub mod number;
pub mod perfetto;
pub mod plot;
pub mod requests;
pub mod significance;
pub mod table;
#[cfg(test)]
mod toy;
pub mod warning;
