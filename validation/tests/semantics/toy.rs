//! A made-up SoC on which timelines can be worked out by hand, and the timeline of a run as text.
//!
//! Engine `a` takes 1 ms a token to ingest, to prefill and to rebuild, and 10 ms to decode one; engine
//! `b` takes twice as long. A token of KV takes 1 ms out of an engine and 1 ms into one, and each way
//! 1 ms more. Frames have 10 tokens, prompts 2 and answers 3, so an answer takes a 2 + 20 ms alone.

use std::fmt::Write as _;

use sim::check::Check;
use sim::dispatch::{Effect, Input};
use sim::simulation::Simulation;
use sim::time::Instant;
use sim::trace::{Record, Recorder};
use sim::world::{StageId, StreamId, World};
use validation::inline::Inline;

const SOC: &str = "
name = 'toy'
origin = 'o'
[memory]
capacity_bytes = 1e9
reserved_bytes = 1e6
bandwidth_gbps = 10.0
[cpu]
cores = 4
[engines.a]
kind = 'gpu'
port_gbps = 10.0
weight = 1.0
[engines.b]
kind = 'npu'
port_gbps = 10.0
weight = 1.0
[lanes.a]
engine = 'a'
[lanes.b]
engine = 'b'
[contention]
model = 'none'
[origins.o]
kind = 'assumed'
note = 'made up'
";

const MODEL: &str = "
name = 'toy'
origin = 'o'
weights_bytes = 1e6
kv_bytes_per_token = 1000
visual_tokens_per_frame = 10
max_context_tokens = 4096
[[frame_stages]]
name = 'ingest'
kind = 'ingest'
[[query_stages]]
name = 'prefill'
kind = 'query_prefill'
[[query_stages]]
name = 'decode'
kind = 'decode'
after = ['prefill']
[origins.o]
kind = 'assumed'
note = 'made up'
";

const COSTS: &str = "
soc = 'toy'
model = 'vlm'
origin = 'o'
[engines.a.stages]
ingest = { per_token_s = 0.001 }
prefill = { per_token_s = 0.001 }
decode = { per_token_s = 0.010 }
import = { fixed_s = 0.001, gbps = 0.001 }
export = { fixed_s = 0.001, gbps = 0.001 }
[engines.b.stages]
ingest = { per_token_s = 0.002 }
prefill = { per_token_s = 0.002 }
decode = { per_token_s = 0.020 }
import = { fixed_s = 0.001, gbps = 0.001 }
export = { fixed_s = 0.001, gbps = 0.001 }
[origins.o]
kind = 'assumed'
note = 'made up'
";

/// The toy's files, to be edited by a test.
#[derive(Clone, Debug)]
pub(crate) struct Toy {
    pub(crate) files: Inline,
    head: String,
    tables: String,
    streams: String,
}

/// The toy as above.
pub(crate) fn toy() -> Toy {
    Toy {
        files: Inline {
            soc: SOC.to_owned(),
            model: MODEL.to_owned(),
            costs: COSTS.to_owned(),
            files: Vec::new(),
        },
        head: String::new(),
        tables: String::new(),
        streams: String::new(),
    }
}

fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "`{from}` is not in {text}");
    text.replace(from, to)
}

impl Toy {
    /// Replaces text of the SoC profile.
    pub(crate) fn soc(mut self, from: &str, to: &str) -> Self {
        self.files.soc = replaced(&self.files.soc, from, to);
        self
    }

    /// Replaces text of the model.
    pub(crate) fn model(mut self, from: &str, to: &str) -> Self {
        self.files.model = replaced(&self.files.model, from, to);
        self
    }

    /// Replaces text of the costs.
    pub(crate) fn costs(mut self, from: &str, to: &str) -> Self {
        self.files.costs = replaced(&self.files.costs, from, to);
        self
    }

    /// Adds a key of the scenario.
    pub(crate) fn set(mut self, line: &str) -> Self {
        _ = writeln!(self.head, "{line}");
        self
    }

    /// Adds a table of the scenario, or keys to the last one.
    pub(crate) fn table(mut self, lines: &str) -> Self {
        _ = writeln!(self.tables, "{lines}");
        self
    }

    /// Adds a stream with frames and queries at these times, ms.
    pub(crate) fn stream(self, name: &str, frames_ms: &[u32], queries_ms: &[u32]) -> Self {
        self.stream_with(name, frames_ms, queries_ms, 2, 3)
    }

    /// As [`Self::stream`] with prompts and answers of these lengths.
    pub(crate) fn stream_with(
        self,
        name: &str,
        frames_ms: &[u32],
        queries_ms: &[u32],
        prompt: u32,
        output: u32,
    ) -> Self {
        let times =
            |list: &[u32]| -> Vec<f64> { list.iter().map(|&ms| f64::from(ms) / 1000.0).collect() };
        self.stream_at(name, &times(frames_ms), &times(queries_ms), prompt, output)
    }

    /// As [`Self::stream_with`] at these times, s.
    pub(crate) fn stream_at(
        mut self,
        name: &str,
        frames_s: &[f64],
        queries_s: &[f64],
        prompt: u32,
        output: u32,
    ) -> Self {
        _ = writeln!(self.streams, "[[streams]]\nname = '{name}'");
        if !frames_s.is_empty() {
            _ = writeln!(
                self.streams,
                "frames = {{ clock = {{ times_s = {frames_s:?} }} }}"
            );
        }
        if !queries_s.is_empty() {
            _ = writeln!(
                self.streams,
                "queries = {{ arrivals = {{ times_s = {queries_s:?} }}, prompt_tokens = {prompt}, output_tokens = {output} }}"
            );
        }
        self
    }

