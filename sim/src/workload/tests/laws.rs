//! What holds of every workload.

use proptest::prelude::*;

use super::*;

fn any_times() -> impl Strategy<Value = Vec<Instant>> {
    prop::collection::vec(0..12_u64, 0..8).prop_map(|mut secs| {
        secs.sort_unstable();
        secs.iter().map(|&s| Instant(s * 1_000_000_000)).collect()
    })
}

fn any_lengths() -> impl Strategy<Value = LengthPlan> {
    prop_oneof![
        (0..99_u32).prop_map(LengthPlan::Fixed),
        (0..99_u32, 0..99_u32).prop_map(|(a, b)| LengthPlan::Uniform(a, a + b)),
        (1.0..99.0, 0.0..2.0).prop_map(|(mean, cv)| LengthPlan::LogNormal { mean, cv }),
        (1.0..99.0).prop_map(|mean| LengthPlan::Geometric { mean }),
        prop::collection::vec(0..99_u32, 1..5).prop_map(LengthPlan::Empirical),
        prop::collection::vec(0..99_u32, 0..20).prop_map(LengthPlan::Listed),
    ]
}

fn any_arrivals() -> impl Strategy<Value = QueryTimes> {
    prop_oneof![
        (0.1..3.0).prop_map(|period_s| QueryTimes::Periodic { period_s }),
        (0.1..3.0).prop_map(|rate_hz| QueryTimes::Poisson { rate_hz }),
        (0.1..3.0, 0.0..3.0).prop_map(|(rate_hz, cv)| QueryTimes::Gamma { rate_hz, cv }),
        (0.1..9.0, 0.1..9.0).prop_map(|(a, b)| QueryTimes::Mmpp {
            rates_hz: vec![a, 0.0],
            mean_stay_s: vec![b, a]
        }),
        any_times().prop_map(QueryTimes::Listed),
        (0..5_u32, 0.01..3.0, any::<bool>()).prop_map(|(users, think_s, exponential)| {
            QueryTimes::ClosedLoop {
                users,
                think_s,
                exponential,
            }
        }),
    ]
}

fn any_frames() -> impl Strategy<Value = FramePlan> {
    let clock = prop_oneof![
        // Whole seconds, so that streams collide.
        (1..4_u32, prop_oneof![Just(0.0), 0.0..3.0]).prop_map(|(period, jitter_s)| {
            FrameTimes::Periodic {
                period_s: f64::from(period),
                jitter_s,
            }
        }),
        any_times().prop_map(FrameTimes::Listed),
    ];
    let count = prop_oneof![0..9_u64, Just(u64::MAX)];
    (clock, 0..3_u64, count).prop_map(|(clock, start, count)| FramePlan {
        start: Instant(start * 1_000_000_000),
        count,
        ..frames(clock)
    })
}

fn any_queries() -> impl Strategy<Value = QueryPlan> {
    let count = prop_oneof![0..9_u64, Just(u64::MAX)];
    let lengths = (any_lengths(), any_lengths(), 1..99_u32);
    (any_arrivals(), 0..3_u64, count, lengths).prop_map(
        |(arrivals, start, count, (prompt, output, output_max))| QueryPlan {
            start: Instant(start * 1_000_000_000),
            count,
            prompt,
            output,
            output_max,
            deadline: Some(Duration(7)),
            ..queries(arrivals)
        },
    )
}

/// Up to eleven streams: fixed slots as well as the heap.
fn any_plans() -> impl Strategy<Value = Vec<StreamPlan>> {
    let stream = (
        prop::option::of(any_frames()),
        prop::option::of(any_queries()),
    );
    prop::collection::vec(stream, 1..12).prop_map(|streams| {
        let named = |(number, (frames, queries))| StreamPlan {
            name: format!("s{number}"),
            frames,
            queries,
        };
        (0..).zip(streams).map(named).collect()
    })
}

