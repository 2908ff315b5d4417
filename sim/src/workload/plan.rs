//! What a workload consists of, checked: streams with their frames and queries.

use super::lengths::length_limit;
use crate::time::{Duration, Instant};

/// A stream, checked.
#[derive(Clone, Debug)]
pub struct StreamPlan {
    /// Name.
    pub name: String,
    /// Its frames.
    pub frames: Option<FramePlan>,
    /// Its queries.
    pub queries: Option<QueryPlan>,
}

/// Frames of a stream, checked.
#[derive(Clone, Debug)]
pub struct FramePlan {
    /// When they arrive.
    pub clock: FrameTimes,
    /// First not before this.
    pub start: Instant,
    /// How many at most.
    pub count: u64,
    /// Visual tokens a frame.
    pub tokens: u32,
    /// Megapixels a frame, where the encode cost depends on it (else 1).
    pub megapixels: f64,
}

impl FramePlan {
    /// Frames that the stream has at most before the horizon; never fewer than it has.
    pub fn most(&self, horizon: Instant) -> u64 {
        match &self.clock {
            FrameTimes::Listed(list) => {
                let within = list.iter().filter(|at| **at < horizon).count() as u64;
                self.count.min(within)
            }
            FrameTimes::Periodic { period_s, jitter_s } if horizon != Instant::NEVER => {
                // Beyond ten deviations no offset is drawn.
                let span = horizon.saturating_since(self.start).as_secs_f64() + 10.0 * jitter_s;
                // One more than is below the horizon, lest rounding cut one.
                self.count.min((span / period_s).ceil() as u64 + 1)
            }
            FrameTimes::Periodic { .. } => self.count,
        }
    }
}

/// When frames arrive.
#[derive(Clone, Debug)]
pub enum FrameTimes {
    /// At a fixed rate, with a normal offset each (order kept).
    Periodic {
        /// Seconds between frames.
        period_s: f64,
        /// Standard deviation of the offset, s.
        jitter_s: f64,
    },
    /// At these instants, rising.
    Listed(Vec<Instant>),
}

/// Queries of a stream, checked.
#[derive(Clone, Debug)]
pub struct QueryPlan {
    /// When they arrive.
    pub arrivals: QueryTimes,
    /// First not before this.
    pub start: Instant,
    /// How many at most.
    pub count: u64,
    /// Prompt tokens.
    pub prompt: LengthPlan,
    /// Answer tokens, the first included.
    pub output: LengthPlan,
    /// Longest answer: memory is reserved for it, draws are cut to it.
    pub output_max: u32,
    /// Time from arrival within which the answer should be complete.
    pub deadline: Option<Duration>,
}

/// When queries arrive.
#[derive(Clone, Debug)]
pub enum QueryTimes {
    /// One every period.
    Periodic {
        /// Seconds between queries.
        period_s: f64,
    },
    /// Exponential gaps.
    Poisson {
        /// Queries per second.
        rate_hz: f64,
    },
    /// Markov-modulated Poisson: states visited in turn.
    Mmpp {
        /// Rate in each state, queries per second (0 allowed, not all).
        rates_hz: Vec<f64>,
        /// Mean exponential stay in each state, s.
        mean_stay_s: Vec<f64>,
    },
    /// Gamma gaps.
    Gamma {
        /// Queries per second.
        rate_hz: f64,
        /// Coefficient of variation of the gaps.
        cv: f64,
    },
    /// At these instants, rising.
    Listed(Vec<Instant>),
    /// Users who ask again after a think time.
    ClosedLoop {
        /// Users.
        users: u32,
        /// Mean think time, s.
        think_s: f64,
        /// Exponential rather than constant think times.
        exponential: bool,
    },
}

impl FramePlan {
    /// Frames that are to be expected before `horizon`, at most [`Self::count`].
    pub fn expected(&self, horizon: Instant) -> u64 {
        let come = match &self.clock {
            FrameTimes::Periodic { period_s, .. } => {
                let span = horizon.saturating_since(self.start).as_secs_f64();
                if horizon == Instant::NEVER {
                    u64::MAX
                } else {
                    // One at the start, and one after each period that ends in time.
                    libm::ceil(span / period_s) as u64
                }
            }
            FrameTimes::Listed(times) => before(times, horizon),
        };
        come.min(self.count)
    }
}

impl QueryPlan {
    /// Queries that the source has in all; [`u64::MAX`]: it ends with the horizon only.
    pub fn most(&self) -> u64 {
        // A list of lengths ends its source, like a list of times.
        let mut rows = length_limit(&self.prompt).min(length_limit(&self.output));
        let mut skipped = 0;
        if let QueryTimes::Listed(times) = &self.arrivals {
            rows = rows.min(times.len() as u64);
            skipped = before(times, self.start);
        }
        self.count.min(rows.saturating_sub(skipped))
    }

    /// Queries that are to be expected before `horizon`, at most [`Self::count`]; `None`: until a horizon,
    /// users who wait for their answers ask as often as they get them.
    pub fn expected(&self, horizon: Instant) -> Option<f64> {
        let come = match &self.arrivals {
            QueryTimes::Listed(times) => before(times, horizon) as f64,
            _ if horizon == Instant::NEVER => f64::INFINITY,
            times => times.mean_rate_hz()? * horizon.saturating_since(self.start).as_secs_f64(),
        };
        Some(come.min(self.count as f64))
    }
}

impl QueryTimes {
    /// Mean rate, queries per second; `None` for listed times and for users who wait for their answers.
    pub fn mean_rate_hz(&self) -> Option<f64> {
        match self {
            Self::Periodic { period_s } => Some(1.0 / period_s),
            Self::Poisson { rate_hz } | Self::Gamma { rate_hz, .. } => Some(*rate_hz),
            Self::Mmpp {
                rates_hz,
                mean_stay_s,
            } => {
                let asked: f64 = rates_hz.iter().zip(mean_stay_s).map(|(r, s)| r * s).sum();
                Some(asked / mean_stay_s.iter().sum::<f64>())
            }
            Self::Listed(_) | Self::ClosedLoop { .. } => None,
        }
    }
}

/// How many of rising `times` come before `horizon`.
fn before(times: &[Instant], horizon: Instant) -> u64 {
    times.partition_point(|&time| time < horizon) as u64
}

/// Lengths in tokens.
#[derive(Clone, Debug)]
pub enum LengthPlan {
    /// Always the same.
    Fixed(u32),
    /// Each whole number from the first to the second, equally often.
    Uniform(u32, u32),
    /// Log-normal with mean and coefficient of variation, rounded, at least 1.
    LogNormal {
        /// Mean.
        mean: f64,
        /// Coefficient of variation.
        cv: f64,
    },
    /// Geometric on 1, 2, … with this mean.
    Geometric {
        /// Mean.
        mean: f64,
    },
    /// Drawn from a list.
    Empirical(Vec<u32>),
    /// The n-th query has the n-th length (trace files).
    Listed(Vec<u32>),
}
