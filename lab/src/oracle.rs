//! The best schedule of a small case, by branch and bound.
//!
//! The simulator is replayed under a scripted policy: whenever a ready request may be placed, the script says
//! on which free lane, or to wait; likewise which lane ingests. Depth first, the last decision with an
//! alternative is changed and the case played again, so contention, preparation and memory are those of every
//! other run. A branch ends as soon as what it has cost, and at least will, is no better than the best known.
//!
//! It is exact over what the scheduler can do at its own instants (arrivals and ends) in the scenario's modes: to
//! queue behind a busy lane is to wait until it is free, as long as queries have prefill and decode only and
//! contexts are reused; elsewhere the result is the best found. Built-in policies are tried first, so that one which
//! steps out of the scenario's modes (`naive` rebuilds contexts) counts as well.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sim::diag::Faults;
use sim::dispatch::policy::{Decision, Policy, Request, View};
use sim::dispatch::{Dispatcher, Effect, Input};
use sim::drive::Sink;
use sim::simulation::Simulation;
use sim::time::Instant;
use sim::world::{LaneId, StageId, World};

use crate::bounds;

/// What the best schedule has least of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objective {
    /// The sum of times to the last token.
    Completion,
    /// The sum of times to the first token.
    Ttft,
    /// The time of the last answer.
    Makespan,
}

/// Most requests of a case.
pub const REQUESTS_MAX: usize = 8;
/// Replays after which the search gives up, if the caller has no other limit.
pub const REPLAYS_MAX: u64 = 2_000_000;

/// The best schedule found.
#[derive(Clone, Debug, PartialEq)]
pub struct Optimum {
    /// The objective, s: a sum over requests, or the makespan.
    pub value_s: f64,
    /// Requests.
    pub requests: usize,
    /// Whether every alternative was tried or excluded; if not, the true optimum may be less.
    pub exact: bool,
    /// Replays that it took.
    pub replays: u64,
}

/// The best schedule of a replication. `None`: more requests than [`REQUESTS_MAX`], none, or some that the
/// first world's policy refuses.
///
/// `worlds` differ in their policy alone; their own schedules are where the search begins.
///
/// # Errors
///
/// What a policy stopped its run with.
pub fn optimum(
    worlds: &[World],
    run: u32,
    objective: Objective,
    replays_max: u64,
) -> Result<Option<Optimum>, Faults> {
    search(worlds, run, objective, replays_max, true)
}

/// As [`optimum`], but trying everything: its test oracle.
///
/// # Errors
///
/// As [`optimum`].
pub fn exhaustive(
    worlds: &[World],
    run: u32,
    objective: Objective,
    replays_max: u64,
) -> Result<Option<Optimum>, Faults> {
    search(worlds, run, objective, replays_max, false)
}

fn search(
    worlds: &[World],
    run: u32,
    objective: Objective,
    replays_max: u64,
    prune: bool,
) -> Result<Option<Optimum>, Faults> {
    let Some(world) = worlds.first() else {
        return Ok(None);
    };
    let requests = arrivals(world, run)?;
    if requests.is_empty() || requests.len() > REQUESTS_MAX {
        return Ok(None);
    }
    let mut best = u64::MAX;
    for world in worlds {
        let mut play = Play::new(world, &requests);
        Simulation::new(world).run_into(run, &mut play)?;
        if play.unknown > 0 {
            return Ok(None);
        }
        best = best.min(play.value(objective));
    }
    let state = Arc::new(Mutex::new(State {
        path: Vec::new(),
        cursor: 0,
        play: Play::new(world, &requests),
        objective,
        best,
        prune,
        cut: false,
    }));
    let scripted = Scripted(Arc::clone(&state));
    let dispatcher = Dispatcher::with_policy(world, Box::new(scripted));
    let mut simulation = Simulation::with_dispatcher(world, dispatcher);
    let mut replays = 0;
    // A stage of its own, or a rebuild, that a query has on its lane may be overtaken by one who queues in
    // time; the script does not queue.
    // Free stages go where the scheduler expects them to end first, or where a policy of one lane is.
    let frames = world.streams.iter().any(|stream| stream.frames.is_some());
    let free = world.query_graph.free != 0 || frames && world.frame_graph.free != 0;
    let mut exact = !free && world.modes.context_reuse;
    loop {
        if replays == replays_max {
            exact = false;
            break;
        }
        replays += 1;
        {
            let mut state = lock(&state);
            state.cursor = 0;
            state.cut = false;
            state.play.reset();
        }
        simulation.run_into(run, &mut Watcher(&state))?;
        let mut state = lock(&state);
        if !state.cut {
            state.best = state.best.min(state.play.value(objective));
        }
        // The last decision with an alternative takes it; those behind it are forgotten.
        while let Some(choice) = state.path.last_mut() {
            choice.taken += 1;
            if choice.taken < choice.options.len() {
                break;
            }
            state.path.pop();
        }
        if state.path.is_empty() {
            break;
        }
    }
    let best = lock(&state).best;
    Ok((best < u64::MAX).then_some(Optimum {
        value_s: best as f64 * 1e-9,
        requests: requests.len(),
        exact,
        replays,
    }))
}

