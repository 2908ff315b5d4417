//! The queues as worlds.

use std::fmt::Write as _;

use super::theory::{
    Moments, closed_response, erlang_wait, pollaczek_khinchine, processor_sharing,
};
use super::{Measure, Oracle};
use crate::inline::Inline;

/// Mean answer, tokens: the step of a service time is this part of its mean.
const TOKENS: u32 = 1000;
/// Mean service time alone, s.
const SERVICE_S: f64 = 1.0;
/// Streaming rate of the SoC, bytes/s.
const PORT: f64 = 1e9;

/// Every oracle, at the utilisations at which they are tested.
pub fn all() -> Vec<Oracle> {
    let mut list = Vec::new();
    for utilisation in [0.5, 0.8] {
        list.push(m_m_1(utilisation));
        list.push(m_d_1(utilisation));
        list.push(m_g_1(utilisation));
        list.push(m_m_c(2, utilisation));
    }
    list.push(m_m_c(4, 0.8));
    list.extend(CLASSES.map(|tokens| m_g_1_ps_class(tokens, 0.5)));
    list.push(closed(5, 4.0));
    list.push(closed_two(5, 4.0, 1.5));
    list.push(little(0.8));
    list
}

/// Exponential gaps and services, one lane. (The answer's length is geometric, whose second moment is
/// 1 part in 2000 less than the exponential's.)
pub fn m_m_1(utilisation: f64) -> Oracle {
    let rate = utilisation / SERVICE_S;
    Oracle {
        name: format!("M/M/1 wait, utilisation {utilisation}"),
        source: "Pollaczek 1930, Khinchine 1932",
        theory: pollaczek_khinchine(rate, Moments::exponential(SERVICE_S)),
        world: Bench::open(rate, Answers::Exponential).world(),
        measure: Measure::Wait,
    }
}

/// Constant services.
pub fn m_d_1(utilisation: f64) -> Oracle {
    let rate = utilisation / SERVICE_S;
    Oracle {
        name: format!("M/D/1 wait, utilisation {utilisation}"),
        source: "Pollaczek 1930, Khinchine 1932",
        theory: pollaczek_khinchine(rate, Moments::constant(SERVICE_S)),
        world: Bench::open(rate, Answers::Constant).world(),
        measure: Measure::Wait,
    }
}

/// Services of high variance: four short ones to one long one.
pub fn m_g_1(utilisation: f64) -> Oracle {
    let rate = utilisation / SERVICE_S;
    let seconds = MIXED.map(|tokens| f64::from(tokens) / f64::from(TOKENS) * SERVICE_S);
    Oracle {
        name: format!("M/G/1 wait, utilisation {utilisation}"),
        source: "Pollaczek 1930, Khinchine 1932",
        theory: pollaczek_khinchine(rate, Moments::listed(&seconds)),
        world: Bench::open(rate, Answers::Mixed).world(),
        measure: Measure::Wait,
    }
}

/// Interchangeable lanes behind one queue, which the policy `idle_first` keeps in order.
pub fn m_m_c(lanes: u32, utilisation: f64) -> Oracle {
    let rate = f64::from(lanes) * utilisation / SERVICE_S;
    let bench = Bench {
        lanes,
        ..Bench::open(rate, Answers::Exponential)
    };
    Oracle {
        name: format!("M/M/{lanes} wait, utilisation {utilisation}"),
        source: "Erlang 1917",
        theory: erlang_wait(rate, SERVICE_S, lanes),
        world: bench.world(),
        measure: Measure::Wait,
    }
}

/// One class of a queue whose lanes share the bandwidth: n requests at once take n times as long each,
/// so a request of `tokens` is slowed by the same factor as any other, whatever their distribution.
/// Sixteen lanes, so that hardly a request in 10⁵ waits for one at utilisation 0.5.
pub fn m_g_1_ps_class(tokens: u32, utilisation: f64) -> Oracle {
    let rate = utilisation / SERVICE_S;
    let own = f64::from(tokens) / f64::from(TOKENS) * SERVICE_S;
    Oracle {
        name: format!("M/G/1-PS response of {tokens} tokens, utilisation {utilisation}"),
        source: "Kleinrock 1967; Sakata, Noguchi, Oizumi 1971",
        theory: processor_sharing(rate, SERVICE_S, own),
        world: shared(rate).world(),
        measure: Measure::ResponseOf(tokens),
    }
}

