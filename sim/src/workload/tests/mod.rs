//! The workload as a whole: its laws, its statistics, and examples.

mod examples;
mod laws;
mod moments;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::*;
use crate::spec::scenario::LengthPrediction;
use crate::time::{Duration, Instant};
use crate::world::StreamId;

type Played = Vec<(Instant, Arrival)>;

/// Plays to the end, each query answered some time after it arrived.
fn play(workload: &mut Workload, answer_after: impl Fn(StreamId, u64) -> Duration) -> Played {
    let mut played = Played::new();
    let mut answers = BinaryHeap::new();
    loop {
        let next = workload.peek().unwrap_or(Instant::NEVER);
        if let Some(&Reverse((done, stream))) = answers.peek()
            && done <= next
        {
            answers.pop();
            workload.answered(stream, done);
            continue;
        }
        let Some((now, arrival)) = workload.pop() else {
            return played;
        };
        assert_eq!(now, next);
        if let Arrival::Query { stream, index, .. } = arrival {
            answers.push(Reverse((now + answer_after(stream, index), stream)));
        }
        played.push((now, arrival));
    }
}

fn at(secs: f64) -> Instant {
    Instant::from_secs_f64(secs)
}

fn constant(_: StreamId, _: u64) -> Duration {
    Duration::from_secs_f64(0.25)
}

fn whole_run(plans: &[StreamPlan], seed: u64, run: u32, horizon: Instant) -> Played {
    let mut workload = Workload::new(plans, seed, run, horizon, LengthPrediction::Mean);
    play(&mut workload, constant)
}

fn stream_of(arrival: &Arrival) -> StreamId {
    match *arrival {
        Arrival::Frame { stream, .. } | Arrival::Query { stream, .. } => stream,
    }
}

/// The arrivals of one stream, its id taken out.
fn only(played: &Played, wanted: StreamId) -> Played {
    let with_id_0 = |mut arrival: Arrival| {
        let (Arrival::Frame { stream, .. } | Arrival::Query { stream, .. }) = &mut arrival;
        *stream = StreamId(0);
        arrival
    };
    played
        .iter()
        .filter(|(_, arrival)| stream_of(arrival) == wanted)
        .map(|&(now, arrival)| (now, with_id_0(arrival)))
        .collect()
}

fn queries(arrivals: QueryTimes) -> QueryPlan {
    QueryPlan {
        arrivals,
        start: Instant::ZERO,
        count: u64::MAX,
        prompt: LengthPlan::Fixed(24),
        output: LengthPlan::Fixed(64),
        output_max: 256,
        deadline: None,
    }
}

fn frames(clock: FrameTimes) -> FramePlan {
    FramePlan {
        clock,
        start: Instant::ZERO,
        count: u64::MAX,
        tokens: 292,
        megapixels: 1.0,
    }
}

fn asking(name: &str, queries: QueryPlan) -> StreamPlan {
    StreamPlan {
        name: name.into(),
        frames: None,
        queries: Some(queries),
    }
}

/// Mean and half-width of the 99 % interval of independent values (30 or more).
fn interval(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (n - 1.0);
    // Student's quantile for 99 degrees of freedom.
    (mean, 2.626 * (variance / n).sqrt())
}
