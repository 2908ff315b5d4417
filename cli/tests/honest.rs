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
    // A fit plays its rows the same way.
    let calibration = rows("").replace("outcome", "calibration");
    fs::write(folder.join("rows.toml"), calibration).expect("it can be written");
    let spec = "title = \"one number\"\nstarts = 1\n[[rows]]\nid = \"bench\"\n\n\
        [[parameters]]\nname = \"decode\"\nlow = 0.001\nhigh = 1.0\n\
        sets = [{ profile = \"toy/vlm\", paths = [\"engines.cpu.stages.decode.per_token_s\"] }]\n";
    fs::write(folder.join("fit.toml"), spec).expect("it can be written");
    let fit = ["fit", "fit.toml", "--measurements", "rows.toml"];
    let (code, said, error) = run(&folder, &fit);
    assert_eq!(code, Some(2), "{said}{error}");
    assert!(
        error.contains("`modes.state_transfer` has no effect"),
        "{error}"
    );
    let (code, said, error) = run(
        &folder,
        &["validate", "oracles", "--replications", "2", "keyed.toml"],
    );
    assert_eq!(code, Some(2), "{said}{error}");
    assert!(error.contains("has no effect"), "{error}");
}

/// To see it fail, write the load with the scenario's own seed.
#[test]
fn the_scenario_of_an_edge_runs_to_the_numbers_of_its_row() {
    let folder = failing("honest-edge");
    let plan = |slo: &str, further: &[&str]| {
        let plan = ["plan", "toy.toml", "--slo", slo, "--replications", "3"];
        let range = ["--to", "4", "--format", "json"];
        run(&folder, &[&plan[..], &range, further].concat())
    };
    let edge = ["--edge", "edge.toml"];
    let (code, said, error) = plan("ttft_p95 <= 6 s", &edge);
    assert_eq!(code, Some(0), "{said}{error}");
    let planned: serde_json::Value = serde_json::from_str(&said).expect("it is JSON");
    let planned = &planned["plans"][0];
    let probes = planned["probes"].as_array().expect("it is a list");
    let row = probes.iter().find(|row| row["load"] == planned["meets"]);
    let row = &row.expect("the edge has a row")["targets"][0];
    let (code, said, error) = run(&folder, &["run", "edge.toml", "--format", "json"]);
    assert_eq!(code, Some(0), "{said}{error}");
    let ran: serde_json::Value = serde_json::from_str(&said).expect("it is JSON");
    let p95 = &ran["ttft_s"]["p95"];
    assert_eq!(p95["value"], row["mean"], "{ran}");
    assert_eq!(p95["ci95"], row["half_width"], "{ran}");

    // Nothing is written where no load meets, over the scenario itself, or for several plans.
    fs::remove_file(folder.join("edge.toml")).expect("it was written");
    let (code, _, error) = plan("ttft_p95 <= 0.001 s", &edge);
    assert_eq!(code, Some(1), "{error}");
    assert!(!folder.join("edge.toml").exists());
    for (further, why) in [
        (&["--edge", "toy.toml"][..], "is the scenario itself"),
        (
            &["--edge", "edge.toml", "--socs", "toy,other"],
            "there are 2 plans",
        ),
        // To see it fail, take what stands between two commas for a name.
        (
            &["--socs", "toy,,other"],
            "`--socs toy,,other` has an empty name",
        ),
        (&["--socs", "toy, toy"], "`--socs` has `toy` twice"),
        (&["--models", "vlm,vlm"], "`--models` has `vlm` twice"),
        (&["--edge", "none/edge.toml"], "cannot be written"),
    ] {
        let (code, _, error) = plan("ttft_p95 <= 6 s", further);
        assert!(code != Some(0) && error.contains(why), "{error}");
    }
    // Of models the answer is named, in both forms.
    let by_model = [
        "plan",
        "toy.toml",
        "--slo",
        "ttft_p95 <= 6 s",
        "--replications",
        "3",
        "--max",
        "model",
        "--models",
        "vlm",
    ];
    let (_, text, error) = run(&folder, &by_model);
    assert!(
        text.starts_with("largest model that meets the targets: vlm ("),
        "{text}{error}"
    );
    let json = [&by_model[..], &["--format", "json"]].concat();
    let (_, text, error) = run(&folder, &json);
    let value: serde_json::Value = serde_json::from_str(&text).expect(&error);
    assert_eq!(value["largest_model"], "vlm");
    // Elsewhere the same keys name other profiles.
    let other = folder.join("other");
    let soc = "profiles/toy/soc.toml";
    let models = "profiles/models/vlm.toml";
    fs::create_dir_all(other.join("profiles/toy")).expect("it can be made");
    fs::create_dir_all(other.join("profiles/models")).expect("it can be made");
    for (file, times) in [
        (soc, "# another\n"),
        (models, ""),
        ("profiles/toy/vlm.toml", ""),
    ] {
        let text = fs::read_to_string(folder.join(file)).expect("it is there");
        fs::write(other.join(file), format!("{times}{text}")).expect("it can be written");
    }
    let (code, _, error) = plan("ttft_p95 <= 6 s", &["--edge", "other/edge.toml"]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("write it beside the scenario"), "{error}");
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

/// A profile found here plays the published rows of its SoC too, and the report names it.
#[test]
fn profiles_that_take_the_place_of_shipped_ones_are_named() {
    // Not below the project, whose own scenarios and profiles would be found first.
    let folder = tempfile::tempdir().expect("it can be made");
    let folder = folder.path();
    let rows = "[[measurement]]\nid = \"table9\"\nplatform = \"rk3588\"\nmodel = \"OneVision-7B\"\nconfig = \"cpu-only\"\n\
        metric = \"throughput\"\nunit = \"req/s\"\nvalue = 0.05\nrole = \"outcome\"\n";
    fs::write(folder.join("rows.toml"), rows).expect("it can be written");
    let validate = [
        "validate",
        "published",
        "--draws",
        "0",
        "--measurements",
        "rows.toml",
    ];
    let replaces = "take the place of those that come with crossinfer, for published rows too";
    let place = Path::new("profiles/rk3588");
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(place);
    let text = fs::read_to_string(shipped.join("onevision-7b-int4.toml")).expect("it is there");
    fs::create_dir_all(folder.join(place)).expect("it can be made");
    for (text, named) in [
        (text.clone(), false),
        (format!("# our board's\n{text}"), true),
    ] {
        let path = folder.join(place).join("onevision-7b-int4.toml");
        fs::write(path, text).expect("it can be written");
        let (code, said, error) = run(folder, &validate);
        assert_eq!(code, Some(0), "{said}{error}");
        assert_eq!(said.contains(replaces), named, "{said}");
        let file = "`profiles/rk3588/onevision-7b-int4.toml` (fitted: fit_rk3588_7b)";
        assert_eq!(said.contains(file), named, "{said}");
    }
}

/// To see it fail, ask for measurements whatever else is named.
#[test]
fn live_runs_are_reported_without_measurements_of_ones_own() {
    let folder = study::copy("honest-live-report", |text| text);
    let kept = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../validation/live/gpu-host/run-8/split-backlog.json"
    );
    let (code, said, error) = run(&folder, &["validate", "report", "--live", kept]);
    assert_eq!(code, Some(0), "{error}");
    for part in ["12 of 12 measured values", "0 differ", "median error 1.5 %"] {
        assert!(said.contains(part), "no `{part}` in {said}");
    }
    let (code, _, error) = run(&folder, &["validate", "report"]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("no measurements are named"), "{error}");
}

