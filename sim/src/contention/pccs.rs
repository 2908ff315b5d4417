//! Processor-centric contention curves (PCCS: Xu et al., MICRO 2021), after descriptions of them and
//! published constants of one SoC; `docs/contention.md` says where they may differ from the paper.
//!
//! Each engine has one curve, measured with an adjustable streaming load beside it: the relative
//! speed (1 ÷ slowdown) of a stage with own demand x while all others together demand y, both in
//! GB/s (1e9 bytes/s). With `y' = min(y, balance)`:
//!
//! | region | own demand | relative speed |
//! | --- | --- | --- |
//! | minor | x < `normal_from` | 1 − `minor_loss` · y' / `balance` |
//! | normal | x < `intensive_from` | 1 − `normal_rate` · max(0, y' − max(0, `onset` − x)) |
//! | intensive | the rest | 1 − `intensive_rate` · y' |
//!
//! So the normal region loses nothing until x + y reaches `onset`, and no region loses anything
//! beside y = 0. Every region is continuous and falls in y; from one region to the next the speed may
//! jump, as in the published curves.
//!
//! Demands are time averages: x = μ · port, and y is the sum over every other running stage, those
//! on the same engine included, and the background.
//!
//! **Floor.** Lines cross zero when they are extended, and curves of single engines do not know who
//! else runs. A stage never falls below its arbitration share of the memory, `w_e / (n_e · Σw)`, with
//! `n_e` stages running on its engine and `Σw` over the engines that run (and the background, which
//! weighs as an average engine does). That is what is left of a stage that could use the whole
//! bandwidth when everyone presses without limit. It is 1 alone and falls with every stage added, so
//! the model stays monotone.

use super::{
    ContentionModel, Load, ModelError, Ports, canonical, require_positive, require_within,
};
use crate::world::{ENGINES_MAX, EngineId};

/// The curve of one engine; demands in GB/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PccsCurve {
    /// Own demand below which contention is minor, GB/s.
    pub normal_from: f64,
    /// Own demand from which contention is intensive, GB/s.
    pub intensive_from: f64,
    /// Loss of relative speed in the minor region once external demand reaches `balance`.
    pub minor_loss: f64,
    /// External demand at which the loss stops growing, GB/s.
    pub balance: f64,
    /// Sum of own and external demand at which the normal region starts to lose speed, GB/s.
    pub onset: f64,
    /// Loss of relative speed per GB/s in the normal region.
    pub normal_rate: f64,
    /// Loss of relative speed per GB/s in the intensive region.
    pub intensive_rate: f64,
}

impl PccsCurve {
    /// Loss of relative speed at own demand `own` beside external demand `external`, GB/s.
    ///
    /// It is 0 beside none; steep lines exceed 1, for the model to bound.
    #[inline]
    pub fn loss(&self, own: f64, external: f64) -> f64 {
        let external = external.min(self.balance);
        if own < self.normal_from {
            self.minor_loss * (external / self.balance)
        } else if own < self.intensive_from {
            let spare = (self.onset - own).max(0.0);
            self.normal_rate * (external - spare).max(0.0)
        } else {
            self.intensive_rate * external
        }
    }

    fn check(&self, engine: usize) -> Result<(), ModelError> {
        let name = |field: &'static str| move || format!("PCCS {field} of engine {engine}");
        require_within(self.normal_from, 0.0, f64::MAX, name("normal_from"))?;
        let from = self.normal_from;
        require_within(self.intensive_from, from, f64::MAX, name("intensive_from"))?;
        require_within(self.minor_loss, 0.0, 1.0, name("minor_loss"))?;
        require_positive(self.balance, name("balance"))?;
        require_within(self.onset, 0.0, f64::MAX, name("onset"))?;
        require_within(self.normal_rate, 0.0, f64::MAX, name("normal_rate"))?;
        require_within(self.intensive_rate, 0.0, f64::MAX, name("intensive_rate"))
    }
}

