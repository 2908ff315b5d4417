//! How a lane's engine learns that nobody waits for its task any more.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use sim::time::Instant;
use sim::world::LaneId;

use crate::clock::{Clock, Pace};
use crate::engine::EngineError;
use crate::worker::Report;

/// A lane's flag, raised by the driver, and what wakes its sleeper.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    cancelled: AtomicBool,
    lock: Mutex<()>,
    moved: Condvar,
}

impl Signal {
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.wake();
    }

    /// Makes a sleeper look at the clock and at the flag.
    pub(crate) fn wake(&self) {
        let _sleeper_waits = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.moved.notify_all();
    }
}

/// Tells an engine that its task was given up, and lets engines that only pretend pass the time.
#[derive(Clone, Debug)]
pub struct CancelToken {
    signal: Arc<Signal>,
    clock: Clock,
    reports: Option<(LaneId, SyncSender<Report>)>,
}

impl CancelToken {
    pub(crate) fn new(
        signal: Arc<Signal>,
        clock: Clock,
        lane: LaneId,
        reports: SyncSender<Report>,
    ) -> Self {
        Self {
            signal,
            clock,
            reports: Some((lane, reports)),
        }
    }

    /// A token of no driver, on real time: for trying an engine by itself.
    pub fn standalone() -> Self {
        let clock = Clock::new(Pace::Wall { speed: 1.0 });
        clock.start();
        Self {
            signal: Arc::default(),
            clock,
            reports: None,
        }
    }

    /// Cancels the task; engines are not meant to.
    pub fn cancel(&self) {
        self.signal.cancel();
    }

    /// Whether the task was given up.
    pub fn is_cancelled(&self) -> bool {
        self.signal.cancelled.load(Ordering::Acquire)
    }

    /// As [`Self::is_cancelled`], for `?`.
    pub fn check(&self) -> Result<(), EngineError> {
        if self.is_cancelled() {
            Err(EngineError::Cancelled)
        } else {
            Ok(())
        }
    }

    /// Waits for a span of the scenario's time, or until the task is cancelled.
    pub fn sleep(&self, span: sim::time::Duration) -> Result<(), EngineError> {
        let until = self.clock.now() + span;
        if self.clock.is_stepped()
            && span > sim::time::Duration::ZERO
            && let Some((lane, reports)) = &self.reports
        {
            // The driver steps the clock on when it knows that all lanes wait. If it is gone, the
            // token is cancelled.
            let _ = reports.send(Report::Waits { lane: *lane, until });
        }
        self.sleep_until(until)
    }

    /// Waits until the task is cancelled.
    pub fn hang(&self) -> EngineError {
        match self.sleep(sim::time::Duration(Instant::NEVER.0)) {
            Err(error) => error,
            Ok(()) => EngineError::Cancelled,
        }
    }

    fn sleep_until(&self, until: Instant) -> Result<(), EngineError> {
        let mut guard = self
            .signal
            .lock
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        loop {
            self.check()?;
            if self.clock.now() >= until {
                return Ok(());
            }
            let left = if self.clock.is_stepped() {
                None
            } else {
                self.clock.until(until)
            };
            guard = match left {
                Some(left) => self.signal.moved.wait_timeout(guard, left).map_or_else(
                    |poisoned| poisoned.into_inner().0,
                    |(guard, _timeout)| guard,
                ),
                None => self
                    .signal
                    .moved
                    .wait(guard)
                    .unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Waits for real time, whether cancelled or not: the worst that an engine can do.
    pub(crate) fn ignore_for(span: Duration) {
        std::thread::sleep(span);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancelling_wakes_a_sleeper() {
        let token = CancelToken::standalone();
        let other = token.clone();
        let sleeper = std::thread::spawn(move || other.hang());
        token.cancel();
        assert_eq!(sleeper.join().unwrap(), EngineError::Cancelled);
        assert_eq!(token.check(), Err(EngineError::Cancelled));
    }

    #[test]
    fn a_sleep_ends_by_itself() {
        let token = CancelToken::standalone();
        assert_eq!(token.sleep(sim::time::Duration(1_000_000)), Ok(()));
    }
}
