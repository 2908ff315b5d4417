//! Tests of loading as a whole, on a small made-up `SoC`.

mod cured;
mod faults;
mod laws;
mod schemas;
mod scripts;
mod toy;

use toy::Toy;

use super::*;
use crate::spec::scenario::{Policy, Terms};
use crate::time::Instant;
use crate::world::{EngineId, LaneId, StageId};

fn load(toy: &Toy, scenario: &str) -> World {
    match load_scenario("s.toml", scenario, toy, toy) {
        Ok(world) => world,
        Err(faults) => panic!("{faults}"),
    }
}

#[test]
fn a_scenario_becomes_a_world() {
    let toy = Toy::default();
    let world = load(&toy, toy::SCENARIO);
    let names: Vec<&str> = world.streams.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["back", "front-1", "front-2"]);
    let stages: Vec<&str> = world.stages.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(
        stages,
        [
            "encode",
            "project",
            "ingest",
            "query_prefill",
            "decode",
            "export",
            "import",
            "reconstruct"
        ]
    );
    assert_eq!(world.frame_graph.after, [0, 1, 2]);
    assert_eq!(
        (world.frame_graph.bound_at, world.frame_graph.bound_end),
        (2, 2)
    );
    assert_eq!(
        (world.query_graph.bound_at, world.query_graph.bound_end),
        (0, 1)
    );
    assert_eq!(world.placement[0], Some(LaneId(1)));
    assert_eq!(world.exclusive[1][0], 1);
    assert_eq!(world.exclusive[0][4], 1);
    assert_eq!(world.exclusive[0][0], 0);
    // 1 GB reserved, 1 GB of weights, 0.2 GB of vision weights, 1.1 GB of the NPU's copy.
    assert_eq!(world.memory.taken, 3_300_000_000);
    assert_eq!(world.memory.kv_budget, 4_700_000_000);
    assert_eq!(world.engines[0].kv_budget, 4_700_000_000);
    assert_eq!(world.horizon, Instant::from_secs_f64(60.0));
    assert_eq!(world.contention.name(), "water_filling");
    assert!(world.power.is_some());
    assert!(!world.closed_loop());
}

/// What one policy reads is no fault beside another that does not; what none can is one.
#[test]
fn keys_are_read_by_one_of_the_policies_that_are_asked_for() {
    let toy = Toy::default();
    let read_by = |keys: &str, policies: &[&str]| {
        let project = "encode = \"npu\"\nproject = \"npu\"";
        let text = toy::SCENARIO.replace("encode = \"npu\"", project) + keys;
        let inputs = Inputs::read("s.toml", &text, &toy, &toy).expect("it is right by itself");
        let world = |policy: &&str| inputs.with_policy_text(policy).expect("it is a policy");
        let worlds: Vec<World> = policies.iter().map(world).collect();
        let told = inputs.read_by(&worlds).map_err(|faults| faults.to_string());
        (told, worlds)
    };
    let key = "[beliefs]\noutput_tokens = 'exact'\n";
    let (told, worlds) = read_by(key, &["naive", "shortest_job_first"]);
    assert_eq!(told, Ok(()));
    let warned = |world: &World| {
        let idle = |text: &String| text.starts_with("`beliefs.output_tokens` has no effect");
        world.warnings.iter().any(idle)
    };
    assert!(warned(&worlds[0]) && !warned(&worlds[1]));
    let (told, _) = read_by(key, &["naive", "round_robin"]);
    let told = told.expect_err("neither reads it");
    assert!(
        told.contains("`beliefs.output_tokens` has no effect"),
        "{told}"
    );
    let key = "[limits]\nkv_budget_bytes = 1e12\n";
    let (told, worlds) = read_by(key, &["naive", "shortest_job_first"]);
    assert!(told.is_err_and(|told| told.contains("`limits.kv_budget_bytes` has no effect")));
    assert_eq!(worlds.len(), 2);
}

#[test]
fn what_is_not_said_is_unbounded_or_the_document_default() {
    let toy = Toy::default();
    let world = load(
        &toy,
        "title = \"one\"\nsoc = \"toy\"\nmodel = \"vlm\"\n[[streams]]\nname = \"a\"\n[streams.queries]\narrivals = { times_s = [1.0] }\nprompt_tokens = 8\noutput_tokens = 8\n",
    );
    assert_eq!(world.horizon, Instant::NEVER);
    assert_eq!((world.seed, world.replications), (1, 1));
    assert_eq!(world.max_requests, 65_536);
    assert_eq!(world.policy, Policy::default());
    let queries = world.streams[0].queries.as_ref().unwrap();
    assert_eq!((queries.count, queries.output_max), (u64::MAX, 8));
}

