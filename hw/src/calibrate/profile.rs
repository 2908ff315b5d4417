//! Measurements to a profile: costs of a model on a SoC, and the SoC's ports and pair slowdowns.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sim::spec::model::StageKind;
use sim::world::{EngineId, StageId, World};
use toml_edit::{ArrayOfTables, DocumentMut, InlineTable, Item, Table, Value, value};

use super::fit::{Fit, Mean, Terms, fit};
use super::measure::{Measured, Point, Series};

/// What the notes of a profile say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// Date, as people write it.
    pub date: String,
    /// Machine.
    pub host: String,
    /// Versions of what computed.
    pub versions: String,
}

/// How well a stage's form fits, for people.
#[derive(Clone, Debug, PartialEq)]
pub struct Quality {
    /// Engine, by name.
    pub engine: String,
    /// Kind of stage.
    pub kind: StageKind,
    /// The fit.
    pub fit: Fit,
    /// Samples.
    pub samples: usize,
    /// Spread of the samples of one point: coefficient of variation.
    pub cv: f64,
}

/// A slowdown of one engine by another.
#[derive(Clone, Debug, PartialEq)]
pub struct Slowdown {
    /// Engine that is watched.
    pub victim: String,
    /// What it does.
    pub does: StageKind,
    /// Engine beside it.
    pub aggressor: String,
    /// What that does.
    pub beside: StageKind,
    /// Time beside ÷ time alone, as measured; noise may make it less than 1.
    pub factor: f64,
}

/// A calibrated profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The cost file.
    pub costs: String,
    /// The SoC's file, with what was measured put in.
    pub soc: String,
    /// How well each form fits.
    pub quality: Vec<Quality>,
    /// Slowdowns by pair.
    pub slowdowns: Vec<Slowdown>,
}

/// Why there is no profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The SoC's file is not one.
    #[error("the SoC's profile cannot be changed: {0}")]
    Soc(String),
    /// Nothing was measured of a stage that the profile must have.
    #[error("no sample of `{stage}` on engine `{engine}`: its cost cannot be given")]
    NoSample {
        /// Engine, by name.
        engine: String,
        /// Stage, by name.
        stage: String,
    },
}

/// Fits what was measured. `soc` is the SoC's file as it is; its memory, lanes, weights and power stay.
pub fn profile(
    world: &World,
    measured: &Measured,
    soc: &str,
    provenance: &Provenance,
) -> Result<Profile, ProfileError> {
    let fits = fits(world, measured)?;
    let ports = ports(world, measured);
    let costs = costs_text(world, &fits, provenance);
    let slowdowns = slowdowns(measured);
    let soc = soc_text(world, soc, &fits, &ports, &slowdowns, measured, provenance)?;
    Ok(Profile {
        costs,
        soc,
        quality: fits,
        slowdowns,
    })
}

/// Name of a kind, as in files.
pub fn kind_name(kind: StageKind) -> &'static str {
    match kind {
        StageKind::Encode => "encode",
        StageKind::Project => "project",
        StageKind::Ingest => "ingest",
        StageKind::QueryPrefill => "query_prefill",
        StageKind::Decode => "decode",
        StageKind::Export => "export",
        StageKind::Import => "import",
        StageKind::Reconstruct => "reconstruct",
        StageKind::Custom => "custom",
    }
}

const KINDS: [StageKind; 7] = [
    StageKind::Encode,
    StageKind::Project,
    StageKind::Ingest,
    StageKind::QueryPrefill,
    StageKind::Decode,
    StageKind::Export,
    StageKind::Import,
];

