//! Layouts, faults, and the promise that nothing panics.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

fn ms(times: &[u64]) -> Vec<Instant> {
    times.iter().map(|time| Instant(time * 1_000_000)).collect()
}

#[track_caller]
fn good(file: &str, text: &str) -> TraceFile {
    parse(file, text).expect("a good trace")
}

/// Faults as "marked text: message: label (help)".
fn faults(file: &str, text: &str) -> Vec<String> {
    let faults = parse(file, text).expect_err("a bad trace");
    let line = |fault: Diagnostic| {
        assert_eq!(fault.file, file);
        let help = fault
            .help
            .map_or(String::new(), |help| format!(" ({help})"));
        let marked = &text[fault.span];
        format!("{marked:?}: {}: {}{help}", fault.message, fault.label)
    };
    faults.into_iter().map(line).collect()
}

#[test]
fn every_layout_is_read() {
    let cases = [
        (
            "crossinfer",
            "time_s,prompt_tokens,output_tokens\n1.5,4,5\n1.75,6,7\n",
            [1500, 1750],
        ),
        (
            "Azure LLM inference",
            "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 23:59:59.9000000,4,5\r\n\
             2023-11-17 00:00:00.1500000,6,7\r\n",
            [0, 250],
        ),
        (
            "BurstGPT",
            "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
             19440110.0,GPT-4,4,5,9,\"a, \"\"b\"\"\"\n19440112.5,GPT-4,6,7,13,x",
            [0, 2500],
        ),
        (
            "Mooncake",
            "{\"timestamp\": 3, \"input_length\": 4, \"output_length\": 5, \"hash_ids\": [0, 1]}\n\
             {\"timestamp\": 9, \"input_length\": 6, \"output_length\": 7, \"hash_ids\": []}\n",
            [3, 9],
        ),
        (
            "Vidur",
            "arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,4,5\n0.052,6.0,7\n",
            [0, 52],
        ),
        (
            "LLMServingSim",
            "{\"input_toks\":4,\"output_toks\":5,\"arrival_time_ns\":46000000,\"input_tok_ids\":[1]}\n\
             {\"input_toks\":6,\"output_toks\":7,\"arrival_time_ns\":347000000}",
            [46, 347],
        ),
    ];
    for (layout, text, times) in cases {
        let trace = good("trace", text);
        assert_eq!(trace.layout, layout);
        assert_eq!(trace.times, ms(&times));
        assert_eq!(trace.prompt_tokens, Some(vec![4, 6]));
        assert_eq!(trace.output_tokens, Some(vec![5, 7]));
        assert_eq!(trace.warnings, Vec::<String>::new());
    }
}

#[test]
fn times_alone_are_enough_and_spelling_is_forgiven() {
    let expected = ms(&[1000, 1000, 2500]);
    for text in [
        "time_s\n1\n1\n2.5",
        "\u{feff}time_s\r\n1\r\n\r\n1.0\r\n25e-1\r\n",
        "time_s;zone\n1;a\n1;\n2.5;\"c\nd\"\n",
        "zone\ttime_s\na\t1\nb\t1\nc\t2.5\n",
        "\"time_s\"\n\"1\"\n 1 \n\"2.5\"",
        "{\"time_s\": 1}\n\n{ \"time_s\" :1 , \"zone\": {\"time_s\": \"}\"} }\n{\"time_s\": 2.5}",
    ] {
        let trace = good("trace", text);
        assert_eq!(trace.times, expected, "{text}");
        assert_eq!((trace.prompt_tokens, trace.output_tokens), (None, None));
    }
}

#[test]
fn warnings_name_what_is_not_used() {
    let text = "time_s,prompt_token,output_tokens,zone\n0,5,0,x\n1,6,3,y\n";
    assert_eq!(
        good("trace", text).warnings,
        [
            "column `prompt_token` is not used; did you mean `prompt_tokens`?",
            "column `zone` is not used",
            "1 of 2 rows have 0 `output_tokens`: they are played with 1",
        ]
    );
    let slip = ("prompt_token".to_owned(), "prompt_tokens");
    assert_eq!(good("trace", text).misspelt, [slip]);
    // Beside the column itself it is no slip of it.
    let text = "time_s,prompt_tokens,prompt_token\n0,5,6\n";
    assert_eq!(good("trace", text).misspelt, []);
}

