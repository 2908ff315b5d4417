//! What the policy expects of co-running is what happens, where nothing else comes: the end of a request on either
//! lane, and by how much it delays the other.
//!
//! To see these fail, leave out `delay_others` in `Dispatcher::place_ready`, let `Other::advance` go on at full rate,
//! take a lane's `load` for its `later`, multiply by the co-run ratio after contention, leave out `LaneState::lengthen`
//! or `State::serve_anew` in `State::throttle`, plan by the present resident in `State::plan_behind`, skip lanes that do
//! not run in `State::beside` or in `State::delay_others`, or stretch a copy by its source's speed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use sim::dispatch::policy::{Decision, Policy, Request, View};
use sim::dispatch::{Dispatcher, Effect, Effects};
use sim::drive::drive;
use sim::soc::Soc;
use sim::time::{Duration, Instant};
use sim::trace::{Record, Recorder};
use sim::world::{LaneId, StreamId, World};

use crate::toy::{Toy, toy};

/// What was expected of a request.
#[derive(Clone, Copy, Debug)]
struct Expected {
    /// When its lane is free for it.
    free: Instant,
    end: Instant,
    /// Delay of others.
    harm: Duration,
}

type Told = Arc<Mutex<BTreeMap<(StreamId, u32), Expected>>>;

/// Places each query on the lane that is listed for it, by stream or by number, as W + P + S would have; and frames as
/// listed by number, if any are.
#[derive(Debug)]
struct Listed {
    lanes: Vec<LaneId>,
    frames: Vec<LaneId>,
    told: Told,
}

impl Policy for Listed {
    fn place(&mut self, view: &View<'_>, request: Request) -> Decision {
        let (stream, index) = (view.stream(request), view.index(request));
        let lane = self.lanes[usize::from(stream.0) + index as usize];
        let e = view.estimate(request, lane);
        let busy = Duration(e.prepare + e.beside);
        let free = view.now() + Duration(e.wait);
        let expected = Expected {
            free,
            end: free + busy,
            harm: Duration(e.harm),
        };
        let mut told = self.told.lock().expect("nobody panicked");
        told.insert((stream, index), expected);
        Decision::PlaceFor(lane, busy)
    }

    fn ingest(&mut self, view: &View<'_>, item: Request) -> Option<LaneId> {
        match self.frames.get(view.index(item) as usize) {
            Some(&lane) => Some(lane),
            None => view.earliest_ingest(item),
        }
    }
}

/// Queries of three streams at these times, ms, on memory that two decodes ask too much of.
fn contending(prefill_bytes: f64, decode_bytes: f64, times: &[u32]) -> Toy {
    let model = "model = 'water_filling'";
    let mut toy = toy().soc("model = 'none'", model);
    for ms in [1, 2] {
        // Rates alike on both: b takes twice as long and moves twice as much.
        let bytes = |bytes: f64| bytes * f64::from(ms);
        toy = toy
            .costs(
                &format!("prefill = {{ per_token_s = 0.00{ms} }}"),
                &format!(
                    "prefill = {{ per_token_s = 0.00{ms}, bytes_per_token = {:e} }}",
                    bytes(prefill_bytes)
                ),
            )
            .costs(
                &format!("decode = {{ per_token_s = 0.0{ms}0 }}"),
                &format!(
                    "decode = {{ per_token_s = 0.0{ms}0, bytes_per_token = {:e} }}",
                    bytes(decode_bytes)
                ),
            );
    }
    for (name, &at) in ["x", "y", "z"].iter().zip(times) {
        toy = toy.stream_with(name, &[], &[at], 20, 9);
    }
    toy
}

/// When each answer ended, and what was expected of it when it was placed.
fn play_with(world: &World, lanes: &[u8], frames: &[u8]) -> (Vec<Instant>, Vec<Expected>) {
    let told = Told::default();
    let policy = Listed {
        lanes: lanes.iter().map(|&lane| LaneId(lane)).collect(),
        frames: frames.iter().map(|&lane| LaneId(lane)).collect(),
        told: told.clone(),
    };
    let mut dispatcher = Dispatcher::with_policy(world, Box::new(policy));
    let mut trace = Recorder::default();
    let mut soc = Soc::new(world, 0);
    drive(&mut soc, &mut dispatcher, &mut Effects::new(), &mut trace).expect("no policy stops");
    let mut ended = BTreeMap::new();
    for &(at, record) in &trace.records {
        if let Record::Effect(Effect::Complete(done)) = record {
            ended.insert((done.stream, done.index), at);
        }
    }
    let told = told.lock().expect("nobody panicked");
    (
        ended.into_values().collect(),
        told.values().copied().collect(),
    )
}

