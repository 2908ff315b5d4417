//! Small scenarios at random: SoC, model, costs and workload as the text of their files.

use std::fmt::Write as _;

use proptest::prelude::*;
use sim::load::Inputs;
use validation::inline::Inline;

/// KV bytes of a token.
pub(crate) const TOKEN: u64 = 1000;
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
pub(crate) struct Engine {
    kind: &'static str,
    /// Time of everything, ms per unit.
    slow: u32,
    encodes: bool,
    ingests: bool,
    answers: bool,
    reconstructs: bool,
    imports: bool,
    exports: bool,
    corun: bool,
    host: bool,
    /// KV that it may hold, tokens.
    budget: Option<u64>,
}

/// A video source with its queries.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    /// Clock, count and tokens of its frames.
    frames: Option<(usize, u32, u32)>,
    /// Arrivals, count, prompt and answers of its queries.
    queries: Option<(usize, u32, u32, usize)>,
    deadline: bool,
}

/// The model's stages beyond the least.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    encode: bool,
    /// A custom stage of the query before its prefill, beside it, and after it.
    before: bool,
    beside: bool,
    between: bool,
    system_tokens: u32,
    max_context: u32,
}

/// Modes, context, limits and whatever else a scenario says.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    reuse: bool,
    ingest_during: bool,
    concurrent: bool,
    transfer: usize,
    cache: bool,
    keep: (usize, u32, u32),
    joins: bool,
    binding: usize,
    pub(crate) policy: usize,
    contention: usize,
    noise: bool,
    prediction: usize,
    exclusive: usize,
    place_ingest: bool,
    /// KV of the whole SoC, tokens.
    budget: Option<u64>,
    max_requests: Option<u32>,
    max_pending: Option<u32>,
    background: bool,
    horizon: bool,
    warm_up: bool,
    seed: u64,
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

impl Scenario {
    /// The loaded files; `None` where the loader refuses the combination.
    pub(crate) fn inputs(&self) -> Option<Inputs> {
        self.library().inputs(&self.text()).ok()
    }

    fn order<T>(&self, items: impl Iterator<Item = T>) -> Vec<T> {
        let mut list: Vec<T> = items.collect();
        if self.reversed {
            list.reverse();
        }
        list
    }

    /// The profiles.
    pub(crate) fn library(&self) -> Inline {
        Inline {
            soc: self.soc(),
            model: self.model(),
            costs: self.costs(),
            files: vec![],
        }
    }

    fn soc(&self) -> String {
        let mut text = "name = 'toy'\norigin = 'o'\n[origins.o]\nkind = 'assumed'\nnote = 'test'\n\
            [memory]\ncapacity_bytes = 1e8\nreserved_bytes = 1e6\nbandwidth_gbps = 10.0\n\
            [cpu]\ncores = 4\n[power]\nbase_w = 1.0\njoules_per_gb = 0.1\n"
            .to_owned();
        for (index, engine) in self.order(self.engines.iter().enumerate()) {
            let Engine { kind, slow, .. } = engine;
            let port = 9.0 / f64::from(*slow);
            _ = write!(
                text,
                "[engines.e{index}]\nkind = '{kind}'\nport_gbps = {port}\nweight = {slow}.0\n\
                 idle_w = 0.1\nactive_w = 2.0\n"
            );
            if let Some(tokens) = engine.budget {
                _ = writeln!(text, "kv_budget_bytes = {}", tokens * TOKEN);
            }
        }
        for (index, engine) in self.order(self.lanes.iter().enumerate()) {
            _ = writeln!(text, "[lanes.lane{index}]\nengine = 'e{engine}'");
            if self.engines[*engine].kind == "cpu" {
                text += "cores = 2\n";
            }
        }
        let all = 0..self.engines.len();
        let pairs = all.clone().flat_map(|a| all.clone().map(move |b| (a, b)));
        for (victim, aggressor) in self.order(pairs.filter(|(a, b)| a != b)) {
            _ = write!(
                text,
                "[[contention.pairs]]\nvictim = 'e{victim}'\naggressor = 'e{aggressor}'\n\
                 victim_mu = [0.0, 1.0]\naggressor_mu = [0.0, 1.0]\n\
                 slowdown = [[1.0, 1.0], [1.0, {}]]\n",
                1.5 + victim as f64 * 0.25
            );
        }
        text
    }

