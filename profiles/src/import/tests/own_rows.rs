//! A cost that is written gives back the rows that it comes from, as nearly as its origin says.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::super::{Kind, Options};
use super::{Done, run};

/// Rates of prompts and of answers of these lengths.
fn table(prompts: &[(u32, f64)], answers: &[(u32, f64)]) -> String {
    let mut text = String::from(
        "| model | size | params | backend | threads | test | t/s |\n| --- | --- | --- | --- | --- | --- | --- |\n",
    );
    let tests = prompts.iter().map(|row| ("pp", row));
    for (test, (tokens, rate)) in tests.chain(answers.iter().map(|row| ("tg", row))) {
        _ = writeln!(
            text,
            "| toy 1B Q4_0 | 1.00 GiB | 1.00 B | CPU | 4 | {test}{tokens} | {rate:.3} ± 0.00 |"
        );
    }
    text
}

fn import(prompts: &[(u32, f64)], answers: &[(u32, f64)]) -> Done {
    let text = table(prompts, answers);
    run(Kind::LlamaBench, &Options::default(), &[("t.md", &text)])
}

/// The largest relative error of the written form of a stage, and the residual that its origin states; `None` of a
/// table.
fn errors(done: &Done, stage: &str, origin: &str, rows: &[(u32, f64)]) -> Option<(f64, f64)> {
    let file: toml::Table = done.file().parse().expect("it is TOML");
    let cost = &file["engines"]["cpu"]["stages"][stage];
    if cost.get("table").is_some() {
        return None;
    }
    let of = |key: &str| {
        let value = cost.get(key).map(|value| &value["value"]);
        value.map_or(0.0, |value| {
            let whole = value.as_integer().map(|value| value as f64);
            value.as_float().or(whole).expect("it is a number")
        })
    };
    let (fixed, token, context) = (of("fixed_s"), of("per_token_s"), of("per_token_context_s"));
    let worst = rows.iter().map(|&(tokens, rate)| {
        let n = f64::from(tokens);
        let secs = fixed + token * n + context * n * (n - 1.0) / 2.0;
        let rate: f64 = format!("{rate:.3}").parse().expect("it is a number");
        (secs * rate / n - 1.0).abs()
    });
    let note = file["origins"][origin]["note"]
        .as_str()
        .expect("it is text");
    let stated = note.split_once("worst residual ").map_or(0.0, |(_, rest)| {
        let percent = rest.trim_end_matches(" %").parse::<f64>();
        percent.expect("it is a number") / 100.0
    });
    Some((worst.fold(0.0, f64::max), stated))
}

/// Half of the last digit that an origin states, and what six digits round away.
const ROUNDED: f64 = 0.000_51;

fn gives_back(prompts: &[(u32, f64)], answers: &[(u32, f64)]) {
    let done = import(prompts, answers);
    for (stage, origin, rows) in [
        ("ingest", "cpu_prefill", prompts),
        ("decode", "cpu_decode", answers),
    ] {
        if let Some((worst, stated)) = errors(&done, stage, origin, rows) {
            assert!(
                worst <= stated + ROUNDED,
                "{stage}: {worst} beyond {stated} of {rows:?}\n{}",
                done.file()
            );
        }
    }
}

/// To see it fail, take the assumed slope and the constant of the form without it.
#[test]
fn a_slope_of_the_answers_themselves_is_kept() {
    let prompts = [(512, 55.2), (2048, 45.2)];
    let answers = [(128, 20.0), (512, 17.5), (1024, 15.0)];
    gives_back(&prompts, &answers);
    let done = import(&prompts, &answers);
    assert!(!done.file().contains("cpu_decode_slope"), "{}", done.file());
    // One length tells of no slope; lengths of one rate tell that there is next to none.
    let done = import(&prompts, &answers[..1]);
    assert!(done.file().contains("cpu_decode_slope"), "{}", done.file());
    gives_back(&prompts, &answers[..1]);
    let even = [(128, 20.0), (4096, 20.0)];
    let done = import(&prompts, &even);
    assert!(!done.file().contains("cpu_decode_slope"), "{}", done.file());
    gives_back(&prompts, &even);
    // Near lengths do not tell, and a form beside the assumed slope says how far it misses them.
    let near = [(32, 20.0), (128, 20.05)];
    let done = import(&prompts, &near);
    assert!(
        done.file()
            .contains("1 number to 2 rows beside the assumed slope"),
        "{}",
        done.file()
    );
    gives_back(&prompts, &near);
}

fn rows(rates: std::ops::Range<f64>) -> impl Strategy<Value = Vec<(u32, f64)>> {
    prop::collection::btree_map(1_u32..4096, rates, 1..5)
        .prop_map(|rows| rows.into_iter().collect())
}

proptest! {
    #[test]
    fn every_written_form_gives_back_its_own_rows(
        prompts in rows(20.0..400.0),
        answers in rows(5.0..40.0),
    ) {
        gives_back(&prompts, &answers);
    }

    /// Rates that fall with the length, as they do.
    #[test]
    fn forms_of_falling_rates_give_back_their_own_rows(
        prompts in rows(90.0..100.0),
        slope in 0.0..1e-4_f64,
        lengths in prop::collection::btree_set(8_u32..4096, 1..5),
    ) {
        let answers: Vec<(u32, f64)> = lengths
            .into_iter()
            .map(|tokens| (tokens, 1.0 / (0.05 + slope * f64::from(tokens) / 2.0)))
            .collect();
        gives_back(&prompts, &answers);
    }
}
