//! A cost file taken apart: tables by engine and thing, each number with the origin that it has.

use std::collections::{BTreeMap, BTreeSet};

use sim::spec::costs::CostsFile;
use toml_edit::{DocumentMut, InlineTable, Item, TableLike, Value};

use crate::import::{Identity, costs, stated};

/// Key under which a value that is no table stands.
const ALONE: &str = "value";
const ORIGIN: &str = "origin";

/// A cost file.
#[derive(Clone, Debug)]
pub(super) struct File {
    /// Its name, for messages.
    pub(super) name: String,
    /// Key of its SoC and of its model.
    pub(super) soc: String,
    pub(super) model: String,
    /// What it says that it was measured on, by engine.
    pub(super) identities: Vec<(String, Identity)>,
    /// The lines that say so.
    pub(super) lines: Vec<String>,
    pub(super) engines: BTreeMap<String, Engine>,
    pub(super) origins: BTreeMap<String, InlineTable>,
}

/// An engine's tables.
#[derive(Clone, Debug, Default)]
pub(super) struct Engine {
    pub(super) stages: BTreeMap<String, InlineTable>,
    /// Keys of the engine itself.
    pub(super) others: BTreeMap<String, InlineTable>,
    /// Reasons, each alone in its table.
    pub(super) unsupported: BTreeMap<String, InlineTable>,
}

impl File {
    /// Takes a cost file apart.
    ///
    /// # Errors
    ///
    /// Why it is none, with its place, or none of a measurement.
    pub(super) fn read(name: &str, text: &str) -> Result<Self, String> {
        let fault = |what: String| format!("`{name}`: {what}");
        let spec: CostsFile = toml::from_str(text).map_err(|error| {
            fault(format!(
                "no cost file as `crossinfer import` writes it: {error}"
            ))
        })?;
        let document: DocumentMut = text.parse().map_err(|error| fault(format!("{error}")))?;
        if !name.is_empty() && text.contains("# First runs only") {
            return Err(fault(
                "first runs only, before anything was cached: give the file beside it, without `-cold`"
                    .to_owned(),
            ));
        }
        let mut origins = BTreeMap::new();
        for (key, item) in tables(document.get("origins")) {
            let table = inline(item);
            let note = table.get("note").and_then(Value::as_str).unwrap_or("");
            if !name.is_empty() && note.starts_with("Roofline of ") {
                return Err(fault(format!(
                    "origin `{key}` is a roofline, so not all in it was measured: give the files that `crossinfer import` wrote"
                )));
            }
            origins.insert(key.to_owned(), table);
        }
        let all = document.get("origin");
        let mut engines = BTreeMap::new();
        for (key, item) in tables(document.get("engines")) {
            let mut engine = Engine::default();
            let nearest = item.get("origin").or(all);
            for (stage, item) in tables(item.get("stages")) {
                let mut table = inline(item);
                if let (None, Some(origin)) = (table.get("origin"), nearest) {
                    table.insert("origin", origin.as_str().unwrap_or("").into());
                }
                if !name.is_empty() {
                    seconds(&table)
                        .map_err(|what| fault(format!("engine `{key}`, {stage}: {what}")))?;
                }
                engine.stages.insert(stage.to_owned(), table);
            }
            for (stage, item) in tables(item.get("unsupported")) {
                engine
                    .unsupported
                    .insert(stage.to_owned(), alone(ALONE, item));
            }
            let own = |key: &str| !["stages", "unsupported", "origin"].contains(&key);
            for (key, item) in tables(Some(item)).filter(|(key, _)| own(key)) {
                engine.others.insert(key.to_owned(), alone(ALONE, item));
            }
            if !engine.others.is_empty()
                && let Some(origin) = nearest
            {
                engine
                    .others
                    .insert(ORIGIN.to_owned(), alone(ORIGIN, origin));
            }
            engines.insert(key.to_owned(), engine);
        }
        let read = stated::read(text);
        Ok(Self {
            name: name.to_owned(),
            soc: spec.soc,
            model: spec.model,
            lines: read.iter().map(|(line, _)| (*line).to_owned()).collect(),
            identities: read
                .into_iter()
                .map(|(_, identity)| (costs::engine_of(&identity), identity))
                .collect(),
            engines,
            origins,
        })
    }
}

