//! Heat: the temperature follows the power in closed form, throttle steps scale rates and never the amount
//! of work, and the scheduler knows of them.
//!
//! To see these fail, leave out the division by the speed in `Together::of` (or divide after contention), or the stretch
//! of quotes.

use sim::dispatch::Input;
use sim::simulation::Simulation;
use sim::trace::{Record, Recorder};

use crate::toy::{Toy, run, toy};

/// Engine `a` prefills for 10 s at 9 W over a base of 1 W; 5 K/W and 10 s to settle; from 50 °C until
/// 40 °C it runs at half speed. Idle it settles at 25 °C, busy at 70 °C, throttled at 47.5 °C.
fn warm() -> Toy {
    let engine = |name: &str| format!("[engines.{name}]\nidle_w = 0\nactive_w = 9\n");
    toy()
        .soc("[engines.a]\n", &engine("a"))
        .soc("[engines.b]\n", &engine("b"))
        .soc(
            "[origins.o]",
            "[power]\nbase_w = 1\n[heat]\nambient_c = 20\nkelvin_per_watt = 5\ntime_constant_s = 10\n\
             [[heat.steps]]\nfrom_c = 50\nuntil_c = 40\nspeed = { a = 0.5 }\n[origins.o]",
        )
        .costs(
            "prefill = { per_token_s = 0.001 }",
            "prefill = { fixed_s = 10.0 }",
        )
        .costs(
            "prefill = { per_token_s = 0.002 }",
            "prefill = { fixed_s = 15.0 }",
        )
}

/// Seconds until a temperature that settles at `target` is at `threshold`.
fn until(from: f64, target: f64, threshold: f64) -> f64 {
    10.0 * ((from - target) / (threshold - target)).ln()
}

fn throttles(trace: &Recorder) -> Vec<(f64, u8)> {
    let records = trace.records.iter();
    records
        .filter_map(|(at, record)| match record {
            Record::Input(Input::Throttle { level }) => Some((at.as_secs_f64(), *level)),
            _ => None,
        })
        .collect()
}

#[track_caller]
fn near(got: f64, want: f64) {
    assert!((got - want).abs() < 1e-6, "{got} instead of {want}");
}

#[test]
fn a_long_stage_throttles_halfway_and_the_soc_cools_after_it() {
    let world = warm()
        .set("policy = { single = { lane = 'a' } }")
        .stream_with("x", &[], &[0, 40_000], 2, 1)
        .world();
    let trace = run(&world);
    let taken = until(25.0, 70.0, 50.0);
    let ended = taken + (10.0 - taken) / 0.5;
    let then = 47.5 + (50.0 - 47.5) * (-(ended - taken) / 10.0).exp();
    let left = ended + until(then, 25.0, 40.0);
    let at_40 = 25.0 + (40.0 - 25.0) * (-(40.0 - left) / 10.0).exp();
    let again = 40.0 + until(at_40, 70.0, 50.0);
    let got = throttles(&trace);
    let want = [(taken, 1), (left, 0), (again, 1)];
    assert_eq!(got.len(), want.len(), "{got:?}");
    for ((at, level), (wanted, wanted_level)) in got.into_iter().zip(want) {
        near(at, wanted);
        assert_eq!(level, wanted_level);
    }
    let ends: Vec<f64> = trace
        .records
        .iter()
        .filter(|(_, record)| matches!(record, Record::Input(Input::Finish { .. })))
        .map(|(at, _)| at.as_secs_f64())
        .collect();
    near(ends[0], ended);
    near(ends[1], again + (10.0 - (again - 40.0)) / 0.5);
}

#[test]
fn energy_peak_and_throttled_share_follow() {
    let world = warm()
        .set("policy = { single = { lane = 'a' } }")
        .stream_with("x", &[], &[0], 2, 1)
        .world();
    let mut simulation = Simulation::new(&world);
    simulation.run(0).expect("no policy stops");
    let summary = simulation.summary();
    let taken = until(25.0, 70.0, 50.0);
    let slow = (10.0 - taken) / 0.5;
    let whole = taken + slow;
    near(summary.makespan_s, whole);
    near(
        summary.energy_j.expect("it has power"),
        whole + 9.0 * taken + 4.5 * slow,
    );
    near(summary.peak_temperature_c.expect("it has heat"), 50.0);
    near(summary.throttled.expect("it has heat"), slow / whole);
    // And the same in a second run.
    simulation.run(0).expect("no policy stops");
    assert_eq!(summary, simulation.summary());
}

