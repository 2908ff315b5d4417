//! The workload in words, and whether anything about it is random.

use std::fmt::Write as _;

use super::lengths::{mean_length, mean_output};
use super::plan::{FramePlan, FrameTimes, LengthPlan, QueryPlan, QueryTimes, StreamPlan};
use crate::time::Instant;

/// Part of a mean by which a cut must change it to be worth a word.
const NOTICEABLE: f64 = 0.05;

/// One sentence for each source of the stream, for people.
pub fn describe(plan: &StreamPlan) -> Vec<String> {
    let frames = plan.frames.as_ref().map(describe_frames);
    let queries = plan.queries.as_ref().map(describe_queries);
    frames.into_iter().chain(queries).collect()
}

/// Whether the seed has any effect: arrivals or lengths are random, or, with `any_noise`, the stage
/// times or predictions of a stream that has arrivals.
pub fn seed_matters(plans: &[StreamPlan], any_noise: bool) -> bool {
    plans.iter().any(|plan| {
        let arrives = plan.frames.is_some() || plan.queries.is_some();
        let frames = plan.frames.as_ref().is_some_and(|frames| {
            matches!(frames.clock, FrameTimes::Periodic { jitter_s, .. } if jitter_s > 0.0)
        });
        let queries = plan.queries.as_ref().is_some_and(|queries| {
            random_times(&queries.arrivals)
                || random_lengths(&queries.prompt)
                || random_lengths(&queries.output)
        });
        frames || queries || any_noise && arrives
    })
}

fn random_times(times: &QueryTimes) -> bool {
    match times {
        QueryTimes::Poisson { .. } | QueryTimes::Mmpp { .. } => true,
        QueryTimes::Gamma { cv, .. } => *cv > 0.0,
        QueryTimes::ClosedLoop {
            think_s,
            exponential,
            ..
        } => *exponential && *think_s > 0.0,
        QueryTimes::Periodic { .. } | QueryTimes::Listed(_) => false,
    }
}

fn random_lengths(lengths: &LengthPlan) -> bool {
    match lengths {
        LengthPlan::Fixed(_) | LengthPlan::Listed(_) => false,
        LengthPlan::Uniform(low, high) => low < high,
        LengthPlan::LogNormal { cv, .. } => *cv > 0.0,
        LengthPlan::Geometric { mean } => *mean > 1.0,
        LengthPlan::Empirical(tokens) => tokens.windows(2).any(|pair| pair[0] != pair[1]),
    }
}

fn describe_frames(plan: &FramePlan) -> String {
    let mut text = String::from("frames: ");
    match &plan.clock {
        FrameTimes::Periodic { period_s, jitter_s } => {
            text += &periodic(*period_s);
            if *jitter_s > 0.0 {
                _ = write!(text, " with a jitter of {} s", short(*jitter_s));
            }
        }
        FrameTimes::Listed(list) => text += &listed(list.len()),
    }
    _ = write!(text, ", {} tokens each", plan.tokens);
    text += &limits(plan.start, plan.count);
    text
}

fn describe_queries(plan: &QueryPlan) -> String {
    let mut text = String::from("queries: ");
    text += &describe_times(&plan.arrivals);
    _ = match &plan.prompt {
        LengthPlan::Fixed(tokens) => write!(text, ", {tokens}-token prompts"),
        lengths => write!(text, ", prompts {}", describe_lengths(lengths)),
    };
    _ = match &plan.output {
        LengthPlan::Fixed(tokens) => write!(text, ", {tokens}-token answers"),
        lengths => write!(text, ", answers {}", describe_lengths(lengths)),
    };
    if longest(&plan.output) > plan.output_max {
        _ = write!(text, " cut at {}", plan.output_max);
        let (drawn, played) = (
            mean_length(&plan.output),
            mean_output(&plan.output, plan.output_max),
        );
        if (drawn - played).abs() > NOTICEABLE * drawn {
            _ = write!(text, " (mean {} then)", short(played));
        }
    }
    if let Some(deadline) = plan.deadline {
        _ = write!(text, ", due within {} s", short(deadline.as_secs_f64()));
    }
    text += &limits(plan.start, plan.count);
    text
}

