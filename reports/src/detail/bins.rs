//! A rate over a run of unknown length, in bounded memory.

use serde::{Deserialize, Serialize};

/// Most bins; when a run outgrows them, neighbours are joined.
const BINS: usize = 480;

/// The integral of a rate in bins of equal width.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bins {
    /// Width of a bin, ns.
    pub width_ns: u64,
    /// By bin, the mean of the rate over the bin's width.
    pub mean: Vec<f64>,
    /// By bin, the integral of the rate, in its unit × s.
    #[serde(skip)]
    sums: Vec<f64>,
}

impl Default for Bins {
    fn default() -> Self {
        Self {
            width_ns: 1 << 20,
            mean: Vec::new(),
            sums: Vec::new(),
        }
    }
}

impl Bins {
    /// Adds `rate` from `from` to `to`, ns. Times may come in any order.
    pub(super) fn add(&mut self, from: u64, to: u64, rate: f64) {
        if to <= from || rate == 0.0 {
            return;
        }
        self.reach(to);
        let (first, last) = (from / self.width_ns, (to - 1) / self.width_ns);
        for bin in first..=last {
            let low = from.max(bin * self.width_ns);
            let high = to.min((bin + 1) * self.width_ns);
            self.sums[bin as usize] += rate * (high - low) as f64 / 1e9;
        }
    }

    /// Makes room up to `to`, ns.
    fn reach(&mut self, to: u64) {
        while to.div_ceil(self.width_ns) as usize > BINS {
            self.width_ns *= 2;
            let joined = self.sums.chunks(2).map(|pair| pair.iter().sum());
            self.sums = joined.collect();
        }
        let bins = to.div_ceil(self.width_ns) as usize;
        if self.sums.len() < bins {
            self.sums.resize(bins, 0.0);
        }
    }

    /// Closes the bins at `end`, ns: the last one's mean is over the part before it.
    pub(super) fn close(&mut self, end: u64) {
        self.reach(end);
        let width = self.width_ns;
        let span = |bin: usize| width.min(end.saturating_sub(bin as u64 * width)).max(1);
        let bins = self.sums.iter().enumerate();
        self.mean = bins
            .map(|(bin, sum)| significant(sum / (span(bin) as f64 / 1e9)))
            .collect();
    }
}

/// Six significant digits: a plot shows no more, and files stay small.
fn significant(x: f64) -> f64 {
    format!("{x:.5e}").parse().unwrap_or(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_integral_stays_whatever_the_width() {
        let mut bins = Bins::default();
        let (mut at, mut want) = (0, 0.0);
        for step in 1..2000_u64 {
            let length = step * 7_919_111 % 900_000_000;
            bins.add(at, at + length, step as f64);
            want += step as f64 * length as f64 / 1e9;
            at += length;
        }
        assert!(bins.sums.len() <= BINS && bins.sums.len() > BINS / 2);
        let got: f64 = bins.sums.iter().sum();
        assert!((got / want - 1.0).abs() < 1e-9, "{got} {want}");
    }

    #[test]
    fn the_last_mean_is_over_what_there_was() {
        let mut bins = Bins::default();
        bins.add(0, (1 << 20) + 10, 3.0);
        bins.close((1 << 20) + 10);
        assert_eq!(bins.mean, [3.0, 3.0]);
    }
}
