//! The memory's bandwidth bounds a lone engine too; engines with several lanes draw their power once; and the time that
//! a check takes grows with the number of streams and no faster.

use std::time::Instant;

use sim::simulation::Simulation;

use crate::toy::{Toy, toy};

/// One answer on lane `a`, whose decode moves 0.09 GB a token in 10 ms: 9 GB/s.
fn reads(bandwidth: &str, model: &str) -> Toy {
    toy()
        .soc(
            "bandwidth_gbps = 10.0",
            &format!("bandwidth_gbps = {bandwidth}"),
        )
        .soc("model = 'none'", &format!("model = '{model}'"))
        .costs(
            "decode = { per_token_s = 0.010 }",
            "decode = { per_token_s = 0.010, bytes_per_token = 9e7 }",
        )
        .set("policy = { single = { lane = 'a' } }")
        .stream_with("x", &[], &[0], 2, 1001)
}

/// To see it fail, leave out `Checked::meet_memory`.
#[test]
fn a_lone_engine_moves_no_more_than_the_memory_carries() {
    for model in ["none", "water_filling"] {
        let play = |bandwidth: &str| {
            let world = reads(bandwidth, model).world();
            let mut simulation = Simulation::new(&world);
            simulation.run(0).expect("no policy stops");
            simulation.summary()
        };
        let (wide, narrow) = (play("10.0"), play("2.0"));
        let tpot = |summary: &sim::metrics::Summary| summary.tpot_s.mean.expect("an answer");
        assert!((tpot(&wide) - 0.010).abs() < 1e-9, "{model}");
        // Of 10 ms, 9 are memory time, which becomes 45; compute time stays (overlap exponent 3).
        let want = (1.0 - 0.9_f64.powi(3) + 4.5_f64.powi(3)).cbrt() * 0.010;
        assert!(
            (tpot(&narrow) - want).abs() < 1e-6,
            "{model}: {}",
            tpot(&narrow)
        );
        assert!(wide.mean_bandwidth_gbps > 8.9 && narrow.mean_bandwidth_gbps <= 2.0);
        assert!(
            narrow.mean_bandwidth_gbps > 1.9,
            "{}",
            narrow.mean_bandwidth_gbps
        );
    }
}

/// To see it fail, let each lane count its engine's power.
#[test]
fn an_engine_with_several_lanes_draws_its_power_once() {
    let energy = |heat: &str| {
        let world = toy()
            .soc("[engines.a]\n", "[engines.a]\nidle_w = 1\nactive_w = 9\n")
            .soc("[engines.b]\n", "[engines.b]\nidle_w = 0\nactive_w = 1\n")
            .soc("[lanes.a]", "[lanes.a2]\nengine = 'a'\n[lanes.a]")
            .soc(
                "[origins.o]",
                &format!("[power]\nbase_w = 0\n{heat}[origins.o]"),
            )
            .set("policy = 'idle_first'")
            .stream_with("x", &[], &[0], 2, 101)
            .stream_with("y", &[], &[0], 2, 51)
            .world();
        let mut simulation = Simulation::new(&world);
        simulation.run(0).expect("no policy stops");
        let summary = simulation.summary();
        // Both lanes of `a` answer at once: 2 ms of prefill, then 1 s and 0.5 s.
        assert!((summary.makespan_s - 1.002).abs() < 1e-9, "{summary:?}");
        assert!((summary.engines[0].busy - 0.752 / 1.002).abs() < 0.01);
        summary.energy_j.expect("it has power")
    };
    let heat = "[heat]\nambient_c = 20\nkelvin_per_watt = 1\ntime_constant_s = 10\n";
    for heat in ["", heat] {
        let joules = energy(heat);
        assert!((joules - 9.0 * 1.002).abs() < 1e-6, "{heat}{joules} J");
    }
}

/// To see it fail, find the first plan of each table by going through all of them.
#[test]
fn many_tables_of_streams_are_checked_in_proportion() {
    let secs = |count: u32| {
        let streams = (0..count).fold(toy(), |toy, n| toy.stream(&format!("s{n}"), &[], &[0]));
        // The least of a few, since other work runs beside.
        let once = || {
            let start = Instant::now();
            assert_eq!(streams.world().streams.len(), count as usize);
            start.elapsed().as_secs_f64()
        };
        (0..3).map(|_| once()).fold(f64::INFINITY, f64::min)
    };
    let (few, many) = (secs(400), secs(3200));
    assert!(many < 20.0 * few, "{few} s for 400, {many} s for 3200");
}

/// The estimator once clamped to a bound that was no number, where a rate overflowed.
#[test]
fn the_slowest_memory_that_a_file_may_state_stops_no_estimate() {
    for (one, other) in [("1e-6", "1e6"), ("1e6", "1e-6")] {
        let world = toy()
            .soc("bandwidth_gbps = 10.0", "bandwidth_gbps = 1e-6")
            .soc("model = 'none'", "model = 'water_filling'")
            .soc(
                "kind = 'gpu'\nport_gbps = 10.0\nweight = 1.0",
                &format!("kind = 'gpu'\nport_gbps = 10.0\nweight = {one}"),
            )
            .soc(
                "kind = 'npu'\nport_gbps = 10.0\nweight = 1.0",
                &format!("kind = 'npu'\nport_gbps = 10.0\nweight = {other}"),
            )
            .costs("gbps = 0.001", "gbps = 0.001, bytes_per_token = 2")
            .set("policy = { state_aware = { terms = 'w+p+s' } }")
            .stream("x", &[0, 5, 9], &[10, 11, 12, 13])
            .stream("y", &[0, 5, 9], &[10, 11, 12, 13])
            .world();
        let mut simulation = Simulation::new(&world);
        simulation.run(0).expect("no policy stops");
        assert_eq!(simulation.summary().completed, 8);
    }
}
