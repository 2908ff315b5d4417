//! Samples to cost forms: non-negative least squares of relative errors, with residuals and the error
//! of each point when it is left out.

/// One measured point of a stage: size, context before it, mean time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// Size: tokens, or bytes of a transfer.
    pub size: f64,
    /// Tokens of context before it.
    pub context: f64,
    /// Mean time, s.
    pub secs: f64,
}

/// A cost form, `fixed + per_token·n + per_token_context·(n·ctx + n(n−1)/2)`, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Form {
    /// s.
    pub fixed: f64,
    /// s a token (a byte, of transfers).
    pub per_token: f64,
    /// s a token and token of context.
    pub per_token_context: f64,
}

/// A form with how well it fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The form.
    pub form: Form,
    /// Points that it was fitted to.
    pub points: usize,
    /// Their sizes.
    pub sizes: Vec<f64>,
    /// Their contexts.
    pub contexts: Vec<f64>,
    /// Relative error of each point: (form − measured) ÷ measured.
    pub residuals: Vec<f64>,
    /// The same for each point when it is left out of the fit; empty where too few points are left.
    pub left_out: Vec<f64>,
}

/// Which terms a form may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// A fixed time.
    pub fixed: bool,
    /// A time a token.
    pub per_token: bool,
    /// A time a token and token of context.
    pub per_token_context: bool,
}

impl Terms {
    /// Of a prefill or a decode.
    pub const LANGUAGE: Self = Self {
        fixed: true,
        per_token: true,
        per_token_context: true,
    };
    /// Of a copy or a projection.
    pub const NO_CONTEXT: Self = Self {
        fixed: true,
        per_token: true,
        per_token_context: false,
    };
    /// Of a stage whose size is always the same.
    pub const FIXED: Self = Self {
        fixed: true,
        per_token: false,
        per_token_context: false,
    };

    fn mask(self) -> u8 {
        u8::from(self.fixed) | u8::from(self.per_token) << 1 | u8::from(self.per_token_context) << 2
    }
}

impl Form {
    /// Time of size `n` after `ctx` tokens, s.
    pub fn at(&self, n: f64, ctx: f64) -> f64 {
        let pairs = n * ctx + 0.5 * n * (n - 1.0).max(0.0);
        self.fixed + self.per_token * n + self.per_token_context * pairs
    }
}

/// The form that fits best, or `None` where no point has a time.
pub fn fit(points: &[Mean], terms: Terms) -> Option<Fit> {
    let form = best(points, terms)?;
    let error =
        |form: &Form, point: &Mean| (form.at(point.size, point.context) - point.secs) / point.secs;
    let usable = || points.iter().filter(|point| point.secs > 0.0);
    let residuals = usable().map(|point| error(&form, point)).collect();
    let enough = points.len() > terms.mask().count_ones() as usize;
    let left_out = (0..points.len()).filter(|_| enough).filter_map(|index| {
        let mut others = points.to_vec();
        let out = others.remove(index);
        (out.secs > 0.0).then_some(())?;
        Some(error(&best(&others, terms)?, &out))
    });
    Some(Fit {
        form,
        points: usable().count(),
        sizes: usable().map(|point| point.size).collect(),
        contexts: usable().map(|point| point.context).collect(),
        residuals,
        left_out: left_out.collect(),
    })
}

/// Least squares of relative errors over all choices of terms whose coefficients are not negative. There are
/// at most three terms, so all choices are tried, which is exact.
fn best(points: &[Mean], terms: Terms) -> Option<Form> {
    let allowed = terms.mask();
    let mut best: Option<(f64, Form)> = None;
    for mask in 1..8_u8 {
        if mask & !allowed != 0 {
            continue;
        }
        let Some(form) = solve(points, mask) else {
            continue;
        };
        let coefficients = [form.fixed, form.per_token, form.per_token_context];
        if coefficients.iter().any(|&value| value < 0.0) {
            continue;
        }
        let error: f64 = points
            .iter()
            .filter(|point| point.secs > 0.0)
            .map(|point| (form.at(point.size, point.context) / point.secs - 1.0).powi(2))
            .sum();
        if best.is_none_or(|(least, _)| error < least) {
            best = Some((error, form));
        }
    }
    best.map(|(_, form)| form)
}

