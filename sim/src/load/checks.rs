//! Checks of a scenario against its SoC, model and costs.

use super::compile::Parts;
use super::document::Place;
use super::graph::Stages;
use super::soc::Soc;
use super::{contention, costs, suggest};
use crate::cost::CostTable;
use crate::diag::Diagnostic;
use crate::spec::model::StageKind;
use crate::spec::scenario::StateTransfer;
use crate::spec::soc::{ContentionModelName, EngineKind};
use crate::world::TransferStages;

/// Checks what the scenario says by itself or of the SoC.
pub(super) fn scenario(
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
pub(super) fn contention_model(
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

/// Checks the costs against what the scenario asks for.
pub(super) fn costs_fit(
    parts: &Parts<'_>,
    stages: &Stages,
    soc: &Soc,
    table: &CostTable,
    believed: Option<&CostTable>,
    faults: &mut Vec<Diagnostic>,
) {
    check_believed(parts, stages, soc, table, believed, faults);
    check_megapixels(parts, stages, table, faults);
    check_host_share(parts, faults);
    check_transfer(parts, stages, soc, table, faults);
}

/// The policy must have an estimate for whatever can truly run, and has no use for others.
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
            let stated = file.root().key("engines").key(&engine.name);
            let stated = stated.key("stages").key(&stage.name);
            if table.rows[index][at].is_none() && stated.is_present() {
                faults.push(
                    stated
                        .key_fault(
                            format!(
                                "believed costs of stage `{}` on engine `{}` have no effect",
                                stage.name, engine.name
                            ),
                            "the true costs lack it: it never runs there",
                        )
                        .help("leave it out"),
                );
            }
        }
    }
}

/// All of a CPU's own stage is CPU work.
fn check_host_share(parts: &Parts<'_>, faults: &mut Vec<Diagnostic>) {
    for file in [Some(parts.costs), parts.believed].into_iter().flatten() {
        for (engine, costs) in &file.raw.engines {
            let kind = parts.soc.raw.engines.get(engine).map(|engine| engine.kind);
            if kind != Some(EngineKind::Cpu) {
                continue;
            }
            let stages = file.root().key("engines").key(engine).key("stages");
            for stage in costs.stages.keys() {
                let place = stages.key(stage).key("host_share");
                if place.is_present() {
                    let title = format!("{} has no effect", place.quoted());
                    let why = "the engine is the CPU: all of it is CPU work";
                    faults.push(place.key_fault(title, why).help("leave the key out"));
                }
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
                let costs = row[id.0 as usize].as_ref();
                costs.is_some_and(|costs| costs::depends_on_size(&costs.alone))
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
                .help("add `[engines.A.stages.export]` and `[engines.B.stages.import]`, or choose `auto` or `reconstruct`"),
        );
    }
}
