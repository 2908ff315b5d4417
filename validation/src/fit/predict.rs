//! Outcomes as a fit predicts them, and how far they move with what it leaves open.

use serde::Serialize;

use super::contour::{Near, extremes};
use super::likelihood::Profiled;
use super::problem::{Observation, Problem};
use super::unseen::moved;
use crate::published::Row;

/// Points of the confidence set at which the outcomes are predicted.
const POINTS_MAX: usize = 64;

/// An outcome as the fit predicts it.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldOut {
    /// The row.
    pub row: Row,
    /// Value with the best parameters, in the row's unit.
    pub value: f64,
    /// Least value over the fit's 95 % confidence set, with the profiles' values of what no row sees.
    pub low: f64,
    /// Largest value over it.
    pub high: f64,
    /// What it rests on that no row sees, if anything.
    pub hidden: Option<Hidden>,
}

/// What a prediction rests on that no fitted row sees: the fit says nothing of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hidden {
    /// Names of the parameters.
    pub parameters: Vec<String>,
    /// Least value over the confidence set and these parameters' bounds, in the row's unit.
    pub low: f64,
    /// Largest value over both.
    pub high: f64,
}

impl HeldOut {
    /// Its error; see [`Row::error_of`].
    pub fn error(&self) -> f64 {
        self.row.error_of(self.value)
    }
}

/// The outcomes at the minimum, and their range over the confidence set: at points that walks along the parameters came
/// to, and at those to which the outcome itself leads ([`extremes`]).
pub(super) fn predict(
    problem: &Problem<'_>,
    outcomes: &[Observation<'_>],
    profiled: &Profiled,
) -> Vec<HeldOut> {
    let visited = spread(&profiled.within);
    let near = Near::of(problem, profiled);
    outcomes
        .iter()
        .filter_map(|outcome| {
            let of =
                |parts: &[f64]| Some(problem.predict(std::slice::from_ref(outcome), parts)?[0]);
            let mut points = visited.clone();
            if let Some(near) = &near {
                points.extend(extremes(problem, profiled, near, &of));
            }
            let mut values = points.iter().filter_map(|parts| of(parts));
            // The first point is the minimum.
            let value = values.next()?;
            let (low, high) = values.fold((value, value), wider);
            let points: Vec<&Vec<f64>> = points.iter().collect();
            Some(HeldOut {
                row: outcome.row.clone(),
                value,
                low,
                high,
                hidden: hidden(problem, outcome, profiled, &points, (low, high)),
            })
        })
        .collect()
}

/// The first of these points, those at which a parameter is least and largest, and some of the others.
fn spread(points: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let step = points.len().div_ceil(POINTS_MAX).max(1);
    let mut kept: Vec<usize> = (0..points.len()).step_by(step).collect();
    for at in 0..points.first().map_or(0, Vec::len) {
        let by = |a: &usize, b: &usize| points[*a][at].total_cmp(&points[*b][at]);
        kept.extend((0..points.len()).min_by(by));
        kept.extend((0..points.len()).max_by(by));
    }
    kept.sort_unstable();
    kept.dedup();
    kept.into_iter().map(|at| points[at].clone()).collect()
}

fn wider((low, high): (f64, f64), value: f64) -> (f64, f64) {
    (low.min(value), high.max(value))
}

/// What an outcome rests on that no row sees, with how far that can take it from the `range` of the fit. Each such
/// parameter is taken to where it lowers and where it raises the outcome by itself, and all of them together so over
/// the confidence set.
fn hidden(
    problem: &Problem<'_>,
    outcome: &Observation<'_>,
    profiled: &Profiled,
    points: &[&Vec<f64>],
    range: (f64, f64),
) -> Option<Hidden> {
    let of = |parts: &[f64]| Some(problem.predict(std::slice::from_ref(outcome), parts)?[0]);
    let best = &profiled.best.parts;
    let value = of(best)?;
    let mut parameters = Vec::new();
    // Parameter, and where it lowers and raises the outcome most.
    let mut ends: Vec<(usize, [f64; 2])> = Vec::new();
    let mut range = range;
    for &at in &profiled.unseen {
        let tried = moved(best, at).filter_map(|(part, there)| Some((of(&there)?, part)));
        let tried: Vec<(f64, f64)> = tried.collect();
        let least = tried.iter().min_by(|a, b| a.0.total_cmp(&b.0));
        let most = tried.iter().max_by(|a, b| a.0.total_cmp(&b.0));
        let (Some(&least), Some(&most)) = (least, most) else {
            continue;
        };
        if least.0 < value || most.0 > value {
            parameters.push(problem.spec.free[at].name.clone());
            ends.push((at, [least.1, most.1]));
            range = wider(wider(range, least.0), most.0);
        }
    }
    if parameters.is_empty() {
        return None;
    }
    for point in points {
        for side in 0..2 {
            let mut there = (*point).clone();
            for (at, parts) in &ends {
                there[*at] = parts[side];
            }
            range = of(&there).map_or(range, |value| wider(range, value));
        }
    }
    Some(Hidden {
        parameters,
        low: range.0,
        high: range.1,
    })
}
