//! What a run itself warns of.

use sim::dispatch::Reason;
use sim::metrics::Summary;

use crate::facts::Facts;
use crate::interval::Replicated;

/// Warnings that every format shows: those of the scenario, and those of its runs.
pub(crate) fn of(facts: &Facts, runs: &Replicated) -> Vec<String> {
    let mut list = facts.warnings.clone();
    list.extend(full_context(facts, runs));
    list
}

/// As [`of`], for several policies: each warning of a run says whose it is.
pub(crate) fn of_all(facts: &Facts, policies: &[(String, Replicated)]) -> Vec<String> {
    let mut list = facts.warnings.clone();
    for (name, runs) in policies {
        list.extend(full_context(facts, runs).map(|text| format!("{name}: {text}")));
    }
    list
}

fn full_context(facts: &Facts, runs: &Replicated) -> Option<String> {
    let count: u64 = runs.summaries.iter().map(too_long).sum();
    (count > 0).then(|| {
        format!(
            "{count} frames were refused{}: the context is full (longest context {} tokens); set \
             `context.keep` to a window that fits",
            if runs.count() > 1 {
                " in all replications"
            } else {
                ""
            },
            facts.longest_context
        )
    })
}

fn too_long(summary: &Summary) -> u64 {
    frames_refused_for(summary, Reason::ContextTooLong)
}

/// Frames that were refused for a reason.
pub(crate) fn frames_refused_for(summary: &Summary, reason: Reason) -> u64 {
    let mut all = summary.frames_refused_by.iter();
    all.find(|(name, _)| *name == reason.name())
        .map_or(0, |(_, count)| *count)
}