    fn model(&self) -> String {
        let Graph {
            encode,
            before,
            beside,
            between,
            system_tokens,
            max_context,
        } = self.graph;
        let mut text = format!(
            "name = 'vlm'\norigin = 'o'\nweights_bytes = 1e6\nkv_bytes_per_token = {TOKEN}\n\
             visual_tokens_per_frame = 10\nsystem_tokens = {system_tokens}\n\
             max_context_tokens = {max_context}\n\
             [origins.o]\nkind = 'assumed'\nnote = 'test'\n"
        );
        let mut stage = |graph: &str, name: &str, kind: &str, after: &[(bool, &str)]| {
            let after: Vec<_> = after
                .iter()
                .filter(|(is, _)| *is)
                .map(|(_, name)| *name)
                .collect();
            _ = write!(
                text,
                "[[{graph}_stages]]\nname = '{name}'\nkind = '{kind}'\nafter = {after:?}\n"
            );
        };
        if encode {
            stage("frame", "encode", "encode", &[]);
        }
        stage("frame", "ingest", "ingest", &[(encode, "encode")]);
        if before {
            stage("query", "before", "custom", &[]);
        }
        if beside {
            stage("query", "beside", "custom", &[]);
        }
        stage("query", "prefill", "query_prefill", &[(before, "before")]);
        if between {
            stage("query", "between", "custom", &[(true, "prefill")]);
        }
        stage(
            "query",
            "decode",
            "decode",
            &[(true, "prefill"), (beside, "beside"), (between, "between")],
        );
        text
    }

    fn costs(&self) -> String {
        let mut text = "soc = 'toy'\nmodel = 'vlm'\norigin = 'o'\n\
            [origins.o]\nkind = 'assumed'\nnote = 'test'\n"
            .to_owned();
        let Graph {
            encode,
            before,
            beside,
            between,
            ..
        } = self.graph;
        for (index, engine) in self.order(self.engines.iter().enumerate()) {
            let ms = f64::from(engine.slow) * 1e-3;
            let per = |slow: f64| {
                let secs = slow * ms;
                format!("per_token_s = {secs}\nbytes_per_token = 1e6\ncv = 0.3\n")
            };
            let fixed = |slow: f64| format!("fixed_s = {}\nbytes = 1e6\ncv = 0.3\n", slow * ms);
            let moves = |slow: f64| {
                let rate = 0.005 / slow;
                format!(
                    "fixed_s = {}\ngbps = {rate}\nbytes_per_token = 1.0\n",
                    slow * ms
                )
            };
            let stages = [
                ("encode", encode && engine.encodes, fixed(20.0)),
                ("ingest", engine.ingests, per(2.0)),
                ("reconstruct", engine.reconstructs, per(1.5)),
                ("before", before, fixed(5.0)),
                ("beside", beside, fixed(30.0)),
                ("between", between, fixed(7.0)),
                ("prefill", engine.answers, per(2.0)),
                ("decode", engine.answers, per(9.0)),
                ("import", engine.imports, moves(1.0)),
                ("export", engine.exports, moves(0.5)),
            ];
            _ = writeln!(text, "[engines.e{index}]");
            let mut host = engine.host;
            for (name, can, cost) in &stages {
                if *can {
                    _ = write!(text, "[engines.e{index}.stages.{name}]\n{cost}");
                    if std::mem::take(&mut host) {
                        text += "host_cores = 3\nhost_share = 0.5\n";
                    }
                }
            }
            if engine.corun && engine.answers {
                _ = write!(
                    text,
                    "[engines.e{index}.corun.decode]\nper_token_s = {}\nbytes_per_token = 1e6\n",
                    12.0 * ms
                );
            }
            if !engine.reconstructs {
                _ = writeln!(text, "[engines.e{index}.unsupported]\nreconstruct = 'test'");
            }
        }
        text
    }

