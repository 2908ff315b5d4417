//! A measurement file of a user's own.

use validation::published::{
    Comparison, Draws, Lab, Metric, Predicted, Role, compare, read_measurements,
};
use validation::report;

use sim::load::Inputs;
use sim::metrics::LoadVerdict;
use sim::simulation::Simulation;

use crate::board::{Board, TRUTH, WANTED, measure};

const DRAWS: Draws = Draws { count: 32, seed: 1 };

fn row(more: &str) -> String {
    format!(
        "[[measurement]]\nid = 'desk'\nplatform = 'board'\nconfig = 'own'\nvalue = 1.0\nrole = 'outcome'\n{more}"
    )
}

fn faults(text: &str) -> String {
    let board = Board::new(TRUTH);
    let mut lab = Lab::new(&board, DRAWS);
    let read = lab.read("m.toml", text);
    let done = read.and_then(|file| compare(&mut lab, &file));
    done.expect_err(text).to_string()
}

fn comparison(text: &str) -> Comparison {
    let board = Board::new(TRUTH);
    let file = read_measurements("m.toml", text).unwrap_or_else(|faults| panic!("{faults}"));
    compare(&mut Lab::new(&board, DRAWS), &file).unwrap_or_else(|faults| panic!("{faults}"))
}

#[test]
fn the_error_table_is_what_it_was() {
    let board = Board::new(TRUTH);
    let mut file = measure(&WANTED, 2.0);
    file.name = "desk.toml".to_owned();
    let comparison = compare(&mut Lab::new(&board, DRAWS), &file).unwrap();
    let text = report::document("Desk", &report::published(&comparison));
    insta::assert_snapshot!("desk", text);
    // What the errors are is known: twice half a per cent times a normal quantile.
    for (_, errors) in comparison.errors(Role::Outcome, false) {
        assert!(errors.worst < 1.2, "{errors:?}");
        assert!(errors.median <= errors.p90 && errors.p90 <= errors.worst);
    }
    assert_eq!(
        comparison.beyond(Some(1.0)).len(),
        1,
        "one is 1.05 per cent off"
    );
    assert!(comparison.beyond(Some(1.2)).is_empty());
    assert!(comparison.beyond(None).is_empty());
}

#[test]
fn every_metric_is_read_or_says_why_not() {
    let mut text = String::new();
    for name in Metric::names() {
        let name = name.replace("ENGINE", "gpu").replace("LANE", "cpu");
        let metric = Metric::parse(&name).unwrap();
        let unit = metric.dimension().units().next().unwrap();
        let own = "scenario = 'short.toml'\n".to_owned();
        let config = format!("metric = '{name}'\nunit = '{unit}'\n{own}");
        text += &row(&config).replace("'own'", "'cpu+gpu'");
    }
    let comparison = comparison(&text);
    for compared in &comparison.rows {
        match &compared.predicted {
            Predicted::Value(prediction) => assert!(prediction.value.is_finite()),
            // The board has no power, and nothing is ingested.
            Predicted::Not(why) => assert!(
                why.contains("power") || why.contains("no frame came"),
                "{}: {why}",
                compared.row.metric
            ),
        }
    }
    let read = comparison
        .rows
        .iter()
        .filter(|row| row.prediction().is_some());
    assert!(read.count() > 30);
}

#[test]
fn a_ratio_compares_two_policies() {
    let ratio = |metric: &str, unit: &str| {
        let text = row(&format!(
            "metric = '{metric}'\nunit = '{unit}'\nscenario = 'short.toml'\npolicy = 'state_aware'\nagainst = {{ policy = 'single:cpu' }}\n"
        ));
        comparison(&text).rows[0].prediction().unwrap().value
    };
    let times = ratio("throughput_ratio", "x");
    assert!(times > 1.0, "{times}");
    assert!((ratio("throughput_change", "%") - (times - 1.0) * 100.0).abs() < 1e-9);
    assert!((ratio("throughput_speedup", "x") * times - 1.0).abs() < 1e-9);
    assert!((ratio("throughput_ratio", "%") - times * 100.0).abs() < 1e-9);
}

