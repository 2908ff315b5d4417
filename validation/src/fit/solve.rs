//! Weighted least squares within bounds: Levenberg–Marquardt from several starts.
//!
//! A parameter moves on its scale as (1 + sin u) / 2 (James and Roos 1975, as in MINUIT), so that u is
//! free and the bounds are never crossed.

use std::cell::Cell;

use levenberg_marquardt::{LeastSquaresProblem, LevenbergMarquardt, TerminationReason};
use nalgebra::storage::Owned;
use nalgebra::{DMatrix, DVector, Dyn};
use sim::rng::{SplitMix, mix};

use super::problem::Problem;

/// Step of a derivative, as a part of a parameter's scale: far above the rounding to
/// nanoseconds, far below what the data resolve.
pub(super) const STEP: f64 = 1e-4;
/// Starts keep this far from the bounds, where the transform has no slope.
const MARGIN: f64 = 0.02;

/// A round that lowers the sum of squares by less than this part of it gains nothing.
const GAINED: f64 = 1e-6;
/// Searches that may follow one that ran out of patience or lies at a bound.
const ROUNDS: u32 = 6;
/// How many times as far as the best point a trial step without a prediction counts as: the solver shortens it.
const FAR: f64 = 1e3;

/// Where a search ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Best {
    /// Parameters on their scales, within [0, 1].
    pub(super) parts: Vec<f64>,
    /// Sum of squared residuals.
    pub(super) chi2: f64,
    /// Whether it is a minimum; else the search could not go on.
    pub(super) settled: bool,
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

/// Parts at which a search from here begins: within the bounds by a margin, but for the held ones.
pub(super) fn begin(start: &[f64], held: &[usize]) -> Vec<f64> {
    let mut parts = start.to_vec();
    for (at, part) in parts.iter_mut().enumerate() {
        if !held.contains(&at) {
            *part = part.clamp(MARGIN, 1.0 - MARGIN);
        }
    }
    parts
}

/// The nearest minimum, with some parameters held where they are; where some are, only as near as an interval needs.
/// `None` if a residual cannot be computed at the start.
pub(super) fn minimise(problem: &Problem<'_>, start: &[f64], held: &[usize]) -> Option<Best> {
    let free: Vec<usize> = (0..start.len()).filter(|at| !held.contains(at)).collect();
    let mut search = Search::new(problem, begin(start, held), free.clone())?;
    if free.is_empty() {
        search.best.settled = true;
        return Some(search.best);
    }
    let mut best: Option<Best> = None;
    for _ in 0..ROUNDS {
        let solver = LevenbergMarquardt::new()
            .with_ftol(if held.is_empty() { 1e-8 } else { 1e-3 })
            .with_xtol(1e-8)
            .with_patience(20);
        let (ended, report) = solver.minimize(search);
        let settled = ended.settled(&report.termination);
        let out_of_patience = report.termination == TerminationReason::LostPatience;
        let found = Best {
            settled,
            ..ended.best
        };
        let lower = best.as_ref().is_none_or(|best| found.chi2 < best.chi2);
        // A minimum that another round comes back to remains one.
        let known = best.as_ref().is_some_and(|best| best.settled);
        let gained = best
            .as_ref()
            .is_none_or(|best| found.chi2 < best.chi2 * (1.0 - GAINED));
        if lower {
            best = Some(Best {
                settled: settled || known && !gained,
                ..found
            });
        }
        let here = best.as_ref()?;
        // At a bound the transform has no slope: from beside it a search may find its way back.
        let at_bound = |at: &usize| !(MARGIN..=1.0 - MARGIN).contains(&here.parts[*at]);
        let again = held.is_empty() && free.iter().any(at_bound);
        if !gained || !(out_of_patience || again) {
            break;
        }
        match Search::new(problem, begin(&here.parts, held), free.clone()) {
            Some(next) => search = next,
            None => break,
        }
    }
    best
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
        let at_part = |part: f64| {
            let mut moved = parts.to_vec();
            moved[at] = part;
            let residuals = problem.residuals(&moved)?;
            Some((part, residuals))
        };
        // So it is beside values at which nothing can be predicted.
        let (high, above) = at_part(high).or_else(|| at_part(parts[at]))?;
        let (low, below) = at_part(low).or_else(|| at_part(parts[at]))?;
        if high <= low {
            return None;
        }
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
    residuals: DVector<f64>,
    /// The best point so far.
    best: Best,
    /// Steps without a prediction since the last one that the solver kept.
    refused: Cell<u32>,
}

impl<'p> Search<'p> {
    fn new(problem: &'p Problem<'_>, parts: Vec<f64>, free: Vec<usize>) -> Option<Self> {
        let angles = free.iter().map(|&at| (2.0 * parts[at] - 1.0).asin());
        let angles = DVector::from_iterator(free.len(), angles);
        let residuals = DVector::from_vec(problem.residuals(&parts)?);
        let best = Best {
            parts: parts.clone(),
            chi2: residuals.norm_squared(),
            settled: false,
        };
        Some(Self {
            problem,
            parts,
            free,
            angles,
            residuals,
            best,
            refused: Cell::new(0),
        })
    }

    /// Whether the solver ended at a minimum, and not because there was nothing to go by.
    fn settled(&self, termination: &TerminationReason) -> bool {
        match termination {
            TerminationReason::ResidualsZero
            | TerminationReason::Orthogonal
            | TerminationReason::NoImprovementPossible(_)
            | TerminationReason::Converged { ftol: true, .. } => true,
            // Steps became so short beside values at which nothing can be predicted.
            TerminationReason::Converged { .. } => self.refused.get() == 0,
            _ => false,
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
        if let Some(residuals) = self.problem.residuals(&self.parts) {
            self.residuals = DVector::from_vec(residuals);
            let chi2 = self.residuals.norm_squared();
            if chi2 < self.best.chi2 {
                self.best.parts.clone_from(&self.parts);
                self.best.chi2 = chi2;
            }
        } else {
            // Nothing is known of this point but that it is too far.
            self.refused.set(self.refused.get() + 1);
            self.residuals.fill(FAR * (1.0 + self.best.chi2.sqrt()));
        }
    }

    fn params(&self) -> DVector<f64> {
        self.angles.clone()
    }

    fn residuals(&self) -> Option<DVector<f64>> {
        Some(self.residuals.clone())
    }

    fn jacobian(&self) -> Option<DMatrix<f64>> {
        // The solver asks for it where it goes on from.
        self.refused.set(0);
        let here = &self.residuals;
        let mut matrix = DMatrix::zeros(here.len(), self.free.len());
        for (column, (&at, angle)) in self.free.iter().zip(self.angles.iter()).enumerate() {
            // One-sided differences: half the work, and good enough for a direction. Where one side has no
            // prediction the other may.
            let inward = if self.parts[at] < 0.5 { STEP } else { -STEP };
            let (step, there) = [inward, -inward].into_iter().find_map(|step| {
                let mut moved = self.parts.clone();
                moved[at] += step;
                let within = (0.0..=1.0).contains(&moved[at]);
                let there = within.then(|| self.problem.residuals(&moved)).flatten()?;
                Some((step, there))
            })?;
            // The slope of the transform.
            let slope = angle.cos() / 2.0;
            for (row, (there, here)) in there.iter().zip(here).enumerate() {
                matrix[(row, column)] = (there - here) / step * slope;
            }
        }
        Some(matrix)
    }
}
