//! Lengths of prompts and answers: draws and means.

use super::plan::LengthPlan;
use crate::rng::{Generator, Purpose, key, name_key};

/// A [`LengthPlan`] ready to be drawn from, with its own generator.
#[derive(Clone, Debug)]
pub(super) struct Lengths {
    shape: Shape,
    name: u64,
    rng: Generator,
}

#[derive(Clone, Debug)]
enum Shape {
    Fixed(u32),
    Uniform { low: u32, count: u64 },
    LogNormal { mu: f64, sigma: f64 },
    Geometric { per_log: f64 },
    Empirical(Box<[u32]>),
    Listed(Box<[u32]>),
}

impl Lengths {
    pub(super) fn new(plan: &LengthPlan, stream: &str, purpose: Purpose) -> Self {
        let shape = match plan {
            LengthPlan::Fixed(tokens) => Shape::Fixed(*tokens),
            LengthPlan::Uniform(low, high) => Shape::Uniform {
                low: *low,
                count: u64::from(high.saturating_sub(*low)) + 1,
            },
            LengthPlan::LogNormal { mean, cv } => {
                let (mu, sigma) = log_normal(*mean, *cv);
                Shape::LogNormal { mu, sigma }
            }
            LengthPlan::Geometric { mean } => Shape::Geometric {
                per_log: 1.0 / libm::log1p(-1.0 / mean.max(1.0)),
            },
            LengthPlan::Empirical(tokens) => Shape::Empirical(tokens.as_slice().into()),
            LengthPlan::Listed(tokens) => Shape::Listed(tokens.as_slice().into()),
        };
        Self {
            shape,
            name: name_key(stream, purpose),
            rng: Generator::from_key(0),
        }
    }

    /// Starts the run with this root.
    #[inline]
    pub(super) fn reset(&mut self, root: u64) {
        if !matches!(self.shape, Shape::Fixed(_) | Shape::Listed(_)) {
            self.rng = Generator::from_key(key(root, self.name));
        }
    }

    /// The length of request number `index`, tokens. Draws are at least 1; fixed and listed lengths
    /// are as given.
    #[inline]
    pub(super) fn draw(&mut self, index: u64) -> u32 {
        match &self.shape {
            Shape::Fixed(tokens) => *tokens,
            Shape::Uniform { low, count } => (low + self.rng.below(*count) as u32).max(1),
            Shape::LogNormal { mu, sigma } => whole(libm::exp(mu + sigma * self.rng.normal())),
            // Number of trials up to the first success: 1 + ⌊ln u ÷ ln(1 − p)⌋.
            Shape::Geometric { per_log } => {
                ((-self.rng.exponential() * per_log) as u32).saturating_add(1)
            }
            Shape::Empirical(tokens) => {
                let at = self.rng.below(tokens.len() as u64) as usize;
                tokens.get(at).map_or(1, |&tokens| tokens.max(1))
            }
            Shape::Listed(tokens) => tokens.get(index as usize).copied().unwrap_or(1),
        }
    }
}

/// Logarithmic mean and standard deviation of the log-normal with this mean and coefficient of
/// variation.
pub(super) fn log_normal(mean: f64, cv: f64) -> (f64, f64) {
    let variance = libm::log1p(cv * cv);
    (libm::log(mean) - 0.5 * variance, libm::sqrt(variance))
}

/// To the nearest whole number of tokens, at least 1.
#[inline]
pub(super) fn whole(tokens: f64) -> u32 {
    ((tokens + 0.5) as u32).max(1)
}

/// How many requests have a length of their own: the list's length, else no limit.
pub(super) fn length_limit(plan: &LengthPlan) -> u64 {
    match plan {
        LengthPlan::Listed(tokens) => tokens.len() as u64,
        _ => u64::MAX,
    }
}

/// Mean length, tokens, uncut. Log-normal draws are rounded to whole tokens of at least 1, which is
/// left out here: it matters only for means of a few tokens.
pub fn mean_length(plan: &LengthPlan) -> f64 {
    match plan {
        LengthPlan::Fixed(tokens) => f64::from(*tokens),
        LengthPlan::Uniform(low, high) => mean_of_range(*low, *high, u32::MAX),
        LengthPlan::LogNormal { mean, .. } => *mean,
        LengthPlan::Geometric { mean } => mean.max(1.0),
        LengthPlan::Empirical(tokens) => mean_of_list(tokens, u32::MAX, 1),
        LengthPlan::Listed(tokens) => mean_of_list(tokens, u32::MAX, 0),
    }
}

