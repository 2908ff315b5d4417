//! The numbers that runs are compared by: name, unit and which way is better.

use sim::metrics::Summary;

use crate::interval::Get;

/// Which way a number should go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
}

/// A number of a run.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Key, as in `summary.json`: for parts of a latency `ttft_s.p95`.
    pub key: &'static str,
    /// Title of its column; the unit is in it.
    pub title: &'static str,
    /// Which way is better.
    pub better: Better,
    /// Whether it exists only while the queue does not grow.
    pub steady_only: bool,
    /// Reads it.
    pub get: Get,
}

macro_rules! metric {
    ($key:literal, $title:literal, $better:ident, $steady:literal, $get:expr) => {
        Metric {
            key: $key,
            title: $title,
            better: Better::$better,
            steady_only: $steady,
            get: $get,
        }
    };
}

/// Answers per second.
pub const THROUGHPUT: Metric = metric!(
    "throughput_rps",
    "answers/s",
    Higher,
    false,
    |s: &Summary| s.throughput_rps
);
/// Mean time to first token.
pub const TTFT_MEAN: Metric = metric!("ttft_s.mean", "TTFT, s", Lower, true, |s: &Summary| s
    .ttft_s
    .mean);
/// 95th percentile of the time to first token.
pub const TTFT_P95: Metric = metric!("ttft_s.p95", "TTFT p95, s", Lower, true, |s: &Summary| s
    .ttft_s
    .p95);
/// Mean time to the last token.
pub const COMPLETION: Metric = metric!(
    "completion_s.mean",
    "completion, s",
    Lower,
    true,
    |s: &Summary| s.completion_s.mean
);
/// 95th percentile of the time to the last token.
pub const COMPLETION_P95: Metric = metric!(
    "completion_s.p95",
    "completion p95, s",
    Lower,
    true,
    |s: &Summary| s.completion_s.p95
);
/// Mean time per token after the first.
pub const TPOT: Metric = metric!(
    "tpot_s.mean",
    "per token, s",
    Lower,
    false,
    |s: &Summary| s.tpot_s.mean
);
/// Mean age of the newest frame that the answer knows.
pub const STALENESS: Metric = metric!(
    "staleness_s.mean",
    "staleness, s",
    Lower,
    true,
    |s: &Summary| s.staleness_s.mean
);
/// Time of the last event.
pub const MAKESPAN: Metric = metric!("makespan_s", "makespan, s", Lower, false, |s: &Summary| {
    Some(s.makespan_s)
});
/// Energy per answer.
pub const ENERGY_PER_REQUEST: Metric = metric!(
    "energy_per_request_j",
    "J/answer",
    Lower,
    false,
    |s: &Summary| s.energy_per_request_j
);

/// Every number whose paired difference is reported.
pub const COMPARED: [Metric; 9] = [
    THROUGHPUT,
    TTFT_MEAN,
    TTFT_P95,
    COMPLETION,
    COMPLETION_P95,
    TPOT,
    STALENESS,
    MAKESPAN,
    ENERGY_PER_REQUEST,
];

/// Requests of a run that were refused, whatever the reason.
pub fn refused(summary: &Summary) -> u64 {
    summary.refused.iter().map(|(_, count)| count).sum()
}
