//! What the policy expects of co-running is what happens, where nothing else comes: the end of a request on either
//! lane, and by how much it delays the other.
//!
//! To see these fail, leave out `delay_others` in `Dispatcher::place_ready`, let `Other::advance` go on at full rate,
//! or take a lane's `load` for its `later`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use sim::dispatch::policy::{Decision, Policy, Request, View};
use sim::dispatch::{Dispatcher, Effect, Effects};
use sim::drive::drive;
use sim::soc::Soc;
use sim::time::{Duration, Instant};
use sim::trace::{Record, Recorder};
use sim::world::{LaneId, StreamId, World};

use crate::toy::{Toy, toy};

/// What was expected of a request: its end, and the delay of others.
type Told = Arc<Mutex<BTreeMap<StreamId, (Instant, Duration)>>>;

/// Places each stream's query on the lane that is listed for it, as W + P + S would have.
#[derive(Debug)]
struct Listed {
    lanes: Vec<LaneId>,
    told: Told,
}

impl Policy for Listed {
    fn place(&mut self, view: &View<'_>, request: Request) -> Decision {
        let stream = view.stream(request);
        let lane = self.lanes[stream.0 as usize];
        let e = view.estimate(request, lane);
        let busy = Duration(e.prepare + e.beside);
        let end = view.now() + Duration(e.wait) + busy;
        let mut told = self.told.lock().expect("nobody panicked");
        told.insert(stream, (end, Duration(e.harm)));
        Decision::PlaceFor(lane, busy)
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

/// When each stream's answer ended, and what was expected of it when it was placed.
fn play(world: &World, lanes: &[u8]) -> (Vec<Instant>, Vec<(Instant, Duration)>) {
    let told = Told::default();
    let policy = Listed {
        lanes: lanes.iter().map(|&lane| LaneId(lane)).collect(),
        told: told.clone(),
    };
    let mut dispatcher = Dispatcher::with_policy(world, Box::new(policy));
    let mut trace = Recorder::default();
    let mut soc = Soc::new(world, 0);
    drive(&mut soc, &mut dispatcher, &mut Effects::new(), &mut trace).expect("no policy stops");
    let mut ended = BTreeMap::new();
    for &(at, record) in &trace.records {
        if let Record::Effect(Effect::Complete(done)) = record {
            ended.insert(done.stream, at);
        }
    }
    let told = told.lock().expect("nobody panicked");
    (
        ended.into_values().collect(),
        told.values().copied().collect(),
    )
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
                near(ended[1], told[1].0, 20, &what);
                near(ended[0], alone[0] + told[1].1, 20, &what);
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
                near(ended[2], told[2].0, 1_000, &what);
            }
        }
    }
}