fn shared(rate: f64) -> Bench {
    Bench {
        lanes: 16,
        shared: true,
        // Many lanes are slow to play, and the shorter relaxation at 0.5 needs less.
        horizon_s: 8_000.0,
        ..Bench::open(rate, Answers::Mixed)
    }
}

/// Users who think and ask again, one lane.
pub fn closed(users: u32, think_s: f64) -> Oracle {
    let bench = Bench::closed(users, think_s);
    Oracle {
        name: format!("closed, {users} users who think {think_s} s, response"),
        source: "Reiser, Lavenberg 1980",
        theory: closed_response(users, think_s, &[SERVICE_S]),
        world: bench.world(),
        measure: Measure::Response,
    }
}

/// Users who think, visit a station of mean service `first_s` on an engine of its own, then the lane
/// that answers.
pub fn closed_two(users: u32, think_s: f64, first_s: f64) -> Oracle {
    let bench = Bench {
        first_s: Some(first_s),
        ..Bench::closed(users, think_s)
    };
    Oracle {
        name: format!("closed, two stations, {users} users who think {think_s} s, response"),
        source: "Reiser, Lavenberg 1980",
        theory: closed_response(users, think_s, &[first_s, SERVICE_S]),
        world: bench.world(),
        measure: Measure::Response,
    }
}

/// The number in the system over time against rate × response, both from the trace: equal on every
/// path.
pub fn little(utilisation: f64) -> Oracle {
    Oracle {
        name: format!("Little's law, utilisation {utilisation}"),
        source: "Little 1961",
        theory: f64::NAN,
        world: Bench::open(utilisation / SERVICE_S, Answers::Mixed).world(),
        measure: Measure::Number,
    }
}

/// Lengths of mean [`TOKENS`]: squared coefficient of variation 2.25.
const MIXED: [u32; 5] = [250, 250, 250, 250, 4000];
/// The two lengths among them.
const CLASSES: [u32; 2] = [250, 4000];
/// Values that stand for an exponential time: the middle quantile of each of so many equal parts.
const QUANTILES: u32 = 2000;

#[derive(Clone, Copy, Debug)]
enum Answers {
    Exponential,
    Constant,
    Mixed,
}

/// Parameters of a queue.
#[derive(Clone, Debug)]
struct Bench {
    arrivals: String,
    answers: Answers,
    lanes: u32,
    /// Whether lanes share the bandwidth, else they do not slow each other.
    shared: bool,
    /// End of the arrivals, s.
    horizon_s: f64,
    /// Mean service of a station that requests visit before the lane that answers.
    first_s: Option<f64>,
}

impl Bench {
    fn open(rate: f64, answers: Answers) -> Self {
        Self {
            arrivals: format!("poisson = {{ rate_hz = {rate:?} }}"),
            answers,
            lanes: 1,
            shared: false,
            horizon_s: 20_000.0,
            first_s: None,
        }
    }

    fn closed(users: u32, think_s: f64) -> Self {
        Self {
            arrivals: format!(
                "closed_loop = {{ users = {users}, think_s = {think_s:?}, exponential = true }}"
            ),
            ..Self::open(1.0, Answers::Exponential)
        }
    }

