//! Stages that would take longer than any run: a slip in a unit, or a rate that nothing has.

use super::compile::Parts;
use super::graph::Stages;
use super::lengths;
use super::soc::Soc;
use crate::cost::CostTable;
use crate::diag::Diagnostic;
use crate::spec::model::StageKind;
use crate::spec::quantity::SECONDS_MAX;
use crate::workload::StreamPlan;
use crate::world::{EngineId, ModelSizes, StageId};

/// Checks every cost at the largest sizes that the streams ask for.
pub(super) fn check(
    parts: &Parts<'_>,
    (soc, stages, sizes): (&Soc, &Stages, ModelSizes),
    table: &CostTable,
    streams: &[StreamPlan],
    faults: &mut Vec<Diagnostic>,
) {
    let engines = parts.costs.root().key("engines");
    for (engine, id) in soc.engines.iter().zip((0..).map(EngineId)) {
        if !soc.has_lane(id) {
            continue;
        }
        for (stage, at) in stages.list.iter().zip((0..).map(StageId)) {
            let place = engines.key(&engine.name).key("stages").key(&stage.name);
            let (Some(costs), true) = (table.get(id, at), place.is_present()) else {
                continue;
            };
            let (size, context) = largest(stage.kind, streams, sizes);
            let secs = costs.alone.at(size, context).secs;
            if secs > SECONDS_MAX {
                faults.push(
                    place
                        .key_fault(
                            format!("{} takes {secs:.1e} s at size {size}", place.quoted()),
                            format!("a run lasts at most {SECONDS_MAX:.0e} s"),
                        )
                        .help("times are in seconds and rates in GB/s: is one of its numbers in another unit?"),
                );
            }
        }
    }
}

/// The largest size and context at which a stage of this kind runs.
fn largest(kind: StageKind, streams: &[StreamPlan], sizes: ModelSizes) -> (f64, f64) {
    let frames = || streams.iter().filter_map(|stream| stream.frames.as_ref());
    let queries = || streams.iter().filter_map(|stream| stream.queries.as_ref());
    let longest = sizes.max_context_tokens;
    let context = f64::from(longest);
    let tokens = |most: Option<u32>| f64::from(most.unwrap_or(1).min(longest));
    match kind {
        StageKind::Encode => {
            let most = frames().map(|frames| frames.megapixels);
            (most.fold(0.0, f64::max), 0.0)
        }
        StageKind::Project => (tokens(frames().map(|frames| frames.tokens).max()), 0.0),
        StageKind::Ingest => (tokens(frames().map(|frames| frames.tokens).max()), context),
        StageKind::QueryPrefill => {
            let most = queries().map(|queries| lengths::greatest(&queries.prompt));
            (tokens(most.max()), context)
        }
        StageKind::Decode => (tokens(queries().map(|q| q.output_max).max()), context),
        StageKind::Reconstruct => (context, 0.0),
        StageKind::Import | StageKind::Export => (context * sizes.kv_bytes_per_token as f64, 0.0),
        StageKind::Custom => (1.0, 0.0),
    }
}
