//! Streams may be called what their users like: every place shows the name as it is, as text.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod study;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use screen::{WIDTH, width};
use serde_json::Value;

/// Names that mean something else where they are not quoted.
const NAMES: [&str; 5] = [
    "<script>alert(\"x\")&'</script>",
    "front, left; \"2\"",
    "a|b `c` *d* \\e ${f} {{g}}",
    "正門カメラ",
    "=1+1",
];

/// The study with a stream of each name.
fn folder(test: &str) -> PathBuf {
    let out = study::copy(test, |text| text);
    let path = out.join("toy.toml");
    let text = fs::read_to_string(&path).unwrap();
    let (head, stream) = text.split_once("[[streams]]").unwrap();
    let stream = stream
        .replace("copies = 2\n", "")
        .replace("rate_hz = 0.2", "rate_hz = 0.05");
    let streams: Vec<String> = NAMES
        .iter()
        .map(|name| {
            let name = toml(name);
            format!("[[streams]]{}", stream.replace("\"front\"", &name))
        })
        .collect();
    fs::write(path, head.to_owned() + &streams.concat()).unwrap();
    out
}

/// A name as TOML has it.
fn toml(name: &str) -> String {
    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}

fn crossinfer(folder: &Path, arguments: &[&str]) -> String {
    let run = Command::new(env!("CARGO_BIN_EXE_crossinfer"))
        .args(arguments)
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{arguments:?}: {error}");
    String::from_utf8(run.stdout).unwrap()
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn sorted<'n>(names: impl IntoIterator<Item = &'n str>) -> Vec<&'n str> {
    let mut list: Vec<&str> = names.into_iter().collect();
    list.sort_unstable();
    list.dedup();
    list
}

/// Text of a page or picture, with its entities read.
fn read(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&apos;", "'")
        .replace("&#39;", "'")
        .replace("&amp;", "&")
}

#[test]
fn every_file_of_a_run_has_the_names() {
    let folder = folder("names-run");
    let table = crossinfer(
        &folder,
        &["run", "toy.toml", "--out", "out", "--trace", "--sketch"],
    );
    let out = folder.join("out");
    let all = sorted(NAMES);
    for line in table.lines() {
        assert!(width(line) <= WIDTH, "{line}");
    }
    let letters: String = table.split_whitespace().collect();
    // Neighbours of one kind stand together, as the first and the last of them.
    for name in [all[0], all[all.len() - 1]] {
        let name: String = name.split_whitespace().collect();
        assert!(letters.contains(&name), "{name}\n{table}");
    }

    let summary = json(&out.join("summary.json"));
    let listed = summary["streams"].as_array().unwrap();
    assert_eq!(
        sorted(listed.iter().map(|s| s["name"].as_str().unwrap())),
        all
    );
    let detail = json(&out.join("detail.json"));
    let listed = detail["streams"].as_array().unwrap();
    assert_eq!(sorted(listed.iter().map(|s| s.as_str().unwrap())), all);
    let trace = fs::read_to_string(out.join("trace.jsonl")).unwrap();
    let header: Value = serde_json::from_str(trace.lines().next().unwrap()).unwrap();
    let listed = header["streams"].as_array().unwrap();
    assert_eq!(sorted(listed.iter().map(|s| s.as_str().unwrap())), all);
    crossinfer(&folder, &["replay", "out/trace.jsonl", "toy.toml"]);

    let mut rows = csv::Reader::from_path(out.join("requests.csv")).unwrap();
    let records: Vec<_> = rows.records().map(Result::unwrap).collect();
    assert_eq!(sorted(records.iter().map(|row| &row[0])), all);

    let perfetto = json(&out.join("trace.perfetto.json"));
    let events = perfetto["traceEvents"].as_array().unwrap();
    let tracks = events
        .iter()
        .filter(|event| event["name"] == "thread_name")
        .map(|event| event["args"]["name"].as_str().unwrap());
    let tracks = sorted(tracks);
    for name in &all {
        assert!(tracks.contains(name), "{name}: {tracks:?}");
    }

    let picture = fs::read_to_string(out.join("timeline.svg")).unwrap();
    assert!(!picture.contains("<script"));
    let shown = read(&picture);
    for name in &all {
        // The legend cuts what is long.
        let start: String = name.chars().take(9).collect();
        assert!(shown.contains(&start), "{name}");
    }

    crossinfer(&folder, &["report", "out"]);
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(!page.contains("<script>alert"), "a name is no element");
    let shown = read(&page);
    for name in &all {
        assert!(shown.contains(name), "{name}");
    }
}

#[test]
fn one_request_is_found_by_its_stream_whatever_that_is_called() {
    let folder = folder("names-explain");
    for name in NAMES {
        let story = crossinfer(
            &folder,
            &["explain", "toy.toml", "--request", &format!("{name}:0")],
        );
        for line in story.lines() {
            assert!(width(line) <= WIDTH, "{line}");
        }
        let letters: String = story.split_whitespace().collect();
        let name: String = name.split_whitespace().collect();
        assert!(letters.contains(&name), "{name}\n{story}");
    }
}

#[test]
fn keys_of_a_stream_are_varied_by_its_name_in_quotes() {
    let folder = folder("names-sweep");
    for (index, name) in NAMES.iter().enumerate() {
        let key = format!("streams.{}.queries.deadline_s", toml(name));
        let (vary, out) = (format!("{key}=2,3"), format!("out-{index}"));
        crossinfer(
            &folder,
            &[
                "sweep",
                "toy.toml",
                "--vary",
                &vary,
                "--out",
                &out,
                "--replications",
                "1",
            ],
        );
        let mut rows = csv::Reader::from_path(folder.join(out).join("results.csv")).unwrap();
        let column = rows.headers().unwrap().iter().position(|name| name == key);
        let column = column.unwrap_or_else(|| panic!("{key}: {:?}", rows.headers()));
        let values: Vec<String> = rows
            .records()
            .map(|row| row.unwrap()[column].to_owned())
            .collect();
        assert_eq!(values, ["2", "3"], "{key}");
    }
}

/// `fixed` names streams by their keys; TOML quotes them.
#[test]
fn streams_are_fixed_to_lanes_by_their_names() {
    let folder = folder("names-fixed");
    let path = folder.join("toy.toml");
    let text = fs::read_to_string(&path).unwrap();
    let lanes: Vec<String> = NAMES
        .iter()
        .map(|name| format!("{} = \"cpu\"", toml(name)))
        .collect();
    let policy = format!(
        "policy = {{ fixed = {{ lanes = {{ {} }} }} }}\n\n[run]",
        lanes.join(", ")
    );
    fs::write(&path, text.replacen("[run]", &policy, 1)).unwrap();
    crossinfer(&folder, &["run", "toy.toml", "--out", "out", "--trace"]);
    crossinfer(&folder, &["replay", "out/trace.jsonl", "toy.toml"]);
    let mut rows = csv::Reader::from_path(folder.join("out/requests.csv")).unwrap();
    for row in rows.records() {
        assert_eq!(&row.unwrap()[9], "cpu");
    }
}
