//! Targets: `ttft_p95 <= 2s`, `energy <= 5 W`, `memory <= 6GiB`.

use std::fmt;

use sim::metrics::{Count, Metric as Number, Statistic, Summary, Time};

/// What a target bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// A number of a run.
    Of(Number),
    /// That many of all queries, as a share.
    Share(Count),
}

/// What targets bound beside times: the usual name of each comes last.
const OTHERS: [(&str, Metric); 10] = [
    ("throughput", Metric::Of(Number::Throughput)),
    ("token_throughput", Metric::Of(Number::TokenThroughput)),
    ("energy", Metric::Of(Number::MeanPower)),
    ("mean_power", Metric::Of(Number::MeanPower)),
    ("power", Metric::Of(Number::MeanPower)),
    ("energy_per_request", Metric::Of(Number::EnergyPerRequest)),
    ("peak_memory", Metric::Of(Number::PeakMemory)),
    ("memory", Metric::Of(Number::PeakMemory)),
    ("refused", Metric::Share(Count::Refused)),
    ("late", Metric::Share(Count::Late)),
];

impl Metric {
    fn parse(text: &str) -> Option<Self> {
        if let Some((_, metric)) = OTHERS.iter().find(|(name, _)| *name == text) {
            return Some(*metric);
        }
        let time = Number::parse(text).filter(|metric| matches!(metric, Number::Time(..)));
        time.map(Self::Of)
    }

    /// Units by name, with how many of the metric's own unit each is; the first is its own.
    fn units(self) -> &'static [(&'static str, f64)] {
        let number = match self {
            Self::Share(_) => return &[("%", 0.01), ("1", 1.0)],
            Self::Of(number) => number,
        };
        match number {
            Number::Throughput => &[("req/s", 1.0), ("req/min", 1.0 / 60.0), ("/s", 1.0)],
            Number::TokenThroughput => &[("tok/s", 1.0), ("t/s", 1.0)],
            Number::MeanPower => &[("W", 1.0), ("mW", 1e-3), ("kW", 1e3)],
            Number::EnergyPerRequest => &[("J", 1.0), ("mJ", 1e-3), ("kJ", 1e3), ("Wh", 3600.0)],
            Number::PeakMemory => &[
                ("B", 1.0),
                ("kB", 1e3),
                ("MB", 1e6),
                ("GB", 1e9),
                ("KiB", 1024.0),
                ("MiB", 1_048_576.0),
                ("GiB", 1_073_741_824.0),
            ],
            // Of the rest, targets name times alone.
            _ => &[
                ("s", 1.0),
                ("ms", 1e-3),
                ("us", 1e-6),
                ("µs", 1e-6),
                ("min", 60.0),
            ],
        }
    }

    /// Its own unit.
    pub(super) fn unit(self) -> &'static str {
        self.units()[0].0
    }

    /// Whether more is better.
    pub fn rises(self) -> bool {
        matches!(self, Self::Of(Number::Throughput | Number::TokenThroughput))
    }

    /// Its value in a run; `None` where the run has none.
    pub fn of(self, summary: &Summary) -> Option<f64> {
        match self {
            Self::Of(number) => number.of(summary),
            Self::Share(count) => {
                let count = Number::Count(count).of(summary)?;
                (summary.arrived > 0).then(|| count / summary.arrived as f64)
            }
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match OTHERS.iter().rev().find(|(_, known)| known == self) {
            Some((name, _)) => f.write_str(name),
            None => match self {
                Self::Of(number) => number.fmt(f),
                Self::Share(count) => Number::Count(*count).fmt(f),
            },
        }
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
            let times = Number::all().filter(|number| matches!(number, Number::Time(..)));
            let all: Vec<String> = times
                .map(|time| time.to_string())
                .chain(OTHERS.iter().map(|(name, _)| (*name).to_owned()))
                .collect();
            let times = Time::ALL.map(|(name, _)| name).join(", ");
            let numbers = Statistic::ALL.map(|(name, _)| name).join(", ");
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

    /// How many times the bound a value is, the other way round where more is better: above 1 it is missed.
    pub fn excess(&self, value: f64) -> f64 {
        let (large, small) = if self.metric.rises() {
            (self.bound, value)
        } else {
            (value, self.bound)
        };
        if large == 0.0 { 0.0 } else { large / small }
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
    if matches!(metric, Metric::Share(_)) && bound > 1.0 {
        return Err(format!(
            "`{metric}` is a share of all queries, and no more than 100 % of them can be: a bound from 0 to 100 %"
        ));
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
