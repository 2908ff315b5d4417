//! `calibrate` and `validate live` on real engines and models: that they run, are right, keep what they
//! measured, and go on where they were. How long things take is no test.
#![cfg(feature = "live")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SCENARIO: &str = r#"
title = "Little, for a test"
soc = "x86-host"
model = "smollm2-135m-q4"
run.horizon_s = 4
policy.naive = {}

[[streams]]
name = "door"
frames = { clock = { periodic = { rate_hz = 0.5 } }, count = 2 }
[streams.queries]
arrivals = { periodic = { period_s = 1 } }
start_s = 0.5
count = 3
prompt_tokens = 8
output_tokens = 4
"#;

/// A folder with the scenario and the profiles that it names, whose lanes are pinned to no core: the
/// machine may have one.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../profiles");
    for file in [
        "x86-host/soc.toml",
        "x86-host/smollm2-135m-q4.toml",
        "models/smollm2-135m-q4.toml",
    ] {
        let to = folder.join("profiles").join(file);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        let text = fs::read_to_string(from.join(file)).unwrap();
        let kept = text.lines().filter(|line| !line.starts_with("pin_cores"));
        fs::write(to, kept.collect::<Vec<_>>().join("\n")).unwrap();
    }
    fs::write(folder.join("little.toml"), SCENARIO).unwrap();
    folder
}

