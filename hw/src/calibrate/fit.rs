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
mod tests {
    use super::*;

    const TRUTH: Form = Form {
        fixed: 0.004,
        per_token: 0.0104,
        per_token_context: 5.4e-6,
        per_context: 0.0,
        block: 0.0,
        table: Vec::new(),
    };

    fn points(form: &Form) -> Vec<Mean> {
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
        let fit = fit(&points(&TRUTH), Terms::DECODE).expect("it fits");
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
        let mut falling = points(&TRUTH);
        for point in &mut falling {
            point.secs = 0.01 * point.size / (1.0 + point.context / 1e4);
        }
        let fit = fit(&falling, Terms::DECODE).expect("it fits");
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
        let mut points = points(&TRUTH);
        points[5].secs *= 2.0;
        let fit = fit(&points, Terms::DECODE).expect("it fits");
        assert!(fit.left_out[5] < -0.4, "{:?}", fit.left_out);
    }

    #[test]
    fn a_copy_of_the_context_is_told_from_attention_to_it() {
        let truth = Form {
            per_context: 2e-5,
            ..TRUTH
        };
        let fit = fit(&points(&truth), Terms::FORK).expect("it fits");
        assert!((fit.form.per_context / 2e-5 - 1.0).abs() < 1e-6);
        assert!(fit.form.table.is_empty(), "a line needs no table");
    }

    #[test]
    fn a_twin_tells_depth_from_size() {
        // As a calibration walks: each size at a depth of its own, but one at two, that differ by noise.
        let at = |form: &Form, size: f64, context: f64, noise: f64| Mean {
            size,
            context,
            secs: form.at(size, context) * (1.0 + noise),
        };
        let ingest: Vec<Mean> = [
            (17.0, 73.0, 0.0),
            (49.0, 24.0, 0.03),
            (49.0, 188.0, -0.02),
            (98.0, 90.0, 0.0),
            (147.0, 800.0, 0.0),
        ]
        .map(|(size, context, noise)| at(&TRUTH, size, context, noise))
        .into();
        let query = Form {
            per_context: 2e-5,
            fixed: 0.01,
            ..TRUTH
        };
        let depths = [73.0, 90.0, 188.0, 237.0, 384.0, 800.0];
        let queries: Vec<Mean> = [16.0, 32.0]
            .into_iter()
            .flat_map(|size| depths.map(|context| at(&query, size, context, 0.0)))
            .collect();
        // Alone, the slope is noise, and the largest size is taken to be that slow at any depth.
        let truth = TRUTH.at(147.0, 0.0);
        let alone = fit(&ingest, Terms::INGEST).expect("it fits").form;
        assert!(alone.at(147.0, 0.0) / truth > 1.2, "{alone:?}");
        let fit = fit_beside(&ingest, Terms::INGEST, (&queries, Terms::FORK)).expect("it fits");
        assert!(
            (fit.form.at(147.0, 0.0) / truth - 1.0).abs() < 0.05,
            "{fit:?}"
        );
        // The other way round hardly anything is lost to the noise of the frames.
        let fit = fit_beside(&queries, Terms::FORK, (&ingest, Terms::INGEST)).expect("it fits");
        assert!(fit.residuals.iter().all(|error| error.abs() < 0.02));
    }

    #[test]
    fn where_no_size_has_two_depths_each_is_fitted_alone() {
        let one = |size: f64| Mean {
            size,
            context: 100.0,
            secs: TRUTH.at(size, 100.0),
        };
        let (ingest, queries) = ([8.0, 16.0, 49.0].map(one), [4.0, 12.0].map(one));
        let beside = fit_beside(&ingest, Terms::INGEST, (&queries, Terms::FORK));
        assert_eq!(beside, fit(&ingest, Terms::INGEST));
        assert!(beside.is_some());
    }

    #[test]
    fn steps_become_a_table_as_the_simulator_reads_it() {
        // A time for each chunk of 32 begun.
        let mut steps = points(&TRUTH);
        for point in &mut steps {
            point.secs += 0.05 * (point.size / 32.0).ceil();
        }
        let fit = fit(&steps, Terms::INGEST).expect("it fits");
        assert_eq!(fit.form.table.len(), 4, "{:?}", fit.form);
        assert!(fit.residuals.iter().all(|error| error.abs() < 1e-9));
        let (size, secs) = fit.form.table.iter().copied().unzip();
        let cost = sim::cost::Cost {
            time: sim::cost::Time::Table {
                size,
                secs,
                per_token_context: fit.form.per_token_context,
            },
            secs_per_context: fit.form.per_context,
            context_block: fit.form.block,
            bytes_fixed: 0.0,
            bytes_per_token: 0.0,
            bytes_per_token_context: 0.0,
            bytes_per_context: 0.0,
            bytes_per_s_at_most: f64::INFINITY,
            rescale: None,
            measured_tokens: (0.0, 1.0),
            measured_context: (0.0, 1.0),
        };
        for n in [1.0, 8.0, 12.0, 49.0, 60.0, 98.0, 200.0] {
            let (own, simulated) = (fit.form.at(n, 100.0), cost.at(n, 100.0).secs);
            assert!((own - simulated).abs() < 1e-12, "{n}: {own} {simulated}");
        }
    }

    #[test]
    fn below_a_table_no_time_is_less_than_in_proportion() {
        let form = Form {
            table: vec![(128.0, 0.5), (512.0, 2.9)],
            ..Form::default()
        };
        // The line would lead to −0.15 s.
        assert!((form.at(24.0, 0.0) - 0.5 * 24.0 / 128.0).abs() < 1e-12);
    }

    #[test]
    fn blocks_of_the_context_are_found_and_not_made_up() {
        let truth = Form {
            block: 256.0,
            ..TRUTH
        };
        let mut steps = Vec::new();
        for size in [8.0, 16.0] {
            for context in [90.0, 200.0, 253.0, 269.0, 400.0, 600.0] {
                let secs = truth.at(size, context);
                // Two per cent of noise, the same each time.
                let noise = 1.0 + 0.02 * (size * context).sin();
                steps.push(Mean {
                    size,
                    context,
                    secs: secs * noise,
                });
            }
        }
        // The slope of the truth is small beside the noise; a real one is not.
        let steep = |points: &[Mean]| -> Vec<Mean> {
            let add = |p: &Mean| Mean {
                secs: p.secs + 1.2e-5 * context_read(p.size, p.context, 256.0),
                ..*p
            };
            points.iter().map(add).collect()
        };
        assert_eq!(block(&steep(&steps), Terms::DECODE), 256);
        assert_eq!(block(&points(&TRUTH), Terms::DECODE), 0);
    }
}
