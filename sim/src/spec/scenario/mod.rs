//! The scenario file: what runs on the SoC, how, and for how long.

mod policy;
mod streams;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use policy::{Beliefs, LengthPrediction, Param, Policy, Terms};
pub use streams::{Arrivals, FrameClock, Frames, Length, LengthDistribution, Queries, Stream};

use super::quantity::{BYTES_MAX, SECONDS_MAX};
use super::soc::ContentionModelName;

/// Shortest horizon and mean stay in a state, s: a thousand steps of the clock.
const SPAN_MIN: f64 = 1e-6;
/// Most runs: each is kept until the end, for medians over runs.
const REPLICATIONS_MAX: u32 = 1_000_000;
/// Greatest coefficient of variation: beyond, nearly all draws are next to nothing, and the mean rests
/// on draws that no run is long enough to see.
pub(super) const CV_MAX: f64 = 100.0;

/// A scenario (`scenarios/*.toml`).
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScenarioFile {
    /// One line that says what is asked.
    pub title: String,
    /// Where the workload came from, and what of it is inferred.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Key or path of the SoC profile.
    pub soc: String,
    /// Key or path of the model.
    pub model: String,
    /// Path of the cost file; absent: the library's costs of this model on this SoC.
    pub costs: Option<String>,
    /// Root seed of every random draw.
    #[serde(default = "one")]
    pub seed: u64,
    /// Independent runs; intervals need at least two.
    #[serde(default = "one_u32")]
    #[schemars(extend("minimum" = 1, "maximum" = REPLICATIONS_MAX))]
    pub replications: u32,
    /// Horizon and warm-up.
    #[serde(default)]
    pub run: Run,
    /// Execution modes, each an ablation.
    #[serde(default)]
    pub modes: Modes,
    /// What a context keeps.
    #[serde(default)]
    pub context: Context,
    /// Lanes that stages are fixed to, by stage name; the policy places the others.
    #[serde(default)]
    pub placement: BTreeMap<String, String>,
    /// Dispatch policy.
    #[serde(default)]
    pub policy: Policy,
    /// What the policy believes, where it differs from the truth.
    #[serde(default)]
    pub beliefs: Beliefs,
    /// Contention model, if not the profile's.
    pub contention: Option<ContentionModelName>,
    /// Limits on what the scheduler may hold.
    #[serde(default)]
    pub limits: Limits,
    /// Load of other software on the SoC.
    #[serde(default)]
    pub background: Background,
    /// Groups of `stage@engine` (or `stage`) that must not run at the same time.
    #[serde(default)]
    pub exclusive: Vec<Vec<String>>,
    /// Whether stage times vary as the profile says; `false` plays the means.
    #[serde(default = "yes")]
    pub noise: bool,
    /// Video sources with their queries.
    pub streams: Vec<Stream>,
}

fn one() -> u64 {
    1
}
fn one_u32() -> u32 {
    1
}
fn yes() -> bool {
    true
}

/// How long to simulate.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Stop admitting arrivals at this time, s; absent: when every source has ended.
    #[schemars(extend("minimum" = SPAN_MIN, "maximum" = SECONDS_MAX))]
    pub horizon_s: Option<f64>,
    /// Leave requests that arrive before this time out of the statistics, s.
    #[serde(default)]
    #[schemars(extend("minimum" = 0, "maximum" = SECONDS_MAX))]
    pub warm_up_s: f64,
}

/// Execution modes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each mode is a switch of its own, so that every ablation is a scenario"
)]
pub struct Modes {
    /// Keep each stream's KV between requests; off: every request rebuilds its context.
    pub context_reuse: bool,
    /// Stateful Streaming Generation: a stream's frames are ingested while it is being answered; off: no stage of its
    /// frames starts meanwhile on any lane, their encodes included.
    pub ingest_during_generation: bool,
    /// Concurrent Sequence Generation: several lanes answer different requests at once.
    pub concurrent_generation: bool,
    /// How a version reaches an engine that lacks it.
    pub state_transfer: StateTransfer,
    /// Keep frames' embeddings, so that a rebuild only prefills; off: it encodes again.
    pub embedding_cache: bool,
}

impl Default for Modes {
    fn default() -> Self {
        Self {
            context_reuse: true,
            ingest_during_generation: true,
            concurrent_generation: true,
            state_transfer: StateTransfer::Auto,
            embedding_cache: true,
        }
    }
}

/// How a context version reaches an engine that lacks it.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum StateTransfer {
    /// Whichever of the two is expected to be faster.
    #[default]
    Auto,
    /// Copy the KV from an engine that holds it; reconstruct only what none holds.
    Import,
    /// Prefill again.
    Reconstruct,
}

/// What a context keeps, and which version a query is bound to.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Context {
    /// Which frames stay in the context.
    pub keep: Keep,
    /// Whether a query and its answer join the context, prefilled once more on the lane that ingests: the answer came
    /// of a fork of the version that it read. They join in the order of their questions, and stay until the frame after
    /// them leaves the window.
    pub answers_join_history: bool,
    /// Which version a query reads.
    pub binding: Binding,
}

/// Which frames stay in the context.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Keep {
    /// All of them, up to the model's longest context.
    #[default]
    All,
    /// The newest frames.
    Window {
        /// How many frames.
        #[schemars(extend("minimum" = 1))]
        frames: u32,
    },
    /// The first frames (attention sinks) and the newest ones.
    Sinks {
        /// How many of the first frames; questions and answers that joined before the last of them stay too.
        first: u32,
        /// How many of the newest frames.
        #[schemars(extend("minimum" = 1))]
        recent: u32,
    },
}

/// Which version a query reads.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Binding {
    /// All frames that arrived before the query; it waits until they are ingested.
    #[default]
    Arrived,
    /// The newest version that is published when the query arrives. If its frames have left the window when the query
    /// starts, they are prefilled again, or copied, for it.
    Published,
    /// The newest version that is published when its lane starts to answer it: with its preparation, or its prefill where
    /// it needs none. (Where the model's query has stages before that, they are over by then.)
    AtDispatch,
}

/// Limits on what the scheduler may hold.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Requests that may wait or run at once; a further one is refused. 65536 if absent.
    #[schemars(extend("minimum" = 1))]
    pub max_requests: Option<u32>,
    /// Frames of one stream that may wait or be ingested at once; a further one is dropped. 65536 if absent.
    #[schemars(extend("minimum" = 1))]
    pub max_pending_frames: Option<u32>,
    /// Bytes of KV on all engines together, if less than the memory leaves.
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = BYTES_MAX))]
    pub kv_budget_bytes: Option<f64>,
    /// KV budget by engine, bytes, if less than the profile's.
    pub engine_kv_budget_bytes: BTreeMap<String, f64>,
}

/// Load of other software.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Background {
    /// Bytes held.
    #[schemars(extend("minimum" = 0, "maximum" = BYTES_MAX))]
    pub memory_bytes: f64,
    /// Bandwidth that other software would draw, GB/s: a competitor for the memory, not a reservation. Where stages
    /// want the rest it gets its fair share only, and they get the rest.
    #[schemars(extend("minimum" = 0))]
    pub bandwidth_gbps: f64,
    /// CPU cores kept busy.
    #[schemars(extend("minimum" = 0))]
    pub cpu_cores: f64,
}
