//! From checked files to a world.

use super::costs::{self, Against};
use super::document::Place;
use super::file::File;
use super::graph::{self, Stages};
use super::soc::{self, Soc};
use super::{contention, memory, placement, policy, streams, suggest, warnings};
use crate::cost::CostTable;
use crate::diag::Diagnostic;
use crate::spec::costs::CostsFile;
use crate::spec::model::{ModelFile, StageKind};
use crate::spec::quantity::OriginKind;
use crate::spec::scenario::{Policy, ScenarioFile, StateTransfer};
use crate::spec::soc::{ContentionModelName, SocFile};
use crate::time::Instant;
use crate::world::{CpuPlan, ModelSizes, Provenance, TransferStages, World};

/// Requests that may be in the system if the scenario sets no limit.
const MAX_REQUESTS_DEFAULT: u32 = 1 << 16;
/// Frames of a stream that may wait if the scenario sets no limit.
const MAX_PENDING_FRAMES_DEFAULT: u32 = 1 << 16;

/// The files of a world.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    pub(super) scenario: &'a File<ScenarioFile>,
    pub(super) soc: &'a File<SocFile>,
    pub(super) model: &'a File<ModelFile>,
    pub(super) costs: &'a File<CostsFile>,
    pub(super) believed: Option<&'a File<CostsFile>>,
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

