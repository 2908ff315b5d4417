//! One suite, two arms: what holds on the simulated SoC holds on the live rig, over engines that pretend.
//!
//! Nothing here is about how long real time takes. Where order matters the rig runs on a stepped clock:
//! threads and messages as live, times from the cost table. Where it runs on real time, only what holds
//! in every order is asserted.

#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "../common/mod.rs"]
mod common;
mod failures;

use std::collections::BTreeMap;

use common::{Records, STREAMS, in_time, run_checked, scripted, world, world_of};
use hw::mock::{Mocks, answer_tokens};
use hw::rig::{Options, Outcome, Pace, Rig};
use sim::dispatch::{Dispatcher, Effect, Effects, Input, Reason};
use sim::drive::drive;
use sim::soc::Soc;
use sim::spec::model::StageKind;
use sim::time::Duration;
use sim::trace::{Record, Recorder};
use sim::world::{LaneId, World};

const CPU: LaneId = LaneId(0);
const GPU: LaneId = LaneId(1);
const NPU: LaneId = LaneId(2);

fn stepped() -> Options {
    Options {
        pace: Pace::Stepped,
        task_deadline: Duration::from_secs_f64(5.0),
        ..Options::default()
    }
}

/// Real time, twenty times as fast as the scenario.
fn wall() -> Options {
    Options {
        pace: Pace::Wall { speed: 20.0 },
        // A minute of real time: only for engines that hang, never for a busy machine.
        task_deadline: Duration::from_secs_f64(1200.0),
        ..Options::default()
    }
}

/// Runs a world live, and checks what must hold of every run.
fn live(world: &World, mocks: Mocks, options: &Options) -> (Records, Outcome) {
    let (records, outcome) = run_checked(world, mocks.engines(), options);
    for answer in &outcome.answers {
        let done = &answer.completion;
        assert_eq!(
            answer.tokens,
            answer_tokens(done.digest, done.output),
            "the engine read what the scheduler says: {done:?}"
        );
    }
    (records, outcome)
}

fn simulated(world: &World) -> Records {
    let mut recorder = Recorder::default();
    drive(
        &mut Soc::new(world, 0),
        &mut Dispatcher::new(world),
        &mut Effects::new(),
        &mut recorder,
    )
    .unwrap();
    recorder.records
}

fn effects(records: &Records) -> impl Iterator<Item = &Effect> {
    records.iter().filter_map(|(_, record)| match record {
        Record::Effect(effect) => Some(effect),
        Record::Input(_) => None,
    })
}

/// Ends of queries: digest of the answer, or the reason for none.
fn ends(records: &Records) -> BTreeMap<(u16, u32), Result<u64, Reason>> {
    let ends = effects(records).filter_map(|effect| match *effect {
        Effect::Complete(done) => Some(((done.stream.0, done.index), Ok(done.digest))),
        Effect::Refuse {
            stream,
            index,
            query: true,
            reason,
            ..
        } => Some(((stream.0, index), Err(reason))),
        _ => None,
    });
    ends.collect()
}

fn fails(records: &Records) -> Vec<LaneId> {
    let fails = records.iter().filter_map(|(_, record)| match record {
        Record::Input(Input::Fail { lane }) => Some(*lane),
        _ => None,
    });
    fails.collect()
}

/// Tasks that a lane was given after it failed: none, ever.
fn started_after_failure(records: &Records, lane: LaneId) -> usize {
    let failed = records
        .iter()
        .position(|(_, record)| *record == Record::Input(Input::Fail { lane }))
        .unwrap();
    effects(&records[failed..].to_vec())
        .filter(|effect| matches!(effect, Effect::Start { lane: on, .. } if *on == lane))
        .count()
}

