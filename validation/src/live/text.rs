//! The comparison and the quality of a calibration, for people.

use std::fmt::Write as _;

use screen::{Head, Table, paragraph};

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
    /// How many more were stalls, and the longest of them, s.
    pub stalled: (usize, f64),
    /// Spread of samples of one point.
    pub cv: f64,
    /// Worst relative error of the form.
    pub worst: f64,
    /// Worst relative error of a point that was left out of the fit.
    pub left_out: Option<f64>,
    /// Time of the first run in a process ÷ the form's.
    pub cold: Option<f64>,
    /// Time of samples taken after the fit ÷ the form's, and what the form was multiplied by for it.
    pub now: Option<(f64, f64)>,
}

/// Columns of words, then of numbers.
fn heads<const W: usize, const N: usize>(words: [&str; W], numbers: [&str; N]) -> Table {
    let words = words.into_iter().map(Head::text);
    Table::new(words.chain(numbers.into_iter().map(Head::number)))
}

/// A table of fits.
pub fn quality(rows: &[QualityRow]) -> String {
    let mut numbers = vec![
        "points",
        "samples",
        "spread",
        "fit worst",
        "left out",
        "first",
    ];
    let refreshed = rows.iter().any(|row| row.now.is_some());
    if refreshed {
        numbers.extend(["now", "factor"]);
    }
    let words = ["engine", "stage"].map(Head::text).into_iter();
    let mut table = Table::new(words.chain(numbers.into_iter().map(Head::number)));
    for row in rows {
        let mut cells = vec![
            row.engine.clone(),
            row.stage.clone(),
            row.points.to_string(),
            row.samples.to_string(),
            percent(row.cv),
            percent(row.worst),
            row.left_out.map_or_else(String::new, percent),
            ratio(row.cold),
        ];
        if refreshed {
            cells.extend([row.now.map(|now| now.0), row.now.map(|now| now.1)].map(ratio));
        }
        table.row(cells);
    }
    let mut text = table.to_string();
    for row in rows.iter().filter(|row| row.stalled.0 > 0) {
        let (count, longest_s) = row.stalled;
        let says = format!(
            "{count} more of {} {} stalled, by {longest_s:.3} s at most: the machine paused. They are in the interval, not in cost and spread.",
            row.engine, row.stage
        );
        paragraph(&mut text, &says);
    }
    text
}

/// Samples that no fit used, measured beside predicted; empty of none.
pub fn checks(rows: &[Check]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut table = heads([""], ["measured", "predicted", "error", "noise"]);
    for row in rows {
        table.row([
            row.what.clone(),
            format!("{:.3}", row.measured),
            format!("{:.3}", row.predicted),
            format!("{:+.1} %", 100.0 * (row.predicted / row.measured - 1.0)),
            row.noise
                .map_or_else(String::new, |noise| format!("± {:.1} %", 100.0 * noise)),
        ]);
    }
    format!("\nSamples that no fit used:\n{table}")
}

/// The comparison; `late_s` is how late the driver handled things, on average.
pub fn comparison(
    comparison: &Comparison,
    live: &[StageRow],
    simulated: &[StageRow],
    late_s: f64,
) -> String {
    let mut table = heads(
        ["policy", "metric"],
        ["runs", "measured", "predicted", "95 %", "error", "noise"],
    );
    for row in &comparison.rows {
        let half = row
            .error_half_width
            .map_or_else(String::new, |half| format!(" ± {:.1}", 100.0 * half));
        let noise = row.noise;
        table.row([
            row.policy.clone(),
            row.metric.label().to_owned(),
            row.runs.to_string(),
            format!("{:.4}", row.measured),
            format!("{:.4}", row.predicted),
            interval(row.interval),
            format!("{:+.1}{half} %", 100.0 * row.error),
            noise.map_or_else(String::new, |noise| format!("± {}", percent(noise))),
        ]);
    }
    let mut text = format!("{table}\n");
    let verdict = format!(
        "median error {}, allowed {}; worst {}, allowed {}: {}",
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
    paragraph(&mut text, &verdict);
    if let (inside, all @ 1..) = comparison.inside {
        let inside = format!(
            "{inside} of {all} measured values lie within the 95 % interval of their prediction"
        );
        paragraph(&mut text, &inside);
    }
    causes(&mut text, &comparison.rows);
    text.push('\n');
    paragraph(
        &mut text,
        "Time of stages ÷ their cost alone. Live and alone: 1 where the cost is right; beside others: the \
         slowdown.",
    );
    let mut table = heads(
        ["engine", "stage"],
        [
            "alone\nstages",
            "alone\nlive",
            "beside\nstages",
            "beside\nlive",
            "beside\npredicted",
        ],
    );
    for row in live {
        let same = simulated
            .iter()
            .find(|other| (&other.engine, &other.stage) == (&row.engine, &row.stage));
        table.row([
            row.engine.clone(),
            row.stage.clone(),
            row.solo.to_string(),
            ratio(row.solo_ratio),
            row.shared.to_string(),
            ratio(row.shared_ratio),
            ratio(same.and_then(|same| same.shared_ratio)),
        ]);
    }
    _ = write!(
        text,
        "{table}\nThe driver handled arrivals and ends {:.3} ms late on average.\n",
        1e3 * late_s
    );
    text
}

fn causes(text: &mut String, rows: &[Row]) {
    if rows.iter().all(|row| row.causes.is_none()) {
        return;
    }
    text.push('\n');
    paragraph(
        text,
        "Where errors come from, % of what was measured; they add up to the error. The rest is noise, and what \
         the model lacks.",
    );
    let mut table = heads(
        ["policy", "metric"],
        [
            "error",
            "stage cost",
            "transfer",
            "contention",
            "delay",
            "rest",
        ],
    );
    for row in rows {
        let Some(causes) = row.causes else { continue };
        let part = |value: f64| format!("{:+.1}", 100.0 * value);
        table.row([
            row.policy.clone(),
            row.metric.label().to_owned(),
            part(row.error),
            part(causes.stage_cost),
            part(causes.transfer),
            part(causes.contention),
            part(causes.delay),
            part(causes.rest),
        ]);
    }
    _ = write!(text, "{table}");
}

/// Predictions, before there are live runs.
pub fn predictions(predictions: &Predictions) -> String {
    let mut table = heads(["policy", "metric"], ["predicted", "95 %"]);
    for row in &predictions.rows {
        table.row([
            row.policy.clone(),
            row.metric.label().to_owned(),
            format!("{:.4}", row.value),
            interval(Some((row.low, row.high))),
        ]);
    }
    table.to_string()
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
