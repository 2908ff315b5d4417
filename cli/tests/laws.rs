//! What holds whatever the numbers are.

mod study;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn crossinfer(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_crossinfer"))
        .args(arguments)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cmd/study.in"))
        .env("NO_COLOR", "1")
        .output()
        .expect("the command runs")
}

fn stdout(arguments: &[&str]) -> String {
    let output = crossinfer(arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).expect("output is text")
}

/// An empty folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a folder can be made");
    path
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let run = |command: &str, jobs: &str| {
        stdout(&[
            command,
            "toy.toml",
            "--format",
            "json",
            "--replications",
            "8",
            "--jobs",
            jobs,
        ])
    };
    for command in ["run", "compare"] {
        assert_eq!(run(command, "1"), run(command, "4"));
    }
}

#[test]
fn fitted_profiles_are_written_once_and_can_be_used() {
    let out = study::copy("fitted", |text| text);
    for name in ["board.toml", "pair.toml", "board-fit.toml"] {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cmd/study.in");
        fs::copy(from.join(name), out.join(name)).expect("a file can be copied");
    }
    let text = |name: &str| out.join(name).to_string_lossy().into_owned();
    let (spec, board) = (text("board-fit.toml"), text("board.toml"));
    let before = error(&board);
    let profiles = text("profiles");
    let fresh = text("fresh");
    // A fitted number must say where it was measured.
    let lacking = crossinfer(&["fit", &spec, "--measurements", &board, "--out", &fresh]);
    let says = String::from_utf8_lossy(&lacking.stderr);
    assert_eq!(lacking.status.code(), Some(2), "{says}");
    assert!(says.contains("lacks `measured_tokens`"), "{says}");
    let costs = out.join("profiles/toy/vlm.toml");
    let said = fs::read_to_string(&costs)
        .expect("the file is there")
        .replace(
            "query_prefill = { per_token_s",
            "query_prefill = { measured_tokens = [1, 64], per_token_s",
        );
    fs::write(&costs, said).expect("a file can be written");
    stdout(&["fit", &spec, "--measurements", &board, "--out", &fresh]);
    let arguments = ["fit", &spec, "--measurements", &board, "--out", &profiles];
    let refused = crossinfer(&arguments);
    let says = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{says}");
    assert!(says.contains("is there already"), "{says}");
    let forced = [&arguments[..], &["--force"]].concat();
    stdout(&forced);
    // The fit is where the scenarios find it, so the rows that it was made for come out.
    let after = error(&board);
    assert!(
        after < 1.0 && before > 5.0,
        "{before} % before, {after} % after"
    );
    stdout(&["check", &text("pair.toml"), &text("profiles/toy/vlm.toml")]);
}

/// Largest error of the calibration rows.
fn error(board: &str) -> f64 {
    let text = stdout(&[
        "validate",
        "published",
        "--measurements",
        board,
        "--format",
        "json",
    ]);
    let document: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    let worst = &document["errors"]["calibration"]["per_cent"]["all"]["worst"];
    worst.as_f64().expect("there is an error")
}

#[test]
fn results_are_those_of_the_seed() {
    let run = |seed: &str| stdout(&["run", "toy.toml", "--format", "json", "--seed", seed]);
    assert_eq!(run("1"), run("1"));
    let seedless = |text: String| text.replace("\"seed\": 2", "\"seed\": 1");
    assert_ne!(run("1"), seedless(run("2")));
}

