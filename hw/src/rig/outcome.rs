//! What a run leaves beside its trace, and why one cannot start.

use std::io;

use sim::dispatch::Completion;
use sim::time::{Duration, Instant};
use sim::world::{LaneId, StreamId};

use crate::cpu_time::CpuTime;
use crate::engine::{EngineError, Item, Order};

/// Why a rig cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// There must be one engine a lane.
    #[error("{given} engines were given for {lanes} lanes")]
    Engines {
        /// Lanes of the world.
        lanes: usize,
        /// Engines given.
        given: usize,
    },
    /// An engine did not get ready.
    #[error("lane `{lane}` is not ready")]
    Engine {
        /// Name of the lane.
        lane: String,
        /// Why.
        #[source]
        error: EngineError,
    },
    /// A thread could not be started.
    #[error("the thread of lane `{lane}` could not be started")]
    Thread {
        /// Name of the lane.
        lane: String,
        /// Why.
        #[source]
        error: io::Error,
    },
}

/// How much later the driver handled things than they happened, in the scenario's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// How many things.
    pub count: u64,
    /// The worst.
    pub max: Duration,
    /// The sum.
    pub total: Duration,
}

impl Lateness {
    /// The mean; zero of nothing.
    pub fn mean(&self) -> Duration {
        Duration(self.total.0 / self.count.max(1))
    }

    pub(super) fn add(&mut self, late: Duration) {
        self.count += 1;
        self.max = self.max.max(late);
        self.total += late;
    }
}

/// A lane that went out of service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// When.
    pub at: Instant,
    /// The lane.
    pub lane: LaneId,
    /// What it was doing; `None`: reading notices.
    pub order: Option<Order>,
    /// Why.
    pub error: EngineError,
}

/// A complete answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What the scheduler says of it.
    pub completion: Completion,
    /// Its tokens, in the engine's vocabulary.
    pub tokens: Vec<u32>,
}

/// What a run leaves beside its trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// How late arrivals were handled.
    pub arrivals: Lateness,
    /// How late ends of tasks were handled.
    pub ends: Lateness,
    /// Lanes that went out of service, in order.
    pub failures: Vec<Failure>,
    /// The answers, in order of completion.
    pub answers: Vec<Answer>,
    /// The items that were published, in order: a stream's n-th makes its version n.
    pub published: Vec<(StreamId, Item)>,
    /// Lanes whose threads did not end when told to, and were left behind.
    pub stuck: Vec<LaneId>,
    /// What the machine's cores were asked for meanwhile, where the system tells.
    pub cpu_time: Option<CpuTime>,
}
