//! What the rows say of the parameters near the minimum: the Jacobian's singular values, and which rows move with
//! which parameters.

use nalgebra::DMatrix;
use serde::Serialize;

use super::likelihood::{Profiled, RISE};
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

/// Parameters that rows tie together, with all rows that any of them moves: no other group has a say in them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Names of the parameters.
    pub parameters: Vec<String>,
    /// How many rows any of them moves.
    pub rows: usize,
}

/// What the Jacobian says.
#[derive(Debug, Default)]
pub(super) struct Shape {
    /// Combinations of what rows see, along which one can go through a large part of the search range.
    pub(super) weak: Vec<Direction>,
    /// Whether one of them is, were the rows' errors as they are stated.
    pub(super) flat: bool,
    /// The parameters in groups.
    pub(super) groups: Vec<Group>,
}

/// Half the range either way is all of it.
const HALF: f64 = 0.5;
/// Weights below this are left out.
const WEIGHT_MIN: f64 = 0.3;

/// Standard error of each parameter, as a part of its scale; `None` where the rows say nothing of it.
pub(super) fn standard_errors(problem: &Problem<'_>, parts: &[f64]) -> Vec<Option<f64>> {
    let none = || vec![None; parts.len()];
    let Some((values, vectors)) = whole(problem, parts).and_then(singular) else {
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

/// The surroundings of the minimum; nothing where a row cannot be predicted there.
pub(super) fn shape(problem: &Problem<'_>, profiled: &Profiled) -> Shape {
    let Some(jacobian) = whole(problem, &profiled.best.parts) else {
        return Shape::default();
    };
    let groups = groups(problem, &jacobian);
    // What no row sees is in no combination with what rows do.
    let (seen, names): (Vec<usize>, Vec<&str>) = problem
        .spec
        .free
        .iter()
        .enumerate()
        .filter(|(at, _)| !profiled.unseen.contains(at))
        .map(|(at, free)| (at, free.name.as_str()))
        .unzip();
    let weak = weak_directions(&names, profiled, jacobian.select_columns(&seen));
    Shape {
        groups,
        flat: weak.iter().any(|(stated, _)| *stated >= HALF),
        weak: weak.into_iter().map(|(_, direction)| direction).collect(),
    }
}

/// Parameters that some row moves with are of one group. A number that a run does not use leaves it as it was, to
/// the nanosecond.
fn groups(problem: &Problem<'_>, jacobian: &DMatrix<f64>) -> Vec<Group> {
    let count = jacobian.ncols();
    let mut group_of: Vec<usize> = (0..count).collect();
    let moved = |row: usize| (0..count).filter(move |&column| jacobian[(row, column)] != 0.0);
    for row in 0..jacobian.nrows() {
        let groups: Vec<usize> = moved(row).map(|column| group_of[column]).collect();
        if let Some(&least) = groups.iter().min() {
            for group in &mut group_of {
                if groups.contains(group) {
                    *group = least;
                }
            }
        }
    }
    let of = |group: usize| {
        let members = problem.spec.free.iter().zip(&group_of);
        let members = members.filter(|(_, of)| **of == group);
        let rows = (0..jacobian.nrows()).filter(|&row| {
            moved(row)
                .next()
                .is_some_and(|column| group_of[column] == group)
        });
        Group {
            parameters: members.map(|(free, _)| free.name.clone()).collect(),
            rows: rows.count(),
        }
    };
    let firsts = (0..count).filter(|&column| group_of[column] == column);
    firsts.map(of).collect()
}

/// Directions in which one can go far, each with how far one could were the rows' errors as stated.
fn weak_directions(
    names: &[&str],
    profiled: &Profiled,
    jacobian: DMatrix<f64>,
) -> Vec<(f64, Direction)> {
    let Some((values, vectors)) = singular(jacobian) else {
        return Vec::new();
    };
    let mut list = Vec::new();
    for (row, &value) in values.iter().enumerate() {
        let far = |rise: f64| rise.sqrt() / value.max(f64::MIN_POSITIVE);
        let reach = far(profiled.rise);
        if reach < HALF {
            continue;
        }
        let along = vectors.row(row);
        let weights = names.iter().zip(along.iter().copied());
        let weights = weights.filter(|(_, weight)| weight.abs() >= WEIGHT_MIN);
        let weights = weights.map(|(name, weight)| ((*name).to_owned(), weight));
        let mut weights: Vec<(String, f64)> = weights.collect();
        // Signs of a direction are arbitrary: the first parameter goes up.
        if weights.first().is_some_and(|(_, weight)| *weight < 0.0) {
            for (_, weight) in &mut weights {
                *weight = -*weight;
            }
        }
        let direction = Direction {
            reach: reach.min(1.0),
            weights,
        };
        list.push((far(RISE), direction));
    }
    list
}

/// The Jacobian by every parameter.
fn whole(problem: &Problem<'_>, parts: &[f64]) -> Option<DMatrix<f64>> {
    let free: Vec<usize> = (0..parts.len()).collect();
    jacobian(problem, parts, &free)
}

/// Singular values and right singular vectors (a row each), one for every parameter.
pub(super) fn singular(jacobian: DMatrix<f64>) -> Option<(Vec<f64>, DMatrix<f64>)> {
    if jacobian.ncols() == 0 {
        return None;
    }
    // With fewer rows than parameters, rows of zeros complete the set of directions.
    let rows = jacobian.nrows().max(jacobian.ncols());
    let jacobian = jacobian.resize_vertically(rows, 0.0);
    let svd = jacobian.try_svd(false, true, 1e-12, 1000)?;
    let vectors = svd.v_t?;
    Some((svd.singular_values.iter().copied().collect(), vectors))
}
