//! A small made-up SoC, model and scenario.

#![allow(dead_code, reason = "not every suite needs everything")]

#[cfg(feature = "live")]
mod real;

use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use hw::engine::Engine;
use hw::rig::{Options, Outcome, Rig};
#[cfg(feature = "live")]
#[allow(unused_imports, reason = "not every suite has real engines")]
pub(crate) use real::*;
use sim::check::Check;
use sim::dispatch::{Dispatcher, Effects};
use sim::drive::drive;
use sim::load::{Files, Kind, Library, Source, load_scenario};
use sim::time::Instant;
use sim::trace::{Record, Recorder, replay};
use sim::world::World;

pub(crate) type Records = Vec<(Instant, Record)>;

/// Runs a world, and checks what must hold of every run.
pub(crate) fn run_checked(
    world: &World,
    engines: Vec<Box<dyn Engine>>,
    options: &Options,
) -> (Records, Outcome) {
    let mut rig = Rig::start(world, engines, options).unwrap();
    let mut sink = (Recorder::default(), Check::new(world));
    let mut dispatcher = Dispatcher::new(world);
    drive(&mut rig, &mut dispatcher, &mut Effects::new(), &mut sink).unwrap();
    let outcome = rig.shutdown();
    let (recorder, check) = sink;
    assert_eq!(check.violations(), Vec::<String>::new());
    let difference = replay(&mut Dispatcher::new(world), &recorder.records);
    assert_eq!(difference, Ok(None), "a fresh scheduler does the same");
    (recorder.records, outcome)
}

pub(crate) const SOC: &str = r#"
name = "Toy"
origin = "guess"

[memory]
capacity_bytes = 8e9
reserved_bytes = 1e9
bandwidth_gbps = 50.0

[cpu]
cores = 8

[engines.cpu]
kind = "cpu"
port_gbps = 15.0
weight = 1.0

[engines.gpu]
kind = "gpu"
port_gbps = 20.0
weight = 2.0

[engines.npu]
kind = "npu"
port_gbps = 10.0
weight = 1.0

[lanes.cpu]
engine = "cpu"
cores = 4

[lanes.gpu]
engine = "gpu"

[lanes.npu]
engine = "npu"

[contention]
model = "none"

[origins.guess]
kind = "assumed"
note = "made up for tests"
"#;

const MODEL: &str = r#"
name = "Toy VLM"
origin = "guess"
weights_bytes = 1e8
kv_bytes_per_token = 1000
visual_tokens_per_frame = 10
system_tokens = 5
max_context_tokens = 4096

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

[origins.guess]
kind = "assumed"
note = "made up for tests"
"#;

/// Language on `cpu` and `gpu`, vision on all three.
const COSTS: &str = r#"
soc = "toy"
model = "vlm"
origin = "guess"

[engines.cpu.stages]
encode = { fixed_s = 0.09 }
project = { fixed_s = 0.002 }
ingest = { fixed_s = 0.004, per_token_s = 0.0017 }
query_prefill = { fixed_s = 0.003, per_token_s = 0.0017 }
decode = { per_token_s = 0.013, per_token_context_s = 1e-6 }
import = { fixed_s = 0.001, gbps = 0.1 }
export = { fixed_s = 0.001, gbps = 0.1 }
reconstruct = { fixed_s = 0.004, per_token_s = 0.0017 }

[engines.gpu.stages]
encode = { fixed_s = 0.05 }
project = { fixed_s = 0.001 }
ingest = { fixed_s = 0.003, per_token_s = 0.0007 }
query_prefill = { fixed_s = 0.002, per_token_s = 0.0007 }
decode = { per_token_s = 0.011, per_token_context_s = 1e-6 }
import = { fixed_s = 0.001, gbps = 0.1 }
export = { fixed_s = 0.001, gbps = 0.1 }
reconstruct = { fixed_s = 0.003, per_token_s = 0.0007 }

[engines.npu.stages]
encode = { fixed_s = 0.023 }

[engines.npu.unsupported]
project = "vision only"
ingest = "vision only"
query_prefill = "vision only"
decode = "vision only"
import = "vision only"
export = "vision only"
reconstruct = "vision only"

[origins.guess]
kind = "assumed"
note = "made up for tests"
"#;

