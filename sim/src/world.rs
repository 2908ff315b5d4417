//! A checked scenario: frozen tables indexed by small ids, which the loop reads and never changes.

use std::sync::Arc;

use crate::contention::ContentionModel;
use crate::cost::CostTable;
use crate::dispatch::policy::script::Program;
use crate::spec::model::StageKind;
use crate::spec::quantity::OriginKind;
use crate::spec::scenario::{Binding, Keep, LengthPrediction, Modes, Policy};
use crate::spec::soc::EngineKind;
use crate::time::{Duration, Instant};
use crate::workload::{QueryTimes, StreamPlan};

/// Most engines of a SoC.
pub const ENGINES_MAX: usize = 8;
/// Most lanes of a SoC.
pub const LANES_MAX: usize = 16;
/// Most stages of a model, both graphs, transfers and rebuilds included.
pub const STAGES_MAX: usize = 32;

/// Requests that may be in the system at once if the scenario sets no limit.
pub const MAX_REQUESTS_DEFAULT: u32 = 1 << 16;
/// Frames of a stream that may wait if the scenario sets no limit.
pub const MAX_PENDING_FRAMES_DEFAULT: u32 = 1 << 16;

/// Index of an engine in [`World::engines`] (by name order).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct EngineId(pub u8);
/// Index of a lane in [`World::lanes`] (by name order).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct LaneId(pub u8);
/// Index of a stage in [`World::stages`].
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct StageId(pub u8);
/// Index of a stream in [`World::streams`] (by name order).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct StreamId(pub u16);

/// Everything that a run needs, checked and frozen.
#[derive(Debug)]
pub struct World {
    /// The scenario's title.
    pub title: String,
    /// The scenario's notes.
    pub notes: Vec<String>,
    /// Name of the SoC, for people.
    pub soc_name: String,
    /// Key of the SoC profile.
    pub soc_key: String,
    /// Name of the model, for people.
    pub model_name: String,
    /// Key of the model.
    pub model_key: String,
    /// Engines, by name order.
    pub engines: Vec<Engine>,
    /// Lanes, by name order.
    pub lanes: Vec<Lane>,
    /// Stages: the frame graph, the query graph, then export, import and reconstruct.
    pub stages: Vec<Stage>,
    /// The frame graph, in topological order.
    pub frame_graph: Graph,
    /// The query graph, in topological order.
    pub query_graph: Graph,
    /// The stages that transfers and rebuilds run as.
    pub transfer: TransferStages,
    /// True costs by engine and stage.
    pub costs: CostTable,
    /// Costs that the policy's estimates come from; `None`: the true ones.
    pub believed_costs: Option<CostTable>,
    /// The contention model.
    pub contention: Box<dyn ContentionModel>,
    /// Whether the contention model is one that never slows anything down.
    pub contention_off: bool,
    /// Model sizes.
    pub model: ModelSizes,
    /// Memory.
    pub memory: MemoryPlan,
    /// CPU cores of the SoC, and those that other software keeps busy.
    pub cpu: CpuPlan,
    /// Power beyond the engines': base W and J per byte moved; `None`: energy is not reported.
    pub power: Option<PowerPlan>,
    /// How the SoC warms up; `None`: it never gets too warm.
    pub heat: Option<HeatPlan>,
    /// Modes.
    pub modes: Modes,
    /// What contexts keep.
    pub keep: Keep,
    /// Whether answers join the context.
    pub answers_join_history: bool,
    /// Which version a query reads.
    pub binding: Binding,
    /// The policy.
    pub policy: Policy,
    /// Its program, where it is a script.
    pub script: Option<Arc<Program>>,
    /// How long ago the queues were as the estimator sees them; zero: as they are.
    pub queue_delay: Duration,
    /// How answer lengths are predicted.
    pub prediction: LengthPrediction,
    /// Lane that each stage is fixed to, by [`StageId`].
    pub placement: Vec<Option<LaneId>>,
    /// Bit per exclusion group, by engine and stage; stages that share a bit never overlap.
    pub exclusive: Vec<[u32; STAGES_MAX]>,
    /// Requests that may be in the system at once.
    pub max_requests: u32,
    /// Frames of one stream that may wait for ingestion.
    pub max_pending_frames: u32,
    /// Streams, by name order.
    pub streams: Vec<StreamPlan>,
    /// Whether stage times vary.
    pub noise: bool,
    /// Root seed.
    pub seed: u64,
    /// Independent runs.
    pub replications: u32,
    /// No arrivals from here on.
    pub horizon: Instant,
    /// Requests that arrive earlier are left out of the statistics.
    pub warm_up: Instant,
    /// Numbers that entered this world, with their origins.
    pub provenance: Vec<Provenance>,
    /// Things that the user should know: assumed values in use, seeds without effect.
    pub warnings: Vec<String>,
}

