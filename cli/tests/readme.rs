//! What the README shows is what the command prints.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

/// The commands of the README's `console` blocks, with what it shows of their output. A line of `…`
/// stands for lines left out.
fn transcripts(text: &str) -> Vec<(String, String)> {
    let mut list = Vec::new();
    for block in text.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap();
        for part in block.split("$ crossinfer ").skip(1) {
            let (command, output) = part.split_once('\n').unwrap();
            list.push((command.to_owned(), output.to_owned()));
        }
    }
    list
}

/// Whether `shown` is `printed`, but for what its `…` lines leave out.
fn shows(shown: &str, printed: &str) -> bool {
    let mut rest = printed;
    for (index, part) in shown.split("…\n").enumerate() {
        match rest.find(part) {
            Some(at) if index > 0 || at == 0 => rest = &rest[at + part.len()..],
            _ => return false,
        }
    }
    shown.ends_with("…\n") || rest.trim().is_empty()
}

#[test]
fn its_transcripts_are_true() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let transcripts = transcripts(&readme);
    assert!(transcripts.len() >= 2, "the README shows nothing");
    for (command, shown) in transcripts {
        let run = Command::new(env!("CARGO_BIN_EXE_crossinfer"))
            .args(command.split_whitespace())
            .current_dir(&root)
            .env("NO_COLOR", "1")
            .output()
            .unwrap();
        let printed = String::from_utf8(run.stdout).unwrap();
        let errors = String::from_utf8(run.stderr).unwrap();
        assert!(
            shows(&shown, &printed) || shows(&shown, &errors),
            "`crossinfer {command}` prints:\n{printed}{errors}\nand the README shows:\n{shown}"
        );
    }
}

#[test]
fn only_what_is_marked_may_be_left_out() {
    assert!(shows("a\n…\nc\n", "a\nb\nc\n"));
    assert!(shows("a\n…\n", "a\nb\nc\n"));
    assert!(!shows("a\nc\n", "a\nb\nc\n"));
    assert!(!shows("b\n…\n", "a\nb\nc\n"));
}
