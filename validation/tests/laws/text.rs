//! A random scenario as the text of its files.

use std::fmt::Write as _;

use sim::load::Inputs;
use validation::inline::Inline;

use crate::scenario::Engine;
use crate::scenario::{Graph, POLICIES, Scenario, Stream};

/// KV bytes of a token.
const TOKEN: u64 = 1000;

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
            if engine.corun && engine.answers && index % 2 == 1 {
                text += "corun_beside = ['e0']\n";
            }
            let mut host = engine.host;
            for (name, can, cost) in &stages {
                if *can {
                    _ = write!(text, "[engines.e{index}.stages.{name}]\n{cost}");
                    if std::mem::take(&mut host) {
                        text += "host_cores = 3\n";
                        // All of a CPU's own stage is CPU work.
                        if engine.kind != "cpu" {
                            text += "host_share = 0.5\n";
                        }
                    }
                }
            }
            if engine.corun && engine.answers {
                _ = write!(
                    text,
                    "[engines.e{index}.corun.decode]\nratio = {}\n",
                    4.0 / 3.0
                );
            }
            // An engine with a language model says what of it it cannot run.
            let unable = stages.iter().filter(|(name, can, _)| {
                let vision = ["encode", "before", "beside", "between"].contains(name);
                !can && !vision
            });
            _ = writeln!(text, "[engines.e{index}.unsupported]");
            for (name, ..) in unable {
                _ = writeln!(text, "{name} = 'test'");
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
                text += "exclusive = [['decode', 'prefill', 'reconstruct'], ['ingest', 'reconstruct']]\n";
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
    pub(crate) fn text(&self, name: &str) -> String {
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
