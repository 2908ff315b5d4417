//! ONNX Runtime's profiling JSON (`enable_profiling`), read as a stream.
//!
//! The cost of a run is its wall time, `model_run`. Kernel times within it are summed only to say where the time
//! went: an event that encloses another one (a subgraph's node) counts its own part, so nothing counts twice.
//! The first run of a session is its warm-up. A run whose nodes are missing (the profiler stops at a million
//! events) is incomplete and is left out. Of very many runs every second, fourth, … is kept, so that a file of
//! any length needs no more memory.

mod collect;
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
use collect::{OPEN_MAX, Profile, Run, Runs};
use event::Events;
use lenient::Lenient;

/// Events at which the profiler stops.
const EVENTS_MAX: u64 = 1_000_000;
/// The rows of a profile, as far as it can be read.
pub fn read(source: Source, notes: &mut Notes) -> Vec<Row> {
    let Source { name, reader } = source;
    let line = Rc::new(Cell::new(1));
    let mut input = Lenient::new(reader, Rc::clone(&line));
    let dropped = Rc::clone(&input.dropped);
    let mut profile = Profile::new(Rc::clone(&line));
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

impl Profile {
    /// A word on what makes times of the whole file doubtful.
    fn doubts(&self, file: &str, notes: &mut Notes) {
        if self.events >= EVENTS_MAX {
            let text =
                "the profiler stops at 1,000,000 events: later runs are missing or incomplete";
            notes.add(NoteKind::Warning, file, None, text);
        }
        if self.overlapping {
            let text = "runs overlap in time: their wall times hold waiting for each other";
            notes.add(NoteKind::Warning, file, None, text);
        }
        if self.lost > 0 {
            let text = format!(
                "{} nodes lie outside of any run, beyond {OPEN_MAX} that are held: their time is not told",
                self.lost
            );
            notes.add(NoteKind::Warning, file, None, text);
        }
    }

    /// Says which events tell no time.
    fn timeless(&self, file: &str, notes: &mut Notes) {
        for (faulty, of) in [
            (&self.faulty_runs, "runs"),
            (&self.faulty_others, "other events"),
        ] {
            if let Some((line, first)) = &faulty.first {
                let text = match faulty.count {
                    1 => first.clone(),
                    count => format!("{first}; {count} {of} without a time in all"),
                };
                notes.skip(file, *line, format!("{text}: left out"));
            }
        }
    }

    fn rows(self, file: &str, notes: &mut Notes) -> Vec<Row> {
        if self.runs.count > 0 {
            self.doubts(file, notes);
        }
        self.timeless(file, notes);
        let Self {
            mut runs,
            providers,
            events,
            load,
            faulty_runs,
            ..
        } = self;
        runs.settle();
        let Runs {
            kept: runs,
            count,
            step,
            ..
        } = runs;
        if runs.is_empty() {
            let text = if events == 0 {
                "no events: this is no profile of ONNX Runtime".to_owned()
            } else if faulty_runs.count > 0 {
                format!("none of {} runs tells how long it took", faulty_runs.count)
            } else {
                format!("{events} events and no `model_run` among them: no run ended")
            };
            notes.refuse(file, Some(1), text);
            return Vec::new();
        }
        if step > 1 {
            let text = format!("of {count} runs one in {step} is kept, evenly over the file");
            notes.add(NoteKind::Read, file, None, text);
        }
        let total = runs.len();
        let runs = complete(runs, file, notes);
        // Runs of one session after its first; the first of each is its warm-up.
        let seconds = |run: &Run| (run.end - run.start) * 1e-6;
        let cold: Vec<f64> = runs.iter().filter(|run| run.first).map(seconds).collect();
        let warm: Vec<&Run> = runs.iter().filter(|run| !run.first).collect();
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
            "{} warm run{}; warm-up {} s, loading {} s, both apart",
            samples.len(),
            if samples.len() == 1 { "" } else { "s" },
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

#[cfg(test)]
mod tests {
    use std::io::{self, Read};

    use super::collect::RUNS_MAX;
    use super::*;

    /// A profile of `runs` runs, written as it is read; run `i` takes 1000 + `i` % 100 µs, the first 50 000.
    struct Long {
        runs: u64,
        next: u64,
        text: Vec<u8>,
        at: usize,
    }

    impl Long {
        fn new(runs: u64) -> Self {
            let head =
                r#"[{"cat":"Session","name":"session_initialization","ts":0,"dur":9,"args":{}}"#;
            Self {
                runs,
                next: 0,
                text: head.into(),
                at: 0,
            }
        }

        fn micros(run: u64) -> u64 {
            if run == 0 { 50_000 } else { 1000 + run % 100 }
        }
    }

    impl Read for Long {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            if self.at == self.text.len() && self.next <= self.runs {
                let (run, took) = (self.next, Self::micros(self.next));
                let start = 100_000 + run * 60_000;
                self.text = if run == self.runs {
                    b"]".to_vec()
                } else {
                    format!(
                        r#",{{"cat":"Node","name":"c","ts":{start},"dur":900,"tid":{run},"args":{{"provider":"CPUExecutionProvider"}}}},{{"cat":"Session","name":"model_run","ts":{start},"dur":{took},"args":{{}}}}"#
                    )
                    .into()
                };
                self.at = 0;
                self.next += 1;
            }
            let count = to.len().min(self.text.len() - self.at);
            to[..count].copy_from_slice(&self.text[self.at..self.at + count]);
            self.at += count;
            Ok(count)
        }
    }

    fn profile(runs: u64) -> Profile {
        let mut profile = Profile::default();
        let mut most = (0, 0);
        let mut json = serde_json::Deserializer::from_reader(io::BufReader::new(Long::new(runs)));
        let seen = Events(&mut |event| {
            profile.event(&event);
            most.0 = most.0.max(profile.runs.kept.len());
            most.1 = most.1.max(profile.open.len());
        });
        seen.deserialize(&mut json).expect("it is a profile");
        assert!(most.0 <= RUNS_MAX && most.1 <= 1, "{most:?}");
        profile
    }

    #[test]
    fn what_is_kept_does_not_grow_with_the_file() {
        for runs in [1000, 40_000, 100_000] {
            let profile = profile(runs);
            let step = profile.runs.step;
            assert_eq!(profile.runs.count, runs);
            assert!(runs / step <= RUNS_MAX as u64 + 1);
            assert!(runs <= RUNS_MAX as u64 || runs / step > RUNS_MAX as u64 / 2 - 1);
            let mut notes = Notes::default();
            let rows = profile.rows("long.json", &mut notes);
            let Spread::Samples(samples) = &rows[0].spread else {
                panic!("there are samples");
            };
            // One in `step`, in order, from the second kept run on: the first is the warm-up.
            let kept = (0..runs).step_by(step as usize).skip(1);
            let expected: Vec<f64> = kept.map(|run| Long::micros(run) as f64 * 1e-6).collect();
            assert_eq!(samples.len(), expected.len());
            let close = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-12;
            assert!(samples.iter().zip(&expected).all(close));
            assert!(close((
                &rows[0].cold_s.expect("the first run is apart"),
                &0.05
            )));
            let said = notes
                .list
                .iter()
                .any(|note| note.text.contains("is kept, evenly"));
            assert_eq!(said, step > 1);
        }
    }
}