/// Most seconds, GB/s or bytes that a measurement has: what is beyond is none.
const MOST: f64 = 1e15;
/// Least seconds that a stage or a token of it takes.
const LEAST_S: f64 = 1e-9;

/// Whether a measured stage has numbers that a measurement can have, and takes any time.
fn seconds(table: &InlineTable) -> Result<(), String> {
    let mut takes = 0.0_f64;
    for (key, value) in table {
        for number in numbers(value) {
            if !(0.0..=MOST).contains(&number) {
                return Err(format!("`{key}` is {number}, which nothing measured is"));
            }
            let copies = key == "gbps";
            if copies && number <= LEAST_S {
                return Err(format!("`{key}` is {number}: a copy moves bytes"));
            }
            if copies || key.ends_with("_s") || key == "table" {
                takes = takes.max(number);
            }
        }
    }
    if takes < LEAST_S {
        return Err(format!(
            "it takes {takes} s, and what was measured takes time"
        ));
    }
    Ok(())
}

/// All numbers of a value: alone, with an interval, or listed.
fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Integer(whole) => vec![*whole.value() as f64],
        Value::Float(number) => vec![*number.value()],
        Value::Array(list) => list.iter().flat_map(numbers).collect(),
        Value::InlineTable(table) => table.iter().flat_map(|(_, value)| numbers(value)).collect(),
        _ => Vec::new(),
    }
}

fn tables(item: Option<&Item>) -> impl Iterator<Item = (&str, &Item)> {
    item.and_then(Item::as_table_like)
        .into_iter()
        .flat_map(TableLike::iter)
}

/// A table on one line, without what surrounded it.
fn inline(item: &Item) -> InlineTable {
    match item.clone().into_value() {
        Ok(Value::InlineTable(table)) => undecorated(table),
        _ => InlineTable::new(),
    }
}

fn undecorated(table: InlineTable) -> InlineTable {
    let mut plain = InlineTable::new();
    for (key, value) in table {
        let mut value = match value {
            Value::InlineTable(inner) => Value::InlineTable(undecorated(inner)),
            other => other,
        };
        value.decor_mut().clear();
        plain.insert(key, value);
    }
    plain
}

/// A value as the only one of a table, under a key.
fn alone(key: &str, item: &Item) -> InlineTable {
    let mut table = InlineTable::new();
    if let Ok(mut value) = item.clone().into_value() {
        if let Value::InlineTable(inner) = value {
            value = Value::InlineTable(undecorated(inner));
        }
        value.decor_mut().clear();
        table.insert(key, value);
    }
    table
}

/// A value as it stands in a file.
pub(super) fn shown(value: &Value) -> String {
    value.to_string().trim().to_owned()
}

/// The texts of a table.
pub(super) fn texts(table: &InlineTable) -> Vec<&str> {
    table
        .iter()
        .filter_map(|(_, value)| value.as_str())
        .collect()
}

/// Gives the origins that a table names the names that they have elsewhere.
pub(super) fn rename(table: &mut InlineTable, renamed: &BTreeMap<String, String>) {
    for (key, value) in table.iter_mut() {
        match value {
            Value::InlineTable(inner) => rename(inner, renamed),
            Value::String(name) if key.get() == ORIGIN => {
                if let Some(new) = renamed.get(name.value()) {
                    *value = new.as_str().into();
                }
            }
            _ => {}
        }
    }
}

/// The origins that a value names.
pub(super) fn uses(value: &Value, used: &mut BTreeSet<String>) {
    let Some(table) = value.as_inline_table() else {
        return;
    };
    for (key, value) in table {
        match value.as_str() {
            Some(name) if key == ORIGIN => {
                used.insert(name.to_owned());
            }
            _ => uses(value, used),
        }
    }
}

/// What a table states, without origins.
pub(super) fn plain(table: &InlineTable) -> BTreeMap<String, String> {
    let values = table.iter().filter(|(key, _)| *key != ORIGIN);
    values
        .map(|(key, value)| {
            let number = value.as_inline_table().and_then(|table| table.get(ALONE));
            (key.to_owned(), shown(number.unwrap_or(value)))
        })
        .collect()
}
