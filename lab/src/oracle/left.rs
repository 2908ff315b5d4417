//! What is left of a case at an instant, and what it will cost at least.
//!
//! Three bounds of the sum of ends, all from what the stages take alone (no slowdown is below 1):
//!
//! - each request by itself, on its best lane from when it can begin;
//! - all that have not begun, on lanes without contention: [`assign`](super::assign);
//! - all that is left, through one **virtual lane**. [Prices](super::prices) of lanes and stages are such that
//!   whatever runs together costs at most 1 a second, contention counted. So no schedule is faster than a lane of speed
//!   1 on which a request takes its price, q. Let M be the mean time at which a request's priced work is done. Σ M is
//!   least where, of those that have come, the smallest q goes first, preempting others (Goemans 1996); and a
//!   request ends no earlier than M plus what its own stages, none of which runs faster than alone, need after
//!   the mean of their work. Without contention, on equal lanes, that is the bound of Eastman, Even and Isaacs
//!   (1964).

use super::case::Known;

/// What is left of a request on a lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    /// Alone, ns, and of the next stage only.
    pub(super) ns: f64,
    pub(super) first: f64,
    /// Priced.
    pub(super) price: f64,
    /// From the mean of the priced work to the end, ns.
    pub(super) tail: f64,
}

impl Rest {
    /// Of these stages (time, price), the next of which has `left`.
    pub(super) fn of(stages: &[(f64, f64)], left: Option<f64>) -> Self {
        let (mut ns, mut first, mut price, mut moment) = (0.0, 0.0, 0.0, 0.0);
        for (at, &(whole, per_ns)) in stages.iter().enumerate().rev() {
            let own = left.filter(|_| at == 0).unwrap_or(whole);
            moment += own * per_ns * (ns + 0.5 * own);
            price += own * per_ns;
            ns += own;
            first = own;
        }
        Self {
            ns,
            first,
            price,
            tail: if price > 0.0 { moment / price } else { 0.0 },
        }
    }

    pub(super) fn min(self, other: Self) -> Self {
        Self {
            ns: self.ns.min(other.ns),
            first: self.first.min(other.first),
            price: self.price.min(other.price),
            tail: self.tail.min(other.tail),
        }
    }
}

/// What is left of all requests at an instant; times are instants, ns.
pub(super) struct Left {
    pub(super) now: f64,
    pub(super) able: usize,
    /// Sums: of arrivals; of ends that have been; of the earliest ends of what runs, and of all that is left, each
    /// by itself.
    pub(super) arrived: f64,
    pub(super) ends_done: f64,
    pub(super) ends_running: f64,
    pub(super) ends: f64,
    /// The latest of all ends.
    pub(super) last: f64,
    /// Sums: of first tokens that are settled but for contention; of the others' earliest, each by itself; of the
    /// others' prefills alone.
    pub(super) firsts_known: f64,
    pub(super) firsts: f64,
    pub(super) firsts_alone: f64,
    /// Release and price of what is left, and the sum of the tails.
    priced: Vec<(f64, f64)>,
    pub(super) tails: f64,
    /// How many run, and the places of those that do not yet.
    running: usize,
    pub(super) waiting: Vec<usize>,
}

impl Left {
    pub(super) fn new(now: f64, able: usize) -> Self {
        Self {
            now,
            able,
            arrived: 0.0,
            ends_done: 0.0,
            ends_running: 0.0,
            ends: 0.0,
            last: now,
            firsts_known: 0.0,
            firsts: 0.0,
            firsts_alone: 0.0,
            priced: Vec::new(),
            tails: 0.0,
            running: 0,
            waiting: Vec::new(),
        }
    }

    pub(super) fn ended(&mut self, first: f64, last: f64) {
        self.ends_done += last;
        self.firsts_known += first;
        self.last = self.last.max(last);
    }

    /// A request that holds its lane. Returns its earliest end.
    pub(super) fn runs(&mut self, rest: Rest, first: Option<f64>, earliest: f64) -> f64 {
        let end = (self.now + rest.ns).max(earliest);
        self.running += 1;
        self.last = self.last.max(end);
        self.ends_running += end;
        self.ends += end;
        self.firsts_known += first.unwrap_or(self.now + rest.first);
        self.priced.push((self.now, rest.price));
        self.tails += if rest.price > 0.0 {
            rest.tail
        } else {
            // Its mean is `now`.
            rest.ns
        };
        end
    }

    /// A request that has not begun.
    pub(super) fn waits(&mut self, known: &Known, at: usize) {
        let rest = known.least;
        let release = self.now.max(known.arrived as f64 + known.begin);
        let end = (release + rest.ns).max(known.arrived as f64 + known.completion);
        let first = (release + rest.first).max(known.arrived as f64 + known.ttft);
        self.last = self.last.max(end);
        self.ends += end;
        self.firsts += first;
        self.firsts_alone += rest.first;
        self.priced.push((release, rest.price));
        self.tails += rest.tail;
        self.waiting.push(at);
    }

    /// The least sum of mean times at which the priced work is done.
    pub(super) fn mean_busy(&mut self) -> f64 {
        self.priced.sort_by(|a, b| a.1.total_cmp(&b.1));
        let mut work: Vec<f64> = self.priced.iter().map(|(_, price)| *price).collect();
        let (mut now, mut sum) = (self.now, 0.0);
        // What costs nothing is done when it comes.
        let free = self.priced.iter().filter(|(_, price)| *price <= 0.0);
        sum += free.map(|(release, _)| release).sum::<f64>();
        loop {
            let coming = self.priced.iter().zip(&work);
            let next = coming
                .filter(|((release, _), work)| *release > now && **work > 0.0)
                .map(|((release, _), _)| *release)
                .fold(f64::INFINITY, f64::min);
            let here =
                |(at, (release, _)): &(usize, &(f64, f64))| *release <= now && work[*at] > 0.0;
            let Some((at, (_, price))) = self.priced.iter().enumerate().find(here) else {
                if next.is_finite() {
                    now = next;
                    continue;
                }
                return sum;
            };
            let done = work[at].min(next - now);
            sum += (now + 0.5 * done) * done / price;
            // To the next release, or to its own end: one of the two is reached exactly.
            if done < work[at] {
                work[at] -= done;
                now = next;
            } else {
                work[at] = 0.0;
                now += done;
            }
        }
    }

    /// The least sum of starts of what has not begun: there are never more on lanes than lanes, so before the next
    /// start enough others have ended, and their work has been done.
    pub(super) fn starts(&mut self) -> f64 {
        let mut prices: Vec<f64> = self.priced.iter().map(|(_, price)| *price).collect();
        prices.sort_by(f64::total_cmp);
        let start = |nth: usize| {
            let ended = (self.running + nth + 1).saturating_sub(self.able);
            self.now + prices.iter().take(ended).sum::<f64>()
        };
        (0..self.waiting.len()).map(start).sum()
    }

    /// When all priced work can have been done.
    pub(super) fn work_ends(&mut self) -> f64 {
        self.priced.sort_by(|a, b| a.0.total_cmp(&b.0));
        let all = self.priced.iter();
        all.fold(self.now, |end, (release, price)| end.max(*release) + price)
    }
}
