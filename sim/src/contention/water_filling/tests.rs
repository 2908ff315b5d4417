use proptest::prelude::*;

use super::*;
use crate::contention::laws::{self, Case, ROUNDING, slowdowns};
use crate::world::EngineId;

fn load(engine: u8, mu: f64) -> Load {
    Load {
        engine: EngineId(engine),
        mu,
    }
}

fn close(actual: f64, expected: f64, tolerance: f64) {
    let error = (actual - expected).abs();
    assert!(
        error <= tolerance,
        "{actual} is not {expected} ± {tolerance}"
    );
}

// The slow, obvious version: bisection for the water level, and the formulas as they are written.

/// Each flow's part of `capacity`, of flows (want, weight).
fn fill_slowly(capacity: f64, flows: &[(f64, f64)]) -> Vec<f64> {
    let at = |level: f64| {
        flows
            .iter()
            .map(move |&(want, weight)| want.min(weight * level))
    };
    let (mut low, mut high) = (0.0, 1.0);
    while at(high).sum::<f64>() < capacity && high < 1e30 {
        high *= 2.0;
    }
    for _ in 0..200 {
        let level = f64::midpoint(low, high);
        if at(level).sum::<f64>() <= capacity {
            low = level;
        } else {
            high = level;
        }
    }
    at(low).collect()
}

/// Wants and weights of all engines, then the background.
fn flows(ports: &Ports, gamma: f64, running: &[Load]) -> Vec<(f64, f64)> {
    let mut flows: Vec<(f64, f64)> = (0..ports.port.len())
        .map(|engine| {
            let own = running
                .iter()
                .filter(|load| load.engine.0 as usize == engine);
            let sum: f64 = own.map(|&load| burst(ports, gamma, load)).sum();
            (sum.min(ports.port[engine]), ports.weight[engine])
        })
        .collect();
    let average = ports.weight.iter().sum::<f64>() / ports.weight.len() as f64;
    flows.push((ports.background, average));
    flows
}

fn burst(ports: &Ports, gamma: f64, load: Load) -> f64 {
    if load.mu == 0.0 {
        return 0.0;
    }
    ports.port[load.engine.0 as usize] * libm::pow(load.mu, gamma)
}

fn slowdowns_slowly(ports: &Ports, q: f64, gamma: f64, running: &[Load]) -> Vec<f64> {
    let mut out = Vec::new();
    for (at, load) in running.iter().enumerate() {
        let engine = load.engine.0 as usize;
        let port = ports.port[engine];
        let mut flows = flows(ports, gamma, running);
        flows[engine].0 = port;
        let engine_share = fill_slowly(ports.bandwidth, &flows)[engine];

        let mut stages = vec![(engine_share, 1.0)];
        for (other, beside) in running.iter().enumerate() {
            if other != at && beside.engine == load.engine {
                stages.push((burst(ports, gamma, *beside), 1.0));
            }
        }
        let share = fill_slowly(engine_share, &stages)[0];

        let compute = libm::pow(1.0 - libm::pow(load.mu, q), 1.0 / q);
        let memory = load.mu * port / share;
        out.push(libm::pow(
            libm::pow(compute, q) + libm::pow(memory, q),
            1.0 / q,
        ));
    }
    out
}

fn exponents() -> impl Strategy<Value = (f64, f64)> {
    let overlap = prop_oneof![2 => Just(3.0), 1 => Just(1.0), 2 => 1.0..8.0];
    let burst = prop_oneof![2 => Just(0.25), 1 => Just(0.0), 1 => Just(1.0), 2 => 0.0..=1.0];
    (overlap, burst)
}

fn any_case() -> impl Strategy<Value = (Case, f64, Vec<PairGrid>)> {
    (1..=4_usize).prop_flat_map(|engines| {
        (
            laws::case(engines),
            laws::background(),
            laws::pairs(engines, false),
        )
    })
}

