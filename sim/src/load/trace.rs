//! Trace files that streams name.

use std::collections::BTreeMap;

use super::document::Place;
use super::file::File;
use super::suggest;
use crate::spec::scenario::{Arrivals, FrameClock, ScenarioFile};
use crate::workload::trace_file::TraceFile;

/// Trace files by the path that the scenario gives.
pub(super) type Traces = BTreeMap<String, TraceFile>;

/// The paths of all trace files of a scenario, with where it names them.
pub(super) fn named(file: &File<ScenarioFile>) -> Vec<(&str, Place<'_>)> {
    let streams = file.root().key("streams");
    let mut list = Vec::new();
    for (index, stream) in file.raw.streams.iter().enumerate() {
        let place = streams.index(index);
        if let Some(frames) = &stream.frames
            && let FrameClock::Trace { file } = &frames.clock
        {
            let clock = place.key("frames").key("clock");
            list.push((file.as_str(), clock.key("trace").key("file")));
        }
        if let Some(queries) = &stream.queries
            && let Arrivals::Trace { file } = &queries.arrivals
        {
            let arrivals = place.key("queries").key("arrivals");
            list.push((file.as_str(), arrivals.key("trace").key("file")));
        }
    }
    list
}

/// What the user should know of the traces.
pub(super) fn warnings(scenario: &ScenarioFile, traces: &Traces) -> impl Iterator<Item = String> {
    traces.iter().flat_map(|(path, trace)| {
        let asks = scenario.streams.iter().any(|stream| {
            let queries = stream.queries.as_ref();
            queries.is_some_and(
                |queries| matches!(&queries.arrivals, Arrivals::Trace { file } if file == path),
            )
        });
        let lengths = trace.length_columns().filter(|_| !asks);
        let unused =
            lengths.map(|column| format!("column `{column}` is not used: frames have none"));
        let unused: Vec<String> = unused.collect();
        let prompts = trace.prompt_tokens.iter().flatten();
        let empty = prompts.filter(|tokens| **tokens == 0).count();
        let empty = (empty > 0).then(|| {
            format!(
                "prompts of 0 tokens are played with 1, in {}",
                suggest::counted(empty, "row")
            )
        });
        // Lengths that nobody reads are not played with 1 either.
        let told = trace
            .warnings
            .iter()
            .cloned()
            .chain(empty.filter(|_| asks))
            .chain(unused);
        told.map(move |warning| format!("`{path}`: {warning}"))
    })
}
