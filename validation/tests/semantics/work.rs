//! Semantics 3, 4 and 6: contention changes rates and never the amount of work, all events of an instant
//! are applied before rates are recomputed, and nothing is extrapolated in silence.
//!
//! To see these fail, leave out the line of `Soc::update_rates` that advances the work left, or the
//! condition `done_at > self.now` in `Soc::next`.

use std::sync::{Arc, Mutex};

use sim::contention::{ContentionModel, Load};
use sim::simulation::Simulation;

use crate::toy::{Toy, run, toy};

/// `a` prefills for 10 s and `b` for 2 s, both from memory all the time, and answers are one token. `x`
/// asks on `a` at once.
fn long() -> Toy {
    toy()
        .costs(
            "prefill = { per_token_s = 0.001 }",
            "prefill = { fixed_s = 10.0, bytes = 1e11 }",
        )
        .costs(
            "prefill = { per_token_s = 0.002 }",
            "prefill = { fixed_s = 2.0, bytes = 2e10 }",
        )
        .stream_with("x", &[], &[0], 2, 1)
}

/// And `y` on `b`.
fn long_and_short() -> Toy {
    long().set("policy = { fixed = { lanes = { x = 'a', y = 'b' } } }")
}

/// With a measured slowdown of 2 for either beside the other.
fn slowed(toy: Toy) -> Toy {
    let pair = |victim: &str, aggressor: &str| {
        format!(
            "[[contention.pairs]]\nvictim = '{victim}'\naggressor = '{aggressor}'\n\
             victim_mu = [0.0, 1.0]\naggressor_mu = [0.0, 1.0]\nslowdown = [[1.0, 1.0], [1.0, 2.0]]\n"
        )
    };
    let pairs = pair("a", "b") + &pair("b", "a");
    toy.soc("model = 'none'\n", &format!("model = 'pairwise'\n{pairs}"))
}

#[test]
fn ten_seconds_beside_two_end_at_twelve_and_four() {
    slowed(long_and_short())
        .stream_with("y", &[], &[0], 2, 1)
        .runs_as(
            "0 bind x/q0 v0
             0 bind y/q0 v0
             0-4000 b prefill y/2@0
             4000 answer y/q0 v0 Reuse first 4000
             0-12000 a prefill x/2@0
             12000 answer x/q0 v0 Reuse first 12000",
        );
}

#[test]
fn two_that_share_the_bandwidth_are_two_jobs_under_processor_sharing() {
    // Each gets half while both run: the short one ends at twice its time, the long one when all work
    // is done.
    long_and_short()
        .soc("model = 'none'", "model = 'water_filling'")
        .stream_with("y", &[], &[0], 2, 1)
        .runs_as(
            "0 bind x/q0 v0
             0 bind y/q0 v0
             0-4000 b prefill y/2@0
             4000 answer y/q0 v0 Reuse first 4000
             0-12000 a prefill x/2@0
             12000 answer x/q0 v0 Reuse first 12000",
        );
}

#[test]
fn work_is_conserved_over_many_changes() {
    // Three times 2 s on `b`, each slowed to 4 s, cost the 10 s on `a` 6 s.
    slowed(long_and_short())
        .stream_with("y", &[], &[0, 1000, 9000], 2, 1)
        .runs_as(
            "0 bind x/q0 v0
             0 bind y/q0 v0
             1000 bind y/q1 v0
             0-4000 b prefill y/2@0
             4000 answer y/q0 v0 Reuse first 4000
             4000-8000 b prefill y/2@0
             8000 answer y/q1 v0 Reuse first 8000
             9000 bind y/q2 v0
             9000-13000 b prefill y/2@0
             13000 answer y/q2 v0 Reuse first 13000
             0-16000 a prefill x/2@0
             16000 answer x/q0 v0 Reuse first 16000",
        );
}

/// A model without slowdown that notes how many stages it was asked about.
#[derive(Debug)]
struct Counting(Arc<Mutex<Vec<usize>>>);

impl ContentionModel for Counting {
    fn slowdowns(&self, running: &[Load], out: &mut [f64]) {
        self.0.lock().expect("one thread").push(running.len());
        out.fill(1.0);
    }

    fn name(&self) -> &'static str {
        "counting"
    }
}

#[test]
fn an_instant_is_over_before_rates_are_recomputed() {
    // Three lanes are busy from 0 to 22 ms. Two of them change stage at 2 ms, and end at 22 ms: at no
    // moment do two run.
    let toy = toy()
        .soc(
            "[lanes.a]\nengine = 'a'",
            "[lanes.a1]\nengine = 'a'\n[lanes.a2]\nengine = 'a'",
        )
        .set("policy = { fixed = { lanes = { x = 'a1', y = 'a2', z = 'b' } } }")
        .stream("x", &[], &[0])
        .stream("y", &[], &[0])
        .stream("z", &[], &[0]);
    let mut world = toy.world();
    let asked = Arc::new(Mutex::new(Vec::new()));
    world.contention = Box::new(Counting(Arc::clone(&asked)));
    world.contention_off = false;
    run(&world);
    let asked = asked.lock().expect("one thread").clone();
    assert!(!asked.is_empty());
    assert!(asked.iter().all(|&running| running == 3), "{asked:?}");
}