fn fits(world: &World, measured: &Measured) -> Result<Vec<Quality>, ProfileError> {
    let mut all = Vec::new();
    for (index, engine) in world.engines.iter().enumerate() {
        for kind in KINDS {
            let stage = world.stages.iter().position(|stage| stage.kind == kind);
            let Some(stage) = stage else { continue };
            let id = EngineId(index as u8);
            if world.costs.get(id, StageId(stage as u8)).is_none() {
                continue;
            }
            let series: Vec<(Mean, &Series)> = measured
                .series
                .iter()
                .filter_map(|(point, series)| match point {
                    Point::Stage {
                        engine: on,
                        kind: of,
                        size,
                        context,
                    } if *on == engine.name && *of == kind => {
                        let mean = Mean {
                            size: *size as f64,
                            context: f64::from(*context),
                            secs: series.median()?,
                        };
                        Some((mean, series))
                    }
                    _ => None,
                })
                .collect();
            let means: Vec<Mean> = series.iter().map(|(mean, _)| *mean).collect();
            let terms = match kind {
                StageKind::Encode => Terms::FIXED,
                StageKind::Export | StageKind::Import | StageKind::Project => Terms::NO_CONTEXT,
                _ => Terms::LANGUAGE,
            };
            let missing = || ProfileError::NoSample {
                engine: engine.name.clone(),
                stage: world.stages[stage].name.clone(),
            };
            all.push(Quality {
                engine: engine.name.clone(),
                kind,
                fit: fit(&means, terms).ok_or_else(missing)?,
                samples: series.iter().map(|(_, series)| series.wall.len()).sum(),
                cv: spread(series.iter().map(|(_, series)| *series)),
            });
        }
    }
    Ok(all)
}

/// Pooled coefficient of variation of samples about their points' means.
fn spread<'s>(series: impl Iterator<Item = &'s Series>) -> f64 {
    let (mut square, mut freedom) = (0.0, 0.0);
    for series in series {
        if let Some((mean, deviation)) = series.moments()
            && mean > 0.0
        {
            let degrees = (series.wall.len() - 1) as f64;
            square += degrees * (deviation / mean).powi(2);
            freedom += degrees;
        }
    }
    if freedom > 0.0 {
        (square / freedom).sqrt()
    } else {
        0.0
    }
}

/// The greatest reading rate of an engine's lanes alone, GB/s, by engine.
fn ports(world: &World, measured: &Measured) -> Vec<Option<f64>> {
    let rate = |lane: &str| {
        let point = Point::Stream {
            lane: lane.to_owned(),
            together: false,
        };
        measured.series.get(&point).and_then(Series::median)
    };
    (0..world.engines.len())
        .map(|engine| {
            let lanes = world.lanes.iter();
            lanes
                .filter(|lane| usize::from(lane.engine.0) == engine)
                .filter_map(|lane| rate(&lane.name))
                .max_by(f64::total_cmp)
        })
        .collect()
}

fn slowdowns(measured: &Measured) -> Vec<Slowdown> {
    let beside = measured.series.iter().filter_map(|(point, series)| {
        let Point::Pair {
            victim,
            does,
            aggressor,
            beside,
            busy: true,
        } = point
        else {
            return None;
        };
        let alone = Point::Pair {
            victim: victim.clone(),
            does: *does,
            aggressor: aggressor.clone(),
            beside: *beside,
            busy: false,
        };
        let alone = measured.series.get(&alone)?.median()?;
        Some(Slowdown {
            victim: victim.clone(),
            does: *does,
            aggressor: aggressor.clone(),
            beside: *beside,
            factor: series.median()? / alone,
        })
    });
    beside.collect()
}

/// Greatest of some errors, as a percentage.
fn worst(errors: &[f64]) -> f64 {
    100.0 * errors.iter().map(|error| error.abs()).fold(0.0, f64::max)
}

