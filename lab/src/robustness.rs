//! How policies fare when what they believe is wrong: stage costs, and lengths of answers.
//!
//! The truth stays; beliefs change. Every disturbed run meets the arrivals, lengths and spreads of the
//! undisturbed one, so that differences are pairs.

use std::collections::BTreeMap;

use rayon::prelude::*;
use reports::interval::Replicated;
use reports::json::verdict_name;
use reports::metric::COMPLETION;
use reports::number;
use screen::{Head, Table, paragraph};
use serde_json::{Value, json};
use sim::cost::{Cost, CostTable, Time};
use sim::diag::Faults;
use sim::dispatch::{Effect, Input};
use sim::drive::Sink;
use sim::metrics::LoadVerdict;
use sim::rng::mix;
use sim::simulation::Simulation;
use sim::spec::scenario::LengthPrediction;
use sim::time::Duration;
use sim::world::World;

/// What is wrong with a policy's beliefs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Disturbance {
    /// Each stage of each engine is believed to cost this factor more, or as much less, at even chance; other
    /// ones in every replication.
    Costs(f64),
    /// Lengths are predicted so that of two requests the longer is known with this probability, above 0.5 and
    /// below 1.
    Lengths(f64),
    /// Nothing is known of a single length but the mean.
    MeanLengths,
    /// Every length is known.
    ExactLengths,
    /// Queues are seen as they were so many seconds ago.
    Queues(f64),
}

impl Disturbance {
    /// What is tried, the mildest first of each kind.
    pub const ALL: [Self; 9] = [
        Self::Costs(1.25),
        Self::Costs(1.5),
        Self::Costs(2.0),
        Self::ExactLengths,
        Self::Lengths(0.9),
        Self::Lengths(0.75),
        Self::MeanLengths,
        Self::Queues(1.0),
        Self::Queues(10.0),
    ];

    /// As the head of a column.
    fn short(self) -> String {
        match self {
            Self::Costs(factor) => format!("cost×{factor}"),
            Self::Lengths(accuracy) => format!("len.{:.0}%", 100.0 * accuracy),
            Self::MeanLengths => "len.mean".into(),
            Self::ExactLengths => "len.exact".into(),
            Self::Queues(secs) => format!("queue-{secs}s"),
        }
    }

    /// In words.
    pub fn name(self) -> String {
        match self {
            Self::Costs(factor) => format!("costs ×÷{factor}"),
            Self::Lengths(accuracy) => format!("lengths {:.0} %", 100.0 * accuracy),
            Self::MeanLengths => "lengths mean".into(),
            Self::ExactLengths => "lengths exact".into(),
            Self::Queues(secs) => format!("queues {secs} s old"),
        }
    }
}

/// A policy under one disturbance.
#[derive(Clone, Debug, PartialEq)]
pub struct Disturbed {
    /// What is wrong.
    pub by: Disturbance,
    /// Its replications.
    pub runs: Replicated,
    /// Of two requests of different length, how often the longer was predicted to be; `None`: lengths do not
    /// differ.
    pub rank_accuracy: Option<f64>,
}

/// Each world under each disturbance, on the threads of the current pool.
///
/// # Errors
///
/// What a policy stopped a run with.
pub fn disturb(
    worlds: &mut [World],
    disturbances: &[Disturbance],
) -> Result<Vec<Vec<Disturbed>>, Faults> {
    let all: Vec<_> = worlds
        .par_iter_mut()
        .map(|world| disturbances.iter().map(|&by| one(world, by)).collect())
        .collect();
    all.into_iter().collect()
}

fn one(world: &mut World, by: Disturbance) -> Result<Disturbed, Faults> {
    let prediction = world.prediction;
    match by {
        Disturbance::Costs(_) => {}
        Disturbance::Queues(secs) => world.queue_delay = Duration::from_secs_f64(secs),
        Disturbance::MeanLengths => world.prediction = LengthPrediction::Mean,
        Disturbance::ExactLengths => world.prediction = LengthPrediction::Exact,
        Disturbance::Lengths(accuracy) => world.prediction = noisy(world, accuracy)?,
    }
    let believed = world.believed_costs.take();
    let mut runs = Replicated::default();
    let mut ranks = Ranks::default();
    for run in 0..world.replications {
        let base = believed.as_ref().unwrap_or(&world.costs);
        world.believed_costs = match by {
            Disturbance::Costs(factor) => Some(scaled(base, factor, run)),
            _ => believed.clone(),
        };
        let mut simulation = Simulation::new(world);
        ranks.open.clear();
        simulation.run_into(run, &mut ranks)?;
        runs.summaries.push(simulation.summary());
    }
    world.believed_costs = believed;
    world.prediction = prediction;
    world.queue_delay = Duration(0);
    Ok(Disturbed {
        by,
        runs,
        rank_accuracy: ranks.accuracy(),
    })
}

