//! Where in the confidence set an outcome is least and largest.
//!
//! Near a point the residuals are taken as linear, so that the confidence set is an ellipsoid, on which the outcome is
//! extreme along its gradient in the ellipsoid's metric: where everything is linear, at `± √(rise · gᵀH⁻¹g)` from the
//! best. That point is looked at, drawn towards the best until it is within, and the outcome is linearised anew there.

use nalgebra::{DMatrix, DVector};

use super::identify::singular;
use super::likelihood::Profiled;
use super::problem::Problem;
use super::solve::{STEP, jacobian};

/// How often the surroundings are taken anew.
const ROUNDS: usize = 2;
/// How often a point is moved along its line towards the contour.
const LOOKS: usize = 6;
/// A point is on the contour if the root of its rise is so near the largest, from below.
const NEAR: f64 = 0.998;
/// Where one aims.
const AIM: f64 = 0.999;
/// A step is lengthened or shortened by at most so much at once.
const STRETCH: f64 = 4.0;

/// The residuals near a point.
pub(super) struct Near {
    parts: Vec<f64>,
    residuals: DVector<f64>,
    jacobian: DMatrix<f64>,
    /// Parameters that the rows see, in the order of the columns.
    seen: Vec<usize>,
}

impl Near {
    /// At the best point; `None` where no row sees anything or can be predicted beside it.
    pub(super) fn of(problem: &Problem<'_>, profiled: &Profiled) -> Option<Self> {
        let count = profiled.best.parts.len();
        let seen: Vec<usize> = (0..count)
            .filter(|at| !profiled.unseen.contains(at))
            .collect();
        Self::at(problem, profiled.best.parts.clone(), seen)
    }

    fn at(problem: &Problem<'_>, parts: Vec<f64>, seen: Vec<usize>) -> Option<Self> {
        if seen.is_empty() {
            return None;
        }
        let residuals = DVector::from_vec(problem.residuals(&parts)?);
        let jacobian = jacobian(problem, &parts, &seen)?;
        Some(Self {
            parts,
            residuals,
            jacobian,
            seen,
        })
    }

    /// How the outcome moves with each parameter; `None` where it cannot be predicted beside the point.
    fn gradient(&self, of: &dyn Fn(&[f64]) -> Option<f64>) -> Option<DVector<f64>> {
        let slopes = self.seen.iter().map(|&at| {
            let (low, high) = (
                (self.parts[at] - STEP).max(0.0),
                (self.parts[at] + STEP).min(1.0),
            );
            let there = |part: f64| {
                let mut parts = self.parts.clone();
                parts[at] = part;
                of(&parts)
            };
            Some((there(high)? - there(low)?) / (high - low))
        });
        let slopes: Option<Vec<f64>> = slopes.collect();
        slopes.map(DVector::from_vec)
    }

    /// Where, all being linear, the outcome is extreme while the sum of squares is at most `most`; parameters that would
    /// cross a bound stay at it. No direction goes further than the whole range by itself.
    fn extreme(&self, gradient: &DVector<f64>, side: f64, profiled: &Profiled) -> Option<Vec<f64>> {
        let mut parts = self.parts.clone();
        let mut open: Vec<usize> = (0..self.seen.len()).collect();
        let mut residuals = self.residuals.clone();
        while !open.is_empty() {
            let jacobian = self.jacobian.select_columns(&open);
            let (values, vectors) = singular(jacobian.clone())?;
            let floor = profiled.rise.sqrt();
            let inverse = |x: &DVector<f64>| {
                let mut along = &vectors * x;
                for (part, value) in along.iter_mut().zip(&values) {
                    *part /= value.max(floor).powi(2);
                }
                vectors.transpose() * along
            };
            let slope = DVector::from_iterator(open.len(), open.iter().map(|&at| gradient[at]));
            let centre = -inverse(&(jacobian.transpose() * &residuals));
            let least = (&residuals + &jacobian * &centre).norm_squared();
            let along = inverse(&slope);
            let scale = slope.dot(&along);
            let room = (profiled.most - least).max(0.0);
            let far = if scale > 0.0 {
                (room / scale).sqrt()
            } else {
                0.0
            };
            let step = centre + along * (side * far);
            let mut held = Vec::new();
            for (column, &at) in open.iter().enumerate() {
                let wanted = self.parts[self.seen[at]] + step[column];
                parts[self.seen[at]] = wanted.clamp(0.0, 1.0);
                if !(0.0..=1.0).contains(&wanted) {
                    held.push(at);
                }
            }
            if held.is_empty() {
                break;
            }
            for &at in &held {
                let moved = parts[self.seen[at]] - self.parts[self.seen[at]];
                residuals += self.jacobian.column(at) * moved;
            }
            open.retain(|at| !held.contains(at));
        }
        parts.iter().all(|part| part.is_finite()).then_some(parts)
    }
}

/// Points of the confidence set at which an outcome, as `of` predicts it, is near its least and its largest value.
pub(super) fn extremes(
    problem: &Problem<'_>,
    profiled: &Profiled,
    near: &Near,
    of: &dyn Fn(&[f64]) -> Option<f64>,
) -> Vec<Vec<f64>> {
    let mut found = Vec::new();
    for side in [-1.0, 1.0] {
        let mut next: Option<Near> = None;
        for round in 0..ROUNDS {
            let here = next.as_ref().unwrap_or(near);
            let aimed = here
                .gradient(of)
                .and_then(|gradient| here.extreme(&gradient, side, profiled));
            let Some(reached) = aimed.and_then(|aimed| reach(problem, profiled, &aimed)) else {
                break;
            };
            found.push(reached.clone());
            if round + 1 < ROUNDS {
                match Near::at(problem, reached, near.seen.clone()) {
                    Some(there) => next = Some(there),
                    None => break,
                }
            }
        }
    }
    found
}

/// The point on the line from the best through this one, within the bounds, that is within the confidence set and
/// nearest to its edge; `None` if none was found.
fn reach(problem: &Problem<'_>, profiled: &Profiled, aimed: &[f64]) -> Option<Vec<f64>> {
    let best = &profiled.best;
    let room = profiled.most - best.chi2;
    let at = |far: f64| -> Vec<f64> {
        let ends = best.parts.iter().zip(aimed);
        let along = ends.map(|(from, to)| (from + (to - from) * far).clamp(0.0, 1.0));
        along.collect()
    };
    let mut inside: Option<(f64, Vec<f64>)> = None;
    let (mut low, mut high) = (0.0, f64::INFINITY);
    let mut far = 1.0;
    for _ in 0..LOOKS {
        let there = at(far);
        let root = problem
            .chi2(&there)
            .map(|chi2| ((chi2 - best.chi2).max(0.0) / room).sqrt());
        let within = root.is_some_and(|root| root <= 1.0);
        if within {
            low = far;
            inside = Some((far, there));
        } else {
            high = far;
        }
        if root.is_some_and(|root| (NEAR..=1.0).contains(&root)) {
            break;
        }
        let wanted = root.map_or(far / STRETCH, |root| {
            far * (AIM / root).clamp(1.0 / STRETCH, STRETCH)
        });
        far = if wanted > low && wanted < high {
            wanted
        } else if high.is_finite() {
            f64::midpoint(low, high)
        } else {
            break;
        };
    }
    inside.map(|(_, parts)| parts)
}
