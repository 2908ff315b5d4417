//! Targets: `ttft_p95 <= 2s`, `energy <= 5 W`, `memory <= 6GiB`.

use std::fmt;

use sim::metrics::{Latency, Summary};

/// What a target bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// A time of requests or frames, and which number of it.
    Time(Time, Of),
    /// Answers per second.
    Throughput,
    /// Answer tokens per second.
    TokenThroughput,
    /// Mean power, W.
    Power,
    /// Energy per answer, J.
    EnergyPerRequest,
    /// Weights, reserved and background memory and the most KV at once, bytes.
    Memory,
    /// Share of queries refused.
    Refused,
    /// Share of answers after their deadline.
    Late,
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
pub enum Of {
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

const TIMES: [(&str, Time); 6] = [
    ("ttft", Time::Ttft),
    ("completion", Time::Completion),
    ("tpot", Time::Tpot),
    ("staleness", Time::Staleness),
    ("queueing", Time::Queueing),
    ("publication", Time::Publication),
];
const NUMBERS: [(&str, Of); 5] = [
    ("mean", Of::Mean),
    ("p50", Of::P50),
    ("p95", Of::P95),
    ("p99", Of::P99),
    ("max", Of::Max),
];
const OTHERS: [(&str, Metric); 8] = [
    ("throughput", Metric::Throughput),
    ("token_throughput", Metric::TokenThroughput),
    ("energy", Metric::Power),
    ("power", Metric::Power),
    ("energy_per_request", Metric::EnergyPerRequest),
    ("memory", Metric::Memory),
    ("refused", Metric::Refused),
    ("late", Metric::Late),
];

impl Metric {
    fn parse(text: &str) -> Option<Self> {
        if let Some((_, metric)) = OTHERS.iter().find(|(name, _)| *name == text) {
            return Some(*metric);
        }
        let (time, number) = text.rsplit_once('_')?;
        let (_, time) = TIMES.iter().find(|(name, _)| *name == time)?;
        let (_, number) = NUMBERS.iter().find(|(name, _)| *name == number)?;
        Some(Self::Time(*time, *number))
    }

    /// Units by name, with how many of the metric's own unit each is; the first is its own.
    fn units(self) -> &'static [(&'static str, f64)] {
        match self {
            Self::Time(..) => &[
                ("s", 1.0),
                ("ms", 1e-3),
                ("us", 1e-6),
                ("µs", 1e-6),
                ("min", 60.0),
            ],
            Self::Throughput => &[("req/s", 1.0), ("req/min", 1.0 / 60.0), ("/s", 1.0)],
            Self::TokenThroughput => &[("tok/s", 1.0), ("t/s", 1.0)],
            Self::Power => &[("W", 1.0), ("mW", 1e-3), ("kW", 1e3)],
            Self::EnergyPerRequest => &[("J", 1.0), ("mJ", 1e-3), ("kJ", 1e3), ("Wh", 3600.0)],
            Self::Memory => &[
                ("B", 1.0),
                ("kB", 1e3),
                ("MB", 1e6),
                ("GB", 1e9),
                ("KiB", 1024.0),
                ("MiB", 1_048_576.0),
                ("GiB", 1_073_741_824.0),
            ],
            Self::Refused | Self::Late => &[("%", 0.01), ("1", 1.0)],
        }
    }

    /// Whether more is better.
    pub fn rises(self) -> bool {
        matches!(self, Self::Throughput | Self::TokenThroughput)
    }

    /// Whether a queue that grows leaves it without a steady value.
    pub fn needs_steady(self) -> bool {
        matches!(self, Self::Time(..) | Self::Late)
    }

    /// Its value in a run; `None` where the run has none.
    pub fn of(self, summary: &Summary) -> Option<f64> {
        let share =
            |count: u64| (summary.arrived > 0).then(|| count as f64 / summary.arrived as f64);
        match self {
            Self::Time(time, number) => {
                let latency: &Latency = match time {
                    Time::Ttft => &summary.ttft_s,
                    Time::Completion => &summary.completion_s,
                    Time::Tpot => &summary.tpot_s,
                    Time::Staleness => &summary.staleness_s,
                    Time::Queueing => &summary.queueing_s,
                    Time::Publication => &summary.publication_s,
                };
                match number {
                    Of::Mean => latency.mean,
                    Of::P50 => latency.p50,
                    Of::P95 => latency.p95,
                    Of::P99 => latency.p99,
                    Of::Max => latency.max,
                }
            }
            Self::Throughput => Some(summary.throughput_rps),
            Self::TokenThroughput => Some(summary.tokens_per_s),
            Self::Power => summary.mean_power_w,
            Self::EnergyPerRequest => summary.energy_per_request_j,
            Self::Memory => Some(summary.peak_memory_bytes as f64),
            Self::Refused => share(summary.refused.iter().map(|(_, count)| count).sum()),
            Self::Late => share(summary.late),
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Time(time, number) = self {
            let time = TIMES.iter().find(|(_, known)| known == time);
            let number = NUMBERS.iter().find(|(_, known)| known == number);
            if let (Some((time, _)), Some((number, _))) = (time, number) {
                return write!(f, "{time}_{number}");
            }
        }
        let name = OTHERS.iter().rev().find(|(_, known)| known == self);
        f.write_str(name.map_or("", |(name, _)| name))
    }
}

/// A bound on a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// What is bounded.
    pub metric: Metric,
    /// The bound, in the metric's own unit.
    pub bound: f64,
    /// As the user wrote it.
    pub text: String,
}

