//! The scenario's streams: when frames and queries arrive and how long they are.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::document::Place;
use super::file::File;
use super::trace::Traces;
use super::{names, suggest};
use crate::diag::Diagnostic;
use crate::spec::scenario::{Arrivals, FrameClock, Frames, Queries, ScenarioFile, Stream};
use crate::time::{Duration, Instant};
use crate::workload::{FramePlan, FrameTimes, QueryPlan, QueryTimes, StreamPlan};

/// Most streams of a scenario.
const STREAMS_MAX: usize = 1 << 16;
/// Shortest mean think time of users without a `count`, s: one who is refused asks again after it.
const THINK_MIN_S: f64 = 1e-3;
/// Largest standard deviation of a frame's offset, in times between two frames: 1 in 12 comes with the one before it.
const JITTER_MAX: f64 = 0.5;
/// Most state changes of a modulated source that a run may be expected to walk.
const CHANGES_MAX: f64 = 1e8;

/// Checks the streams and lists them by name, copies written out.
pub(super) fn lower(
    file: &File<ScenarioFile>,
    traces: &Traces,
    visual_tokens: u32,
    faults: &mut Vec<Diagnostic>,
) -> Vec<StreamPlan> {
    let raw = &file.raw;
    let place = file.root().key("streams");
    if raw.streams.is_empty() {
        faults.push(place.key_fault("there are no streams", "needs at least one"));
    }
    let total: u64 = raw
        .streams
        .iter()
        .map(|stream| u64::from(stream.copies))
        .sum();
    if total > STREAMS_MAX as u64 {
        faults.push(place.key_fault(
            format!("{total} streams"),
            format!("at most {STREAMS_MAX}, copies included"),
        ));
        return Vec::new();
    }
    let mut plans: Vec<StreamPlan> = Vec::new();
    for (index, stream) in raw.streams.iter().enumerate() {
        let place = place.index(index);
        names::check_shown(&place.key("name"), "stream", &stream.name, faults);
        if stream.frames.is_none() && stream.queries.is_none() {
            faults.push(
                place
                    .key("name")
                    .fault(
                        format!("stream `{}` has neither frames nor queries", stream.name),
                        "has no effect",
                    )
                    .help("add `[streams.frames]` or `[streams.queries]`"),
            );
        }
        let mut reader = Reader {
            horizon: raw.run.horizon_s,
            traces,
            name: &stream.name,
            faults,
        };
        let frames = stream
            .frames
            .as_ref()
            .and_then(|frames| reader.frames(&place.key("frames"), frames, visual_tokens));
        let queries = stream
            .queries
            .as_ref()
            .and_then(|queries| reader.queries(&place.key("queries"), queries));
        for copy in 1..=stream.copies {
            let name = if stream.copies == 1 {
                stream.name.clone()
            } else {
                format!("{}-{copy}", stream.name)
            };
            plans.push(StreamPlan {
                name,
                frames: frames.clone(),
                queries: queries.clone(),
            });
        }
    }
    plans.sort_by(|a, b| a.name.cmp(&b.name));
    let pairs = plans.windows(2);
    let clashes: BTreeSet<&str> = pairs
        .filter(|pair| pair[0].name == pair[1].name)
        .map(|pair| pair[0].name.as_str())
        .collect();
    let mut seen = BTreeSet::new();
    for (index, stream) in raw.streams.iter().enumerate() {
        let repeated = !seen.insert(&stream.name);
        let mut from = clashes.range(stream.name.as_str()..);
        let clash = from.next().filter(|name| name.starts_with(&stream.name));
        if let Some(clash) = clash
            && (repeated || stream.copies > 1 && *clash == first_name(stream))
        {
            faults.push(
                place
                    .index(index)
                    .key("name")
                    .fault(
                        format!("two streams are called `{clash}`"),
                        "clashes with another",
                    )
                    .help("give each stream its own name, or use `copies`"),
            );
        }
    }
    plans
}

