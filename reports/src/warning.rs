//! What a run itself warns of.

use sim::dispatch::Reason;
use sim::metrics::Summary;

use crate::facts::Facts;
use crate::interval::Replicated;

/// Warnings that every format shows: those of the scenario, and those of its runs.
pub(crate) fn of(facts: &Facts, runs: &Replicated) -> Vec<String> {
    let mut list = facts.warnings.clone();
    list.extend(of_runs(facts, runs));
    list
}

/// As [`of`], for several policies: each warning of a run says whose it is.
pub(crate) fn of_all(facts: &Facts, policies: &[(String, Replicated)]) -> Vec<String> {
    let mut list = facts.warnings.clone();
    for (name, runs) in policies {
        list.extend(of_runs(facts, runs).map(|text| format!("{name}: {text}")));
    }
    list
}

/// What the runs of one policy warn of.
fn of_runs<'a>(facts: &'a Facts, runs: &'a Replicated) -> impl Iterator<Item = String> + 'a {
    let answered = runs.summaries.iter().any(|s| s.completed > 0);
    let none = (!answered && runs.count() > 0)
        .then(|| "no query was answered after the warm-up: there are no latencies".to_owned());
    refusals(facts.longest_context, runs).chain(none)
}

/// What was refused for want of room, and what would make it; `longest` is the model's longest context, tokens.
pub fn refusals(longest: u32, runs: &Replicated) -> impl Iterator<Item = String> {
    let sum = |of: &dyn Fn(&Summary) -> u64| runs.summaries.iter().map(of).sum::<u64>();
    let told = |count: u64, what: &str, why: String| {
        let all = if runs.count() > 1 {
            " in all replications"
        } else {
            ""
        };
        (count > 0).then(|| format!("{count} {what} were refused{all}: {why}"))
    };
    [
        told(
            sum(&|s| frames_refused_for(s, Reason::ContextTooLong)),
            "frames",
            format!(
                "the context is full (longest context {longest} tokens); set `context.keep` to a window \
                 that fits"
            ),
        ),
        told(
            sum(&|s| frames_refused_for(s, Reason::NeverFits)),
            "frames",
            "no engine that ingests may hold so long a context; set `context.keep` to a window that \
             fits, or give the engines a larger KV budget"
                .to_owned(),
        ),
        told(
            sum(&|s| queries_refused_for(s, Reason::ContextTooLong)),
            "queries",
            format!(
                "context, prompt and longest answer exceed the longest context, {longest} tokens; let \
                 `context.keep` or `max_output_tokens` leave room"
            ),
        ),
        told(
            sum(&|s| queries_refused_for(s, Reason::NeverFits)),
            "queries",
            "no engine that answers may hold the KV of context, prompt and longest answer; let \
             `context.keep` or `max_output_tokens` leave room, or give the engines a larger KV budget"
                .to_owned(),
        ),
    ]
    .into_iter()
    .flatten()
}

/// Frames that were refused for a reason.
pub(crate) fn frames_refused_for(summary: &Summary, reason: Reason) -> u64 {
    refused_for(&summary.frames_refused_by, reason)
}

/// Queries that were refused for a reason.
pub(crate) fn queries_refused_for(summary: &Summary, reason: Reason) -> u64 {
    refused_for(&summary.refused, reason)
}

fn refused_for(list: &[(&'static str, u64)], reason: Reason) -> u64 {
    let found = list.iter().find(|(name, _)| *name == reason.name());
    found.map_or(0, |(_, count)| *count)
}
