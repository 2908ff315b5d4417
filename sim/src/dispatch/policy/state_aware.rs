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

    fn score(&self, view: &View<'_>, request: Request, lane: LaneId) -> u64 {
        match self.terms {
            Terms::W => view.wait(lane).0,
            Terms::Wp => {
                let (prepare, _) = view.state.bound_time(request.0, lane);
                view.wait(lane).0.saturating_add(prepare)
            }
            Terms::Wps => {
                let e = view.estimate(request, lane);
                e.wait
                    .saturating_add(e.prepare)
                    .saturating_add(e.beside)
                    .saturating_add(e.harm)
            }
        }
    }
}

impl Policy for StateAware {
    fn place(&mut self, view: &View<'_>, request: Request) -> Decision {
        view.answer_lanes()
            .min_by_key(|&lane| self.score(view, request, lane))
            .map_or(Decision::Wait, Decision::Place)
    }
}
