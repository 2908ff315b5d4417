//! Lanes that fail at any moment: all requests end, nothing leaks, nothing is served by the dead.

use proptest::prelude::*;
use sim::dispatch::{Dispatcher, Effect, Input, Reason};
use sim::trace::{Record, replay};
use sim::world::LaneId;

use crate::config;
use crate::play::{Failing, checked_with};
use crate::scenario::scenario;

proptest! {
    #![proptest_config(config(2000))]

    #[test]
    fn failing_lanes_leave_nothing_behind(
        scenario in scenario(),
        failures in prop::collection::vec((0..60_u32, 0..4_u8), 1..5),
    ) {
        let Some(inputs) = scenario.inputs() else {
            return Err(TestCaseError::reject("does not load"));
        };
        let world = inputs.world().expect("checked");
        let lanes = world.lanes.len() as u8;
        let failures = failures.into_iter().map(|(at, lane)| (at, LaneId(lane % lanes)));
        let mut executor = Failing::new(&world, failures.collect());
        let trace = checked_with(&world, &mut executor);
        let mut dead = Vec::new();
        for (at, record) in &trace.records {
            match record {
                Record::Input(Input::Fail { lane }) => dead.push(*lane),
                Record::Effect(Effect::Start { lane, .. }) => {
                    prop_assert!(!dead.contains(lane), "a dead lane is given work at {}", at);
                }
                // What no lane can serve is refused when that is known, not at the end.
                Record::Effect(Effect::Refuse { reason, .. }) => {
                    prop_assert!(*reason != Reason::Unserved, "at {}: {:?}", at, record);
                }
                _ => {}
            }
        }
        prop_assert_eq!(replay(&mut Dispatcher::new(&world), &trace.records), Ok(None));
    }
}
