//! STREAM's table, and `BabelStream`'s.

use super::super::note::Notes;
use super::super::row::Place;
use super::super::text;
use super::unit::{self, Unit, stated};
use super::{Flow, Rate};

/// Where in STREAM's or `BabelStream`'s output a line is.
pub(super) enum Stream {
    /// Its header has not come.
    None,
    /// Rows follow, in this unit.
    Rows(&'static Unit),
    /// Rows of `BabelStream` follow, without colons.
    Babel(&'static Unit),
    /// Rows follow, in what cannot be told.
    Unknown,
    /// Rows follow of an engine that is not known.
    Other,
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
        if matches!(self, Self::Other) {
            return None;
        }
        if text.starts_with("Function") && (text.contains("Rate") || text.contains("/sec")) {
            *self = match stated(text) {
                Ok(Some(unit)) if text.contains("Rate") => Self::Rows(unit),
                Ok(Some(unit)) => Self::Babel(unit),
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
        if let Self::Babel(unit) = self {
            return babel(file, line, text, unit, notes);
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
            Self::Unknown | Self::Other | Self::Babel(_) => return None,
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

/// The threads that STREAM says it ran on, `Number of Threads counted = 4`.
pub(super) fn threads(text: &str) -> Option<u32> {
    let (_, rest) = text.split_once("Number of Threads ")?;
    let (_, count) = rest.split_once('=')?;
    count.trim().parse().ok().filter(|count| *count > 0)
}

/// A row of `BabelStream`'s, `Triad  12345.6  0.01  0.01  0.01`. Its rates count what is read and written, as STREAM's do.
fn babel(file: &str, line: u64, text: &str, unit: &Unit, notes: &mut Notes) -> Option<Rate> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (name, numbers) = words.split_first()?;
    let flow = match *name {
        "Copy" | "Mul" | "Add" | "Triad" | "Nstream" => Flow::Both,
        "Dot" => Flow::Read,
        _ => return None,
    };
    let [rate, _, _, _] = numbers else {
        let text = format!(
            "BabelStream's `{name}` has {} numbers, not 4",
            numbers.len()
        );
        notes.skip(file, line, text);
        return None;
    };
    match text::positive(rate) {
        Ok(rate) => Some(Rate {
            flow,
            gbps: rate * unit.gbps,
            what: format!("BabelStream {name} {rate} {}", unit.name),
            place: Place {
                file: file.to_owned(),
                line,
            },
        }),
        Err(fault) => {
            notes.skip(file, line, format!("BabelStream's `{name}`: {fault}"));
            None
        }
    }
}

/// The engine that an implementation of `BabelStream` runs on: `Implementation: OpenMP`.
///
/// # Errors
///
/// Why that cannot be told.
pub(super) fn babel_engine(text: &str) -> Option<Result<&'static str, String>> {
    let name = text.strip_prefix("Implementation:")?.trim();
    let lower = name.to_lowercase();
    let starts = |names: &[&str]| names.iter().any(|name| lower.starts_with(name));
    Some(if starts(&["openmp", "tbb", "serial", "julia threads"]) {
        Ok("cpu")
    } else if starts(&["cuda", "hip", "metal"]) {
        Ok("gpu")
    } else {
        Err(format!(
            "BabelStream's `{}` runs on CPUs and on GPUs, and on which it ran is not stated: its rates are not used; build it with OpenMP, CUDA or HIP",
            text::short(name)
        ))
    })
}
