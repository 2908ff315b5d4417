//! What is predicted of live runs, before there are any.
//!
//! A prediction is the mean over many draws of the spread of stage times; arrivals and lengths are those of
//! the replication. Its interval adds what is not known of the profile: in each of [`DRAWS`] worlds every
//! number with an interval takes another value within it, while the scheduler goes on believing the profile,
//! and as many runs are simulated as will be played live. It holds the middle 95 % of those worlds.

use serde::{Deserialize, Serialize};
use sim::cost::Noise;
use sim::diag::Faults;
use sim::load::{Inputs, Numbers};
use sim::spec::scenario::Policy;
use sim::world::World;

use super::cause::simulate;
use super::{Metric, StageTimes};
use crate::published::numbers::uncertain;

/// Draws of the spread of stage times that an expected value is a mean over.
pub(crate) const NOISE_DRAWS: u32 = 64;
/// Worlds within the profile's intervals.
pub(crate) const DRAWS: u32 = 200;
/// Seed of their numbers.
const SEED: u64 = 1;

/// A value by [`Metric::ALL`]; `None`: it does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Values(pub(super) [Option<f64>; Metric::ALL.len()]);

impl Values {
    /// The value of a metric.
    pub fn of(&self, metric: Metric) -> Option<f64> {
        let at = Metric::ALL.iter().position(|other| *other == metric)?;
        self.0[at]
    }

    /// Means, each over those that have it.
    pub(super) fn mean(all: &[Self]) -> Self {
        let mut mean = Self::default();
        for (at, value) in mean.0.iter_mut().enumerate() {
            let values: Vec<f64> = all.iter().filter_map(|values| values.0[at]).collect();
            *value = (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
        }
        mean
    }
}

/// What is predicted of a metric under a policy, over all replications.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// Policy.
    pub policy: String,
    /// Metric.
    pub metric: Metric,
    /// The expected value.
    pub value: f64,
    /// Lower end of the 95 % interval of the mean of the live runs.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// Predictions as a file keeps them: written before the runs, and held against them afterwards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Predictions {
    /// Always [`Predictions::KIND`].
    pub kind: String,
    /// The scenario's file, as it was named.
    pub scenario: String,
    /// Replications.
    pub replications: u32,
    /// How often each is to be played live.
    pub repeats: u32,
    /// By policy, then metric.
    pub rows: Vec<Predicted>,
}

impl Predictions {
    /// What the file says it is.
    pub const KIND: &str = "crossinfer live predictions";

    /// Reads a file; the error says what is wrong.
    pub fn read(text: &str) -> Result<Self, String> {
        let predictions: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if predictions.kind == Self::KIND {
            return Ok(predictions);
        }
        Err(format!(
            "it is `{}`, expected `{}`",
            predictions.kind,
            Self::KIND
        ))
    }

    /// Predicts `repeats` live runs of each of the first `replications` replications under each policy.
    ///
    /// # Errors
    ///
    /// Numbers within their intervals, or policies, that contradict the files.
    pub fn of(
        inputs: &Inputs,
        policies: &[Policy],
        replications: u32,
        repeats: u32,
    ) -> Result<Self, Faults> {
        let mut rows = Vec::new();
        for policy in policies {
            let world = inputs.with_policy(policy)?;
            let expected = (0..replications).map(|run| expected(&world, run, None));
            let expected = expected.collect::<Result<Vec<_>, _>>()?;
            let expected = Values::mean(&expected);
            let drawn = drawn(inputs, policy, &world, replications, repeats)?;
            for metric in Metric::ALL {
                let mut values: Vec<f64> = drawn
                    .iter()
                    .filter_map(|values| values.of(metric))
                    .collect();
                values.sort_by(f64::total_cmp);
                let quantile = |at: f64| {
                    let last = values.len().checked_sub(1)?;
                    values.get((at * last as f64).round() as usize).copied()
                };
                if let (Some(value), Some(low), Some(high)) =
                    (expected.of(metric), quantile(0.025), quantile(0.975))
                {
                    rows.push(Predicted {
                        policy: world.policy.to_string(),
                        metric,
                        value,
                        low: low.min(value),
                        high: high.max(value),
                    });
                }
            }
        }
        Ok(Self {
            kind: Self::KIND.to_owned(),
            scenario: inputs.file(sim::load::Kind::Scenario).0.to_owned(),
            replications,
            repeats,
            rows,
        })
    }

