//! The SoC profile file: engines, lanes, memory, contention and power.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::heat::Heat;
use super::quantity::{
    BYTES_MAX, GBPS_MAX, GBPS_MIN, Origin, Quantity, RATIO_MAX, WATTS_MAX, WEIGHT_MAX, WEIGHT_MIN,
};

/// Fewest and most cores of a CPU: a tenth for a core that does other things most of the time.
const CORES_MIN: f64 = 0.1;
const CORES_MAX: f64 = 1e4;
/// Most energy that moving a gigabyte may take, J.
const JOULES_PER_GB_MAX: f64 = 1e6;

/// A SoC profile (`profiles/<soc>/soc.toml`).
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SocFile {
    /// Name for people, for example `Rockchip RK3588`.
    pub name: String,
    /// Origin of every number that names none and has no nearer `origin`.
    pub origin: Option<String>,
    /// Shared memory.
    pub memory: Memory,
    /// CPU cores that host work and CPU lanes share.
    pub cpu: CpuPool,
    /// Engines by name.
    pub engines: BTreeMap<String, Engine>,
    /// Lanes by name.
    pub lanes: BTreeMap<String, Lane>,
    /// How engines slow each other down.
    #[serde(default)]
    pub contention: Contention,
    /// Power of the whole SoC; absent means energy is not reported.
    pub power: Option<Power>,
    /// Temperature and throttling; absent means that it never gets too warm.
    pub heat: Option<Heat>,
    /// Where the numbers came from, by key.
    #[serde(default)]
    pub origins: BTreeMap<String, Origin>,
}

/// The memory that all engines share.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Origin of this table's numbers.
    pub origin: Option<String>,
    /// Capacity in bytes.
    #[schemars(extend("exclusiveMinimum" = 0, "multipleOf" = 1, "maximum" = BYTES_MAX))]
    pub capacity_bytes: Quantity,
    /// Bytes that the operating system and firmware keep.
    #[schemars(extend("multipleOf" = 1, "maximum" = BYTES_MAX))]
    pub reserved_bytes: Quantity,
    /// Sustained bandwidth of all engines together, GB/s (1e9 bytes).
    #[schemars(extend("minimum" = GBPS_MIN, "maximum" = GBPS_MAX))]
    pub bandwidth_gbps: Quantity,
    /// Peak (data-sheet) bandwidth, GB/s.
    #[schemars(extend("minimum" = GBPS_MIN, "maximum" = GBPS_MAX))]
    pub peak_gbps: Option<Quantity>,
}

/// The CPU cores.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CpuPool {
    /// Origin of this table's numbers.
    pub origin: Option<String>,
    /// Cores that lanes and host work compete for.
    #[schemars(extend("minimum" = CORES_MIN, "maximum" = CORES_MAX))]
    pub cores: Quantity,
}

/// Kind of processor.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineKind {
    /// General-purpose cores.
    Cpu,
    /// Graphics processor.
    Gpu,
    /// Neural processor (an ANE is an NPU).
    Npu,
}

/// A processor of the SoC.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Engine {
    /// Origin of this table's numbers.
    pub origin: Option<String>,
    /// Kind of processor.
    pub kind: EngineKind,
    /// Streaming read rate of this engine alone, GB/s.
    #[schemars(extend("minimum" = GBPS_MIN, "maximum" = GBPS_MAX))]
    pub port_gbps: Quantity,
    /// Port behind which the times of cost files were taken, GB/s, where it is not this one's: a what-if. Of a stage
    /// the time that its bytes took there becomes that of this port, and the compute time stays.
    #[schemars(extend("minimum" = GBPS_MIN, "maximum" = GBPS_MAX))]
    pub measured_port_gbps: Option<Quantity>,
    /// Compute rate ÷ that of the engine on which the times of cost files were taken: a what-if, 1 where it is left
    /// out. It divides the compute time of every stage; transfers have none.
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = RATIO_MAX))]
    pub compute_ratio: Option<Quantity>,
    /// Arbitration weight under contention, relative to the other engines.
    #[schemars(extend("minimum" = WEIGHT_MIN, "maximum" = WEIGHT_MAX))]
    pub weight: Quantity,
    /// Bytes that this engine can address; a model whose weights exceed it does not fit this engine.
    #[schemars(extend("exclusiveMinimum" = 0, "multipleOf" = 1, "maximum" = BYTES_MAX))]
    pub address_limit_bytes: Option<Quantity>,
    /// Bytes of KV that this engine may hold; absent means as much as the SoC has.
    #[schemars(extend("exclusiveMinimum" = 0, "multipleOf" = 1, "maximum" = BYTES_MAX))]
    pub kv_budget_bytes: Option<Quantity>,
    /// Power while idle, W.
    #[schemars(extend("maximum" = WATTS_MAX))]
    pub idle_w: Option<Quantity>,
    /// Power of the whole engine while a stage runs on any of its lanes, W; a stage may state its own, and of several
    /// that run the greatest counts.
    #[schemars(extend("maximum" = WATTS_MAX))]
    pub active_w: Option<Quantity>,
}

