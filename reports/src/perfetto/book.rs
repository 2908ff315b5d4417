//! What the timeline must remember between a start and an end: bounded by what is in the system.

use std::collections::BTreeMap;

use sim::dispatch::{Preparation, Task};
use sim::spec::model::StageKind;
use sim::time::Instant;
use sim::world::{EngineId, LANES_MAX, LaneId, StreamId, World};

/// A stage that ran.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice {
    pub(crate) since: Instant,
    pub(crate) task: Task,
    /// Number of the query that it serves.
    pub(crate) query: Option<u32>,
    /// How the query's version became usable, so far.
    pub(crate) preparation: Preparation,
}

/// Where and when a version was completed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published {
    pub(crate) lane: LaneId,
    pub(crate) since: Instant,
    pub(crate) at: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Query {
    stream: StreamId,
    index: u32,
    version: Option<u32>,
    started: bool,
    /// Start of its newest stage.
    newest: Instant,
    imported: bool,
    rebuilt: bool,
}

/// The newest ingest of a stream that ended.
#[derive(Clone, Copy, Debug)]
struct Ingested {
    version: u32,
    place: Published,
}

/// What is in the system.
#[derive(Debug)]
pub(crate) struct Book {
    running: [Option<Slice>; LANES_MAX],
    /// Arrivals of frames by ticket.
    frames: BTreeMap<u32, Instant>,
    /// Queries by ticket.
    queries: BTreeMap<u32, Query>,
    /// Their tickets, by stream and number.
    tickets: BTreeMap<(StreamId, u32), u32>,
    /// How many of them have started.
    started: usize,
    /// How many of them read each version, by stream.
    readers: Vec<BTreeMap<u32, u32>>,
    ingested: Vec<Option<Ingested>>,
    /// Versions of each stream that somebody may still read.
    versions: Vec<BTreeMap<u32, Published>>,
    /// By engine, then stream, the newest version that is held, and the tokens of its context.
    resident: Vec<Vec<(u32, u64)>>,
    reuse: bool,
}

impl Book {
    pub(crate) fn new(world: &World) -> Self {
        let streams = world.streams.len();
        Self {
            running: [None; LANES_MAX],
            frames: BTreeMap::new(),
            queries: BTreeMap::new(),
            tickets: BTreeMap::new(),
            started: 0,
            readers: vec![BTreeMap::new(); streams],
            ingested: vec![None; streams],
            versions: vec![BTreeMap::new(); streams],
            resident: vec![vec![(0, 0); streams]; world.engines.len()],
            reuse: world.modes.context_reuse,
        }
    }

    /// A query came.
    pub(crate) fn asked(&mut self, ticket: u32, stream: StreamId, index: u32) {
        self.tickets.insert((stream, index), ticket);
        self.queries.insert(
            ticket,
            Query {
                stream,
                index,
                version: None,
                started: false,
                newest: Instant::ZERO,
                imported: false,
                rebuilt: false,
            },
        );
    }

    /// A query was bound.
    pub(crate) fn bound(&mut self, stream: StreamId, index: u32, version: u32) {
        let ticket = self.tickets.get(&(stream, index));
        if let Some(query) = ticket.and_then(|ticket| self.queries.get_mut(ticket)) {
            query.version = Some(version);
            let readers = &mut self.readers[stream.0 as usize];
            *readers.entry(version).or_default() += 1;
        }
    }

    /// A query ended.
    pub(crate) fn ended(&mut self, ticket: u32) {
        let Some(query) = self.queries.remove(&ticket) else {
            return;
        };
        self.tickets.remove(&(query.stream, query.index));
        self.started -= usize::from(query.started);
        let readers = &mut self.readers[query.stream.0 as usize];
        if let Some(version) = query.version
            && let Some(count) = readers.get_mut(&version)
        {
            *count -= 1;
            if *count == 0 {
                readers.remove(&version);
            }
        }
    }

    /// A frame came.
    pub(crate) fn frame(&mut self, ticket: u32, now: Instant) {
        self.frames.insert(ticket, now);
    }

    /// A frame was ingested or refused; when it had come, if it is one.
    pub(crate) fn ingested_frame(&mut self, ticket: u32) -> Option<Instant> {
        self.frames.remove(&ticket)
    }

    /// Start of the newest stage of a query.
    pub(crate) fn answered(&self, ticket: u32) -> Option<Instant> {
        self.queries.get(&ticket).map(|query| query.newest)
    }

    /// Number of a query in the system.
    pub(crate) fn query(&self, ticket: u32) -> Option<u32> {
        self.queries.get(&ticket).map(|query| query.index)
    }

    /// Oldest version of a stream that a query in the system is bound to.
    pub(crate) fn oldest_read(&self, stream: StreamId) -> Option<u32> {
        self.readers[stream.0 as usize].keys().next().copied()
    }

