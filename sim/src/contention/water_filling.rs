//! Weighted max-min sharing of the bandwidth, with partial overlap of compute and memory time.
//!
//! Symbols: B the SoC's bandwidth, `b_e` and `w_e` port and weight of engine e (bytes/s), μ a stage's
//! memory intensity (memory time ÷ time alone), q the overlap exponent, γ the burst exponent. The
//! time alone is the unit of time.
//!
//! 1. A stage alone has memory time μ and compute time `C = (1 − μ^q)^(1/q)`; with q = 1 they do not
//!    overlap at all, with q → ∞ perfectly.
//! 2. A stage presses on the others with the demand of its bursts, `D = b_e · μ^γ`: when it does
//!    touch memory, it does so faster than on average. A stage that moves nothing presses with 0.
//! 3. A is the stage's share when it asks for its whole port against the demands of the others.
//! 4. Slowdown: `(C^q + (μ · b_e / A)^q)^(1/q) + Σ δ`. The first term is computed as
//!    `(1 + μ^q · ((b_e / A)^q − 1))^(1/q)`, which is exactly 1 where A is the whole port.
//!
//! **Shares.** The arbiter sees engines, not stages: engine e is one flow of weight `w_e` that wants
//! `min(b_e, ΣD)` of its stages, and `b_e` where one of them asks for the whole port. B is filled
//! weighted max-min: every unsatisfied flow gets `left · w / Σw`; flows that want no more than that
//! get what they want and leave the rest to the others; repeat. Within an engine the stages split
//! its share max-min with equal weights. So the stages of an engine together never get more than
//! `b_e`, and a second lane adds to its engine's demand but not to its weight.
//!
//! **Background** traffic is one more flow. It wants `background` and weighs as an average engine
//! does (weights are relative, so a fixed number would depend on their scale).
//!
//! **Corrections.** Where a pair was measured to be slower than the model says, each knot of its grid
//! holds `δ = max(0, measured − modelled)`, with the modelled value of the pair by itself, without
//! background. Bilinear in the two intensities, and held past the grid's edge (`within_range` is then
//! false). A pair that was measured to be faster stays as modelled: a negative δ could lower a
//! slowdown when a stage joins.
//!
//! **Why it keeps the laws.** With a stage more, no flow's demand falls, so no other flow's share
//! rises, nor does a split of it; and no δ depends on who else runs: monotone. For γ ≤ 1 a stage's
//! mean rate `μ · b_e ÷ slowdown` is at most what the same filling gives it when all ask for their D,
//! and those add up to B at most: the bandwidth holds.
//!
//! A port that exceeds B (a what-if memory) slows its stages even alone. The loader hands in ports of at most B, and
//! costs alone that are stretched by that ([`crate::cost::Rescale`]), so that alone is 1.
//!
//! **Queueing** refines this where co-runs were measured densely enough to tell (see
//! [`Shape::occupancy_exponent`] and [`Shape::latency_loss`]); without it nothing above changes.
//!
//! Source: max-min fairness is Bertsekas and Gallager, Data Networks, section 6.5.2; the overlap and
//! burst exponents are this project's own.

use super::grid::Grids;
use super::{ContentionModel, Load, ModelError, PairGrid, Ports, canonical, require_within};
use crate::world::{ENGINES_MAX, LANES_MAX};

mod queueing;

use queueing::Queueing;

/// The engines and, after them, the background.
const FLOWS_MAX: usize = ENGINES_MAX + 1;

/// The exponents of [`WaterFilling`], and its loss by latency. The default has no queueing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// q ≥ 1: how completely compute and memory time overlap.
    pub overlap_exponent: f64,
    /// γ within [0, 1]: bursts demand `b_e · μ^γ`.
    pub burst_exponent: f64,
    /// α within [0, 1]: an engine's weight is `w_e · μ^α`. With 0 the arbiter takes turns between
    /// engines whatever they have queued; with 1 it serves first come, first served, so that each gets
    /// bandwidth in proportion to what it asks for.
    pub occupancy_exponent: f64,
    /// λ ≥ 0: by which part compute time grows when the others' demand fills the bandwidth. Even a
    /// stage that asks for little waits longer for each access then.
    pub latency_loss: f64,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            overlap_exponent: 3.0,
            burst_exponent: 0.25,
            occupancy_exponent: 0.0,
            latency_loss: 0.0,
        }
    }
}

