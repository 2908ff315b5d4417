//! The best schedule of a small case, by branch and bound.
//!
//! The simulator is replayed under a scripted policy: whenever a ready request may be placed, the script says
//! on which free lane, or to wait; likewise which lane ingests. Depth first, the last decision with an
//! alternative is changed and the case played again, so contention, preparation and memory are those of every
//! other run. A branch ends as soon as what it has cost, and at least will (`left`), is no better than the best
//! known. The best known is at first the best of the built-in policies' schedules and of orders of the requests on
//! the lanes, improved step by step (`local`).
//!
//! Schedules that differ only in names are tried once: requests that cannot be told apart start in the order of their
//! numbers, and of two free lanes that cannot be told apart the first is taken. All requests waiting while nothing
//! runs or comes is no schedule. Other waits are all tried: under contention an idle lane can be worth it.
//!
//! Frames are decisions as well, each on which lane to ingest it: few of them use up the replays.
//!
//! It is exact over what the scheduler can do at its own instants (arrivals and ends) in the scenario's modes: to
//! queue behind a busy lane is to wait until it is free, as long as queries have prefill and decode only and
//! contexts are reused; elsewhere, and where users wait for answers before they ask again, the result is the best
//! found. Built-in policies are tried first, so that one which steps out of the scenario's modes (`naive` rebuilds
//! contexts) counts as well.

mod assign;
mod case;
mod left;
mod local;
mod play;
mod prices;
mod script;

use std::sync::{Arc, Mutex};

use sim::diag::Faults;
use sim::dispatch::Dispatcher;
use sim::simulation::{Pace, Simulation};
use sim::world::World;

use case::Case;
use play::{Play, Watched};
use script::{Orders, Plan, Scripted, State, Watcher, lock};

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
/// Inputs that a replay of [`REQUESTS_MAX`] requests has: they arrive, prefill and decode, and the run ends. A search
/// may handle so many times its replays in all, so that frames make it no longer.
const INPUTS_OF_A_REPLAY: u64 = 3 * REQUESTS_MAX as u64 + 1;

/// By how much, ns, a schedule must be better to count.
const TOLERANCE_NS: f64 = 1000.0;
/// What rounding each end to whole nanoseconds may add up to, ns: bounds are lower by that.
const ROUNDING_NS: f64 = 200.0;

/// The best schedule found.
#[derive(Clone, Debug, PartialEq)]
pub struct Optimum {
    /// The objective, s: a sum over requests, or the makespan.
    pub value_s: f64,
    /// Requests.
    pub requests: usize,
    /// Whether every alternative was tried or excluded: none is better by more than 1 µs. If not, the true optimum
    /// may be less.
    pub exact: bool,
    /// Whether the search came to its end, rather than to its last replay. Where it did and is not exact, there are
    /// schedules that it does not make.
    pub ended: bool,
    /// Replays that it took.
    pub replays: u64,
    /// The objective of each world's own schedule, s; `None` where it does not answer all.
    pub own_s: Vec<Option<f64>>,
}

/// Why there is no best schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeftOut {
    /// There is nothing to schedule.
    #[error("no query of it is answered")]
    Empty,
    /// So many requests.
    #[error("it has {0} requests, and the search takes up to {REQUESTS_MAX}")]
    TooMany(usize),
    /// Under this policy there are others than the first answers.
    #[error("under {0} it has queries that go unanswered or that other policies do not have")]
    Others(String),
    /// None was found.
    #[error("no schedule that answers all was found within the search")]
    NotFound,
}

/// The best schedule of a replication, within so many replays, each of which counts for as many as its inputs make.
/// Where the result cannot be exact the search takes a tenth of them.
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
) -> Result<Result<Optimum, LeftOut>, Faults> {
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
) -> Result<Result<Optimum, LeftOut>, Faults> {
    search(worlds, run, objective, replays_max, false)
}

fn search(
    worlds: &[World],
    run: u32,
    objective: Objective,
    replays_max: u64,
    prune: bool,
) -> Result<Result<Optimum, LeftOut>, Faults> {
    let Some(world) = worlds.first() else {
        return Ok(Err(LeftOut::Empty));
    };
    let case = Arc::new(Case::new(world, run)?);
    let requests = case.requests.len();
    if requests == 0 {
        return Ok(Err(LeftOut::Empty));
    }
    if requests > REQUESTS_MAX {
        return Ok(Err(LeftOut::TooMany(requests)));
    }
    let (mut own, mut orders) = (Vec::new(), Vec::new());
    for world in worlds {
        let mut watched = Watched {
            case: &case,
            play: Play::new(requests),
        };
        Simulation::new(world).run_into(run, &mut watched)?;
        if watched.play.unknown > 0 {
            return Ok(Err(LeftOut::Others(world.policy.to_string())));
        }
        own.push(watched.play.value(objective));
        orders.extend(own_orders(&case, &watched.play));
    }
    // A stage of its own, or a rebuild, that a query has on its lane may be overtaken by one who queues in
    // time; the script does not queue.
    // Free stages go where the scheduler expects them to end first, or where a policy of one lane is.
    let frames = !case.queries_only;
    let free = world.query_graph.free != 0 || frames && world.frame_graph.free != 0;
    // Who waits for an answer before he asks again asks at other times in other schedules.
    let whole = !free && world.modes.context_reuse && case.open;
    let replays_max = if whole { replays_max } else { replays_max / 10 };
    let mut replayed = Replayed::new(world, run, &case, objective);
    lock(&replayed.state).best = own.iter().copied().fold(None, lesser);
    if prune {
        orders.extend(local::greedy(&case));
        replayed.improve(orders, replays_max / 10)?;
    }
    let ended = replayed.search(prune, replays_max)?;
    let best = lock(&replayed.state).best;
    let secs = |ns: u64| ns as f64 * 1e-9;
    let optimum = best.map(|best| Optimum {
        value_s: secs(best),
        requests,
        exact: ended && whole,
        ended,
        replays: replayed.replays,
        own_s: own.iter().map(|own| own.map(secs)).collect(),
    });
    Ok(optimum.ok_or(LeftOut::NotFound))
}

