//! Memory: what is taken before any context, whether the weights fit each engine, and what is left.

use super::compile::Parts;
use super::graph::Stages;
use super::soc::Soc;
use crate::cost::CostTable;
use crate::diag::Diagnostic;
use crate::memory::{self, Refusal, Taken};
use crate::spec::model::StageKind;
use crate::world::{EngineId, MemoryPlan};

/// Bytes of weights that each engine works on, and whose copies take memory.
struct Weights {
    shared: f64,
    vision: f64,
    /// Copy of its own, by engine.
    copies: Vec<Option<f64>>,
}

/// Checks that the model fits, and sets the engines' budgets of KV.
pub(super) fn lower(
    parts: &Parts<'_>,
    soc: &mut Soc,
    stages: &Stages,
    table: &CostTable,
    faults: &mut Vec<Diagnostic>,
) -> MemoryPlan {
    let scenario = &parts.scenario.raw;
    let raw = &parts.soc.raw.memory;
    let model = &parts.model.raw;
    let weights = Weights {
        shared: model.weights_bytes.value,
        vision: model.vision_weights_bytes.as_ref().map_or(0.0, |q| q.value),
        copies: soc
            .engines
            .iter()
            .map(|engine| {
                let costs = parts.costs.raw.engines.get(&engine.name)?;
                Some(costs.weights_copy_bytes.as_ref()?.value)
            })
            .collect(),
    };
    check_address_limits(parts, soc, stages, table, &weights, faults);

    let copies: f64 = (0..soc.engines.len())
        .filter(|&engine| soc.has_lane(EngineId(engine as u8)))
        .filter_map(|engine| weights.copies[engine])
        .sum();
    let capacity = raw.capacity_bytes.value;
    let taken = Taken {
        weights: memory::Weights {
            language: weights.shared + copies,
            tower: weights.vision,
        },
        reserved: raw.reserved_bytes.value,
        background: scenario.background.memory_bytes,
    };
    let mut left = taken.left(capacity).unwrap_or_else(|refusal| {
        let alone = Taken {
            background: 0.0,
            ..taken
        };
        let root = parts.scenario.root();
        let place = if alone.left(capacity).is_ok() {
            root.key("background").key("memory_bytes")
        } else {
            root.key("model")
        };
        faults.push(
            place
                .fault(refused(parts, &refusal), "nothing is left for a context")
                .help("choose a smaller model or a SoC with more memory"),
        );
        0.0
    });
    if let Some(limit) = scenario.limits.kv_budget_bytes {
        left = left.min(limit);
    }
    let budget = left as u64;
    for engine in &mut soc.engines {
        let limits = &scenario.limits.engine_kv_budget_bytes;
        if let Some(limit) = limits.get(&engine.name) {
            engine.kv_budget = engine.kv_budget.min(*limit as u64);
        }
        engine.kv_budget = engine.kv_budget.min(budget);
    }
    MemoryPlan {
        capacity: capacity as u64,
        taken: taken.all() as u64,
        background: scenario.background.memory_bytes as u64,
        kv_budget: budget,
        bandwidth: raw.bandwidth_gbps.value * 1e9,
        background_bandwidth: scenario.background.bandwidth_gbps * 1e9,
    }
}

/// An engine that cannot address its weights cannot run them, however much memory there is.
fn check_address_limits(
    parts: &Parts<'_>,
    soc: &Soc,
    stages: &Stages,
    table: &CostTable,
    weights: &Weights,
    faults: &mut Vec<Diagnostic>,
) {
    for (index, engine) in soc.engines.iter().enumerate() {
        let raw = &parts.soc.raw.engines[&engine.name];
        let Some(limit) = &raw.address_limit_bytes else {
            continue;
        };
        let runs = |vision: bool| {
            stages
                .list
                .iter()
                .zip(&table.rows[index])
                .any(|(stage, cost)| {
                    let is_vision = matches!(stage.kind, StageKind::Encode | StageKind::Project);
                    let is_language = matches!(
                        stage.kind,
                        StageKind::Ingest | StageKind::QueryPrefill | StageKind::Decode
                    );
                    cost.is_some() && if vision { is_vision } else { is_language }
                })
        };
        let language = weights.copies[index].unwrap_or(weights.shared);
        let of = |runs: bool, bytes: f64| if runs { bytes } else { 0.0 };
        let needs = memory::Weights {
            language: of(runs(false), language),
            tower: of(runs(true), weights.vision),
        };
        let Err(refusal) = memory::addressed(&engine.name, needs, Some(limit.value)) else {
            continue;
        };
        faults.push(
            parts
                .scenario
                .root()
                .key("model")
                .fault(
                    refused(parts, &refusal),
                    format!("its weights exceed the address limit of `{}`", engine.name),
                )
                .help(format!(
                    "choose a smaller model or quantisation, or move the engine's stages in `{}` to `[engines.{}.unsupported]`",
                    parts.costs.name(),
                    engine.name
                )),
        );
    }
}

/// A refusal as a fault of this model on this SoC.
fn refused(parts: &Parts<'_>, refusal: &Refusal) -> String {
    let (model, soc) = (&parts.keys.model, &parts.keys.soc);
    format!("model `{model}` on `{soc}` {refusal}")
}
