//! Weighted least squares within bounds: Levenberg–Marquardt from several starts.
//!
//! A parameter moves on its scale as (1 + sin u) / 2 (James and Roos 1975, as in MINUIT), so that u is
//! free and the bounds are never crossed.

use levenberg_marquardt::{LeastSquaresProblem, LevenbergMarquardt};
use nalgebra::storage::Owned;
use nalgebra::{DMatrix, DVector, Dyn};
use sim::rng::{SplitMix, mix};

use super::problem::Problem;

/// Step of a derivative, as a part of a parameter's scale: far above the rounding to
/// nanoseconds, far below what the data resolve.
const STEP: f64 = 1e-4;
/// Starts keep this far from the bounds, where the transform has no slope.
const MARGIN: f64 = 0.02;

/// A minimum.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Best {
    /// Parameters on their scales, within [0, 1].
    pub(super) parts: Vec<f64>,
    /// Sum of squared residuals.
    pub(super) chi2: f64,
}

/// Starting points: the profiles' own values, then a Latin hypercube within the bounds.
pub(super) fn starts(problem: &Problem<'_>) -> Vec<Vec<f64>> {
    let count = problem.spec.starts as usize;
    let dimensions = problem.spec.free.len();
    let mut all = vec![problem.own_parts()];
    let more = count.saturating_sub(1);
    all.extend(std::iter::repeat_n(vec![0.5; dimensions], more));
    let mut rng = SplitMix::from_key(mix(problem.spec.seed));
    for dimension in 0..dimensions {
        let mut order: Vec<usize> = (0..more).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, (rng.next_u64() % (at as u64 + 1)) as usize);
        }
        for (start, cell) in all[1..].iter_mut().zip(order) {
            start[dimension] = (cell as f64 + 0.5) / more as f64;
        }
    }
    all
}

/// The nearest minimum; with one parameter held where it is, if so asked, and then only as near as an
/// interval needs. `None` if a residual cannot be computed at the start.
pub(super) fn minimise(problem: &Problem<'_>, start: &[f64], fixed: Option<usize>) -> Option<Best> {
    let free: Vec<usize> = (0..start.len()).filter(|at| Some(*at) != fixed).collect();
    let search = Search::new(problem, start.to_vec(), free)?;
    let first = search.best();
    if search.free.is_empty() {
        return Some(first);
    }
    let solver = LevenbergMarquardt::new()
        .with_ftol(if fixed.is_some() { 1e-3 } else { 1e-8 })
        .with_xtol(1e-8)
        .with_patience(20);
    let (search, _) = solver.minimize(search);
    let last = search.best();
    // The solver keeps its best point; a failed last step must not hide it.
    Some(if last.chi2 <= first.chi2 { last } else { first })
}

/// Residuals by the parameters' parts, differentiated: one column a parameter; `None` where a residual
/// cannot be computed.
pub(super) fn jacobian(
    problem: &Problem<'_>,
    parts: &[f64],
    free: &[usize],
) -> Option<DMatrix<f64>> {
    let rows = problem.rows.len();
    let mut matrix = DMatrix::zeros(rows, free.len());
    for (column, &at) in free.iter().enumerate() {
        // At a bound the difference is one-sided.
        let (low, high) = ((parts[at] - STEP).max(0.0), (parts[at] + STEP).min(1.0));
        let mut moved = parts.to_vec();
        moved[at] = high;
        let above = problem.residuals(&moved)?;
        moved[at] = low;
        let below = problem.residuals(&moved)?;
        for row in 0..rows {
            matrix[(row, column)] = (above[row] - below[row]) / (high - low);
        }
    }
    Some(matrix)
}

struct Search<'p> {
    problem: &'p Problem<'p>,
    parts: Vec<f64>,
    free: Vec<usize>,
    angles: DVector<f64>,
    residuals: Option<DVector<f64>>,
}

impl<'p> Search<'p> {
    fn new(problem: &'p Problem<'_>, mut parts: Vec<f64>, free: Vec<usize>) -> Option<Self> {
        for &at in &free {
            parts[at] = parts[at].clamp(MARGIN, 1.0 - MARGIN);
        }
        let angles = free.iter().map(|&at| (2.0 * parts[at] - 1.0).asin());
        let angles = DVector::from_iterator(free.len(), angles);
        let residuals = DVector::from_vec(problem.residuals(&parts)?);
        Some(Self {
            problem,
            parts,
            free,
            angles,
            residuals: Some(residuals),
        })
    }

    fn best(&self) -> Best {
        let residuals = self.residuals.as_ref();
        Best {
            parts: self.parts.clone(),
            chi2: residuals.map_or(f64::INFINITY, DVector::norm_squared),
        }
    }
}

impl LeastSquaresProblem<f64, Dyn, Dyn> for Search<'_> {
    type ResidualStorage = Owned<f64, Dyn>;
    type JacobianStorage = Owned<f64, Dyn, Dyn>;
    type ParameterStorage = Owned<f64, Dyn>;

    fn set_params(&mut self, angles: &DVector<f64>) {
        self.angles.copy_from(angles);
        for (&at, angle) in self.free.iter().zip(angles.iter()) {
            // Beyond a quarter turn the sine comes back: the same bound from the other side.
            self.parts[at] = f64::midpoint(1.0, angle.sin()).clamp(0.0, 1.0);
        }
        self.residuals = self.problem.residuals(&self.parts).map(DVector::from_vec);
    }

    fn params(&self) -> DVector<f64> {
        self.angles.clone()
    }

    fn residuals(&self) -> Option<DVector<f64>> {
        self.residuals.clone()
    }

    fn jacobian(&self) -> Option<DMatrix<f64>> {
        // One-sided differences: half the work, and good enough for a direction.
        let here = self.residuals.as_ref()?;
        let mut matrix = DMatrix::zeros(here.len(), self.free.len());
        for (column, (&at, angle)) in self.free.iter().zip(self.angles.iter()).enumerate() {
            let mut moved = self.parts.clone();
            let step = if moved[at] < 0.5 { STEP } else { -STEP };
            moved[at] += step;
            let there = self.problem.residuals(&moved)?;
            // The slope of the transform.
            let slope = angle.cos() / 2.0;
            for (row, (there, here)) in there.iter().zip(here).enumerate() {
                matrix[(row, column)] = (there - here) / step * slope;
            }
        }
        Some(matrix)
    }
}
