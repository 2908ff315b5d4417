//! Lanes that fail, hang, fall silent or break their contract: nothing hangs, and every request has an outcome.

use super::common::{in_time, world, world_of};
use super::{
    CPU, FAR_APART, GPU, NPU, VARIANTS, ends, fails, live, simulated, started_after_failure,
    stepped, wall,
};
use hw::engine::{CancelToken, Done, Engine, EngineError, Notice, Order};
use hw::mock::{Fault, Mocks, answer_tokens};
use hw::rig::{Options, Rig, StartError};
use sim::check::Check;
use sim::dispatch::{Dispatcher, Effects, Input, Reason};
use sim::drive::drive;
use sim::time::{Duration, Instant};
use sim::trace::{Record, Recorder};

#[test]
fn work_of_a_lane_that_fails_goes_to_the_other() {
    let faults = [Fault::Panic, Fault::Error, Fault::OutOfMemory, Fault::Hang];
    in_time(move || {
        for settings in ["policy.round_robin = {}", ""] {
            for fault in faults {
                for (lane, nth) in [(CPU, 0), (CPU, 3), (GPU, 0), (GPU, 5), (GPU, 9), (NPU, 2)] {
                    let world = world(settings);
                    let mocks = Mocks::new(&world).fault(lane, nth, fault);
                    let (records, outcome) = live(&world, mocks, &stepped());
                    assert_eq!(fails(&records), [lane], "{fault:?} {lane:?} {nth}");
                    assert_eq!(started_after_failure(&records, lane), 0);
                    assert_eq!(outcome.failures.len(), 1);
                    assert_eq!(outcome.failures[0].lane, lane);
                    assert!(says(fault, &outcome.failures[0].error));
                    let ends = ends(&records);
                    assert_eq!(ends.len(), 15);
                    assert!(ends.values().all(Result::is_ok), "{fault:?} {lane:?} {nth}");
                }
            }
        }
    });
}

fn says(fault: Fault, error: &EngineError) -> bool {
    match fault {
        Fault::Panic => matches!(error, EngineError::Crashed(_)),
        Fault::Error => matches!(error, EngineError::Backend(_)),
        Fault::OutOfMemory => matches!(error, EngineError::OutOfMemory { .. }),
        Fault::Hang | Fault::Deaf(_) => matches!(error, EngineError::Deadline(_)),
    }
}

#[test]
fn no_lane_that_fails_breaks_an_invariant_in_any_mode() {
    in_time(|| {
        for settings in VARIANTS {
            for lane in [CPU, GPU, NPU] {
                for nth in [0, 1, 3, 6, 10] {
                    let world = world(settings);
                    let mocks = Mocks::new(&world).fault(lane, nth, Fault::Error);
                    let (records, outcome) = live(&world, mocks, &stepped());
                    let failed = outcome.failures.iter().map(|failure| failure.lane);
                    assert!(
                        failed.clone().eq(fails(&records)) && failed.clone().all(|on| on == lane)
                    );
                    let ends = ends(&records);
                    assert_eq!(ends.len(), 15, "{settings} {lane:?} {nth}");
                    let unserved = ends.values().any(|end| *end == Err(Reason::Unserved));
                    assert!(!unserved, "{settings} {lane:?} {nth}");
                }
            }
        }
    });
}

/// Frames that nearly fill the context, and answers of which not all find room in what is left.
const NEARLY_FULL: &str = r#"
[[streams]]
name = "door"
frames = { clock = { periodic = { rate_hz = 1 } }, count = 4, tokens = 1000 }
[streams.queries]
arrivals = { periodic = { period_s = 0.07 } }
start_s = 4
count = 60
prompt_tokens = 2
output_tokens = { uniform = { low = 1, high = 30 } }
"#;

#[test]
fn an_answer_without_room_is_not_taken_for_the_one_that_joins() {
    in_time(|| {
        let settings = "context.answers_join_history = true";
        let world = world_of(settings, NEARLY_FULL, "");
        let engines = Mocks::new(&world).engines();
        let mut rig = Rig::start(&world, engines, &stepped()).unwrap();
        let mut recorder = Recorder::default();
        let mut dispatcher = Dispatcher::new(&world);
        drive(
            &mut rig,
            &mut dispatcher,
            &mut Effects::new(),
            &mut recorder,
        )
        .unwrap();
        let outcome = rig.shutdown();
        assert_eq!(outcome.failures, []);
        assert_eq!(recorder.records, simulated(&world));
        let joined = outcome
            .answers
            .iter()
            .filter(|answer| answer.completion.joins)
            .count();
        assert!(
            0 < joined && joined < outcome.answers.len(),
            "{joined} of {}",
            outcome.answers.len()
        );
        for answer in &outcome.answers {
            let done = &answer.completion;
            assert_eq!(answer.tokens, answer_tokens(done.digest, done.output));
        }
    });
}

#[test]
fn with_no_lane_left_requests_are_refused_with_the_reason() {
    in_time(|| {
        let world = world("policy.round_robin = {}");
        let mocks = Mocks::new(&world)
            .fault(CPU, 2, Fault::Panic)
            .fault(GPU, 4, Fault::Error);
        let (records, outcome) = live(&world, mocks, &stepped());
        assert_eq!(outcome.failures.len(), 2);
        let ends = ends(&records);
        assert_eq!(ends.len(), 15);
        let refused = ends
            .values()
            .filter(|end| **end == Err(Reason::EngineFailed));
        assert!(refused.count() > 0);
    });
}