/// Two streams, each with frames and queries that overlap.
pub(crate) const STREAMS: &str = r#"
[[streams]]
name = "door"
frames = { clock = { periodic = { rate_hz = 9 } }, count = 10 }
[streams.queries]
arrivals = { poisson = { rate_hz = 7 } }
count = 8
prompt_tokens = 6
output_tokens = { uniform = { low = 1, high = 12 } }

[[streams]]
name = "yard"
frames = { clock = { periodic = { rate_hz = 5 } }, start_s = 0.013, count = 6 }
[streams.queries]
arrivals = { closed_loop = { users = 2, think_s = 0.1 } }
count = 7
prompt_tokens = 4
output_tokens = { uniform = { low = 1, high = 12 } }
"#;

/// The files of a SoC.
struct Toy {
    soc: String,
    costs: String,
    /// Name and text of the script, where there is one.
    script: Option<(String, String)>,
}

impl Library for Toy {
    fn soc(&self, key: &str) -> Option<Source> {
        source(key == "toy", "soc.toml", &self.soc)
    }
    fn model(&self, key: &str) -> Option<Source> {
        source(key == "vlm", "vlm.toml", MODEL)
    }
    fn costs(&self, soc_key: &str, model_key: &str) -> Option<Source> {
        source(
            (soc_key, model_key) == ("toy", "vlm"),
            "toy/vlm.toml",
            &self.costs,
        )
    }
    fn names(&self, _: Kind) -> Vec<String> {
        Vec::new()
    }
}

impl Files for Toy {
    fn read(&self, path: &str) -> Result<String, String> {
        let script = self.script.as_ref().filter(|(name, _)| name == path);
        script
            .map(|(_, text)| text.clone())
            .ok_or_else(|| format!("there is no {path}"))
    }
}

fn source(known: bool, name: &str, text: &str) -> Option<Source> {
    known.then(|| Source {
        name: name.into(),
        text: text.into(),
    })
}

/// The world of [`STREAMS`] on the toy SoC; `settings` are further tables of the scenario.
pub(crate) fn world(settings: &str) -> World {
    world_of(settings, STREAMS, "")
}

/// A world on the toy SoC, which has the tables `soc` too.
pub(crate) fn world_of(settings: &str, streams: &str, soc: &str) -> World {
    load(settings, streams, &format!("{SOC}{soc}"), COSTS)
}

/// A world whose every lane has one core: real engines use as many threads.
pub(crate) fn world_of_threads(settings: &str, streams: &str) -> World {
    let soc = SOC.replace("engine = \"cpu\"\ncores = 4", "engine = \"cpu\"\ncores = 1");
    load(settings, streams, &soc, COSTS)
}

/// The world of [`STREAMS`] on another SoC with other costs.
pub(crate) fn world_with(settings: &str, soc: &str, costs: &str) -> World {
    load(settings, STREAMS, soc, costs)
}

/// The world of [`STREAMS`] on the toy SoC under a script.
pub(crate) fn scripted(name: &str, text: &str) -> World {
    let toy = Toy {
        soc: SOC.to_owned(),
        costs: COSTS.to_owned(),
        script: Some((name.to_owned(), text.to_owned())),
    };
    load_toy(&toy, &format!("policy.script = \"{name}\""), STREAMS)
}

fn load(settings: &str, streams: &str, soc: &str, costs: &str) -> World {
    let toy = Toy {
        soc: soc.to_owned(),
        costs: costs.to_owned(),
        script: None,
    };
    load_toy(&toy, settings, streams)
}

fn load_toy(toy: &Toy, settings: &str, streams: &str) -> World {
    let head = "title = \"toy\"\nsoc = \"toy\"\nmodel = \"vlm\"\n";
    let text = format!("{head}{settings}\n{streams}");
    load_scenario("toy.toml", &text, toy, toy).unwrap_or_else(|faults| panic!("{faults}"))
}

/// A folder of this test's own, which goes with it.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let folder = format!("crossinfer-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a test's body, and fails if it has not ended within a minute.
pub(crate) fn in_time<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    in_time_of(60, body)
}

/// Runs a test's body, and fails if it has not ended within so many seconds.
pub(crate) fn in_time_of<T: Send + 'static>(
    seconds: u64,
    body: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let _ = sender.send(body());
    });
    match receiver.recv_timeout(Duration::from_secs(seconds)) {
        Ok(value) => value,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("the value is sent before the thread ends"),
        },
    }
}
