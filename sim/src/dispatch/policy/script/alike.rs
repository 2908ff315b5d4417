//! Whether lists and maps are alike. The interpreter looks up and calls a function for each pair of entries, which
//! takes a hundred times as long and counts as one step.

use rhai::{Array, Dynamic, Engine, EvalAltResult, Map, Position};

use super::engine;

type Raised = Box<EvalAltResult>;

/// What is registered here goes before what the packages have.
pub(super) fn register(engine: &mut Engine) {
    engine
        .register_fn("==", |a: &mut Array, b: Array| lists(a, &b))
        .register_fn("!=", |a: &mut Array, b: Array| {
            Ok::<_, Raised>(!lists(a, &b)?)
        })
        .register_fn("==", |a: &mut Map, b: Map| maps(a, &b))
        .register_fn("!=", |a: &mut Map, b: Map| Ok::<_, Raised>(!maps(a, &b)?))
        .register_fn("contains", |list: &mut Array, value: Dynamic| {
            Ok::<_, Raised>(place(list, &value, 0)?.is_some())
        })
        .register_fn("index_of", |list: &mut Array, value: Dynamic| {
            Ok::<_, Raised>(number(place(list, &value, 0)?))
        })
        .register_fn(
            "index_of",
            |list: &mut Array, value: Dynamic, start: i64| {
                let start = if start < 0 {
                    // As everywhere in the language, from the end.
                    list.len()
                        .saturating_sub(usize::try_from(start.unsigned_abs()).unwrap_or(usize::MAX))
                } else {
                    usize::try_from(start).unwrap_or(usize::MAX)
                };
                Ok::<_, Raised>(number(place(list, &value, start)?))
            },
        )
        .register_fn("dedup", |list: &mut Array| {
            let mut fault = None;
            list.dedup_by(|a, b| {
                fault.is_none()
                    && alike(a, b).unwrap_or_else(|raised| {
                        fault = Some(raised);
                        false
                    })
            });
            fault.map_or(Ok(()), Err)
        });
}

fn number(place: Option<usize>) -> i64 {
    place.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1)
}

/// The first entry from `start` on that is like a value.
fn place(list: &[Dynamic], value: &Dynamic, start: usize) -> Result<Option<usize>, Raised> {
    for (at, entry) in list.iter().enumerate().skip(start) {
        if alike(entry, value)? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

fn lists(a: &[Dynamic], b: &[Dynamic]) -> Result<bool, Raised> {
    if a.len() != b.len() {
        return Ok(false);
    }
    for (a, b) in a.iter().zip(b) {
        if !alike(a, b)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn maps(a: &Map, b: &Map) -> Result<bool, Raised> {
    if a.len() != b.len() {
        return Ok(false);
    }
    // Both are in the order of their keys.
    for ((key, a), (other, b)) in a.iter().zip(b) {
        if key != other || !alike(a, b)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// As `a == b` in the language; what it cannot compare is unlike everything of another type.
fn alike(a: &Dynamic, b: &Dynamic) -> Result<bool, Raised> {
    if let (Ok(a), Ok(b)) = (a.as_array_ref(), b.as_array_ref()) {
        return lists(&a, &b);
    }
    if let (Ok(a), Ok(b)) = (a.as_map_ref(), b.as_map_ref()) {
        return maps(&a, &b);
    }
    if let (Ok(a), Ok(b)) = (a.as_immutable_string_ref(), b.as_immutable_string_ref()) {
        return Ok(*a == *b);
    }
    if let (Ok(a), Ok(b)) = (a.as_int(), b.as_int()) {
        return Ok(a == b);
    }
    if let (Some(a), Some(b)) = (float(a), float(b)) {
        return Ok(a == b);
    }
    if let (Ok(a), Ok(b)) = (a.as_bool(), b.as_bool()) {
        return Ok(a == b);
    }
    if let (Ok(a), Ok(b)) = (a.as_char(), b.as_char()) {
        return Ok(a == b);
    }
    for (text, letter) in [(a, b), (b, a)] {
        if let (Ok(text), Ok(letter)) = (text.as_immutable_string_ref(), letter.as_char()) {
            return Ok(text.chars().eq([letter]));
        }
    }
    if let (Ok(a), Ok(b)) = (a.as_blob_ref(), b.as_blob_ref()) {
        return Ok(*a == *b);
    }
    if a.is_unit() && b.is_unit() {
        return Ok(true);
    }
    if a.type_id() == b.type_id() {
        let kind = engine::kind(a.type_name());
        let message =
            format!("two values of type `{kind}` cannot be compared: compare their names");
        return Err(EvalAltResult::ErrorRuntime(message.into(), Position::NONE).into());
    }
    Ok(false)
}

/// A number as floating point.
fn float(value: &Dynamic) -> Option<f64> {
    let whole = || value.as_int().ok().map(|number| number as f64);
    value.as_float().ok().or_else(whole)
}
