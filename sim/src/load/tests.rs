//! Tests of loading as a whole, on a small made-up SoC.

mod toy;

use toy::Toy;

use crate::load::load_scenario;

#[test]
fn a_good_scenario_loads() {
    let toy = Toy::default();
    let world =
        load_scenario("s.toml", toy::SCENARIO, &toy, &toy).unwrap_or_else(|f| panic!("{f}"));
    assert_eq!(world.streams.len(), 3);
}