proptest! {
    #![proptest_config(laws::config())]

    #[test]
    fn laws_hold((case, background, pairs) in any_case(), (q, gamma) in exponents()) {
        let new = |background, pairs| {
            WaterFilling::new(case.ports(background), q, gamma, pairs).unwrap()
        };
        laws::check(&new(0.0, vec![]), &case)?;
        laws::check(&new(0.0, pairs.clone()), &case)?;
        laws::check_with_background(&new(background, vec![]), &case)?;
        laws::check_with_background(&new(background, pairs), &case)?;
    }

    #[test]
    fn equals_the_slow_version((case, background, _) in any_case(), (q, gamma) in exponents()) {
        let ports = case.ports(background);
        let model = WaterFilling::new(ports.clone(), q, gamma, vec![]).unwrap();
        let fast = slowdowns(&model, &case.loads);
        let slow = slowdowns_slowly(&ports, q, gamma, &case.loads);
        for (fast, slow) in fast.iter().zip(&slow) {
            prop_assert!((fast - slow).abs() <= ROUNDING * slow, "{} for {}", fast, slow);
        }
    }

    #[test]
    fn bandwidth_holds((case, background, pairs) in any_case(), (q, gamma) in exponents()) {
        let ports = case.ports(background);
        let model = WaterFilling::new(ports.clone(), q, gamma, pairs).unwrap();
        let mut rates = vec![0.0; case.engines];
        for (load, slowdown) in case.loads.iter().zip(slowdowns(&model, &case.loads)) {
            let engine = load.engine.0 as usize;
            rates[engine] += load.mu * ports.port[engine] / slowdown;
        }
        for (rate, port) in rates.iter().zip(&ports.port) {
            prop_assert!(*rate <= port * (1.0 + ROUNDING), "{} of port {}", rate, port);
        }
        let given = fill_slowly(ports.bandwidth, &flows(&ports, gamma, &case.loads));
        let sum = rates.iter().sum::<f64>() + given[case.engines];
        let bandwidth = ports.bandwidth;
        prop_assert!(sum <= bandwidth * (1.0 + ROUNDING), "{} of {}", sum, bandwidth);
    }

    #[test]
    fn only_ratios_of_rates_and_of_weights_matter(
        (case, background, pairs) in any_case(),
        (q, gamma) in exponents(),
        rate in 1e-3..1e3,
        weight in 1e-3..1e12,
    ) {
        let ports = case.ports(background);
        let scaled = Ports {
            port: ports.port.iter().map(|port| port * rate).collect(),
            weight: ports.weight.iter().map(|own| own * weight).collect(),
            bandwidth: ports.bandwidth * rate,
            background: ports.background * rate,
        };
        let model = WaterFilling::new(ports, q, gamma, pairs.clone()).unwrap();
        let scaled = WaterFilling::new(scaled, q, gamma, pairs).unwrap();
        let one = slowdowns(&model, &case.loads);
        for (one, other) in one.iter().zip(slowdowns(&scaled, &case.loads)) {
            prop_assert!((one - other).abs() <= ROUNDING * one, "{} and {}", one, other);
        }
    }

    #[test]
    fn a_pair_at_a_knot_is_as_slow_as_measured_or_modelled(
        (case, pairs) in (2..=4_usize)
            .prop_flat_map(|engines| (laws::case(engines), laws::pairs(engines, true))),
        (q, gamma) in exponents(),
        at in any::<prop::sample::Index>(),
    ) {
        let pair = at.get(&pairs).clone();
        let bare = WaterFilling::new(case.ports(0.0), q, gamma, vec![]).unwrap();
        let model = WaterFilling::new(case.ports(0.0), q, gamma, pairs.clone()).unwrap();
        let mut measured = pair.slowdown.iter();
        for &victim in &pair.victim_mu {
            for &aggressor in &pair.aggressor_mu {
                let both = [load(pair.victim.0, victim), load(pair.aggressor.0, aggressor)];
                let expected = slowdowns(&bare, &both)[0].max(*measured.next().unwrap());
                let actual = slowdowns(&model, &both)[0];
                prop_assert!((actual - expected).abs() <= ROUNDING * expected);
            }
        }
    }
}