fn run(folder: &Path, arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_crossinfer"))
        .args(arguments.split(' '))
        .current_dir(folder)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const VALIDATE: &str = "validate live little.toml --out out --effort smoke --context 512 --policies single:cpu0,naive,state_aware:w+p+s --replications 1 --repeats 2 --median 1e9 --worst 1e9";

#[test]
fn a_scenario_is_calibrated_and_validated_in_one_run_that_goes_on_where_it_was() {
    let folder = folder("live");
    let first = run(&folder, VALIDATE);
    let (out, said) = (text(&first.stdout), text(&first.stderr));
    assert!(first.status.success(), "{out}{said}");
    // Answers are the serial reference's, token by token, and traces replay.
    let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("6 live runs, every trace replays; 18 answers, of 9 held against the serial reference 0 differ."), "{out}{said}");
    for part in ["query_prefill", "prefill ÷ import", "stage cost", "± "] {
        assert!(out.contains(part), "no `{part}` in {out}");
    }
    let json = fs::read_to_string(folder.join("out/live.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let rows = json["comparison"]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 12, "three policies, four metrics");
    for row in rows {
        let ends = row["interval"].as_array().unwrap();
        let within = ends[0].as_f64()..=ends[1].as_f64();
        assert!(within.contains(&row["predicted"].as_f64()), "{row}");
        assert!(row["measured"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["noise"].as_f64().unwrap() >= 0.0, "{row}");
        let causes = row["causes"].as_object().unwrap();
        let sum: f64 = causes.values().map(|part| part.as_f64().unwrap()).sum();
        assert!((sum - row["error"].as_f64().unwrap()).abs() < 1e-9, "{row}");
    }
    let checks = json["checks"].as_array().unwrap();
    assert_eq!(
        checks.len(),
        5,
        "three engines at once, a prefix each way: {checks:?}"
    );

    // A scenario beside the profile that was written is right, and its numbers say where they are from.
    fs::copy(folder.join("little.toml"), folder.join("out/little.toml")).unwrap();
    fs::create_dir_all(folder.join("out/profiles/models")).unwrap();
    let model = "profiles/models/smollm2-135m-q4.toml";
    fs::copy(folder.join(model), folder.join("out").join(model)).unwrap();
    let check = run(&folder, "check out/little.toml");
    assert!(check.status.success(), "{}", text(&check.stderr));
    let costs = fs::read_to_string(folder.join("out/profiles/x86-host/smollm2-135m-q4.toml"));
    let costs = costs.unwrap();
    assert!(
        costs.contains("kind = \"measured\"") && costs.contains("weights_copy_bytes"),
        "{costs}"
    );

    // A live trace is one as any other.
    let replay = "replay out/live/naive.0.0.trace.jsonl out/little.toml --policy naive";
    let replay = run(&folder, replay);
    assert!(
        replay.status.success(),
        "{}{}",
        text(&replay.stdout),
        text(&replay.stderr)
    );

    // Half of it is lost: only that is done again.
    let lost = folder.join("out/live/naive.0.1.json");
    fs::remove_file(&lost).unwrap();
    let samples = fs::read_to_string(folder.join("out/samples.tsv")).unwrap();
    let again = run(&folder, VALIDATE);
    let said = text(&again.stderr);
    assert!(again.status.success(), "{said}");
    assert_eq!(said.matches("live: replication").count(), 1, "{said}");
    assert!(lost.exists());
    let more = fs::read_to_string(folder.join("out/samples.tsv")).unwrap();
    let new: Vec<&str> = more[samples.len()..].lines().collect();
    assert!(new.iter().all(|line| line.starts_with("clock")), "{new:?}");
    are_compared_without_engines(&folder, &lost);
    predictions_stay(&folder);
    is_brought_up_to_date(&folder);
}

/// Costs are multiplied, from the same fit each time; there must be one.
fn is_brought_up_to_date(folder: &Path) {
    let refresh = "calibrate little.toml --out out --effort smoke --context 512 --refresh";
    let none = run(folder, &refresh.replace("--out out", "--out none"));
    assert_eq!(none.status.code(), Some(2));
    let said = text(&none.stderr);
    assert!(said.contains("calibrate first"), "{said}");
    let samples = fs::read_to_string(folder.join("out/samples.tsv")).unwrap();
    let mut later = String::new();
    for _ in 0..2 {
        let refreshed = run(folder, refresh);
        let said = text(&refreshed.stderr);
        assert!(refreshed.status.success(), "{said}");
        let out = text(&refreshed.stdout);
        assert!(out.contains("now") && out.contains("factor"), "{out}");
        let costs = fs::read_to_string(folder.join("out/profiles/x86-host/smollm2-135m-q4.toml"));
        let costs = costs.unwrap();
        // All that computes: copies may have one sample.
        assert!(costs.matches("samples taken later").count() >= 7, "{costs}");
        let measured = fs::read_to_string(folder.join("out/later.tsv")).unwrap();
        assert!(measured.contains("stage\t") && measured != later);
        later = measured;
    }
    let kept = fs::read_to_string(folder.join("out/samples.tsv")).unwrap();
    assert_eq!(kept, samples);
}

/// Also those of another machine; what was interrupted is left out.
fn are_compared_without_engines(folder: &Path, lost: &Path) {
    let at = folder.join("out/live/of.txt");
    let of = fs::read_to_string(&at).unwrap();
    fs::write(&at, of.replacen("linux", "elsewhere", 1)).unwrap();
    fs::rename(lost, folder.join("lost")).unwrap();
    let compare = VALIDATE.replace(
        "--effort smoke",
        "--profile out --kept --language none.gguf",
    );
    let compared = run(folder, &compare);
    let said = text(&compared.stderr);
    assert!(compared.status.success(), "{said}");
    assert!(
        said.contains("1 of 2 rounds") && !said.contains("live:"),
        "{said}"
    );
    let json = fs::read_to_string(folder.join("out/live.json")).unwrap();
    assert!(json.contains("\"host\": \"elsewhere"), "{json}");
    fs::rename(folder.join("lost"), lost).unwrap();
    let none = run(folder, &compare.replace("naive", "round_robin"));
    assert_eq!(none.status.code(), Some(2));
    assert!(
        text(&none.stderr).contains("no whole round"),
        "{}",
        text(&none.stderr)
    );
    fs::write(&at, of).unwrap();
}

/// What was predicted stays; without live runs, the same is predicted.
fn predictions_stay(folder: &Path) {
    let kept = folder.join("out/predicted.json");
    let predicted = fs::read_to_string(&kept).unwrap();
    let alone = VALIDATE.replace(
        "--out out --effort smoke",
        "--profile out --out before --predict-only",
    );
    let alone = run(folder, &alone);
    assert!(alone.status.success(), "{}", text(&alone.stderr));
    assert!(
        text(&alone.stdout).contains("p95 TTFT"),
        "{}",
        text(&alone.stdout)
    );
    let before = fs::read_to_string(folder.join("before/predicted.json")).unwrap();
    let value = |text: &str| -> serde_json::Value {
        let all: serde_json::Value = serde_json::from_str(text).unwrap();
        all["rows"][1]["value"].clone()
    };
    assert_eq!(value(&before), value(&predicted));
    assert!(!folder.join("before/live").exists(), "nothing was run");
    fs::write(&kept, predicted.replace("\"value\": 0.", "\"value\": 9.")).unwrap();
    let changed = run(folder, VALIDATE);
    assert_eq!(changed.status.code(), Some(2));
    let said = text(&changed.stderr);
    assert!(
        said.contains("what was predicted before must stay"),
        "{said}"
    );
    fs::remove_file(&kept).unwrap();
    // Not of another scenario.
    fs::write(
        folder.join("little.toml"),
        SCENARIO.replace("count = 3", "count = 2"),
    )
    .unwrap();
    let other = run(folder, VALIDATE);
    assert_eq!(other.status.code(), Some(2), "{}", text(&other.stderr));
    assert!(
        text(&other.stderr).contains("runs of something else"),
        "{}",
        text(&other.stderr)
    );
}