#[test]
fn a_reconstruct_costs_what_an_ingest_does() {
    let toy = Toy::default();
    let world = load(&toy, toy::SCENARIO);
    let at = |stage: StageId| {
        world
            .costs
            .get(EngineId(1), stage)
            .unwrap()
            .alone
            .at(256.0, 0.0)
    };
    assert_eq!(at(world.transfer.reconstruct), at(StageId(2)));
    let number = world
        .provenance
        .iter()
        .find(|number| number.path == "engines.npu.stages.reconstruct.table.time_s[1]")
        .unwrap();
    assert_eq!(number.value, 0.2);
    assert!(
        number
            .note
            .as_ref()
            .unwrap()
            .contains("prefill the same tokens")
    );
}

#[test]
fn an_unsupported_reconstruct_has_no_cost() {
    let toy = Toy {
        costs: toy::COSTS.replace(
            "decode = \"the runtime has no sampler\"",
            "decode = \"no sampler\"\nreconstruct = \"no prefix\"",
        ),
        ..Toy::default()
    };
    let world = load(&toy, toy::SCENARIO);
    assert!(
        world
            .costs
            .get(EngineId(1), world.transfer.reconstruct)
            .is_none()
    );
}

#[test]
fn tables_are_measured_between_their_ends() {
    let world = load(&Toy::default(), toy::SCENARIO);
    let ingest = &world.costs.get(EngineId(1), StageId(2)).unwrap().alone;
    assert!(ingest.at(32.0, 0.0).measured && ingest.at(1024.0, 0.0).measured);
    assert!(!ingest.at(31.0, 0.0).measured && !ingest.at(1025.0, 0.0).measured);
}

#[test]
fn every_number_carries_its_origin() {
    let list = check_soc("soc.toml", toy::SOC).unwrap();
    let port = list
        .iter()
        .find(|n| n.path == "engines.npu.port_gbps")
        .unwrap();
    assert_eq!(port.interval, Some((9.0, 11.0)));
    assert_eq!(
        (port.origin.as_str(), port.source.as_deref()),
        ("bench", Some("table 1"))
    );
    let weight = list
        .iter()
        .find(|n| n.path == "engines.npu.weight")
        .unwrap();
    assert_eq!(weight.origin, "guess");
    assert_eq!(check_model("m", toy::MODEL).unwrap().len(), 6);
    assert!(check_costs("c", toy::COSTS).unwrap().len() > 20);
}

#[test]
fn kinds_are_told_apart() {
    for (text, kind) in [
        (toy::SCENARIO, Some(Kind::Scenario)),
        (toy::SOC, Some(Kind::Soc)),
        (toy::MODEL, Some(Kind::Model)),
        (toy::COSTS, Some(Kind::Costs)),
        ("[package]\nname = \"x\"\n", None),
        ("= =", None),
    ] {
        assert_eq!(detect_kind(text), kind);
    }
}

#[test]
fn policies_are_read_from_short_text() {
    let lanes = ["cpu", "npu"];
    let aware = |terms| Ok(Policy::StateAware { terms });
    for (text, wanted) in [
        ("state_aware", aware(Terms::Wps)),
        ("state_aware:w", aware(Terms::W)),
        ("state_aware:w+p", aware(Terms::Wp)),
        ("state_aware:w+p+s", aware(Terms::Wps)),
        (
            "single:npu",
            Ok(Policy::Single {
                lane: "npu".to_owned(),
            }),
        ),
        ("serial", Ok(Policy::Serial)),
        ("naive", Ok(Policy::Naive)),
        ("idle_first", Ok(Policy::IdleFirst)),
        ("reuse_first", Ok(Policy::ReuseFirst)),
        (
            "fixed",
            Ok(Policy::Fixed {
                lanes: std::collections::BTreeMap::new(),
            }),
        ),
        ("round_robin", Ok(Policy::RoundRobin)),
        ("shortest_job_first", Ok(Policy::ShortestJobFirst)),
        ("earliest_deadline_first", Ok(Policy::EarliestDeadlineFirst)),
        (
            "state_awre",
            Err("unknown policy `state_awre`: did you mean `state_aware`?"),
        ),
        (
            "state_aware:p",
            Err("unknown terms `p` of policy `state_aware`: one of `w`, `w+p`, `w+p+s`"),
        ),
        (
            "single",
            Err("policy `single` needs a lane, as in `single:cpu`"),
        ),
        (
            "single:gpu",
            Err("unknown lane `gpu` of policy `single`: lanes: `cpu`, `npu`"),
        ),
        (
            "single:np",
            Err("unknown lane `np` of policy `single`: did you mean `npu`?"),
        ),
        (
            "serial:x",
            Err("policy `serial` takes no parameter, but `x` is given: write `serial`"),
        ),
    ] {
        assert_eq!(
            parse_policy(text, &lanes),
            wanted.map_err(str::to_owned),
            "{text}"
        );
    }
}

