//! Units of rates. `Mb/s` are bits and `mb/s` may be either, so letter case matters.

use super::super::text::short;

/// A unit as it is written.
#[derive(Debug, PartialEq)]
pub(super) struct Unit {
    /// How it is written.
    pub(super) name: &'static str,
    /// What one is in GB/s.
    pub(super) gbps: f64,
}

const fn unit(name: &'static str, gbps: f64) -> Unit {
    Unit { name, gbps }
}

const UNITS: [Unit; 18] = [
    unit("B/s", 1e-9),
    unit("kB/s", 1e-6),
    unit("KB/s", 1e-6),
    unit("KiB/s", 1024e-9),
    unit("MB/s", 1e-3),
    unit("MBytes/s", 1e-3),
    unit("MBytes/sec", 1e-3),
    unit("MB/sec", 1e-3),
    unit("MiB/s", 1_048_576e-9),
    unit("MiBytes/sec", 1_048_576e-9),
    unit("GB/s", 1.0),
    unit("GBytes/s", 1.0),
    unit("GBytes/sec", 1.0),
    unit("GB/sec", 1.0),
    unit("GiB/s", 1_073_741_824e-9),
    unit("GiBytes/sec", 1_073_741_824e-9),
    unit("GiB/sec", 1_073_741_824e-9),
    unit("TB/s", 1e3),
];

/// The unit of this name.
pub(super) fn named(name: &str) -> Option<&'static Unit> {
    UNITS.iter().find(|unit| unit.name == name)
}

/// Why a rate of this unit, or of none, is not taken.
pub(super) fn unknown(name: &str) -> String {
    let names = "write MB/s, GB/s, MiB/s or GiB/s";
    if name.is_empty() {
        format!("the unit of the rate is not stated: {names}")
    } else {
        format!(
            "`{}` is no unit of a rate that is known: {names}",
            short(name)
        )
    }
}

/// The unit that a header or a cell states, if any: its word with a `/s`, or one such as `MBps`.
///
/// # Errors
///
/// Why the unit that is there is not taken.
pub(super) fn stated(text: &str) -> Result<Option<&'static Unit>, String> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || c == '/'));
    for word in words {
        // A unit may stand right behind its number.
        let word = word.trim_start_matches(|c: char| c.is_ascii_digit());
        let lower = word.to_lowercase();
        if lower.ends_with("/s") || lower.ends_with("/sec") || lower.ends_with("bps") {
            // `BestRateMB/s` has its unit behind a word.
            let behind = lower.rfind("rate").map_or(0, |at| at + "rate".len());
            let unit = word.get(behind..).unwrap_or(word);
            return named(unit).map(Some).ok_or_else(|| unknown(unit));
        }
    }
    Ok(None)
}