    /// The scenario file.
    pub(crate) fn text(&self) -> String {
        let s = &self.setting;
        let policy = match POLICIES[s.policy] {
            "single:lane0" => "{ single = { lane = 'lane0' } }".to_owned(),
            "state_aware" => "{ state_aware = { terms = 'w+p+s' } }".to_owned(),
            "state_aware:w" => "{ state_aware = { terms = 'w' } }".to_owned(),
            "state_aware:w+p" => "{ state_aware = { terms = 'w+p' } }".to_owned(),
            "fixed" => "{ fixed = {} }".to_owned(),
            name => format!("'{name}'"),
        };
        let mut text = format!(
            "title = 'random'\nsoc = 'toy'\nmodel = 'vlm'\nseed = {}\nnoise = {}\n\
             policy = {policy}\ncontention = '{}'\n",
            s.seed,
            s.noise,
            ["none", "water_filling", "pairwise"][s.contention],
        );
        match s.exclusive {
            1 => text += "exclusive = [['decode', 'ingest', 'reconstruct']]\n",
            2 => {
                text += "exclusive = [['decode', 'prefill', 'reconstruct'], ['ingest', 'reconstruct']]\n"
            }
            3 => text += "exclusive = [['ingest', 'reconstruct', 'import', 'decode']]\n",
            _ => {}
        }
        text += "[run]\n";
        if s.horizon {
            text += "horizon_s = 1.0\n";
        }
        if s.warm_up {
            text += "warm_up_s = 0.2\n";
        }
        _ = write!(
            text,
            "[modes]\ncontext_reuse = {}\ningest_during_generation = {}\n\
             concurrent_generation = {}\nstate_transfer = '{}'\nembedding_cache = {}\n",
            s.reuse,
            s.ingest_during,
            s.concurrent,
            ["auto", "import", "reconstruct"][s.transfer],
            s.cache,
        );
        let (keep, first, recent) = s.keep;
        _ = write!(
            text,
            "[context]\nkeep = {}\nanswers_join_history = {}\nbinding = '{}'\n",
            match keep {
                0 => "'all'".to_owned(),
                1 => format!("{{ window = {{ frames = {recent} }} }}"),
                _ => format!("{{ sinks = {{ first = {first}, recent = {recent} }} }}"),
            },
            s.joins,
            ["arrived", "published", "at_dispatch"][s.binding],
        );
        let prediction = ["'mean'", "'exact'", "{ noisy = { cv = 0.5 } }"][s.prediction];
        _ = writeln!(text, "[beliefs]\noutput_tokens = {prediction}");
        if s.place_ingest {
            text += "[placement]\ningest = 'lane0'\n";
        }
        text += "[limits]\n";
        let limits = [
            ("kv_budget_bytes", s.budget.map(|tokens| tokens * TOKEN)),
            ("max_requests", s.max_requests.map(u64::from)),
            ("max_pending_frames", s.max_pending.map(u64::from)),
        ];
        for (key, limit) in limits {
            if let Some(limit) = limit {
                _ = writeln!(text, "{key} = {limit}");
            }
        }
        if s.background {
            text += "[background]\nbandwidth_gbps = 2.0\ncpu_cores = 3\nmemory_bytes = 1e6\n";
        }
        for (index, stream) in self.order(self.streams.iter().enumerate()) {
            let first = self.last_first && index + 1 == self.streams.len();
            let name = if first {
                "a".into()
            } else {
                format!("s{index}")
            };
            text += &stream.text(&name);
        }
        text
    }
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

    fn text(&self, name: &str) -> String {
        let mut text = format!("[[streams]]\nname = '{name}'\n");
        if let Some((clock, count, tokens)) = self.frames {
            let clock = match clock {
                0 => format!(
                    "{{ periodic = {{ rate_hz = 10.0, jitter_s = 0.02 }} }}\ncount = {count}"
                ),
                1 => {
                    format!("{{ periodic = {{ rate_hz = 25.0 }} }}\ncount = {count}\nstart_s = 0.1")
                }
                _ => "{ times_s = [0.0, 0.0, 0.05, 0.3] }".to_owned(),
            };
            _ = write!(
                text,
                "[streams.frames]\nclock = {clock}\ntokens = {tokens}\n"
            );
        }
        if let Some((arrivals, count, prompt, output)) = self.queries {
            let arrivals = match arrivals {
                0 => "{ periodic = { period_s = 0.11 } }",
                1 => "{ poisson = { rate_hz = 8.0 } }",
                2 => "{ mmpp = { rates_hz = [1.0, 30.0], mean_stay_s = [0.2, 0.1] } }",
                3 => "{ gamma = { rate_hz = 8.0, cv = 2.0 } }",
                4 => "{ times_s = [0.0, 0.05, 0.05, 0.3] }",
                5 => "{ closed_loop = { users = 2, think_s = 0.05 } }",
                _ => "{ closed_loop = { users = 3, think_s = 0.1, exponential = true } }",
            };
            let output = match output {
                0 => "1",
                1 => "6",
                2 => "{ uniform = { low = 1, high = 9 } }",
                3 => "{ geometric = { mean = 4.0 } }\nmax_output_tokens = 12",
                _ => "{ empirical = { tokens = [1, 2, 10] } }",
            };
            let count = if arrivals.contains("times_s") {
                String::new()
            } else {
                format!("count = {count}\n")
            };
            _ = write!(
                text,
                "[streams.queries]\narrivals = {arrivals}\n{count}prompt_tokens = {prompt}\n\
                 output_tokens = {output}\n"
            );
            if self.deadline {
                text += "deadline_s = 0.2\n";
            }
        }
        text
    }
}
