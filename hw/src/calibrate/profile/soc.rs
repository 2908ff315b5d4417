//! The SoC's file with what was measured put in: ports, and slowdowns of pairs.

use std::collections::BTreeMap;

use sim::spec::model::StageKind;
use sim::world::{EngineId, StageId, World};
use toml_edit::{ArrayOfTables, DocumentMut, InlineTable, Item, Table, Value, value};

use super::{ProfileError, Provenance, Quality, Slowdown};
use crate::calibrate::point::{Measured, Point};

fn sourced(number: f64, origin: &str) -> Item {
    let mut table = InlineTable::new();
    table.insert("value", number.into());
    table.insert("origin", origin.into());
    value(table)
}

pub(super) fn soc_text(
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
        ..
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
                "{date}, {host}: reading memory on all of the lane's cores, median of the best passes{beside}"
            ),
        );
    }
    let grids = grids(world, fits, ports, slowdowns);
    if !grids.is_empty() {
        origin(
            "calibrated_pairs",
            format!(
                "{date}, {host}, {versions}: a stage of one lane, alone and beside another that is kept busy, in turns; medians, divided by what sharing pinned cores comes to, with the 95 % interval of turns. What came out below 1 by noise is 1"
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

/// A slowdown and its interval; each is at least 1.
#[derive(Clone, Copy, Debug)]
struct Cell {
    value: f64,
    low: f64,
    high: f64,
}

impl Cell {
    fn of(slowdown: &Slowdown) -> Self {
        let value = slowdown.factor / slowdown.cpu;
        let half = slowdown.half_width.unwrap_or(0.0) * value;
        Self {
            value,
            low: value - half,
            high: value + half,
        }
    }

    /// The mean of those that share a knot. What they differ from the truth by they may have in common.
    fn mean(cells: &[Self]) -> Option<Self> {
        let count = cells.len() as f64;
        let mean = |of: fn(&Self) -> f64| (cells.iter().map(of).sum::<f64>() / count).max(1.0);
        (!cells.is_empty()).then(|| Self {
            value: mean(|cell| cell.value),
            low: mean(|cell| cell.low),
            high: mean(|cell| cell.high),
        })
    }

    fn write(self) -> Value {
        if self.low == self.high {
            return self.value.into();
        }
        let mut table = InlineTable::new();
        table.insert("value", self.value.into());
        table.insert("low", self.low.into());
        table.insert("high", self.high.into());
        table.into()
    }
}

/// Intensity of the victim, of the aggressor, and the slowdown.
type Knot = (f64, f64, Cell);

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
            knots.push((a, b, Cell::of(slowdown)));
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
        // Stages of one intensity share a knot.
        let at = |row: f64, column: f64| {
            let same = knots
                .iter()
                .filter(|knot| knot.0 == row && knot.1 == column);
            Cell::mean(&same.map(|knot| knot.2).collect::<Vec<_>>())
        };
        let grid: Option<Vec<Vec<Cell>>> = rows
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
            .map(|row| row.into_iter().map(Cell::write).collect::<Value>())
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
