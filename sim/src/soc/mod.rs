//! The simulated executor: lanes in virtual time, slowed down by each other.
//!
//! Contention changes the rate at which a stage's work is done, never the amount: on any change of
//! the running set the work left of every stage whose rate changes is advanced at the old rate and
//! its end computed at the new. All events of one instant are applied before rates are recomputed.

mod cpu;
mod heat;
mod played;
mod power;
mod rates;

use crate::contention::Load;
use crate::dispatch::{Effect, Input, Task, lanes_of};
use crate::drive::Executor;
use crate::rng;
use crate::spec::model::StageKind;
use crate::time::{Duration, Instant};
use crate::workload::{Arrival, Workload};
use crate::world::{FULL_SPEED, LANES_MAX, LaneId, STAGES_MAX, StageId, World};
use heat::Heat;
pub use heat::Warmth;
use played::{Costs, Played};
use power::Shared;
use rates::{FEW, Rates, Together};

/// What only the executor knows of a frame or query.
#[derive(Clone, Copy, Debug, Default)]
struct Truth {
    noise: u64,
    output: u32,
}

/// A lane's running task.
#[derive(Clone, Debug)]
struct Running {
    /// Work in all, as ns alone, and what is left of it at `updated`.
    work: f64,
    left: f64,
    updated: Instant,
    /// Time beside the others ÷ time alone; 0 until computed.
    slowdown: f64,
    /// When it ends at the present rate; `NEVER` until that is computed.
    end: Instant,
    started: Instant,
    tokens: u32,
    stage: StageId,
    /// It has been counted as played outside what was measured.
    counted: bool,
    played: Played,
}

/// What only the executor knows of a lane's task, or of its last one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Its time alone, spread included.
    pub alone: Duration,
    /// Its time now ÷ its time alone: what runs beside it, and CPU cores in short supply.
    pub slowdown: f64,
    /// What is left of it, ns alone.
    pub left_ns: f64,
}

/// A task among those that run at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beside {
    /// Its lane; each lane runs one.
    pub lane: LaneId,
    /// The task. A decode's size is what it generates.
    pub task: Task,
}

/// What is predicted of a task among others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Corun {
    /// Its time alone, without spread, s.
    pub alone_s: f64,
    /// Its time beside the others ÷ alone.
    pub slowdown: f64,
    /// The part of the slowdown that comes from sharing CPU cores.
    pub cpu: f64,
}

/// What these tasks come to while all of them run: at most [`LANES_MAX`].
pub fn corun(world: &World, tasks: &[Beside]) -> Vec<Corun> {
    let mut costs = Costs::new();
    let played: Vec<Played> = tasks
        .iter()
        .map(|Beside { lane, task }| {
            let kind = world.stages[task.stage.0 as usize].kind;
            *costs.of(world, *lane, task, kind, task.size)
        })
        .collect();
    let together = Together::<LANES_MAX>::of(world, played.iter(), &FULL_SPEED);
    let shared = rates::cpu_factors::<LANES_MAX>(world, played.iter());
    let both = together.slowdown.iter().zip(shared);
    let all = played.iter().zip(both);
    all.map(|(played, (&slowdown, cpu))| Corun {
        alone_s: played.secs,
        slowdown,
        cpu,
    })
    .collect()
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
    /// Ids of what the first lanes play; 0 where idle.
    ids: [u64; FEW],
    now: Instant,
    rates_stale: bool,
    /// The lane that ends first, and when; at most as late as any.
    first: (Instant, LaneId),
    costs: Costs,
    rates: Rates,
    heat: Option<Heat<'w>>,
    /// Only where lanes share an engine and its power, and there is no heat, which counts it as well.
    shared_power: Option<Shared>,
    /// When the SoC takes or leaves a throttle step unless something happens before.
    throttles_at: Instant,
    unmeasured: Vec<[u64; STAGES_MAX]>,
    noise_draw: u32,
}

