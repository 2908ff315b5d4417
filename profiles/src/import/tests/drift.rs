//! Repeats that drift are an interval in seconds that holds every one of them.

use std::fmt::Write as _;

use super::super::{Kind, NoteKind, Options};
use super::run;

/// A profile of ONNX Runtime whose runs take these times, µs, after one of 5000 µs that loads it.
fn profile(micros: &[u32]) -> String {
    let mut text = String::from(
        r#"[{"cat":"Session","name":"session_initialization","ts":0,"dur":9,"args":{}}"#,
    );
    for (index, dur) in std::iter::once(&5000).chain(micros).enumerate() {
        let ts = 100_000 + index * 20_000;
        _ = write!(
            text,
            r#",{{"cat":"Node","name":"c","ts":{ts},"dur":{},"args":{{"provider":"CPUExecutionProvider"}}}},{{"cat":"Session","name":"model_run","ts":{ts},"dur":{dur},"args":{{}}}}"#,
            dur - 10
        );
    }
    text + "]"
}

/// Rows of one test at these rates, below each other.
fn table(rates: &[f64]) -> String {
    let mut text = String::from(
        "| model | size | params | backend | threads | test | t/s |\n| --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for rate in rates {
        _ = writeln!(
            text,
            "| toy 1B Q4_0 | 1.00 GiB | 1.00 B | CPU | 4 | pp512 | {rate:.2} ± 0.00 |"
        );
    }
    text
}

#[test]
fn a_profile_s_drift_is_in_seconds_and_holds_every_run() {
    let micros: Vec<u32> = (0..20).map(|run| 400 + 30 * run).collect();
    let done = run(
        Kind::OrtProfile,
        &Options::default(),
        &[("t.json", &profile(&micros))],
    );
    let of = |key: &str| done.number(&format!("engines.cpu.stages.run.fixed_s{key}"));
    assert_eq!(of(""), 6.85e-4);
    assert_eq!(of(".low"), 4e-4);
    assert_eq!(of(".high"), 9.7e-4);
    done.says(
        NoteKind::Trend,
        "`run`: times rise over 20 repeats: a mean of 4.75e-4 s in the first third, of 8.95e-4 s in the last (+88 %): throttling; this is no noise, so all of it, 4e-4 to 9.7e-4 s,",
    );
    // Without a drift there is a spread, and no interval.
    let even: Vec<u32> = (0..20).map(|run| 400 + 30 * (run % 2)).collect();
    let done = run(
        Kind::OrtProfile,
        &Options::default(),
        &[("t.json", &profile(&even))],
    );
    assert!(!done.notes.any(NoteKind::Trend), "{}", done.said());
    assert!(!done.file().contains("low ="), "{}", done.file());
}

#[test]
fn a_drift_holds_both_ends_of_rows() {
    let rates: Vec<f64> = (0..12).map(|row| 51.2 - 2.0 * f64::from(row)).collect();
    let done = run(
        Kind::LlamaBench,
        &Options::default(),
        &[("t.md", &table(&rates))],
    );
    done.says(NoteKind::Trend, "over 12 repeats");
    let of =
        |key: &str| 512.0 * done.number(&format!("engines.cpu.stages.ingest.per_token_s{key}"));
    let close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-5;
    assert!(close(of(".low"), 512.0 / 51.2), "{}", done.file());
    assert!(close(of(".high"), 512.0 / 29.2), "{}", done.file());
}
