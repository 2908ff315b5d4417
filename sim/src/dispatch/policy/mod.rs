//! Dispatch policies: which lane answers a ready request, and which lane ingests.
//!
//! A policy sees a borrowed view of estimates and state, never drawn work or drawn lengths. The
//! scheduler owns the mechanism; a policy only chooses.

mod baselines;
pub mod script;
mod state_aware;

use std::fmt;

use super::estimate::Estimate;
pub use super::state::Lanes;
use super::state::{Item, JobId, Part, State, lanes_of};
use crate::diag::Faults;
use crate::spec::scenario::{Policy as Chosen, StateTransfer};
use crate::time::{Duration, Instant};
use crate::world::{LaneId, StreamId, World};

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Queue it on this lane, to be busy with it as long as preparation and service take alone.
    Place(LaneId),
    /// Queue it on this lane, which the policy expects to be busy with it for so long.
    PlaceFor(LaneId, Duration),
    /// Ask again when something has changed; others may go first.
    Wait,
    /// Ask again when something has changed, for this and every request behind it.
    WaitAll,
}

impl Decision {
    /// The lane that was chosen.
    pub fn lane(self) -> Option<LaneId> {
        match self {
            Self::Place(lane) | Self::PlaceFor(lane, _) => Some(lane),
            Self::Wait | Self::WaitAll => None,
        }
    }
}

/// A dispatch policy.
pub trait Policy: fmt::Debug + Send {
    /// Order among ready requests, smaller first; equal ones stay in order of readiness.
    fn rank(&self, _view: &View<'_>, _request: Request) -> u64 {
        0
    }

    /// Where a ready request goes.
    fn place(&mut self, view: &View<'_>, request: Request) -> Decision;

    /// Which lane ingests a frame (or an answer that joins the context).
    fn ingest(&mut self, view: &View<'_>, item: Request) -> Option<LaneId> {
        view.earliest_ingest(item)
    }

    /// How the policy moves contexts, if it overrides the scenario.
    fn transfer(&self) -> Option<StateTransfer> {
        None
    }

    /// Whether one part at a time runs on the whole SoC.
    fn serial(&self) -> bool {
        false
    }

    /// The only lane that the policy uses, where that lane can do the stage.
    fn only_lane(&self) -> Option<LaneId> {
        None
    }

    /// Forgets what it learnt in a run.
    fn reset(&mut self) {}
}

/// A ready request, or an item to be ingested, within a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request(pub(crate) JobId);

/// What a policy may see.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub(crate) state: &'a State<'a>,
    pub(crate) now: Instant,
}

impl<'a> View<'a> {
    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The checked scenario: engines, lanes, modes, costs as profiled.
    pub fn world(&self) -> &'a World {
        self.state.world
    }

    /// Lanes that may answer, in order.
    pub fn answer_lanes(&self) -> Lanes {
        lanes_of(self.state.answer_lanes)
    }

    /// Lanes that may ingest, in order.
    pub fn ingest_lanes(&self) -> Lanes {
        lanes_of(self.state.ingest_lanes)
    }

    /// Whether nothing runs on a lane, and nothing waits for it but ingestion that waits for ready
    /// requests itself.
    pub fn is_idle(&self, lane: LaneId) -> bool {
        let lane = self.state.lane(lane);
        let waits = |&item: &Item| {
            (!item.query || item.part == Part::Rebuild) && !self.state.may_hold(item)
        };
        lane.held.is_none() && !lane.failed && lane.queued().all(waits)
    }

    /// Whether a request that is placed on a lane now would be the next that it takes up: nothing runs there,
    /// and no query waits.
    pub fn is_free(&self, lane: LaneId) -> bool {
        let lane = self.state.lane(lane);
        lane.held.is_none() && !lane.failed && lane.queries.is_empty()
    }

    /// Whether any lane runs anything.
    pub fn anything_running(&self) -> bool {
        self.state.lanes_busy > 0
    }

    /// W, P and S of a request on a lane.
    pub fn estimate(&self, request: Request, lane: LaneId) -> Estimate {
        self.state.estimate(request.0, lane, self.now)
    }

    /// Preparation and service of a request on a lane, alone.
    pub fn service(&self, request: Request, lane: LaneId) -> Duration {
        let quote = self.state.quote(request.0, lane);
        Duration(quote.prepare.saturating_add(quote.service.alone))
    }

    /// Time until a lane is free for a request.
    pub fn wait(&self, lane: LaneId) -> Duration {
        Duration(self.state.wait(lane, self.now, true))
    }

    /// Tokens of the request's version that the lane's engine lacks.
    pub fn missing_tokens(&self, request: Request, lane: LaneId) -> u64 {
        let job = self.state.job(request.0);
        let engine = self.state.world.engine_of(lane);
        self.state.stream(job.stream).missing(
            self.state.resident(engine, job.stream),
            self.state.version_for(job),
            self.state.world.keep,
        )
    }

    /// Predicted answer tokens.
    pub fn predicted(&self, request: Request) -> u32 {
        self.state.job(request.0).predicted
    }

    /// When the answer should be complete.
    pub fn deadline(&self, request: Request) -> Option<Instant> {
        self.state.job(request.0).deadline
    }

    /// The number of a request within its stream.
    pub fn index(&self, request: Request) -> u32 {
        self.state.job(request.0).index
    }

    /// The stream of a request or item.
    pub fn stream(&self, request: Request) -> StreamId {
        self.state.job(request.0).stream
    }

    /// The lane that is expected to end an ingest first, preparation included.
    pub fn earliest_ingest(&self, item: Request) -> Option<LaneId> {
        self.state
            .earliest(item.0, Part::Bound, self.state.ingest_lanes, self.now)
    }

    /// Ends the run with these faults once the policy has returned, whatever it returns: the first that are given
    /// in a run count.
    pub fn stop(&self, faults: Faults) {
        // Of two, the later may only follow from the earlier.
        _ = self.state.fault.set(Box::new(faults));
    }

    /// The lane on which a request (or ingest) is fastest alone.
    pub fn fastest(&self, request: Request, lanes: impl Iterator<Item = LaneId>) -> Option<LaneId> {
        lanes.min_by_key(|&lane| self.service(request, lane))
    }
}

/// The policy that a scenario names.
pub fn build(world: &World) -> Box<dyn Policy> {
    let lane = |name: &str| {
        // The loader has checked the name.
        let index = world
            .lanes
            .iter()
            .position(|lane| lane.name == name)
            .unwrap_or(0);
        LaneId(index as u8)
    };
    match &world.policy {
        Chosen::StateAware { terms } => Box::new(state_aware::StateAware::new(*terms)),
        Chosen::Single { lane: name } => Box::new(baselines::Single { lane: lane(name) }),
        Chosen::Serial => Box::new(baselines::Serial),
        Chosen::Naive => Box::new(baselines::Naive),
        Chosen::IdleFirst => Box::new(baselines::IdleFirst),
        Chosen::ReuseFirst => Box::new(baselines::ReuseFirst),
        Chosen::Fixed { lanes } => Box::new(baselines::Fixed::new(
            world
                .streams
                .iter()
                .map(|stream| lanes.get(&stream.name).map(|name| lane(name)))
                .collect(),
        )),
        Chosen::RoundRobin => Box::new(baselines::RoundRobin::default()),
        Chosen::ShortestJobFirst => Box::new(baselines::ShortestJobFirst),
        Chosen::EarliestDeadlineFirst => Box::new(baselines::EarliestDeadlineFirst),
        Chosen::Script { params, .. } => Box::new(script::Scripted::new(world, params)),
    }
}
