//! Every scenario plays by the rules, and the published experiments come out in the right direction.
//!
//! The published numbers are not part of this repository. Where `CROSSINFER_MEASUREMENTS` names them
//! (or they lie in `shared/paper/` beside the checkout), each is set beside its prediction, and those
//! that the profiles were fitted to must be met. The table is printed: `cargo test -- --nocapture`.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "the table is what a reader wants to see, and a test fails by panicking"
)]

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use sim::check::Check;
use sim::load::{Inputs, Library, check_costs, check_soc};
use sim::simulation::Simulation;
use sim::spec::quantity::OriginKind;
use validation::folder::{Checkout, Disk, Folder};
use validation::oracles;
use validation::published::{
    Comparison, Draws, EXPERIMENTS, Lab, Measurements, Outcome, Play, Role, compare,
    read_measurements,
};
use validation::report;

/// Tables whose single-lane rows the profiles were fitted to.
const FITTED: [&str; 7] = [
    "table5", "table7", "table8", "table9", "table10", "table12", "table14",
];
/// How near these must come, per cent. The fits themselves are better; this holds the plumbing.
const NEAR: f64 = 5.0;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn own(scenario: &'static str) -> Play {
    Play {
        scenario,
        policy: None,
    }
}

fn under(scenario: &'static str, policy: &'static str) -> Play {
    Play {
        scenario,
        policy: Some(policy),
    }
}

/// This checkout.
fn stock() -> &'static Checkout {
    static STOCK: OnceLock<Checkout> = OnceLock::new();
    STOCK.get_or_init(|| Checkout::new(&root()))
}

