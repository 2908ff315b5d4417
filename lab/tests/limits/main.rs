//! No simulated result beats a bound, and no policy the oracle.

mod bounds;
mod oracle;
#[path = "../../../validation/tests/laws/scenario.rs"]
#[expect(dead_code, reason = "shared with the tests of the simulator's laws")]
mod scenario;
mod tables;
#[path = "../../../validation/tests/laws/text.rs"]
mod text;
mod tune;
mod verdict;

use proptest::prelude::*;

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        max_global_rejects: 100_000,
        ..ProptestConfig::default()
    }
}
