//! The policies that state-aware dispatch is compared with.

use super::{Decision, Lanes, Policy, Request, View};
use crate::spec::scenario::StateTransfer;
use crate::time::Instant;
use crate::world::LaneId;

/// Everything on one lane; stages that its engine cannot run go where they can.
#[derive(Debug)]
pub(crate) struct Single {
    pub(crate) lane: LaneId,
}

impl Policy for Single {
    fn place(&mut self, view: &View<'_>, _request: Request) -> Decision {
        first(view.answer_lanes().next())
    }

    fn only_lane(&self) -> Option<LaneId> {
        Some(self.lane)
    }
}

/// One part at a time on the whole SoC, each on the engine that is fastest for it.
#[derive(Debug)]
pub(crate) struct Serial;

impl Policy for Serial {
    fn place(&mut self, view: &View<'_>, request: Request) -> Decision {
        first(view.fastest(request, view.answer_lanes()))
    }

    fn ingest(&mut self, view: &View<'_>, item: Request) -> Option<LaneId> {
        view.fastest(item, view.ingest_lanes())
    }

    fn serial(&self) -> bool {
        true
    }
}

/// Idle lanes take requests in order of arrival; waits if none is idle.
#[derive(Debug)]
pub(crate) struct IdleFirst;

impl Policy for IdleFirst {
    fn place(&mut self, view: &View<'_>, _request: Request) -> Decision {
        first_idle(view)
    }
}

/// As idle-first, but lanes share no state: each engine prefills what it lacks.
#[derive(Debug)]
pub(crate) struct Naive;

impl Policy for Naive {
    fn place(&mut self, view: &View<'_>, _request: Request) -> Decision {
        first_idle(view)
    }

    fn ingest(&mut self, view: &View<'_>, item: Request) -> Option<LaneId> {
        spread(view, item, view.ingest_lanes())
    }

    fn transfer(&self) -> Option<StateTransfer> {
        Some(StateTransfer::Reconstruct)
    }
}

/// The engine that lacks the least of the bound version; ties go to the earliest expected finish.
#[derive(Debug)]
pub(crate) struct ReuseFirst;

impl Policy for ReuseFirst {
    fn place(&mut self, view: &View<'_>, request: Request) -> Decision {
        let lane = view.answer_lanes().min_by_key(|&lane| {
            let finish = view.wait(lane) + view.service(request, lane);
            (view.missing_tokens(request, lane), finish)
        });
        first(lane)
    }
}

/// Each stream on its lane.
#[derive(Debug)]
pub(crate) struct Fixed {
    lanes: Vec<Option<LaneId>>,
}

impl Fixed {
    pub(crate) fn new(lanes: Vec<Option<LaneId>>) -> Self {
        Self { lanes }
    }

    fn home(&self, view: &View<'_>, request: Request, lanes: Lanes) -> Option<LaneId> {
        match self.lanes[view.stream(request).0 as usize] {
            Some(lane) if lanes.clone().any(|able| able == lane) => Some(lane),
            _ => spread(view, request, lanes),
        }
    }
}

impl Policy for Fixed {
    fn place(&mut self, view: &View<'_>, request: Request) -> Decision {
        first(self.home(view, request, view.answer_lanes()))
    }

    fn ingest(&mut self, view: &View<'_>, item: Request) -> Option<LaneId> {
        self.home(view, item, view.ingest_lanes())
    }
}

/// Lanes in turn, request by request; streams are ingested on the lane of their number.
#[derive(Debug, Default)]
pub(crate) struct RoundRobin {
    next: usize,
}

impl Policy for RoundRobin {
    fn place(&mut self, view: &View<'_>, _request: Request) -> Decision {
        let count = view.answer_lanes().count();
        if count == 0 {
            return Decision::Wait;
        }
        let lane = view.answer_lanes().nth(self.next % count);
        self.next += 1;
        first(lane)
    }

    fn ingest(&mut self, view: &View<'_>, item: Request) -> Option<LaneId> {
        spread(view, item, view.ingest_lanes())
    }

    fn reset(&mut self) {
        self.next = 0;
    }
}

/// Idle lanes take the request with the shortest predicted answer.
#[derive(Debug)]
pub(crate) struct ShortestJobFirst;

impl Policy for ShortestJobFirst {
    fn rank(&self, view: &View<'_>, request: Request) -> u64 {
        view.predicted(request).into()
    }

    fn place(&mut self, view: &View<'_>, request: Request) -> Decision {
        fastest_idle(view, request)
    }
}

/// Idle lanes take the request with the earliest deadline; those without come last.
#[derive(Debug)]
pub(crate) struct EarliestDeadlineFirst;

impl Policy for EarliestDeadlineFirst {
    fn rank(&self, view: &View<'_>, request: Request) -> u64 {
        view.deadline(request).unwrap_or(Instant::NEVER).0
    }

    fn place(&mut self, view: &View<'_>, request: Request) -> Decision {
        fastest_idle(view, request)
    }
}

fn first(lane: Option<LaneId>) -> Decision {
    lane.map_or(Decision::Wait, Decision::Place)
}

fn first_idle(view: &View<'_>) -> Decision {
    let idle = view.answer_lanes().find(|&lane| view.is_idle(lane));
    idle.map_or(Decision::WaitAll, Decision::Place)
}

fn fastest_idle(view: &View<'_>, request: Request) -> Decision {
    let idle = view.answer_lanes().filter(|&lane| view.is_idle(lane));
    view.fastest(request, idle)
        .map_or(Decision::WaitAll, Decision::Place)
}

/// The lane of a stream's number, round and round.
fn spread(view: &View<'_>, request: Request, lanes: Lanes) -> Option<LaneId> {
    let count = lanes.clone().count();
    let mut lanes = lanes;
    lanes.nth(view.stream(request).0 as usize % count.max(1))
}
