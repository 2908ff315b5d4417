//! ONNX Runtime's profiling JSON (`enable_profiling`), read as a stream.
//!
//! The cost of a run is its wall time, `model_run`. Kernel times within it are summed only to say where the time
//! went: an event that encloses another one (a subgraph's node) counts its own part, so nothing counts twice.
//! The first run of a session is its warm-up. A run whose nodes are missing (the profiler stops at a million
//! events) is incomplete and is left out. Of very many runs the times of some are held, drawn at random, and
//! sums over all, so that a file of any length needs no more memory.

mod collect;
mod event;
mod lenient;

use std::cell::Cell;
use std::rc::Rc;

use serde::de::DeserializeSeed;

use super::Source;
use super::note::{NoteKind, Notes};
use super::row::{Identity, Place, Row, Spread, Test};
use super::toml_text::number;
use collect::{OPEN_MAX, Profile, Runs, Totals};
use event::Events;
use lenient::Lenient;

/// Events at which the profiler stops. What a GPU's own profiler adds at the end comes on top.
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
        // More events are of a profiler that does not stop there, or of several files in one.
        if self.events - self.kernels == EVENTS_MAX {
            let text = "it has the 1,000,000 events at which the profiler stops: runs after the last of them, if there were any, are not in it";
            notes.add(NoteKind::Warning, file, None, text);
        }
        if self.waiting > 0 && self.overlapping.first.is_none() {
            let text = format!(
                "{} after the last run: the run that they are of did not end, or its event is not in the file",
                match self.waiting {
                    1 => "a node".to_owned(),
                    count => format!("{count} nodes"),
                }
            );
            notes.add(NoteKind::Skipped, file, None, text);
        }
        if let Some((first, second)) = self.overlapping.first {
            let more = match self.overlapping.count {
                1 => String::new(),
                count => format!(", and {count} runs in all do"),
            };
            let text = format!(
                "the runs of lines {first} and {second} overlap in time{more}: their wall times hold waiting for each other, and which node is of which cannot be told; profile one run at a time"
            );
            notes.add(NoteKind::Warning, file, Some(second), text);
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
        if runs.count == 0 {
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
        let totals = complete(&runs, file, notes);
        // Runs of one session after its first; the first of each is its warm-up.
        let cold = totals.cold.1 / totals.cold.0.max(1) as f64;
        let (warm, wall) = totals.warm;
        let Some(line) = runs.first.1.filter(|_| warm > 0) else {
            let text = format!(
                "only the warm-up run ({} s): run the model at least twice in one session",
                number(cold)
            );
            notes.refuse(file, runs.first.0.map(|(line, _)| line), text);
            return Vec::new();
        };
        let mut kept = runs.kept;
        kept.retain(|(number, _)| *number < totals.runs);
        kept.sort_by_key(|(number, _)| *number);
        let samples: Vec<f64> = kept.into_iter().map(|(_, secs)| secs).collect();
        let held = samples.len() as u64;
        if held < warm {
            let text = format!(
                "the mean is of all {warm} runs; the spread is of {held} of them, drawn at random"
            );
            notes.add(NoteKind::Read, file, None, text);
        }
        let text = format!(
            "{warm} warm run{}; warm-up {} s, loading {} s, both apart",
            if warm == 1 { "" } else { "s" },
            number(cold),
            number(load * 1e-6)
        );
        notes.add(NoteKind::Read, file, Some(line), text);
        let mut kernels = totals.kernels;
        kernels.resize(providers.len(), 0.0);
        let mut identity = Identity::new();
        if let Some(engine) = share(&providers, &kernels, wall, (file, line), notes) {
            identity.insert("engine".to_owned(), engine);
        }
        identity.insert("runtime".to_owned(), "ONNX Runtime".to_owned());
        let mean = wall / warm as f64;
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
            cold_s: runs.first.0.map(|(_, secs)| secs),
            stated: true,
            weights_bytes: None,
            place: Place {
                file: file.to_owned(),
                line,
            },
            shown: format!("mean {} s", number(mean)),
            block: 0,
        }]
    }
}

