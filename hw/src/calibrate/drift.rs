//! How much a machine is faster at one time than at another.

/// Rounds that long series are cut into.
const ROUNDS: usize = 6;

/// Of all samples of a stage: those of a round were taken close together, and share what the machine was like then.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Drift {
    /// Standard deviation of what a round's samples have in common, as a part of the mean.
    pub cv: f64,
    /// Rounds.
    pub rounds: usize,
}

impl Drift {
    /// Of series by point, each in the order of time, and the point's time by its form (one-way analysis of variance; a
    /// series that began later lacks the first rounds). None is found where there are not two rounds, or no round has
    /// two samples. A series' own mean would not do to divide by: that of a copy, which is a difference of two
    /// measurements, may be near nothing.
    pub fn of<'s>(series: impl Iterator<Item = (&'s [f64], f64)> + Clone) -> Self {
        let lengths = series.clone().map(|(walls, _)| walls.len());
        let longest = lengths.max().unwrap_or(0);
        let rounds = longest.min(ROUNDS);
        let mut ratios = vec![Vec::new(); rounds];
        for (series, form) in series {
            let mean = series.iter().sum::<f64>() / series.len() as f64;
            for (index, secs) in series.iter().enumerate() {
                let round = if series.len() > rounds {
                    index * rounds / series.len()
                } else {
                    index + rounds - series.len()
                };
                ratios[round].push(1.0 + (secs - mean) / form);
            }
        }
        ratios.retain(|round| !round.is_empty());
        let rounds = ratios.len();
        let samples: usize = ratios.iter().map(Vec::len).sum();
        if rounds < 2 || samples == rounds {
            return Self { cv: 0.0, rounds };
        }
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let means: Vec<f64> = ratios.iter().map(|round| mean(round)).collect();
        let square = |values: &[f64], about: f64| -> f64 {
            values.iter().map(|value| (value - about).powi(2)).sum()
        };
        let within = ratios.iter().zip(&means);
        let within = within
            .map(|(round, mean)| square(round, *mean))
            .sum::<f64>();
        let within = within / (samples - rounds) as f64;
        let between = square(&means, mean(&means)) / (rounds - 1) as f64;
        // The mean of a round's samples scatters by itself too.
        let own = ratios.iter().map(|round| within / round.len() as f64);
        let own = own.sum::<f64>() / rounds as f64;
        Self {
            cv: (between - own).max(0.0).sqrt(),
            rounds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fourteen points, each measured once a round, of a machine that is as slow as `machine` says; the points' own
    /// noise is of 2 %.
    fn series(machine: &[f64]) -> Vec<Vec<f64>> {
        let point = |point: usize| {
            let sample = |(round, slow): (usize, &f64)| {
                let noise = 0.02 * (1.7 * point as f64 + 2.9 * round as f64).sin();
                0.01 * (point + 1) as f64 * slow * (1.0 + 1.4 * noise)
            };
            machine.iter().enumerate().map(sample).collect()
        };
        (0..14).map(point).collect()
    }

    fn drift(series: &[Vec<f64>]) -> Drift {
        let mean = |series: &Vec<f64>| series.iter().sum::<f64>() / series.len() as f64;
        Drift::of(
            series
                .iter()
                .map(|series| (series.as_slice(), mean(series))),
        )
    }

    #[test]
    fn what_rounds_have_in_common_is_told_from_the_noise_of_samples() {
        let slow = [1.14, 1.07, 1.01, 1.0, 0.95, 0.83];
        let found = drift(&series(&slow));
        // Its standard deviation is 0.106.
        assert!((found.cv - 0.106).abs() < 0.01, "{found:?}");
        assert_eq!(found.rounds, 6);
        let steady = drift(&series(&[1.0; 6]));
        assert!(steady.cv < 0.005, "{steady:?}");
    }

    #[test]
    fn a_series_that_began_later_lacks_the_first_rounds() {
        let mut all = series(&[1.2, 1.2, 1.2, 1.0, 1.0]);
        for late in &mut all[..4] {
            late.drain(..2);
        }
        // Means of the late ones are lower: what is left of 0.11 is seen.
        assert!((0.08..0.12).contains(&drift(&all).cv), "{:?}", drift(&all));
    }

    #[test]
    fn one_long_series_is_cut_into_rounds() {
        let mut one = vec![1.0; 9];
        one.extend([1.2; 9]);
        let found = drift(&[one]);
        assert_eq!(found.rounds, 6);
        assert!((found.cv - 0.0996).abs() < 1e-3, "{found:?}");
        let alternating: Vec<f64> = (0..18)
            .map(|i| f64::from(i % 2))
            .map(|x| 1.0 + 0.2 * x)
            .collect();
        assert!(drift(&[alternating]).cv < 0.01);
    }

    #[test]
    fn nothing_is_found_in_too_little() {
        for few in [vec![], vec![vec![]], vec![vec![1.0]], vec![vec![1.0, 2.0]]] {
            assert!(drift(&few).cv == 0.0, "{few:?}");
        }
    }
}
