//! Every plan that comes with the project: its edge is real, also under other draws.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use lab::plan::question::Question;
use lab::plan::{
    Axis, Case, Drawn, Plan, PlanError, Probe, Range, Resource, Target, Times, Verdict, json,
    needs, needs_json, needs_table, plan, region, row, table, targets,
};
use reports::plot::Cell;
use sim::load::{Inputs, Kind, Library, Source};
use sim::metrics::LoadVerdict;
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

fn case<'a>(library: &'a Folder, name: &Path, text: String) -> Case<'a> {
    Case {
        name: name.to_string_lossy().into_owned(),
        text,
        library,
        files: &Disk,
        replications: Some(RUNS),
        seed: None,
        times: Times::Stated,
    }
}

/// Runs of a load, and a quarter of those near the edge: few, for the sake of the tests' time.
const RUNS: u32 = 6;

/// The same runs from a text alone.
fn replayed(case: &Case<'_>, text: &str, load: f64, targets: &[Target]) -> Probe {
    let inputs = Inputs::read(&case.name, text, case.library, case.files).unwrap();
    let world = inputs.world().unwrap();
    inputs.read_by(std::slice::from_ref(&world)).unwrap();
    Probe::run(&world, load, world.replications, None, targets).unwrap()
}

/// A load simulated from scratch with other seeds, as deep as the search looked near the edge.
fn again(axis: Axis, load: f64, case: &Case<'_>, targets: &[Target], seed: u64) -> Probe {
    let text = axis.at(&case.text, load).unwrap();
    let inputs = Inputs::read(&case.name, &text, case.library, case.files).unwrap();
    let mut world = inputs.world().unwrap();
    world.seed = seed;
    Probe::run(&world, load, 4 * RUNS, None, targets).unwrap()
}

/// To see it fail, confirm ends without a margin.
#[test]
fn just_inside_meets_and_just_outside_misses() {
    let library = Folder::new(root().join("profiles"));
    let all = shipped();
    assert!(all.len() >= 4);
    for (name, question, scenario) in all {
        let targets = targets(&question.targets).unwrap();
        let axis = Axis::parse(&question.maximise).unwrap();
        let text = std::fs::read_to_string(&scenario).unwrap();
        let case = case(&library, &scenario, text);
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
        for (load, wanted, looks) in [(inside, Verdict::Meets, 10), (outside, Verdict::Misses, 3)] {
            assert_eq!(planned.edge.probe(load).unwrap().verdict, wanted, "{name}");
            let alike = (4711..4711 + looks)
                .filter(|seed| again(axis, load, &case, &targets, *seed).verdict == wanted)
                .count();
            assert!(
                10 * alike >= 9 * looks as usize,
                "{name} at {load}: {alike} of {looks}\n{text}"
            );
        }
        let limits = planned.limits.as_ref().unwrap();
        assert!(
            !limits.because.is_empty() && !limits.buys.is_empty(),
            "{name}\n{text}"
        );
        // The scenario of the edge is the edge's.
        let scenario = planned.scenarios.0.as_ref().unwrap();
        let replayed = replayed(&case, scenario, inside, &targets);
        assert_eq!(replayed.runs, planned.edge.probe(inside).unwrap().runs);
        let document = json(&[planned], &[]);
        assert_eq!(document["plans"][0]["meets"], inside);
    }
}

/// One camera on an RK3588, with the length of its runs and what its contexts keep.
fn camera(run: &str, keep: &str, frames_hz: f64, queries_hz: f64) -> String {
    format!(
        "title = 'one camera'\nsoc = 'rk3588'\nmodel = 'onevision-0.5b-int4'\n\n[run]\n{run}\n\n{keep}\n\
         [policy.state_aware]\nterms = 'w+p+s'\n\n[[streams]]\nname = 'door'\n\
         [streams.frames]\nclock = {{ periodic = {{ rate_hz = {frames_hz} }} }}\n\
         [streams.queries]\narrivals = {{ poisson = {{ rate_hz = {queries_hz} }} }}\n\
         prompt_tokens = 24\noutput_tokens = 64\n"
    )
}

fn planned(text: String, axis: Axis, slo: &str, range: Option<Range>) -> Result<Plan, PlanError> {
    let library = Folder::new(root().join("profiles"));
    let case = case(&library, Path::new("camera.toml"), text);
    plan(
        &case,
        "camera",
        axis,
        &targets(&[slo.to_owned()]).unwrap(),
        range,
    )
}