/// A request, with what no schedule beats, ns.
#[derive(Clone, Copy, Debug)]
struct Known {
    arrived: u64,
    /// From its arrival to the first token, and to the last.
    ttft: u64,
    completion: u64,
    /// On its lane alone: to the last token.
    service: u64,
}

/// The requests of a run by stream and number.
fn arrivals(world: &World, run: u32) -> Result<BTreeMap<(u16, u32), Known>, Faults> {
    let requests = bounds::requests(world, run)?;
    Ok(requests
        .into_iter()
        .map(|(key, arrived, bounded)| {
            let ns = |secs: f64| (secs * 1e9) as u64;
            let known = Known {
                arrived: arrived.0,
                ttft: ns(bounded.ttft_bound_s),
                completion: ns(bounded.completion_bound_s),
                service: ns(bounded.service_bound_s),
            };
            (key, known)
        })
        .collect())
}

/// How a replay goes.
#[derive(Clone, Debug)]
struct Play {
    now: u64,
    /// The stage from which on a request holds its lane and its service counts.
    prefill: StageId,
    requests: Vec<Progress>,
    /// Place of each stream's and number's request.
    places: BTreeMap<(u16, u32), usize>,
    /// Place of each ticket's request.
    of_ticket: BTreeMap<u32, usize>,
    /// Queries that the first world refuses.
    unknown: usize,
}

#[derive(Clone, Copy, Debug)]
struct Progress {
    known: Known,
    /// Start of its query prefill.
    begun: Option<u64>,
    /// First and last token.
    ended: Option<(u64, u64)>,
}

impl Play {
    fn new(world: &World, requests: &BTreeMap<(u16, u32), Known>) -> Self {
        let graph = &world.query_graph;
        let begin = |&known: &Known| Progress {
            known,
            begun: None,
            ended: None,
        };
        Self {
            now: 0,
            prefill: graph.stages[graph.bound_at as usize],
            requests: requests.values().map(begin).collect(),
            places: requests
                .keys()
                .enumerate()
                .map(|(at, &key)| (key, at))
                .collect(),
            of_ticket: BTreeMap::new(),
            unknown: 0,
        }
    }

    fn reset(&mut self) {
        self.now = 0;
        self.of_ticket.clear();
        for request in &mut self.requests {
            (request.begun, request.ended) = (None, None);
        }
    }

    /// The objective, ns; the greatest number if a request was not answered.
    fn value(&self, objective: Objective) -> u64 {
        let mut total = 0;
        for Progress { known, ended, .. } in &self.requests {
            let Some((first, last)) = *ended else {
                return u64::MAX;
            };
            total = match objective {
                Objective::Completion => total + last - known.arrived,
                Objective::Ttft => total + first - known.arrived,
                Objective::Makespan => total.max(last),
            };
        }
        total
    }

