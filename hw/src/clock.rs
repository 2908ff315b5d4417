//! The clock of a run: real time since its start, or steps from event to event.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sim::time::Instant;

/// How the time of a run passes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// With the machine's monotonic clock, `speed` seconds of the scenario a second.
    ///
    /// 1 for real engines. Engines that only pretend may run faster.
    Wall {
        /// Seconds of the scenario per second.
        speed: f64,
    },
    /// From event to event, as soon as every lane has ended its task or says until when it waits
    /// ([`CancelToken::sleep`](crate::cancel::CancelToken::sleep)).
    ///
    /// For engines that only pretend: with threads and messages as live, but with no dependence on how
    /// busy the machine is. Work that does not wait takes no time.
    Stepped,
}

/// Tells the time since the start of the run.
#[derive(Clone, Debug)]
pub(crate) struct Clock(Arc<Mode>);

#[derive(Debug)]
enum Mode {
    Wall {
        start: OnceLock<std::time::Instant>,
        speed: f64,
    },
    Stepped {
        now: AtomicU64,
    },
}

impl Clock {
    /// A clock at zero.
    ///
    /// # Panics
    ///
    /// If the speed is not above zero.
    pub(crate) fn new(pace: Pace) -> Self {
        Self(Arc::new(match pace {
            Pace::Wall { speed } => {
                assert!(
                    speed > 0.0 && speed.is_finite(),
                    "the speed is {speed}, expected more than 0"
                );
                Mode::Wall {
                    start: OnceLock::new(),
                    speed,
                }
            }
            Pace::Stepped => Mode::Stepped {
                now: AtomicU64::new(0),
            },
        }))
    }

    /// Lets the time run; before, it is zero.
    pub(crate) fn start(&self) {
        if let Mode::Wall { start, .. } = &*self.0 {
            start.get_or_init(std::time::Instant::now);
        }
    }

    /// The time since the start.
    pub(crate) fn now(&self) -> Instant {
        match &*self.0 {
            Mode::Wall { start, speed } => start.get().map_or(Instant::ZERO, |start| {
                let elapsed = start.elapsed();
                if *speed == 1.0 {
                    Instant(elapsed.as_nanos() as u64)
                } else {
                    Instant::from_secs_f64(elapsed.as_secs_f64() * speed)
                }
            }),
            Mode::Stepped { now } => Instant(now.load(Ordering::Acquire)),
        }
    }

    pub(crate) fn is_stepped(&self) -> bool {
        matches!(&*self.0, Mode::Stepped { .. })
    }

    /// Moves a stepped clock on; it never goes back.
    pub(crate) fn step_to(&self, to: Instant) {
        if let Mode::Stepped { now } = &*self.0 {
            now.fetch_max(to.0, Ordering::AcqRel);
        }
    }

    /// Real time that passes until `at`; `None`: more than any run takes.
    pub(crate) fn until(&self, at: Instant) -> Option<Duration> {
        let speed = match &*self.0 {
            Mode::Wall { speed, .. } => *speed,
            Mode::Stepped { .. } => 1.0,
        };
        let left = at.saturating_since(self.now());
        if at == Instant::NEVER {
            return None;
        }
        // Rounded up, so that one wait is enough.
        Duration::try_from_secs_f64(left.as_secs_f64() / speed)
            .ok()
            .map(|left| left + Duration::from_nanos(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_stands_until_started_and_then_runs_at_its_speed() {
        let clock = Clock::new(Pace::Wall { speed: 1000.0 });
        assert_eq!(clock.now(), Instant::ZERO);
        clock.start();
        std::thread::sleep(Duration::from_millis(2));
        assert!(clock.now() >= Instant(2_000_000_000));
        assert_eq!(clock.until(Instant::ZERO), Some(Duration::from_nanos(1)));
        assert_eq!(clock.until(Instant::NEVER), None);
    }

    #[test]
    fn a_stepped_clock_moves_when_told_and_never_back() {
        let clock = Clock::new(Pace::Stepped);
        clock.start();
        clock.step_to(Instant(5));
        clock.step_to(Instant(3));
        assert_eq!(clock.now(), Instant(5));
    }
}
