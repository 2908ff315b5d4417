//! Samples to cost forms: non-negative least squares of relative errors, with residuals and the error
//! of each point when it is left out.

use sim::cost::{context_read, interpolate};

use super::squares::{column, is, sizes, solve};
use super::twin::slope;

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

/// A cost form in seconds, `base(n) + per_token_context·read(n, ctx) + per_context·ctx` ([`context_read`]),
/// where the base is `fixed + per_token·n`, or interpolated in a table of sizes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Form {
    /// s.
    pub fixed: f64,
    /// s a token (a byte, of transfers).
    pub per_token: f64,
    /// s a token and token of context.
    pub per_token_context: f64,
    /// s a token of context, whatever the size.
    pub per_context: f64,
    /// Tokens of a block in which contexts are read; 0: token by token.
    pub block: f64,
    /// Sizes, rising, and s of each without a context before it, instead of the first two; empty: none.
    pub table: Vec<(f64, f64)>,
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
#[expect(
    clippy::struct_excessive_bools,
    reason = "each term is there or not, whatever the others are"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// A time a token.
    pub per_token: bool,
    /// A time a token and token of context.
    pub per_token_context: bool,
    /// A time a token of context.
    pub per_context: bool,
    /// A table of sizes, where it fits better than a fixed time and one a token.
    pub table: bool,
    /// Tokens of a block in which contexts are read; 0: token by token.
    pub block: u32,
}

impl Terms {
    /// Of a decode.
    pub const DECODE: Self = Self {
        per_token: true,
        per_token_context: true,
        per_context: false,
        table: false,
        block: 0,
    };
    /// Of a prefill that goes on in the context that it reads. It is computed in chunks, so that its time
    /// is not linear in the size.
    pub const INGEST: Self = Self {
        table: true,
        ..Self::DECODE
    };
    /// Of a prefill that begins with a copy of the context.
    pub const FORK: Self = Self {
        per_context: true,
        ..Self::INGEST
    };
    /// Of a copy or a projection.
    pub const NO_CONTEXT: Self = Self {
        per_token_context: false,
        ..Self::DECODE
    };
    /// Of a stage whose size is always the same.
    pub const FIXED: Self = Self {
        per_token: false,
        ..Self::NO_CONTEXT
    };

    fn count(self) -> usize {
        let optional = [self.per_token, self.per_token_context, self.per_context];
        1 + optional.into_iter().filter(|&term| term).count()
    }
}

/// By how much the worst error of a linear form must exceed a table's for the table to be used: less is
/// noise, and the form says more with less.
const WORTH_A_TABLE: f64 = 0.01;

impl Form {
    /// Multiplies all times.
    pub fn scale(&mut self, factor: f64) {
        let terms = [
            &mut self.fixed,
            &mut self.per_token,
            &mut self.per_token_context,
            &mut self.per_context,
        ];
        for value in terms
            .into_iter()
            .chain(self.table.iter_mut().map(|(_, secs)| secs))
        {
            *value *= factor;
        }
    }

    /// Numbers that were fitted.
    pub fn coefficients(&self) -> usize {
        let slopes = [
            self.fixed,
            self.per_token,
            self.per_token_context,
            self.per_context,
        ];
        slopes.iter().filter(|&&value| value > 0.0).count() + self.table.len()
    }

    /// Time of size `n` after `ctx` tokens, s.
    pub fn at(&self, n: f64, ctx: f64) -> f64 {
        let base = if self.table.is_empty() {
            self.fixed + self.per_token * n
        } else {
            // As the simulator reads it.
            let (sizes, secs): (Vec<f64>, Vec<f64>) = self.table.iter().copied().unzip();
            interpolate(&sizes, &secs, n)
        };
        base + self.per_token_context * context_read(n, ctx, self.block) + self.per_context * ctx
    }
}

/// The block in which contexts are read that best explains a stage, 0 for none: one that makes squares of
/// errors at least four times as small, since a smaller gain is noise.
pub fn block(points: &[Mean], terms: Terms) -> u32 {
    let square = |block: &u32| {
        let terms = Terms {
            block: *block,
            ..terms
        };
        let usable: Vec<Mean> = points.iter().copied().filter(|p| p.secs > 0.0).collect();
        let form = best(&usable, terms, None)?;
        Some(usable.iter().map(|p| error(&form, p).powi(2)).sum::<f64>())
    };
    let Some(none) = square(&0) else { return 0 };
    let blocks = [32, 64, 128, 256, 512, 1024];
    let squares = blocks
        .iter()
        .filter_map(|block| Some((square(block)?, *block)));
    let least = squares.min_by(|a, b| a.0.total_cmp(&b.0));
    least.map_or(
        0,
        |(square, block)| if 4.0 * square < none { block } else { 0 },
    )
}

/// The form that fits best, or `None` where no point has a time.
pub fn fit(points: &[Mean], terms: Terms) -> Option<Fit> {
    fit_by(points, terms, |_| None)
}

/// The same of a prefill whose engine does another kind too: both attend to their contexts in the same way, so
/// that `twin` has a say in what a token and token of context take.
pub fn fit_beside(points: &[Mean], terms: Terms, twin: (&[Mean], Terms)) -> Option<Fit> {
    fit_by(points, terms, |points| slope([(points, terms), twin]))
}

