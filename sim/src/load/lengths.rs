//! Lengths of prompts and answers.

use super::document::Place;
use super::streams::Reader;
use crate::spec::scenario::{Length, LengthDistribution, Queries};
use crate::workload::{LengthPlan, mean_length};

impl Reader<'_> {
    /// The lengths under `key`, or those `listed` in a trace.
    pub(super) fn length(
        &mut self,
        place: &Place<'_>,
        key: &str,
        raw: Option<&Length>,
        listed: Option<Vec<u32>>,
    ) -> Option<LengthPlan> {
        let at = place.key(key);
        match (raw, listed) {
            (None, Some(mut listed)) => {
                for tokens in &mut listed {
                    *tokens = (*tokens).max(1);
                }
                Some(LengthPlan::Listed(listed))
            }
            (Some(_), Some(_)) => {
                self.faults.push(at.key_fault(
                    format!("`{key}` beside a trace that has it"),
                    "has no effect",
                ));
                None
            }
            (None, None) => {
                self.faults.push(
                    place
                        .key_fault(
                            format!("the queries of stream `{}` lack `{key}`", self.name),
                            "required, unless a trace has it",
                        )
                        .help(format!(
                            "add `{key} = 32` or `{key} = {{ uniform = {{ low = 16, high = 64 }} }}`"
                        )),
                );
                None
            }
            (Some(Length::Fixed(tokens)), None) => Some(LengthPlan::Fixed(*tokens)),
            (Some(Length::Drawn(distribution)), None) => match distribution {
                LengthDistribution::Uniform { low, high } => {
                    if low > high {
                        self.faults.push(at.key("uniform").key("high").fault(
                            format!("`{key}` is uniform from {low} to {high}"),
                            format!("must be at least `low`, {low}"),
                        ));
                        return None;
                    }
                    Some(LengthPlan::Uniform(*low, *high))
                }
                LengthDistribution::LogNormal { mean, cv } => Some(LengthPlan::LogNormal {
                    mean: *mean,
                    cv: *cv,
                }),
                LengthDistribution::Geometric { mean } => {
                    Some(LengthPlan::Geometric { mean: *mean })
                }
                LengthDistribution::Empirical { tokens } => {
                    let tokens_place = at.key("empirical").key("tokens");
                    if tokens.is_empty() {
                        self.faults.push(
                            tokens_place
                                .fault(format!("`{key}` is drawn from nothing"), "is empty"),
                        );
                    }
                    for (index, _) in tokens.iter().enumerate().filter(|(_, t)| **t == 0) {
                        self.faults.push(
                            tokens_place
                                .index(index)
                                .fault(format!("`{key}` of 0 tokens"), "must be at least 1"),
                        );
                    }
                    Some(LengthPlan::Empirical(tokens.clone()))
                }
            },
        }
    }

    /// The longest answer, for which memory is reserved.
    pub(super) fn output_max(
        &mut self,
        place: &Place<'_>,
        raw: &Queries,
        output: Option<&LengthPlan>,
    ) -> Option<u32> {
        let output = output?;
        let mean = mean_length(output);
        if let Some(most) = raw.max_output_tokens {
            if f64::from(most) < mean {
                self.faults.push(place.key("max_output_tokens").fault(
                    format!("`max_output_tokens` is below the mean of `output_tokens`, {mean:.1}"),
                    format!("must be at least {mean:.1}, lest the cut make another mean of it"),
                ));
            }
            return Some(most);
        }
        match output {
            LengthPlan::Fixed(tokens) => Some(*tokens),
            LengthPlan::Uniform(_, high) => Some(*high),
            LengthPlan::Empirical(tokens) | LengthPlan::Listed(tokens) => {
                tokens.iter().max().copied()
            }
            LengthPlan::LogNormal { .. } | LengthPlan::Geometric { .. } => {
                self.faults.push(
                    place
                        .key("output_tokens")
                        .key_fault(
                            format!(
                                "the answers of stream `{}` have no longest length",
                                self.name
                            ),
                            "memory is reserved for the longest answer",
                        )
                        .help(format!("add `max_output_tokens = {:.0}`", 4.0 * mean)),
                );
                None
            }
        }
    }
}

/// Greatest possible length.
pub(super) fn greatest(length: &LengthPlan) -> u32 {
    match length {
        LengthPlan::Fixed(tokens) | LengthPlan::Uniform(_, tokens) => *tokens,
        LengthPlan::LogNormal { .. } | LengthPlan::Geometric { .. } => u32::MAX,
        LengthPlan::Empirical(tokens) | LengthPlan::Listed(tokens) => {
            tokens.iter().max().copied().unwrap_or(1)
        }
    }
}

/// Least possible length.
pub(super) fn least(length: &LengthPlan) -> u32 {
    match length {
        LengthPlan::Fixed(tokens) | LengthPlan::Uniform(tokens, _) => *tokens,
        LengthPlan::LogNormal { .. } | LengthPlan::Geometric { .. } => 1,
        LengthPlan::Empirical(tokens) | LengthPlan::Listed(tokens) => {
            tokens.iter().min().copied().unwrap_or(1)
        }
    }
}
