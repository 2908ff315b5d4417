//! Lines that programs print: sbc-bench's, tinymembench's and mbw's copies.

use super::super::note::Notes;
use super::super::row::Place;
use super::super::text::{self, leading_number};
use super::unit::{self, named};
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
    if text.contains("Method:") && text.contains("Copy:") {
        found.extend(mbw(file, line, text, notes));
        return found;
    }
    if text.contains("memory rate:") {
        let text = "stress-ng's rate is of one of its instances beside each other, in MB of 1048576 or 1000000 bytes, which it does not say: not used; STREAM, mbw or tinymembench measure it";
        notes.skip(file, line, text);
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

/// A line of mbw, `AVG  Method: MEMCPY  Elapsed: 0.25  MiB: 1024.00  Copy: 4096.00 MiB/s`. Its single runs come before
/// their average, which is taken.
fn mbw(file: &str, line: u64, text: &str, notes: &mut Notes) -> Option<Rate> {
    let (run, rest) = text.split_once("Method:")?;
    let method = rest.split_whitespace().next().unwrap_or("");
    if run.trim() != "AVG" {
        if run.trim() == "0" {
            let text = format!("mbw's `{method}`: of its runs the average (`AVG`) is used");
            notes.skip(file, line, text);
        }
        return None;
    }
    if !["MEMCPY", "DUMB"].contains(&method) {
        let text = format!(
            "mbw's `{}` copies block by block, in some versions one block over and over from the caches: not used",
            text::short(method)
        );
        notes.skip(file, line, text);
        return None;
    }
    let (_, copied) = text.split_once("Copy:")?;
    let read = leading_number(copied).and_then(|number| {
        let (rate, rest) =
            number.ok_or_else(|| format!("no number in `{}`", text::short(copied.trim())))?;
        let shown = rest.split_whitespace().next().unwrap_or("");
        let unit = named(shown).ok_or_else(|| unit::unknown(shown))?;
        if rate > 0.0 {
            Ok((rate, unit))
        } else {
            Err(format!("{rate} is no rate"))
        }
    });
    match read {
        Ok((rate, unit)) => Some(Rate {
            flow: Flow::Both,
            // What is copied is read and written.
            gbps: 2.0 * rate * unit.gbps,
            what: format!("mbw {method} {rate} {}", unit.name),
            place: Place {
                file: file.to_owned(),
                line,
            },
        }),
        Err(reason) => {
            notes.skip(file, line, format!("mbw's `{method}`: {reason}"));
            None
        }
    }
}
