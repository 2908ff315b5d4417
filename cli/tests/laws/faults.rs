//! What goes wrong, and whose fault it is: exit statuses and messages.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::{crossinfer, folder, stdout, study};

#[test]
fn a_trace_that_no_run_gives_is_refused_without_a_panic() {
    let out = folder("impossible");
    let path = out.to_str().expect("the path is text");
    stdout(&["run", "toy.toml", "--out", path, "--trace"]);
    let whole = fs::read_to_string(out.join("trace.jsonl")).expect("the trace is there");
    let header = whole.lines().next().expect("there is a header");
    for line in [
        r#"{"t":5,"in":{"finish":{"lane":0,"tokens":0,"bytes":0,"nanojoules":0}}}"#,
        r#"{"t":5,"in":{"finish":{"lane":200,"tokens":0,"bytes":0,"nanojoules":0}}}"#,
        r#"{"t":5,"in":{"frame":{"ticket":0,"stream":999,"index":0,"tokens":4}}}"#,
        r#"{"t":5,"in":{"nothing":{}}}"#,
        "garbage",
    ] {
        let trace = out.join("bad.jsonl");
        fs::write(&trace, format!("{header}\n{line}\n")).expect("a file can be written");
        let name = trace.to_str().expect("the path is text");
        let output = crossinfer(&["replay", name, "toy.toml"]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(
            matches!(output.status.code(), Some(0..=2)),
            "{line}: {:?} {error}",
            output.status
        );
        assert!(!error.contains("panicked"), "{line}: {error}");
    }
}

#[test]
fn a_closed_pipe_changes_no_exit_status() {
    let closed = |args: &[&str]| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_crossinfer"))
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command runs");
        drop(child.stdout.take());
        child.wait_with_output().expect("it ends")
    };
    let output = closed(&["schema", "scenario"]);
    assert!(output.status.success(), "{:?}", output.status);
    assert!(output.stderr.is_empty());
    // The good file is printed first, and the other's faults still count.
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = |name: &str| here.join(name).display().to_string();
    let good = file("../scenarios/two-cameras-rk3588.toml");
    let output = closed(&["check", &good, &file("tests/cmd/two-faults.toml")]);
    assert_eq!(output.status.code(), Some(2));
}

/// Where the disk has no room, on systems that have a place to try it.
#[test]
fn a_result_that_cannot_be_written_is_no_fault_of_the_input() {
    let Ok(full) = fs::File::create("/dev/full") else {
        return;
    };
    let output = Command::new(env!("CARGO_BIN_EXE_crossinfer"))
        .args(["schema", "scenario"])
        .stdout(full)
        .stderr(Stdio::piped())
        .spawn()
        .and_then(std::process::Child::wait_with_output)
        .expect("the command runs");
    let says = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{says}");
    assert!(
        says.contains("`standard output` cannot be written"),
        "{says}"
    );
}

#[test]
fn a_policy_that_cannot_serve_is_the_command_lines_fault() {
    let out = study::copy("cannot", |text| text);
    let text = |path: &str| fs::read_to_string(out.join(path)).expect("the file is there");
    // The NPU cannot decode.
    let costs = text("profiles/toy/vlm.toml");
    let (before, npu) = costs.split_once("[engines.npu").expect("the NPU has costs");
    let npu: Vec<&str> = npu
        .lines()
        .filter(|line| !line.starts_with("decode"))
        .collect();
    let unable = "[engines.npu.unsupported]\ndecode = \"it has no operators for it\"\n";
    let costs = format!("{before}[engines.npu{}\n{unable}", npu.join("\n"));
    fs::write(out.join("profiles/toy/vlm.toml"), costs).expect("a file can be written");
    let scenario = out.join("toy.toml");
    let scenario = scenario.to_str().expect("the path is text");
    for arguments in [
        ["run", scenario, "--policy", "single:npu"],
        ["compare", scenario, "--policies", "single:npu"],
    ] {
        let output = crossinfer(&arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(
            error.contains(&format!("`{} single:npu`", arguments[2])),
            "{error}"
        );
        assert!(error.contains("`single:cpu` can serve"), "{error}");
        assert!(!error.contains("toy.toml:1"), "{error}");
    }
}

#[test]
fn numbers_below_their_range_say_what_would_be_right() {
    for (option, least) in [("--replications", 1), ("--seed", 0), ("--jobs", 1)] {
        let output = crossinfer(&["run", "toy.toml", option, "-1"]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(
            error.contains(&format!("give a whole number from {least} to ")),
            "{error}"
        );
    }
}

#[test]
fn a_file_that_is_not_text_says_where() {
    let path = folder("bytes").join("s.toml");
    fs::write(&path, b"title = 'x'\nsoc = '\xe9'\n").expect("a file can be written");
    let output = crossinfer(&["run", path.to_str().expect("the path is text")]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        error.contains("line 2 has byte 0xe9 at offset 19"),
        "{error}"
    );
}
