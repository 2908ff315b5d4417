//! A small made-up SoC, model and scenario.

use crate::load::{Files, Kind, Library, Source};

pub(super) const SOC: &str = r#"name = "Toy"
origin = "guess"

[memory]
capacity_bytes = 8e9
reserved_bytes = 1e9
bandwidth_gbps = 20.0
peak_gbps = 25.6

[cpu]
cores = 8

[engines.cpu]
kind = "cpu"
port_gbps = 15.0
weight = 1.0
idle_w = 0.5
active_w = 4.0

[engines.npu]
kind = "npu"
port_gbps = { value = 10.0, origin = "bench", low = 9.0, high = 11.0 }
weight = 0.8
address_limit_bytes = 4e9
idle_w = 0.2
active_w = 3.0

[lanes.cpu]
engine = "cpu"
cores = 4

[lanes.npu]
engine = "npu"

[contention]
model = "water_filling"

[[contention.pairs]]
victim = "cpu"
aggressor = "npu"
victim_mu = [0.0, 1.0]
aggressor_mu = [0.0, 1.0]
slowdown = [[1.0, 1.0], [1.0, 1.4]]

[power]
base_w = 1.0
joules_per_gb = 0.1

[origins.guess]
kind = "assumed"
note = "made up for tests"

[origins.bench]
kind = "published"
source = "table 1"
"#;

pub(super) const MODEL: &str = r#"name = "Toy VLM"
origin = "card"
weights_bytes = 1e9
vision_weights_bytes = 2e8
kv_bytes_per_token = 12288
visual_tokens_per_frame = 196
system_tokens = 20
max_context_tokens = 16384

[[frame_stages]]
name = "encode"
kind = "encode"

[[frame_stages]]
name = "project"
kind = "project"
after = ["encode"]

[[frame_stages]]
name = "ingest"
kind = "ingest"
after = ["project"]

[[query_stages]]
name = "query_prefill"
kind = "query_prefill"

[[query_stages]]
name = "decode"
kind = "decode"
after = ["query_prefill"]

[origins.card]
kind = "published"
source = "model card"
"#;

pub(super) const COSTS: &str = r#"soc = "toy"
model = "vlm"
origin = "bench"

[engines.cpu.stages.encode]
fixed_s = 0.5
bytes = 1e8

[engines.cpu.stages.project]
fixed_s = 0.01
bytes = 1e6

[engines.cpu.stages.ingest]
fixed_s = 0.01
per_token_s = 0.004
bytes = 1e9
cv = 0.1
measured_tokens = [16, 1024]

[engines.cpu.stages.query_prefill]
per_token_s = 0.004
bytes = 1e9
measured_tokens = [16, 1024]

[engines.cpu.stages.decode]
per_token_s = { value = 0.08, low = 0.07, high = 0.09 }
per_token_context_s = 1e-6
bytes_per_token = 1e9
measured_tokens = [1, 256]
measured_context = [0, 4096]

[engines.cpu.corun.decode]
ratio = 1.25

[engines.cpu.stages.import]
fixed_s = 0.001
gbps = 5.0
bytes_per_token = 2.0

[engines.npu]
weights_copy_bytes = 1.1e9

[engines.npu.stages.encode]
fixed_s = 0.1
bytes = 1e8
samples_s = [0.09, 0.1, 0.11]

[engines.npu.stages.project]
fixed_s = 0.002
bytes = 1e6

[engines.npu.stages.ingest]
bytes = 1e9
host_cores = 1
host_share = 0.1
[engines.npu.stages.ingest.table]
size = [32.0, 256.0, 1024.0]
time_s = [0.05, 0.2, 0.9]

[engines.npu.unsupported]
query_prefill = "the runtime has no sampler"
decode = "the runtime has no sampler"
import = "the runtime keeps a layout of its own"
export = "the runtime keeps a layout of its own"

[origins.bench]
kind = "measured"
note = "by hand on a toy board, 2026-01, 10 times"
"#;

pub(super) const SCENARIO: &str = r#"title = "two cameras"
soc = "toy"
model = "vlm"
seed = 7
replications = 5
exclusive = [["encode@npu", "decode@cpu"]]

[run]
horizon_s = 60.0
warm_up_s = 5.0

[placement]
encode = "npu"

[[streams]]
name = "front"
copies = 2
[streams.frames]
clock = { periodic = { rate_hz = 1.0 } }
[streams.queries]
arrivals = { poisson = { rate_hz = 0.2 } }
prompt_tokens = 24
output_tokens = { uniform = { low = 8, high = 64 } }
deadline_s = 10.0

[[streams]]
name = "back"
[streams.frames]
clock = { times_s = [0.0, 1.0, 2.5] }
[streams.queries]
arrivals = { closed_loop = { users = 1, think_s = 2.0 } }
prompt_tokens = 24
output_tokens = { log_normal = { mean = 32.0, cv = 0.5 } }
max_output_tokens = 128
"#;

/// The toy's profiles, each of which a test may replace.
#[derive(Clone)]
pub(super) struct Toy {
    pub(super) soc: String,
    pub(super) model: String,
    pub(super) costs: String,
    /// Further files by path.
    pub(super) files: Vec<(String, String)>,
}

impl Default for Toy {
    fn default() -> Self {
        Self {
            soc: SOC.to_owned(),
            model: MODEL.to_owned(),
            costs: COSTS.to_owned(),
            files: Vec::new(),
        }
    }
}

fn source(name: &str, text: &str) -> Source {
    Source {
        name: name.to_owned(),
        text: text.to_owned(),
    }
}

impl Library for Toy {
    fn soc(&self, key: &str) -> Option<Source> {
        (key == "toy").then(|| source("toy/soc.toml", &self.soc))
    }

    fn model(&self, key: &str) -> Option<Source> {
        (key == "vlm").then(|| source("models/vlm.toml", &self.model))
    }

    fn costs(&self, soc_key: &str, model_key: &str) -> Option<Source> {
        (soc_key == "toy" && model_key == "vlm").then(|| source("toy/vlm.toml", &self.costs))
    }

    fn names(&self, kind: Kind) -> Vec<String> {
        match kind {
            Kind::Scenario => vec![],
            Kind::Soc => vec!["toy".to_owned()],
            Kind::Model => vec!["vlm".to_owned()],
            Kind::Costs => vec!["toy/vlm".to_owned()],
        }
    }
}

impl Files for Toy {
    fn read(&self, path: &str) -> Result<String, String> {
        self.files
            .iter()
            .find(|(name, _)| name == path)
            .map(|(_, text)| text.clone())
            .ok_or_else(|| "no such file".to_owned())
    }
}
