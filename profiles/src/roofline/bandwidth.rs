//! A measured bandwidth in a derived SoC profile: `crossinfer import bandwidth` writes the one, a datasheet the other.

use std::path::Path;

use toml_edit::{DocumentMut, InlineTable, Item, Table, TableLike, value};

use super::chip::Chip;

/// Whether a file is a SoC profile, and not one of costs.
pub fn is_soc(text: &str) -> bool {
    let table: Option<DocumentMut> = text.parse().ok();
    table.is_some_and(|table| table.contains_key("memory") && !table.contains_key("soc"))
}

/// A SoC profile of `chip`, with what of the bandwidth of its memory and its engines' ports was measured, and what is to
/// be known of that. `files` are measured SoC profiles by name and text; `chips` are all that are known.
///
/// A program that measures moves what it can: its rate is a lower bound. It takes the place of what is derived where it
/// is no less than the low end of that. One below has not filled the memory, and what is derived stands.
///
/// # Errors
///
/// What is wrong with a file, or of another board; a rate that the DRAM cannot have; two rates for one thing.
pub fn join(
    derived: &str,
    files: &[(String, String)],
    chip: &Chip,
    chips: &[Chip],
) -> Result<(String, Vec<String>), Vec<String>> {
    let mut soc: DocumentMut = derived.parse().map_err(|e| vec![format!("{e}")])?;
    let (mut remarks, mut faults) = (Vec::new(), Vec::new());
    let mut taken: Vec<(String, f64, String)> = Vec::new();
    for (name, text) in files {
        let mut own = |fault: String| faults.push(format!("`{name}`: {fault}"));
        let measured: DocumentMut = match text.parse() {
            Ok(read) => read,
            Err(error) => {
                own(format!("{error}"));
                continue;
            }
        };
        if let Some(fault) = another(&measured, name, chip, chips) {
            own(fault);
            continue;
        }
        for (thing, place) in things(&measured) {
            let Some(found) = quantity(&measured, &place) else {
                own(format!("`{thing}` is no rate in GB/s above 0"));
                continue;
            };
            let gbps = found.gbps;
            let Some((low, most)) = bounds(&soc, &place, chip) else {
                own(format!(
                    "`{thing}` is measured, and the datasheet of {} has no such engine: `crossinfer import … --engine NAME` names it, or a datasheet with it is given by `--chips`",
                    chip.key
                ));
                continue;
            };
            if gbps > most {
                own(format!(
                    "`{thing}` is {gbps} GB/s, and the DRAM's peak {most}: it was measured in a cache, or on another board"
                ));
                continue;
            }
            if let Some((_, other, there)) = taken.iter().find(|(known, ..)| *known == thing) {
                if (other - gbps).abs() > f64::EPSILON * gbps {
                    own(format!(
                        "`{thing}` is {gbps} GB/s, and {other} in {there}: leave out the file that you do not mean"
                    ));
                }
                continue;
            }
            taken.push((thing.clone(), gbps, format!("`{name}`")));
            if gbps < low {
                remarks.push(format!(
                    "`{thing}`: {gbps} GB/s of `{name}` is less than seven tenths of the peak, as programs of few cores are: what is derived stands"
                ));
                continue;
            }
            put(&mut soc, &measured, &place, &found, most);
            remarks.push(format!(
                "`{thing}`: {gbps} GB/s, measured (`{name}`), is a lower bound: programs may not have filled the memory"
            ));
        }
    }
    if faults.is_empty() {
        Ok((soc.to_string(), remarks))
    } else {
        Err(faults)
    }
}

