//! Examples with known answers.

use super::*;

#[test]
fn periodic_times_do_not_drift() {
    let plan = StreamPlan {
        name: "s".into(),
        frames: Some(frames(FrameTimes::Periodic {
            period_s: 1.0 / 30.0,
            jitter_s: 0.0,
        })),
        queries: None,
    };
    let played = whole_run(&[plan], 0, 0, at(3600.0));
    assert_eq!(played.len(), 30 * 3600);
    assert_eq!(played[30 * 3599].0, at(3599.0));
    assert_eq!(played[1].0, Instant(33_333_333));
}

#[test]
fn jitter_keeps_the_mean_rate_and_spreads_the_gaps() {
    let plan = StreamPlan {
        name: "s".into(),
        frames: Some(frames(FrameTimes::Periodic {
            period_s: 1.0,
            jitter_s: 0.1,
        })),
        queries: None,
    };
    let played = whole_run(&[plan], 5, 0, at(20_000.0));
    let offsets: Vec<f64> = (0..)
        .zip(&played)
        .skip(1)
        .map(|(k, (now, _))| now.as_secs_f64() - f64::from(k))
        .collect();
    let (mean, error) = interval(&offsets);
    assert!(mean.abs() < error);
    let square = offsets.iter().map(|x| x * x).sum::<f64>() / offsets.len() as f64;
    assert!((square.sqrt() / 0.1 - 1.0).abs() < 0.02);
}

#[test]
fn lists_go_row_by_row_from_the_start() {
    let plan = QueryPlan {
        start: at(2.0),
        prompt: LengthPlan::Listed(vec![1, 2, 3, 4]),
        output: LengthPlan::Listed(vec![10, 20, 0, 400, 50]),
        ..queries(QueryTimes::Listed(
            [1.0, 2.0, 2.0, 5.0, 6.0].map(at).to_vec(),
        ))
    };
    let rows: Vec<_> = whole_run(&[asking("s", plan)], 0, 0, Instant::NEVER)
        .into_iter()
        .map(|(now, arrival)| match arrival {
            Arrival::Query {
                index,
                prompt,
                output,
                ..
            } => (now, index, prompt, output),
            Arrival::Frame { .. } => unreachable!("no frames"),
        })
        .collect();
    // The first row lies before the start, the last has no prompt; answers are cut to 1, …, 256.
    let expected = [(2.0, 0, 2, 20), (2.0, 1, 3, 1), (5.0, 2, 4, 256)];
    assert_eq!(
        rows,
        expected.map(|(t, index, prompt, output)| (at(t), index, prompt, output))
    );
}

#[test]
fn users_ask_first_at_the_start_and_again_after_thinking() {
    let plan = QueryPlan {
        start: at(1.0),
        count: 5,
        ..queries(QueryTimes::ClosedLoop {
            users: 2,
            think_s: 2.0,
            exponential: false,
        })
    };
    let plans = [asking("s", plan)];
    let new = |horizon| Workload::new(&plans, 0, 0, horizon, LengthPrediction::Exact);
    let times = |horizon| -> Vec<f64> {
        let played = play(&mut new(horizon), constant);
        played.iter().map(|(now, _)| now.as_secs_f64()).collect()
    };
    assert_eq!(times(Instant::NEVER), [1.0, 1.0, 3.25, 3.25, 5.5]);
    assert_eq!(times(at(3.25)), [1.0, 1.0]);
    // Nobody asks while waiting for an answer, and answers to unknown streams are nobody's.
    let mut workload = new(Instant::NEVER);
    assert!(workload.pop().is_some() && workload.pop().is_some());
    assert_eq!(workload.peek(), None);
    workload.answered(StreamId(7), at(2.0));
    assert_eq!(workload.pop(), None);
}

#[test]
fn predictions_are_the_mean_the_truth_or_near_it() {
    let plan = QueryPlan {
        output: LengthPlan::Uniform(1, 200),
        output_max: 200,
        ..queries(QueryTimes::Periodic { period_s: 1.0 })
    };
    let plans = [asking("s", plan)];
    let pairs = |prediction| -> Vec<(u32, u32)> {
        let mut workload = Workload::new(&plans, 9, 0, at(20_000.0), prediction);
        play(&mut workload, constant)
            .iter()
            .map(|(_, arrival)| match *arrival {
                Arrival::Query {
                    output, predicted, ..
                } => (output, predicted),
                Arrival::Frame { .. } => unreachable!("no frames"),
            })
            .collect()
    };
    assert!(
        pairs(LengthPrediction::Mean)
            .iter()
            .all(|&(_, predicted)| predicted == 101)
    );
    assert!(
        pairs(LengthPrediction::Exact)
            .iter()
            .all(|(output, predicted)| output == predicted)
    );
    let ratios: Vec<f64> = pairs(LengthPrediction::Noisy { cv: 0.1 })
        .iter()
        // Long enough for rounding not to matter, short enough not to be cut.
        .filter(|(output, _)| (50..120).contains(output))
        .map(|&(output, predicted)| f64::from(predicted) / f64::from(output))
        .collect();
    let (mean, error) = interval(&ratios);
    assert!((mean - 1.0).abs() < error);
}

/// A change of these changes every published result: it is a breaking change.
#[test]
fn first_arrivals_are_pinned() {
    let plan = StreamPlan {
        name: "front".into(),
        frames: Some(frames(FrameTimes::Periodic {
            period_s: 2.0,
            jitter_s: 0.1,
        })),
        queries: Some(QueryPlan {
            prompt: LengthPlan::Uniform(8, 32),
            output: LengthPlan::LogNormal {
                mean: 120.0,
                cv: 0.5,
            },
            ..queries(QueryTimes::Gamma {
                rate_hz: 0.5,
                cv: 2.0,
            })
        }),
    };
    let prediction = LengthPrediction::Noisy { cv: 0.2 };
    let mut workload = Workload::new(&[plan], 42, 1, Instant::NEVER, prediction);
    let lines: Vec<String> = (0..6)
        .filter_map(|_| workload.pop())
        .map(|(now, arrival)| match arrival {
            Arrival::Frame { index, noise, .. } => format!("{} frame {index} {noise:x}", now.0),
            Arrival::Query {
                index,
                prompt,
                output,
                predicted,
                noise,
                ..
            } => {
                format!(
                    "{} query {index} {prompt} {output} {predicted} {noise:x}",
                    now.0
                )
            }
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    0 frame 0 cc6ece4319ced35d
    1742538063 query 0 20 60 48 652b2de977a61821
    2000089105 frame 1 3f3678446223d90b
    2882095090 query 1 27 42 37 7a1da86aac40781d
    4036209556 frame 2 d99089ef388af1ec
    6082792990 query 2 8 121 97 bb2bc75e9cf54ca2
    ");
}
