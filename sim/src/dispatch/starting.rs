//! What a lane that has just become free will start in this very instant: a policy decides before it does.

use super::beside::Other;
use super::state::{Class, Item, Job, LaneState, Part, Plan, State, Step, UNBOUND};
use crate::contention::Load;
use crate::time::Instant;
use crate::world::LaneId;

/// What a lane starts now.
pub(super) struct Starting {
    pub(super) other: Other,
    /// Time of its first stage alone, as believed, ns.
    pub(super) alone: u64,
}

impl LaneState {
    /// Whether what runs goes on after `now`: what ends now leaves the lane to what waits there, if anything does.
    #[inline(always)]
    pub(super) fn runs_on(&self, now: Instant) -> bool {
        self.running && (self.expected_end != now || self.backlog == 0)
    }

    /// A queued part will take so many ns more, or less.
    pub(super) fn delay_queued(&mut self, query: bool, at: usize, by: i64) {
        let item = &mut self.queue_mut(query)[at];
        let before = item.estimate;
        item.estimate = before
            .saturating_add_signed(by)
            .min(super::estimate::ESTIMATE_MAX);
        let after = item.estimate;
        self.backlog = self.backlog - before + after;
        if query {
            self.backlog_queries = self.backlog_queries - before + after;
        }
    }
}

impl State<'_> {
    /// The first queued part that a lane would take up: whether a query's, and where in its queue. Whether there is
    /// memory for it shows when it begins.
    pub(super) fn starts_next(&self, lane: LaneId) -> Option<(bool, usize)> {
        let state = self.lane(lane);
        // One at a time, nothing starts beside a request.
        if state.failed || self.serial {
            return None;
        }
        [true, false].into_iter().find_map(|query| {
            let mut queue = state.queue(query).iter();
            queue
                .position(|&item| self.may_hold(item))
                .map(|at| (query, at))
        })
    }

    /// What a lane that runs nothing, or nothing after `now`, starts now.
    #[cold]
    #[inline(never)]
    pub(super) fn starting(&self, lane: LaneId) -> Option<Starting> {
        let state = self.lane(lane);
        let (item, job, behind) = match state.held {
            Some(held) if !state.running => (held, self.job(held.job).clone(), 1),
            _ => {
                let (query, at) = self.starts_next(lane)?;
                let item = state.queue(query)[at];
                (item, self.begun(item, lane), usize::from(!query))
            }
        };
        let (step, stage) = self.next_step(&job, item.part)?;
        let groups = self.world.exclusive[state.engine.0 as usize][stage.0 as usize];
        let waits = matches!(step, Step::Stage(position) if self.stage_waits(&job, position));
        if waits || groups & self.exclusive_running != 0 {
            return None;
        }
        let believed = self.task(&job, item.part, step, stage, state.engine);
        let graph = &self.world.query_graph;
        let later = if item.query && item.part == Part::Bound {
            graph.stages[graph.bound_end as usize]
        } else {
            stage
        };
        let load = |mu: f64| Load {
            engine: state.engine,
            mu,
        };
        Some(Starting {
            other: Other {
                lane,
                loads: [load(believed.mu), load(believed.later_mu)],
                stages: [stage, later],
                behind,
                ..Other::NONE
            },
            alone: believed.alone,
        })
    }

    /// A queued part's job as it will be once `lane` has begun the part.
    fn begun(&self, item: Item, lane: LaneId) -> Job {
        let mut job = self.job(item.job).clone();
        let engine = self.world.engine_of(lane);
        let reuse = self.world.modes.context_reuse;
        if job.class == Class::Query && job.version == UNBOUND {
            job.context = self.context_for(&job);
            job.version = self.version_for(&job);
        }
        match (item.part, job.class) {
            (Part::Free(_), _) => return job,
            (Part::Rebuild, _) => {
                job.plan = Plan {
                    encode: self.frames_among(job.stream, job.version, job.context.into()),
                    rebuild: job.context,
                    ..Plan::default()
                };
            }
            (Part::Bound, Class::Query) => {
                job.plan = if reuse {
                    self.plan(job.stream, job.version, engine).0
                } else {
                    self.private_plan(item.job, job.version, engine, job.context)
                };
                job.service = self.service(engine, job.prompt, job.predicted, job.context);
            }
            (Part::Bound, _) => job.plan = self.plan(job.stream, job.version - 1, engine).0,
        }
        job.lane = lane;
        job
    }
}
