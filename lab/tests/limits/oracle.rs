//! The oracle against every order that there is, and every policy.

use lab::oracle::{self, Objective};
use proptest::prelude::*;
use sim::simulation::Simulation;
use sim::world::World;

use crate::config;
use crate::scenario::{POLICIES, scenario};

/// The objective of a policy's own schedule, s; `None` where it does not answer all.
fn of_policy(world: &World, objective: Objective) -> Option<f64> {
    let mut simulation = Simulation::new(world);
    simulation.run(0).expect("runs");
    let summary = simulation.summary();
    let all = summary.completed == summary.arrived;
    let sum = |latency: sim::metrics::Latency| Some(latency.mean? * latency.count as f64);
    match objective {
        Objective::Completion => sum(summary.completion_s),
        Objective::Ttft => sum(summary.ttft_s),
        Objective::Makespan => None,
    }
    .filter(|_| all)
}

proptest! {
    #![proptest_config(config(24))]

    #[test]
    fn it_finds_what_trying_everything_finds(mut scenario in scenario(), ttft in any::<bool>()) {
        // Few requests and no frames, or trying everything takes too long.
        scenario.streams.truncate(2);
        scenario.lanes.truncate(3);
        scenario.setting.warm_up = false;
        for stream in &mut scenario.streams {
            if let Some((_, count, ..)) = &mut stream.queries {
                *count = (*count).min(2);
            }
            if let Some((_, count, _)) = &mut stream.frames {
                *count = (*count).min(1);
            }
        }
        let Some(inputs) = scenario.inputs() else {
            return Err(TestCaseError::reject("does not load"));
        };
        let objective = if ttft { Objective::Ttft } else { Objective::Completion };
        let own = inputs.world().map_err(|faults| TestCaseError::fail(faults.to_string()))?;
        let alone = [own];
        let pruned = oracle::optimum(&alone, 0, objective, 2_000).expect("runs");
        let all = oracle::exhaustive(&alone, 0, objective, 2_000).expect("runs");
        if let (Some(pruned), Some(all)) = (&pruned, &all)
            && all.exact
        {
            prop_assert!(pruned.exact);
            prop_assert_eq!(pruned.value_s, all.value_s);
            prop_assert!(pruned.replays <= all.replays);
            for policy in POLICIES {
                // Those that stay within the scenario's modes.
                if ["naive", "serial"].contains(&policy) {
                    continue;
                }
                let Ok(world) = inputs.with_policy_text(policy) else { continue };
                if let Some(value) = of_policy(&world, objective) {
                    prop_assert!(pruned.value_s <= value + 1e-6, "{} s, {policy} {value} s", pruned.value_s);
                }
            }
        }
    }
}

#[test]
fn five_requests_on_three_lanes_are_exact() {
    let mut library = crate::tune::library();
    library.soc += "[engines.c]\nkind = 'cpu'\nport_gbps = 0.4\nweight = 1.0\n\
                    [lanes.c]\nengine = 'c'\ncores = 4\n";
    library.costs += "[engines.c]\n[engines.c.stages]\n\
        decode = { per_token_s = 0.02, bytes_per_token = 8e6 }\n\
        prefill = { per_token_s = 0.001, bytes_per_token = 1e5 }\n\
        reconstruct = { per_token_s = 0.001, bytes_per_token = 1e5 }\n";
    // Together the three ask for more than the bandwidth.
    library.costs = library.costs.replace(
        "bytes_per_token = 1e5 }\nprefill",
        "bytes_per_token = 4e6 }\nprefill",
    );
    let inputs = library
        .inputs(
            "title = 'five'\nsoc = 'toy'\nmodel = 'vlm'\ncontention = 'water_filling'\n\
             [modes]\nstate_transfer = 'reconstruct'\n[[streams]]\nname = 's'\n[streams.queries]\n\
             arrivals = { times_s = [0.0, 0.0, 0.0, 0.1, 0.2] }\nprompt_tokens = 10\n\
             output_tokens = { uniform = { low = 10, high = 90 } }\n",
        )
        .expect("the scenario is right");
    let policies = ["state_aware", "serial", "idle_first", "shortest_job_first"];
    let worlds: Vec<World> = policies
        .iter()
        .map(|policy| inputs.with_policy_text(policy).expect("can serve it"))
        .collect();
    let best = oracle::optimum(&worlds, 0, Objective::Completion, 100_000)
        .expect("runs")
        .expect("is found");
    assert!(best.exact && best.requests == 5, "{best:?}");
    let policies: Vec<f64> = worlds
        .iter()
        .map(|world| of_policy(world, Objective::Completion).expect("answers all"))
        .collect();
    assert!(
        policies.iter().all(|value| best.value_s <= value + 1e-6),
        "{best:?} {policies:?}"
    );
    // It is no trivial case: no policy has the best schedule.
    assert!(
        policies.iter().all(|value| best.value_s < value - 1e-3),
        "{best:?} {policies:?}"
    );
    let bound: f64 = lab::bounds::run(&worlds[0], 0)
        .expect("runs")
        .requests
        .iter()
        .map(|request| request.completion_bound_s)
        .sum();
    assert!(bound <= best.value_s + 1e-6, "{bound} {best:?}");
    // Visible with `--nocapture`: what the search takes.
    #[expect(clippy::print_stderr, reason = "a figure for the guide")]
    {
        eprintln!("{best:?}, policies {policies:?}");
    }
}
