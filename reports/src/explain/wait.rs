//! What a request waited for before each of its stages.

use sim::dispatch::Task;
use sim::dispatch::policy::build;
use sim::spec::model::StageKind;
use sim::time::{Duration, Instant};
use sim::world::{LaneId, World};

use super::tell::{lane as name, span, task};
use super::watch::{Ran, Seen};

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
    /// The setting that kept the stage back, and the stage of another lane that it had to wait for.
    pub(super) kept_by: Option<(&'static str, LaneId, Task)>,
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

/// What kept a stage of the request from starting before it did, though its lane was idle: something ended as it
/// started, beside which the settings do not let it run.
fn kept_by(world: &World, seen: &Seen, stage: &Ran) -> Option<(&'static str, LaneId, Task)> {
    let kind = |task: &Task| world.stages[task.stage.0 as usize].kind;
    let groups = |lane, task: &Task| {
        world.exclusive[world.engine_of(lane).0 as usize][task.stage.0 as usize]
    };
    let modes = &world.modes;
    let serial = build(world).serial();
    let begins = seen
        .stages
        .first()
        .is_some_and(|first| first.since == stage.since);
    let others = seen.beside.iter().filter(|other| {
        other.lane != stage.lane && other.until == Some(stage.since) && other.since < stage.since
    });
    let mut found = others.filter_map(|other| {
        let answers = matches!(
            kind(&other.task),
            StageKind::QueryPrefill | StageKind::Decode
        );
        let ingests = matches!(
            kind(&other.task),
            StageKind::Encode | StageKind::Project | StageKind::Ingest
        );
        let setting = if serial {
            "`policy = \"serial\"`"
        } else if groups(other.lane, &other.task) & groups(stage.lane, &stage.task) != 0 {
            "`exclusive`"
        } else if begins && answers && !modes.concurrent_generation {
            "`modes.concurrent_generation = false`"
        } else if begins
            && ingests
            && other.task.stream == seen.stream
            && !modes.ingest_during_generation
        {
            "`modes.ingest_during_generation = false`"
        } else {
            return None;
        };
        Some((setting, other.lane, other.task))
    });
    found.next()
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
        if wait.idle.0 > 0 {
            wait.kept_by = kept_by(world, seen, stage);
        }
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
        let why = wait
            .kept_by
            .as_ref()
            .map_or_else(String::new, |(setting, on, what)| {
                let on = name(world, *on);
                format!(
                    ": {setting} let it start only once {} on {on} had ended",
                    task(world, what)
                )
            });
        parts.push(format!("{} while {lane} was idle{why}", span(wait.idle)));
    }
    Some(format!(
        "It waited {} before its next stage on {lane}: {}.",
        span(wait.total()),
        parts.join(", ")
    ))
}
