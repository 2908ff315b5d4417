//! Rows of a cost file that an engine lacks without saying why: a lane that has some of the language model's stages and
//! not the others would silently leave answers to other lanes, and one whose contexts cannot be copied would silently
//! prefill them again.

use super::compile::Parts;
use super::document::Place;
use super::graph::Stages;
use super::soc::Soc;
use super::{costs, suggest};
use crate::diag::Diagnostic;
use crate::spec::scenario::StateTransfer;
use crate::world::{EngineId, LaneId, StageId};

/// What a row is supplied by.
const SUPPLY: &str =
    "`crossinfer calibrate`, `crossinfer import` or `crossinfer roofline` supplies it";

/// A fault for each missing row, or a word in `notices` where another way is taken that the scenario allows.
pub(super) fn check(
    parts: &Parts<'_>,
    soc: &Soc,
    stages: &Stages,
    fixed: &[Option<LaneId>],
    faults: &mut Vec<Diagnostic>,
    notices: &mut Vec<String>,
) {
    let rows = Rows {
        parts,
        soc,
        stages,
        fixed,
    };
    rows.language(faults);
    rows.transfers(faults, notices);
}

struct Rows<'r, 'd> {
    parts: &'r Parts<'d>,
    soc: &'r Soc,
    stages: &'r Stages,
    fixed: &'r [Option<LaneId>],
}

impl<'d> Rows<'_, 'd> {
    fn place(&self, engine: EngineId) -> Place<'d> {
        let engines = self.parts.costs.root().key("engines");
        engines.key(&self.soc.engines[engine.0 as usize].name)
    }

    fn name(&self, stage: StageId) -> &str {
        &self.stages.get(stage).name
    }

    fn costs(&self, engine: EngineId, stage: StageId) -> bool {
        let place = self.place(engine).key("stages");
        place.key(self.name(stage)).is_present()
    }

    fn says_why_not(&self, engine: EngineId, stage: StageId) -> bool {
        let place = self.place(engine).key("unsupported");
        place.key(self.name(stage)).is_present()
    }

    /// Whether the placement leaves a stage to an engine.
    fn may_run(&self, engine: EngineId, stage: StageId) -> bool {
        let fixed = self.fixed[stage.0 as usize];
        fixed.is_none_or(|lane| self.soc.lanes[lane.0 as usize].engine == engine)
    }

    fn engines(&self) -> impl Iterator<Item = EngineId> {
        let all = (0..self.soc.engines.len() as u8).map(EngineId);
        all.filter(|&engine| self.soc.has_lane(engine))
    }

    fn ingests(&self) -> bool {
        let scenario = &self.parts.scenario.raw;
        let mut streams = scenario.streams.iter();
        streams.any(|stream| stream.frames.is_some()) || scenario.context.answers_join_history
    }

    fn asks(&self) -> bool {
        let mut streams = self.parts.scenario.raw.streams.iter();
        streams.any(|stream| stream.queries.is_some())
    }

    /// An engine with one of the language model's stages needs the others that may reach it.
    fn language(&self, faults: &mut Vec<Diagnostic>) {
        let ingest = costs::ingest(self.stages);
        let bound = self.stages.bound();
        let [prefill, decode] = bound;
        let mut needed = Vec::new();
        if self.ingests() {
            needed.push(ingest);
        }
        if self.asks() {
            needed.extend(bound);
        }
        for engine in self.engines() {
            let language = [ingest, prefill, decode];
            if !language.iter().any(|&stage| self.costs(engine, stage)) {
                continue;
            }
            for &stage in &needed {
                let reached = if stage == ingest {
                    self.may_run(engine, stage)
                } else {
                    bound.iter().all(|&stage| self.may_run(engine, stage))
                };
                let nowhere = !self.engines().any(|other| self.costs(other, stage));
                if !reached
                    || nowhere
                    || self.costs(engine, stage)
                    || self.says_why_not(engine, stage)
                {
                    continue;
                }
                let (name, place) = (self.name(stage), self.place(engine));
                let path = place.path().to_owned();
                let engine = &self.soc.engines[engine.0 as usize].name;
                faults.push(
                    place
                        .key_fault(
                            format!("engine `{engine}` has no cost of stage `{name}`"),
                            "has others of the language model: without it, other lanes would silently do its work",
                        )
                        .help(format!(
                            "add `[{path}.stages.{name}]` ({SUPPLY}), or say why the engine cannot run it: `{name} = \"…\"` under `[{path}.unsupported]`"
                        )),
                );
            }
        }
    }

    /// Contexts go from engines that ingest to those that answer or ingest.
    fn transfers(&self, faults: &mut Vec<Diagnostic>, notices: &mut Vec<String>) {
        let modes = &self.parts.scenario.raw.modes;
        if !modes.context_reuse
            || modes.state_transfer == StateTransfer::Reconstruct
            || !self.ingests()
            || !self.asks()
        {
            return;
        }
        let able = |engine, stages: &[StageId]| {
            let mut stages = stages.iter();
            stages.all(|&stage| self.costs(engine, stage) && self.may_run(engine, stage))
        };
        let from: Vec<EngineId> = self
            .engines()
            .filter(|&engine| able(engine, &[costs::ingest(self.stages)]))
            .collect();
        let to: Vec<EngineId> = self
            .engines()
            .filter(|&engine| from.contains(&engine) || able(engine, &self.stages.bound()))
            .collect();
        let transfer = self.stages.transfer;
        // A copy that the other side says it cannot take part in needs no row on this one.
        let other = |of: &[EngineId], stage, engine| {
            let mut others = of.iter().filter(|&&other| other != engine);
            others.any(|&other| !self.says_why_not(other, stage))
        };
        let exports = from
            .iter()
            .filter(|&&engine| other(&to, transfer.import, engine));
        let imports = to
            .iter()
            .filter(|&&engine| other(&from, transfer.export, engine));
        let rows = exports.map(|&engine| (engine, transfer.export));
        let rows = rows.chain(imports.map(|&engine| (engine, transfer.import)));
        let mut missing = Vec::new();
        for (engine, stage) in rows {
            if self.costs(engine, stage) || self.says_why_not(engine, stage) {
                continue;
            }
            let (name, place) = (self.name(stage), self.place(engine));
            let row = format!("[{}.stages.{name}]", place.path());
            if modes.state_transfer == StateTransfer::Import {
                let engine = &self.soc.engines[engine.0 as usize].name;
                faults.push(
                    place
                        .key_fault(
                            format!("engine `{engine}` has no cost of stage `{name}`"),
                            "`modes.state_transfer` is `import`: without it, contexts would silently be prefilled again",
                        )
                        .help(format!(
                            "add `{row}` ({SUPPLY}), or say why the engine cannot: `{name} = \"…\"` under `[{}.unsupported]`",
                            place.path()
                        )),
                );
            } else {
                missing.push(row);
            }
        }
        if !missing.is_empty() {
            notices.push(format!(
                "`{}` lacks {}: where a context would be copied there it is prefilled again; {SUPPLY}, or say why not under `unsupported`",
                self.parts.costs.name(),
                suggest::quoted_list(missing.iter().map(String::as_str)),
            ));
        }
    }
}
