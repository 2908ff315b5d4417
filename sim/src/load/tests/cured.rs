//! Faults of form beside faults of meaning: both are told, and one of form brings no other about.

use super::toy::{self, Toy};
use crate::diag::Faults;
use crate::load::Inputs;

/// The toy's four files, in order.
fn files() -> [String; 4] {
    let toy = Toy::default();
    [toy::SCENARIO.to_owned(), toy.soc, toy.model, toy.costs]
}

fn faults(files: [String; 4]) -> Option<Faults> {
    let [scenario, soc, model, costs] = files;
    let toy = Toy {
        soc,
        model,
        costs,
        files: Vec::new(),
    };
    Inputs::read("s.toml", &scenario, &toy, &toy).err()
}

/// To see it fail, let `Ledger::look` keep what only one of its two readings has, or ask what has no effect.
#[test]
fn one_wrong_key_or_number_is_one_fault() {
    let names = ["s.toml", "toy/soc.toml", "models/vlm.toml", "toy/vlm.toml"];
    let (mut tried, mut elsewhere) = (0, Vec::new());
    for (at, name) in names.into_iter().enumerate() {
        let text = files()[at].clone();
        for (line_at, line) in text.lines().enumerate() {
            let Some((key, value)) = line.split_once(" = ") else {
                continue;
            };
            let mut edits = vec![format!("{key}q = {value}")];
            if value.parse::<f64>().is_ok() {
                edits.push(format!("{key} = -1e300"));
                edits.push(format!("{key} = nan"));
                edits.push(format!("{key} = 1e999999"));
                edits.push(format!("{key} = {}", "9".repeat(30)));
                edits.push(format!("{key} = \"{value}\""));
            }
            for edit in edits {
                let mut lines: Vec<&str> = text.lines().collect();
                lines[line_at] = &edit;
                let mut edited = files();
                edited[at] = lines.join("\n");
                let faults = faults(edited).unwrap_or_else(|| panic!("{name}: {edit} passes"));
                tried += 1;
                for fault in &faults.list {
                    let (_, source) = faults
                        .sources
                        .iter()
                        .find(|(file, _)| *file == fault.file)
                        .expect("is known");
                    let on = source[..fault.span.start].matches('\n').count();
                    // A number is left without its origin, or an origin without its number.
                    let origin = fault.message.starts_with("origin `");
                    if !origin && (fault.file != name || on != line_at) {
                        elsewhere.push(format!("{name}: {edit}\n{faults}"));
                        break;
                    }
                }
            }
        }
    }
    assert!(tried > 200, "{tried}");
    assert!(elsewhere.is_empty(), "{}", elsewhere.join("\n"));
}

#[test]
fn what_is_wrong_elsewhere_is_told_as_well() {
    // Each is a fault of meaning, by file, edit and words.
    let meant = [
        (
            0,
            "encode = \"npu\"",
            "encode = \"gpu\"",
            "unknown lane `gpu`",
        ),
        (0, "decode@cpu", "decode@gpu", "gpu"),
        (
            1,
            "engine = \"npu\"",
            "engine = \"vpu\"",
            "unknown engine `vpu`",
        ),
        (
            2,
            "after = [\"encode\"]",
            "after = [\"encod\"]",
            "unknown stage `encod`",
        ),
        (
            3,
            "[engines.cpu.corun.decode]",
            "[engines.cpu.corun.decod]",
            "decod",
        ),
    ];
    let formal = [
        (0, "seed = 7", "sead = 7"),
        (0, "horizon_s = 60.0", "horizon_s = -1.0"),
        (0, "seed = 7", "seed = -7"),
        (2, "max_context_tokens = 16384", "max_context_tokens = 0"),
        (1, "weight = 1.0", "weight = -1.0"),
        (2, "weights_bytes = 1e9", "weights_bytes = \"much\""),
        (3, "fixed_s = 0.5", "fixed_s = nan"),
    ];
    for (meant_at, old, new, words) in meant {
        for (formal_at, right, wrong) in formal {
            let mut edited = files();
            for (at, from, to) in [(meant_at, old, new), (formal_at, right, wrong)] {
                assert!(edited[at].contains(from), "{from}");
                edited[at] = edited[at].replacen(from, to, 1);
            }
            let told = faults(edited).expect("two faults").to_string();
            assert!(told.contains(words), "{new} beside {wrong}:\n{told}");
            assert!(told.lines().count() >= 2, "{told}");
        }
    }
}
