//! Streams: when frames and queries arrive, and how long queries and answers are.

use schemars::JsonSchema;
use serde::Deserialize;

use super::super::quantity::{SECONDS_MAX, TOKENS_MAX};
use super::{CV_MAX, SPAN_MIN, one_u32};

/// Fastest that a file may ask for, per second: one a nanosecond.
const RATE_MAX: f64 = 1e9;
/// Slowest, per second: one in the longest time that a file may name.
const RATE_MIN: f64 = 1.0 / SECONDS_MAX;
/// Largest frame, megapixels.
const MEGAPIXELS_MAX: f64 = 1e6;

/// A video source with its queries.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// What it is called: any text of up to 64 characters that can be seen, without blanks at its ends. With `copies`,
    /// `-1`, `-2`, … are appended.
    #[schemars(extend("minLength" = 1))]
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
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = MEGAPIXELS_MAX))]
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
        /// Standard deviation of a normal offset of each frame, s, at most half the time between two. Order is kept:
        /// a frame that would overtake the one before it comes with it.
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
        /// Users; each has a state of their own.
        #[schemars(extend("minimum" = 1, "maximum" = 1_000_000))]
        users: u32,
        /// Mean think time, s: 0, or at least 0.001 unless `count` is given, since a refused user asks again after it.
        /// With 0 he asks again when the next answer is complete.
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
