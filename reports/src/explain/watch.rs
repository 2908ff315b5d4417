//! What is written down of one request while the run goes on.

use std::sync::{Arc, Mutex};

use sim::dispatch::policy::{Decision, Policy, Request, View};
use sim::dispatch::{Completion, Effect, Estimate, Input, Reason, Task};
use sim::drive::Sink;
use sim::simulation::Pace;
use sim::spec::model::StageKind;
use sim::spec::scenario::StateTransfer;
use sim::time::{Duration, Instant};
use sim::world::{EngineId, LANES_MAX, LaneId, StreamId, World};

use crate::perfetto::book::Book;

/// The policy was asked where the request should go.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) at: Instant,
    /// What it could know of each lane that may answer.
    pub(crate) candidates: Vec<(LaneId, Estimate)>,
    pub(crate) decision: Decision,
}

/// Every time that the policy was asked for one request.
#[derive(Debug)]
pub(crate) struct Log {
    stream: StreamId,
    index: u32,
    pub(crate) asked: Vec<Asked>,
}

impl Log {
    pub(crate) fn of(stream: StreamId, index: u32) -> Self {
        Self {
            stream,
            index,
            asked: Vec::new(),
        }
    }
}

/// A policy that decides as another does, and writes down what it was asked of one request.
///
/// Every method is passed on; a test holds the run with it against the run without.
#[derive(Debug)]
pub(crate) struct Watching {
    inner: Box<dyn Policy>,
    log: Arc<Mutex<Log>>,
}

impl Watching {
    pub(crate) fn new(inner: Box<dyn Policy>, log: Arc<Mutex<Log>>) -> Self {
        Self { inner, log }
    }
}

impl Policy for Watching {
    fn rank(&self, view: &View<'_>, request: Request) -> u64 {
        self.inner.rank(view, request)
    }

    fn place(&mut self, view: &View<'_>, request: Request) -> Decision {
        let decision = self.inner.place(view, request);
        if let Ok(mut log) = self.log.lock()
            && (log.stream, log.index) == (view.stream(request), view.index(request))
        {
            let lanes = view.answer_lanes();
            let candidates = lanes.map(|lane| (lane, view.estimate(request, lane)));
            log.asked.push(Asked {
                at: view.now(),
                candidates: candidates.collect(),
                decision,
            });
        }
        decision
    }

    fn ingest(&mut self, view: &View<'_>, item: Request) -> Option<LaneId> {
        self.inner.ingest(view, item)
    }

    fn transfer(&self) -> Option<StateTransfer> {
        self.inner.transfer()
    }

    fn serial(&self) -> bool {
        self.inner.serial()
    }

    fn only_lane(&self) -> Option<LaneId> {
        self.inner.only_lane()
    }

    fn reset(&mut self) {
        self.inner.reset();
    }
}

/// A stage of the request, with its slowdown over time.
#[derive(Clone, Debug)]
pub(super) struct Ran {
    pub(super) lane: LaneId,
    pub(super) task: Task,
    pub(super) since: Instant,
    /// Newest version of the request's stream then.
    pub(super) newest: u32,
    /// When it ended, and its time alone; absent if it failed.
    pub(super) ended: Option<(Instant, Duration)>,
    pub(super) pace: Vec<Stretch>,
}

/// A time in which the slowdown and what ran beside it stayed the same.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stretch {
    pub(super) until: Instant,
    pub(super) slowdown: f64,
    /// Throttle steps in force.
    pub(super) throttled: u8,
    pub(super) beside: Vec<(LaneId, Task)>,
}

/// A stage of another request or of a frame that ran while the request was in the system.
#[derive(Clone, Copy, Debug)]
pub(super) struct Other {
    pub(super) lane: LaneId,
    pub(super) task: Task,
    /// Its start, or the request's arrival if that was later.
    pub(super) since: Instant,
    /// Its end; absent if the run ended first.
    pub(super) until: Option<Instant>,
}

/// How the request ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Answered(Completion, Instant),
    Refused(Reason, Instant),
}

