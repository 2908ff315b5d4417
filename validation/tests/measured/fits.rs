//! Fits of a board whose true numbers are known.

mod said;
mod unseen;

use sim::load::{Files, Kind, Library, Source};
use validation::fit::{Fit, Identified, Parameter, Spec, fit, read_spec};
use validation::folder::Stock;
use validation::published::{Draws, Lab, Measurements, Predicted, Role};
use validation::report;

use crate::board::{Board, GUESS, TRUTH, Truth, WANTED, Wanted, file, measure};

fn parameter(name: &str, profile: &str, path: &str, bounds: (f64, f64)) -> String {
    format!(
        "[[parameters]]\nname = '{name}'\nlow = {:?}\nhigh = {:?}\nscale = 'log'\n\
         sets = [{{ profile = '{profile}', paths = ['{path}'] }}]\n",
        bounds.0, bounds.1
    )
}

fn spec(parameters: &[String], rows: &str) -> Spec {
    let text = format!(
        "title = 'The desk'\nstarts = 3\n[[rows]]\nplatform = 'board'\n{rows}\n{}",
        parameters.concat()
    );
    read_spec("desk-fit.toml", &text).unwrap_or_else(|faults| panic!("{faults}"))
}

fn stage(name: &str, engine: &str, stage: &str) -> String {
    let path = format!("engines.{engine}.stages.{stage}.per_token_s");
    parameter(name, "board/vlm", &path, (1e-4, 0.5))
}

fn four() -> Vec<String> {
    vec![
        stage("prefill", "cpu", "query_prefill"),
        stage("decode", "cpu", "decode"),
        stage("gpu prefill", "gpu", "query_prefill"),
        stage("gpu decode", "gpu", "decode"),
    ]
}

fn run(parameters: &[String], measured: &Measurements) -> Fit {
    let board = Board::new(GUESS);
    fit(&board, &spec(parameters, ""), measured).unwrap_or_else(|faults| panic!("{faults}"))
}

/// In the order of [`four`].
fn truths() -> [f64; 4] {
    let Truth { prefill, decode } = TRUTH;
    [prefill[0], decode[0], prefill[1], decode[1]]
}

fn within(parameter: &Parameter, truth: f64) -> bool {
    (parameter.low..=parameter.high).contains(&truth)
}

#[test]
fn numbers_come_back_within_their_intervals() {
    let fit = run(&four(), &measure(&WANTED, 1.0));
    let truth = truths();
    for (parameter, truth) in fit.parameters.iter().zip(truth) {
        assert_eq!(parameter.identified, Identified::Both, "{parameter:?}");
        assert!(
            within(parameter, truth),
            "{parameter:?} does not hold {truth}"
        );
        // An interval that holds everything shows nothing.
        assert!(parameter.high < 1.1 * parameter.low, "{parameter:?}");
    }
    assert_eq!((fit.rows.len(), fit.freedom), (8, 4));
    assert!(fit.weak.is_empty(), "{:?}", fit.weak);
    // All starts find the one minimum.
    for chi2 in &fit.starts {
        assert!(
            chi2.is_some_and(|chi2| chi2 < fit.chi2 + 0.1),
            "{:?}",
            fit.starts
        );
    }
    // What was held out comes out, within the spread of the fit and the measurement.
    assert_eq!(fit.predicted.len(), 5);
    for held in &fit.predicted {
        assert!(
            held.error().abs() < 2.0,
            "{}: {}",
            held.row.label(),
            held.error()
        );
        assert!(
            held.low <= held.value && held.value <= held.high,
            "{held:?}"
        );
    }
}