fn play(world: &World, lanes: &[u8]) -> (Vec<Instant>, Vec<Expected>) {
    play_with(world, lanes, &[])
}

fn near(got: Instant, want: Instant, within_ns: u64, what: &str) {
    let off = got.0.abs_diff(want.0);
    assert!(off <= within_ns, "{what}: {got:?}, expected {want:?}");
}

/// (Bytes of a prefilled, of a decoded token): prefills or decodes that ask more of the memory, or both.
const LOADS: [(f64, f64); 4] = [(1e6, 9e7), (8e6, 9e7), (9e6, 2e7), (9.9e6, 9.9e7)];

#[test]
fn two_requests_end_when_they_were_expected_to_and_delay_as_expected() {
    for (prefill, decode) in LOADS {
        for at in [1, 7, 19, 20, 33, 70, 99, 101] {
            for lanes in [[0, 1], [1, 0], [0, 0], [1, 1]] {
                let what = format!("{prefill:e}, {decode:e} bytes, at {at} ms, lanes {lanes:?}");
                let alone = contending(prefill, decode, &[0]).world();
                let (alone, _) = play(&alone, &lanes[..1]);
                let both = contending(prefill, decode, &[0, at]).world();
                let (ended, told) = play(&both, &lanes);
                // Ends are whole nanoseconds, of each stage.
                near(ended[1], told[1].end, 20, &what);
                near(ended[0], alone[0] + told[1].harm, 20, &what);
            }
        }
    }
}

#[test]
fn a_third_waits_for_as_long_as_the_others_are_delayed() {
    for (prefill, decode) in LOADS {
        for at in [25, 60, 110] {
            for lanes in [[0, 1, 0], [0, 1, 1], [1, 0, 0], [1, 0, 1]] {
                let what = format!("{prefill:e}, {decode:e} bytes, at {at} ms, lanes {lanes:?}");
                let world = contending(prefill, decode, &[0, 22, at]).world();
                let (ended, told) = play(&world, &lanes);
                near(ended[2], told[2].end, 1_000, &what);
            }
        }
    }
}

/// The toy's engines at costs beside others, of prefill and decode: so many times as long.
fn switching(toy: Toy, ratios: [[f64; 2]; 2]) -> Toy {
    let mut costs = String::new();
    for (engine, [prefill, decode]) in ["a", "b"].into_iter().zip(ratios) {
        for (stage, ratio) in [("prefill", prefill), ("decode", decode)] {
            _ = writeln!(costs, "[engines.{engine}.corun.{stage}]\nratio = {ratio:?}");
        }
    }
    toy.costs("[origins.o]", &format!("{costs}[origins.o]"))
}

