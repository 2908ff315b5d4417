//! The SoC's temperature: first order, in closed form between changes of power.

use super::rates::Together;
use super::{Soc, power};
use crate::dispatch::{Input, lanes_of};
use crate::time::{Duration, Instant};
use crate::world::{ENGINES_MAX, HeatPlan, LANES_MAX};

/// What a run's heat amounted to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Warmth {
    /// Highest temperature, °C.
    pub peak_c: f64,
    /// Time in which any throttle step was in force.
    pub throttled: Duration,
}

/// Temperature, throttle step and energy of one run.
#[derive(Debug)]
pub(super) struct Heat<'w> {
    plan: &'w HeatPlan,
    /// Temperature at `at`, °C, and where it settles at the present power.
    celsius: f64,
    settles_c: f64,
    at: Instant,
    /// Steps in force.
    level: u8,
    /// When the next step is taken or left at the present power, and whether it is taken.
    next: Instant,
    rises: bool,
    /// Present power of each lane's task beyond its traffic, W, and what it has spent of it so far, J.
    watts: [f64; LANES_MAX],
    joules: [f64; LANES_MAX],
    warmth: Warmth,
}

impl<'w> Heat<'w> {
    pub(super) fn new(plan: &'w HeatPlan) -> Self {
        let mut heat = Self {
            plan,
            celsius: plan.start_c,
            settles_c: plan.start_c,
            at: Instant::ZERO,
            level: 0,
            next: Instant::NEVER,
            rises: false,
            watts: [0.0; LANES_MAX],
            joules: [0.0; LANES_MAX],
            warmth: Warmth {
                peak_c: plan.start_c,
                throttled: Duration(0),
            },
        };
        heat.draws(plan.idle_w);
        heat
    }

    pub(super) fn reset(&mut self) {
        *self = Self::new(self.plan);
    }

    /// Power of the whole SoC with every engine idle, W.
    pub(super) fn idle_w(&self) -> f64 {
        self.plan.idle_w
    }

    /// When the next step is taken or left.
    #[inline]
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// Temperature at `now`, °C, if the power has not changed since the last change.
    pub(super) fn celsius(&self, now: Instant) -> f64 {
        let secs = now.saturating_since(self.at).as_secs_f64();
        let rest = libm::exp(-secs / self.plan.time_constant_s);
        self.settles_c + (self.celsius - self.settles_c) * rest
    }

    pub(super) fn warmth(&self) -> Warmth {
        self.warmth
    }

    /// Speed of each engine as a part of its full speed.
    pub(super) fn speed(&self) -> &[f64; ENGINES_MAX] {
        self.plan.speed(self.level)
    }

    /// Lets time pass at the present power.
    pub(super) fn advance(&mut self, now: Instant) {
        let elapsed = now.saturating_since(self.at);
        if elapsed.0 == 0 {
            return;
        }
        let secs = elapsed.as_secs_f64();
        self.celsius = self.celsius(now);
        for (joules, watts) in self.joules.iter_mut().zip(&self.watts) {
            *joules += watts * secs;
        }
        self.warmth.peak_c = self.warmth.peak_c.max(self.celsius);
        if self.level > 0 {
            self.warmth.throttled = Duration(self.warmth.throttled.0 + elapsed.0);
        }
        self.at = now;
    }

    /// A lane starts a task.
    pub(super) fn starts(&mut self, lane: usize) {
        self.joules[lane] = 0.0;
    }

    /// What a lane's task, which ends at `now`, took beyond its traffic, J.
    pub(super) fn ends(&mut self, lane: usize, now: Instant) -> f64 {
        self.advance(now);
        self.watts[lane] = 0.0;
        self.joules[lane]
    }

    /// A lane's task draws so much from now on, W, beyond its traffic.
    pub(super) fn lane_draws(&mut self, lane: usize, watts: f64) {
        self.watts[lane] = watts;
    }

    /// The SoC draws so much in all from `at` on, W.
    pub(super) fn draws(&mut self, watts: f64) {
        self.settles_c = self.plan.ambient_c + self.plan.kelvin_per_watt * watts;
        let steps = &self.plan.steps;
        let up = steps.get(self.level as usize).map(|step| step.from_c);
        let down = self.level.checked_sub(1);
        let down = down.map(|below| steps[below as usize].until_c);
        (self.next, self.rises) = match (up, down) {
            (Some(from), _) if self.settles_c > from => (self.reaches(from), true),
            (_, Some(until)) if self.settles_c < until => (self.reaches(until), false),
            _ => (Instant::NEVER, false),
        };
    }

    /// When the temperature, on its way to where it settles, is at a threshold before that.
    fn reaches(&self, threshold: f64) -> Instant {
        // T(t) = T∞ + (T − T∞) e^(−t/τ), solved for t.
        let ratio = (self.celsius - self.settles_c) / (threshold - self.settles_c);
        let secs = self.plan.time_constant_s * libm::log(ratio.max(1.0));
        let after = Duration::from_secs_f64(secs).0.max(1);
        Instant(self.at.0.saturating_add(after))
    }

    /// Takes or leaves the step that is due; the number of steps now in force.
    pub(super) fn cross(&mut self) -> u8 {
        self.advance(self.next);
        let steps = &self.plan.steps;
        // To the last bit on the threshold: rounding to whole ns left it beside it.
        if self.rises {
            self.celsius = steps[self.level as usize].from_c;
            self.level += 1;
        } else {
            self.level -= 1;
            self.celsius = steps[self.level as usize].until_c;
        }
        self.next = Instant::NEVER;
        self.level
    }
}

impl Soc<'_> {
    /// Lets the temperature follow what runs from now on, at these rates.
    #[cold]
    #[inline(never)]
    pub(super) fn heat_up(&mut self, together: &Together<LANES_MAX>) {
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
    pub(super) fn throttle(&mut self) -> Option<(Instant, Input)> {
        let heat = self.heat.as_mut()?;
        self.now = self.throttles_at;
        let level = heat.cross();
        self.throttles_at = Instant::NEVER;
        self.rates_stale = true;
        Some((self.now, Input::Throttle { level }))
    }
}