const WINDOW: &str = "[context]\nkeep = { window = { frames = 6 } }\n";

/// To see it fail, let a context's reach be none.
#[test]
fn a_context_that_no_run_fills_is_not_planned() {
    let text = camera("horizon_s = 600\nwarm_up_s = 60", WINDOW, 0.1, 0.05);
    let loose = "ttft_p95 <= 600 s";
    let found = planned(text.clone(), Axis::Context, loose, None).unwrap();
    assert_eq!((found.edge.meets, found.edge.misses), (Some(60.0), None));
    assert!(found.edge.probes.iter().all(|probe| probe.load <= 60.0));
    let told = table(std::slice::from_ref(&found), &[]);
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        told.contains(
            "the range ended there: within `horizon_s` = 600 s no stream has more than 61 frames"
        ),
        "{told}"
    );
    let ends = &json(&[found], &[])["plans"][0]["range"]["ends"];
    assert!(ends.is_string(), "{ends}");
    let beyond = Range {
        low: 100.0,
        high: 200.0,
    };
    let refused = planned(text.clone(), Axis::Context, loose, Some(beyond));
    assert!(
        matches!(&refused, Err(PlanError::Question(why)) if why.contains("change nothing")),
        "{refused:?}"
    );
    // Nor is it drawn as met.
    let library = Folder::new(root().join("profiles"));
    let case = case(&library, Path::new("camera.toml"), text);
    let targets = targets(&[loose.to_owned()]).unwrap();
    let drawn = row(&case, &targets, Axis::Context, &[60.0, 61.0]).unwrap();
    assert_eq!(drawn, [Drawn::Verdict(Verdict::Meets), Drawn::NotSimulated]);
    // To see it fail, draw what was not simulated as unclear.
    let rows = [("a".to_owned(), drawn.clone())];
    let map = region("t", Axis::Context, &[60.0, 61.0], "", &rows);
    assert_eq!(map.names[3], "not simulated");
    assert_eq!(map.cells[0][1], Cell::Choice(3));
    // To see it fail, draw what has no world as missed.
    let text = camera("horizon_s = 60", WINDOW, 0.1, 0.05);
    let text = text.replacen("model = '", "model = 'no-such-", 1);
    assert!(text.contains("no-such-"), "{text}");
    let library = Folder::new(root().join("profiles"));
    let case = self::case(&library, Path::new("camera.toml"), text);
    let drawn = row(&case, &targets, Axis::FrameRate, &[0.1, 0.2]).unwrap();
    assert_eq!(drawn, [Drawn::CannotRun; 2]);
    let map = region(
        "t",
        Axis::FrameRate,
        &[0.1, 0.2],
        "",
        &[("a".to_owned(), drawn)],
    );
    assert_eq!(map.names[3], "cannot run");
    assert!(map.cells[0].iter().all(|cell| *cell == Cell::Choice(3)));
}

/// To see it fail, ask of times alone whether a queue grows.
#[test]
fn a_load_that_is_not_carried_meets_no_target() {
    let text = || camera("horizon_s = 1200\nwarm_up_s = 100", WINDOW, 0.1, 0.05);
    let range = Range {
        low: 6.0,
        high: 24.0,
    };
    for slo in [
        "memory <= 15 GB",
        "throughput >= 0.1 req/s",
        "energy <= 100 W",
    ] {
        let found = planned(text(), Axis::Streams, slo, Some(range)).unwrap();
        let top = found.edge.probes.last().unwrap();
        assert!(top.overloaded() && top.verdict == Verdict::Misses, "{slo}");
        for probe in &found.edge.probes {
            let carried = 5 * probe.runs.verdicts(LoadVerdict::Saturated) <= probe.runs.count();
            assert!(carried || probe.verdict != Verdict::Meets, "{slo}");
        }
        let limits = found.limits.unwrap();
        assert!(limits.reason.is_some(), "{slo}: {limits:?}");
        let policy = limits.because.iter().find(|why| why.contains("the policy"));
        assert_eq!(policy, None, "{slo}");
    }
}