#[test]
fn a_policy_has_the_same_numbers_alone_and_compared() {
    let document = |arguments: &[&str]| -> serde_json::Value {
        serde_json::from_str(&stdout(arguments)).expect("it is JSON")
    };
    let alone = document(&["run", "toy.toml", "--format", "json", "--policy", "serial"]);
    let compared = document(&[
        "compare",
        "toy.toml",
        "--format",
        "json",
        "--policies",
        "naive,serial",
    ]);
    let serial = &compared["policies"][1];
    assert_eq!(serial["policy"], "serial");
    for key in ["throughput_rps", "ttft_s", "completion_s", "busy", "counts"] {
        assert_eq!(serial[key], alone[key], "{key}");
    }
    let difference = serial["ttft_s"]["mean"]["value"].as_f64().expect("a time")
        - compared["policies"][0]["ttft_s"]["mean"]["value"]
            .as_f64()
            .expect("a time");
    let paired = serial["difference"]["ttft_s.mean"]["value"].as_f64();
    assert!((paired.expect("a difference") - difference).abs() < 1e-9);
}

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
fn schemas_are_json() {
    for kind in ["scenario", "soc", "model", "costs", "measurements", "fit"] {
        let text = stdout(&["schema", kind]);
        let schema: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        assert!(schema["properties"].is_object(), "{kind}");
    }
}

#[test]
fn every_built_in_profile_is_in_order() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../profiles");
    let mut files = Vec::new();
    for folder in fs::read_dir(root).expect("there are profiles").flatten() {
        for file in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            // The crate's code lies beside the profiles.
            if file.path().extension().is_some_and(|end| end == "toml") {
                files.push(file.path().to_string_lossy().into_owned());
            }
        }
    }
    let mut arguments = vec!["check"];
    arguments.extend(files.iter().map(String::as_str));
    stdout(&arguments);
}

#[test]
fn a_path_through_other_folders_shows_no_absolute_path() {
    for path in ["../study.in/toy.toml", "profiles/../toy.toml"] {
        let text = stdout(&["run", path, "--format", "json", "--replications", "1"]);
        assert!(!text.contains(env!("CARGO_MANIFEST_DIR")), "{path}");
    }
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

#[test]
fn what_is_not_random_runs_once_and_says_so() {
    let path = study::copy("fixed", |text| text).join("toy.toml");
    let text = fs::read_to_string(&path).expect("the file is there");
    let text = text
        .replace(
            "poisson = { rate_hz = 0.2 }",
            "periodic = { period_s = 5.0 }",
        )
        .replace("{ uniform = { low = 8, high = 48 } }", "28");
    fs::write(&path, text).expect("a file can be written");
    let name = path.to_str().expect("the path is text");
    let printed = [["run", "3"], ["compare", "3"]].map(|[command, count]| {
        crossinfer(&[command, name, "--replications", count, "--seed", "5"])
    });
    for output in printed {
        let text = String::from_utf8_lossy(&output.stdout).replace('\n', " ");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(output.status.success(), "{text}");
        assert!(!text.contains('±'), "{text}");
        assert!(text.contains("1 replication"), "{text}");
        assert!(text.contains("`--seed` has no effect"), "{text}");
        assert!(text.contains("1 replication is enough"), "{text}");
    }
}

#[test]
fn imports_come_from_standard_input_and_are_accepted_by_check() {
    let file = folder("import").join("costs.toml");
    let path = file.to_string_lossy().into_owned();
    let post = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cmd/import.in/post.md");
    let text = fs::read(&post).expect("the file is there");
    let mut child = Command::new(env!("CARGO_BIN_EXE_crossinfer"))
        .args([
            "import",
            "llama-bench",
            "-",
            "--only",
            "threads=4",
            "--out",
            &path,
        ])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(&text).expect("it is read");
    drop(stdin);
    assert!(child.wait().expect("it ends").success());
    assert!(stdout(&["check", &path]).contains("ok, costs"));
    // What is there is not written over.
    let post = post.to_string_lossy();
    let again = crossinfer(&[
        "import",
        "llama-bench",
        &post,
        "--only",
        "threads=4",
        "--out",
        &path,
    ]);
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("--force"));
}

