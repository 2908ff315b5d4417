//! More or less of a resource: the SoC's profile with other numbers.

use std::fmt;

use sim::world::World;
use toml_edit::{DocumentMut, InlineTable, Item, Table, TableLike, value};

/// A resource of a SoC.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// The memory's bandwidth; more than it has, with every engine's port.
    Bandwidth,
    /// The arithmetic of one engine, or of all.
    Compute(Option<String>),
    /// The memory's capacity.
    Memory,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bandwidth => f.write_str("bandwidth"),
            Self::Compute(None) => f.write_str("compute"),
            Self::Compute(Some(engine)) => write!(f, "compute of {engine}"),
            Self::Memory => f.write_str("memory"),
        }
    }
}

/// The text of a SoC's profile with `times` of a resource: what a person would write for such a chip, so that the
/// simulator itself says what becomes of every stage's time.
///
/// Less bandwidth is less of the memory's alone, of which an engine's port takes what there is. More of it is more of
/// every port too, which then differs from that behind which times were taken (`measured_port_gbps`). Compute is
/// `compute_ratio`. `world` is that of the profile as it is.
///
/// # Errors
///
/// A text that is no SoC profile.
pub(super) fn soc(
    text: &str,
    world: &World,
    resource: &Resource,
    times: f64,
) -> Result<String, String> {
    let mut soc: DocumentMut = text.parse().map_err(|error| format!("{error}"))?;
    let missing = |key: &str| format!("the SoC profile has no `{key}`");
    let memory = soc
        .get_mut("memory")
        .and_then(Item::as_table_like_mut)
        .ok_or_else(|| missing("memory"))?;
    match resource {
        Resource::Memory => set(memory, "capacity_bytes", |bytes| (bytes * times).round())
            .ok_or_else(|| missing("memory.capacity_bytes"))?,
        Resource::Bandwidth => {
            set(memory, "bandwidth_gbps", |gbps| gbps * times)
                .ok_or_else(|| missing("memory.bandwidth_gbps"))?;
            if times > 1.0 {
                // A profile may state no peak.
                _ = set(memory, "peak_gbps", |gbps| gbps * times);
            }
        }
        Resource::Compute(_) => {}
    }
    let engines = soc
        .get_mut("engines")
        .and_then(Item::as_table_like_mut)
        .ok_or_else(|| missing("engines"))?;
    let mut asked = false;
    for engine in &world.engines {
        let table = engines
            .get_mut(&engine.name)
            .and_then(Item::as_table_like_mut)
            .ok_or_else(|| missing(&format!("engines.{}", engine.name)))?;
        match resource {
            Resource::Compute(only) if only.as_ref().is_none_or(|only| *only == engine.name) => {
                asked = true;
                table.insert("compute_ratio", what_if(engine.compute_ratio * times));
            }
            Resource::Bandwidth if times > 1.0 => {
                set(table, "port_gbps", |gbps| gbps * times).ok_or_else(|| missing("port_gbps"))?;
                let measured = engine.measured_port_bytes_per_s / 1e9;
                asked = true;
                table.insert("measured_port_gbps", what_if(measured));
            }
            _ => {}
        }
    }
    if asked {
        let mut origin = Table::new();
        origin.insert("kind", value("assumed"));
        origin.insert("note", value("another chip, as a plan asks for"));
        let origins = soc
            .entry("origins")
            .or_insert_with(|| Item::Table(Table::new()));
        let origins = origins.as_table_like_mut();
        origins
            .ok_or_else(|| missing("origins"))?
            .insert(WHAT_IF, Item::Table(origin));
    }
    Ok(soc.to_string())
}

/// Key of the origin of what no profile states.
const WHAT_IF: &str = "planned";

/// A number that is neither measured nor derived.
fn what_if(number: f64) -> Item {
    let mut table = InlineTable::new();
    table.insert("value", number.into());
    table.insert("origin", WHAT_IF.into());
    value(table)
}

/// Changes a number, which may stand with its origin and its interval; the interval was that of the number as it was.
/// `None` where there is none.
fn set(table: &mut dyn TableLike, key: &str, to: impl Fn(f64) -> f64) -> Option<()> {
    let item = table.get_mut(key)?;
    let number = |item: &Item| {
        item.as_float()
            .or_else(|| item.as_integer().map(|whole| whole as f64))
    };
    if let Some(inner) = item.as_table_like_mut() {
        let now = number(inner.get("value")?)?;
        inner.insert("value", value(to(now)));
        inner.remove("low");
        inner.remove("high");
    } else {
        *item = value(to(number(item)?));
    }
    Some(())
}
