//! Whether queues grow, and how near to saturation a system is, told from several replications.

use super::LoadVerdict;

/// Replications from which their shares decide; of fewer, the middle one does.
const AGREEING_MIN: usize = 5;
/// Shares of replications that grow: up to the first they are an exception, from the second the rule.
const GROWING: (f64, f64) = (0.2, 0.8);

/// Whether queues grow, of replications that may disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// They do not, or in so few replications that it is an exception.
    Level,
    /// In some they do: whether there is anything steady is open.
    Open,
    /// They do.
    Grows,
}

impl Growth {
    /// Of `growing` of `all` replications. Five or more grow if four in five do, and it is open where more than one in
    /// five does, each by `margin` (a share) to spare. Of fewer the middle one, or the worse of two in the middle,
    /// decides; where that does not grow but another does, it is open.
    pub fn of(growing: usize, all: usize, margin: f64) -> Self {
        if growing == 0 {
            return Self::Level;
        }
        let share = growing as f64 / all as f64;
        let (grows, open) = if all < AGREEING_MIN {
            (growing >= all - all / 2, true)
        } else {
            (share - margin >= GROWING.1, share + margin > GROWING.0)
        };
        match (grows, open) {
            (true, _) => Self::Grows,
            (false, true) => Self::Open,
            (false, false) => Self::Level,
        }
    }
}

impl LoadVerdict {
    /// The verdict on several replications: the one that at least half of them reach or exceed; of five or more,
    /// `Saturated` only if four in five are, and `Near` where more than one in five is but fewer than that. Near a
    /// load of 1 the replications of a short run disagree: between what can be told apart lies a verdict that leaves
    /// it open, so that a longer run does not turn one into the other.
    pub fn over(replications: impl IntoIterator<Item = Self>) -> Self {
        let severity = |verdict: Self| match verdict {
            Self::Finite => 0,
            Self::Steady => 1,
            Self::Near => 2,
            Self::Saturated => 3,
        };
        let mut all: Vec<Self> = replications.into_iter().collect();
        let saturated = all.iter().filter(|verdict| **verdict == Self::Saturated);
        match Growth::of(saturated.count(), all.len(), 0.0) {
            Growth::Grows => return Self::Saturated,
            Growth::Open if all.len() >= AGREEING_MIN => return Self::Near,
            _ => {}
        }
        all.sort_by_key(|&verdict| severity(verdict));
        all.get(all.len() / 2).copied().unwrap_or_default()
    }
}
