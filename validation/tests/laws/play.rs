//! Runs with the scheduler's books added up after every input.

use sim::check::Check;
use sim::dispatch::{Dispatcher, Effects, Input};
use sim::drive::{Executor, Sink};
use sim::soc::Soc;
use sim::time::Instant;
use sim::trace::Recorder;
use sim::world::{EngineId, World};

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

/// A run of replication 0 on the simulated SoC: its trace, checked in every way.
pub(crate) fn checked(world: &World) -> Recorder {
    let mut soc = Soc::new(world, 0);
    let mut dispatcher = Dispatcher::new(world);
    let mut sink = (Check::new(world), Recorder::default());
    drive_audited(&mut soc, &mut dispatcher, &mut sink);
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
