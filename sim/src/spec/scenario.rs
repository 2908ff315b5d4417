//! The scenario file: what runs on the SoC, how, and for how long.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quantity::{BYTES_MAX, SECONDS_MAX, TOKENS_MAX};
use super::soc::ContentionModelName;

/// Fastest that a file may ask for, per second: one a nanosecond.
const RATE_MAX: f64 = 1e9;
/// Slowest, per second: one in the longest time that a file may name.
const RATE_MIN: f64 = 1.0 / SECONDS_MAX;
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
    /// Stateful Streaming Generation: a stream's frames are ingested while it is being answered.
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
    /// Whether a query and its answer join the context.
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
        /// How many of the first frames.
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
    /// The newest version that is published when the query arrives.
    Published,
    /// The newest version that is published when its first stage starts.
    AtDispatch,
}

/// A dispatch policy and its parameters.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case", deny_unknown_fields, remote = "Self")]
pub enum Policy {
    /// The lane with the earliest expected finish, counting what `terms` names.
    StateAware {
        /// `w`, `w+p` or `w+p+s`.
        terms: Terms,
    },
    /// Everything on one lane.
    Single {
        /// Name of the lane.
        lane: String,
    },
    /// One stage at a time on the whole SoC, each on its fastest engine.
    Serial,
    /// Idle lanes take requests, each with its own context: no KV moves between engines.
    Naive,
    /// The first idle lane in order of the profile; waits if none is idle.
    IdleFirst,
    /// The lane whose engine holds most of the bound version.
    ReuseFirst,
    /// Streams are spread over the lanes once and stay there.
    Fixed {
        /// Lane by stream name; streams not named are spread in order.
        #[serde(default)]
        lanes: BTreeMap<String, String>,
    },
    /// Lanes in turn.
    RoundRobin,
    /// When a lane is idle, the ready request with the shortest predicted answer.
    ShortestJobFirst,
    /// When a lane is idle, the ready request with the earliest deadline.
    EarliestDeadlineFirst,
    /// A policy of your own, in Rhai (docs/policies.md).
    #[serde(untagged)]
    #[schemars(extend("x-tag" = "script"))]
    Script {
        /// Path of the script, relative to the scenario file.
        script: String,
        /// What `param("name")` gives in the script, by name.
        #[serde(default)]
        params: BTreeMap<String, Param>,
    },
}

impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = toml::Value::deserialize(deserializer)?;
        // `{ serial = {} }` is `"serial"`, which the derived reader of an enum with an untagged variant does not see.
        if let toml::Value::Table(table) = &value
            && let Some((word, toml::Value::Table(inner))) = table.iter().next()
            && table.len() == 1
            && inner.is_empty()
            && let Ok(policy) = Self::deserialize(toml::Value::String(word.clone()))
        {
            return Ok(policy);
        }
        Self::deserialize(value).map_err(serde::de::Error::custom)
    }
}

/// A parameter of a script: a whole number, a number, a flag or a text.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Param {
    /// `true` or `false`.
    Flag(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A text.
    Text(String),
}

impl JsonSchema for Param {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Param".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A number, a flag or a text",
            "type": ["boolean", "number", "string"]
        })
    }
}

impl fmt::Display for Param {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Int(number) => write!(f, "{number}"),
            Self::Float(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// In short text, as the command line takes it; the lanes of `fixed` are left out.
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::StateAware { terms: Terms::W } => "state_aware:w",
            Self::StateAware { terms: Terms::Wp } => "state_aware:w+p",
            Self::StateAware { terms: Terms::Wps } => "state_aware:w+p+s",
            Self::Single { lane } => return write!(f, "single:{lane}"),
            Self::Serial => "serial",
            Self::Naive => "naive",
            Self::IdleFirst => "idle_first",
            Self::ReuseFirst => "reuse_first",
            Self::Fixed { .. } => "fixed",
            Self::RoundRobin => "round_robin",
            Self::ShortestJobFirst => "shortest_job_first",
            Self::EarliestDeadlineFirst => "earliest_deadline_first",
            Self::Script { script, params } => {
                write!(f, "script:{script}")?;
                for (at, (name, value)) in params.iter().enumerate() {
                    let before = if at == 0 { '?' } else { '&' };
                    write!(f, "{before}{name}={value}")?;
                }
                return Ok(());
            }
        })
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::StateAware { terms: Terms::Wps }
    }
}

