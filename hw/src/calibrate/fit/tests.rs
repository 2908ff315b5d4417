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
