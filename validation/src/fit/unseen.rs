//! Parameters that no row sees: whatever their values, every row comes out the same. They keep the profiles' values,
//! and count in nothing that is said of the fit.

use super::problem::Problem;

/// Parts of its scale at which a parameter is tried.
pub(super) const TRIED: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];

/// Of these parameters, those that move no row at any of these points, each going through its bounds by itself.
pub(super) fn unseen<'b>(
    problem: &Problem<'_>,
    points: impl Iterator<Item = &'b Vec<f64>>,
    of: impl Iterator<Item = usize>,
) -> Vec<usize> {
    let mut left: Vec<usize> = of.collect();
    for point in points {
        if left.is_empty() {
            break;
        }
        let here = problem.residuals(point);
        // To the bit: a number that a run does not use leaves it as it was, to the nanosecond.
        left.retain(|&at| {
            let mut tried = moved(point, at).map(|(_, there)| problem.residuals(&there));
            here.is_some() && tried.all(|there| there == here)
        });
    }
    left
}

/// A point with one parameter at each part that is tried.
pub(super) fn moved(point: &[f64], at: usize) -> impl Iterator<Item = (f64, Vec<f64>)> {
    TRIED.into_iter().map(move |part| {
        let mut there = point.to_vec();
        there[at] = part;
        (part, there)
    })
}

/// A point with these parameters at the profiles' own values.
pub(super) fn rested(problem: &Problem<'_>, point: &[f64], unseen: &[usize]) -> Vec<f64> {
    let own = problem.own_parts();
    let mut parts = point.to_vec();
    for &at in unseen {
        parts[at] = own[at];
    }
    parts
}