/// Two rows and two numbers, `fixed + tokens · each`: an outcome at other sizes is a sum of the two rows, and its range is
/// that of the sum.
#[test]
fn the_range_of_a_prediction_is_that_of_the_whole_confidence_set() {
    let number = |name: &str, part: &str, bounds| {
        let path = format!("engines.cpu.stages.query_prefill.{part}");
        parameter(name, "board/vlm", &path, bounds).replace("'log'", "'linear'")
    };
    let free = [
        number("fixed", "fixed_s", (0.0, 20.0)),
        number("each", "per_token_s", (0.0, 0.02)),
    ];
    let spec = spec(&free, "metric = ['ttft_mean']");
    // One question: its first token is fixed + each · prompt, and one step of the decode, which nothing moves.
    let mut board = Board::new(GUESS);
    for (name, prompt) in [("a", 1000), ("b", 1200), ("c", 2000)] {
        let text = board.text("short.toml").replace("copies = 4\n", "");
        let text = text.replace("prompt_tokens = 288", &format!("prompt_tokens = {prompt}"));
        board = board.plus(&format!("{name}.toml"), &text);
    }
    let row = |name: &str, value: f64, role: &str| {
        format!(
            "[[measurement]]\nid = '{name}'\nplatform = 'board'\nconfig = 'single:cpu'\nmetric = 'ttft_mean'\n\
             unit = 's'\nvalue = {value}\nsd = 0.1\nrole = '{role}'\nscenario = '{name}.toml'\npolicy = 'single:cpu'\n"
        )
    };
    let text =
        row("a", 14.0, "calibration") + &row("b", 16.0, "calibration") + &row("c", 24.0, "outcome");
    let measured = validation::published::read_measurements("m.toml", &text).unwrap();
    let found = fit(&board, &spec, &measured).unwrap_or_else(|faults| panic!("{faults}"));
    let [held] = found.predicted.as_slice() else {
        panic!("{:?}", found.predicted)
    };
    // c = 5 b − 4 a.
    let half = 1.959_964 * 0.1 * 5.0_f64.hypot(4.0);
    assert!((held.value - 24.0).abs() < 0.01, "{held:?}");
    for end in [held.value - held.low, held.high - held.value] {
        assert!(
            (0.99 * half..=1.0001 * half).contains(&end),
            "{end}, not {half}"
        );
    }
}

/// Nor is anything said of it.
#[test]
fn a_fit_whose_rows_see_nothing_says_so() {
    let measured = measure(&WANTED, 1.0);
    let free = [stage("gpu decode", "gpu", "decode")];
    let found = fit(
        &Board::new(GUESS),
        &spec(&free, "config = ['single:cpu']"),
        &measured,
    )
    .unwrap();
    assert!(!found.parameters[0].seen);
    let text = report::document("", &report::fit(&found));
    assert!(text.contains("NO ROW SEES IT"), "{text}");
}

#[test]
fn without_errors_the_truth_is_found() {
    let fit = run(&four(), &measure(&WANTED, 0.0));
    let truth = truths();
    for (parameter, truth) in fit.parameters.iter().zip(truth) {
        let error = parameter.value / truth - 1.0;
        assert!(error.abs() < 1e-5, "{parameter:?}: {error}");
    }
    assert!(fit.chi2 < 1e-6, "{}", fit.chi2);
}

/// Near a load of 1 some values have no steady latency, and so no prediction: a search steps back from them.
#[test]
fn a_search_steps_back_from_where_nothing_can_be_predicted() {
    let wanted: [Wanted; 2] = [
        ("queue", "single:cpu", "ttft_mean", "s", "calibration"),
        ("queue", "single:cpu", "completion_mean", "s", "calibration"),
    ];
    let truth = Truth {
        prefill: [0.0041, 0.0029],
        decode: [0.035, 0.034],
    };
    let truth_board = Board::new(truth).queue(0.25);
    let guess = file(&wanted, &[1.0; 2]);
    let mut lab = Lab::new(&truth_board, Draws { count: 0, seed: 0 });
    let values = guess
        .rows
        .iter()
        .map(|row| match lab.predict(&guess, row).unwrap() {
            Predicted::Value(prediction) => prediction.value,
            Predicted::Not(why) => panic!("{why}"),
        });
    let measured = file(&wanted, &values.collect::<Vec<_>>());
    let board = Board::new(Truth {
        prefill: [0.004; 2],
        decode: [0.0175; 2],
    })
    .queue(0.25);
    let text = format!(
        "title = 'Queue'\nstarts = 8\n[[rows]]\nplatform = 'board'\n{}{}",
        stage("prefill", "cpu", "query_prefill"),
        stage("decode", "cpu", "decode")
    );
    let spec = read_spec("queue-fit.toml", &text).unwrap();
    let found = fit(&board, &spec, &measured).unwrap_or_else(|faults| panic!("{faults}"));
    assert!(found.chi2 < 0.1, "{} {:?}", found.chi2, found.starts);
    for (parameter, truth) in found.parameters.iter().zip([0.0041, 0.035]) {
        assert!(within(parameter, truth), "{parameter:?} lacks {truth}");
    }
    // Some starts lie where the queue grows, and the report says so.
    let text = report::document("", &report::fit(&found));
    assert!(
        text.contains("could not be predicted (desk-queue"),
        "{text}"
    );
    assert!(text.contains("a queue grows"), "{text}");
    // Where all of them do, so does the fault.
    let all = text_with_bounds(&spec, 0.5, 0.9);
    let faults = fit(&board, &all, &measured).expect_err("nothing is steady");
    assert!(faults.to_string().contains("a queue grows"), "{faults}");
}

/// The same fit with other bounds of every number.
fn text_with_bounds(spec: &Spec, low: f64, high: f64) -> Spec {
    let mut spec = spec.clone();
    for free in &mut spec.free {
        (free.low, free.high) = (low, high);
    }
    spec
}

