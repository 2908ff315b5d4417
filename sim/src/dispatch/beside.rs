//! What the policy expects of co-running: the slowdown that a request would see, and the harm that it would do.

use super::estimate::Estimate;
use super::memo::Service;
use super::state::{JobId, LaneState, Part, State};
use crate::contention::{Load, lengthened};
use crate::time::Instant;
use crate::world::{EngineId, LANES_MAX, LaneId, StageId};

/// Lanes up to which estimates use small arrays: nearly every SoC.
const FEW_LANES: usize = 4;

impl State<'_> {
    /// Believed time of a stage at its engine's costs beside others ÷ at those alone.
    fn corun_ratio(&self, engine: EngineId, stage: StageId) -> f64 {
        let costs = self.believed().get(engine, stage);
        costs.map_or(1.0, |costs| costs.corun_ratio)
    }

    /// The stage that a lane's part ends with.
    fn later_stage(&self, lane: &LaneState) -> StageId {
        let graph = &self.world.query_graph;
        match lane.held {
            Some(held) if held.query && held.part == Part::Bound => {
                graph.stages[graph.bound_end as usize]
            }
            _ => lane.stage,
        }
    }

    /// Slowdowns of what a request's stage runs beside, with it, the first of `loads`, and without it; stages may run
    /// at their engines' costs beside others.
    #[cold]
    #[inline(never)]
    fn slowed_and_switched<const N: usize>(
        &self,
        loads: &[Load],
        stages: &[StageId],
        with: &mut [f64; N],
        without: &mut [f64; N],
    ) {
        let among = |from: usize, out: &mut [f64; N]| {
            let count = loads.len();
            let mut lengths = [1.0; N];
            let mut own = [Load::NONE; N];
            own[..count].copy_from_slice(loads);
            let ratio =
                |(load, &stage): (&Load, _)| (load.engine, self.corun_ratio(load.engine, stage));
            let running = loads[from..].iter().zip(&stages[from..]).map(ratio);
            let beside = &self.believed().corun_beside;
            lengthened::lengths(beside, &running, &mut lengths[from..count]);
            lengthened::slowdowns(
                &mut own[from..count],
                &lengths[from..count],
                &mut out[from..count],
                |loads, out| {
                    let model = &*self.world.contention;
                    self.memo.slowdowns(model, loads, out);
                },
            );
        };
        among(0, with);
        among(1, without);
    }

    /// Everything that the state-aware score adds up.
    #[inline(always)]
    pub(crate) fn estimate(&self, id: JobId, lane: LaneId, now: Instant) -> Estimate {
        let quote = self.quote(id, lane);
        let (prepare, alone) = (quote.prepare, quote.service.alone);
        let wait = self.wait(lane, now, true);
        self.delays_of.set((id, lane, now));
        for delay in &self.delays {
            delay.set(0);
        }
        let estimate = Estimate {
            wait,
            prepare,
            alone,
            beside: alone,
            harm: 0,
        };
        if self.nothing_beside() || self.world.contention_off && !self.believed().corun() {
            return estimate;
        }
        if self.lanes.len() <= 2 {
            self.beside::<2>(lane, &quote.service, estimate, now)
        } else if self.lanes.len() <= FEW_LANES {
            self.beside::<FEW_LANES>(lane, &quote.service, estimate, now)
        } else {
            self.beside::<LANES_MAX>(lane, &quote.service, estimate, now)
        }
    }

    /// Adds to an estimate the slowdown that the request would see and cause, prefill and decode each
    /// by its own intensity (preparation counts as prefill). `N` bounds the lanes.
    ///
    /// Played forward: while several run, each advances at its own rate, so one that is slowed is there for longer.
    /// What waits behind another's part counts as more of what that part ends with.
    fn beside<const N: usize>(
        &self,
        lane: LaneId,
        service: &Service,
        mut estimate: Estimate,
        now: Instant,
    ) -> Estimate {
        let engine = self.world.engine_of(lane);
        let mut others = [Other::NONE; N];
        let mut count = 0;
        for (index, other) in self.lanes.iter().enumerate() {
            let id = LaneId(index as u8);
            if id == lane || !other.running && other.held.is_none() && other.backlog == 0 {
                continue;
            }
            // How long it, and what waits behind it, will still be there when this request starts.
            let left = self.wait(id, now, false).saturating_sub(estimate.wait);
            if left == 0 {
                continue;
            }
            let stage = if other.runs_on(now) {
                others[count] = self.running(id, other);
                other.stage_end.saturating_since(now).0
            } else if let Some(starting) = self.starting(id) {
                others[count] = starting.other;
                starting.alone
            } else {
                continue;
            };
            let stage = stage.saturating_sub(estimate.wait).min(left);
            others[count].now = stage as f64;
            others[count].later = (left - stage) as f64;
            count += 1;
        }
        if count == 0 {
            return estimate;
        }
        let others = &mut others[..count];
        let prefill = (estimate.prepare + service.prefill) as f64;
        let decode = (service.alone - service.prefill) as f64;
        let graph = &self.world.query_graph;
        let mut took = 0.0;
        for (alone, mu, position) in [
            (prefill, service.prefill_mu, graph.bound_at),
            (decode, service.decode_mu, graph.bound_end),
        ] {
            let load = Load { engine, mu };
            took += self.play::<N>(alone, load, graph.stages[position as usize], others);
        }
        let mut harm = 0.0;
        for other in others.iter().filter(|other| other.delay != 0.0) {
            let behind = other.behind + self.lane(other.lane).queries.len();
            harm += other.delay * behind as f64;
            self.delays[other.lane.0 as usize].set(other.delay as i64);
        }
        estimate.beside = ((took + 0.5) as u64).saturating_sub(estimate.prepare);
        estimate.harm = harm as u64;
        estimate
    }

    /// How long a stage takes that would take `alone` ns, beside what is left of others; that advances.
    #[inline(always)]
    fn play<const N: usize>(
        &self,
        alone: f64,
        load: Load,
        stage: StageId,
        others: &mut [Other],
    ) -> f64 {
        let model = &*self.world.contention;
        let switching = self.believed().corun();
        let (mut left, mut took) = (alone, 0.0);
        // Each turn ends this stage, or what another does now.
        while left > 0.0 {
            let mut loads = [load; N];
            let mut stages = [stage; N];
            let mut count = 0;
            for other in others.iter().filter(|other| other.left() > 0.0) {
                count += 1;
                let at = usize::from(other.now == 0.0);
                loads[count] = other.loads[at];
                stages[count] = other.stages[at];
            }
            if count == 0 {
                // Nothing else runs by then.
                break;
            }
            let (mut with, mut without) = ([1.0; N], [1.0; N]);
            let (loads, stages) = (&loads[..=count], &stages[..=count]);
            if switching {
                self.slowed_and_switched(loads, stages, &mut with, &mut without);
            } else {
                self.memo.slowdowns(model, loads, &mut with[..=count]);
                if count > 1 {
                    self.memo
                        .slowdowns(model, &loads[1..], &mut without[1..=count]);
                }
            }
            // Costs beside others may relieve a third of more than the request asks for.
            let rate = |at: usize| without[at] / with[at];
            let mut turn = left * with[0];
            let running = || (1..).zip(others.iter().filter(|other| other.left() > 0.0));
            for (at, other) in running() {
                turn = turn.min(other.next() / rate(at));
            }
            left -= turn / with[0];
            took += turn;
            // What is left of a nanosecond is rounding.
            if left < 0.5 {
                took += left;
                left = 0.0;
            }
            let running = others.iter_mut().filter(|other| other.left() > 0.0);
            for (at, other) in (1..).zip(running) {
                other.advance(turn * rate(at));
                other.delay += turn * (1.0 - rate(at));
            }
        }
        took + left
    }

    /// What a request on a lane would delay others by is added to when they are expected to end: that is how long
    /// what comes next would wait for them.
    #[inline(always)]
    pub(crate) fn delay_others(&mut self, id: JobId, lane: LaneId, now: Instant) {
        if self.nothing_beside() {
            return;
        }
        if self.delays_of.get() != (id, lane, now) {
            self.estimate(id, lane, now);
        }
        for index in 0..self.lanes.len() {
            let delay = self.delays[index].get();
            if delay == 0 {
                continue;
            }
            let state = &mut self.lanes[index];
            if state.held.is_some() && (!state.running || state.runs_on(now)) {
                let end = state.expected_end.0.saturating_add_signed(delay);
                state.expected_end = Instant(end);
            } else if let Some((query, at)) = self.starts_next(LaneId(index as u8)) {
                self.lanes[index].delay_queued(query, at, delay);
            }
        }
    }

    /// Whether no lane runs anything or will in this instant.
    #[inline(always)]
    fn nothing_beside(&self) -> bool {
        self.lanes_busy == 0 && self.lanes.iter().all(|lane| lane.backlog == 0)
    }

    /// What runs on a lane.
    #[inline(always)]
    fn running(&self, id: LaneId, lane: &LaneState) -> Other {
        let later = if self.believed().corun() {
            self.later_stage(lane)
        } else {
            lane.stage
        };
        Other {
            lane: id,
            loads: [lane.load, lane.later],
            stages: [lane.stage, later],
            behind: 1,
            ..Other::NONE
        }
    }
}

