//! What tasks come to beside each other, predicted without a run.

use super::played::{Costs, Played};
use super::rates::{Together, cpu_factors};
use crate::dispatch::Task;
use crate::world::{FULL_SPEED, LANES_MAX, LaneId, World};

/// A task among those that run at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beside {
    /// Its lane; each lane runs one.
    pub lane: LaneId,
    /// The task. A decode's size is what it generates.
    pub task: Task,
}

/// What is predicted of a task among others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Corun {
    /// Its time alone, without spread, s.
    pub alone_s: f64,
    /// Its time beside the others ÷ alone.
    pub slowdown: f64,
    /// The part of the slowdown that comes from sharing CPU cores.
    pub cpu: f64,
}

/// What these tasks come to while all of them run: at most [`LANES_MAX`].
pub fn corun(world: &World, tasks: &[Beside]) -> Vec<Corun> {
    let mut costs = Costs::new();
    let played: Vec<Played> = tasks
        .iter()
        .map(|Beside { lane, task }| {
            let kind = world.stages[task.stage.0 as usize].kind;
            *costs.of(world, *lane, task, kind, task.size)
        })
        .collect();
    let together = Together::<LANES_MAX>::of(world, played.iter(), &FULL_SPEED);
    let shared = cpu_factors::<LANES_MAX>(world, played.iter());
    let both = together.slowdown.iter().zip(shared);
    let all = played.iter().zip(both);
    all.map(|(played, (&slowdown, cpu))| Corun {
        alone_s: played.secs,
        slowdown,
        cpu,
    })
    .collect()
}
