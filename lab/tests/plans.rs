//! Every plan that comes with the project: its edge is real, also under other draws.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use lab::plan::question::Question;
use lab::plan::{Axis, Case, Probe, Target, Verdict, json, plan, table, targets};
use sim::load::Inputs;
use validation::folder::{Disk, Folder};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn shipped() -> Vec<(String, Question, PathBuf)> {
    let mut list: Vec<_> = std::fs::read_dir(root().join("plans"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "toml"))
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let question = Question::read(&text).unwrap().unwrap();
            let scenario = path.parent().unwrap().join(&question.scenario);
            (
                path.file_stem().unwrap().to_string_lossy().into_owned(),
                question,
                scenario,
            )
        })
        .collect();
    list.sort_by(|a, b| a.0.cmp(&b.0));
    list
}

/// A load simulated from scratch with other seeds.
fn again(axis: Axis, load: f64, case: &Case<'_>, targets: &[Target], seed: u64) -> Probe {
    let text = axis.at(&case.text, load).unwrap();
    let inputs = Inputs::read(&case.name, &text, case.library, case.files).unwrap();
    let mut world = inputs.world().unwrap();
    world.seed = seed;
    Probe::run(&world, load, 40, targets).unwrap()
}

#[test]
fn just_inside_meets_and_just_outside_misses() {
    let library = Folder::new(root().join("profiles"));
    let all = shipped();
    assert!(all.len() >= 4);
    for (name, question, scenario) in all {
        let targets = targets(&question.targets).unwrap();
        let axis = Axis::parse(&question.maximise).unwrap();
        let case = Case {
            name: scenario.to_string_lossy().into_owned(),
            text: std::fs::read_to_string(&scenario).unwrap(),
            library: &library,
            files: &Disk,
            replications: Some(10),
            seed: None,
        };
        let planned = plan(&case, &name, axis, &targets, None).unwrap();
        let (inside, outside) = (planned.edge.meets, planned.edge.misses);
        let text = table(std::slice::from_ref(&planned), &[]);
        let (Some(inside), Some(outside)) = (inside, outside) else {
            panic!("{name} has no edge:\n{text}");
        };
        assert!(inside < outside, "{name}");
        assert!(
            axis.whole() || outside / inside < 1.5,
            "{name}: {inside} to {outside}"
        );
        let means = |probe: &Probe| -> Vec<bool> {
            let held = targets.iter().zip(&probe.held);
            held.map(|(target, held)| {
                held.reason.is_none() && held.value.is_some_and(|value| target.met(value.mean))
            })
            .collect()
        };
        for seed in [4711, 4712, 4713] {
            let probe = again(axis, inside, &case, &targets, seed);
            assert!(
                means(&probe).iter().all(|met| *met),
                "{name} at {inside}: {probe:?}\n{text}"
            );
            let probe = again(axis, outside, &case, &targets, seed);
            assert!(
                means(&probe).iter().any(|met| !met),
                "{name} at {outside}\n{text}"
            );
        }
        assert_eq!(planned.edge.probe(inside).unwrap().verdict, Verdict::Meets);
        let limits = planned.limits.as_ref().unwrap();
        assert!(
            !limits.because.is_empty() && !limits.buys.is_empty(),
            "{name}\n{text}"
        );
        let document = json(&[planned], &[]);
        assert_eq!(document["plans"][0]["meets"], inside);
    }
}
