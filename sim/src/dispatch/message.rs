//! What the scheduler is told, and what it asks for.

use serde::{Deserialize, Serialize};

use crate::time::{Duration, Instant};
use crate::world::{EngineId, LaneId, StageId, StreamId};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// A frame arrived.
    Frame {
        /// The executor's handle for it, returned with its end.
        ticket: u32,
        /// Its stream.
        stream: StreamId,
        /// Its number within the stream, from 0.
        index: u32,
        /// Visual tokens.
        tokens: u32,
    },
    /// A query arrived.
    Query {
        /// The executor's handle for it, returned with its end.
        ticket: u32,
        /// Its stream.
        stream: StreamId,
        /// Its number within the stream, from 0.
        index: u32,
        /// Prompt tokens.
        prompt: u32,
        /// Answer tokens that the policy may expect.
        predicted: u32,
        /// Longest answer; memory is reserved for it.
        max_output: u32,
        /// When the answer should be complete.
        deadline: Option<Instant>,
    },
    /// The task that a lane was running ended.
    Finish {
        /// The lane.
        lane: LaneId,
        /// Tokens that a decode generated, else 0.
        tokens: u32,
        /// DRAM bytes that it moved, if known.
        bytes: u64,
        /// Energy that it took, nJ, if known.
        nanojoules: u64,
    },
    /// The task that a lane was running failed, and the lane is out of service.
    Fail {
        /// The lane.
        lane: LaneId,
    },
    /// The SoC takes or leaves throttle steps.
    Throttle {
        /// Steps of the profile's `[heat]` that are in force from now on.
        level: u8,
    },
    /// Nothing more will happen: whatever is unfinished is refused.
    Close,
}

/// What the scheduler asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Start a task on an idle lane.
    Start {
        /// The lane.
        lane: LaneId,
        /// The task.
        task: Task,
    },
    /// A request was bound to a version; it reads that and no other.
    Bind {
        /// Its stream.
        stream: StreamId,
        /// The query's number within the stream.
        index: u32,
        /// The version.
        version: u32,
    },
    /// A context version is complete and immutable.
    Publish {
        /// Its stream.
        stream: StreamId,
        /// The version.
        version: u32,
        /// Tokens of the context.
        tokens: u32,
        /// Ticket of the frame that completed it; `None`: an answer that joined the history.
        ticket: Option<u32>,
        /// Digest of everything ingested up to it.
        digest: u64,
    },
    /// A stream's KV leaves an engine to make room.
    Evict {
        /// The engine.
        engine: EngineId,
        /// The stream.
        stream: StreamId,
        /// Tokens that leave.
        tokens: u32,
    },
    /// No version of a stream after this one will be published: no lane can build it.
    Abandon {
        /// The stream.
        stream: StreamId,
        /// Its last version.
        after: u32,
    },
    /// A request is answered.
    Complete(Completion),
    /// A frame or a query will not be served.
    Refuse {
        /// The executor's handle.
        ticket: u32,
        /// Its stream.
        stream: StreamId,
        /// Its number within the stream.
        index: u32,
        /// Whether it is a query (else a frame).
        query: bool,
        /// When it arrived.
        arrived: Instant,
        /// Why.
        reason: Reason,
    },
}

/// One stage on one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The stage.
    pub stage: StageId,
    /// Ticket of the frame or query; `u32::MAX` for an answer that joins the history.
    pub ticket: u32,
    /// Stream.
    pub stream: StreamId,
    /// Size: tokens; frames for `encode`; 1 for custom stages. For `decode` the most that may be
    /// generated: the executor ends it where the answer ends.
    pub size: u32,
    /// Tokens of context before it.
    pub context: u32,
    /// Version that it reads or, for an ingest, makes.
    pub version: u32,
    /// Engine that an import copies from (else the lane's own).
    pub source: EngineId,
}

