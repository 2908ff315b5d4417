//! Where stages may run: enough costs to run every stage, fixed lanes, and groups that exclude each other.

use super::compile::Parts;
use super::document::Place;
use super::graph::{RESERVED, Stages};
use super::soc::Soc;
use super::{costs, policy, suggest};
use crate::cost::CostTable;
use crate::diag::Diagnostic;
use crate::spec::model::StageKind;
use crate::world::{EngineId, Lane, LaneId, STAGES_MAX, StageId};

/// Most exclusion groups.
const GROUPS_MAX: usize = 32;

/// Checks that each stage that the streams need can run somewhere.
pub(super) fn check_costs(
    parts: &Parts<'_>,
    soc: &Soc,
    stages: &Stages,
    table: &CostTable,
    faults: &mut Vec<Diagnostic>,
) {
    let before = faults.len();
    let streams = &parts.scenario.raw.streams;
    let mut needed: Vec<StageId> = Vec::new();
    if streams.iter().any(|stream| stream.frames.is_some()) {
        needed.extend(&stages.frame.stages);
    }
    let queries = streams.iter().any(|stream| stream.queries.is_some());
    if queries {
        needed.extend(&stages.query.stages);
    }
    let file = parts.costs.name();
    let place = parts.costs.root().key("engines");
    let can = |lane: usize, stage: StageId| table.get(soc.lanes[lane].engine, stage).is_some();
    for stage in needed {
        if (0..soc.lanes.len()).any(|lane| can(lane, stage)) {
            continue;
        }
        let name = &stages.get(stage).name;
        let reasons: Vec<String> = parts
            .costs
            .raw
            .engines
            .iter()
            .filter_map(|(engine, costs)| {
                Some(format!("`{engine}`: {}", costs.unsupported.get(name)?))
            })
            .collect();
        let label = if reasons.is_empty() {
            "no lane's engine has its cost".to_owned()
        } else {
            format!("no lane's engine can run it ({})", reasons.join("; "))
        };
        faults.push(
            place
                .key_fault(format!("stage `{name}` cannot run anywhere"), label)
                .help(supply(parts, soc, name)),
        );
    }
    if !queries || faults.len() > before {
        return;
    }
    let answering: Vec<usize> = (0..soc.lanes.len())
        .filter(|&lane| policy::cannot_answer(LaneId(lane as u8), soc, stages, table).is_none())
        .collect();
    if answering.is_empty() {
        faults.push(
            place
                .key_fault(
                    "no lane can run a whole answer",
                    "an answer runs on one lane from `query_prefill` to `decode`",
                )
                .help(format!("give one engine of `{file}` the costs of both")),
        );
    } else if streams.iter().any(|stream| stream.frames.is_some())
        && !answering.iter().any(|&lane| {
            [
                costs::ingest(stages),
                stages.transfer.import,
                stages.transfer.reconstruct,
            ]
            .into_iter()
            .any(|stage| can(lane, stage))
        })
    {
        faults.push(
            place
                .key_fault(
                    "no lane that can answer can have the context",
                    "its engine has no cost of `ingest`, `import` or `reconstruct`",
                )
                .help(format!("add one of them to `{file}`")),
        );
    }
}

/// Where the cost of a stage that runs nowhere belongs: on an engine that is not said to be unable.
fn supply(parts: &Parts<'_>, soc: &Soc, stage: &str) -> String {
    let file = parts.costs.name();
    let unable = |engine: &str| {
        let costs = parts.costs.raw.engines.get(engine);
        costs.is_some_and(|costs| costs.unsupported.contains_key(stage))
    };
    let engines = || {
        let of = |lane: &Lane| soc.engines[lane.engine.0 as usize].name.as_str();
        soc.lanes.iter().map(of)
    };
    if let Some(engine) = engines().find(|engine| !unable(engine)) {
        return format!("add `[engines.{engine}.stages.{stage}]` to `{file}`");
    }
    let engine = engines().next().unwrap_or("cpu");
    format!(
        "add `[engines.{engine}.stages.{stage}]` to `{file}` and remove `{stage}` from its `[engines.{engine}.unsupported]`"
    )
}