/// One curve per engine.
#[derive(Clone, Debug)]
pub struct Pccs {
    curves: Vec<PccsCurve>,
    /// GB/s.
    port: Vec<f64>,
    weight: Vec<f64>,
    /// GB/s.
    background: f64,
    /// 0 without background.
    background_weight: f64,
}

impl Pccs {
    /// A model by engine; an engine without a curve is refused.
    pub fn new(ports: Ports, curves: Vec<Option<PccsCurve>>) -> Result<Self, ModelError> {
        ports.check()?;
        let engines = ports.port.len();
        if curves.len() > engines {
            return Err(ModelError::BadValue(format!(
                "{} PCCS curves for {engines} engines",
                curves.len()
            )));
        }
        let mut curves = curves.into_iter();
        let mut present = Vec::with_capacity(engines);
        for engine in 0..engines {
            let Some(curve) = curves.next().flatten() else {
                return Err(ModelError::MissingCurve {
                    engine: EngineId(engine as u8),
                });
            };
            curve.check(engine)?;
            present.push(curve);
        }
        let background_weight = match ports.background {
            0.0 => 0.0,
            _ => ports.background_weight(),
        };
        Ok(Self {
            curves: present,
            port: ports.port.iter().map(|port| port / 1e9).collect(),
            weight: ports.weight,
            background: ports.background / 1e9,
            background_weight,
        })
    }
}

impl ContentionModel for Pccs {
    fn slowdowns(&self, running: &[Load], out: &mut [f64]) {
        assert_eq!(running.len(), out.len(), "one slowdown per load");
        let order = canonical(running);
        let order = &order[..running.len()];
        let mut stages = [0_u32; ENGINES_MAX];
        for load in running {
            stages[load.engine.0 as usize] += 1;
        }
        let mut weights = self.background_weight;
        for (&weight, &stages) in self.weight.iter().zip(&stages) {
            if stages > 0 {
                weights += weight;
            }
        }
        for (at, slowdown) in out.iter_mut().enumerate() {
            let engine = running[at].engine.0 as usize;
            let mut external = self.background;
            for &other in order {
                if other as usize != at {
                    external += self.demand(running[other as usize]);
                }
            }
            let loss = self.curves[engine].loss(self.demand(running[at]), external);
            let floor = self.weight[engine] / (f64::from(stages[engine]) * weights);
            *slowdown = 1.0 / (1.0 - loss).max(floor);
        }
    }

    fn name(&self) -> &'static str {
        "pccs"
    }
}

