//! What the policy expects of co-running: the slowdown that a request would see, and the harm that it would do.

use super::estimate::{Estimate, intensity};
use super::memo::Service;
use super::state::{JobId, State};
use crate::contention::Load;
use crate::time::Instant;
use crate::world::{EngineId, LANES_MAX, LaneId, StageId};

/// Lanes up to which estimates use small arrays: nearly every SoC.
const FEW_LANES: usize = 4;

impl State<'_> {
    /// The memory intensity that a stage is believed to have.
    pub(crate) fn believed_mu(
        &self,
        engine: EngineId,
        stage: StageId,
        n: f64,
        context: f64,
    ) -> f64 {
        self.believed_at(engine, stage, n, context)
            .map_or(0.0, |at| {
                intensity(at, self.world.engines[engine.0 as usize].port_bytes_per_s)
            })
    }

    /// Believed time of a stage at its engine's costs beside others ÷ at those alone.
    fn corun_ratio(&self, engine: EngineId, stage: StageId) -> f64 {
        let costs = self.believed().get(engine, stage);
        costs.map_or(1.0, |costs| costs.corun_ratio)
    }

    /// Whether a busy lane of one engine brings another's costs beside others about.
    #[inline]
    fn switches(&self, busy: EngineId, engine: EngineId) -> bool {
        let beside = &self.believed().corun_beside;
        beside[engine.0 as usize] >> busy.0 & 1 != 0
    }

    /// How much a busy lane of `busy` slows the stage that runs on `lane` by switching its costs, beside
    /// the `others` that run.
    fn switched_by(
        &self,
        busy: EngineId,
        lane: LaneId,
        mut others: impl Iterator<Item = LaneId>,
    ) -> f64 {
        let engine = self.lane(lane).engine;
        if !self.switches(busy, engine)
            || others.any(|other| other != lane && self.switches(self.lane(other).engine, engine))
        {
            return 1.0;
        }
        self.corun_ratio(engine, self.lane(lane).stage)
    }

    /// Everything that the state-aware score adds up.
    #[inline(always)]
    pub(crate) fn estimate(&self, id: JobId, lane: LaneId, now: Instant) -> Estimate {
        let quote = self.quote(id, lane);
        let (prepare, alone) = (quote.prepare, quote.service.alone);
        let wait = self.wait(lane, now, true);
        let estimate = Estimate {
            wait,
            prepare,
            alone,
            beside: alone,
            harm: 0,
        };
        if self.lanes_busy == 0 || self.world.contention_off && !self.believed().corun() {
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
    fn beside<const N: usize>(
        &self,
        lane: LaneId,
        service: &Service,
        mut estimate: Estimate,
        now: Instant,
    ) -> Estimate {
        let engine = self.world.engine_of(lane);
        let mut loads = [Load {
            engine,
            mu: service.prefill_mu,
        }; N];
        let mut others = [(lane, 0u64); N];
        let mut count = 0;
        for (index, other) in self.lanes.iter().enumerate() {
            let id = LaneId(index as u8);
            if id == lane || !other.running {
                continue;
            }
            // How long it, and what waits behind it, will still be there when this request starts.
            let left = self.wait(id, now, false).saturating_sub(estimate.wait);
            if left > 0 {
                others[count] = (id, left);
                count += 1;
                loads[count] = other.load;
            }
        }
        if count == 0 {
            return estimate;
        }
        let model = &*self.world.contention;
        let mut without = [1.0; N];
        if count > 1 {
            self.memo
                .slowdowns(model, &loads[1..=count], &mut without[1..=count]);
        }
        let longest = others[..count]
            .iter()
            .map(|&(_, left)| left)
            .max()
            .unwrap_or(0) as f64;
        let ids = others[..count].iter().map(|&(id, _)| id);
        let switching = self.believed().corun();
        let switched = switching
            && ids
                .clone()
                .any(|id| self.switches(self.lane(id).engine, engine));
        let mut started = 0.0;
        let mut harm = 0.0;
        let prefill = estimate.prepare + service.prefill;
        let decode = service.alone - service.prefill;
        let graph = &self.world.query_graph;
        for (alone, mu, position) in [
            (prefill, service.prefill_mu, graph.bound_at),
            (decode, service.decode_mu, graph.bound_end),
        ] {
            let alone = alone as f64;
            if started >= longest || alone == 0.0 {
                // Nothing else runs by then, or it takes no time.
                started += alone;
                continue;
            }
            loads[0].mu = mu;
            let mut with = [1.0; N];
            self.memo
                .slowdowns(model, &loads[..=count], &mut with[..=count]);
            if switched {
                with[0] *= self.corun_ratio(engine, graph.stages[position as usize]);
            }
            // The overlapped part runs at 1/s; the rest alone.
            let overlapped = (longest - started).min(alone * with[0]);
            let ended = started + alone + overlapped * (1.0 - 1.0 / with[0]);
            for (index, &(id, left)) in others[..count].iter().enumerate() {
                let without = without[index + 1];
                let mut with = with[index + 1];
                if switching {
                    with *= self.switched_by(engine, id, ids.clone());
                }
                if with > without {
                    let overlap = ((left as f64).min(ended) - started).max(0.0);
                    let behind = 1 + self.lane(id).queries.len();
                    harm += overlap * (1.0 - without / with) * behind as f64;
                }
            }
            started = ended;
        }
        estimate.beside = (started as u64).saturating_sub(estimate.prepare);
        estimate.harm = harm as u64;
        estimate
    }
}