/// Streams of 64 MiB reads on a QCS6490: the published table 6 measured, in GB/s, ports of 15.2
/// (cpu), 12.2 (gpu) and 10.61 (npu), and together 4.63 + 11.07 (cpu and gpu) and 8.63 + 6.91 (cpu
/// and npu).
#[test]
fn published_streams_of_the_qcs6490() {
    let ports = Ports {
        port: vec![15.2e9, 12.2e9, 10.61e9],
        weight: vec![1.0, 2.39, 0.80],
        bandwidth: 15.62e9,
        background: 0.0,
    };
    let model = WaterFilling::new(ports.clone(), 3.0, 0.25, vec![]).unwrap();
    let together = |other: u8| {
        let both = [load(0, 1.0), load(other, 1.0)];
        let slowdowns = slowdowns(&model, &both);
        let mut shares = [f64::NAN; 2];
        model.shares(&both, &mut shares);
        let rate = |at: usize| ports.port[both[at].engine.0 as usize] / slowdowns[at];
        // A stage that does nothing but stream achieves its share.
        close(rate(0), shares[0], 1.0);
        close(rate(1), shares[1], 1.0);
        shares.map(|share| share / 1e9)
    };
    let [cpu, gpu] = together(1);
    close(cpu, 4.61, 0.005);
    close(gpu, 11.01, 0.005);
    let [cpu, npu] = together(2);
    close(cpu, 8.67, 0.01);
    close(npu, 6.95, 0.01);
}

/// Two lanes of an M4 Max decoding from a prefix of 32 tokens: published table 13 has 90.51 (cpu)
/// and 152.51 tok/s (gpu) alone, table 14 208.16 tok/s together.
#[test]
fn published_decoding_on_two_lanes_of_the_m4_max() {
    let (ports, alone) = ([286.82, 463.77], [90.51, 152.51]);
    let gigabytes_per_token = 1.93;
    let model = WaterFilling::new(
        Ports {
            port: ports.map(|port| port * 1e9).to_vec(),
            weight: ports.to_vec(),
            bandwidth: 0.9 * 546e9,
            background: 0.0,
        },
        3.0,
        0.25,
        vec![],
    );
    let mu = |at: usize| gigabytes_per_token / ports[at] * alone[at];
    let slowdowns = slowdowns(&model.unwrap(), &[load(0, mu(0)), load(1, mu(1))]);
    close(slowdowns[0], 1.165, 0.001);
    close(slowdowns[1], 1.183, 0.001);
    close(
        alone[0] / slowdowns[0] + alone[1] / slowdowns[1],
        206.6,
        0.1,
    );
}

fn even(bandwidth: f64, background: f64) -> Ports {
    Ports {
        port: vec![10.0; 3],
        weight: vec![1.0; 3],
        bandwidth,
        background,
    }
}

fn shares(ports: Ports, running: &[Load]) -> Vec<f64> {
    let model = WaterFilling::new(ports, 3.0, 1.0, vec![]).unwrap();
    let mut out = vec![f64::NAN; running.len()];
    model.shares(running, &mut out);
    out
}

#[test]
fn shares_by_hand() {
    let all = [load(0, 1.0), load(1, 1.0), load(2, 1.0)];
    assert_eq!(shares(even(12.0, 0.0), &all), [4.0; 3]);
    // The second wants 1, so the others split 11.
    let modest = [load(0, 1.0), load(1, 0.1), load(2, 1.0)];
    assert_eq!(shares(even(12.0, 0.0), &modest), [5.5, 4.0, 5.5]);
    // Background is one more flow, and slows a stage by itself.
    assert_eq!(shares(even(12.0, 12.0), &all), [3.0; 3]);
    assert_eq!(shares(even(12.0, 4.0), &all[..1]), [8.0]);
    assert_eq!(shares(even(12.0, 2.0), &all[..1]), [10.0]);
}

#[test]
fn stages_of_one_engine_split_its_port() {
    assert_eq!(shares(even(100.0, 0.0), &[load(0, 1.0); 2]), [5.0; 2]);
    assert_eq!(
        shares(even(100.0, 0.0), &[load(0, 0.5), load(0, 0.25)]),
        [7.5, 5.0]
    );
    // A second lane does not double its engine's weight.
    let three = [load(0, 1.0), load(1, 1.0), load(0, 1.0)];
    assert_eq!(shares(even(12.0, 0.0), &three), [3.0, 6.0, 3.0]);
}

