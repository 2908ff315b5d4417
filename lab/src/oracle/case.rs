//! What is known of a case before any schedule, and what a schedule's rest will cost at least.

use sim::diag::Faults;
use sim::dispatch::{Effect, Input};
use sim::drive::Sink;
use sim::simulation::Simulation;
use sim::spec::scenario::Binding;
use sim::time::Instant;
use sim::workload::QueryTimes;
use sim::world::{LANES_MAX, LaneId, StageId, World};

use super::Objective;
use super::assign::{self, UNABLE};
use super::left::{Left, Rest};
use super::play::{Play, Progress};
use super::prices::prices;
use crate::bounds::{self, Answered, Stage};

/// A request, with what no schedule changes. Times in ns.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) key: (u16, u32),
    pub(super) arrived: u64,
    /// From the arrival, at least: to the first token, to the last, and until the first bound stage may start.
    pub(super) ttft: f64,
    pub(super) completion: f64,
    pub(super) begin: f64,
    /// The bound stages, in order.
    pub(super) stages: Vec<StageId>,
    /// By lane: time alone and price of each bound stage; `None` where the lane cannot.
    lanes: Vec<Option<Vec<(f64, f64)>>>,
    /// The least of each over the lanes.
    pub(super) least: Rest,
    /// An earlier request that cannot be told from it.
    pub(super) like: Option<usize>,
}

/// A case: few requests on few lanes.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Case {
    /// By stream and number.
    pub(super) requests: Vec<Known>,
    pub(super) lanes: usize,
    /// Lanes on which any request can run.
    able: usize,
    /// By lane, one before it that cannot be told from it.
    pub(super) twins: Vec<Option<LaneId>>,
    /// What stages take alone and when requests arrive is the same in every schedule.
    pub(super) fixed: bool,
    /// Nobody waits for an answer before he asks again.
    pub(super) open: bool,
    /// A request that is placed on a free lane keeps it: nothing there could send it elsewhere.
    direct: bool,
    /// Nothing arrives but these requests.
    pub(super) queries_only: bool,
}

/// Prompt and longest answer of each query, by stream and number.
#[derive(Default)]
struct Asked(Vec<((u16, u32), (u32, u32))>);

impl Sink for Asked {
    fn input(&mut self, _: Instant, input: &Input) {
        if let Input::Query {
            stream,
            index,
            prompt,
            max_output,
            ..
        } = input
        {
            self.0.push(((stream.0, *index), (*prompt, *max_output)));
        }
    }

    fn effect(&mut self, _: Instant, _: &Effect) {}
}

impl Case {
    /// The requests of a run that its policy answers.
    pub(super) fn new(world: &World, run: u32) -> Result<Self, Faults> {
        let mut answered = bounds::requests(world, run)?;
        answered.sort_by_key(|request| request.key);
        let mut asked = Asked::default();
        Simulation::new(world).run_into(run, &mut asked)?;
        asked.0.sort_unstable();
        let streams = || world.streams.iter();
        let queries_only = streams().all(|stream| stream.frames.is_none());
        let closed = |times: &QueryTimes| matches!(times, QueryTimes::ClosedLoop { .. });
        let open = streams()
            .filter_map(|stream| stream.queries.as_ref())
            .all(|queries| !closed(&queries.arrivals));
        let same_contexts = queries_only || world.binding == Binding::Arrived;
        let fixed = open && same_contexts && !world.answers_join_history;
        let plain = fixed && queries_only && world.modes.context_reuse;
        let mut case = Self {
            requests: known(world, &answered),
            lanes: world.lanes.len(),
            able: 0,
            twins: vec![None; world.lanes.len()],
            fixed,
            open,
            direct: plain && all_fits(world, &asked),
            queries_only,
        };
        let able = |&lane: &usize| {
            case.requests
                .iter()
                .any(|known| known.lanes[lane].is_some())
        };
        case.able = (0..case.lanes).filter(able).count();
        if plain {
            case.find_alike(&answered, &asked);
            case.find_twins(world);
        }
        Ok(case)
    }

    /// Place of a request.
    pub(super) fn place_of(&self, stream: u16, index: u32) -> Option<usize> {
        let key = (stream, index);
        self.requests
            .binary_search_by_key(&key, |known| known.key)
            .ok()
    }

