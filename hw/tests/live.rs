//! The whole pipeline on real models: vision tower, visual tokens, language model, KV out and in, tokens.
//!
//! Nothing here is about how long it takes. The answers are held against a serial reference, the trace
//! against a fresh scheduler, and what goes wrong against what must come of it.

#![expect(clippy::unwrap_used, reason = "a test")]

mod common;

use common::{Records, STREAMS_FEW, count, in_time_of, run_checked, started, world_of_threads};
use hw::engine::{CancelToken, Done, Engine, EngineError, Notice, Order};
use hw::live::{Live, LiveOptions, Models, SetupError};
use hw::rig::{Options, Rig};
use sim::dispatch::{Effect, Input};
use sim::spec::model::StageKind;
use sim::time::Duration;
use sim::trace::Record;
use sim::world::LaneId;

/// What `hw/models/fetch` fetched. Not there: a failure, since a live test without a model tests nothing.
fn models() -> Models {
    let models = Models::cached().unwrap();
    let there = models.language.exists();
    assert!(
        there,
        "no {}: run hw/models/fetch",
        models.language.display()
    );
    models
}

const GPU: LaneId = LaneId(1);

const QUERIES: usize = 7;

fn options() -> LiveOptions {
    LiveOptions {
        context_tokens: 256,
        chunk: 8,
        ..LiveOptions::default()
    }
}

/// A busy machine may be slow, but not that slow.
fn rig() -> Options {
    Options {
        task_deadline: Duration::from_secs_f64(300.0),
        ..Options::default()
    }
}

fn failed(records: &Records) -> Vec<LaneId> {
    let lanes = records.iter().filter_map(|(_, record)| match record {
        Record::Input(Input::Fail { lane }) => Some(*lane),
        _ => None,
    });
    lanes.collect()
}

const VARIANTS: &[&str] = &[
    "",
    "policy.round_robin = {}\nmodes.state_transfer = \"import\"",
    "policy.round_robin = {}\nmodes.state_transfer = \"reconstruct\"",
    "policy.naive = {}",
    "policy.idle_first = {}\nmodes.context_reuse = false\nmodes.embedding_cache = false",
    "policy.round_robin = {}\ncontext.answers_join_history = true",
    "policy.round_robin = {}\nlimits.engine_kv_budget_bytes.cpu = 50e3\nlimits.engine_kv_budget_bytes.gpu = 50e3",
];

/// Also with fused attention: how a prefill is cut decides its bits.
const FUSED: &str = VARIANTS[1];

#[test]
fn answers_equal_the_serial_reference_in_every_mode() {
    in_time_of(1200, || {
        let mut seen = [0; 4];
        let fused = [(FUSED, Some(true))];
        for (settings, flash_attention) in VARIANTS.iter().map(|&one| (one, None)).chain(fused) {
            let world = world_of_threads(settings, STREAMS_FEW);
            let options = LiveOptions {
                flash_attention,
                ..options()
            };
            let live = Live::new(&world, models(), options).unwrap();
            let (records, mut outcome) = run_checked(&world, live.engines(), &rig());
            assert_eq!(outcome.failures, [], "{settings}");
            assert_eq!(outcome.stuck, [], "{settings}");
            assert_eq!(outcome.answers.len(), QUERIES, "{settings}");
            for answer in &outcome.answers {
                assert_eq!(answer.tokens.len(), answer.completion.output as usize);
            }
            let differ = live.reference().check(&outcome).unwrap();
            assert_eq!(differ, [], "{settings}");
            seen[0] += started(&world, &records, StageKind::Import).len();
            seen[1] += started(&world, &records, StageKind::Reconstruct).len();
            seen[2] += count(&records, |effect| matches!(effect, Effect::Evict { .. }));
            seen[3] += count(&records, |effect| match effect {
                Effect::Start { task, .. } => task.ticket == u32::MAX,
                _ => false,
            });
            if settings.is_empty() {
                // The reference finds what is wrong.
                let wrong = outcome.answers.last_mut().unwrap();
                *wrong.tokens.last_mut().unwrap() ^= 1;
                let index = wrong.completion.index;
                let differ = live.reference().check(&outcome).unwrap();
                assert_eq!(differ.len(), 1);
                assert_eq!(differ[0].index, index);
            }
        }
        assert!(seen.iter().all(|&count| count > 0), "{seen:?}");
    });
}

/// A real engine that goes wrong in its `nth` task, or the first after it that the fault is of.
struct Faulty {
    inner: Box<dyn Engine>,
    nth: u32,
    fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The worker panics.
    Crash,
    /// It does its task again and again: real computations, which the deadline interrupts.
    Endless,
}

