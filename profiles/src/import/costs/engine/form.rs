//! Forms and tables of a cost: which one the rows are given, how far it misses them, and its interval.

use std::collections::BTreeSet;

use super::super::super::fit::{Point, TERMS, fit};
use super::super::super::row::{Row, Spread};
use super::super::super::stats::trend;
use super::super::super::toml_text::{number, quantity};

/// A form that misses a measured time by more than this is not used where a table can be.
pub(super) const FORM_ERROR_MAX: f64 = 0.05;
/// A token of context costs a generated token so many times what it costs one of a prefill.
pub(super) const SLOPES: f64 = 2.0;

/// The form of the points and its largest relative error. One row tells one number, and a fixed part shows only
/// between sizes.
pub(super) fn choose(kind: &str, points: &[Point]) -> Option<([f64; TERMS], f64)> {
    if points.len() == 1 {
        return fit(points, [false, true, false]);
    }
    let sizes: BTreeSet<u64> = points.iter().map(|point| point.tokens as u64).collect();
    let plain = fit(points, [false, true, true])?;
    let more = points.len() > 3 || plain.1 > FORM_ERROR_MAX;
    if kind == "prefill" && sizes.len() > 1 && more {
        return fit(points, [true, true, true]);
    }
    Some(plain)
}

/// Times by size.
pub(super) fn table(points: &[Point], key: &str) -> String {
    let mut pairs: Vec<(f64, f64)> = points.iter().map(|p| (p.tokens, p.secs)).collect();
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let list = |values: Vec<f64>| {
        let texts: Vec<String> = values.into_iter().map(number).collect();
        texts.join(", ")
    };
    let sizes = list(pairs.iter().map(|pair| pair.0).collect());
    let times = list(pairs.iter().map(|pair| pair.1).collect());
    format!("table = {{ size = [{sizes}], time_s = [{times}], origin = \"{key}\" }}\n")
}

/// How a cost was had from so many rows.
pub(super) fn how(rows: usize, tabled: bool, form: &[f64; TERMS], worst: f64) -> String {
    match (rows, tabled) {
        (1, _) => "The time of the row by its tokens".to_owned(),
        (_, true) => format!(
            "Times by size, interpolated in time; no form came within {:.0} % ({:.0} %)",
            100.0 * FORM_ERROR_MAX,
            100.0 * worst
        ),
        (count, false) => format!(
            "{} numbers to {count} rows, least squares of relative errors, none negative; worst residual {:.1} %",
            form.iter().filter(|value| **value > 0.0).count(),
            100.0 * worst
        ),
    }
}

/// A form that meets the same times with the slope of a prefill, `SLOPES` times; none where nothing is left for the
/// tokens themselves.
pub(super) fn attend(points: &[Point], form: &[f64; TERMS], slope: f64) -> Option<[f64; TERMS]> {
    let slope = SLOPES * slope;
    let longest = points.iter().map(|point| point.tokens).fold(0.0, f64::max);
    let rest = form[1] - slope * (longest - 1.0) / 2.0;
    (rest > form[1] / 2.0).then_some([form[0], rest, slope])
}

/// How far repeats that drift go below and above their mean, as factors: all of them, not only what the drift's two
/// ends come to.
pub(super) fn drift(rows: &[&Row]) -> Option<(f64, f64)> {
    rows.iter().fold(None, |widest, row| match &row.spread {
        Spread::Samples(samples) if trend(samples).is_some() => {
            let factors = samples.iter().map(|secs| secs / row.secs);
            let all = factors.fold((1.0_f64, 1.0_f64), |(low, high), factor| {
                (low.min(factor), high.max(factor))
            });
            wider(widest, Some(all))
        }
        _ => widest,
    })
}

/// The factors that hold both.
pub(super) fn wider(a: Option<(f64, f64)>, b: Option<(f64, f64)>) -> Option<(f64, f64)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (a, b) => a.or(b),
    }
}

/// A cost with an interval that is stated in factors on it.
pub(super) fn scaled(value: f64, key: &str, factors: Option<(f64, f64)>) -> String {
    let interval = factors.map(|(low, high)| (low * value, high * value));
    quantity(value, key, interval)
}

/// Factors on a form within which every measured time lies, where it does not meet them all.
pub(super) fn covering(points: &[Point], form: &[f64; TERMS]) -> Option<(f64, f64)> {
    let ratios = || points.iter().map(|point| point.secs / point.at(form));
    let (low, high) = (ratios().fold(1.0, f64::min), ratios().fold(1.0, f64::max));
    (high - low > 0.001).then_some((low, high))
}
