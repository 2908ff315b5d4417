//! What was run on a host with a GPU: predictions that were written down first, what was measured then, and a live
//! trace.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use sim::dispatch::Dispatcher;
use sim::load::{Inputs, Kind, Library, Source};
use sim::trace::{self, Header, replay};
use validation::folder::{Disk, Folder};
use validation::live::{Document, Metric, Predictions, expected};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A day's results: predictions, what was measured then, and the profiles that predicted unless it is the shipped one.
struct Kept {
    folder: PathBuf,
}

impl Kept {
    fn all() -> Vec<Self> {
        let runs = ["run-1", "run-2", "run-3", "run-4", "run-5", "run-6"];
        let all = runs.map(|run| Self {
            folder: root().join("validation/live/gpu-host").join(run),
        });
        all.into()
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
    assert_eq!(rows, 412, "of 29 cases");
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
                // Time was up in the fifth round of this one.
                assert_eq!(row.runs, if case == "split-three" { 4 } else { 5 });
                let error = (row.predicted - row.measured) / row.measured;
                assert!((row.error - error).abs() < 1e-12);
            }
            assert!(document.runs.iter().all(|run| run.differ == 0));
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

/// What docs/gpu-host.md says of the last run.
#[test]
fn no_error_of_the_last_run_exceeds_its_bound_by_more_than_repeats_leave_open() {
    let last = Kept::all().pop().expect("six runs");
    let documents = last.cases().into_iter().map(|case| last.document(&case));
    let rows: Vec<_> = documents
        .flat_map(|document| document.comparison.rows)
        .collect();
    assert_eq!(rows.len(), 100);
    let mut errors: Vec<f64> = rows.iter().map(|row| row.error.abs()).collect();
    errors.sort_by(f64::total_cmp);
    assert!(errors[50] < 0.05, "{}", errors[50]);
    let mut told = 0;
    for row in &rows {
        let open = row.error_half_width.expect("five repeats");
        assert!(row.error.abs() - open < 0.12, "{row:?}");
        if open <= 0.12 {
            told += 1;
            assert!(row.error.abs() < 0.12, "{row:?}");
        }
    }
    assert_eq!(told, 76);
}

#[test]
fn the_readme_shows_the_last_run_case_by_case() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("a file");
    let last = Kept::all().pop().expect("six runs");
    for case in last.cases() {
        let comparison = last.document(&case).comparison;
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
            "| `{case}` | {} | {:.1} % | {:+.1} ± {:.1} % ({}) | {} of {} |",
            policies.len(),
            100.0 * comparison.median,
            100.0 * worst.error,
            100.0 * worst.error_half_width.expect("five repeats"),
            worst.policy,
            inside.count(),
            rows.len()
        );
        assert!(readme.contains(&line), "{line}");
    }
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