/// Terms of the state-aware score.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
pub enum Terms {
    /// Queued and running work.
    #[serde(rename = "w")]
    W,
    /// And the cheapest preparation of the bound version.
    #[serde(rename = "w+p")]
    Wp,
    /// And the service under the co-run slowdown that the engine would see and cause.
    #[serde(rename = "w+p+s")]
    Wps,
}

/// What the policy believes.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Beliefs {
    /// Path of a cost file that the policy's estimates come from instead of the true one.
    pub costs: Option<String>,
    /// How the policy predicts the length of an answer.
    pub output_tokens: LengthPrediction,
}

/// How the policy predicts the length of an answer.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum LengthPrediction {
    /// The mean of the stream's length distribution.
    #[default]
    Mean,
    /// The true length (an oracle).
    Exact,
    /// The true length times a log-normal error.
    Noisy {
        /// Coefficient of variation of the error.
        #[schemars(extend("exclusiveMinimum" = 0, "maximum" = CV_MAX))]
        cv: f64,
    },
}

/// Limits on what the scheduler may hold.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Requests that may wait or run at once; a further one is refused. 65536 if absent.
    #[schemars(extend("minimum" = 1))]
    pub max_requests: Option<u32>,
    /// Frames of one stream that may wait to be ingested; a further one is dropped. 65536 if absent.
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
    /// Bandwidth drawn, GB/s.
    #[schemars(extend("minimum" = 0))]
    pub bandwidth_gbps: f64,
    /// CPU cores kept busy.
    #[schemars(extend("minimum" = 0))]
    pub cpu_cores: f64,
}

/// A video source with its queries.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// Name; with `copies`, `-1`, `-2`, … are appended.
    pub name: String,
    /// How many streams of this kind, each with its own draws.
    #[serde(default = "one_u32")]
    #[schemars(extend("minimum" = 1))]
    pub copies: u32,
    /// Its frames.
    pub frames: Option<Frames>,
    /// Its queries.
    pub queries: Option<Queries>,
}

/// Frames of a stream.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Frames {
    /// When frames arrive.
    pub clock: FrameClock,
    /// First frame not before this time, s (periodic clocks).
    #[serde(default)]
    #[schemars(extend("minimum" = 0, "maximum" = SECONDS_MAX))]
    pub start_s: f64,
    /// How many frames; absent: until the horizon (periodic) or the end of the list or trace.
    #[schemars(extend("minimum" = 1))]
    pub count: Option<u64>,
    /// Visual tokens a frame, if not the model's.
    #[schemars(extend("minimum" = 1))]
    pub tokens: Option<u32>,
    /// Size of a frame in megapixels, where the encode cost depends on it.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub megapixels: Option<f64>,
}

/// When frames arrive.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FrameClock {
    /// At a fixed rate.
    Periodic {
        /// Frames per second.
        #[schemars(extend("minimum" = RATE_MIN, "maximum" = RATE_MAX))]
        rate_hz: f64,
        /// Standard deviation of a normal offset of each frame, s (order is kept).
        #[serde(default)]
        #[schemars(extend("minimum" = 0, "maximum" = SECONDS_MAX))]
        jitter_s: f64,
    },
    /// At these times, s.
    TimesS(Vec<f64>),
    /// At the times of a trace file: CSV with a `time_s` column, or JSONL with that field.
    Trace {
        /// Path relative to the scenario file.
        file: String,
    },
}

/// Queries of a stream.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Queries {
    /// When queries arrive.
    pub arrivals: Arrivals,
    /// First query not before this time, s.
    #[serde(default)]
    #[schemars(extend("minimum" = 0, "maximum" = SECONDS_MAX))]
    pub start_s: f64,
    /// How many queries; absent: until the horizon or the end of the list or trace.
    #[schemars(extend("minimum" = 1))]
    pub count: Option<u64>,
    /// Prompt tokens; absent only with a trace that has them.
    pub prompt_tokens: Option<Length>,
    /// Answer tokens, the first included; absent only with a trace that has them.
    pub output_tokens: Option<Length>,
    /// Longest answer that the engine allows; memory is reserved for it. Absent: the
    /// distribution's own; log-normal and geometric ones have none, so they need it.
    #[schemars(extend("minimum" = 1))]
    pub max_output_tokens: Option<u32>,
    /// Time from arrival within which the answer should be complete, s.
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = SECONDS_MAX))]
    pub deadline_s: Option<f64>,
}

