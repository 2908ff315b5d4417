//! What waits while work arrives, and whether it piles up.

use crate::time::Instant;

/// Fewest arrivals from which a trend of a queue is read.
const ARRIVALS_MIN: u64 = 30;
/// Busy share from which a lane counts as near saturation.
const NEAR: f64 = 0.85;
/// Busy share from which a lane never rests.
const FULL: f64 = 0.98;
/// Saturation index from which a queue counts as growing: half way from level (0) to a straight
/// ramp (1).
const GROWING: f64 = 0.5;
/// Share of arrivals turned away for want of room from which the limits carry too little.
pub(super) const TURNED_AWAY: f64 = 0.05;

/// Arrivals of one kind that have not ended, with time integrals of their number.
///
/// They count from the start of the run, where nothing waits: a queue that only doubles after a long warm-up would
/// look half level.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queue {
    now: State,
    /// As the newest arrival came: what followed only drained it.
    at_arrival: State,
    /// Busy share of the busiest lane from the end of the warm-up to the newest arrival.
    busiest: f64,
    /// Arrivals after the warm-up.
    arrived: u64,
    /// Of these, turned away because the queue was full.
    turned_away: u64,
    /// Served after the warm-up, whenever they arrived; as the newest arrival came.
    served: u64,
    served_at_arrival: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Time of the newest change, ns.
    at: f64,
    /// ∫ N dt, ns.
    area: f64,
    /// ∫ t·N dt, ns².
    moment: f64,
    /// N after that change.
    count: u32,
}

/// What a queue says of the load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Trend {
    /// 0 level, 1 a straight ramp.
    pub(super) index: f64,
    /// Busy share of the busiest lane up to the newest arrival.
    pub(super) busiest: f64,
    /// It grows.
    pub(super) grows: bool,
    /// It is full so often that much of what arrives is turned away.
    pub(super) overflows: bool,
    /// Arrivals per second from the end of the warm-up to the newest, and how many were served in that time.
    pub(super) asked_rps: f64,
    pub(super) served_rps: f64,
}

impl Trend {
    /// Whether it keeps a run from counting as steady.
    pub(super) fn near(&self) -> bool {
        self.index > GROWING || self.busiest > NEAR
    }
}

impl Queue {
    fn changes(&mut self, now: Instant, by: i32) {
        let state = &mut self.now;
        let (from, to) = (state.at, now.0 as f64);
        let area = f64::from(state.count) * (to - from);
        state.area += area;
        state.moment += area * 0.5 * (from + to);
        state.count = state.count.saturating_add_signed(by);
        state.at = to;
    }

    /// One more; `busiest`: the busiest lane's busy time after the warm-up so far.
    pub(super) fn arrives(&mut self, now: Instant, warm_up: Instant, busiest: u64) {
        self.changes(now, 1);
        self.at_arrival = self.now;
        self.served_at_arrival = self.served;
        let span = now.saturating_since(warm_up).0;
        self.busiest = busiest as f64 / span.max(1) as f64;
        self.arrived += u64::from(now >= warm_up);
    }

    /// One that arrived has ended, whichever way.
    pub(super) fn ends(&mut self, now: Instant) {
        self.changes(now, -1);
    }

    /// The one that ended was served.
    pub(super) fn served(&mut self, now: Instant, warm_up: Instant) {
        self.served += u64::from(now >= warm_up);
    }

    /// The one that ended had arrived after the warm-up, and was turned away.
    pub(super) fn turned_away(&mut self) {
        self.turned_away += 1;
    }

