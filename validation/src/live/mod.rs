//! Live runs against simulated ones: the error of each prediction, and where it comes from.
//!
//! A live run and the simulated ones of the same replication meet the same arrivals and lengths, so they are
//! compared in pairs. A metric's measured value is its mean over live runs, its prediction the mean of what is
//! [`expected`] of them; the interval of the error is that of their ratio. A replication may be
//! played several times: how much those scatter, which no model explains, is given beside the error as its
//! noise. [`Predictions`] are made without a live run, with intervals. [`steps`] tells where an error comes
//! from.

mod cause;
mod document;
mod prediction;
mod script;
mod stages;
pub mod text;

use serde::{Deserialize, Serialize};
use sim::metrics::Summary;
use statrs::distribution::{ContinuousCDF, StudentsT};

pub use cause::{Causes, Steps, steps};
pub use document::{Check, Document, Elsewhere, Played, Ran};
pub use prediction::{Predicted, Predictions, Values, expected};
pub use script::{Stale, same_script};
pub use stages::{StageRow, StageTimes};

/// A live run, and what was expected of its replication.
#[derive(Clone, Debug)]
pub struct Pair {
    /// Policy, as people write it.
    pub policy: String,
    /// The replication; several pairs of one are repeats.
    pub run: u32,
    /// Metrics of the live run.
    pub live: Summary,
    /// What was expected of it.
    pub expected: Values,
}

/// A metric that predictions are held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Answers per second.
    Throughput,
    /// Mean time to first token, s.
    Ttft,
    /// 95th percentile of the time to first token, s.
    TtftP95,
    /// Mean completion time, s.
    Completion,
}

impl Metric {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Throughput,
        Self::Ttft,
        Self::TtftP95,
        Self::Completion,
    ];

    /// Name and unit, for people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Throughput => "throughput /s",
            Self::Ttft => "mean TTFT s",
            Self::TtftP95 => "p95 TTFT s",
            Self::Completion => "mean completion s",
        }
    }

    fn of(self, summary: &Summary) -> Option<f64> {
        match self {
            Self::Throughput => summary.throughput_rps,
            Self::Ttft => summary.ttft_s.mean,
            Self::TtftP95 => summary.ttft_s.p95,
            Self::Completion => summary.completion_s.mean,
        }
    }

    /// All of them, of a run.
    pub fn values(summary: &Summary) -> Values {
        Values(Self::ALL.map(|metric| metric.of(summary)))
    }
}

/// One metric under one policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Policy.
    pub policy: String,
    /// Metric.
    pub metric: Metric,
    /// Live runs, repeats included.
    pub runs: usize,
    /// Mean of the live runs.
    pub measured: f64,
    /// Mean of what was expected of them.
    pub predicted: f64,
    /// 95 % interval of the prediction: spread of stage times, and what the profile does not know.
    #[serde(default)]
    pub interval: Option<(f64, f64)>,
    /// (predicted − measured) ÷ measured.
    pub error: f64,
    /// Half the 95 % interval of the error, as a ratio of means; absent for one run.
    pub error_half_width: Option<f64>,
    /// Standard deviation of repeats of one replication about their mean, pooled, ÷ measured; absent without
    /// repeats.
    pub repeat_cv: Option<f64>,
    /// Half the 95 % interval of the measured mean that this scatter alone leaves, ÷ measured: an error
    /// within it is not the model's.
    pub noise: Option<f64>,
    /// Where the error comes from, as far as was asked.
    pub causes: Option<Causes>,
}

/// How far predictions may be off.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// Greatest median of the absolute errors.
    pub median: f64,
    /// Greatest absolute error.
    pub worst: f64,
}

impl Default for Bound {
    /// 5 % and 12 %.
    fn default() -> Self {
        Self {
            median: 0.05,
            worst: 0.12,
        }
    }
}

/// The comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// By policy, in the order of their first pair, then metric.
    pub rows: Vec<Row>,
    /// Median of the absolute errors.
    pub median: f64,
    /// Greatest absolute error.
    pub worst: f64,
    /// Rows whose measured value lies within the prediction's interval, and rows that have one.
    #[serde(default)]
    pub inside: (usize, usize),
    /// What was allowed.
    pub bound: Bound,
    /// Whether both are within the bound, and there is anything to judge.
    pub holds: bool,
}