/// The nearest name of a list, if any is near.
fn nearest<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    names
        .map(|name| (strsim::damerau_levenshtein(wrong, name), name))
        .filter(|(distance, name)| *distance <= name.len().div_ceil(3))
        .min()
        .map(|(_, name)| name)
}

impl Target {
    /// A target as `metric <= number unit`; `>=` for throughputs.
    ///
    /// # Errors
    ///
    /// What is wrong and what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let shown = text.trim();
        let fault = |what: String| format!("`{shown}`: {what}");
        let Some(at) = shown.find(['<', '>', '=', '≤', '≥']) else {
            return Err(fault(
                "no `<=`: write a target as `ttft_p95 <= 2s`".to_owned(),
            ));
        };
        let name = shown[..at].trim();
        let rest = &shown[at..];
        let (least, value) = if let Some(value) = rest.strip_prefix("<=").or(rest.strip_prefix('≤'))
        {
            (false, value)
        } else if let Some(value) = rest.strip_prefix(">=").or(rest.strip_prefix('≥')) {
            (true, value)
        } else {
            return Err(fault(
                "a bound is `<=`, or `>=` for a throughput".to_owned(),
            ));
        };
        let metric = Metric::parse(&name.to_lowercase()).ok_or_else(|| {
            let all: Vec<String> = TIMES
                .iter()
                .flat_map(|(time, _)| NUMBERS.iter().map(move |(n, _)| format!("{time}_{n}")))
                .chain(OTHERS.iter().map(|(name, _)| (*name).to_owned()))
                .collect();
            let times = TIMES.map(|(name, _)| name).join(", ");
            let numbers = NUMBERS.map(|(name, _)| name).join(", ");
            let others = OTHERS.map(|(name, _)| name).join(", ");
            let hint = match nearest(&name.to_lowercase(), all.iter().map(String::as_str)) {
                Some(near) => format!("; did you mean `{near}`?"),
                None => String::new(),
            };
            fault(format!(
                "unknown metric `{name}`{hint} (there are a time ({times}) with a number ({numbers}), as in `ttft_p95`, and {others})"
            ))
        })?;
        if metric.rises() != least {
            let right = if metric.rises() { ">=" } else { "<=" };
            return Err(fault(format!(
                "`{metric}` is bounded with `{right}`: the other way round, no load is too {}",
                if metric.rises() { "small" } else { "great" }
            )));
        }
        let bound = bound(metric, value.trim()).map_err(fault)?;
        Ok(Self {
            metric,
            bound,
            text: shown.to_owned(),
        })
    }

    /// Whether a value is on the right side.
    pub fn met(&self, value: f64) -> bool {
        if self.metric.rises() {
            value >= self.bound
        } else {
            value <= self.bound
        }
    }
}

/// A bound with its unit, in the metric's own.
fn bound(metric: Metric, value: &str) -> Result<f64, String> {
    let end = value
        .char_indices()
        .find(|&(at, c)| {
            let exponent = at > 0
                && matches!(c, 'e' | 'E')
                && value[at + 1..]
                    .starts_with(|next: char| next.is_ascii_digit() || next == '-' || next == '+');
            let sign = matches!(c, '-' | '+') && (at == 0 || value[..at].ends_with(['e', 'E']));
            !(c.is_ascii_digit() || c == '.' || exponent || sign)
        })
        .map_or(value.len(), |(at, _)| at);
    let (number, unit) = (&value[..end], value[end..].trim());
    let units = metric.units();
    let all = units
        .iter()
        .map(|(name, _)| *name)
        .collect::<Vec<_>>()
        .join(", ");
    if unit.starts_with(',') {
        return Err("numbers have a point, not a comma: `2.5`".to_owned());
    }
    let Ok(number) = number.parse::<f64>() else {
        return Err(format!("`{value}` does not start with a number"));
    };
    if unit.is_empty() {
        return Err(format!(
            "a unit is missing: one of {all}, as in `{metric} {} {number} {}`",
            if metric.rises() { ">=" } else { "<=" },
            units[0].0
        ));
    }
    // Letters' case tells mW from MW; where only one reading is possible, it does not matter.
    let exact = units.iter().find(|(name, _)| *name == unit);
    let loose: Vec<_> = units
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case(unit))
        .collect();
    let scale = match (exact, loose.as_slice()) {
        (Some((_, scale)), _) | (None, [(_, scale)]) => *scale,
        _ => {
            return Err(format!("`{unit}` is no unit of `{metric}`: one of {all}"));
        }
    };
    let bound = number * scale;
    if !bound.is_finite() || bound < 0.0 || (bound == 0.0 && metric.rises()) {
        return Err("a bound must be finite and not negative".to_owned());
    }
    Ok(bound)
}

/// Targets of a list of texts: each read, and none said twice with different bounds unnoticed.
///
/// # Errors
///
/// All that is wrong.
pub fn targets(texts: &[String]) -> Result<Vec<Target>, Vec<String>> {
    let mut list: Vec<Target> = Vec::new();
    let mut faults = Vec::new();
    for text in texts {
        for part in text.split(" and ").flat_map(|part| part.split(';')) {
            match Target::parse(part) {
                Ok(target) => {
                    if let Some(other) = list.iter().find(|other| other.metric == target.metric) {
                        faults.push(format!(
                            "`{}` and `{}` bound the same metric: keep the one that you mean",
                            other.text, target.text
                        ));
                    }
                    list.push(target);
                }
                Err(fault) => faults.push(fault),
            }
        }
    }
    if list.is_empty() && faults.is_empty() {
        faults.push("no target: give one such as `--slo 'ttft_p95 <= 2s'`".to_owned());
    }
    if faults.is_empty() {
        Ok(list)
    } else {
        Err(faults)
    }
}