/// What was seen of the request.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) stream: StreamId,
    pub(super) index: u32,
    pub(super) arrived: Instant,
    pub(super) prompt: u32,
    pub(super) predicted: u32,
    pub(super) max_output: u32,
    pub(super) deadline: Option<Instant>,
    /// Other queries that waited and that were being answered when it came.
    pub(super) others: (usize, usize),
    /// What ran then.
    pub(super) running: Vec<(LaneId, Task)>,
    pub(super) version: Option<u32>,
    /// Frames of its stream that had arrived when it was bound.
    pub(super) frames: u32,
    pub(super) published: Option<Instant>,
    /// Tokens of its version, once published.
    pub(super) context: Option<u32>,
    pub(super) stages: Vec<Ran>,
    /// Contexts that left an engine until it ended: when, which engine, whose, tokens; of its own stream also
    /// what had not come back when it came.
    pub(super) evicted: Vec<(Instant, EngineId, StreamId, u32)>,
    /// Throttle steps in force when it came.
    pub(super) throttled: u8,
    /// What else ran until it ended.
    pub(super) beside: Vec<Other>,
    pub(super) end: Option<End>,
}

/// The sink that sees it.
#[derive(Debug)]
pub(super) struct Watcher<'w> {
    world: &'w World,
    pace: &'w Pace,
    book: Book,
    ticket: Option<u32>,
    throttled: u8,
    running: [Option<Task>; LANES_MAX],
    /// Versions of its stream: when each was published, and its tokens.
    versions: Vec<(u32, Instant, u32)>,
    /// Frames of its stream that arrived.
    frames: u32,
    pub(super) seen: Seen,
}

impl<'w> Watcher<'w> {
    pub(super) fn new(world: &'w World, pace: &'w Pace, stream: StreamId, index: u32) -> Self {
        Self {
            world,
            pace,
            book: Book::new(world),
            ticket: None,
            throttled: 0,
            running: [None; LANES_MAX],
            versions: Vec::new(),
            frames: 0,
            seen: Seen {
                stream,
                index,
                arrived: Instant::ZERO,
                prompt: 0,
                predicted: 0,
                max_output: 0,
                deadline: None,
                others: (0, 0),
                running: Vec::new(),
                version: None,
                frames: 0,
                published: None,
                context: None,
                stages: Vec::new(),
                evicted: Vec::new(),
                throttled: 0,
                beside: Vec::new(),
                end: None,
            },
        }
    }

    fn runs(&self, but: Option<LaneId>) -> Vec<(LaneId, Task)> {
        let lanes = (0..self.world.lanes.len() as u8).map(LaneId);
        lanes
            .filter(|lane| Some(*lane) != but)
            .filter_map(|lane| Some((lane, self.running[lane.0 as usize]?)))
            .collect()
    }

    /// Notes how its running stages went since the last event.
    fn stretch(&mut self, now: Instant) {
        for at in 0..self.seen.stages.len() {
            let stage = &self.seen.stages[at];
            let lane = stage.lane;
            let running = self.running[lane.0 as usize] == Some(stage.task);
            let from = stage.pace.last().map_or(stage.since, |last| last.until);
            if stage.ended.is_some() || !running || now <= from {
                continue;
            }
            let slowdown = self.pace.of(lane).slowdown;
            let throttled = self.throttled;
            let beside = self.runs(Some(lane));
            let pace = &mut self.seen.stages[at].pace;
            match pace.last_mut() {
                Some(last)
                    if (last.slowdown, last.throttled) == (slowdown, throttled)
                        && last.beside == beside =>
                {
                    last.until = now;
                }
                _ => pace.push(Stretch {
                    until: now,
                    slowdown,
                    throttled,
                    beside,
                }),
            }
        }
    }

    fn ends(&mut self, now: Instant, lane: LaneId, failed: bool) {
        let task = self.running[lane.0 as usize].take();
        let alone = self.pace.of(lane).alone;
        let mut others = self.seen.beside.iter_mut().rev();
        if let Some(other) = others.find(|other| other.lane == lane && other.until.is_none()) {
            other.until = Some(now);
        }
        let mut stages = self.seen.stages.iter_mut();
        if let Some(stage) = stages
            .find(|stage| stage.lane == lane && stage.ended.is_none() && Some(stage.task) == task)
            && !failed
        {
            stage.ended = Some((now, alone));
        }
    }
}