/// Compares pairs, in any order. Runs of a policy in which a metric does not exist are left out of its row,
/// which counts those that are in it.
pub fn compare(pairs: &[Pair], bound: Bound) -> Comparison {
    let mut policies: Vec<&str> = Vec::new();
    for pair in pairs {
        if !policies.contains(&pair.policy.as_str()) {
            policies.push(&pair.policy);
        }
    }
    let rows: Vec<Row> = policies
        .iter()
        .flat_map(|policy| {
            Metric::ALL
                .into_iter()
                .filter_map(|metric| row(pairs, policy, metric))
        })
        .collect();
    let (median, worst) = judged(&rows);
    Comparison {
        rows,
        median,
        worst,
        inside: (0, 0),
        bound,
        holds: median <= bound.median && worst <= bound.worst,
    }
}

/// Median and greatest of the absolute errors; no numbers of no rows.
fn judged(rows: &[Row]) -> (f64, f64) {
    let mut errors: Vec<f64> = rows.iter().map(|row| row.error.abs()).collect();
    errors.sort_by(f64::total_cmp);
    let middle = errors.len() / 2;
    let median = match errors.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => errors[middle],
        _ => 0.5 * (errors[middle - 1] + errors[middle]),
    };
    (median, errors.last().copied().unwrap_or(f64::NAN))
}

impl Comparison {
    /// Takes over the intervals of predictions.
    pub fn with_intervals(&mut self, predictions: &Predictions) {
        self.inside = (0, 0);
        for row in &mut self.rows {
            let predicted = predictions.row(&row.policy, row.metric);
            row.interval = predicted.map(|predicted| (predicted.low, predicted.high));
            if let Some((low, high)) = row.interval {
                self.inside.0 += usize::from((low..=high).contains(&row.measured));
                self.inside.1 += 1;
            }
        }
    }
}

fn row(pairs: &[Pair], policy: &str, metric: Metric) -> Option<Row> {
    let values: Vec<(u32, f64, f64)> = pairs
        .iter()
        .filter(|pair| pair.policy == policy)
        .filter_map(|pair| Some((pair.run, metric.of(&pair.live)?, pair.expected.of(metric)?)))
        .collect();
    let count = values.len() as f64;
    let measured = values.iter().map(|(_, live, _)| live).sum::<f64>() / count;
    let predicted = values.iter().map(|(.., simulated)| simulated).sum::<f64>() / count;
    if values.is_empty() || measured <= 0.0 {
        return None;
    }
    // Of a ratio of means: what a pair lies off it, not off the mean difference (Cochran 1977, 6.3).
    let ratio = predicted / measured;
    let differences = values
        .iter()
        .map(|(_, live, simulated)| (simulated - ratio * live) / measured);
    let repeats = repeats(&values);
    let t = quantile(values.len());
    Some(Row {
        policy: policy.to_owned(),
        metric,
        runs: values.len(),
        measured,
        predicted,
        interval: None,
        error: (predicted - measured) / measured,
        error_half_width: deviation(differences)
            .zip(t)
            .map(|((_, deviation), t)| t * deviation / count.sqrt()),
        repeat_cv: repeats.map(|(deviation, _)| deviation / measured),
        noise: repeats.and_then(|(deviation, freedom)| {
            Some(quantile(freedom + 1)? * deviation / count.sqrt() / measured)
        }),
        causes: None,
    })
}

/// Pooled standard deviation of repeats of one replication, and its degrees of freedom.
fn repeats(values: &[(u32, f64, f64)]) -> Option<(f64, usize)> {
    let mut runs: Vec<u32> = values.iter().map(|(run, ..)| *run).collect();
    runs.sort_unstable();
    runs.dedup();
    let (mut square, mut freedom) = (0.0, 0);
    for run in runs {
        let of = values.iter().filter(|(other, ..)| *other == run);
        let live: Vec<f64> = of.map(|(_, live, _)| *live).collect();
        let mean = live.iter().sum::<f64>() / live.len() as f64;
        square += live.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        freedom += live.len() - 1;
    }
    (freedom > 0).then(|| ((square / freedom as f64).sqrt(), freedom))
}

/// Mean and standard deviation; `None` of fewer than two.
fn deviation(values: impl Iterator<Item = f64> + Clone) -> Option<(f64, f64)> {
    let count = values.clone().count() as f64;
    if count < 2.0 {
        return None;
    }
    let mean = values.clone().sum::<f64>() / count;
    let square: f64 = values.map(|value| (value - mean).powi(2)).sum();
    Some((mean, (square / (count - 1.0)).sqrt()))
}

