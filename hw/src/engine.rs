//! What an engine backend must do: the boundary between the live driver and llama.cpp, ONNX Runtime, …
//!
//! An [`Engine`] is the worker of one lane. It lives on its lane's thread, runs one [`Order`] at a time
//! and decides nothing: what runs where, from which version and after which preparation was decided by
//! the scheduler, and an engine that cannot do as told says so with an [`EngineError`].
//!
//! What lanes share is not the engine but its *store*: the KV of streams and of requests. Lanes of one
//! processor share one store; stores of different processors meet in a [`crate::registry::Registry`], where
//! an import finds its source. Backends take a registry when they are made; the driver knows nothing of it.

use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use sim::dispatch::Task;
use sim::spec::model::StageKind;
use sim::world::{EngineId, StreamId};

pub use crate::cancel::CancelToken;

/// The worker of one lane.
///
/// # What each kind of stage must do
///
/// All token counts are the scheduler's, and so are versions: version v of a stream is the system
/// prompt and the stream's first v items (frames, and answers that joined), in order. `reads` is
/// [`Order::reads`].
///
/// | kind | what must be true when [`Engine::run`] returns |
/// | --- | --- |
/// | `encode` | The frame's embedding is in the registry, for whichever lane goes on with it. As part of a preparation (the item is not a frame, or [`Task::size`] is above 1): the embeddings of the newest `size` frames of version `reads` are, for this request. |
/// | `project` | The embedding is in the form that the language model takes. |
/// | `ingest` | The store holds version [`Task::version`] of the stream: version `reads` was there, and the item's [`Task::size`] tokens were prefilled after its [`Task::context`] tokens. |
/// | `query_prefill` | The request has a fork of its own of version `reads`, with its prompt prefilled; the first token of the answer is in [`Done::tokens`]. |
/// | `decode` | The fork was continued until the answer ended, by at most [`Task::size`] tokens, which are in [`Done::tokens`]. |
/// | `import` | The context of [`Order::owner`] holds what the source's holds, up to version `reads`; [`Task::size`] tokens were missing. |
/// | `reconstruct` | The same context holds all of version `reads`; the last [`Task::size`] tokens, which were missing, were prefilled again after the first [`Task::context`]. |
/// | custom | Whatever the scenario means by its name. |
///
/// `export` never comes: it is the first half of the import, on the importing lane. The source's
/// lane goes on working meanwhile, so a store must let others read between two of its steps (a token,
/// a batch), not only between two tasks.
///
/// # Versions and forks
///
/// A version that was published never changes. `ingest` appends to the stream's context; requests that
/// read an older version at the same time keep reading what it held. With llama.cpp: one sequence per
/// stream and one per running request; a fork is `seq_cp` of the first tokens, cheap in a unified cache.
/// A context whose window has slid (`World::keep`) drops what no running request reads. A preparation may
/// be for an older version than the context holds, where its window has slid past it: it adds what is
/// missing and keeps the rest.
///
/// The owner of a context is the stream, or with context reuse off the request: then preparations
/// fill a context that is the request's alone, and `query_prefill` goes on in that.
///
/// # Interruption
///
/// A task that failed, or that was given up at its deadline, may be sent again, to another lane of the
/// same processor or of another. So an `ingest` first cuts its context back to `reads`, and a task that
/// was cancelled changes nothing that others can see after it has seen the [`CancelToken`].
pub trait Engine: Send {
    /// Called once, on the lane's thread, before the run begins: pins the thread
    /// (`World::lanes[..].pin_cores`), loads the model, warms up. Its time is not part of the run.
    fn enter(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    /// Does what is ordered, and returns when it is done. An error, like a panic, takes the lane out of
    /// service; the scheduler sends its work elsewhere or refuses it.
    ///
    /// It should look at `token` at least every few tens of milliseconds: a lane that does not is given
    /// up all the same, but its thread lives on until it returns.
    fn run(&mut self, order: &Order, token: &CancelToken) -> Result<Done, EngineError>;

    /// Something that concerns the engine's store. Every notice reaches each processor once, on one of
    /// its lanes, in order, and before any task that the scheduler started later.
    fn notice(&mut self, notice: &Notice) -> Result<(), EngineError>;

    /// After how long without an order [`Self::keep_warm`] is called, and again; `None`: never.
    fn idles_for(&self) -> Option<Duration> {
        None
    }

    /// A little work while the lane has none, so that clocks do not fall. An order waits for it.
    fn keep_warm(&mut self) -> Result<(), EngineError> {
        Ok(())
    }
}

/// The next message for a lane, `None` if there will be none; meanwhile its engine is kept warm.
pub(crate) fn next<M>(
    messages: &Receiver<M>,
    engine: &mut dyn Engine,
) -> Result<Option<M>, EngineError> {
    while let Some(pause) = engine.idles_for() {
        match messages.recv_timeout(pause) {
            Ok(message) => return Ok(Some(message)),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => engine.keep_warm()?,
        }
    }
    Ok(messages.recv().ok())
}

/// A task, with all that the scheduler does not say because it need not know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// What the scheduler asks for.
    pub task: Task,
    /// Kind of its stage.
    pub kind: StageKind,
    /// What it is about.
    pub item: Item,
    /// Version that it starts from; a preparation makes it usable. For the stages of a frame or of an
    /// answer that joins, the version before the one that they make.
    pub reads: u32,
    /// Whose context it works on.
    pub owner: Owner,
    /// Noise seed of the frame or query, for engines that only pretend.
    pub noise: u64,
}