/// A request's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completion {
    /// The executor's handle.
    pub ticket: u32,
    /// Its stream.
    pub stream: StreamId,
    /// Its number within the stream.
    pub index: u32,
    /// Lane that answered.
    pub lane: LaneId,
    /// How the version became usable there.
    pub preparation: Preparation,
    /// Version that it read.
    pub version: u32,
    /// Prompt tokens.
    pub prompt: u32,
    /// Answer tokens, the first included.
    pub output: u32,
    /// Arrival.
    pub arrived: Instant,
    /// Start of its first stage on the answering lane (preparation included).
    pub started: Instant,
    /// First token.
    pub first_token: Instant,
    /// Arrival of the newest frame that the version holds; `None`: it holds none.
    pub newest_frame: Option<Instant>,
    /// Where it holds none: arrival of the stream's first frame, refused or not, if that had come by the
    /// first token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed_frame: Option<Instant>,
    /// Frames that had arrived by the first token, but which the version lacks; refused frames are
    /// among them.
    pub frames_behind: u32,
    /// Whether it ended after its deadline.
    pub late: bool,
    /// Whether query and answer become an item of the stream's context: the next one, once all earlier
    /// questions of the stream have ended.
    pub joins: bool,
    /// Digest of the version and the query: equal to that of the same items in a serial run, or the
    /// scheduler is wrong.
    pub digest: u64,
}

impl Completion {
    /// Age at the first token of what the answer knows: since the arrival of the newest frame that its version
    /// holds. A version without any is at least as old as the stream's first frame, and counts from there; `None`:
    /// no frame had arrived, and the answer could know of none.
    #[inline]
    pub fn staleness(&self) -> Option<Duration> {
        let since = self.newest_frame.or(self.missed_frame)?;
        Some(self.first_token.saturating_since(since))
    }
}

/// How a version became usable on an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preparation {
    /// It was resident.
    #[default]
    Reuse,
    /// Copied from another engine, whole or the missing part.
    Import,
    /// Prefilled again, whole or the missing part.
    Reconstruct,
    /// Partly copied, the rest prefilled.
    ImportAndReconstruct,
}

/// Why a frame or query was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// `limits.max_requests` requests are in the system.
    QueueFull,
    /// `limits.max_pending_frames` frames of the stream wait for ingestion.
    FramesPending,
    /// Context, prompt and answer exceed the model's longest context.
    ContextTooLong,
    /// Its KV exceeds what any engine that could serve it may hold, even with nothing else there.
    NeverFits,
    /// No engine that could serve it can have its context any more: none that holds it can be copied
    /// from, and none of them can prefill it again.
    ContextLost,
    /// Every lane that could serve it is out of service.
    EngineFailed,
    /// The run ended, and no policy had placed it.
    Unserved,
}

impl Reason {
    /// Every reason, in order.
    pub const ALL: [Self; 7] = [
        Self::QueueFull,
        Self::FramesPending,
        Self::ContextTooLong,
        Self::NeverFits,
        Self::ContextLost,
        Self::EngineFailed,
        Self::Unserved,
    ];

    /// The name, as in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::FramesPending => "frames_pending",
            Self::ContextTooLong => "context_too_long",
            Self::NeverFits => "never_fits",
            Self::ContextLost => "context_lost",
            Self::EngineFailed => "engine_failed",
            Self::Unserved => "unserved",
        }
    }
}

/// The buffer that effects are appended to; the caller owns and reuses it.
#[derive(Debug, Default)]
pub struct Effects {
    list: Vec<Effect>,
}

impl Effects {
    /// An empty buffer with room for the effects of an ordinary event.
    pub fn new() -> Self {
        Self {
            list: Vec::with_capacity(64),
        }
    }

    /// Appends an effect.
    #[inline]
    pub fn push(&mut self, effect: Effect) {
        self.list.push(effect);
    }

    /// Takes the effects out, in order; the room stays.
    #[inline]
    pub fn drain(&mut self) -> std::vec::Drain<'_, Effect> {
        self.list.drain(..)
    }

    /// Forgets the effects; the room stays.
    #[inline]
    pub fn clear(&mut self) {
        self.list.clear();
    }

    /// The effects, in order.
    #[inline]
    pub fn as_slice(&self) -> &[Effect] {
        &self.list
    }
}