/// A fit that comes with crossinfer, from a folder that holds nothing of it; the measured values are made
/// up.
#[test]
fn a_shipped_fit_runs_from_any_folder() {
    let here = folder("far-away");
    let mut text = String::new();
    for (lane, rps, ttft) in [("cpu", 0.05, 40.0), ("gpu", 0.04, 50.0)] {
        for (metric, unit, value) in [("throughput", "req/s", rps), ("ttft_mean", "s", ttft)] {
            _ = write!(
                text,
                "[[measurement]]\nid = 'table9'\nplatform = 'rk3588'\nmodel = 'OneVision-7B'\nconfig = '{lane}-only'\n\
                 metric = '{metric}'\nunit = '{unit}'\nvalue = {value}\nrole = 'calibration'\n"
            );
        }
    }
    fs::write(here.join("made-up.toml"), text).expect("a file can be written");
    let fit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../validation/fits/rk3588-7b.toml");
    let output = Command::new(env!("CARGO_BIN_EXE_crossinfer"))
        .arg("fit")
        .arg(fit)
        .args(["--measurements", "made-up.toml", "--out", "fitted"])
        .current_dir(&here)
        .output()
        .expect("the command runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    assert!(
        here.join("fitted/rk3588/onevision-7b-int4.toml").is_file(),
        "{error}"
    );
}

#[test]
fn validation_is_written_with_its_plots() {
    let out = folder("validation");
    let write = |name: &str| {
        let path = out.join(name);
        let path = path.to_str().expect("the path is text");
        let measured = ["--measurements", "board.toml", "--draws", "24"];
        let arguments = [&["validate", "published", "--out", path][..], &measured].concat();
        let printed = stdout(&arguments);
        let written = fs::read_to_string(path).expect("the file is there");
        (printed, written)
    };
    let (printed, written) = write("board.md");
    // Every number of the file's tables is on the screen too, if in narrower ones.
    let shown: BTreeSet<&str> = printed.split_whitespace().collect();
    let rows = written
        .lines()
        .filter(|line| line.starts_with("| ") && !line.contains("---"));
    let words = rows.flat_map(|row| row.split([' ', '|']));
    let numbers: Vec<&str> = words
        .filter(|word| word.contains(|c: char| c.is_ascii_digit()))
        .collect();
    assert!(numbers.len() > 20, "{written}");
    let lost = numbers.iter().find(|number| !shown.contains(*number));
    assert_eq!(lost, None, "{printed}");
    assert!(written.contains("](<board-time.svg>)"), "{written}");
    let picture = fs::read_to_string(out.join("board-time.svg")).expect("it is written");
    assert!(picture.starts_with("<svg"), "{picture}");
    assert!(picture.contains("measured time, s"), "{picture}");
    let (again, page) = write("board.html");
    assert_eq!(printed, again);
    assert!(page.contains("<svg") && page.contains("<table>"), "{page}");
}

/// What engines keep of contexts is a part of all KV, over time too. To see it fail, count frames that have left a window.
#[test]
fn contexts_of_the_starters_never_take_more_than_their_peak() {
    let starters = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let home = folder("starters");
    let read = |path: PathBuf| -> serde_json::Value {
        let text = fs::read_to_string(path).expect("it is written");
        serde_json::from_str(&text).expect("it is JSON")
    };
    let mut seen = 0;
    for entry in fs::read_dir(starters).expect("it is a folder") {
        let path = entry.expect("it can be read").path();
        if path.extension().is_none_or(|end| end != "toml") {
            continue;
        }
        let name = path.file_stem().expect("it has a name");
        let out = home.join(name);
        let [file, into] = [&path, &out].map(|path| path.to_str().expect("it is text"));
        stdout(&["run", file, "--replications", "1", "--out", into]);
        let peak = read(out.join("summary.json"))["peak_kv_bytes"]["value"].as_f64();
        let detail = read(out.join("detail.json"));
        let bins = detail["runs"][0]["series"]["context_bytes"]["mean"].as_array();
        let bins = bins.into_iter().flatten();
        let most = bins
            .filter_map(serde_json::Value::as_f64)
            .fold(0.0, f64::max);
        assert!(
            peak.is_some_and(|peak| 0.0 < most && most <= peak),
            "{file}: {most} of {peak:?}"
        );
        seen += 1;
    }
    assert!(seen >= 5, "{seen}");
}