impl World {
    /// Whether stages may take longer in a run than alone by themselves, and then ask for less bandwidth: at costs
    /// beside others, or throttled.
    pub fn lengthens(&self) -> bool {
        self.costs.corun() || self.heat.is_some()
    }

    /// The engine of a lane.
    #[inline]
    pub fn engine_of(&self, lane: LaneId) -> EngineId {
        self.lanes[lane.0 as usize].engine
    }

    /// Where the window ends in which answers count for rates: at the horizon, if some source of queries asks until
    /// then, so that it would have `asked` more (by stream); `None`: with the last answer or query.
    pub fn window_end(&self, asked: &[u64]) -> Option<Instant> {
        let mut streams = self.streams.iter().zip(asked);
        let asks_on = streams.any(|(stream, &asked)| {
            let queries = stream.queries.as_ref();
            queries.is_some_and(|queries| asked < queries.most())
        });
        (asks_on && self.horizon != Instant::NEVER).then_some(self.horizon)
    }

    /// Frames that the stream with the most of them has at most; `None` where no stream has frames.
    pub fn most_frames(&self) -> Option<u64> {
        let plans = self.streams.iter().filter_map(|s| s.frames.as_ref());
        plans.map(|plan| plan.most(self.horizon)).max()
    }

    /// Whether there are queries, and all come from users who wait for their answers first.
    pub fn closed_loop(&self) -> bool {
        let mut waits = self
            .streams
            .iter()
            .filter_map(|stream| stream.queries.as_ref())
            .map(|queries| matches!(queries.arrivals, QueryTimes::ClosedLoop { .. }))
            .peekable();
        waits.peek().is_some() && waits.all(|waits| waits)
    }
}

/// A processor.
#[derive(Clone, Debug)]
pub struct Engine {
    /// Name, as in the profile.
    pub name: String,
    /// Kind.
    pub kind: EngineKind,
    /// Streaming rate alone, bytes/s: the profile's, or the memory's bandwidth where that is less.
    pub port_bytes_per_s: f64,
    /// Streaming rate behind which the costs' times were taken, bytes/s.
    pub measured_port_bytes_per_s: f64,
    /// Compute rate ÷ that of the engine on which the costs' times were taken.
    pub compute_ratio: f64,
    /// Arbitration weight.
    pub weight: f64,
    /// KV bytes that it may hold.
    pub kv_budget: u64,
    /// Idle and default active power, W.
    pub power: Option<EnginePower>,
}

/// Power of an engine.
#[derive(Clone, Copy, Debug)]
pub struct EnginePower {
    /// W while idle.
    pub idle_w: f64,
    /// W while a stage runs that states no power of its own.
    pub active_w: f64,
}

/// A serial executor.
#[derive(Clone, Debug)]
pub struct Lane {
    /// Name, as in the profile.
    pub name: String,
    /// Its engine.
    pub engine: EngineId,
    /// CPU cores that its own work keeps busy (0 unless the engine is a CPU).
    pub cores: f64,
    /// Core numbers that the live executor pins it to; empty: not pinned.
    pub pin_cores: Vec<u32>,
}

/// A stage.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Name.
    pub name: String,
    /// Kind.
    pub kind: StageKind,
}

/// A stage graph in topological order.
#[derive(Clone, Debug)]
pub struct Graph {
    /// Stages, each after its predecessors.
    pub stages: Vec<StageId>,
    /// Predecessors of each, as bits of positions in `stages`.
    pub after: Vec<u32>,
    /// Position of the stage that binds the job to a lane: `ingest`, or `query_prefill`.
    pub bound_at: u8,
    /// Position of the last bound stage: `ingest`, or `decode`.
    pub bound_end: u8,
    /// The bound stages, as bits of positions: they run on the lane that holds the job.
    pub bound: u32,
    /// All others.
    pub free: u32,
}

