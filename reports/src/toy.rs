//! A small made-up SoC, model and scenario for the tests of this crate.

use sim::load::{Files, Kind, Library, Source, load_scenario};
use sim::metrics::Summary;
use sim::simulation::{Pace, Simulation};
use sim::world::World;

use crate::detail::{Detail, Recorder, Reproduce};

const SOC: &str = r#"name = "Toy"
origin = "guess"

[memory]
capacity_bytes = 8e9
reserved_bytes = 1e9
bandwidth_gbps = { value = 20, origin = "bench" }

[cpu]
cores = 8

[engines.cpu]
kind = "cpu"
port_gbps = { value = 15, low = 12, high = 16 }
weight = 1
idle_w = 0.5
active_w = 4

[engines.npu]
kind = "npu"
port_gbps = { value = 10, origin = "bench" }
weight = 0.8
idle_w = 0.2
active_w = 3

[lanes.cpu]
engine = "cpu"
cores = 4

[lanes.npu]
engine = "npu"

[power]
base_w = 1

[origins.guess]
kind = "assumed"
note = "made up for tests"

[origins.bench]
kind = "published"
source = "table 1"
"#;

const MODEL: &str = r#"name = "Toy VLM"
origin = "card"
weights_bytes = 1e9
kv_bytes_per_token = 12288
visual_tokens_per_frame = 100
max_context_tokens = 8192
frame_stages = [
  { name = "encode", kind = "encode" },
  { name = "ingest", kind = "ingest", after = ["encode"] },
]
query_stages = [
  { name = "query_prefill", kind = "query_prefill" },
  { name = "decode", kind = "decode", after = ["query_prefill"] },
]

[origins.card]
kind = "published"
source = "model card"
"#;

const COSTS: &str = r#"soc = "toy"
model = "vlm"
origin = "bench"

[engines.cpu.stages]
encode = { fixed_s = 0.5, bytes = 1e8 }
ingest = { per_token_s = 0.002, bytes = 1e9 }
query_prefill = { per_token_s = 0.002, bytes = 1e8 }
decode = { per_token_s = 0.05, bytes_per_token = 5e8, measured_tokens = [1, 40] }
import = { fixed_s = 0.001, gbps = 5, bytes_per_token = 2 }
export = { fixed_s = 0.001, gbps = 5, bytes_per_token = 2 }

[engines.npu.stages]
encode = { fixed_s = 0.1, bytes = 1e8 }
ingest = { per_token_s = 0.001, bytes = 1e9 }
query_prefill = { per_token_s = 0.001, bytes = 1e8 }
decode = { per_token_s = 0.08, bytes_per_token = 5e8 }
import = { fixed_s = 0.001, gbps = 5, bytes_per_token = 2 }
export = { fixed_s = 0.001, gbps = 5, bytes_per_token = 2 }

[origins.bench]
kind = "derived"
note = "round numbers from nothing at all"
"#;

/// A scenario in which `rate_hz` queries a second come to each of two cameras.
pub(crate) fn scenario(rate_hz: f64) -> String {
    format!(
        r#"title = "two cameras"
soc = "toy"
model = "vlm"
seed = 7
replications = 4

[run]
horizon_s = 120.0
warm_up_s = 10.0

[context]
keep = {{ window = {{ frames = 4 }} }}

[[streams]]
name = "front"
copies = 2
[streams.frames]
clock = {{ periodic = {{ rate_hz = 0.5 }} }}
[streams.queries]
arrivals = {{ poisson = {{ rate_hz = {rate_hz} }} }}
prompt_tokens = 20
output_tokens = {{ uniform = {{ low = 8, high = 48 }} }}
deadline_s = 4.0
"#
    )
}

/// The scenario as a world.
pub(crate) fn world(text: &str) -> World {
    load_scenario("toy.toml", text, &Toy, &Toy).unwrap_or_else(|faults| panic!("{faults}"))
}

/// The scenario's first replication in detail, with at most `rows` rows, and its summary.
pub(crate) fn detail(text: &str, rows: usize) -> (Detail, Summary) {
    let world = world(text);
    let mut detail = Detail::of(&world, Reproduce::new(&["crossinfer".into()], &[]));
    let pace = Pace::default();
    let mut recorder = Recorder::new(&world, Some(&pace), rows);
    let mut simulation = Simulation::new(&world);
    simulation
        .run_watched(0, &pace, &mut recorder)
        .expect("no policy stops");
    detail.runs.push(recorder.finish(simulation.metrics()));
    (detail, simulation.summary())
}

struct Toy;

impl Library for Toy {
    fn soc(&self, key: &str) -> Option<Source> {
        source(key == "toy", "toy/soc.toml", SOC)
    }

    fn model(&self, key: &str) -> Option<Source> {
        source(key == "vlm", "models/vlm.toml", MODEL)
    }

    fn costs(&self, soc_key: &str, model_key: &str) -> Option<Source> {
        source(
            soc_key == "toy" && model_key == "vlm",
            "toy/vlm.toml",
            COSTS,
        )
    }

    fn names(&self, _: Kind) -> Vec<String> {
        Vec::new()
    }
}

fn source(known: bool, name: &str, text: &str) -> Option<Source> {
    known.then(|| Source {
        name: name.into(),
        text: text.into(),
    })
}

impl Files for Toy {
    fn read(&self, _: &str) -> Result<String, String> {
        Err("no such file".into())
    }
}
