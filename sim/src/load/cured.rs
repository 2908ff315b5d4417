//! A file with faults of form, read as far as it can be, so that those do not hide faults of meaning.
//!
//! Keys that nobody knows are left out or taken for what was meant, and numbers that cannot be are replaced: once by
//! small ones and once by large ones, and what is wrong counts only if it is wrong either way and elsewhere. What
//! lacks, and texts, lists and variants that do not fit, have no such reading: then the other files are checked each by
//! itself.

use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::schema_check::{By, Cure};
use super::shape::Bounds;

/// Which numbers stand for those that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stand {
    Small,
    Large,
}

/// Reads `text` with its cures; `None`: there is no reading.
pub(super) fn read<T: DeserializeOwned>(text: &str, cures: &[Cure], stand: Stand) -> Option<T> {
    let mut root = Value::Table(toml::from_str::<Table>(text).ok()?);
    // Names last: paths are those of the file as it is written.
    let (renamings, others): (Vec<_>, Vec<_>) = cures
        .iter()
        .partition(|cure| matches!(cure.by, By::Renaming(_)));
    for cure in others.into_iter().chain(renamings) {
        let (table, key) = split(&cure.path);
        match &cure.by {
            By::Number(bounds) => *at(&mut root, &cure.path)? = number(*bounds, stand),
            By::Leaving => _ = at(&mut root, table)?.as_table_mut()?.remove(key)?,
            By::Renaming(name) => {
                let table = at(&mut root, table)?.as_table_mut()?;
                let value = table.remove(key)?;
                table.insert(name.clone(), value);
            }
        }
    }
    root.try_into().ok()
}

/// Table and last key of a path.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('.').unwrap_or(("", path))
}

/// The value at a dotted path; `None` also where a key has a dot or a bracket of its own.
fn at<'v>(root: &'v mut Value, path: &str) -> Option<&'v mut Value> {
    let mut value = root;
    for part in path.split('.').filter(|part| !part.is_empty()) {
        let mut names = part.split('[');
        value = value.as_table_mut()?.get_mut(names.next()?)?;
        for index in names {
            let index: usize = index.strip_suffix(']')?.parse().ok()?;
            value = value.as_array_mut()?.get_mut(index)?;
        }
    }
    Some(value)
}

/// A number within bounds, near one of their ends.
fn number(bounds: Bounds, stand: Stand) -> Value {
    let small = bounds.least.or(bounds.above.map(|above| above + 1.0));
    let value = match stand {
        Stand::Small => small.unwrap_or(0.0).min(bounds.most.unwrap_or(f64::MAX)),
        Stand::Large => bounds
            .most
            .unwrap_or(f64::MAX)
            .min(small.unwrap_or(0.0).abs() * 1e3 + 1e3),
    };
    if bounds.whole {
        Value::Integer(value as i64)
    } else {
        Value::Float(value)
    }
}

/// Whether two stretches of a file have bytes in common.
pub(super) fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}