/// The scenario's modes, contexts, bindings and policies.
const VARIANTS: &[&str] = &[
    "",
    "policy.round_robin = {}",
    "policy.idle_first = {}\nmodes.state_transfer = \"import\"",
    "policy.round_robin = {}\nmodes.state_transfer = \"reconstruct\"",
    "policy.naive = {}",
    "policy.serial = {}",
    "policy.round_robin = {}\nmodes.context_reuse = false",
    "policy.round_robin = {}\nmodes.context_reuse = false\nmodes.embedding_cache = false",
    "policy.round_robin = {}\nmodes.context_reuse = false\nplacement.ingest = \"cpu\"",
    "modes.ingest_during_generation = false",
    "modes.concurrent_generation = false\npolicy.reuse_first = {}",
    "policy.round_robin = {}\ncontext.answers_join_history = true",
    "context.answers_join_history = true\nmodes.context_reuse = false",
    "context.binding = \"published\"\npolicy.round_robin = {}",
    "context.binding = \"at_dispatch\"\npolicy.shortest_job_first = {}",
    "context.keep.window.frames = 3\npolicy.round_robin = {}",
    "context.keep.sinks = { first = 1, recent = 2 }\npolicy.round_robin = {}",
    "limits.engine_kv_budget_bytes.cpu = 130e3\nlimits.engine_kv_budget_bytes.gpu = 130e3\npolicy.round_robin = {}",
    "limits.kv_budget_bytes = 190e3\npolicy.round_robin = {}",
    "limits.max_requests = 2",
    "exclusive = [[\"decode@cpu\", \"ingest@gpu\"]]\npolicy.round_robin = {}",
];

#[test]
fn the_rig_on_a_stepped_clock_equals_the_simulated_soc() {
    in_time(|| {
        let mut seen = Seen::default();
        for settings in VARIANTS {
            equals_simulated(&world(settings), settings, &mut seen);
        }
        // The suite is worth something only if it comes by what can go wrong.
        let Seen {
            imports,
            reconstructions,
            evictions,
            joins,
            refusals,
        } = seen;
        let counts = [imports, reconstructions, evictions, joins, refusals];
        assert!(counts.iter().all(|&count| count > 0), "{counts:?}");
    });
}

/// What a script decides does not depend on whether lanes are simulated or real.
#[test]
fn a_script_drives_the_rig_as_the_simulated_soc() {
    let scripts = [
        (
            "state_aware.rhai",
            include_str!("../../../scenarios/policies/state_aware.rhai"),
        ),
        (
            "in_turn.rhai",
            "fn decide(r, cs, v) { this.n = (this.n ?? 0) + 1; place(cs[this.n % cs.len()]) }",
        ),
    ];
    in_time(move || {
        let mut seen = Seen::default();
        for (name, text) in scripts {
            let world = scripted(name, text);
            equals_simulated(&world, name, &mut seen);
            if name == "state_aware.rhai" {
                // And what the built-in policy does.
                assert_eq!(simulated(&world), simulated(&self::world("")));
            }
        }
        assert!(seen.imports > 0);
    });
}

/// An error in a script stops a live run as it does a simulated one, and every thread ends.
#[test]
fn an_error_in_a_script_stops_the_rig() {
    in_time(|| {
        let text = "fn score(r, c, v) { if r.index == 2 { throw \"enough\"; } c.wait_ns }";
        let world = scripted("p.rhai", text);
        let mut rig = Rig::start(&world, Mocks::new(&world).engines(), &stepped()).unwrap();
        let mut recorder = Recorder::default();
        let faults = drive(
            &mut rig,
            &mut Dispatcher::new(&world),
            &mut Effects::new(),
            &mut recorder,
        )
        .unwrap_err();
        assert!(
            faults.to_string().starts_with("p.rhai:1:39: enough"),
            "{faults}"
        );
        assert_eq!(rig.shutdown().stuck, []);
        assert!(!recorder.records.is_empty());
    });
}

#[test]
fn lanes_of_one_processor_share_what_it_holds() {
    in_time(|| {
        let mut seen = Seen::default();
        for settings in VARIANTS {
            let world = world_of(settings, STREAMS, "[lanes.gpu_b]\nengine = \"gpu\"\n");
            equals_simulated(&world, settings, &mut seen);
            let (_, outcome) = live(&world, Mocks::new(&world), &wall());
            assert_eq!(outcome.failures, [], "{settings}");
        }
        assert!(seen.imports > 0 && seen.evictions > 0);
    });
}

#[derive(Default)]
struct Seen {
    imports: u32,
    reconstructions: u32,
    evictions: u32,
    joins: u32,
    refusals: u32,
}

