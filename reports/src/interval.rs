//! Means over independent replications, with 95 % intervals by Student's t.

use sim::metrics::{Growth, LoadVerdict, Summary};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Confidence of every interval.
const CONFIDENCE: f64 = 0.95;
/// Differences of one sign that show one without a spread, by a sign test at the same confidence: 2 · 2⁻⁶ < 5 %.
const ALIKE_MIN: usize = 6;

/// A mean over replications.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Mean.
    pub mean: f64,
    /// Half the width of the 95 % interval; `None` where values say nothing of the spread: one alone, or a few
    /// differences that happen to be the same.
    pub half_width: Option<f64>,
    /// Values behind it.
    pub n: usize,
}

impl Estimate {
    /// The estimate from independent values; `None` without values.
    pub fn of(values: &[f64]) -> Option<Self> {
        let n = values.len();
        if n == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / n as f64;
        let half_width = quantile(n).map(|t| {
            let squares: f64 = values.iter().map(|x| (x - mean) * (x - mean)).sum();
            t * (squares / (n - 1) as f64 / n as f64).sqrt()
        });
        Some(Self {
            mean,
            half_width,
            n,
        })
    }

    /// Probability of a mean at least so far from zero if the true one were zero (two-sided Student's t
    /// test); `None` without an interval.
    pub fn p_value(&self) -> Option<f64> {
        let half = self.half_width?;
        if half == 0.0 {
            return Some(if self.mean == 0.0 { 1.0 } else { 0.0 });
        }
        let freedom = (self.n - 1) as f64;
        let law = StudentsT::new(0.0, 1.0, freedom).ok()?;
        let t = self.mean.abs() / half * quantile(self.n)?;
        // As the quantile's, its last digits are the machine's.
        Some((2.0 * law.sf(t) * 1e12).round() / 1e12)
    }

    /// Probability of a difference to `other` at least so large if there were none, for means of
    /// independent runs (two-sided t test of Welch 1947, degrees of freedom by Satterthwaite); `None` where
    /// either has no interval.
    pub fn p_unpaired(&self, other: &Self) -> Option<f64> {
        let variance = |of: &Self| Some((of.half_width? / quantile(of.n)?).powi(2));
        let (own, others) = (variance(self)?, variance(other)?);
        let both = own + others;
        if both == 0.0 {
            return Some(if self.mean == other.mean { 1.0 } else { 0.0 });
        }
        let share = |part: f64, n: usize| (part / both).powi(2) / (n - 1) as f64;
        let freedom = 1.0 / (share(own, self.n) + share(others, other.n));
        let law = StudentsT::new(0.0, 1.0, freedom).ok()?;
        let t = (self.mean - other.mean).abs() / both.sqrt();
        Some((2.0 * law.sf(t) * 1e12).round() / 1e12)
    }

    /// Half the width within which the whole interval of `n` further values lies, with a probability of at least 95 %:
    /// that of their mean (the prediction interval of a future mean, `t·s·√(1/m + 1/n)`; Hahn and Meeker 1991,
    /// section 4.8) and half the width of their own interval, at the spread that these values have. `None` without an
    /// interval, or for `n` below two.
    pub fn another(&self, n: usize) -> Option<f64> {
        let t = quantile(self.n)?;
        let (own, further) = (self.n as f64, n as f64);
        let deviation = self.half_width? / t * own.sqrt();
        let mean = t * deviation * (1.0 / own + 1.0 / further).sqrt();
        Some(mean + quantile(n)? * deviation / further.sqrt())
    }

    /// Whether the interval lies wholly above or below zero; `None` without an interval.
    pub fn excludes_zero(&self) -> Option<bool> {
        self.half_width.map(|half| self.mean.abs() > half)
    }
}