/// When queries arrive.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Arrivals {
    /// One every period.
    Periodic {
        /// Seconds between queries.
        #[schemars(extend("minimum" = 1.0 / RATE_MAX, "maximum" = SECONDS_MAX))]
        period_s: f64,
    },
    /// At random, independently.
    Poisson {
        /// Mean queries per second.
        #[schemars(extend("minimum" = RATE_MIN, "maximum" = RATE_MAX))]
        rate_hz: f64,
    },
    /// Bursty: the Poisson rate follows a Markov chain over states visited in turn.
    Mmpp {
        /// Rate in each state, queries per second.
        #[schemars(inner(range(min = 0.0, max = RATE_MAX)))]
        rates_hz: Vec<f64>,
        /// Mean (exponential) stay in each state, s.
        #[schemars(inner(range(min = SPAN_MIN, max = SECONDS_MAX)))]
        mean_stay_s: Vec<f64>,
    },
    /// Gamma-distributed gaps: bursty above a coefficient of variation of 1, regular below.
    Gamma {
        /// Mean queries per second.
        #[schemars(extend("minimum" = RATE_MIN, "maximum" = RATE_MAX))]
        rate_hz: f64,
        /// Coefficient of variation of the gaps.
        #[schemars(extend("exclusiveMinimum" = 0, "maximum" = CV_MAX))]
        cv: f64,
    },
    /// At these times, s.
    TimesS(Vec<f64>),
    /// A number of users, each of whom asks again some time after the last answer.
    ClosedLoop {
        /// Users.
        #[schemars(extend("minimum" = 1))]
        users: u32,
        /// Mean think time, s; at least 0.001 unless `count` is given, since a refused user asks again
        /// after it.
        #[schemars(extend("minimum" = 0, "maximum" = SECONDS_MAX))]
        think_s: f64,
        /// Whether think times are exponential (else constant).
        #[serde(default)]
        exponential: bool,
    },
    /// At the times of a trace file: CSV or JSONL with `time_s`, and if given `prompt_tokens`,
    /// `output_tokens`.
    Trace {
        /// Path relative to the scenario file.
        file: String,
    },
}

/// A length in tokens: a plain whole number, or a distribution.
#[derive(Clone, Debug, PartialEq)]
pub enum Length {
    /// Always the same.
    Fixed(u32),
    /// Drawn.
    Drawn(LengthDistribution),
}

/// A distribution of lengths in tokens. Draws are rounded to whole tokens, at least 1.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum LengthDistribution {
    /// Each whole number of the range equally often.
    Uniform {
        /// Least.
        #[schemars(extend("minimum" = 1))]
        low: u32,
        /// Greatest.
        #[schemars(extend("minimum" = 1))]
        high: u32,
    },
    /// Log-normal.
    LogNormal {
        /// Mean.
        #[schemars(extend("minimum" = 1, "maximum" = TOKENS_MAX))]
        mean: f64,
        /// Coefficient of variation.
        #[schemars(extend("exclusiveMinimum" = 0, "maximum" = CV_MAX))]
        cv: f64,
    },
    /// Geometric on 1, 2, …: an end-of-sequence token with constant probability.
    Geometric {
        /// Mean.
        #[schemars(extend("minimum" = 1, "maximum" = TOKENS_MAX))]
        mean: f64,
    },
    /// Drawn from a list.
    Empirical {
        /// Lengths.
        #[schemars(inner(range(min = 1)))]
        tokens: Vec<u32>,
    },
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Fixed(u32),
            Drawn(LengthDistribution),
        }
        Ok(match Either::deserialize(deserializer)? {
            Either::Fixed(tokens) => Self::Fixed(tokens),
            Either::Drawn(distribution) => Self::Drawn(distribution),
        })
    }
}

impl JsonSchema for Length {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Length".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let distribution = generator.subschema_for::<LengthDistribution>();
        schemars::json_schema!({
            "description": "A whole number of tokens, or a distribution",
            "anyOf": [{ "type": "integer", "minimum": 1, "maximum": TOKENS_MAX }, distribution]
        })
    }
}
