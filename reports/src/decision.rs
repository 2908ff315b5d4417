//! The decision map: which lane a policy picks for a query, over the backlog and the length of its context.
//!
//! The scheduler itself is asked, without executor: frames of one stream are ingested one after another
//! (nothing else runs), then queries of that stream come at one instant, and none of them ends. Where the
//! last one is placed is the cell's choice.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use sim::diag::Faults;
use sim::dispatch::policy::build;
use sim::dispatch::{Dispatcher, Effect, Effects, Input, Task};
use sim::drive::Sink;
use sim::simulation::Simulation;
use sim::time::{Duration, Instant};
use sim::world::{LaneId, StreamId, World};

use crate::detail::{Choices, Detail, Run};
use crate::explain::{Log, Watching};
use crate::plot::{Cell, Map};

/// Numbers of frames that are tried.
const FRAMES: [u32; 8] = [1, 2, 4, 6, 8, 16, 32, 64];
/// Queries that came just before.
const BACKLOG: [u32; 6] = [0, 1, 2, 3, 5, 8];
/// Between two frames: longer than any ingest takes here, so that estimates have passed.
const PAUSE: Duration = Duration(1_000_000_000_000);

/// A typical frame and query of a stream: the first of each in replication 0.
#[derive(Debug, Default)]
struct Typical {
    frames: BTreeMap<StreamId, Input>,
    queries: BTreeMap<StreamId, Input>,
}

impl Sink for Typical {
    fn input(&mut self, _: Instant, input: &Input) {
        match *input {
            Input::Frame { stream, .. } => _ = self.frames.entry(stream).or_insert(*input),
            Input::Query { stream, .. } => _ = self.queries.entry(stream).or_insert(*input),
            _ => {}
        }
    }

    fn effect(&mut self, _: Instant, _: &Effect) {}
}

/// What the world's policy picks for the first stream that has frames and queries; `None` without one.
///
/// # Errors
///
/// What the policy stops with.
pub fn choices(world: &World) -> Result<Option<Choices>, Faults> {
    let mut typical = Typical::default();
    Simulation::new(world).run_into(0, &mut typical)?;
    let both = typical.queries.iter().find_map(|(&stream, &query)| {
        let frame = *typical.frames.get(&stream)?;
        Some((stream, query, frame))
    });
    let Some((stream, query, frame)) = both else {
        return Ok(None);
    };
    let mut columns: Vec<(u32, Vec<Option<u8>>)> = Vec::new();
    for frames in FRAMES {
        let mut column = Vec::new();
        let mut tokens = None;
        for backlog in BACKLOG {
            let mut script = Script::new(world, stream, backlog);
            tokens = script.ingest(frame, frames)?;
            if tokens.is_none() {
                break;
            }
            column.push(script.ask(query, backlog)?);
        }
        // A longer history that the context does not keep, or cannot hold, is no new column.
        match tokens {
            Some(tokens) if columns.iter().all(|(known, _)| *known != tokens) => {
                columns.push((tokens, column));
            }
            _ => break,
        }
    }
    let rows = 0..BACKLOG.len();
    Ok((!columns.is_empty()).then(|| Choices {
        stream: stream.0,
        context: columns.iter().map(|(tokens, _)| *tokens).collect(),
        backlog: BACKLOG.to_vec(),
        lane: rows
            .map(|row| columns.iter().map(|(_, column)| column[row]).collect())
            .collect(),
    }))
}

/// A scheduler whose lanes do what is wanted when it is wanted.
struct Script<'w> {
    dispatcher: Dispatcher<'w>,
    log: Arc<Mutex<Log>>,
    effects: Effects,
    now: Instant,
    running: Vec<(LaneId, Task)>,
    /// Tokens of the newest version.
    published: Option<u32>,
    refused: bool,
}

impl<'w> Script<'w> {
    /// Nothing has come yet; the query number `wanted` of `stream` is watched.
    fn new(world: &'w World, stream: StreamId, wanted: u32) -> Self {
        let log = Arc::new(Mutex::new(Log::of(stream, wanted)));
        let policy = Watching::new(build(world), Arc::clone(&log));
        Self {
            dispatcher: Dispatcher::with_policy(world, Box::new(policy)),
            log,
            effects: Effects::new(),
            now: Instant::ZERO,
            running: Vec::new(),
            published: None,
            refused: false,
        }
    }