impl Pccs {
    /// GB/s.
    #[inline]
    fn demand(&self, load: Load) -> f64 {
        load.mu * self.port[load.engine.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::contention::laws;

    /// Round figures, so that every expected loss can be worked out by hand.
    const CURVE: PccsCurve = PccsCurve {
        normal_from: 20.0,
        intensive_from: 80.0,
        minor_loss: 0.05,
        balance: 50.0,
        onset: 60.0,
        normal_rate: 0.01,
        intensive_rate: 0.009,
    };

    fn ports(background: f64) -> Ports {
        Ports {
            port: vec![100e9, 100e9],
            weight: vec![1.0, 1.0],
            bandwidth: 120e9,
            background,
        }
    }

    fn load(engine: u8, mu: f64) -> Load {
        Load {
            engine: EngineId(engine),
            mu,
        }
    }

    fn close(actual: f64, expected: f64) {
        assert!(
            (actual - expected).abs() < 1e-12,
            "{actual} is not {expected}"
        );
    }

    #[test]
    fn regions_lose_what_their_lines_say() {
        close(CURVE.loss(10.0, 25.0), 0.025);
        close(CURVE.loss(10.0, 90.0), 0.05);
        close(CURVE.loss(40.0, 20.0), 0.0);
        close(CURVE.loss(40.0, 30.0), 0.1);
        close(CURVE.loss(40.0, 90.0), 0.3);
        close(CURVE.loss(70.0, 10.0), 0.1);
        close(CURVE.loss(90.0, 10.0), 0.09);
        close(CURVE.loss(90.0, 90.0), 0.45);
    }

    #[test]
    fn slowdown_is_one_over_the_relative_speed() {
        let model = Pccs::new(ports(0.0), vec![Some(CURVE); 2]).unwrap();
        let mut out = [f64::NAN; 2];
        model.slowdowns(&[load(0, 0.4), load(1, 0.9)], &mut out);
        close(out[0], 1.0 / 0.7);
        close(out[1], 1.0 / (1.0 - 0.36));
    }

    #[test]
    fn background_is_external_demand() {
        let model = Pccs::new(ports(30e9), vec![Some(CURVE); 2]).unwrap();
        let mut out = [f64::NAN];
        model.slowdowns(&[load(0, 0.4)], &mut out);
        close(out[0], 1.0 / 0.9);
    }

    #[test]
    fn steep_lines_stop_at_the_arbitration_share() {
        let steep = PccsCurve {
            intensive_rate: 0.5,
            ..CURVE
        };
        let mut ports = ports(0.0);
        ports.weight[1] = 3.0;
        let model = Pccs::new(ports, vec![Some(steep); 2]).unwrap();
        let mut out = [f64::NAN; 3];
        model.slowdowns(&[load(0, 1.0), load(1, 1.0), load(1, 1.0)], &mut out);
        close(out[0], 4.0);
        close(out[1], 2.0 * 4.0 / 3.0);
    }

    #[test]
    fn an_engine_without_a_curve_is_named() {
        let error = Pccs::new(ports(0.0), vec![Some(CURVE), None]).unwrap_err();
        assert_eq!(
            error,
            ModelError::MissingCurve {
                engine: EngineId(1)
            }
        );
        let backwards = PccsCurve {
            intensive_from: 10.0,
            ..CURVE
        };
        let error = Pccs::new(ports(0.0), vec![Some(backwards), Some(CURVE)]).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("PCCS intensive_from of engine 0 is 10")
        );
    }

    fn curve() -> impl Strategy<Value = PccsCurve> {
        let demand = || 0.0..200.0;
        (
            demand(),
            demand(),
            0.0..=1.0,
            1.0..200.0,
            demand(),
            0.0..0.05,
            0.0..0.05,
        )
            .prop_map(
                |(one, other, minor_loss, balance, onset, normal_rate, intensive_rate): (
                    f64,
                    f64,
                    f64,
                    f64,
                    f64,
                    f64,
                    f64,
                )| PccsCurve {
                    normal_from: one.min(other),
                    intensive_from: one.max(other),
                    minor_loss,
                    balance,
                    onset,
                    normal_rate,
                    intensive_rate,
                },
            )
    }

    proptest! {
        #![proptest_config(laws::config())]

        #[test]
        fn laws_hold(
            (case, curves, background) in (2..=4_usize).prop_flat_map(|engines| (
                laws::case(engines),
                prop::collection::vec(curve().prop_map(Some), engines),
                laws::background(),
            ))
        ) {
            let model = Pccs::new(case.ports(0.0), curves.clone()).unwrap();
            laws::check(&model, &case)?;
            let model = Pccs::new(case.ports(background), curves).unwrap();
            laws::check_with_background(&model, &case)?;
        }

        #[test]
        fn loss_is_continuous_and_grows_with_external_demand(
            curve in curve(), own in 0.0..250.0, external in 0.0..250.0, more in 0.0..50.0
        ) {
            let (less_loss, loss) = (curve.loss(own, external), curve.loss(own, external + more));
            prop_assert!(loss >= less_loss);
            let steepest = curve.normal_rate.max(curve.intensive_rate);
            let steepest = steepest.max(curve.minor_loss / curve.balance);
            prop_assert!(loss - less_loss <= steepest * more + 1e-12);
        }
    }
}
