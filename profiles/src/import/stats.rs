//! Spread, drift and cold starts of repeated measurements.

/// A drift over repeats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// Mean of the first third, s.
    pub first: f64,
    /// Mean of the last third, s.
    pub last: f64,
    /// Standard score of Kendall's rank statistic, signed: above 0 the times rise.
    pub score: f64,
}

/// Samples beyond which the test looks at evenly spread ones only: it compares pairs.
const TESTED_MAX: usize = 400;

/// Whether the samples, in their order of time, drift: Mann and Kendall's test at one-sided 5 %, and a change
/// of 5 % and more between the first and the last third, which noise of few samples does not pass.
pub fn trend(samples: &[f64]) -> Option<Trend> {
    let step = samples.len().div_ceil(TESTED_MAX).max(1);
    let tested: Vec<f64> = samples.iter().copied().step_by(step).collect();
    let n = tested.len();
    if n < 4 {
        return None;
    }
    let mut s = 0.0;
    for (i, a) in tested.iter().enumerate() {
        for b in &tested[i + 1..] {
            s += if b > a {
                1.0
            } else if b < a {
                -1.0
            } else {
                0.0
            };
        }
    }
    let count = n as f64;
    let variance = count * (count - 1.0) * (2.0 * count + 5.0) / 18.0;
    // Less one: the statistic moves in steps of two.
    let score = f64::signum(s) * (f64::abs(s) - 1.0).max(0.0) / variance.sqrt();
    let third = (samples.len() / 3).max(1);
    let first = mean(&samples[..third]);
    let last = mean(&samples[samples.len() - third..]);
    let drifts = score.abs() > 1.645 && (last / first - 1.0).abs() > 0.05;
    drifts.then_some(Trend { first, last, score })
}

/// Arithmetic mean; of nothing, 0.
pub(crate) fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len().max(1) as f64
}

/// The most that the standard deviation of five numbers above 0 may be of their mean: that of one beside four of next
/// to nothing, √5.
const SCATTER: f64 = 2.236;

/// Standard deviation ÷ mean, as a table states them; llama-bench repeats five times unless it is told otherwise.
///
/// # Errors
///
/// Where no five repeats scatter so.
pub(crate) fn stated_cv(deviation: f64, mean: f64) -> Result<f64, String> {
    let cv = deviation / mean;
    if (0.0..=SCATTER).contains(&cv) {
        Ok(cv)
    } else if cv < 0.0 {
        Err(format!("a deviation of {deviation} is less than nothing"))
    } else {
        Err(format!(
            "a deviation of {deviation} is {cv:.3} times the rate: five repeats of a rate scatter by {SCATTER} times their mean at most"
        ))
    }
}

/// Sample standard deviation ÷ mean; of fewer than two, `None`.
pub(crate) fn cv(samples: &[f64]) -> Option<f64> {
    if samples.len() < 2 {
        return None;
    }
    let mean = mean(samples);
    let squares: f64 = samples.iter().map(|x| (x - mean) * (x - mean)).sum();
    Some((squares / (samples.len() - 1) as f64).sqrt() / mean)
}

/// The sample that a share `q` of all do not exceed (nearest rank).
pub(crate) fn quantile(samples: &[f64], q: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (q * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank - 1).copied().unwrap_or(0.0)
}

/// Whether the first sample is a cold start: more than 1.5 times every one of at least two later ones. Spread
/// falls on any sample, compilation and first touch on the first.
pub(crate) fn cold(samples: &[f64]) -> bool {
    match samples {
        [first, rest @ ..] if rest.len() >= 2 => rest.iter().all(|x| *first > 1.5 * x),
        _ => false,
    }
}
