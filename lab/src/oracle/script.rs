//! The policy that replays are played under: a path of decisions, or an order of requests on each lane.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sim::diag::Faults;
use sim::dispatch::policy::{Decision, Policy, Request, View};
use sim::dispatch::{Effect, Input};
use sim::drive::Sink;
use sim::simulation::Pace;
use sim::time::Instant;
use sim::world::LaneId;

use super::case::Case;
use super::play::Play;
use super::{Objective, ROUNDING_NS, TOLERANCE_NS};

/// A decision: its alternatives, and the one that is being tried.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    options: Vec<Option<LaneId>>,
    taken: usize,
}

/// By lane, places of requests in the order in which it takes them up.
pub(super) type Orders = Vec<Vec<usize>>;

/// What a replay does.
#[derive(Debug)]
pub(super) enum Plan {
    /// Follows the path, and lengthens it.
    Search {
        path: Vec<Choice>,
        /// Decisions of this replay so far.
        cursor: usize,
        /// Leaves out what cannot be better.
        prune: bool,
    },
    /// Keeps to these orders; with how many of each have been placed.
    Orders(Orders, Vec<usize>),
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) case: Arc<Case>,
    pub(super) plan: Plan,
    pub(super) play: Play,
    pub(super) objective: Objective,
    /// The least value found, ns.
    pub(super) best: Option<u64>,
    /// This replay cannot be better than the best.
    pub(super) cut: bool,
    /// The greatest bound of this replay, ns: its own value is no less.
    pub(super) floor: f64,
    /// When requests were last asked about, and those that waited since then or since one was placed, as bits.
    waits: (u64, u32),
}

impl State {
    pub(super) fn new(case: Arc<Case>, objective: Objective) -> Self {
        Self {
            plan: Plan::Orders(Vec::new(), Vec::new()),
            play: Play::new(case.requests.len()),
            case,
            objective,
            best: None,
            cut: false,
            floor: 0.0,
            waits: (0, 0),
        }
    }

    /// Back to the start of a replay.
    pub(super) fn rewind(&mut self) {
        self.cut = false;
        self.floor = 0.0;
        self.waits = (0, 0);
        self.play.reset();
        match &mut self.plan {
            Plan::Search { cursor, .. } => *cursor = 0,
            Plan::Orders(_, placed) => placed.fill(0),
        }
    }

    /// The last decision with an alternative takes it; those behind it are forgotten. False: none has.
    pub(super) fn next_path(&mut self) -> bool {
        let Plan::Search { path, .. } = &mut self.plan else {
            return false;
        };
        while let Some(choice) = path.last_mut() {
            choice.taken += 1;
            if choice.taken < choice.options.len() {
                return true;
            }
            path.pop();
        }
        false
    }

    /// The decision of the path, or the first of `options` at its end.
    fn decide(&mut self, options: impl FnOnce(&Self) -> Vec<Option<LaneId>>) -> Option<LaneId> {
        let Plan::Search {
            path,
            cursor,
            prune,
        } = &mut self.plan
        else {
            return None;
        };
        if let Some(choice) = path.get(*cursor) {
            *cursor += 1;
            return choice.options[choice.taken];
        }
        if *prune && let Some(best) = self.best {
            let least = self.case.least(&self.play, self.objective);
            self.floor = self.floor.max(least);
            if least - ROUNDING_NS + TOLERANCE_NS >= best as f64 {
                self.cut = true;
                return None;
            }
        }
        let options = options(self);
        let first = options[0];
        if let Plan::Search { path, cursor, .. } = &mut self.plan {
            path.push(Choice { options, taken: 0 });
            *cursor += 1;
        }
        first
    }

    fn prunes(&self) -> bool {
        matches!(self.plan, Plan::Search { prune: true, .. })
    }

    /// Whether a request that cannot be told from this one, and goes before it, has no lane yet.
    fn like_waits(&self, request: usize) -> bool {
        let like = self.case.requests[request].like;
        like.is_some_and(|like| self.play.requests[like].placed.is_none())
    }

    /// Whether another request arrives at this very instant: whoever waits until it has come may still start at it,
    /// so that deciding earlier would only be the same in other words.
    fn more_come_now(&self) -> bool {
        let now = self.play.now;
        let mut all = self.case.requests.iter().zip(&self.play.requests);
        self.case.queries_only
            && self.case.fixed
            && all.any(|(known, request)| request.arrived.is_none() && known.arrived == now)
    }

