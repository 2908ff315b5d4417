//! Good schedules to begin with: orders of requests on lanes, improved as long as moving one request or exchanging
//! two makes them better.

use super::case::Case;
use super::script::Orders;

/// Most lanes of which every subset is tried: under contention a lane that is left idle can be worth it.
const SUBSETS_MAX: usize = 4;

/// Orders in which each request, the shortest first, goes to the lane of a subset that ends it first alone.
pub(super) fn greedy(case: &Case) -> Vec<Orders> {
    let lanes = case.lanes;
    let all = (1_usize << lanes) - 1;
    let subsets = if lanes <= SUBSETS_MAX {
        1..=all
    } else {
        all..=all
    };
    subsets.filter_map(|subset| on(case, subset)).collect()
}

/// `None` where a request has no lane among them.
fn on(case: &Case, lanes: usize) -> Option<Orders> {
    let able = || (0..case.lanes).filter(|lane| lanes >> lane & 1 != 0);
    let shortest = |request: usize| {
        let services = able().map(|lane| case.service(request, lane));
        services.fold(f64::INFINITY, f64::min)
    };
    let mut requests: Vec<usize> = (0..case.requests.len()).collect();
    requests.sort_by(|&a, &b| shortest(a).total_cmp(&shortest(b)));
    let mut orders = vec![Vec::new(); case.lanes];
    let mut busy = vec![0.0; case.lanes];
    for request in requests {
        let end = |lane: usize| busy[lane] + case.service(request, lane);
        let lane = able().min_by(|&a, &b| end(a).total_cmp(&end(b)))?;
        busy[lane] = Some(end(lane)).filter(|end| end.is_finite())?;
        orders[lane].push(request);
    }
    Some(orders)
}

/// Every order that differs by one request at another place, or by two that are exchanged.
pub(super) fn neighbours(case: &Case, orders: &Orders) -> Vec<Orders> {
    let places: Vec<(usize, usize)> = orders
        .iter()
        .enumerate()
        .flat_map(|(lane, order)| (0..order.len()).map(move |at| (lane, at)))
        .collect();
    let mut all = Vec::new();
    for &(from, at) in &places {
        let request = orders[from][at];
        let mut without = orders.clone();
        without[from].remove(at);
        for (lane, order) in without.iter().enumerate() {
            if !case.can(request, lane) {
                continue;
            }
            for place in 0..=order.len() {
                if (lane, place) != (from, at) {
                    let mut moved = without.clone();
                    moved[lane].insert(place, request);
                    all.push(moved);
                }
            }
        }
    }
    for (nth, &(one, at)) in places.iter().enumerate() {
        for &(other, there) in &places[nth + 1..] {
            let (first, second) = (orders[one][at], orders[other][there]);
            if case.can(first, other) && case.can(second, one) {
                let mut exchanged = orders.clone();
                exchanged[one][at] = second;
                exchanged[other][there] = first;
                all.push(exchanged);
            }
        }
    }
    all
}
