//! ONNX Runtime's profiling JSON (`enable_profiling`), read as a stream.
//!
//! The cost of a run is its wall time, `model_run`. Kernel times within it are summed only to say where the time
//! went: an event that encloses another one (a subgraph's node) counts its own part, so nothing counts twice.
//! The first run of a session is its warm-up. A run whose nodes are missing (the profiler stops at a million
//! events) is incomplete and is left out.

mod event;
mod lenient;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use serde::de::DeserializeSeed;

use super::Source;
use super::note::{NoteKind, Notes};
use super::row::{Identity, Place, Row, Spread, Test};
use super::stats::mean;
use super::toml_text::number;
use event::{Event, Events};
use lenient::Lenient;

/// Events at which the profiler stops.
const EVENTS_MAX: u64 = 1_000_000;
/// Open nodes of one thread and runs beyond which a file is no profile of a model.
const KEPT_MAX: usize = 4_000_000;

/// The rows of a profile, as far as it can be read.
pub fn read(source: Source, notes: &mut Notes) -> Vec<Row> {
    let Source { name, reader } = source;
    let line = Rc::new(Cell::new(1));
    let mut input = Lenient::new(reader, Rc::clone(&line));
    let dropped = Rc::clone(&input.dropped);
    let mut profile = Profile {
        line: Rc::clone(&line),
        ..Profile::default()
    };
    let result = {
        let mut json = serde_json::Deserializer::from_reader(&mut input);
        Events(&mut |event| profile.event(&event))
            .deserialize(&mut json)
            .and_then(|()| json.end())
    };
    if let Err(error) = result {
        let text = if error.is_eof() {
            format!(
                "the profile ends here, at column {}: what came before is used",
                error.column()
            )
        } else {
            format!("no profile from here on ({error}): what came before is used")
        };
        notes.skip(&name, line.get(), text);
    }
    if dropped.get() > 0 {
        let text = format!(
            "{} commas before a closing bracket, which JSON does not allow, are passed over",
            dropped.get()
        );
        notes.add(NoteKind::Warning, &name, None, text);
    }
    profile.rows(&name, notes)
}

/// A run of the model.
#[derive(Clone, Debug)]
struct Run {
    session: u64,
    start: f64,
    end: f64,
    line: u64,
    nodes: u64,
    /// Kernel time by provider, µs.
    kernels: Vec<f64>,
}

/// A node, or several of one subgraph, that no run encloses yet.
#[derive(Clone, Debug)]
struct Open {
    start: f64,
    end: f64,
    nodes: u64,
    provider: usize,
    kernels: Vec<f64>,
}

#[derive(Debug, Default)]
struct Profile {
    line: Rc<Cell<u64>>,
    events: u64,
    session: u64,
    load: f64,
    runs: Vec<Run>,
    open: BTreeMap<u64, Vec<Open>>,
    providers: Vec<String>,
    overlapping: bool,
}

impl Profile {
    fn event(&mut self, event: &Event) {
        self.events += 1;
        let sound = event.ts.is_finite() && event.dur.is_finite() && event.dur >= 0.0;
        if !sound {
            return;
        }
        match (event.cat.as_str(), event.name.as_str()) {
            ("Session", "model_run") => self.run(event.ts, event.ts + event.dur),
            ("Session", "session_initialization") => {
                self.session += 1;
                self.load += event.dur;
            }
            ("Session", name) if name.starts_with("model_loading") => self.load += event.dur,
            ("Node", name)
                if !name.ends_with("_fence_before") && !name.ends_with("_fence_after") =>
            {
                self.node(event);
            }
            _ => {}
        }
    }

