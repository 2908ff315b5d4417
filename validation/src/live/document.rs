//! The result of a validation as a file keeps it, and whether it is one.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Comparison, Metric, Row, StageRow, Values, judged};

/// A sample that no fit used, with what the profile predicts of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// What it is of.
    pub what: String,
    /// As measured.
    pub measured: f64,
    /// What samples leave open of it (half of 95 %), as a share; `None`: too few, or kept before this was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<f64>,
    /// As predicted.
    pub predicted: f64,
}

/// What a live run leaves beside its trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Played {
    /// How late the driver handled arrivals, s, on average.
    pub arrivals_late_s: f64,
    /// How late it handled ends of tasks.
    pub ends_late_s: f64,
    /// Answers.
    pub answers: usize,
    /// Those that were held against the serial reference.
    pub checked: usize,
    /// Those of them that differ from it.
    pub differ: usize,
    /// Share of the CPU time wanted during the run that a hypervisor gave to others, 0 to 1; `None` where the
    /// system does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen: Option<f64>,
    /// Its answers against those of one engine alone, where several contributed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elsewhere: Vec<Elsewhere>,
}

/// A run's answers against those that one engine gives alone: engines that compute differently differ, legitimately.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Elsewhere {
    /// The engine.
    pub engine: String,
    /// Answers that differ.
    pub differ: usize,
    /// The earliest token that differs in any of them, from 0; `None`: none does.
    pub earliest_token: Option<usize>,
    /// By how much that engine preferred its own first token that differs, at most: a difference of logits.
    pub widest_gap: Option<f64>,
}

/// A live run of a validation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    /// Policy; empty in files from before this was kept, as the next three.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub policy: String,
    /// The replication.
    #[serde(default)]
    pub run: u32,
    /// Which of its repeats.
    #[serde(default)]
    pub repeat: u32,
    /// Its metrics.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<Metric, f64>,
    /// What it left beside its trace.
    #[serde(flatten)]
    pub played: Played,
}

impl Ran {
    /// A run by its policy, replication and repeat.
    pub fn new(policy: String, [run, repeat]: [u32; 2], values: &Values, played: Played) -> Self {
        let metrics = Metric::ALL.into_iter();
        let metrics = metrics.filter_map(|metric| Some((metric, values.of(metric)?)));
        Self {
            policy,
            run,
            repeat,
            metrics: metrics.collect(),
            played,
        }
    }
}

/// The result of a validation, as a file keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// Always [`Document::KIND`].
    pub kind: String,
    /// Always [`Document::VERSION`].
    pub version: u32,
    /// The scenario's file, as it was named.
    pub scenario: String,
    /// When, as people write it.
    pub date: String,
    /// On what machine.
    pub host: String,
    /// Versions of what computed.
    pub engines: String,
    /// The comparison.
    pub comparison: Comparison,
    /// Stage times of all live runs.
    pub live_stages: Vec<StageRow>,
    /// Those of their predictions.
    pub simulated_stages: Vec<StageRow>,
    /// Samples that no fit used; none where a profile was given.
    pub checks: Vec<Check>,
    /// The live runs.
    pub runs: Vec<Ran>,
}

impl Document {
    /// What the file says it is.
    pub const KIND: &str = "crossinfer live validation";
    /// Version of the form.
    pub const VERSION: u32 = 2;

    /// Reads a file; the error says what is wrong. Errors, medians and the rest must follow from the measured and
    /// predicted values beside them.
    pub fn read(text: &str) -> Result<Self, String> {
        let document: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if document.kind == Self::KIND && document.version == Self::VERSION {
            document.follows()?;
            return Ok(document);
        }
        Err(format!(
            "it is `{}` of version {}, expected `{}` of version {}",
            document.kind,
            document.version,
            Self::KIND,
            Self::VERSION
        ))
    }

