//! Lines that programs print: sbc-bench's and tinymembench's copies, and STREAM's table.

use super::super::note::Notes;
use super::super::row::Place;
use super::super::text::{self, leading_number};
use super::unit::{self, Unit, named, stated};
use super::{Flow, Rate};

/// `memcpy: 8409.7 MB/s, memchr: 20612.2 MB/s, memset: …`, by core; and `standard memcpy : 1957.0 MB/s`.
pub(super) fn rates(file: &str, line: u64, text: &str, notes: &mut Notes) -> Vec<Rate> {
    const NAMES: [(&str, Flow, f64); 3] = [
        ("memcpy", Flow::Both, 2.0),
        ("memchr", Flow::Read, 1.0),
        ("memset", Flow::Write, 1.0),
    ];
    let mut found = Vec::new();
    if !text.contains("/s") {
        return found;
    }
    let core = text
        .split(':')
        .next()
        .filter(|core| core.starts_with("cpu"))
        .unwrap_or("")
        .trim();
    let mut known = false;
    for (name, flow, factor) in NAMES {
        let Some((_, rest)) = text.split_once(name) else {
            continue;
        };
        let Some(rest) = rest.trim_start().strip_prefix(':') else {
            continue;
        };
        known = true;
        let number = leading_number(rest).and_then(|number| {
            number.ok_or_else(|| format!("no number in `{}`", text::short(rest.trim())))
        });
        let (rate, rest) = match number {
            Ok(number) => number,
            Err(reason) => {
                notes.skip(file, line, format!("`{name}`: {reason}"));
                continue;
            }
        };
        let shown = rest.split([',', ' ', '(']).next().unwrap_or("");
        match named(shown) {
            Some(unit) if rate > 0.0 => found.push(Rate {
                flow,
                gbps: rate * factor * unit.gbps,
                what: format!("{name} {rate} {} {core}", unit.name)
                    .trim_end()
                    .to_owned(),
                place: Place {
                    file: file.to_owned(),
                    line,
                },
            }),
            Some(_) => notes.skip(file, line, format!("`{name}` is {rate}: no rate")),
            None => notes.skip(file, line, format!("`{name}`: {}", unit::unknown(shown))),
        }
    }
    // tinymembench's own copies and fills, one a line.
    if !known
        && let Some((name, rest)) = text.rsplit_once(':')
        && let [shown, unit, ..] = rest.split_whitespace().collect::<Vec<_>>().as_slice()
        && named(unit).is_some()
        && text::positive(shown).is_err()
    {
        let reason = format!(
            "`{}`: `{}` is no rate",
            text::short(name.trim()),
            text::short(shown)
        );
        notes.skip(file, line, reason);
    } else if !known
        && let Some((name, rest)) = text.rsplit_once(':')
        && let Ok(Some((rate, rest))) = leading_number(rest)
        && let Some(unit) = named(rest.split([' ', '(']).next().unwrap_or(""))
    {
        let text = format!(
            "`{}` {rate} {} is none of memcpy, memchr, memset and STREAM's",
            text::short(name.trim()),
            unit.name
        );
        notes.skip(file, line, text);
    }
    found
}

/// Where in STREAM's output a line is.
pub(super) enum Stream {
    /// Its header has not come.
    None,
    /// Rows follow, in this unit.
    Rows(&'static Unit),
    /// Rows follow, in what cannot be told.
    Unknown,
}

impl Stream {
    /// `Function    Best Rate MB/s  Avg time …`, then `Triad:  12345.6  0.01 0.01 0.01`. `None` of other lines.
    pub(super) fn row(
        &mut self,
        file: &str,
        line: u64,
        text: &str,
        notes: &mut Notes,
    ) -> Option<Rate> {
        if text.starts_with("Function") && text.contains("Rate") {
            *self = match stated(text) {
                Ok(Some(unit)) => Self::Rows(unit),
                Ok(None) => {
                    notes.skip(file, line, unit::unknown(""));
                    Self::Unknown
                }
                Err(fault) => {
                    notes.skip(file, line, fault);
                    Self::Unknown
                }
            };
            return None;
        }
        let (name, rest) = text.split_once(':')?;
        if !["Copy", "Scale", "Add", "Triad"].contains(&name) {
            return None;
        }
        let words: Vec<&str> = rest.split_whitespace().collect();
        // The rate and three times.
        let [rate, _, _, _] = words.as_slice() else {
            if matches!(self, Self::Rows(_)) {
                let text = format!("STREAM's `{name}` has {} numbers, not 4", words.len());
                notes.skip(file, line, text);
            }
            return None;
        };
        let unit = match self {
            Self::Rows(unit) => unit,
            Self::Unknown => return None,
            Self::None => {
                let text = format!(
                    "STREAM's `{name}` without its header before it (`Best Rate MB/s`): its unit is unknown"
                );
                notes.skip(file, line, text);
                return None;
            }
        };
        match text::positive(rate) {
            Ok(rate) => Some(Rate {
                flow: Flow::Both,
                gbps: rate * unit.gbps,
                what: format!("STREAM {name} {rate} {}", unit.name),
                place: Place {
                    file: file.to_owned(),
                    line,
                },
            }),
            Err(fault) => {
                notes.skip(file, line, format!("STREAM's `{name}`: {fault}"));
                None
            }
        }
    }
}