    fn node(&mut self, event: &Event) {
        let name = event
            .args
            .provider
            .clone()
            .unwrap_or_else(|| "(no provider)".to_owned());
        let provider = match self.providers.iter().position(|known| *known == name) {
            Some(index) => index,
            None if self.providers.len() < 64 => {
                self.providers.push(name);
                self.providers.len() - 1
            }
            None => 63,
        };
        let (start, end) = (event.ts, event.ts + event.dur);
        // A file sorted by start time has the run before its nodes.
        if let Some(run) = self.runs.last_mut()
            && start >= run.start
            && end <= run.end
        {
            run.nodes += 1;
            add(&mut run.kernels, provider, event.dur);
            return;
        }
        let open = self.open.entry(event.tid).or_default();
        let mut new = Open {
            start,
            end,
            nodes: 1,
            provider,
            kernels: Vec::new(),
        };
        let mut inside = 0.0;
        while let Some(last) = open.last()
            && last.start >= start
            && last.end <= end
        {
            inside += last.end - last.start;
            new.nodes += last.nodes;
            for (index, time) in last.kernels.iter().enumerate() {
                add(&mut new.kernels, index, *time);
            }
            open.pop();
        }
        add(&mut new.kernels, provider, (event.dur - inside).max(0.0));
        // Sorted by start time, the node that encloses comes first: its own part shrinks.
        if let Some(last) = open.last_mut()
            && start >= last.start
            && end <= last.end
        {
            let outer = last.provider;
            add(&mut last.kernels, outer, -event.dur);
            add(&mut last.kernels, provider, event.dur);
            last.nodes += 1;
            return;
        }
        if open.len() < KEPT_MAX {
            open.push(new);
        }
    }

    fn run(&mut self, start: f64, end: f64) {
        let mut run = Run {
            session: self.session,
            start,
            end,
            line: self.line.get(),
            nodes: 0,
            kernels: Vec::new(),
        };
        for open in self.open.values_mut() {
            open.retain(|node| {
                let within = node.start >= start && node.end <= end;
                if within {
                    run.nodes += node.nodes;
                    for (index, time) in node.kernels.iter().enumerate() {
                        add(&mut run.kernels, index, *time);
                    }
                }
                // What ended before this run belongs to none that is complete.
                !within && node.end > start
            });
        }
        if self
            .runs
            .last()
            .is_some_and(|last| last.end > start && last.start < end)
        {
            self.overlapping = true;
        }
        if end > start && self.runs.len() < KEPT_MAX {
            self.runs.push(run);
        }
    }

    fn rows(self, file: &str, notes: &mut Notes) -> Vec<Row> {
        let Self {
            runs,
            providers,
            events,
            load,
            ..
        } = self;
        if runs.is_empty() {
            let text = if events == 0 {
                "no events: this is no profile of ONNX Runtime".to_owned()
            } else {
                format!("{events} events and no `model_run` among them: no run ended")
            };
            notes.refuse(file, Some(1), text);
            return Vec::new();
        }
        if events >= EVENTS_MAX {
            let text =
                "the profiler stops at 1,000,000 events: later runs are missing or incomplete";
            notes.add(NoteKind::Warning, file, None, text);
        }
        if self.overlapping {
            let text = "runs overlap in time: their wall times hold waiting for each other";
            notes.add(NoteKind::Warning, file, None, text);
        }
        let total = runs.len();
        let runs = complete(runs, file, notes);
        // Runs of one session after its first; the first of each is its warm-up.
        let first = |index: usize| index == 0 || runs[index - 1].session != runs[index].session;
        let seconds = |run: &Run| (run.end - run.start) * 1e-6;
        let cold: Vec<f64> = (0..runs.len())
            .filter(|&i| first(i))
            .map(|i| seconds(&runs[i]))
            .collect();
        let warm: Vec<&Run> = (0..runs.len())
            .filter(|&i| !first(i))
            .map(|i| &runs[i])
            .collect();
        let Some(at) = warm.first().copied().or(runs.first()) else {
            notes.refuse(file, None, format!("none of {total} runs is complete"));
            return Vec::new();
        };
        let samples: Vec<f64> = warm.iter().map(|run| seconds(run)).collect();
        if samples.is_empty() {
            let text = format!(
                "only the warm-up run ({} s): run the model at least twice in one session",
                number(mean(&cold))
            );
            notes.refuse(file, Some(at.line), text);
            return Vec::new();
        }
        let text = format!(
            "{} warm runs; warm-up {} s, loading {} s, both apart",
            samples.len(),
            number(mean(&cold)),
            number(load * 1e-6)
        );
        notes.add(NoteKind::Read, file, Some(at.line), text);
        let wall: f64 = samples.iter().sum();
        let mut kernels = vec![0.0; providers.len()];
        for run in &warm {
            for (index, time) in run.kernels.iter().enumerate() {
                kernels[index] += time * 1e-6;
            }
        }
        let mut identity = Identity::new();
        if let Some(engine) = share(&providers, &kernels, wall, (file, at.line), notes) {
            identity.insert("engine".to_owned(), engine);
        }
        identity.insert("runtime".to_owned(), "ONNX Runtime".to_owned());
        let mean = mean(&samples);
        let spread = if samples.len() > 1 {
            Spread::Samples(samples)
        } else {
            Spread::Unknown
        };
        vec![Row {
            identity,
            test: Test::Run("run".to_owned()),
            secs: mean,
            spread,
            cold_s: cold.first().copied(),
            stated: true,
            weights_bytes: None,
            place: Place {
                file: file.to_owned(),
                line: at.line,
            },
            shown: format!("mean {} s", number(mean)),
            block: 0,
        }]
    }
}