/// A serial executor on an engine.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lane {
    /// Origin of this table's numbers.
    pub origin: Option<String>,
    /// Name of its engine.
    pub engine: String,
    /// CPU cores that the lane's own work keeps busy (CPU lanes).
    pub cores: Option<Quantity>,
    /// Core numbers that the live executor pins the lane to.
    pub pin_cores: Option<Vec<u32>>,
}

/// Contention model and its parameters.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Contention {
    /// Origin of this table's numbers.
    pub origin: Option<String>,
    /// Which model runs unless the scenario names another.
    #[serde(default)]
    pub model: ContentionModelName,
    /// Overlap of compute and memory time within a stage: 1 = none, large = perfect.
    pub overlap_exponent: Option<Quantity>,
    /// How a stage's burst demand grows with its memory intensity: demand = port · μ^γ.
    pub burst_exponent: Option<Quantity>,
    /// How an engine's weight grows with its memory intensity, weight · μ^α: 0 = turns between engines
    /// (if absent), 1 = first come, first served.
    pub occupancy_exponent: Option<Quantity>,
    /// Part by which compute time grows when the others' demand fills the bandwidth, 0 if absent.
    #[schemars(extend("maximum" = RATIO_MAX))]
    pub latency_loss: Option<Quantity>,
    /// PCCS curves by engine.
    #[serde(default)]
    pub pccs: BTreeMap<String, Pccs>,
    /// Measured pair slowdowns.
    #[serde(default)]
    pub pairs: Vec<Pair>,
}

/// Name of a contention model.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ContentionModelName {
    /// No slowdown.
    None,
    /// Weighted max-min sharing of the bandwidth with partial overlap.
    #[default]
    WaterFilling,
    /// Processor-centric contention curves (Xu et al., MICRO 2021).
    Pccs,
    /// Interpolation in the measured pair grid alone.
    Pairwise,
}

/// PCCS parameters of one engine: three regions of its own bandwidth demand.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pccs {
    /// Origin of this table's numbers.
    pub origin: Option<String>,
    /// Demand below which contention is minor, GB/s.
    pub normal_from_gbps: Quantity,
    /// Demand from which contention is intensive, GB/s.
    pub intensive_from_gbps: Quantity,
    /// Loss of relative speed in the minor region at saturating external demand (fraction).
    pub minor_loss: Quantity,
    /// External demand at which the loss stops growing ("contention balance point"), GB/s.
    pub balance_gbps: Quantity,
    /// Sum of own and external demand at which the normal region starts to lose speed, GB/s.
    pub onset_gbps: Quantity,
    /// Loss of relative speed per GB/s of external demand in the normal region.
    pub normal_rate: Quantity,
    /// Loss of relative speed per GB/s of external demand in the intensive region.
    pub intensive_rate: Quantity,
}

/// Measured slowdown of one engine by another, on a grid of memory intensities.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    /// Origin of this table's numbers.
    pub origin: Option<String>,
    /// The engine that is slowed down.
    pub victim: String,
    /// The engine that runs beside it.
    pub aggressor: String,
    /// Memory intensities μ of the victim, rising, within [0, 1].
    pub victim_mu: Vec<f64>,
    /// Memory intensities μ of the aggressor, rising, within [0, 1].
    pub aggressor_mu: Vec<f64>,
    /// Slowdown (time beside ÷ time alone, at least 1) by victim row and aggressor column.
    #[schemars(transform = at_least_alone)]
    pub slowdown: Vec<Vec<Quantity>>,
}

/// Bounds of each cell of a grid of slowdowns: beside another, nothing takes less than alone.
fn at_least_alone(schema: &mut schemars::Schema) {
    if let Some(cell) = schema.pointer_mut("/items/items") {
        cell["minimum"] = 1.into();
        cell["maximum"] = RATIO_MAX.into();
    }
}

/// Power beyond the engines'.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// Origin of this table's numbers.
    pub origin: Option<String>,
    /// Power of the SoC with every engine idle, beyond the engines' own, W.
    #[schemars(extend("maximum" = WATTS_MAX))]
    pub base_w: Quantity,
    /// Energy per gigabyte moved to or from memory, J.
    #[schemars(extend("maximum" = JOULES_PER_GB_MAX))]
    pub joules_per_gb: Option<Quantity>,
}
