//! The laws of [`ContentionModel`], as properties that each model's tests run on random cases.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseResult};

use super::{ContentionModel, Load, PairGrid, Ports};
use crate::world::{EngineId, LANES_MAX};

/// What rounding may cost, relative.
pub(super) const ROUNDING: f64 = 1e-12;

/// A SoC and what runs on it.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) engines: usize,
    pub(super) port: Vec<f64>,
    pub(super) weight: Vec<f64>,
    pub(super) bandwidth: f64,
    pub(super) loads: Vec<Load>,
    /// The loads' positions in another order.
    pub(super) shuffled: Vec<usize>,
    /// A load that joins.
    pub(super) added: Load,
}

impl Case {
    /// With a background that takes this part of the bandwidth.
    pub(super) fn ports(&self, background: f64) -> Ports {
        Ports {
            port: self.port.clone(),
            weight: self.weight.clone(),
            bandwidth: self.bandwidth,
            background: background * self.bandwidth,
        }
    }
}

pub(super) fn config() -> Config {
    Config {
        cases: 512,
        failure_persistence: None,
        ..Config::default()
    }
}

/// Up to 15 loads on `engines` engines, few more often than many.
pub(super) fn case(engines: usize) -> impl Strategy<Value = Case> {
    let count = prop_oneof![4 => 1..=3_usize, 2 => 4..=6_usize, 1 => 7..LANES_MAX];
    let loads = count.prop_flat_map(move |count| prop::collection::vec(load(engines), count));
    let shuffled = loads.prop_flat_map(|loads| {
        let order: Vec<usize> = (0..loads.len()).collect();
        (Just(loads), Just(order).prop_shuffle())
    });
    (
        prop::collection::vec(1e9..500e9, engines),
        prop::collection::vec(0.2..5.0, engines),
        1.0..2.0,
        shuffled,
        load(engines),
    )
        .prop_map(
            move |(port, weight, headroom, (loads, shuffled), added): (Vec<f64>, _, f64, _, _)| {
                let bandwidth = headroom * port.iter().copied().fold(0.0, f64::max);
                Case {
                    engines,
                    port,
                    weight,
                    bandwidth,
                    loads,
                    shuffled,
                    added,
                }
            },
        )
}

/// None, or up to half of the bandwidth.
pub(super) fn background() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), 0.0..0.5]
}

/// Grids of some ordered pairs, an engine beside itself included, or of all distinct ones and some.
pub(super) fn pairs(engines: usize, all: bool) -> impl Strategy<Value = Vec<PairGrid>> {
    let every: Vec<_> = (0..engines * engines)
        .map(|pair| {
            let (victim, aggressor) = ((pair / engines) as u8, (pair % engines) as u8);
            let needed = all && victim != aggressor;
            let grid = grid(EngineId(victim), EngineId(aggressor));
            (grid, prop::bool::weighted(0.7))
                .prop_map(move |(grid, kept)| (kept || needed).then_some(grid))
        })
        .collect();
    every.prop_map(|grids| grids.into_iter().flatten().collect())
}

fn load(engines: usize) -> impl Strategy<Value = Load> {
    let mu = prop_oneof![6 => 0.0..=1.0, 1 => Just(0.0), 2 => Just(1.0)];
    (0..engines as u8, mu).prop_map(|(engine, mu)| Load {
        engine: EngineId(engine),
        mu,
    })
}

fn grid(victim: EngineId, aggressor: EngineId) -> impl Strategy<Value = PairGrid> {
    let axis = || {
        prop::collection::vec(1..=100_u32, 2..=5).prop_map(|steps| {
            let end: u32 = steps.iter().sum();
            let rise = steps.iter().scan(0, |sum, step| {
                *sum += step;
                Some(f64::from(*sum) / f64::from(end))
            });
            rise.collect::<Vec<f64>>()
        })
    };
    (axis(), axis()).prop_flat_map(move |(victim_mu, aggressor_mu)| {
        prop::collection::vec(1.0..4.0, victim_mu.len() * aggressor_mu.len()).prop_map(
            move |slowdown| PairGrid {
                victim,
                aggressor,
                victim_mu: victim_mu.clone(),
                aggressor_mu: aggressor_mu.clone(),
                slowdown,
            },
        )
    })
}

pub(super) fn slowdowns(model: &dyn ContentionModel, running: &[Load]) -> Vec<f64> {
    let mut out = vec![f64::NAN; running.len()];
    model.slowdowns(running, &mut out);
    out
}

/// Every law.
pub(super) fn check(model: &dyn ContentionModel, case: &Case) -> TestCaseResult {
    for &load in &case.loads {
        prop_assert_eq!(slowdowns(model, &[load]), [1.0], "alone: {:?}", load);
    }
    check_with_background(model, case)
}

/// Every law but the one about a stage alone.
pub(super) fn check_with_background(model: &dyn ContentionModel, case: &Case) -> TestCaseResult {
    let before = slowdowns(model, &case.loads);
    prop_assert!(
        before.iter().all(|&s| s >= 1.0 && s.is_finite()),
        "at least 1: {:?}",
        before
    );

    let bits = |slowdowns: &[f64]| slowdowns.iter().map(|s| s.to_bits()).collect::<Vec<u64>>();
    let again = slowdowns(model, &case.loads);
    prop_assert_eq!(bits(&before), bits(&again), "same bits again");

    let loads: Vec<Load> = case.shuffled.iter().map(|&at| case.loads[at]).collect();
    let expected: Vec<f64> = case.shuffled.iter().map(|&at| before[at]).collect();
    prop_assert_eq!(
        bits(&slowdowns(model, &loads)),
        bits(&expected),
        "any order"
    );

    let mut joined = case.loads.clone();
    joined.push(case.added);
    for (before, after) in before.iter().zip(slowdowns(model, &joined)) {
        prop_assert!(
            after >= before * (1.0 - ROUNDING),
            "monotone: {} to {}",
            before,
            after
        );
    }
    Ok(())
}
