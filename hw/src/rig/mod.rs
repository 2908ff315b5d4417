//! The live executor: the scheduler's tasks on threads, one a lane, and real time.
//!
//! A [`Rig`] is to real engines what [`sim::soc::Soc`] is to cost tables: [`sim::drive::drive`] runs the
//! same scheduler over either, from the same workload. The rig decides nothing. It releases arrivals at
//! their times, hands tasks to lanes, and turns whatever becomes of them into inputs.
//!
//! # Time
//!
//! An input carries the time at which it happened: the scheduled arrival, the end that the lane's thread
//! read off the clock. The driver learns of it a little later, and how much later is [`Lateness`], a
//! value like any other result. Of all that is known to have happened, the earliest goes first; at one
//! instant, in the simulated SoC's order. What is learnt after something later was handled is given that later time, so
//! time never falls.
//!
//! # Failure
//!
//! A lane fails if its engine returns an error, panics, or runs past the task deadline. It then gets no
//! more work; the scheduler learns [`Input::Fail`] and sends its work elsewhere or refuses it. The trace
//! holds that input, and [`Outcome::failures`] the reason.

mod life;
mod outcome;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::thread::JoinHandle;

use sim::dispatch::{Effect, Input, Task};
use sim::drive::Executor;
use sim::spec::model::StageKind;
use sim::time::{Duration, Instant};
use sim::workload::Workload;
use sim::world::{EngineId, LaneId, StreamId, World};

pub use self::outcome::{Answer, Failure, Lateness, Outcome, StartError};
use crate::cancel::Signal;
use crate::clock::Clock;
pub use crate::clock::Pace;
use crate::cpu_time::CpuTime;
use crate::engine::{Done, EngineError, Notice, Order};
use crate::tickets::Tickets;
use crate::worker::{Mailbox, Message, Report};

/// How a rig runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Replication of the scenario's workload.
    pub run: u32,
    /// How time passes.
    pub pace: Pace,
    /// Longest time that a task may take, in the scenario's time; then its lane is out of service.
    pub task_deadline: Duration,
    /// Longest real time to wait for lanes to end, when the rig is shut down.
    pub grace: std::time::Duration,
}

impl Default for Options {
    /// Run 0 in real time; ten minutes a task, ten seconds to end.
    fn default() -> Self {
        Self {
            run: 0,
            pace: Pace::Wall { speed: 1.0 },
            task_deadline: Duration::from_secs_f64(600.0),
            grace: std::time::Duration::from_secs(10),
        }
    }
}

/// A task on its lane.
#[derive(Clone, Copy, Debug)]
struct Running {
    order: Order,
    began: Instant,
    deadline: Instant,
}

#[derive(Debug)]
struct Lane {
    engine: EngineId,
    /// `None`: out of service, or shut down.
    messages: Option<SyncSender<Message>>,
    signal: Arc<Signal>,
    thread: Option<JoinHandle<()>>,
    running: Option<Running>,
    /// What it told, and the driver has not handled.
    ended: Option<(Instant, Result<Done, EngineError>)>,
    /// Until when it waits for a stepped clock.
    waits: Option<Instant>,
    /// A wake-up is under way.
    woken: bool,
}

impl Lane {
    fn is_working(&self) -> bool {
        self.running.is_some() && self.ended.is_none()
    }
}

/// Real engines under the scheduler.
#[derive(Debug)]
pub struct Rig<'w> {
    world: &'w World,
    workload: Workload,
    clock: Clock,
    task_deadline: Duration,
    grace: std::time::Duration,
    lanes: Vec<Lane>,
    mailboxes: Vec<Arc<Mailbox>>,
    reports: Receiver<Report>,
    tickets: Tickets<'w>,
    /// Time of the last input.
    last: Instant,
    outcome: Outcome,
    /// When the clock started.
    cpu_time: Option<CpuTime>,
}

