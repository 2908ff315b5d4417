//! How much a scenario asks for: every run must come to an end within a person's patience and the clock's
//! range.

use super::document::Place;
use super::file::File;
use super::streams::first_plan;
use crate::diag::Diagnostic;
use crate::spec::quantity::SECONDS_MAX;
use crate::spec::scenario::ScenarioFile;
use crate::time::Instant;
use crate::workload::{FrameTimes, QueryTimes, StreamPlan};

/// Most frames and queries that a run may be expected to have: some twenty minutes on one core.
const ARRIVALS_MAX: f64 = 1e9;

/// What a source of a stream is expected to bring.
struct Source<'p> {
    place: Place<'p>,
    what: &'static str,
    /// Arrivals before the end of the run.
    expected: f64,
    /// When the last of `count` comes, if they alone end it, s.
    ends_s: Option<f64>,
}

/// Checks that the streams bring no more than can be played; `plans` as [`super::streams::lower`] lists
/// them.
pub(super) fn check(file: &File<ScenarioFile>, plans: &[StreamPlan], faults: &mut Vec<Diagnostic>) {
    let horizon_s = file.raw.run.horizon_s;
    let horizon = horizon_s.map_or(Instant::NEVER, Instant::from_secs_f64);
    let streams = file.root().key("streams");
    let (mut total, before) = (0.0, faults.len());
    for (index, raw) in file.raw.streams.iter().enumerate() {
        let Some(plan) = first_plan(plans, raw) else {
            continue;
        };
        for source in sources(plan, &streams.index(index), horizon) {
            // A source without an end has its own fault.
            if source.expected >= u64::MAX as f64 {
                continue;
            }
            let expected = source.expected * f64::from(raw.copies);
            total += expected;
            let Source { place, what, .. } = &source;
            if expected > ARRIVALS_MAX {
                faults.push(
                    place
                        .key_fault(
                            format!("{expected:.1e} {what} are to be expected of stream `{}`", raw.name),
                            format!("at most {ARRIVALS_MAX:.0e} arrivals in a run"),
                        )
                        .help("each is played: lower the rate, or `count`, or shorten the run (`run.horizon_s`)"),
                );
            }
            if let Some(ends_s) = source.ends_s
                && ends_s > SECONDS_MAX
            {
                faults.push(
                    place
                        .key("count")
                        .fault(
                            format!(
                                "the last of the {what} of stream `{}` comes after {ends_s:.1e} s",
                                raw.name
                            ),
                            format!("a run lasts at most {SECONDS_MAX:.0e} s"),
                        )
                        .help("lower `count`, raise the rate, or set `run.horizon_s`"),
                );
            }
        }
    }
    if total > ARRIVALS_MAX && faults.len() == before {
        faults.push(
            streams
                .key_fault(
                    format!("{total:.1e} frames and queries are to be expected"),
                    format!("at most {ARRIVALS_MAX:.0e} arrivals in a run"),
                )
                .help("each is played: lower the rates, or shorten the run (`run.horizon_s`)"),
        );
    }
}

fn sources<'p>(
    plan: &StreamPlan,
    place: &Place<'p>,
    horizon: Instant,
) -> impl Iterator<Item = Source<'p>> {
    let ends = |start: Instant, count: u64, period_s: f64| {
        (horizon == Instant::NEVER && count < u64::MAX)
            .then(|| start.as_secs_f64() + count as f64 * period_s)
    };
    let frames = plan.frames.as_ref().map(|frames| Source {
        place: place.key("frames"),
        what: "frames",
        expected: frames.expected(horizon) as f64,
        ends_s: match frames.clock {
            FrameTimes::Periodic { period_s, .. } => ends(frames.start, frames.count, period_s),
            FrameTimes::Listed(_) => None,
        },
    });
    let queries = plan.queries.as_ref().map(|queries| Source {
        place: place.key("queries"),
        what: "queries",
        // Who waits for answers asks no faster than they come.
        expected: queries.expected(horizon).unwrap_or(0.0),
        ends_s: match &queries.arrivals {
            QueryTimes::Listed(_) | QueryTimes::ClosedLoop { .. } => None,
            times => times
                .mean_rate_hz()
                .and_then(|rate| ends(queries.start, queries.count, 1.0 / rate)),
        },
    });
    frames.into_iter().chain(queries)
}