fn costs_text(world: &World, fits: &[Quality], provenance: &Provenance) -> String {
    let mut text = String::new();
    let mut origins = String::new();
    _ = write!(
        text,
        "# Written by `crossinfer calibrate`.\nsoc = {}\nmodel = {}\n",
        quoted(&world.soc_key),
        quoted(&world.model_key)
    );
    for (index, engine) in world.engines.iter().enumerate() {
        let id = EngineId(index as u8);
        for quality in fits.iter().filter(|fit| fit.engine == engine.name) {
            let key = format!("{}_{}", engine.name, kind_name(quality.kind));
            stage_text(&mut text, world, id, quality, &key);
            _ = write!(
                origins,
                "\n[origins.{}]\nkind = \"measured\"\nnote = {}\n",
                quoted(&key),
                quoted(&note(quality, provenance))
            );
        }
        let mut unsupported = String::new();
        for (stage, of) in world.stages.iter().enumerate() {
            let runs = world.costs.get(id, StageId(stage as u8)).is_some();
            if !runs && of.kind != StageKind::Custom {
                _ = writeln!(
                    unsupported,
                    "{} = \"the profile that was calibrated has no cost of it here\"",
                    quoted(&of.name)
                );
            }
        }
        if !unsupported.is_empty() {
            _ = write!(
                text,
                "\n[engines.{}.unsupported]\n{unsupported}",
                quoted(&engine.name)
            );
        }
    }
    if text.contains("origin = \"carried\"") {
        text += "\n[origins.carried]\nkind = \"derived\"\nnote = \"DRAM bytes are as in the profile that was calibrated\"\n";
    }
    text + &origins
}

fn stage_text(text: &mut String, world: &World, id: EngineId, quality: &Quality, key: &str) {
    let engine = &world.engines[id.0 as usize].name;
    let form = quality.fit.form;
    _ = write!(
        text,
        "\n[engines.{}.stages.{}]\norigin = {}\n",
        quoted(engine),
        kind_name(quality.kind),
        quoted(key)
    );
    let mut number = |key: &str, value: f64| {
        if value > 0.0 {
            _ = writeln!(text, "{key} = {value:e}");
        }
    };
    let transfer = matches!(quality.kind, StageKind::Export | StageKind::Import);
    number("fixed_s", form.fixed);
    if transfer {
        if form.per_token > 0.0 {
            number("gbps", 1e-9 / form.per_token);
        }
    } else {
        number("per_token_s", form.per_token);
        number("per_token_context_s", form.per_token_context);
    }
    number("cv", quality.cv);
    let stage = world
        .stages
        .iter()
        .position(|stage| stage.kind == quality.kind);
    let costs = stage.and_then(|stage| world.costs.get(id, StageId(stage as u8)));
    if let Some(costs) = costs {
        let bytes = [
            ("bytes", costs.alone.bytes_fixed),
            ("bytes_per_token", costs.alone.bytes_per_token),
            (
                "bytes_per_token_context",
                costs.alone.bytes_per_token_context,
            ),
        ];
        for (key, value) in bytes.into_iter().filter(|(_, value)| *value > 0.0) {
            _ = writeln!(
                text,
                "{key} = {{ value = {value:e}, origin = \"carried\" }}"
            );
        }
    }
    if !transfer && quality.kind != StageKind::Encode {
        let range = |values: &[f64]| {
            let low = values.iter().copied().fold(f64::INFINITY, f64::min);
            let high = values.iter().copied().fold(0.0, f64::max);
            format!("[{low}, {high}]")
        };
        _ = writeln!(text, "measured_tokens = {}", range(&quality.fit.sizes));
        if quality.kind != StageKind::Project {
            _ = writeln!(text, "measured_context = {}", range(&quality.fit.contexts));
        }
    }
}

fn note(quality: &Quality, provenance: &Provenance) -> String {
    let Provenance {
        date,
        host,
        versions,
    } = provenance;
    let left_out = if quality.fit.left_out.is_empty() {
        "too few points to leave one out".to_owned()
    } else {
        format!("left out {:.1} %", worst(&quality.fit.left_out))
    };
    format!(
        "{date}, {host}, {versions}: {} samples of {} points, medians; worst error of the form {:.1} %, {left_out}",
        quality.samples,
        quality.fit.points,
        worst(&quality.fit.residuals)
    )
}

