//! What was run on a host with a GPU: predictions that were written down first, what was measured then, and a live
//! trace.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use sim::dispatch::Dispatcher;
use sim::drive::Sink as _;
use sim::load::{Inputs, Kind, Library, Source};
use sim::metrics::Metrics;
use sim::trace::{self, Header, Record, replay};
use sim::world::STAGES_MAX;
use validation::folder::{Disk, Folder};
use validation::live::{Document, Metric, Predictions, Row, expected};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A day's results: predictions, what was measured then, and the profiles that predicted unless it is the shipped one.
struct Kept {
    folder: PathBuf,
}

impl Kept {
    fn run(number: u32) -> Self {
        let folder = format!("validation/live/gpu-host/run-{number}");
        Self {
            folder: root().join(folder),
        }
    }

    fn all() -> Vec<Self> {
        (1..=8).map(Self::run).collect()
    }

    fn cases(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.folder).expect("a folder");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        let names = names.filter_map(|name| {
            let name = name.to_str()?.strip_suffix(".predicted.json")?;
            Some(name.to_owned())
        });
        names.collect()
    }

    fn text(&self, name: &str) -> String {
        let path = self.folder.join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// A case with the profile that was calibrated there; where that was refreshed, with the case's own.
    fn inputs(&self, case: &str) -> Inputs {
        let refreshed = self.folder.join(case).join("profiles");
        let own = if refreshed.exists() {
            refreshed
        } else {
            self.folder.join("profiles")
        };
        let profiles = Profiles {
            own: Folder::new(own),
            shipped: Folder::new(root().join("profiles")),
        };
        let path = root().join(format!("hw/gpu-host/cases/{case}.toml"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{error}"));
        Inputs::read(&path.to_string_lossy(), &text, &profiles, &Disk)
            .unwrap_or_else(|faults| panic!("{faults}"))
    }

    fn predictions(&self, case: &str) -> Predictions {
        Predictions::read(&self.text(&format!("{case}.predicted.json"))).expect("predictions")
    }

    fn document(&self, case: &str) -> Document {
        Document::read(&self.text(&format!("{case}.json"))).expect("a comparison")
    }
}

/// Profiles with those of a run in front.
struct Profiles {
    own: Folder,
    shipped: Folder,
}

impl Library for Profiles {
    fn soc(&self, key: &str) -> Option<Source> {
        self.own.soc(key).or_else(|| self.shipped.soc(key))
    }

    fn model(&self, key: &str) -> Option<Source> {
        self.shipped.model(key)
    }

    fn costs(&self, soc: &str, model: &str) -> Option<Source> {
        let own = self.own.costs(soc, model);
        own.or_else(|| self.shipped.costs(soc, model))
    }

    fn names(&self, kind: Kind) -> Vec<String> {
        self.shipped.names(kind)
    }
}

#[test]
fn the_profile_still_predicts_what_was_written_down() {
    let mut rows = 0;
    for kept in Kept::all() {
        for case in kept.cases() {
            let (inputs, written) = (kept.inputs(&case), kept.predictions(&case));
            for row in &written.rows {
                let world = inputs.with_policy_text(&row.policy).expect("a policy");
                let values = expected(&world, 0, None).expect("no policy stops");
                let value = values.of(row.metric).expect("it exists");
                // A change of a model moves it: then these predictions are of another simulator.
                assert!(
                    (value / row.value - 1.0).abs() < 1e-6,
                    "{case}: {row:?}, now {value}"
                );
                rows += 1;
            }
        }
    }
    assert_eq!(rows, 488, "of 33 cases");
}

#[test]
fn what_was_measured_is_held_against_what_was_written_down() {
    for kept in Kept::all() {
        for case in kept.cases() {
            let (document, written) = (kept.document(&case), kept.predictions(&case));
            assert_eq!(document.comparison.rows.len(), written.rows.len());
            for row in &document.comparison.rows {
                let known = written
                    .row(&row.policy, row.metric)
                    .expect("it was predicted");
                assert!(
                    (row.predicted - known.value).abs() < 1e-9,
                    "{case}: {row:?}"
                );
                // Files of then were read to the last digit but one.
                let (low, high) = row.interval.expect("it was predicted");
                assert!((low - known.low).abs() < 1e-12 && (high - known.high).abs() < 1e-12);
                // Time was up in the fifth round of one.
                let short = case == "split-three" && kept.folder.ends_with("run-3");
                assert_eq!(row.runs, if short { 4 } else { 5 });
                let error = (row.predicted - row.measured) / row.measured;
                assert!((row.error - error).abs() < 1e-12);
            }
            assert!(document.runs.iter().all(|run| run.played.differ == 0));
        }
    }
}

#[test]
fn the_policy_that_was_predicted_to_answer_first_did() {
    for kept in Kept::all() {
        for case in kept.cases() {
            let document = kept.document(&case);
            let rows = document.comparison.rows.iter();
            let rows: Vec<_> = rows
                .filter(|row| row.metric == Metric::Completion)
                .collect();
            for one in &rows {
                for other in &rows {
                    let noise = one.noise.unwrap_or(0.0).hypot(other.noise.unwrap_or(0.0));
                    let differ = other.measured / one.measured - 1.0 > noise;
                    assert!(
                        !differ || one.predicted <= other.predicted,
                        "{case}: {one:?} {other:?}"
                    );
                    // State-aware dispatch is at least as good as a single engine.
                    let aware = other.policy == "state_aware:w+p+s";
                    assert!(
                        !(differ && aware && one.policy.starts_with("single:")),
                        "{case}: {one:?} {other:?}"
                    );
                }
            }
        }
    }
}

/// What docs/gpu-host.md says of run 6.
#[test]
fn no_error_of_run_6_exceeds_its_bound_by_more_than_repeats_leave_open() {
    let run = Kept::run(6);
    let documents = run.cases().into_iter().map(|case| run.document(&case));
    let rows: Vec<_> = documents
        .flat_map(|document| document.comparison.rows)
        .collect();
    assert_eq!(rows.len(), 100);
    let mut errors: Vec<f64> = rows.iter().map(|row| row.error.abs()).collect();
    errors.sort_by(f64::total_cmp);
    assert!(errors[50] < 0.05, "{}", errors[50]);
    let mut told = 0;
    for row in &rows {
        let open = row.noise.expect("five repeats");
        assert!(row.error.abs() - open < 0.12, "{row:?}");
        if open <= 0.12 {
            told += 1;
            assert!(row.error.abs() < 0.12, "{row:?}");
        }
    }
    assert_eq!(told, 76);
}

/// What docs/gpu-host.md says of run 7.
#[test]
fn a_stall_that_is_told_apart_makes_no_percentile_late() {
    let run = Kept::run(7);
    let (before, after) = (run.document("three-short"), run.document("three-long"));
    let beyond = |document: &Document| {
        let rows = document.comparison.rows.iter();
        let alone = rows.filter(|row| row.policy != "single:cpu");
        let beyond = alone.filter(|row| row.error.abs() > 0.12);
        let beyond = beyond.map(|row| (row.policy.clone(), row.metric));
        beyond.collect::<Vec<_>>()
    };
    let late = ["idle_first", "state_aware:w+p"].map(|policy| (policy.to_owned(), Metric::TtftP95));
    assert_eq!(beyond(&before), late);
    assert_eq!(beyond(&after), []);
    // A profile says which of its samples stalled.
    let note = |case: &str| {
        let path = format!("{case}/profiles/gpu-host/qwen2.5-0.5b-q8-random.toml");
        run.text(&path).contains("1 more stalled, 0.493 s at most")
    };
    assert!(!note("three-short") && note("three-long"));
    // On the GPU, and where a policy knows of reuse and load.
    let rows = [before, after].map(|document| document.comparison.rows);
    let rows = rows.concat();
    let steady = ["single:gpu", "reuse_first", "state_aware:w+p+s"];
    let steady = rows.iter().filter(|row| steady.contains(&&*row.policy));
    let mut errors: Vec<f64> = steady.map(|row| row.error.abs()).collect();
    errors.sort_by(f64::total_cmp);
    let median = f64::midpoint(errors[9], errors[10]);
    assert_eq!(errors.len(), 20);
    assert!(median < 0.0225 && errors[19] < 0.061, "{errors:?}");
}

/// What docs/gpu-host.md says of run 8.
#[test]
fn two_cpu_lanes_are_predicted_within_their_intervals() {
    let run = Kept::run(8);
    let rows = |case: &str| run.document(case).comparison.rows;
    let past = |rows: &[Row]| {
        let past = rows.iter().filter(|row| row.error.abs() > 0.12);
        past.map(|row| (row.policy.clone(), row.metric))
            .collect::<Vec<_>>()
    };
    let (backlog, three) = (rows("split-backlog"), rows("split-three"));
    assert_eq!(past(&backlog), []);
    assert_eq!(past(&three), [("idle_first".to_owned(), Metric::Ttft)]);
    let all = [backlog, three].concat();
    assert_eq!(all.len(), 28);
    let mut errors = Vec::new();
    for row in &all {
        let (low, high) = row.interval.expect("it was predicted");
        assert!((low..=high).contains(&row.measured), "{row:?}");
        let open = row.noise.expect("five repeats");
        assert!(row.error.abs() - open < 0.12, "{row:?}");
        if open <= 0.12 {
            assert!(row.error.abs() < 0.05, "{row:?}");
        }
        if row.policy == "single:cpu0" {
            assert!(row.error.abs() < 0.031, "{row:?}");
        }
        errors.push(row.error.abs());
    }
    errors.sort_by(f64::total_cmp);
    let median = f64::midpoint(errors[13], errors[14]);
    assert!(median < 0.0255, "{median}");
}

/// A lane of all cores beside lanes that use some of them: what docs/gpu-host.md says of its samples.
#[test]
fn a_lane_whose_cores_are_others_too_is_undone_by_them() {
    let text = Kept::run(7).text("sixteen-threads/samples.tsv");
    let median = |head: &str| {
        let lines = text.lines().filter_map(|line| line.strip_prefix(head));
        let secs = lines.filter_map(|line| line.split('\t').nth(1)?.parse::<f64>().ok());
        let mut secs: Vec<f64> = secs.collect();
        secs.sort_by(f64::total_cmp);
        assert_eq!(secs.len(), 4, "{head}");
        f64::midpoint(secs[1], secs[2])
    };
    for (does, beside, times) in [
        ("decode", "vision\tencode", 74.1),
        ("query_prefill", "vision\tencode", 32.8),
        ("decode", "gpu\tdecode", 2.3),
    ] {
        let of = |busy| median(&format!("pair\tcpu\t{does}\t{beside}\t{busy}"));
        let found = of(true) / of(false);
        assert!((found / times - 1.0).abs() < 0.01, "{does}: {found}");
    }
}

#[test]
fn the_readme_shows_the_last_runs_case_by_case() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("a file");
    let cases = [6, 7, 8].map(|number| {
        let run = Kept::run(number);
        let cases = run.cases().into_iter();
        cases
            .map(move |case| (number, run.document(&case).comparison, case))
            .collect::<Vec<_>>()
    });
    for (number, comparison, case) in cases.concat() {
        let rows = &comparison.rows;
        let policies: BTreeSet<_> = rows.iter().map(|row| &row.policy).collect();
        let worst = rows
            .iter()
            .max_by(|a, b| a.error.abs().total_cmp(&b.error.abs()))
            .expect("rows");
        let inside = rows.iter().filter(|row| {
            let (low, high) = row.interval.expect("it was predicted");
            (low..=high).contains(&row.measured)
        });
        let line = format!(
            "| `{case}` ({number}) | {} | {:.1} % | {:+.1} ± {:.1} % ({}) | {} of {} |",
            policies.len(),
            100.0 * comparison.median,
            100.0 * worst.error,
            100.0 * worst.noise.expect("five repeats"),
            worst.policy,
            inside.count(),
            rows.len()
        );
        assert!(readme.contains(&line), "{line}");
    }
}

/// Every number that was measured in run 8, again from its traces.
#[test]
fn what_was_measured_follows_from_the_traces() {
    let kept = Kept::run(8);
    let mut traces = 0;
    for case in kept.cases() {
        let document = kept.document(&case);
        let inputs = kept.inputs(&case);
        let policies: BTreeSet<&str> = document
            .comparison
            .rows
            .iter()
            .map(|row| row.policy.as_str())
            .collect();
        for policy in policies {
            let world = inputs.with_policy_text(policy).expect("a policy");
            let name = policy.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
            let mut runs = Vec::new();
            for repeat in 0..5 {
                let text = kept.text(&format!("{case}/live/{name}.0.{repeat}.trace.jsonl"));
                let (header, records) = trace::read(&text).expect("a trace");
                assert_eq!(header, Header::of(&world, 0));
                let mut dispatcher = Dispatcher::new(&world);
                let differs = replay(&mut dispatcher, &records).expect("no policy stops");
                assert!(differs.is_none(), "{case}, {policy}, {repeat}");
                let mut metrics = Metrics::new(&world);
                for (at, record) in records {
                    match record {
                        Record::Input(input) => metrics.input(at, &input),
                        Record::Effect(effect) => metrics.effect(at, &effect),
                    }
                }
                let unmeasured = vec![[0; STAGES_MAX]; world.engines.len()];
                runs.push(metrics.summary(0, &unmeasured, None));
                traces += 1;
            }
            let rows = document.comparison.rows.iter();
            for row in rows.filter(|row| row.policy == policy) {
                let values = runs.iter().map(|run| {
                    let value = Metric::values(run).of(row.metric);
                    value.expect("it exists")
                });
                let mean = values.sum::<f64>() / 5.0;
                assert!((mean / row.measured - 1.0).abs() < 1e-9, "{row:?}, {mean}");
            }
        }
    }
    assert_eq!(traces, 35);
}

#[test]
fn a_live_trace_from_there_replays() {
    let kept = &Kept::all()[0];
    let world = kept
        .inputs("backlog-12")
        .with_policy_text("state_aware:w+p+s");
    let world = world.expect("a policy");
    let (header, mut records) = trace::read(&kept.text("backlog-12.trace.jsonl")).expect("a trace");
    assert_eq!(header, Header::of(&world, 0));
    assert!(records.len() > 100);
    let differs = |records: &[_]| {
        replay(&mut Dispatcher::new(&world), records)
            .expect("no policy stops")
            .is_some()
    };
    assert!(!differs(&records));
    // Another decision is seen.
    records.swap_remove(1);
    assert!(differs(&records));
}
