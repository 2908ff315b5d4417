//! What holds whatever the numbers are.

mod faults;
mod folders;
#[path = "../study/mod.rs"]
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
