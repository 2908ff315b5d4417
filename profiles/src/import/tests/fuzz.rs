//! Whatever is done to an input, an importer ends, says what it did, and writes valid files. `run` checks the latter.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::super::{Kind, Options};
use super::run_bytes;
use super::samples::{gguf, samples};

/// What is done to the bytes.
#[derive(Clone, Debug)]
enum Change {
    /// The rest is lost.
    Cut(usize),
    /// A byte becomes another.
    Set(usize, u8),
    /// A stretch is left out.
    Drop(usize, usize),
    /// A stretch comes twice.
    Twice(usize, usize),
    /// A number or a word that programs trip over stands there.
    Put(usize, usize),
}

const WORDS: [&str; 16] = [
    "nan",
    "inf",
    "-1",
    "0",
    "1e999",
    "18446744073709551616",
    "null",
    "\"",
    "|",
    ",",
    "\n",
    "[",
    "{",
    "}",
    "±",
    "\u{feff}",
];

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        any::<usize>().prop_map(Change::Cut),
        (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        (any::<usize>(), 1..40_usize).prop_map(|(at, length)| Change::Drop(at, length)),
        (any::<usize>(), 1..200_usize).prop_map(|(at, length)| Change::Twice(at, length)),
        (any::<usize>(), 0..WORDS.len()).prop_map(|(at, word)| Change::Put(at, word)),
    ]
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    if bytes.is_empty() {
        return;
    }
    let within = |at: &usize| at % bytes.len();
    let end = |at: usize, length: &usize| (at + length).min(bytes.len());
    match change {
        Change::Cut(at) => bytes.truncate(within(at)),
        Change::Set(at, byte) => {
            let at = within(at);
            bytes[at] = *byte;
        }
        Change::Drop(at, length) => {
            let at = within(at);
            bytes.drain(at..end(at, length));
        }
        Change::Twice(at, length) => {
            let at = within(at);
            let stretch = bytes[at..end(at, length)].to_vec();
            bytes.splice(at..at, stretch);
        }
        Change::Put(at, word) => {
            let at = within(at);
            bytes.splice(at..at, WORDS[*word].bytes());
        }
    }
}

/// So many cases, or as many as `PROPTEST_CASES` says for a long run.
fn config() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok();
    ProptestConfig {
        cases: asked.and_then(|count| count.parse().ok()).unwrap_or(400),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn changed_files_are_imported_or_refused(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec(change(), 1..6),
    ) {
        let samples = samples();
        let (kind, name, text) = &samples[which.index(samples.len())];
        let mut bytes = text.clone().into_bytes();
        for change in &changes {
            apply(&mut bytes, change);
        }
        run_bytes(*kind, &Options::default(), &[(name, &bytes)], true);
    }

    #[test]
    fn changed_headers_are_imported_or_refused(changes in prop::collection::vec(change(), 1..6)) {
        let mut bytes = gguf(3, false);
        for change in &changes {
            apply(&mut bytes, change);
        }
        run_bytes(Kind::Gguf, &Options::default(), &[("m.gguf", &bytes)], true);
    }

    #[test]
    fn any_text_is_refused(text in "\\PC{0,200}") {
        for kind in [Kind::LlamaBench, Kind::Rkllm, Kind::AiHub, Kind::OrtProfile, Kind::Gguf, Kind::HfConfig, Kind::Trace, Kind::Bandwidth] {
            let done = run_bytes(kind, &Options::default(), &[("x", text.as_bytes())], true);
            prop_assert!(done.files.is_empty(), "{:?} {}", kind, done.said());
        }
    }
}

#[test]
fn every_cut_is_survived() {
    for (kind, name, text) in samples() {
        // Every place near the ends, and some between.
        let step = (text.len() / 60).max(1);
        for end in (0..text.len()).filter(|end| end % step == 0 || text.len() - end < 30) {
            run_bytes(
                kind,
                &Options::default(),
                &[(name, &text.as_bytes()[..end])],
                true,
            );
        }
    }
}

#[test]
fn deep_nesting_is_refused() {
    let mut yaml = String::new();
    for depth in 0..200 {
        _ = writeln!(yaml, "{}a:", " ".repeat(depth));
    }
    let json = "[".repeat(10_000);
    let cases = [
        (Kind::AiHub, yaml.as_str()),
        (Kind::HfConfig, &json),
        (Kind::OrtProfile, &json),
        (Kind::LlamaBench, &json),
        (Kind::Trace, &json),
    ];
    for (kind, text) in cases {
        let done = run_bytes(kind, &Options::default(), &[("x", text.as_bytes())], true);
        assert!(done.files.is_empty(), "{kind:?}");
    }
}

/// Each of these took minutes where something was looked for again from the start.
#[test]
fn large_odd_files_end_soon() {
    let many = |unit: &str, count: usize| unit.repeat(count);
    let cases = [
        (
            Kind::LlamaBench,
            format!("[\n{}", many("{\"n_prompt\": 1,\n", 60_000)),
        ),
        (
            Kind::Trace,
            format!(
                "arrived_at,num_prefill_tokens,num_decode_tokens\n\"{}",
                many("1,2,3\n", 300_000)
            ),
        ),
        (Kind::LlamaBench, many("| test | t/s |\n|-|-|\n\n", 20_000)),
        (Kind::AiHub, many("- ", 100_000)),
        (Kind::HfConfig, many("x", 4_000_000)),
    ];
    for (kind, text) in cases {
        let done = run_bytes(kind, &Options::default(), &[("x", text.as_bytes())], true);
        assert!(done.files.is_empty(), "{kind:?}");
    }
}

#[test]
fn quoted_cells_may_hold_line_ends() {
    let mut text = String::from("time_s,note,prompt_tokens\n");
    let mut expected = String::from("time_s,prompt_tokens\n");
    for row in 0..60_000 {
        _ = writeln!(text, "{row},\"two\nlines of a cell, quoted\",7");
        _ = writeln!(expected, "{row},7");
    }
    let done = run_bytes(
        Kind::Trace,
        &Options::default(),
        &[("x.csv", text.as_bytes())],
        true,
    );
    assert!(
        done.files.len() == 1 && done.files[0].1 == expected,
        "{}",
        done.said()
    );
}