impl Sink for Watcher<'_> {
    fn input(&mut self, now: Instant, input: &Input) {
        self.stretch(now);
        match *input {
            Input::Query {
                ticket,
                stream,
                index,
                prompt,
                predicted,
                max_output,
                deadline,
            } => {
                if (stream, index) == (self.seen.stream, self.seen.index) {
                    self.ticket = Some(ticket);
                    self.seen.arrived = now;
                    self.seen.prompt = prompt;
                    self.seen.predicted = predicted;
                    self.seen.max_output = max_output;
                    self.seen.deadline = deadline;
                    self.seen.throttled = self.throttled;
                    self.seen.others = self.book.requests();
                    self.seen.running = self.runs(None);
                    let running = self.seen.running.iter();
                    self.seen.beside = running
                        .map(|&(lane, task)| Other {
                            lane,
                            task,
                            since: now,
                            until: None,
                        })
                        .collect();
                }
                self.book.asked(ticket, stream, index);
            }
            Input::Finish { lane, tokens, .. } => {
                self.ends(now, lane, false);
                self.book.stopped(self.world, now, lane, tokens);
            }
            Input::Fail { lane } => {
                self.ends(now, lane, true);
                self.book.failed(lane);
            }
            Input::Throttle { level } => self.throttled = level,
            Input::Frame { stream, .. } => self.frames += u32::from(stream == self.seen.stream),
            Input::Close => {}
        }
    }

    fn effect(&mut self, now: Instant, effect: &Effect) {
        let own = |stream, index| (stream, index) == (self.seen.stream, self.seen.index);
        match *effect {
            Effect::Start { lane, task } => {
                self.book.started(self.world, now, lane, task);
                let kind = self.world.stages[task.stage.0 as usize].kind;
                let fills = matches!(
                    kind,
                    StageKind::Ingest | StageKind::Import | StageKind::Reconstruct
                );
                if self.ticket.is_none() && task.stream == self.seen.stream && fills {
                    let engine = self.world.engine_of(lane);
                    self.seen.evicted.retain(|(_, from, ..)| *from != engine);
                }
                self.running[lane.0 as usize] = Some(task);
                let in_system = self.ticket.is_some() && self.seen.end.is_none();
                if in_system && Some(task.ticket) != self.ticket {
                    self.seen.beside.push(Other {
                        lane,
                        task,
                        since: now,
                        until: None,
                    });
                } else if in_system {
                    self.seen.stages.push(Ran {
                        lane,
                        task,
                        since: now,
                        newest: self.versions.last().map_or(0, |(version, ..)| *version),
                        ended: None,
                        pace: Vec::new(),
                    });
                }
            }
            Effect::Bind {
                stream,
                index,
                version,
            } if own(stream, index) => {
                self.seen.version = Some(version);
                self.seen.frames = self.frames;
                let known = self.versions.iter().rfind(|(known, ..)| *known == version);
                self.seen.published = known.map(|(_, at, _)| *at);
                self.seen.context = match version {
                    0 => Some(self.world.model.system_tokens),
                    _ => known.map(|(.., tokens)| *tokens),
                };
            }
            Effect::Publish {
                stream,
                version,
                tokens,
                ..
            } if stream == self.seen.stream => {
                self.versions.push((version, now, tokens));
                if self.seen.version == Some(version) && self.seen.published.is_none() {
                    self.seen.published = Some(now);
                    self.seen.context = Some(tokens);
                }
            }
            Effect::Evict {
                engine,
                stream,
                tokens,
            } if self.seen.end.is_none()
                && (self.ticket.is_some() || stream == self.seen.stream) =>
            {
                self.seen.evicted.push((now, engine, stream, tokens));
            }
            Effect::Complete(done) => {
                self.book.ended(done.ticket);
                if own(done.stream, done.index) {
                    self.seen.end = Some(End::Answered(done, now));
                }
            }
            Effect::Refuse {
                ticket,
                stream,
                index,
                query: true,
                reason,
                ..
            } => {
                self.book.ended(ticket);
                if own(stream, index) {
                    self.seen.end = Some(End::Refused(reason, now));
                }
            }
            _ => {}
        }
    }
}
