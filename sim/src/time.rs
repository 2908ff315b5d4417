//! Simulated time: whole nanoseconds since the start of a run.
//!
//! Integer time makes ties real ties and sums exact, and hides the last bits in which two builds'
//! floating-point libraries may differ. This module is the only place that rounds seconds to
//! nanoseconds.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize};

/// Nanoseconds in a second.
pub const NANOS_PER_SEC: f64 = 1e9;

/// A point in time: nanoseconds since the start of the run.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Instant(pub u64);

/// A span of time in nanoseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Duration(pub u64);

impl Instant {
    /// The start of the run.
    pub const ZERO: Self = Self(0);
    /// Later than everything that happens (584 years).
    pub const NEVER: Self = Self(u64::MAX);

    /// The instant `secs` seconds after the start, rounded to the nearest nanosecond.
    ///
    /// Negative and non-finite values have been refused when the input was loaded; here they
    /// saturate as `as` casts do.
    #[inline]
    pub fn from_secs_f64(secs: f64) -> Self {
        Self(Duration::from_secs_f64(secs).0)
    }

    /// Seconds since the start of the run.
    #[inline]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SEC
    }

    /// The time from `earlier` to `self`, zero if `earlier` is later.
    #[inline]
    pub fn saturating_since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Duration {
    /// No time.
    pub const ZERO: Self = Self(0);

    /// `secs` seconds, rounded to the nearest nanosecond.
    #[inline]
    pub fn from_secs_f64(secs: f64) -> Self {
        // `as` saturates, so +0.5 and truncation round half up without a libm call.
        Self((secs * NANOS_PER_SEC + 0.5) as u64)
    }

    /// The span in seconds.
    #[inline]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SEC
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    #[inline]
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Duration> for Instant {
    #[inline]
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Add for Duration {
    type Output = Self;
    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Duration {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Duration {
    type Output = Self;
    #[inline]
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6} s", self.as_secs_f64())
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6} s", self.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_round_to_the_nearest_nanosecond() {
        assert_eq!(Duration::from_secs_f64(1.5e-9), Duration(2));
        assert_eq!(Duration::from_secs_f64(1.4e-9), Duration(1));
        assert_eq!(Instant::from_secs_f64(12.0), Instant(12_000_000_000));
        assert_eq!(Instant(3).saturating_since(Instant(5)), Duration::ZERO);
    }
}
