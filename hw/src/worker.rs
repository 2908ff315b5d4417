//! A lane's thread, and how it and the driver talk.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};

use sim::time::Instant;
use sim::world::LaneId;

use crate::cancel::CancelToken;
use crate::clock::Clock;
use crate::engine::{Done, Engine, EngineError, Notice, Order, next};

/// To a lane.
#[derive(Debug)]
pub(crate) enum Message {
    /// Do this.
    Work(Order),
    /// Read the mail.
    Wake,
}

/// From a lane.
#[derive(Debug)]
pub(crate) enum Report {
    /// Its engine is ready, or will never be.
    Entered {
        lane: LaneId,
        outcome: Result<(), EngineError>,
    },
    /// It waits for the clock.
    Waits { lane: LaneId, until: Instant },
    /// Its task ended at `at`. An error may also come from an idle lane.
    Ended {
        lane: LaneId,
        at: Instant,
        outcome: Result<Done, EngineError>,
    },
}

/// Notices for a processor, read by its lanes in turn.
///
/// Not a channel per lane: a lane that is busy for long would read "evicted" after another lane of
/// its processor has brought the same stream back.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    inbox: Mutex<VecDeque<Notice>>,
    /// Held while notices are handed over, so that they stay in order; not needed for posting, so
    /// that the driver never waits for an engine.
    reading: Mutex<()>,
}

impl Mailbox {
    pub(crate) fn post(&self, notice: Notice) {
        self.inbox
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(notice);
    }

    fn read(&self, engine: &mut dyn Engine) -> Result<(), EngineError> {
        let _in_turn = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let next = self
                .inbox
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop_front();
            match next {
                Some(notice) => engine.notice(&notice)?,
                None => return Ok(()),
            }
        }
    }
}

/// What a lane's thread owns. The sender of reports comes last: when it is dropped, the engine is gone.
pub(crate) struct Worker {
    pub(crate) lane: LaneId,
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) messages: Receiver<Message>,
    pub(crate) clock: Clock,
    pub(crate) token: CancelToken,
    pub(crate) reports: SyncSender<Report>,
}

impl Worker {
    /// Serves the lane until the driver has no more for it, or its engine fails.
    pub(crate) fn serve(self) {
        let Self {
            lane,
            mut engine,
            mailbox,
            messages,
            clock,
            token,
            reports,
        } = self;
        let outcome = caught(|| engine.enter());
        let mut serves = outcome.is_ok();
        serves &= reports.send(Report::Entered { lane, outcome }).is_ok();
        while serves {
            let message = caught(|| next(&messages, &mut *engine));
            let outcome = match message {
                Ok(None) => break,
                Ok(Some(message)) => caught(|| {
                    mailbox.read(&mut *engine)?;
                    match &message {
                        Message::Work(order) => engine.run(order, &token).map(Some),
                        Message::Wake => Ok(None),
                    }
                }),
                Err(error) => Err(error),
            };
            let Some(outcome) = outcome.transpose() else {
                continue;
            };
            let at = clock.now();
            serves = outcome.is_ok();
            serves &= reports.send(Report::Ended { lane, at, outcome }).is_ok();
        }
        // A panic while it goes must not take the process down either.
        let _ = caught(|| {
            drop(engine);
            Ok(())
        });
    }
}

/// Runs an engine's code; a panic becomes an error.
fn caught<T>(run: impl FnOnce() -> Result<T, EngineError>) -> Result<T, EngineError> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| {
        let text = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "it panicked".into());
        Err(EngineError::Crashed(text))
    })
}
