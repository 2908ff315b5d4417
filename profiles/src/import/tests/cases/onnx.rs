//! Faults met in profiles of ONNX Runtime.

use super::super::super::{Kind, NoteKind};
use super::plain;

/// An event of a profile.
fn event(cat: &str, name: &str, ts: u64, dur: u64, provider: &str) -> String {
    let args = if provider.is_empty() {
        "{}".to_owned()
    } else {
        format!("{{\"provider\" : \"{provider}\"}}")
    };
    format!(
        "{{\"cat\" : \"{cat}\",\"pid\" :1,\"tid\" :1,\"dur\" :{dur},\"ts\" :{ts},\"ph\" : \"X\",\"name\" :\"{name}\",\"args\" : {args}}}"
    )
}

fn profile(events: &[String]) -> String {
    format!("[\n{}\n]\n", events.join(",\n"))
}

/// A run of two nodes, of which the second encloses a node of its subgraph.
fn nested_run(start: u64) -> Vec<String> {
    vec![
        event(
            "Node",
            "a_kernel_time",
            start + 10,
            300,
            "CPUExecutionProvider",
        ),
        event(
            "Node",
            "inner_kernel_time",
            start + 420,
            400,
            "CPUExecutionProvider",
        ),
        event(
            "Node",
            "If_kernel_time",
            start + 400,
            500,
            "CPUExecutionProvider",
        ),
        event("Session", "SequentialExecutor::Execute", start + 5, 950, ""),
        event("Session", "model_run", start, 1000, ""),
    ]
}

pub(super) fn nested_events() {
    let events: Vec<String> = (0..4).flat_map(|run| nested_run(run * 2000)).collect();
    let done = plain(Kind::OrtProfile, &[("p.json", &profile(&events))]);
    assert!((done.number("engines.cpu.stages.run.fixed_s") - 0.001).abs() < 1e-9);
    // 300 + 500 of 1000 µs: the inner 400 are part of the 500.
    done.says(NoteKind::Read, "CPUExecutionProvider 80 %; 20 % outside");
}

pub(super) fn profiler_stops() {
    let mut events: Vec<String> = Vec::new();
    for run in 0..6_u64 {
        let start = run * 2000;
        // Nodes of the first four runs, and half of the fifth's.
        let nodes = match run {
            0..=3 => 4,
            4 => 2,
            _ => 0,
        };
        for node in 0..nodes {
            events.push(event(
                "Node",
                "n_kernel_time",
                start + 100 * node,
                90,
                "CPUExecutionProvider",
            ));
        }
        let wall = if run < 4 { 500 } else { 5000 };
        events.push(event("Session", "model_run", start * 10, wall, "").replace(
            &format!("\"ts\" :{}", start * 10),
            &format!("\"ts\" :{start}"),
        ));
    }
    let done = plain(Kind::OrtProfile, &[("p.json", &profile(&events))]);
    done.says(NoteKind::Skipped, "the last 2 of 6 runs");
    assert!((done.number("engines.cpu.stages.run.fixed_s") - 0.0005).abs() < 1e-9);
}

pub(super) fn comma_before_a_bracket() {
    let events: Vec<String> = (0..3).flat_map(|run| nested_run(run * 2000)).collect();
    let text = profile(&events).replace(
        "\"args\" : {\"provider\"",
        "\"args\" : {\"input_type_shape\" : [{\"float\":[1,3]},] ,\"provider\"",
    );
    assert!(text.contains(",]"));
    let done = plain(Kind::OrtProfile, &[("p.json", &text)]);
    done.says(NoteKind::Warning, "commas before a closing bracket");
    assert!((done.number("engines.cpu.stages.run.fixed_s") - 0.001).abs() < 1e-9);
}

pub(super) fn gap_in_the_timeline() {
    let mut events = Vec::new();
    for run in 0..3_u64 {
        let start = run * 20_000;
        events.push(event(
            "Node",
            "conv_kernel_time",
            start + 100,
            1000,
            "QNNExecutionProvider",
        ));
        events.push(event(
            "Node",
            "scan_kernel_time",
            start + 9500,
            400,
            "CPUExecutionProvider",
        ));
        events.push(event("Session", "model_run", start, 10_000, ""));
    }
    let done = plain(Kind::OrtProfile, &[("p.json", &profile(&events))]);
    done.says(
        NoteKind::Warning,
        "QNNExecutionProvider 10 %, CPUExecutionProvider 4 %; 86 % outside",
    );
    assert!(
        (done.number("engines.npu.stages.run.fixed_s") - 0.01).abs() < 1e-9,
        "the wall, not the sum"
    );
}

/// To see it fail, compare each run with the one before it in the file.
#[test]
fn runs_that_overlap_are_told_by_line_in_any_order() {
    let run = |ts: u64| event("Session", "model_run", ts, 190, "");
    let at = |times: &[u64]| {
        let mut events = vec![event("Session", "session_initialization", 0, 9, "")];
        events.extend(times.iter().map(|ts| run(*ts)));
        plain(Kind::OrtProfile, &[("t.json", &profile(&events))])
    };
    // By start; one thread after the other.
    for (times, lines) in [
        (&[100, 1000, 1050, 1200, 1250][..], "4 and 5"),
        (&[100, 1000, 1200, 1050, 1250], "4 and 6"),
    ] {
        let done = at(times);
        let says = format!("the runs of lines {lines} overlap in time");
        done.says(NoteKind::Warning, &says);
        done.says(NoteKind::Warning, "runs in all do");
    }
    // Each after another, in whatever order.
    for times in [&[100, 1000, 1190, 1400][..], &[1400, 1000, 1200, 100]] {
        let said = at(times).said();
        assert!(!said.contains("overlap"), "{said}");
    }
}
