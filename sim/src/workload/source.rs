//! The workload as it is played: one arrival after another.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::agenda::{Agenda, NEVER, key, source_of, time_of};
use super::clock::{FrameClock, QueryClock};
use super::lengths::{Lengths, log_normal, mean_output, whole};
use super::plan::{FramePlan, QueryPlan, StreamPlan};
use crate::rng::{self, Generator, Purpose, SplitMix, name_key};
use crate::spec::scenario::LengthPrediction;
use crate::time::{Duration, Instant};
use crate::world::StreamId;

/// A frame or a query, with all that is random about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A frame.
    Frame {
        /// Its stream.
        stream: StreamId,
        /// Its number in the stream, from 0.
        index: u32,
        /// Visual tokens.
        tokens: u32,
        /// Noise seed, for [`rng::factor`].
        noise: u64,
    },
    /// A query.
    Query {
        /// Its stream.
        stream: StreamId,
        /// Its number in the stream, from 0.
        index: u64,
        /// Prompt tokens.
        prompt: u32,
        /// True answer length, tokens, the first included. Not for policies.
        output: u32,
        /// The answer length that a policy expects, tokens.
        predicted: u32,
        /// Longest answer, tokens.
        max_output: u32,
        /// When the answer should be complete.
        deadline: Option<Instant>,
        /// Noise seed, for [`rng::factor`].
        noise: u64,
    },
}

/// The arrivals of all streams in order of (time, frames before queries, stream).
///
/// What arrives, and how long it is, depends on the plans, the seed and the run alone: two policies
/// meet the same requests. The one exception is a closed loop, whose users wait for their answers; but
/// the n-th query of its stream, and the think time after the n-th answer, are the same under all
/// policies.
///
/// No arrival has a time of `horizon` or later. Without a horizon, sources end with their counts or
/// lists.
#[derive(Clone, Debug)]
pub struct Workload {
    seed: u64,
    horizon: u64,
    /// Sources of frames, by stream. A source is numbered by its place here, or from
    /// `frames.len()` on by that in `queries`: the order in which equal times are played.
    frames: Vec<FrameSource>,
    /// Sources of queries, by stream.
    queries: Vec<QuerySource>,
    /// Next arrival of each source whose times do not wait for answers.
    open: Agenda,
    /// Next query of each user of a closed loop who is not waiting for an answer.
    users: BinaryHeap<Reverse<u128>>,
    /// Streams of users who do not think and were refused, one entry each: they ask again when an answer is complete.
    refused: Vec<StreamId>,
    /// Source number of the closed loop of each stream that has one.
    closed: Vec<Option<u32>>,
    /// Key of the next arrival.
    head: u128,
}

/// Frames of one stream.
#[derive(Clone, Debug)]
struct FrameSource {
    stream: StreamId,
    tokens: u32,
    /// Frames in all.
    limit: u64,
    clock: FrameClock,
    noise_name: u64,
    noise: SplitMix,
    /// Number of the pending frame.
    index: u64,
}

/// Queries of one stream.
#[derive(Clone, Debug)]
struct QuerySource {
    stream: StreamId,
    /// Queries in all.
    limit: u64,
    clock: QueryClock,
    prompt: Lengths,
    output: Lengths,
    output_max: u32,
    predictor: Predictor,
    prediction_name: u64,
    prediction: Generator,
    deadline: Option<Duration>,
    noise_name: u64,
    noise: SplitMix,
    /// Number of the pending query (closed loop: of the next to be asked).
    index: u64,
    /// Queries that have a time, asked ones included (closed loop only).
    scheduled: u64,
}

/// How predictions are made, ready to be drawn.
#[derive(Clone, Copy, Debug)]
enum Predictor {
    Mean(u32),
    Exact,
    Noisy { mu: f64, sigma: f64 },
}

