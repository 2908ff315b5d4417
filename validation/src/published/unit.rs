//! Units of measured values, and what each is in the simulator's own.

/// What a number is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// Time, s.
    Time,
    /// Part of a whole, within [0, 1].
    Share,
    /// Requests a second.
    RequestRate,
    /// Tokens a second.
    TokenRate,
    /// Bytes a second, GB/s.
    Bandwidth,
    /// Joules.
    Energy,
    /// Watts.
    Power,
    /// Bytes.
    Memory,
    /// How many.
    Count,
    /// One number over another of its kind.
    Ratio,
    /// By what part one number differs from another: 0.1 is 10 % more.
    Change,
}

type Units = &'static [(&'static str, f64)];

impl Dimension {
    /// The units by name, with how much of the simulator's own unit each is.
    fn table(self) -> Units {
        match self {
            Self::Time => &[
                ("s", 1.0),
                ("ms", 1e-3),
                ("us", 1e-6),
                ("µs", 1e-6),
                ("min", 60.0),
            ],
            Self::Share => &[("%", 0.01), ("1", 1.0)],
            Self::RequestRate => &[("req/s", 1.0), ("req/min", 1.0 / 60.0)],
            Self::TokenRate => &[("tok/s", 1.0), ("tokens/s", 1.0)],
            Self::Bandwidth => &[("GB/s", 1.0), ("MB/s", 1e-3), ("GiB/s", 1.073_741_824)],
            Self::Energy => &[("J", 1.0), ("mJ", 1e-3), ("kJ", 1e3), ("Wh", 3600.0)],
            Self::Power => &[("W", 1.0), ("mW", 1e-3)],
            Self::Memory => &[
                ("B", 1.0),
                ("kB", 1e3),
                ("MB", 1e6),
                ("GB", 1e9),
                ("KiB", 1024.0),
                ("MiB", 1_048_576.0),
                ("GiB", 1_073_741_824.0),
            ],
            Self::Count => &[("1", 1.0), ("requests", 1.0), ("frames", 1.0)],
            Self::Ratio => &[("x", 1.0), ("1", 1.0), ("%", 0.01)],
            Self::Change => &[("%", 0.01), ("1", 1.0), ("% (at most)", 0.01)],
        }
    }

    /// A name that files can have; none of changes.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::Time => "time",
            Self::Share => "share",
            Self::RequestRate => "request-rate",
            Self::TokenRate => "token-rate",
            Self::Bandwidth => "bandwidth",
            Self::Energy => "energy",
            Self::Power => "power",
            Self::Memory => "memory",
            Self::Count => "count",
            Self::Ratio => "ratio",
            Self::Change => return None,
        })
    }

    /// The simulator's own unit.
    fn own_unit(self) -> &'static str {
        let mut units = self.table().iter();
        let own = units.find(|(_, factor)| *factor == 1.0);
        own.map_or("", |(name, _)| name)
    }

    /// The simulator's own unit as it is written after a number: nothing for bare numbers.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Share | Self::Count | Self::Ratio | Self::Change => "",
            _ => self.own_unit(),
        }
    }

    /// How much of the simulator's own unit `unit` is; `None` if it measures something else.
    pub fn factor(self, unit: &str) -> Option<f64> {
        let mut units = self.table().iter();
        units
            .find(|(name, _)| *name == unit)
            .map(|(_, factor)| *factor)
    }

    /// Names of the units.
    pub fn units(self) -> impl Iterator<Item = &'static str> {
        self.table().iter().map(|(name, _)| *name)
    }

    /// Whether an error is told in points (hundredths), not relative to the value: a share that should
    /// be 2 % and comes out at 4 is 2 points off, not 100 %.
    pub fn in_points(self) -> bool {
        matches!(self, Self::Share | Self::Change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_convert() {
        let convert = |dimension: Dimension, value: f64, from: &str, to: &str| {
            let own = value * dimension.factor(from)?;
            Some(own / dimension.factor(to)?)
        };
        assert_eq!(convert(Dimension::Time, 1500.0, "ms", "s"), Some(1.5));
        assert_eq!(convert(Dimension::Share, 85.0, "%", "1"), Some(0.85));
        assert_eq!(convert(Dimension::Memory, 1.0, "GiB", "MiB"), Some(1024.0));
        assert_eq!(convert(Dimension::Memory, 1.0, "GiB", "s"), None);
    }
}
