//! Measured grids by ordered pair of engines, with bilinear interpolation.
//!
//! Within a cell the value is bilinear in (μ of the victim, μ of the aggressor); at a knot it is the
//! knot's; past the edge it is the edge's, and [`Grids::covers`] is false.

use super::{Load, ModelError, PairGrid, require_within};
use crate::world::EngineId;

/// Grids of values by victim and aggressor.
#[derive(Clone, Debug)]
pub(super) struct Grids {
    engines: usize,
    /// By victim, then aggressor.
    slots: Vec<Option<Grid>>,
}

#[derive(Clone, Debug)]
struct Grid {
    victim_mu: Box<[f64]>,
    aggressor_mu: Box<[f64]>,
    /// By victim row and aggressor column, row-major.
    values: Box<[f64]>,
}

impl Grids {
    /// Checks the measured grids and keeps `value(victim, aggressor, slowdown)` of every knot.
    pub(super) fn new(
        engines: usize,
        pairs: Vec<PairGrid>,
        value: impl Fn(Load, Load, f64) -> f64,
    ) -> Result<Self, ModelError> {
        let mut slots = Vec::new();
        slots.resize_with(engines * engines, || None);
        for mut pair in pairs {
            pair.check(engines)?;
            let columns = pair.aggressor_mu.len();
            for (row, &victim_mu) in pair.victim_mu.iter().enumerate() {
                let victim = Load {
                    engine: pair.victim,
                    mu: victim_mu,
                };
                for (column, &mu) in pair.aggressor_mu.iter().enumerate() {
                    let slowdown = &mut pair.slowdown[row * columns + column];
                    *slowdown = value(
                        victim,
                        Load {
                            engine: pair.aggressor,
                            mu,
                        },
                        *slowdown,
                    );
                }
            }
            let slot = &mut slots[pair.victim.0 as usize * engines + pair.aggressor.0 as usize];
            if slot.is_some() {
                return Err(ModelError::DuplicatePair {
                    victim: pair.victim,
                    aggressor: pair.aggressor,
                });
            }
            *slot = Some(Grid {
                victim_mu: pair.victim_mu.into(),
                aggressor_mu: pair.aggressor_mu.into(),
                values: pair.slowdown.into(),
            });
        }
        Ok(Self { engines, slots })
    }

    /// Whether the ordered pair has a grid.
    pub(super) fn has(&self, victim: EngineId, aggressor: EngineId) -> bool {
        self.grid(victim, aggressor).is_some()
    }

    /// The interpolated value; `None`: the pair has no grid.
    #[inline]
    pub(super) fn at(&self, victim: Load, aggressor: Load) -> Option<f64> {
        let grid = self.grid(victim.engine, aggressor.engine)?;
        let (row, down) = locate(&grid.victim_mu, victim.mu);
        let (column, right) = locate(&grid.aggressor_mu, aggressor.mu);
        let columns = grid.aggressor_mu.len();
        let upper = &grid.values[row * columns + column..][..2];
        let lower = &grid.values[(row + 1) * columns + column..][..2];
        Some(blend(
            blend(upper[0], upper[1], right),
            blend(lower[0], lower[1], right),
            down,
        ))
    }

    /// Whether the loads lie within the pair's grid; `None`: the pair has no grid.
    pub(super) fn covers(&self, victim: Load, aggressor: Load) -> Option<bool> {
        let grid = self.grid(victim.engine, aggressor.engine)?;
        Some(spans(&grid.victim_mu, victim.mu) && spans(&grid.aggressor_mu, aggressor.mu))
    }

    #[inline]
    fn grid(&self, victim: EngineId, aggressor: EngineId) -> Option<&Grid> {
        self.slots[victim.0 as usize * self.engines + aggressor.0 as usize].as_ref()
    }
}

impl PairGrid {
    fn check(&self, engines: usize) -> Result<(), ModelError> {
        let (victim, aggressor) = (self.victim.0, self.aggressor.0);
        let pair = || format!("pair grid of engine {victim} beside engine {aggressor}");
        if victim.max(aggressor) as usize >= engines {
            return Err(ModelError::BadValue(format!(
                "{}: there are {engines} engines",
                pair()
            )));
        }
        for (axis, whose) in [
            (&self.victim_mu, "victim"),
            (&self.aggressor_mu, "aggressor"),
        ] {
            let rises = axis.len() >= 2 && axis.windows(2).all(|two| two[0] < two[1]);
            if !rises || !axis.iter().all(|mu| (0.0..=1.0).contains(mu)) {
                return Err(ModelError::BadValue(format!(
                    "{}: intensities of the {whose} must be two or more, rise, and lie within 0 to 1",
                    pair()
                )));
            }
        }
        let knots = self.victim_mu.len() * self.aggressor_mu.len();
        if self.slowdown.len() != knots {
            return Err(ModelError::BadValue(format!(
                "{}: {} slowdowns for {knots} knots",
                pair(),
                self.slowdown.len()
            )));
        }
        for &slowdown in &self.slowdown {
            require_within(slowdown, 1.0, f64::MAX, || format!("{}: slowdown", pair()))?;
        }
        Ok(())
    }
}