#[test]
fn an_experiment_names_the_scenario_of_its_rows() {
    let text = row("metric = 'throughput'\nunit = 'req/s'\n")
        + "[[experiment]]\nid = 'desk'\nconfig = 'own'\nscenario = 'short.toml'\npolicy = 'single:gpu'\n";
    let by_experiment = comparison(&text);
    let by_row = comparison(&row(
        "metric = 'throughput'\nunit = 'req/s'\nscenario = 'short.toml'\npolicy = 'single:gpu'\n",
    ));
    assert_eq!(by_experiment.rows[0].predicted, by_row.rows[0].predicted);
}

#[test]
fn a_row_that_nothing_plays_is_listed() {
    let comparison = comparison(&row("metric = 'anything'\nunit = 'furlongs'\n"));
    let listed: Vec<_> = comparison.not_covered().collect();
    assert_eq!(listed.len(), 1);
    assert!(listed[0].1.contains("names no scenario"), "{}", listed[0].1);
    let text = report::document("Desk", &report::published(&comparison));
    assert!(text.contains("furlongs"), "{text}");
}

/// Each text's fault says so.
fn say(cases: &[(String, &str)]) {
    for (text, says) in cases {
        let found = faults(text);
        assert!(found.contains(says), "{found}\nlacks {says}");
    }
}

#[test]
fn faults_of_the_file_have_a_place_and_say_what_would_be_right() {
    let own = "scenario = 'short.toml'\n";
    say(&[
        (
            row(&format!("metric = 'latency'\nunit = 's'\n{own}")),
            "m.toml:7:10: unknown metric `latency`: not a metric (help: there are throughput, ",
        ),
        (
            row(&format!("metric = 'throughput'\nunit = 's'\n{own}")),
            "m.toml:8:8: `s` is no unit of `throughput`: not a unit of this metric (help: there are req/s, req/min)",
        ),
        (
            row("metric = 'throughput'\nunit = 'req/s'\nscenario = 'gone.toml'\n"),
            "m.toml:9:12: `gone.toml` cannot be read: no such file",
        ),
        (
            row(&format!(
                "metric = 'throughput'\nunit = 'req/s'\n{own}policy = 'best'\n"
            )),
            "m.toml:10:10: ",
        ),
        (
            row(&format!("metric = 'npu_busy'\nunit = '%'\n{own}")),
            "m.toml:7:10: the SoC has no engine `npu`, but `cpu`, `gpu`",
        ),
        (
            row(&format!("metric = 'throughput_ratio'\nunit = 'x'\n{own}")),
            "m.toml:7:10: it compares two configurations and only one is named",
        ),
        (
            row(&format!(
                "metric = 'throughput'\nunit = 'req/s'\nsd = 0\n{own}"
            )),
            "m.toml:9:6: `sd` is 0: must be greater than 0",
        ),
        (
            row("metric = 'throughput'\nunit = 'req/s'\npolicy = 'serial'\n"),
            "m.toml:9:10: a row without a scenario",
        ),
        (
            row("metric = 'throughput'\nunit = 'req/s'\ncolour = 1\n"),
            "m.toml:9:1: unknown key `colour` in `measurement[0]`: not a key here",
        ),
        (
            row(&format!("metric = 'throughput'\nunit = 'req/s'\n{own}")).replace("1.0", "nan"),
            "m.toml:5:9: `measurement[0].value` is not a finite number: must be finite",
        ),
        (
            row(&format!("metric = 'throughput'\nunit = 'req/s'\n{own}"))
                + "[[experiment]]\nid = 'other'\nscenario = 'short.toml'\n",
            "m.toml:11:6: the experiment plays no row",
        ),
        (
            "[[measurement]]\nid = 3\n".to_owned(),
            "m.toml:2:6: `measurement[0].id` is a whole number: expected a string",
        ),
    ]);
}

