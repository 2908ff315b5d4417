//! Weighted water-filling with queues that are not all full, and with latency.
//!
//! Two things that plain filling leaves out, each with one parameter of [`Shape`]:
//!
//! - **Occupancy.** A controller that serves what waits longest, or what hits an open row, favours
//!   whoever has more waiting. The stage that asks has the weight `w_e · μ^α`; every other engine is
//!   met in its bursts and has `w_k · (min(b_k, ΣD) / b_k)^α`. The background's weight stays.
//! - **Latency.** Accesses that a stage waits for one by one take longer as others fill the memory:
//!   its compute time is `C · (1 + λ · u)`, where u is what the others demand ÷ B, at most 1.
//!
//! **Why they keep the laws.** Another stage raises others' weights and u but not the weight of the
//! one that asks, so no share rises. As γ ≤ 1, that weight is at most its engine's when it is met in
//! its bursts, and latency only slows down, so the bandwidth holds as without them. Alone, u is 0 and weights do
//! not matter.
//!
//! Source: this project's own; that first-ready scheduling favours engines with more requests queued
//! is Mutlu and Moscibroda, MICRO 2007.

use super::{FLOWS_MAX, Shape, WaterFilling, stage_share};
use crate::contention::{Load, ModelError, canonical, require_within};
use crate::world::{ENGINES_MAX, LANES_MAX};

/// α and λ, of which one at least is not 0, and q.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queueing {
    overlap: f64,
    occupancy: f64,
    latency: f64,
}

/// What a stage meets when it asks for its whole port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// Its share, bytes/s.
    pub(super) share: f64,
    /// Port ÷ share.
    stretch: f64,
    /// u, within [0, 1].
    pressure: f64,
}

impl Queueing {
    /// `None` where the shape has none.
    pub(super) fn new(shape: Shape) -> Result<Option<Self>, ModelError> {
        let (occupancy, latency) = (shape.occupancy_exponent, shape.latency_loss);
        require_within(occupancy, 0.0, 1.0, || "occupancy exponent".to_owned())?;
        require_within(latency, 0.0, f64::MAX, || "latency loss".to_owned())?;
        let some = occupancy != 0.0 || latency != 0.0;
        Ok(some.then_some(Self {
            overlap: shape.overlap_exponent,
            occupancy,
            latency,
        }))
    }

    /// Gives what each stage meets, with its position in `running`.
    pub(super) fn each(
        self,
        model: &WaterFilling,
        running: &[Load],
        mut turn: impl FnMut(usize, Turn),
    ) {
        let order = canonical(running);
        let order = &order[..running.len()];
        let mut demand = [0.0; LANES_MAX];
        let mut pull = [0.0; ENGINES_MAX];
        let mut weight = model.weight;
        for (&at, demand) in order.iter().zip(&mut demand) {
            let load = running[at as usize];
            *demand = model.demand(load);
            pull[load.engine.0 as usize] += *demand;
        }
        for engine in 0..model.engines {
            pull[engine] = pull[engine].min(model.port[engine]);
            weight[engine] *= self.weight(pull[engine] / model.port[engine]);
        }
        let mut start = 0;
        while start < order.len() {
            let engine = running[order[start] as usize].engine;
            let same = |&&at: &&u8| running[at as usize].engine == engine;
            let end = start + order[start..].iter().take_while(same).count();
            for asking in start..end {
                let at = order[asking] as usize;
                let (smaller, larger) = (&demand[start..asking], &demand[asking + 1..end]);
                turn(
                    at,
                    self.turn(model, running[at], (smaller, larger), &pull, weight),
                );
            }
            start = end;
        }
    }

    fn turn(
        self,
        model: &WaterFilling,
        load: Load,
        (smaller, larger): (&[f64], &[f64]),
        pull: &[f64; ENGINES_MAX],
        mut weight: [f64; FLOWS_MAX],
    ) -> Turn {
        let engine = load.engine.0 as usize;
        let port = model.port[engine];
        let siblings: f64 = smaller.iter().chain(larger).sum();
        let mut others = model.background + siblings.min(port);
        for (other, pull) in pull.iter().enumerate() {
            if other != engine {
                others += pull;
            }
        }
        weight[engine] = model.weight[engine] * self.weight(load.mu);
        let share = model.fill_flows(engine, pull, &weight);
        let share = stage_share(share, smaller, larger);
        Turn {
            share,
            stretch: port / share,
            pressure: (others / model.bandwidth).min(1.0),
        }
    }

    /// Relative weight of an engine whose stages have this intensity together. It is not quite 0, so
    /// that a stage which moves nothing has a share too.
    fn weight(self, mu: f64) -> f64 {
        if self.occupancy == 0.0 {
            return 1.0;
        }
        libm::pow(mu.min(1.0), self.occupancy).max(f64::MIN_POSITIVE)
    }

