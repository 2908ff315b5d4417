//! State-aware dispatch: the engine expected to finish the request first.

use super::{Decision, Policy, Request, View};
use crate::spec::scenario::Terms;
use crate::time::Duration;
use crate::world::LaneId;

/// Scores each lane by `W`, `W+P` or `W+P+S` and takes the smallest; ties go to the first lane.
///
/// With S the score is the finish time under the co-run slowdown that the request would see, plus
/// the delay that it would cause to others: where one engine starves another, queueing behind the
/// better one scores lower than co-running.
#[derive(Debug)]
pub(crate) struct StateAware {
    terms: Terms,
}

impl StateAware {
    pub(crate) fn new(terms: Terms) -> Self {
        Self { terms }
    }

    /// The score as far as a lane's own work goes: with S, a lower bound of it.
    #[inline(always)]
    fn score(&self, view: &View<'_>, request: Request, lane: LaneId) -> u64 {
        let wait = view.wait(lane).0;
        if self.terms == Terms::W {
            return wait;
        }
        let quote = view.state.quote(request.0, lane);
        let prepared = wait.saturating_add(quote.prepare);
        match self.terms {
            Terms::W | Terms::Wp => prepared,
            Terms::Wps => prepared.saturating_add(quote.service.alone),
        }
    }
}

impl Policy for StateAware {
    fn place(&mut self, view: &View<'_>, request: Request) -> Decision {
        if self.terms != Terms::Wps {
            return view
                .answer_lanes()
                .min_by_key(|&lane| self.score(view, request, lane))
                .map_or(Decision::Wait, Decision::Place);
        }
        // Co-running never makes a score smaller, so a lane whose bound does not beat the best so far
        // needs no look at what runs beside it. The likely winner goes first.
        let bound = |lane: LaneId| (self.score(view, request, lane), lane);
        let mut lanes = view.answer_lanes();
        let Some(first) = lanes.next() else {
            return Decision::Wait;
        };
        let (mut first, mut second) = (bound(first), (u64::MAX, LaneId(u8::MAX)));
        for bound in lanes.map(bound) {
            // Of equals, the lane before is the smaller.
            if bound.0 < first.0 {
                (first, second) = (bound, first);
            } else if bound.0 < second.0 {
                second = bound;
            }
        }
        let (score, mut busy) = full_score(view, request, first.1);
        let mut best = (score, first.1);
        if best > second {
            for lane in view.answer_lanes() {
                if lane != first.1 && bound(lane) < best {
                    let (score, expected) = full_score(view, request, lane);
                    if (score, lane) < best {
                        (best, busy) = ((score, lane), expected);
                    }
                }
            }
        }
        // What waits behind it should know how long the lane will really be busy.
        Decision::PlaceFor(best.1, busy)
    }
}

/// The finish time under the slowdown that the request would see, and the delay that it would cause;
/// and the time for which the request would hold the lane.
fn full_score(view: &View<'_>, request: Request, lane: LaneId) -> (u64, Duration) {
    let e = view.estimate(request, lane);
    let busy = e.prepare.saturating_add(e.beside);
    let score = e.wait.saturating_add(busy).saturating_add(e.harm);
    (score, Duration(busy))
}