/// To see it fail, let nothing rise.
#[test]
fn an_edge_that_holds_for_runs_of_one_length_says_so() {
    let range = Some(Range {
        low: 1.0,
        high: 6.0,
    });
    let slo = "ttft_p95 <= 8 s";
    let run = "horizon_s = 600\nwarm_up_s = 30";
    let grows = planned(camera(run, "", 0.1, 0.05), Axis::Streams, slo, range).unwrap();
    let rise = &grows.rises[0];
    assert!(rise.means.1 > 1.2 * rise.means.0, "{rise:?}");
    assert_eq!((rise.run_s, rise.longer_s), (600.0, 1200.0));
    assert!(rise.cause.contains("`keep`"), "{rise:?}");
    let document = &json(&[grows], &[])["plans"][0];
    let remarks = document["remarks"].as_array().unwrap();
    let told = |text: &str| {
        remarks
            .iter()
            .any(|one| one.as_str().unwrap().contains(text))
    };
    assert!(told("in runs of 600 s"), "{document}");
    assert_eq!(document["rises_with_length"][0]["longer_s"], 1200.0);
    // A context that is full from the start stays as it is, and so do the means.
    let run = "horizon_s = 2400\nwarm_up_s = 120";
    let level = camera(run, WINDOW, 0.1, 0.05);
    let level = planned(level, Axis::Streams, "ttft_mean <= 3 s", range).unwrap();
    assert!(level.rises.is_empty(), "{:?}", level.rises);
}

/// To see it fail, let `needs` ask nothing of longer runs.
#[test]
fn the_least_chip_holds_for_runs_of_one_length_and_says_so() {
    let text = camera("horizon_s = 300\nwarm_up_s = 30", "", 0.1, 0.05);
    let library = Folder::new(root().join("profiles"));
    let mut case = case(&library, Path::new("camera.toml"), text);
    case.replications = Some(4);
    let targets = targets(&["ttft_p95 <= 8 s".to_owned()]).unwrap();
    let found = needs(&case, "x", &targets).unwrap();
    let at = found.list.iter().position(|need| !need.rises.is_empty());
    let at = at.expect("contexts grow");
    let (need, rise) = (&found.list[at], &found.list[at].rises[0]);
    assert_eq!(Some(rise.load), need.between.1.or(need.between.0));
    assert_eq!((rise.run_s, rise.longer_s), (300.0, 600.0));
    assert!(rise.cause.contains("`keep`"), "{rise:?}");
    let told = needs_table(&targets, &found);
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains(") `ttft_p95` is"), "{told}");
    assert!(told.contains("in runs of 300 s and"), "{told}");
    let document = &needs_json(&found)["needs"][at];
    assert_eq!(document["rises_with_length"][0]["times"], rise.load);
}

/// To see it fail, name the busiest engine first.
#[test]
fn what_is_refused_is_named_as_what_limits() {
    let text = camera("horizon_s = 2600\nwarm_up_s = 1800", WINDOW, 0.1, 0.02);
    let range = Range {
        low: 160.0,
        high: 175.0,
    };
    let found = planned(text, Axis::Context, "ttft_p95 <= 600 s", Some(range)).unwrap();
    let told = table(std::slice::from_ref(&found), &[]);
    // 167 frames of 196 tokens, a prompt of 24 and an answer of 64 are 32844.
    assert_eq!(
        (found.edge.meets, found.edge.misses),
        (Some(166.0), Some(167.0)),
        "{told}"
    );
    let limits = found.limits.unwrap();
    assert!(limits.because[0].contains("32768 tokens"), "{limits:?}");
    assert!(limits.reason.is_some(), "{limits:?}");
    assert!(
        limits.buys.iter().all(|buys| buys.load.is_none()),
        "{limits:?}"
    );
}

/// To see it fail, tell it at the least load, which is a frame in a hundred seconds.
#[test]
fn what_limits_is_told_where_a_target_is_nearly_met() {
    let text = camera("horizon_s = 1200\nwarm_up_s = 120", WINDOW, 0.1, 0.02);
    let range = Range {
        low: 0.01,
        high: 1.0,
    };
    let slo = "staleness_p95 <= 0.5 s";
    let found = planned(text, Axis::FrameRate, slo, Some(range)).unwrap();
    assert_eq!(found.edge.meets, None);
    let (limits, edge) = (found.limits.unwrap(), &found.edge);
    let value = |load: f64| edge.probe(load).unwrap().value(0).unwrap();
    assert!(limits.load > 0.05, "{limits:?}");
    assert!(value(limits.load) < 0.5 * value(0.01), "{limits:?}");
}

