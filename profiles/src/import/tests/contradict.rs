//! Numbers of one row that contradict each other, and prose that contradicts what a table is taken for.

use super::super::{Kind, NoteKind, Options};
use super::run;

fn bench(text: &str) -> super::Done {
    run(Kind::LlamaBench, &Options::default(), &[("t.json", text)])
}

fn record(tokens: u32, fields: &str) -> String {
    format!(
        "{{\"build_commit\": \"ab12\", \"build_number\": 7, \"cpu_info\": \"Toy\", \"backends\": \"CPU\", \"model_type\": \"toy 1B Q4_0\", \"n_threads\": 4, \"n_prompt\": {tokens}, \"n_gen\": 0, {fields}}}"
    )
}

/// To see it fail, believe the times.
#[test]
fn a_row_whose_time_and_rate_differ_is_left_out_with_its_line() {
    let good = record(64, "\"avg_ns\": 1000000000, \"avg_ts\": 64.0");
    for (bad, says) in [
        (
            "\"avg_ns\": 2000000000, \"avg_ts\": 640.0",
            "t.json:3: `avg_ts` is 640 tokens/s, but 128 tokens in 2 s are 64",
        ),
        (
            "\"avg_ns\": 2000000000, \"samples_ns\": [1000000000, 1000000000]",
            "t.json:3: `avg_ns` is 2 s, but `samples_ns` have a mean of 1 s",
        ),
        (
            "\"avg_ns\": 1000000000, \"avg_ts\": 64.0, \"samples_ns\": [1000000000, 1000000000]",
            "t.json:3: `avg_ts` is 64 tokens/s, but 128 tokens in 1 s are 128",
        ),
    ] {
        let done = bench(&format!("[\n{good},\n{}\n]", record(128, bad)));
        done.says(NoteKind::Skipped, says);
        assert_eq!(
            done.number("engines.cpu.stages.ingest.per_token_s"),
            1.0 / 64.0
        );
    }
    // A mean of rates is above the rate of the mean time, the more the runs scatter.
    for fine in [
        "\"avg_ns\": 1000000000, \"stddev_ns\": 565685425, \"avg_ts\": 152.38, \"samples_ns\": [600000000, 1400000000]",
        "\"avg_ns\": 1000000000, \"stddev_ns\": 565685425, \"avg_ts\": 152.38",
        "\"avg_ns\": 1000000000, \"avg_ts\": 128.3",
        // Its variance of times has overflowed.
        "\"avg_ns\": 1000000000, \"stddev_ns\": 180000000, \"avg_ts\": 166.0, \"stddev_ts\": 110.0",
    ] {
        let done = bench(&format!("[{}]", record(128, fine)));
        assert!(!done.said().contains("contradict"), "{}", done.said());
        assert_eq!(done.files.len(), 1);
    }
}

/// To see it fail, take the greater whatever the least is.
#[test]
fn a_least_time_above_the_greatest_is_left_out_with_its_line() {
    let text = |min: f64| {
        format!(
            "precisions:\n  w4a16:\n    components:\n      Toy-1B:\n        performance_metrics:\n          Toy Board:\n            genie:\n              llm_metrics:\n                - context_length: 4096\n                  time_to_first_token_range_milliseconds:\n                    min: {min}\n                    max: 1600.0\n                  tokens_per_second: 20.0\n"
        )
    };
    let read = |min: f64| {
        let text = text(min);
        run(
            Kind::AiHub,
            &Options::default(),
            &[("toy.perf.yaml", text.as_str())],
        )
    };
    let done = read(1700.0);
    done.says(NoteKind::Skipped, "toy.perf.yaml:11: ");
    done.says(
        NoteKind::Skipped,
        "is above the greatest, 1600: they contradict each other",
    );
    assert!(!done.file().contains("stages.ingest]"), "{}", done.file());
    assert!(read(50.0).file().contains("stages.ingest]"));
}

const HEAD: &str = "| model | size | params | backend | threads | test | t/s |\n| --- | --- | --- | --- | --- | --- | --- |\n";

fn post(prose: &str) -> String {
    format!(
        "## Pixel 8 Pro\n\n{HEAD}| toy 1B Q8_0 | 1.00 GiB | 1.00 B | CPU | 4 | pp512 | 25.0 |\n\n{prose}\n\n{HEAD}| toy 1B Q8_0 | 1.00 GiB | 1.00 B | CPU | 4 | tg128 | 5.0 |\n"
    )
}

/// To see it fail, pass over what is no heading.
#[test]
fn prose_that_names_another_board_between_two_tables_is_remarked() {
    let read = |text: &str| run(Kind::LlamaBench, &Options::default(), &[("post.md", text)]);
    // Without a heading all is one thing.
    let bare =
        |prose: &str| post(prose).replace("## Pixel 8 Pro", "It runs on a Pixel 8 Pro, here.");
    let done = read(&bare("I then took my Raspberry Pi 5, and got this."));
    done.says(
        NoteKind::Warning,
        "post.md:7: prose names `raspberry pi 5` between rows that were read under no board, those before it in line 5 and behind it in line 11",
    );
    for same in [
        "The Pixel 8 Pro is slow here.",
        "It took a while, of course.",
    ] {
        let said = read(&bare(same)).said();
        assert!(!said.contains("prose names"), "{said}");
    }
    // Under a heading the rows behind the prose are another section's, which the sections' remark names.
    let said = read(&post("I then took my Raspberry Pi 5, and got this.")).said();
    assert!(said.contains("Pixel 8 Pro"), "{said}");
}
