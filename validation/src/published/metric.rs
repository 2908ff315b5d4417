//! Metrics by name, and how each is read from what a play showed.

use sim::metrics::{LoadVerdict, Metric as Number, Statistic, Summary, Time};
use sim::world::World;

use super::play::{Outcome, read_kernel};
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
    /// A number of any run.
    Run(Number),
    Busy(String),
    Energy(String),
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
                base: Base::Run(Number::Time(Time::Completion, Statistic::Mean)),
                against: Against::BestChange,
            });
        }
        let known = PUBLISHED.iter().find(|(published, _)| *published == name);
        Self::parse(known.map_or(name, |(_, own)| own))
    }

    /// All names, with `ENGINE` and `LANE` for those of the SoC.
    pub fn names() -> Vec<String> {
        let mut names: Vec<String> = Number::all().map(|number| number.to_string()).collect();
        names.extend(
            [
                "decode",
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

    /// Whether it is read from so many configurations.
    ///
    /// # Errors
    ///
    /// What it needs instead, in words.
    pub fn of_configurations(&self, count: usize) -> Result<(), &'static str> {
        let (fits, needs) = match self.against {
            Against::Nothing => (count == 1, "one configuration"),
            Against::Ratio | Against::Speedup | Against::Change => {
                (count == 2, "two configurations")
            }
            Against::BestChange => (
                count > 0 && count.is_multiple_of(3),
                "several loads, each under three policies, as figure 9b of the publication has",
            ),
        };
        if fits { Ok(()) } else { Err(needs) }
    }

    /// The engine whose read kernel is measured, and nothing else of the scenario; `config` names the
    /// engines that read, with `+` between.
    pub(super) fn kernel<'m>(&'m self, config: &'m str) -> Option<&'m str> {
        match &self.base {
            Base::ReadBandwidth(engine) if !self.compares() => {
                Some(engine.as_deref().unwrap_or(config))
            }
            _ => None,
        }
    }

    /// Why it cannot be read of any run of a world: it names an engine or a lane that the SoC does not have.
    pub(super) fn unknown(&self, world: &World) -> Option<String> {
        let (what, name, known) = match &self.base {
            Base::Busy(engine) | Base::Energy(engine) => ("engine", engine, engines(world)),
            Base::Decode(Some(lane)) | Base::Prefill(Some(lane)) => {
                let lanes = world.lanes.iter().map(|lane| lane.name.as_str());
                ("lane", lane, lanes.collect())
            }
            Base::ReadBandwidth(engine) => {
                if self.compares() {
                    return Some(NO_KERNEL_AGAINST.to_owned());
                }
                let engine = engine.as_deref()?;
                return read_kernel(world, engine, engine).err();
            }
            _ => return None,
        };
        let has = known.contains(&name.as_str());
        (!has).then(|| lacks(what, name, known.into_iter()))
    }

    /// Why a read kernel's `config` cannot be read.
    pub(super) fn unread(&self, world: &World, config: &str) -> Option<String> {
        read_kernel(world, self.kernel(config)?, config).err()
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
        if let Some(number) = Number::parse(name) {
            return Some(Self::Run(number));
        }
        let some = |rest: &str| Some(rest.to_owned()).filter(|rest| !rest.is_empty());
        match name {
            "decode" => return Some(Self::Decode(None)),
            "prefill" => return Some(Self::Prefill(None)),
            "read_bandwidth" => return Some(Self::ReadBandwidth(None)),
            _ => {}
        }
        if let Some(engine) = name.strip_suffix("_busy") {
            return some(engine).map(Self::Busy);
        }
        if let Some(engine) = name.strip_prefix("energy_") {
            return some(engine).map(Self::Energy);
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
            Self::Run(number) => match number {
                Number::Throughput => Dimension::RequestRate,
                Number::TokenThroughput => Dimension::TokenRate,
                Number::Completion | Number::Time(..) => Dimension::Time,
                Number::MeanBandwidth => Dimension::Bandwidth,
                Number::Energy | Number::EnergyPerRequest => Dimension::Energy,
                Number::MeanPower => Dimension::Power,
                Number::PeakMemory | Number::PeakKv => Dimension::Memory,
                Number::FramesBehind | Number::Count(_) => Dimension::Count,
            },
            Self::Decode(_) | Self::Prefill(_) => Dimension::TokenRate,
            Self::Busy(_) => Dimension::Share,
            Self::ReadBandwidth(_) => Dimension::Bandwidth,
            Self::Energy(_) => Dimension::Energy,
        }
    }

    fn read(&self, outcome: &Outcome) -> Result<f64, Missing> {
        let summary = &outcome.summary;
        match self {
            Self::Run(number) if grows(*number, outcome.load) => Err(Missing::Absent(
                "a queue grows, so there is no steady value: it would depend on the run's length"
                    .to_owned(),
            )),
            Self::Run(number) => number
                .of(summary)
                .ok_or_else(|| Missing::Absent(why_none(*number, summary).to_owned())),
            Self::Busy(engine) => {
                let engines = &summary.engines;
                let found = engines.iter().find(|known| known.name == *engine);
                found.map(|found| found.busy).ok_or_else(|| {
                    let names = engines.iter().map(|known| known.name.as_str());
                    unknown("engine", engine, names)
                })
            }
            Self::Energy(engine) => {
                let powerless = || Missing::Absent(POWERLESS.to_owned());
                let energy = outcome.energy_j.as_ref().ok_or_else(powerless)?;
                let names = energy.keys().map(String::as_str);
                let found = energy.get(engine).copied();
                found.ok_or_else(|| unknown("engine", engine, names))
            }
            Self::Decode(lane) => rate(&outcome.decode_rates, lane.as_deref(), outcome),
            Self::Prefill(lane) => rate(&outcome.prefill_rates, lane.as_deref(), outcome),
            Self::ReadBandwidth(_) => Err(Missing::Wrong(NO_KERNEL_AGAINST.to_owned())),
        }
    }
}

const POWERLESS: &str = "the profile says nothing of power";
const NO_KERNEL_AGAINST: &str =
    "a read kernel is read of one configuration: state those that are compared as a row each";

fn engines(world: &World) -> Vec<&str> {
    world.engines.iter().map(|e| e.name.as_str()).collect()
}

/// Whether a number depends on how long an overloaded run is.
fn grows(number: Number, load: LoadVerdict) -> bool {
    let of_queues = match number {
        Number::Time(time, _) => time != Time::Tpot,
        Number::FramesBehind => true,
        _ => false,
    };
    of_queues && load == LoadVerdict::Saturated
}

/// Why a run has no such number.
fn why_none(number: Number, summary: &Summary) -> &'static str {
    let answered = summary.completed > 0;
    match number {
        Number::Energy | Number::EnergyPerRequest | Number::MeanPower
            if summary.energy_j.is_none() && summary.run_s > 0.0 =>
        {
            POWERLESS
        }
        Number::Time(Time::Staleness | Time::Publication, _) | Number::FramesBehind
            if summary.frames == 0 =>
        {
            "no frame came in the part of the run that is measured, so nothing was stale, behind or published"
        }
        Number::Time(Time::Publication, _) => "no frame was published",
        Number::Time(Time::Staleness, _) | Number::FramesBehind if answered => {
            "no question was answered after the first frame of its stream had come"
        }
        Number::Time(Time::Tpot, _) if answered => {
            "no answer has a second token, so there is no time per later token"
        }
        Number::Energy | Number::MeanPower => "nothing happened after the warm-up",
        _ => "nothing was answered",
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
    Missing::Wrong(lacks(what, name, names))
}

fn lacks<'n>(what: &str, name: &str, names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    format!("the SoC has no {what} `{name}`, but {}", names.join(", "))
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