fn describe_times(times: &QueryTimes) -> String {
    match times {
        QueryTimes::Periodic { period_s } => periodic(*period_s),
        QueryTimes::Poisson { rate_hz } => format!("Poisson, {} /s", short(*rate_hz)),
        QueryTimes::Mmpp {
            rates_hz,
            mean_stay_s,
        } => {
            let states: Vec<_> = rates_hz
                .iter()
                .zip(mean_stay_s)
                .map(|(rate, stay)| format!("{} /s for {} s", short(*rate), short(*stay)))
                .collect();
            format!("modulated Poisson, {} on average", states.join(", then "))
        }
        QueryTimes::Gamma { rate_hz, cv } => {
            format!("gamma gaps, {} /s, cv {}", short(*rate_hz), short(*cv))
        }
        QueryTimes::Listed(list) => listed(list.len()),
        QueryTimes::ClosedLoop {
            users,
            think_s,
            exponential,
        } => {
            let users = if *users == 1 {
                "1 user".to_owned()
            } else {
                format!("{users} users")
            };
            let law = if *exponential {
                "exponential, mean"
            } else {
                "always"
            };
            format!(
                "closed loop, {users}, think time {law} {} s",
                short(*think_s)
            )
        }
    }
}

fn describe_lengths(lengths: &LengthPlan) -> String {
    match lengths {
        LengthPlan::Fixed(tokens) => format!("{tokens} tokens"),
        LengthPlan::Uniform(low, high) => format!("uniform {low} to {high}"),
        LengthPlan::LogNormal { mean, cv } => {
            format!("log-normal mean {} cv {}", short(*mean), short(*cv))
        }
        LengthPlan::Geometric { mean } => format!("geometric mean {}", short(*mean)),
        LengthPlan::Empirical(tokens) => format!("drawn from {} lengths", tokens.len()),
        LengthPlan::Listed(tokens) => format!("as listed ({})", tokens.len()),
    }
}

/// The greatest length that may be drawn, tokens.
fn longest(lengths: &LengthPlan) -> u32 {
    match lengths {
        LengthPlan::Fixed(tokens) => *tokens,
        LengthPlan::Uniform(_, high) => *high,
        LengthPlan::LogNormal { .. } | LengthPlan::Geometric { .. } => u32::MAX,
        LengthPlan::Empirical(tokens) | LengthPlan::Listed(tokens) => {
            tokens.iter().copied().max().unwrap_or(0)
        }
    }
}

fn periodic(period_s: f64) -> String {
    // Rates for video, periods for what is rarer.
    if period_s < 1.0 {
        format!("periodic, {} /s", short(1.0 / period_s))
    } else {
        format!("one every {} s", short(period_s))
    }
}

fn listed(count: usize) -> String {
    if count == 1 {
        "at 1 listed time".to_owned()
    } else {
        format!("at {count} listed times")
    }
}

fn limits(start: Instant, count: u64) -> String {
    let mut text = String::new();
    if start > Instant::ZERO {
        _ = write!(text, ", from {} s on", short(start.as_secs_f64()));
    }
    if count < u64::MAX {
        _ = write!(text, ", at most {count}");
    }
    text
}

