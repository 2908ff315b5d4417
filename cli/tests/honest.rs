//! What a command could not do, it says: a script that fails, points that make no scenario, a limit never kept.

mod study;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A copy of the study, in a folder of this test's own, whose policy is a script that fails.
fn failing(name: &str) -> PathBuf {
    let out = study::copy(name, |text| text);
    let toy = fs::read_to_string(out.join("toy.toml")).expect("it is there");
    let script = "fn score(request, candidate, view) { throw \"no score for this load\" }\n";
    fs::write(out.join("fails.rhai"), script).expect("it can be written");
    let scripted = format!("policy = {{ script = \"fails.rhai\" }}\n{toy}");
    fs::write(out.join("script.toml"), scripted).expect("it can be written");
    out
}

fn run(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(env!("CARGO_BIN_EXE_crossinfer"))
        .args(arguments)
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .output()
        .expect("the command runs");
    // Lines are broken where a terminal ends.
    let text = |bytes| {
        let text = String::from_utf8(bytes).expect("output is text");
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn a_script_that_fails_ends_a_plan_and_is_no_load_that_misses() {
    let folder = failing("honest-plan");
    for further in [&["--max", "streams"][..], &["--need"]] {
        let plan = ["plan", "script.toml", "--slo", "ttft_p95 <= 4s"];
        let few = ["--replications", "2"];
        let (code, said, error) = run(&folder, &[&plan[..], &few, further].concat());
        assert_eq!(code, Some(2), "{further:?}: {said}{error}");
        assert!(said.is_empty(), "{said}");
        assert!(error.contains("no score for this load"), "{error}");
    }
}

#[test]
fn tuning_counts_points_that_are_no_scenario_and_tells_a_limit_that_none_keeps() {
    let folder = failing("honest-tune");
    let vary = ["--vary", "run.warm_up_s=20..180/5", "--vary", "seed=1,2"];
    let few = ["--evaluations", "20", "--replications", "2"];
    let tune = ["tune", "toy.toml", "--objective", "ttft:ttft<=0.001"];
    let (code, said, error) = run(&folder, &[&tune[..], &vary, &few].concat());
    assert_eq!(code, Some(1), "{said}{error}");
    assert!(
        said.contains("no point that was tried keeps the limit"),
        "{said}"
    );
    assert!(
        error.contains("points are no valid scenario, the first: "),
        "{error}"
    );
    assert!(
        error.contains("the warm-up leaves nothing of the run"),
        "{error}"
    );
}

#[test]
fn without_a_steady_part_the_warm_up_of_the_scenario_stands() {
    let folder = failing("honest-warm-up");
    // 48 queries at most: too few for MSER-5.
    let compare = ["compare", "toy.toml", "--policies", "serial,naive"];
    let short = [
        "--warm-up",
        "mser",
        "--replications",
        "2",
        "--format",
        "json",
    ];
    let toy = fs::read_to_string(folder.join("toy.toml")).expect("it is there");
    let toy = toy.replace("horizon_s = 120.0", "horizon_s = 60.0");
    fs::write(folder.join("toy.toml"), toy).expect("it can be written");
    let (code, said, error) = run(&folder, &[&compare[..], &short].concat());
    assert_eq!(code, Some(0), "{error}");
    assert!(
        said.contains(": 10.000 s, the latest of all policies"),
        "{said}"
    );
    assert!(
        said.contains("the scenario's own warm-up stands, 10.000 s"),
        "{said}"
    );
}

/// A key of a scenario that nothing reads is refused wherever the scenario is played.
#[test]
fn a_key_without_effect_is_no_part_of_a_validation() {
    let folder = failing("honest-unread");
    let toy = fs::read_to_string(folder.join("toy.toml")).expect("it is there");
    let keyed = toy.replace(
        "[run]",
        "policy = \"naive\"\n[modes]\nstate_transfer = \"import\"\n\n[run]",
    );
    fs::write(folder.join("keyed.toml"), keyed).expect("it can be written");
    let rows = |policy: &str| {
        format!(
            "[[measurement]]\nid = \"bench\"\nplatform = \"toy\"\nconfig = \"both\"\nmetric = \"throughput\"\n\
             unit = \"req/s\"\nvalue = 0.4\nrole = \"outcome\"\nscenario = \"keyed.toml\"\n{policy}"
        )
    };
    let validate = [
        "validate",
        "published",
        "--draws",
        "0",
        "--measurements",
        "rows.toml",
    ];
    for (policy, read) in [
        ("", false),
        ("policy = \"naive\"\n", false),
        ("policy = \"serial\"\n", true),
    ] {
        fs::write(folder.join("rows.toml"), rows(policy)).expect("it can be written");
        let (code, said, error) = run(&folder, &validate);
        assert_eq!(
            code,
            Some(if read { 0 } else { 2 }),
            "{policy}: {said}{error}"
        );
        assert_eq!(
            error.contains("`modes.state_transfer` has no effect"),
            !read,
            "{error}"
        );
    }
    let (code, said, error) = run(
        &folder,
        &["validate", "oracles", "--replications", "2", "keyed.toml"],
    );
    assert_eq!(code, Some(2), "{said}{error}");
    assert!(error.contains("has no effect"), "{error}");
}

/// To see it fail, read whatever is named to its end, and drop names without letters.
#[test]
fn what_never_ends_and_names_without_letters_are_refused() {
    let folder = study::copy("honest-names", |text| text);
    #[cfg(unix)]
    {
        let (code, said, error) = run(&folder, &["check", "/dev/zero"]);
        assert_eq!(code, Some(2), "{said}");
        assert!(error.contains("gives more than 256 MiB"), "{error}");
    }
    for list in ["serial,,naive", "serial,", ",serial"] {
        let (code, said, error) = run(&folder, &["compare", "toy.toml", "--policies", list]);
        assert_eq!(code, Some(2), "{list}: {said}");
        assert!(error.contains("a name without letters"), "{list}: {error}");
    }
}
