//! What the checks of a file's shape say: examples, values mended, units.

use super::document::{Place, Value};
use super::shape::Shape;

/// What would be right, as an example.
pub(super) fn example(place: &Place<'_>, shape: &Shape) -> String {
    if let Some(example) = whole_example(place) {
        return example.to_owned();
    }
    let (key, example) = (last(place), shape.example());
    if in_list(place) {
        return format!("for example `{key} = [{example}]`");
    }
    format!("for example `{key} = {example}`")
}

/// Whether a value is an element of a list.
fn in_list(place: &Place<'_>) -> bool {
    place.path().ends_with(']')
}

/// What to write where an example by type alone would not load.
pub(super) fn whole_example(place: &Place<'_>) -> Option<&'static str> {
    match place.path().split('[').next()? {
        "exclusive" if !place.path().contains('.') => Some(
            "for example `exclusive = [[\"encode@npu\", \"decode@gpu\"]]`, above the first table",
        ),
        "streams" if !place.path().contains('.') => Some(
            "add at the end `[[streams]]`, then a line `name = \"camera\"` and a line `queries = { arrivals = { times_s = [0.0] }, prompt_tokens = 16, output_tokens = 32 }`",
        ),
        _ => None,
    }
}

/// The value rewritten so that it fits, where it is plain what was meant.
pub(super) fn mended(place: &Place<'_>, shape: &Shape) -> Option<String> {
    let key = last(place);
    let value = match (shape, place.value()?) {
        (Shape::Integer(bounds), Value::Float(value))
            if value.fract() == 0.0 && bounds.broken_by(*value).is_none() =>
        {
            format!("{value:.0}")
        }
        (Shape::Integer(bounds), Value::Text(text)) => {
            let value = text.parse::<i64>().ok();
            value
                .filter(|&value| bounds.broken_by(value as f64).is_none())?
                .to_string()
        }
        (Shape::Number(bounds) | Shape::Quantity(bounds), Value::Text(text)) => {
            let value = text.parse::<f64>().ok();
            value.filter(|&value| value.is_finite() && bounds.broken_by(value).is_none())?;
            text.clone()
        }
        (Shape::Flag, Value::Text(text)) if text == "true" || text == "false" => text.clone(),
        (Shape::Text, Value::Integer(_) | Value::Float(_) | Value::Boolean) => {
            format!("\"{}\"", place.source())
        }
        _ => return None,
    };
    if in_list(place) {
        return Some(format!("write `{value}`"));
    }
    Some(format!("write `{key} = {value}`"))
}

/// Why a key may not be greater than it may.
pub(super) fn reason(key: &str) -> Option<&'static str> {
    match key {
        "replications" => Some("every run is kept until the end, and memory grows with them"),
        "cv" => Some(
            "beyond that nearly all draws are next to nothing, and the mean rests on draws that no run is long enough to see",
        ),
        _ => None,
    }
}

/// The last key of the path.
pub(super) fn last<'p>(place: &'p Place<'_>) -> &'p str {
    let path = place.path();
    let path = path.rsplit('.').next().unwrap_or(path);
    path.split('[').next().unwrap_or(path)
}

/// Unit of a key by its suffix, for people.
pub(super) fn unit(path: &str) -> &'static str {
    let key = ["value", "low", "high"]
        .iter()
        .find_map(|end| path.strip_suffix(end)?.strip_suffix('.'))
        .unwrap_or(path);
    let key = key.rsplit('.').next().unwrap_or(key);
    let key = key.split('[').next().unwrap_or(key);
    let units = [
        ("per_token", ""),
        ("_gbps", "GB/s"),
        ("_bytes", "bytes"),
        ("_hz", "Hz"),
        ("_tokens", "tokens"),
        ("_s", "s"),
        ("_w", "W"),
        ("megapixels", "megapixels"),
        ("cores", "cores"),
    ];
    units
        .iter()
        .find(|(suffix, _)| key.ends_with(suffix))
        .map_or("", |(_, unit)| unit)
}
