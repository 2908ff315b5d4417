//! Runs with the scheduler's books added up after every input, and runs whose lanes fail.

use std::collections::VecDeque;

use sim::check::Check;
use sim::dispatch::{Dispatcher, Effect, Effects, Input};
use sim::drive::{Executor, Sink};
use sim::soc::Soc;
use sim::time::Instant;
use sim::trace::Recorder;
use sim::world::{EngineId, LaneId, World};

/// More inputs than any scenario here can bring.
const INPUTS_MAX: u64 = 20_000;

/// As `sim::drive::drive`, auditing the scheduler after every input.
pub(crate) fn drive_audited<E: Executor, S: Sink>(
    executor: &mut E,
    dispatcher: &mut Dispatcher<'_>,
    sink: &mut S,
) -> Instant {
    let mut effects = Effects::new();
    let mut last = Instant::ZERO;
    for _ in 0..INPUTS_MAX {
        let (now, input) = executor.next().unwrap_or((last, Input::Close));
        last = now;
        sink.input(now, &input);
        dispatcher.handle(now, input, &mut effects);
        let faults = dispatcher.audit();
        assert!(faults.is_empty(), "at {now}, after {input:?}: {faults:?}");
        for effect in effects.drain() {
            sink.effect(now, &effect);
            executor.apply(now, &effect);
        }
        if input == Input::Close {
            return last;
        }
    }
    panic!("the run does not end");
}

/// The simulated SoC with lanes that fail after so many inputs.
#[derive(Debug)]
pub(crate) struct Failing<'w> {
    soc: Soc<'w>,
    inputs: u32,
    last: Instant,
    /// When, in inputs, and which lane.
    failures: VecDeque<(u32, LaneId)>,
    failed: Vec<LaneId>,
}

impl<'w> Failing<'w> {
    pub(crate) fn new(world: &'w World, mut failures: Vec<(u32, LaneId)>) -> Self {
        failures.sort_unstable();
        Self {
            soc: Soc::new(world, 0),
            inputs: 0,
            last: Instant::ZERO,
            failures: failures.into(),
            failed: Vec::new(),
        }
    }
}

impl Executor for Failing<'_> {
    fn next(&mut self) -> Option<(Instant, Input)> {
        self.inputs += 1;
        while let Some(&(at, lane)) = self.failures.front() {
            if at > self.inputs {
                break;
            }
            self.failures.pop_front();
            if !self.failed.contains(&lane) {
                self.failed.push(lane);
                return Some((self.last, Input::Fail { lane }));
            }
        }
        loop {
            let (now, input) = self.soc.next()?;
            // What a failed lane was running never ends.
            if matches!(input, Input::Finish { lane, .. } if self.failed.contains(&lane)) {
                continue;
            }
            self.last = now;
            return Some((now, input));
        }
    }

    fn apply(&mut self, now: Instant, effect: &Effect) {
        self.soc.apply(now, effect);
    }
}

/// A run of replication 0 on the simulated SoC: its trace, checked in every way.
pub(crate) fn checked(world: &World) -> Recorder {
    checked_with(world, &mut Soc::new(world, 0))
}

/// As [`checked`], on any executor.
pub(crate) fn checked_with(world: &World, executor: &mut impl Executor) -> Recorder {
    let mut dispatcher = Dispatcher::new(world);
    let mut sink = (Check::new(world), Recorder::default());
    drive_audited(executor, &mut dispatcher, &mut sink);
    let (check, trace) = sink;
    let violations = check.violations();
    assert!(violations.is_empty(), "{violations:#?}");
    assert_eq!(dispatcher.jobs(), 0, "jobs are left over");
    for engine in 0..world.engines.len() {
        let engine = EngineId(engine as u8);
        assert_eq!(
            dispatcher.kv_bytes(engine),
            dispatcher.resident_bytes(engine),
            "KV of a request that ended"
        );
    }
    trace
}
