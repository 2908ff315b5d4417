//! Small scenarios at random: SoC, model, costs and workload as the text of their files.

use proptest::prelude::*;

/// Every policy, as on the command line; `single` is of the first lane, which can do everything.
pub(crate) const POLICIES: [&str; 12] = [
    "state_aware",
    "state_aware:w",
    "state_aware:w+p",
    "serial",
    "naive",
    "idle_first",
    "reuse_first",
    "fixed",
    "round_robin",
    "shortest_job_first",
    "earliest_deadline_first",
    "single:lane0",
];

/// A processor: what it can do, and how fast.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub(crate) struct Engine {
    pub(crate) kind: &'static str,
    /// Time of everything, ms per unit.
    pub(crate) slow: u32,
    pub(crate) encodes: bool,
    pub(crate) ingests: bool,
    pub(crate) answers: bool,
    pub(crate) reconstructs: bool,
    pub(crate) imports: bool,
    pub(crate) exports: bool,
    pub(crate) corun: bool,
    pub(crate) host: bool,
    /// KV that it may hold, tokens.
    pub(crate) budget: Option<u64>,
}

/// A video source with its queries.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    /// Clock, count and tokens of its frames.
    pub(crate) frames: Option<(usize, u32, u32)>,
    /// Arrivals, count, prompt and answers of its queries.
    pub(crate) queries: Option<(usize, u32, u32, usize)>,
    pub(crate) deadline: bool,
}

/// The model's stages beyond the least.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub(crate) struct Graph {
    pub(crate) encode: bool,
    /// A custom stage of the query before its prefill, beside it, and after it.
    pub(crate) before: bool,
    pub(crate) beside: bool,
    pub(crate) between: bool,
    pub(crate) system_tokens: u32,
    pub(crate) max_context: u32,
}

/// Modes, context, limits and whatever else a scenario says.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub(crate) struct Setting {
    pub(crate) reuse: bool,
    pub(crate) ingest_during: bool,
    pub(crate) concurrent: bool,
    pub(crate) transfer: usize,
    pub(crate) cache: bool,
    pub(crate) keep: (usize, u32, u32),
    pub(crate) joins: bool,
    pub(crate) binding: usize,
    pub(crate) policy: usize,
    pub(crate) contention: usize,
    pub(crate) noise: bool,
    pub(crate) prediction: usize,
    pub(crate) exclusive: usize,
    pub(crate) place_ingest: bool,
    /// KV of the whole SoC, tokens.
    pub(crate) budget: Option<u64>,
    pub(crate) max_requests: Option<u32>,
    pub(crate) max_pending: Option<u32>,
    pub(crate) background: bool,
    pub(crate) horizon: bool,
    pub(crate) warm_up: bool,
    pub(crate) seed: u64,
}

/// A scenario with its profiles.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) engines: Vec<Engine>,
    /// Engine of each lane.
    pub(crate) lanes: Vec<usize>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) graph: Graph,
    pub(crate) setting: Setting,
    /// Tables are written in the reverse order.
    pub(crate) reversed: bool,
    /// The last stream has a name before all others'.
    pub(crate) last_first: bool,
}

fn often(p: f64) -> impl Strategy<Value = bool> {
    prop::bool::weighted(p)
}

fn engine() -> impl Strategy<Value = Engine> {
    let can = (
        often(0.7),
        often(0.8),
        often(0.8),
        often(0.8),
        often(0.7),
        often(0.7),
    );
    let how = (
        prop::sample::select(vec!["cpu", "gpu", "npu"]),
        1..4_u32,
        often(0.2),
        often(0.2),
        prop::option::weighted(0.3, 60..400_u64),
    );
    (can, how).prop_map(|(can, how)| Engine {
        kind: how.0,
        slow: how.1,
        encodes: can.0,
        ingests: can.1,
        answers: can.2,
        reconstructs: can.3,
        imports: can.4,
        exports: can.5,
        corun: how.2,
        host: how.3,
        budget: how.4,
    })
}

pub(crate) fn stream() -> impl Strategy<Value = Stream> {
    let frames = prop::option::weighted(0.8, (0..3_usize, 1..8_u32, 4..30_u32));
    let queries = prop::option::weighted(0.8, (0..7_usize, 1..7_u32, 1..20_u32, 0..5_usize));
    (frames, queries, any::<bool>()).prop_map(|(frames, queries, deadline)| Stream {
        frames,
        queries,
        deadline,
    })
}