/// A slower clock saves of what work adds: what an idle engine draws, a throttled one draws too.
#[test]
fn a_throttled_engine_draws_no_less_than_an_idle_one() {
    let world = warm()
        .soc(
            "[engines.a]\nidle_w = 0\nactive_w = 9\n",
            "[engines.a]\nidle_w = 2\nactive_w = 9\n",
        )
        .set("policy = { single = { lane = 'a' } }")
        .stream_with("x", &[], &[0], 2, 1)
        .world();
    let mut simulation = Simulation::new(&world);
    simulation.run(0).expect("no policy stops");
    let summary = simulation.summary();
    // Idle it settles at 35 °C, throttled at 52.5 °C.
    let taken = until(35.0, 70.0, 50.0);
    let slow = (10.0 - taken) / 0.5;
    near(
        summary.throttled.expect("it has heat"),
        slow / (taken + slow),
    );
    near(
        summary.energy_j.expect("it has power"),
        3.0 * (taken + slow) + 7.0 * taken + 3.5 * slow,
    );
}

#[test]
fn the_scheduler_expects_a_throttled_engine_to_take_longer() {
    let toy = || warm().stream_with("x", &[], &[0, 13_000], 2, 1);
    let lanes = |toy: Toy| -> Vec<u8> {
        let records = run(&toy.world()).records;
        let starts = records.iter().filter_map(|(_, record)| match record {
            Record::Effect(sim::dispatch::Effect::Start { lane, .. }) => Some(lane.0),
            _ => None,
        });
        starts.collect()
    };
    // 10 s on `a` against 15 s on `b`; throttled, 20 s.
    assert_eq!(lanes(toy()), [0, 1]);
    assert_eq!(lanes(toy().soc("from_c = 50", "from_c = 80")), [0, 0]);
}

/// Both decode what fills their ports, `a` at a quarter of its speed and so for a quarter of the bandwidth.
#[test]
fn a_throttled_engine_asks_for_as_much_less_bandwidth() {
    let world = warm()
        .soc("ambient_c = 20", "ambient_c = 20\nstart_c = 49.99999999")
        .soc("time_constant_s = 10", "time_constant_s = 1e3")
        .soc("speed = { a = 0.5 }", "speed = { a = 0.25 }")
        .soc(
            "model = 'none'",
            "model = 'water_filling'\nburst_exponent = 1.0",
        )
        .costs(
            "prefill = { fixed_s = 10.0 }",
            "prefill = { fixed_s = 0.001 }",
        )
        .costs(
            "prefill = { fixed_s = 15.0 }",
            "prefill = { fixed_s = 0.002 }",
        )
        .costs(
            "decode = { per_token_s = 0.010 }",
            "decode = { per_token_s = 0.010, bytes_per_token = 1e8 }",
        )
        .costs(
            "decode = { per_token_s = 0.020 }",
            "decode = { per_token_s = 0.020, bytes_per_token = 2e8 }",
        )
        .set("policy = { fixed = { lanes = { x = 'a', y = 'b' } } }")
        .stream_with("x", &[], &[0], 1, 21)
        .stream_with("y", &[], &[0], 1, 9)
        .world();
    let records = run(&world).records;
    let ends = records.iter().filter_map(|(at, record)| match record {
        Record::Input(Input::Finish { lane, .. }) => Some((lane.0, at.as_secs_f64())),
        _ => None,
    });
    let of = |lane| {
        ends.clone()
            .filter(move |(of, _)| *of == lane)
            .map(|(_, at)| at)
    };
    let [a, b] = [0, 1].map(|lane| of(lane).collect::<Vec<_>>());
    near(a[0], 0.004);
    near(b[0], 0.002);
    // `a` wants 2.5 of 10 GB/s and leaves 7.5 to `b`, once it decodes.
    let answered = 0.004 + (0.160 - 0.002) * 10.0 / 7.5;
    near(b[1], answered);
    // `b` wants all, so `a` gets half: a quarter of its time was for memory, and takes twice as long.
    let slowdown = (1.0_f64 + (8.0 - 1.0) / 64.0).cbrt();
    near(a[1], answered + 0.8 - (answered - 0.004) / slowdown);
}