fn add(list: &mut Vec<f64>, index: usize, value: f64) {
    if list.len() <= index {
        list.resize(index + 1, 0.0);
    }
    list[index] += value;
}

/// Runs with all their nodes. Where the profiler stopped, the last ones have fewer or none.
fn complete(mut runs: Vec<Run>, file: &str, notes: &mut Notes) -> Vec<Run> {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.nodes > 0) {
        *counts.entry(run.nodes).or_default() += 1;
    }
    // The commonest count; of equally common ones the largest.
    let Some((&usual, _)) = counts
        .iter()
        .max_by_key(|(nodes, times)| (**times, **nodes))
    else {
        return runs;
    };
    let keep = runs
        .iter()
        .rposition(|run| run.nodes >= usual)
        .map_or(0, |last| last + 1);
    if keep < runs.len() {
        let first = &runs[keep];
        let text = format!(
            "the last {} of {} runs have fewer than the usual {usual} nodes: incomplete, left out",
            runs.len() - keep,
            runs.len()
        );
        notes.skip(file, first.line, text);
        runs.truncate(keep);
    }
    runs
}

/// Says where the time went; the engine that had most of it.
fn share(
    providers: &[String],
    kernels: &[f64],
    wall: f64,
    (file, line): (&str, u64),
    notes: &mut Notes,
) -> Option<String> {
    let sum: f64 = kernels.iter().sum();
    if sum <= 0.0 {
        let text = "no kernel times: which engine ran is unknown, say it by `--engine`";
        notes.add(NoteKind::Missing, file, Some(line), text);
        return None;
    }
    let list: Vec<String> = providers
        .iter()
        .zip(kernels)
        .filter(|(_, time)| **time > 0.0)
        .map(|(provider, time)| format!("{provider} {:.0} %", 100.0 * time / wall))
        .collect();
    let text = format!(
        "of the wall time: {}; {:.0} % outside of all kernels, which the cost includes",
        list.join(", "),
        100.0 * (1.0 - sum / wall).max(0.0)
    );
    let kind = if list.len() > 1 || sum < 0.7 * wall {
        NoteKind::Warning
    } else {
        NoteKind::Read
    };
    notes.add(kind, file, Some(line), text);
    let most = (0..kernels.len()).max_by(|&a, &b| kernels[a].total_cmp(&kernels[b]))?;
    let name = providers[most]
        .trim_end_matches("ExecutionProvider")
        .to_lowercase();
    let engine = match name.as_str() {
        "cpu" | "xnnpack" | "dnnl" | "acl" | "armnn" => "cpu",
        "cuda" | "tensorrt" | "nvtensorrtrtx" | "rocm" | "migraphx" | "dml" | "webgpu" | "js" => {
            "gpu"
        }
        "qnn" | "vitisai" | "rknpu" | "cann" => "npu",
        // CoreML, NNAPI and OpenVINO choose for themselves.
        other => other,
    };
    Some(engine.to_owned())
}
