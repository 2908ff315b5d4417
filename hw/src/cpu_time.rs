//! Whether somebody else had the machine's cores.

/// CPU time of all cores together, in the system's ticks: since it started, or between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTime {
    /// What software wanted: what it had, and what was stolen.
    pub wanted: u64,
    /// What a hypervisor gave to others meanwhile.
    pub stolen: u64,
}

impl CpuTime {
    /// Since the system started, by Linux's `/proc/stat`; `None` where there is none.
    #[must_use]
    pub fn now() -> Option<Self> {
        Self::read(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    fn read(text: &str) -> Option<Self> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        // user nice system idle iowait irq softirq steal; guests' times, after these, are within the user's.
        let fields: Option<Vec<u64>> = line.split_whitespace().map(|x| x.parse().ok()).collect();
        let fields = fields?;
        let stolen = *fields.get(7)?;
        let busy = [0, 1, 2, 5, 6].map(|index| fields[index]);
        Some(Self {
            wanted: busy.iter().sum::<u64>() + stolen,
            stolen,
        })
    }

    /// From an earlier look to this one.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            wanted: self.wanted.saturating_sub(earlier.wanted),
            stolen: self.stolen.saturating_sub(earlier.stolen),
        }
    }

    /// Share of what was wanted that was stolen, 0 to 1; `None` where nothing was wanted.
    #[must_use]
    pub fn stolen_share(self) -> Option<f64> {
        (self.wanted > 0).then(|| self.stolen as f64 / self.wanted as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stolen_is_part_of_what_was_wanted() {
        let text = "cpu  100 20 50 800 10 3 7 20 5 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        let first = CpuTime::read(text).expect("it is one");
        assert_eq!((first.wanted, first.stolen), (200, 20));
        let later = CpuTime {
            wanted: 300,
            stolen: 45,
        };
        assert_eq!(later.since(first).stolen_share(), Some(0.25));
        assert_eq!(first.since(first).stolen_share(), None);
        assert_eq!(CpuTime::read("intr 5"), None);
        assert_eq!(CpuTime::read("cpu 1 2 3"), None);
    }
}