impl<'w> Soc<'w> {
    /// An idle SoC before replication `run` of a world.
    pub fn new(world: &'w World, run: u32) -> Self {
        let idle = Running {
            work: 0.0,
            left: 0.0,
            updated: Instant::ZERO,
            slowdown: 0.0,
            end: Instant::NEVER,
            started: Instant::ZERO,
            tokens: 0,
            stage: StageId(0),
            counted: false,
            played: Played::NOTHING,
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
            ids: [0; FEW],
            now: Instant::ZERO,
            rates_stale: false,
            first: (Instant::NEVER, LaneId(0)),
            costs: Costs::new(),
            rates: Rates::new(),
            heat: world.heat.as_ref().map(Heat::new),
            shared_power: shared_power(world),
            throttles_at: Instant::NEVER,
            unmeasured: vec![[0; STAGES_MAX]; world.engines.len()],
            noise_draw: 0,
        }
    }

    /// Takes another draw of how stage times vary; arrivals and lengths stay. Draw 0 is the usual one.
    #[must_use]
    pub const fn with_noise(mut self, draw: u32) -> Self {
        self.noise_draw = draw;
        self
    }

    /// Back to the start, for replication `run`; allocations stay.
    pub fn reset(&mut self, run: u32) {
        self.workload.reset(run);
        self.truths.clear();
        self.free.clear();
        self.active = 0;
        self.ids = [0; FEW];
        self.now = Instant::ZERO;
        self.rates_stale = false;
        self.first = (Instant::NEVER, LaneId(0));
        if let Some(heat) = &mut self.heat {
            heat.reset();
        }
        self.shared_power = shared_power(self.world);
        self.throttles_at = Instant::NEVER;
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
            alone: Duration(lane.work as u64),
            slowdown: lane.slowdown,
            left_ns: lane.left_at(self.now),
        }
    }

    /// Temperature now, °C, where the profile states heat.
    pub fn celsius(&self) -> Option<f64> {
        self.heat.as_ref().map(|heat| heat.celsius(self.now))
    }

    /// What the run's heat amounted to so far, where the profile states it.
    pub fn warmth(&self) -> Option<Warmth> {
        self.heat.as_ref().map(Heat::warmth)
    }

    /// What a task would take on a lane if nothing else ran, its spread included, ns: the less of its
    /// costs alone and beside others; and the load that it would put on the memory alone. `None` where the
    /// lane cannot run it. A task of a ticket that has ended is unknown.
    pub fn alone(&mut self, lane: LaneId, task: &Task) -> Option<(f64, Load)> {
        let world = self.world;
        let fixed = world.placement[task.stage.0 as usize];
        if fixed.is_some_and(|fixed| fixed != lane) {
            return None;
        }
        world.costs.get(world.engine_of(lane), task.stage)?;
        let truth = self.truth(task);
        let kind = world.stages[task.stage.0 as usize].kind;
        let tokens = generated(kind, truth, task);
        let played = self.costs.of(world, lane, task, kind, tokens);
        let ns = if played.noisy {
            noisy_ns(
                world,
                played,
                task.stage,
                rng::draw(truth.noise, self.noise_draw),
            )
        } else {
            played.alone_ns
        };
        Some((ns * played.corun_ratio.min(1.0), played.load))
    }

    fn truth(&self, task: &Task) -> Truth {
        self.truths
            .get(task.ticket as usize)
            .copied()
            .unwrap_or(Truth {
                // An answer that joins the history: its noise is its version's.
                noise: (u64::from(task.stream.0) << 32) | u64::from(task.version),
                output: 0,
            })
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
        if let Some(shared) = &mut self.shared_power {
            shared.advance(self.now, self.active, &self.lanes);
        }
        self.active &= !(1 << lane.0);
        if let Some(id) = self.ids.get_mut(lane.0 as usize) {
            *id = 0;
        }
        self.rates_stale = true;
        self.first = self.first_end();
        let running = &self.lanes[lane.0 as usize];
        let nanojoules = match self.world.power {
            None => 0,
            Some(power) => {
                let active = if let Some(heat) = &mut self.heat {
                    // Throttled, it draws less.
                    heat.ends(lane.0 as usize, self.now)
                } else if let Some(shared) = &self.shared_power {
                    shared.drawn(lane.0 as usize)
                } else {
                    let busy = self.now.saturating_since(running.started);
                    busy.as_secs_f64() * running.played.watts
                };
                let moved = power.joules_per_byte * running.played.bytes;
                ((active + moved) * 1e9 + 0.5) as u64
            }
        };
        Input::Finish {
            lane,
            tokens: running.tokens,
            bytes: running.played.whole_bytes,
            nanojoules,
        }
    }

    fn start(&mut self, now: Instant, lane: LaneId, task: &Task) {
        let world = self.world;
        let truth = self.truth(task);
        let kind = world.stages[task.stage.0 as usize].kind;
        let tokens = generated(kind, truth, task);
        let played = self.costs.of(world, lane, task, kind, tokens);
        if !played.measured {
            self.unmeasured[played.load.engine.0 as usize][task.stage.0 as usize] += 1;
        }
        debug_assert!(
            self.active & (1 << lane.0) == 0,
            "INV-3: lane {} is busy",
            lane.0
        );
        if let Some(shared) = &mut self.shared_power {
            shared.advance(now, self.active, &self.lanes);
            shared.starts(lane.0 as usize);
        }
        self.active |= 1 << lane.0;
        if let Some(id) = self.ids.get_mut(lane.0 as usize) {
            *id = played.id;
        }
        self.rates_stale = true;
        let running = &mut self.lanes[lane.0 as usize];
        running.played = *played;
        running.work = if played.noisy {
            noisy_ns(
                world,
                played,
                task.stage,
                rng::draw(truth.noise, self.noise_draw),
            )
        } else {
            played.alone_ns
        };
        running.left = running.work;
        running.updated = now;
        running.slowdown = 0.0;
        running.end = Instant::NEVER;
        running.started = now;
        running.tokens = tokens;
        running.stage = task.stage;
        running.counted = !played.measured;
        if let Some(heat) = &mut self.heat {
            heat.starts(lane.0 as usize);
        }
    }

    /// Recomputes the rates of all running stages as of `now`.
    fn update_rates(&mut self) {
        self.rates_stale = false;
        let lanes = &self.lanes;
        let tasks = lanes_of(self.active).map(|lane| &lanes[lane.0 as usize].played);
        if let Some(heat) = &self.heat {
            let together = Together::<LANES_MAX>::of(self.world, tasks, heat.speed());
            self.heat_up(&together);
            self.set_rates(&together);
        } else if lanes.len() <= FEW {
            let together = *self.rates.of(self.world, self.ids, tasks);
            self.set_rates(&together);
        } else {
            let together = Together::<LANES_MAX>::of(self.world, tasks, &FULL_SPEED);
            self.set_rates(&together);
        }
    }

    /// Lets the temperature follow what runs from now on, at these rates.
    #[cold]
    #[inline(never)]
    fn heat_up(&mut self, together: &Together<LANES_MAX>) {
        let (Some(heat), Some(power)) = (&mut self.heat, self.world.power) else {
            return;
        };
        heat.advance(self.now);
        let speed = *heat.speed();
        let engines = &self.world.engines;
        let idle = |engine: usize| engines[engine].power.map_or(0.0, |power| power.idle_w);
        let mut total = heat.idle_w();
        // A slower clock saves of what work adds, not of what an idle engine draws.
        let parts = power::parts(self.active, &self.lanes, |engine, watts| {
            watts - (watts - idle(engine)) * (1.0 - speed[engine])
        });
        let mut seen = 0_u8;
        for (lane, slowdown) in lanes_of(self.active).zip(&together.slowdown) {
            let running = &self.lanes[lane.0 as usize];
            let engine = running.played.load.engine.0 as usize;
            if seen >> engine & 1 == 0 {
                // What it draws while it runs holds what it draws while idle.
                total -= idle(engine);
                seen |= 1 << engine;
            }
            let watts = parts[lane.0 as usize];
            heat.lane_draws(lane.0 as usize, watts);
            let secs = running.work * 1e-9 * slowdown;
            let moved = power.joules_per_byte * running.played.bytes;
            total += watts + if secs > 0.0 { moved / secs } else { 0.0 };
        }
        heat.draws(total);
        self.throttles_at = heat.next();
    }

    /// Takes or leaves a throttle step.
    #[cold]
    #[inline(never)]
    fn throttle(&mut self) -> Option<(Instant, Input)> {
        let heat = self.heat.as_mut()?;
        self.now = self.throttles_at;
        let level = heat.cross();
        self.throttles_at = Instant::NEVER;
        self.rates_stale = true;
        Some((self.now, Input::Throttle { level }))
    }

    /// Plays the running tasks at these rates from now on.
    #[inline]
    fn set_rates<const N: usize>(&mut self, together: &Together<N>) {
        self.first = (Instant::NEVER, LaneId(0));
        for (at, (lane, &slowdown)) in lanes_of(self.active).zip(&together.slowdown).enumerate() {
            let running = &mut self.lanes[lane.0 as usize];
            if together.outside >> at & 1 != 0 && !running.counted {
                running.counted = true;
                let engine = running.played.load.engine;
                self.unmeasured[engine.0 as usize][running.stage.0 as usize] += 1;
            }
            running.set_rate(self.now, slowdown);
            if running.end < self.first.0 {
                self.first = (running.end, lane);
            }
        }
    }

    /// The lane that ends first, and when.
    #[inline]
    fn first_end(&self) -> (Instant, LaneId) {
        let mut first = (Instant::NEVER, LaneId(0));
        for lane in lanes_of(self.active) {
            let end = self.lanes[lane.0 as usize].end;
            if end < first.0 {
                first = (end, lane);
            }
        }
        first
    }
}

