//! Contention models held against a measured co-run matrix, by leaving out: each is fitted to a quarter
//! of the points and predicts the rest.
//!
//! Errors are in points of relative speed, achieved ÷ alone × 100.

mod family;
mod fit;
mod matrix;

use serde::Serialize;
use sim::contention::ModelError;
use sim::rng::{SplitMix, mix};

pub use family::Family;
pub use matrix::{Matrix, MatrixError, Point};

use family::Bench;

use crate::words::exact;

/// How points are left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Splits {
    /// Random quarters.
    pub count: u32,
    /// Seed of their draws.
    pub seed: u64,
    /// The most that the memory can give, GB/s, if known: bound of the fitted bandwidth.
    pub peak_gbps: Option<f64>,
}

impl Default for Splits {
    fn default() -> Self {
        Self {
            count: 8,
            seed: 1,
            peak_gbps: None,
        }
    }
}

/// How one model fares.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Score {
    /// The model, and what is free in it.
    pub model: &'static str,
    /// How many numbers were fitted.
    pub parameters: usize,
    /// Mean absolute error when fitted to all points, in points of speed.
    pub in_sample: f64,
    /// Mean absolute error on points left out, mean over random quarters.
    pub out_of_sample: f64,
    /// The best of the random quarters.
    pub out_best: f64,
    /// The worst of the random quarters.
    pub out_worst: f64,
    /// The same when every second row and column is fitted to, and the rest predicted.
    pub sub_grid: f64,
    /// Mean error (predicted − measured) on points left out.
    pub bias: f64,
    /// What was fitted to all points.
    pub fitted: Vec<Fitted>,
}

/// A fitted number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fitted {
    /// Name, with its unit.
    pub name: String,
    /// Value.
    pub value: f64,
    /// The least that it could be.
    pub low: f64,
    /// The most that it could be: of a bandwidth, the memory's peak if that is known, else the largest demands
    /// together.
    pub high: f64,
}

/// The largest peak that is taken for one, GB/s: a thousand times any memory's.
const PEAK_MAX_GBPS: f64 = 1e6;

/// Why a matrix cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CorunError {
    /// Too few points for a quarter to say anything.
    #[error("{0} points, must be 16 or more: a quarter of them is fitted to")]
    TooFew(usize),
    /// The stated peak is less than what was measured, or more than any memory gives.
    #[error(
        "the memory's peak is {peak} GB/s, must be above the largest demand, {demand}, and at most {PEAK_MAX_GBPS}"
    )]
    Peak {
        /// As stated.
        peak: String,
        /// Largest demand of one engine.
        demand: String,
    },
    /// A model that its own fit built is refused.
    #[error(transparent)]
    Model(#[from] ModelError),
}

/// Scores every model.
pub fn compare(matrix: &Matrix, splits: Splits) -> Result<Vec<Score>, CorunError> {
    let points = matrix.points();
    if points.len() < 16 {
        return Err(CorunError::TooFew(points.len()));
    }
    let largest = |axis: &[f64]| axis.last().copied().unwrap_or(0.0);
    let demand = largest(&matrix.own).max(largest(&matrix.external));
    if let Some(peak) = splits.peak_gbps
        && !(peak > demand && peak <= PEAK_MAX_GBPS)
    {
        return Err(CorunError::Peak {
            peak: exact(peak),
            demand: exact(demand),
        });
    }
    let bench = Bench::new(matrix, splits.peak_gbps);
    let quarters: Vec<Vec<bool>> = (0..splits.count)
        .map(|split| quarter(points.len(), splits.seed, split))
        .collect();
    let grid = sub_grid(matrix);
    Family::ALL
        .iter()
        .map(|&family| score(&bench, family, &points, &quarters, &grid))
        .collect()
}

/// The least mean error out of sample of a water-filling model.
pub fn best_filling(scores: &[Score]) -> f64 {
    let fillings = scores
        .iter()
        .filter(|score| score.model.starts_with("water"));
    fillings
        .map(|score| score.out_of_sample)
        .fold(f64::INFINITY, f64::min)
}

fn score(
    bench: &Bench,
    family: Family,
    points: &[Point],
    quarters: &[Vec<bool>],
    grid: &[bool],
) -> Result<Score, CorunError> {
    let all = fit::fit(bench, family, points)?;
    let out = |kept: &Vec<bool>| left_out(bench, family, points, kept);
    let errors = quarters.iter().map(out).collect::<Result<Vec<_>, _>>()?;
    let sizes: Vec<f64> = errors.iter().map(|errors| absolute(errors)).collect();
    let joined: Vec<f64> = errors.concat();
    let every: Vec<f64> = points
        .iter()
        .map(|&point| all.speed(bench, point) - point.speed)
        .collect();
    let free = bench.free(family);
    Ok(Score {
        model: family.name(),
        parameters: free.len(),
        in_sample: absolute(&every),
        out_of_sample: mean(&sizes),
        out_best: sizes.iter().copied().fold(f64::INFINITY, f64::min),
        out_worst: sizes.iter().copied().fold(0.0, f64::max),
        sub_grid: absolute(&left_out(bench, family, points, grid)?),
        bias: mean(&joined),
        fitted: free
            .into_iter()
            .zip(&all.values)
            .map(|(free, &value)| Fitted {
                name: free.name,
                value,
                low: free.low,
                high: free.high,
            })
            .collect(),
    })
}

/// Errors on the points that are not kept, of a fit to those that are.
fn left_out(
    bench: &Bench,
    family: Family,
    points: &[Point],
    kept: &[bool],
) -> Result<Vec<f64>, ModelError> {
    let of = |wanted: bool| {
        let marked = points.iter().zip(kept);
        marked
            .filter(move |(_, kept)| **kept == wanted)
            .map(|(point, _)| *point)
    };
    let fitted = fit::fit(bench, family, &of(true).collect::<Vec<Point>>())?;
    Ok(of(false)
        .map(|point| fitted.speed(bench, point) - point.speed)
        .collect())
}

fn quarter(count: usize, seed: u64, split: u32) -> Vec<bool> {
    let mut rng = SplitMix::from_key(mix(seed) ^ mix(u64::from(split)));
    let mut kept = vec![false; count];
    for at in &fit::shuffled(count, &mut rng)[..count / 4] {
        kept[*at] = true;
    }
    kept
}

/// Every second row and column, the last included.
fn sub_grid(matrix: &Matrix) -> Vec<bool> {
    let (rows, columns) = (matrix.own.len(), matrix.external.len());
    let second = |at: usize, count: usize| (count - 1 - at).is_multiple_of(2);
    (0..rows * columns)
        .map(|at| second(at / columns, rows) && second(at % columns, columns))
        .collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn absolute(errors: &[f64]) -> f64 {
    errors.iter().map(|error| error.abs()).sum::<f64>() / errors.len() as f64
}