struct Bench(Lab<'static>);

impl Bench {
    fn new() -> Self {
        Self(Lab::new(stock(), Draws { count: 0, seed: 0 }))
    }

    fn play(&mut self, play: Play) -> Outcome {
        self.0.outcome(&play.into()).unwrap().clone()
    }

    fn throughput(&mut self, play: Play) -> f64 {
        self.play(play).summary.throughput_rps.unwrap()
    }

    fn ttft(&mut self, play: Play) -> f64 {
        self.play(play).summary.ttft_s.mean.unwrap()
    }

    /// To the last answer.
    fn completion(&mut self, play: Play) -> f64 {
        self.play(play).summary.window_s
    }
}

fn scenario_files() -> Vec<PathBuf> {
    let mut folders = vec![root().join("scenarios")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ext| ext == "toml") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

#[test]
fn every_scenario_plays_by_the_rules() {
    let library = Folder::new(root().join("profiles"));
    let files = scenario_files();
    assert!(files.len() > 30, "{} scenarios", files.len());
    for path in files {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(&path).unwrap();
        let schema = text
            .lines()
            .next()
            .and_then(|l| l.strip_prefix("#:schema "));
        let schema = path.parent().unwrap().join(schema.unwrap_or("none"));
        assert!(schema.is_file(), "{name}: first line names no schema");
        let inputs =
            Inputs::read(&name, &text, &library, &Disk).unwrap_or_else(|faults| panic!("{faults}"));
        let world = inputs.world().unwrap();
        let published = path.parent().unwrap().ends_with("published");
        assert!(!published || world.replications == 1, "{name} varies");
        let little = oracles::little_on(&name, &world).expect("no policy stops");
        assert!(little.inside, "{little:?}");
        let mut simulation = Simulation::new(&world);
        for run in 0..world.replications {
            let mut check = Check::new(&world);
            simulation
                .run_into(run, &mut check)
                .expect("no policy stops");
            assert_eq!(check.violations(), [""; 0], "{name}, run {run}");
            let summary = simulation.summary();
            let refused: u64 = summary.refused.iter().map(|(_, count)| count).sum();
            assert!(summary.completed > 0, "{name}, run {run}: nothing answered");
            assert_eq!(summary.arrived, summary.completed + refused, "{name}");
            assert!(
                !published || refused + summary.frames_refused == 0,
                "{name}: {:?} and {} frames refused",
                summary.refused,
                summary.frames_refused
            );
        }
    }
}

#[test]
fn every_published_scenario_is_of_an_experiment() {
    let mut played: Vec<&str> = EXPERIMENTS
        .iter()
        .flat_map(|experiment| experiment.plays)
        .map(|play| play.scenario)
        .collect();
    played.sort_unstable();
    played.dedup();
    let files: Vec<PathBuf> = scenario_files()
        .into_iter()
        .filter(|path| path.parent().unwrap().ends_with("published"))
        .collect();
    let mut there: Vec<&str> = files
        .iter()
        .map(|path| path.file_stem().unwrap().to_str().unwrap())
        .collect();
    there.sort_unstable();
    assert_eq!(played, there);
    for experiment in EXPERIMENTS {
        for play in experiment.plays {
            let path = root().join(format!("scenarios/published/{}.toml", play.scenario));
            let text = std::fs::read_to_string(path).unwrap();
            let soc = format!("soc = \"{}\"\n", experiment.platform);
            assert!(text.contains(&soc), "{}, {}", experiment.id, play.scenario);
        }
    }
    let mut bench = Bench::new();
    for play in EXPERIMENTS.iter().flat_map(|experiment| experiment.plays) {
        assert_eq!(bench.play(*play).violations, [""; 0], "{play:?}");
    }
}

#[test]
fn reuse_and_overlap_each_help() {
    let mut bench = Bench::new();
    let rows = ["table7-d", "table7-c", "table7-b", "table7-a"];
    for pair in rows.windows(2) {
        let (better, worse) = (own(pair[0]), own(pair[1]));
        assert!(
            bench.completion(better) < bench.completion(worse),
            "{pair:?}"
        );
        assert!(bench.ttft(better) < bench.ttft(worse), "{pair:?}");
    }
    for (scenario, at_least) in [
        ("table5-0.8b-32", 1.5),
        ("table5-2b-32", 1.5),
        ("table5-4b-32", 1.2),
        ("table5-9b-32", 1.2),
        ("table5-0.8b-128", 1.1),
        ("table5-4b-128", 1.1),
    ] {
        let gain = bench.throughput(own(scenario)) / bench.throughput(under(scenario, "serial"));
        assert!(gain > at_least, "{scenario}: overlap gains {gain}");
    }
}

#[test]
fn keeping_a_prefix_beats_rebuilding_it() {
    let mut bench = Bench::new();
    let (reuse, rebuild) = (own("fig16-reuse"), own("fig16-rebuild"));
    let ratio = bench.throughput(reuse) / bench.throughput(rebuild);
    assert!(ratio > 2.0, "throughput ratio {ratio}");
    let ttft = bench.ttft(reuse) / bench.ttft(rebuild);
    assert!(ttft < 0.5, "TTFT ratio {ttft}");

    let ratio = bench.ttft(own("fig11c-recompute")) / bench.ttft(own("fig11c-import"));
    assert!(ratio > 2.0, "first-token ratio {ratio}");
}

/// The GPU starves the CPU on this chip: answering beside it is worth less than waiting for the CPU.
#[test]
fn state_aware_declines_to_co_run_where_one_engine_starves_the_other() {
    let mut bench = Bench::new();
    let full = bench.play(own("table8"));
    let throughput = full.summary.throughput_rps.unwrap();
    for other in [
        "state_aware:w",
        "state_aware:w+p",
        "single:cpu",
        "single:gpu",
    ] {
        let other_rps = bench.throughput(under("table8", other));
        assert!(
            throughput >= 0.99 * other_rps,
            "{throughput} req/s, {other}: {other_rps}"
        );
    }
    let lanes: Vec<&String> = full.decode_rates.keys().collect();
    assert_eq!(lanes, ["cpu"], "lanes that answered");
}

#[test]
fn state_aware_beats_each_lane_and_naive_parallelism() {
    let mut bench = Bench::new();
    for scenario in ["table9-7b", "table9-fastvlm", "table12"] {
        let (throughput, ttft) = (bench.throughput(own(scenario)), bench.ttft(own(scenario)));
        for lane in ["single:cpu", "single:gpu"] {
            let single = under(scenario, lane);
            assert!(throughput > bench.throughput(single), "{scenario}, {lane}");
            assert!(ttft < bench.ttft(single), "{scenario}, {lane}");
        }
        // Where every request has a prefix of its own, the two may choose alike.
        let naive = bench.throughput(under(scenario, "naive"));
        assert!(
            throughput >= naive,
            "{scenario}: {throughput}, naive {naive}"
        );
    }
    let backlogs = ["fig9b-short", "fig9b-medium", "fig9b-long"];
    for scenario in backlogs {
        let mut mean = |play| bench.play(play).summary.completion_s.mean.unwrap();
        let worse = mean(under(scenario, "single:cpu")).max(mean(under(scenario, "single:gpu")));
        assert!(mean(own(scenario)) < 0.6 * worse, "{scenario}");
    }
}

#[test]
fn two_lanes_that_decode_slow_each_other_as_the_model_says() {
    let mut bench = Bench::new();
    let both = bench.play(own("table14-32")).decode_rates;
    for (lane, policy, slowdown) in [("cpu", "single:cpu", 1.165), ("gpu", "single:gpu", 1.183)] {
        let alone = bench.play(under("table14-32", policy)).decode_rates[lane];
        let seen = alone / both[lane];
        assert!((seen / slowdown - 1.0).abs() < 0.02, "{lane}: {seen}");
    }
}

fn measurements() -> Option<Measurements> {
    let path = std::env::var_os("CROSSINFER_MEASUREMENTS").map_or_else(
        || root().join("../shared/paper/measurements.toml"),
        PathBuf::from,
    );
    let text = std::fs::read_to_string(&path).ok()?;
    Some(read_measurements("measurements.toml", &text).unwrap_or_else(|faults| panic!("{faults}")))
}

/// Predictions and errors, without what was measured: that is not part of this repository.
fn table(comparison: &Comparison) -> String {
    let mut table = report::Table::new(&[
        "row",
        "setting",
        "config",
        "metric",
        ">predicted",
        ">error",
        "bound",
    ]);
    for compared in &comparison.rows {
        let row = &compared.row;
        let (value, error) = match (compared.prediction(), compared.error()) {
            (Some(prediction), Some(error)) => (
                report::significant(prediction.value),
                format!(
                    "{error:+.1}{}",
                    if compared.in_points() { " pt" } else { " %" }
                ),
            ),
            _ => ("not covered".to_owned(), String::new()),
        };
        let setting: String = row.setting.chars().take(60).collect();
        let name = format!("{} {}", row.id, row.model);
        let cells = [
            name,
            setting,
            row.config.clone(),
            row.metric.clone(),
            value,
            error,
            report::verdict(compared),
        ];
        table.row(cells);
    }
    table.markdown()
}

#[test]
fn published_figures_come_out() {
    let Some(file) = measurements() else {
        println!("no published measurements here: set CROSSINFER_MEASUREMENTS to compare");
        return;
    };
    let mut lab = Lab::new(stock(), Draws { count: 0, seed: 0 });
    let comparison = compare(&mut lab, &file).unwrap_or_else(|faults| panic!("{faults}"));
    for section in report::published(&comparison) {
        println!("{}\n\n{}\n", section.title, section.body);
    }
    for (row, why) in comparison.not_covered() {
        assert!(!why.contains("no scenario"), "{row:?}: {why}");
    }
    let failures: Vec<String> = comparison
        .rows
        .iter()
        .filter(|compared| {
            let row = &compared.row;
            // How long answers are that end by themselves is not published.
            let known = !row.setting.contains("EOS");
            row.role == Role::Calibration && FITTED.contains(&row.id.as_str()) && known
                || row.id == "table14"
        })
        .filter(|compared| compared.error().is_some_and(|error| error.abs() > NEAR))
        .map(|compared| format!("{}: {:?}", compared.row.label(), compared.error()))
        .collect();
    assert!(failures.is_empty(), "{failures:#?}");
    // A change that makes a prediction worse shows. `INSTA_UPDATE=always` refreshes the table.
    if std::env::var_os("CROSSINFER_MEASUREMENTS").is_none() {
        insta::assert_snapshot!("published", table(&comparison));
    }
}

/// What nobody measured of engines at work together is carried as an interval, and stated as no loss.
#[test]
fn what_is_assumed_of_co_running_has_an_interval() {
    let library = Folder::new(root().join("profiles"));
    for soc in ["m4max", "qcs6490", "rk3588"] {
        let file = library.soc(soc).unwrap();
        let numbers = check_soc(&file.name, &file.text).unwrap();
        let shared = ["weight", "port_gbps", "bandwidth_gbps"];
        let assumed = numbers.iter().filter(|number| {
            let last = number.path.rsplit('.').next().unwrap();
            let of_sharing = number.path.starts_with("contention.") || shared.contains(&last);
            of_sharing && number.kind == OriginKind::Assumed
        });
        for number in assumed {
            assert!(number.interval.is_some(), "{soc}: {}", number.path);
        }
    }
    for model in [
        "onevision-7b-int4",
        "onevision-0.5b-int4",
        "fastvlm-0.5b-int4",
    ] {
        let file = library.costs("rk3588", model).unwrap();
        let numbers = check_costs(&file.name, &file.text).unwrap();
        let lossy = numbers.iter().filter(|number| {
            number.path.contains(".corun.")
                && number.kind == OriginKind::Assumed
                && number.origin.starts_with("beside_")
        });
        let mut engines = Vec::new();
        for number in lossy {
            let (low, high) = number.interval.unwrap();
            assert_eq!((number.value, low), (1.0, 1.0), "{}", number.path);
            assert!(high > 1.2, "{}", number.path);
            engines.push(number.path.split('.').nth(1).unwrap().to_owned());
        }
        engines.dedup();
        assert_eq!(engines, ["cpu", "gpu"], "{model}");
    }
}
