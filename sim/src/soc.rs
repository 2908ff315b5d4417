//! The simulated executor: lanes in virtual time, slowed down by each other.
//!
//! Contention changes the rate at which a stage's work is done, never the amount: on any change of
//! the running set the work left of every stage whose rate changes is advanced at the old rate and
//! its end computed at the new. All events of one instant are applied before rates are recomputed.

use crate::contention::Load;
use crate::cost::{Noise, StageCosts};
use crate::dispatch::{Effect, Input, SlowdownMemo, Task, intensity, lanes_of};
use crate::drive::Executor;
use crate::rng;
use crate::spec::model::StageKind;
use crate::spec::soc::EngineKind;
use crate::time::{Duration, Instant};
use crate::workload::{Arrival, Workload};
use crate::world::{EngineId, LANES_MAX, LaneId, STAGES_MAX, StageId, World};

/// What only the executor knows of a frame or query.
#[derive(Clone, Copy, Debug, Default)]
struct Truth {
    noise: u64,
    output: u32,
}

/// A lane's running task.
#[derive(Clone, Copy, Debug)]
struct Running {
    /// Work in all, as ns alone, and what is left of it at `updated`.
    work: u64,
    left: f64,
    updated: Instant,
    /// Time beside the others ÷ time alone; 0 until computed.
    slowdown: f64,
    started: Instant,
    tokens: u32,
    stage: StageId,
    /// It has been counted as played outside what was measured.
    counted: bool,
    played: Played,
}

/// What a task costs on a lane, before its own noise.
#[derive(Clone, Copy, Debug)]
struct Played {
    /// Seconds and DRAM bytes alone.
    secs: f64,
    bytes: f64,
    /// Its load alone, and while another lane is busy, with the ratio of its times.
    load: Load,
    corun_load: Load,
    corun_ratio: f64,
    /// CPU cores that it keeps busy, its lane's own included.
    cores: f64,
    /// Share of its time that suffers when the CPU is oversubscribed.
    cpu_share: f64,
    watts: f64,
    /// Whether size and context lie within what was measured, alone and while another lane is busy.
    measured: bool,
    corun_measured: bool,
    noisy: bool,
}

/// What a cost depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    lane: LaneId,
    stage: StageId,
    source: EngineId,
    stream: u16,
    size: u32,
    context: u32,
}

/// Lanes up to which rates use small arrays: nearly every SoC.
const FEW_LANES: usize = 4;
/// Costs remembered, a power of two.
const REMEMBERED: usize = 128;

/// What only the executor knows of a lane's task, or of its last one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Its time alone, spread included.
    pub alone: Duration,
    /// Its time now ÷ its time alone: what runs beside it, and CPU cores in short supply.
    pub slowdown: f64,
}

/// The simulated SoC.
#[derive(Debug)]
pub struct Soc<'w> {
    world: &'w World,
    workload: Workload,
    truths: Vec<Truth>,
    free: Vec<u32>,
    /// The lanes; meaningful where `active` has their bit.
    lanes: Vec<Running>,
    active: u16,
    /// When each lane's task ends at the present rate; `NEVER` while idle or until rates are computed.
    ends: [Instant; LANES_MAX],
    now: Instant,
    rates_stale: bool,
    /// The lane that ends first, and when; at most as late as any.
    first: (Instant, LaneId),
    memo: SlowdownMemo,
    remembered: Vec<Option<(Key, Played)>>,
    unmeasured: Vec<[u64; STAGES_MAX]>,
}

impl<'w> Soc<'w> {
    /// An idle SoC before replication `run` of a world.
    pub fn new(world: &'w World, run: u32) -> Self {
        let idle = Running {
            work: 0,
            left: 0.0,
            updated: Instant::ZERO,
            slowdown: 0.0,
            started: Instant::ZERO,
            tokens: 0,
            stage: StageId(0),
            counted: false,
            played: Played {
                secs: 0.0,
                bytes: 0.0,
                load: Load {
                    engine: EngineId(0),
                    mu: 0.0,
                },
                corun_load: Load {
                    engine: EngineId(0),
                    mu: 0.0,
                },
                corun_ratio: 1.0,
                cores: 0.0,
                cpu_share: 0.0,
                watts: 0.0,
                measured: true,
                corun_measured: true,
                noisy: false,
            },
        };
        Self {
            world,
            workload: Workload::new(
                &world.streams,
                world.seed,
                run,
                world.horizon,
                world.prediction,
            ),
            truths: Vec::with_capacity(64),
            free: Vec::with_capacity(64),
            lanes: vec![idle; world.lanes.len()],
            active: 0,
            ends: [Instant::NEVER; LANES_MAX],
            now: Instant::ZERO,
            rates_stale: false,
            first: (Instant::NEVER, LaneId(0)),
            memo: SlowdownMemo::new(),
            remembered: vec![None; REMEMBERED],
            unmeasured: vec![[0; STAGES_MAX]; world.engines.len()],
        }
    }

