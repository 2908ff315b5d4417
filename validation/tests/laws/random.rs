//! Properties of healthy runs.

use proptest::prelude::*;
use proptest::test_runner::Config;
use sim::dispatch::{Dispatcher, Effect, Reason};
use sim::spec::model::StageKind;
use sim::trace::{Record, Recorder, replay};
use sim::world::World;

use crate::play::checked;
use crate::scenario::scenario;

fn effects(trace: &Recorder) -> impl Iterator<Item = &Effect> {
    trace.records.iter().filter_map(|(_, record)| match record {
        Record::Effect(effect) => Some(effect),
        Record::Input(_) => None,
    })
}

/// Without failures everything that can fit is served: nothing waits for ever.
pub(crate) fn nothing_hangs(trace: &Recorder) {
    for effect in effects(trace) {
        if let Effect::Refuse { reason, .. } = effect {
            assert!(
                !matches!(reason, Reason::Unserved | Reason::EngineFailed),
                "{effect:?}"
            );
        }
    }
}

pub(crate) fn no_context_is_too_long(world: &World, trace: &Recorder) {
    for effect in effects(trace) {
        if let Effect::Start { task, .. } = effect {
            let kind = world.stages[task.stage.0 as usize].kind;
            if kind == StageKind::QueryPrefill {
                assert!(
                    task.context + task.size <= world.model.max_context_tokens,
                    "{task:?}"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(Config { cases: 400, failure_persistence: None, ..Config::default() })]

    #[test]
    fn every_run_keeps_the_laws(scenario in scenario()) {
        let Some(inputs) = scenario.inputs() else {
            return Err(TestCaseError::reject("does not load"));
        };
        let world = inputs.world().map_err(|faults| TestCaseError::fail(faults.to_string()))?;
        let trace = checked(&world);
        nothing_hangs(&trace);
        no_context_is_too_long(&world, &trace);
        prop_assert_eq!(replay(&mut Dispatcher::new(&world), &trace.records), None);
    }
}
