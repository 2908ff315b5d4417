//! Metrics folded as the run goes, against the same metrics worked out from the recorded trace.

use std::collections::BTreeMap;

use proptest::prelude::*;
use sim::dispatch::{Completion, Effect, Input, Preparation};
use sim::metrics::Summary;
use sim::simulation::Simulation;
use sim::time::Instant;
use sim::trace::{Record, Recorder};
use sim::workload::{QueryPlan, QueryTimes};
use sim::world::World;

use crate::config;
use crate::scenario::scenario;

/// What the trace says, looked up rather than streamed.
struct Offline<'t> {
    world: &'t World,
    records: &'t [(Instant, Record)],
    answers: Vec<(Instant, &'t Completion)>,
}

impl<'t> Offline<'t> {
    fn new(world: &'t World, trace: &'t Recorder) -> Self {
        let answers = trace
            .records
            .iter()
            .filter_map(|(at, record)| match record {
                Record::Effect(Effect::Complete(done)) if done.arrived >= world.warm_up => {
                    Some((*at, done))
                }
                _ => None,
            });
        Self {
            world,
            records: &trace.records,
            answers: answers.collect(),
        }
    }

    fn inputs(&self) -> impl Iterator<Item = (Instant, &Input)> {
        self.records.iter().filter_map(|(at, record)| match record {
            Record::Input(input) => Some((*at, input)),
            Record::Effect(_) => None,
        })
    }

    fn effects(&self) -> impl Iterator<Item = (Instant, &Effect)> {
        self.records.iter().filter_map(|(at, record)| match record {
            Record::Effect(effect) => Some((*at, effect)),
            Record::Input(_) => None,
        })
    }

    fn ns(&self, of: impl Fn(Instant, &Completion) -> Option<u64>) -> Vec<u64> {
        let values = self.answers.iter().filter_map(|&(at, done)| of(at, done));
        values.collect()
    }

    /// Lane, stage, start and end of every task, and its bytes and nJ.
    fn tasks(&self) -> Vec<(usize, usize, u64, u64, u64, u64)> {
        let mut running = BTreeMap::new();
        let mut tasks = Vec::new();
        for (at, record) in self.records {
            match *record {
                Record::Effect(Effect::Start { lane, task }) => {
                    running.insert(lane.0, (task.stage.0, at.0));
                }
                Record::Input(Input::Finish {
                    lane,
                    bytes,
                    nanojoules,
                    ..
                }) => {
                    let (stage, since) = running.remove(&lane.0).expect("was started");
                    tasks.push((lane.0.into(), stage.into(), since, at.0, bytes, nanojoules));
                }
                _ => {}
            }
        }
        tasks
    }

    /// Arrival to publication of each frame that arrived after the warm-up: frames of a stream are
    /// published in order, so the n-th published is the n-th accepted.
    fn publication(&self) -> Vec<u64> {
        let refused: Vec<_> = self
            .effects()
            .filter_map(|(_, effect)| match *effect {
                Effect::Refuse {
                    stream,
                    index,
                    query: false,
                    ..
                } => Some((stream, index)),
                _ => None,
            })
            .collect();
        let mut times = Vec::new();
        for stream in 0..self.world.streams.len() {
            let arrived = self.inputs().filter_map(|(at, input)| match *input {
                Input::Frame {
                    stream: s, index, ..
                } if s.0 as usize == stream && !refused.contains(&(s, index)) => Some(at),
                _ => None,
            });
            let published = self.effects().filter_map(|(at, effect)| match *effect {
                Effect::Publish {
                    stream: s,
                    ticket: Some(_),
                    ..
                } if s.0 as usize == stream => Some(at),
                _ => None,
            });
            let pairs = arrived.zip(published);
            times.extend(
                pairs
                    .filter(|(arrived, _)| *arrived >= self.world.warm_up)
                    .map(|(arrived, published)| published.0 - arrived.0),
            );
        }
        times
    }
}

fn near(what: &str, got: impl Into<Option<f64>>, want: f64) {
    let got = got.into().unwrap_or(f64::NAN);
    let tolerance = 1e-9 * want.abs().max(1e-6);
    assert!(
        (got - want).abs() <= tolerance,
        "{what}: {got} as streamed, {want} from the trace"
    );
}