/// The lane that each stage is fixed to.
pub(super) fn lower_fixed(
    parts: &Parts<'_>,
    soc: &Soc,
    stages: &Stages,
    table: &CostTable,
    faults: &mut Vec<Diagnostic>,
) -> Vec<Option<LaneId>> {
    let mut fixed = vec![None; stages.list.len()];
    let root = parts.scenario.root().key("placement");
    for (name, lane_name) in &parts.scenario.raw.placement {
        let place = root.key(name);
        let stage = stages.find(name);
        if RESERVED.iter().any(|(reserved, _)| reserved == name) {
            faults.push(
                place
                    .key_fault(
                        format!("stage `{name}` cannot be placed"),
                        "it runs on the lane that needs the context",
                    )
                    .help("remove it; `modes.state_transfer` chooses how contexts move"),
            );
            continue;
        }
        if stage.is_none() {
            faults.push(
                place
                    .key_fault(format!("unknown stage `{name}` is placed"), "no such stage")
                    .help(suggest::hint(name, "stages", stages.names())),
            );
        }
        let lane = soc.lane(lane_name);
        if lane.is_none() {
            faults.push(
                place
                    .fault(
                        format!("stage `{name}` is placed on unknown lane `{lane_name}`"),
                        "no such lane",
                    )
                    .help(suggest::hint(lane_name, "lanes", soc.lane_names())),
            );
        }
        let (Some(stage), Some(lane)) = (stage, lane) else {
            continue;
        };
        let engine = soc.lanes[lane.0 as usize].engine;
        if table.get(engine, stage).is_none() {
            faults.push(cannot_run(&place, parts, soc, engine, name));
        }
        fixed[stage.0 as usize] = Some(lane);
    }
    // One lane prefills and answers, since the answer's KV is there.
    let [prefill, decode] = stages.bound();
    let (first, second) = (fixed[prefill.0 as usize], fixed[decode.0 as usize]);
    if let (Some(first), Some(second)) = (first, second)
        && first != second
    {
        let (prefill, decode) = (&stages.get(prefill).name, &stages.get(decode).name);
        faults.push(
            root.key(decode)
                .fault(
                    format!("stages `{prefill}` and `{decode}` are placed on different lanes"),
                    "one lane prefills a query and answers it",
                )
                .help(format!(
                    "place it on `{}` too",
                    soc.lanes[first.0 as usize].name
                )),
        );
    }
    fixed
}

fn cannot_run(
    place: &Place<'_>,
    parts: &Parts<'_>,
    soc: &Soc,
    engine: EngineId,
    stage: &str,
) -> Diagnostic {
    let engine = &soc.engines[engine.0 as usize].name;
    let reason = parts
        .costs
        .raw
        .engines
        .get(engine)
        .and_then(|costs| costs.unsupported.get(stage));
    match reason {
        Some(reason) => place
            .fault(
                format!("stage `{stage}` cannot run on engine `{engine}`"),
                reason.clone(),
            )
            .help("place it on another lane"),
        None => place
            .fault(
                format!("stage `{stage}` has no cost on engine `{engine}`"),
                format!("not in `{}`", parts.costs.name()),
            )
            .help(format!(
                "add `[engines.{engine}.stages.{stage}]` to `{}`, or place it on another lane",
                parts.costs.name()
            )),
    }
}