#[test]
fn an_oversubscribed_cpu_slows_its_lanes_and_the_hosts_of_others() {
    // Four cores for the lane and four for the host of `b`, of four: the CPU stage at half its speed; of
    // the NPU stage the half that is CPU work, 3 s in 4.5. Then 10 − 4.5/2 s are left.
    long_and_short()
        .soc("kind = 'gpu'", "kind = 'cpu'")
        .soc(
            "[lanes.a]\nengine = 'a'",
            "[lanes.a]\nengine = 'a'\ncores = 4",
        )
        .costs(
            "fixed_s = 2.0, bytes = 2e10",
            "fixed_s = 3.0, host_cores = 4, host_share = 0.5",
        )
        .stream_with("y", &[], &[0], 2, 1)
        .runs_as(
            "0 bind x/q0 v0
             0 bind y/q0 v0
             0-4500 b prefill y/2@0
             4500 answer y/q0 v0 Reuse first 4500
             0-12250 a prefill x/2@0
             12250 answer x/q0 v0 Reuse first 12250",
        );
}

#[test]
fn lanes_that_are_pinned_to_one_core_halve_it_and_others_do_not() {
    // Two seconds of `b` at half its speed; half of the ten of `a` are done by then at the earliest.
    let pinned = |a: u32, b: u32| {
        let lane = |name: &str, pin: u32| {
            (
                format!("[lanes.{name}]\nengine = '{name}'"),
                format!("[lanes.{name}]\nengine = '{name}'\ncores = 1\npin_cores = [{pin}]"),
            )
        };
        let ((a, a_pinned), (b, b_pinned)) = (lane("a", a), lane("b", b));
        long_and_short()
            .soc("kind = 'gpu'", "kind = 'cpu'")
            .soc("kind = 'npu'", "kind = 'cpu'")
            .soc(&a, &a_pinned)
            .soc(&b, &b_pinned)
            .stream_with("y", &[], &[0], 2, 1)
    };
    let timeline = |b: &str, a: &str| {
        format!(
            "0 bind x/q0 v0
             0 bind y/q0 v0
             0-{b} b prefill y/2@0
             {b} answer y/q0 v0 Reuse first {b}
             0-{a} a prefill x/2@0
             {a} answer x/q0 v0 Reuse first {a}"
        )
    };
    pinned(0, 1).runs_as(&timeline("2000", "10000"));
    pinned(1, 1).runs_as(&timeline("4000", "12000"));
}

#[test]
fn other_software_prefers_cores_that_nobody_is_pinned_to() {
    // Of four cores one is pinned to twice: up to three cores' worth of other software finds room elsewhere.
    let beside = |cores: u32| {
        long_and_short()
            .soc("kind = 'gpu'", "kind = 'cpu'")
            .soc("kind = 'npu'", "kind = 'cpu'")
            .soc(
                "[lanes.a]\nengine = 'a'",
                "[lanes.a]\nengine = 'a'\ncores = 1\npin_cores = [0]",
            )
            .soc(
                "[lanes.b]\nengine = 'b'",
                "[lanes.b]\nengine = 'b'\ncores = 1\npin_cores = [0]",
            )
            .table(&format!("[background]\ncpu_cores = {cores}"))
            .stream_with("y", &[], &[0], 2, 1)
    };
    let halved = "0 bind x/q0 v0
             0 bind y/q0 v0
             0-4000 b prefill y/2@0
             4000 answer y/q0 v0 Reuse first 4000
             0-12000 a prefill x/2@0
             12000 answer x/q0 v0 Reuse first 12000";
    beside(2).runs_as(halved);
    beside(3).runs_as(halved);
}

#[test]
fn a_lane_that_loses_cores_beside_others_takes_its_costs_beside_others() {
    // From 2 to 4 ms the decode goes at half its speed: 1 ms of 20 is done, and 19 are left.
    toy()
        .costs(
            "[engines.b.stages]",
            "[engines.a.corun]\ndecode = { ratio = 2 }\n[engines.b.stages]",
        )
        .set("policy = { fixed = { lanes = { x = 'a', y = 'b' } } }")
        .stream("x", &[], &[0])
        .stream_with("y", &[], &[0], 2, 1)
        .runs_as(
            "0 bind x/q0 v0
             0 bind y/q0 v0
             0-2 a prefill x/2@0
             0-4 b prefill y/2@0
             4 answer y/q0 v0 Reuse first 4
             2-23 a decode x/2@2
             23 answer x/q0 v0 Reuse first 2",
        );
}

