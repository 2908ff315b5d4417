//! TOML that people read: strings, numbers and quantities as text.

use std::fmt::Write as _;

/// A quoted string.
pub(crate) fn string(text: &str) -> String {
    toml::Value::String(plain(text)).to_string()
}

/// A line of comment.
pub(crate) fn comment(text: &str) -> String {
    format!("# {}\n", plain(text))
}

/// Text without what TOML does not take: line ends and other controls.
fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// A number, to six digits.
pub(crate) fn number(x: f64) -> String {
    if x == 0.0 {
        return "0".to_owned();
    }
    let whole = x.fract() == 0.0 && x.abs() < 1e15;
    if whole {
        return format!("{x:.0}");
    }
    let rounded: f64 = format!("{x:.5e}").parse().unwrap_or(x);
    if (1e-3..1e6).contains(&rounded.abs()) {
        format!("{rounded}")
    } else {
        format!("{rounded:e}")
    }
}

/// A number with its origin and, if `low` and `high` are given, its interval.
pub(crate) fn quantity(value: f64, origin: &str, interval: Option<(f64, f64)>) -> String {
    let interval = interval.map_or_else(String::new, |(low, high)| {
        format!(", low = {}, high = {}", number(low), number(high))
    });
    format!(
        "{{ value = {}, origin = \"{origin}\"{interval} }}",
        number(value)
    )
}

/// An `[origins.<key>]` table.
pub(crate) fn origin(key: &str, kind: &str, source: &str, note: &str) -> String {
    let mut text = format!("\n[origins.{key}]\nkind = \"{kind}\"\n");
    if !source.is_empty() {
        _ = writeln!(text, "source = {}", string(source));
    }
    if !note.is_empty() {
        _ = writeln!(text, "note = {}", string(note));
    }
    text
}