/// Weighted water-filling.
#[derive(Clone, Debug)]
pub struct WaterFilling {
    /// Bytes/s, by engine.
    port: [f64; ENGINES_MAX],
    engines: usize,
    /// By engine, then the background's.
    weight: [f64; FLOWS_MAX],
    bandwidth: f64,
    background: f64,
    overlap: Overlap,
    burst: Burst,
    /// Bytes/s that the first of two engines gets when neither is satisfied.
    split: [[f64; ENGINES_MAX]; ENGINES_MAX],
    /// Share of a stage that runs by itself, by engine.
    alone: [f64; ENGINES_MAX],
    corrections: Option<Grids>,
    /// `None` with α = 0 and λ = 0.
    queueing: Option<Queueing>,
}

impl WaterFilling {
    /// A model of the SoC without queueing: overlap exponent q ≥ 1, burst exponent γ within [0, 1],
    /// and the measured pairs, if any.
    pub fn new(
        ports: Ports,
        overlap_exponent: f64,
        burst_exponent: f64,
        pairs: Vec<PairGrid>,
    ) -> Result<Self, ModelError> {
        let shape = Shape {
            overlap_exponent,
            burst_exponent,
            ..Shape::default()
        };
        Self::with_shape(ports, shape, pairs)
    }

    /// A model of the SoC with the measured pairs, if any.
    pub fn with_shape(
        ports: Ports,
        shape: Shape,
        pairs: Vec<PairGrid>,
    ) -> Result<Self, ModelError> {
        let Shape {
            overlap_exponent,
            burst_exponent,
            ..
        } = shape;
        ports.check()?;
        require_within(overlap_exponent, 1.0, f64::MAX, || {
            "overlap exponent".to_owned()
        })?;
        require_within(burst_exponent, 0.0, 1.0, || "burst exponent".to_owned())?;
        let queueing = Queueing::new(shape)?;

        let background_weight = ports.background_weight();
        let Ports {
            port,
            weight,
            bandwidth,
            background,
        } = ports;

        let engines = port.len();
        let mut model = Self {
            port: [0.0; ENGINES_MAX],
            engines,
            weight: [0.0; FLOWS_MAX],
            bandwidth,
            background: 0.0,
            overlap: Overlap::new(overlap_exponent),
            burst: Burst::new(burst_exponent),
            split: [[0.0; ENGINES_MAX]; ENGINES_MAX],
            alone: [0.0; ENGINES_MAX],
            corrections: None,
            queueing,
        };
        model.port[..engines].copy_from_slice(&port);
        model.weight[..engines].copy_from_slice(&weight);
        model.weight[engines] = background_weight;
        for (row, &one) in model.split.iter_mut().zip(&weight) {
            for (split, &other) in row.iter_mut().zip(&weight) {
                *split = bandwidth * one / (one + other);
            }
        }
        model.measure_alone();
        if !pairs.is_empty() {
            let grids = Grids::new(engines, pairs, |victim, aggressor, measured| {
                let mut modelled = [0.0; 2];
                model.slowdowns(&[victim, aggressor], &mut modelled);
                (measured - modelled[0]).max(0.0)
            })?;
            model.corrections = Some(grids);
        }
        // Pairs are measured without it.
        model.background = background;
        model.measure_alone();
        Ok(model)
    }

    fn measure_alone(&mut self) {
        for engine in 0..self.engines {
            self.alone[engine] = self.engine_share(engine, &[0.0; ENGINES_MAX]);
        }
    }

    /// Writes the share of the bandwidth (bytes/s) that each running stage gets when it asks for its
    /// whole port and the others press with their burst demands.
    ///
    /// # Panics
    ///
    /// Where `out` has not the length of `running`.
    pub fn shares(&self, running: &[Load], out: &mut [f64]) {
        assert_eq!(running.len(), out.len(), "one share per load");
        if let Some(queueing) = self.queueing {
            queueing.each(self, running, |at, turn| out[at] = turn.share);
            return;
        }
        match *running {
            [] => {}
            [load] => out[0] = self.alone[load.engine.0 as usize],
            [one, other] if one.engine != other.engine && self.background == 0.0 => {
                out[0] = self.share_of_two(one, other);
                out[1] = self.share_of_two(other, one);
            }
            _ => self.fill(running, out),
        }
    }

