//! The numbers of a run by name: what targets bound and measurements are held against.

use std::fmt;

use super::{Latency, Summary};

/// A number of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// A time of requests or frames, and which number of it, s.
    Time(Time, Statistic),
    /// Answers per second.
    Throughput,
    /// Answer tokens per second.
    TokenThroughput,
    /// From the end of the warm-up to the last answer, s.
    Completion,
    /// Frames that an answer did not see, on average.
    FramesBehind,
    /// Mean DRAM traffic, GB/s.
    MeanBandwidth,
    /// Energy of the run, J.
    Energy,
    /// Energy per answer, J.
    EnergyPerRequest,
    /// Mean power, W.
    MeanPower,
    /// Weights, reserved and background memory and the most KV at once, bytes.
    PeakMemory,
    /// Most KV at once, bytes.
    PeakKv,
    /// How often something happened.
    Count(Count),
}

/// A time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// Arrival to first token.
    Ttft,
    /// Arrival to last token.
    Completion,
    /// Time per later token.
    Tpot,
    /// Age of the newest frame in the answer.
    Staleness,
    /// Arrival to the first stage.
    Queueing,
    /// Frame arrival to publication.
    Publication,
}

/// A number of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// Mean.
    Mean,
    /// Median.
    P50,
    /// 95th percentile.
    P95,
    /// 99th percentile.
    P99,
    /// Largest.
    Max,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Queries that arrived.
    Arrived,
    /// Queries that were answered.
    Answered,
    /// Queries that were refused.
    Refused,
    /// Answers after their deadline.
    Late,
    /// Frames that arrived.
    Frames,
    /// Frames that were refused.
    FramesRefused,
    /// Answers whose context was there.
    Reused,
    /// Answers whose context was copied.
    Imported,
    /// Answers whose context was prefilled again, at least in part.
    Reconstructed,
    /// Contexts that left an engine to make room.
    Evicted,
}

impl Time {
    /// All of them, by name.
    pub const ALL: [(&str, Self); 6] = [
        ("ttft", Self::Ttft),
        ("completion", Self::Completion),
        ("tpot", Self::Tpot),
        ("staleness", Self::Staleness),
        ("queueing", Self::Queueing),
        ("publication", Self::Publication),
    ];

    /// Its numbers in a run.
    pub fn of(self, summary: &Summary) -> &Latency {
        match self {
            Self::Ttft => &summary.ttft_s,
            Self::Completion => &summary.completion_s,
            Self::Tpot => &summary.tpot_s,
            Self::Staleness => &summary.staleness_s,
            Self::Queueing => &summary.queueing_s,
            Self::Publication => &summary.publication_s,
        }
    }
}

impl Statistic {
    /// All of them, by name.
    pub const ALL: [(&str, Self); 5] = [
        ("mean", Self::Mean),
        ("p50", Self::P50),
        ("p95", Self::P95),
        ("p99", Self::P99),
        ("max", Self::Max),
    ];

    /// Its value; `None` where nothing was measured.
    pub fn of(self, latency: &Latency) -> Option<f64> {
        match self {
            Self::Mean => latency.mean,
            Self::P50 => latency.p50,
            Self::P95 => latency.p95,
            Self::P99 => latency.p99,
            Self::Max => latency.max,
        }
    }
}

impl Count {
    fn of(self, summary: &Summary) -> u64 {
        match self {
            Self::Arrived => summary.arrived,
            Self::Answered => summary.completed,
            Self::Refused => summary.refused.iter().map(|(_, count)| count).sum(),
            Self::Late => summary.late,
            Self::Frames => summary.frames,
            Self::FramesRefused => summary.frames_refused,
            Self::Reused => summary.preparations.reuse,
            Self::Imported => summary.preparations.import,
            Self::Reconstructed => {
                summary.preparations.reconstruct + summary.preparations.import_and_reconstruct
            }
            Self::Evicted => summary.evictions,
        }
    }
}

