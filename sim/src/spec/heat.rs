//! How a SoC warms up, and how it slows down to cool: a first-order model with throttle steps.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::quantity::Quantity;

/// Coldest and hottest that a file may state, °C.
const COLDEST: i32 = -60;
const HOTTEST: i32 = 200;

/// Heat of the whole SoC, one temperature: dT/dt = (ambient + R·P − T) / τ.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Heat {
    /// Origin of this table's numbers.
    pub origin: Option<String>,
    /// Temperature of the surroundings, °C.
    #[schemars(extend("minimum" = COLDEST, "maximum" = HOTTEST))]
    pub ambient_c: Quantity,
    /// Rise over the surroundings per watt once settled, K/W.
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 1e3))]
    pub kelvin_per_watt: Quantity,
    /// Time in which 63 % (1 − 1/e) of the way to a new temperature is gone, s.
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 1e6))]
    pub time_constant_s: Quantity,
    /// Temperature at the start of a run, °C; if absent, that of an idle SoC.
    #[schemars(extend("minimum" = COLDEST, "maximum" = HOTTEST))]
    pub start_c: Option<Quantity>,
    /// Throttle steps, the coolest first; each comes on top of those before it.
    #[serde(default)]
    pub steps: Vec<HeatStep>,
}

/// One throttle step.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HeatStep {
    /// Origin of this table's numbers.
    pub origin: Option<String>,
    /// The step is taken at this temperature, °C.
    #[schemars(extend("minimum" = COLDEST, "maximum" = HOTTEST))]
    pub from_c: Quantity,
    /// And left again at this one, °C.
    #[schemars(extend("minimum" = COLDEST, "maximum" = HOTTEST))]
    pub until_c: Quantity,
    /// Speed of each engine in this step, as a part of its full speed; an engine that is not named keeps
    /// that of the step before. What work adds to an engine's idle power falls in the same proportion.
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 1))]
    pub speed: BTreeMap<String, Quantity>,
}