    /// The row of a metric under a policy.
    pub fn row(&self, policy: &str, metric: Metric) -> Option<&Predicted> {
        let mut rows = self.rows.iter();
        rows.find(|row| row.policy == policy && row.metric == metric)
    }

    /// The first row in which other predictions of the same runs differ from these, in words.
    pub fn differs(&self, other: &Self) -> Option<String> {
        if (self.replications, self.repeats) != (other.replications, other.repeats) {
            return Some(format!(
                "it is of {} replications, played {} times, not of {}, played {} times",
                self.replications, self.repeats, other.replications, other.repeats
            ));
        }
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
        other.rows.iter().find_map(|row| {
            let says = |text: String| {
                Some(format!("{} under `{}` {text}", row.metric.label(), row.policy))
            };
            let Some(known) = self.row(&row.policy, row.metric) else {
                return says("is not in it".into());
            };
            let same = near(known.value, row.value)
                && near(known.low, row.low)
                && near(known.high, row.high);
            if same {
                return None;
            }
            says(format!(
                "is {:.6} ({:.6} to {:.6}) in it, and is now predicted to be {:.6} ({:.6} to {:.6})",
                known.value, known.low, known.high, row.value, row.low, row.high
            ))
        })
    }
}

/// What is expected of one replication: the mean over draws of the spread of stage times, if there is one.
///
/// # Errors
///
/// What the policy stopped a run with.
pub fn expected(
    world: &World,
    run: u32,
    mut stages: Option<&mut StageTimes<'_>>,
) -> Result<Values, Faults> {
    let mut costs = world.costs.rows.iter().flatten().flatten();
    let varies = world.noise && costs.any(|costs| costs.noise != Noise::None);
    let draws = if varies { NOISE_DRAWS } else { 1 };
    let values = (1..=draws).map(|draw| {
        let summary = simulate(world, run, draw, stages.as_deref_mut())?;
        Ok(Metric::values(&summary))
    });
    Ok(Values::mean(&values.collect::<Result<Vec<_>, Faults>>()?))
}

