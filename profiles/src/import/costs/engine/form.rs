//! Forms and tables of a cost: which one the rows are given, how far it misses them, and its interval.

use std::collections::BTreeSet;

use super::super::super::fit::{Point, TERMS, fit, missed};
use super::super::super::row::{Row, Spread};
use super::super::super::stats::trend;
use super::super::super::toml_text::{number, quantity};

/// A form that misses a measured time by more than this is not used where a table can be.
pub(super) const FORM_ERROR_MAX: f64 = 0.05;
/// An assumed slope that misses a row by more than this, and by more than the rows' own form, is contradicted by them.
const SLOPE_TOLD: f64 = 0.02;
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

/// How a cost was had from so many rows; `assumed` is whether its slope was not fitted to them.
pub(super) fn how(
    rows: usize,
    tabled: bool,
    assumed: bool,
    form: &[f64; TERMS],
    worst: f64,
) -> String {
    match (rows, tabled) {
        (1, _) if assumed => {
            "The time of the row by its tokens, less what the assumed slope makes of it".to_owned()
        }
        (1, _) => "The time of the row by its tokens".to_owned(),
        (_, true) => format!(
            "Times by size, interpolated in time; no form came within {:.0} % ({:.0} %)",
            100.0 * FORM_ERROR_MAX,
            100.0 * worst
        ),
        (count, false) => format!(
            "{} to {count} rows{}, least squares of relative errors, none negative; worst residual {:.1} %",
            match form.iter().filter(|value| **value > 0.0).count() - usize::from(assumed) {
                1 => "1 number".to_owned(),
                numbers => format!("{numbers} numbers"),
            },
            if assumed {
                " beside the assumed slope"
            } else {
                ""
            },
            100.0 * worst
        ),
    }
}

/// The form of the points with the slope of a prefill, `SLOPES` times, and its largest relative error. None where the
/// points tell a slope themselves, where lengths of several sizes tell that it is not so steep, and where nothing much
/// is left for the tokens themselves.
pub(super) fn attend(
    points: &[Point],
    (form, worst): (&[f64; TERMS], f64),
    slope: f64,
) -> Option<([f64; TERMS], f64)> {
    if form[2] > 0.0 {
        return None;
    }
    let slope = SLOPES * slope;
    // One number, relative errors: the slope's part is given.
    let (mut over, mut under) = (0.0, 0.0);
    for point in points {
        let part = point.tokens / point.secs;
        over += part * (1.0 - point.at(&[0.0, 0.0, slope]) / point.secs);
        under += part * part;
    }
    let rest = over / under;
    let with = [0.0, rest, slope];
    let missed = missed(points, &with);
    let told = missed > worst.max(SLOPE_TOLD);
    (rest > form[1] / 2.0 && !told).then_some((with, missed))
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