proptest! {
    #[test]
    fn arrivals_are_in_order_counted_and_before_the_horizon(
        plans in any_plans(), seed: u64, secs in 0..20_u64,
    ) {
        let horizon = Instant(secs * 1_000_000_000);
        let played = whole_run(&plans, seed, 0, horizon);
        let order = |(now, arrival): &(Instant, Arrival)| {
            (*now, matches!(arrival, Arrival::Query { .. }), stream_of(arrival))
        };
        prop_assert!(played.is_sorted_by_key(order));
        let mut frames_seen = vec![0; plans.len()];
        let mut queries_seen = vec![0; plans.len()];
        for (now, arrival) in &played {
            prop_assert!(*now < horizon);
            let number = stream_of(arrival).0 as usize;
            match *arrival {
                Arrival::Frame { index, tokens, .. } => {
                    let plan = plans[number].frames.as_ref().expect("planned");
                    prop_assert_eq!(u64::from(index), frames_seen[number]);
                    prop_assert!(*now >= plan.start && u64::from(index) < plan.count);
                    prop_assert_eq!(tokens, plan.tokens);
                    frames_seen[number] += 1;
                }
                Arrival::Query { index, output, predicted, max_output, deadline, .. } => {
                    let plan = plans[number].queries.as_ref().expect("planned");
                    prop_assert_eq!(index, queries_seen[number]);
                    prop_assert!(*now >= plan.start && index < plan.count);
                    prop_assert!((1..=max_output).contains(&output));
                    prop_assert!((1..=max_output).contains(&predicted));
                    prop_assert_eq!(max_output, plan.output_max);
                    prop_assert_eq!(deadline, Some(*now + Duration(7)));
                    queries_seen[number] += 1;
                }
            }
        }
    }

    #[test]
    fn a_reset_workload_is_a_new_one(plans in any_plans(), seed: u64, run in 0..9_u32) {
        let horizon = at(12.0);
        let mut workload = Workload::new(&plans, seed, run + 1, horizon, LengthPrediction::Mean);
        for _ in 0..run {
            workload.pop();
        }
        workload.reset(run);
        let again = play(&mut workload, constant);
        prop_assert_eq!(again, whole_run(&plans, seed, run, horizon));
    }

    #[test]
    fn a_stream_does_not_see_the_others(
        plans in any_plans(), seed: u64, keep in any::<prop::sample::Index>(), shift in 0..12_usize,
    ) {
        let horizon = at(12.0);
        let together = whole_run(&plans, seed, 0, horizon);
        let kept = keep.index(plans.len());
        let alone = whole_run(&plans[kept..=kept], seed, 0, horizon);
        let mine = only(&together, StreamId(kept as u16));
        prop_assert_eq!(&mine, &alone);

        let mut permuted = plans.clone();
        permuted.rotate_left(shift % plans.len());
        let place = permuted.iter().position(|plan| plan.name == plans[kept].name).expect("kept");
        let played = whole_run(&permuted, seed, 0, horizon);
        prop_assert_eq!(&mine, &only(&played, StreamId(place as u16)));
    }

    /// Common random numbers: however slow and in whatever order other streams are answered.
    #[test]
    fn answers_to_others_change_nothing(
        plans in any_plans(), seed: u64, keep in any::<prop::sample::Index>(), slow in 0.0..9.0_f64,
    ) {
        let kept = StreamId(keep.index(plans.len()) as u16);
        let horizon = at(12.0);
        let usual = whole_run(&plans, seed, 0, horizon);
        let mut workload = Workload::new(&plans, seed, 0, horizon, LengthPrediction::Mean);
        let other = play(&mut workload, |stream, index| {
            if stream == kept {
                constant(stream, index)
            } else {
                Duration::from_secs_f64(slow / (1.0 + index as f64))
            }
        });
        prop_assert_eq!(only(&usual, kept), only(&other, kept));
    }

    /// A closed loop's n-th query is the same however long answers take.
    #[test]
    fn answering_slowly_changes_times_only(
        mut plan in any_queries(), users in 1..5_u32, seed: u64, slow in 0.3..3.0_f64,
    ) {
        plan.arrivals = QueryTimes::ClosedLoop { users, think_s: 0.5, exponential: true };
        let plans = [asking("s", plan)];
        let new = || Workload::new(&plans, seed, 0, at(9.0), LengthPrediction::Noisy { cv: 0.3 });
        let fast = play(&mut new(), constant);
        let slow = play(&mut new(), |_, _| Duration::from_secs_f64(slow));
        let without_deadline = |&(_, mut arrival): &(Instant, Arrival)| {
            if let Arrival::Query { deadline, .. } = &mut arrival {
                *deadline = None;
            }
            arrival
        };
        for (a, b) in fast.iter().zip(&slow) {
            prop_assert_eq!(without_deadline(a), without_deadline(b));
        }
    }

    /// Each purpose has its own generator: other lengths leave times and noise alone, other
    /// predictions leave everything else alone.
    #[test]
    fn purposes_do_not_disturb_each_other(
        plan in any_queries(), prompt in any_lengths(), seed: u64, cv in 0.0..1.0_f64,
    ) {
        prop_assume!(!matches!(prompt, LengthPlan::Listed(_)));
        prop_assume!(!matches!(plan.prompt, LengthPlan::Listed(_)));
        let other = QueryPlan { prompt, ..plan.clone() };
        let play = |plan: QueryPlan, prediction| {
            play(&mut Workload::new(&[asking("s", plan)], seed, 0, at(9.0), prediction), constant)
        };
        let reduced = |played: Played| -> Vec<_> {
            let reduce = |(now, arrival)| match arrival {
                Arrival::Query { output, noise, .. } => (now, output, noise),
                Arrival::Frame { .. } => unreachable!("no frames"),
            };
            played.into_iter().map(reduce).collect()
        };
        let base = reduced(play(plan.clone(), LengthPrediction::Mean));
        prop_assert_eq!(&base, &reduced(play(other, LengthPrediction::Mean)));
        prop_assert_eq!(&base, &reduced(play(plan, LengthPrediction::Noisy { cv })));
    }
}
