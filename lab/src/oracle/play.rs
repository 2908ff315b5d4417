//! How a replay goes: what of each request has arrived, run and ended.

use std::collections::BTreeMap;

use sim::dispatch::{Effect, Input};
use sim::drive::Sink;
use sim::time::Instant;
use sim::world::{LANES_MAX, LaneId};

use super::Objective;
use super::case::Case;

/// A request within a replay.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    pub(super) arrived: Option<u64>,
    /// The lane that the search has placed it on.
    pub(super) placed: Option<LaneId>,
    /// The lane that runs its bound stages, from when the first of them starts, and that start.
    pub(super) lane: Option<LaneId>,
    pub(super) begun: u64,
    /// How many of its bound stages have ended.
    pub(super) done: usize,
    /// First token, and last.
    pub(super) first: Option<u64>,
    pub(super) last: Option<u64>,
}

/// A replay so far.
#[derive(Clone, Debug)]
pub(super) struct Play {
    pub(super) now: u64,
    pub(super) requests: Vec<Progress>,
    /// The request whose bound stage a lane runs.
    pub(super) runs: [Option<usize>; LANES_MAX],
    /// What is left of each lane's stage, ns alone, when the input that is being handled came.
    pub(super) left: [f64; LANES_MAX],
    /// Place of each ticket's request.
    of_ticket: BTreeMap<u32, usize>,
    /// Queries that the case does not have.
    pub(super) unknown: usize,
}

impl Play {
    pub(super) fn new(requests: usize) -> Self {
        Self {
            now: 0,
            requests: vec![Progress::default(); requests],
            runs: [None; LANES_MAX],
            left: [0.0; LANES_MAX],
            of_ticket: BTreeMap::new(),
            unknown: 0,
        }
    }

    pub(super) fn reset(&mut self) {
        self.now = 0;
        self.requests.fill(Progress::default());
        self.runs = [None; LANES_MAX];
        self.of_ticket.clear();
        self.unknown = 0;
    }

    /// The objective, ns; `None` if a request was not answered.
    pub(super) fn value(&self, objective: Objective) -> Option<u64> {
        self.requests.iter().try_fold(0, |total: u64, request| {
            let (arrived, first, last) = (request.arrived?, request.first?, request.last?);
            Some(match objective {
                Objective::Completion => total + last - arrived,
                Objective::Ttft => total + first - arrived,
                Objective::Makespan => total.max(last),
            })
        })
    }

    /// Takes an input.
    pub(super) fn input(&mut self, case: &Case, now: Instant, input: &Input) {
        self.now = now.0;
        match input {
            Input::Query {
                ticket,
                stream,
                index,
                ..
            } => match case.place_of(stream.0, *index) {
                Some(at) => {
                    self.of_ticket.insert(*ticket, at);
                    self.requests[at].arrived = Some(now.0);
                }
                None => self.unknown += 1,
            },
            Input::Finish { lane, .. } => {
                if let Some(at) = self.runs[lane.0 as usize].take() {
                    let request = &mut self.requests[at];
                    request.done += 1;
                    if request.done == 1 {
                        request.first = Some(now.0);
                    }
                }
            }
            _ => {}
        }
    }

    /// Takes an effect.
    pub(super) fn effect(&mut self, case: &Case, now: Instant, effect: &Effect) {
        match effect {
            Effect::Start { lane, task } => {
                let bound = self
                    .of_ticket
                    .get(&task.ticket)
                    .copied()
                    .filter(|&at| case.requests[at].stages.contains(&task.stage));
                self.runs[lane.0 as usize] = bound;
                if let Some(at) = bound {
                    let request = &mut self.requests[at];
                    if request.lane.is_none() {
                        (request.lane, request.begun) = (Some(*lane), now.0);
                    }
                }
            }
            Effect::Complete(done) => {
                if let Some(at) = case.place_of(done.stream.0, done.index) {
                    self.requests[at].first = Some(done.first_token.0);
                    self.requests[at].last = Some(now.0);
                }
            }
            _ => {}
        }
    }
}

/// A run of a policy of its own, watched.
pub(super) struct Watched<'c> {
    pub(super) case: &'c Case,
    pub(super) play: Play,
}

impl Sink for Watched<'_> {
    fn input(&mut self, now: Instant, input: &Input) {
        self.play.input(self.case, now, input);
    }

    fn effect(&mut self, now: Instant, effect: &Effect) {
        self.play.effect(self.case, now, effect);
    }
}