/// Sums over the runs with all their nodes. Where the profiler stopped, the last ones have fewer or none.
fn complete(runs: &Runs, file: &str, notes: &mut Notes) -> Totals {
    let with_nodes = runs.sizes.iter().filter(|(nodes, _)| **nodes > 0);
    // The commonest count; of equally common ones the largest.
    let usual = with_nodes.max_by_key(|(nodes, size)| (size.count, **nodes));
    let Some((&usual, _)) = usual else {
        return runs.totals.clone();
    };
    let full = runs.sizes.range(usual..).map(|(_, size)| size);
    let Some(last) = full.max_by_key(|size| size.until.runs) else {
        return runs.totals.clone();
    };
    let missing = runs.totals.runs - last.until.runs;
    if missing > 0 {
        let text = format!(
            "the last {missing} of {} runs have fewer than the usual {usual} nodes: incomplete, left out",
            runs.totals.runs
        );
        notes.skip(file, last.next, text);
    }
    last.until.clone()
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
    use std::fmt::Write as _;
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
            assert_eq!(profile.runs.count, runs);
            let mut notes = Notes::default();
            let rows = profile.rows("long.json", &mut notes);
            let Spread::Samples(samples) = &rows[0].spread else {
                panic!("there are samples");
            };
            assert_eq!(samples.len() as u64, (runs - 1).min(RUNS_MAX as u64));
            let close = |a: f64, b: f64| (a - b).abs() < 1e-12;
            if runs <= RUNS_MAX as u64 {
                let all = (1..runs).map(|run| Long::micros(run) as f64 * 1e-6);
                assert!(samples.iter().zip(all).all(|(a, b)| close(*a, b)));
            }
            // Of all, whichever are held; the first is the warm-up.
            let sum: u64 = (1..runs).map(Long::micros).sum();
            assert!(close(rows[0].secs, sum as f64 * 1e-6 / (runs - 1) as f64));
            assert!(close(rows[0].cold_s.expect("the first run is apart"), 0.05));
            let said = notes
                .list
                .iter()
                .any(|note| note.text.contains("drawn at random"));
            assert_eq!(said, runs > RUNS_MAX as u64);
        }
    }

    /// To see it fail, compare with `>=`.
    #[test]
    fn the_profiler_s_end_is_said_only_of_a_file_that_has_it() {
        for (events, kernels, said) in [
            (EVENTS_MAX - 1, 0, false),
            (EVENTS_MAX, 0, true),
            (EVENTS_MAX + 1, 0, false),
            (EVENTS_MAX + 7, 7, true),
            (3 * EVENTS_MAX, 0, false),
        ] {
            let mut profile = profile(10);
            assert_eq!(profile.events, 21);
            (profile.events, profile.kernels) = (events, kernels);
            let mut notes = Notes::default();
            assert_eq!(profile.rows("p.json", &mut notes).len(), 1);
            let stops = notes.list.iter().any(|note| note.text.contains("stops"));
            assert_eq!(stops, said, "{events}");
        }
    }

    /// To see it fail, hold every second run.
    #[test]
    fn times_that_recur_are_held_as_often_as_they_come() {
        let mut runs = String::from(
            r#"[{"cat":"Session","name":"session_initialization","ts":0,"dur":9,"args":{}}"#,
        );
        for run in 0..20_001_u32 {
            let took = if run % 2 == 0 { 10_000 } else { 30_000 };
            _ = write!(
                runs,
                r#",{{"cat":"Session","name":"model_run","ts":{},"dur":{took},"args":{{}}}}"#,
                100_000 + run * 40_000
            );
        }
        runs += "]";
        let of = || {
            let mut notes = Notes::default();
            let source = Source::new("t.json", io::Cursor::new(runs.clone()));
            read(source, &mut notes)
        };
        let rows = of();
        assert!((rows[0].secs - 0.02).abs() < 1e-9, "{}", rows[0].secs);
        let Spread::Samples(samples) = &rows[0].spread else {
            panic!("there are samples");
        };
        let long = samples.iter().filter(|secs| **secs > 0.02).count();
        let share = long as f64 / samples.len() as f64;
        assert!((share - 0.5).abs() < 0.01, "{share}");
        assert_eq!(
            rows[0].spread,
            of()[0].spread,
            "the same file, the same times"
        );
    }
}