    /// Whether a request may wait as well: not if all others do, and nothing runs or comes, for then nothing would
    /// ever start again.
    fn may_wait(&self, view: &View<'_>, request: usize) -> bool {
        if !self.case.queries_only || !self.case.fixed || view.anything_running() {
            return true;
        }
        let others = self.play.requests.iter().enumerate();
        let mut others = others.filter(|(at, _)| *at != request);
        others.any(|(at, other)| match other.placed {
            // Placed at this instant, or in a queue behind something.
            Some(_) => other.lane.is_none(),
            // To come, or to be asked about yet.
            None => other.arrived.is_none() || self.waits.1 >> at & 1 == 0,
        })
    }

    /// Notes what became of a request.
    fn note(&mut self, request: usize, lane: Option<LaneId>) {
        let bit = 1 << request;
        if self.waits.0 != self.play.now || self.waits.1 & bit != 0 || lane.is_some() {
            // Another round has begun.
            self.waits = (self.play.now, 0);
        }
        match lane {
            Some(_) => self.play.requests[request].placed = lane,
            None => self.waits.1 |= bit,
        }
    }
}

pub(super) fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the state's replay up to date.
pub(super) struct Watcher<'s> {
    pub(super) state: &'s Mutex<State>,
    pub(super) pace: &'s Pace,
}

impl Sink for Watcher<'_> {
    fn input(&mut self, now: Instant, input: &Input) {
        let state = &mut *lock(self.state);
        for lane in 0..state.case.lanes {
            state.play.left[lane] = self.pace.of(LaneId(lane as u8)).left_ns;
        }
        state.play.input(&state.case, now, input);
    }

    fn effect(&mut self, now: Instant, effect: &Effect) {
        let state = &mut *lock(self.state);
        state.play.effect(&state.case, now, effect);
    }
}

pub(super) struct Scripted(pub(super) Arc<Mutex<State>>);

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scripted")
    }
}

impl Policy for Scripted {
    fn place(&mut self, view: &View<'_>, request: Request) -> Decision {
        let state = &mut *lock(&self.0);
        if state.cut {
            return Decision::WaitAll;
        }
        let key = (view.stream(request).0, view.index(request));
        let Some(at) = state.case.place_of(key.0, key.1) else {
            return Decision::Wait;
        };
        if cfg!(debug_assertions) && matches!(state.plan, Plan::Orders(..)) {
            let least = state.case.least(&state.play, state.objective);
            state.floor = state.floor.max(least);
        }
        if let Plan::Orders(orders, placed) = &mut state.plan {
            let next = orders.iter().zip(placed.iter_mut()).enumerate();
            for (lane, (order, placed)) in next {
                let lane = LaneId(lane as u8);
                if order.get(*placed) == Some(&at) && view.is_free(lane) {
                    *placed += 1;
                    return Decision::Place(lane);
                }
            }
            return Decision::Wait;
        }
        let mut free: Vec<LaneId> = view
            .answer_lanes()
            .filter(|&lane| view.is_free(lane))
            .collect();
        if state.prunes() {
            if state.like_waits(at) || state.more_come_now() {
                state.note(at, None);
                return Decision::Wait;
            }
            let twins = &state.case.twins;
            let all = free.clone();
            free.retain(|lane| twins[lane.0 as usize].is_none_or(|twin| !all.contains(&twin)));
        }
        if free.is_empty() {
            state.note(at, None);
            return Decision::Wait;
        }
        // Likely best first, so that the first replays are good ones.
        free.sort_by_key(|&lane| view.service(request, lane));
        let lane = state.decide(|state| {
            let mut options: Vec<_> = free.into_iter().map(Some).collect();
            if !state.prunes() || state.may_wait(view, at) {
                options.push(None);
            }
            options
        });
        if state.cut {
            // The replay is over.
            view.stop(Faults::default());
            return Decision::WaitAll;
        }
        state.note(at, lane);
        lane.map_or(Decision::Wait, Decision::Place)
    }

    fn ingest(&mut self, view: &View<'_>, item: Request) -> Option<LaneId> {
        let likely = view.earliest_ingest(item)?;
        let state = &mut *lock(&self.0);
        if state.cut || matches!(state.plan, Plan::Orders(..)) {
            return Some(likely);
        }
        let others: Vec<LaneId> = view.ingest_lanes().filter(|&lane| lane != likely).collect();
        let lane = state.decide(|_| {
            let all = std::iter::once(likely).chain(others);
            all.map(Some).collect()
        });
        if state.cut {
            view.stop(Faults::default());
        }
        Some(lane.unwrap_or(likely))
    }
}