#[test]
fn an_outcome_never_takes_part() {
    let measured = measure(&WANTED, 1.0);
    let values = measured.rows.iter().map(|row| match row.role {
        Role::Calibration => row.value,
        Role::Outcome => 0.3 * row.value,
    });
    let other = file(&WANTED, &values.collect::<Vec<_>>());
    let (fit, same) = (run(&four(), &measured), run(&four(), &other));
    assert_eq!(fit.parameters, same.parameters);
    assert_eq!(
        fit.profiles(&Board::new(GUESS)).unwrap(),
        same.profiles(&Board::new(GUESS)).unwrap()
    );
    // The filter matches them, and says that they were held out.
    assert_eq!(fit.held_out.len(), 5);
    // A calibration row does take part.
    let values = measured.rows.iter().enumerate();
    let values = values.map(|(at, row)| row.value * if at == 0 { 1.02 } else { 1.0 });
    let third = run(&four(), &file(&WANTED, &values.collect::<Vec<_>>()));
    assert_ne!(fit.parameters, third.parameters);
}

#[test]
fn the_profile_keeps_its_layout_and_says_what_was_fitted() {
    let board = Board::new(GUESS);
    let fit = run(&four(), &measure(&WANTED, 1.0));
    let written = fit.profiles(&Board::new(GUESS)).unwrap();
    assert_eq!(written.len(), 1);
    assert_eq!(written[0].place(), "board/vlm.toml");
    insta::assert_snapshot!("written", written[0].text);
    let kept = |line: &str| line.starts_with('#') || line.starts_with("bytes");
    let old = board.text("profiles/board/vlm.toml");
    for line in old.lines().filter(|line| kept(line)) {
        assert!(written[0].text.contains(line), "{line}");
    }
}

#[test]
fn tied_numbers_move_together() {
    let text = "title = 'Tied'\nstarts = 2\n[[rows]]\nid = 'desk-short'\nconfig = ['single:cpu']\n\
        [[parameters]]\nname = 'prefill'\nlow = 1e-4\nhigh = 0.1\nscale = 'log'\n\
        sets = [{ profile = 'board/vlm', paths = ['engines.cpu.stages.query_prefill.per_token_s'] },\n\
        { profile = 'board/vlm', paths = ['engines.gpu.stages.query_prefill.per_token_s'], times = 0.5 }]\n";
    let spec = read_spec("tied.toml", text).unwrap();
    let fit = fit(&Board::new(GUESS), &spec, &measure(&WANTED, 0.0)).unwrap();
    let text = &fit.profiles(&Board::new(GUESS)).unwrap()[0].text;
    let values: Vec<f64> = text
        .lines()
        .filter_map(|line| line.strip_prefix("per_token_s = { value = "))
        .map(|rest| rest.split(',').next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(values.len(), 2, "{text}");
    assert!(
        (values[0] * 0.5 / values[1] - 1.0).abs() < 1e-5,
        "{values:?}"
    );
}

/// The board, with another copy of its profiles beside the fit than the scenarios read, as when those
/// are built in.
struct Apart(Board);

struct Beside(Board);

impl Library for Beside {
    fn soc(&self, key: &str) -> Option<Source> {
        self.0.soc(key).map(moved)
    }

    fn model(&self, key: &str) -> Option<Source> {
        self.0.model(key).map(moved)
    }

    fn costs(&self, soc_key: &str, model_key: &str) -> Option<Source> {
        self.0.costs(soc_key, model_key).map(moved)
    }

    fn names(&self, kind: Kind) -> Vec<String> {
        self.0.names(kind)
    }
}

fn moved(source: Source) -> Source {
    Source {
        name: format!("/elsewhere/{}", source.name),
        ..source
    }
}

impl Stock for Apart {
    fn published(&self, key: &str) -> Option<Source> {
        self.0.published(key)
    }

    fn library(&self, path: &str) -> Box<dyn Library + '_> {
        if path == "desk-fit.toml" {
            Box::new(Beside(self.0.clone()))
        } else {
            self.0.library(path)
        }
    }

    fn files(&self) -> &dyn Files {
        self.0.files()
    }
}

#[test]
fn a_fit_sets_the_profiles_that_its_scenarios_read() {
    let measured = measure(&WANTED, 1.0);
    let apart = Apart(Board::new(GUESS));
    let found =
        fit(&apart, &spec(&four(), ""), &measured).unwrap_or_else(|faults| panic!("{faults}"));
    assert_eq!(found.parameters, run(&four(), &measured).parameters);
    let written = found.profiles(&apart).unwrap();
    assert_eq!(written[0].file, "profiles/board/vlm.toml");
}
