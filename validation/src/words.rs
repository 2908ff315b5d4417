//! Numbers in words and texts.

/// As it was given, with a proper minus; no more than nine digits.
pub(crate) fn plain(x: f64) -> String {
    let rounded: f64 = format!("{x:.8e}").parse().unwrap_or(x);
    rounded.to_string().replace('-', "−")
}

/// So many, in words.
pub(crate) fn count(count: usize, what: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {what}{s}")
}