    /// What the objective will be at least.
    fn least(&self, objective: Objective, lanes: usize) -> u64 {
        let mut total = 0_u64;
        // What has not begun, each by itself: when it ends at the earliest.
        let (mut waiting, mut services) = (0_u64, Vec::new());
        let mut free = Vec::new();
        let mut arrivals = 0_u64;
        for &Progress {
            known,
            begun,
            ended,
        } in &self.requests
        {
            let earliest = (known.arrived + known.completion)
                .max(begun.unwrap_or(self.now.max(known.arrived)) + known.service)
                .max(self.now);
            let (first, last) = ended.unwrap_or((known.arrived + known.ttft, earliest));
            match objective {
                Objective::Ttft => total += first - known.arrived,
                Objective::Makespan => total = total.max(last),
                Objective::Completion if ended.is_some() => total += last - known.arrived,
                Objective::Completion if begun.is_some() => {
                    total += last - known.arrived;
                    free.push(last);
                }
                Objective::Completion => {
                    waiting += last - known.arrived;
                    services.push(known.service);
                    arrivals += known.arrived;
                }
            }
        }
        if objective != Objective::Completion {
            return total;
        }
        // Or all of them together: shortest first (Smith 1956) on lanes that are all as good as the best,
        // each from when it is free.
        free.resize(lanes.max(free.len()), self.now);
        services.sort_unstable();
        let mut ends = 0_u64;
        for service in services {
            let Some(soonest) = free.iter_mut().min() else {
                break;
            };
            *soonest += service;
            ends += *soonest;
        }
        total + waiting.max(ends.saturating_sub(arrivals))
    }
}

impl Sink for Play {
    fn input(&mut self, now: Instant, input: &Input) {
        self.now = now.0;
        if let Input::Query {
            ticket,
            stream,
            index,
            ..
        } = input
        {
            match self.places.get(&(stream.0, *index)) {
                Some(&at) => _ = self.of_ticket.insert(*ticket, at),
                None => self.unknown += 1,
            }
        }
    }

    fn effect(&mut self, now: Instant, effect: &Effect) {
        match effect {
            Effect::Start { task, .. } if task.stage == self.prefill => {
                if let Some(&at) = self.of_ticket.get(&task.ticket) {
                    self.requests[at].begun.get_or_insert(now.0);
                }
            }
            Effect::Complete(done) => {
                if let Some(&at) = self.places.get(&(done.stream.0, done.index)) {
                    self.requests[at].ended = Some((done.first_token.0, now.0));
                }
            }
            _ => {}
        }
    }
}

/// A decision: its alternatives, and the one that is being tried.
#[derive(Clone, Debug)]
struct Choice {
    options: Vec<Option<LaneId>>,
    taken: usize,
}

#[derive(Debug)]
struct State {
    path: Vec<Choice>,
    cursor: usize,
    play: Play,
    objective: Objective,
    best: u64,
    prune: bool,
    /// This replay cannot be better than the best.
    cut: bool,
}

impl State {
    fn decide(
        &mut self,
        lanes: usize,
        options: impl FnOnce() -> Vec<Option<LaneId>>,
    ) -> Option<LaneId> {
        if self.cut {
            return None;
        }
        if let Some(choice) = self.path.get(self.cursor) {
            self.cursor += 1;
            return choice.options[choice.taken];
        }
        if self.prune && self.play.least(self.objective, lanes) >= self.best {
            self.cut = true;
            return None;
        }
        let options = options();
        let first = options[0];
        self.path.push(Choice { options, taken: 0 });
        self.cursor += 1;
        first
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Watcher<'s>(&'s Mutex<State>);

impl Sink for Watcher<'_> {
    fn input(&mut self, now: Instant, input: &Input) {
        lock(self.0).play.input(now, input);
    }

    fn effect(&mut self, now: Instant, effect: &Effect) {
        lock(self.0).play.effect(now, effect);
    }
}

struct Scripted(Arc<Mutex<State>>);

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scripted")
    }
}

impl Policy for Scripted {
    fn place(&mut self, view: &View<'_>, request: Request) -> Decision {
        // Likely best first, so that the first replays are good ones.
        let mut free: Vec<LaneId> = view
            .answer_lanes()
            .filter(|&lane| view.is_free(lane))
            .collect();
        if free.is_empty() {
            return Decision::Wait;
        }
        free.sort_by_key(|&lane| view.service(request, lane));
        let options = || free.into_iter().map(Some).chain([None]).collect();
        let lanes = view.answer_lanes().count();
        match lock(&self.0).decide(lanes, options) {
            Some(lane) => Decision::Place(lane),
            None => Decision::Wait,
        }
    }

    fn ingest(&mut self, view: &View<'_>, item: Request) -> Option<LaneId> {
        let likely = view.earliest_ingest(item)?;
        let others: Vec<LaneId> = view.ingest_lanes().filter(|&lane| lane != likely).collect();
        let options = || std::iter::once(likely).chain(others).map(Some).collect();
        let lanes = view.answer_lanes().count();
        // A replay that was cut must end, whatever comes of it.
        Some(lock(&self.0).decide(lanes, options).unwrap_or(likely))
    }
}
