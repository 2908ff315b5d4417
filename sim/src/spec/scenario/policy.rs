//! Dispatch policies with their parameters, and what they believe.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::CV_MAX;

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
    /// The first idle lane, in order of their engines' names; waits if none is idle.
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
            // `{}` would write 1e300 in 301 digits.
            Self::Float(number) if !(1e-6..1e16).contains(&number.abs()) && *number != 0.0 => {
                write!(f, "{number:e}")
            }
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