impl Engine for Faulty {
    fn enter(&mut self) -> Result<(), EngineError> {
        self.inner.enter()
    }
    fn run(&mut self, order: &Order, token: &CancelToken) -> Result<Done, EngineError> {
        // A prefill is the same again and again; the context of an answer would be full before the deadline.
        let fits = self.fault == Fault::Crash || order.kind == StageKind::Ingest;
        let now = self.nth == 0 && fits;
        if now || self.nth > 0 {
            self.nth = self.nth.wrapping_sub(1);
        }
        match self.fault {
            Fault::Crash => assert!(!now, "the worker crashes"),
            Fault::Endless if now => loop {
                let before = std::time::Instant::now();
                self.inner.run(order, token)?;
                assert!(before.elapsed().as_secs() < 60, "it is not interrupted");
            },
            Fault::Endless => {}
        }
        self.inner.run(order, token)
    }
    fn notice(&mut self, notice: &Notice) -> Result<(), EngineError> {
        self.inner.notice(notice)
    }
}

fn with_fault(live: &Live, lane: LaneId, nth: u32, fault: Fault) -> Vec<Box<dyn Engine>> {
    let mut engines = live.engines();
    let inner = engines.remove(lane.0 as usize);
    engines.insert(lane.0 as usize, Box::new(Faulty { inner, nth, fault }));
    engines
}

#[test]
fn work_of_a_crashed_or_hung_engine_goes_to_the_other_and_is_right() {
    in_time_of(300, || {
        for (fault, nth) in [(Fault::Crash, 3), (Fault::Endless, 2)] {
            let settings = "policy.round_robin = {}";
            let world = world_of_threads(settings, STREAMS_FEW);
            let live = Live::new(&world, models(), options()).unwrap();
            let deadline = if fault == Fault::Endless { 8.0 } else { 300.0 };
            let rig = Options {
                task_deadline: Duration::from_secs_f64(deadline),
                ..rig()
            };
            let engines = with_fault(&live, GPU, nth, fault);
            let (records, outcome) = run_checked(&world, engines, &rig);
            assert_eq!(failed(&records), [GPU], "{fault:?}");
            let error = &outcome.failures[0].error;
            match fault {
                Fault::Crash => {
                    assert_eq!(*error, EngineError::Crashed("the worker crashes".into()));
                }
                Fault::Endless => assert!(matches!(error, EngineError::Deadline(_)), "{error}"),
            }
            assert_eq!(outcome.stuck, [], "{fault:?}: it was interrupted");
            assert_eq!(outcome.answers.len(), QUERIES, "{fault:?}");
            let differ = live.reference().check(&outcome).unwrap();
            assert_eq!(differ, [], "{fault:?}");
        }
    });
}

#[test]
fn an_engine_without_memory_fails_and_nothing_hangs() {
    in_time_of(120, || {
        let world = world_of_threads("policy.round_robin = {}", STREAMS_FEW);
        // Room for the system prompt and little more.
        let options = LiveOptions {
            context_tokens: 16,
            ..options()
        };
        let live = Live::new(&world, models(), options).unwrap();
        let (records, outcome) = run_checked(&world, live.engines(), &rig());
        assert!(!outcome.failures.is_empty());
        for failure in &outcome.failures {
            let error = &failure.error;
            assert!(matches!(error, EngineError::OutOfMemory { .. }), "{error}");
        }
        let refused = count(&records, |effect| {
            matches!(effect, Effect::Refuse { query: true, .. })
        });
        assert_eq!(refused + outcome.answers.len(), QUERIES);
        assert!(refused > 0);
    });
}

#[test]
fn what_is_missing_is_named() {
    let world = world_of_threads("", STREAMS_FEW);
    let language = Models {
        language: "/no/such.gguf".into(),
        ..models()
    };
    let live = Live::new(&world, language, options()).unwrap();
    let error = Rig::start(&world, live.engines(), &rig()).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("/no/such.gguf"), "{source}");

    let blind = Models {
        vision: None,
        ..models()
    };
    let error = Live::new(&world, blind, options()).unwrap_err();
    assert_eq!(error, SetupError::NoTower);
    let sliding = world_of_threads("context.keep.window.frames = 2", STREAMS_FEW);
    let error = Live::new(&sliding, models(), options()).unwrap_err();
    assert_eq!(error, SetupError::Keep);
    let elsewhere = LiveOptions {
        devices: [("tpu".to_owned(), "Vulkan0".to_owned())].into(),
        ..options()
    };
    let error = Live::new(&world, models(), elsewhere).unwrap_err();
    assert_eq!(error, SetupError::Engine("tpu".into()));
}

#[test]
#[cfg(target_os = "linux")]
fn a_lane_stays_on_its_cores() {
    let usable = hw::affinity::usable();
    let first = usable[0];
    let pinned = std::thread::spawn(move || {
        hw::affinity::pin(&[first]).unwrap();
        hw::affinity::usable()
    });
    assert_eq!(pinned.join().unwrap(), [first]);
    let missing = (0..1024).find(|core| !usable.contains(core)).unwrap();
    let error = std::thread::spawn(move || hw::affinity::pin(&[first, missing]).unwrap_err());
    let error = error.join().unwrap().to_string();
    assert!(error.contains(&format!("core {missing}")), "{error}");
}
