//! A number of a profile, with where it came from.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

/// Most tokens that a count may be.
pub(super) const TOKENS_MAX: u32 = u32::MAX;
/// Most bytes that a size may be: whole numbers up to here are exact.
pub(super) const BYTES_MAX: u64 = 1 << 53;
/// Longest time that a file may state, s (32 years), well within what whole nanoseconds can hold.
pub(crate) const SECONDS_MAX: f64 = 1e9;
/// Most DRAM bytes of a stage, or per token.
pub(super) const TRAFFIC_MAX: f64 = 1e13;
/// Slowest that memory, a port or a copy may be, GB/s: a kilobyte a second.
pub(super) const GBPS_MIN: f64 = 1e-6;
/// Fastest that memory, a port or a copy may be, GB/s.
pub(super) const GBPS_MAX: f64 = 1e6;
/// Least and greatest arbitration weight: weights are relative, and one in a billion is none.
pub(super) const WEIGHT_MIN: f64 = 1e-6;
pub(super) const WEIGHT_MAX: f64 = 1e6;
/// Largest ratio of times; far above what any stage loses.
pub(super) const RATIO_MAX: f64 = 1e3;
/// Most power of an engine, W.
pub(super) const WATTS_MAX: f64 = 1e4;

/// A measured, published, derived, fitted or assumed number.
///
/// In TOML either a plain number, which takes the `origin` of the nearest enclosing table, or
/// `{ value = 15.2, origin = "table6", low = 15.1, high = 15.3 }`.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantity {
    /// The number, in the unit of its key.
    pub value: f64,
    /// Key of the origin in `[origins]`, if not the enclosing table's.
    pub origin: Option<String>,
    /// Lower end of the interval within which the true value is believed to lie.
    pub low: Option<f64>,
    /// Upper end of that interval.
    pub high: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Long {
    value: f64,
    origin: Option<String>,
    low: Option<f64>,
    high: Option<f64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Either {
    Plain(f64),
    Long(Long),
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Either::deserialize(deserializer)? {
            Either::Plain(value) => Self {
                value,
                origin: None,
                low: None,
                high: None,
            },
            Either::Long(Long {
                value,
                origin,
                low,
                high,
            }) => Self {
                value,
                origin,
                low,
                high,
            },
        })
    }
}

impl JsonSchema for Quantity {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A number, or { value, origin, low, high }; a plain number takes the `origin` of the nearest enclosing table.",
            "x-quantity": true,
            "minimum": 0,
            "anyOf": [
                { "type": "number" },
                {
                    "type": "object",
                    "additionalProperties": false,
                    "required": ["value"],
                    "properties": {
                        "value": { "type": "number", "description": "the number, in the unit of the key" },
                        "origin": { "type": "string", "description": "key of an [origins] entry" },
                        "low": { "type": "number", "description": "lower end of its interval" },
                        "high": { "type": "number", "description": "upper end of its interval" }
                    }
                }
            ]
        })
    }
}

/// Where a number came from.
#[derive(
    Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord, serde::Serialize,
)]
#[serde(rename_all = "snake_case")]
pub enum OriginKind {
    /// Measured on this kind of device: `note` says where, when, with which version, how often.
    Measured,
    /// Taken from a publication or a public log: `source` says which table or file.
    Published,
    /// Computed from other numbers: `note` says from which and how.
    Derived,
    /// Fitted to measurements: `note` names the rows.
    Fitted,
    /// Nobody has published it: `note` gives the reasoning.
    Assumed,
}

/// One entry of `[origins]`.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// Kind of origin.
    pub kind: OriginKind,
    /// Publication, table, file or tool that gave the number.
    pub source: Option<String>,
    /// How it was obtained: date, host, version, samples; the derivation; or the reasoning.
    pub note: Option<String>,
}