/// What is left of a lane's work when a request starts beside it, ns as long as that request is not there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Other {
    pub(super) lane: LaneId,
    /// Believed load of the stage that runs now, and of what its part ends with; the stages themselves.
    pub(super) loads: [Load; 2],
    pub(super) stages: [StageId; 2],
    /// Parts that run: 1, or 0 where what starts now still counts among the queued queries.
    pub(super) behind: usize,
    /// Of the stage that runs now.
    pub(super) now: f64,
    /// Of what follows.
    pub(super) later: f64,
    /// By which the request has delayed it, or hastened it where that is less than nothing.
    pub(super) delay: f64,
}

impl Other {
    pub(super) const NONE: Self = Self {
        lane: LaneId(u8::MAX),
        loads: [Load::NONE; 2],
        stages: [StageId(0); 2],
        behind: 0,
        now: 0.0,
        later: 0.0,
        delay: 0.0,
    };

    fn left(&self) -> f64 {
        self.now + self.later
    }

    /// Until what it does changes.
    fn next(&self) -> f64 {
        if self.now > 0.0 { self.now } else { self.later }
    }

    fn advance(&mut self, by: f64) {
        let left = if self.now > 0.0 {
            &mut self.now
        } else {
            &mut self.later
        };
        *left = if *left - by < 0.5 { 0.0 } else { *left - by };
    }
}
