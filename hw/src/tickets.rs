//! The frames and queries in the system, by the ticket that the scheduler knows them by.

use std::collections::VecDeque;

use sim::dispatch::{Completion, Input, Task};
use sim::spec::model::StageKind;
use sim::workload::Arrival;
use sim::world::{StreamId, World};

use crate::engine::{Item, Order, Owner};

/// Ticket of a task that the executor has no ticket for: an answer that joins the history.
const NO_TICKET: u32 = u32::MAX;

/// A frame or query in the system.
#[derive(Clone, Debug)]
struct Held {
    item: Item,
    noise: u64,
    tokens: Vec<u32>,
}

/// Answers of one stream that have not joined its context yet.
#[derive(Clone, Debug, Default)]
struct Joins {
    /// Query and tokens, in order of the queries: so they join.
    waiting: VecDeque<(u32, u32)>,
    /// The version that is being made, and of what.
    current: Option<(u32, Item)>,
}

/// What the driver knows of frames and queries, and the scheduler need not.
#[derive(Debug)]
pub(crate) struct Tickets<'w> {
    world: &'w World,
    held: Vec<Held>,
    free: Vec<u32>,
    joins: Vec<Joins>,
}

impl<'w> Tickets<'w> {
    pub(crate) fn new(world: &'w World) -> Self {
        Self {
            world,
            held: Vec::new(),
            free: Vec::new(),
            joins: vec![Joins::default(); world.streams.len()],
        }
    }

    fn admit(&mut self, item: Item, noise: u64) -> u32 {
        let held = Held {
            item,
            noise,
            tokens: Vec::new(),
        };
        if let Some(ticket) = self.free.pop() {
            self.held[ticket as usize] = held;
            ticket
        } else {
            self.held.push(held);
            self.held.len() as u32 - 1
        }
    }

    /// What the scheduler is told of an arrival.
    pub(crate) fn arrive(&mut self, arrival: Arrival) -> Input {
        match arrival {
            Arrival::Frame {
                stream,
                index,
                tokens,
                noise,
            } => {
                let ticket = self.admit(Item::Frame { index, tokens }, noise);
                Input::Frame {
                    ticket,
                    stream,
                    index,
                    tokens,
                }
            }
            Arrival::Query {
                stream,
                index,
                prompt,
                output,
                predicted,
                max_output,
                deadline,
                noise,
            } => {
                let index = index as u32;
                let item = Item::Query {
                    index,
                    prompt,
                    output,
                };
                let ticket = self.admit(item, noise);
                Input::Query {
                    ticket,
                    stream,
                    index,
                    prompt,
                    predicted,
                    max_output,
                    deadline,
                }
            }
        }
    }

    /// Gives a ticket back, and says whose it was.
    pub(crate) fn free(&mut self, ticket: u32) -> Item {
        self.free.push(ticket);
        self.held[ticket as usize].item
    }

    /// Keeps tokens of an answer; `anew`: they are its first.
    pub(crate) fn generated(&mut self, ticket: u32, anew: bool, tokens: &[u32]) {
        let own = &mut self.held[ticket as usize].tokens;
        if anew {
            own.clear();
        }
        own.extend_from_slice(tokens);
    }

    /// Takes the tokens of a complete answer, which may now join its context.
    pub(crate) fn answered(&mut self, done: &Completion) -> Vec<u32> {
        if done.joins {
            let waiting = &mut self.joins[done.stream.0 as usize].waiting;
            let at = waiting.partition_point(|&(query, _)| query < done.index);
            waiting.insert(at, (done.index, done.prompt + done.output));
        }
        std::mem::take(&mut self.held[done.ticket as usize].tokens)
    }

    /// A task, with what the scheduler does not say of it.
    pub(crate) fn order(&mut self, task: &Task) -> Order {
        let kind = self.world.stages[task.stage.0 as usize].kind;
        let (item, noise) = if task.ticket == NO_TICKET {
            // As simulated: the noise of an answer that joins is its version's.
            let noise = (u64::from(task.stream.0) << 32) | u64::from(task.version);
            (self.joining(task.stream, task.version), noise)
        } else {
            let held = &self.held[task.ticket as usize];
            (held.item, held.noise)
        };
        let is_query = matches!(item, Item::Query { .. });
        let alone = !self.world.modes.context_reuse || kind == StageKind::Decode;
        Order {
            task: *task,
            kind,
            item,
            reads: if is_query {
                task.version
            } else {
                task.version.saturating_sub(1)
            },
            owner: if is_query && alone {
                Owner::Request(task.ticket)
            } else {
                Owner::Stream(task.stream)
            },
            noise,
        }
    }

    /// The answer that makes `version`: the one to the oldest question that has not joined.
    pub(crate) fn joining(&mut self, stream: StreamId, version: u32) -> Item {
        let joins = &mut self.joins[stream.0 as usize];
        if let Some((made, item)) = joins.current
            && made == version
        {
            return item;
        }
        let Some((query, tokens)) = joins.waiting.pop_front() else {
            unreachable!(
                "version {version} of stream {} is no one's answer",
                stream.0
            )
        };
        let item = Item::Answer { query, tokens };
        joins.current = Some((version, item));
        item
    }

    /// No answer of a stream joins its context any more.
    pub(crate) fn abandoned(&mut self, stream: StreamId) {
        self.joins[stream.0 as usize].waiting.clear();
    }
}