/// The t quantile for the mean of `n` values; `None` below two.
fn quantile(n: usize) -> Option<f64> {
    let freedom = n.checked_sub(1).filter(|&freedom| freedom > 0)?;
    let law = StudentsT::new(0.0, 1.0, freedom as f64).ok()?;
    let t = law.inverse_cdf(0.5 + CONFIDENCE / 2.0);
    // Its last digits come from the machine's mathematical library; results must not.
    Some((t * 1e9).round() / 1e9)
}

/// Reads one number from a run's summary; `None` where the run has none.
pub type Get = fn(&Summary) -> Option<f64>;

/// The replications of one configuration, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replicated {
    /// Summary of each replication.
    pub summaries: Vec<Summary>,
}

impl Replicated {
    /// How many replications.
    pub fn count(&self) -> usize {
        self.summaries.len()
    }

    /// The mean of a number over the replications that have it; `None` if none has.
    pub fn estimate(&self, get: impl Fn(&Summary) -> Option<f64>) -> Option<Estimate> {
        let values: Vec<f64> = self.summaries.iter().filter_map(get).collect();
        Estimate::of(&values)
    }

    /// The mean of a number's difference to `reference`, replication by replication: both met the
    /// same arrivals and lengths. Replications in which either lacks the number are left out. Numbers that vary while
    /// their difference does not, as counts do, give no interval from fewer than six replications.
    pub fn difference(
        &self,
        reference: &Self,
        get: impl Fn(&Summary) -> Option<f64>,
    ) -> Option<Estimate> {
        let pairs = self.summaries.iter().zip(&reference.summaries);
        let pairs: Vec<(f64, f64)> = pairs
            .filter_map(|(own, other)| Some((get(own)?, get(other)?)))
            .collect();
        let values: Vec<f64> = pairs.iter().map(|(own, other)| own - other).collect();
        let mut estimate = Estimate::of(&values)?;
        let vary = pairs.iter().any(|pair| *pair != pairs[0]);
        if estimate.half_width == Some(0.0)
            && estimate.mean != 0.0
            && vary
            && estimate.n < ALIKE_MIN
        {
            estimate.half_width = None;
        }
        Some(estimate)
    }

    /// Replications with this verdict.
    pub fn verdicts(&self, verdict: LoadVerdict) -> usize {
        self.summaries
            .iter()
            .filter(|summary| summary.load == verdict)
            .count()
    }

    /// What is overloaded in any replication.
    pub fn overload(&self) -> Vec<&'static str> {
        let mut list: Vec<_> = self
            .summaries
            .iter()
            .flat_map(|summary| summary.overload.iter().copied())
            .collect();
        list.sort_unstable();
        list.dedup();
        list
    }

    /// Whether queues grow, or more is turned away than a system may that carries its load.
    pub fn growth(&self) -> Growth {
        Growth::of(self.verdicts(LoadVerdict::Saturated), self.count(), 0.0)
    }

    /// Whether there are steady latencies: a mean over replications some of which grow is none.
    pub fn steady(&self) -> bool {
        self.growth() == Growth::Level
    }

    /// What stands for a latency where there is no steady one: `grows`, or `4/6 grow`.
    pub fn unsteady(&self) -> Option<String> {
        unsteady(self.verdicts(LoadVerdict::Saturated), self.count())
    }

    /// The verdict on all of them; see [`LoadVerdict::over`].
    pub fn verdict(&self) -> LoadVerdict {
        LoadVerdict::over(self.summaries.iter().map(|summary| summary.load))
    }
}

/// What stands for a latency where `growing` of `all` replications grow: see [`Replicated::unsteady`].
pub(crate) fn unsteady(growing: usize, all: usize) -> Option<String> {
    match Growth::of(growing, all, 0.0) {
        Growth::Level => None,
        Growth::Open => Some(format!("{growing}/{all} grow")),
        Growth::Grows => Some(GROWS.to_owned()),
    }
}