    /// The share of `asking` beside one stage on another engine, without background: all that the
    /// other leaves, or the split by weight where that is more.
    #[inline]
    fn share_of_two(&self, asking: Load, beside: Load) -> f64 {
        let (engine, other) = (asking.engine.0 as usize, beside.engine.0 as usize);
        let left = self.bandwidth - self.demand(beside);
        self.port[engine].min(left.max(self.split[engine][other]))
    }

    /// The shares of any number of stages.
    fn fill(&self, running: &[Load], out: &mut [f64]) {
        let order = canonical(running);
        let order = &order[..running.len()];
        let mut demand = [0.0; LANES_MAX];
        let mut pull = [0.0; ENGINES_MAX];
        for (&at, demand) in order.iter().zip(&mut demand) {
            let load = running[at as usize];
            *demand = self.demand(load);
            pull[load.engine.0 as usize] += *demand;
        }
        for (pull, &port) in pull.iter_mut().zip(&self.port) {
            *pull = pull.min(port);
        }
        let mut start = 0;
        while start < order.len() {
            let engine = running[order[start] as usize].engine;
            let same = |&&at: &&u8| running[at as usize].engine == engine;
            let end = start + order[start..].iter().take_while(same).count();
            let share = self.engine_share(engine.0 as usize, &pull);
            for asking in start..end {
                out[order[asking] as usize] =
                    stage_share(share, &demand[start..asking], &demand[asking + 1..end]);
            }
            start = end;
        }
    }

    /// What the engine gets when it asks for its whole port while the others want `pull`.
    fn engine_share(&self, asking: usize, pull: &[f64; ENGINES_MAX]) -> f64 {
        self.fill_flows(asking, pull, &self.weight)
    }

    /// The same with these weights.
    #[inline]
    fn fill_flows(
        &self,
        asking: usize,
        pull: &[f64; ENGINES_MAX],
        weight: &[f64; FLOWS_MAX],
    ) -> f64 {
        let mut want = [0.0; FLOWS_MAX];
        want[..ENGINES_MAX].copy_from_slice(pull);
        want[asking] = self.port[asking];
        want[self.engines] = self.background;
        let want = &want[..=self.engines];

        let mut open = 0_u32;
        let mut weights = 0.0;
        for (flow, (&want, &weight)) in want.iter().zip(weight).enumerate() {
            if want > 0.0 {
                open |= 1 << flow;
                weights += weight;
            }
        }
        let mut left = self.bandwidth;
        // Each round but the last satisfies a flow, so there are `FLOWS_MAX` at most.
        loop {
            let level = left / weights;
            let before = open;
            weights = 0.0;
            for (flow, (&want, &weight)) in want.iter().zip(weight).enumerate() {
                if (open >> flow) & 1 == 0 {
                    continue;
                }
                if want <= level * weight {
                    if flow == asking {
                        return want;
                    }
                    open &= !(1 << flow);
                    left -= want;
                } else {
                    weights += weight;
                }
            }
            if open == before {
                return level * weight[asking];
            }
        }
    }

    /// Burst demand, bytes/s.
    #[inline]
    fn demand(&self, load: Load) -> f64 {
        debug_assert!((0.0..=1.0).contains(&load.mu), "intensity {}", load.mu);
        self.port[load.engine.0 as usize] * self.burst.of(load.mu)
    }
}

/// What a stage gets of its engine's share when it asks for all of it beside stages on the same
/// engine, those with smaller and those with larger demands, each rising.
#[inline]
fn stage_share(share: f64, smaller: &[f64], larger: &[f64]) -> f64 {
    let mut left = share;
    let mut open = (smaller.len() + larger.len() + 1) as f64;
    for &demand in smaller.iter().chain(larger) {
        if demand > left / open {
            break;
        }
        left -= demand;
        open -= 1.0;
    }
    left / open
}

