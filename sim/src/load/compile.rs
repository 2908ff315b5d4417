//! From checked files to a world.

use super::costs::{self, Against};
use super::file::File;
use super::graph::{self, Stages};
use super::policy::Scripts;
use super::room::{self, Room};
use super::soc::{self, Soc};
use super::trace::Traces;
use super::{
    arrivals, checks, contention, durations, memory, placement, policy, rows, streams, warnings,
    without_effect,
};
use crate::contention::ContentionModel;
use crate::cost::CostTable;
use crate::diag::Diagnostic;
use crate::spec::costs::CostsFile;
use crate::spec::model::{ModelFile, StageKind};
use crate::spec::quantity::OriginKind;
use crate::spec::scenario::{Policy, ScenarioFile};
use crate::spec::soc::{ContentionModelName, SocFile};
use crate::time::{Duration, Instant};
use crate::workload::StreamPlan;
use crate::world::{
    CpuPlan, ENGINES_MAX, LANES_MAX, LaneId, MAX_PENDING_FRAMES_DEFAULT, MAX_REQUESTS_DEFAULT,
    MemoryPlan, ModelSizes, Provenance, STAGES_MAX, World,
};

/// The files of a world.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    pub(super) scenario: &'a File<ScenarioFile>,
    pub(super) soc: &'a File<SocFile>,
    pub(super) model: &'a File<ModelFile>,
    pub(super) costs: &'a File<CostsFile>,
    pub(super) believed: Option<&'a File<CostsFile>>,
    pub(super) traces: &'a Traces,
    pub(super) scripts: &'a Scripts,
    pub(super) keys: &'a Keys,
}

/// Keys that results name the files by.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    pub(super) soc: String,
    pub(super) model: String,
    /// Whether the scenario names a cost file itself.
    pub(super) own_costs: bool,
}

/// Everything of a world but its policy.
pub(super) struct Checked {
    pub(super) soc: Soc,
    pub(super) stages: Stages,
    sizes: ModelSizes,
    streams: Vec<StreamPlan>,
    pub(super) contention: ContentionModelName,
    pub(super) costs: CostTable,
    believed: Option<CostTable>,
    placement: Vec<Option<LaneId>>,
    exclusive: Vec<[u32; STAGES_MAX]>,
    memory: MemoryPlan,
    warnings: Vec<String>,
}

impl Checked {
    /// Lets no engine move more than its port and the memory carry, alone.
    fn meet_memory(&mut self) {
        let bandwidth = self.memory.bandwidth;
        let overlap = self.soc.contention.overlap_exponent();
        let tables = [Some(&mut self.costs), self.believed.as_mut()];
        for costs in tables.into_iter().flatten() {
            costs.bound_bytes(&self.soc.engines, bandwidth, overlap);
        }
        for engine in &mut self.soc.engines {
            engine.port_bytes_per_s = engine.port_bytes_per_s.min(bandwidth);
        }
    }
}

/// Checks everything that takes more than one file to see, and builds the world with the scenario's
/// policy, or `policy` instead. `None` only if there are faults.
pub(super) fn compile(
    parts: &Parts<'_>,
    policy: Option<&Policy>,
    faults: &mut Vec<Diagnostic>,
) -> Option<World> {
    let mut checked = check(parts, faults)?;
    without_effect::check(parts, &checked, faults);
    let policy = policy.unwrap_or(&parts.scenario.raw.policy);
    policy::check(
        policy,
        &parts.scenario.root().key("policy"),
        &checked.soc,
        &checked.stages,
        &checked.costs,
        &checked.streams,
        faults,
    );
    let place = parts.scenario.root().key("policy");
    faults.extend(policy::check_script(policy, &place, parts.scripts));
    if !faults.is_empty() {
        return None;
    }
    checked.meet_memory();
    let built = contention::build(
        &parts.scenario.root().key("contention"),
        checked.contention,
        &checked.soc,
        checked.memory.bandwidth,
        checked.memory.background_bandwidth,
    );
    match built {
        Ok(contention) => Some(assemble(parts, policy, checked, contention)),
        Err(fault) => {
            faults.push(fault);
            None
        }
    }
}