/// A frame, a query or an answer that joins the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// A frame.
    Frame {
        /// Its number within the stream, from 0.
        index: u32,
        /// Visual tokens.
        tokens: u32,
    },
    /// A query.
    Query {
        /// Its number within the stream, from 0.
        index: u32,
        /// Prompt tokens.
        prompt: u32,
        /// Answer tokens that the workload drew, the first included. An engine that plays a workload
        /// ends there, whatever the model says; one that serves people ends where the model does.
        output: u32,
    },
    /// An answer on its way into the context.
    Answer {
        /// Number of its query within the stream.
        query: u32,
        /// Tokens that join: prompt and answer.
        tokens: u32,
    },
}

/// Whose context a task works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// The stream's, which requests fork.
    Stream(StreamId),
    /// A request's alone, by its ticket.
    Request(u32),
}

/// What a task came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Tokens that a `query_prefill` (one) or a `decode` generated; empty for other kinds.
    pub tokens: Vec<u32>,
    /// DRAM bytes that it moved; 0 if unknown.
    pub bytes: u64,
    /// Energy that it took, nJ; 0 if unknown.
    pub nanojoules: u64,
}

/// Something that concerns a processor's store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A version was published. Stores remember which items make which version: a `reconstruct` may
    /// ask for any of them.
    Published {
        /// Its stream.
        stream: StreamId,
        /// The version.
        version: u32,
        /// The item that it ends with.
        item: Item,
    },
    /// The stream's KV leaves this processor. No running task reads it.
    Evicted {
        /// The stream.
        stream: StreamId,
    },
    /// A frame or query has ended, or was refused: what was kept for it alone may go. Its ticket may
    /// come again.
    Ended {
        /// Its stream.
        stream: StreamId,
        /// Its ticket.
        ticket: u32,
        /// The frame or query.
        item: Item,
    },
}

/// Why a task did not end well. Each takes its lane out of service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The engine panicked, or its device is gone.
    #[error("the engine crashed: {0}")]
    Crashed(String),
    /// It needs memory that it could not get.
    #[error("the engine is out of memory: {bytes} bytes more were needed")]
    OutOfMemory {
        /// Bytes that it asked for.
        bytes: u64,
    },
    /// The task took longer than the driver waits.
    #[error("the task did not end within {} s", .0.as_secs_f64())]
    Deadline(Duration),
    /// It saw its token cancelled.
    #[error("the task was cancelled")]
    Cancelled,
    /// A context lacks what the task was told to read: the engine or the scheduler is wrong.
    #[error("{owner} does not hold version {version} on engine {}", engine.0)]
    NotResident {
        /// The context.
        owner: Owner,
        /// The version.
        version: u32,
        /// The engine.
        engine: EngineId,
    },
    /// What was ordered, or what came of it, contradicts this trait: the scheduler or the engine is wrong.
    #[error("the contract of engines was broken: {0}")]
    Contract(String),
    /// What the backend says.
    #[error("the engine failed: {0}")]
    Backend(String),
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(stream) => write!(f, "the context of stream {}", stream.0),
            Self::Request(ticket) => write!(f, "the context of ticket {ticket}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{SyncSender, sync_channel};

    use super::*;

    /// Sends a message while it is kept warm for the second time, or fails if it cannot.
    struct Idle {
        pause: Option<Duration>,
        times: u32,
        sender: Option<SyncSender<u32>>,
    }

    impl Engine for Idle {
        fn run(&mut self, _: &Order, _: &CancelToken) -> Result<Done, EngineError> {
            Ok(Done::default())
        }

        fn notice(&mut self, _: &Notice) -> Result<(), EngineError> {
            Ok(())
        }

        fn idles_for(&self) -> Option<Duration> {
            self.pause
        }

        fn keep_warm(&mut self) -> Result<(), EngineError> {
            self.times += 1;
            if self.times == 2 {
                let sender = self.sender.take();
                let gone = || EngineError::Backend("too cold".into());
                sender.ok_or_else(gone)?.send(7).map_err(|_| gone())?;
            }
            Ok(())
        }
    }

    #[test]
    fn an_engine_is_kept_warm_while_there_is_no_message() {
        let (sender, messages) = sync_channel(2);
        sender.send(1).unwrap();
        let mut engine = Idle {
            pause: Some(Duration::from_millis(1)),
            times: 0,
            sender: Some(sender),
        };
        assert_eq!(next(&messages, &mut engine), Ok(Some(1)));
        assert_eq!(engine.times, 0, "a message that is there goes first");
        assert_eq!(next(&messages, &mut engine), Ok(Some(7)));
        assert_eq!(engine.times, 2);
        assert_eq!(
            next(&messages, &mut engine),
            Ok(None),
            "nobody is left to send"
        );
    }

    #[test]
    fn what_fails_while_it_is_kept_warm_is_told() {
        let (_sender, messages) = sync_channel::<u32>(1);
        let mut engine = Idle {
            pause: Some(Duration::from_millis(1)),
            times: 0,
            sender: None,
        };
        let told = next(&messages, &mut engine);
        assert_eq!(told, Err(EngineError::Backend("too cold".into())));
    }

    #[test]
    fn an_engine_that_need_not_be_kept_warm_is_left_alone() {
        let (sender, messages) = sync_channel::<u32>(1);
        drop(sender);
        let mut engine = Idle {
            pause: None,
            times: 0,
            sender: None,
        };
        assert_eq!(next(&messages, &mut engine), Ok(None));
        assert_eq!(engine.times, 0);
    }
}
