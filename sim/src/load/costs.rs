//! The cost file: what each stage costs on each engine.

use super::document::Place;
use super::file::File;
use super::graph::{RESERVED, Stages};
use super::suggest;
use crate::cost::{Cost, CostTable, Noise, StageCosts, Time};
use crate::diag::Diagnostic;
use crate::spec::costs::{CostsFile, EngineCosts, StageCost};
use crate::spec::model::StageKind;

use crate::world::{STAGES_MAX, StageId};

/// What a cost file is checked against: the SoC's engines and cores, and the model's stages.
#[derive(Debug)]
pub(super) struct Against<'a> {
    /// Names of the SoC's engines, sorted, and its file's name.
    pub(super) engines: (Vec<&'a str>, &'a str),
    /// Cores of the SoC.
    pub(super) cores: f64,
    /// The model's stages, and its file's name.
    pub(super) stages: (&'a Stages, &'a str),
}

/// Checks a cost file and puts it in a table. Without `against` only what the file says by itself is
/// checked and the table is empty.
pub(super) fn lower(
    file: &File<CostsFile>,
    against: Option<&Against<'_>>,
    faults: &mut Vec<Diagnostic>,
) -> CostTable {
    let mut table = CostTable::default();
    let place = file.root().key("engines");
    if let Some(against) = against {
        table.rows = vec![[const { None }; STAGES_MAX]; against.engines.0.len()];
        table.corun_beside = vec![0; against.engines.0.len()];
    }
    for (name, engine) in &file.raw.engines {
        let mut reader = Reader {
            file,
            place: place.key(name),
            engine,
            against,
            faults,
        };
        reader.check_names();
        let row = reader.row();
        let beside = reader.corun_beside();
        let Some(against) = against else {
            continue;
        };
        if let Some(index) = against.engines.0.iter().position(|known| known == name) {
            table.rows[index] = row;
            table.corun_beside[index] = beside;
        } else {
            faults.push(
                place
                    .key(name)
                    .key_fault(
                        format!("costs of unknown engine `{name}`"),
                        format!("not an engine of `{}`", against.engines.1),
                    )
                    .help(suggest::hint(
                        name,
                        "engines",
                        against.engines.0.iter().copied(),
                    )),
            );
        }
    }
    table
}

/// Reads the costs of one engine.
pub(super) struct Reader<'r, 'd> {
    pub(super) file: &'d File<CostsFile>,
    pub(super) place: Place<'d>,
    engine: &'d EngineCosts,
    against: Option<&'r Against<'r>>,
    pub(super) faults: &'r mut Vec<Diagnostic>,
}

impl Reader<'_, '_> {
    /// Kind of a stage by name, as far as it is known.
    fn kind(&self, name: &str) -> Option<StageKind> {
        if let Some((_, kind)) = RESERVED.iter().find(|(reserved, _)| *reserved == name) {
            return Some(*kind);
        }
        let (stages, _) = self.against?.stages;
        stages.find(name).map(|id| stages.get(id).kind)
    }

    fn check_names(&mut self) {
        let EngineCosts {
            stages,
            corun,
            unsupported,
            ..
        } = self.engine;
        let (stages_place, corun_place, unsupported_place) = (
            self.place.key("stages"),
            self.place.key("corun"),
            self.place.key("unsupported"),
        );
        if let Some(Against {
            stages: (model, model_file),
            ..
        }) = self.against
        {
            let named = [
                (&stages_place, stages.keys().collect::<Vec<_>>()),
                (&corun_place, corun.keys().collect()),
                (&unsupported_place, unsupported.keys().collect()),
            ];
            let named = named
                .iter()
                .flat_map(|(place, names)| names.iter().map(move |name| (place, name.as_str())));
            for (place, name) in named {
                if model.find(name).is_none() {
                    self.faults.push(
                        place
                            .key(name)
                            .key_fault(
                                format!("unknown stage `{name}`"),
                                format!("not a stage of `{model_file}`"),
                            )
                            .help(suggest::hint(name, "stages", model.names())),
                    );
                }
            }
        }
        for name in corun.keys().filter(|name| !stages.contains_key(*name)) {
            self.faults.push(
                corun_place
                    .key(name)
                    .key_fault(
                        format!("stage `{name}` has a cost beside others but none alone"),
                        "has no effect",
                    )
                    .help(format!("add `[{}]`", stages_place.key(name).path())),
            );
        }
        for (name, reason) in unsupported {
            let place = unsupported_place.key(name);
            if stages.contains_key(name) {
                self.faults.push(place.key_fault(
                    format!("stage `{name}` is unsupported and has a cost"),
                    "contradicts its cost",
                ));
            }
            if reason.trim().is_empty() {
                self.faults.push(place.fault(
                    format!("stage `{name}` is unsupported without a reason"),
                    "say why, for who wonders",
                ));
            }
        }
    }