#[test]
fn faults_point_at_their_cells() {
    let text = "time_s,output_tokens\n0,1.5\nx,-2\n3,\n2,nan\ninf,5000000000\n1,2,3\n-4,1e400\n";
    assert_eq!(
        faults("t.csv", text),
        [
            "\"1.5\": `output_tokens` is `1.5`: must be a whole number of tokens",
            "\"x\": `time_s` is `x`: must be a number",
            "\"-2\": `output_tokens` is `-2`: must not be negative",
            "\"\": `output_tokens` is missing: needs a value",
            "\"2\": `time_s` falls: is earlier than the row before (sort the rows by time)",
            "\"nan\": `output_tokens` is `nan`: must be finite",
            "\"inf\": `time_s` is `inf`: must be finite",
            "\"5000000000\": `output_tokens` is `5000000000`: must be below 2^32 tokens",
            "\"1,2,3\": the row has 3 cells, the header 2: this row",
            "\"-4\": `time_s` is `-4`: must not be negative",
            "\"1e400\": `output_tokens` is `1e400`: must be finite",
        ]
    );
    let text =
        "{\"time_s\": 1}\n{\"time_s\": null}\n[]\n{\"time_s\": 2,}\n{\"output_tokens\": 3}\n";
    assert_eq!(
        faults("t.jsonl", text),
        [
            "\"null\": `time_s` is missing: needs a value",
            "\"[]\": the line is not a JSON object: must start with `{` (write one object a line)",
            "\"}\": the line is not JSON: key must be a string: here",
            "\"{\\\"output_tokens\\\": 3}\": `time_s` is missing: needs a value",
            "\"3\": the first row has no `output_tokens`: this row has one (give it in all rows \
             or in none)",
        ]
    );
}

#[test]
fn files_that_are_no_traces_are_told_what_to_be() {
    let add = "add a column `time_s` with the time of each arrival in seconds";
    let none = "the trace has no time column: needs";
    let empty = "\"\": the trace has no rows: ends here (write a header with `time_s`, then one row \
                 per arrival)";
    for (text, expected) in [
        ("", empty.to_owned()),
        ("\u{feff}\r\n", empty.to_owned()),
        ("time_s,zone\n", empty.to_owned()),
        (
            "Time_S\n1\n",
            format!(
                "\"Time_S\": {none} `time_s` (if `Time_S` is in seconds, rename it to `time_s`)"
            ),
        ),
        ("a,b\n1,2\n", format!("\"a,b\": {none} `time_s` ({add})")),
        // Could be milliseconds, so it is not guessed.
        (
            "timestamp\n1\n",
            format!(
                "\"timestamp\": {none} `time_s` (if `timestamp` is in seconds, rename it to `time_s`)"
            ),
        ),
        (
            "num_prefill_tokens,num_decode_tokens\n1,2\n",
            format!(
                "\"num_prefill_tokens,num_decode_tokens\": {none} `arrived_at` (these are lengths \
                 without arrivals: add the column `arrived_at`)"
            ),
        ),
        (
            "[{\"time_s\": 1}]",
            "\"[\": the trace is a JSON array: must be an object (write one object a line, \
             without the brackets)"
                .to_owned(),
        ),
        (
            "time_s\n\"1\n2\n",
            "\"\\\"\": the quote is never closed: opens here".to_owned(),
        ),
        (
            "time_s,time_s\n1,2\n",
            "\"time_s\": column `time_s` is given twice: the second".to_owned(),
        ),
        (
            "time_s;zone\n1,5;x\n",
            "\"1,5\": `time_s` is `1,5`: must be a number (write `1.5`, with a point)".to_owned(),
        ),
    ] {
        assert_eq!(faults("t.csv", text)[0], expected);
    }
}