    /// Back to the start, for replication `run`; allocations stay.
    pub fn reset(&mut self, run: u32) {
        self.workload.reset(run);
        self.truths.clear();
        self.free.clear();
        self.active = 0;
        self.ends = [Instant::NEVER; LANES_MAX];
        self.now = Instant::ZERO;
        self.rates_stale = false;
        self.first = (Instant::NEVER, LaneId(0));
        for row in &mut self.unmeasured {
            row.fill(0);
        }
    }

    /// How often each engine's stages were played outside the range in which they were measured.
    pub fn unmeasured(&self) -> &[[u64; STAGES_MAX]] {
        &self.unmeasured
    }

    /// What a lane runs or ran last, at the rate of the time before the last event.
    pub fn progress(&self, lane: LaneId) -> Progress {
        let lane = &self.lanes[lane.0 as usize];
        Progress {
            alone: Duration(lane.work),
            slowdown: lane.slowdown,
        }
    }

    fn admit(&mut self, truth: Truth) -> u32 {
        if let Some(ticket) = self.free.pop() {
            self.truths[ticket as usize] = truth;
            ticket
        } else {
            self.truths.push(truth);
            self.truths.len() as u32 - 1
        }
    }

    fn arrive(&mut self, arrival: Arrival) -> Input {
        match arrival {
            Arrival::Frame {
                stream,
                index,
                tokens,
                noise,
            } => {
                let ticket = self.admit(Truth { noise, output: 0 });
                Input::Frame {
                    ticket,
                    stream,
                    index,
                    tokens,
                }
            }
            Arrival::Query {
                stream,
                index,
                prompt,
                output,
                predicted,
                max_output,
                deadline,
                noise,
            } => {
                let ticket = self.admit(Truth { noise, output });
                let index = index as u32;
                Input::Query {
                    ticket,
                    stream,
                    index,
                    prompt,
                    predicted,
                    max_output,
                    deadline,
                }
            }
        }
    }

    fn finish(&mut self, lane: LaneId) -> Input {
        self.active &= !(1 << lane.0);
        self.ends[lane.0 as usize] = Instant::NEVER;
        self.rates_stale = true;
        self.first = self.first_end();
        let running = &self.lanes[lane.0 as usize];
        let nanojoules = match self.world.power {
            None => 0,
            Some(power) => {
                let busy = self.now.saturating_since(running.started).as_secs_f64();
                let moved = power.joules_per_byte * running.played.bytes;
                ((busy * running.played.watts + moved) * 1e9 + 0.5) as u64
            }
        };
        Input::Finish {
            lane,
            tokens: running.tokens,
            bytes: (running.played.bytes + 0.5) as u64,
            nanojoules,
        }
    }

    fn start(&mut self, now: Instant, lane: LaneId, task: &Task) {
        let world = self.world;
        let truth = self
            .truths
            .get(task.ticket as usize)
            .copied()
            .unwrap_or(Truth {
                // An answer that joins the history: its noise is its version's.
                noise: (u64::from(task.stream.0) << 32) | u64::from(task.version),
                output: 0,
            });
        let kind = world.stages[task.stage.0 as usize].kind;
        let tokens = if kind == StageKind::Decode {
            truth.output.saturating_sub(1).min(task.size)
        } else {
            0
        };
        let played = self.played(lane, task, kind, tokens);
        if !played.measured {
            self.unmeasured[played.load.engine.0 as usize][task.stage.0 as usize] += 1;
        }
        let factor = if played.noisy {
            world
                .costs
                .get(played.load.engine, task.stage)
                .map_or(1.0, |costs| {
                    rng::factor(truth.noise, task.stage.0, &costs.noise)
                })
        } else {
            1.0
        };
        debug_assert!(
            self.active & (1 << lane.0) == 0,
            "INV-3: lane {} is busy",
            lane.0
        );
        self.active |= 1 << lane.0;
        let work = Duration::from_secs_f64(played.secs * factor).0;
        self.lanes[lane.0 as usize] = Running {
            work,
            left: work as f64,
            updated: now,
            slowdown: 0.0,
            started: now,
            tokens,
            stage: task.stage,
            counted: !played.measured,
            played,
        };
        self.rates_stale = true;
    }

