//! The parts that `run` and `compare` share.

use std::fmt::Write as _;

use screen::{labelled as line, paragraph};

use crate::facts::Facts;
use crate::number::short;

/// Most groups of streams that are listed.
const STREAMS_MAX: usize = 12;

/// Appends what was simulated; `policies` in words.
pub(super) fn facts(out: &mut String, facts: &Facts, policies: &str, replications: usize) {
    paragraph(out, &facts.title);
    let named = |(key, name): &(String, String)| format!("{name} ({key})");
    line(out, "SoC", &named(&facts.soc));
    line(out, "Model", &named(&facts.model));
    line(out, "Policy", policies);
    line(
        out,
        "Modes",
        &format!(
            "{}; contention {}",
            facts.modes.join(", "),
            facts.contention
        ),
    );
    line(out, "Context", &facts.context.join("; "));
    if !facts.conditions.is_empty() {
        line(out, "Conditions", &facts.conditions.join("; "));
    }
    line(out, "Runs", &runs(facts, replications));
    streams(out, &facts.streams);
    let origins: Vec<String> = facts
        .origins
        .iter()
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    line(
        out,
        "Numbers",
        &format!(
            "{}: {}; `crossinfer check {}` gives the reasons of the assumed ones",
            facts.numbers,
            origins.join(", "),
            facts.file
        ),
    );
}

fn runs(facts: &Facts, replications: usize) -> String {
    let mut text = match replications {
        1 => "1 replication (no intervals)".to_owned(),
        n => format!("{n} replications, ± is the 95 % interval of the mean"),
    };
    _ = write!(text, "; seed {}", facts.seed);
    if let Some(horizon) = facts.horizon_s {
        _ = write!(text, "; arrivals until {} s", short(horizon));
    }
    if facts.warm_up_s > 0.0 {
        _ = write!(text, "; the first {} s left out", short(facts.warm_up_s));
    }
    text
}

/// Streams; neighbours of the same kind together.
fn streams(out: &mut String, streams: &[(String, Vec<String>)]) {
    let groups: Vec<_> = streams.chunk_by(|a, b| a.1 == b.1).collect();
    let mut label = if streams.len() == 1 {
        "Stream"
    } else {
        "Streams"
    };
    for group in groups.iter().take(STREAMS_MAX) {
        let (first, last) = (&group[0].0, &group[group.len() - 1].0);
        let name = match group.len() {
            1 => first.clone(),
            2 => format!("{first}, {last}"),
            n => format!("{first} … {last} ({n} streams)"),
        };
        let each = if group.len() > 1 { ", each" } else { "" };
        line(out, label, &format!("{name}{each}"));
        for arrivals in &group[0].1 {
            line(out, "", arrivals);
        }
        label = "";
    }
    if groups.len() > STREAMS_MAX {
        line(
            out,
            "",
            &format!("and {} more kinds of streams", groups.len() - STREAMS_MAX),
        );
    }
}

/// Appends warnings, one a paragraph.
pub(super) fn warnings(out: &mut String, list: &[String]) {
    for warning in list {
        out.push('\n');
        line(out, "warning:", warning);
    }
}