/// Means over the replications, each played as often as live, in worlds within the profile's intervals.
fn drawn(
    inputs: &Inputs,
    policy: &Policy,
    nominal: &World,
    replications: u32,
    repeats: u32,
) -> Result<Vec<Values>, Faults> {
    let mut all = vec![Numbers::default(); DRAWS as usize];
    for number in uncertain(nominal) {
        for (numbers, value) in all.iter_mut().zip(number.values(DRAWS, SEED)) {
            number.put(numbers, value);
        }
    }
    let beliefs = nominal.believed_costs.as_ref().unwrap_or(&nominal.costs);
    let draw = |(draw, numbers): (u32, &Numbers)| {
        let mut world = inputs.with_numbers(numbers)?.with_policy(policy)?;
        world.believed_costs = Some(beliefs.clone());
        let mut values = Vec::new();
        for run in 0..replications {
            for repeat in 0..repeats {
                // Other noise in each world: the interval is of what will happen once.
                let noise = 1 + NOISE_DRAWS + draw * repeats + repeat;
                values.push(Metric::values(&simulate(&world, run, noise, None)?));
            }
        }
        Ok(Values::mean(&values))
    };
    (0..).zip(&all).map(draw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inline::Inline;

    #[test]
    fn an_interval_holds_what_other_numbers_within_theirs_give() {
        let inputs = inputs("{ value = 0.2, low = 0.15, high = 0.25 }", 0.0);
        let policies = [inputs.world().expect("it loads").policy];
        let predictions = Predictions::of(&inputs, &policies, 1, 3).expect("it is predicted");
        let row = |metric| predictions.row("naive", metric).expect("there is one");
        let ttft = row(Metric::Ttft);
        // One query on an idle engine: 0.2 s, and the middle 95 % of 0.15 to 0.25 s.
        assert!((ttft.value - 0.2).abs() < 1e-9, "{ttft:?}");
        assert!((ttft.low - 0.1525).abs() < 2e-3, "{ttft:?}");
        assert!((ttft.high - 0.2475).abs() < 2e-3, "{ttft:?}");
        assert_eq!(predictions.differs(&predictions), None);
        let text = serde_json::to_string(&predictions).expect("it is written");
        let read = Predictions::read(&text).expect("it is read");
        assert_eq!(predictions.differs(&read), None);
        let other = text.replace(Predictions::KIND, "something else");
        assert!(Predictions::read(&other).is_err_and(|says| says.contains("something else")));
        let mut moved = predictions.clone();
        moved.rows[1].value *= 1.01;
        assert!(
            predictions
                .differs(&moved)
                .is_some_and(|says| says.contains("naive"))
        );
        moved.rows.clear();
        assert_eq!(predictions.differs(&moved), None, "fewer policies are run");
        assert!(moved.differs(&predictions).is_some());
    }

    #[test]
    fn noise_alone_is_an_interval_that_repeats_narrow() {
        let inputs = inputs("0.2", 0.3);
        let policies = [inputs.world().expect("it loads").policy];
        let width = |repeats| {
            let predictions = Predictions::of(&inputs, &policies, 1, repeats).expect("predicted");
            let row = predictions
                .row("naive", Metric::Ttft)
                .expect("there is one");
            assert!((row.value - 0.2).abs() < 0.02, "{row:?}");
            row.high - row.low
        };
        let ratio = width(1) / width(9);
        assert!(
            (2.0..4.5).contains(&ratio),
            "a third with nine times as many: {ratio}"
        );
    }

    /// One query on one idle engine; its prefill as given, its answer of one token.
    fn inputs(prefill: &str, cv: f64) -> Inputs {
        let files = Inline {
            soc: "name = 'toy'\norigin = 'o'\n[memory]\ncapacity_bytes = 1e9\nreserved_bytes = 0\nbandwidth_gbps = 10\n\
                  [cpu]\ncores = 1\n[engines.e]\nkind = 'gpu'\nport_gbps = 10\nweight = 1.0\n\
                  [lanes.e]\nengine = 'e'\n[origins.o]\nkind = 'assumed'\nnote = 'a test'\n"
                .into(),
            model: "name = 'vlm'\norigin = 'o'\nweights_bytes = 1\nkv_bytes_per_token = 1\n\
                    visual_tokens_per_frame = 1\nmax_context_tokens = 1000\n\
                    [[frame_stages]]\nname = 'ingest'\nkind = 'ingest'\n\
                    [[query_stages]]\nname = 'prefill'\nkind = 'query_prefill'\n\
                    [[query_stages]]\nname = 'decode'\nkind = 'decode'\nafter = ['prefill']\n\
                    [origins.o]\nkind = 'assumed'\nnote = 'a test'\n"
                .into(),
            costs: format!(
                "soc = 'toy'\nmodel = 'vlm'\norigin = 'o'\n[engines.e.stages]\n\
                 prefill = {{ fixed_s = {prefill}, cv = {cv:?} }}\n\
                 decode = {{ per_token_s = 0.1 }}\n\
                 [origins.o]\nkind = 'assumed'\nnote = 'a test'\n"
            ),
            files: Vec::new(),
        };
        let scenario = "title = 'one'\nsoc = 'toy'\nmodel = 'vlm'\npolicy = 'naive'\n\
             [[streams]]\nname = 'q'\nqueries = { arrivals = { times_s = [0] }, prompt_tokens = 1, output_tokens = 1 }\n";
        match files.inputs(scenario) {
            Ok(inputs) => inputs,
            Err(faults) => unreachable!("{faults}"),
        }
    }
}