impl Rig<'_> {
    fn note(&mut self, report: Report) {
        match report {
            Report::Entered { .. } => {}
            // A lane that was given up has nothing more to say.
            Report::Waits { lane, until } => {
                let lane = &mut self.lanes[lane.0 as usize];
                lane.waits = lane.messages.is_some().then_some(until);
            }
            Report::Ended { lane, at, outcome } => {
                let lane = &mut self.lanes[lane.0 as usize];
                lane.ended = lane.messages.is_some().then_some((at, outcome));
            }
        }
    }

    /// Whether every lane that works waits for the stepped clock.
    fn all_settled(&self) -> bool {
        self.lanes
            .iter()
            .all(|lane| !lane.is_working() || lane.waits.is_some())
    }

    /// The earliest that is known to have happened by `now`. At one instant ends go before arrivals, and
    /// what began at that instant ends after all else, as in the simulated SoC.
    fn earliest(&self, now: Instant) -> Option<(Instant, Happened)> {
        let mut first: Option<((Instant, u8), Happened)> = None;
        let mut offer = |at: Instant, order: u8, what| {
            if first.is_none_or(|(earliest, _)| (at, order) < earliest) {
                first = Some(((at, order), what));
            }
        };
        if let Some(at) = self.workload.peek()
            && at <= now
        {
            offer(at, 1, Happened::Arrival);
        }
        for (index, lane) in self.lanes.iter().enumerate() {
            if let Some((at, _)) = lane.ended {
                let at_once = lane.running.is_some_and(|running| running.began == at);
                offer(at, if at_once { 2 } else { 0 }, Happened::End(index));
            } else if let Some(Running { deadline, .. }) = lane.running
                && deadline <= now
            {
                offer(deadline, 3, Happened::Deadline(index));
            }
        }
        first.map(|((at, _), what)| (at, what))
    }

    /// When something will happen even if no lane ends; `None`: never.
    fn ahead(&self) -> Option<Instant> {
        let deadlines = self
            .lanes
            .iter()
            .filter(|lane| lane.is_working())
            .filter_map(|lane| lane.running)
            .map(|running| running.deadline);
        deadlines.chain(self.workload.peek()).min()
    }

    /// Waits until a lane says something, or until `at`.
    fn wait(&mut self, at: Instant) {
        if self.clock.is_stepped() && self.all_settled() {
            let waits = self.lanes.iter().filter_map(|lane| lane.waits);
            let to = waits.chain([at]).min().unwrap_or(at);
            self.clock.step_to(to);
            for lane in &mut self.lanes {
                if lane.waits.is_some_and(|until| until <= to) {
                    lane.waits = None;
                    lane.signal.wake();
                }
            }
            return;
        }
        let real = if self.clock.is_stepped() {
            None
        } else {
            self.clock.until(at)
        };
        let report = match real {
            Some(real) => self.reports.recv_timeout(real),
            None => self.reports.recv().map_err(RecvTimeoutError::from),
        };
        match report {
            Ok(report) => self.note(report),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => self.all_gone(real),
        }
    }

    /// No thread is left, so no lane will end what it runs.
    fn all_gone(&mut self, until: Option<std::time::Duration>) {
        let now = self.clock.now();
        let mut any = false;
        for lane in &mut self.lanes {
            if lane.is_working() {
                any = true;
                let gone = EngineError::Crashed("its thread is gone".into());
                lane.ended = Some((now, Err(gone)));
            }
        }
        // Only arrivals are ahead, and nobody interrupts the wait for them.
        if !any && let Some(until) = until {
            std::thread::sleep(until);
        }
    }

    fn end(&mut self, index: usize, outcome: Result<Done, EngineError>) -> Input {
        let id = LaneId(index as u8);
        let lane = &mut self.lanes[index];
        lane.woken = false;
        lane.waits = None;
        let order = lane.running.take().map(|running| running.order);
        let done = match (outcome, &order) {
            (Ok(done), Some(order)) => keeps_contract(order, &done).map(|()| done),
            (Ok(_), None) => Err(EngineError::Contract("it ended what it did not run".into())),
            (Err(error), _) => Err(error),
        };
        match (done, order) {
            (Ok(done), Some(order)) => self.finish(id, &order, &done),
            (Err(error), order) => self.fail(id, order, error),
            (Ok(_), None) => unreachable!("an end without a task is an error"),
        }
    }

    fn finish(&mut self, lane: LaneId, order: &Order, done: &Done) -> Input {
        let generates = matches!(order.kind, StageKind::QueryPrefill | StageKind::Decode);
        if generates {
            // It may have begun once before, on a lane that failed.
            let anew = order.kind == StageKind::QueryPrefill;
            self.tickets
                .generated(order.task.ticket, anew, &done.tokens);
        }
        Input::Finish {
            lane,
            tokens: if order.kind == StageKind::Decode {
                done.tokens.len() as u32
            } else {
                0
            },
            bytes: done.bytes,
            nanojoules: done.nanojoules,
        }
    }

    fn fail(&mut self, id: LaneId, order: Option<Order>, error: EngineError) -> Input {
        let lane = &mut self.lanes[id.0 as usize];
        lane.messages = None;
        lane.ended = None;
        lane.waits = None;
        lane.running = None;
        lane.signal.cancel();
        self.outcome.failures.push(Failure {
            at: self.last,
            lane: id,
            order,
            error,
        });
        Input::Fail { lane: id }
    }

    fn send(&mut self, now: Instant, id: LaneId, task: &Task) {
        let order = self.tickets.order(task);
        let deadline = now.max(self.clock.now()) + self.task_deadline;
        let lane = &mut self.lanes[id.0 as usize];
        debug_assert!(lane.running.is_none(), "INV-3: lane {} is busy", id.0);
        lane.running = Some(Running {
            order,
            began: now,
            deadline,
        });
        let sent = lane
            .messages
            .as_ref()
            .is_some_and(|messages| messages.try_send(Message::Work(order)).is_ok());
        if !sent && lane.ended.is_none() {
            let gone = EngineError::Crashed("its thread is gone".into());
            lane.ended = Some((now, Err(gone)));
        }
    }

    /// Tells a processor's store, or all.
    fn post(&mut self, only: Option<EngineId>, notice: Notice) {
        for (index, mailbox) in self.mailboxes.iter().enumerate() {
            let engine = EngineId(index as u8);
            let serves = |lane: &Lane| lane.engine == engine && lane.messages.is_some();
            // Nobody reads the mail of a processor that is out of service.
            if only.is_some_and(|only| only != engine) || !self.lanes.iter().any(serves) {
                continue;
            }
            mailbox.post(notice);
            if matches!(notice, Notice::Published { .. }) {
                continue;
            }
            // Memory is given back now if a lane is idle, and before the next task if not.
            let mut lanes = self.lanes.iter_mut();
            if let Some(lane) = lanes.find(|lane| serves(lane) && lane.running.is_none())
                && !lane.woken
                && let Some(messages) = &lane.messages
            {
                lane.woken = messages.try_send(Message::Wake).is_ok();
            }
        }
    }

    /// A frame or query is over.
    fn over(&mut self, stream: StreamId, ticket: u32) {
        let item = self.tickets.free(ticket);
        self.post(
            None,
            Notice::Ended {
                stream,
                ticket,
                item,
            },
        );
    }
}

