//! Analytic oracles: queues whose mean is known in closed form, built as worlds and simulated.
//!
//! A request's service is its prefill of one token and its decode of the rest, at the same time a token:
//! the number of tokens times that. So the service time has the distribution of the answer's length,
//! in steps of a thousandth of its mean, and contention, memory and contexts play no part unless the
//! oracle says so.
//!
//! | oracle | mean | from |
//! | --- | --- | --- |
//! | M/M/1, M/D/1, M/G/1 | wait λE\[S²\]/2(1−ρ) | Pollaczek 1930, Khinchine 1932 |
//! | M/M/2, M/M/4 | wait C(c, λ/μ)/(cμ−λ) | Erlang 1917 |
//! | M/G/1-PS, two classes | response S/(1−ρ) of a request of length S, whatever the distribution | Kleinrock 1967; Sakata, Noguchi, Oizumi 1971 |
//! | closed, one and two stations | response by exact mean value analysis | Reiser, Lavenberg 1980 |
//! | Little | requests in the system = rate × response, on every path | Little 1961 |
//!
//! The mean of independent replications is compared through its interval at 99 %: of a hundred seeds
//! one is expected to fall outside. The seeds here are fixed, and none does.

mod play;
mod theory;
mod worlds;

use sim::diag::Faults;
use sim::world::World;
use statrs::distribution::{ContinuousCDF, StudentsT};

pub use worlds::{all, closed, closed_two, little, m_d_1, m_g_1, m_g_1_ps_class, m_m_1, m_m_c};

/// A queue with its closed form.
#[derive(Debug)]
pub struct Oracle {
    /// Name, with its parameters.
    pub name: String,
    /// Who gave the closed form.
    pub source: &'static str,
    /// What the closed form says, s; of Little's law each run says it: rate × response.
    pub theory: f64,
    world: World,
    measure: Measure,
}

/// What of a run is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    /// Mean time from arrival to the first stage.
    Wait,
    /// Mean time from arrival to the last token.
    Response,
    /// The same of the answers of one length, tokens.
    ResponseOf(u32),
    /// Mean number in the system, which is held against rate × response of the same runs.
    Number,
}

/// A closed form against its simulation.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Outcome {
    /// Name of the oracle.
    pub name: String,
    /// Who gave the closed form.
    pub source: &'static str,
    /// What the closed form says; of Little's law, rate × mean response: requests.
    pub theory: f64,
    /// Mean of the replications; of Little's law, the mean number in the system of that which is furthest off.
    pub mean: f64,
    /// Half the width of the 99 % interval of the mean (Student's t).
    pub half_width_99: f64,
    /// Independent replications.
    pub replications: u32,
    /// Whether the theory lies within the interval.
    pub inside: bool,
}

impl Oracle {
    /// Simulates so many independent replications, at least two, and compares.
    ///
    /// # Panics
    ///
    /// With fewer than two replications, which have no interval.
    pub fn check(&self, replications: u32) -> Outcome {
        assert!(replications >= 2, "an interval needs two replications");
        if self.measure == Measure::Number {
            let found = furthest(&self.name, &self.world, replications);
            return found.expect("built-in policies stop no run");
        }
        let values = play::measure(&self.world, self.measure, replications);
        let values = values.expect("built-in policies stop no run");
        let count = f64::from(replications);
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let half_width = quantile_995(count - 1.0) * (variance / count).sqrt();
        Outcome {
            name: self.name.clone(),
            source: self.source,
            theory: self.theory,
            mean,
            half_width_99: half_width,
            replications,
            inside: (mean - self.theory).abs() <= half_width,
        }
    }
}

/// Little's law on a scenario: the number of requests in the system, integrated over the run, against
/// the time that each spent in it. They are equal on every path, whatever happens on it.
///
/// # Errors
///
/// What the policy stopped a run with.
pub fn little_on(name: &str, world: &World) -> Result<Outcome, Faults> {
    furthest(
        &format!("Little's law, {name}"),
        world,
        world.replications.max(1),
    )
}

/// Of so many replications the one in which the two ways of counting are furthest apart: a law of every path has no
/// spread but rounding.
fn furthest(name: &str, world: &World, replications: u32) -> Result<Outcome, Faults> {
    let all = play::numbers(world, replications)?;
    let gap =
        |[counted, by_rate]: &[f64; 2]| (counted - by_rate).abs() / counted.max(f64::MIN_POSITIVE);
    let furthest = all.iter().max_by(|a, b| gap(a).total_cmp(&gap(b)));
    let [counted, by_rate] = furthest.copied().unwrap_or_default();
    let room = ROUNDING * counted;
    Ok(Outcome {
        name: name.to_owned(),
        source: "Little 1961",
        theory: by_rate,
        mean: counted,
        half_width_99: room,
        replications,
        inside: (counted - by_rate).abs() <= room,
    })
}

/// What rounding may leave of a law that holds on every path, as a part of the number.
const ROUNDING: f64 = 1e-9;

/// The 99.5 % quantile of Student's t.
fn quantile_995(freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(0.995))
}
