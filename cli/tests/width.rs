//! Nothing that is printed is wider than 80 columns, whatever names are like; paths and the snippets of errors
//! stay whole.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod study;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use screen::{WIDTH, width};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The files of a folder that are TOML, in the order of their names.
fn files(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).unwrap();
    let mut list: Vec<String> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "toml"))
        .map(|path| format!("{folder}/{}", path.file_name().unwrap().to_str().unwrap()))
        .collect();
    list.sort();
    list
}

/// What a command prints, on both streams, no line of it too wide.
fn narrow(folder: &Path, arguments: &[&str]) -> String {
    let run = Command::new(env!("CARGO_BIN_EXE_crossinfer"))
        .args(arguments)
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .env_remove("CROSSINFER_MEASUREMENTS")
        .output()
        .unwrap();
    let text = String::from_utf8(run.stdout).unwrap() + &String::from_utf8(run.stderr).unwrap();
    assert!(
        matches!(run.status.code(), Some(0 | 1)),
        "{arguments:?}: {text}"
    );
    for line in text.lines() {
        // A path is not broken: it stands alone behind its indent.
        let path = line.trim_start();
        let path = path.contains('/') && !path.contains(' ');
        assert!(
            width(line) <= WIDTH || path,
            "{arguments:?}:\n{line}\n\n{text}"
        );
    }
    assert!(text.lines().count() > 1, "{arguments:?} prints nothing");
    text
}

#[test]
fn shipped_scenarios_fit() {
    let root = root();
    let few = ["--replications", "2", "--jobs", "1"];
    let scenarios = files("scenarios");
    assert!(scenarios.len() >= 5);
    for scenario in &scenarios {
        for further in [
            &["run", "--sketch"][..],
            &["compare", "--quantiles", "--policies", "all"],
        ] {
            narrow(&root, &[further, &[scenario], &few].concat());
        }
        narrow(&root, &["explain", scenario, "--request", "2"]);
        narrow(&root, &["check", scenario]);
    }
    narrow(&root, &["check", "profiles"]);
    narrow(&root, &["devices"]);
}

#[test]
fn shipped_plans_fit() {
    let few = ["--replications", "2", "--jobs", "1"];
    for plan in files("plans") {
        narrow(&root(), &[&["plan", &plan][..], &few].concat());
    }
}

/// The study with names that no terminal has room for.
fn long() -> PathBuf {
    let engine = format!("cpu-{}", "of-a-board-of-ours-".repeat(5));
    let out = study::copy("width", |text| {
        // Every use of the engine `cpu`; the table of the host's cores is not one.
        text.replace("engines.cpu", &format!("engines.{engine}"))
            .replace("lanes.cpu", &format!("lanes.{engine}"))
            .replace("engine = \"cpu\"", &format!("engine = \"{engine}\""))
            .replace(
                "\"front\"",
                &format!("\"front-{}door\"", "of-the-house-".repeat(4)),
            )
            .replace("two cameras", &"深度学习 ".repeat(12))
    });
    fs::write(
        out.join("a_policy_whose_file_has_a_name_that_is_longer_than_any_terminal_is_wide_by_a_lot.rhai"),
        "fn score(request, candidate, view) { candidate.wait_ns + candidate.prepare_ns + candidate.alone_ns }\n",
    )
    .unwrap();
    out
}

#[test]
fn long_names_fit() {
    let folder = long();
    let engine = format!("cpu-{}", "of-a-board-of-ours-".repeat(5));
    let script = "script:a_policy_whose_file_has_a_name_that_is_longer_than_any_terminal_is_wide_by_a_lot.rhai";
    let few = ["--replications", "2", "--jobs", "1"];
    let policies = format!("state_aware,single:{engine},{script}");
    let commands: [&[&str]; 7] = [
        &["run", "toy.toml", "--sketch"],
        &[
            "compare",
            "toy.toml",
            "--policies",
            &policies,
            "--quantiles",
            "--robustness",
        ],
        &["compare", "toy.toml", "--policies", &policies, "--bounds"],
        &[
            "plan",
            "toy.toml",
            "--slo",
            "ttft_p95 <= 4 s",
            "--slo",
            "memory <= 6 GB",
            "--slo",
            "completion_p99 <= 60 s",
        ],
        &["plan", "toy.toml", "--slo", "ttft_p95 <= 4 s", "--need"],
        &[
            "sweep",
            "toy.toml",
            "--vary",
            "policy=serial,naive",
            "--out",
            "a-folder/whose-name-is-long-too/out",
        ],
        &[
            "tune",
            "toy.toml",
            "--objective",
            "ttft",
            "--vary",
            "run.warm_up_s=1..9",
            "--evaluations",
            "10",
        ],
    ];
    for command in commands {
        let text = narrow(&folder, &[command, &few].concat());
        // Nothing of a name is lost.
        let whole: String = text.split_whitespace().collect();
        if command[0] == "run" {
            assert!(whole.contains(&engine), "{text}");
        }
    }
    narrow(&folder, &["check", "toy.toml"]);
    narrow(&folder, &["explain", "toy.toml", "--request", "3"]);
}

#[test]
fn imports_and_validations_fit() {
    let cmd = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cmd");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("width-import");
    _ = fs::remove_dir_all(&out);
    let to = out.to_str().unwrap();
    let import = cmd.join("import.in");
    narrow(
        &import,
        &["import", "llama-bench", "post.md", "crash.log", "--out", to],
    );
    let study = cmd.join("study.in");
    narrow(
        &study,
        &["validate", "published", "--measurements", "board.toml"],
    );
    narrow(
        &study,
        &["fit", "board-fit.toml", "--measurements", "board.toml"],
    );
    narrow(
        &study,
        &["validate", "oracles", "toy.toml", "--replications", "2"],
    );
}
