//! How many replications an asked precision takes.
//!
//! Sequential, as in Law's textbook ("Simulation Modeling and Analysis", 9.4.1): run, look at the relative
//! half-widths, run as many more as the widest needs at a spread that stays. All policies have equally many,
//! so that they stay pairs.

use reports::interval::Replicated;
use reports::metric::{COMPLETION, Metric, THROUGHPUT, TTFT_MEAN};

/// What must be known so well, where it has a steady value.
const OF: [Metric; 3] = [THROUGHPUT, TTFT_MEAN, COMPLETION];

/// The widest interval of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Widest {
    /// Half-width ÷ mean.
    pub relative: f64,
    /// Policy and metric.
    pub of: (String, &'static str),
}

/// The widest relative 95 % interval of answers/s, mean TTFT and mean completion over all policies;
/// latencies only where they are steady. `None`: nothing has an interval.
pub fn widest(policies: &[(String, Replicated)]) -> Option<Widest> {
    let mut widest: Option<Widest> = None;
    for (name, runs) in policies {
        let steady = runs.steady();
        for metric in OF.iter().filter(|metric| steady || !metric.steady_only) {
            let Some(estimate) = runs.estimate(metric.get) else {
                continue;
            };
            let Some(half) = estimate.half_width.filter(|_| estimate.mean != 0.0) else {
                continue;
            };
            let relative = half / estimate.mean.abs();
            if widest
                .as_ref()
                .is_none_or(|known| relative > known.relative)
            {
                let of = (name.clone(), metric.title);
                widest = Some(Widest { relative, of });
            }
        }
    }
    widest
}

/// Replications in all to run next, at most `cap`; `None`: enough, or no more are allowed.
pub fn next(have: u32, widest: Option<&Widest>, goal: f64, cap: u32) -> Option<u32> {
    let relative = widest?.relative;
    if relative <= goal || have >= cap {
        return None;
    }
    // Half-widths fall with the root of the number. The spread is not known well yet, so at most twice
    // as many at a time.
    let ratio = relative / goal;
    let wanted = (f64::from(have) * ratio * ratio).ceil();
    let most = have.saturating_mul(2).min(cap);
    Some((wanted.min(f64::from(most)) as u32).clamp(have + 1, most))
}

/// What was reached, in words.
pub fn describe(have: u32, widest: Option<&Widest>, goal: f64) -> String {
    let Some(Widest { relative, of }) = widest else {
        return "nothing has an interval".into();
    };
    let (policy, metric) = of;
    let reached = if *relative <= goal {
        "reached"
    } else {
        "not reached by the most replications allowed"
    };
    format!(
        "{:.3} % asked, {reached}: after {have} replications the widest interval is ±{:.2} % ({metric} of {policy})",
        100.0 * goal,
        100.0 * relative
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replications_grow_to_the_goal_or_the_cap() {
        let of = |relative| Widest {
            relative,
            of: ("a".into(), "TTFT, s"),
        };
        assert_eq!(next(10, Some(&of(0.01)), 0.01, 100), None);
        assert_eq!(next(10, Some(&of(0.011)), 0.01, 100), Some(13));
        assert_eq!(next(10, Some(&of(0.1)), 0.01, 100), Some(20));
        assert_eq!(next(80, Some(&of(0.1)), 0.01, 100), Some(100));
        assert_eq!(next(100, Some(&of(0.1)), 0.01, 100), None);
        assert_eq!(next(10, None, 0.01, 100), None);
    }
}