    /// Two requests of a stream that arrive together, ask for as much and take as long everywhere: only what is
    /// called by which name differs, so schedules are told apart by the order in which they start.
    fn find_alike(&mut self, answered: &[Answered], asked: &Asked) {
        let sizes = |key: (u16, u32)| {
            let at = asked.0.binary_search_by_key(&key, |(key, _)| *key).ok()?;
            Some(asked.0[at].1)
        };
        let bits = |request: &Answered| -> Vec<(u8, u64, u64, u8)> {
            let stages = request.bound.iter();
            let loads = stages.flat_map(|stage| {
                let all = stage.alone.iter();
                all.map(|(ns, load)| (stage.id.0, ns.to_bits(), load.mu.to_bits(), load.engine.0))
            });
            loads.collect()
        };
        for later in 1..answered.len() {
            let (one, other) = (&answered[later - 1], &answered[later]);
            let same = one.key.0 == other.key.0
                && one.arrived == other.arrived
                && sizes(one.key).is_some()
                && sizes(one.key) == sizes(other.key)
                && bits(one) == bits(other);
            self.requests[later].like = same.then_some(later - 1);
        }
    }

    /// Lanes of one engine with as many cores, none pinned to cores that others are pinned to.
    fn find_twins(&mut self, world: &World) {
        let query = &world.query_graph.stages;
        let fixed = |lane: usize| {
            let mut stages = query.iter();
            stages.any(|stage| world.placement[stage.0 as usize] == Some(LaneId(lane as u8)))
        };
        for later in 0..self.lanes {
            let twin = (0..later).rev().find(|&lane| {
                let (one, other) = (&world.lanes[lane], &world.lanes[later]);
                one.engine == other.engine
                    && one.cores == other.cores
                    && !world.cpu.pins_shared
                    && !fixed(lane)
                    && !fixed(later)
            });
            self.twins[later] = twin.map(|lane| LaneId(lane as u8));
        }
    }

    /// Whether a request can run on a lane.
    pub(super) fn can(&self, request: usize, lane: usize) -> bool {
        self.requests[request].lanes[lane].is_some()
    }

    /// Time alone of a request on a lane, ns; without end where it cannot run.
    pub(super) fn service(&self, request: usize, lane: usize) -> f64 {
        match &self.requests[request].lanes[lane] {
            Some(stages) => stages.iter().map(|(ns, _)| ns).sum(),
            None => f64::INFINITY,
        }
    }

    /// What the objective will be at least, ns, whatever follows.
    pub(super) fn least(&self, play: &Play, objective: Objective) -> f64 {
        if !self.fixed {
            return so_far(play, objective);
        }
        let mut left = Left::new(play.now as f64, self.able);
        // Free lanes have no time yet.
        let mut free = [play.now as f64; LANES_MAX];
        for (at, (known, progress)) in self.requests.iter().zip(&play.requests).enumerate() {
            let arrived = known.arrived as f64;
            left.arrived += arrived;
            if let Some(last) = progress.last {
                left.ended(progress.first.unwrap_or(last) as f64, last as f64);
                continue;
            }
            let holds = progress.lane.or(progress.placed.filter(|_| self.direct));
            let stages =
                holds.and_then(|lane| Some((lane, known.lanes[lane.0 as usize].as_ref()?)));
            if let Some((lane, stages)) = stages {
                let stages = stages.get(progress.done..).unwrap_or_default();
                let runs = play.runs[lane.0 as usize] == Some(at);
                let rest = Rest::of(stages, runs.then(|| play.left[lane.0 as usize]));
                let first = progress.first.map(|first| first as f64);
                let end = left.runs(rest, first, arrived + known.completion);
                let free = &mut free[lane.0 as usize];
                *free = free.max(end);
            } else {
                left.waits(known, at);
            }
        }
        match objective {
            Objective::Completion => {
                let waiting = &left.waiting;
                let assigned = assign::least(waiting.len(), self.lanes, |job, lane, place| {
                    let service = self.service_ns(waiting[job], lane);
                    free[lane] as i64 + (place + 1) * service
                });
                let together = left.mean_busy() + left.tails;
                let assigned = left.ends_running + assigned as f64;
                left.ends_done - left.arrived + left.ends.max(assigned).max(together)
            }
            Objective::Ttft => {
                let waiting = &left.waiting;
                let assigned = assign::least(waiting.len(), self.lanes, |job, lane, place| {
                    let known = &self.requests[waiting[job]];
                    let Some(stages) = &known.lanes[lane] else {
                        return UNABLE;
                    };
                    let prefill = stages.first().map_or(0.0, |(ns, _)| *ns);
                    free[lane] as i64 + place * self.service_ns(waiting[job], lane) + prefill as i64
                });
                let together = left.starts() + left.firsts_alone;
                left.firsts_known - left.arrived + left.firsts.max(assigned as f64).max(together)
            }
            Objective::Makespan => left.last.max(left.work_ends()),
        }
    }