impl Workload {
    /// The workload of `plans` (stream ids are their places), at the start of a run. Arrivals end
    /// before `horizon`, [`Instant::NEVER`] for none.
    pub fn new(
        plans: &[StreamPlan],
        seed: u64,
        run: u32,
        horizon: Instant,
        prediction: LengthPrediction,
    ) -> Self {
        let ids = || (0..=u16::MAX).map(StreamId).zip(plans);
        let frames: Vec<_> = ids()
            .filter_map(|(stream, plan)| {
                let frames = plan.frames.as_ref()?;
                Some(FrameSource::new(frames, stream, &plan.name))
            })
            .collect();
        let queries: Vec<_> = ids()
            .filter_map(|(stream, plan)| {
                let queries = plan.queries.as_ref()?;
                Some(QuerySource::new(queries, stream, &plan.name, prediction))
            })
            .collect();
        let mut closed = vec![None; plans.len()];
        for (source, queries) in (frames.len() as u32..).zip(&queries) {
            if queries.clock.users().is_some() {
                closed[queries.stream.0 as usize] = Some(source);
            }
        }
        let mut workload = Self {
            seed,
            horizon: horizon.0,
            open: Agenda::new(frames.len() + queries.len()),
            frames,
            queries,
            users: BinaryHeap::new(),
            refused: Vec::new(),
            closed,
            head: key(NEVER, 0),
        };
        workload.reset(run);
        workload
    }

    /// Goes back to the start, with the draws of `run`. Allocates nothing that an earlier run did
    /// not need.
    pub fn reset(&mut self, run: u32) {
        let root = rng::root(self.seed, run);
        self.open.clear();
        self.users.clear();
        self.refused.clear();
        for (source, frames) in (0..).zip(&mut self.frames) {
            let first = frames.reset(root, self.horizon);
            self.open.add(first, source);
        }
        for (source, queries) in (self.frames.len() as u32..).zip(&mut self.queries) {
            let first = queries.reset(root, self.horizon);
            self.open.add(first, source);
            // The users of a closed loop ask first at its start.
            let start = queries.clock.start();
            if start < self.horizon {
                for _ in 0..queries.scheduled {
                    self.users.push(Reverse(key(start, source)));
                }
            }
        }
        self.find_head();
    }

    /// Takes the next arrival.
    #[inline]
    pub fn pop(&mut self) -> Option<(Instant, Arrival)> {
        let now = Instant(time_of(self.head));
        if now == Instant::NEVER {
            return None;
        }
        let source = source_of(self.head);
        let arrival = if let Some(frames) = self.frames.get_mut(source) {
            let arrival = frames.take();
            let next = frames.next(now.0, self.horizon);
            self.open.renew_first(next, source as u32);
            arrival
        } else {
            let queries = &mut self.queries[source - self.frames.len()];
            let arrival = queries.take(now);
            if queries.clock.users().is_some() {
                self.users.pop();
            } else {
                let next = queries.pending(now.0, self.horizon);
                self.open.renew_first(next, source as u32);
            }
            arrival
        };
        self.find_head();
        Some((now, arrival))
    }

    /// Tells that a query of `stream` was refused at `now`: in a closed loop its user thinks and asks
    /// again, as after an answer. A user who does not think would ask for ever at the same instant: he
    /// asks again when the next answer, to whomever, is complete. Call this or [`Self::answered`] once per query.
    pub fn refused(&mut self, stream: StreamId, now: Instant) {
        let source = self.closed.get(stream.0 as usize).copied().flatten();
        let Some(source) = source else {
            return;
        };
        let queries = &self.queries[source as usize - self.frames.len()];
        if queries.clock.thinks() {
            self.asks_again(stream, now);
        } else {
            self.refused.push(stream);
        }
    }

    /// Tells that an answer to `stream` is complete at `now`: if its queries form a closed loop, the
    /// user thinks and then asks again.
    pub fn answered(&mut self, stream: StreamId, now: Instant) {
        self.asks_again(stream, now);
        for refused in std::mem::take(&mut self.refused) {
            self.asks_again(refused, now);
        }
    }

    fn asks_again(&mut self, stream: StreamId, now: Instant) {
        let Some(&Some(source)) = self.closed.get(stream.0 as usize) else {
            return;
        };
        let queries = &mut self.queries[source as usize - self.frames.len()];
        if queries.scheduled >= queries.limit {
            return;
        }
        let next = now + queries.clock.think();
        if next.0 >= self.horizon {
            return;
        }
        queries.scheduled += 1;
        let key = key(next.0, source);
        self.users.push(Reverse(key));
        self.head = self.head.min(key);
    }

    /// Time of the next arrival, as far as is known: answers may bring earlier ones.
    #[inline]
    pub fn peek(&self) -> Option<Instant> {
        let time = time_of(self.head);
        (time < NEVER).then_some(Instant(time))
    }

    #[inline]
    fn find_head(&mut self) {
        let open = self.open.first();
        self.head = self.users.peek().map_or(open, |user| user.0.min(open));
    }
}

