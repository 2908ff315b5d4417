//! State-aware dispatch: the engine expected to finish the request first.

use super::{Decision, Policy, Request, View};
use crate::spec::scenario::Terms;
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
        let mut best = (full_score(view, request, first.1), first.1);
        if best < second {
            return Decision::Place(first.1);
        }
        for lane in view.answer_lanes() {
            if lane != first.1 && bound(lane) < best {
                best = best.min((full_score(view, request, lane), lane));
            }
        }
        Decision::Place(best.1)
    }
}

/// The finish time under the slowdown that the request would see, and the delay that it would cause.
fn full_score(view: &View<'_>, request: Request, lane: LaneId) -> u64 {
    let e = view.estimate(request, lane);
    e.wait
        .saturating_add(e.prepare)
        .saturating_add(e.beside)
        .saturating_add(e.harm)
}
