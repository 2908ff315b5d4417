//! Stages whose own time is longer than alone: at their engine's costs beside others, or throttled. The executor and
//! the policy's estimate both reckon by what is here.
//!
//! The stage is lengthened first, and contention is that of the longer one: for as many bytes in k times the time it
//! asks for 1/k of the bandwidth.

use super::Load;
use crate::world::EngineId;

impl Load {
    /// The load of the same stage where its own time is `by` times as long.
    pub(crate) fn lengthened(self, by: f64) -> Self {
        Self {
            // A profile may say that another engine's co-run costs are below those alone.
            mu: (self.mu / by).min(1.0),
            ..self
        }
    }
}

/// Own time of stages that run at once ÷ their time alone: of each its engine and the ratio of its costs beside others
/// to those alone, which hold while a lane of an engine in `beside` (bits, by engine) is busy.
pub(crate) fn lengths(
    beside: &[u16],
    running: &(impl Iterator<Item = (EngineId, f64)> + Clone),
    out: &mut [f64],
) {
    for (at, (out, (engine, ratio))) in out.iter_mut().zip(running.clone()).enumerate() {
        let mask = beside[engine.0 as usize];
        let mut others = running.clone().enumerate();
        let switched =
            mask != 0 && others.any(|(other, (busy, _))| other != at && mask >> busy.0 & 1 != 0);
        *out = if switched { ratio } else { 1.0 };
    }
}

/// Writes the time beside each other ÷ the time alone of stages whose own time is so much longer; `loads` are those
/// alone and become those that `contention` is asked about.
pub(crate) fn slowdowns(
    loads: &mut [Load],
    lengths: &[f64],
    out: &mut [f64],
    contention: impl FnOnce(&[Load], &mut [f64]),
) {
    for (load, &by) in loads.iter_mut().zip(lengths) {
        *load = load.lengthened(by);
    }
    contention(loads, out);
    for (slowdown, by) in out.iter_mut().zip(lengths) {
        *slowdown *= by;
    }
}