#[test]
fn many_faults_are_counted() {
    let mut text = "time_s\n".to_owned();
    for row in 0..100 {
        let _ = writeln!(text, "x{row}");
    }
    let faults = faults("t.csv", &text);
    assert_eq!(faults.len(), FAULTS_MAX + 1);
    assert_eq!(
        faults[FAULTS_MAX],
        "\"x20\": 80 more faults in this file: the next one"
    );
}

/// Third-party samples are not part of this repository: the test reads them from the folder that
/// `CROSSINFER_TRACE_SAMPLES` names, if any.
#[test]
fn public_samples_are_read() {
    let Some(folder) = std::env::var_os("CROSSINFER_TRACE_SAMPLES") else {
        return;
    };
    let mut read = 0;
    for entry in std::path::Path::new(&folder).read_dir().expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_trace = ["csv", "jsonl"]
            .iter()
            .any(|ending| path.extension() == Some(ending.as_ref()));
        // Lengths without times.
        if !is_trace || name.contains("arxiv_summarization") {
            continue;
        }
        let text = String::from_utf8(std::fs::read(&path).expect("a file")).expect("UTF-8");
        let trace = parse(&name, &text).unwrap_or_else(|faults| panic!("{name}: {faults:?}"));
        assert_eq!(trace.warnings, Vec::<String>::new(), "{name}");
        let lengths = (trace.prompt_tokens, trace.output_tokens);
        assert!(matches!(lengths, (Some(_), Some(_))), "{name}");
        read += 1;
    }
    assert!(read > 0, "no traces in {}", folder.to_string_lossy());
}