    /// Adds a stream of queries, as in a file.
    pub(crate) fn queries(mut self, name: &str, arrivals: &str) -> Self {
        _ = writeln!(
            self.streams,
            "[[streams]]\nname = '{name}'\nqueries = {{ arrivals = {{ {arrivals} }}, prompt_tokens = 2, output_tokens = 3 }}"
        );
        self
    }

    /// The scenario's text.
    pub(crate) fn text(&self) -> String {
        let Self {
            head,
            tables,
            streams,
            ..
        } = self;
        format!("title = 't'\nsoc = 'toy'\nmodel = 'vlm'\n{head}{tables}{streams}")
    }

    pub(crate) fn world(&self) -> World {
        let world = self.files.world(&self.text());
        world.unwrap_or_else(|faults| panic!("{faults}\n{}", self.text()))
    }

    /// Runs it, and compares its timeline with the expected one, line by line.
    #[track_caller]
    pub(crate) fn runs_as(&self, expected: &str) {
        let world = self.world();
        let got = timeline(&world, &run(&world));
        let lines = expected
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty());
        let want: Vec<&str> = lines.collect();
        assert_eq!(got, want, "\ngot:\n{}\n", got.join("\n"));
    }
}

/// The trace of replication 0, which keeps the invariants.
pub(crate) fn run(world: &World) -> Recorder {
    let mut sink = (Check::new(world), Recorder::default());
    Simulation::new(world)
        .run_into(0, &mut sink)
        .expect("no policy stops");
    let (check, trace) = sink;
    let violations = check.violations();
    assert!(violations.is_empty(), "{violations:#?}");
    trace
}

/// Milliseconds, to the nanosecond.
fn ms(at: Instant) -> String {
    let text = format!("{}.{:06}", at.0 / 1_000_000, at.0 % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A run as text. A line for each
/// - task when it ends: `start-end lane stage size@context`, for an import also `<source`;
/// - binding, publication, eviction: `time bind q0 v1`, `time publish v1 tokens`, `time evict a tokens`;
/// - failure: `time fail lane`;
/// - answer: `time answer q0 v1 preparation first time`; refusal: `time refuse q0 reason`.
///
/// With several streams, the stream's name goes before the number: `cam/q0`, `cam/v1`.
pub(crate) fn timeline(world: &World, trace: &Recorder) -> Vec<String> {
    let mut running = vec![None; world.lanes.len()];
    let mut lines = Vec::new();
    let of = |stream: StreamId| {
        if world.streams.len() > 1 {
            format!("{}/", world.streams[stream.0 as usize].name)
        } else {
            String::new()
        }
    };
    let stage = |id: StageId| &world.stages[id.0 as usize].name;
    for &(at, record) in &trace.records {
        let time = ms(at);
        match record {
            Record::Effect(Effect::Start { lane, task }) => {
                running[lane.0 as usize] = Some((at, task));
            }
            Record::Input(Input::Finish { lane, tokens, .. }) => {
                let (from, task) = running[lane.0 as usize].take().expect("was started");
                let lane_name = &world.lanes[lane.0 as usize].name;
                let size = if stage(task.stage) == "decode" {
                    tokens
                } else {
                    task.size
                };
                let mut line = format!(
                    "{}-{time} {lane_name} {} {}{size}@{}",
                    ms(from),
                    stage(task.stage),
                    of(task.stream),
                    task.context
                );
                if stage(task.stage) == "import" {
                    _ = write!(line, " <{}", world.engines[task.source.0 as usize].name);
                }
                lines.push(line);
            }
            Record::Input(Input::Fail { lane }) => {
                running[lane.0 as usize] = None;
                lines.push(format!("{time} fail {}", world.lanes[lane.0 as usize].name));
            }
            Record::Input(Input::Throttle { level }) => {
                lines.push(format!("{time} throttle {level}"));
            }
            Record::Input(_) | Record::Effect(Effect::Abandon { .. }) => {}
            Record::Effect(Effect::Bind {
                stream,
                index,
                version,
            }) => lines.push(format!("{time} bind {}q{index} v{version}", of(stream))),
            Record::Effect(Effect::Publish {
                stream,
                version,
                tokens,
                ..
            }) => lines.push(format!("{time} publish {}v{version} {tokens}", of(stream))),
            Record::Effect(Effect::Evict {
                engine,
                stream,
                tokens,
            }) => {
                let engine = &world.engines[engine.0 as usize].name;
                lines.push(format!("{time} evict {}{engine} {tokens}", of(stream)));
            }
            Record::Effect(Effect::Complete(done)) => lines.push(format!(
                "{time} answer {}q{} v{} {:?} first {}",
                of(done.stream),
                done.index,
                done.version,
                done.preparation,
                ms(done.first_token)
            )),
            Record::Effect(Effect::Refuse {
                stream,
                index,
                query,
                reason,
                ..
            }) => {
                let what = if query { "q" } else { "f" };
                let reason = reason.name();
                lines.push(format!(
                    "{time} refuse {}{what}{index} {reason}",
                    of(stream)
                ));
            }
        }
    }
    lines
}