impl Metric {
    /// Those with a name of one piece. The others are called after their time and number, as `ttft_p95`.
    const OTHERS: [(&str, Self); 20] = [
        ("throughput", Self::Throughput),
        ("token_throughput", Self::TokenThroughput),
        ("completion", Self::Completion),
        ("frames_behind", Self::FramesBehind),
        ("mean_bandwidth", Self::MeanBandwidth),
        ("energy", Self::Energy),
        ("energy_per_request", Self::EnergyPerRequest),
        ("mean_power", Self::MeanPower),
        ("peak_memory", Self::PeakMemory),
        ("peak_kv", Self::PeakKv),
        ("arrived", Self::Count(Count::Arrived)),
        ("answered", Self::Count(Count::Answered)),
        ("refused", Self::Count(Count::Refused)),
        ("late", Self::Count(Count::Late)),
        ("frames", Self::Count(Count::Frames)),
        ("frames_refused", Self::Count(Count::FramesRefused)),
        ("reused", Self::Count(Count::Reused)),
        ("imported", Self::Count(Count::Imported)),
        ("reconstructed", Self::Count(Count::Reconstructed)),
        ("evicted", Self::Count(Count::Evicted)),
    ];

    /// The metric called `name`.
    pub fn parse(name: &str) -> Option<Self> {
        if let Some((_, metric)) = Self::OTHERS.iter().find(|(known, _)| *known == name) {
            return Some(*metric);
        }
        let (time, statistic) = name.rsplit_once('_')?;
        let (_, time) = Time::ALL.iter().find(|(known, _)| *known == time)?;
        let (_, statistic) = Statistic::ALL
            .iter()
            .find(|(known, _)| *known == statistic)?;
        Some(Self::Time(*time, *statistic))
    }

    /// All of them: what stands alone first.
    pub fn all() -> impl Iterator<Item = Self> {
        let times = Time::ALL.into_iter().flat_map(|(_, time)| {
            let numbers = Statistic::ALL.into_iter();
            numbers.map(move |(_, statistic)| Self::Time(time, statistic))
        });
        Self::OTHERS
            .into_iter()
            .map(|(_, metric)| metric)
            .chain(times)
    }

    /// Its value in a run; `None` where the run has none: nothing was answered, or the profile says nothing of
    /// power.
    pub fn of(self, summary: &Summary) -> Option<f64> {
        match self {
            Self::Time(time, statistic) => statistic.of(time.of(summary)),
            Self::Throughput => summary.throughput_rps,
            Self::TokenThroughput => summary.tokens_per_s,
            Self::Completion => (summary.completed > 0).then_some(summary.window_s),
            Self::FramesBehind => summary.frames_behind,
            Self::MeanBandwidth => Some(summary.mean_bandwidth_gbps),
            Self::Energy => summary.energy_j,
            Self::EnergyPerRequest => summary.energy_per_request_j,
            Self::MeanPower => summary.mean_power_w,
            Self::PeakMemory => Some(summary.peak_memory_bytes as f64),
            Self::PeakKv => Some(summary.peak_kv_bytes as f64),
            Self::Count(count) => Some(count.of(summary) as f64),
        }
    }
}

/// The name.
impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn name<T: PartialEq>(of: &T, all: &[(&'static str, T)]) -> &'static str {
            let found = all.iter().find(|(_, known)| known == of);
            found.map_or("", |(name, _)| name)
        }
        match self {
            Self::Time(time, statistic) => {
                let (time, statistic) = (name(time, &Time::ALL), name(statistic, &Statistic::ALL));
                write!(f, "{time}_{statistic}")
            }
            other => f.write_str(name(other, &Self::OTHERS)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_called_by_its_own_name() {
        for metric in Metric::all() {
            assert_eq!(Metric::parse(&metric.to_string()), Some(metric));
        }
        assert_eq!(Metric::all().count(), 20 + 6 * 5);
        for name in ["", "latency", "ttft", "ttft_p50_p95", "_mean", "ttft_"] {
            assert_eq!(Metric::parse(name), None, "{name}");
        }
    }
}
