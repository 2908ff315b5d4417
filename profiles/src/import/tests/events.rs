//! Events of ONNX Runtime's profile that tell no time.

use super::super::{Kind, NoteKind, Options};
use super::run;
use super::samples::ORT;

fn import(text: &str) -> super::Done {
    run(Kind::OrtProfile, &Options::default(), &[("p.json", text)])
}

/// Runs by their `dur`, each with a node.
fn profile(durs: &[&str]) -> String {
    let mut events = vec![
        r#"{"cat":"Session","name":"session_initialization","ts":0,"dur":9,"args":{}}"#.to_owned(),
    ];
    for (index, dur) in durs.iter().enumerate() {
        let ts = 1000 * (index + 1);
        events.push(format!(
            r#"{{"cat":"Node","name":"n","ts":{ts},"dur":0,"tid":1,"args":{{"provider":"CPUExecutionProvider"}}}}"#
        ));
        events.push(format!(
            r#"{{"cat":"Session","name":"model_run","ts":{ts}{dur},"args":{{}}}}"#
        ));
    }
    format!("[\n{}\n]\n", events.join(",\n"))
}

#[test]
fn a_run_without_a_time_is_left_out_and_told() {
    for (dur, says) in [
        (r#","dur":0"#, "`model_run`: `dur` is 0: it took no time"),
        (r#","dur":-5"#, "`model_run`: `dur` is -5, below 0"),
        ("", "`model_run`: `dur` is missing"),
        (r#","dur":null"#, "`model_run`: `dur` is missing"),
        (
            r#","dur":"5 us""#,
            "`model_run`: `dur` is `\"5 us\"`, no number",
        ),
    ] {
        let text = profile(&[r#","dur":900"#, r#","dur":500"#, dur, r#","dur":500"#]);
        let done = import(&text);
        done.says(NoteKind::Skipped, &format!("p.json:8: {says}: left out"));
        done.says(NoteKind::Read, "2 warm runs");
        assert_eq!(done.number("engines.engine.stages.run.fixed_s"), 0.0005);
        // None of them is a cost.
        let done = import(&profile(&[dur, dur, dur]));
        assert!(done.files.is_empty(), "{}", done.said());
        done.says(
            NoteKind::Skipped,
            &format!("p.json:4: {says}; 3 runs without a time in all: left out"),
        );
        done.says(NoteKind::Refused, "none of 3 runs tells how long it took");
    }
    let text = profile(&[r#","dur":900"#, r#","dur":500"#])
        .replace(r#""ts":2000,"dur":500"#, r#""dur":500"#);
    import(&text).says(
        NoteKind::Skipped,
        "p.json:6: `model_run`: `ts` is missing: left out",
    );
}

#[test]
fn a_node_below_the_clock_is_a_node_and_one_without_a_time_is_told() {
    let done = import(&profile(&[r#","dur":900"#, r#","dur":500"#]));
    assert_eq!(done.number("engines.engine.stages.run.fixed_s"), 0.0005);
    assert!(!done.said().contains("left out"), "{}", done.said());
    let text = ORT.replacen("\"dur\" :400", "\"dur\" :-400", 1);
    let done = import(&text);
    done.says(
        NoteKind::Skipped,
        "p.json:3: `a_kernel_time`: `dur` is -400, below 0: left out",
    );
    let plain = import(ORT).number("engines.cpu.stages.run.fixed_s");
    assert_eq!(done.number("engines.cpu.stages.run.fixed_s"), plain);
}

#[test]
fn nodes_of_a_run_that_did_not_end_are_told() {
    let text = profile(&[r#","dur":900"#, r#","dur":500"#]);
    let more = r#",{"cat":"Node","name":"n","ts":9000,"dur":3,"tid":1,"args":{}}]"#;
    let done = import(&text.replace("\n]", more));
    done.says(NoteKind::Skipped, "p.json: a node after the last run");
    assert_eq!(done.number("engines.engine.stages.run.fixed_s"), 0.0005);
    assert!(!import(&text).said().contains("after the last run"));
}
