//! Whether a model fits: the one way of counting it, for a scenario (`check`, `run`, `plan`) and for a roofline.

use std::fmt;

/// Bytes of a model's weights.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Weights {
    /// Of the language model, with the copies that engines hold for themselves.
    pub language: f64,
    /// Of the vision tower.
    pub tower: f64,
}

impl Weights {
    /// Both.
    pub fn all(self) -> f64 {
        self.language + self.tower
    }
}

/// Bytes that are taken before any context.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Taken {
    /// By the model.
    pub weights: Weights,
    /// What the SoC's profile reserves.
    pub reserved: f64,
    /// By other software.
    pub background: f64,
}

impl Taken {
    /// All.
    pub fn all(self) -> f64 {
        self.reserved + self.weights.all() + self.background
    }

    /// Bytes that are left for contexts: above 0.
    ///
    /// # Errors
    ///
    /// That none are left.
    pub fn left(self, capacity: f64) -> Result<f64, Refusal> {
        let left = capacity - self.all();
        if left > 0.0 {
            Ok(left)
        } else {
            Err(Refusal::Memory {
                taken: self,
                capacity,
            })
        }
    }
}

/// Whether an engine addresses the weights of all that it runs, however much memory there is; `None` is no limit.
///
/// # Errors
///
/// That it does not.
pub fn addressed(engine: &str, weights: Weights, limit: Option<f64>) -> Result<(), Refusal> {
    match limit {
        Some(limit) if weights.all() > limit => Err(Refusal::AddressSpace {
            engine: engine.to_owned(),
            weights,
            limit,
        }),
        _ => Ok(()),
    }
}

/// What a model does not fit: an answer as much as a fault.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// The weights of what an engine runs exceed what it can address.
    AddressSpace {
        /// Engine.
        engine: String,
        /// Weights of what it runs.
        weights: Weights,
        /// Bytes that it can address.
        limit: f64,
    },
    /// Nothing is left of the memory for a context.
    Memory {
        /// What is taken.
        taken: Taken,
        /// Bytes of the memory.
        capacity: f64,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddressSpace {
                engine,
                weights,
                limit,
            } => write!(
                f,
                "does not fit this engine's address space: {}, `{engine}` addresses {}",
                shown(*weights),
                gigabytes(*limit)
            ),
            Self::Memory { taken, capacity } => {
                write!(f, "does not fit memory: {}", shown(taken.weights))?;
                if taken.reserved > 0.0 {
                    write!(f, " and {} reserved", gigabytes(taken.reserved))?;
                }
                if taken.background > 0.0 {
                    write!(f, " and {} of other software", gigabytes(taken.background))?;
                }
                write!(f, ", of {}", gigabytes(*capacity))
            }
        }
    }
}

fn shown(weights: Weights) -> String {
    let of_tower = if weights.tower > 0.0 {
        format!(" ({} of them the vision tower's)", gigabytes(weights.tower))
    } else {
        String::new()
    };
    format!("{} of weights{of_tower}", gigabytes(weights.all()))
}

/// Bytes in GB (1e9 bytes), for people.
pub(crate) fn gigabytes(bytes: f64) -> String {
    if bytes < 1e7 {
        format!("{bytes} bytes")
    } else {
        format!("{:.2} GB", bytes * 1e-9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAKEN: Taken = Taken {
        weights: Weights {
            language: 5e9,
            tower: 1e9,
        },
        reserved: 2e9,
        background: 0.5e9,
    };

    /// To see it fail, leave one of the four out, or let nothing be enough for a context.
    #[test]
    fn all_that_is_taken_counts_and_something_is_left() {
        assert_eq!(TAKEN.left(9e9), Ok(0.5e9));
        let said = TAKEN.left(8.5e9).map_err(|refusal| refusal.to_string());
        assert_eq!(
            said,
            Err("does not fit memory: 6.00 GB of weights (1.00 GB of them the vision tower's) and 2.00 GB reserved and 0.50 GB of other software, of 8.50 GB".to_owned())
        );
    }

    /// To see it fail, compare the language model alone, or refuse what fits to the byte.
    #[test]
    fn an_engine_addresses_what_it_runs() {
        assert_eq!(addressed("npu", TAKEN.weights, None), Ok(()));
        assert_eq!(addressed("npu", TAKEN.weights, Some(6e9)), Ok(()));
        let said = addressed("npu", TAKEN.weights, Some(5.9e9)).map_err(|r| r.to_string());
        assert_eq!(
            said,
            Err("does not fit this engine's address space: 6.00 GB of weights (1.00 GB of them the vision tower's), `npu` addresses 5.90 GB".to_owned())
        );
    }
}