#[test]
fn values_and_rows_that_cannot_be_have_a_place_too() {
    let own = "scenario = 'short.toml'\n";
    say(&[
        (
            row(&format!("metric = 'throughput'\nunit = 'req/s'\n{own}")).replace("1.0", "-3"),
            "m.toml:5:9: `value` is -3 req/s: must be at least 0 (help: no `throughput` can be measured so",
        ),
        (
            row(&format!("metric = 'cpu_busy'\nunit = '%'\n{own}")).replace("1.0", "130"),
            "m.toml:5:9: `value` is 130 %: must be at most 100",
        ),
        (
            row(&format!(
                "metric = 'throughput_change'\nunit = '%'\n{own}against = {{ policy = 'serial' }}\n"
            ))
            .replace("1.0", "-101"),
            "m.toml:5:9: `value` is -101 %: must be at least -100",
        ),
        (
            row(&format!("metric = 'throughput'\nunit = 'req/s'\n{own}"))
                + &row(&format!("metric = 'throughput'\nunit = 'req/s'\n{own}"))
                    .replace("1.0", "2.0"),
            "m.toml:14:9: desk, own, throughput has two values: an earlier row has 1 req/s (help: give one row",
        ),
        (
            row(&format!("metric = 'throughput'\nunit = 'req/s'\n{own}")).repeat(2),
            "m.toml:11:6: desk, own, throughput stands here twice: the second time",
        ),
        (
            row(&format!(
                "metric = 'throughput'\nunit = 'req/s'\n{own}against = {{ policy = 'serial' }}\n"
            )),
            "m.toml:10:11: `throughput` is compared with nothing: has no effect (help: name the metric `throughput_ratio`",
        ),
        (
            row(&format!(
                "metric = 'throughput'\nunit = 'req/s'\nmax_error = -1\n{own}"
            )),
            "m.toml:9:13: `measurement[0].max_error` is -1: must be at least 0",
        ),
        (
            row(&format!("metric = 'throughput'\nunit = 'req/s'\n{own}"))
                .replace("'board'", "'m4max'"),
            "m.toml:3:12: the row is of `m4max`, the scenario that plays it of `board`: another SoC (help: write `platform = \"board\"`, or name",
        ),
        (
            row(&format!("metric = 'cpu_busy'\nunit = '1'\n{own}")).replace("1.0", "1e300"),
            "m.toml:5:9: `value` is 1e300: must be at most 1 (",
        ),
        (
            row(&format!(
                "metric = 'throughput_ratio'\nunit = 'x'\n{own}against = {{}}\n"
            )),
            "m.toml:10:11: `throughput_ratio` compares a configuration with itself: the same scenario under the same policy",
        ),
        (
            row(&format!(
                "metric = 'query_completion_time_change'\nunit = '%'\n{own}against = {{ policy = 'serial' }}\n"
            )),
            "m.toml:7:10: `query_completion_time_change` is read from several loads",
        ),
        (
            row(&format!(
                "metric = 'throughput'\nunit = 'req/s'\nmax_error = 3\n{own}"
            ))
            .replace("'outcome'", "'calibration'"),
            "m.toml:9:13: `max_error` of a calibration row: bounds are on outcomes",
        ),
        ("what".to_owned(), "m.toml:1:"),
        (String::new(), "m.toml:1:1: the file holds no measurement"),
    ]);
}

#[test]
fn what_a_file_says_is_text_in_the_report() {
    let hostile =
        "<script>x()</script> <img src=x onerror=y()> \u{202e}\u{1b}[2J ![p](http://q)\n# r | s";
    let toml = toml::Value::from(hostile).to_string();
    let text = format!("source = {toml}\n")
        + &row("metric = 'throughput'\nunit = 'req/s'\nmax_error = 1\nscenario = 'short.toml'\n")
        + &row("metric = 'nothing'\nunit = 'req/s'\n");
    let text = text.replace("'desk'", &toml).replace("'own'", &toml);
    let comparison = comparison(&text);
    let report = report::document("Desk", &report::published(&comparison));
    assert!(report.contains("&lt;script>x()"), "{report}");
    for raw in ["<", "\u{202e}", "\u{1b}", "](", "\n# r"] {
        assert!(!report.contains(raw), "{raw:?} in {report}");
    }
}