fn lesser(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}

/// The orders that a schedule keeps on its lanes, where it answers all.
fn own_orders(case: &Case, play: &Play) -> Option<Orders> {
    let mut starts = Vec::new();
    for (at, request) in play.requests.iter().enumerate() {
        starts.push((request.begun, at, request.lane?.0 as usize));
    }
    starts.sort_unstable();
    let mut orders = vec![Vec::new(); case.lanes];
    for (_, at, lane) in starts {
        orders[lane].push(at);
    }
    Some(orders)
}

/// A case that is played again and again.
struct Replayed<'w> {
    simulation: Simulation<'w>,
    state: Arc<Mutex<State>>,
    case: Arc<Case>,
    pace: Pace,
    run: u32,
    replays: u64,
    inputs: u64,
}

impl<'w> Replayed<'w> {
    fn new(world: &'w World, run: u32, case: &Arc<Case>, objective: Objective) -> Self {
        let state = Arc::new(Mutex::new(State::new(Arc::clone(case), objective)));
        let scripted = Scripted(Arc::clone(&state));
        let dispatcher = Dispatcher::with_policy(world, Box::new(scripted));
        Self {
            simulation: Simulation::with_dispatcher(world, dispatcher),
            state,
            case: Arc::clone(case),
            pace: Pace::default(),
            run,
            replays: 0,
            inputs: 0,
        }
    }

    /// Whether so many replays, or their inputs, have been had.
    fn spent(&self, replays_max: u64) -> bool {
        self.replays >= replays_max || self.inputs >= replays_max.saturating_mul(INPUTS_OF_A_REPLAY)
    }

    /// One replay of the state's plan. Returns its value, if it was not cut and answered all.
    fn replay(&mut self) -> Result<Option<u64>, Faults> {
        self.replays += 1;
        lock(&self.state).rewind();
        let mut watcher = Watcher {
            state: &self.state,
            pace: &self.pace,
        };
        let ended = self
            .simulation
            .run_watched(self.run, &self.pace, &mut watcher);
        let ended = ended.map(|_| ());
        self.inputs += self.simulation.metrics().events();
        let mut state = lock(&self.state);
        if state.cut {
            return Ok(None);
        }
        ended?;
        let value = state.play.value(state.objective);
        debug_assert!(
            value.is_none_or(|value| state.floor - ROUNDING_NS <= value as f64),
            "a schedule of {value:?} ns beats its bound of {} ns",
            state.floor
        );
        state.best = lesser(state.best, value);
        Ok(value)
    }

    fn of_orders(&mut self, orders: &Orders) -> Result<Option<u64>, Faults> {
        lock(&self.state).plan = Plan::Orders(orders.clone(), vec![0; orders.len()]);
        self.replay()
    }

    /// Improves the two best of these orders until no neighbour is better.
    fn improve(&mut self, orders: Vec<Orders>, replays_max: u64) -> Result<(), Faults> {
        let mut valued = Vec::new();
        for orders in orders {
            if let Some(value) = self.of_orders(&orders)? {
                valued.push((value, orders));
            }
        }
        valued.sort();
        valued.dedup();
        valued.truncate(2);
        let case = Arc::clone(&self.case);
        for (mut value, mut orders) in valued {
            'better: loop {
                for neighbour in local::neighbours(&case, &orders) {
                    if self.spent(replays_max) {
                        return Ok(());
                    }
                    let found = self.of_orders(&neighbour)?;
                    if let Some(found) = found.filter(|&found| found < value) {
                        (value, orders) = (found, neighbour);
                        continue 'better;
                    }
                }
                break;
            }
        }
        Ok(())
    }

    /// Tries every path that is left. False: too many replays.
    fn search(&mut self, prune: bool, replays_max: u64) -> Result<bool, Faults> {
        lock(&self.state).plan = Plan::Search {
            path: Vec::new(),
            cursor: 0,
            prune,
        };
        loop {
            if self.spent(replays_max) {
                return Ok(false);
            }
            self.replay()?;
            if !lock(&self.state).next_path() {
                return Ok(true);
            }
        }
    }
}
