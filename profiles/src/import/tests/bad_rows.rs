//! Faulty rows of traces: all are told, and they are left out only where that is asked for.

use std::fmt::Write as _;

use super::super::{Kind, NoteKind, Options};
use super::run;

fn import(name: &str, text: &str, skip_bad_rows: bool) -> super::Done {
    let options = Options {
        skip_bad_rows,
        ..Options::default()
    };
    run(Kind::Trace, &options, &[(name, text)])
}

const CSV: &str =
    "time_s,prompt_tokens,output_tokens\n0,1,2\n1,x,2\n2,3,4\n1.5,3,4\n3,-1,4\n4,5\n5,6,7\n";

#[test]
fn all_faulty_rows_are_told_and_left_out_only_on_request() {
    let faults = [
        "t.csv:3: ",
        "t.csv:5: `time_s` falls",
        "t.csv:6: ",
        "t.csv:7: the row has 2 cells, the header 3",
    ];
    let done = import("t.csv", CSV, false);
    assert!(done.files.is_empty());
    for fault in faults {
        done.says(NoteKind::Refused, fault);
    }
    done.says(
        NoteKind::Refused,
        "t.csv: 4 of 7 rows are faulty; --skip-bad-rows leaves them out",
    );
    let done = import("t.csv", CSV, true);
    for fault in faults {
        done.says(NoteKind::Skipped, fault);
    }
    done.says(
        NoteKind::Warning,
        "4 of 7 rows are faulty and left out: the trace has fewer arrivals than were recorded",
    );
    assert_eq!(
        done.file(),
        "time_s,prompt_tokens,output_tokens\n0,1,2\n2,3,4\n5,6,7\n"
    );
    let json = "{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 6}\n{\"timestamp\": 10, \"input_\n{\"timestamp\": 20, \"input_length\": 5, \"input_length\": 7, \"output_length\": 6}\n{\"timestamp\": 30, \"input_length\": 8, \"output_length\": 0}\n";
    let done = import("m.jsonl", json, true);
    done.says(NoteKind::Skipped, "m.jsonl:2: the line is not JSON");
    done.says(
        NoteKind::Skipped,
        "m.jsonl:3: `input_length` is given twice",
    );
    done.says(NoteKind::Warning, "1 of 2 rows have 0 `output_length`");
    assert_eq!(
        done.file(),
        "time_s,prompt_tokens,output_tokens\n0,5,6\n0.03,8,0\n"
    );
}

#[test]
fn what_is_no_fault_of_a_row_refuses_the_file() {
    for (text, says) in [
        ("when,prompt_tokens\n1,2\n", "the trace has no time column"),
        ("time_s,time_s\n1,2\n", "column `time_s` is given twice"),
        ("time_s\n0\n\"1\n2\n", "the quote is never closed"),
        (
            "time_s\n1700000000\n1700000001\n",
            "after the start of the run",
        ),
        ("time_s\nx\ny\n", "2 of 2 rows are faulty"),
        ("time_s\n", "the trace has no rows"),
    ] {
        let done = import("t.csv", text, true);
        assert!(done.files.is_empty(), "{text}\n{}", done.said());
        done.says(NoteKind::Refused, says);
        assert!(!done.said().contains("--skip-bad-rows"), "{}", done.said());
    }
    // Wall-clock times count from the first row that is sound.
    let text = "TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,2\n2023-11-16 18:17:03,1,2\n2023-11-16 18:17:05,3,4\n";
    let done = import("a.csv", text, true);
    assert_eq!(
        done.file(),
        "time_s,prompt_tokens,output_tokens\n0,1,2\n2,3,4\n"
    );
}

