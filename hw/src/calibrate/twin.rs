//! What two kinds of prefill on one engine have in common: how they attend to a context.

use sim::cost::context_read;

use super::fit::{Mean, Terms};
use super::squares::{column, is, sizes, solve};

/// What a token and token of context take in two kinds of prefill, each with a time of its own for each size: only
/// depth tells it. `None` where no size was measured at two depths.
pub(super) fn slope(parts: [(&[Mean], Terms); 2]) -> Option<f64> {
    let [(first, terms), (second, _)] = parts;
    let points: Vec<Mean> = first.iter().chain(second).copied().collect();
    let of = |part: usize, index: usize| (index < first.len()) == (part == 0);
    let mut base: Vec<Vec<f64>> = Vec::new();
    for (part, (own, _)) in parts.iter().enumerate() {
        for size in sizes(own) {
            let is_it = |(index, p): (usize, &Mean)| is(of(part, index) && p.size == size);
            base.push(points.iter().enumerate().map(is_it).collect());
        }
    }
    let block = f64::from(terms.block);
    let copies = |part: usize| -> Vec<f64> {
        let context = |(index, p): (usize, &Mean)| is(of(part, index)) * p.context;
        points.iter().enumerate().map(context).collect()
    };
    let mut depth = vec![column(&points, |p| context_read(p.size, p.context, block))];
    depth.extend((0..2).filter(|&part| parts[part].1.per_context).map(copies));
    let times: Vec<f64> = points.iter().map(|point| point.secs).collect();
    let mut best: Option<(f64, f64)> = None;
    for mask in 0..1_u8 << depth.len() {
        let chosen: Vec<usize> = (0..depth.len()).filter(|at| mask >> at & 1 != 0).collect();
        let own = chosen.iter().map(|&at| depth[at].clone());
        let columns: Vec<Vec<f64>> = base.iter().cloned().chain(own).collect();
        let Some(solution) = solve(&points, &columns, &times) else {
            continue;
        };
        if solution.iter().any(|&value| value < 0.0) {
            continue;
        }
        let square: f64 = (points.iter().enumerate())
            .map(|(row, point)| {
                let terms = columns.iter().zip(&solution);
                let secs: f64 = terms.map(|(column, value)| column[row] * value).sum();
                (secs / point.secs - 1.0).powi(2)
            })
            .sum();
        if best.is_none_or(|(least, _)| square < least) {
            let slope = chosen.iter().position(|&at| at == 0);
            let slope = slope.map_or(0.0, |at| solution[base.len() + at]);
            best = Some((square, slope));
        }
    }
    let told = parts.iter().any(|(points, _)| {
        let differ = |a: &Mean| {
            points
                .iter()
                .any(|b| a.size == b.size && a.context != b.context)
        };
        points.iter().any(differ)
    });
    best.filter(|_| told).map(|(_, slope)| slope)
}
