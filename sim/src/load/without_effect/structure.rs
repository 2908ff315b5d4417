//! Keys of a scenario that are about something which is not there.

use super::super::compile::{Checked, Parts};
use super::super::document::Place;
use crate::diag::Diagnostic;
use crate::spec::model::StageKind;
use crate::world::StageId;

/// A fault for each of them.
pub(in super::super) fn check(parts: &Parts<'_>, checked: &Checked, faults: &mut Vec<Diagnostic>) {
    let root = parts.scenario.root();
    let mut unused = |key: &Place<'_>, why: &str| {
        if key.is_present() {
            let title = format!("{} has no effect", key.quoted());
            faults.push(key.key_fault(title, why).help("leave the key out"));
        }
    };
    without_frames_or_queries(parts, checked, &mut unused);
    let budgets = root.key("limits").key("engine_kv_budget_bytes");
    for (engine, costs) in checked.soc.engines.iter().zip(&checked.costs.rows) {
        let holds = checked.stages.list.iter().zip(costs).any(|(stage, costs)| {
            let vision = matches!(
                stage.kind,
                StageKind::Encode | StageKind::Project | StageKind::Custom
            );
            costs.is_some() && !vision
        });
        if !holds {
            let why = "the engine runs no stage of the language model";
            unused(&budgets.key(&engine.name), why);
        }
    }
}

/// Keys of what no stream has.
fn without_frames_or_queries(
    parts: &Parts<'_>,
    checked: &Checked,
    unused: &mut dyn FnMut(&Place<'_>, &str),
) {
    let scenario = &parts.scenario.raw;
    let root = parts.scenario.root();
    let placement = root.key("placement");
    let stage = |id: StageId| &checked.stages.list[id.0 as usize].name;
    let frames = scenario.streams.iter().any(|s| s.frames.is_some());
    let queries = scenario.streams.iter().any(|s| s.queries.is_some());
    if !frames {
        let why = "no stream has frames";
        unused(&root.key("context").key("keep"), why);
        unused(&root.key("modes").key("embedding_cache"), why);
        unused(&root.key("limits").key("max_pending_frames"), why);
        let graph = &checked.stages.frame;
        for (position, &id) in graph.stages.iter().enumerate() {
            // Answers may be ingested, too.
            if position != graph.bound_at as usize {
                unused(&placement.key(stage(id)), why);
            }
        }
    }
    if !queries {
        let why = "no stream has queries";
        for (table, key) in [
            ("context", "binding"),
            ("context", "answers_join_history"),
            ("limits", "max_requests"),
            ("beliefs", "output_tokens"),
            ("modes", "concurrent_generation"),
            ("modes", "ingest_during_generation"),
        ] {
            unused(&root.key(table).key(key), why);
        }
        for &id in &checked.stages.query.stages {
            unused(&placement.key(stage(id)), why);
        }
    }
}
