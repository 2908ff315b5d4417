//! Least squares with coefficients that are not negative, for the few terms of a stage's cost.

/// Terms of the form `fixed + per_token·n + per_token_context·(n·d + n(n−1)/2)`.
pub(crate) const TERMS: usize = 3;

/// A measured time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    /// Tokens.
    pub(crate) tokens: f64,
    /// Tokens of context before them.
    pub(crate) depth: f64,
    /// Time, s.
    pub(crate) secs: f64,
}

impl Point {
    /// What each coefficient multiplies.
    fn terms(self) -> [f64; TERMS] {
        let Self {
            tokens: n, depth, ..
        } = self;
        [1.0, n, n * depth + n * (n - 1.0) / 2.0]
    }

    /// Time by the form, s.
    pub(crate) fn at(self, form: &[f64; TERMS]) -> f64 {
        let terms = self.terms();
        terms
            .iter()
            .zip(form)
            .map(|(term, value)| term * value)
            .sum()
    }
}

/// The form of the terms in `allowed` with the least sum of squared relative errors and no negative coefficient,
/// and its largest relative error.
pub(crate) fn fit(points: &[Point], allowed: [bool; TERMS]) -> Option<([f64; TERMS], f64)> {
    let mut best: Option<([f64; TERMS], f64)> = None;
    // So few terms that every subset is tried; the best feasible one is the constrained optimum.
    for subset in 1..1_u8 << TERMS {
        let used: Vec<usize> = (0..TERMS).filter(|term| subset >> term & 1 == 1).collect();
        if used.len() > points.len() || used.iter().any(|&term| !allowed[term]) {
            continue;
        }
        let Some(form) = solve(points, &used) else {
            continue;
        };
        let loss: f64 = points
            .iter()
            .map(|point| (point.at(&form) / point.secs - 1.0).powi(2))
            .sum();
        // Fewer terms come first, and more must be worth it.
        if loss.is_finite() && best.is_none_or(|(_, least)| loss < least * 0.999) {
            best = Some((form, loss));
        }
    }
    let (form, _) = best?;
    Some((form, missed(points, &form)))
}

/// The largest relative error of a form.
pub(crate) fn missed(points: &[Point], form: &[f64; TERMS]) -> f64 {
    points
        .iter()
        .map(|point| (point.at(form) / point.secs - 1.0).abs())
        .fold(0.0, f64::max)
}

/// Normal equations of the terms `used`, relative errors; `None` where they are singular or infeasible.
fn solve(points: &[Point], used: &[usize]) -> Option<[f64; TERMS]> {
    let size = used.len();
    // Columns are scaled to about 1: token counts and their squares lie far apart.
    let scale: Vec<f64> = used
        .iter()
        .map(|&term| {
            points
                .iter()
                .map(|point| (point.terms()[term] / point.secs).abs())
                .fold(0.0, f64::max)
        })
        .collect();
    if scale
        .iter()
        .any(|scale| *scale <= 0.0 || !scale.is_finite())
    {
        return None;
    }
    let mut matrix = [[0.0; TERMS + 1]; TERMS];
    for point in points {
        let row: Vec<f64> = used
            .iter()
            .zip(&scale)
            .map(|(&term, scale)| point.terms()[term] / point.secs / scale)
            .collect();
        for i in 0..size {
            for j in 0..size {
                matrix[i][j] += row[i] * row[j];
            }
            matrix[i][size] += row[i];
        }
    }
    for pivot in 0..size {
        let best = (pivot..size)
            .max_by(|&a, &b| matrix[a][pivot].abs().total_cmp(&matrix[b][pivot].abs()))?;
        matrix.swap(pivot, best);
        if matrix[pivot][pivot].abs() < 1e-9 {
            return None;
        }
        for row in 0..size {
            if row == pivot {
                continue;
            }
            let factor = matrix[row][pivot] / matrix[pivot][pivot];
            let pivots = matrix[pivot];
            for (value, above) in matrix[row].iter_mut().zip(pivots).skip(pivot) {
                *value -= factor * above;
            }
        }
    }
    let mut form = [0.0; TERMS];
    for (i, &term) in used.iter().enumerate() {
        let value = matrix[i][size] / matrix[i][i] / scale[i];
        if !value.is_finite() || value <= 0.0 {
            return None;
        }
        form[term] = value;
    }
    Some(form)
}
