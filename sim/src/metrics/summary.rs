//! The numbers that a run is reported by.

use serde::Serialize;

use super::queue::{TURNED_AWAY, Trend};
use super::{Metrics, Sample};
use crate::dispatch::Reason;
use crate::soc::Warmth;
use crate::time::Duration;
use crate::world::STAGES_MAX;

/// Mean and quantiles of a time, s. All absent when nothing was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Values behind it.
    pub count: u64,
    /// Mean, s.
    pub mean: Option<f64>,
    /// Median, s.
    pub p50: Option<f64>,
    /// 95th percentile, s.
    pub p95: Option<f64>,
    /// 99th percentile, s.
    pub p99: Option<f64>,
    /// Largest, s.
    pub max: Option<f64>,
}

impl Latency {
    fn of(sample: &Sample) -> Self {
        let quantiles = sample.quantiles_s([0.5, 0.95, 0.99]);
        Self {
            count: sample.count(),
            mean: sample.mean_s(),
            p50: quantiles.map(|q| q[0]),
            p95: quantiles.map(|q| q[1]),
            p99: quantiles.map(|q| q[2]),
            max: sample.max_s(),
        }
    }
}

/// How contexts became usable, in requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Preparations {
    /// Resident.
    pub reuse: u64,
    /// Copied.
    pub import: u64,
    /// Prefilled again.
    pub reconstruct: u64,
    /// Partly copied, the rest prefilled.
    pub import_and_reconstruct: u64,
}

/// An engine over the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct EngineSummary {
    /// Name.
    pub name: String,
    /// Share of the run in which its lanes ran, within [0, 1] (mean over its lanes).
    pub busy: f64,
    /// Busy seconds by stage name.
    pub stages_s: Vec<(String, f64)>,
}

/// How near the run is to saturation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadVerdict {
    /// Queries and frames do not pile up.
    Steady,
    /// The busiest lane has little left, or a queue rose without telling whether it goes on.
    Near,
    /// Queries or frames pile up, or are turned away, as long as they arrive: there is no steady
    /// latency.
    Saturated,
    /// Too few queries, or only users who wait for their answers: a finite run, no verdict.
    #[default]
    Finite,
}