fn latency(what: &str, got: sim::metrics::Latency, mut want: Vec<u64>) {
    want.sort_unstable();
    assert_eq!(got.count, want.len() as u64, "{what}");
    let Some(&max) = want.last() else {
        assert_eq!(got.mean, None, "{what}");
        return;
    };
    let secs = |ns: f64| ns / 1e9;
    let sum: u64 = want.iter().sum();
    near(what, got.mean, secs(sum as f64 / want.len() as f64));
    near(what, got.max, secs(max as f64));
    for (got, q) in [(got.p50, 0.5), (got.p95, 0.95), (got.p99, 0.99)] {
        // Nearest rank, by counting: the least value that at least a share q does not exceed.
        let rank = want.iter().position(|&value| {
            let below = want.iter().filter(|&&other| other <= value).count();
            below as f64 >= q * want.len() as f64
        });
        near(what, got, secs(want[rank.expect("is there")] as f64));
    }
}

fn compare(world: &World, trace: &Recorder, summary: &Summary) {
    let offline = Offline::new(world, trace);
    let times = offline.ns(|_, done| Some(done.first_token.0 - done.arrived.0));
    latency("ttft", summary.ttft_s, times);
    let times = offline.ns(|at, done| Some(at.0 - done.arrived.0));
    latency("completion", summary.completion_s, times);
    let times = offline.ns(|_, done| Some(done.started.0 - done.arrived.0));
    latency("queueing", summary.queueing_s, times);
    let times = offline.ns(|at, done| {
        let later = u64::from(done.output - 1);
        (later > 0).then(|| (at.0 - done.first_token.0) / later)
    });
    latency("tpot", summary.tpot_s, times);
    let times = offline.ns(|_, done| Some(done.staleness()?.0));
    latency("staleness", summary.staleness_s, times);
    latency("publication", summary.publication_s, offline.publication());

    let counts = |is: &dyn Fn(&Completion) -> bool| {
        offline.answers.iter().filter(|(_, done)| is(done)).count() as u64
    };
    assert_eq!(summary.completed, counts(&|_| true));
    assert_eq!(summary.late, counts(&|done| done.late));
    let preparations = summary.preparations;
    for (got, kind) in [
        (preparations.reuse, Preparation::Reuse),
        (preparations.import, Preparation::Import),
        (preparations.reconstruct, Preparation::Reconstruct),
        (
            preparations.import_and_reconstruct,
            Preparation::ImportAndReconstruct,
        ),
    ] {
        assert_eq!(got, counts(&|done| done.preparation == kind));
    }
    let arrived = offline
        .inputs()
        .filter(|(at, input)| matches!(input, Input::Query { .. }) && *at >= world.warm_up);
    assert_eq!(summary.arrived, arrived.count() as u64);
    let refused: u64 = summary.refused.iter().map(|(_, count)| count).sum();
    assert_eq!(summary.arrived, summary.completed + refused);
    let evictions = offline
        .effects()
        .filter(|(_, effect)| matches!(effect, Effect::Evict { .. }));
    assert_eq!(summary.evictions, evictions.count() as u64);
    rates(&offline, summary);
    shares(&offline, summary);
}

fn rates(offline: &Offline<'_>, summary: &Summary) {
    let all: Vec<(Instant, u32)> = offline
        .effects()
        .filter_map(|(at, effect)| match effect {
            Effect::Complete(done) => Some((at, done.output)),
            _ => None,
        })
        .collect();
    let ends = all.iter().map(|(at, _)| *at);
    let asked = offline
        .inputs()
        .filter_map(|(at, input)| matches!(input, Input::Query { .. }).then_some(at));
    let mut end = ends.chain(asked).max().unwrap_or(Instant::ZERO);
    let world = offline.world;
    // A count or list that was not through by the horizon asks until then as one without end does.
    let asks_on = |(at, plan): (usize, &QueryPlan)| {
        let asked = offline.inputs().filter(
            |(_, input)| matches!(input, Input::Query { stream, .. } if stream.0 as usize == at),
        );
        let listed = match &plan.arrivals {
            QueryTimes::Listed(times) => times.len() as u64,
            _ => u64::MAX,
        };
        (asked.count() as u64) < plan.count.min(listed)
    };
    let plans = world.streams.iter().enumerate();
    let mut plans = plans.filter_map(|(at, s)| Some((at, s.queries.as_ref()?)));
    if world.horizon != Instant::NEVER && plans.any(asks_on) {
        end = world.horizon;
    }
    let window = end.saturating_since(world.warm_up);
    near("window", summary.window_s, window.as_secs_f64());
    if window.0 == 0 {
        assert_eq!((summary.throughput_rps, summary.tokens_per_s), (None, None));
        return;
    }
    // Whoever asked: what was answered within the window.
    let within = all
        .iter()
        .filter(|(at, _)| *at >= world.warm_up && *at <= end);
    let outputs: Vec<u32> = within.map(|(_, output)| *output).collect();
    assert_eq!(summary.answers_in_window, outputs.len() as u64);
    let tokens: u64 = outputs.iter().map(|&output| u64::from(output)).sum();
    let per_s = |count: f64| count / window.as_secs_f64();
    near(
        "throughput",
        summary.throughput_rps.expect("there is a window"),
        per_s(outputs.len() as f64),
    );
    let tokens_per_s = summary.tokens_per_s.expect("there is a window");
    near("tokens/s", tokens_per_s, per_s(tokens as f64));
}