/// Checks files of which some could be read in part only. What has no effect is not asked: it may have one with what
/// is not read.
pub(super) fn partly(parts: &Parts<'_>, faults: &mut Vec<Diagnostic>) {
    let Some(checked) = check(parts, faults) else {
        return;
    };
    let place = parts.scenario.root().key("policy");
    let policy = &parts.scenario.raw.policy;
    policy::check(
        policy,
        &place,
        &checked.soc,
        &checked.stages,
        &checked.costs,
        &checked.streams,
        faults,
    );
    faults.extend(policy::check_script(policy, &place, parts.scripts));
}

/// Checks files each by itself, where one that they need is not to be had.
pub(super) fn each(
    scenario: Option<(&File<ScenarioFile>, &Traces)>,
    soc: Option<&File<SocFile>>,
    model: Option<&File<ModelFile>>,
    faults: &mut Vec<Diagnostic>,
) {
    if let Some((scenario, traces)) = scenario {
        let streams = streams::lower(scenario, traces, 1, faults);
        arrivals::check(scenario, &streams, faults);
    }
    if let Some(soc) = soc {
        soc::lower(soc, faults);
    }
    if let Some(model) = model {
        graph::lower(model, faults);
        model_sizes(model, faults);
    }
}

fn check(parts: &Parts<'_>, faults: &mut Vec<Diagnostic>) -> Option<Checked> {
    let mut warnings = Vec::new();
    let mut soc = soc::lower(parts.soc, faults);
    let stages = graph::lower(parts.model, faults);
    let sizes = model_sizes(parts.model, faults);
    let visual_tokens = parts.model.raw.visual_tokens_per_frame.value as u32;
    let streams = streams::lower(parts.scenario, parts.traces, visual_tokens, faults);
    arrivals::check(parts.scenario, &streams, faults);
    checks::scenario(parts, &soc, faults, &mut warnings);
    let contention = checks::contention_model(parts, &soc, faults);
    let Some(stages) = stages else {
        costs::lower(parts.costs, None, faults);
        return None;
    };

    let against = Against {
        engines: (
            parts.soc.raw.engines.keys().map(String::as_str).collect(),
            parts.soc.name(),
        ),
        cores: parts.soc.raw.cpu.cores.value,
        stages: (&stages, parts.model.name()),
    };
    let before = faults.len();
    let table = costs::lower(parts.costs, Some(&against), faults);
    let sound = faults.len() == before;
    let believed = parts
        .believed
        .map(|file| costs::lower(file, Some(&against), faults));
    // Without the right lanes nothing that follows makes sense.
    let lanes_stand = soc.lanes.len() == parts.soc.raw.lanes.len() && !soc.lanes.is_empty();
    if !lanes_stand || soc.lanes.len() > LANES_MAX || soc.engines.len() > ENGINES_MAX {
        return None;
    }
    placement::check_costs(parts, &soc, &stages, &table, faults);
    checks::costs_fit(parts, &stages, &soc, &table, believed.as_ref(), faults);
    let placement = placement::lower_fixed(parts, &soc, &stages, &table, faults);
    if sound {
        rows::check(parts, &soc, &stages, &placement, faults, &mut warnings);
    }
    let exclusive = placement::lower_exclusive(parts, &soc, &stages, &table, &placement, faults);
    if sound {
        durations::check(parts, (&soc, &stages, sizes), &table, &streams, faults);
    }
    let memory = memory::lower(parts, &mut soc, &stages, &table, faults);
    let room = Room::of(parts, &soc, &stages, &table, &placement, sizes);
    room::check(parts, &streams, &room, faults);
    warnings.extend(room::warnings(parts, &streams, &room));
    warnings.append(&mut soc.warnings);
    Some(Checked {
        soc,
        stages,
        sizes,
        streams,
        contention,
        costs: table,
        believed,
        placement,
        exclusive,
        memory,
        warnings,
    })
}