impl ContentionModel for WaterFilling {
    fn slowdowns(&self, running: &[Load], out: &mut [f64]) {
        if let Some(queueing) = self.queueing {
            queueing.each(self, running, |at, turn| {
                out[at] = queueing.slowdown(running[at].mu, turn);
            });
        } else {
            self.shares(running, out);
            for (load, slowdown) in running.iter().zip(out.iter_mut()) {
                let share = *slowdown;
                let stretch = self.port[load.engine.0 as usize] / share;
                *slowdown = self.overlap.slowdown(load.mu, stretch);
            }
        }
        let Some(corrections) = &self.corrections else {
            return;
        };
        let order = canonical(running);
        for (victim, slowdown) in out.iter_mut().enumerate() {
            let mut correction = 0.0;
            for &aggressor in &order[..running.len()] {
                if aggressor as usize != victim {
                    let aggressor = running[aggressor as usize];
                    correction += corrections.at(running[victim], aggressor).unwrap_or(0.0);
                }
            }
            *slowdown += correction;
        }
    }

    fn name(&self) -> &'static str {
        "water_filling"
    }

    fn within_range(&self, running: &[Load]) -> bool {
        let Some(corrections) = &self.corrections else {
            return true;
        };
        running.iter().enumerate().all(|(at, &victim)| {
            running.iter().enumerate().all(|(beside, &aggressor)| {
                at == beside || corrections.covers(victim, aggressor) != Some(false)
            })
        })
    }
}

/// How compute and memory time combine.
///
/// Roots and powers are `libm`'s, so that their bits do not depend on the platform.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Overlap {
    /// q = 3.
    Cubic,
    Power(f64),
}

impl Overlap {
    /// Of this overlap exponent q ≥ 1.
    pub(crate) fn new(exponent: f64) -> Self {
        if exponent == 3.0 {
            Self::Cubic
        } else {
            Self::Power(exponent)
        }
    }

    /// Time of a stage whose memory time goes with the factor `stretch` and whose compute time is divided by `faster`,
    /// relative to its time alone.
    pub(crate) fn rescaled(self, mu: f64, stretch: f64, faster: f64) -> f64 {
        if faster == 1.0 && stretch >= 1.0 {
            return self.slowdown(mu, stretch);
        }
        let q = match self {
            Self::Cubic => 3.0,
            Self::Power(q) => q,
        };
        // As in `slowdown`, the longer one is taken out.
        let memory = mu * stretch;
        let unit = memory.max(1.0 / faster);
        let compute = (1.0 - libm::pow(mu, q)) * libm::pow(1.0 / (faster * unit), q);
        unit * libm::pow(compute + libm::pow(memory / unit, q), 1.0 / q)
    }

    /// Of a stage whose memory time grows by the factor `stretch` ≥ 1.
    #[inline]
    pub(crate) fn slowdown(self, mu: f64, stretch: f64) -> f64 {
        if stretch <= 1.0 {
            return 1.0;
        }
        match self {
            Self::Cubic => libm::cbrt(1.0 + mu * mu * mu * (stretch * stretch * stretch - 1.0)),
            Self::Power(q) => {
                // The longer of time alone and memory time is taken out, lest a large q overflow.
                let memory = mu * stretch;
                let unit = memory.max(1.0);
                let compute = (1.0 - libm::pow(mu, q)) * libm::pow(1.0 / unit, q);
                let sum = compute + libm::pow(memory / unit, q);
                // Three roundings can take the sum of a tiny stretch below 1.
                (unit * libm::pow(sum, 1.0 / q)).max(1.0)
            }
        }
    }
}

/// Demand of a stage's bursts, relative to its port.
#[derive(Clone, Copy, Debug)]
enum Burst {
    /// γ = 1/4.
    FourthRoot,
    Power(f64),
}

impl Burst {
    fn new(exponent: f64) -> Self {
        if exponent == 0.25 {
            Self::FourthRoot
        } else {
            Self::Power(exponent)
        }
    }

    #[inline]
    fn of(self, mu: f64) -> f64 {
        match self {
            // IEEE 754 rounds square roots correctly on every platform.
            Self::FourthRoot => mu.sqrt().sqrt(),
            Self::Power(_) if mu == 0.0 => 0.0,
            Self::Power(exponent) => libm::pow(mu, exponent),
        }
    }
}

#[cfg(test)]
mod tests;
