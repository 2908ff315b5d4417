//! JSON of rates by buffer size.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::note::{NoteKind, Notes};
use super::super::row::Place;
use super::super::text::{Lines, slug};
use super::{Board, Flow, Rate};

/// `benchmarks.bandwidth`: rates by name and buffer size.
pub(super) fn json(file: &str, text: &str, notes: &mut Notes) -> Vec<Board> {
    let value: Value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) => {
            notes.skip(file, error.line() as u64, format!("no JSON: {error}"));
            return Vec::new();
        }
    };
    let list = value
        .get("benchmarks")
        .and_then(|all| all.get("bandwidth"))
        .and_then(Value::as_array);
    let Some(list) = list else {
        let keys: Vec<&str> = value
            .as_object()
            .into_iter()
            .flat_map(|object| object.keys().map(String::as_str))
            .take(5)
            .collect();
        notes.skip(
            file,
            1,
            format!("no `benchmarks.bandwidth` (keys: {})", keys.join(", ")),
        );
        return Vec::new();
    };
    let framework = value.get("framework").and_then(Value::as_str).unwrap_or("");
    let engine = if ["mps", "cuda", "metal", "mlx"]
        .iter()
        .any(|name| framework.contains(name))
    {
        "gpu"
    } else {
        "cpu"
    };
    let largest = largest(file, text, list, notes);
    if largest.is_empty() {
        return Vec::new();
    }
    let stem = file.rsplit(['/', '\\']).next().unwrap_or(file);
    let name = slug(stem.trim_end_matches(".json"));
    notes.add(
        NoteKind::Read,
        file,
        None,
        format!(
            "{} rates by {framework}, each at its largest buffer",
            largest.len()
        ),
    );
    vec![Board {
        name,
        file: file.to_owned(),
        engine,
        about: vec![framework.to_owned()],
        rates: largest.into_values().map(|(_, rate)| rate).collect(),
        ..Board::default()
    }]
}

/// The rate of each name at its largest buffer: a small one stays in the caches.
fn largest(
    file: &str,
    text: &str,
    list: &[Value],
    notes: &mut Notes,
) -> BTreeMap<String, (f64, Rate)> {
    let mut largest: BTreeMap<String, (f64, Rate)> = BTreeMap::new();
    let places = Lines::of(text);
    let mut after = 0;
    for item in list {
        let at = text[after..]
            .find("\"name\"")
            .map_or(after, |found| after + found);
        after = (at + 1).min(text.len());
        let line = places.at(at);
        let get = |key: &str| {
            item.get(key)
                .and_then(Value::as_f64)
                .filter(|x| x.is_finite() && *x > 0.0)
        };
        let (Some(name), Some(size), Some(gbps)) = (
            item.get("name").and_then(Value::as_str),
            get("size_gb"),
            get("bandwidth_gbs"),
        ) else {
            notes.skip(
                file,
                line,
                "a rate without `name`, `size_gb` and `bandwidth_gbs`",
            );
            continue;
        };
        let flow = match name {
            name if name.contains("read") => Flow::Read,
            name if name.contains("write") => Flow::Write,
            name if name.contains("copy") => Flow::Both,
            _ => {
                notes.skip(
                    file,
                    line,
                    format!("`{name}`: whether it reads or writes is unknown"),
                );
                continue;
            }
        };
        let rate = Rate {
            flow,
            gbps,
            what: format!("{name} of {size:.2} GB {gbps:.1} GB/s"),
            place: Place {
                file: file.to_owned(),
                line,
            },
        };
        if largest.get(name).is_none_or(|(known, _)| size > *known) {
            largest.insert(name.to_owned(), (size, rate));
        }
    }
    largest
}