impl Seen {
    fn add(&mut self, world: &World, records: &Records) {
        for effect in effects(records) {
            match *effect {
                Effect::Start { task, .. } => {
                    match world.stages[task.stage.0 as usize].kind {
                        StageKind::Import => self.imports += 1,
                        StageKind::Reconstruct => self.reconstructions += 1,
                        _ => {}
                    }
                    self.joins += u32::from(task.ticket == u32::MAX);
                }
                Effect::Evict { .. } => self.evictions += 1,
                Effect::Refuse { .. } => self.refusals += 1,
                _ => {}
            }
        }
    }
}

fn equals_simulated(world: &World, settings: &str, seen: &mut Seen) {
    let (records, outcome) = live(world, Mocks::new(world), &stepped());
    assert_eq!(outcome.failures, [], "{settings}");
    let expected = simulated(world);
    let first = records.iter().zip(&expected).find(|(a, b)| a != b);
    assert_eq!(first, None, "{settings}");
    assert_eq!(records.len(), expected.len(), "{settings}");
    assert_eq!(outcome.arrivals.max, Duration::ZERO);
    seen.add(world, &records);
}

#[test]
fn a_live_run_keeps_every_invariant_and_replays() {
    in_time(|| {
        for settings in VARIANTS {
            let world = world(settings);
            let (records, outcome) = live(&world, Mocks::new(&world), &wall());
            assert_eq!(outcome.failures, [], "{settings}");
            assert_eq!(outcome.stuck, [], "{settings}");
            assert_eq!(ends(&records).len(), 15, "{settings}");
            let times = records.iter().map(|&(at, _)| at);
            assert!(times.is_sorted(), "INV-2: {settings}");
            assert!(outcome.arrivals.count >= 31 && outcome.ends.count > 0);
            assert!(outcome.arrivals.mean() <= outcome.arrivals.max);
        }
    });
}

#[test]
fn live_answers_equal_the_serial_reference() {
    in_time(|| {
        let serial = ends(&simulated(&world("policy.serial = {}")));
        assert!(serial.values().all(Result::is_ok));
        for settings in ["", "policy.round_robin = {}", "policy.naive = {}"] {
            // Users of a closed loop ask when they were answered, so only the open stream's are alike.
            let (records, _) = {
                let world = world(settings);
                live(&world, Mocks::new(&world), &wall())
            };
            let live = ends(&records);
            for (request, digest) in serial.range((0, 0)..(1, 0)) {
                assert_eq!(live.get(request), Some(digest), "{settings}");
            }
        }
    });
}

/// One frame and one query at a time, far apart, so that the order of events cannot depend on the clock.
const FAR_APART: &str = r#"
[[streams]]
name = "door"
frames = { clock = { times_s = [0, 20, 40] } }
queries = { arrivals = { times_s = [10, 30, 50] }, prompt_tokens = 6, output_tokens = 5 }
"#;

#[test]
fn events_far_apart_come_in_the_same_order_on_real_time() {
    in_time(|| {
        let world = world_of("policy.round_robin = {}", FAR_APART, "");
        let options = Options {
            pace: Pace::Wall { speed: 50.0 },
            ..wall()
        };
        let (records, _) = live(&world, Mocks::new(&world), &options);
        // A machine that stalls for a fifth of a second brings events together; then nothing is said.
        if arrivals_meet_idle_lanes(&records) {
            assert_eq!(starts(&records), starts(&simulated(&world)));
        }
    });
}

fn arrivals_meet_idle_lanes(records: &Records) -> bool {
    let mut running = 0;
    records.iter().all(|(_, record)| match record {
        Record::Effect(Effect::Start { .. }) => {
            running += 1;
            true
        }
        Record::Input(Input::Finish { .. }) => {
            running -= 1;
            true
        }
        Record::Input(Input::Frame { .. } | Input::Query { .. }) => running == 0,
        _ => true,
    })
}

fn starts(records: &Records) -> Vec<(LaneId, sim::dispatch::Task)> {
    let starts = effects(records).filter_map(|effect| match *effect {
        Effect::Start { lane, task } => Some((lane, task)),
        _ => None,
    });
    starts.collect()
}