/// A library with another text for its SoC.
struct Changed<'a> {
    folder: &'a Folder,
    soc: String,
}

impl Library for Changed<'_> {
    fn soc(&self, key: &str) -> Option<Source> {
        let text = self.soc.clone();
        self.folder.soc(key).map(|source| Source { text, ..source })
    }

    fn model(&self, key: &str) -> Option<Source> {
        self.folder.model(key)
    }

    fn costs(&self, soc_key: &str, model_key: &str) -> Option<Source> {
        self.folder.costs(soc_key, model_key)
    }

    fn names(&self, kind: Kind) -> Vec<String> {
        self.folder.names(kind)
    }
}

/// What a person writes for a SoC with so much of a resource.
fn by_hand(text: &str, resource: &Resource, times: f64) -> String {
    let mut soc: toml_edit::DocumentMut = text.parse().unwrap();
    let number = |item: &toml_edit::Item| {
        let item = item.get("value").unwrap_or(item);
        item.as_float()
            .unwrap_or_else(|| item.as_integer().unwrap() as f64)
    };
    let put = |item: &mut toml_edit::Item, by: f64| {
        let to = toml_edit::value(number(item) * by);
        if item.get("value").is_some() {
            item["value"] = to;
            for end in ["low", "high"] {
                item.as_inline_table_mut().unwrap().remove(end);
            }
        } else {
            *item = to;
        }
    };
    match resource {
        Resource::Memory => {
            let bytes = number(&soc["memory"]["capacity_bytes"]);
            // Whole bytes.
            put(
                &mut soc["memory"]["capacity_bytes"],
                (bytes * times).round() / bytes,
            );
            return soc.to_string();
        }
        Resource::Bandwidth => put(&mut soc["memory"]["bandwidth_gbps"], times),
        Resource::Compute(_) => {}
    }
    // What the profile does not have needs an origin.
    let new = |number: f64| {
        let mut table = toml_edit::InlineTable::new();
        table.insert("value", number.into());
        table.insert("origin", "mine".into());
        toml_edit::value(table)
    };
    let more = *resource == Resource::Bandwidth && times > 1.0;
    if more && soc["memory"].get("peak_gbps").is_some() {
        put(&mut soc["memory"]["peak_gbps"], times);
    }
    let engines = soc["engines"].as_table_mut().unwrap();
    for (_, engine) in engines.iter_mut() {
        if more {
            let port = number(&engine["port_gbps"]);
            engine["measured_port_gbps"] = new(port);
            put(&mut engine["port_gbps"], times);
        } else if *resource != Resource::Bandwidth {
            engine["compute_ratio"] = new(times);
        }
    }
    if more || *resource != Resource::Bandwidth {
        return format!("{soc}\n[origins.mine]\nkind = 'assumed'\nnote = 'a test'\n");
    }
    soc.to_string()
}

/// A need is that of a chip: its profile, changed by hand, meets the targets with what is said to meet them, and misses
/// one with what is said to miss one. To see it fail, scale a stage's coefficients one by one, or every port with less
/// bandwidth.
#[test]
fn a_chip_with_what_is_needed_is_simulated_to_meet_by_hand() {
    let folder = Folder::new(root().join("profiles"));
    for (name, question, scenario) in shipped() {
        let targets = targets(&question.targets).unwrap();
        let text = std::fs::read_to_string(&scenario).unwrap();
        let case = case(&folder, &scenario, text);
        let soc = case.inputs().unwrap().file(Kind::Soc).1.to_owned();
        let found = needs(&case, &name, &targets).unwrap();
        let mut ends = 0;
        for need in &found.list {
            let both = [
                (need.between.0, Verdict::Misses),
                (need.between.1, Verdict::Meets),
            ];
            for (times, wanted) in both {
                let Some(times) = times else { continue };
                let library = Changed {
                    folder: &folder,
                    soc: by_hand(&soc, &need.resource, times),
                };
                let alike = |seed: &u64| {
                    let inputs = Inputs::read(&case.name, &case.text, &library, case.files);
                    let verdict = match inputs {
                        Ok(inputs) => {
                            let mut world = inputs.world().unwrap();
                            world.seed = *seed;
                            let runs = Probe::run(&world, 0.0, 4 * RUNS, None, &targets);
                            runs.unwrap().verdict
                        }
                        // A memory that does not hold the model.
                        Err(faults) => {
                            assert_eq!(need.resource, Resource::Memory, "{:?}", faults.list);
                            Verdict::Misses
                        }
                    };
                    verdict == wanted
                };
                let alike = (4711..4716).filter(alike).count();
                let what = format!("{name}: {} times {}", times, need.resource);
                assert!(alike >= 4, "{what} {}: {alike} of 5", wanted.word());
                ends += 1;
            }
        }
        assert!(ends >= 5, "{name}: {}", needs_table(&targets, &found));
    }
}

