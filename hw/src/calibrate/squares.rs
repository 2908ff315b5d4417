//! Least squares of relative errors over measured points.

use super::fit::Mean;

/// Sizes, rising, each once.
pub(super) fn sizes(points: &[Mean]) -> Vec<f64> {
    let mut sizes: Vec<f64> = points.iter().map(|point| point.size).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    sizes
}

pub(super) fn column(points: &[Mean], value: impl Fn(&Mean) -> f64) -> Vec<f64> {
    points.iter().map(value).collect()
}

pub(super) fn is(it: bool) -> f64 {
    f64::from(u8::from(it))
}

/// Coefficients with which columns add up to `times`, by least squares of errors relative to the points' times;
/// `None`: the points do not tell them apart.
pub(super) fn solve(points: &[Mean], columns: &[Vec<f64>], times: &[f64]) -> Option<Vec<f64>> {
    let count = columns.len();
    if points.len() < count {
        return None;
    }
    // Columns differ by many orders of magnitude, so each is scaled by its greatest.
    let mut scales = Vec::with_capacity(count);
    let mut scaled = Vec::with_capacity(count);
    for column in columns {
        let relative: Vec<f64> = column.iter().zip(points).map(|(x, p)| x / p.secs).collect();
        let scale = relative.iter().copied().fold(0.0, f64::max);
        if scale == 0.0 {
            return None;
        }
        scaled.push(relative.iter().map(|x| x / scale).collect::<Vec<f64>>());
        scales.push(scale);
    }
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let shares: Vec<f64> = times.iter().zip(points).map(|(t, p)| t / p.secs).collect();
    let mut matrix: Vec<Vec<f64>> = scaled
        .iter()
        .map(|a| {
            let left = scaled.iter().map(|b| product(a, b));
            left.chain([product(a, &shares)]).collect()
        })
        .collect();
    eliminate(&mut matrix)?;
    let last = matrix.iter().zip(&scales);
    Some(last.map(|(row, scale)| row[count] / scale).collect())
}

/// Gauss and Jordan's elimination with pivots; the right-hand side is the last column, and becomes the
/// solution.
fn eliminate(matrix: &mut [Vec<f64>]) -> Option<()> {
    for column in 0..matrix.len() {
        let pivot = (column..matrix.len())
            .max_by(|&a, &b| matrix[a][column].abs().total_cmp(&matrix[b][column].abs()))?;
        // Sums of squares of numbers up to 1: smaller is noise of rounding.
        if matrix[pivot][column].abs() < 1e-9 {
            return None;
        }
        matrix.swap(column, pivot);
        let factor = matrix[column][column];
        for value in &mut matrix[column] {
            *value /= factor;
        }
        let pivot = matrix[column].clone();
        for (index, row) in matrix.iter_mut().enumerate() {
            let factor = row[column];
            if index != column {
                for (value, own) in row.iter_mut().zip(&pivot) {
                    *value -= factor * own;
                }
            }
        }
    }
    Some(())
}