/// What may have happened next.
#[derive(Clone, Copy, Debug)]
enum Happened {
    End(usize),
    Arrival,
    Deadline(usize),
}

/// Whether a task came to what its kind must come to.
fn keeps_contract(order: &Order, done: &Done) -> Result<(), EngineError> {
    let count = done.tokens.len();
    let right = match order.kind {
        StageKind::QueryPrefill => count == 1,
        StageKind::Decode => count <= order.task.size as usize,
        _ => count == 0,
    };
    if right {
        return Ok(());
    }
    Err(EngineError::Contract(format!(
        "{count} tokens came of a {:?} of size {}",
        order.kind, order.task.size
    )))
}

impl Executor for Rig<'_> {
    fn next(&mut self) -> Option<(Instant, Input)> {
        loop {
            while let Ok(report) = self.reports.try_recv() {
                self.note(report);
            }
            let stepped = self.clock.is_stepped();
            let now = self.clock.now();
            if (!stepped || self.all_settled())
                && let Some((at, what)) = self.earliest(now)
            {
                let late = now.saturating_since(at);
                self.last = self.last.max(at);
                let input = match what {
                    Happened::End(index) => {
                        self.outcome.ends.add(late);
                        let (_, outcome) = self.lanes[index].ended.take()?;
                        self.end(index, outcome)
                    }
                    Happened::Arrival => {
                        self.outcome.arrivals.add(late);
                        let (_, arrival) = self.workload.pop()?;
                        self.tickets.arrive(arrival)
                    }
                    Happened::Deadline(index) => {
                        let order = self.lanes[index].running.map(|running| running.order);
                        let limit = std::time::Duration::from_nanos(self.task_deadline.0);
                        self.fail(LaneId(index as u8), order, EngineError::Deadline(limit))
                    }
                };
                return Some((self.last, input));
            }
            self.wait(self.ahead()?);
        }
    }

    fn apply(&mut self, now: Instant, effect: &Effect) {
        match *effect {
            Effect::Start { lane, task } => self.send(now, lane, &task),
            Effect::Publish {
                stream,
                version,
                ticket,
                ..
            } => {
                let item = match ticket {
                    Some(ticket) => self.tickets.free(ticket),
                    None => self.tickets.joining(stream, version),
                };
                self.outcome.published.push((stream, item));
                self.post(
                    None,
                    Notice::Published {
                        stream,
                        version,
                        item,
                    },
                );
            }
            Effect::Evict { engine, stream, .. } => {
                self.post(Some(engine), Notice::Evicted { stream });
            }
            Effect::Complete(done) => {
                let tokens = self.tickets.answered(&done);
                self.outcome.answers.push(Answer {
                    completion: done,
                    tokens,
                });
                self.over(done.stream, done.ticket);
                self.workload.answered(done.stream, now);
            }
            Effect::Refuse {
                ticket,
                stream,
                query,
                ..
            } => {
                self.over(stream, ticket);
                if query {
                    self.workload.refused(stream, now);
                }
            }
            Effect::Abandon { stream, .. } => self.tickets.abandoned(stream),
            Effect::Bind { .. } => {}
        }
    }
}