impl Running {
    /// What is left of the work, ns alone.
    #[inline]
    fn left_at(&self, now: Instant) -> f64 {
        if self.slowdown > 0.0 {
            let elapsed = now.saturating_since(self.updated).0 as f64;
            (self.left - elapsed / self.slowdown).max(0.0)
        } else {
            self.left
        }
    }

    /// Plays the task at a new rate from `now` on: what was done so far stays done.
    #[inline]
    fn set_rate(&mut self, now: Instant, slowdown: f64) {
        if slowdown == self.slowdown {
            return;
        }
        self.left = self.left_at(now);
        self.updated = now;
        self.slowdown = slowdown;
        self.end = now + Duration((self.left * slowdown + 0.5) as u64);
    }
}

/// What counts the power of engines that lanes share, where it is needed.
fn shared_power(world: &World) -> Option<Shared> {
    if world.power.is_none() || world.heat.is_some() {
        return None;
    }
    Shared::of(world)
}

/// Tokens that a task generates.
#[inline]
fn generated(kind: StageKind, truth: Truth, task: &Task) -> u32 {
    if kind == StageKind::Decode {
        truth.output.saturating_sub(1).min(task.size)
    } else {
        0
    }
}

/// Time of a task alone with its own noise, ns.
#[inline(never)]
fn noisy_ns(world: &World, played: &Played, stage: StageId, noise: u64) -> f64 {
    let factor = world
        .costs
        .get(played.load.engine, stage)
        .map_or(1.0, |costs| rng::factor(noise, stage.0, &costs.noise));
    Duration::from_secs_f64(played.secs * factor).0 as f64
}

impl Executor for Soc<'_> {
    fn next(&mut self) -> Option<(Instant, Input)> {
        let arrives_at = self.workload.peek().unwrap_or(Instant::NEVER);
        if self.rates_stale && self.first.0 > self.now && arrives_at > self.now {
            self.update_rates();
        }
        let (done_at, lane) = self.first;
        let due = arrives_at.min(done_at);
        if self.throttles_at < due && due != Instant::NEVER {
            return self.throttle();
        }
        // At one instant, what ends goes before what arrives.
        if arrives_at < done_at {
            self.now = arrives_at;
            let (_, arrival) = self.workload.pop()?;
            return Some((arrives_at, self.arrive(arrival)));
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
