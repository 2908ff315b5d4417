//! What a longer context adds to a stage that was measured at one context alone: as derived.

use std::collections::BTreeMap;

use toml_edit::{InlineTable, Value};

use super::Taken;
use super::file::rename;

const GROWTH: &str = "per_token_context_s";

fn number(value: &Value) -> Option<f64> {
    let whole = value.as_integer().map(|whole| whole as f64);
    value.as_float().or(whole)
}

/// The number of a key, alone or in a table.
fn of(table: &InlineTable, key: &str) -> Option<f64> {
    let value = table.get(key)?;
    let inner = value.as_inline_table().and_then(|inner| inner.get("value"));
    number(inner.unwrap_or(value))
}

fn range(table: &InlineTable, key: &str) -> Option<(f64, f64)> {
    let list = table.get(key)?.as_array()?;
    Some((number(list.get(0)?)?, number(list.get(1)?)?))
}

/// The mean context of a measured token, where the stage was measured at one context alone and so states no growth.
/// What a stage is measured at several of, or in a table by size, tells its growth, even if that is none.
fn alone(stage: &str, table: &InlineTable) -> Option<f64> {
    let (least, most) = range(table, "measured_context")?;
    let (from, to) = range(table, "measured_tokens")?;
    let told = if stage == "decode" {
        most - least > to
    } else {
        most > least || to > from
    };
    let stated = [GROWTH, "per_context_s", "table"];
    let lacks = stated.iter().all(|key| !table.contains_key(key));
    (lacks && !told).then_some(least + (to - 1.0) / 2.0)
}

/// Adds the derived growth with the context to stages whose rows tell none; says of which, and how much more than was
/// measured the rows themselves come to by it.
pub(super) fn add(
    measured: &mut Taken,
    derived: &BTreeMap<String, InlineTable>,
    renamed: &BTreeMap<String, String>,
) -> Option<String> {
    let mut said = Vec::new();
    for (stage, (_, table)) in measured {
        let Some((context, base)) = alone(stage, table).zip(derived.get(stage)) else {
            continue;
        };
        let (Some(slope), Some(each)) = (of(base, GROWTH), of(table, "per_token_s")) else {
            continue;
        };
        let Some(Value::InlineTable(quantity)) = base.get(GROWTH) else {
            continue;
        };
        let mut quantity = quantity.clone();
        if let (None, Some(origin)) = (quantity.get("origin"), base.get("origin")) {
            quantity.insert("origin", origin.clone());
        }
        rename(&mut quantity, renamed);
        table.insert(GROWTH, Value::InlineTable(quantity));
        said.push(format!("{stage} ({:.1} %)", 100.0 * slope * context / each));
    }
    (!said.is_empty()).then(|| {
        format!(
            "no row is at another context, so what a longer one adds is derived, of which the measured times hold a little already (in brackets): {}",
            said.join(", ")
        )
    })
}