/// Why a file is not of this chip: by its name, else by the folder that it lies in.
fn another(measured: &DocumentMut, file: &str, chip: &Chip, chips: &[Chip]) -> Option<String> {
    let name = measured
        .get("name")
        .and_then(Item::as_str)
        .unwrap_or_default();
    let plain = |text: &str| {
        let words = text.to_lowercase();
        let words = words.replace(|c: char| !c.is_alphanumeric(), " ");
        format!(
            " {} ",
            words.split_whitespace().collect::<Vec<_>>().join(" ")
        )
    };
    let said = plain(name);
    let names = |chip: &Chip| {
        let all = chip.called.iter().chain([&chip.key, &chip.name]);
        all.filter(|called| said.contains(&plain(called)))
            .map(String::len)
            .max()
    };
    // The longest name that is said: `m4 pro` is no `m4`.
    let own = names(chip);
    let other = chips
        .iter()
        .filter(|known| known.key != chip.key)
        .filter_map(|known| Some((names(known)?, known)))
        .max_by_key(|(length, _)| *length)
        .filter(|(length, _)| own.is_none_or(|own| own < *length));
    let key = &chip.key;
    if let Some((_, other)) = other {
        return Some(format!(
            "measured on `{name}`, which is {}, and the chip is `{key}`",
            other.key
        ));
    }
    let folder = Path::new(file).parent().and_then(Path::file_name);
    if own.is_some() || folder.is_some_and(|folder| folder == key.as_str()) {
        return None;
    }
    Some(format!(
        "measured on `{name}`, and the chip is `{key}`: if that is the same, `crossinfer import bandwidth … --soc {key}` writes it to a folder that says so"
    ))
}

/// Keys down to a number.
type Keys = Vec<String>;

/// The rates of a file.
fn things(measured: &DocumentMut) -> Vec<(String, Keys)> {
    let mut list = vec![vec!["memory".to_owned(), "bandwidth_gbps".to_owned()]];
    let engines = measured.get("engines").and_then(Item::as_table_like);
    for (engine, _) in engines.into_iter().flat_map(TableLike::iter) {
        list.push(vec![
            "engines".to_owned(),
            engine.to_owned(),
            "port_gbps".to_owned(),
        ]);
    }
    list.retain(|keys| item(measured, keys).is_some());
    list.into_iter()
        .map(|keys| (keys.join("."), keys))
        .collect()
}

fn item<'a>(document: &'a DocumentMut, keys: &[String]) -> Option<&'a Item> {
    keys.iter()
        .try_fold(document.as_item(), |item, key| item.get(key.as_str()))
}

fn number(item: &Item) -> Option<f64> {
    let whole = || item.as_integer().map(|whole| whole as f64);
    item.as_float().or_else(whole)
}

struct Found {
    gbps: f64,
    /// Key of its origin.
    origin: Option<String>,
}

fn quantity(document: &DocumentMut, keys: &[String]) -> Option<Found> {
    let item = item(document, keys)?;
    let (gbps, origin) = match item.as_table_like() {
        Some(table) => (table.get("value")?, table.get("origin")),
        None => (item, None),
    };
    let origin = origin
        .or_else(|| document.get("origin"))
        .and_then(Item::as_str);
    Some(Found {
        gbps: number(gbps).filter(|gbps| gbps.is_finite() && *gbps > 0.0)?,
        origin: origin.map(str::to_owned),
    })
}

/// Low end of what is derived, and the peak of the DRAM; `None` where the chip has no such thing.
fn bounds(soc: &DocumentMut, keys: &[String], chip: &Chip) -> Option<(f64, f64)> {
    let derived = quantity(soc, keys)?.gbps;
    Some((derived.min(0.7 * chip.peak_gbps), chip.peak_gbps))
}

/// Puts a measured rate where a derived one is, with its origin.
fn put(soc: &mut DocumentMut, measured: &DocumentMut, keys: &[String], found: &Found, most: f64) {
    let origin = found.origin.as_ref().map(|key| {
        let own = format!("measured-{key}");
        let stated = measured.get("origins").and_then(|all| all.get(key));
        if let (Some(stated), Some(origins)) = (
            stated,
            soc.entry("origins")
                .or_insert_with(|| Item::Table(Table::new()))
                .as_table_mut(),
        ) {
            let mut table = Table::new();
            for (key, item) in stated.as_table_like().into_iter().flat_map(TableLike::iter) {
                table.insert(key, item.clone());
            }
            origins.insert(&own, Item::Table(table));
        }
        own
    });
    let mut number = InlineTable::new();
    number.insert("value", found.gbps.into());
    if let Some(origin) = origin {
        number.insert("origin", origin.into());
    }
    if keys[0] == "memory" {
        number.insert("low", found.gbps.into());
        number.insert("high", most.into());
    }
    let Some((last, path)) = keys.split_last() else {
        return;
    };
    let mut at = soc.as_item_mut();
    for key in path {
        at = &mut at[key.as_str()];
    }
    at[last.as_str()] = value(number);
}