#[test]
fn a_port_beyond_the_bandwidth_slows_even_a_stage_alone() {
    assert_eq!(shares(even(5.0, 0.0), &[load(0, 1.0)]), [5.0]);
    assert_eq!(
        shares(even(5.0, 0.0), &[load(0, 1.0), load(1, 0.0)]),
        [5.0, 2.5]
    );
}

#[test]
fn steep_exponents_tend_to_perfect_overlap() {
    let model = WaterFilling::new(even(10.0, 0.0), 1e4, 0.25, vec![]).unwrap();
    // The other takes half, so memory time doubles: it hides behind the compute time, or it does not.
    let hidden = slowdowns(&model, &[load(0, 0.4), load(1, 1.0)]);
    close(hidden[0], 1.0, 1e-12);
    let seen = slowdowns(&model, &[load(0, 0.8), load(1, 1.0)]);
    close(seen[0], 1.6, 1e-12);
}

#[test]
fn corrections_add_and_hold_past_the_edge() {
    let pair = |victim: u8, aggressor: u8, slowdown: f64| PairGrid {
        victim: EngineId(victim),
        aggressor: EngineId(aggressor),
        victim_mu: vec![0.5, 1.0],
        aggressor_mu: vec![0.5, 1.0],
        slowdown: vec![1.0, 1.0, 1.0, slowdown],
    };
    // With this much bandwidth the model alone says 1, so a correction is what was measured beyond.
    let pairs = vec![pair(0, 1, 1.5), pair(0, 2, 1.25)];
    let model = WaterFilling::new(even(30.0, 0.0), 3.0, 0.25, pairs).unwrap();
    let all = [load(0, 1.0), load(1, 1.0), load(2, 1.0)];
    assert_eq!(slowdowns(&model, &all), [1.75, 1.0, 1.0]);
    assert_eq!(
        slowdowns(&model, &[load(0, 0.75), load(1, 1.0)]),
        [1.25, 1.0]
    );
    assert!(model.within_range(&all));

    let below = [load(0, 0.25), load(1, 1.0)];
    assert_eq!(slowdowns(&model, &below), [1.0, 1.0]);
    assert!(!model.within_range(&below));
}

/// What was measured beyond the model stays the same when background adds to what is modelled.
#[test]
fn pairs_are_taken_as_measured_without_background() {
    let pair = PairGrid {
        victim: EngineId(0),
        aggressor: EngineId(1),
        victim_mu: vec![0.0, 1.0],
        aggressor_mu: vec![0.0, 1.0],
        slowdown: vec![1.0, 1.0, 1.0, 1.5],
    };
    let model = WaterFilling::new(even(27.0, 25.0), 3.0, 0.25, vec![pair]).unwrap();
    let both = slowdowns(&model, &[load(0, 1.0), load(1, 1.0)]);
    close(both[0], 10.0 / 9.0 + 0.5, 1e-12);
    close(both[1], 10.0 / 9.0, 1e-12);
}

#[test]
fn parameters_out_of_their_domain_are_refused() {
    let refuse = |ports: Ports, q: f64, gamma: f64, expected: &str| {
        let error = WaterFilling::new(ports, q, gamma, vec![]).unwrap_err();
        assert_eq!(error.to_string(), expected);
    };
    refuse(
        even(9.0, 0.0),
        0.5,
        0.25,
        &format!("overlap exponent is 0.5, must be within 1 to {}", f64::MAX),
    );
    refuse(
        even(9.0, 0.0),
        3.0,
        1.5,
        "burst exponent is 1.5, must be within 0 to 1",
    );
    refuse(
        even(0.0, 0.0),
        3.0,
        0.25,
        "bandwidth is 0, must be finite and greater than 0",
    );
    let mut ports = even(9.0, 0.0);
    ports.weight[1] = f64::NAN;
    refuse(
        ports,
        3.0,
        0.25,
        "weight of engine 1 is NaN, must be finite and greater than 0",
    );
    let mut ports = even(9.0, 0.0);
    ports.weight.pop();
    refuse(ports, 3.0, 0.25, "2 weights for 3 engines");
    let none = Ports {
        port: vec![],
        weight: vec![],
        bandwidth: 1.0,
        background: 0.0,
    };
    refuse(none, 3.0, 0.25, "0 engines where 1 to 8 are possible");
}
