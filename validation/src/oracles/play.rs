//! The queues, simulated.

use sim::diag::Faults;
use sim::dispatch::{Effect, Input};
use sim::drive::Sink;
use sim::simulation::Simulation;
use sim::time::Instant;
use sim::world::World;

use super::Measure;

/// The measure in each of so many replications.
pub(super) fn measure(
    world: &World,
    measure: Measure,
    replications: u32,
) -> Result<Vec<f64>, Faults> {
    let mut simulation = Simulation::new(world);
    let mut values = Vec::with_capacity(replications as usize);
    for run in 0..replications {
        let mut crowd = Crowd {
            class: match measure {
                Measure::ResponseOf(tokens) => Some(tokens),
                _ => None,
            },
            warm_up: world.warm_up,
            ..Crowd::default()
        };
        let metrics = simulation.run_into(run, &mut crowd)?;
        let value = match measure {
            Measure::Wait => metrics.queueing.mean_s(),
            Measure::Response => metrics.completion.mean_s(),
            Measure::ResponseOf(_) => crowd.mean_s(),
            Measure::Number => Some(crowd.mean_numbers()[0]),
        };
        values.push(value.unwrap_or(f64::NAN));
    }
    Ok(values)
}

/// The mean number of requests in the system, counted and by rate × response, in each of so many replications.
pub(super) fn numbers(world: &World, replications: u32) -> Result<Vec<[f64; 2]>, Faults> {
    let mut simulation = Simulation::new(world);
    let mut numbers = Vec::with_capacity(replications as usize);
    for run in 0..replications {
        let mut crowd = Crowd::default();
        simulation.run_into(run, &mut crowd)?;
        numbers.push(crowd.mean_numbers());
    }
    Ok(numbers)
}

/// The number of requests in the system, integrated over time, and their responses, added up.
#[derive(Debug, Default)]
struct Crowd {
    at: Instant,
    count: u32,
    /// Request-nanoseconds by the two ways of counting.
    area: u128,
    responses: u128,
    /// Answers of so many tokens, of requests after the warm-up: nanoseconds and how many.
    class: Option<u32>,
    warm_up: Instant,
    of_class: (u128, u64),
}

impl Crowd {
    /// Mean number in the system until the last request ended: counted, and rate × mean response.
    fn mean_numbers(&self) -> [f64; 2] {
        let run = self.at.0.max(1) as f64;
        [self.area as f64 / run, self.responses as f64 / run]
    }

    /// Mean response of the class.
    fn mean_s(&self) -> Option<f64> {
        let (nanoseconds, count) = self.of_class;
        (count > 0).then(|| nanoseconds as f64 * 1e-9 / count as f64)
    }

    fn changes(&mut self, now: Instant, by: i32) {
        self.area += u128::from(self.count) * u128::from(now.saturating_since(self.at).0);
        self.at = now;
        self.count = self.count.saturating_add_signed(by);
    }
}

impl Sink for Crowd {
    fn input(&mut self, now: Instant, input: &Input) {
        if matches!(input, Input::Query { .. }) {
            self.changes(now, 1);
        }
    }

    fn effect(&mut self, now: Instant, effect: &Effect) {
        let ended = match effect {
            Effect::Complete(done) => {
                if Some(done.output) == self.class && done.arrived >= self.warm_up {
                    self.of_class.0 += u128::from(now.saturating_since(done.arrived).0);
                    self.of_class.1 += 1;
                }
                done.arrived
            }
            Effect::Refuse {
                query: true,
                arrived,
                ..
            } => *arrived,
            _ => return,
        };
        self.changes(now, -1);
        self.responses += u128::from(now.saturating_since(ended).0);
    }
}
