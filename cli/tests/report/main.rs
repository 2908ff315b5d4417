//! The report: what it says is tried here, how it works in a real browser where there is one.

mod browser;
mod page;
#[path = "../study/mod.rs"]
mod study;
mod timeline;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn files() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cmd/study.in")
}

fn crossinfer(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_crossinfer"))
        .args(arguments)
        .current_dir(files())
        .output()
        .expect("the command runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// An empty folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a folder can be made");
    path
}

fn text(path: &Path) -> &str {
    path.to_str().expect("it is text")
}

/// To see it fail, take `conditions` out of a header.
#[test]
fn conditions_stand_wherever_results_do() {
    let home = folder("conditions");
    let out = home.join("out");
    let told = [
        "other software keeps 2 of 8 CPU cores busy",
        "at most 40 queries in the system",
        "fixed: encode on npu",
    ];
    let slo = ["--slo", "ttft_p95 <= 1000 s", "--replications", "2"];
    let small = ["--policies", "serial,round_robin", "--out", text(&out)];
    let commands = [
        ["run", "shared.toml"].to_vec(),
        ["run", "shared.toml", "--format", "json"].to_vec(),
        [&["compare", "shared.toml"][..], &small].concat(),
        ["compare", "shared.toml", "--format", "json"].to_vec(),
        [&["plan", "shared.toml", "--to", "2"][..], &slo].concat(),
        [
            &["plan", "shared.toml", "--to", "2", "--format", "json"][..],
            &slo,
        ]
        .concat(),
        [&["plan", "shared.toml", "--need"][..], &slo].concat(),
        [
            &["plan", "shared.toml", "--need", "--format", "json"][..],
            &slo,
        ]
        .concat(),
    ];
    for command in &commands {
        // Lines of a table are broken where the terminal ends.
        let said = crossinfer(command);
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        for condition in told {
            assert!(said.contains(condition), "{command:?}: {condition}\n{said}");
        }
    }
    let page = home.join("report.html");
    crossinfer(&["report", text(&out), "--out", text(&page)]);
    let page = fs::read_to_string(page).expect("it is written");
    for condition in told {
        assert!(page.contains(condition), "the page: {condition}");
    }
}

/// A folder without what `report` draws requests from says so, once, and how to get it.
#[test]
fn what_is_lacking_is_said_once() {
    let home = folder("lacking");
    let out = home.join("out");
    crossinfer(&["run", "toy.toml", "--out", text(&out)]);
    // The page needs neither of these.
    for file in ["requests.csv", "trace.perfetto.json"] {
        fs::remove_file(out.join(file)).expect("it was there");
    }
    let report = || {
        let run = Command::new(env!("CARGO_BIN_EXE_crossinfer"))
            .args(["report", text(&out)])
            .output()
            .expect("the command runs");
        assert!(run.status.success());
        let page = fs::read_to_string(out.join("report.html")).expect("it is written");
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        (page, said)
    };
    let (page, said) = report();
    assert!(
        !page.contains("Not shown") && !said.contains("warning"),
        "{said}"
    );
    fs::remove_file(out.join("detail.json")).expect("it was there");
    let (page, said) = report();
    let lacks = "has no detail.json, so that no request and no stage of it is shown";
    for text in [&page, &said] {
        assert_eq!(text.matches(lacks).count(), 1, "{text}");
        assert!(text.contains("`crossinfer run toy.toml --out DIR` writes them"));
    }
    assert_eq!(said.matches("warning:").count(), 1, "{said}");
}
