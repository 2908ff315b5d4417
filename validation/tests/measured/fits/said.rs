//! What a fit says of itself where it is not to be trusted, and the faults of a fit's file.

use validation::fit::{Side, fit, read_spec};
use validation::report;

use super::{four, parameter, run, spec};
use crate::board::{Board, GUESS, WANTED, file, measure};

#[test]
fn a_part_of_a_fit_without_spare_rows_says_so() {
    let of = |rows: &str| {
        let board = Board::new(GUESS);
        let fit = fit(&board, &spec(&four(), rows), &measure(&WANTED, 1.0)).unwrap();
        let text = report::document(&fit.title, &report::fit(&fit));
        (fit, text)
    };
    // All rows: either engine's two numbers have four.
    let (fit, text) = of("");
    let groups: Vec<_> = fit
        .groups
        .iter()
        .map(|group| (&group.parameters, group.rows))
        .collect();
    let names = |names: [&str; 2]| names.map(str::to_owned).to_vec();
    let (cpu, gpu) = (
        names(["prefill", "decode"]),
        names(["gpu prefill", "gpu decode"]),
    );
    assert_eq!(groups, [(&cpu, 4), (&gpu, 4)]);
    assert_eq!(fit.bare().count(), 0);
    assert!(!text.contains("nothing is left to judge"), "{text}");
    // Two rows of the GPU for its two numbers: they come out to the digit, and that says nothing.
    let (fit, text) =
        of("config = ['single:cpu']\n[[rows]]\nid = 'desk-short'\nconfig = ['single:gpu']");
    assert_eq!(fit.freedom, 2);
    let bare: Vec<_> = fit
        .bare()
        .map(|group| (&group.parameters, group.rows))
        .collect();
    assert_eq!(bare, [(&gpu, 2)]);
    let says = "gpu prefill, gpu decode rest on 2 rows alone, which no other number moves";
    assert!(text.contains(says), "{text}");
}

#[test]
fn a_valley_is_not_called_a_minimum() {
    let board = Board::new(GUESS);
    let rows = "id = 'desk-short'\nconfig = ['single:cpu']\nmetric = ['throughput']";
    let fit = fit(&board, &spec(&four()[..2], rows), &measure(&WANTED, 1.0)).unwrap();
    let text = report::document(&fit.title, &report::fit(&fit));
    assert!(!text.contains("this minimum"), "{text}");
    assert!(
        text.contains("no one point (1 row for 2 numbers)"),
        "{text}"
    );
    // Where the rows pin the numbers down, there is a point.
    let text = report::fit(&run(&four(), &measure(&WANTED, 1.0)))[0]
        .body
        .clone();
    assert!(text.contains("came to this minimum"), "{text}");
}

/// Rows that contradict each other, rows that no filter takes or no scenario plays, numbers at a bound: all are said.
#[test]
fn what_a_fit_cannot_do_is_said() {
    let measured = measure(&WANTED, 0.0);
    let of = |parameters: &[String], rows: &str, change: &dyn Fn(usize, f64) -> f64| {
        let values = measured.rows.iter().enumerate();
        let values: Vec<f64> = values.map(|(at, row)| change(at, row.value)).collect();
        let board = Board::new(GUESS);
        let fit = fit(&board, &spec(parameters, rows), &file(&WANTED, &values)).unwrap();
        let text = report::document("", &report::fit(&fit));
        (fit, text)
    };
    let same = |_: usize, value: f64| value;
    let (fine, text) = of(
        &four(),
        "config = ['single:cpu', 'single:gpu', 'single:npu']",
        &same,
    );
    assert!(
        !fine.contradicted() && !text.contains("NOT EXPLAINED"),
        "{text}"
    );
    assert!(
        text.contains("`[[rows]]` 1, `config`: \"single:npu\""),
        "{text}"
    );
    // Two of the CPU's values far off, either way: a minimum, and no good one. What is open is so because of that.
    let off = |at: usize, value: f64| value * [2.5, 0.4].get(at).copied().unwrap_or(1.0);
    let paths =
        ["query_prefill", "decode"].map(|stage| format!("engines.cpu.stages.{stage}.per_token_s"));
    let narrow = [
        parameter("prefill", "board/vlm", &paths[0], (1e-3, 1e-2)),
        parameter("decode", "board/vlm", &paths[1], (0.01, 0.05)),
    ];
    let (bad, text) = of(&narrow, "config = ['single:cpu']", &off);
    assert!(!bad.weak.is_empty(), "{bad:?}");
    assert!(bad.contradicted() && !bad.flat, "{bad:?}");
    assert!(text.contains("THE ROWS ARE NOT EXPLAINED"), "{text}");
    assert!(text.contains("Furthest off: desk-"), "{text}");
    assert!(!text.contains("one choice of many"), "{text}");
    assert!(
        text.contains("taken as uncertain as they are badly explained, do not pin down"),
        "{text}"
    );
    // The GPU's rows are not taken, and not lost.
    assert_eq!(bad.not_taken.len(), 4);
    assert!(
        text.contains("Calibration rows that no filter matches"),
        "{text}"
    );
    // A decode that could not be as slow as it is.
    let mut bound = four();
    bound[1] = parameter(
        "decode",
        "board/vlm",
        "engines.cpu.stages.decode.per_token_s",
        (1e-3, 0.01),
    );
    let (at_bound, text) = of(&bound, "", &same);
    assert_eq!(at_bound.parameters[1].at_bound, Some(Side::High));
    assert!(
        text.contains("decode ended at its upper bound, 0.01000"),
        "{text}"
    );
    assert!(
        text.contains("The profile's decode, 0.05000, lies outside the bounds"),
        "{text}"
    );
}