/// From its first microsecond on it is too hot to run at full speed.
fn hot(toy: Toy, speed: [f64; 2]) -> Toy {
    let [a, b] = speed;
    let steps = format!(
        "[power]\nbase_w = 1\n[heat]\nambient_c = 20\nkelvin_per_watt = 5\ntime_constant_s = 1e3\nstart_c = 49.99999999\n\
         [[heat.steps]]\nfrom_c = 50\nuntil_c = 40\nspeed = {{ a = {a:?}, b = {b:?} }}\n[origins.o]"
    );
    toy.soc("[engines.a]\n", "[engines.a]\nidle_w = 0\nactive_w = 9\n")
        .soc("[engines.b]\n", "[engines.b]\nidle_w = 0\nactive_w = 9\n")
        .soc("[origins.o]", &steps)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn costs_beside_others_and_heat_are_expected_as_they_happen(
        (prefill, decode) in (0.0..=1e7_f64, 0.0..=1e8_f64),
        at in 1..200_u32,
        lanes in prop::sample::select(vec![[0, 1], [1, 0], [0, 0], [1, 1]]),
        ratios in prop::option::of(prop::array::uniform2(prop::array::uniform2(1.0..4.0_f64))),
        speed in prop::option::of(prop::array::uniform2(0.2..1.0_f64)),
    ) {
        let world = |times: &[u32]| {
            let mut toy = contending(prefill, decode, times);
            if let Some(ratios) = ratios {
                toy = switching(toy, ratios);
            }
            if let Some(speed) = speed {
                toy = hot(toy, speed);
            }
            toy.world()
        };
        let (alone, _) = play(&world(&[0]), &lanes[..1]);
        let (ended, told) = play(&world(&[0, at]), &lanes);
        let off = ended[1].0.abs_diff(told[1].end.0);
        prop_assert!(off <= 20, "ended at {:?}, expected {:?}", ended[1], told[1]);
        let delayed = ended[0].saturating_since(alone[0]).0;
        prop_assert!(delayed.abs_diff(told[1].harm.0) <= 20, "delayed by {delayed}: {:?}", told[1]);
    }

    /// The second waits behind the first; the third arrives as the first ends, and so before the second starts.
    #[test]
    fn what_starts_in_the_same_instant_is_beside(
        (prefill, decode) in (0.0..=1e7_f64, 0.0..=1e8_f64),
        at in 1..99_u32,
        (lane, other) in prop::sample::select(vec![(0, 1), (1, 0)]),
        ratios in prop::option::of(prop::array::uniform2(prop::array::uniform2(1.0..4.0_f64))),
        speed in prop::option::of(prop::array::uniform2(0.2..1.0_f64)),
    ) {
        let world = |third: Option<Instant>| {
            let mut toy = contending(prefill, decode, &[0, at]);
            if let Some(third) = third {
                toy = toy.stream_at("z", &[], &[third.as_secs_f64()], 20, 9);
            }
            if let Some(ratios) = ratios {
                toy = switching(toy, ratios);
            }
            if let Some(speed) = speed {
                toy = hot(toy, speed);
            }
            toy.world()
        };
        let (alone, _) = play(&world(None), &[lane, lane]);
        let (ended, told) = play(&world(Some(alone[0])), &[lane, lane, other]);
        prop_assert_eq!(ended[0], alone[0]);
        let off = ended[2].0.abs_diff(told[2].end.0);
        prop_assert!(off <= 20, "ended at {:?}, expected {:?}", ended[2], told[2]);
        let delayed = ended[1].saturating_since(alone[1]).0;
        prop_assert!(delayed.abs_diff(told[2].harm.0) <= 20, "delayed by {delayed}: {:?}", told[2]);
    }

    #[test]
    fn what_is_prepared_already_is_counted_once(
        frames in prop::collection::btree_set(0..120_u32, 1..4),
        queries in prop::collection::btree_set(1..300_u32, 2..4),
        frame_lanes in prop::array::uniform3(0..2_u8),
        lanes in prop::array::uniform3(0..2_u8),
        transfer in prop::sample::select(vec!["import", "reconstruct", "auto"]),
        binding in prop::sample::select(vec!["arrived", "published"]),
        speed in prop::option::of(prop::array::uniform2(0.2..1.0_f64)),
    ) {
        let list = |times: std::collections::BTreeSet<u32>| times.into_iter().collect::<Vec<_>>();
        let mut frames = frames;
        if speed.is_some() {
            // Whatever runs first makes it too hot.
            frames.insert(0);
        }
        let (frames, queries) = (list(frames), list(queries));
        let mut toy = toy()
            .set(&format!("modes = {{ state_transfer = '{transfer}' }}"))
            .table(&format!("[context]\nbinding = '{binding}'"))
            .stream("x", &frames, &queries);
        if let Some(speed) = speed {
            toy = hot(toy, speed);
        }
        let (ended, told) = play_with(&toy.world(), &lanes, &frame_lanes);
        for (ended, told) in ended.iter().zip(&told) {
            let off = ended.0.abs_diff(told.end.0);
            prop_assert!(off <= 20, "ended at {ended:?}, expected {told:?}");
        }
    }
}

/// Two queries wait for one version: it releases both in one instant, and the first is placed when the second is.
#[test]
fn two_that_one_version_releases_are_beside_each_other() {
    // Where prefill and decode ask for as much, what follows a copy is all alike.
    let world = |queries: &[u32]| {
        contending(9.9e6, 9.9e7, &[])
            .set("modes = { state_transfer = 'import' }")
            .stream_with("x", &[0], queries, 20, 9)
            .world()
    };
    // Engine b copies what a has.
    let (alone, _) = play_with(&world(&[1]), &[1], &[0]);
    let (ended, told) = play_with(&world(&[1, 2]), &[1, 0], &[0]);
    near(ended[1], told[1].end, 20, "the second, beside the first");
    near(ended[0], alone[0] + told[1].harm, 20, "the first");
    assert!(told[1].harm > Duration::from_secs_f64(0.05), "{told:?}");
    // The one that is placed behind the first waits for as long as that is delayed.
    let (ended, told) = play_with(&world(&[1, 2, 3]), &[1, 0, 1], &[0]);
    near(told[2].free, ended[0], 1_000, "what waits behind the first");
}