    fn handle(&mut self, input: Input) -> Result<(), Faults> {
        self.dispatcher.handle(self.now, input, &mut self.effects);
        if let Some(faults) = self.dispatcher.take_fault() {
            return Err(faults);
        }
        for effect in self.effects.drain() {
            match effect {
                Effect::Start { lane, task } => self.running.push((lane, task)),
                Effect::Publish { tokens, .. } => self.published = Some(tokens),
                Effect::Refuse { .. } => self.refused = true,
                _ => {}
            }
        }
        Ok(())
    }

    /// Ingests `count` frames; the tokens of the version that they make, `None` if one is refused or none
    /// is made.
    fn ingest(&mut self, frame: Input, count: u32) -> Result<Option<u32>, Faults> {
        let Input::Frame { stream, tokens, .. } = frame else {
            return Ok(None);
        };
        for index in 0..count {
            self.now += PAUSE;
            self.handle(Input::Frame {
                ticket: index,
                stream,
                index,
                tokens,
            })?;
            while let Some((lane, _)) = self.running.pop() {
                self.now += Duration(1_000_000);
                self.handle(Input::Finish {
                    lane,
                    tokens: 0,
                    bytes: 0,
                    nanojoules: 0,
                })?;
            }
        }
        self.now += PAUSE;
        Ok(self.published.filter(|_| !self.refused))
    }

    /// Asks `before` queries and one more; the lane that it goes to, `None` if it waits.
    fn ask(&mut self, query: Input, before: u32) -> Result<Option<u8>, Faults> {
        for number in 0..=before {
            let Input::Query {
                stream,
                prompt,
                predicted,
                max_output,
                ..
            } = query
            else {
                return Ok(None);
            };
            self.handle(Input::Query {
                ticket: 1_000_000 + number,
                stream,
                index: number,
                prompt,
                predicted,
                max_output,
                deadline: None,
            })?;
        }
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        // Policies that wait for an idle lane need not ask for those behind the first.
        let last = log.asked.last();
        Ok(last
            .and_then(|last| last.decision.lane())
            .map(|lane| lane.0))
    }
}

/// The choices as a map; `None` where there are none.
pub fn decision_map(detail: &Detail, run: &Run) -> Option<Map> {
    let choices = run.choices.as_ref()?;
    let stream = detail.streams.get(usize::from(choices.stream))?;
    let cell = |lane: &Option<u8>| {
        lane.map_or_else(
            || Cell::Empty("waits".into()),
            |lane| Cell::Choice(lane.into()),
        )
    };
    Some(Map {
        title: format!("{}: lane of a query of {stream}", run.policy),
        note: String::new(),
        x: "context, tokens".into(),
        y: "queries just before it".into(),
        columns: choices.context.iter().map(u32::to_string).collect(),
        rows: choices.backlog.iter().map(u32::to_string).collect(),
        cells: choices
            .lane
            .iter()
            .map(|row| row.iter().map(cell).collect())
            .collect(),
        names: detail.lanes.clone(),
        colours: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toy;

    fn of(policy: &str) -> Choices {
        let text = toy::scenario(0.2).replace("frames = 4", "frames = 16");
        let mut world = toy::world(&text);
        world.policy = sim::load::parse_policy(policy, &["cpu", "npu"]).expect("it is a policy");
        choices(&world)
            .expect("no policy stops")
            .expect("a stream has frames and queries")
    }

    #[test]
    fn a_single_lane_is_always_picked() {
        let choices = of("single:npu");
        assert_eq!(choices.context, [100, 200, 400, 600, 800, 1600]);
        assert!(choices.lane.iter().flatten().all(|lane| *lane == Some(1)));
    }

    #[test]
    fn turns_go_round_and_idle_first_waits_when_none_is_idle() {
        let turns = of("round_robin");
        for (row, backlog) in turns.lane.iter().zip(&turns.backlog) {
            assert!(row.iter().all(|lane| *lane == Some((backlog % 2) as u8)));
        }
        let idle = of("idle_first");
        for (row, backlog) in idle.lane.iter().zip(&idle.backlog) {
            assert!(row.iter().all(|lane| lane.is_none() == (*backlog >= 2)));
        }
    }

    #[test]
    fn a_longer_queue_drives_queries_to_the_other_lane() {
        let choices = of("state_aware");
        let column: Vec<Option<u8>> = choices.lane.iter().map(|row| row[0]).collect();
        assert!(
            column.contains(&Some(0)) && column.contains(&Some(1)),
            "{column:?}"
        );
    }
}