/// Texts that come near to traces.
fn near_trace() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "time_s",
        "prompt_tokens",
        "TIMESTAMP",
        "ContextTokens",
        "timestamp",
        "input_length",
        "2023-11-16 18:17:03.97",
        "1",
        "2.5",
        "-1",
        "1e999",
        "é",
        "\u{feff}",
        ",",
        ";",
        "\t",
        "\n",
        "\r\n",
        "\"",
        "\"\"",
        "{",
        "}",
        "[",
        "]",
        ":",
        "\\",
        "\\\"",
        "null",
        " ",
        "{\"time_s\": 1}\n",
        "{\"time_s\": \"",
        "\\u00e9",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn check_anything(file: &str, text: &str) -> Result<(), TestCaseError> {
    match parse(file, text) {
        Ok(trace) => {
            prop_assert!(!trace.times.is_empty() && trace.times.is_sorted());
            let rows = trace.times.len();
            prop_assert!(
                trace
                    .prompt_tokens
                    .is_none_or(|tokens| tokens.len() == rows)
            );
            prop_assert!(
                trace
                    .output_tokens
                    .is_none_or(|tokens| tokens.len() == rows)
            );
        }
        Err(faults) => {
            prop_assert!((1..=FAULTS_MAX + 1).contains(&faults.len()));
            for fault in faults {
                prop_assert!(text.get(fault.span).is_some());
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        text in any::<String>(),
        near in near_trace(),
        jsonl: bool,
    ) {
        let file = if jsonl { "t.jsonl" } else { "t.csv" };
        for text in [&*String::from_utf8_lossy(&bytes), &text, &near] {
            check_anything(file, text)?;
            check_anything(file, &format!("time_s,output_tokens\n1,2\n{text}"))?;
            check_anything(file, &format!("{{\"time_s\": 1}}\n{text}"))?;
        }
    }

    #[test]
    fn both_formats_give_back_what_was_written(
        mut rows in prop::collection::vec((0..1_000_000_000_000_u64, any::<u32>(), 1..u32::MAX), 1..30),
    ) {
        rows.sort_unstable();
        let mut csv = "output_tokens,time_s,prompt_tokens\n".to_owned();
        let mut jsonl = String::new();
        for (ns, prompt, output) in &rows {
            let secs = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
            let _ = writeln!(csv, "{output},{secs},{prompt}");
            let _ = writeln!(
                jsonl,
                "{{\"prompt_tokens\": {prompt}, \"time_s\": {secs}, \"output_tokens\": {output}}}"
            );
        }
        let trace = good("t.csv", &csv);
        prop_assert_eq!(&trace, &good("t.jsonl", &jsonl));
        let times: Vec<_> = rows.iter().map(|row| Instant(row.0)).collect();
        prop_assert_eq!(trace.times, times);
        prop_assert_eq!(trace.prompt_tokens, Some(rows.iter().map(|row| row.1).collect()));
        prop_assert_eq!(trace.output_tokens, Some(rows.iter().map(|row| row.2).collect()));
    }
}

#[test]
fn a_name_that_is_given_twice_is_a_fault_in_either_format() {
    let row = "{\"time_s\": 1, \"x\": 1, \"x\": 2, \"time_s\": 2, \"prompt_tokens\": 3}\n";
    let told = faults("t.jsonl", row);
    assert_eq!(told, ["\"2\": `time_s` is given twice: the second"]);
    let told = faults("t.csv", "time_s,prompt_tokens,time_s\n1,2,3\n");
    assert_eq!(
        told,
        ["\"time_s\": column `time_s` is given twice: the second"]
    );
}

#[test]
fn wall_clock_times_are_told_once_and_those_that_count_from_the_first_row_are_not() {
    let told = faults("t.csv", "time_s\n1730000000.5\n1730000001.5\n");
    let [told] = told.as_slice() else {
        panic!("{told:?}")
    };
    assert!(
        told.starts_with("\"1730000000.5\"") && told.contains("subtract that of the first row"),
        "{told}"
    );
    good("t.csv", "time_s\n0\n999999999\n");
    let burst = "Timestamp,Request tokens,Response tokens\n1730000000.5,4,5\n1730000001.5,4,5\n";
    assert_eq!(good("t.csv", burst).times, ms(&[0, 1000]));
}

#[test]
fn sound_rows_are_those_of_the_file_without_the_others() {
    let text = "time_s,output_tokens\n0,1\n1,x\n3,4\n2,4\n5\n4,2\n\n6,-1\n";
    let sound = sound_rows("a.csv", text, false).expect("there are sound rows");
    assert_eq!(
        sound.trace,
        good("a.csv", "time_s,output_tokens\n0,1\n3,4\n4,2\n")
    );
    let rows: Vec<&str> = sound.spans.iter().map(|span| &text[span.clone()]).collect();
    assert_eq!(rows, ["0,1", "3,4", "4,2"]);
    assert_eq!((sound.bad_rows, sound.faults.len()), (4, 4));
    // Of a clock that jumped ahead that row alone, not all behind it.
    for (text, kept) in [
        ("time_s\n0\n1\n900\n2\n3\n4\n", "time_s\n0\n1\n2\n3\n4\n"),
        ("time_s\n900\n2\n3\n4\n", "time_s\n2\n3\n4\n"),
        ("time_s\n0\n5\n4\n6\n", "time_s\n0\n5\n6\n"),
        ("time_s\n0\n5\n4\n", "time_s\n0\n5\n"),
        (
            "time_s\n0\n5\n900\n6\n800\n7\n8\n",
            "time_s\n0\n5\n6\n7\n8\n",
        ),
    ] {
        let sound = sound_rows("a.csv", text, false).expect("there are sound rows");
        assert_eq!(sound.trace, good("a.csv", kept), "{text}");
        let bad = text.lines().count() - kept.lines().count();
        assert_eq!((sound.bad_rows, sound.faults.len()), (bad, bad), "{text}");
    }
    // Of the whole file, not of a row.
    for text in [
        "time_s\n\"1\n2\n",
        "a\n1\n",
        "time_s\n",
        "time_s,time_s\n1,2\n",
        "time_s\n2e9\n3e9\n",
    ] {
        let faults = sound_rows("a.csv", text, false).expect_err("it is no trace");
        assert_eq!(Err(faults), parse("a.csv", text).map(|_| ()));
    }
    // More than are listed are counted.
    let text = format!("time_s\n0\n{}1\n", "x\n".repeat(50));
    let sound = sound_rows("a.csv", &text, false).expect("there are sound rows");
    assert_eq!(
        (sound.trace.times.len(), sound.bad_rows, sound.faults.len()),
        (2, 50, 20)
    );
}
