//! Two runs that must be one: repeated, on other threads, from a file in another order, beside another
//! stream, under another policy.

use proptest::prelude::*;
use sim::dispatch::Input;
use sim::simulation::Simulation;
use sim::time::Instant;
use sim::trace::{Header, Record, Recorder, Writer};
use sim::world::World;

use crate::config;
use crate::scenario::{POLICIES, Scenario, scenario, stream};

fn world(scenario: &Scenario) -> Option<World> {
    Some(scenario.inputs()?.world().expect("checked"))
}

/// The trace of a replication, as written.
fn bytes(world: &World, simulation: &mut Simulation<'_>, run: u32) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &Header::of(world, run)).expect("memory");
    simulation
        .run_into(run, &mut writer)
        .expect("no policy stops");
    writer.finish().expect("memory")
}

fn alone(world: &World, run: u32) -> Vec<u8> {
    bytes(world, &mut Simulation::new(world), run)
}

/// What arrives of a stream, and when, but for the executor's handles.
fn arrivals(world: &World, name: &str) -> Vec<(Instant, Input)> {
    let mut trace = Recorder::default();
    Simulation::new(world)
        .run_into(0, &mut trace)
        .expect("no policy stops");
    let named = |id: sim::world::StreamId| world.streams[id.0 as usize].name == name;
    let inputs = trace
        .records
        .iter()
        .filter_map(|(at, record)| match record {
            Record::Input(input) => Some((*at, *input)),
            Record::Effect(_) => None,
        });
    let inputs = inputs.filter_map(|(at, mut input)| match &mut input {
        Input::Frame { ticket, stream, .. } | Input::Query { ticket, stream, .. }
            if named(*stream) =>
        {
            *ticket = 0;
            stream.0 = 0;
            Some((at, input))
        }
        _ => None,
    });
    inputs.collect()
}

proptest! {
    #![proptest_config(config(200))]

    /// Same scenario, profile and seed: the same bytes, on one thread or several, and whatever ran
    /// before in the same memory.
    #[test]
    fn a_trace_repeats_to_the_byte(scenario in scenario()) {
        let Some(world) = world(&scenario) else {
            return Err(TestCaseError::reject("does not load"));
        };
        let first = [alone(&world, 0), alone(&world, 1)];
        let mut used = Simulation::new(&world);
        for run in [1, 0, 0, 1] {
            prop_assert_eq!(&bytes(&world, &mut used, run), &first[run as usize]);
        }
        let threads: Vec<Vec<u8>> = std::thread::scope(|scope| {
            let handles: Vec<_> = (0..4)
                .map(|thread| scope.spawn({
                    let world = &world;
                    move || alone(world, thread % 2)
                }))
                .collect();
            handles.into_iter().map(|handle| handle.join().expect("no panic")).collect()
        });
        for (thread, bytes) in threads.iter().enumerate() {
            prop_assert_eq!(bytes, &first[thread % 2]);
        }
    }

    /// The order of engines, lanes, streams and measured pairs in a file means nothing.
    #[test]
    fn the_order_of_a_file_means_nothing(scenario in scenario()) {
        let mirrored = Scenario { reversed: true, ..scenario.clone() };
        let (Some(world), Some(mirrored)) = (world(&scenario), world(&mirrored)) else {
            return Err(TestCaseError::reject("does not load"));
        };
        prop_assert_eq!(alone(&world, 0), alone(&mirrored, 0));
    }

    /// Policies meet the same requests. Users of a closed loop wait for their answers, and are left out.
    #[test]
    fn arrivals_do_not_depend_on_the_policy(
        scenario in scenario(),
        other in 0..POLICIES.len(),
    ) {
        let mut twin = scenario.clone();
        twin.setting.policy = other;
        let (Some(world), Some(twin)) = (world(&scenario), world(&twin)) else {
            return Err(TestCaseError::reject("does not load"));
        };
        for (stream, plan) in scenario.streams.iter().zip(&world.streams) {
            if !stream.is_closed() {
                prop_assert_eq!(arrivals(&world, &plan.name), arrivals(&twin, &plan.name));
            }
        }
    }

    /// Another stream moves no other's arrivals. (Its name sorts first, so every id changes.)
    #[test]
    fn arrivals_do_not_depend_on_other_streams(scenario in scenario(), more in stream()) {
        let mut twin = scenario.clone();
        twin.streams.push(more.with_frames());
        twin.last_first = true;
        let (Some(world), Some(twin)) = (world(&scenario), world(&twin)) else {
            return Err(TestCaseError::reject("does not load"));
        };
        for (stream, plan) in scenario.streams.iter().zip(&world.streams) {
            if !stream.is_closed() {
                prop_assert_eq!(arrivals(&world, &plan.name), arrivals(&twin, &plan.name));
            }
        }
    }
}