/// Costs whose times all have an interval of a third less to half more, and were measured nowhere.
struct Doubtful(Folder);

impl Library for Doubtful {
    fn soc(&self, key: &str) -> Option<Source> {
        self.0.soc(key)
    }

    fn model(&self, key: &str) -> Option<Source> {
        self.0.model(key)
    }

    fn costs(&self, soc_key: &str, model_key: &str) -> Option<Source> {
        let source = self.0.costs(soc_key, model_key)?;
        let stage = |per_token: f64| {
            format!(
                "{{ value = {per_token}, low = {}, high = {} }}",
                per_token / 1.5,
                per_token * 1.5
            )
        };
        let text = format!(
            "soc = '{soc_key}'\nmodel = '{model_key}'\norigin = 'roofline'\n[engines.npu.stages]\n\
             encode = {{ fixed_s = {} }}\ningest = {{ per_token_s = {} }}\nquery_prefill = {{ per_token_s = {} }}\n\
             decode = {{ per_token_s = {}, bytes_per_token = 4e8 }}\n[origins.roofline]\nkind = 'derived'\nnote = 'test'\n",
            stage(0.5),
            stage(0.002),
            stage(0.002),
            stage(0.03),
        );
        Some(Source { text, ..source })
    }

    fn names(&self, kind: Kind) -> Vec<String> {
        self.0.names(kind)
    }
}

/// To see it fail, take the stated times at both ends.
#[test]
fn a_plan_on_derived_times_tells_what_their_intervals_leave_open() {
    let library = Doubtful(Folder::new(root().join("profiles")));
    let text = camera("horizon_s = 600\nwarm_up_s = 60", WINDOW, 0.1, 0.05).replace(
        "[policy.state_aware]\nterms = 'w+p+s'",
        "[policy.single]\nlane = 'npu'",
    );
    let case = Case {
        name: "camera.toml".to_owned(),
        text,
        library: &library,
        files: &Disk,
        replications: Some(RUNS),
        seed: None,
        times: Times::Stated,
    };
    let targets = targets(&["ttft_mean <= 4 s".to_owned()]).unwrap();
    let found = plan(&case, "camera", Axis::Streams, &targets, None).unwrap();
    let ends = found.doubtful.clone().unwrap();
    let (slow, fast) = (ends.slow.0.unwrap(), ends.fast.0.unwrap());
    let stated = found.edge.meets.unwrap();
    assert!(slow < stated && stated < fast, "{slow} {stated} {fast}");
    assert_eq!(found.doubt.numbers, (4, 4));
    let condition = "no stage time was measured: all are derived or assumed".to_owned();
    assert!(
        found.conditions.contains(&condition),
        "{:?}",
        found.conditions
    );
    let told = table(std::slice::from_ref(&found), &[]);
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    let says = format!(
        "4 of 4 stage times have intervals, 0.6667 to 1.5 times what is stated: with all at their slow ends {slow} meet"
    );
    assert!(told.contains(&says) && told.contains(&condition), "{told}");
    let document = &json(&[found], &[])["plans"][0]["stage_times"];
    assert_eq!(document["slow"]["meets"], slow);
    assert_eq!(
        (
            document["with_interval"].as_u64(),
            document["measured"].as_bool()
        ),
        (Some(4), Some(false))
    );
    // A chip for the slow ends needs more bandwidth or compute than one for the fast ends.
    let found = needs(&case, "camera", &targets).unwrap();
    let compute = &found.list[1];
    let ends = compute.doubtful.clone().unwrap();
    let stated = compute.between.1;
    let stated = stated.unwrap_or_else(|| panic!("{}", needs_table(&targets, &found)));
    assert!(
        ends.fast.unwrap() < stated && stated < ends.slow.unwrap(),
        "{ends:?} {stated}"
    );
    assert_eq!(
        needs_json(&found)["needs"][1]["meets_times_slow"],
        ends.slow.unwrap()
    );
}