/// Least squares with the terms of `mask`; `None`: the points do not tell them apart.
fn solve(points: &[Mean], mask: u8) -> Option<Form> {
    let columns: Vec<usize> = (0..3).filter(|bit| mask & (1 << bit) != 0).collect();
    let count = columns.len();
    // Columns differ by many orders of magnitude, so each is scaled by its greatest.
    let rows: Vec<[f64; 3]> = points
        .iter()
        .filter(|point| point.secs > 0.0)
        .map(|point| {
            let n = point.size;
            let pairs = n * point.context + 0.5 * n * (n - 1.0).max(0.0);
            [1.0, n, pairs].map(|value| value / point.secs)
        })
        .collect();
    if rows.len() < count {
        return None;
    }
    let scale: Vec<f64> = columns
        .iter()
        .map(|&column| rows.iter().map(|row| row[column]).fold(0.0, f64::max))
        .collect();
    if scale.contains(&0.0) {
        return None;
    }
    let mut matrix = [[0.0; 4]; 3];
    for row in &rows {
        for (a, &column) in columns.iter().enumerate() {
            let left = row[column] / scale[a];
            for (b, &other) in columns.iter().enumerate() {
                matrix[a][b] += left * row[other] / scale[b];
            }
            matrix[a][3] += left;
        }
    }
    let solution = eliminate(&mut matrix, count)?;
    let mut coefficients = [0.0; 3];
    for (index, &column) in columns.iter().enumerate() {
        coefficients[column] = solution[index] / scale[index];
    }
    let [fixed, per_token, per_token_context] = coefficients;
    Some(Form {
        fixed,
        per_token,
        per_token_context,
    })
}

/// Gaussian elimination with pivots; the right-hand side is the last column.
fn eliminate(matrix: &mut [[f64; 4]; 3], count: usize) -> Option<[f64; 3]> {
    for column in 0..count {
        let pivot = (column..count)
            .max_by(|&a, &b| matrix[a][column].abs().total_cmp(&matrix[b][column].abs()))?;
        // Sums of squares of numbers up to 1: smaller is noise of rounding.
        if matrix[pivot][column].abs() < 1e-9 {
            return None;
        }
        matrix.swap(column, pivot);
        for row in 0..count {
            if row != column {
                let pivot = matrix[column];
                let factor = matrix[row][column] / pivot[column];
                for (value, own) in matrix[row].iter_mut().zip(pivot) {
                    *value -= factor * own;
                }
            }
        }
    }
    let mut solution = [0.0; 3];
    for (row, value) in solution.iter_mut().enumerate().take(count) {
        *value = matrix[row][3] / matrix[row][row];
    }
    Some(solution)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRUTH: Form = Form {
        fixed: 0.004,
        per_token: 0.0104,
        per_token_context: 5.4e-6,
    };

    fn points(form: Form) -> Vec<Mean> {
        let mut points = Vec::new();
        for size in [8.0, 16.0, 49.0, 98.0] {
            for context in [24.0, 200.0, 700.0] {
                points.push(Mean {
                    size,
                    context,
                    secs: form.at(size, context),
                });
            }
        }
        points
    }

    #[test]
    fn an_exact_form_is_found() {
        let fit = fit(&points(TRUTH), Terms::LANGUAGE).expect("it fits");
        assert!((fit.form.fixed / TRUTH.fixed - 1.0).abs() < 1e-6);
        assert!((fit.form.per_token / TRUTH.per_token - 1.0).abs() < 1e-6);
        assert!((fit.form.per_token_context / TRUTH.per_token_context - 1.0).abs() < 1e-6);
        assert!(fit.residuals.iter().all(|error| error.abs() < 1e-9));
        assert_eq!(fit.left_out.len(), 12);
        assert!(fit.left_out.iter().all(|error| error.abs() < 1e-6));
    }

    #[test]
    fn no_coefficient_is_negative_and_no_term_is_made_up() {
        // Falls with the context: the best that a cost may say is that it does not rise.
        let mut falling = points(TRUTH);
        for point in &mut falling {
            point.secs = 0.01 * point.size / (1.0 + point.context / 1e4);
        }
        let fit = fit(&falling, Terms::LANGUAGE).expect("it fits");
        let form = fit.form;
        assert!(form.fixed >= 0.0 && form.per_token > 0.0 && form.per_token_context == 0.0);
        assert!(super::fit(&[], Terms::FIXED).is_none());
    }

    #[test]
    fn one_size_tells_no_slope() {
        let one = [Mean {
            size: 1.0,
            context: 0.0,
            secs: 0.3,
        }; 3];
        let fit = fit(&one, Terms::FIXED).expect("it fits");
        assert!((fit.form.fixed - 0.3).abs() < 1e-12);
        let transfer = super::fit(&one, Terms::NO_CONTEXT).expect("one of the two terms");
        assert!((transfer.form.at(1.0, 0.0) - 0.3).abs() < 1e-9);
    }

    #[test]
    fn a_point_that_does_not_fit_is_seen_when_left_out() {
        let mut points = points(TRUTH);
        points[5].secs *= 2.0;
        let fit = fit(&points, Terms::LANGUAGE).expect("it fits");
        assert!(fit.left_out[5] < -0.4, "{:?}", fit.left_out);
    }
}