/// The cell of the axis that holds `mu`, and how far into it, within [0, 1].
#[inline]
fn locate(axis: &[f64], mu: f64) -> (usize, f64) {
    let inner = &axis[1..axis.len() - 1];
    let cell = inner.iter().take_while(|&&knot| knot <= mu).count();
    let (from, to) = (axis[cell], axis[cell + 1]);
    (cell, ((mu - from) / (to - from)).clamp(0.0, 1.0))
}

/// From `from` at 0 to `to` at 1, exact at both, and never below both.
#[inline]
fn blend(from: f64, to: f64, part: f64) -> f64 {
    from * (1.0 - part) + to * part
}

fn spans(axis: &[f64], mu: f64) -> bool {
    axis[0] <= mu && mu <= axis[axis.len() - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> PairGrid {
        PairGrid {
            victim: EngineId(0),
            aggressor: EngineId(1),
            victim_mu: vec![0.2, 0.5, 1.0],
            aggressor_mu: vec![0.0, 1.0],
            slowdown: vec![1.0, 1.2, 1.1, 1.5, 1.3, 2.0],
        }
    }

    fn at(victim: f64, aggressor: f64) -> f64 {
        let grids = Grids::new(2, vec![pair()], |_, _, slowdown| slowdown).unwrap();
        let load = |engine, mu| Load {
            engine: EngineId(engine),
            mu,
        };
        grids.at(load(0, victim), load(1, aggressor)).unwrap()
    }

    #[test]
    fn knots_are_exact_and_cells_bilinear() {
        assert_eq!(at(0.2, 0.0), 1.0);
        assert_eq!(at(0.5, 1.0), 1.5);
        assert_eq!(at(1.0, 1.0), 2.0);
        assert!((at(0.75, 0.5) - (1.1 + 1.5 + 1.3 + 2.0) / 4.0).abs() < 1e-15);
        assert!((at(0.35, 1.0) - 1.35).abs() < 1e-15);
    }

    #[test]
    fn past_the_edge_it_holds_and_says_so() {
        assert_eq!(at(0.0, 1.0), 1.2);
        let grids = Grids::new(2, vec![pair()], |_, _, slowdown| slowdown).unwrap();
        let load = |engine, mu| Load {
            engine: EngineId(engine),
            mu,
        };
        assert_eq!(grids.covers(load(0, 0.0), load(1, 1.0)), Some(false));
        assert_eq!(grids.covers(load(0, 0.2), load(1, 1.0)), Some(true));
        assert_eq!(grids.covers(load(1, 0.2), load(0, 1.0)), None);
    }

    #[test]
    fn malformed_grids_are_refused() {
        let refuse = |spoil: fn(&mut PairGrid), expected: &str| {
            let mut pair = pair();
            spoil(&mut pair);
            let error = Grids::new(2, vec![pair], |_, _, slowdown| slowdown).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        };
        refuse(|pair| pair.victim = EngineId(2), "there are 2 engines");
        refuse(|pair| pair.victim_mu[1] = 0.2, "of the victim must be");
        refuse(
            |pair| pair.aggressor_mu[1] = 1.5,
            "of the aggressor must be",
        );
        refuse(
            |pair| pair.aggressor_mu.truncate(1),
            "of the aggressor must be",
        );
        refuse(|pair| pair.slowdown.truncate(5), "5 slowdowns for 6 knots");
        refuse(|pair| pair.slowdown[0] = 0.9, "slowdown is 0.9");
        refuse(|pair| pair.slowdown[0] = f64::NAN, "slowdown is NaN");
        let twice = Grids::new(2, vec![pair(), pair()], |_, _, slowdown| slowdown);
        assert_eq!(
            twice.unwrap_err().to_string(),
            "two pair grids for engine 0 beside engine 1"
        );
    }
}
