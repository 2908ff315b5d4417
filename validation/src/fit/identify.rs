//! What the rows say of the parameters near the minimum: the Jacobian's singular values.

use nalgebra::DMatrix;
use serde::Serialize;

use super::likelihood::Profiled;
use super::problem::Problem;
use super::solve::jacobian;

/// A combination of parameters that the rows do not pin down.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Direction {
    /// How far one can go along it, as a part of the whole search range.
    pub reach: f64,
    /// Parameters that move, with their weights; opposite signs make up for each other.
    pub weights: Vec<(String, f64)>,
}

/// Weights below this are left out.
const WEIGHT_MIN: f64 = 0.3;

/// Standard error of each parameter, as a part of its scale; `None` where the rows say nothing of it.
pub(super) fn standard_errors(problem: &Problem<'_>, parts: &[f64]) -> Vec<Option<f64>> {
    let none = || vec![None; parts.len()];
    let Some((values, vectors)) = singular(problem, parts) else {
        return none();
    };
    let floor = values.iter().copied().fold(0.0, f64::max) * 1e-9;
    (0..parts.len())
        .map(|at| {
            let terms = values.iter().enumerate().map(|(row, &value)| {
                let weight = vectors[(row, at)];
                if value > floor {
                    Some((weight / value).powi(2))
                } else {
                    (weight.abs() < 1e-6).then_some(0.0)
                }
            });
            let variance: Option<f64> = terms.sum();
            variance.filter(|v| *v > 0.0).map(f64::sqrt)
        })
        .collect()
}

/// Combinations along which one can go through a large part of the search range.
pub(super) fn weak_directions(problem: &Problem<'_>, profiled: &Profiled) -> Vec<Direction> {
    let Some((values, vectors)) = singular(problem, &profiled.best.parts) else {
        return Vec::new();
    };
    let mut list = Vec::new();
    for (row, &value) in values.iter().enumerate() {
        let reach = profiled.rise.sqrt() / value.max(f64::MIN_POSITIVE);
        // Half the range either way is all of it.
        if reach < 0.5 {
            continue;
        }
        let names = problem.spec.free.iter().map(|free| free.name.clone());
        let along = vectors.row(row);
        let weights = names.zip(along.iter().copied());
        let weights = weights.filter(|(_, weight)| weight.abs() >= WEIGHT_MIN);
        let mut weights: Vec<(String, f64)> = weights.collect();
        // Signs of a direction are arbitrary: the first parameter goes up.
        if weights.first().is_some_and(|(_, weight)| *weight < 0.0) {
            for (_, weight) in &mut weights {
                *weight = -*weight;
            }
        }
        list.push(Direction {
            reach: reach.min(1.0),
            weights,
        });
    }
    list
}

/// Singular values and right singular vectors (a row each), one for every parameter.
fn singular(problem: &Problem<'_>, parts: &[f64]) -> Option<(Vec<f64>, DMatrix<f64>)> {
    let free: Vec<usize> = (0..parts.len()).collect();
    let jacobian = jacobian(problem, parts, &free)?;
    // With fewer rows than parameters, rows of zeros complete the set of directions.
    let rows = jacobian.nrows().max(parts.len());
    let jacobian = jacobian.resize_vertically(rows, 0.0);
    let svd = jacobian.try_svd(false, true, 1e-12, 1000)?;
    let vectors = svd.v_t?;
    Some((svd.singular_values.iter().copied().collect(), vectors))
}