/// What stands for a latency where queues grow.
pub(crate) const GROWS: &str = "grows";

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(throughput_rps: f64, load: LoadVerdict) -> Summary {
        Summary {
            throughput_rps: Some(throughput_rps),
            load,
            ..Summary::default()
        }
    }

    #[test]
    fn half_widths_are_students() {
        // Five values with mean 3 and standard deviation √2.5; t(4, 0.975) = 2.776445.
        let estimate = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).expect("there are values");
        assert_eq!(estimate.mean, 3.0);
        let half = estimate.half_width.expect("five values have an interval");
        assert!((half - 2.776_445 * (0.5_f64).sqrt()).abs() < 1e-6, "{half}");
        assert_eq!(estimate.excludes_zero(), Some(true));
        // t = 3 ÷ √0.5 on 4 degrees of freedom: Q(4.242641) = 0.006618 on either side.
        let p = estimate.p_value().expect("it has an interval");
        assert!((p - 0.013_236).abs() < 2e-6, "{p}");
    }

    /// To see it fail, leave out either part of the width.
    #[test]
    fn further_values_have_their_interval_within_reach() {
        // Five values with standard deviation √2.5; t(4, 0.975) = 2.776445, t(9, 0.975) = 2.262157.
        let five = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).expect("there are values");
        let half = five.another(10).expect("five values have a spread");
        let by_hand = 2.5_f64.sqrt() * (2.776_445 * 0.3_f64.sqrt() + 2.262_157 * 0.1_f64.sqrt());
        assert!((half - by_hand).abs() < 1e-5, "{half}, not {by_hand}");
        assert_eq!(five.another(1), None);
        let one = Estimate::of(&[7.0]).expect("there is a value");
        assert_eq!(one.another(10), None);

        // 160 normal values, and then 40 more.
        let mut draws = sim::rng::Generator::from_key(7);
        let mut values =
            |count: usize| -> Vec<f64> { (0..count).map(|_| draws.normal()).collect() };
        let mut above = 0;
        for _ in 0..400 {
            let known = Estimate::of(&values(160)).expect("there are values");
            let bound = known.mean + known.another(40).expect("they vary");
            let later = Estimate::of(&values(40)).expect("there are values");
            let top = later.mean + later.half_width.expect("they vary");
            above += usize::from(top > bound);
        }
        // Of one side: 2.5 %, were the spread of the 40 that of the 160.
        assert!(above <= 24, "{above} of 400");
    }

    #[test]
    fn one_value_has_no_interval_and_none_no_mean() {
        let one = Estimate::of(&[7.0]).expect("there is a value");
        assert_eq!((one.half_width, one.excludes_zero()), (None, None));
        assert_eq!(Estimate::of(&[]), None);
    }

    #[test]
    fn a_difference_that_is_the_same_a_few_times_by_chance_has_no_interval() {
        let runs = |values: &[f64]| Replicated {
            summaries: values
                .iter()
                .map(|value| summary(*value, LoadVerdict::Steady))
                .collect(),
        };
        let between = |own: &[f64], other: &[f64]| {
            let estimate = runs(own).difference(&runs(other), |one| one.throughput_rps);
            estimate.expect("there are values")
        };
        let by_chance = between(&[3.0, 5.0], &[2.0, 4.0]);
        assert_eq!((by_chance.mean, by_chance.half_width), (1.0, None));
        assert_eq!(by_chance.excludes_zero(), None);
        // Nothing is drawn where nothing varies: the difference is what it is.
        assert_eq!(
            between(&[3.0, 3.0], &[2.0, 2.0]).excludes_zero(),
            Some(true)
        );
        let six = between(
            &[3.0, 5.0, 3.0, 5.0, 4.0, 4.0],
            &[2.0, 4.0, 2.0, 4.0, 3.0, 3.0],
        );
        assert_eq!(six.excludes_zero(), Some(true));
    }

    #[test]
    fn unpaired_means_are_told_apart_by_welch() {
        let of = |values: &[f64]| Estimate::of(values).expect("there are values");
        // R: t.test(1:5, seq(2, 12, 2)): t = -2.3764, df = 6.9723, p-value = 0.04928.
        let (a, b) = (
            of(&[1.0, 2.0, 3.0, 4.0, 5.0]),
            of(&[2.0, 4.0, 6.0, 8.0, 10.0, 12.0]),
        );
        let p = a.p_unpaired(&b).expect("both have intervals");
        assert!((p - 0.049_284).abs() < 1e-6, "{p}");
        assert_eq!(b.p_unpaired(&a), Some(p));
        assert_eq!(a.p_unpaired(&a), Some(1.0));
        assert_eq!(a.p_unpaired(&of(&[7.0])), None);
        assert_eq!(of(&[2.0, 2.0]).p_unpaired(&of(&[3.0, 3.0])), Some(0.0));
    }

    #[test]
    fn pairing_removes_what_both_share() {
        let of = |values: [f64; 6]| Replicated {
            summaries: values.map(|x| summary(x, LoadVerdict::Steady)).to_vec(),
        };
        let a = of([1.0, 5.0, 9.0, 3.0, 7.0, 5.0]);
        let b = of([2.0, 6.0, 10.0, 4.0, 8.0, 6.0]);
        let get = |summary: &Summary| summary.throughput_rps;
        let difference = b.difference(&a, get).expect("there are pairs");
        assert_eq!((difference.mean, difference.half_width), (1.0, Some(0.0)));
        // Unpaired, the same difference drowns in the spread.
        let half = a.estimate(get).and_then(|e| e.half_width);
        assert!(half.expect("six values have an interval") > 2.0);
    }

    #[test]
    fn the_verdict_is_the_middle_one() {
        use LoadVerdict::{Near, Saturated, Steady};
        let of = |list: &[LoadVerdict]| Replicated {
            summaries: list.iter().map(|&load| summary(0.0, load)).collect(),
        };
        assert_eq!(of(&[Steady, Saturated, Steady]).verdict(), Steady);
        assert_eq!(of(&[Saturated, Near]).verdict(), Saturated);
        assert_eq!(of(&[]).verdict(), LoadVerdict::Finite);
        // Of five, three or two that are saturated settle nothing.
        let five = |saturated: usize| {
            let list = (0..5).map(|at| if at < saturated { Saturated } else { Steady });
            of(&list.collect::<Vec<_>>()).verdict()
        };
        let all: Vec<_> = (0..=5).map(five).collect();
        assert_eq!(all, [Steady, Steady, Near, Near, Saturated, Saturated]);
    }

    #[test]
    fn what_grows_in_some_replications_has_no_steady_latency() {
        use LoadVerdict::{Near, Saturated, Steady};
        let cell = |growing: usize, all: usize| {
            let list = (0..all).map(|at| {
                // Delays differ, as they do: only the verdicts may count.
                let load = if at % 2 == 0 { Steady } else { Near };
                summary(1.5 + at as f64, if at < growing { Saturated } else { load })
            });
            let runs = Replicated {
                summaries: list.collect(),
            };
            assert_eq!(runs.steady(), runs.unsteady().is_none());
            runs.unsteady()
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(cell(0, 6), None);
        assert_eq!(cell(2, 10), None);
        assert_eq!(cell(2, 6), text("2/6 grow"));
        assert_eq!(cell(4, 6), text("4/6 grow"));
        assert_eq!(cell(5, 6), text("grows"));
        assert_eq!(cell(8, 10), text("grows"));
        // Of a few, one that grows is no exception.
        assert_eq!(cell(1, 3), text("1/3 grow"));
        assert_eq!(cell(1, 2), text("grows"));
        assert_eq!(cell(0, 0), None);
        // A margin leaves open what the shares alone would settle.
        assert_eq!(Growth::of(8, 10, 0.05), Growth::Open);
        assert_eq!(Growth::of(2, 10, 0.05), Growth::Open);
        assert_eq!(Growth::of(0, 10, 0.5), Growth::Level);
    }
}