#[test]
fn a_stage_at_its_costs_beside_others_asks_for_less_bandwidth() {
    // Beside `b` the decode of `a` takes 4 times as long for as many bytes, and leaves 7.5 of 10 GB/s: that of `b`
    // takes 4/3 of its 15 ms. It wants all, so that of `a` gets half: 4 · ∛(1 + (2³ − 1) / 4³) times its time alone.
    toy()
        .soc(
            "model = 'none'",
            "model = 'water_filling'\nburst_exponent = 1.0",
        )
        .costs(
            "decode = { per_token_s = 0.010 }",
            "decode = { per_token_s = 0.010, bytes_per_token = 1e8 }",
        )
        .costs(
            "decode = { per_token_s = 0.020 }",
            "decode = { per_token_s = 0.015, bytes_per_token = 1.5e8 }",
        )
        .costs(
            "[engines.b.stages]",
            "[engines.a.corun]\ndecode = { ratio = 4 }\n[engines.b.stages]",
        )
        .costs(
            "prefill = { per_token_s = 0.002 }",
            "prefill = { per_token_s = 0.001 }",
        )
        .set("policy = { fixed = { lanes = { x = 'a', y = 'b' } } }")
        .stream_with("x", &[], &[0], 2, 2)
        .stream_with("y", &[], &[0], 2, 2)
        .runs_as(
            "0 bind x/q0 v0
             0 bind y/q0 v0
             0-2 a prefill x/2@0
             0-2 b prefill y/2@0
             2-22 b decode y/1@2
             22 answer y/q0 v0 Reuse first 2
             2-27.170036 a decode x/1@2
             27.170036 answer x/q0 v0 Reuse first 2",
        );
}

#[test]
fn only_the_engines_that_are_named_bring_costs_beside_others_about() {
    let beside = |engine: &str| {
        toy()
            .costs(
                "[engines.b.stages]",
                "[engines.a.corun]\ndecode = { ratio = 2 }\n[engines.b.stages]",
            )
            .costs(
                "[engines.a.stages]",
                &format!("[engines.a]\ncorun_beside = ['{engine}']\n[engines.a.stages]"),
            )
            .set("policy = { fixed = { lanes = { x = 'a', y = 'b' } } }")
            .stream("x", &[], &[0])
            .stream_with("y", &[], &[0], 2, 1)
    };
    let timeline = |decode: &str, end: &str| {
        format!(
            "0 bind x/q0 v0
             0 bind y/q0 v0
             0-2 a prefill x/2@0
             0-4 b prefill y/2@0
             4 answer y/q0 v0 Reuse first 4
             {decode} a decode x/2@2
             {end} answer x/q0 v0 Reuse first 2"
        )
    };
    beside("b").runs_as(&timeline("2-23", "23"));
    beside("a").runs_as(&timeline("2-22", "22"));
}

#[test]
fn other_software_takes_bandwidth_cores_and_memory() {
    let long = || long().set("policy = { single = { lane = 'a' } }");
    // 5 of 10 GB/s, fairly shared, leave 5 to a stage that wants 10.
    long()
        .soc("model = 'none'", "model = 'water_filling'")
        .table("[background]\nbandwidth_gbps = 5.0")
        .runs_as(
            "0 bind q0 v0
             0-20000 a prefill 2@0
             20000 answer q0 v0 Reuse first 20000",
        );
    // Four cores beside the lane's four, of four.
    long()
        .soc("kind = 'gpu'", "kind = 'cpu'")
        .soc(
            "[lanes.a]\nengine = 'a'",
            "[lanes.a]\nengine = 'a'\ncores = 4",
        )
        .table("[background]\ncpu_cores = 4")
        .runs_as(
            "0 bind q0 v0
             0-20000 a prefill 2@0
             20000 answer q0 v0 Reuse first 20000",
        );
    let budget = |toy: Toy| toy.world().memory.kv_budget;
    let free = budget(long());
    let left = budget(long().table("[background]\nmemory_bytes = 1e8"));
    assert_eq!(free - left, 100_000_000);
}

#[test]
fn what_lies_outside_the_measured_range_is_counted() {
    let toy = toy()
        .costs(
            "prefill = { per_token_s = 0.001 }",
            "prefill = { per_token_s = 0.001, measured_tokens = [1, 2] }",
        )
        .costs(
            "decode = { per_token_s = 0.010 }",
            "decode = { per_token_s = 0.010, measured_context = [0, 12] }",
        )
        .set("policy = { single = { lane = 'a' } }");
    let unmeasured = |toy: &Toy| {
        let world = toy.world();
        let mut simulation = Simulation::new(&world);
        simulation.run(0).expect("no policy stops");
        simulation.summary().unmeasured
    };
    // Prompts of 2 tokens on 10 of context end within both ranges; one of 3 leaves both.
    let inside = toy.clone().stream_with("cam", &[0], &[20, 60], 2, 3);
    assert_eq!(unmeasured(&inside), []);
    let outside = toy.stream_with("cam", &[0], &[20, 60], 3, 3);
    let named = |stage: &str| ("a".to_owned(), stage.to_owned(), 2);
    assert_eq!(unmeasured(&outside), [named("prefill"), named("decode")]);
}