    fn row(&mut self) -> [Option<StageCosts>; STAGES_MAX] {
        let mut row = [const { None }; STAGES_MAX];
        for (name, raw) in &self.engine.stages {
            let place = self.place.key("stages").key(name);
            let kind = self.kind(name);
            let alone = self.cost(&place, raw, kind);
            let corun = self.engine.corun.get(name);
            let noise = self.noise(&place, raw);
            let host_cores = raw.host_cores.as_ref().map_or(0.0, |cores| cores.value);
            if let Some(against) = self.against
                && host_cores > against.cores
            {
                self.faults.push(place.key("host_cores").fault(
                    format!("stage `{name}` keeps more cores busy than there are"),
                    format!("must be at most {}", against.cores),
                ));
            }
            let id = self.against.and_then(|a| a.stages.0.find(name));
            if let Some(id) = id {
                row[id.0 as usize] = Some(StageCosts {
                    alone,
                    corun_ratio: corun.map_or(1.0, |corun| corun.ratio.value),
                    noise,
                    host_cores,
                    host_share: raw.host_share.as_ref().map_or(0.0, |share| share.value),
                    active_w: raw.active_w.as_ref().map(|watts| watts.value),
                });
            }
        }
        // To reconstruct is to prefill the same tokens, so an engine that ingests can do it at that cost.
        if let Some(Against {
            stages: (stages, _),
            ..
        }) = self.against
        {
            let reconstruct = stages.transfer.reconstruct.0 as usize;
            let refused = self.engine.unsupported.contains_key("reconstruct");
            if row[reconstruct].is_none() && !refused {
                let prefill = row[ingest(stages).0 as usize].clone();
                row[reconstruct] = prefill;
            }
        }
        row
    }

    /// The engines, a bit each, beside which `corun` holds.
    fn corun_beside(&mut self) -> u16 {
        let Some(names) = &self.engine.corun_beside else {
            return if self.engine.corun.is_empty() {
                0
            } else {
                u16::MAX
            };
        };
        let place = self.place.key("corun_beside");
        if self.engine.corun.is_empty() || names.is_empty() {
            let lacks = if names.is_empty() { "engines" } else { "costs" };
            self.faults.push(
                place
                    .key_fault(format!("`corun_beside` without {lacks}"), "has no effect")
                    .help(format!(
                        "name engines here and give `[{}.STAGE]`, or remove the key",
                        self.place.key("corun").path()
                    )),
            );
        }
        let Some(against) = self.against else {
            return 0;
        };
        let mut mask = 0;
        for (index, name) in names.iter().enumerate() {
            match against.engines.0.iter().position(|known| known == name) {
                Some(engine) => mask |= 1 << engine,
                None => self.faults.push(
                    place
                        .index(index)
                        .fault(
                            format!("unknown engine `{name}`"),
                            format!("not an engine of `{}`", against.engines.1),
                        )
                        .help(suggest::hint(
                            name,
                            "engines",
                            against.engines.0.iter().copied(),
                        )),
                ),
            }
        }
        mask
    }

    fn noise(&mut self, place: &Place<'_>, raw: &StageCost) -> Noise {
        let samples = raw.samples_s.as_deref().unwrap_or_default();
        if raw.samples_s.is_some() {
            let samples_place = place.key("samples_s");
            if raw.cv.is_some() {
                self.faults.push(samples_place.key_fault(
                    "both `cv` and `samples_s` state the spread",
                    "give one of them",
                ));
            }
            if samples.len() < 2 {
                self.faults.push(samples_place.fault(
                    format!("{} sample has no spread", samples.len()),
                    "needs at least two",
                ));
            }
            for (index, sample) in samples.iter().enumerate().filter(|(_, s)| **s <= 0.0) {
                self.faults.push(
                    samples_place
                        .index(index)
                        .fault(format!("sample of {sample} s"), "must be greater than 0 s"),
                );
            }
            let mean = samples.iter().sum::<f64>() / samples.len() as f64;
            return Noise::Empirical(samples.iter().map(|sample| sample / mean).collect());
        }
        match &raw.cv {
            Some(cv) if cv.value > 0.0 => Noise::LogNormal { cv: cv.value },
            _ => Noise::None,
        }
    }
}

/// The stage that ingests a frame.
pub(super) fn ingest(stages: &Stages) -> StageId {
    stages.frame.stages[stages.frame.bound_at as usize]
}

/// Whether a cost depends on the size.
pub(super) fn depends_on_size(cost: &Cost) -> bool {
    let time = match &cost.time {
        Time::Linear { per_token, .. } => *per_token > 0.0,
        Time::Table { .. } | Time::Transfer { .. } => true,
    };
    time || cost.bytes_per_token > 0.0
}
