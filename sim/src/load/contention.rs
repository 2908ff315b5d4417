//! Contention: which model, with which of the profile's parameters.

use super::document::Place;
use super::file::File;
use super::soc::Soc;
use super::suggest;
use crate::contention::{
    ContentionModel, ModelError, NoContention, PairGrid, Pairwise, Pccs, PccsCurve, Ports, Shape,
    WaterFilling,
};
use crate::diag::Diagnostic;
use crate::spec::quantity::Quantity;
use crate::spec::soc::{Contention, ContentionModelName, Pair, Pccs as RawPccs, SocFile};
use crate::world::EngineId;

/// Everything that some contention model may be built from.
#[derive(Debug)]
pub(super) struct ContentionData {
    /// The profile's choice.
    pub(super) model: ContentionModelName,
    shape: Shape,
    curves: Vec<Option<PccsCurve>>,
    pairs: Vec<PairGrid>,
}

impl ContentionData {
    /// How completely a stage's compute and memory time overlap, whichever model runs.
    pub(super) fn overlap_exponent(&self) -> f64 {
        self.shape.overlap_exponent
    }
}

/// Checks the profile's contention tables.
pub(super) fn lower(file: &File<SocFile>, faults: &mut Vec<Diagnostic>) -> ContentionData {
    let raw = &file.raw.contention;
    let engines: Vec<&str> = file.raw.engines.keys().map(String::as_str).collect();
    let place = file.root().key("contention");
    if let Some(overlap) = &raw.overlap_exponent
        && overlap.value < 1.0
    {
        faults.push(place.key("overlap_exponent").fault(
            format!("`contention.overlap_exponent` is {}", overlap.value),
            "must be at least 1, which is no overlap",
        ));
    }
    if let Some(burst) = &raw.burst_exponent
        && burst.value > 1.0
    {
        faults.push(place.key("burst_exponent").fault(
            format!("`contention.burst_exponent` is {}", burst.value),
            "must be at most 1, which is no burst",
        ));
    }
    if let Some(occupancy) = &raw.occupancy_exponent
        && occupancy.value > 1.0
    {
        faults.push(place.key("occupancy_exponent").fault(
            format!("`contention.occupancy_exponent` is {}", occupancy.value),
            "must be at most 1, which is first come, first served",
        ));
    }
    let pccs_place = place.key("pccs");
    for (name, curve) in &raw.pccs {
        let curve_place = pccs_place.key(name);
        if !engines.contains(&name.as_str()) {
            faults.push(unknown_engine(&curve_place, name, &engines));
        }
        if curve.intensive_from_gbps.value < curve.normal_from_gbps.value {
            faults.push(curve_place.key("intensive_from_gbps").fault(
                format!("the intensive region of `{name}` starts before the normal one"),
                format!("must be at least {} GB/s", curve.normal_from_gbps.value),
            ));
        }
        if curve.minor_loss.value > 1.0 {
            faults.push(curve_place.key("minor_loss").fault(
                format!("`{name}` loses more than all its speed"),
                "must be at most 1",
            ));
        }
    }
    let pairs_place = place.key("pairs");
    let mut seen = Vec::new();
    let mut pairs = Vec::new();
    for (index, pair) in raw.pairs.iter().enumerate() {
        let pair_place = pairs_place.index(index);
        pairs.extend(lower_pair(&pair_place, pair, &engines, faults));
        let key = (&pair.victim, &pair.aggressor);
        if seen.contains(&key) {
            faults.push(pair_place.key("aggressor").fault(
                format!("two grids of `{}` beside `{}`", pair.victim, pair.aggressor),
                "second grid of the pair",
            ));
        }
        seen.push(key);
    }
    pairs.sort_by_key(|pair: &PairGrid| (pair.victim, pair.aggressor));
    let data = ContentionData {
        model: raw.model,
        shape: shape(raw),
        curves: engines
            .iter()
            .map(|name| raw.pccs.get(*name).map(curve))
            .collect(),
        pairs,
    };
    let model_place = place.key("model");
    faults.extend(lacking(&model_place, raw.model, &file.raw, file.name()));
    data
}

/// A fault for each table that `model` needs and the profile lacks.
pub(super) fn lacking(
    place: &Place<'_>,
    model: ContentionModelName,
    soc: &SocFile,
    file: &str,
) -> Vec<Diagnostic> {
    let mut lacking = Vec::new();
    let engines = || soc.engines.keys();
    match model {
        ContentionModelName::None | ContentionModelName::WaterFilling => {}
        ContentionModelName::Pccs => {
            for engine in engines().filter(|name| !soc.contention.pccs.contains_key(*name)) {
                lacking.push((
                    format!("contention model `pccs` has no curve of engine `{engine}`"),
                    format!("[contention.pccs.{engine}]"),
                ));
            }
        }
        ContentionModelName::Pairwise => {
            for victim in engines() {
                for aggressor in engines().filter(|aggressor| *aggressor != victim) {
                    let mut pairs = soc.contention.pairs.iter();
                    if pairs.any(|p| p.victim == *victim && p.aggressor == *aggressor) {
                        continue;
                    }
                    lacking.push((
                        format!(
                            "contention model `pairwise` has no grid of `{victim}` beside `{aggressor}`"
                        ),
                        "[[contention.pairs]]".to_owned(),
                    ));
                }
            }
        }
    }
    lacking
        .into_iter()
        .map(|(message, table)| {
            place
                .fault(message, format!("`{file}` lacks its `{table}`"))
                .help(format!(
                    "add `{table}` to `{file}`, or choose `water_filling` or `none`"
                ))
        })
        .collect()
}

