//! How much slower tasks run beside each other.

use super::cpu::{self, Wants};
use super::played::Played;
use crate::contention::{Load, lengthened};
use crate::world::{ENGINES_MAX, FULL_SPEED, LANES_MAX, World};

/// Lanes up to which rates are remembered: nearly every SoC.
pub(super) const FEW: usize = 4;
/// Sets remembered, a power of two.
const REMEMBERED: usize = 64;

/// Tasks that run at once, in order of lanes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Together<const N: usize> {
    /// Time beside the others ÷ time alone, of each.
    pub(super) slowdown: [f64; N],
    /// Those that lie outside what was measured of such tasks together, as bits.
    pub(super) outside: u16,
}

const _: () = assert!(LANES_MAX <= u16::BITS as usize);

impl<const N: usize> Together<N> {
    /// Of so many tasks, at most `N`, while engines run at these parts of their full speed.
    #[cold]
    #[inline(never)]
    pub(super) fn of<'a>(
        world: &World,
        tasks: impl Iterator<Item = &'a Played> + Clone,
        speed: &[f64; ENGINES_MAX],
    ) -> Self {
        let mut together = Self {
            slowdown: [1.0; N],
            outside: 0,
        };
        let count = tasks.clone().count();
        let (mut loads, mut lengths) = ([Load::NONE; N], [1.0; N]);
        let corun = tasks
            .clone()
            .map(|task| (task.load.engine, task.corun_ratio));
        lengthened::lengths(&world.costs.corun_beside, &corun, &mut lengths);
        let own = loads.iter_mut().zip(&mut lengths);
        for ((load, length), played) in own.zip(tasks.clone()) {
            *load = played.load;
            *length /= speed[played.load.engine.0 as usize];
        }
        let (slowdown, loads) = (&mut together.slowdown[..count], &mut loads[..count]);
        let outside = &mut together.outside;
        lengthened::slowdowns(loads, &lengths, slowdown, |loads, slowdown| {
            // Background traffic slows even a stage that runs by itself.
            if count > 1 || world.memory.background_bandwidth > 0.0 {
                let model = &*world.contention;
                model.slowdowns(loads, slowdown);
                if !model.within_range(loads) {
                    *outside = ((1_u32 << count) - 1) as u16;
                }
            }
        });
        let shared = cpu_factors::<N>(world, tasks);
        for (slowdown, shared) in together.slowdown.iter_mut().zip(shared) {
            *slowdown *= shared;
        }
        together
    }
}

/// How much slower each task is because of the CPU cores that it shares; at most `N` tasks.
pub(super) fn cpu_factors<'a, const N: usize>(
    world: &World,
    tasks: impl Iterator<Item = &'a Played> + Clone,
) -> [f64; N] {
    let mut factors = [1.0; N];
    let wants = tasks.clone().map(|played| Wants {
        lane: played.lane,
        cores: played.cores,
    });
    cpu::slowdowns(world, wants, &mut factors);
    for (factor, played) in factors.iter_mut().zip(tasks) {
        *factor = 1.0 + played.cpu_share * (*factor - 1.0);
    }
    factors
}

/// Rates of tasks on few lanes, remembered exactly by the ids of their costs.
#[derive(Debug)]
pub(super) struct Rates {
    slots: Vec<([u64; FEW], Together<FEW>)>,
}

impl Rates {
    pub(super) fn new() -> Self {
        // No task has id 0.
        let empty = Together {
            slowdown: [1.0; FEW],
            outside: 0,
        };
        Self {
            slots: vec![([0; FEW], empty); REMEMBERED],
        }
    }

    /// Of the tasks that run, where the costs on each lane have these `ids`; 0 where a lane is idle.
    #[inline]
    pub(super) fn of<'a>(
        &mut self,
        world: &World,
        ids: [u64; FEW],
        tasks: impl Iterator<Item = &'a Played> + Clone,
    ) -> &Together<FEW> {
        // Ids are counted up: a sum keeps the few sets of a steady load apart.
        let mixed = ids
            .iter()
            .fold(0, |sum: u64, &id| sum.wrapping_mul(11).wrapping_add(id));
        let slot = &mut self.slots[mixed as usize % REMEMBERED];
        if slot.0 != ids {
            *slot = (ids, Together::of(world, tasks, &FULL_SPEED));
        }
        &slot.1
    }
}