/// About four significant digits, with an exponent where plain digits would be many.
fn short(x: f64) -> String {
    let rounded: f64 = format!("{x:.3e}").parse().unwrap_or(x);
    match x.abs() {
        plain if plain == 0.0 || (1e-4..1e4).contains(&plain) => rounded.to_string(),
        // Whole numbers of a moderate size are exact.
        plain if plain < 1e7 && plain.fract() == 0.0 => x.to_string(),
        _ => format!("{rounded:e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Duration;

    fn stream() -> StreamPlan {
        StreamPlan {
            name: "front".into(),
            frames: Some(FramePlan {
                clock: FrameTimes::Periodic {
                    period_s: 1.0 / 30.0,
                    jitter_s: 0.0,
                },
                start: Instant::ZERO,
                count: u64::MAX,
                tokens: 292,
                megapixels: 1.0,
            }),
            queries: Some(QueryPlan {
                arrivals: QueryTimes::Poisson { rate_hz: 0.1 },
                start: Instant::ZERO,
                count: u64::MAX,
                prompt: LengthPlan::Fixed(24),
                output: LengthPlan::LogNormal {
                    mean: 120.0,
                    cv: 0.5,
                },
                output_max: 256,
                deadline: None,
            }),
        }
    }

    #[test]
    fn each_source_has_its_sentence() {
        let mut plan = stream();
        assert_eq!(
            describe(&plan),
            [
                "frames: periodic, 30 /s, 292 tokens each",
                "queries: Poisson, 0.1 /s, 24-token prompts, answers log-normal mean 120 cv 0.5 \
                 cut at 256",
            ]
        );
        plan.frames = None;
        let queries = plan.queries.as_mut().expect("the stream asks");
        queries.arrivals = QueryTimes::ClosedLoop {
            users: 4,
            think_s: 2.5,
            exponential: true,
        };
        queries.start = Instant::from_secs_f64(1.5);
        queries.count = 12;
        queries.prompt = LengthPlan::Uniform(8, 32);
        queries.output = LengthPlan::Fixed(64);
        queries.deadline = Some(Duration::from_secs_f64(2.0));
        assert_eq!(
            describe(&plan),
            [
                "queries: closed loop, 4 users, think time exponential, mean 2.5 s, prompts uniform 8 \
              to 32, 64-token answers, due within 2 s, from 1.5 s on, at most 12"
            ]
        );
    }

    #[test]
    fn a_cut_that_changes_the_mean_says_so() {
        let mut plan = stream();
        plan.frames = None;
        let queries = plan.queries.as_mut().expect("the stream asks");
        queries.output = LengthPlan::Uniform(1, 300);
        queries.output_max = 100;
        assert_eq!(
            describe(&plan),
            [
                "queries: Poisson, 0.1 /s, 24-token prompts, answers uniform 1 to 300 cut at 100 \
                 (mean 83.5 then)"
            ]
        );
        let queries = plan.queries.as_mut().expect("the stream asks");
        queries.output_max = 290;
        assert!(!describe(&plan)[0].contains("then"));
    }

    #[test]
    fn numbers_are_short() {
        for (number, text) in [
            (0.0, "0"),
            (1.0 / 3.0, "0.3333"),
            (29.97, "29.97"),
            (86_399.0, "86399"),
            (12_345.6, "1.235e4"),
            (1e300, "1e300"),
            (1.25e-9, "1.25e-9"),
        ] {
            assert_eq!(short(number), text);
        }
    }

    #[test]
    fn a_seed_matters_where_something_is_drawn() {
        let mut plan = stream();
        assert!(seed_matters(std::slice::from_ref(&plan), false));
        let queries = plan.queries.as_mut().expect("the stream asks");
        queries.arrivals = QueryTimes::Periodic { period_s: 10.0 };
        queries.output = LengthPlan::Empirical(vec![5, 5]);
        assert!(!seed_matters(std::slice::from_ref(&plan), false));
        assert!(seed_matters(std::slice::from_ref(&plan), true));
        plan.frames.as_mut().expect("the stream films").clock = FrameTimes::Periodic {
            period_s: 1.0,
            jitter_s: 0.1,
        };
        assert!(seed_matters(std::slice::from_ref(&plan), false));
        assert!(!seed_matters(&[], true));
    }
}