fn graph() -> impl Strategy<Value = Graph> {
    (
        any::<bool>(),
        often(0.2),
        often(0.2),
        often(0.2),
        prop_oneof![Just(0), Just(5)],
        prop_oneof![Just(4096_u32), 80..200_u32],
    )
        .prop_map(
            |(encode, before, beside, between, system_tokens, max_context)| Graph {
                encode,
                before,
                beside,
                between,
                system_tokens,
                max_context,
            },
        )
}

fn setting() -> impl Strategy<Value = Setting> {
    let modes = (
        often(0.75),
        often(0.7),
        often(0.7),
        0..3_usize,
        often(0.7),
        (0..3_usize, 0..3_u32, 1..4_u32),
        often(0.3),
        0..3_usize,
    );
    let rest = (
        0..POLICIES.len(),
        0..3_usize,
        any::<bool>(),
        0..3_usize,
        0..4_usize,
        often(0.2),
    );
    let limits = (
        prop::option::weighted(0.6, 60..600_u64),
        prop::option::weighted(0.2, 1..5_u32),
        prop::option::weighted(0.2, 1..4_u32),
        often(0.2),
        often(0.3),
        often(0.2),
        any::<u16>(),
    );
    (modes, rest, limits).prop_map(|(modes, rest, limits)| Setting {
        reuse: modes.0,
        ingest_during: modes.1,
        concurrent: modes.2,
        transfer: modes.3,
        cache: modes.4,
        keep: modes.5,
        joins: modes.6,
        binding: modes.7,
        policy: rest.0,
        contention: rest.1,
        noise: rest.2,
        prediction: rest.3,
        exclusive: rest.4,
        place_ingest: rest.5,
        budget: limits.0,
        max_requests: limits.1,
        max_pending: limits.2,
        background: limits.3,
        horizon: limits.4,
        warm_up: limits.5,
        seed: limits.6.into(),
    })
}

/// Scenarios, most of which load.
pub(crate) fn scenario() -> impl Strategy<Value = Scenario> {
    (
        prop::collection::vec(engine(), 1..4),
        prop::collection::vec(0..3_usize, 1..5),
        prop::collection::vec(stream(), 1..5),
        graph(),
        setting(),
    )
        .prop_map(
            |(mut engines, mut lanes, mut streams, graph, mut setting)| {
                // The first engine, on the first lane, can do everything, so that anything can run.
                let first = &mut engines[0];
                (first.encodes, first.ingests, first.answers) = (true, true, true);
                first.reconstructs = true;
                let count = engines.len();
                lanes[0] = 0;
                for lane in &mut lanes {
                    *lane %= count;
                }
                for stream in &mut streams {
                    if stream.frames.is_none() && stream.queries.is_none() {
                        stream.frames = Some((0, 3, 10));
                    }
                }
                // What the loader would call without effect is left out.
                if lanes.len() < 2 {
                    setting.exclusive = 0;
                }
                if streams.iter().all(|stream| stream.frames.is_none()) {
                    setting.max_pending = None;
                }
                let on = |can: &dyn Fn(&Engine) -> bool, other: usize| {
                    let mut able = lanes.iter().filter(|&&lane| can(&engines[lane]));
                    able.any(|&lane| lane != other)
                };
                let imports = |&&lane: &&usize| engines[lane].imports && on(&|e| e.exports, lane);
                if lanes.iter().filter(imports).count() == 0 && setting.transfer == 1 {
                    setting.transfer = 0;
                }
                Scenario {
                    engines,
                    lanes,
                    streams,
                    graph,
                    setting,
                    reversed: false,
                    last_first: false,
                }
            },
        )
}

impl Stream {
    /// Whether its queries wait for answers.
    pub(crate) fn is_closed(&self) -> bool {
        self.queries.is_some_and(|(arrivals, ..)| arrivals >= 5)
    }

    /// The same with frames, if it had neither them nor queries.
    pub(crate) fn with_frames(mut self) -> Self {
        self.frames = self.frames.or(Some((0, 3, 10)));
        self
    }
}
