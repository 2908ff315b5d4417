//! A built-in policy written as a script gives the same trace, record for record.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use sim::check::Check;
use sim::load::{Inputs, Source};
use sim::simulation::Simulation;
use sim::time::Instant;
use sim::trace::{Record, Recorder};
use sim::world::World;
use validation::folder::{Disk, Folder};

use crate::config;
use crate::scenario::scenario;

/// Built-in policies as the command line takes them, and the same in a script: by score and by decision, with an
/// order, with state, with a lane for frames.
const TWINS: [(&str, &str); 5] = [
    (
        "state_aware",
        include_str!("../../../scenarios/policies/state_aware.rhai"),
    ),
    ("state_aware:w", "fn score(r, c, v) { c.wait_ns }"),
    (
        "state_aware:w+p",
        "fn decide(r, cs, v) {
            let best = cs[0];
            for c in cs {
                if c.wait_ns + c.prepare_ns < best.wait_ns + best.prepare_ns { best = c; }
            }
            place(best)
        }",
    ),
    (
        "earliest_deadline_first",
        "fn rank(r, v) { if r.deadline_ns == () { v.forever_ns } else { r.deadline_ns } }
        fn decide(r, cs, v) {
            let idle = [];
            for c in cs { if c.lane.idle { idle.push(c); } }
            if idle.is_empty() { return wait_all(); }
            let best = idle[0];
            for c in idle {
                if c.prepare_ns + c.alone_ns < best.prepare_ns + best.alone_ns { best = c; }
            }
            best
        }",
    ),
    (
        "round_robin",
        "fn decide(r, cs, v) {
            let at = this.next ?? 0;
            this.next = at + 1;
            at % cs.len()
        }
        fn ingest(item, cs, v) {
            let at = 0;
            for stream in v.streams {
                if stream.name == item.stream { return at % cs.len(); }
                at += 1;
            }
        }",
    ),
];

type Records = Vec<(Instant, Record)>;

fn played(world: &World) -> Result<Records, String> {
    let mut sink = (Recorder::default(), Check::new(world));
    let mut simulation = Simulation::new(world);
    let ran = simulation.run_into(0, &mut sink).map(drop);
    ran.map_err(|faults| faults.to_string())?;
    Ok(sink.0.records)
}

/// Both traces; `None` where the built-in policy cannot serve the scenario.
fn twins(inputs: &Inputs, built_in: &str, script: &str) -> Option<[Result<Records, String>; 2]> {
    let world = inputs.with_policy_text(built_in).ok()?;
    let source = Source {
        name: "twin.rhai".into(),
        text: script.into(),
    };
    let scripted = inputs
        .with_script(source)
        .expect("the script is right")
        .with_policy_text("script:twin.rhai")
        .expect("it serves what the other serves");
    Some([played(&world), played(&scripted)])
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn a_script_does_what_its_twin_does(scenario in scenario(), at in 0..TWINS.len()) {
        let Some(inputs) = scenario.inputs() else {
            return Err(TestCaseError::reject("does not load"));
        };
        let (built_in, script) = TWINS[at];
        if let Some([a, b]) = twins(&inputs, built_in, script) {
            prop_assert_eq!(a, b);
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn shipped(folder: &str) -> Vec<(PathBuf, Inputs)> {
    let folder = root().join("scenarios").join(folder);
    let library = Folder::new(root().join("profiles"));
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .collect();
    files.sort();
    files
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("a file");
            let inputs = Inputs::read(&path.to_string_lossy(), &text, &library, &Disk);
            let inputs = inputs.unwrap_or_else(|faults| panic!("{faults}"));
            (path, inputs)
        })
        .collect()
}

#[test]
fn scripts_do_what_their_twins_do_on_shipped_scenarios() {
    let mut compared = 0;
    for (path, inputs) in shipped("").into_iter().chain(shipped("published")) {
        for (built_in, script) in TWINS {
            let Some([a, b]) = twins(&inputs, built_in, script) else {
                continue;
            };
            assert_eq!(
                a.map(|trace| trace.len()),
                b.clone().map(|trace| trace.len())
            );
            let world = inputs.with_policy_text(built_in).expect("it served");
            assert!(
                played(&world) == b,
                "{}: {built_in} differs from its script",
                path.display()
            );
            compared += 1;
        }
    }
    assert!(compared > 100, "{compared}");
}

#[test]
fn shipped_scripts_run() {
    for (path, inputs) in shipped("policies") {
        let own = inputs.world().unwrap_or_else(|faults| panic!("{faults}"));
        let trace = played(&own).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(trace.len() > 1000);
    }
    // Those that no scenario names run on the shipped one, their parameters left at a default or told.
    let (_, inputs) = shipped("policies").remove(0);
    for name in ["state_aware", "sticky", "frugal_deadline"] {
        let path = root().join(format!("scenarios/policies/{name}.rhai"));
        let text = std::fs::read_to_string(path).expect("a file");
        let text = text.replace("param(\"patience_s\")", "param(\"patience_s\", 1.0)");
        let source = Source {
            name: name.into(),
            text,
        };
        let inputs = inputs.with_script(source).expect("is a policy");
        let world = inputs.with_policy_text(&format!("script:{name}"));
        let world = world.expect("serves");
        assert!(played(&world).expect("runs").len() > 1000);
    }
}