/// To see it fail, do not look for the end.
#[test]
fn a_trace_that_was_cut_is_not_identical() {
    let folder = study::copy("honest-cut-trace", |text| text);
    let once = [
        "run",
        "toy.toml",
        "--out",
        "out",
        "--trace",
        "--replications",
        "1",
    ];
    let (code, _, error) = run(&folder, &once);
    assert_eq!(code, Some(0), "{error}");
    let whole = fs::read_to_string(folder.join("out/trace.jsonl")).expect("it was written");
    let replay = |lines: usize| {
        let text: Vec<&str> = whole.lines().take(lines).collect();
        fs::write(folder.join("cut.jsonl"), text.join("\n") + "\n").expect("it can be written");
        run(&folder, &["replay", "cut.jsonl", "toy.toml"])
    };
    let (code, said, _) = replay(usize::MAX);
    assert!(code == Some(0) && said.starts_with("identical: ") && !said.contains("cut"));
    for lines in [1, 9] {
        let (code, said, _) = replay(lines);
        assert_eq!(code, Some(1), "{said}");
        let records = format!("identical: {} records", lines - 1);
        assert!(
            said.starts_with(&records) && said.contains("no `close`"),
            "{said}"
        );
    }
}

/// To see it fail, let every line be a fault.
#[test]
fn json_in_place_of_a_scenario_is_one_fault() {
    let folder = study::copy("honest-json", |text| text);
    let jsonl = "{\"trace\": 1}\n{\"t\": 2}\n";
    for text in [
        "\n{\n  \"kind\": \"a result\",\n  \"rows\": []\n}\n",
        "[1, 2]",
        jsonl,
    ] {
        fs::write(folder.join("result.json"), text).expect("it can be written");
        let (code, _, error) = run(&folder, &["check", "result.json"]);
        assert_eq!(code, Some(2), "{error}");
        assert!(
            error.contains("JSON, and what is read here is TOML"),
            "{error}"
        );
        assert_eq!(error.matches("error: ").count(), 1, "{error}");
    }
}