#[test]
fn an_interval_follows_what_is_uncertain() {
    // Alone, a lane's speed is its own; beside another it hangs on ports and bandwidth.
    let text = row(
        "metric = 'decode'\nunit = 'tok/s'\nscenario = 'long.toml'\npolicy = 'single:cpu'\n",
    ) + &row(
        "metric = 'decode'\nunit = 'tok/s'\nscenario = 'long.toml'\npolicy = 'round_robin'\n",
    );
    let comparison = comparison(&text);
    let interval = |at: usize| comparison.rows[at].prediction().unwrap().interval;
    assert_eq!(interval(0), None);
    let beside = interval(1).unwrap();
    assert_eq!((beside.draws, beside.failed), (DRAWS.count, 0));
    assert!(beside.high > 1.001 * beside.low, "{beside:?}");
}

#[test]
fn faults_of_the_form_come_all_at_once() {
    let text = "sourse = 'me'\n[[measurement]]\nid = 'desk'\nplatform = 'board'\nconfig = 'own'\nmetric = 'throughput'\n\
                unit = 'req/s'\nvalue = '1'\nrole = 'result'\n[[experiment]]\nid = 'desk'\n";
    let found = faults(text);
    for says in [
        "m.toml:1:1: unknown key `sourse`",
        "did you mean `source`",
        "m.toml:8:9: `measurement[0].value` is a string: expected a number",
        "m.toml:9:8: unknown value `result` of `measurement[0].role`",
        "m.toml:10:1: `experiment[0]` lacks `scenario`",
    ] {
        assert!(found.contains(says), "{found}\nlacks {says}");
    }
}

/// What the rows name, and what they say beside it: one look at the file mends all of it.
#[test]
fn faults_of_names_come_all_at_once() {
    let own = "scenario = 'short.toml'\n";
    let rate = "metric = 'throughput'\nunit = 'req/s'\n";
    let rows = [
        format!("{rate}scenario = 'gone.toml'\n"),
        format!("{rate}{own}policy = 'best'\n"),
        format!("metric = 'latency'\nunit = 's'\n{own}"),
        format!("metric = 'npu_busy'\nunit = '%'\n{own}"),
        format!("metric = 'prefill_npu'\nunit = 'tok/s'\n{own}"),
        format!("metric = 'energy_npu'\nunit = 'J'\n{own}"),
        format!("metric = 'throughput_ratio'\nunit = 'x'\n{own}against = {{ policy = 'worst' }}\n"),
        format!("metric = 'read_bandwidth_cpu'\nunit = 'GB/s'\n{own}"),
        format!(
            "metric = 'read_bandwidth_cpu_ratio'\nunit = 'x'\n{own}against = {{ policy = 'serial' }}\n"
        ),
        format!("{rate}scenario = 'bad.toml'\n"),
        format!("{rate}{own}"),
    ];
    let mut text: String = rows.iter().map(|more| row(more)).collect();
    // The last is of another SoC, and cannot be so small.
    let at = text.rfind("'board'").unwrap();
    text.replace_range(at..at + 7, "'m4max'");
    let at = text.rfind("1.0").unwrap();
    text.replace_range(at..at + 3, "-3");
    let board = Board::new(TRUTH);
    let bad = board.text("short.toml").replace("copies", "copys");
    let board = board.plus("bad.toml", &bad);
    let found = Lab::new(&board, DRAWS).read("m.toml", &text).unwrap_err();
    let lines: Vec<String> = found.to_string().lines().map(str::to_owned).collect();
    let says = [
        "m.toml:9:12: `gone.toml` cannot be read: no such file",
        "m.toml:19:10: unknown policy `best`",
        "m.toml:26:10: unknown metric `latency`",
        "m.toml:35:10: the SoC has no engine `npu`, but `cpu`, `gpu`: cannot be read",
        "m.toml:44:10: the SoC has no lane `npu`, but `cpu`, `gpu`",
        "m.toml:53:10: the SoC has no engine `npu`, but `cpu`, `gpu`",
        "m.toml:65:22: unknown policy `worst`",
        "m.toml:69:10: the SoC has no engine `own`, but cpu, gpu: cannot be read (help: the `config` of a `read_bandwidth_cpu` row",
        "m.toml:81:10: a read kernel is read of one configuration",
        "m.toml:96:12: the row is of `m4max`, the scenario that plays it of `board`",
        "m.toml:98:9: `value` is -3 req/s: must be at least 0",
        "bad.toml:6:1: unknown key `copys`",
    ];
    for says in says {
        let found = lines.iter().any(|line| line.starts_with(says));
        assert!(found, "{}\nlacks {says}", lines.join("\n"));
    }
    assert_eq!(lines.len(), says.len(), "{}", lines.join("\n"));
}