/// A run in numbers. Times in seconds, energy in joules, memory in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Answers per second over the window, whenever their queries arrived; absent where the window is empty.
    pub throughput_rps: Option<f64>,
    /// Of these, of streams whose queries come without waiting for answers; absent where there are none.
    pub open_rps: Option<f64>,
    /// Answer tokens per second over the window; absent where it is empty.
    pub tokens_per_s: Option<f64>,
    /// Arrival to first token.
    pub ttft_s: Latency,
    /// Arrival to last token.
    pub completion_s: Latency,
    /// Mean time per token after the first.
    pub tpot_s: Latency,
    /// Age of the newest frame in the answer's version, at its first token; of a version without frames, since the
    /// stream's first frame arrived. Answers before any frame are left out.
    pub staleness_s: Latency,
    /// Frames that had arrived by then, but which the version lacked (mean over the same answers).
    pub frames_behind: Option<f64>,
    /// Arrival to the first stage on the answering lane.
    pub queueing_s: Latency,
    /// Frame arrival to publication.
    pub publication_s: Latency,
    /// Time of the last event.
    pub makespan_s: f64,
    /// From the end of the warm-up to the horizon where a source asks until then, else to the last query or
    /// answer: what rates of answers refer to.
    pub window_s: f64,
    /// From the end of the warm-up to the end of the run: what busy shares, traffic and energy refer to.
    pub run_s: f64,
    /// Queries that arrived after the warm-up.
    pub arrived: u64,
    /// Of these, answered.
    pub completed: u64,
    /// Answers within the window, whenever their queries arrived: what rates count.
    pub answers_in_window: u64,
    /// Of these, refused, by reason.
    pub refused: Vec<(&'static str, u64)>,
    /// Answered after their deadline.
    pub late: u64,
    /// Frames that arrived.
    pub frames: u64,
    /// Frames that were refused.
    pub frames_refused: u64,
    /// Of these, by reason.
    pub frames_refused_by: Vec<(&'static str, u64)>,
    /// How contexts became usable.
    pub preparations: Preparations,
    /// Contexts evicted from an engine.
    pub evictions: u64,
    /// Engines, in order.
    pub engines: Vec<EngineSummary>,
    /// DRAM bytes moved over the run ÷ its length, GB/s.
    pub mean_bandwidth_gbps: f64,
    /// Energy over the run; absent where the profile has no power, or nothing happened after the warm-up.
    pub energy_j: Option<f64>,
    /// Energy of the run ÷ answers after the warm-up, whenever their queries arrived.
    pub energy_per_request_j: Option<f64>,
    /// Mean power.
    pub mean_power_w: Option<f64>,
    /// Highest temperature of the whole run, °C; absent where the profile has no heat.
    pub peak_temperature_c: Option<f64>,
    /// Share of the whole run in which a throttle step was in force; absent where the profile has no heat.
    pub throttled: Option<f64>,
    /// Weights, reserved and background memory, and the most KV held at once.
    pub peak_memory_bytes: u64,
    /// Of it, KV.
    pub peak_kv_bytes: u64,
    /// How near to saturation.
    pub load: LoadVerdict,
    /// What is overloaded where saturated: `queries_wait`, `queries_refused`, `frames_wait`,
    /// `frames_refused`, `context_full`, `memory_full`, `queries_never_fit`, `queries_unserved`.
    pub overload: Vec<&'static str>,
    /// Busy share of the busiest lane while queries (or frames) arrived, within [0, 1]; over the whole
    /// run where no trend was read.
    pub busiest_lane: f64,
    /// Trend of the queries in the system while they arrived: 0 level, 1 a straight ramp; absent where
    /// none was read.
    pub saturation_index: Option<f64>,
    /// The same of the frames that were not published yet.
    pub frames_index: Option<f64>,
    /// Queries that arrived per second, refused ones included, of streams that do not wait for answers, from the end of
    /// the warm-up to the newest; absent where no trend was read.
    pub queries_rps: Option<f64>,
    /// Those of them that were answered per second in that time: without what only drained after it.
    pub answered_rps: Option<f64>,
    /// Frames that arrived per second, refused ones included, from the end of the warm-up to the newest; absent where
    /// no trend was read.
    pub frames_rps: Option<f64>,
    /// Frames that were published per second in that time.
    pub published_rps: Option<f64>,
    /// Stages played outside their measured range: engine, stage, how often.
    pub unmeasured: Vec<(String, String, u64)>,
    /// Inputs that the scheduler handled.
    pub events: u64,
}

pub(super) fn build(
    metrics: &Metrics<'_>,
    peak_kv_bytes: u64,
    unmeasured: &[[u64; STAGES_MAX]],
    warmth: Option<Warmth>,
) -> Summary {
    let world = metrics.world;
    // A run that stops answering is not faster, and one that has much left to answer not slower.
    let last = metrics.last_query.max(metrics.last_completion);
    let horizon = world.window_end(&metrics.asked);
    let end = horizon.unwrap_or(last);
    let window = end.saturating_since(world.warm_up);
    let window_s = window.as_secs_f64();
    // Nothing happened after the warm-up: there is no time that a rate could refer to.
    let per_s = |count: u64| (window_s > 0.0).then(|| count as f64 / window_s);
    let (to_horizon, later) = (metrics.answered, metrics.answered_later);
    let answered = to_horizon.count + later.count;
    let within = |to_horizon: u64, later: u64| match horizon {
        Some(_) => to_horizon,
        None => to_horizon + later,
    };
    let in_window = within(to_horizon.count, later.count);
    let run = metrics.last.saturating_since(world.warm_up);
    let run_s = run.as_secs_f64();
    let energy = energy(metrics, run).filter(|_| run_s > 0.0);
    let load = Load::of(metrics, run);
    let by_reason = |counts: &[u64; Reason::ALL.len()]| -> Vec<_> {
        let all = Reason::ALL.iter();
        all.map(|&reason| (reason.name(), counts[reason as usize]))
            .filter(|&(_, count)| count > 0)
            .collect()
    };
    Summary {
        throughput_rps: per_s(in_window),
        open_rps: per_s(within(to_horizon.open, later.open))
            .filter(|_| metrics.open.contains(&true)),
        tokens_per_s: per_s(within(to_horizon.tokens, later.tokens)),
        ttft_s: Latency::of(&metrics.ttft),
        completion_s: Latency::of(&metrics.completion),
        tpot_s: Latency::of(&metrics.tpot),
        staleness_s: Latency::of(&metrics.staleness),
        frames_behind: (metrics.stale_answers > 0)
            .then(|| metrics.frames_behind as f64 / metrics.stale_answers as f64),
        queueing_s: Latency::of(&metrics.queueing),
        publication_s: Latency::of(&metrics.publication),
        makespan_s: metrics.last.as_secs_f64(),
        window_s,
        run_s,
        arrived: metrics.arrived,
        completed: metrics.completed,
        answers_in_window: in_window,
        refused: by_reason(&metrics.refused),
        late: metrics.late,
        frames: metrics.frames,
        frames_refused: metrics.refused_frames.iter().sum(),
        frames_refused_by: by_reason(&metrics.refused_frames),
        preparations: Preparations {
            reuse: metrics.preparations[0],
            import: metrics.preparations[1],
            reconstruct: metrics.preparations[2],
            import_and_reconstruct: metrics.preparations[3],
        },
        evictions: metrics.evictions,
        engines: engines(metrics, run),
        mean_bandwidth_gbps: if run_s > 0.0 {
            metrics.bytes as f64 / run_s / 1e9
        } else {
            0.0
        },
        energy_j: energy,
        energy_per_request_j: energy.filter(|_| answered > 0).map(|j| j / answered as f64),
        mean_power_w: energy.map(|j| j / run_s),
        peak_temperature_c: warmth.map(|warmth| warmth.peak_c),
        throttled: warmth.map(|warmth| {
            let whole = metrics.last.as_secs_f64();
            if whole > 0.0 {
                warmth.throttled.as_secs_f64() / whole
            } else {
                0.0
            }
        }),
        peak_memory_bytes: world.memory.taken + peak_kv_bytes,
        peak_kv_bytes,
        load: load.verdict,
        overload: load.overload,
        busiest_lane: load.busiest,
        saturation_index: load.queries.map(|trend| trend.index),
        frames_index: load.frames.map(|trend| trend.index),
        queries_rps: load.queries.map(|trend| trend.asked_rps),
        answered_rps: load.queries.map(|trend| trend.served_rps),
        frames_rps: load.frames.map(|trend| trend.asked_rps),
        published_rps: load.frames.map(|trend| trend.served_rps),
        unmeasured: outside(metrics, unmeasured),
        events: metrics.events,
    }
}

fn engines(metrics: &Metrics<'_>, run: Duration) -> Vec<EngineSummary> {
    let world = metrics.world;
    let mut list = Vec::with_capacity(world.engines.len());
    for (index, engine) in world.engines.iter().enumerate() {
        let lanes = world
            .lanes
            .iter()
            .filter(|lane| lane.engine.0 as usize == index)
            .count();
        let busy: u64 = metrics.busy_by_stage[index].iter().sum();
        let stages_s = (0..world.stages.len())
            .filter(|&stage| metrics.busy_by_stage[index][stage] > 0)
            .map(|stage| {
                let secs = Duration(metrics.busy_by_stage[index][stage]).as_secs_f64();
                (world.stages[stage].name.clone(), secs)
            })
            .collect();
        let total = run.0 as f64 * lanes as f64;
        debug_assert!(
            busy as f64 <= total,
            "{} was busy {busy} of {total} ns",
            engine.name
        );
        let busy = if total > 0.0 {
            busy as f64 / total
        } else {
            0.0
        };
        list.push(EngineSummary {
            name: engine.name.clone(),
            busy,
            stages_s,
        });
    }
    list
}

fn energy(metrics: &Metrics<'_>, run: Duration) -> Option<f64> {
    let world = metrics.world;
    let base = world.power?.base_w * run.as_secs_f64();
    let mut idle = 0.0;
    for (index, engine) in world.engines.iter().enumerate() {
        let active = metrics.active[index];
        debug_assert!(active <= run.0, "{} ran longer than the run", engine.name);
        idle += engine.power?.idle_w * Duration(run.0 - active).as_secs_f64();
    }
    Some(base + idle + metrics.nanojoules as f64 * 1e-9)
}

/// Whether a steady latency exists, by what waited while queries and frames arrived.
struct Load {
    verdict: LoadVerdict,
    overload: Vec<&'static str>,
    busiest: f64,
    queries: Option<Trend>,
    frames: Option<Trend>,
}

impl Load {
    fn of(metrics: &Metrics<'_>, run: Duration) -> Self {
        let world = metrics.world;
        let over_run = metrics.busy.iter().copied().max().unwrap_or(0) as f64 / run.0.max(1) as f64;
        debug_assert!(over_run <= 1.0, "a lane was busy {over_run} of the run");
        let mut load = Self {
            verdict: LoadVerdict::Finite,
            overload: Vec::new(),
            busiest: over_run,
            queries: None,
            frames: None,
        };
        load.overload = beyond_help(metrics);
        if !load.overload.is_empty() {
            load.verdict = LoadVerdict::Saturated;
        }
        if world.closed_loop() {
            return load;
        }
        load.queries = metrics.queries.trend(world.warm_up);
        load.frames = metrics.backlog.trend(world.warm_up);
        let trends = || load.queries.into_iter().chain(load.frames);
        load.busiest = trends()
            .map(|trend| trend.busiest)
            .reduce(f64::max)
            .unwrap_or(over_run);
        let near = trends().any(|trend| trend.near());
        for (trend, waits, refused) in [
            (load.queries, "queries_wait", "queries_refused"),
            (load.frames, "frames_wait", "frames_refused"),
        ] {
            let Some(trend) = trend else { continue };
            let found = [(trend.grows, waits), (trend.overflows, refused)];
            let found = found.into_iter().filter(|(is, _)| *is);
            load.overload.extend(found.map(|(_, name)| name));
        }
        load.verdict = if !load.overload.is_empty() {
            LoadVerdict::Saturated
        } else if load.queries.is_none() {
            LoadVerdict::Finite
        } else if near {
            LoadVerdict::Near
        } else {
            LoadVerdict::Steady
        };
        load
    }
}

/// What no wait would mend: frames and queries that nothing could hold or serve, if they are more than a few.
fn beyond_help(metrics: &Metrics<'_>) -> Vec<&'static str> {
    use Reason::{ContextLost, ContextTooLong, EngineFailed, NeverFits, Unserved};
    let many = |counts: &[u64], reasons: &[Reason], all: u64| {
        let refused: u64 = reasons.iter().map(|&reason| counts[reason as usize]).sum();
        refused as f64 > all as f64 * TURNED_AWAY
    };
    let frames = |reasons| many(&metrics.refused_frames, reasons, metrics.frames);
    let queries = |reasons| many(&metrics.refused, reasons, metrics.arrived);
    [
        // Before and after a context is full are two loads, and what is measured is a mixture.
        ("context_full", frames(&[ContextTooLong])),
        ("memory_full", frames(&[NeverFits])),
        ("queries_never_fit", queries(&[ContextTooLong, NeverFits])),
        (
            "queries_unserved",
            queries(&[ContextLost, EngineFailed, Unserved]),
        ),
    ]
    .into_iter()
    .filter_map(|(name, is)| is.then_some(name))
    .collect()
}

fn outside(metrics: &Metrics<'_>, unmeasured: &[[u64; STAGES_MAX]]) -> Vec<(String, String, u64)> {
    let world = metrics.world;
    let mut list = Vec::new();
    for (engine, row) in unmeasured.iter().enumerate() {
        for (stage, &count) in row.iter().enumerate().take(world.stages.len()) {
            if count > 0 {
                let names = (&world.engines[engine].name, &world.stages[stage].name);
                list.push((names.0.clone(), names.1.clone(), count));
            }
        }
    }
    list
}