    /// Its trend; `None`: too few arrivals, or nothing ever waited.
    pub(super) fn trend(&self, warm_up: Instant) -> Option<Trend> {
        let State {
            at: span,
            area,
            moment,
            count,
        } = self.at_arrival;
        if self.arrived < ARRIVALS_MIN || area <= 0.0 || span <= 0.0 {
            return None;
        }
        let busiest = self.busiest;
        debug_assert!(busiest <= 1.0, "a lane was busy {busiest} of the time");
        // The queue's centre of mass in time: 1/2 for a level queue, 2/3 for a straight ramp.
        let index = (moment / area / span - 0.5) * 6.0;
        // A ramp on lanes that are at times idle, or that ends with few more than it held on average,
        // may be noise.
        let grew = busiest >= FULL || f64::from(count) > 1.5 * area / span + 4.0;
        let refused = self.turned_away as f64 / self.arrived as f64;
        // Some arrived after the warm-up, and not all of them at its end, or nothing ever waited.
        let window_s = ((span - warm_up.0 as f64) * 1e-9).max(1e-9);
        Some(Trend {
            index,
            busiest,
            grows: index > GROWING && grew,
            overflows: refused > TURNED_AWAY,
            // The newest ends the time in which they are counted.
            asked_rps: (self.arrived - 1) as f64 / window_s,
            served_rps: self.served_at_arrival as f64 / window_s,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WARM_UP: Instant = Instant(0);

    /// One arrival a second for 100 s, each of which ends as `ends` says: seconds after it.
    fn play(share: f64, ends: impl Fn(u64) -> Option<u64>) -> Queue {
        const SECOND: u64 = 1_000_000_000;
        let mut events: Vec<(u64, bool)> = Vec::new();
        for second in 1..=100 {
            events.push((second * SECOND, true));
            if let Some(after) = ends(second) {
                events.push((second * SECOND + after, false));
            }
        }
        events.sort_unstable();
        let mut queue = Queue::default();
        for (at, arrives) in events {
            if arrives {
                queue.arrives(Instant(at), WARM_UP, (share * at as f64) as u64);
            } else {
                queue.ends(Instant(at));
            }
        }
        queue
    }

    #[test]
    fn a_level_queue_is_level_and_a_ramp_is_one() {
        let level = play(0.5, |_| Some(1_500_000_000)).trend(WARM_UP);
        let level = level.expect("is judged");
        assert!(level.index.abs() < 0.1, "{level:?}");
        assert!(!level.grows && !level.near() && !level.overflows);
        let ramp = play(0.5, |_| None).trend(WARM_UP).expect("is judged");
        assert!((ramp.index - 1.0).abs() < 0.1, "{ramp:?}");
        assert!(ramp.grows);
    }

    #[test]
    fn a_ramp_is_one_whatever_the_warm_up() {
        let mut queue = Queue::default();
        let warm_up = Instant(60_000_000_000);
        for second in 1..=100 {
            let at = Instant(second * 1_000_000_000);
            queue.arrives(at, warm_up, at.saturating_since(warm_up).0);
        }
        let trend = queue.trend(warm_up).expect("is judged");
        assert!((trend.index - 1.0).abs() < 0.1 && trend.grows, "{trend:?}");
        assert!(
            (trend.asked_rps - 1.0).abs() < 1e-9 && trend.served_rps == 0.0,
            "{trend:?}"
        );
    }

    #[test]
    fn a_small_rise_on_idle_lanes_is_near_but_no_growth() {
        // The last third takes longer, but little is left.
        let ends = |second| {
            Some(if second > 66 {
                2_500_000_000
            } else {
                100_000_000
            })
        };
        let trend = play(0.4, ends).trend(WARM_UP).expect("is judged");
        assert!(trend.index > GROWING && !trend.grows && trend.near());
        // The same on a lane that never rests is growth.
        assert!(play(0.99, ends).trend(WARM_UP).expect("is judged").grows);
    }

    #[test]
    fn refusals_count_from_one_in_twenty() {
        for (share, refused, overflows) in [(0.99, 6, true), (0.99, 5, false), (0.9, 50, true)] {
            let mut queue = play(share, |_| Some(1_500_000_000));
            for _ in 0..refused {
                queue.turned_away();
            }
            let trend = queue.trend(WARM_UP).expect("is judged");
            assert_eq!(trend.overflows, overflows, "{share} {refused}");
        }
    }
}