    /// `((C · (1 + λ · u))^q + (μ · b_e / A)^q)^(1/q)`.
    pub(super) fn slowdown(self, mu: f64, turn: Turn) -> f64 {
        let waiting = 1.0 + self.latency * turn.pressure;
        if waiting == 1.0 && (turn.stretch <= 1.0 || mu == 0.0) {
            return 1.0;
        }
        let memory = if mu == 0.0 { 0.0 } else { mu * turn.stretch };
        // The longer is taken out, lest a large q overflow.
        let unit = memory.max(waiting);
        let q = self.overlap;
        let compute = (1.0 - libm::pow(mu, q)) * libm::pow(waiting / unit, q);
        let sum = compute + libm::pow(memory / unit, q);
        (unit * libm::pow(sum, 1.0 / q)).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::contention::laws::{self, Case, ROUNDING, slowdowns};
    use crate::contention::{ContentionModel as _, PairGrid, Ports};
    use crate::world::EngineId;

    fn shape() -> impl Strategy<Value = Shape> {
        let part = || prop_oneof![1 => Just(0.0), 1 => Just(1.0), 3 => 0.0..=1.0];
        (1.0..8.0, part(), part(), part()).prop_map(|(q, burst, occupancy, latency)| Shape {
            overlap_exponent: q,
            burst_exponent: burst,
            occupancy_exponent: occupancy,
            latency_loss: latency,
        })
    }

    fn any_case() -> impl Strategy<Value = (Case, f64, Vec<PairGrid>)> {
        (1..=4_usize).prop_flat_map(|engines| {
            (
                laws::case(engines),
                laws::background(),
                laws::pairs(engines, false),
            )
        })
    }

    proptest! {
        #![proptest_config(laws::config())]

        #[test]
        fn laws_hold((case, background, pairs) in any_case(), shape in shape()) {
            let new = |background, pairs| {
                WaterFilling::with_shape(case.ports(background), shape, pairs).unwrap()
            };
            laws::check(&new(0.0, vec![]), &case)?;
            laws::check(&new(0.0, pairs.clone()), &case)?;
            laws::check_with_background(&new(background, pairs), &case)?;
        }

        /// Whatever is achieved comes to the bandwidth at most, and to the port of each engine.
        #[test]
        fn bandwidth_holds((case, _, pairs) in any_case(), shape in shape()) {
            let ports = case.ports(0.0);
            let model = WaterFilling::with_shape(ports.clone(), shape, pairs).unwrap();
            let mut rates = vec![0.0; case.engines];
            for (load, slowdown) in case.loads.iter().zip(slowdowns(&model, &case.loads)) {
                let engine = load.engine.0 as usize;
                rates[engine] += load.mu * ports.port[engine] / slowdown;
            }
            for (rate, port) in rates.iter().zip(&ports.port) {
                prop_assert!(*rate <= port * (1.0 + ROUNDING), "{} of port {}", rate, port);
            }
            let sum: f64 = rates.iter().sum();
            prop_assert!(sum <= ports.bandwidth * (1.0 + ROUNDING), "{} of {}", sum, ports.bandwidth);
        }

        /// Where both parameters vanish, so does what they do.
        #[test]
        fn tends_to_plain_filling((case, background, _) in any_case(), shape in shape()) {
            let new = |shape| {
                let ports = case.ports(background);
                slowdowns(&WaterFilling::with_shape(ports, shape, vec![]).unwrap(), &case.loads)
            };
            let plain = new(Shape { occupancy_exponent: 0.0, latency_loss: 0.0, ..shape });
            let almost = new(Shape { occupancy_exponent: 0.0, latency_loss: 1e-13, ..shape });
            for (plain, almost) in plain.iter().zip(&almost) {
                prop_assert!((plain - almost).abs() <= ROUNDING * plain, "{} {}", plain, almost);
            }
        }
    }

    fn load(engine: u8, mu: f64) -> Load {
        Load {
            engine: EngineId(engine),
            mu,
        }
    }

    fn model(occupancy: f64, latency: f64) -> WaterFilling {
        let ports = Ports {
            port: vec![10.0; 2],
            weight: vec![1.0; 2],
            bandwidth: 12.0,
            background: 0.0,
        };
        let shape = Shape {
            overlap_exponent: 1.0,
            burst_exponent: 0.0,
            occupancy_exponent: occupancy,
            latency_loss: latency,
        };
        WaterFilling::with_shape(ports, shape, vec![]).unwrap()
    }

    /// Weights 0.5 and 1 of 12; the other meets bursts of the whole port, so it has half.
    #[test]
    fn shares_follow_what_is_queued() {
        let mut shares = [f64::NAN; 2];
        model(1.0, 0.0).shares(&[load(0, 0.5), load(1, 1.0)], &mut shares);
        assert_eq!(shares, [4.0, 6.0]);
    }

    /// Compute time 1, of which latency adds 3 / 10 at a pressure of 10 / 12.
    #[test]
    fn latency_slows_what_moves_nothing() {
        let both = slowdowns(&model(0.0, 0.3), &[load(0, 0.0), load(1, 1.0)]);
        assert!((both[0] - 1.25).abs() < 1e-15, "{both:?}");
        // It presses on nobody.
        assert_eq!(both[1], 1.0);
        assert_eq!(model(0.5, 0.3).name(), "water_filling");
    }

    #[test]
    fn parameters_out_of_their_domain_are_refused() {
        let refuse = |shape: Shape, expected: &str| {
            assert_eq!(Queueing::new(shape).unwrap_err().to_string(), expected);
        };
        let plain = Shape::default();
        assert!(Queueing::new(plain).unwrap().is_none());
        refuse(
            Shape {
                occupancy_exponent: 1.5,
                ..plain
            },
            "occupancy exponent is 1.5, must be within 0 to 1",
        );
        refuse(
            Shape {
                latency_loss: -0.1,
                ..plain
            },
            &format!("latency loss is -0.1, must be within 0 to {}", f64::MAX),
        );
    }
}