/// A row that its scenario cannot give is not covered for what is true of it.
#[test]
fn what_a_run_does_not_have_is_said_as_it_is() {
    let with = |metric: &str, unit: &str, scenario: &str| {
        row(&format!(
            "metric = '{metric}'\nunit = '{unit}'\nscenario = '{scenario}'\n"
        ))
    };
    let why = |board: &Board, text: &str| {
        let file = read_measurements("m.toml", text).unwrap();
        let comparison = compare(&mut Lab::new(board, DRAWS), &file).unwrap();
        let mut all = comparison.not_covered();
        all.next().map(|(_, why)| why.to_owned()).unwrap()
    };
    let board = Board::new(TRUTH);
    for (metric, unit) in [
        ("staleness_mean", "s"),
        ("staleness_p95", "s"),
        ("publication_mean", "s"),
        ("frames_behind", "1"),
    ] {
        let why = why(&board, &with(metric, unit, "short.toml"));
        assert!(
            why.starts_with("no frame came in the part of the run"),
            "{metric}: {why}"
        );
    }
    // One token an answer; and a frame that comes when all is answered.
    let one = board
        .text("short.toml")
        .replace("output_tokens = 32", "output_tokens = 1");
    let late =
        board.text("short.toml").to_owned() + "[streams.frames]\nclock = { times_s = [1000] }\n";
    let mut costs = board.text("profiles/board/vlm.toml").to_owned();
    for engine in ["cpu", "gpu"] {
        let decode = format!("[engines.{engine}.stages.decode]");
        let ingest = format!(
            "[engines.{engine}.stages.ingest]\nper_token_s = 0.002\nbytes = {{ value = 278e6, origin = 'weights' }}\n\
             measured_tokens = [32, 600]\n\n{decode}"
        );
        costs = costs.replace(&decode, &ingest);
    }
    let board = board
        .plus("one.toml", &one)
        .plus("late.toml", &late)
        .plus("profiles/board/vlm.toml", &costs);
    let tpot = why(&board, &with("tpot_mean", "s", "one.toml"));
    assert!(tpot.starts_with("no answer has a second token"), "{tpot}");
    for (metric, unit) in [("staleness_mean", "s"), ("frames_behind", "1")] {
        let why = why(&board, &with(metric, unit, "late.toml"));
        assert!(
            why.starts_with("no question was answered after the first frame"),
            "{why}"
        );
    }
}

#[test]
fn a_row_says_itself_what_it_is_measured_against_beside_an_experiment() {
    let metric = "metric = 'throughput_ratio'\nunit = 'x'\n";
    let experiment =
        "[[experiment]]\nid = 'desk'\nscenario = 'short.toml'\npolicy = 'state_aware'\n";
    let beside = comparison(
        &(row(&format!("{metric}against = {{ policy = 'single:cpu' }}\n"))
            + experiment
            + "against = { policy = 'state_aware' }\n"),
    );
    let alone = comparison(&row(&format!(
        "{metric}scenario = 'short.toml'\npolicy = 'state_aware'\nagainst = {{ policy = 'single:cpu' }}\n"
    )));
    assert_eq!(beside.rows[0].predicted, alone.rows[0].predicted);
    assert!(beside.rows[0].prediction().unwrap().value > 1.0);
}

#[test]
fn the_report_says_what_was_played_for_each_row() {
    let text = row(
        "metric = 'throughput_ratio'\nunit = 'x'\nscenario = 'short.toml'\npolicy = 'naive'\nagainst = { policy = 'single:cpu' }\n",
    );
    let comparison = comparison(&text);
    let document = report::document("", &report::published(&comparison));
    let line = document
        .lines()
        .find(|line| line.contains("| short.toml |"));
    assert!(
        line.is_some_and(|line| line.contains("naive; single:cpu")),
        "{document}"
    );
    let played = &comparison.json()["rows"][0]["played"];
    assert_eq!(
        (&played[1]["scenario"], &played[1]["policy"]),
        (&"short.toml".into(), &"single:cpu".into())
    );
}

