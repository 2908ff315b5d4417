//! The cost file: what each stage costs on each engine.

use super::document::Place;
use super::file::File;
use super::graph::{RESERVED, Stages};
use super::suggest;
use crate::cost::{Cost, CostTable, Noise, StageCosts, Time};
use crate::diag::Diagnostic;
use crate::spec::costs::{CostsFile, EngineCosts, StageCost, TimeTable};
use crate::spec::model::StageKind;
use crate::spec::quantity::{OriginKind, Quantity};
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
        let Some(against) = against else {
            continue;
        };
        if let Some(index) = against.engines.0.iter().position(|known| known == name) {
            table.rows[index] = row;
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

struct Reader<'r, 'd> {
    file: &'d File<CostsFile>,
    place: Place<'d>,
    engine: &'d EngineCosts,
    against: Option<&'r Against<'r>>,
    faults: &'r mut Vec<Diagnostic>,
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
            let names = stages.keys().map(|name| stages_place.key(name));
            let names = names.chain(corun.keys().map(|name| corun_place.key(name)));
            let names = names.chain(unsupported.keys().map(|name| unsupported_place.key(name)));
            for place in names {
                let name = place.path().rsplit('.').next().unwrap_or_default();
                if model.find(name).is_none() {
                    self.faults.push(
                        place
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
            let corun = self.engine.corun.get(name).and_then(|raw| {
                let place = self.place.key("corun").key(name);
                self.check_corun(&place, name);
                self.cost(&place, raw, kind)
            });
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
            if let (Some(id), Some(alone)) = (id, alone) {
                row[id.0 as usize] = Some(StageCosts {
                    alone,
                    corun,
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

    /// Only times and bytes differ beside others.
    fn check_corun(&mut self, place: &Place<'_>, name: &str) {
        for key in ["cv", "samples_s", "host_cores", "host_share", "active_w"] {
            let place = place.key(key);
            if place.is_present() {
                self.faults.push(
                    place
                        .key_fault(
                            format!("`{key}` in a cost beside others"),
                            "has no effect here",
                        )
                        .help(format!(
                            "state it under `{}`",
                            self.place.key("stages").key(name).path()
                        )),
                );
            }
        }
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

    fn cost(
        &mut self,
        place: &Place<'_>,
        raw: &StageCost,
        kind: Option<StageKind>,
    ) -> Option<Cost> {
        let before = self.faults.len();
        let time = self.time(place, raw, kind);
        if let Some(kind) = kind {
            self.check_size(place, kind);
        }
        let measured_tokens = self.range(place, "measured_tokens", raw.measured_tokens);
        let measured_context = self.range(place, "measured_context", raw.measured_context);
        let measured_tokens = measured_tokens.or(match &time {
            Some(Time::Table { size, .. }) => size.first().copied().zip(size.last().copied()),
            _ => None,
        });
        if let Some(kind) = kind {
            self.require_ranges(place, raw, kind, measured_tokens.is_some());
        }
        let value = |quantity: &Option<Quantity>| quantity.as_ref().map_or(0.0, |q| q.value);
        let everywhere = (0.0, f64::INFINITY);
        (self.faults.len() == before).then_some(Cost {
            time: time?,
            bytes_fixed: value(&raw.bytes),
            bytes_per_token: value(&raw.bytes_per_token),
            bytes_per_token_context: value(&raw.bytes_per_token_context),
            measured_tokens: measured_tokens.unwrap_or(everywhere),
            measured_context: measured_context.unwrap_or(everywhere),
        })
    }

    /// The time in exactly one of its forms.
    fn time(
        &mut self,
        place: &Place<'_>,
        raw: &StageCost,
        kind: Option<StageKind>,
    ) -> Option<Time> {
        let StageCost {
            fixed_s: fixed,
            per_token_s: per_token,
            per_token_context_s: per_token_context,
            ..
        } = raw;
        let value = |quantity: &Option<Quantity>| quantity.as_ref().map_or(0.0, |q| q.value);
        let mut both = |key: &str, form: &str, help: &str| {
            let place = place.key(key);
            if place.is_present() {
                self.faults.push(
                    place
                        .key_fault(
                            format!("`{key}` beside `{form}`"),
                            format!("has no effect with a `{form}`"),
                        )
                        .help(help),
                );
            }
        };
        if let Some(table) = &raw.table {
            both("fixed_s", "table", "add it to the table's times");
            both(
                "per_token_s",
                "table",
                "remove it: the table holds the time by size",
            );
            both("gbps", "table", "remove one of the two");
            check_table(&place.key("table"), table, self.faults);
            return Some(Time::Table {
                size: table.size.clone(),
                secs: table.time_s.clone(),
                per_token_context: value(per_token_context),
            });
        }
        if let Some(rate) = &raw.gbps {
            both(
                "per_token_s",
                "gbps",
                "remove it: a transfer's time is by bytes",
            );
            both(
                "per_token_context_s",
                "gbps",
                "remove it: a transfer has no context",
            );
            if kind.is_some_and(|kind| !is_transfer(kind)) {
                self.faults.push(
                    place
                        .key("gbps")
                        .key_fault("`gbps` of a stage that is no transfer", "has no effect here")
                        .help("only `import` and `export` have a size in bytes; use `fixed_s`, `per_token_s` or `table`"),
                );
            }
            return Some(Time::Transfer {
                fixed: value(fixed),
                bytes_per_s: rate.value * 1e9,
            });
        }
        let (fixed, per_token, per_token_context) =
            (value(fixed), value(per_token), value(per_token_context));
        if fixed + per_token + per_token_context <= 0.0 {
            self.faults.push(
                place
                    .key_fault(
                        format!("{} takes no time", place.quoted()),
                        "states no time",
                    )
                    .help(match kind {
                        Some(kind) if is_transfer(kind) => "add `gbps = 10.0` or `fixed_s = 0.01`",
                        _ => "add `fixed_s`, `per_token_s` or a `table`",
                    }),
            );
            return None;
        }
        Some(Time::Linear {
            fixed,
            per_token,
            per_token_context,
        })
    }

    /// Keys that multiply a size or context which a stage of this kind does not have.
    fn check_size(&mut self, place: &Place<'_>, kind: StageKind) {
        let mut no_effect: Vec<(&str, &str)> = Vec::new();
        if !has_context(kind) {
            let why = "a stage of this kind has no context";
            no_effect.extend([
                ("per_token_context_s", why),
                ("bytes_per_token_context", why),
                ("measured_context", why),
            ]);
        }
        match kind {
            StageKind::Custom => {
                let why = "the size of a custom stage is always 1";
                no_effect.extend([
                    ("per_token_s", why),
                    ("bytes_per_token", why),
                    ("table", why),
                    ("measured_tokens", why),
                ]);
            }
            StageKind::Import | StageKind::Export => {
                no_effect.push(("per_token_s", "the size of a transfer is in bytes"));
            }
            _ => {}
        }
        for (key, why) in no_effect {
            let place = place.key(key);
            // A form with two rates is reported as such.
            if place.is_present()
                && !self
                    .faults
                    .iter()
                    .any(|f| *f.file == *place.file() && f.span == place.key_fault("", "").span)
            {
                self.faults
                    .push(place.key_fault(format!("{} has no effect", place.quoted()), why));
            }
        }
    }

    fn range(
        &mut self,
        place: &Place<'_>,
        key: &str,
        range: Option<[f64; 2]>,
    ) -> Option<(f64, f64)> {
        let [low, high] = range?;
        if low < 0.0 || low > high {
            self.faults.push(place.key(key).fault(
                format!("`{key}` from {low} to {high}"),
                "must rise from at least 0",
            ));
        }
        Some((low, high))
    }

    /// A rate that was measured was measured somewhere: beyond that, results must say so.
    fn require_ranges(
        &mut self,
        place: &Place<'_>,
        raw: &StageCost,
        kind: StageKind,
        has_tokens: bool,
    ) {
        let sized = has_context(kind) || kind == StageKind::Project;
        let missing = [
            ("measured_tokens", &raw.per_token_s, sized && !has_tokens),
            (
                "measured_context",
                &raw.per_token_context_s,
                has_context(kind) && raw.measured_context.is_none(),
            ),
        ];
        for (range, rate, lacks) in missing {
            let key = if range == "measured_tokens" {
                "per_token_s"
            } else {
                "per_token_context_s"
            };
            if !lacks || rate.as_ref().is_none_or(|rate| rate.value == 0.0) {
                continue;
            }
            let path = format!("{}.{key}", place.path());
            let kind = self
                .file
                .provenance
                .iter()
                .find(|number| number.path == path);
            if kind.is_some_and(|number| {
                !matches!(number.kind, OriginKind::Derived | OriginKind::Assumed)
            }) {
                self.faults.push(
                    place
                        .key(key)
                        .key_fault(
                            format!("{} was measured, but not where", place.quoted()),
                            format!("lacks `{range}`"),
                        )
                        .help(format!(
                            "add `{range} = [32.0, 1024.0]`: the sizes between which it was measured"
                        )),
                );
            }
        }
    }
}

fn check_table(place: &Place<'_>, table: &TimeTable, faults: &mut Vec<Diagnostic>) {
    let (sizes, times) = (&table.size, &table.time_s);
    if sizes.is_empty() {
        faults.push(
            place
                .key("size")
                .fault("`size` is empty", "needs at least one size"),
        );
    }
    if sizes.len() != times.len() {
        faults.push(place.key("time_s").fault(
            format!("table has {} sizes and {} times", sizes.len(), times.len()),
            "one time for each size",
        ));
    }
    for (index, size) in sizes.iter().enumerate() {
        let at = place.key("size").index(index);
        if *size < 0.0 {
            faults.push(at.fault(format!("size {size}"), "must be at least 0"));
        } else if index > 0 && *size <= sizes[index - 1] {
            faults.push(at.fault(
                "table sizes do not rise",
                format!("must be greater than {}", sizes[index - 1]),
            ));
        }
    }
    for (index, time) in times.iter().enumerate().filter(|(_, t)| **t <= 0.0) {
        faults.push(
            place
                .key("time_s")
                .index(index)
                .fault(format!("time of {time} s"), "must be greater than 0 s"),
        );
    }
}

/// The stage that ingests a frame.
pub(super) fn ingest(stages: &Stages) -> StageId {
    stages.frame.stages[stages.frame.bound_at as usize]
}

fn is_transfer(kind: StageKind) -> bool {
    matches!(kind, StageKind::Import | StageKind::Export)
}

/// Whether a stage of this kind works on a context, and so has its size in tokens.
fn has_context(kind: StageKind) -> bool {
    matches!(
        kind,
        StageKind::Ingest | StageKind::QueryPrefill | StageKind::Decode | StageKind::Reconstruct
    )
}

/// Whether a cost depends on the size.
pub(super) fn depends_on_size(cost: &Cost) -> bool {
    let time = match &cost.time {
        Time::Linear { per_token, .. } => *per_token > 0.0,
        Time::Table { .. } | Time::Transfer { .. } => true,
    };
    time || cost.bytes_per_token > 0.0
}
