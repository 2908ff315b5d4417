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
use sim::load::{Inputs, Source};
use sim::world::World;

/// Policies that are not built in: the shipped ones, one that chooses by numbers that mean nothing, and one that lets
/// requests wait for no reason.
const SCRIPTS: [&str; 5] = [
    include_str!("../../../scenarios/policies/state_aware.rhai"),
    include_str!("../../../scenarios/policies/frugal_deadline.rhai"),
    include_str!("../../../scenarios/policies/sticky.rhai"),
    "fn score(request, candidate, view) { (request.index * 7 + candidate.lane.index * 5) % 3 }\n\
     fn ingest(item, candidates, view) { candidates[item.index % candidates.len()] }",
    "fn decide(request, candidates, view) {\n\
         if view.requests > 1 && request.index % 2 == 0 { wait() } else { candidates.len() - 1 }\n}",
];

/// A scenario's worlds under [`SCRIPTS`], those that it can have.
fn scripted(inputs: &Inputs) -> Vec<World> {
    let world = |text: &&str| {
        let source = Source {
            name: "p.rhai".to_owned(),
            text: (*text).to_owned(),
        };
        let inputs = inputs.with_script(source).ok()?;
        inputs.with_policy_text("script:p.rhai").ok()
    };
    SCRIPTS.iter().filter_map(world).collect()
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        max_global_rejects: 100_000,
        ..ProptestConfig::default()
    }
}
