//! Rates have the unit that stands there, or are not taken.

use super::super::{Kind, NoteKind, Options};
use super::run;

fn import(text: &str) -> super::Done {
    run(Kind::Bandwidth, &Options::default(), &[("t.txt", text)])
}

const GBPS: &str = "memory.bandwidth_gbps";

#[test]
fn stream_has_the_unit_of_its_header() {
    let stream = |unit: &str, rate: f64| {
        format!(
            "Function    Best Rate {unit}  Avg time     Min time     Max time\nTriad:          {rate}     0.017    0.016    0.017\n"
        )
    };
    for (unit, rate) in [
        ("MB/s", 15_000.0),
        ("(MB/s)", 15_000.0),
        ("GB/s", 15.0),
        ("MiB/s", 15e9 / 1_048_576.0),
        ("GiB/s", 15e9 / 1_073_741_824.0),
    ] {
        let gbps = import(&stream(unit, rate)).number(GBPS);
        assert!((gbps - 15.0).abs() < 1e-4, "{unit}: {gbps}");
    }
    for (unit, says) in [
        ("Gb/s", "t.txt:1: `Gb/s` is no unit of a rate"),
        ("", "t.txt:1: the unit of the rate is not stated"),
    ] {
        let done = import(&stream(unit, 15.0));
        assert!(done.files.is_empty(), "{unit}");
        done.says(NoteKind::Skipped, says);
    }
    let done = import("Triad:   15000.0   0.017   0.016   0.017\n");
    assert!(done.files.is_empty());
    done.says(
        NoteKind::Skipped,
        "t.txt:1: STREAM's `Triad` without its header",
    );
    let done = import(&stream("MB/s", f64::NAN));
    done.says(NoteKind::Skipped, "t.txt:2: STREAM's `Triad`");
}

#[test]
fn a_list_has_the_unit_of_its_header_or_cell() {
    let list = |header: &str, cells: &str| {
        format!("| Device | {header} |\n|---|---|---|\n| Toy | {cells} |\n")
    };
    for (header, cells) in [
        ("memcpy MB/s | memset MB/s", "5000 | 9000"),
        ("memcpy GB/s | memset (GB/s)", "5.0 | 9.0"),
        ("memcpy | memset", "5.0 GB/s | 9GB/s"),
        ("memcpy MB/s | memset MB/s", "5.0 GB/s | 9000 MB/s"),
    ] {
        let done = import(&list(header, cells));
        assert_eq!(done.number(GBPS), 10.0, "{header}: {cells}");
    }
    for (header, cells, says) in [
        (
            "memcpy | memset",
            "5.0 | 9.0",
            "t.txt:3: memcpy of Toy: the unit of the rate is not stated",
        ),
        (
            "memcpy Gb/s | memset Gb/s",
            "5.0 | 9.0",
            "t.txt:1: `memcpy Gb/s`: `Gb/s` is no unit",
        ),
        (
            "memcpy | memset",
            "5.0 mb/s | 9.0 mb/s",
            "t.txt:3: memcpy of Toy: `mb/s` is no unit",
        ),
    ] {
        let done = import(&list(header, cells));
        assert!(done.files.is_empty(), "{header}: {cells}");
        done.says(NoteKind::Skipped, says);
    }
    // sbc-bench's own list states none: it is tinymembench's.
    let own = "| Device / details | Clockspeed | 7-zip multi | memcpy | memset |\n|-|-|-|-|-|\n| Toy | 1800 | 9000 | 5000 | 9000 |\n";
    assert_eq!(import(own).number(GBPS), 10.0);
}

#[test]
fn rows_of_tinymembench_that_are_not_taken_are_said() {
    let text = " C copy backwards      :   3004.9 MB/s (0.2%)\n standard memcpy       :   3.1 GB/s\n standard memset       :   8100.0 Mb/s\n";
    let done = import(text);
    assert_eq!(done.number(GBPS), 6.2);
    done.says(
        NoteKind::Skipped,
        "t.txt:1: `C copy backwards` 3004.9 MB/s is none of",
    );
    done.says(NoteKind::Skipped, "t.txt:3: `memset`: `Mb/s` is no unit");
    let text = " C copy backwards : inf MB/s\n standard memcpy : 3.1 GB/s\n standard memset : inf MB/s\n C fill : - MB/s\n";
    let done = import(text);
    for said in [
        "t.txt:1: `C copy backwards`: `inf` is no rate",
        "t.txt:3: `memset`: no number in `inf MB/s`",
        "t.txt:4: `C fill`: `-` is no rate",
    ] {
        done.says(NoteKind::Skipped, said);
    }
}

/// To see it fail, leave the bounds out: twice the copy is beyond all numbers.
#[test]
fn a_rate_that_no_memory_has_is_told() {
    for copy in ["1e308", "1e-320", "900000000"] {
        let done = import(&format!("memcpy: {copy} MB/s, memset: 8000.0 MB/s\n"));
        done.says(NoteKind::Skipped, "t.txt:1: `memcpy");
        done.says(NoteKind::Skipped, "out of all bounds");
        assert_eq!(done.number(GBPS), 8.0, "{copy}");
        let done = import(&format!("memcpy: {copy} MB/s\n"));
        assert!(done.files.is_empty(), "{copy}");
    }
}

/// To see it fail, take all rates of a file as of one board.
#[test]
fn a_title_behind_rates_is_another_board() {
    let done = import(
        "# Rock 5B\n\nmemcpy: 10000.0 MB/s\n\n# Raspberry Pi 5\n\nmemcpy: 5000.0 MB/s, memset: 9000.0 MB/s\n",
    );
    let names: Vec<&str> = done.files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["rock-5b/soc.toml", "raspberry-pi-5/soc.toml"]);
    let rock = &done.files[0].1;
    assert!(
        rock.contains("value = 20") && !rock.contains("9000"),
        "{rock}"
    );
}
