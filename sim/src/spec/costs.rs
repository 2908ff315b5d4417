//! The cost file: what each stage of a model costs on each engine of a SoC.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::quantity::{
    BYTES_MAX, GBPS_MAX, GBPS_MIN, Origin, Quantity, RATIO_MAX, SECONDS_MAX, TRAFFIC_MAX, WATTS_MAX,
};
use super::scenario::CV_MAX;

/// Costs of a model on a SoC (`profiles/<soc>/<model>.toml`).
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CostsFile {
    /// Key of the SoC profile.
    pub soc: String,
    /// Key of the model.
    pub model: String,
    /// Origin of every number that names none and has no nearer `origin`.
    pub origin: Option<String>,
    /// Costs by engine.
    pub engines: BTreeMap<String, EngineCosts>,
    /// Where the numbers came from, by key.
    #[serde(default)]
    pub origins: BTreeMap<String, Origin>,
}

/// Costs on one engine.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EngineCosts {
    /// Origin of this table's numbers.
    pub origin: Option<String>,
    /// Bytes of the copy of the language model's weights that this engine keeps for itself; absent if
    /// it shares the model's one copy or runs no language stage.
    #[schemars(extend("multipleOf" = 1, "maximum" = BYTES_MAX))]
    pub weights_copy_bytes: Option<Quantity>,
    /// Cost by stage name; `export`, `import` and `reconstruct` are stages too.
    #[serde(default)]
    pub stages: BTreeMap<String, StageCost>,
    /// By stage name, how much longer it takes while another lane is busy beyond what sharing the memory and the
    /// CPU's cores explains: the lane's core set or clock differs then.
    #[serde(default)]
    pub corun: BTreeMap<String, CorunCost>,
    /// Engines whose busy lanes bring `corun` about; absent: every other lane.
    pub corun_beside: Option<Vec<String>>,
    /// Stages that this engine cannot run, with the reason.
    #[serde(default)]
    pub unsupported: BTreeMap<String, String>,
}

/// Cost of a stage beside others, by its cost alone: a fit or another clock moves both.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CorunCost {
    /// Origin of this table's numbers.
    pub origin: Option<String>,
    /// Time beside others ÷ time alone, contention for the memory and for CPU cores left out, at least 1: what is
    /// measured below is noise, or the time alone is not. The bytes are those alone.
    #[schemars(extend("minimum" = 1, "maximum" = RATIO_MAX))]
    pub ratio: Quantity,
}

/// Cost of a stage on an engine, alone on the SoC.
///
/// Time for size `n` (tokens; megapixels for an encode, bytes for a transfer, 1 for a custom stage)
/// on a context of `ctx` tokens:
/// `fixed_s + per_token_s·n + per_token_context_s·(n·ctx + n(n−1)/2)`, or the interpolated table,
/// or for transfers `fixed_s + bytes/gbps`; and `per_context_s·ctx` beside either of the first two. DRAM
/// bytes are
/// `bytes + bytes_per_token·n + bytes_per_token_context·(n·ctx + n(n−1)/2) + bytes_per_context·ctx`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StageCost {
    /// Origin of this table's numbers.
    pub origin: Option<String>,
    /// Time whatever the size, s.
    #[schemars(extend("maximum" = SECONDS_MAX))]
    pub fixed_s: Option<Quantity>,
    /// Time per token, s.
    #[schemars(extend("maximum" = SECONDS_MAX))]
    pub per_token_s: Option<Quantity>,
    /// Time per token and token of context before it, s.
    #[schemars(extend("maximum" = SECONDS_MAX))]
    pub per_token_context_s: Option<Quantity>,
    /// Time per token of context before it, whatever the size, s: of what is done once over the whole
    /// context, such as the copy that a query works on.
    #[schemars(extend("maximum" = SECONDS_MAX))]
    pub per_context_s: Option<Quantity>,
    /// Tokens of a block, where the context is read in whole blocks (llama.cpp without flash attention: 256);
    /// absent: token by token.
    #[schemars(range(min = 1))]
    pub context_block: Option<u32>,
    /// Measured times by size, interpolated linearly in time. Below the least size a time goes on along the first two,
    /// but is at least in proportion to the size; above the greatest, along the last two, but at least the last. With
    /// one size alone it is in proportion.
    pub table: Option<TimeTable>,
    /// Transfer rate of `import` and `export`, GB/s.
    #[schemars(extend("minimum" = GBPS_MIN, "maximum" = GBPS_MAX))]
    pub gbps: Option<Quantity>,
    /// DRAM bytes whatever the size.
    #[schemars(extend("maximum" = TRAFFIC_MAX))]
    pub bytes: Option<Quantity>,
    /// DRAM bytes per token; of `import` and `export`, per byte of KV copied (2: read and written).
    #[schemars(extend("maximum" = TRAFFIC_MAX))]
    pub bytes_per_token: Option<Quantity>,
    /// DRAM bytes per token and token of context before it.
    #[schemars(extend("maximum" = TRAFFIC_MAX))]
    pub bytes_per_token_context: Option<Quantity>,
    /// DRAM bytes per token of context before it, whatever the size: of what a stage reads once, such as the KV before
    /// a prefill.
    #[schemars(extend("maximum" = TRAFFIC_MAX))]
    pub bytes_per_context: Option<Quantity>,
    /// Spread of the time: coefficient of variation of a log-normal factor with mean 1.
    #[schemars(extend("maximum" = CV_MAX))]
    pub cv: Option<Quantity>,
    /// Spread of the time as measured samples (s) at one size; the drawn factor is sample ÷ mean.
    #[schemars(extend("x-numbers" = true), inner(range(max = SECONDS_MAX)))]
    pub samples_s: Option<Vec<f64>>,
    /// CPU cores that the stage keeps busy beside its engine: they press on others there. How much it is slowed itself
    /// where it gets fewer, `host_share` says.
    pub host_cores: Option<Quantity>,
    /// Share of the stage's time alone that is serial CPU work, within [0, 1]: only that share is slower where others
    /// want the cores, too. Absent: 0, threads that wait for the engine or work beside it. No effect on a CPU.
    #[schemars(extend("maximum" = 1))]
    pub host_share: Option<Quantity>,
    /// Power of the engine while this stage runs, W.
    #[schemars(extend("maximum" = WATTS_MAX))]
    pub active_w: Option<Quantity>,
    /// Sizes between which the form was measured, tokens; outside, results say so. A table's own ends
    /// if absent; a linear form of a stage whose size is in tokens needs it, unless its numbers are
    /// derived or assumed and so were measured nowhere.
    pub measured_tokens: Option<[f64; 2]>,
    /// Contexts between which the form was measured, tokens; outside, results say so.
    pub measured_context: Option<[f64; 2]>,
}

/// Times by size.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimeTable {
    /// Origin of this table's numbers.
    pub origin: Option<String>,
    /// Sizes in tokens (megapixels for `encode`, bytes for `import` and `export`), rising.
    pub size: Vec<f64>,
    /// Times in seconds.
    #[schemars(extend("x-numbers" = true), inner(range(max = SECONDS_MAX)))]
    pub time_s: Vec<f64>,
}