    /// Queries that wait, and that have started.
    pub(crate) fn requests(&self) -> (usize, usize) {
        (self.queries.len() - self.started, self.started)
    }

    /// A task started; says whether it was the first of a query.
    pub(crate) fn started(
        &mut self,
        world: &World,
        now: Instant,
        lane: LaneId,
        task: Task,
    ) -> bool {
        let kind = world.stages[task.stage.0 as usize].kind;
        let query = self.queries.get_mut(&task.ticket);
        let mut slice = Slice {
            since: now,
            task,
            query: None,
            preparation: Preparation::Reuse,
        };
        let mut first = false;
        if let Some(query) = query {
            first = !std::mem::replace(&mut query.started, true);
            self.started += usize::from(first);
            query.newest = now;
            query.imported |= kind == StageKind::Import;
            query.rebuilt |= kind == StageKind::Reconstruct;
            slice.query = Some(query.index);
            slice.preparation = match (query.imported, query.rebuilt) {
                (false, false) => Preparation::Reuse,
                (true, false) => Preparation::Import,
                (false, true) => Preparation::Reconstruct,
                (true, true) => Preparation::ImportAndReconstruct,
            };
        }
        if kind == StageKind::QueryPrefill {
            // A prefill starts on exactly its version's context.
            self.holds(world, lane, task.stream, task.version, task.context.into());
        }
        self.running[lane.0 as usize] = Some(slice);
        first
    }

    /// A lane's task ended, a decode after `generated` tokens: what it returns has these for its size, not the most
    /// that it was allowed.
    pub(crate) fn stopped(
        &mut self,
        world: &World,
        now: Instant,
        lane: LaneId,
        generated: u32,
    ) -> Option<Slice> {
        let mut slice = self.running[lane.0 as usize].take()?;
        let kind = world.stages[slice.task.stage.0 as usize].kind;
        if kind == StageKind::Decode {
            slice.task.size = generated;
        }
        let task = slice.task;
        // What an ingest leaves is known once its version is published: older frames go then.
        if kind == StageKind::Reconstruct {
            let tokens = u64::from(task.context) + u64::from(task.size);
            self.holds(world, lane, task.stream, task.version, tokens);
        }
        if kind == StageKind::Ingest {
            self.ingested[task.stream.0 as usize] = Some(Ingested {
                version: task.version,
                place: Published {
                    lane,
                    since: slice.since,
                    at: now,
                },
            });
        }
        Some(slice)
    }

    /// Lanes that run.
    pub(crate) fn lanes_running(&self) -> impl Iterator<Item = LaneId> {
        let lanes = self.running.iter().enumerate();
        lanes.filter_map(|(lane, slice)| slice.is_some().then_some(LaneId(lane as u8)))
    }

    /// A lane failed, with what it ran.
    pub(crate) fn failed(&mut self, lane: LaneId) -> Option<Slice> {
        self.running[lane.0 as usize].take()
    }

    /// A lane's engine has the context of a version; of an older one than it holds, nothing stays.
    fn holds(&mut self, world: &World, lane: LaneId, stream: StreamId, version: u32, tokens: u64) {
        let engine = world.engine_of(lane);
        let held = &mut self.resident[engine.0 as usize][stream.0 as usize];
        if self.reuse && version >= held.0 {
            *held = (version, tokens);
        }
    }

    /// A version of `tokens` was published: what nobody can read any more is forgotten. Says where it was made, if an
    /// ingest made it.
    pub(crate) fn publish(
        &mut self,
        world: &World,
        stream: StreamId,
        version: u32,
        tokens: u32,
    ) -> Option<LaneId> {
        let index = stream.0 as usize;
        let made = self.ingested[index].filter(|made| made.version == version);
        if let Some(made) = made {
            self.versions[index].insert(version, made.place);
            self.holds(world, made.place.lane, stream, version, tokens.into());
        }
        let read = self.readers[index].keys().next().copied();
        let oldest = read.unwrap_or(version).min(version);
        self.versions[index] = self.versions[index].split_off(&oldest);
        made.map(|made| made.place.lane)
    }

    /// Where a version was completed, if an ingest did.
    pub(crate) fn published(&self, stream: StreamId, version: u32) -> Option<Published> {
        self.versions[stream.0 as usize].get(&version).copied()
    }

    /// A stream left an engine.
    pub(crate) fn evicted(&mut self, engine: EngineId, stream: StreamId) {
        self.resident[engine.0 as usize][stream.0 as usize] = (0, 0);
    }

    /// Tokens of contexts that an engine holds.
    pub(crate) fn resident_tokens(&self, engine: EngineId) -> u64 {
        let held = &self.resident[engine.0 as usize];
        held.iter().map(|(_, tokens)| tokens).sum()
    }
}