/// Two-sided 95 % quantile of Student's t for so many values.
fn quantile(count: usize) -> Option<f64> {
    let freedom = count.checked_sub(1).filter(|&freedom| freedom > 0)?;
    let distribution = StudentsT::new(0.0, 1.0, freedom as f64).ok()?;
    Some(distribution.inverse_cdf(0.975))
}

#[cfg(test)]
mod tests {
    use sim::metrics::Latency;

    use super::*;

    fn pair(policy: &str, run: u32, live: [f64; 3], simulated: [f64; 3]) -> Pair {
        let summary = |[throughput_rps, ttft, completion]: [f64; 3]| {
            let latency = |mean| Latency {
                count: 1,
                mean: Some(mean),
                ..Latency::default()
            };
            Summary {
                throughput_rps: Some(throughput_rps),
                ttft_s: latency(ttft),
                completion_s: latency(completion),
                ..Summary::default()
            }
        };
        Pair {
            policy: policy.to_owned(),
            run,
            live: summary(live),
            expected: Metric::values(&summary(simulated)),
        }
    }

    #[test]
    fn errors_are_relative_to_what_was_measured() {
        let pairs = [
            pair("a", 0, [1.0, 2.0, 4.0], [1.1, 2.0, 3.0]),
            pair("b", 0, [1.0, 2.0, 4.0], [1.0, 2.0, 4.0]),
            pair("a", 1, [3.0, 2.0, 4.0], [3.1, 2.0, 5.0]),
        ];
        let comparison = compare(&pairs, Bound::default());
        assert_eq!(comparison.rows.len(), 6);
        let throughput = &comparison.rows[0];
        assert_eq!((throughput.policy.as_str(), throughput.runs), ("a", 2));
        assert!((throughput.measured - 2.0).abs() < 1e-12);
        assert!((throughput.error - 0.05).abs() < 1e-12, "{throughput:?}");
        // 1.1 and 3.1 lie 0.05 off 1.05 times 1 and 3, of a mean of 2; t(1, 0.975) = 12.7062.
        let half = 12.7062 * (2.0_f64 * 0.025 * 0.025).sqrt() / 2.0_f64.sqrt();
        let found = throughput.error_half_width.expect("two pairs");
        assert!((found - half).abs() < 1e-5, "{found}");
        let completion = &comparison.rows[2];
        assert!(completion.error.abs() < 1e-12);
        // Differences of −1/4 and +1/4: t is 12.7 for one degree of freedom.
        let half = completion.error_half_width.unwrap_or(0.0);
        assert!((half - 12.706 * 0.25).abs() < 1e-2, "{half}");
        assert_eq!(comparison.rows[3].error_half_width, None);
        assert!((comparison.worst - 0.05).abs() < 1e-12);
        assert!(comparison.holds);
        let strict = Bound {
            median: 0.05,
            worst: 0.04,
        };
        assert!(!compare(&pairs, strict).holds);
    }

    #[test]
    fn noise_is_what_repeats_of_one_replication_scatter() {
        // Replications differ by 10, repeats by 0.2: a standard deviation of √(4 · 0.1² ÷ 2).
        let pairs = [
            pair("a", 0, [9.9, 1.0, 1.0], [10.0, 1.0, 1.0]),
            pair("a", 1, [20.1, 1.0, 1.0], [20.0, 1.0, 1.0]),
            pair("a", 0, [10.1, 1.0, 1.0], [10.0, 1.0, 1.0]),
            pair("a", 1, [19.9, 1.0, 1.0], [20.0, 1.0, 1.0]),
        ];
        let comparison = compare(&pairs, Bound::default());
        let row = &comparison.rows[0];
        let cv = 0.02_f64.sqrt() / 15.0;
        assert!((row.repeat_cv.unwrap_or(0.0) - cv).abs() < 1e-12, "{row:?}");
        // t of two degrees of freedom is 4.303.
        let half = 4.3027 * cv / 2.0;
        assert!(
            (row.noise.unwrap_or(0.0) / half - 1.0).abs() < 1e-3,
            "{row:?}"
        );
        assert_eq!(compare(&pairs[..2], Bound::default()).rows[0].noise, None);
    }

    #[test]
    fn nothing_compared_does_not_hold() {
        assert!(!compare(&[], Bound::default()).holds);
    }
}