fn fit_by(points: &[Mean], terms: Terms, slope: impl Fn(&[Mean]) -> Option<f64>) -> Option<Fit> {
    let usable: Vec<Mean> = points.iter().copied().filter(|p| p.secs > 0.0).collect();
    let best = |points: &[Mean]| best(points, terms, slope(points));
    let form = best(&usable)?;
    let residuals: Vec<f64> = usable.iter().map(|point| error(&form, point)).collect();
    // A point that alone says what a size costs cannot be foretold by a table that lacks the size at an end.
    let left_out = (0..usable.len())
        .filter(|_| usable.len() > terms.count())
        .filter_map(|index| {
            let mut others = usable.clone();
            let out = others.remove(index);
            Some(error(&best(&others)?, &out))
        });
    Some(Fit {
        left_out: left_out.collect(),
        points: usable.len(),
        sizes: usable.iter().map(|point| point.size).collect(),
        contexts: usable.iter().map(|point| point.context).collect(),
        residuals,
        form,
    })
}

fn error(form: &Form, point: &Mean) -> f64 {
    (form.at(point.size, point.context) - point.secs) / point.secs
}

fn worst(form: &Form, points: &[Mean]) -> f64 {
    let errors = points.iter().map(|point| error(form, point).abs());
    errors.fold(0.0, f64::max)
}

/// `slope` is what a token and token of context take, where that is known.
fn best(points: &[Mean], terms: Terms, slope: Option<f64>) -> Option<Form> {
    let linear = linear(points, terms, slope);
    let table = if terms.table {
        table(points, terms, slope)
    } else {
        None
    };
    match (linear, table) {
        (Some(linear), Some(table)) => {
            let better = worst(&linear, points) - worst(&table, points) > WORTH_A_TABLE;
            Some(if better { table } else { linear })
        }
        (linear, table) => linear.or(table),
    }
}

/// A term's value at a size, a context and a block.
type Term = fn(f64, f64, f64) -> f64;
const CONTEXT: [Term; 2] = [context_read, |_, ctx, _| ctx];

/// Least squares of relative errors over all choices of terms whose coefficients are not negative. There are
/// few terms, so all choices are tried, which is exact.
fn linear(points: &[Mean], terms: Terms, slope: Option<f64>) -> Option<Form> {
    let all: [(bool, Term); 4] = [
        (true, |_, _, _| 1.0),
        (terms.per_token, |n, _, _| n),
        (terms.per_token_context && slope.is_none(), CONTEXT[0]),
        (terms.per_context, CONTEXT[1]),
    ];
    let block = f64::from(terms.block);
    let rest = rest(points, slope, block);
    let mut best: Option<(f64, Form)> = None;
    for mask in 1..16_u8 {
        let taken = |index: &usize| mask >> index & 1 != 0;
        let chosen: Vec<usize> = (0..4).filter(taken).collect();
        if chosen.iter().any(|&index| !all[index].0) {
            continue;
        }
        let columns: Vec<Vec<f64>> = chosen
            .iter()
            .map(|&index| {
                let value = |p: &Mean| all[index].1(p.size, p.context, block);
                points.iter().map(value).collect()
            })
            .collect();
        let Some(solution) = solve(points, &columns, &rest) else {
            continue;
        };
        let mut coefficients = [0.0; 4];
        for (&index, value) in chosen.iter().zip(solution) {
            coefficients[index] = value;
        }
        let [fixed, per_token, per_token_context, per_context] = coefficients;
        let form = Form {
            fixed,
            per_token,
            per_token_context: slope.unwrap_or(per_token_context),
            per_context,
            block,
            table: Vec::new(),
        };
        keep(&mut best, points, form, &coefficients);
    }
    best.map(|(_, form)| form)
}

/// The same with a time of its own for each size.
fn table(points: &[Mean], terms: Terms, slope: Option<f64>) -> Option<Form> {
    let sizes = sizes(points);
    // Two are a line.
    if sizes.len() < 3 {
        return None;
    }
    let block = f64::from(terms.block);
    let optional = [
        terms.per_token_context && slope.is_none(),
        terms.per_context,
    ];
    let rest = rest(points, slope, block);
    let mut best: Option<(f64, Form)> = None;
    for mask in 0..4_u8 {
        let chosen: Vec<usize> = (0..2).filter(|index| mask >> index & 1 != 0).collect();
        if chosen.iter().any(|&index| !optional[index]) {
            continue;
        }
        let own = sizes
            .iter()
            .map(|&size| column(points, |p| is(p.size == size)));
        let context = chosen.iter().map(|&index| {
            let value = |p: &Mean| CONTEXT[index](p.size, p.context, block);
            points.iter().map(value).collect()
        });
        let columns: Vec<Vec<f64>> = own.chain(context).collect();
        let Some(solution) = solve(points, &columns, &rest) else {
            continue;
        };
        let (base, slopes) = solution.split_at(sizes.len());
        let mut context = [0.0; 2];
        for (&index, &value) in chosen.iter().zip(slopes) {
            context[index] = value;
        }
        let form = Form {
            per_token_context: slope.unwrap_or(context[0]),
            per_context: context[1],
            block,
            table: sizes.iter().copied().zip(base.iter().copied()).collect(),
            ..Form::default()
        };
        keep(&mut best, points, form, &solution);
    }
    best.map(|(_, form)| form)
}

/// What is left of each point's time for the terms that are sought.
fn rest(points: &[Mean], slope: Option<f64>, block: f64) -> Vec<f64> {
    let slope = slope.unwrap_or(0.0);
    column(points, |p| {
        p.secs - slope * context_read(p.size, p.context, block)
    })
}

/// Keeps a form without negative coefficients that fits better than what there is.
fn keep(best: &mut Option<(f64, Form)>, points: &[Mean], form: Form, coefficients: &[f64]) {
    if coefficients.iter().any(|&value| value < 0.0) {
        return;
    }
    let square: f64 = points.iter().map(|point| error(&form, point).powi(2)).sum();
    if best.as_ref().is_none_or(|(least, _)| square < *least) {
        *best = Some((square, form));
    }
}

#[cfg(test)]
mod tests;
