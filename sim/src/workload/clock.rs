//! When frames and queries arrive.

use super::agenda::NEVER;
use super::plan::{FrameTimes, QueryTimes};
use crate::rng::{Generator, Purpose, key, name_key};
use crate::time::{Duration, Instant};

/// When the frames of a stream arrive.
#[derive(Clone, Debug)]
pub(super) struct FrameClock {
    start: Instant,
    times: FrameTimes,
    name: u64,
    rng: Generator,
}

impl FrameClock {
    pub(super) fn new(times: &FrameTimes, start: Instant, stream: &str) -> Self {
        let times = match times {
            FrameTimes::Periodic { .. } => times.clone(),
            FrameTimes::Listed(list) => FrameTimes::Listed(not_before(start, list)),
        };
        Self {
            start,
            times,
            name: name_key(stream, Purpose::FrameJitter),
            rng: Generator::from_key(0),
        }
    }

    /// Starts the run with this root.
    #[inline]
    pub(super) fn reset(&mut self, root: u64) {
        if matches!(self.times, FrameTimes::Periodic { jitter_s, .. } if jitter_s > 0.0) {
            self.rng = Generator::from_key(key(root, self.name));
        }
    }

    /// The time of frame `index`, ns, the previous one having arrived at `previous`.
    #[inline]
    pub(super) fn time(&mut self, index: u64, previous: u64) -> u64 {
        match &self.times {
            FrameTimes::Periodic { period_s, jitter_s } => {
                let offset_s = if *jitter_s > 0.0 {
                    jitter_s * self.rng.normal()
                } else {
                    0.0
                };
                // From the index, so that rounding does not accumulate. An offset that would lead
                // before the start, or before the previous frame, ends there.
                let since_s = (index as f64 * period_s + offset_s).max(0.0);
                (self.start + Duration::from_secs_f64(since_s))
                    .0
                    .max(previous)
            }
            FrameTimes::Listed(list) => list.get(index as usize).map_or(NEVER, |time| time.0),
        }
    }

    /// The time from which [`FrameClock::time`] goes on to frame 0.
    pub(super) fn start(&self) -> u64 {
        self.start.0
    }
}

/// When the queries of a stream arrive.
#[derive(Clone, Debug)]
pub(super) struct QueryClock {
    start: Instant,
    gaps: Gaps,
    /// Listed times that lie before the start.
    skipped: u64,
    name: u64,
    rng: Generator,
}

#[derive(Clone, Debug)]
enum Gaps {
    Closed {
        users: u32,
        think_s: f64,
        exponential: bool,
    },
    Gamma {
        shape: f64,
        scale_s: f64,
    },
    Listed(Vec<Instant>),
    Modulated(Modulated),
    Periodic {
        period_s: f64,
    },
    Poisson {
        gap_s: f64,
    },
}

/// A Poisson process whose rate follows a Markov chain over states visited in turn, from the first.
#[derive(Clone, Debug)]
struct Modulated {
    rates_hz: Vec<f64>,
    mean_stay_s: Vec<f64>,
    state: usize,
    /// When the state ends, ns.
    until: u64,
}

impl QueryClock {
    pub(super) fn new(times: &QueryTimes, start: Instant, stream: &str) -> Self {
        let gaps = match times {
            QueryTimes::Periodic { period_s } => Gaps::Periodic {
                period_s: *period_s,
            },
            QueryTimes::Poisson { rate_hz } => Gaps::Poisson {
                gap_s: 1.0 / rate_hz,
            },
            QueryTimes::Mmpp {
                rates_hz,
                mean_stay_s,
            } => Gaps::Modulated(Modulated {
                rates_hz: rates_hz.clone(),
                mean_stay_s: mean_stay_s.clone(),
                state: 0,
                until: 0,
            }),
            // Without variation, gaps are a constant; the limit of the gamma law is not computable.
            QueryTimes::Gamma { rate_hz, cv } if *cv < 1e-6 => Gaps::Periodic {
                period_s: 1.0 / rate_hz,
            },
            QueryTimes::Gamma { rate_hz, cv } => Gaps::Gamma {
                shape: 1.0 / (cv * cv),
                scale_s: cv * cv / rate_hz,
            },
            QueryTimes::Listed(list) => Gaps::Listed(not_before(start, list)),
            QueryTimes::ClosedLoop {
                users,
                think_s,
                exponential,
            } => Gaps::Closed {
                users: *users,
                think_s: *think_s,
                exponential: *exponential,
            },
        };
        let skipped = match times {
            QueryTimes::Listed(list) => count_before(start, list),
            _ => 0,
        };
        Self {
            start,
            gaps,
            skipped: skipped as u64,
            name: name_key(stream, Purpose::QueryTimes),
            rng: Generator::from_key(0),
        }
    }

