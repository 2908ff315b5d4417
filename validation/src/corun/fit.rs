//! Least squares on some points of a matrix: Levenberg–Marquardt within bounds, from several starts.

use levenberg_marquardt::{LeastSquaresProblem, LevenbergMarquardt};
use nalgebra::storage::Owned;
use nalgebra::{DMatrix, DVector, Dyn};
use sim::contention::{ContentionModel, ModelError};
use sim::rng::{SplitMix, mix};
use sim::{contention::Load, world::EngineId};

use super::family::{Bench, Family, Free};
use super::matrix::Point;

/// Starts of a fit, a Latin hypercube within the bounds.
const STARTS: usize = 12;
/// Starts where the least squares do not move some parameters: a curve's regions begin between two
/// measured demands, and where between them changes nothing.
const STARTS_OF_STEPS: usize = 64;
/// Step of a derivative, as a part of a parameter's range. Curves have jumps and kinks, so it is not
/// small.
const STEP: f64 = 1e-3;
/// Weight of a pair grid's roughness beside errors in points of speed.
const SMOOTHING: f64 = 5.0;

/// A fitted model.
#[derive(Debug)]
pub(super) struct Fitted {
    pub(super) values: Vec<f64>,
    model: Box<dyn ContentionModel>,
}

/// The best of several starts; always the same for the same points.
pub(super) fn fit(bench: &Bench, family: Family, points: &[Point]) -> Result<Fitted, ModelError> {
    let free = bench.free(family);
    let mut best: Option<(f64, Vec<f64>)> = None;
    if !free.is_empty() {
        let count = match family {
            Family::Pccs => STARTS_OF_STEPS,
            _ => STARTS,
        };
        for start in starts(free.len(), count) {
            let search = Search {
                bench,
                family,
                free: &free,
                points,
                angles: DVector::from_iterator(
                    free.len(),
                    start.iter().map(|part| (2.0 * part - 1.0).asin()),
                ),
            };
            let solver = LevenbergMarquardt::new()
                .with_ftol(1e-6)
                .with_xtol(1e-6)
                .with_patience(20);
            let (search, report) = solver.minimize(search);
            let cost = report.objective_function;
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, search.values(&search.angles)));
            }
        }
    }
    let mut values = best.map_or_else(Vec::new, |(_, values)| values);
    if family == Family::Pccs {
        // The regions' starts, in whichever order they were found.
        values[..2].sort_by(f64::total_cmp);
        for (value, free) in values.iter_mut().zip(&free).take(2) {
            *value = between(*value, free, points);
        }
    }
    let model = bench.model(family, &values)?;
    Ok(Fitted { values, model })
}

/// The middle between the measured demands around a region's start: where between them it lies changes nothing that was
/// fitted, so where a search left it says nothing of what lies between.
fn between(start: f64, free: &Free, points: &[Point]) -> f64 {
    let demands = || points.iter().map(|point| point.own);
    let below = demands()
        .filter(|own| *own < start)
        .fold(free.low, f64::max);
    let above = demands()
        .filter(|own| *own >= start)
        .fold(free.high, f64::min);
    f64::midpoint(below, above)
}

impl Fitted {
    /// Speed of the measured engine, in points.
    pub(super) fn speed(&self, bench: &Bench, point: Point) -> f64 {
        speed(self.model.as_ref(), bench, point)
    }
}

fn speed(model: &dyn ContentionModel, bench: &Bench, point: Point) -> f64 {
    let (own, external) = bench.intensities(point.own, point.external);
    let running = [(0, own), (1, external)].map(|(engine, mu)| Load {
        engine: EngineId(engine),
        mu,
    });
    let mut slowdowns = [1.0; 2];
    model.slowdowns(&running, &mut slowdowns);
    100.0 / slowdowns[0]
}

fn starts(dimensions: usize, count: usize) -> Vec<Vec<f64>> {
    let mut all = vec![vec![0.5; dimensions]; count];
    let mut rng = SplitMix::from_key(mix(dimensions as u64));
    for dimension in 0..dimensions {
        for (start, cell) in all.iter_mut().zip(shuffled(count, &mut rng)) {
            start[dimension] = (cell as f64 + 0.5) / count as f64;
        }
    }
    all
}

/// 0 to `count` − 1 in random order.
pub(super) fn shuffled(count: usize, rng: &mut SplitMix) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for at in (1..count).rev() {
        order.swap(at, (rng.next_u64() % (at as u64 + 1)) as usize);
    }
    order
}

/// Parameters move as (1 + sin u) / 2 of their range, so that u is free (James and Roos 1975).
struct Search<'s> {
    bench: &'s Bench,
    family: Family,
    free: &'s [Free],
    points: &'s [Point],
    angles: DVector<f64>,
}

impl Search<'_> {
    fn values(&self, angles: &DVector<f64>) -> Vec<f64> {
        let values = self.free.iter().zip(angles.iter());
        values
            .map(|(free, angle)| {
                let part = f64::midpoint(1.0, angle.sin());
                free.low + (free.high - free.low) * part
            })
            .collect()
    }

    fn errors(&self, angles: &DVector<f64>) -> Option<DVector<f64>> {
        let values = self.values(angles);
        let model = self.bench.model(self.family, &values).ok()?;
        let mut errors: Vec<f64> = self
            .points
            .iter()
            .map(|&point| speed(model.as_ref(), self.bench, point) - point.speed)
            .collect();
        let rough = Bench::roughness(self.family, &values);
        errors.extend(rough.iter().map(|difference| difference * SMOOTHING));
        Some(DVector::from_vec(errors))
    }
}

impl LeastSquaresProblem<f64, Dyn, Dyn> for Search<'_> {
    type ResidualStorage = Owned<f64, Dyn>;
    type JacobianStorage = Owned<f64, Dyn, Dyn>;
    type ParameterStorage = Owned<f64, Dyn>;

    fn set_params(&mut self, angles: &DVector<f64>) {
        self.angles.copy_from(angles);
    }

    fn params(&self) -> DVector<f64> {
        self.angles.clone()
    }

    fn residuals(&self) -> Option<DVector<f64>> {
        self.errors(&self.angles)
    }

    fn jacobian(&self) -> Option<DMatrix<f64>> {
        let mut columns = Vec::new();
        for at in 0..self.angles.len() {
            let moved = |by: f64| {
                let mut angles = self.angles.clone();
                angles[at] += by;
                self.errors(&angles)
            };
            columns.push((moved(STEP)? - moved(-STEP)?) / (2.0 * STEP));
        }
        Some(DMatrix::from_columns(&columns))
    }
}