#[test]
fn faults_of_a_fit_point_at_it() {
    let measured = measure(&WANTED, 0.0);
    let faults = |text: &str| {
        let done = read_spec("f.toml", text).and_then(|spec| {
            fit(&Board::new(GUESS), &spec, &measured).map(|fit| format!("{:?}", fit.parameters))
        });
        done.expect_err(text).to_string()
    };
    let with = |parameter: &str| {
        faults(&format!(
            "title = 't'\n[[rows]]\nid = 'desk-short'\n[[parameters]]\n{parameter}"
        ))
    };
    let sets =
        "sets = [{ profile = 'board/vlm', paths = ['engines.cpu.stages.decode.per_token_s'] }]\n";
    for (text, says) in [
        (format!("name = 'p'\nlow = 2\nhigh = 1\n{sets}"), "f.toml:7:8: `high` is 1: must be above `low`"),
        (format!("name = 'p'\nlow = 0\nhigh = 1\nscale = 'log'\n{sets}"), "f.toml:6:7: `low` is 0"),
        ("name = 'p'\nlow = 0\nhigh = 1\nsets = []\n".to_owned(), "`p` sets nothing"),
        (format!("name = ''\nlow = 0\nhigh = 1\n{sets}"), "f.toml:5:8: a parameter without a name"),
        (
            format!("name = 'p'\nlow = 1e-320\nhigh = 1\nscale = 'log'\n{sets}"),
            "f.toml:6:7: `low` is 1e-320: too small for a log scale",
        ),
        (
            "name = 'p'\nlow = 1\nhigh = 9\nsets = [{ profile = 'board/soc', paths = ['cpu.cores'] }]\n".to_owned(),
            "`cpu.cores` is a count: cannot be free",
        ),
        (
            "name = 'p'\nlow = 0\nhigh = 1\nsets = [{ profile = 'board/vlm', paths = ['engines.cpu.stages.decode.per_token'] }]\n".to_owned(),
            "has no number `engines.cpu.stages.decode.per_token`: not there (help: the nearest are engines.cpu.stages.decode.per_token_s",
        ),
        (
            "name = 'p'\nlow = 0\nhigh = 1\nsets = [{ profile = 'board/other', paths = ['x'] }]\n".to_owned(),
            "no scenario of the rows reads the profile `board/other`",
        ),
        (
            "name = 'p'\nlow = 0\nhigh = 1e10\nsets = [{ profile = 'board/vlm', paths = ['x'], times = 1e300 }]\n".to_owned(),
            "`times` is 1e300: must be greater than 0, and `high` times it a finite number",
        ),
        (format!("name = 'p'\nlow = 0\nhigh = 1\ncolour = 1\n{sets}"), "f.toml:8:1: unknown key `colour` in `parameters[0]`: not a key here"),
    ] {
        let found = with(&text);
        assert!(found.contains(says), "{found}\nlacks {says}");
    }
    let none = faults(&format!(
        "title = 't'\n[[rows]]\nid = 'elsewhere'\n[[parameters]]\nname = 'p'\nlow = 0\nhigh = 1\n{sets}"
    ));
    assert!(none.contains("no calibration row to fit to"), "{none}");
    let outcome = faults(&format!(
        "title = 't'\n[[rows]]\nconfig = ['state_aware']\n[[parameters]]\nname = 'p'\nlow = 0\nhigh = 1\n{sets}"
    ));
    assert!(
        outcome.contains("no calibration row to fit to"),
        "{outcome}"
    );
}

#[test]
fn faults_of_a_fit_come_all_at_once() {
    let text = "titel = 't'\n[[rows]]\nid = 3\n[[parameters]]\nname = 'p'\nlow = 'none'\nhigh = 1\nscale = 'cubic'\nsets = []\n";
    let found = read_spec("f.toml", text).expect_err(text).to_string();
    for says in [
        "f.toml:1:1: unknown key `titel` in the file: not a key here (help: did you mean `title`?)",
        "f.toml:3:6: `rows[0].id` is a whole number: expected a string",
        "f.toml:6:7: `parameters[0].low` is a string: expected a number",
        "f.toml:8:9: unknown value `cubic` of `parameters[0].scale`",
    ] {
        assert!(found.contains(says), "{found}\nlacks {says}");
    }
}
