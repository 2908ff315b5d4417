//! Which differences between policies are real: Student's t on pairs, corrected for many comparisons.

use crate::interval::{Estimate, Replicated};
use crate::metric::Metric;

/// Chance, over all policies that a metric is compared for, of calling any difference real that is none.
pub const FAMILY_ERROR: f64 = 0.05;

/// A policy's difference to the reference in one metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// Its mean over replications, with the 95 % interval of this difference alone.
    pub estimate: Estimate,
    /// Its probability without any effect after Holm's correction over the policies compared; `None`
    /// without an interval or without a steady value.
    pub p_holm: Option<f64>,
}

impl Difference {
    /// Whether a difference is shown; `None` where nothing can be said.
    pub fn shown(&self) -> Option<bool> {
        self.p_holm.map(|p| p < FAMILY_ERROR)
    }
}

/// Differences in `metric` of all policies but the first to the first; `None` where either lacks it.
pub fn differences(metric: &Metric, policies: &[(String, Replicated)]) -> Vec<Option<Difference>> {
    let Some(((_, first), others)) = policies.split_first() else {
        return Vec::new();
    };
    let estimates: Vec<_> = others
        .iter()
        .map(|(_, runs)| runs.difference(first, metric.get))
        .collect();
    let tested: Vec<_> = others
        .iter()
        .zip(&estimates)
        .map(|((_, runs), estimate)| {
            let comparable = !metric.steady_only || runs.steady() && first.steady();
            estimate.filter(|_| comparable)?.p_value()
        })
        .collect();
    estimates
        .into_iter()
        .zip(holm(&tested))
        .map(|(estimate, p_holm)| {
            Some(Difference {
                estimate: estimate?,
                p_holm,
            })
        })
        .collect()
}

/// Holm's step-down correction (Holm 1979): adjusted probabilities, in the given order. What was not
/// tested stays so and does not count.
pub fn holm(probabilities: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut order: Vec<(f64, usize)> = probabilities
        .iter()
        .enumerate()
        .filter_map(|(at, p)| Some(((*p)?, at)))
        .collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut adjusted = vec![None; probabilities.len()];
    let (count, mut least) = (order.len(), 0.0_f64);
    for (rank, (p, at)) in order.into_iter().enumerate() {
        least = least.max((p * (count - rank) as f64).min(1.0));
        adjusted[at] = Some(least);
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holm_as_in_a_worked_example() {
        // R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm") = 0.03 0.06 0.06 0.02
        let list = [Some(0.01), None, Some(0.04), Some(0.03), Some(0.005)];
        let got = holm(&list);
        let want = [Some(0.03), None, Some(0.06), Some(0.06), Some(0.02)];
        for (got, want) in got.iter().zip(want) {
            match (got, want) {
                (Some(got), Some(want)) => assert!((got - want).abs() < 1e-12, "{got} {want}"),
                (got, want) => assert_eq!(*got, want),
            }
        }
    }

    #[test]
    fn no_probability_falls_and_none_passes_one() {
        let list: Vec<_> = (0..20)
            .map(|k| Some(f64::from((k * 7) % 20) / 20.0))
            .collect();
        for (raw, adjusted) in list.iter().zip(holm(&list)) {
            assert!(raw <= &adjusted && adjusted <= Some(1.0));
        }
        assert_eq!(holm(&[None, None]), [None, None]);
    }
}