/// Busy time, traffic and energy after the warm-up.
fn shares(offline: &Offline<'_>, summary: &Summary) {
    let world = offline.world;
    let end = offline.records.last().expect("closed").0;
    let run = end.saturating_since(world.warm_up);
    near("makespan", summary.makespan_s, end.as_secs_f64());
    near("run", summary.run_s, run.as_secs_f64());
    let mut busy = vec![0; world.engines.len()];
    let (mut bytes, mut joules) = (0.0, 0.0);
    for (lane, _, since, until, moved, nanojoules) in offline.tasks() {
        let after = until.saturating_sub(since.max(world.warm_up.0));
        busy[world.lanes[lane].engine.0 as usize] += after;
        let share = if until > since {
            after as f64 / (until - since) as f64
        } else {
            f64::from(u8::from(since >= world.warm_up.0))
        };
        bytes += moved as f64 * share;
        joules += nanojoules as f64 * 1e-9 * share;
    }
    let mut idle = 0.0;
    for ((engine, summary), busy) in world.engines.iter().zip(&summary.engines).zip(busy) {
        let lanes = world
            .lanes
            .iter()
            .filter(|lane| world.engines[lane.engine.0 as usize].name == engine.name);
        let lanes = lanes.count() as f64;
        let stages: f64 = summary.stages_s.iter().map(|(_, secs)| secs).sum();
        near("busy by stage", stages, busy as f64 / 1e9);
        if lanes > 0.0 && run.0 > 0 {
            near("busy", summary.busy, busy as f64 / run.0 as f64 / lanes);
        }
        assert!((0.0..=1.0).contains(&summary.busy), "{summary:?}");
        // While no lane of it ran.
        let mut spans: Vec<(u64, u64)> = offline
            .tasks()
            .into_iter()
            .filter(|task| world.engines[world.lanes[task.0].engine.0 as usize].name == engine.name)
            .map(|task| (task.2.max(world.warm_up.0), task.3.max(world.warm_up.0)))
            .collect();
        spans.sort_unstable();
        let (mut active, mut until) = (0, 0);
        for (from, to) in spans {
            active += to.saturating_sub(from.max(until));
            until = until.max(to);
        }
        let secs = (run.0 - active) as f64 / 1e9;
        idle += engine.power.expect("has power").idle_w * secs;
    }
    if run.0 > 0 {
        // Bytes are rounded task by task.
        let rate = bytes / run.as_secs_f64() / 1e9;
        assert!((summary.mean_bandwidth_gbps - rate).abs() <= 1e-6 * rate + 1e-6);
    }
    let energy = run.as_secs_f64() * world.power.expect("has power").base_w + idle + joules;
    let reported = summary.energy_j.expect("has power");
    assert!((reported - energy).abs() <= 1e-6 * energy + 1e-6);
}

proptest! {
    #![proptest_config(config(500))]

    #[test]
    fn metrics_are_those_of_the_trace(scenario in scenario()) {
        let Some(inputs) = scenario.inputs() else {
            return Err(TestCaseError::reject("does not load"));
        };
        let world = inputs.world().expect("checked");
        let mut simulation = Simulation::new(&world);
        let mut trace = Recorder::default();
        simulation.run_into(0, &mut trace).expect("no policy stops");
        compare(&world, &trace, &simulation.summary());
        // The next run starts from nothing.
        let mut trace = Recorder::default();
        simulation.run_into(1, &mut trace).expect("no policy stops");
        compare(&world, &trace, &simulation.summary());
    }
}
