//! The oracle against every order that there is, and every policy.

use lab::oracle::{self, Objective};
use proptest::prelude::*;
use sim::load::Inputs;
use sim::simulation::Simulation;
use sim::world::World;

use crate::scenario::{POLICIES, scenario};
use crate::{config, scripted};

/// The objective of a policy's own schedule, s; `None` where it does not answer all.
fn of_policy(world: &World, objective: Objective) -> Option<f64> {
    let mut simulation = Simulation::new(world);
    // A script may need a parameter that nothing gives.
    simulation.run(0).ok()?;
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
        if let (Ok(pruned), Ok(all)) = (&pruned, &all)
            && all.exact
        {
            prop_assert!(pruned.exact);
            prop_assert!((pruned.value_s - all.value_s).abs() <= 1e-6, "{pruned:?} {all:?}");
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
            for world in scripted(&inputs) {
                if let Some(value) = of_policy(&world, objective) {
                    prop_assert!(pruned.value_s <= value + 1e-6, "{} s, a script {value} s", pruned.value_s);
                }
            }
            // And no schedule at all the bounds of single requests.
            let (completion, ttft) = bounds_of(&alone[0]);
            let least = match objective {
                Objective::Ttft => ttft,
                _ => completion,
            };
            prop_assert!(least <= all.value_s + 1e-6, "{least} s, {} s", all.value_s);
        }
    }
}

/// Three lanes that ask for more than the memory's bandwidth, and requests that arrive at these times.
fn contending(bandwidth_gbps: f64, times: &str, output: &str) -> Inputs {
    let mut library = crate::tune::library();
    library.soc = library.soc.replace(
        "bandwidth_gbps = 1.0",
        &format!("bandwidth_gbps = {bandwidth_gbps:?}"),
    );
    library.soc += "[engines.c]\nkind = 'cpu'\nport_gbps = 0.4\nweight = 1.0\n\
                    [lanes.c]\nengine = 'c'\ncores = 4\n";
    library.costs += "[engines.c]\n[engines.c.stages]\n\
        decode = { per_token_s = 0.02, bytes_per_token = 8e6 }\n\
        prefill = { per_token_s = 0.001, bytes_per_token = 1e5 }\n\
        reconstruct = { per_token_s = 0.001, bytes_per_token = 1e5 }\n";
    library.costs = library.costs.replace(
        "bytes_per_token = 1e5 }\nprefill",
        "bytes_per_token = 4e6 }\nprefill",
    );
    library
        .inputs(&format!(
            "title = 'few'\nsoc = 'toy'\nmodel = 'vlm'\ncontention = 'water_filling'\n\
             [modes]\nstate_transfer = 'reconstruct'\n[[streams]]\nname = 's'\n[streams.queries]\n\
             arrivals = {{ times_s = {times} }}\nprompt_tokens = 10\noutput_tokens = {output}\n",
        ))
        .expect("the scenario is right")
}

fn worlds(inputs: &Inputs) -> Vec<World> {
    ["state_aware", "serial", "idle_first", "shortest_job_first"]
        .iter()
        .map(|policy| inputs.with_policy_text(policy).expect("can serve it"))
        .collect()
}

/// The sums of what no schedule beats, s: times to the last token, and to the first.
fn bounds_of(world: &World) -> (f64, f64) {
    let run = lab::bounds::run(world, 0).expect("runs");
    let requests = run.requests.iter();
    requests.fold((0.0, 0.0), |(last, first), request| {
        (
            last + request.completion_bound_s,
            first + request.ttft_bound_s,
        )
    })
}

#[test]
fn eight_requests_on_three_contending_lanes_are_exact() {
    let spread = "{ uniform = { low = 10, high = 90 } }";
    let times = "[0.0, 0.0, 0.0, 0.1, 0.2, 0.3, 0.5, 0.8]";
    for (bandwidth, objective) in [(0.4, Objective::Completion), (1.0, Objective::Ttft)] {
        let worlds = worlds(&contending(bandwidth, times, spread));
        let best = oracle::optimum(&worlds, 0, objective, 20_000).expect("runs");
        let best = best.expect("is found");
        assert!(best.exact && best.requests == 8, "{best:?}");
        let policies: Vec<f64> = worlds
            .iter()
            .map(|world| of_policy(world, objective).expect("answers all"))
            .collect();
        // What the gaps are made of is what the policies have.
        for (own, value) in best.own_s.iter().zip(&policies) {
            let own = own.expect("answers all");
            assert!((own - value).abs() < 1e-6, "{own} {value}");
        }
        // It is no trivial case: no policy has the best schedule.
        assert!(
            policies.iter().all(|value| best.value_s < value - 1e-3),
            "{best:?} {policies:?}"
        );
        let (completion, ttft) = bounds_of(&worlds[0]);
        let bound = if objective == Objective::Ttft {
            ttft
        } else {
            completion
        };
        assert!(bound <= best.value_s + 1e-6, "{bound} {best:?}");
        // Visible with `--nocapture`: what the search takes.
        #[expect(
            clippy::print_stderr,
            reason = "a figure for whoever changes the search"
        )]
        {
            eprintln!("{best:?}, policies {policies:?}");
        }
    }
}