#[test]
fn a_row_of_a_user_has_the_bound_that_it_states() {
    let text = |most: &str| {
        row(&format!(
            "metric = 'throughput'\nunit = 'req/s'\nmax_error = {most}\nscenario = 'short.toml'\npolicy = 'single:cpu'\n"
        ))
    };
    for (most, met) in [("90", true), ("1", false)] {
        let comparison = comparison(&text(most));
        let (_, found) = comparison.rows[0].bound().unwrap();
        assert_eq!(found, met, "{:?}", comparison.rows[0].error());
        assert_eq!(comparison.beyond(None).is_empty(), met);
        let report = report::document("Desk", &report::published(&comparison));
        let says = if met {
            "1 of 1 met"
        } else {
            "0 of 1 met; missed:"
        };
        assert!(report.contains(says), "{report}");
        let prediction = comparison.rows[0].prediction().unwrap();
        let says = format!(
            "bound {most} %. Measured 1 req/s, predicted {}",
            report::significant(prediction.value)
        );
        assert_eq!(report.contains(&says), !met, "{report}");
    }
}

#[test]
fn draws_that_cannot_be_played_say_why_and_too_few_make_no_interval() {
    let board = |low: &str| {
        let capacity = format!("capacity_bytes = {{ value = 16e9, low = {low}, high = 17e9 }}");
        Board::new(TRUTH).with(
            "profiles/board/soc.toml",
            "capacity_bytes = 16e9",
            &capacity,
        )
    };
    let text = row("metric = 'throughput'\nunit = 'req/s'\nscenario = 'short.toml'\n");
    let file = read_measurements("m.toml", &text).unwrap();
    let of = |low: &str, count: u32| {
        let board = board(low);
        let comparison = compare(&mut Lab::new(&board, Draws { count, seed: 1 }), &file).unwrap();
        comparison.rows[0].prediction().unwrap().clone()
    };
    // Some draws leave no room for the weights.
    let some = of("0.5e9", 64);
    let failed: u32 = some.failed.iter().map(|failed| failed.draws).sum();
    let interval = some.interval.unwrap();
    assert!(failed > 0 && failed == interval.failed, "{some:?}");
    assert!(some.failed[0].why.contains("memory"), "{some:?}");
    // What is left must still have a 5th percentile.
    let few = of("0.5e9", Draws::LEAST);
    assert!(few.interval.is_none() && !few.failed.is_empty(), "{few:?}");
    assert!(of("15e9", Draws::LEAST).interval.is_some());
    assert!(of("15e9", Draws::LEAST - 1).interval.is_none());
}

/// A queue grows where the replications say so together, as `run` has it, and not where one of them does.
#[test]
fn a_queue_grows_by_the_verdict_on_all_replications() {
    let text =
        row("metric = 'ttft_mean'\nunit = 's'\nscenario = 'queue.toml'\npolicy = 'single:cpu'\n");
    let file = read_measurements("m.toml", &text).unwrap();
    let (mut split, mut grew) = (0, 0);
    for rate in 30..46 {
        let board = Board::new(TRUTH).queue(0.01 * f64::from(rate));
        let inputs = Inputs::read("queue.toml", board.text("queue.toml"), &board, &board).unwrap();
        let world = inputs.with_policy_text("single:cpu").unwrap();
        let mut simulation = Simulation::new(&world);
        let loads = (0..world.replications).map(|run| {
            simulation.run_into(run, &mut ()).unwrap();
            simulation.summary().load
        });
        let loads: Vec<LoadVerdict> = loads.collect();
        let grows = LoadVerdict::over(loads.iter().copied()) == LoadVerdict::Saturated;
        let comparison = compare(&mut Lab::new(&board, DRAWS), &file).unwrap();
        match &comparison.rows[0].predicted {
            Predicted::Value(_) => assert!(!grows, "{rate}: {loads:?}"),
            Predicted::Not(why) => assert!(grows && why.contains("a queue grows"), "{rate}: {why}"),
        }
        split += u32::from(!grows && loads.contains(&LoadVerdict::Saturated));
        grew += u32::from(grows);
    }
    assert!(split > 0 && grew > 0, "{split} {grew}");
}