/// Name of the first plan that a table of `streams` makes.
fn first_name(stream: &Stream) -> Cow<'_, str> {
    if stream.copies == 1 {
        Cow::Borrowed(&stream.name)
    } else {
        Cow::Owned(format!("{}-1", stream.name))
    }
}

/// The first plan that a table of `streams` makes, of `plans` as [`lower`] lists them.
pub(super) fn first_plan<'p>(plans: &'p [StreamPlan], stream: &Stream) -> Option<&'p StreamPlan> {
    let name = first_name(stream);
    let at = plans.binary_search_by(|plan| plan.name.as_str().cmp(&name));
    plans.get(at.ok()?)
}

/// Reads one stream.
pub(super) struct Reader<'r> {
    horizon: Option<f64>,
    traces: &'r Traces,
    pub(super) name: &'r str,
    pub(super) faults: &'r mut Vec<Diagnostic>,
}

impl Reader<'_> {
    fn frames(&mut self, place: &Place<'_>, raw: &Frames, visual_tokens: u32) -> Option<FramePlan> {
        let clock_place = place.key("clock");
        let clock = match &raw.clock {
            FrameClock::Periodic { rate_hz, jitter_s } => {
                self.ends(place, "frames", raw.count, raw.start_s);
                let most = JITTER_MAX / rate_hz;
                if *jitter_s > most {
                    self.faults.push(
                        clock_place
                            .key("periodic")
                            .key("jitter_s")
                            .fault(
                                format!("the frames of stream `{}` jitter by {jitter_s} s", self.name),
                                format!("must be at most {most} s, half the time between two"),
                            )
                            .help("frames keep their order: with more, they would come in heaps; give such times as a `trace`"),
                    );
                }
                Some(FrameTimes::Periodic {
                    period_s: 1.0 / rate_hz,
                    jitter_s: *jitter_s,
                })
            }
            FrameClock::TimesS(times) => {
                self.no_start(place, "times_s");
                let times_place = clock_place.key("times_s");
                self.times(&times_place, times, place, raw.count)
                    .map(FrameTimes::Listed)
            }
            FrameClock::Trace { file } => {
                self.no_start(place, "trace");
                // A trace that is not there has its own fault.
                let trace = self.traces.get(file)?;
                self.before_horizon(&clock_place, file, &trace.times);
                self.check_count(place, raw.count, trace.times.len());
                Some(FrameTimes::Listed(trace.times.clone()))
            }
        };
        Some(FramePlan {
            clock: clock?,
            start: Instant::from_secs_f64(raw.start_s),
            count: raw.count.unwrap_or(u64::MAX),
            tokens: raw.tokens.unwrap_or(visual_tokens),
            megapixels: raw.megapixels.unwrap_or(1.0),
        })
    }

    fn queries(&mut self, place: &Place<'_>, raw: &Queries) -> Option<QueryPlan> {
        let arrivals_place = place.key("arrivals");
        let mut listed_prompt = None;
        let mut listed_output = None;
        let listed = matches!(raw.arrivals, Arrivals::TimesS(_) | Arrivals::Trace { .. });
        if !listed {
            self.ends(place, "queries", raw.count, raw.start_s);
        }
        let arrivals = match &raw.arrivals {
            Arrivals::Periodic { period_s } => Some(QueryTimes::Periodic {
                period_s: *period_s,
            }),
            Arrivals::Poisson { rate_hz } => Some(QueryTimes::Poisson { rate_hz: *rate_hz }),
            Arrivals::Mmpp {
                rates_hz,
                mean_stay_s,
            } => self
                .states(&arrivals_place.key("mmpp"), raw, rates_hz, mean_stay_s)
                .then(|| QueryTimes::Mmpp {
                    rates_hz: rates_hz.clone(),
                    mean_stay_s: mean_stay_s.clone(),
                }),
            Arrivals::Gamma { rate_hz, cv } => Some(QueryTimes::Gamma {
                rate_hz: *rate_hz,
                cv: *cv,
            }),
            Arrivals::TimesS(times) => {
                self.no_start(place, "times_s");
                let times_place = arrivals_place.key("times_s");
                self.times(&times_place, times, place, raw.count)
                    .map(QueryTimes::Listed)
            }
            Arrivals::ClosedLoop {
                users,
                think_s,
                exponential,
            } => {
                let closed = arrivals_place.key("closed_loop");
                self.think(&closed.key("think_s"), *think_s, raw.count);
                if *exponential && *think_s == 0.0 {
                    self.faults.push(closed.key("exponential").key_fault(
                        "`exponential` has no effect",
                        "`think_s` is 0: nobody thinks",
                    ));
                }
                Some(QueryTimes::ClosedLoop {
                    users: *users,
                    think_s: *think_s,
                    exponential: *exponential,
                })
            }
            Arrivals::Trace { file } => {
                self.no_start(place, "trace");
                let trace = self.traces.get(file)?;
                self.before_horizon(&arrivals_place, file, &trace.times);
                self.check_count(place, raw.count, trace.times.len());
                listed_prompt.clone_from(&trace.prompt_tokens);
                listed_output.clone_from(&trace.output_tokens);
                Some(QueryTimes::Listed(trace.times.clone()))
            }
        };
        let prompt = self.length(
            place,
            "prompt_tokens",
            raw.prompt_tokens.as_ref(),
            listed_prompt,
        );
        let output = self.length(
            place,
            "output_tokens",
            raw.output_tokens.as_ref(),
            listed_output,
        );
        let output_max = self.output_max(place, raw, output.as_ref());
        Some(QueryPlan {
            arrivals: arrivals?,
            start: Instant::from_secs_f64(raw.start_s),
            count: raw.count.unwrap_or(u64::MAX),
            prompt: prompt?,
            output: output?,
            output_max: output_max?,
            deadline: raw.deadline_s.map(Duration::from_secs_f64),
        })
    }

    /// An open-ended source needs an end.
    fn ends(&mut self, place: &Place<'_>, what: &str, count: Option<u64>, start_s: f64) {
        match self.horizon {
            None if count.is_none() => self.faults.push(
                place
                    .key_fault(
                        format!("the {what} of stream `{}` never end", self.name),
                        "has neither `count` nor a horizon",
                    )
                    .help("add `count = 100` here or `horizon_s = 60.0` under `[run]`"),
            ),
            Some(horizon) if start_s >= horizon => self.faults.push(place.key("start_s").fault(
                format!(
                    "the {what} of stream `{}` start after the horizon",
                    self.name
                ),
                format!("must be less than `run.horizon_s`, {horizon} s"),
            )),
            _ => {}
        }
    }

    fn no_start(&mut self, place: &Place<'_>, source: &str) {
        let start = place.key("start_s");
        if start.is_present() {
            self.faults.push(
                start
                    .key_fault(
                        format!("`start_s` with `{source}`"),
                        "has no effect: the times are given",
                    )
                    .help("remove it, or shift the times"),
            );
        }
    }

    /// A trace must start before the horizon.
    fn before_horizon(&mut self, place: &Place<'_>, file: &str, times: &[Instant]) {
        if let (Some(horizon), Some(first)) = (self.horizon, times.first())
            && *first >= Instant::from_secs_f64(horizon)
        {
            self.faults.push(
                place
                    .key("trace")
                    .key("file")
                    .fault(
                        format!("no time of `{file}` is before the horizon"),
                        format!("has no effect: `run.horizon_s` is {horizon} s"),
                    )
                    .help(format!(
                        "raise `run.horizon_s` above {} s, the first time",
                        first.as_secs_f64()
                    )),
            );
        }
    }

    /// A count must not ask for more than there is.
    fn check_count(&mut self, place: &Place<'_>, count: Option<u64>, listed: usize) {
        if count.is_some_and(|count| count > listed as u64) {
            self.faults.push(place.key("count").fault(
                format!(
                    "`count` is more than the {} listed",
                    suggest::counted(listed, "time")
                ),
                "has no effect",
            ));
        }
    }

    fn times(
        &mut self,
        place: &Place<'_>,
        times: &[f64],
        source: &Place<'_>,
        count: Option<u64>,
    ) -> Option<Vec<Instant>> {
        let before = self.faults.len();
        if times.is_empty() {
            self.faults
                .push(place.fault(format!("{} is empty", place.quoted()), "needs a time"));
        }
        self.check_count(source, count, times.len());
        for (index, time) in times.iter().enumerate() {
            let at = place.index(index);
            if !(0.0..=1e9).contains(time) {
                self.faults.push(at.fault(
                    format!("time {time} s"),
                    "must be within 0 and 1000000000 s",
                ));
            } else if index > 0 && *time < times[index - 1] {
                self.faults.push(
                    at.fault(
                        format!("time {time} s comes after {} s", times[index - 1]),
                        "times must not fall",
                    )
                    .help("sort the times"),
                );
            } else if let Some(horizon) = self.horizon
                && *time >= horizon
            {
                self.faults.push(
                    at.fault(
                        format!("time {time} s is not before the horizon"),
                        format!("has no effect: `run.horizon_s` is {horizon} s"),
                    )
                    .help("remove it, or raise `run.horizon_s`"),
                );
            }
        }
        (self.faults.len() == before)
            .then(|| times.iter().map(|&t| Instant::from_secs_f64(t)).collect())
    }

    /// A user who is refused asks again after the think time: next to none would never let time pass.
    fn think(&mut self, place: &Place<'_>, think_s: f64, count: Option<u64>) {
        // One who does not think at all waits for the next answer.
        if think_s > 0.0 && think_s < THINK_MIN_S && count.is_none() {
            self.faults.push(
                place
                    .fault(
                        format!("users of stream `{}` who think for {think_s} s", self.name),
                        format!("must be 0 or at least {THINK_MIN_S} s without `count`"),
                    )
                    .help("a user who is refused asks again after it, so that the run might never get on: raise it, or add `count = 100` to the queries"),
            );
        }
    }

    fn states(&mut self, place: &Place<'_>, raw: &Queries, rates: &[f64], stays: &[f64]) -> bool {
        let before = self.faults.len();
        let (rates_place, stays_place) = (place.key("rates_hz"), place.key("mean_stay_s"));
        if rates.len() < 2 {
            self.faults.push(
                rates_place
                    .fault(
                        format!("`rates_hz` has {}", suggest::counted(rates.len(), "state")),
                        "needs at least two",
                    )
                    .help("use `poisson` for a single rate"),
            );
        }
        if rates.len() != stays.len() {
            self.faults.push(stays_place.fault(
                format!("{} rates but {} stays", rates.len(), stays.len()),
                "one stay for each rate",
            ));
        }
        if rates.iter().all(|rate| *rate == 0.0) && !rates.is_empty() {
            self.faults.push(rates_place.fault(
                "no state has arrivals",
                "at least one rate must be greater than 0 Hz",
            ));
        }
        if self.faults.len() > before {
            return false;
        }
        // The source plays until the horizon or its count, whichever is expected first.
        let cycle_s: f64 = stays.iter().sum();
        let a_cycle: f64 = rates
            .iter()
            .zip(stays)
            .map(|(rate, stay)| rate * stay)
            .sum();
        let counted_s = raw.count.map(|count| count as f64 / a_cycle * cycle_s);
        let span_s = self
            .horizon
            .map(|horizon| horizon - raw.start_s)
            .into_iter()
            .chain(counted_s)
            .fold(f64::INFINITY, f64::min);
        let changes = span_s / cycle_s * stays.len() as f64;
        // A source without an end has its own fault.
        if changes.is_finite() && changes > CHANGES_MAX {
            self.faults.push(
                stays_place
                    .fault(
                        format!(
                            "stream `{}` changes its state {changes:.1e} times",
                            self.name
                        ),
                        format!("at most {CHANGES_MAX:.0e} times within {span_s:.3} s"),
                    )
                    .help("each change is played: lengthen the stays, or shorten the run"),
            );
        }
        self.faults.len() == before
    }
}
