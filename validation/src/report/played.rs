//! What was played for each row: scenario, policy, and what the scenario takes the workload to be.

use std::collections::{BTreeMap, BTreeSet};

use super::markdown::{code, escape};
use super::{Section, Table};
use crate::published::{Comparison, PlayedAs};

/// The section: a line for each table, model, configuration and what was played for it, and once for each table what was
/// inferred of its workload.
pub(super) fn played(comparison: &Comparison) -> Section {
    let mut lines: Vec<[String; 5]> = Vec::new();
    let mut inferred: BTreeMap<String, BTreeMap<&str, BTreeSet<&str>>> = BTreeMap::new();
    for compared in &comparison.rows {
        let (row, played) = (&compared.row, compared.prediction().map(|p| &p.played));
        let Some(played) = played else { continue };
        let line = [
            row.series(),
            row.model.clone(),
            row.config.clone(),
            each(played, |played| played.scenario.clone()),
            each(played, |played| {
                let policy = played.policy.clone();
                policy.unwrap_or_else(|| "none: contention alone".to_owned())
            }),
        ];
        if !lines.contains(&line) {
            lines.push(line);
        }
        for PlayedAs {
            scenario,
            inferred: notes,
            ..
        } in played
        {
            let of = inferred.entry(row.series()).or_default();
            for note in notes {
                of.entry(note).or_default().insert(scenario);
            }
        }
    }
    if lines.is_empty() {
        return Section::new("What was played", &["Nothing.".to_owned()]);
    }
    let mut table = Table::new(&["row", "model", "config", "scenario", "policy"]);
    for line in lines {
        table.row(line);
    }
    let mut notes = Vec::new();
    for (series, of) in &inferred {
        let all: BTreeSet<&str> = of.values().flatten().copied().collect();
        for (note, scenarios) in of {
            // Which of the table's scenarios say so, where not all do.
            let some = scenarios.len() < all.len();
            let of = scenarios.iter().map(|scenario| code(scenario));
            let of = of.collect::<Vec<_>>().join(", ");
            let of = if some {
                format!(" ({of})")
            } else {
                String::new()
            };
            notes.push(format!("- {}{of}: {}", escape(series), escape(note)));
        }
    }
    let text = "Scenario and policy of each row; with `;` between where a row compares.";
    let head = "What the measurements do not say of the workload, and the scenarios take it to be:";
    let head = if notes.is_empty() { "" } else { head };
    Section::new(
        "What was played",
        &[
            text.to_owned(),
            table.markdown(),
            head.to_owned(),
            notes.join("\n"),
        ],
    )
}

fn each(played: &[PlayedAs], what: impl Fn(&PlayedAs) -> String) -> String {
    let all: Vec<String> = played.iter().map(what).collect();
    match all.split_first() {
        Some((first, rest)) if rest.iter().all(|other| other == first) => first.clone(),
        _ => all.join("; "),
    }
}