fn unknown_engine(place: &Place<'_>, name: &str, engines: &[&str]) -> Diagnostic {
    place
        .fault(format!("unknown engine `{name}`"), "no such engine")
        .help(suggest::hint(name, "engines", engines.iter().copied()))
}

fn lower_pair(
    place: &Place<'_>,
    pair: &Pair,
    engines: &[&str],
    faults: &mut Vec<Diagnostic>,
) -> Option<PairGrid> {
    let before = faults.len();
    let mut find = |key: &str, name: &String| {
        let found = engines.iter().position(|engine| engine == name);
        if found.is_none() {
            faults.push(unknown_engine(&place.key(key), name, engines));
        }
        found.map(|at| EngineId(at as u8))
    };
    let victim = find("victim", &pair.victim);
    let aggressor = find("aggressor", &pair.aggressor);
    for (key, axis) in [
        ("victim_mu", &pair.victim_mu),
        ("aggressor_mu", &pair.aggressor_mu),
    ] {
        let axis_place = place.key(key);
        if axis.len() < 2 {
            faults.push(axis_place.fault(
                format!("`{key}` has {}", suggest::counted(axis.len(), "value")),
                "needs at least two, to interpolate between",
            ));
        }
        for (index, mu) in axis.iter().enumerate() {
            let at = axis_place.index(index);
            if !(0.0..=1.0).contains(mu) {
                faults.push(at.fault(
                    format!("memory intensity {mu} of `{key}`"),
                    "must be within 0 and 1",
                ));
            } else if index > 0 && *mu <= axis[index - 1] {
                faults.push(at.fault(
                    format!("`{key}` does not rise"),
                    format!("must be greater than {}", axis[index - 1]),
                ));
            }
        }
    }
    let slowdown_place = place.key("slowdown");
    if pair.slowdown.len() != pair.victim_mu.len() {
        faults.push(slowdown_place.fault(
            format!(
                "`slowdown` has {}",
                suggest::counted(pair.slowdown.len(), "row")
            ),
            format!(
                "one for each of the {} of `victim_mu`",
                pair.victim_mu.len()
            ),
        ));
    }
    for (index, row) in pair.slowdown.iter().enumerate() {
        let row_place = slowdown_place.index(index);
        if row.len() != pair.aggressor_mu.len() {
            faults.push(row_place.fault(
                format!(
                    "row {} of `slowdown` has {}",
                    index + 1,
                    suggest::counted(row.len(), "column")
                ),
                format!(
                    "one for each of the {} of `aggressor_mu`",
                    pair.aggressor_mu.len()
                ),
            ));
        }
    }
    if faults.len() > before {
        return None;
    }
    Some(PairGrid {
        victim: victim?,
        aggressor: aggressor?,
        victim_mu: pair.victim_mu.clone(),
        aggressor_mu: pair.aggressor_mu.clone(),
        slowdown: pair.slowdown.iter().flatten().map(|q| q.value).collect(),
    })
}

/// Builds the contention model `model` of a SoC whose memory gives `bandwidth`, of which other software
/// draws `background`, both in bytes/s. A model that refuses what passed the checks is a fault of
/// `place`.
pub(super) fn build(
    place: &Place<'_>,
    model: ContentionModelName,
    soc: &Soc,
    bandwidth: f64,
    background: f64,
) -> Result<Box<dyn ContentionModel>, Diagnostic> {
    let ports = Ports {
        port: soc.engines.iter().map(|e| e.port_bytes_per_s).collect(),
        weight: soc.engines.iter().map(|e| e.weight).collect(),
        bandwidth,
        background,
    };
    let data = &soc.contention;
    let pairs = data.pairs.clone();
    let built: Result<Box<dyn ContentionModel>, ModelError> = match model {
        ContentionModelName::None => Ok(Box::new(NoContention)),
        ContentionModelName::WaterFilling => {
            WaterFilling::with_shape(ports, data.shape, pairs).map(|m| Box::new(m) as _)
        }
        ContentionModelName::Pccs => {
            Pccs::new(ports, data.curves.clone()).map(|m| Box::new(m) as _)
        }
        ContentionModelName::Pairwise => {
            Pairwise::new(soc.engines.len(), pairs).map(|m| Box::new(m) as _)
        }
    };
    built.map_err(|error| {
        place.fault(
            format!("the contention model cannot be built: {error}"),
            "chosen here",
        )
    })
}

fn stated(raw: Option<&Quantity>, default: f64) -> f64 {
    raw.map_or(default, |quantity| quantity.value)
}

/// What the profile does not state is the model's default.
fn shape(raw: &Contention) -> Shape {
    let default = Shape::default();
    Shape {
        overlap_exponent: stated(raw.overlap_exponent.as_ref(), default.overlap_exponent),
        burst_exponent: stated(raw.burst_exponent.as_ref(), default.burst_exponent),
        occupancy_exponent: stated(raw.occupancy_exponent.as_ref(), default.occupancy_exponent),
        latency_loss: stated(raw.latency_loss.as_ref(), default.latency_loss),
    }
}

fn curve(raw: &RawPccs) -> PccsCurve {
    PccsCurve {
        normal_from: raw.normal_from_gbps.value,
        intensive_from: raw.intensive_from_gbps.value,
        minor_loss: raw.minor_loss.value,
        balance: raw.balance_gbps.value,
        onset: raw.onset_gbps.value,
        normal_rate: raw.normal_rate.value,
        intensive_rate: raw.intensive_rate.value,
    }
}
