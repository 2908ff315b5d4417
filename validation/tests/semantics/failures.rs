//! Lanes that fail: what they ran starts again elsewhere, or is refused with what depends on it.
//!
//! To see these fail, leave out `self.reroute(…)`, or the loop over jobs that `self.can_run(…)` no more,
//! in `Dispatcher::on_fail`.

use sim::check::Check;
use sim::dispatch::{Dispatcher, Effect, Effects, Input};
use sim::drive::{Executor, drive};
use sim::soc::Soc;
use sim::time::Instant;
use sim::trace::Recorder;
use sim::world::{LaneId, World};

use crate::toy::{Toy, timeline, toy};

/// The simulated SoC, lanes of which fail right after so many inputs.
struct Failing<'w> {
    soc: Soc<'w>,
    failures: Vec<(u32, LaneId)>,
    failed: Vec<LaneId>,
    inputs: u32,
    last: Instant,
}

impl<'w> Failing<'w> {
    fn new(world: &'w World, failures: &[(u32, &str)]) -> Self {
        let lane = |name: &str| world.lanes.iter().position(|lane| lane.name == name);
        let id = |name: &str| LaneId(lane(name).expect("is there") as u8);
        Self {
            soc: Soc::new(world, 0),
            failures: failures.iter().map(|&(at, name)| (at, id(name))).collect(),
            failed: Vec::new(),
            inputs: 0,
            last: Instant::ZERO,
        }
    }
}

impl Executor for Failing<'_> {
    fn next(&mut self) -> Option<(Instant, Input)> {
        if let Some(&(at, lane)) = self.failures.first()
            && at == self.inputs
        {
            self.failures.remove(0);
            self.failed.push(lane);
            return Some((self.last, Input::Fail { lane }));
        }
        self.inputs += 1;
        loop {
            let (now, input) = self.soc.next()?;
            // What a failed lane was running never ends.
            if !matches!(input, Input::Finish { lane, .. } if self.failed.contains(&lane)) {
                self.last = now;
                return Some((now, input));
            }
        }
    }

    fn apply(&mut self, now: Instant, effect: &Effect) {
        self.soc.apply(now, effect);
    }
}

#[track_caller]
fn fails_as(toy: &Toy, failures: &[(u32, &str)], expected: &str) {
    let world = toy.world();
    let mut sink = (Check::new(&world), Recorder::default());
    drive(
        &mut Failing::new(&world, failures),
        &mut Dispatcher::new(&world),
        &mut Effects::new(),
        &mut sink,
    )
    .expect("no policy stops");
    let (check, trace) = sink;
    assert_eq!(check.violations(), Vec::<String>::new());
    let got = timeline(&world, &trace);
    let lines = expected.lines().map(str::trim);
    let want: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    assert_eq!(got, want, "\ngot:\n{}\n", got.join("\n"));
}

#[test]
fn a_request_starts_again_on_another_lane() {
    fails_as(
        &toy().set("policy = 'idle_first'").stream("cam", &[], &[0]),
        &[(2, "a")],
        "0 bind q0 v0
         0-2 a prefill 2@0
         2 fail a
         2-6 b prefill 2@0
         6-46 b decode 2@2
         46 answer q0 v0 Reuse first 6",
    );
}

#[test]
fn without_another_lane_it_is_refused() {
    fails_as(
        &toy()
            .set("policy = 'idle_first'")
            .stream("cam", &[20], &[0, 30]),
        &[(1, "b"), (2, "a")],
        "0 bind q0 v0
         0 fail b
         0-2 a prefill 2@0
         2 fail a
         2 refuse q0 engine_failed
         20 refuse f0 engine_failed
         30 refuse q1 engine_failed",
    );
}

#[test]
fn a_lost_frame_takes_the_later_ones_and_their_readers_with_it() {
    // `b` encodes, and only `a` ingests. When `a` fails, `b` is encoding the second frame: that goes on,
    // for nobody. A query on what is left is answered.
    let toy = toy()
        .model(
            "[[frame_stages]]\nname = 'ingest'\nkind = 'ingest'",
            "[[frame_stages]]\nname = 'encode'\nkind = 'encode'\n\
             [[frame_stages]]\nname = 'ingest'\nkind = 'ingest'\nafter = ['encode']",
        )
        .costs(
            "ingest = { per_token_s = 0.002 }",
            "encode = { fixed_s = 0.010 }",
        )
        .costs(
            "[origins.o]",
            "[engines.b.unsupported]\ningest = 'cannot'\n[origins.o]",
        )
        .set("policy = { single = { lane = 'a' } }")
        .stream("cam", &[0, 5, 12, 30], &[13, 40]);
    fails_as(
        &toy,
        &[(5, "a")],
        "0-10 b encode 1@0
         13 bind q0 v3
         13 fail a
         13 refuse q0 engine_failed
         13 refuse f0 engine_failed
         13 refuse f1 engine_failed
         13 refuse f2 engine_failed
         10-20 b encode 1@0
         30 refuse f3 engine_failed
         40 bind q1 v0
         40-44 b prefill 2@0
         44-84 b decode 2@2
         84 answer q1 v0 Reuse first 44",
    );
}

#[test]
fn contexts_on_a_failed_engine_are_prefilled_again() {
    // The import under way ends, and what it copied is used again.
    let toy = toy()
        .set("policy = { fixed = { lanes = { cam = 'a', other = 'a' } } }")
        .table("[placement]\ningest = 'b'")
        .table("[modes]\nstate_transfer = 'import'")
        .stream("cam", &[0], &[25, 80])
        .stream("other", &[1], &[81]);
    fails_as(
        &toy,
        &[(5, "b")],
        "0-20 b ingest cam/10@0
         20 publish cam/v1 10
         25 bind cam/q0 v1
         20-40 b ingest other/10@0
         40 publish other/v1 10
         40 fail b
         25-47 a import cam/10@0 <b
         47-49 a prefill cam/2@10
         49-69 a decode cam/2@12
         69 answer cam/q0 v1 Import first 49
         80 bind cam/q1 v1
         81 bind other/q0 v1
         80-82 a prefill cam/2@10
         82-102 a decode cam/2@12
         102 answer cam/q1 v1 Reuse first 82
         102-112 a reconstruct other/10@0
         112-114 a prefill other/2@10
         114-134 a decode other/2@12
         134 answer other/q0 v1 Reconstruct first 114",
    );
}
