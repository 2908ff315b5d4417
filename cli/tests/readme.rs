//! What the README and the guides show is what the command prints.
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

/// Runs the transcripts of a text in a folder, and holds what it shows against what is printed.
fn holds(text: &str, folder: &Path) -> usize {
    let transcripts = transcripts(text);
    for (command, shown) in &transcripts {
        let run = Command::new(env!("CARGO_BIN_EXE_crossinfer"))
            .args(command.split_whitespace())
            .current_dir(folder)
            .env("NO_COLOR", "1")
            .output()
            .unwrap();
        let printed = String::from_utf8(run.stdout).unwrap();
        let errors = String::from_utf8(run.stderr).unwrap();
        assert!(
            shows(shown, &printed) || shows(shown, &errors),
            "`crossinfer {command}` prints:\n{printed}{errors}\nand the text shows:\n{shown}"
        );
    }
    transcripts.len()
}

#[test]
fn its_transcripts_are_true() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    assert!(holds(&readme, &root) >= 2, "the README shows nothing");
}

/// The files of the example of a user's own board are as they stand in the guide: the first line names each.
#[test]
fn the_example_of_fitting_a_board_works_as_typed() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/validate.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let (_, example) = guide.split_once("## Your own board").unwrap();
    let (example, _) = example.split_once("\n## ").unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("own-board");
    _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let mut files = 0;
    for block in example.split("```toml\n").skip(1) {
        let text = block.split("```").next().unwrap();
        let name = text.strip_prefix("# ").unwrap();
        let name = name.split([':', '\n']).next().unwrap();
        std::fs::write(folder.join(name), text).unwrap();
        files += 1;
    }
    assert_eq!(files, 4);
    assert_eq!(holds(example, &folder), 2);
    assert!(
        folder
            .join("profiles/rk3588/onevision-0.5b-int4.toml")
            .is_file()
    );
}

#[test]
fn only_what_is_marked_may_be_left_out() {
    assert!(shows("a\n…\nc\n", "a\nb\nc\n"));
    assert!(shows("a\n…\n", "a\nb\nc\n"));
    assert!(!shows("a\nc\n", "a\nb\nc\n"));
    assert!(!shows("b\n…\n", "a\nb\nc\n"));
}