/// A TOML string.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn sourced(number: f64, origin: &str) -> Item {
    let mut table = InlineTable::new();
    table.insert("value", number.into());
    table.insert("origin", origin.into());
    value(table)
}

fn soc_text(
    world: &World,
    soc: &str,
    fits: &[Quality],
    ports: &[Option<f64>],
    slowdowns: &[Slowdown],
    measured: &Measured,
    provenance: &Provenance,
) -> Result<String, ProfileError> {
    let mut document: DocumentMut = soc
        .parse()
        .map_err(|error: toml_edit::TomlError| ProfileError::Soc(error.to_string()))?;
    let Provenance {
        date,
        host,
        versions,
    } = provenance;
    let mut any_port = false;
    for (engine, port) in world.engines.iter().zip(ports) {
        let Some(port) = port else { continue };
        if let Some(Item::Table(table)) = document["engines"].get_mut(&engine.name) {
            table["port_gbps"] = sourced(*port, "calibrated_ports");
            any_port = true;
        }
    }
    let mut origin = |key: &str, note: String| {
        let mut table = Table::new();
        table["kind"] = value("measured");
        table["note"] = value(note);
        document["origins"][key] = Item::Table(table);
    };
    if any_port {
        let together: f64 = measured
            .series
            .iter()
            .filter(|(point, _)| matches!(point, Point::Stream { together: true, .. }))
            .filter_map(|(_, series)| series.median())
            .sum();
        let beside = if together > 0.0 {
            format!("; all lanes with cores of their own at once {together:.1} GB/s together")
        } else {
            String::new()
        };
        origin(
            "calibrated_ports",
            format!(
                "{date}, {host}: reading 256 MiB on the lane's cores, median of the best passes{beside}"
            ),
        );
    }
    let grids = grids(world, fits, ports, slowdowns);
    if !grids.is_empty() {
        origin(
            "calibrated_pairs",
            format!(
                "{date}, {host}, {versions}: a stage of one lane, alone and beside another that is kept busy, in turns; medians. What came out below 1 by noise is 1"
            ),
        );
        let mut array = ArrayOfTables::new();
        for grid in grids {
            array.push(grid);
        }
        if !document.contains_key("contention") {
            document["contention"] = Item::Table(Table::new());
        }
        document["contention"]["pairs"] = Item::ArrayOfTables(array);
    }
    drop_unused_origins(&mut document);
    Ok(document.to_string())
}

/// Memory intensity of a stage alone, at the middle of what was measured.
fn intensity(world: &World, quality: &Quality, port: f64) -> f64 {
    let engine = world
        .engines
        .iter()
        .position(|engine| engine.name == quality.engine);
    let stage = world
        .stages
        .iter()
        .position(|stage| stage.kind == quality.kind);
    let costs = engine.zip(stage).and_then(|(engine, stage)| {
        world
            .costs
            .get(EngineId(engine as u8), StageId(stage as u8))
    });
    let Some(costs) = costs else { return 0.0 };
    let middle = |values: &[f64]| {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
    };
    let (n, context) = (middle(&quality.fit.sizes), middle(&quality.fit.contexts));
    let secs = quality.fit.form.at(n, context);
    (costs.alone.at(n, context).bytes / (port * 1e9) / secs).clamp(0.0, 1.0)
}

/// Intensity of the victim, of the aggressor, and the slowdown.
type Knot = (f64, f64, f64);

