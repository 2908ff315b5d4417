//! What a request waited for before each of its stages.

use sim::dispatch::Task;
use sim::dispatch::policy::build;
use sim::time::{Duration, Instant};
use sim::world::World;

use super::tell::{span, task};
use super::watch::Seen;

/// Most stages of others that are named one by one.
const NAMED: usize = 6;

/// A time in which none of the request's stages ran, by what passed it; the parts add up to it.
#[derive(Clone, Debug, Default)]
pub(super) struct Wait {
    /// Until the version that it reads was published.
    pub(super) version: Duration,
    /// Stages that ran on the lane of its next stage meanwhile, each with how long of it.
    pub(super) others: Vec<(Task, Duration)>,
    /// That lane was idle, and its engine had no room for the request's KV.
    pub(super) room: Duration,
    /// That lane was idle for another reason.
    pub(super) idle: Duration,
}

impl Wait {
    /// All of it.
    pub(super) fn total(&self) -> Duration {
        let others: u64 = self.others.iter().map(|(_, time)| time.0).sum();
        Duration(self.version.0 + others + self.room.0 + self.idle.0)
    }
}

/// Whether nothing but memory keeps a request that has a lane from an idle one.
fn only_memory(world: &World) -> bool {
    let modes = &world.modes;
    let excludes = world.exclusive.iter().flatten().any(|&groups| groups != 0);
    modes.concurrent_generation
        && modes.ingest_during_generation
        && world.query_graph.free == 0
        && !excludes
        && !build(world).serial()
}

/// The waits before each stage; `placed`: when the policy gave the request its lane.
pub(super) fn before(world: &World, seen: &Seen, placed: Option<Instant>) -> Vec<Wait> {
    let placed = placed.filter(|_| only_memory(world));
    let mut free = seen.arrived;
    let waits = seen.stages.iter().map(|stage| {
        let from = free;
        let until = stage.since.max(from);
        free = free.max(stage.ended.map_or(stage.since, |(at, _)| at));
        // Before its version is published no lane can take it.
        let ready = seen.published.unwrap_or(from).clamp(from, until);
        let mut wait = Wait {
            version: ready.saturating_since(from),
            ..Wait::default()
        };
        // Once the request has a lane, an idle one can only lack room; what has begun has it.
        let queued = placed.map(|at| at.clamp(ready, until));
        let (mut busy, mut busy_queued) = (0, 0);
        for other in seen.beside.iter().filter(|other| other.lane == stage.lane) {
            let end = other.until.unwrap_or(Instant::NEVER).min(until);
            let time = end.saturating_since(other.since.max(ready));
            if time.0 > 0 {
                busy += time.0;
                let queued = queued.unwrap_or(Instant::NEVER).max(other.since);
                busy_queued += end.saturating_since(queued).0;
                wait.others.push((other.task, time));
            }
        }
        let idle = until.saturating_since(ready).0.saturating_sub(busy);
        let room = queued.map_or(0, |at| {
            let queued = until.saturating_since(at).0;
            queued.saturating_sub(busy_queued).min(idle)
        });
        (wait.room, wait.idle) = (Duration(room), Duration(idle - room));
        wait
    });
    waits.collect()
}

/// The wait before a stage on `lane` in words; `None` if there was none but that for the version, which is
/// told with the version.
pub(super) fn text(world: &World, wait: &Wait, lane: &str) -> Option<String> {
    if wait.others.is_empty() && wait.room.0 + wait.idle.0 == 0 {
        return None;
    }
    let mut parts = Vec::new();
    if wait.version.0 > 0 {
        parts.push(format!("{} for its version", span(wait.version)));
    }
    let named = if wait.others.len() > NAMED {
        NAMED - 1
    } else {
        NAMED
    };
    for (what, time) in wait.others.iter().take(named) {
        parts.push(format!("{} behind {}", span(*time), task(world, what)));
    }
    let rest = wait.others.get(named..).unwrap_or_default();
    if !rest.is_empty() {
        let time = Duration(rest.iter().map(|(_, time)| time.0).sum());
        parts.push(format!("{} behind {} more stages", span(time), rest.len()));
    }
    if wait.room.0 > 0 {
        let room = span(wait.room);
        parts.push(format!("{room} for room for its KV, while {lane} was idle"));
    }
    if wait.idle.0 > 0 {
        parts.push(format!("{} while {lane} was idle", span(wait.idle)));
    }
    Some(format!(
        "It waited {} before its next stage on {lane}: {}.",
        span(wait.total()),
        parts.join(", ")
    ))
}
