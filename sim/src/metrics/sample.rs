//! A set of durations, folded as they come: exact while small, log-linear bins once large.

use crate::time::Duration;

/// Values kept exactly before bins take over.
const EXACT_MAX: usize = 1024;
/// Bits of a value below its leading one that choose the bin: bins are 1/128 of their value wide, so a
/// quantile from bins is within 0.4 % of the exact one.
const SUB_BITS: u32 = 7;
const BINS: usize = (64 - SUB_BITS as usize + 1) << SUB_BITS;

/// Durations with their mean, extremes and quantiles, in bounded memory.
#[derive(Clone, Debug)]
pub struct Sample {
    count: u64,
    sum: u128,
    /// Of no values the greatest number.
    min: u64,
    max: u64,
    exact: Vec<u64>,
    bins: Vec<u32>,
}

impl Default for Sample {
    fn default() -> Self {
        Self {
            count: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
            exact: Vec::new(),
            bins: Vec::new(),
        }
    }
}

impl Sample {
    /// Forgets everything; allocations stay.
    pub fn clear(&mut self) {
        self.count = 0;
        self.sum = 0;
        self.min = u64::MAX;
        self.max = 0;
        self.exact.clear();
        self.bins.clear();
    }

    /// Adds a value.
    #[inline]
    pub fn add(&mut self, value: Duration) {
        self.count += 1;
        self.sum += u128::from(value.0);
        self.min = self.min.min(value.0);
        self.max = self.max.max(value.0);
        if self.bins.is_empty() {
            self.exact.push(value.0);
            if self.exact.len() > EXACT_MAX {
                self.spill();
            }
        } else {
            self.bins[bin(value.0)] += 1;
        }
    }

    #[cold]
    fn spill(&mut self) {
        self.bins.resize(BINS, 0);
        for value in self.exact.drain(..) {
            self.bins[bin(value)] += 1;
        }
    }

    /// How many values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Mean in seconds; `None` without values.
    pub fn mean_s(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64 / crate::time::NANOS_PER_SEC)
    }

    /// Largest value in seconds; `None` without values.
    pub fn max_s(&self) -> Option<f64> {
        (self.count > 0).then(|| Duration(self.max).as_secs_f64())
    }

    /// The q-quantiles in seconds (nearest rank: the smallest value with at least a share q at or
    /// below it). `qs` within (0, 1].
    pub fn quantiles_s<const N: usize>(&self, qs: [f64; N]) -> Option<[f64; N]> {
        if self.count == 0 {
            return None;
        }
        let rank = |q: f64| ((q * self.count as f64).ceil() as u64).clamp(1, self.count);
        if self.bins.is_empty() {
            let mut sorted = self.exact.clone();
            sorted.sort_unstable();
            return Some(qs.map(|q| Duration(sorted[rank(q) as usize - 1]).as_secs_f64()));
        }
        Some(qs.map(|q| {
            let mut left = rank(q);
            for (index, &count) in self.bins.iter().enumerate() {
                if left <= u64::from(count) {
                    // A bin may reach beyond the values in it.
                    return Duration(middle(index).clamp(self.min, self.max)).as_secs_f64();
                }
                left -= u64::from(count);
            }
            Duration(self.max).as_secs_f64()
        }))
    }
}

#[inline]
fn bin(value: u64) -> usize {
    // Below 2^SUB_BITS a bin holds one value, 0 among them.
    let shift = value.max(1).ilog2().saturating_sub(SUB_BITS);
    ((shift as usize) << SUB_BITS) + (value >> shift) as usize
}

fn middle(bin: usize) -> u64 {
    let shift = (bin >> SUB_BITS).saturating_sub(1) as u32;
    let high = (bin - ((shift as usize) << SUB_BITS)) as u64;
    (high << shift) + (1u64 << shift) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_agree_with_exact_quantiles() {
        let mut sample = Sample::default();
        let mut all = Vec::new();
        let mut x = 1u64;
        for _ in 0..50_000 {
            x = x
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let value = (x >> 33) * 7 + 1000;
            sample.add(Duration(value));
            all.push(value);
        }
        all.sort_unstable();
        let got = sample.quantiles_s([0.5, 0.95, 0.99]);
        let want = [0.5, 0.95, 0.99].map(|q| all[(q * 50_000.0) as usize - 1] as f64 * 1e-9);
        for (got, want) in got.iter().flatten().zip(want) {
            assert!((got / want - 1.0).abs() < 0.004, "{got} against {want}");
        }
        assert_eq!(sample.count(), 50_000);
    }

    #[test]
    fn what_never_varies_has_its_value_for_every_quantile() {
        for value in [50_000_000, 50_331_647, 1, 999_999_999] {
            let mut sample = Sample::default();
            for _ in 0..2 * EXACT_MAX {
                sample.add(Duration(value));
            }
            let want = Duration(value).as_secs_f64();
            assert_eq!(sample.quantiles_s([0.01, 0.5, 1.0]), Some([want; 3]));
        }
    }

    #[test]
    fn every_value_falls_into_the_bin_around_it() {
        for value in [128, 129, 255, 256, 1000, 123_456_789, u64::MAX / 2] {
            let centre = middle(bin(value));
            assert!(
                (centre as f64 / value as f64 - 1.0).abs() < 0.005,
                "{value} → {centre}"
            );
        }
    }

    #[test]
    fn bins_keep_zeros_and_small_values() {
        for value in 0..256 {
            assert_eq!(middle(bin(value)), value);
        }
        let mut sample = Sample::default();
        for _ in 0..2 * EXACT_MAX {
            sample.add(Duration(0));
        }
        sample.add(Duration(1_000_000_000));
        let quantiles = sample.quantiles_s([0.5, 0.99, 1.0]).expect("has values");
        assert_eq!(quantiles[..2], [0.0, 0.0]);
        assert!((quantiles[2] - 1.0).abs() < 0.004);
    }

    #[test]
    fn small_samples_are_exact() {
        let mut sample = Sample::default();
        for value in [5, 1, 3, 2, 4] {
            sample.add(Duration(value * 1_000_000_000));
        }
        assert_eq!(sample.quantiles_s([0.2, 0.5, 1.0]), Some([1.0, 3.0, 5.0]));
        assert_eq!(sample.mean_s(), Some(3.0));
    }
}