/// Ids of the stages that are not of either graph.
#[derive(Clone, Copy, Debug)]
pub struct TransferStages {
    /// KV copy out of the engine that holds it. It never runs by itself: its cost on the source is the
    /// first part of the import.
    pub export: StageId,
    /// KV copy from another engine (export and import together, on the importing lane).
    pub import: StageId,
    /// Prefill of a prefix again.
    pub reconstruct: StageId,
}

/// Sizes of the model.
#[derive(Clone, Copy, Debug)]
pub struct ModelSizes {
    /// KV bytes per token.
    pub kv_bytes_per_token: u64,
    /// Tokens that every context starts with.
    pub system_tokens: u32,
    /// Longest context, tokens.
    pub max_context_tokens: u32,
}

/// Memory of the SoC.
#[derive(Clone, Copy, Debug)]
pub struct MemoryPlan {
    /// Capacity in bytes.
    pub capacity: u64,
    /// Bytes taken before any KV: reserved, weights on every engine, other software.
    pub taken: u64,
    /// Of them, those of other software.
    pub background: u64,
    /// Bytes that all KV together may use.
    pub kv_budget: u64,
    /// Sustained bandwidth, bytes/s.
    pub bandwidth: f64,
    /// Bandwidth that other software draws, bytes/s.
    pub background_bandwidth: f64,
}

/// CPU cores.
#[derive(Clone, Copy, Debug)]
pub struct CpuPlan {
    /// Cores of the SoC.
    pub cores: f64,
    /// Cores that other software keeps busy.
    pub background_cores: f64,
    /// Whether two lanes are pinned to one core.
    pub pins_shared: bool,
}

/// Power beyond the engines'.
#[derive(Clone, Copy, Debug)]
pub struct PowerPlan {
    /// W with every engine idle, beyond the engines' own.
    pub base_w: f64,
    /// J per byte moved.
    pub joules_per_byte: f64,
}

/// First-order heat: the temperature settles at ambient + R·P with time constant τ.
#[derive(Clone, Debug)]
pub struct HeatPlan {
    /// Temperature of the surroundings, °C.
    pub ambient_c: f64,
    /// R, K/W.
    pub kelvin_per_watt: f64,
    /// τ, s.
    pub time_constant_s: f64,
    /// Temperature at the start, °C.
    pub start_c: f64,
    /// Power of the whole SoC with every engine idle, W.
    pub idle_w: f64,
    /// Throttle steps, the coolest first.
    pub steps: Vec<HeatStep>,
}

/// A throttle step.
#[derive(Clone, Copy, Debug)]
pub struct HeatStep {
    /// Taken at, °C.
    pub from_c: f64,
    /// Left at, °C.
    pub until_c: f64,
    /// Speed of each engine in it, a part of its full speed.
    pub speed: [f64; ENGINES_MAX],
}

/// No engine is throttled.
pub(crate) const FULL_SPEED: [f64; ENGINES_MAX] = [1.0; ENGINES_MAX];

impl HeatPlan {
    /// Speed of each engine with so many steps in force.
    pub fn speed(&self, level: u8) -> &[f64; ENGINES_MAX] {
        let step = level.checked_sub(1);
        step.and_then(|step| self.steps.get(step as usize))
            .map_or(&FULL_SPEED, |step| &step.speed)
    }
}

/// A number of a profile with its origin.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Provenance {
    /// File that holds it.
    pub file: String,
    /// Dotted path of its key.
    pub path: String,
    /// Bytes of the number in the file.
    #[serde(skip)]
    pub span: std::ops::Range<usize>,
    /// The number.
    pub value: f64,
    /// Its interval, if given.
    pub interval: Option<(f64, f64)>,
    /// Kind of origin.
    pub kind: OriginKind,
    /// Key of the origin.
    pub origin: String,
    /// Source of the origin.
    pub source: Option<String>,
    /// Note of the origin.
    pub note: Option<String>,
}

/// A deadline relative to the arrival, if any.
pub type Deadline = Option<Duration>;