impl FrameSource {
    fn new(plan: &FramePlan, stream: StreamId, name: &str) -> Self {
        Self {
            stream,
            tokens: plan.tokens,
            // Frames are numbered in 32 bits: four years at 30 a second.
            limit: plan.count.min(u64::from(u32::MAX)),
            clock: FrameClock::new(&plan.clock, plan.start, name),
            noise_name: name_key(name, Purpose::FrameNoise),
            noise: SplitMix::from_key(0),
            index: 0,
        }
    }

    /// Starts a run; returns the time of the first frame.
    fn reset(&mut self, root: u64, horizon: u64) -> u64 {
        self.clock.reset(root);
        self.noise = SplitMix::from_key(rng::key(root, self.noise_name));
        self.index = 0;
        let start = self.clock.start();
        self.pending(start, horizon)
    }

    #[inline]
    fn take(&mut self) -> Arrival {
        Arrival::Frame {
            stream: self.stream,
            index: self.index as u32,
            tokens: self.tokens,
            noise: self.noise.next_u64(),
        }
    }

    #[inline]
    fn next(&mut self, now: u64, horizon: u64) -> u64 {
        self.index += 1;
        self.pending(now, horizon)
    }

    /// Time of the pending frame.
    #[inline]
    fn pending(&mut self, previous: u64, horizon: u64) -> u64 {
        if self.index >= self.limit {
            return NEVER;
        }
        let time = self.clock.time(self.index, previous);
        if time < horizon { time } else { NEVER }
    }
}

impl QuerySource {
    fn new(plan: &QueryPlan, stream: StreamId, name: &str, prediction: LengthPrediction) -> Self {
        Self {
            stream,
            limit: plan.most(),
            clock: QueryClock::new(&plan.arrivals, plan.start, name),
            prompt: Lengths::new(&plan.prompt, name, Purpose::PromptLength),
            output: Lengths::new(&plan.output, name, Purpose::OutputLength),
            output_max: plan.output_max.max(1),
            predictor: Predictor::new(prediction, plan),
            prediction_name: name_key(name, Purpose::Prediction),
            prediction: Generator::from_key(0),
            deadline: plan.deadline,
            noise_name: name_key(name, Purpose::QueryNoise),
            noise: SplitMix::from_key(0),
            index: 0,
            scheduled: 0,
        }
    }

    /// Starts a run; returns the time of the first query that waits for no answer.
    fn reset(&mut self, root: u64, horizon: u64) -> u64 {
        self.clock.reset(root);
        self.prompt.reset(root);
        self.output.reset(root);
        if matches!(self.predictor, Predictor::Noisy { .. }) {
            self.prediction = Generator::from_key(rng::key(root, self.prediction_name));
        }
        self.noise = SplitMix::from_key(rng::key(root, self.noise_name));
        self.index = 0;
        self.scheduled = self.clock.users().map_or(0, u64::from).min(self.limit);
        let start = self.clock.start();
        self.pending(start, horizon)
    }

    #[inline]
    fn take(&mut self, now: Instant) -> Arrival {
        let index = self.index;
        self.index += 1;
        let row = index + self.clock.skipped();
        let output = self.output.draw(row).clamp(1, self.output_max);
        let predicted = match self.predictor {
            Predictor::Mean(tokens) => tokens,
            Predictor::Exact => output,
            Predictor::Noisy { mu, sigma } => {
                let error = libm::exp(mu + sigma * self.prediction.normal());
                whole(f64::from(output) * error).min(self.output_max)
            }
        };
        Arrival::Query {
            stream: self.stream,
            index,
            prompt: self.prompt.draw(row),
            output,
            predicted,
            max_output: self.output_max,
            deadline: self.deadline.map(|span| now + span),
            noise: self.noise.next_u64(),
        }
    }

    /// Time of the pending query.
    #[inline]
    fn pending(&mut self, previous: u64, horizon: u64) -> u64 {
        if self.index >= self.limit {
            return NEVER;
        }
        let time = self.clock.time(self.index, previous, horizon);
        if time < horizon { time } else { NEVER }
    }
}

impl Predictor {
    fn new(prediction: LengthPrediction, plan: &QueryPlan) -> Self {
        match prediction {
            LengthPrediction::Mean => Self::Mean(whole(mean_output(&plan.output, plan.output_max))),
            LengthPrediction::Exact => Self::Exact,
            LengthPrediction::Noisy { cv } => {
                let (mu, sigma) = log_normal(1.0, cv);
                Self::Noisy { mu, sigma }
            }
        }
    }
}