/// A grid by ordered pair of engines, over the intensities of what was run.
fn grids(
    world: &World,
    fits: &[Quality],
    ports: &[Option<f64>],
    slowdowns: &[Slowdown],
) -> Vec<Table> {
    let mu = |name: &str, kind: StageKind| {
        let engine = world
            .engines
            .iter()
            .position(|engine| engine.name == name)?;
        let quality = fits
            .iter()
            .find(|quality| quality.engine == name && quality.kind == kind)?;
        let port = ports[engine].unwrap_or(world.engines[engine].port_bytes_per_s / 1e9);
        Some(intensity(world, quality, port))
    };
    let mut pairs: BTreeMap<(&str, &str), Vec<Knot>> = BTreeMap::new();
    for slowdown in slowdowns {
        let (victim, aggressor) = (slowdown.victim.as_str(), slowdown.aggressor.as_str());
        if let (Some(a), Some(b)) = (mu(victim, slowdown.does), mu(aggressor, slowdown.beside)) {
            let knots = pairs.entry((victim, aggressor)).or_default();
            knots.push((a, b, slowdown.factor));
        }
    }
    let mut tables = Vec::new();
    for ((victim, aggressor), knots) in pairs {
        let axis = |pick: fn(&Knot) -> f64| {
            let mut values: Vec<f64> = knots.iter().map(pick).collect();
            values.sort_by(f64::total_cmp);
            values.dedup();
            values
        };
        // A grid has two knots at least: what was measured at one intensity is said to hold 10 % around it.
        let around = |mut values: Vec<f64>| {
            if let [only] = values[..] {
                values = if only > 0.0 {
                    vec![0.9 * only, (1.1 * only).min(1.0)]
                } else {
                    vec![0.0, 0.1]
                };
            }
            values
        };
        let (rows, columns) = (axis(|knot| knot.0), axis(|knot| knot.1));
        // Stages of one intensity share a knot: the mean of what they came to.
        let at = |row: f64, column: f64| {
            let same = knots
                .iter()
                .filter(|knot| knot.0 == row && knot.1 == column);
            let (sum, count) =
                same.fold((0.0, 0.0), |(sum, count), knot| (sum + knot.2, count + 1.0));
            (count > 0.0).then(|| (sum / count).max(1.0))
        };
        let grid: Option<Vec<Vec<f64>>> = rows
            .iter()
            .map(|&row| columns.iter().map(|&column| at(row, column)).collect())
            .collect();
        let Some(grid) = grid else { continue };
        let mut table = Table::new();
        table["origin"] = value("calibrated_pairs");
        table["victim"] = value(victim);
        table["aggressor"] = value(aggressor);
        let (one_row, one_column) = (rows.len() == 1, columns.len() == 1);
        let mut grid = grid;
        if one_column {
            for row in &mut grid {
                row.push(row[0]);
            }
        }
        if one_row {
            grid.push(grid[0].clone());
        }
        let (rows, columns) = (around(rows), around(columns));
        table["victim_mu"] = value(rows.into_iter().collect::<Value>());
        table["aggressor_mu"] = value(columns.into_iter().collect::<Value>());
        let grid: Value = grid
            .into_iter()
            .map(|row| row.into_iter().collect::<Value>())
            .collect();
        table["slowdown"] = value(grid);
        tables.push(table);
    }
    tables
}

/// An origin that nothing uses any more would be a fault.
fn drop_unused_origins(document: &mut DocumentMut) {
    let Some(Item::Table(origins)) = document.get("origins") else {
        return;
    };
    let keys: Vec<String> = origins.iter().map(|(key, _)| key.to_owned()).collect();
    for key in keys {
        let used = document
            .iter()
            .filter(|(name, _)| *name != "origins")
            .any(|(_, item)| names_origin(item, &key))
            || document.get("origin").and_then(Item::as_str) == Some(key.as_str());
        if !used && let Some(Item::Table(origins)) = document.get_mut("origins") {
            origins.remove(&key);
        }
    }
}

fn names_origin(item: &Item, key: &str) -> bool {
    match item {
        Item::Table(table) => table.iter().any(|(name, item)| {
            name == "origin" && item.as_str() == Some(key) || names_origin(item, key)
        }),
        Item::ArrayOfTables(tables) => tables.iter().flat_map(Table::iter).any(|(name, item)| {
            name == "origin" && item.as_str() == Some(key) || names_origin(item, key)
        }),
        Item::Value(Value::InlineTable(table)) => {
            table.get("origin").and_then(Value::as_str) == Some(key)
        }
        _ => false,
    }
}