    fn service_ns(&self, request: usize, lane: usize) -> i64 {
        let service = self.service(request, lane);
        if service.is_finite() {
            service as i64
        } else {
            UNABLE
        }
    }
}

/// What has been spent, where nothing is known of the rest.
fn so_far(play: &Play, objective: Objective) -> f64 {
    let now = play.now;
    let spent = play.requests.iter().map(|request: &Progress| {
        let since = |end: Option<u64>| {
            let arrived = request.arrived.unwrap_or(now);
            end.unwrap_or(now).saturating_sub(arrived) as f64
        };
        match objective {
            Objective::Completion => since(request.last),
            Objective::Ttft => since(request.first),
            Objective::Makespan => 0.0,
        }
    });
    match objective {
        Objective::Makespan => now as f64,
        Objective::Completion | Objective::Ttft => spent.sum(),
    }
}

/// Whether all requests' KV fits everywhere at once, and every engine can make a context by itself: then what is
/// placed on a free lane begins there.
fn all_fits(world: &World, asked: &Asked) -> bool {
    let own = asked
        .0
        .iter()
        .map(|(_, (prompt, output))| u64::from(*prompt) + u64::from(*output));
    let system = u64::from(world.model.system_tokens);
    let contexts = system * (world.streams.len() * world.engines.len()) as u64;
    let bytes = (own.sum::<u64>() + contexts).checked_mul(world.model.kv_bytes_per_token);
    let budgets = world.engines.iter().map(|engine| engine.kv_budget);
    let least = budgets.fold(world.memory.kv_budget, u64::min);
    let rebuilds = |lane: &sim::world::Lane| {
        let reconstruct = world.transfer.reconstruct;
        world.costs.get(lane.engine, reconstruct).is_some()
    };
    bytes.is_some_and(|bytes| bytes <= least) && (system == 0 || world.lanes.iter().all(rebuilds))
}

fn known(world: &World, answered: &[Answered]) -> Vec<Known> {
    let bound: Vec<Vec<Stage>> = answered.iter().map(|one| one.bound.clone()).collect();
    let prices = prices(world, &bound);
    let price = |stage: StageId, lane: usize| {
        let of_stage = prices.iter().find(|(id, _)| *id == stage);
        of_stage.map_or(0.0, |(_, prices)| prices[lane])
    };
    let known = answered.iter().map(|one| {
        let lanes: Vec<Option<Vec<(f64, f64)>>> = (0..world.lanes.len())
            .map(|lane| {
                let stages = one.bound.iter();
                let on = stages.map(|stage| (stage.alone[lane].0, price(stage.id, lane)));
                let on: Vec<(f64, f64)> = on.collect();
                on.iter().all(|(ns, _)| ns.is_finite()).then_some(on)
            })
            .collect();
        let rests = lanes.iter().flatten().map(|stages| Rest::of(stages, None));
        let nothing = Rest {
            ns: 0.0,
            first: 0.0,
            price: 0.0,
            tail: 0.0,
        };
        let ns = |secs: f64| secs * 1e9;
        let bounded = &one.bounded;
        Known {
            key: one.key,
            arrived: one.arrived.0,
            ttft: ns(bounded.ttft_bound_s),
            completion: ns(bounded.completion_bound_s),
            begin: ns(bounded.completion_bound_s - bounded.service_bound_s),
            stages: one.bound.iter().map(|stage| stage.id).collect(),
            least: rests.reduce(Rest::min).unwrap_or(nothing),
            lanes,
            like: None,
        }
    });
    known.collect()
}
