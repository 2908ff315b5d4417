//! How tasks share CPU cores.
//!
//! The threads that want a core get equal parts of it, as fair schedulers of operating systems see to. A
//! lane that is pinned presses on its own cores alone: its `cores`, spread evenly over them, and at most
//! one core's worth on each, since its time alone was measured there. What is not pinned (other lanes,
//! host work of stages, other software) goes where there is least to do: it fills the cores from the
//! emptiest, as water does. A task is as slow as the fullest of its cores.
//!
//! Where no two lanes are pinned to one core this comes to the cores that are wanted ÷ those of the SoC,
//! and to 1 while there are enough.

use crate::world::{LaneId, World};

/// What a task wants of the CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wants {
    pub(super) lane: LaneId,
    /// Cores of its lane and of its host work together.
    pub(super) cores: f64,
}

/// Time of each task with what it gets of the cores ÷ its time with all that it wants; at least 1.
pub(super) fn slowdowns(
    world: &World,
    wants: impl Iterator<Item = Wants> + Clone,
    out: &mut [f64],
) {
    let cpu = &world.cpu;
    if !cpu.pins_shared {
        let busy = wants.fold(cpu.background_cores, |sum, want| sum + want.cores);
        out.fill((busy / cpu.cores).max(1.0));
        return;
    }
    let mut cores: Vec<(u32, f64)> = Vec::new();
    let mut anywhere = cpu.background_cores;
    for want in wants.clone() {
        let lane = &world.lanes[want.lane.0 as usize];
        if lane.pin_cores.is_empty() {
            anywhere += want.cores;
            continue;
        }
        anywhere += want.cores - lane.cores;
        let part = (lane.cores / lane.pin_cores.len() as f64).min(1.0);
        for &pin in &lane.pin_cores {
            match cores.iter_mut().find(|(core, _)| *core == pin) {
                Some((_, load)) => *load += part,
                None => cores.push((pin, part)),
            }
        }
    }
    let level = level(&cores, cpu.cores, anywhere);
    for (slowdown, want) in out.iter_mut().zip(wants) {
        let pins = &world.lanes[want.lane.0 as usize].pin_cores;
        let own = cores.iter().filter(|(core, _)| pins.contains(core));
        *slowdown = own.map(|(_, load)| *load).fold(level.max(1.0), f64::max);
    }
}

/// Up to which load `amount` fills `count` cores, some of which are loaded, from the emptiest.
fn level(loaded: &[(u32, f64)], count: f64, mut amount: f64) -> f64 {
    let mut loads: Vec<f64> = loaded.iter().map(|(_, load)| *load).collect();
    loads.sort_by(f64::total_cmp);
    // Cores that nobody is pinned to are empty.
    let mut width = (count - loads.len() as f64).max(0.0);
    let mut level = 0.0;
    for load in loads {
        let room = width * (load - level);
        if amount < room {
            break;
        }
        amount -= room;
        level = load;
        width += 1.0;
    }
    if width > 0.0 {
        level + amount / width
    } else {
        level
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn water_fills_from_the_emptiest() {
        let loaded = [(0, 1.0), (1, 2.0)];
        assert_eq!(level(&loaded, 2.0, 0.0), 1.0);
        assert_eq!(level(&loaded, 2.0, 0.5), 1.5);
        assert_eq!(level(&loaded, 2.0, 3.0), 3.0);
        assert_eq!(level(&loaded, 4.0, 1.0), 0.5);
        assert_eq!(level(&loaded, 4.0, 3.0), 4.0 / 3.0);
        assert_eq!(level(&[], 4.0, 2.0), 0.5);
    }

    proptest! {
        #[test]
        fn what_is_poured_is_held(
            loads in prop::collection::vec(0.0..3.0_f64, 0..6),
            empty in 0..4_u32,
            amount in 0.0..10.0_f64,
        ) {
            let loaded: Vec<(u32, f64)> = loads.iter().map(|&load| (0, load)).collect();
            let count = loads.len() as f64 + f64::from(empty);
            prop_assume!(count > 0.0);
            let level = level(&loaded, count, amount);
            let held: f64 = loads.iter().map(|load| (level - load).max(0.0)).sum();
            let held = held + f64::from(empty) * level;
            prop_assert!((held - amount).abs() < 1e-9, "{level} holds {held} of {amount}");
        }
    }
}
