//! Long contexts from short ones, and prompts with their answers from separate rows.

use super::*;

/// Rows at a depth are judged, or it is said why not.
#[test]
fn a_table_of_depths_is_judged_or_listed() {
    let rows = |depths: &[u64]| -> Vec<Row> {
        let row = |(at, depth): (usize, &u64)| Row {
            identity: Identity::new(),
            test: Test::Decode {
                tokens: 128,
                depth: *depth,
            },
            secs: 1.0 + *depth as f64 * 1e-4,
            spread: Spread::Unknown,
            cold_s: None,
            stated: true,
            weights_bytes: None,
            place: Place {
                file: "toy".to_owned(),
                line: at as u64 + 1,
            },
            shown: String::new(),
            block: 1,
        };
        depths.iter().enumerate().map(row).collect()
    };
    for (depths, judged, listed) in [
        (&[0, 2048, 8192][..], 1, 0),
        (&[0, 8192], 0, 1),
        (&[4096, 8192], 0, 1),
        (&[0], 0, 0),
    ] {
        let mut held = Holdout::default();
        holdout::of(&[("llama.cpp", rows(depths))], &[], &mut held);
        assert_eq!(held.long.len(), judged, "{depths:?}");
        assert_eq!(
            held.unjudged.len(),
            listed,
            "{depths:?} {:?}",
            held.unjudged
        );
        let (text, _) = super::super::report::text(&held);
        assert_eq!(text.contains("tg128 @ d8192: "), listed == 1, "{text}");
        assert_eq!(text.contains("1 of one file judged"), judged == 1, "{text}");
    }
}

/// A prompt of 4096 in 8 s and tokens of 4 ms that each token of context slows by 0.5 µs, which no row tells. To see it
/// fail, take the slope of the combined row.
#[test]
fn a_combined_row_that_others_do_not_give_says_what_is_missing() {
    let row = |line: u64, test: Test, secs: f64| Row {
        place: Place {
            file: "toy".to_owned(),
            line,
        },
        ..row_of(&[], test, secs)
    };
    let both = Test::Both {
        prompt: 4096,
        tokens: 128,
        depth: 0,
    };
    let secs = |context: f64| 128.0 * (4e-3 + 0.5e-6 * (context + 63.5));
    let prompt = Test::Prefill {
        tokens: 4096,
        depth: 0,
    };
    let answer = |depth: u64| Test::Decode { tokens: 128, depth };
    let mut rows = vec![
        row(1, prompt, 8.0),
        row(2, answer(0), secs(0.0)),
        row(3, both, 8.0 + secs(4096.0)),
    ];
    let said = |rows: &[Row]| {
        let held = Holdout {
            combined: super::super::reach::combined(rows),
            ..Holdout::default()
        };
        let text = super::super::report::text(&held).0;
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        (held.combined[0].error, text)
    };
    // Of a short prompt and a long answer the whole is mostly the answer's.
    rows[0].secs = 1.0;
    rows[2].secs -= 7.0;
    let (error, text) = said(&rows);
    assert!(error > 0.08, "{error}");
    assert!(
        text.contains("MISSED: no row has an answer behind a context (`-n 128 -d 4096`)"),
        "{text}"
    );
    assert!(
        text.contains("adds 0.00 µs") && text.contains("it added 0.50 µs"),
        "{text}"
    );
    rows.push(row(4, answer(2048), secs(2048.0)));
    let (error, text) = said(&rows);
    assert!(
        error.abs() < 1e-9 && !text.contains("no row has"),
        "{error} {text}"
    );
}