    fn world(&self) -> sim::world::World {
        let step = SERVICE_S / f64::from(TOKENS);
        // Alone, a stage streams at the port's rate all the time.
        let bytes = step * PORT;
        let mut lanes = String::new();
        for lane in 0..self.lanes {
            _ = write!(lanes, "[lanes.l{lane}]\nengine = 'e'\n");
        }
        let first = self.first();
        let soc = format!(
            "name = 'queue'\norigin = 'o'\n[memory]\ncapacity_bytes = 1e9\nreserved_bytes = 0\n\
             bandwidth_gbps = {gbps:?}\n[cpu]\ncores = 1\n\
             [engines.e]\nkind = 'gpu'\nport_gbps = {gbps:?}\nweight = 1.0\n{lanes}{}\
             [origins.o]\nkind = 'assumed'\nnote = 'a closed form'\n",
            first.soc,
            gbps = PORT / 1e9,
        );
        let model = format!(
            "name = 'queue'\norigin = 'o'\nweights_bytes = 1\nkv_bytes_per_token = 1\n\
             visual_tokens_per_frame = 1\nmax_context_tokens = 1000000\n\
             [[frame_stages]]\nname = 'ingest'\nkind = 'ingest'\n\
             {}[[query_stages]]\nname = 'prefill'\nkind = 'query_prefill'\n{}\
             [[query_stages]]\nname = 'decode'\nkind = 'decode'\nafter = ['prefill']\n\
             [origins.o]\nkind = 'assumed'\nnote = 'a closed form'\n",
            first.stage, first.after,
        );
        let costs = format!(
            "soc = 'toy'\nmodel = 'vlm'\norigin = 'o'\n[engines.e.stages]\n\
             prefill = {{ per_token_s = {step:?}, bytes_per_token = {bytes:?} }}\n\
             decode = {{ per_token_s = {step:?}, bytes_per_token = {bytes:?} }}\n{}\
             [origins.o]\nkind = 'assumed'\nnote = 'a closed form'\n",
            first.costs,
        );
        let answers = match self.answers {
            // The longest answer is one in 10¹⁷.
            Answers::Exponential => format!(
                "{{ geometric = {{ mean = {TOKENS}.0 }} }}, max_output_tokens = {}",
                40 * TOKENS
            ),
            Answers::Constant => TOKENS.to_string(),
            Answers::Mixed => format!("{{ empirical = {{ tokens = {MIXED:?} }} }}"),
        };
        let contention = if self.shared { "water_filling" } else { "none" };
        // The warm-up is several times the longest relaxation, 90 s for M/M/1 at 0.8.
        let scenario = format!(
            "title = 'queue'\nsoc = 'toy'\nmodel = 'vlm'\npolicy = 'idle_first'\n\
             contention = '{contention}'\n{}[run]\nhorizon_s = {:?}\nwarm_up_s = 500.0\n\
             [[streams]]\nname = 'q'\n\
             queries = {{ arrivals = {{ {} }}, prompt_tokens = 1, output_tokens = {answers} }}\n",
            first.placement, self.horizon_s, self.arrivals,
        );
        let files = Inline {
            soc,
            model,
            costs,
            files: Vec::new(),
        };
        match files.world(&scenario) {
            Ok(world) => world,
            Err(faults) => unreachable!("a queue is a good scenario: {faults}"),
        }
    }
    /// What a first station adds to the files.
    fn first(&self) -> First {
        let Some(mean) = self.first_s else {
            return First::default();
        };
        let middle = |part: u32| (f64::from(part) + 0.5) / f64::from(QUANTILES);
        let samples: Vec<f64> = (0..QUANTILES)
            .map(|part| -mean * (1.0 - middle(part)).ln())
            .collect();
        First {
            soc: format!(
                "[engines.f]\nkind = 'npu'\nport_gbps = {:?}\nweight = 1.0\n[lanes.f]\nengine = 'f'\n",
                PORT / 1e9
            ),
            stage: "[[query_stages]]\nname = 'first'\nkind = 'custom'\n".to_owned(),
            after: "after = ['first']\n".to_owned(),
            costs: format!(
                "[engines.f.stages.first]\nfixed_s = {mean:?}\nbytes = 0\nsamples_s = {samples:?}\n"
            ),
            placement: "placement = { first = 'f' }\n".to_owned(),
        }
    }
}

/// What a first station adds to the files.
#[derive(Debug, Default)]
struct First {
    soc: String,
    stage: String,
    after: String,
    costs: String,
    placement: String,
}