#[test]
fn a_world_is_built_again_with_another_policy() {
    let toy = Toy::default();
    let inputs = Inputs::read("s.toml", toy::SCENARIO, &toy, &toy).unwrap();
    assert_eq!(inputs.lanes(), ["cpu", "npu"]);
    let world = inputs.with_policy_text("single:cpu").unwrap();
    assert_eq!(
        world.policy,
        Policy::Single {
            lane: "cpu".to_owned()
        }
    );
    let error = inputs.with_policy_text("single:npu").unwrap_err();
    assert!(error.contains("which cannot answer"), "{error}");
    assert_eq!(inputs.world().unwrap().policy, Policy::default());
}

#[test]
fn the_largest_counts_fit_and_one_more_does_not() {
    let lane = |n: usize| format!("[lanes.l{n:02}]\nengine = \"npu\"\n");
    let with_lanes = |count: usize| {
        let more = (0..count - 2).map(lane).collect::<Vec<_>>().concat();
        check_soc("soc", &format!("{}{more}", toy::SOC))
    };
    assert!(with_lanes(16).is_ok());
    let faults = with_lanes(17).unwrap_err().to_string();
    assert!(
        faults.contains("a SoC with 17 lanes: must be 1 to 16"),
        "{faults}"
    );
    let with_stages = |count: usize| {
        let custom = |n: usize| format!("[[frame_stages]]\nname = \"c{n}\"\nkind = \"custom\"\n");
        let more = (0..count - 8).map(custom).collect::<Vec<_>>().concat();
        let names: Vec<String> = (0..count - 8).map(|n| format!("\"c{n}\"")).collect();
        let after = format!("after = [\"project\", {}]", names.join(", "));
        let model = toy::MODEL.replace("after = [\"project\"]", &after);
        check_model("model", &format!("{model}{more}"))
    };
    assert!(with_stages(32).is_ok());
    let faults = with_stages(33).unwrap_err().to_string();
    assert!(
        faults.contains("model has 30 stages: at most 29 in both graphs"),
        "{faults}"
    );
}

#[test]
fn a_scenario_needs_streams() {
    let toy = Toy::default();
    let text = "title = \"none\"\nsoc = \"toy\"\nmodel = \"vlm\"\nstreams = []\n";
    let faults = load_scenario("s.toml", text, &toy, &toy).unwrap_err();
    assert_eq!(
        faults.to_string(),
        "s.toml:4:1: there are no streams: needs at least one"
    );
}

#[test]
fn the_help_for_missing_streams_loads() {
    let toy = Toy::default();
    let text = "title = \"none\"\nsoc = \"toy\"\nmodel = \"vlm\"\n[run]\nhorizon_s = 9.0\n";
    let faults = load_scenario("s.toml", text, &toy, &toy).unwrap_err();
    let help = faults.list[0].help.clone().unwrap();
    // Every other piece between backticks is a line to write.
    let lines: Vec<&str> = help.split('`').skip(1).step_by(2).collect();
    load(&toy, &format!("{text}{}\n", lines.join("\n")));
}

#[test]
fn paths_are_relative_to_the_scenario() {
    let toy = Toy {
        files: vec![("dir/board/soc.toml".to_owned(), toy::SOC.to_owned())],
        ..Toy::default()
    };
    let scenario = toy::SCENARIO.replace("soc = \"toy\"", "soc = \"board/soc.toml\"");
    let faults = load_scenario("dir/s.toml", &scenario, &toy, &toy).unwrap_err();
    assert!(
        faults
            .to_string()
            .contains("no costs of model `vlm` on SoC `board`"),
        "{faults}"
    );
}
