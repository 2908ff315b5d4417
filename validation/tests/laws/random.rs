//! Properties of healthy runs.

use proptest::prelude::*;
use sim::dispatch::{Dispatcher, Effect, Input, Reason, Task};
use sim::spec::model::StageKind;
use sim::spec::scenario::Policy;
use sim::time::Instant;
use sim::trace::{Record, Recorder, replay};
use sim::world::{LaneId, StreamId, World};

use crate::config;
use crate::play::checked;
use crate::scenario::scenario;

/// A task as it ran.
struct Ran {
    lane: LaneId,
    task: Task,
    from: Instant,
    to: Instant,
}

fn tasks(trace: &Recorder) -> Vec<Ran> {
    let mut list: Vec<Ran> = Vec::new();
    for &(at, record) in &trace.records {
        match record {
            Record::Effect(Effect::Start { lane, task }) => list.push(Ran {
                lane,
                task,
                from: at,
                to: Instant::NEVER,
            }),
            Record::Input(Input::Finish { lane, .. }) => {
                let ran = list.iter_mut().rfind(|ran| ran.lane == lane);
                ran.expect("was started").to = at;
            }
            _ => {}
        }
    }
    list
}

fn effects(trace: &Recorder) -> impl Iterator<Item = (Instant, &Effect)> {
    trace
        .records
        .iter()
        .filter_map(|(at, record)| match record {
            Record::Effect(effect) => Some((*at, effect)),
            Record::Input(_) => None,
        })
}

/// An answer's stream, lane, and span on its lane.
#[derive(Debug)]
struct Answer {
    stream: StreamId,
    lane: LaneId,
    span: (Instant, Instant),
}

/// Each answer on its lane, from preparation to last token. (A stage that is not of the lane's may
/// outlast an answer of one token.)
fn answers(world: &World, trace: &Recorder, tasks: &[Ran]) -> Vec<Answer> {
    let done = effects(trace).filter_map(|(at, effect)| match effect {
        Effect::Complete(done) => Some((at, done)),
        _ => None,
    });
    let span = done.map(|(at, done)| {
        let own = tasks.iter().filter(|ran| {
            let kind = world.stages[ran.task.stage.0 as usize].kind;
            matches!(kind, StageKind::QueryPrefill | StageKind::Decode)
                && ran.task.ticket == done.ticket
                && ran.from >= done.started
                && ran.to <= at
        });
        let end = own.map(|ran| ran.to).max();
        Answer {
            stream: done.stream,
            lane: done.lane,
            span: (done.started, end.expect("was prefilled")),
        }
    });
    span.collect()
}

fn overlap(a: (Instant, Instant), b: (Instant, Instant)) -> bool {
    a.0 < b.1 && b.0 < a.1
}

/// Without failures everything that can fit is served: nothing waits for ever.
fn nothing_hangs(trace: &Recorder) {
    for (_, effect) in effects(trace) {
        if let Effect::Refuse { reason, .. } = effect {
            assert!(
                !matches!(reason, Reason::Unserved | Reason::EngineFailed),
                "{effect:?}"
            );
        }
    }
}

fn no_context_is_too_long(world: &World, tasks: &[Ran]) {
    for Ran { task, .. } in tasks {
        let kind = world.stages[task.stage.0 as usize].kind;
        if matches!(kind, StageKind::QueryPrefill | StageKind::Decode) {
            assert!(
                task.context + task.size <= world.model.max_context_tokens,
                "{task:?}"
            );
        }
    }
}

/// The modes, each by what it forbids.
fn modes_hold(world: &World, trace: &Recorder, tasks: &[Ran]) {
    let answers = answers(world, trace, tasks);
    if !world.modes.concurrent_generation {
        for (index, a) in answers.iter().enumerate() {
            for b in &answers[..index] {
                assert!(!overlap(a.span, b.span), "{a:?} and {b:?}");
            }
        }
    }
    let is_frame = |ran: &&Ran| world.frame_graph.stages.contains(&ran.task.stage);
    // Rebuilding a context on the lane that ingests counts as ingestion, but belongs to a request.
    if !world.modes.ingest_during_generation && world.modes.context_reuse {
        for ran in tasks.iter().filter(is_frame) {
            let beside =
                |a: &&Answer| a.stream == ran.task.stream && overlap(a.span, (ran.from, ran.to));
            // What an answer's lane encodes meanwhile is for its own context.
            if !answers.iter().filter(beside).any(|a| a.lane == ran.lane) {
                let a = answers.iter().find(beside);
                assert!(a.is_none(), "{a:?}, {:?}", ran.task);
            }
        }
    }
    let serial = matches!(world.policy, Policy::Serial);
    for (index, a) in tasks.iter().enumerate() {
        for b in &tasks[..index] {
            if !overlap((a.from, a.to), (b.from, b.to)) {
                continue;
            }
            assert!(!serial, "{:?} beside {:?}", a.task, b.task);
            let groups = |ran: &Ran| {
                let engine = world.engine_of(ran.lane);
                world.exclusive[engine.0 as usize][ran.task.stage.0 as usize]
            };
            assert_eq!(groups(a) & groups(b), 0, "{:?} beside {:?}", a.task, b.task);
        }
    }
}

/// A stage runs only where it may.
fn lanes_are_able(world: &World, tasks: &[Ran]) {
    for Ran { lane, task, .. } in tasks {
        let engine = world.engine_of(*lane);
        assert!(world.costs.get(engine, task.stage).is_some(), "{task:?}");
        if let Some(fixed) = world.placement[task.stage.0 as usize] {
            assert_eq!(*lane, fixed, "{task:?}");
        }
    }
}

pub(crate) fn laws(world: &World, trace: &Recorder) {
    let tasks = tasks(trace);
    nothing_hangs(trace);
    no_context_is_too_long(world, &tasks);
    modes_hold(world, trace, &tasks);
    lanes_are_able(world, &tasks);
}

proptest! {
    #![proptest_config(config(2000))]

    #[test]
    fn every_run_keeps_the_laws(scenario in scenario()) {
        let Some(inputs) = scenario.inputs() else {
            return Err(TestCaseError::reject("does not load"));
        };
        let world = inputs.world().map_err(|faults| TestCaseError::fail(faults.to_string()))?;
        let trace = checked(&world);
        laws(&world, &trace);
        prop_assert_eq!(replay(&mut Dispatcher::new(&world), &trace.records), Ok(None));
    }
}
