//! Metrics by name, and how each is read from what a play showed.

use sim::metrics::{Latency, LoadVerdict, Summary};

use super::play::Outcome;
use super::unit::Dimension;

/// A metric of a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    base: Base,
    against: Against,
}

/// What is read from one configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Base {
    Throughput,
    TokenThroughput,
    Completion,
    Latency(Series, Statistic),
    FramesBehind,
    Busy(String),
    Bandwidth,
    Energy(Option<String>),
    EnergyPerRequest,
    MeanPower,
    PeakMemory,
    PeakKv,
    Count(Count),
    Decode(Option<String>),
    Prefill(Option<String>),
    ReadBandwidth(Option<String>),
}

/// How a second configuration comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Against {
    Nothing,
    /// This over the other.
    Ratio,
    /// The other over this.
    Speedup,
    /// By what part this differs from the other.
    Change,
    /// The best change over several loads, each against the worse of two others.
    BestChange,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Series {
    Ttft,
    Completion,
    Tpot,
    Staleness,
    Queueing,
    Publication,
}

const SERIES: [(&str, Series); 6] = [
    ("ttft", Series::Ttft),
    ("completion", Series::Completion),
    ("tpot", Series::Tpot),
    ("staleness", Series::Staleness),
    ("queueing", Series::Queueing),
    ("publication", Series::Publication),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Statistic {
    Mean,
    P50,
    P95,
    P99,
    Max,
}

const STATISTICS: [(&str, Statistic); 5] = [
    ("mean", Statistic::Mean),
    ("p50", Statistic::P50),
    ("p95", Statistic::P95),
    ("p99", Statistic::P99),
    ("max", Statistic::Max),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Count {
    Arrived,
    Answered,
    Refused,
    Late,
    Frames,
    FramesRefused,
    Reused,
    Imported,
    Reconstructed,
    Evicted,
}

const COUNTS: [(&str, Count); 10] = [
    ("arrived", Count::Arrived),
    ("answered", Count::Answered),
    ("refused", Count::Refused),
    ("late", Count::Late),
    ("frames", Count::Frames),
    ("frames_refused", Count::FramesRefused),
    ("reused", Count::Reused),
    ("imported", Count::Imported),
    ("reconstructed", Count::Reconstructed),
    ("evicted", Count::Evicted),
];

const FIXED: [(&str, Base); 11] = [
    ("throughput", Base::Throughput),
    ("token_throughput", Base::TokenThroughput),
    ("completion", Base::Completion),
    ("frames_behind", Base::FramesBehind),
    ("mean_bandwidth", Base::Bandwidth),
    ("energy", Base::Energy(None)),
    ("energy_per_request", Base::EnergyPerRequest),
    ("mean_power", Base::MeanPower),
    ("peak_memory", Base::PeakMemory),
    ("peak_kv", Base::PeakKv),
    ("decode", Base::Decode(None)),
];

const AGAINST: [(&str, Against); 3] = [
    ("_ratio", Against::Ratio),
    ("_speedup", Against::Speedup),
    ("_change", Against::Change),
];

/// Names that publications use for a metric.
const PUBLISHED: [(&str, &str); 5] = [
    ("energy_cpu_gpu_ane", "energy"),
    ("decode_prefix32", "decode"),
    ("prefill_1024", "prefill"),
    ("sequential_read_1GiB", "read_bandwidth"),
    ("first_token_latency_ratio", "ttft_mean_speedup"),
];

/// Why a metric has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The SoC has no such engine or lane, or a configuration to compare with is not named.
    Wrong(String),
    /// The run has none: nothing was answered, or the profile says nothing of power.
    Absent(String),
}

impl Metric {
    /// The metric called `name`.
    pub fn parse(name: &str) -> Option<Self> {
        let ending = AGAINST
            .iter()
            .find_map(|(ending, against)| Some((name.strip_suffix(ending)?, *against)));
        let (base, against) = ending.unwrap_or((name, Against::Nothing));
        let base = Base::parse(base)?;
        Some(Self { base, against })
    }

    /// The metric that a publication calls `name`.
    pub fn published(name: &str) -> Option<Self> {
        if name == "query_completion_time_change" {
            return Some(Self {
                base: Base::Latency(Series::Completion, Statistic::Mean),
                against: Against::BestChange,
            });
        }
        let known = PUBLISHED.iter().find(|(published, _)| *published == name);
        Self::parse(known.map_or(name, |(_, own)| own))
    }

    /// All names, with `ENGINE` and `LANE` for those of the SoC.
    pub fn names() -> Vec<String> {
        let mut names: Vec<String> = FIXED.iter().map(|(name, _)| (*name).to_owned()).collect();
        for (series, _) in SERIES {
            let statistics = STATISTICS.iter();
            names.extend(statistics.map(|(statistic, _)| format!("{series}_{statistic}")));
        }
        names.extend(COUNTS.iter().map(|(name, _)| (*name).to_owned()));
        names.extend(
            [
                "prefill",
                "ENGINE_busy",
                "energy_ENGINE",
                "decode_LANE",
                "prefill_LANE",
                "read_bandwidth_ENGINE",
            ]
            .map(str::to_owned),
        );
        names
    }

    /// What it is of.
    pub fn dimension(&self) -> Dimension {
        match self.against {
            Against::Ratio | Against::Speedup => Dimension::Ratio,
            Against::Change | Against::BestChange => Dimension::Change,
            Against::Nothing => self.base.dimension(),
        }
    }

    /// Whether it needs a second configuration.
    pub fn compares(&self) -> bool {
        self.against != Against::Nothing
    }

    /// The engine whose read kernel is measured, and nothing else of the scenario; `config` names the
    /// engines that read, with `+` between.
    pub(super) fn kernel<'m>(&'m self, config: &'m str) -> Option<&'m str> {
        match &self.base {
            Base::ReadBandwidth(engine) => Some(engine.as_deref().unwrap_or(config)),
            _ => None,
        }
    }

    /// The value, in the simulator's own unit of its dimension: what was measured first, then what it is
    /// measured against.
    pub fn read(&self, outcomes: &[&Outcome]) -> Result<f64, Missing> {
        let base = |at: usize| {
            let outcome = outcomes.get(at).ok_or_else(|| {
                Missing::Wrong("it compares two configurations and only one is named".to_owned())
            })?;
            self.base.read(outcome)
        };
        let over = |part: f64, whole: f64| {
            let known = whole != 0.0;
            known.then(|| part / whole).ok_or_else(|| {
                Missing::Absent("what it is measured against comes out as 0".to_owned())
            })
        };
        match self.against {
            Against::Nothing => base(0),
            Against::Ratio => over(base(0)?, base(1)?),
            Against::Speedup => over(base(1)?, base(0)?),
            Against::Change => Ok(over(base(0)?, base(1)?)? - 1.0),
            Against::BestChange => {
                let mut best = f64::INFINITY;
                for load in 0..outcomes.len() / 3 {
                    let worse = base(3 * load + 1)?.max(base(3 * load + 2)?);
                    best = best.min(over(base(3 * load)?, worse)? - 1.0);
                }
                Ok(best)
            }
        }
    }
}

impl Base {
    fn parse(name: &str) -> Option<Self> {
        if let Some((_, base)) = FIXED.iter().find(|(fixed, _)| *fixed == name) {
            return Some(base.clone());
        }
        if let Some((_, count)) = COUNTS.iter().find(|(count, _)| *count == name) {
            return Some(Self::Count(*count));
        }
        for (series, of) in SERIES {
            let Some(rest) = name
                .strip_prefix(series)
                .and_then(|rest| rest.strip_prefix('_'))
            else {
                continue;
            };
            let statistic = STATISTICS.iter().find(|(statistic, _)| *statistic == rest);
            return statistic.map(|(_, statistic)| Self::Latency(of, *statistic));
        }
        let some = |rest: &str| Some(rest.to_owned()).filter(|rest| !rest.is_empty());
        match name {
            "prefill" => return Some(Self::Prefill(None)),
            "read_bandwidth" => return Some(Self::ReadBandwidth(None)),
            _ => {}
        }
        if let Some(engine) = name.strip_suffix("_busy") {
            return some(engine).map(Self::Busy);
        }
        if let Some(engine) = name.strip_prefix("energy_") {
            return some(engine).map(|engine| Self::Energy(Some(engine)));
        }
        if let Some(lane) = name.strip_prefix("decode_") {
            return some(lane).map(|lane| Self::Decode(Some(lane)));
        }
        if let Some(lane) = name.strip_prefix("prefill_") {
            return some(lane).map(|lane| Self::Prefill(Some(lane)));
        }
        let engine = name.strip_prefix("read_bandwidth_")?;
        some(engine).map(|engine| Self::ReadBandwidth(Some(engine)))
    }

    fn dimension(&self) -> Dimension {
        match self {
            Self::Throughput => Dimension::RequestRate,
            Self::TokenThroughput | Self::Decode(_) | Self::Prefill(_) => Dimension::TokenRate,
            Self::Completion | Self::Latency(..) => Dimension::Time,
            Self::Busy(_) => Dimension::Share,
            Self::Bandwidth | Self::ReadBandwidth(_) => Dimension::Bandwidth,
            Self::Energy(_) | Self::EnergyPerRequest => Dimension::Energy,
            Self::MeanPower => Dimension::Power,
            Self::PeakMemory | Self::PeakKv => Dimension::Memory,
            Self::FramesBehind | Self::Count(_) => Dimension::Count,
        }
    }

    /// Whether it depends on how long an overloaded run is.
    fn grows(&self, summary: &Summary) -> bool {
        summary.load == LoadVerdict::Saturated && !matches!(self, Self::Latency(Series::Tpot, _))
    }

    fn read(&self, outcome: &Outcome) -> Result<f64, Missing> {
        let summary = &outcome.summary;
        let unanswered = || Missing::Absent("nothing was answered".to_owned());
        let powerless = || Missing::Absent("the profile says nothing of power".to_owned());
        let answered = |value: f64| {
            let any = summary.completed > 0;
            any.then_some(value).ok_or_else(unanswered)
        };
        match self {
            Self::Throughput => Ok(summary.throughput_rps),
            Self::TokenThroughput => Ok(summary.tokens_per_s),
            // To the last answer.
            Self::Completion => answered(summary.window_s),
            Self::Latency(..) | Self::FramesBehind if self.grows(summary) => Err(Missing::Absent(
                "a queue grows, so there is no steady value: it would depend on the run's length"
                    .to_owned(),
            )),
            Self::Latency(series, statistic) => statistic
                .of(series.of(summary))
                .ok_or_else(|| Missing::Absent("nothing was measured of it".to_owned())),
            Self::FramesBehind => summary.frames_behind.ok_or_else(unanswered),
            Self::Busy(engine) => {
                let engines = &summary.engines;
                let found = engines.iter().find(|known| known.name == *engine);
                found.map(|found| found.busy).ok_or_else(|| {
                    let names = engines.iter().map(|known| known.name.as_str());
                    unknown("engine", engine, names)
                })
            }
            Self::Bandwidth => Ok(summary.mean_bandwidth_gbps),
            Self::Energy(None) => summary.energy_j.ok_or_else(powerless),
            Self::Energy(Some(engine)) => {
                let energy = outcome.energy_j.as_ref().ok_or_else(powerless)?;
                let names = energy.keys().map(String::as_str);
                let found = energy.get(engine).copied();
                found.ok_or_else(|| unknown("engine", engine, names))
            }
            Self::EnergyPerRequest => summary.energy_per_request_j.ok_or_else(powerless),
            Self::MeanPower => summary.mean_power_w.ok_or_else(powerless),
            Self::PeakMemory => Ok(summary.peak_memory_bytes as f64),
            Self::PeakKv => Ok(summary.peak_kv_bytes as f64),
            Self::Count(count) => Ok(count.of(summary) as f64),
            Self::Decode(lane) => rate(&outcome.decode_rates, lane.as_deref(), outcome),
            Self::Prefill(lane) => rate(&outcome.prefill_rates, lane.as_deref(), outcome),
            Self::ReadBandwidth(_) => Err(Missing::Wrong(
                "a read kernel is compared with nothing".to_owned(),
            )),
        }
    }
}

/// The rate of a lane, or of all together.
fn rate(
    rates: &std::collections::BTreeMap<String, f64>,
    lane: Option<&str>,
    outcome: &Outcome,
) -> Result<f64, Missing> {
    let Some(lane) = lane else {
        let none = || Missing::Absent("no lane answered".to_owned());
        return (!rates.is_empty())
            .then(|| rates.values().sum())
            .ok_or_else(none);
    };
    if !outcome.lanes.iter().any(|known| known == lane) {
        let names = outcome.lanes.iter().map(String::as_str);
        return Err(unknown("lane", lane, names));
    }
    let found = rates.get(lane).copied();
    found.ok_or_else(|| Missing::Absent(format!("lane `{lane}` answered nothing")))
}

fn unknown<'n>(what: &str, name: &str, names: impl Iterator<Item = &'n str>) -> Missing {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    Missing::Wrong(format!(
        "the SoC has no {what} `{name}`, but {}",
        names.join(", ")
    ))
}

impl Series {
    fn of(self, summary: &Summary) -> &Latency {
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
    fn of(self, latency: &Latency) -> Option<f64> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_name_is_known() {
        for name in Metric::names() {
            let name = name.replace("ENGINE", "npu").replace("LANE", "cpu");
            let metric = Metric::parse(&name).unwrap_or_else(|| panic!("{name}"));
            assert!(!metric.compares(), "{name}");
            for (ending, dimension) in [
                ("_ratio", Dimension::Ratio),
                ("_speedup", Dimension::Ratio),
                ("_change", Dimension::Change),
            ] {
                let metric = Metric::parse(&format!("{name}{ending}"));
                assert_eq!(
                    metric.map(|metric| metric.dimension()),
                    Some(dimension),
                    "{name}"
                );
            }
        }
        for name in ["", "latency", "ttft_p50_p95", "_busy", "energy_", "ttft"] {
            assert_eq!(Metric::parse(name), None, "{name}");
        }
        for (name, _) in PUBLISHED {
            assert!(Metric::published(name).is_some(), "{name}");
        }
    }
}
