//! Every class of fault: edits of the toy's files, and the faults that must be reported.
//!
//! Cases are in `faults/*.txt`: a name, edits (`file: old ==> new`, or `file: + text` at the end, with
//! `\n` for a line break), and the expected faults or warnings after `>`. `UPDATE_FAULTS=1 cargo test -p
//! crossinfer-sim faults` writes what is reported; read the difference.
#![expect(
    clippy::disallowed_methods,
    reason = "expected text is kept in files, which these tests read and refresh"
)]

use std::fmt::Write as _;
use std::path::PathBuf;

use super::toy::{self, Toy};
use crate::load::Inputs;

struct Edited {
    toy: Toy,
    scenario: String,
}

fn edit(edited: &mut Edited, line: &str) {
    let (file, change) = line.split_once(": ").expect("`file: change`");
    let text = match file {
        "scenario" => &mut edited.scenario,
        "soc" => &mut edited.toy.soc,
        "model" => &mut edited.toy.model,
        "costs" => &mut edited.toy.costs,
        name => {
            let text = change
                .strip_prefix("= ")
                .expect("a further file is given whole");
            let text = match text {
                "costs" => edited.toy.costs.clone(),
                "soc" => edited.toy.soc.clone(),
                text => text.replace("\\n", "\n"),
            };
            edited.toy.files.push((name.to_owned(), text));
            return;
        }
    };
    let change = change.replace("\\n", "\n");
    if let Some(more) = change.strip_prefix("+ ") {
        text.push_str(more);
        text.push('\n');
        return;
    }
    let (old, new) = change.split_once(" ==>").expect("`old ==> new`");
    let new = new.strip_prefix(' ').unwrap_or(new);
    assert!(text.contains(old), "`{old}` is not in {file}");
    *text = text.replacen(old, new, 1);
}

/// The report of a case, played with its own policy alone: its faults, or else its warnings.
fn report(lines: &[&str]) -> Vec<String> {
    let mut edited = Edited {
        toy: Toy::default(),
        scenario: toy::SCENARIO.to_owned(),
    };
    for line in lines {
        edit(&mut edited, line);
    }
    let Edited { toy, scenario } = &edited;
    let world = Inputs::read("s.toml", scenario, toy, toy).and_then(|inputs| {
        let world = inputs.world()?;
        inputs.read_by(std::slice::from_ref(&world))?;
        Ok(world)
    });
    match world {
        Ok(world) => world
            .warnings
            .iter()
            .map(|warning| format!("warning: {warning}"))
            .collect(),
        Err(faults) => {
            assert!(!faults.list.is_empty(), "an error without faults");
            faults.to_string().lines().map(str::to_owned).collect()
        }
    }
}

fn check(name: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("src/load/tests/faults")
        .join(name);
    let expected = std::fs::read_to_string(&path).expect("the cases are there");
    let mut actual = String::new();
    for block in expected.split("\n\n") {
        let mut edits = Vec::new();
        for line in block.lines().filter(|line| !line.starts_with('>')) {
            writeln!(actual, "{line}").unwrap();
            if !line.starts_with('#') {
                edits.push(line);
            }
        }
        if !edits.is_empty() {
            for line in report(&edits) {
                writeln!(actual, "> {line}").unwrap();
            }
        }
        actual.push('\n');
    }
    let actual = format!("{}\n", actual.trim_end());
    if std::env::var_os("UPDATE_FAULTS").is_some() {
        std::fs::write(&path, &actual).expect("the cases can be written");
    }
    assert!(
        actual == expected,
        "{name} differs; run `UPDATE_FAULTS=1 cargo test -p crossinfer-sim faults` and read the difference.\n{actual}"
    );
}

#[test]
fn structure() {
    check("structure.txt");
}

#[test]
fn origins() {
    check("origins.txt");
}

#[test]
fn soc() {
    check("soc.txt");
}

#[test]
fn model() {
    check("model.txt");
}

#[test]
fn costs() {
    check("costs.txt");
}

#[test]
fn streams() {
    check("streams.txt");
}

#[test]
fn scenario() {
    check("scenario.txt");
}