    /// Starts the run with this root.
    #[inline]
    pub(super) fn reset(&mut self, root: u64) {
        if matches!(self.gaps, Gaps::Periodic { .. } | Gaps::Listed(_)) {
            return;
        }
        self.rng = Generator::from_key(key(root, self.name));
        if let Gaps::Modulated(chain) = &mut self.gaps {
            chain.state = 0;
            let stay_s = chain
                .mean_stay_s
                .first()
                .map_or(0.0, |mean| mean * self.rng.exponential());
            chain.until = (self.start + Duration::from_secs_f64(stay_s)).0;
        }
    }

    /// The time of query `index`, ns, the previous one having arrived at `previous`; [`NEVER`] if
    /// there is none before `horizon`. Queries of a closed loop have no time until they are asked.
    #[inline]
    pub(super) fn time(&mut self, index: u64, previous: u64, horizon: u64) -> u64 {
        let after = |gap_s: f64| previous.saturating_add(Duration::from_secs_f64(gap_s).0);
        match &mut self.gaps {
            Gaps::Poisson { gap_s } => after(*gap_s * self.rng.exponential()),
            Gaps::Periodic { period_s } => {
                (self.start + Duration::from_secs_f64(index as f64 * *period_s)).0
            }
            Gaps::Gamma { shape, scale_s } => after(*scale_s * self.rng.gamma(*shape)),
            Gaps::Modulated(chain) => chain.after(previous, horizon, &mut self.rng),
            Gaps::Listed(list) => list.get(index as usize).map_or(NEVER, |time| time.0),
            Gaps::Closed { .. } => NEVER,
        }
    }

    /// The time between an answer and the same user's next query.
    #[inline]
    pub(super) fn think(&mut self) -> Duration {
        match self.gaps {
            Gaps::Closed {
                think_s,
                exponential: true,
                ..
            } => Duration::from_secs_f64(think_s * self.rng.exponential()),
            Gaps::Closed { think_s, .. } => Duration::from_secs_f64(think_s),
            _ => Duration(NEVER),
        }
    }

    /// Whether the users of a closed loop think at all.
    pub(super) fn thinks(&self) -> bool {
        matches!(self.gaps, Gaps::Closed { think_s, .. } if think_s > 0.0)
    }

    /// Users of a closed loop.
    pub(super) fn users(&self) -> Option<u32> {
        match self.gaps {
            Gaps::Closed { users, .. } => Some(users),
            _ => None,
        }
    }

    /// Listed times that lie before the start and are left out.
    pub(super) fn skipped(&self) -> u64 {
        self.skipped
    }

    /// The time from which [`QueryClock::time`] goes on to query 0.
    pub(super) fn start(&self) -> u64 {
        self.start.0
    }
}

impl Modulated {
    fn after(&mut self, previous: u64, horizon: u64, rng: &mut Generator) -> u64 {
        // Each state uses up a part of one exponential draw in proportion to its rate.
        let mut left = rng.exponential();
        let mut now = previous;
        while now < horizon && !self.rates_hz.is_empty() {
            let rate_hz = self.rates_hz[self.state];
            let stay_s = Duration(self.until.saturating_sub(now)).as_secs_f64();
            if left < rate_hz * stay_s {
                let next = now.saturating_add(Duration::from_secs_f64(left / rate_hz).0);
                // Rounding may lead to the very end of the state, not beyond.
                return next.min(self.until);
            }
            left -= rate_hz * stay_s;
            now = self.until;
            self.state = (self.state + 1) % self.rates_hz.len();
            let stay_s = self.mean_stay_s[self.state] * rng.exponential();
            // At least 1 ns, so that the walk always advances.
            self.until = now.saturating_add(Duration::from_secs_f64(stay_s).0.max(1));
        }
        NEVER
    }
}

/// How many of the rising times lie before `start`.
fn count_before(start: Instant, list: &[Instant]) -> usize {
    list.partition_point(|&time| time < start)
}

/// The times from `start` on.
fn not_before(start: Instant, list: &[Instant]) -> Vec<Instant> {
    list[count_before(start, list)..].to_vec()
}
