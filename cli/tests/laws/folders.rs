//! What a folder of results holds, and what of a user's own in it is left alone.

use std::fs;
use std::path::Path;

use crate::{crossinfer, folder, stdout};

#[test]
fn a_folder_gets_everything_and_a_trace_replays() {
    let out = folder("everything");
    let path = out.to_str().expect("the path is text");
    let printed = stdout(&[
        "run", "toy.toml", "--format", "json", "--out", path, "--trace",
    ]);
    let read = |name: &str| fs::read_to_string(out.join(name)).expect("the file is there");
    assert_eq!(printed, read("summary.json"));
    let timeline: serde_json::Value =
        serde_json::from_str(&read("trace.perfetto.json")).expect("it is JSON");
    assert!(
        timeline["traceEvents"]
            .as_array()
            .is_some_and(|list| !list.is_empty())
    );
    assert!(read("timeline.svg").starts_with("<svg"));
    assert!(read("ttft.svg").starts_with("<svg") && read("completion.svg").starts_with("<svg"));
    let png = fs::read(out.join("timeline.png")).expect("the file is there");
    assert!(png.starts_with(b"\x89PNG"));
    let detail: serde_json::Value = serde_json::from_str(&read("detail.json")).expect("it is JSON");
    let command = detail["reproduce"]["command"].as_str();
    assert!(
        command.is_some_and(|command| command.starts_with("crossinfer run toy.toml --format json"))
    );
    let inputs = detail["reproduce"]["inputs"].as_array().map_or(0, Vec::len);
    assert_eq!(inputs, 4, "scenario, SoC, model and costs");
    assert!(read("requests.csv").lines().count() > 10);

    let trace = out.join("trace.jsonl");
    let trace = trace.to_str().expect("the path is text");
    assert!(stdout(&["replay", trace, "toy.toml"]).starts_with("identical: "));
    let other = crossinfer(&["replay", trace, "toy.toml", "--policy", "serial"]);
    assert_eq!(other.status.code(), Some(1));
    let told = String::from_utf8_lossy(&other.stdout);
    assert!(
        told.starts_with("different: record ") && !told.contains('{'),
        "{told}"
    );
    // A trace knows its policy.
    let serial = folder("serial");
    let serial = serial.to_str().expect("the path is text");
    stdout(&[
        "run", "toy.toml", "--policy", "serial", "--out", serial, "--trace",
    ]);
    let serial = format!("{serial}/trace.jsonl");
    let other = crossinfer(&["replay", &serial, "toy.toml"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&other.stderr).contains("give `--policy serial`"));
    assert!(
        stdout(&["replay", &serial, "toy.toml", "--policy", "serial"]).starts_with("identical")
    );

    // A report stays where it is; a second run replaces the first, and leaves no trace of it.
    let made = crossinfer(&["report", path]);
    assert!(made.status.success() && read("report.html").contains("<h2 id=\"answer\">"));
    stdout(&["run", "toy.toml", "--out", path]);
    assert!(!Path::new(trace).exists());
}

#[test]
fn a_folder_with_other_files_is_left_alone() {
    let out = folder("foreign");
    let path = out.to_str().expect("the path is text");
    fs::write(out.join("thesis.tex"), "precious").expect("a file can be written");
    fs::write(out.join("summary.json"), "old").expect("a file can be written");
    let refused = crossinfer(&["run", "toy.toml", "--out", path]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("`summary.json`"));
    assert_eq!(
        fs::read_to_string(out.join("summary.json")).ok().as_deref(),
        Some("old")
    );
    stdout(&["run", "toy.toml", "--out", path, "--force"]);
    assert_eq!(
        fs::read_to_string(out.join("thesis.tex")).ok().as_deref(),
        Some("precious")
    );
}

#[test]
fn the_timeline_for_perfetto_can_be_left_out() {
    let out = folder("without-perfetto");
    let path = out.to_str().expect("the path is text");
    let there = || out.join("trace.perfetto.json").exists();
    stdout(&["run", "toy.toml", "--out", path]);
    assert!(there());
    let requests = fs::read(out.join("requests.csv")).expect("it is there");
    // An earlier one goes, so that it is not taken for this run's; the rest is as before.
    stdout(&["run", "toy.toml", "--out", path, "--no-perfetto"]);
    assert!(!there());
    assert_eq!(
        fs::read(out.join("requests.csv")).expect("it is there"),
        requests
    );
    let marker = fs::read_to_string(out.join("crossinfer-out.json")).expect("it is there");
    assert!(!marker.contains("perfetto"), "{marker}");
}

#[test]
fn run_and_compare_share_a_folder() {
    let out = folder("shared");
    let path = out.to_str().expect("the path is text");
    stdout(&["run", "toy.toml", "--out", path, "--trace"]);
    stdout(&["compare", "toy.toml", "--policies", "serial", "--out", path]);
    for name in [
        "summary.json",
        "requests.csv",
        "trace.jsonl",
        "timeline.svg",
    ] {
        assert!(out.join(name).is_file(), "{name}");
    }
    stdout(&["run", "toy.toml", "--out", path]);
    assert!(out.join("compare.json").is_file());
    assert!(!out.join("trace.jsonl").exists());
}

#[test]
fn a_users_own_file_is_not_overwritten_for_its_name() {
    let out = folder("own");
    let path = out.to_str().expect("the path is text");
    let mine = out.join("requests.csv");
    let refused = |cause: &str| {
        fs::write(&mine, "mine").expect("a file can be written");
        let output = crossinfer(&["run", "toy.toml", "--out", path]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(cause), "{error}");
        assert_eq!(fs::read_to_string(&mine).ok().as_deref(), Some("mine"));
    };
    refused("holds `requests.csv`, which crossinfer did not write");
    stdout(&["run", "toy.toml", "--out", path, "--force"]);
    refused("has changed since crossinfer wrote it");
}
