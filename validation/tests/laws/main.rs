//! Laws that hold in every run, tried on scenarios at random.
//!
//! The cases are the same in every run of the tests. `PROPTEST_CASES=20000` tries more of them, and
//! `PROPTEST_RNG_SEED=1` others.

mod failures;
mod offline;
mod play;
mod random;
mod scenario;
mod scripts;
mod text;
mod twins;

use proptest::test_runner::{Config, RngSeed};

/// So many cases, from a fixed seed.
fn config(cases: u32) -> Config {
    let given = Config::default();
    Config {
        cases: if given.cases == 256 {
            cases
        } else {
            given.cases
        },
        rng_seed: match given.rng_seed {
            RngSeed::Random => RngSeed::Fixed(1),
            fixed @ RngSeed::Fixed(_) => fixed,
        },
        failure_persistence: None,
        ..given
    }
}
