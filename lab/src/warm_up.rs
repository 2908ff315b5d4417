//! Where the steady part of a run begins: MSER-5.
//!
//! White, Cobb and Spratt 2000 ("A comparison of five steady-state truncation heuristics for simulation"):
//! of the means Z of batches of 5, drop the first d so that the marginal standard error of the mean of
//! the rest, Σ(Z − Z̄)² ÷ (k − d)², is smallest. The series here is the time to the last token by order of
//! arrival, averaged over replications (Welch's averaging), so that one long answer does not set the cut.

use rayon::prelude::*;
use sim::diag::Faults;
use sim::dispatch::{Effect, Input};
use sim::drive::Sink;
use sim::simulation::Simulation;
use sim::time::{Duration, Instant};
use sim::world::World;

/// Values a batch.
const BATCH: usize = 5;
/// Fewest batches that a cut is read from.
const BATCHES_MIN: usize = 10;

/// Values to leave out at the front of `series`; `None`: fewer than 50 values, or the best cut lies in
/// the second half, so that no steady part is seen.
pub fn mser5(series: &[f64]) -> Option<usize> {
    let means: Vec<f64> = series
        .chunks_exact(BATCH)
        .map(|batch| batch.iter().sum::<f64>() / BATCH as f64)
        .collect();
    let count = means.len();
    if count < BATCHES_MIN {
        return None;
    }
    let (mut sum, mut squares) = (0.0, 0.0);
    let mut best = (f64::INFINITY, 0);
    // From the end: the last few batches alone always agree, so they are no candidates.
    for (kept, mean) in means
        .iter()
        .rev()
        .enumerate()
        .map(|(at, mean)| (at + 1, mean))
    {
        sum += mean;
        squares += mean * mean;
        let n = kept as f64;
        let error = (squares - sum * sum / n).max(0.0) / (n * n);
        // Of equals, the cut that keeps more.
        if kept >= BATCH && error <= best.0 {
            best = (error, count - kept);
        }
    }
    (2 * best.1 <= count).then_some(best.1 * BATCH)
}

/// A warm-up common to all policies of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct WarmUp {
    /// Requests that arrive before this are left out: the latest of the policies' own cuts, and the scenario's
    /// warm-up where a policy has none.
    pub until: Instant,
    /// Each world's own; `None`: no steady part was seen.
    pub own: Vec<Option<Instant>>,
}

/// The warm-up of worlds that differ in their policy alone, from `runs` replications of each.
///
/// # Errors
///
/// What a policy stopped a run with.
pub fn of(worlds: &[World], runs: u32) -> Result<WarmUp, Faults> {
    let own: Vec<_> = worlds.par_iter().map(|world| cut(world, runs)).collect();
    let own: Vec<_> = own.into_iter().collect::<Result<_, _>>()?;
    let cuts = worlds.iter().zip(&own);
    let until = cuts.map(|(world, own)| own.unwrap_or(world.warm_up)).max();
    Ok(WarmUp {
        until: until.unwrap_or_default(),
        own,
    })
}

/// The rule and what it found, in words.
pub fn describe(found: &WarmUp, worlds: &[World]) -> String {
    let text = format!(
        "MSER-5 on completion times, averaged over replications: {:.3} s, the latest of all policies",
        found.until.as_secs_f64()
    );
    let none: Vec<String> = worlds
        .iter()
        .zip(&found.own)
        .filter(|(_, own)| own.is_none())
        .map(|(world, _)| world.policy.to_string())
        .collect();
    if none.is_empty() {
        return text;
    }
    let own = worlds
        .first()
        .map_or(0.0, |world| world.warm_up.as_secs_f64());
    format!(
        "{text}; no steady part of at least half a run of 50 requests with {}: for it the scenario's own warm-up stands, {own:.3} s",
        none.join(", ")
    )
}

fn cut(world: &World, runs: u32) -> Result<Option<Instant>, Faults> {
    let mut simulation = Simulation::new(world);
    let mut sums: Vec<(f64, u32)> = Vec::new();
    let mut arrivals: Vec<(u128, u32)> = Vec::new();
    let mut shortest = usize::MAX;
    for run in 0..runs {
        let mut series = Series::default();
        simulation.run_into(run, &mut series)?;
        shortest = shortest.min(series.arrived.len());
        sums.resize(sums.len().max(series.arrived.len()), (0.0, 0));
        arrivals.resize(sums.len(), (0, 0));
        for (at, (arrived, took)) in series.arrived.iter().enumerate() {
            arrivals[at].0 += u128::from(arrived.0);
            arrivals[at].1 += 1;
            if let Some(took) = took {
                sums[at].0 += took.as_secs_f64();
                sums[at].1 += 1;
            }
        }
    }
    sums.truncate(if runs == 0 { 0 } else { shortest });
    // A request that every replication refused says nothing; its neighbours stand for it.
    let kept: Vec<usize> = (0..sums.len()).filter(|&at| sums[at].1 > 0).collect();
    let series: Vec<f64> = kept
        .iter()
        .map(|&at| sums[at].0 / f64::from(sums[at].1))
        .collect();
    let first = match mser5(&series) {
        None => return Ok(None),
        Some(0) => return Ok(Some(Instant::ZERO)),
        Some(first) => first,
    };
    let arrived = kept.get(first).map(|&at| arrivals[at]);
    Ok(arrived.map(|(sum, count)| Instant((sum / u128::from(count.max(1))) as u64)))
}

/// Requests in order of arrival, with the time to their last token.
#[derive(Debug, Default)]
struct Series {
    arrived: Vec<(Instant, Option<Duration>)>,
    /// Place of each ticket's request.
    of_ticket: Vec<usize>,
}

impl Sink for Series {
    fn input(&mut self, now: Instant, input: &Input) {
        if let Input::Query { ticket, .. } = input {
            let ticket = *ticket as usize;
            self.of_ticket
                .resize(self.of_ticket.len().max(ticket + 1), 0);
            self.of_ticket[ticket] = self.arrived.len();
            self.arrived.push((now, None));
        }
    }

    fn effect(&mut self, now: Instant, effect: &Effect) {
        if let Effect::Complete(done) = effect {
            let at = self.of_ticket[done.ticket as usize];
            self.arrived[at].1 = Some(now.saturating_since(done.arrived));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::rng::{Generator, Purpose};

    fn noise(seed: u64, count: usize) -> Vec<f64> {
        let mut generator = Generator::named(seed, 0, "noise", Purpose::QueryTimes);
        (0..count).map(|_| generator.unit() - 0.5).collect()
    }

    #[test]
    fn a_transient_is_cut_and_little_more() {
        for seed in 0..20 {
            let mut series = noise(seed, 1000);
            for (at, value) in series.iter_mut().enumerate() {
                *value += 10.0 * (-(at as f64) / 30.0).exp();
            }
            let cut = mser5(&series).expect("there is a steady part");
            // By then the transient is within 2 and 0.01 of its 10.
            assert!((50..=400).contains(&cut), "{seed}: {cut}");
        }
    }

    #[test]
    fn a_ramp_has_no_steady_part_and_a_short_series_none_to_see() {
        let ramp: Vec<f64> = noise(1, 1000)
            .iter()
            .enumerate()
            .map(|(at, noise)| noise + at as f64)
            .collect();
        assert_eq!(mser5(&ramp), None);
        assert_eq!(mser5(&noise(1, 49)), None);
        assert_eq!(mser5(&[1.0; 50]), Some(0));
    }
}
