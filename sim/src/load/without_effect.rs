//! Keys that a scenario sets and that change nothing.

use super::compile::{Checked, Parts};
use super::document::Place;
use super::unread;
use crate::cost::Noise;
use crate::diag::Diagnostic;
use crate::spec::model::StageKind;
use crate::spec::scenario::{LengthPrediction, Policy, StateTransfer};
use crate::spec::soc::ContentionModelName;
use crate::time::{Duration, Instant};
use crate::workload::{FrameTimes, LengthPlan, QueryTimes};
use crate::world::{Lane, StageId, World};

/// Keys that are read and then used by nothing, whatever the policy: each is a fault.
pub(super) fn check(parts: &Parts<'_>, checked: &Checked, faults: &mut Vec<Diagnostic>) {
    let root = parts.scenario.root();
    let mut unused = |key: &Place<'_>, why: &str| {
        if key.is_present() {
            let title = format!("{} has no effect", key.quoted());
            faults.push(key.key_fault(title, why).help("leave the key out"));
        }
    };
    without_frames_or_queries(parts, checked, &mut unused);
    let modes = &parts.scenario.raw.modes;
    if !modes.context_reuse && modes.state_transfer != StateTransfer::Auto {
        unused(
            &root.key("modes").key("state_transfer"),
            "without context reuse every request rebuilds its context",
        );
    }
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
    if checked.contention == ContentionModelName::None
        && parts.scenario.raw.background.bandwidth_gbps > 0.0
    {
        unused(
            &root.key("background").key("bandwidth_gbps"),
            "contention `none` looks at no bandwidth",
        );
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
        let graph = &checked.stages.frame;
        for (position, &id) in graph.stages.iter().enumerate() {
            // Answers that join are ingested, and the lane of `ingest` rebuilds what is not kept.
            let ingests = scenario.context.answers_join_history || !scenario.modes.context_reuse;
            if !(ingests && position == graph.bound_at as usize) {
                unused(&placement.key(stage(id)), why);
            }
        }
        if !scenario.context.answers_join_history {
            let why = "no stream has frames, and no answer joins: there is one version only";
            unused(&root.key("context").key("binding"), why);
            if scenario.modes.context_reuse {
                let why = "no stream has frames, and no answer joins: nothing is ingested";
                unused(&root.key("modes").key("ingest_during_generation"), why);
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

/// A word on each setting that happens to change nothing here.
pub(super) fn warnings(parts: &Parts<'_>, world: &World) -> Vec<String> {
    let mut found = Vec::new();
    let root = parts.scenario.root();
    if world.streams.iter().any(|stream| stream.queries.is_some()) {
        found.extend(known_lengths(&root, world));
        found.extend(undecided(&root, world));
    }
    found.extend(unnamed_parameters(world));
    found.extend(idle_modes(&root, world));
    let mut costs = world.costs.rows.iter().flatten().flatten();
    if costs.all(|costs| costs.noise == Noise::None) {
        found.extend(no_effect(
            &root.key("noise"),
            "no stage cost states a spread",
        ));
    }
    let unread = unread::of(parts, world);
    found.extend(unread.iter().map(unread::Unread::warning));
    found.extend(cut_counts(parts, world));
    found
}

fn no_effect(key: &Place<'_>, why: &str) -> Option<String> {
    key.is_present()
        .then(|| format!("{} has no effect: {why}", key.quoted()))
}

/// Modes of what does not happen with this model and the other modes.
fn idle_modes(root: &Place<'_>, world: &World) -> Vec<String> {
    let place = root.key("modes");
    let (modes, graph) = (&world.modes, &world.frame_graph);
    let kind = |id: &StageId| world.stages[id.0 as usize].kind;
    let mut found = Vec::new();
    let streams = || world.streams.iter();
    if streams().any(|stream| stream.frames.is_some())
        && !graph.stages.iter().any(|id| kind(id) == StageKind::Encode)
        // Without reuse, it says whether a frame's other stages run ahead of any query.
        && (modes.context_reuse || graph.free == 0)
    {
        let why = "the model has no stage that encodes frames";
        found.extend(no_effect(&place.key("embedding_cache"), why));
    }
    if !streams().any(|stream| stream.queries.is_some()) {
        return found;
    }
    let ingest = graph.stages[graph.bound_at as usize];
    let ingests = if modes.context_reuse {
        world.answers_join_history
    } else {
        // Its lane rebuilds each request's context.
        world.placement[ingest.0 as usize].is_some()
    };
    let prepared = modes.context_reuse || modes.embedding_cache && graph.free != 0;
    let both = streams().any(|stream| stream.frames.is_some() && stream.queries.is_some());
    if !(ingests || prepared && both) {
        let why = if both {
            "without context reuse no frame is ingested ahead of a query"
        } else {
            "no stream has both frames and queries"
        };
        found.extend(no_effect(&place.key("ingest_during_generation"), why));
    }
    found
}

/// Parameters that a script does not name.
fn unnamed_parameters(world: &World) -> Vec<String> {
    let (Policy::Script { params, .. }, Some(program)) = (&world.policy, &world.script) else {
        return Vec::new();
    };
    let unnamed = params.keys().filter(|name| !program.names(name));
    let warning = |name: &String| {
        format!(
            "`policy.params.{name}` is not named in `{}`: it has no effect, unless the script puts the name together",
            program.name()
        )
    };
    unnamed.map(warning).collect()
}

/// A prediction where the mean tells every length already.
fn known_lengths(root: &Place<'_>, world: &World) -> Option<String> {
    let constant = world
        .streams
        .iter()
        .filter_map(|stream| stream.queries.as_ref())
        .all(|queries| {
            let most = queries.output_max;
            match &queries.output {
                LengthPlan::Fixed(_) => true,
                LengthPlan::Uniform(low, high) => low == high || *low >= most,
                LengthPlan::Geometric { mean } => *mean <= 1.0,
                LengthPlan::Empirical(list) | LengthPlan::Listed(list) => list
                    .windows(2)
                    .all(|pair| pair[0].min(most) == pair[1].min(most)),
                LengthPlan::LogNormal { .. } => false,
            }
        });
    if !constant || matches!(world.prediction, LengthPrediction::Noisy { .. }) {
        return None;
    }
    let key = root.key("beliefs").key("output_tokens");
    no_effect(&key, "the answers of each stream are all of one length")
}

/// A policy that has nothing to decide.
fn undecided(root: &Place<'_>, world: &World) -> Option<String> {
    let mut queries = world.streams.iter().filter_map(|s| s.queries.as_ref());
    if world.policy == Policy::EarliestDeadlineFirst {
        let no_deadline = queries.all(|queries| queries.deadline.is_none());
        return no_deadline.then(|| {
            "policy `earliest_deadline_first` orders nothing: no query has `deadline_s`".to_owned()
        });
    }
    // Who left the policy out chose none.
    if !root.key("policy").is_present() && world.policy == Policy::default() {
        return None;
    }
    let graph = &world.query_graph;
    let bound = [graph.bound_at, graph.bound_end].map(|at| graph.stages[at as usize]);
    let stage = bound
        .into_iter()
        .find(|stage| world.placement[stage.0 as usize].is_some())?;
    let lane = world.placement[stage.0 as usize]?;
    let able = |lane: &&Lane| {
        bound
            .iter()
            .all(|&stage| world.costs.get(lane.engine, stage).is_some())
    };
    if world.lanes.iter().filter(able).count() < 2 {
        return None;
    }
    let stage = &world.stages[stage.0 as usize].name;
    let lane = &world.lanes[lane.0 as usize].name;
    match &world.policy {
        Policy::Single { lane: wanted } if wanted == lane => None,
        Policy::Single { lane: wanted } => Some(format!(
            "`placement` fixes `{stage}` on lane `{lane}`: answers run there, and not on `{wanted}` as policy `single` says"
        )),
        // These choose an order, too.
        Policy::Serial | Policy::ShortestJobFirst | Policy::EarliestDeadlineFirst => None,
        _ => Some(format!(
            "`placement` fixes `{stage}` on lane `{lane}`: the policy chooses no lane for answers"
        )),
    }
}

/// Counts that the horizon cuts before they are reached.
fn cut_counts(parts: &Parts<'_>, world: &World) -> Vec<String> {
    let streams = parts.scenario.root().key("streams");
    let mut found = Vec::new();
    if world.horizon == Instant::NEVER {
        return found;
    }
    for (index, raw) in parts.scenario.raw.streams.iter().enumerate() {
        let first = format!("{}-1", raw.name);
        let name = if raw.copies == 1 { &raw.name } else { &first };
        let Some(plan) = world.streams.iter().find(|plan| plan.name == *name) else {
            continue;
        };
        let frames = plan.frames.as_ref().and_then(|frames| {
            let last = match &frames.clock {
                FrameTimes::Periodic { period_s, jitter_s } if *jitter_s == 0.0 => {
                    nth(frames.start, *period_s, frames.count)
                }
                FrameTimes::Listed(list) => listed(list, frames.count)?,
                FrameTimes::Periodic { .. } => return None,
            };
            Some(("frames", frames.count, last))
        });
        let queries = plan.queries.as_ref().and_then(|queries| {
            let last = match &queries.arrivals {
                QueryTimes::Periodic { period_s } => nth(queries.start, *period_s, queries.count),
                QueryTimes::Listed(list) => listed(list, queries.count)?,
                _ => return None,
            };
            Some(("queries", queries.count, last))
        });
        for (source, count, last) in frames.into_iter().chain(queries) {
            if last >= world.horizon {
                let key = streams.index(index).key(source).key("count");
                let why = format!("`run.horizon_s` comes before number {count}");
                found.extend(no_effect(&key, &why));
            }
        }
    }
    found
}

/// When a periodic source would have its last arrival.
fn nth(start: Instant, period_s: f64, count: u64) -> Instant {
    start + Duration::from_secs_f64(count.saturating_sub(1) as f64 * period_s)
}

fn listed(list: &[Instant], count: u64) -> Option<Instant> {
    list.get(count.checked_sub(1)? as usize).copied()
}
