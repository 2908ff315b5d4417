//! What a request waited for before each of its stages.

use sim::dispatch::Task;
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
    /// That lane was idle.
    pub(super) idle: Duration,
}

impl Wait {
    /// All of it.
    pub(super) fn total(&self) -> Duration {
        let others: u64 = self.others.iter().map(|(_, time)| time.0).sum();
        Duration(self.version.0 + others + self.idle.0)
    }
}

/// The waits before each stage.
pub(super) fn before(seen: &Seen) -> Vec<Wait> {
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
        let mut busy = 0;
        for other in seen.beside.iter().filter(|other| other.lane == stage.lane) {
            let end = other.until.unwrap_or(Instant::NEVER).min(until);
            let time = end.saturating_since(other.since.max(ready));
            if time.0 > 0 {
                busy += time.0;
                wait.others.push((other.task, time));
            }
        }
        wait.idle = Duration(until.saturating_since(ready).0.saturating_sub(busy));
        wait
    });
    waits.collect()
}

/// The wait before a stage on `lane` in words; `None` if there was none but that for the version, which is
/// told with the version.
pub(super) fn text(world: &World, wait: &Wait, lane: &str) -> Option<String> {
    if wait.others.is_empty() && wait.idle.0 == 0 {
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
    if wait.idle.0 > 0 {
        parts.push(format!("{} while {lane} was idle", span(wait.idle)));
    }
    Some(format!(
        "It waited {} before its next stage on {lane}: {}.",
        span(wait.total()),
        parts.join(", ")
    ))
}