/// Frames make replays long and many: the search stops all the same, and says so.
#[test]
fn frames_do_not_make_the_search_longer() {
    let library = crate::tune::library();
    let scenario = |frames: &str| {
        format!(
            "title = 'frames'\nsoc = 'toy'\nmodel = 'vlm'\n[modes]\nstate_transfer = 'reconstruct'\n\
             [[streams]]\nname = 's'\n{frames}[streams.queries]\narrivals = {{ times_s = [1.0, 1.1, 1.2] }}\n\
             prompt_tokens = 10\noutput_tokens = 40\n"
        )
    };
    let best = |frames: &str, replays: u64| {
        let inputs = library.inputs(&scenario(frames)).expect("is right");
        let best = oracle::optimum(&worlds(&inputs), 0, Objective::Completion, replays);
        best.expect("runs").expect("is found")
    };
    let without = best("", 20_000);
    assert!(without.exact && without.ended, "{without:?}");
    let clock = "[streams.frames]\ncount = 200\nclock = { periodic = { rate_hz = 20.0 } }\n";
    let with = best(clock, 2_000);
    assert!(!with.exact && !with.ended, "{with:?}");
    // Each replay handles some 400 inputs, for which 16 replays without frames stand.
    assert!(with.replays < 2_000 / 8, "{with:?}");
    // One or two are within reach.
    let few = best(
        "[streams.frames]\nclock = { times_s = [0.0, 0.9] }\n",
        20_000,
    );
    assert!(few.exact, "{few:?}");
}

/// Three requests, some of which cannot be told apart: what is left out as the
/// same in other words changes nothing.
#[test]
fn contention_pruned_is_contention_tried_out() {
    let spread = "{ uniform = { low = 10, high = 90 } }";
    for (bandwidth, times, output) in [
        (0.6, "[0.0, 0.0, 0.0]", "40"),
        (0.4, "[0.0, 0.0, 0.1]", spread),
        (1.0, "[0.0, 0.05, 0.1]", spread),
    ] {
        let worlds = worlds(&contending(bandwidth, times, output));
        for objective in [Objective::Completion, Objective::Ttft, Objective::Makespan] {
            let pruned = oracle::optimum(&worlds, 0, objective, 40_000).expect("runs");
            let all = oracle::exhaustive(&worlds, 0, objective, 40_000).expect("runs");
            let (pruned, all) = (pruned.expect("is found"), all.expect("is found"));
            assert!(pruned.exact && all.exact, "{pruned:?} {all:?}");
            assert!(
                (pruned.value_s - all.value_s).abs() <= 1e-6,
                "{pruned:?} {all:?}"
            );
            assert!(pruned.replays < all.replays, "{pruned:?} {all:?}");
        }
    }
}

/// Where there is no best schedule it says why.
#[test]
fn more_requests_than_the_search_takes_are_told() {
    let times = "[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]";
    let worlds = worlds(&contending(1.0, times, "40"));
    let gaps = lab::gaps::of(&worlds).expect("runs");
    let text = lab::gaps::text(&gaps);
    let words: Vec<&str> = text.split_whitespace().collect();
    let told = "it has 9 requests, and the search takes up to 8";
    assert_eq!(words.join(" ").matches(told).count(), 1, "{text}");
    let document = lab::gaps::json(&gaps);
    let schedule = &document["best_schedules_of_first_replication"][0];
    assert_eq!(schedule["left_out"], told);
    assert_eq!(schedule["sum_s"], serde_json::Value::Null);
}

/// Each policy's gap is to the best schedule of all of them.
#[test]
fn gaps_to_the_best_schedule_are_each_policys() {
    let worlds = worlds(&contending(1.0, "[0.0, 0.1, 0.3]", "40"));
    let gaps = lab::gaps::of(&worlds).expect("runs");
    let document = lab::gaps::json(&gaps);
    for (at, objective) in [Objective::Completion, Objective::Ttft]
        .into_iter()
        .enumerate()
    {
        let schedule = &document["best_schedules_of_first_replication"][at];
        let best = schedule["sum_s"].as_f64().expect("is found");
        let mut found = Vec::new();
        for (world, row) in worlds
            .iter()
            .zip(schedule["policies"].as_array().expect("a list"))
        {
            let value = of_policy(world, objective).expect("answers all");
            let gap = row["gap"].as_f64().expect("is a number");
            assert!(
                (gap - (value / best - 1.0)).abs() < 1e-6,
                "{row} {value} {best}"
            );
            assert_eq!(row["policy"], world.policy.to_string());
            found.push(gap);
        }
        found.sort_by(f64::total_cmp);
        assert!(found[0] >= 0.0 && found[3] > found[0], "{found:?}");
    }
    let text = lab::gaps::text(&gaps);
    assert!(
        text.contains("to best schedule") && text.contains("gap"),
        "{text}"
    );
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
}
