//! Trace files of a stream.

use super::document::Place;
use super::streams::Reader;
use crate::time::Instant;

/// Columns of a trace file.
#[derive(Debug)]
pub(super) struct TraceRows {
    pub(super) at: Vec<Instant>,
    pub(super) prompt_tokens: Option<Vec<u32>>,
    pub(super) output_tokens: Option<Vec<u32>>,
}

impl Reader<'_> {
    /// The rows of a trace file.
    ///
    /// MERGE: read `file` with `workload::trace_file`, relative to the scenario.
    pub(super) fn trace(&mut self, place: &Place<'_>, file: &str) -> Option<TraceRows> {
        self.faults.push(place.fault(
            format!("trace file `{file}` cannot be read"),
            "trace files are not merged yet",
        ));
        None
    }
}
