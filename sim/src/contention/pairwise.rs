//! Measured pair slowdowns alone.
//!
//! For stages i and j the slowdown `s_ij` of i is the measured grid of (engine of i beside engine of
//! j), bilinear in (`μ_i`, `μ_j`). With more stages the excesses add:
//!
//! `s_i = 1 + Σ_{j≠i} (s_ij − 1)`
//!
//! That addition is an assumption: it ignores that the second aggressor finds the bandwidth already
//! taken, so for three engines compare it with `water_filling`. Past a grid's edge the edge's value
//! holds, and `within_range` is false.
//!
//! Two stages on one engine need a grid of the engine beside itself. Without it they do not slow
//! each other down, and `within_range` is false.

use super::grid::Grids;
use super::{ContentionModel, Load, ModelError, PairGrid, canonical};
use crate::world::{ENGINES_MAX, EngineId};

/// Interpolation in the measured grids.
#[derive(Clone, Debug)]
pub struct Pairwise {
    grids: Grids,
}

impl Pairwise {
    /// A model of `engines` engines; every ordered pair of distinct ones needs its grid.
    pub fn new(engines: usize, pairs: Vec<PairGrid>) -> Result<Self, ModelError> {
        if engines == 0 || engines > ENGINES_MAX {
            return Err(ModelError::BadValue(format!(
                "{engines} engines where 1 to {ENGINES_MAX} are possible"
            )));
        }
        let grids = Grids::new(engines, pairs, |_, _, slowdown| slowdown - 1.0)?;
        for victim in (0..engines as u8).map(EngineId) {
            for aggressor in (0..engines as u8).map(EngineId) {
                if victim != aggressor && !grids.has(victim, aggressor) {
                    return Err(ModelError::MissingPair { victim, aggressor });
                }
            }
        }
        Ok(Self { grids })
    }
}

impl ContentionModel for Pairwise {
    fn slowdowns(&self, running: &[Load], out: &mut [f64]) {
        assert_eq!(running.len(), out.len(), "one slowdown per load");
        let order = canonical(running);
        let order = &order[..running.len()];
        for (victim, slowdown) in out.iter_mut().enumerate() {
            let mut excess = 0.0;
            for &aggressor in order {
                if aggressor as usize != victim {
                    let aggressor = running[aggressor as usize];
                    excess += self.grids.at(running[victim], aggressor).unwrap_or(0.0);
                }
            }
            *slowdown = 1.0 + excess;
        }
    }

    fn name(&self) -> &'static str {
        "pairwise"
    }

    fn within_range(&self, running: &[Load]) -> bool {
        running.iter().enumerate().all(|(at, &victim)| {
            running.iter().enumerate().all(|(beside, &aggressor)| {
                at == beside || self.grids.covers(victim, aggressor) == Some(true)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::contention::laws;

    fn grid(victim: u8, aggressor: u8, worst: f64) -> PairGrid {
        PairGrid {
            victim: EngineId(victim),
            aggressor: EngineId(aggressor),
            victim_mu: vec![0.0, 1.0],
            aggressor_mu: vec![0.0, 1.0],
            slowdown: vec![1.0, 1.0, 1.0, worst],
        }
    }

    fn slowdowns(model: &Pairwise, running: &[(u8, f64)]) -> Vec<f64> {
        let running: Vec<Load> = running
            .iter()
            .map(|&(engine, mu)| Load {
                engine: EngineId(engine),
                mu,
            })
            .collect();
        let mut out = vec![f64::NAN; running.len()];
        model.slowdowns(&running, &mut out);
        out
    }

    #[test]
    fn a_pair_gets_its_measured_slowdown_and_more_add() {
        let mut pairs = vec![grid(0, 1, 1.5), grid(1, 0, 1.25), grid(0, 2, 2.0)];
        pairs.extend([grid(2, 0, 1.0), grid(1, 2, 1.125), grid(2, 1, 1.0)]);
        let model = Pairwise::new(3, pairs).unwrap();
        assert_eq!(slowdowns(&model, &[(0, 1.0), (1, 1.0)]), [1.5, 1.25]);
        assert_eq!(slowdowns(&model, &[(0, 0.5), (1, 1.0)]), [1.25, 1.125]);
        let all = slowdowns(&model, &[(0, 1.0), (1, 1.0), (2, 1.0)]);
        assert_eq!(all, [2.5, 1.375, 1.0]);
    }

    #[test]
    fn a_missing_direction_is_named() {
        let error = Pairwise::new(2, vec![grid(0, 1, 1.5)]).unwrap_err();
        let missing = ModelError::MissingPair {
            victim: EngineId(1),
            aggressor: EngineId(0),
        };
        assert_eq!(error, missing);
        assert_eq!(
            error.to_string(),
            "no pair grid for engine 1 beside engine 0"
        );
        assert!(Pairwise::new(1, vec![]).is_ok());
    }

    #[test]
    fn stages_on_one_engine_are_out_of_range_unless_measured() {
        let both = [Load {
            engine: EngineId(0),
            mu: 1.0,
        }; 2];
        let bare = Pairwise::new(1, vec![]).unwrap();
        assert!(!bare.within_range(&both));
        assert!(bare.within_range(&both[..1]));
        let measured = Pairwise::new(1, vec![grid(0, 0, 2.0)]).unwrap();
        assert!(measured.within_range(&both));
        assert_eq!(slowdowns(&measured, &[(0, 1.0), (0, 1.0)]), [2.0, 2.0]);
    }

    proptest! {
        #![proptest_config(laws::config())]

        #[test]
        fn laws_hold(
            (case, pairs) in (2..=4_usize)
                .prop_flat_map(|engines| (laws::case(engines), laws::pairs(engines, true)))
        ) {
            laws::check(&Pairwise::new(case.engines, pairs).unwrap(), &case)?;
        }
    }
}
