//! Prices of lanes and stages, for the very requests of a case.

use sim::contention::Load;
use sim::world::{LANES_MAX, StageId, World};

use crate::bounds::{self, Stage};

/// Most combinations of loads for which prices are made true; where there are more, contention is left out.
const COMBINATIONS_MAX: usize = 100_000;

/// Prices under which no set of stages of these very requests, one a lane, costs more than 1 a second.
pub(super) fn prices(world: &World, bound: &[Vec<Stage>]) -> Vec<(StageId, Vec<f64>)> {
    let mut prices = bounds::prices(world, bound);
    let dearest = dearest(world, bound, &prices);
    for price in prices.iter_mut().flat_map(|(_, prices)| prices) {
        *price /= dearest;
    }
    prices
}

/// What the dearest set costs a second: at most 1, or a little more than the linear program promised.
fn dearest(world: &World, bound: &[Vec<Stage>], prices: &[(StageId, Vec<f64>)]) -> f64 {
    // By lane: nothing, or a load with its price.
    let lanes: Vec<Vec<Option<(Load, f64)>>> = (0..world.lanes.len())
        .map(|lane| {
            let mut loads = vec![None];
            for stage in bound.iter().flatten() {
                let (ns, load) = stage.alone[lane];
                let price = prices.iter().find(|(id, _)| *id == stage.id);
                let one = price.map(|(_, prices)| (load, prices[lane]));
                if ns.is_finite() && !loads.contains(&one) {
                    loads.push(one);
                }
            }
            loads
        })
        .collect();
    let combinations = lanes
        .iter()
        .try_fold(1_usize, |count, loads| count.checked_mul(loads.len()));
    let counted = combinations.filter(|&count| count <= COMBINATIONS_MAX && !world.lengthens());
    let Some(count) = counted else {
        let most = |loads: &Vec<Option<(Load, f64)>>| {
            let prices = loads.iter().flatten().map(|(_, price)| *price);
            prices.fold(0.0, f64::max)
        };
        return lanes.iter().map(most).sum::<f64>().max(f64::MIN_POSITIVE);
    };
    let (mut running, mut slowdowns) = (Vec::new(), [1.0; LANES_MAX]);
    let mut dearest = f64::MIN_POSITIVE;
    for mut number in 0..count {
        running.clear();
        let mut costs = [0.0; LANES_MAX];
        for loads in &lanes {
            if let Some((load, price)) = loads[number % loads.len()] {
                costs[running.len()] = price;
                running.push(load);
            }
            number /= loads.len();
        }
        let slowdowns = &mut slowdowns[..running.len()];
        slowdowns.fill(1.0);
        if running.len() > 1 || world.memory.background_bandwidth > 0.0 && !running.is_empty() {
            world.contention.slowdowns(&running, slowdowns);
        }
        let cost = costs
            .iter()
            .zip(slowdowns)
            .map(|(price, slow)| price / slow.max(1.0));
        dearest = dearest.max(cost.sum());
    }
    dearest
}
