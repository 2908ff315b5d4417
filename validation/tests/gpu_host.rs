//! What was run on a host with a GPU: predictions that were written down first, what was measured then, and a live
//! trace.

use std::path::{Path, PathBuf};

use sim::dispatch::Dispatcher;
use sim::load::Inputs;
use sim::trace::{self, Header, replay};
use validation::folder::{Disk, Folder};
use validation::live::{Document, Metric, Predictions, expected};

const CASES: [&str; 2] = ["backlog-12", "three-short"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn kept(name: &str) -> String {
    let path = root().join("validation/live/gpu-host").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A case with the profile that was calibrated there.
fn inputs(case: &str) -> Inputs {
    let path = root().join(format!("hw/gpu-host/cases/{case}.toml"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{error}"));
    let folder = Folder::new(root().join("profiles"));
    Inputs::read(&path.to_string_lossy(), &text, &folder, &Disk)
        .unwrap_or_else(|faults| panic!("{faults}"))
}

fn predictions(case: &str) -> Predictions {
    Predictions::read(&kept(&format!("{case}.predicted.json"))).expect("predictions")
}

#[test]
fn the_shipped_profile_still_predicts_what_was_written_down() {
    for case in CASES {
        let (inputs, written) = (inputs(case), predictions(case));
        for row in &written.rows {
            let world = inputs.with_policy_text(&row.policy).expect("a policy");
            let values = expected(&world, 0, None).expect("no policy stops");
            let value = values.of(row.metric).expect("it exists");
            // A change of a model moves it: then these predictions are of another simulator.
            assert!(
                (value / row.value - 1.0).abs() < 1e-6,
                "{case}: {row:?}, now {value}"
            );
        }
    }
}

#[test]
fn what_was_measured_is_held_against_what_was_written_down() {
    for case in CASES {
        let (document, written) = (
            Document::read(&kept(&format!("{case}.json"))),
            predictions(case),
        );
        let document = document.expect("a comparison");
        assert_eq!(document.comparison.rows.len(), written.rows.len());
        for row in &document.comparison.rows {
            let known = written
                .row(&row.policy, row.metric)
                .expect("it was predicted");
            assert!(
                (row.predicted - known.value).abs() < 1e-9,
                "{case}: {row:?}"
            );
            assert_eq!(row.interval, Some((known.low, known.high)));
            assert_eq!(row.runs, 5);
            let error = (row.predicted - row.measured) / row.measured;
            assert!((row.error - error).abs() < 1e-12);
        }
        assert!(document.runs.iter().all(|run| run.differ == 0));
    }
}

#[test]
fn the_policy_that_was_predicted_to_answer_first_did() {
    for case in CASES {
        let document = Document::read(&kept(&format!("{case}.json"))).expect("a comparison");
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
            }
        }
    }
}

#[test]
fn a_live_trace_from_there_replays() {
    let world = inputs("backlog-12").with_policy_text("state_aware:w+p+s");
    let world = world.expect("a policy");
    let (header, mut records) = trace::read(&kept("backlog-12.trace.jsonl")).expect("a trace");
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