/// Bits of exclusion groups by engine and stage.
pub(super) fn lower_exclusive(
    parts: &Parts<'_>,
    soc: &Soc,
    stages: &Stages,
    table: &CostTable,
    placement: &[Option<LaneId>],
    faults: &mut Vec<Diagnostic>,
) -> Vec<[u32; STAGES_MAX]> {
    let mut masks = vec![[0; STAGES_MAX]; soc.engines.len()];
    let idle = idle_stages(parts, stages);
    let root = parts.scenario.root().key("exclusive");
    let groups = &parts.scenario.raw.exclusive;
    if groups.len() > GROUPS_MAX {
        faults.push(root.key_fault(
            format!("{} exclusion groups", groups.len()),
            format!("at most {GROUPS_MAX}"),
        ));
        return masks;
    }
    for (index, group) in groups.iter().enumerate() {
        let group_place = root.index(index);
        let before = faults.len();
        let (mut lanes, mut running) = (Vec::new(), Vec::new());
        for (at, member) in group.iter().enumerate() {
            let place = group_place.index(at);
            for (engine, stage) in members(&place, member, soc, stages, faults) {
                if table.get(engine, stage).is_none() {
                    // `stage` alone means every engine that runs it.
                    if member.contains('@') {
                        let name = &stages.get(stage).name;
                        faults.push(cannot_run(&place, parts, soc, engine, name));
                    }
                    continue;
                }
                masks[engine.0 as usize][stage.0 as usize] |= 1 << index;
                let fixed = placement[stage.0 as usize];
                for lane in (0..soc.lanes.len() as u8).map(LaneId) {
                    if soc.lanes[lane.0 as usize].engine == engine {
                        lanes.push(lane);
                        if !idle.contains(&stage) && fixed.is_none_or(|fixed| fixed == lane) {
                            running.push(lane);
                        }
                    }
                }
            }
        }
        let several = |lanes: &[LaneId]| lanes.iter().any(|lane| *lane != lanes[0]);
        if !several(&running) && faults.len() == before {
            let why = if several(&lanes) {
                "of these, what runs at all here runs on one lane"
            } else {
                "a lane never runs two stages at once"
            };
            faults.push(
                group_place
                    .fault(format!("{} excludes nothing", group_place.quoted()), why)
                    .help("name stages of at least two lanes, for example `[\"encode@npu\", \"decode@gpu\"]`"),
            );
        }
    }
    masks
}

/// Stages that no frame and no query of the scenario has.
fn idle_stages(parts: &Parts<'_>, stages: &Stages) -> Vec<StageId> {
    let scenario = &parts.scenario.raw;
    let mut idle = Vec::new();
    if scenario.streams.iter().all(|s| s.frames.is_none()) {
        let frame = &stages.frame;
        let joins = scenario.context.answers_join_history;
        let ingest = frame.stages[frame.bound_at as usize];
        idle.extend(frame.stages.iter().filter(|&&id| !(joins && id == ingest)));
    }
    if scenario.streams.iter().all(|s| s.queries.is_none()) {
        idle.extend(&stages.query.stages);
    }
    idle
}

/// The engines and stages that `stage@engine`, or `stage`, names.
fn members(
    place: &Place<'_>,
    member: &str,
    soc: &Soc,
    stages: &Stages,
    faults: &mut Vec<Diagnostic>,
) -> Vec<(EngineId, StageId)> {
    let (stage_name, engine_name) = match member.split_once('@') {
        Some((stage, engine)) => (stage, Some(engine)),
        None => (member, None),
    };
    let stage = stages.find(stage_name);
    match stage.map(|id| stages.get(id).kind) {
        None => faults.push(
            place
                .fault(
                    format!("unknown stage `{stage_name}` in an exclusion"),
                    "no such stage",
                )
                .help(suggest::hint(stage_name, "stages", stages.names())),
        ),
        Some(StageKind::Export) => faults.push(
            place
                .fault("stage `export` in an exclusion", "never runs by itself")
                .help("name `import`, which it is the first part of"),
        ),
        Some(_) => {}
    }
    let all = 0..soc.engines.len() as u8;
    let engines: Vec<EngineId> = match engine_name {
        None => all.map(EngineId).collect(),
        Some(name) => {
            let found = soc.engine(name);
            if found.is_none() {
                faults.push(
                    place
                        .fault(
                            format!("unknown engine `{name}` in an exclusion"),
                            "no such engine",
                        )
                        .help(suggest::hint(name, "engines", soc.engine_names())),
                );
            }
            found.into_iter().collect()
        }
    };
    match stage {
        Some(stage) => engines.into_iter().map(|engine| (engine, stage)).collect(),
        None => Vec::new(),
    }
}