/// Two queries read a version that engine b lacks: the first makes it usable there.
#[test]
fn a_version_that_is_being_prepared_is_counted_once() {
    for transfer in ["import", "reconstruct"] {
        for second in [41, 45, 60] {
            let world = toy()
                .set(&format!("modes = {{ state_transfer = '{transfer}' }}"))
                .stream("x", &[0], &[40, second])
                .world();
            let (ended, told) = play_with(&world, &[1, 1], &[0]);
            let what = format!("{transfer}, at {second} ms");
            near(ended[1], told[1].end, 0, &what);
            // 2 tokens and 2 more of an answer, at twice the time of a.
            near(
                ended[1],
                ended[0] + Duration::from_secs_f64(0.044),
                0,
                &what,
            );
        }
    }
}

/// An ingest prepares the version before the one that it makes.
#[test]
fn what_an_ingest_prepares_is_counted_once() {
    // The second query reads the first frame's version, while b prefills it again for the second frame's.
    let world = toy()
        .set("modes = { state_transfer = 'reconstruct' }")
        .table("[context]\nbinding = 'published'")
        .stream("x", &[0, 20], &[15, 25])
        .world();
    let (ended, told) = play_with(&world, &[0, 1], &[0, 1]);
    near(ended[1], told[1].end, 0, "behind an ingest");
}

/// A throttle step while one runs and one waits lengthens what both are expected to take.
#[test]
fn a_throttle_step_lengthens_what_runs_and_waits() {
    let steps = "[power]\nbase_w = 1\n[heat]\nambient_c = 20\nkelvin_per_watt = 5\ntime_constant_s = 0.1\n\
        [[heat.steps]]\nfrom_c = 50\nuntil_c = 40\nspeed = { a = 0.5 }\n[origins.o]";
    let world = toy()
        .soc("[engines.a]\n", "[engines.a]\nidle_w = 0\nactive_w = 9\n")
        .soc("[engines.b]\n", "[engines.b]\nidle_w = 0\nactive_w = 9\n")
        .soc("[origins.o]", steps)
        .stream_with("x", &[], &[0], 20, 9)
        .stream_with("y", &[], &[10], 20, 9)
        .stream_with("z", &[], &[95], 20, 9)
        .world();
    // From 25 °C towards 70 °C, 50 °C are reached at 81 ms; throttled it settles at 47.5 °C.
    let (ended, told) = play(&world, &[0, 0, 0]);
    near(ended[1], told[2].free, 4, "what runs and waits");
    near(ended[2], told[2].end, 4, "what waits behind it");
}

/// A third lane whose work asks for no memory switches `b` to costs beside it: `a`, beside that, is hastened.
#[test]
fn what_runs_beside_others_may_be_relieved() {
    let mut toy = contending(0.0, 9e7, &[0, 0, 60])
        .soc("model = 'water_filling'", "model = 'water_filling'\nburst_exponent = 1.0")
        .soc("[lanes.b]", "[engines.c]\nkind = 'npu'\nport_gbps = 10.0\nweight = 1.0\n[lanes.c]\nengine = 'c'\n[lanes.b]")
        .costs(
            "[engines.b.stages]",
            "[engines.c.stages]\ningest = { per_token_s = 0.001 }\nprefill = { per_token_s = 0.0001 }\n\
             decode = { per_token_s = 0.001 }\n[engines.b]\ncorun_beside = ['c']\n[engines.b.corun.decode]\n\
             ratio = 4\n[engines.b.stages]",
        );
    toy = toy.stream_with("w", &[], &[61], 20, 9);
    let world = toy.world();
    // By name: w on a behind x, x on a, y on b, z on c.
    let lane = |name: &str| {
        world
            .lanes
            .iter()
            .position(|lane| lane.name == name)
            .expect("it is there") as u8
    };
    let stream = |name: &str| {
        world
            .streams
            .iter()
            .position(|stream| stream.name == name)
            .expect("it is there")
    };
    let mut lanes = [0; 4];
    for (name, on) in [("w", "a"), ("x", "a"), ("y", "b"), ("z", "c")] {
        lanes[stream(name)] = lane(on);
    }
    let (ended, told) = play(&world, &lanes);
    near(
        told[stream("w")].free,
        ended[stream("x")],
        20,
        "x, beside y that is beside z",
    );
}