    /// A task's cost on a lane: remembered, as a steady workload asks for the same again and again.
    #[inline]
    fn played(&mut self, lane: LaneId, task: &Task, kind: StageKind, tokens: u32) -> Played {
        let size = if kind == StageKind::Decode {
            tokens
        } else {
            task.size
        };
        let stream = if kind == StageKind::Encode {
            task.stream.0
        } else {
            0
        };
        let key = Key {
            lane,
            stage: task.stage,
            source: task.source,
            stream,
            size,
            context: task.context,
        };
        let hash = (size ^ task.context.rotate_left(12))
            .wrapping_add(u32::from(task.stage.0) << 8 | u32::from(lane.0))
            .wrapping_mul(0x9e37_79b9);
        let slot = (hash >> 25) as usize % self.remembered.len();
        if let Some((remembered, played)) = &self.remembered[slot]
            && *remembered == key
        {
            return *played;
        }
        let played = self.played_anew(lane, task, kind, tokens);
        self.remembered[slot] = Some((key, played));
        played
    }

    #[cold]
    fn played_anew(&self, lane: LaneId, task: &Task, kind: StageKind, tokens: u32) -> Played {
        let world = self.world;
        let engine = world.engine_of(lane);
        let Some(costs) = world.costs.get(engine, task.stage) else {
            // The scheduler starts only what the cost table has.
            unreachable!("stage {} has no cost on engine {}", task.stage.0, engine.0)
        };
        let (n, times) = self.size(task, kind, tokens);
        let alone = costs.alone.at(n, task.context.into());
        let port = world.engines[engine.0 as usize].port_bytes_per_s;
        let mut secs = alone.secs * times;
        let mut bytes = alone.bytes * times;
        let mut measured = alone.measured;
        if kind == StageKind::Import
            && let Some(out) = world.costs.get(task.source, world.transfer.export)
        {
            let out = out.alone.at(n, 0.0);
            secs += out.secs;
            bytes += out.bytes;
            measured &= out.measured;
        }
        let load = Load {
            engine,
            mu: intensity(
                crate::cost::At {
                    secs,
                    bytes,
                    measured,
                },
                port,
            ),
        };
        let (corun_ratio, corun_load, corun_measured) = match &costs.corun {
            None => (1.0, load, true),
            Some(corun) => {
                let beside = corun.at(n, task.context.into());
                let ratio = if alone.secs > 0.0 {
                    beside.secs / alone.secs
                } else {
                    1.0
                };
                let mu = intensity(beside, port);
                (ratio, Load { engine, mu }, beside.measured)
            }
        };
        let on_cpu = world.engines[engine.0 as usize].kind == EngineKind::Cpu;
        Played {
            secs,
            bytes,
            load,
            corun_load,
            corun_ratio,
            cores: world.lanes[lane.0 as usize].cores + costs.host_cores,
            cpu_share: if on_cpu { 1.0 } else { costs.host_share },
            watts: self.watts(engine, costs),
            measured,
            corun_measured,
            noisy: world.noise && costs.noise != Noise::None,
        }
    }

    /// The size that a task's cost is looked up at, and how many times over.
    fn size(&self, task: &Task, kind: StageKind, tokens: u32) -> (f64, f64) {
        match kind {
            StageKind::Encode => {
                let frames = &self.world.streams[task.stream.0 as usize].frames;
                (
                    frames.as_ref().map_or(1.0, |frames| frames.megapixels),
                    task.size.into(),
                )
            }
            StageKind::Decode => (tokens.into(), 1.0),
            StageKind::Import => (
                f64::from(task.size) * self.world.model.kv_bytes_per_token as f64,
                1.0,
            ),
            _ => (task.size.into(), 1.0),
        }
    }

    fn watts(&self, engine: EngineId, costs: &StageCosts) -> f64 {
        let own = self.world.engines[engine.0 as usize].power;
        costs
            .active_w
            .or(own.map(|power| power.active_w))
            .unwrap_or(0.0)
    }

    /// Recomputes the rates of all running stages as of `now`.
    fn update_rates(&mut self) {
        self.rates_stale = false;
        let several = self.active & self.active.wrapping_sub(1) != 0;
        if several && self.lanes.len() <= FEW_LANES {
            self.update_rates_of::<FEW_LANES>();
        } else if several || self.world.memory.background_bandwidth > 0.0 {
            self.update_rates_of::<LANES_MAX>();
        } else if self.active != 0 {
            let lane = self.active.trailing_zeros() as usize;
            let oversubscribed = self.oversubscribed();
            self.set_rate(lane, 1.0, oversubscribed, false);
        }
        self.first = self.first_end();
    }