/// The changes of mean completion times, paired, as lines; `*` where the change is shown by its interval.
pub fn text(undisturbed: &[(String, Replicated)], disturbed: &[Vec<Disturbed>]) -> String {
    let names = disturbed.first().into_iter().flatten();
    let names = names.map(|one| Head::number(format!("{} ", one.by.short())));
    let mut rows = Table::new(std::iter::once(Head::text("completion, %")).chain(names));
    for ((name, runs), row) in undisturbed.iter().zip(disturbed) {
        let cells = row.iter().map(|one| cell(runs, &one.runs));
        rows.row(std::iter::once(name.clone()).chain(cells));
    }
    let mut out = format!("\n{rows}");
    paragraph(
        &mut out,
        "Change of the mean time to the last token where beliefs are wrong, to the row's own: cost×: each \
         engine's stages believed that factor too dear or too cheap; len.: lengths predicted exactly, or so \
         that of two the longer is known that often, or by their mean alone; queue-: queues as they were so \
         many seconds ago. * its 95 % interval excludes 0. grows, 4/6 grow: so of its replications, which \
         have no steady mean then. –: the row's own has none.",
    );
    out
}

/// A change of the mean completion; what stands for it where there is no steady one.
fn cell(own: &Replicated, disturbed: &Replicated) -> String {
    if let Some(unsteady) = unsteady(disturbed) {
        return format!("{unsteady} ");
    }
    match change(own, disturbed) {
        None => format!("{} ", number::ABSENT),
        Some((percent, shown)) => format!("{}{}", signed(percent), if shown { "*" } else { " " }),
    }
}

/// What stands for a mean where there is no steady one. Each replication draws beliefs of its own, so one that grows is
/// another system and no exception: not even one of many is averaged.
fn unsteady(disturbed: &Replicated) -> Option<String> {
    disturbed.unsteady().or_else(|| {
        let growing = disturbed.verdicts(LoadVerdict::Saturated);
        (growing > 0).then(|| format!("{growing}/{} grow", disturbed.count()))
    })
}

/// A change in percent to a tenth, where it is large in fewer digits.
fn signed(percent: f64) -> String {
    if percent.abs() < 1e4 {
        format!("{percent:+.1}")
    } else {
        format!("+{}", number::short(percent))
    }
}

/// Change of the mean completion, %, and whether its interval excludes 0; `None` without a steady value.
fn change(own: &Replicated, disturbed: &Replicated) -> Option<(f64, bool)> {
    if !own.steady() || unsteady(disturbed).is_some() {
        return None;
    }
    let base = own.estimate(COMPLETION.get)?.mean;
    let difference = disturbed.difference(own, COMPLETION.get)?;
    let shown = difference.excludes_zero() == Some(true);
    (base > 0.0).then(|| (100.0 * difference.mean / base, shown))
}

/// As a part of `compare.json`.
pub fn json(undisturbed: &[(String, Replicated)], disturbed: &[Vec<Disturbed>]) -> Value {
    let rows = undisturbed
        .iter()
        .zip(disturbed)
        .map(|((policy, runs), row)| {
            let row = row.iter().map(|one| {
                let steady = unsteady(&one.runs).is_none();
                // As in the table: of what grows there is a mean of this run, and no difference.
                let difference = one.runs.difference(runs, COMPLETION.get);
                let difference = difference.filter(|_| steady && runs.steady());
                json!({
                    "by": one.by.name(),
                    "rank_accuracy": one.rank_accuracy,
                    "completion_s.mean": one.runs.estimate(COMPLETION.get).map(|e| e.mean),
                    "difference": difference.map(|e| e.mean),
                    "ci95": difference.and_then(|e| e.half_width),
                    "steady": steady,
                    "verdict": verdict_name(one.runs.verdict()),
                    "saturated_replications": one.runs.verdicts(LoadVerdict::Saturated),
                })
            });
            json!({ "policy": policy, "disturbed": row.collect::<Vec<_>>() })
        });
    rows.collect()
}

/// Costs, each engine's stage by the factor or its inverse.
fn scaled(costs: &CostTable, factor: f64, draw: u32) -> CostTable {
    let mut table = costs.clone();
    for (engine, row) in table.rows.iter_mut().enumerate() {
        for (stage, costs) in row.iter_mut().enumerate() {
            let Some(costs) = costs else { continue };
            let coin = mix(mix(u64::from(draw) << 32
                | (engine as u64) << 8
                | stage as u64));
            let by = if coin >> 63 == 0 {
                factor
            } else {
                1.0 / factor
            };
            scale(&mut costs.alone, by);
        }
    }
    table
}

fn scale(cost: &mut Cost, by: f64) {
    match &mut cost.time {
        Time::Linear {
            fixed,
            per_token,
            per_token_context,
        } => {
            *fixed *= by;
            *per_token *= by;
            *per_token_context *= by;
        }
        Time::Table {
            secs,
            per_token_context,
            ..
        } => {
            for secs in secs {
                *secs *= by;
            }
            *per_token_context *= by;
        }
        Time::Transfer { fixed, bytes_per_s } => {
            *fixed *= by;
            *bytes_per_s /= by;
        }
    }
}