/// Mean of the answers that are played, tokens: draws cut to `output_max`, at least 1. This is what a
/// policy that predicts by the mean believes of each answer (rounded to whole tokens); for listed
/// lengths it is the whole list's mean. As in [`mean_length`], the rounding of log-normal draws is
/// left out.
pub fn mean_output(plan: &LengthPlan, output_max: u32) -> f64 {
    let max = output_max.max(1);
    let mean = match plan {
        LengthPlan::Fixed(tokens) => f64::from((*tokens).min(max)),
        LengthPlan::Uniform(low, high) => mean_of_range(*low, *high, max),
        LengthPlan::LogNormal { mean, cv } => {
            let cut = f64::from(max);
            let (mu, sigma) = log_normal(*mean, *cv);
            if sigma > 0.0 {
                // E min(X, c) = E X·P'(X < c) + c·P(X > c), P' being P tilted by X.
                let z = (libm::log(cut) - mu) / sigma;
                mean * normal_cdf(z - sigma) + cut * normal_cdf(-z)
            } else {
                mean.min(cut)
            }
        }
        LengthPlan::Geometric { mean } => {
            let mean = mean.max(1.0);
            // E min(X, c) = (1 − (1 − p)^c) ÷ p.
            mean * -libm::expm1(f64::from(max) * libm::log1p(-1.0 / mean))
        }
        LengthPlan::Empirical(tokens) | LengthPlan::Listed(tokens) => mean_of_list(tokens, max, 1),
    };
    mean.max(1.0)
}

/// Probability below `x` of a standard normal.
fn normal_cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
}

/// Mean of the whole numbers from `low` to `high`, raised to 1 and cut to `max`.
fn mean_of_range(low: u32, high: u32, max: u32) -> f64 {
    let count = f64::from(high.saturating_sub(low)) + 1.0;
    let zero = if low == 0 { 1.0 } else { 0.0 };
    if high <= max {
        return f64::midpoint(f64::from(low), f64::from(high)) + zero / count;
    }
    if low >= max {
        return f64::from(max);
    }
    let below = f64::from(max - low);
    let beyond = f64::from(high - max) + 1.0;
    let sum = below * f64::midpoint(f64::from(low), f64::from(max - 1)) + zero;
    (sum + beyond * f64::from(max)) / count
}

/// Mean of a list whose entries are raised to `min` and cut to `max`; 0 if it is empty.
fn mean_of_list(tokens: &[u32], max: u32, min: u32) -> f64 {
    let sum: f64 = tokens
        .iter()
        .map(|&tokens| f64::from(tokens.clamp(min, max)))
        .sum();
    sum / (tokens.len().max(1) as f64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plan() -> impl Strategy<Value = LengthPlan> {
        let tokens = || prop::collection::vec(0..300_u32, 1..20);
        prop_oneof![
            (0..300_u32).prop_map(LengthPlan::Fixed),
            (0..300_u32, 0..300_u32).prop_map(|(a, b)| LengthPlan::Uniform(a.min(b), a.max(b))),
            (20.0..300.0_f64, 0.0..2.0_f64)
                .prop_map(|(mean, cv)| LengthPlan::LogNormal { mean, cv }),
            (1.0..300.0_f64).prop_map(|mean| LengthPlan::Geometric { mean }),
            tokens().prop_map(LengthPlan::Empirical),
            tokens().prop_map(LengthPlan::Listed),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        /// The stated mean of cut answers is that of the draws, within 5 standard errors.
        #[test]
        fn means_are_those_of_the_draws(plan in plan(), max in 1..300_u32, seed: u64) {
            let count = match &plan {
                LengthPlan::Listed(tokens) => tokens.len() as u64,
                _ => 20_000,
            };
            let mut lengths = Lengths::new(&plan, "s", Purpose::OutputLength);
            lengths.reset(seed);
            let draws: Vec<f64> = (0..count)
                .map(|index| f64::from(lengths.draw(index).clamp(1, max)))
                .collect();
            let n = count as f64;
            let mean = draws.iter().sum::<f64>() / n;
            let variance = draws.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
            // Rounding log-normal draws may shift their mean by a small part of a token.
            let slack = if matches!(plan, LengthPlan::LogNormal { .. }) { 0.6 } else { 1e-3 };
            let stated = mean_output(&plan, max);
            prop_assert!(
                (mean - stated).abs() <= 5.0 * (variance / n).sqrt() + slack,
                "drawn {mean}, stated {stated}"
            );
            prop_assert!(mean_output(&plan, u32::MAX) >= mean_length(&plan) - 1e-6);
        }

        #[test]
        fn draws_are_at_least_one_and_within_the_range(
            low in 0..50_u32, span in 0..50_u32, seed: u64,
        ) {
            let plan = LengthPlan::Uniform(low, low + span);
            let mut lengths = Lengths::new(&plan, "s", Purpose::PromptLength);
            lengths.reset(seed);
            for index in 0..100 {
                let tokens = lengths.draw(index);
                prop_assert!(tokens >= low.max(1) && tokens <= (low + span).max(1));
            }
        }
    }
}
