//! Energy of engines on which several lanes run: an engine draws its power once, whoever runs on it.

use super::Running;
use crate::dispatch::lanes_of;
use crate::time::Instant;
use crate::world::{ENGINES_MAX, LANES_MAX, World};

/// What the engines' lanes draw of their engine's power: the greatest of what its running stages state, in equal parts.
#[derive(Debug)]
pub(super) struct Shared {
    /// Up to when it is counted.
    at: Instant,
    /// By lane: what its task has drawn since it started, J.
    joules: [f64; LANES_MAX],
}

impl Shared {
    /// At the start of a run; `None` where every engine has one lane at most.
    pub(super) fn of(world: &World) -> Option<Self> {
        let mut engines: Vec<_> = world.lanes.iter().map(|lane| lane.engine).collect();
        engines.sort_unstable();
        engines.dedup();
        (engines.len() < world.lanes.len()).then_some(Self {
            at: Instant::ZERO,
            joules: [0.0; LANES_MAX],
        })
    }

    /// Lets time pass while the lanes of `active` run.
    pub(super) fn advance(&mut self, now: Instant, active: u16, lanes: &[Running]) {
        let secs = now.saturating_since(self.at).as_secs_f64();
        self.at = now;
        if secs > 0.0 {
            let watts = parts(active, lanes, |_, watts| watts);
            for lane in lanes_of(active) {
                self.joules[lane.0 as usize] += watts[lane.0 as usize] * secs;
            }
        }
    }

    /// A lane starts a task.
    pub(super) fn starts(&mut self, lane: usize) {
        self.joules[lane] = 0.0;
    }

    /// What a lane's task has drawn, J.
    pub(super) fn drawn(&self, lane: usize) -> f64 {
        self.joules[lane]
    }
}

/// The part of its engine's power that each running lane counts, W; `draws` is what an engine draws whose stages state
/// so much at full speed.
pub(super) fn parts(
    active: u16,
    lanes: &[Running],
    draws: impl Fn(usize, f64) -> f64,
) -> [f64; LANES_MAX] {
    let mut engines = [(0.0_f64, 0_u8); ENGINES_MAX];
    for lane in lanes_of(active) {
        let played = &lanes[lane.0 as usize].played;
        let (watts, count) = &mut engines[played.load.engine.0 as usize];
        *watts = watts.max(played.watts);
        *count += 1;
    }
    let mut parts = [0.0; LANES_MAX];
    for lane in lanes_of(active) {
        let engine = lanes[lane.0 as usize].played.load.engine.0 as usize;
        let (watts, count) = engines[engine];
        parts[lane.0 as usize] = draws(engine, watts) / f64::from(count);
    }
    parts
}

/// What counts the power of engines that lanes share, where it is needed.
pub(super) fn shared_power(world: &World) -> Option<Shared> {
    if world.power.is_none() || world.heat.is_some() {
        return None;
    }
    Shared::of(world)
}