    /// `N` bounds the running lanes.
    fn update_rates_of<const N: usize>(&mut self) {
        let mut ids = [0u8; N];
        let mut count = 0;
        for lane in lanes_of(self.active) {
            ids[count] = lane.0;
            count += 1;
        }
        if count == 0 {
            return;
        }
        let mut slowdowns = [1.0; N];
        let known = self.contend::<N>(&ids[..count], &mut slowdowns);
        for &id in &ids[..count] {
            let lane = &mut self.lanes[id as usize];
            if !lane.counted && !(known && (count == 1 || lane.played.corun_measured)) {
                lane.counted = true;
                self.unmeasured[lane.played.load.engine.0 as usize][lane.stage.0 as usize] += 1;
            }
        }
        let oversubscribed = self.oversubscribed();
        for (&id, &slowdown) in ids[..count].iter().zip(&slowdowns) {
            self.set_rate(id as usize, slowdown, oversubscribed, count > 1);
        }
    }

    /// CPU cores in demand ÷ cores there are, at least 1.
    #[inline]
    fn oversubscribed(&self) -> f64 {
        let cpu = &self.world.cpu;
        let mut cores = cpu.background_cores;
        for lane in lanes_of(self.active) {
            cores += self.lanes[lane.0 as usize].played.cores;
        }
        if cores > cpu.cores {
            cores / cpu.cores
        } else {
            1.0
        }
    }

    /// Plays a lane's task at a new rate from now on: what was done so far stays done.
    #[inline]
    fn set_rate(&mut self, index: usize, slowdown: f64, oversubscribed: f64, together: bool) {
        let lane = &mut self.lanes[index];
        let mut rate = slowdown;
        if oversubscribed > 1.0 {
            rate *= 1.0 + lane.played.cpu_share * (oversubscribed - 1.0);
        }
        if together {
            rate *= lane.played.corun_ratio;
        }
        if rate == lane.slowdown {
            return;
        }
        if lane.slowdown > 0.0 {
            let elapsed = self.now.saturating_since(lane.updated).0 as f64;
            lane.left = (lane.left - elapsed / lane.slowdown).max(0.0);
        }
        lane.updated = self.now;
        lane.slowdown = rate;
        self.ends[index] = self.now + Duration((lane.left * rate + 0.5) as u64);
    }

    /// Slowdowns of the running lanes `ids`; whether they lie within what was measured of such pairs.
    fn contend<const N: usize>(&self, ids: &[u8], slowdowns: &mut [f64; N]) -> bool {
        let mut loads = [Load {
            engine: EngineId(0),
            mu: 0.0,
        }; N];
        let count = ids.len();
        for (load, &id) in loads.iter_mut().zip(ids) {
            let played = &self.lanes[id as usize].played;
            *load = if count > 1 {
                played.corun_load
            } else {
                played.load
            };
        }
        let model = &*self.world.contention;
        if count > 1 {
            self.memo
                .slowdowns(model, &loads[..count], &mut slowdowns[..count]);
        } else {
            // Background traffic slows even a stage that runs by itself, which the memo does not know.
            model.slowdowns(&loads[..1], &mut slowdowns[..1]);
        }
        model.within_range(&loads[..count])
    }

    /// The lane that ends first, and when.
    #[inline]
    fn first_end(&self) -> (Instant, LaneId) {
        let mut first = (Instant::NEVER, LaneId(0));
        for lane in lanes_of(self.active) {
            let end = self.ends[lane.0 as usize];
            if end < first.0 {
                first = (end, lane);
            }
        }
        first
    }
}

impl Executor for Soc<'_> {
    fn next(&mut self) -> Option<(Instant, Input)> {
        let arrival = self.workload.peek();
        if self.rates_stale && self.first.0 > self.now && arrival.is_none_or(|at| at > self.now) {
            self.update_rates();
        }
        let (done_at, lane) = self.first;
        // At one instant, what ends goes before what arrives.
        if let Some(at) = arrival
            && at < done_at
        {
            self.now = at;
            let (_, arrival) = self.workload.pop()?;
            return Some((at, self.arrive(arrival)));
        }
        if done_at == Instant::NEVER {
            return None;
        }
        self.now = done_at;
        Some((done_at, self.finish(lane)))
    }

    #[inline]
    fn apply(&mut self, now: Instant, effect: &Effect) {
        match effect {
            Effect::Start { lane, task } => self.start(now, *lane, task),
            Effect::Complete(done) => {
                self.free.push(done.ticket);
                self.workload.answered(done.stream, now);
            }
            Effect::Refuse {
                ticket,
                query,
                stream,
                ..
            } => {
                self.free.push(*ticket);
                if *query {
                    self.workload.refused(*stream, now);
                }
            }
            Effect::Publish {
                ticket: Some(ticket),
                ..
            } => self.free.push(*ticket),
            Effect::Publish { .. }
            | Effect::Bind { .. }
            | Effect::Evict { .. }
            | Effect::Abandon { .. } => {}
        }
    }
}