#[test]
fn faults_are_counted_over_all_pieces_and_rows_stay_in_order() {
    // More than a piece; every hundredth row is faulty, and one time of the second piece lies before the first's last.
    let mut text = String::from("time_s,prompt_tokens,output_tokens\r\n");
    let rows = 100_000;
    for row in 0..rows {
        _ = match row {
            row if row % 100 == 7 => writeln!(text, "{row},?,2\r"),
            90_001 => writeln!(text, "5,3,2\r"),
            row => writeln!(text, "{row}.25,{row},2\r"),
        };
    }
    assert!(text.len() > 3 << 19, "it is more than a piece");
    let done = import("t.csv", &text, false);
    assert!(done.files.is_empty());
    let listed = done.notes.list.iter().filter(|note| note.line.is_some());
    assert_eq!(listed.count(), 10, "{}", done.said());
    done.says(NoteKind::Refused, "1001 of 100000 rows are faulty");
    let done = import("t.csv", &text, true);
    done.says(
        NoteKind::Warning,
        "1001 of 100000 rows are faulty and left out",
    );
    let kept: Vec<&str> = done.file().lines().skip(1).collect();
    let expected: Vec<String> = (0..rows)
        .filter(|row| row % 100 != 7 && *row != 90_001)
        .map(|row| format!("{row}.25,{row},2"))
        .collect();
    assert_eq!(kept, expected);
}

/// A clock that jumps ahead for one row costs that row, wherever the pieces end in which a file is read (1 MiB, 65536
/// rows here). To see it fail, write the last row of a piece with the piece.
#[test]
fn one_late_time_costs_one_row() {
    for late in [1, 65_534, 65_535, 65_536, 65_537, 69_999] {
        let mut text = "time_s\n".to_owned();
        let mut kept = text.clone();
        for row in 0..70_000 {
            if row == late {
                _ = writeln!(text, "{:015}", 900_000 + row);
            } else {
                _ = writeln!(text, "{row:015}");
                _ = writeln!(kept, "{row}");
            }
        }
        // At the very end nothing tells that it is late.
        let last = late == 69_999;
        if last {
            _ = writeln!(kept, "{}", 900_000 + late);
        }
        let done = import("t.csv", &text, true);
        assert!(done.file() == kept, "{late}");
        if !last {
            let line = late + 2;
            done.says(
                NoteKind::Skipped,
                &format!("t.csv:{line}: `time_s` jumps ahead"),
            );
            done.says(NoteKind::Warning, "1 of 70000 rows are faulty and left out");
        }
    }
}

/// A piece of a file says what the file would: its rows, behind more than a piece of faulty ones, are taken as they are
/// behind three. To see it fail, put the first row before every piece twice.
#[test]
fn faulty_rows_between_two_pieces_change_nothing() {
    const BAD: &str = "x,1,2\n";
    let full = (1 << 20) / BAD.len();
    let rows = |times: &[u32]| -> String {
        let rows = times.iter().map(|time| format!("{time},1,0\n"));
        rows.collect()
    };
    for (before, after) in [
        (&[][..], &[1000, 1, 2, 3][..]),
        (&[1000], &[1, 2, 3]),
        (&[0, 5, 1000], &[3, 4, 6]),
        (&[0, 5, 1000], &[6, 7]),
        (&[7], &[1, 2, 8]),
        (&[9, 9], &[1, 2, 3]),
        (&[0, 9, 1], &[9, 2, 3]),
        (&[0, 9, 1], &[2, 3]),
        (&[0, 9, 1], &[]),
        (&[0, 9, 1], &[10]),
    ] {
        for start in [&[][..], &[0]] {
            let of = |bad: usize| {
                let text = format!(
                    "time_s,prompt_tokens,output_tokens\n{}{}{}{}{}",
                    rows(start),
                    BAD.repeat(bad),
                    rows(before),
                    BAD.repeat(bad),
                    rows(after)
                );
                let done = import("t.csv", &text, true);
                let empty = done.said();
                let empty = empty.split(" have 0 `").next().unwrap_or("");
                let empty = empty.rsplit("warning: ").next().unwrap_or("").to_owned();
                (done.file().to_owned(), empty)
            };
            let small = of(3);
            for bad in [full, full + 1] {
                assert_eq!(of(bad), small, "{start:?} {before:?} {after:?} {bad}");
            }
        }
    }
}