    /// Whether what is told follows from the rows.
    fn follows(&self) -> Result<(), String> {
        let Comparison {
            rows,
            median,
            worst,
            inside,
            bound,
            holds,
        } = &self.comparison;
        if rows.is_empty() {
            return Err("it compares nothing: `rows` is empty".to_owned());
        }
        let mut seen = BTreeSet::new();
        for row in rows {
            let name = format!("`{}`, {}", row.policy, row.metric.label());
            if !seen.insert((&row.policy, row.metric)) {
                return Err(format!("{name} stands twice"));
            }
            row.follows().map_err(|says| format!("{name}: {says}"))?;
        }
        let found = judged(rows);
        for (key, told, value) in [("median", *median, found.0), ("worst", *worst, found.1)] {
            if !near(told, value) {
                return Err(format!("`{key}` is {told}, and of its rows it is {value}"));
            }
        }
        let within = rows.iter().filter_map(|row| {
            let (low, high) = row.interval?;
            Some((low..=high).contains(&row.measured))
        });
        let (all, of) = within.fold((0, 0), |(inside, all), one| {
            (inside + usize::from(one), all + 1)
        });
        // Files from before intervals were kept have none.
        if of > 0 && (all, of) != *inside {
            return Err(format!(
                "`inside` is {} of {}, and of its rows it is {all} of {of}",
                inside.0, inside.1
            ));
        }
        let within = found.0 <= bound.median && found.1 <= bound.worst;
        if within != *holds {
            return Err(format!(
                "`holds` is {holds}, and by its rows and `bound` it is {within}"
            ));
        }
        Ok(())
    }
}

impl Row {
    fn follows(&self) -> Result<(), String> {
        if self.measured <= 0.0 || self.predicted < 0.0 {
            return Err(format!(
                "measured {} and predicted {}: both are above 0",
                self.measured, self.predicted
            ));
        }
        let error = (self.predicted - self.measured) / self.measured;
        if !near(self.error, error) {
            return Err(format!(
                "`error` is {}, and (predicted − measured) ÷ measured is {error}",
                self.error
            ));
        }
        if let Some((low, high)) = self.interval
            && low > high
        {
            return Err(format!(
                "its interval ends ({high}) before it begins ({low})"
            ));
        }
        if let Some(causes) = self.causes {
            let sum = causes.stage_cost
                + causes.transfer
                + causes.contention
                + causes.delay
                + causes.rest;
            if !near(sum, error) {
                return Err(format!(
                    "its causes add up to {sum}, and its error is {error}"
                ));
            }
        }
        Ok(())
    }
}

/// Whether two numbers are one, as far as a file keeps it.
fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + b.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: &str = include_str!("../../live/x86-own-cores.json");

    fn changed(change: impl Fn(&mut Document)) -> String {
        let mut document = Document::read(KEPT).expect("it is read");
        change(&mut document);
        let text = serde_json::to_string(&document).expect("it is written");
        Document::read(&text).expect_err("it does not follow")
    }

    /// To see it fail, believe the file.
    #[test]
    fn what_does_not_follow_from_the_rows_is_refused() {
        fn rows(document: &mut Document) -> &mut Vec<Row> {
            &mut document.comparison.rows
        }
        for (says, found) in [
            ("above 0", changed(|of| rows(of)[3].measured = -1.0)),
            ("`error` is", changed(|of| rows(of)[3].measured *= 2.0)),
            ("`error` is", changed(|of| rows(of)[0].error = 0.5)),
            (
                "before it begins",
                changed(|of| rows(of)[0].interval = Some((5.0, 1.0))),
            ),
            (
                "causes add up",
                changed(|of| {
                    let causes = rows(of)[0].causes.get_or_insert_default();
                    causes.rest += 0.1;
                }),
            ),
            (
                "stands twice",
                changed(|of| {
                    let first = rows(of)[0].clone();
                    rows(of).push(first);
                }),
            ),
            ("compares nothing", changed(|of| rows(of).clear())),
            ("`median` is", changed(|of| of.comparison.median = 0.001)),
            ("`worst` is", changed(|of| of.comparison.worst = 0.001)),
            ("`inside` is", changed(|of| of.comparison.inside.0 -= 1)),
            ("`holds` is", changed(|of| of.comparison.holds ^= true)),
        ] {
            assert!(found.contains(says), "{says}: {found}");
        }
    }
}
