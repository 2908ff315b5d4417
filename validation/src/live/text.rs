//! The comparison and the quality of a calibration, for people.

use std::fmt::Write as _;

use super::{Check, Comparison, Predictions, Row, StageRow};

/// How well a stage's form fits.
#[derive(Clone, Debug, PartialEq)]
pub struct QualityRow {
    /// Engine.
    pub engine: String,
    /// Stage.
    pub stage: String,
    /// Points of size and context.
    pub points: usize,
    /// Samples of all points.
    pub samples: usize,
    /// Spread of samples of one point.
    pub cv: f64,
    /// Worst relative error of the form.
    pub worst: f64,
    /// Worst relative error of a point that was left out of the fit.
    pub left_out: Option<f64>,
    /// Time of the first run in a process ÷ the form's.
    pub cold: Option<f64>,
}

/// A table of fits.
pub fn quality(rows: &[QualityRow]) -> String {
    let mut text = format!(
        "{:10} {:14} {:>6} {:>7} {:>7} {:>9} {:>9} {:>6}\n",
        "engine", "stage", "points", "samples", "spread", "fit worst", "left out", "first"
    );
    for row in rows {
        let left_out = row.left_out.map_or_else(String::new, percent);
        _ = writeln!(
            text,
            "{:10} {:14} {:>6} {:>7} {:>7} {:>9} {left_out:>9} {:>6}",
            row.engine,
            row.stage,
            row.points,
            row.samples,
            percent(row.cv),
            percent(row.worst),
            ratio(row.cold),
        );
    }
    text
}

/// Samples that no fit used, measured beside predicted; empty of none.
pub fn checks(rows: &[Check]) -> String {
    let mut text = String::new();
    if !rows.is_empty() {
        text = format!(
            "\nSamples that no fit used:\n{:52} {:>9} {:>9} {:>8}\n",
            "", "measured", "predicted", "error"
        );
    }
    for row in rows {
        let error = format!("{:+.1} %", 100.0 * (row.predicted / row.measured - 1.0));
        _ = writeln!(
            text,
            "{:52} {:>9.3} {:>9.3} {error:>8}",
            row.what, row.measured, row.predicted
        );
    }
    text
}

/// The comparison; `late_s` is how late the driver handled things, on average.
pub fn comparison(
    comparison: &Comparison,
    live: &[StageRow],
    simulated: &[StageRow],
    late_s: f64,
) -> String {
    let mut text = format!(
        "{:20} {:18} {:>4} {:>9} {:>9} {:>17} {:>16} {:>8}\n",
        "policy", "metric", "runs", "measured", "predicted", "95 %", "error", "noise"
    );
    for row in &comparison.rows {
        let half = row
            .error_half_width
            .map_or_else(String::new, |half| format!(" ± {:.1}", 100.0 * half));
        let error = format!("{:+.1}{half} %", 100.0 * row.error);
        let noise = row.noise;
        let noise = noise.map_or_else(String::new, |noise| format!("± {}", percent(noise)));
        _ = writeln!(
            text,
            "{:20} {:18} {:>4} {:>9.4} {:>9.4} {:>17} {error:>16} {noise:>8}",
            row.policy,
            row.metric.label(),
            row.runs,
            row.measured,
            row.predicted,
            interval(row.interval),
        );
    }
    _ = writeln!(
        text,
        "\nmedian error {}, allowed {}; worst {}, allowed {}: {}",
        percent(comparison.median),
        percent(comparison.bound.median),
        percent(comparison.worst),
        percent(comparison.bound.worst),
        if comparison.holds {
            "holds"
        } else {
            "does not hold"
        }
    );
    if let (inside, all @ 1..) = comparison.inside {
        _ = writeln!(
            text,
            "{inside} of {all} measured values lie within the 95 % interval of their prediction"
        );
    }
    causes(&mut text, &comparison.rows);
    _ = writeln!(
        text,
        "\nTime of stages ÷ their cost alone. Live and alone: 1 where the cost is right; beside others: the slowdown.\n{:10} {:14} {:>6} {:>6} {:>8} {:>6} {:>6} {:>9}",
        "engine", "stage", "alone", "live", "", "beside", "live", "predicted"
    );
    for row in live {
        let same = simulated
            .iter()
            .find(|other| (&other.engine, &other.stage) == (&row.engine, &row.stage));
        _ = writeln!(
            text,
            "{:10} {:14} {:>6} {:>6} {:>8} {:>6} {:>6} {:>9}",
            row.engine,
            row.stage,
            row.solo,
            ratio(row.solo_ratio),
            "",
            row.shared,
            ratio(row.shared_ratio),
            ratio(same.and_then(|same| same.shared_ratio)),
        );
    }
    _ = writeln!(
        text,
        "\nThe driver handled arrivals and ends {:.3} ms late on average.",
        1e3 * late_s
    );
    text
}

fn causes(text: &mut String, rows: &[Row]) {
    if rows.iter().all(|row| row.causes.is_none()) {
        return;
    }
    _ = writeln!(
        text,
        "\nWhere errors come from, % of what was measured; they add up to the error. The rest is noise, and what the model lacks.\n{:20} {:18} {:>7} {:>10} {:>8} {:>10} {:>6} {:>6}",
        "policy", "metric", "error", "stage cost", "transfer", "contention", "delay", "rest"
    );
    for row in rows {
        let Some(causes) = row.causes else { continue };
        let part = |value: f64| format!("{:+.1}", 100.0 * value);
        _ = writeln!(
            text,
            "{:20} {:18} {:>7} {:>10} {:>8} {:>10} {:>6} {:>6}",
            row.policy,
            row.metric.label(),
            part(row.error),
            part(causes.stage_cost),
            part(causes.transfer),
            part(causes.contention),
            part(causes.delay),
            part(causes.rest),
        );
    }
}

/// Predictions, before there are live runs.
pub fn predictions(predictions: &Predictions) -> String {
    let mut text = format!(
        "{:20} {:18} {:>9} {:>17}\n",
        "policy", "metric", "predicted", "95 %"
    );
    for row in &predictions.rows {
        _ = writeln!(
            text,
            "{:20} {:18} {:>9.4} {:>17}",
            row.policy,
            row.metric.label(),
            row.value,
            interval(Some((row.low, row.high))),
        );
    }
    text
}

fn interval(ends: Option<(f64, f64)>) -> String {
    ends.map_or_else(String::new, |(low, high)| format!("{low:.4}–{high:.4}"))
}

fn percent(value: f64) -> String {
    format!("{:.1} %", 100.0 * value)
}

fn ratio(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.3}"))
}