fn assemble(
    parts: &Parts<'_>,
    policy: &Policy,
    checked: Checked,
    contention: Box<dyn ContentionModel>,
) -> World {
    let scenario = &parts.scenario.raw;
    let Checked { soc, stages, .. } = checked;
    let pins_shared = soc.lanes.iter().enumerate().any(|(index, lane)| {
        let others = soc.lanes[..index].iter().flat_map(|other| &other.pin_cores);
        others.into_iter().any(|pin| lane.pin_cores.contains(pin))
    });
    let mut world = World {
        title: scenario.title.clone(),
        notes: scenario.notes.clone(),
        soc_name: parts.soc.raw.name.clone(),
        soc_key: parts.keys.soc.clone(),
        model_name: parts.model.raw.name.clone(),
        model_key: parts.keys.model.clone(),
        engines: soc.engines,
        lanes: soc.lanes,
        power: soc.power,
        heat: soc.heat,
        stages: stages.list,
        frame_graph: stages.frame,
        query_graph: stages.query,
        transfer: stages.transfer,
        costs: checked.costs,
        believed_costs: checked.believed,
        contention,
        contention_off: checked.contention == ContentionModelName::None,
        model: checked.sizes,
        memory: checked.memory,
        cpu: CpuPlan {
            cores: parts.soc.raw.cpu.cores.value,
            background_cores: scenario.background.cpu_cores,
            pins_shared,
        },
        modes: scenario.modes.clone(),
        keep: scenario.context.keep,
        answers_join_history: scenario.context.answers_join_history,
        binding: scenario.context.binding,
        script: match policy {
            Policy::Script { script, .. } => parts.scripts.get(script).cloned().flatten(),
            _ => None,
        },
        policy: policy.clone(),
        queue_delay: Duration(0),
        prediction: scenario.beliefs.output_tokens,
        placement: checked.placement,
        exclusive: checked.exclusive,
        max_requests: scenario.limits.max_requests.unwrap_or(MAX_REQUESTS_DEFAULT),
        max_pending_frames: scenario
            .limits
            .max_pending_frames
            .unwrap_or(MAX_PENDING_FRAMES_DEFAULT),
        streams: checked.streams,
        noise: scenario.noise,
        seed: scenario.seed,
        replications: scenario.replications,
        horizon: scenario
            .run
            .horizon_s
            .map_or(Instant::NEVER, Instant::from_secs_f64),
        warm_up: Instant::from_secs_f64(scenario.run.warm_up_s),
        provenance: provenance(parts),
        warnings: Vec::new(),
    };
    let mut warnings = checked.warnings;
    warnings::collect(parts, &world, &mut warnings);
    world.warnings = warnings;
    world
}

/// Checks a model file by itself.
pub(super) fn model_sizes(file: &File<ModelFile>, faults: &mut Vec<Diagnostic>) -> ModelSizes {
    let raw = &file.raw;
    let system = raw
        .system_tokens
        .as_ref()
        .map_or(0.0, |tokens| tokens.value);
    if system >= raw.max_context_tokens.value {
        faults.push(file.root().key("system_tokens").fault(
            "the system prompt fills the longest context",
            format!("must be less than {} tokens", raw.max_context_tokens.value),
        ));
    }
    ModelSizes {
        kv_bytes_per_token: raw.kv_bytes_per_token.value as u64,
        system_tokens: system as u32,
        max_context_tokens: raw.max_context_tokens.value as u32,
    }
}

/// All numbers, with those of `ingest` again where a reconstruct takes them.
fn provenance(parts: &Parts<'_>) -> Vec<Provenance> {
    let mut list = parts.soc.provenance.clone();
    list.extend(parts.model.provenance.iter().cloned());
    let ingest = parts
        .model
        .raw
        .frame_stages
        .iter()
        .find(|node| node.kind == StageKind::Ingest)
        .map_or("", |node| node.name.as_str());
    for file in [Some(parts.costs), parts.believed].into_iter().flatten() {
        list.extend(file.provenance.iter().cloned());
        for (engine, costs) in &file.raw.engines {
            let stated = costs.stages.contains_key("reconstruct")
                || costs.unsupported.contains_key("reconstruct");
            let from = format!("engines.{engine}.stages.{ingest}.");
            for number in file.provenance.iter().filter(|_| !stated) {
                if let Some(key) = number.path.strip_prefix(&from) {
                    list.push(Provenance {
                        path: format!("engines.{engine}.stages.reconstruct.{key}"),
                        kind: match number.kind {
                            OriginKind::Assumed => OriginKind::Assumed,
                            _ => OriginKind::Derived,
                        },
                        note: Some(format!(
                            "as `{ingest}`: to reconstruct is to prefill the same tokens"
                        )),
                        ..number.clone()
                    });
                }
            }
        }
    }
    list
}