/// Checks everything that takes more than one file to see, and builds the world with the scenario's
/// policy, or `policy` instead. `None` only if there are faults.
pub(super) fn compile(
    parts: &Parts<'_>,
    policy: Option<&Policy>,
    faults: &mut Vec<Diagnostic>,
) -> Option<World> {
    let scenario = &parts.scenario.raw;
    let mut notices = Vec::new();

    let mut soc = soc::lower(parts.soc, faults);
    let stages = graph::lower(parts.model, faults);
    let sizes = model_sizes(parts.model, faults);
    let visual_tokens = parts.model.raw.visual_tokens_per_frame.value as u32;
    let plans = streams::lower(parts.scenario, Some(visual_tokens), faults);
    check_scenario(parts, &soc, faults, &mut notices);
    let contention_name = contention_model(parts, &soc, faults);
    let stages = stages?;

    let against = Against {
        engines: (
            parts.soc.raw.engines.keys().map(String::as_str).collect(),
            parts.soc.name(),
        ),
        cores: parts.soc.raw.cpu.cores.value,
        stages: (&stages, parts.model.name()),
    };
    let table = costs::lower(parts.costs, Some(&against), faults);
    let believed = parts
        .believed
        .map(|file| costs::lower(file, Some(&against), faults));
    if soc.lanes.len() != parts.soc.raw.lanes.len() {
        return None;
    }
    placement::check_costs(parts, &soc, &stages, &table, faults);
    check_believed(parts, &stages, &soc, &table, believed.as_ref(), faults);
    check_megapixels(parts, &stages, &table, faults);
    check_transfer(parts, &stages, &soc, &table, faults);
    let fixed = placement::lower_fixed(parts, &soc, &stages, &table, faults);
    let exclusive = placement::lower_exclusive(parts, &soc, &stages, &table, faults);
    let plan = memory::lower(parts, &mut soc, &stages, &table, &mut notices, faults);
    let most = memory::largest_budget(&soc, &stages, &table);
    memory::check_contexts(parts, &plans, &sizes, most, faults);
    let chosen = policy.unwrap_or(&scenario.policy);
    policy::check(
        chosen,
        &parts.scenario.root().key("policy"),
        &soc,
        &stages,
        &table,
        &plans,
        faults,
    );
    if !faults.is_empty() {
        return None;
    }

    let built = contention::build(
        &parts.scenario.root().key("contention"),
        contention_name,
        &soc,
        plan.bandwidth,
        plan.background_bandwidth,
    );
    let contention = match built {
        Ok(model) => model,
        Err(fault) => {
            faults.push(fault);
            return None;
        }
    };
    let mut world = World {
        title: scenario.title.clone(),
        notes: scenario.notes.clone(),
        soc_name: parts.soc.raw.name.clone(),
        soc_key: parts.keys.soc.clone(),
        model_name: parts.model.raw.name.clone(),
        model_key: parts.keys.model.clone(),
        contention,
        contention_off: contention_name == ContentionModelName::None,
        engines: soc.engines,
        lanes: soc.lanes,
        power: soc.power,
        stages: stages.list,
        frame_graph: stages.frame,
        query_graph: stages.query,
        transfer: stages.transfer,
        costs: table,
        believed_costs: believed,
        model: sizes,
        memory: plan,
        cpu: CpuPlan {
            cores: parts.soc.raw.cpu.cores.value,
            background_cores: scenario.background.cpu_cores,
        },
        modes: scenario.modes.clone(),
        keep: scenario.context.keep,
        answers_join_history: scenario.context.answers_join_history,
        binding: scenario.context.binding,
        policy: chosen.clone(),
        prediction: scenario.beliefs.output_tokens,
        placement: fixed,
        exclusive,
        max_requests: scenario.limits.max_requests.unwrap_or(MAX_REQUESTS_DEFAULT),
        max_pending_frames: scenario
            .limits
            .max_pending_frames
            .unwrap_or(MAX_PENDING_FRAMES_DEFAULT),
        streams: plans,
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
    notices.extend(soc.warnings);
    warnings::collect(parts, &world, &mut notices);
    world.warnings = notices;
    Some(world)
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

/// Checks what the scenario says by itself or of the SoC.
fn check_scenario(
    parts: &Parts<'_>,
    soc: &Soc,
    faults: &mut Vec<Diagnostic>,
    notices: &mut Vec<String>,
) {
    check_run(parts, faults);
    check_background(parts, faults);
    check_limits(parts, soc, faults);
    check_keys(parts, faults, notices);
}

fn check_run(parts: &Parts<'_>, faults: &mut Vec<Diagnostic>) {
    let run = &parts.scenario.raw.run;
    if let Some(horizon) = run.horizon_s
        && run.warm_up_s >= horizon
    {
        faults.push(parts.scenario.root().key("run").key("warm_up_s").fault(
            "the warm-up leaves nothing of the run",
            format!("must be less than `run.horizon_s`, {horizon} s"),
        ));
    }
}

fn check_background(parts: &Parts<'_>, faults: &mut Vec<Diagnostic>) {
    let background = &parts.scenario.raw.background;
    let place = parts.scenario.root().key("background");
    let bandwidth = parts.soc.raw.memory.bandwidth_gbps.value;
    if background.bandwidth_gbps >= bandwidth {
        faults.push(place.key("bandwidth_gbps").fault(
            "background software takes all of the bandwidth",
            format!("must be less than {bandwidth} GB/s"),
        ));
    }
    let cores = parts.soc.raw.cpu.cores.value;
    if background.cpu_cores > cores {
        faults.push(place.key("cpu_cores").fault(
            "background software keeps more cores busy than there are",
            format!("must be at most {cores} cores"),
        ));
    }
}

fn check_limits(parts: &Parts<'_>, soc: &Soc, faults: &mut Vec<Diagnostic>) {
    let scenario = &parts.scenario.raw;
    let place = parts.scenario.root().key("limits");
    let budgets = place.key("engine_kv_budget_bytes");
    for (engine, bytes) in &scenario.limits.engine_kv_budget_bytes {
        let at = budgets.key(engine);
        if soc.engine(engine).is_none() {
            faults.push(
                at.key_fault(
                    format!("KV budget of unknown engine `{engine}`"),
                    "no such engine",
                )
                .help(suggest::hint(engine, "engines", soc.engine_names())),
            );
        }
        if *bytes <= 0.0 {
            faults.push(at.fault(
                format!("KV budget of {bytes} bytes"),
                "must be greater than 0 bytes",
            ));
        }
    }
    let frames = scenario
        .streams
        .iter()
        .any(|stream| stream.frames.is_some());
    let pending = place.key("max_pending_frames");
    if pending.is_present() && !frames {
        faults.push(pending.key_fault(
            "`limits.max_pending_frames` without frames",
            "has no effect: no stream has frames",
        ));
    }
}

/// The cost file must be of this SoC and model.
fn check_keys(parts: &Parts<'_>, faults: &mut Vec<Diagnostic>, notices: &mut Vec<String>) {
    let files = [Some(parts.costs), parts.believed];
    for (file, believed) in files.into_iter().flatten().zip([false, true]) {
        for (key, says, wants) in [
            ("soc", &file.raw.soc, &parts.keys.soc),
            ("model", &file.raw.model, &parts.keys.model),
        ] {
            if says == wants {
                continue;
            }
            // Who names a cost file may want another chip's costs, on purpose: say so and go on.
            if believed || parts.keys.own_costs {
                notices.push(format!(
                    "the costs of `{}` are those of {key} `{says}`, not of `{wants}`",
                    file.name()
                ));
            } else {
                faults.push(file.root().key(key).fault(
                    format!("costs of {key} `{says}` where those of `{wants}` belong"),
                    format!("must be `{wants}`"),
                ));
            }
        }
    }
}

/// The contention model in force.
fn contention_model(
    parts: &Parts<'_>,
    soc: &Soc,
    faults: &mut Vec<Diagnostic>,
) -> ContentionModelName {
    let Some(model) = parts.scenario.raw.contention else {
        return soc.contention.model;
    };
    faults.extend(contention::lacking(
        &parts.scenario.root().key("contention"),
        model,
        &parts.soc.raw,
        parts.soc.name(),
    ));
    model
}

/// The policy must have an estimate for whatever can truly run.
fn check_believed(
    parts: &Parts<'_>,
    stages: &Stages,
    soc: &Soc,
    table: &CostTable,
    believed: Option<&CostTable>,
    faults: &mut Vec<Diagnostic>,
) {
    let (Some(believed), Some(file)) = (believed, parts.believed) else {
        return;
    };
    for (index, engine) in soc.engines.iter().enumerate() {
        for (at, stage) in stages.list.iter().enumerate() {
            if table.rows[index][at].is_some() && believed.rows[index][at].is_none() {
                faults.push(
                    file.root()
                        .key("engines")
                        .key(&engine.name)
                        .key_fault(
                            format!(
                                "believed costs lack stage `{}` on engine `{}`",
                                stage.name, engine.name
                            ),
                            "the true costs have it",
                        )
                        .help(format!(
                            "add `[engines.{}.stages.{}]`",
                            engine.name, stage.name
                        )),
                );
            }
        }
    }
}

/// Frame sizes are needed where an encode costs by size, and useless elsewhere.
fn check_megapixels(
    parts: &Parts<'_>,
    stages: &Stages,
    table: &CostTable,
    faults: &mut Vec<Diagnostic>,
) {
    let by_size = stages.frame.stages.iter().any(|&id| {
        stages.get(id).kind == StageKind::Encode
            && table.rows.iter().any(|row| {
                row[id.0 as usize].as_ref().is_some_and(|costs| {
                    costs::depends_on_size(&costs.alone)
                        || costs.corun.as_ref().is_some_and(costs::depends_on_size)
                })
            })
    });
    let streams = parts.scenario.root().key("streams");
    for (index, stream) in parts.scenario.raw.streams.iter().enumerate() {
        let Some(frames) = &stream.frames else {
            continue;
        };
        let place: Place<'_> = streams.index(index).key("frames");
        match frames.megapixels {
            Some(_) if !by_size => faults.push(
                place
                    .key("megapixels")
                    .key_fault("`megapixels` has no effect", "no encode cost depends on it")
                    .help(format!(
                        "remove it, or give `{}` an encode cost by size",
                        parts.costs.name()
                    )),
            ),
            None if by_size => faults.push(
                place
                    .key_fault(
                        format!("the frames of stream `{}` lack `megapixels`", stream.name),
                        format!("`{}` has an encode cost by size", parts.costs.name()),
                    )
                    .help("add `megapixels = 0.15`"),
            ),
            _ => {}
        }
    }
}

/// Import can only be asked for where it can happen.
fn check_transfer(
    parts: &Parts<'_>,
    stages: &Stages,
    soc: &Soc,
    table: &CostTable,
    faults: &mut Vec<Diagnostic>,
) {
    let TransferStages { import, export, .. } = stages.transfer;
    let engines = || soc.lanes.iter().map(|lane| lane.engine);
    let possible = engines().any(|to| {
        table.get(to, import).is_some()
            && engines().any(|from| from != to && table.get(from, export).is_some())
    });
    if parts.scenario.raw.modes.state_transfer == StateTransfer::Import && !possible {
        faults.push(
            parts
                .scenario
                .root()
                .key("modes")
                .key("state_transfer")
                .fault(
                    "contexts cannot be imported",
                    format!(
                        "`{}` has no `export` of one engine and `import` of another",
                        parts.costs.name()
                    ),
                )
                .help("add `[engines.ENGINE.stages.export]` and `.import]`, or choose `auto` or `reconstruct`"),
        );
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