#[test]
fn a_lane_that_hangs_on_real_time_is_given_up_at_its_deadline() {
    in_time(|| {
        let world = world("policy.round_robin = {}");
        let mocks = Mocks::new(&world).fault(GPU, 4, Fault::Hang);
        let options = Options {
            // Two seconds of real time: on a very busy machine other lanes may fail too.
            task_deadline: Duration::from_secs_f64(40.0),
            ..wall()
        };
        let (records, outcome) = live(&world, mocks, &options);
        assert!(fails(&records).contains(&GPU));
        assert!(matches!(
            outcome.failures[0].error,
            EngineError::Deadline(_)
        ));
        assert_eq!(ends(&records).len(), 15);
        assert_eq!(outcome.stuck, []);
    });
}

#[test]
fn a_lane_that_hears_nothing_is_left_behind() {
    in_time(|| {
        let world = world("policy.round_robin = {}");
        let deaf = Fault::Deaf(std::time::Duration::from_secs(20));
        let mocks = Mocks::new(&world).fault(GPU, 4, deaf);
        let options = Options {
            task_deadline: Duration::from_secs_f64(40.0),
            grace: std::time::Duration::from_millis(10),
            ..wall()
        };
        let (records, outcome) = live(&world, mocks, &options);
        assert!(fails(&records).contains(&GPU));
        assert!(outcome.stuck.contains(&GPU));
        assert_eq!(ends(&records).len(), 15);
    });
}

#[test]
fn scripted_times_are_kept() {
    in_time(|| {
        let world = world_of("", FAR_APART, "");
        let script = [Duration(1_000), Duration(2_000), Duration(3_000)];
        let mocks = Mocks::new(&world).script(NPU, script);
        let (records, _) = live(&world, mocks, &stepped());
        let encodes: Vec<_> = records
            .iter()
            .filter(|(_, record)| matches!(record, Record::Input(Input::Finish { lane: NPU, .. })))
            .map(|&(at, _)| at)
            .collect();
        let second = |n: u64| n * 1_000_000_000;
        let expected = [1_000, second(20) + 2_000, second(40) + 3_000].map(Instant);
        assert_eq!(encodes, expected);
    });
}

/// An engine that cannot get ready.
#[derive(Debug)]
struct Unready;

impl Engine for Unready {
    fn enter(&mut self) -> Result<(), EngineError> {
        Err(EngineError::Backend("there is no such device".into()))
    }
    fn run(&mut self, _: &Order, _: &CancelToken) -> Result<Done, EngineError> {
        Ok(Done::default())
    }
    fn notice(&mut self, _: &Notice) -> Result<(), EngineError> {
        Ok(())
    }
}

#[test]
fn a_rig_with_an_engine_that_is_not_ready_does_not_start() {
    in_time(|| {
        let world = world("");
        let mut engines = Mocks::new(&world).engines();
        engines[1] = Box::new(Unready);
        let error = Rig::start(&world, engines, &wall()).unwrap_err();
        assert_eq!(error.to_string(), "lane `gpu` is not ready");
        assert!(matches!(error, StartError::Engine { .. }));

        let error = Rig::start(&world, Vec::new(), &wall()).unwrap_err();
        assert_eq!(error.to_string(), "0 engines were given for 3 lanes");
    });
}

/// An engine that says more than it was asked.
#[derive(Debug)]
struct Chatty;

impl Engine for Chatty {
    fn run(&mut self, _: &Order, _: &CancelToken) -> Result<Done, EngineError> {
        Ok(Done {
            tokens: vec![7],
            ..Done::default()
        })
    }
    fn notice(&mut self, _: &Notice) -> Result<(), EngineError> {
        Ok(())
    }
}

#[test]
fn an_engine_that_breaks_its_contract_is_out_of_service() {
    in_time(|| {
        let world = world("");
        let mut engines = Mocks::new(&world).engines();
        engines[2] = Box::new(Chatty);
        let mut rig = Rig::start(&world, engines, &stepped()).unwrap();
        let mut check = Check::new(&world);
        let mut dispatcher = Dispatcher::new(&world);
        drive(&mut rig, &mut dispatcher, &mut Effects::new(), &mut check).unwrap();
        assert_eq!(check.violations(), Vec::<String>::new());
        let outcome = rig.shutdown();
        let error = outcome.failures[0].error.to_string();
        assert_eq!(
            error,
            "the contract of engines was broken: 1 tokens came of a Encode of size 1"
        );
        assert_eq!(outcome.answers.len(), 15);
    });
}

#[test]
fn a_rig_that_is_dropped_midway_ends_its_threads() {
    in_time(|| {
        let world = world("");
        let mut rig = Rig::start(&world, Mocks::new(&world).engines(), &wall()).unwrap();
        let mut dispatcher = Dispatcher::new(&world);
        let mut buffer = Effects::new();
        for _ in 0..5 {
            let (now, input) = sim::drive::Executor::next(&mut rig).unwrap();
            dispatcher.handle(now, input, &mut buffer);
            for effect in buffer.drain() {
                sim::drive::Executor::apply(&mut rig, now, &effect);
            }
        }
        drop(rig);
    });
}