/// The noise of predictions whose measured rank accuracy is nearest to the one asked for.
fn noisy(world: &mut World, accuracy: f64) -> Result<LengthPrediction, Faults> {
    let (mut low, mut high) = (0.001_f64, 50.0_f64);
    for _ in 0..14 {
        // More noise, less accuracy; half way on a logarithmic scale.
        let middle = (low * high).sqrt();
        world.prediction = LengthPrediction::Noisy { cv: middle };
        let mut ranks = Ranks::default();
        Simulation::new(world).run_into(0, &mut ranks)?;
        match ranks.accuracy() {
            Some(found) if found > accuracy => low = middle,
            Some(_) => high = middle,
            None => break,
        }
    }
    Ok(LengthPrediction::Noisy {
        cv: (low * high).sqrt(),
    })
}

/// Predicted and true lengths of answered requests.
#[derive(Debug, Default)]
struct Ranks {
    open: BTreeMap<u32, u32>,
    pairs: Vec<(u32, u32)>,
}

/// Most requests that are compared, each with each.
const RANKED_MAX: usize = 1000;

impl Ranks {
    fn accuracy(&self) -> Option<f64> {
        let (mut right, mut all) = (0.0, 0.0);
        for (at, a) in self.pairs.iter().enumerate() {
            for b in &self.pairs[..at] {
                if a.1 != b.1 {
                    all += 1.0;
                    // Equal predictions are a coin's toss.
                    right += match (a.0.cmp(&b.0), a.1.cmp(&b.1)) {
                        (std::cmp::Ordering::Equal, _) => 0.5,
                        (predicted, real) => f64::from(u8::from(predicted == real)),
                    };
                }
            }
        }
        (all > 0.0).then(|| right / all)
    }
}

impl Sink for Ranks {
    fn input(&mut self, _: sim::time::Instant, input: &Input) {
        if let Input::Query {
            ticket, predicted, ..
        } = input
        {
            self.open.insert(*ticket, *predicted);
        }
    }

    fn effect(&mut self, _: sim::time::Instant, effect: &Effect) {
        if let Effect::Complete(done) = effect
            && self.pairs.len() < RANKED_MAX
            && let Some(predicted) = self.open.remove(&done.ticket)
        {
            self.pairs.push((predicted, done.output));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::metrics::{Latency, Summary};

    /// Replications with these mean completions, s, of which the last so many grow.
    fn runs(means: [f64; 6], growing: usize) -> Replicated {
        let one = |(at, mean): (usize, &f64)| Summary {
            completion_s: Latency {
                mean: Some(*mean),
                ..Latency::default()
            },
            load: if at + growing >= means.len() {
                LoadVerdict::Saturated
            } else {
                LoadVerdict::Steady
            },
            ..Summary::default()
        };
        Replicated {
            summaries: means.iter().enumerate().map(one).collect(),
        }
    }

    const OWN: [f64; 6] = [1.0, 1.4, 0.9, 1.1, 1.3, 0.9];
    const WORSE: [f64; 6] = [1.2, 1.5, 1.3, 1.2, 1.5, 1.2];

    #[test]
    fn what_grows_has_no_change() {
        let own = runs(OWN, 0);
        let text = |growing| cell(&own, &runs(WORSE, growing));
        // Means of 1.1 and 1.31667; the differences are 0.1 to 0.4.
        assert_eq!([0, 1].map(text), ["+19.7*", "1/6 grow "]);
        assert_eq!([2, 4].map(text), ["2/6 grow ", "4/6 grow "]);
        assert_eq!([5, 6].map(text), ["grows ", "grows "]);
        // Without a steady value of its own there is nothing that it would be the change of.
        assert_eq!(cell(&runs(OWN, 3), &runs(WORSE, 0)), "– ");
        assert_eq!(cell(&runs(OWN, 6), &runs(WORSE, 6)), "grows ");
        assert_eq!(signed(1e302), "+1.00e302");
    }

    #[test]
    fn the_document_says_how_many_grow() {
        let of = |growing| {
            let disturbed = Disturbed {
                by: Disturbance::Costs(1.5),
                runs: runs(WORSE, growing),
                rank_accuracy: None,
            };
            let own = [("serial".to_owned(), runs(OWN, 0))];
            json(&own, &[vec![disturbed]])[0]["disturbed"][0].clone()
        };
        let (level, open) = (of(0), of(4));
        assert_eq!(level["steady"], true);
        assert!(
            level["difference"]
                .as_f64()
                .is_some_and(|x| (x - 0.21667).abs() < 1e-4)
        );
        assert_eq!(open["steady"], false);
        assert_eq!(open["verdict"], "near");
        assert_eq!(open["saturated_replications"], 4);
        assert_eq!(open["difference"], Value::Null);
        assert_eq!(open["ci95"], Value::Null);
    }
}
