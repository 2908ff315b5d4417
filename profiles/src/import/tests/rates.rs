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
        ("BestRateMB/s", 15_000.0),
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

const PORT: &str = "engines.cpu.port_gbps";

/// To see it fail, prefer what only reads.
#[test]
fn a_port_moves_what_the_fastest_program_moved() {
    for (line, gbps) in [
        (
            "memcpy: 8000.0 MB/s, memchr: 6000.0 MB/s, memset: 9000.0 MB/s",
            16.0,
        ),
        (
            "memcpy: 4000.0 MB/s, memchr: 6000.0 MB/s, memset: 9000.0 MB/s",
            9.0,
        ),
        (
            "memcpy: 4000.0 MB/s, memchr: 20000.0 MB/s, memset: 9000.0 MB/s",
            20.0,
        ),
    ] {
        assert_eq!(import(&format!("{line}\n")).number(PORT), gbps, "{line}");
    }
    for rate in ["1e-297", "1e-300", "1e300"] {
        let done = import(&format!("memcpy: {rate} MB/s\n"));
        assert!(done.files.is_empty(), "{rate}: {}", done.said());
        done.says(NoteKind::Skipped, "t.txt:1: ");
    }
}

/// To see it fail, begin a board at `# ` alone.
#[test]
fn logs_that_begin_with_their_header_are_boards_of_their_own() {
    let log = |board: &str, rate: u32| {
        format!(
            "sbc-bench v0.9.72 {board} (Tue, 12 May 2026 10:00:00 +0000)\n\nstandard memcpy : {rate}.0 MB/s\n\n"
        )
    };
    let text = log("Toy Pi 5", 4000) + &log("Toy Rock 5", 8000);
    let done = import(&text);
    assert_eq!(done.files.len(), 2, "{}", done.said());
    for (index, name, gbps) in [(0, "toy-pi-5", 8.0), (1, "toy-rock-5", 16.0)] {
        let (file, text) = &done.files[index];
        assert_eq!(file, &format!("{name}/soc.toml"));
        assert_eq!(super::number(text, GBPS), gbps, "{name}");
    }
}

/// To see it fail, take the rates of all threads together.
#[test]
fn rates_of_other_threads_are_of_another_thing() {
    let stream = |threads: u32, rate: f64| {
        format!(
            "Number of Threads requested = {threads}\nNumber of Threads counted = {threads}\n\
             Function    Best Rate MB/s  Avg time     Min time     Max time\nTriad:          {rate:.1}     0.017    0.016    0.017\n"
        )
    };
    let text = stream(1, 7000.0) + &stream(4, 15000.0);
    let done = import(&text);
    assert_eq!(done.files.len(), 2, "{}", done.said());
    assert_eq!(super::number(&done.files[0].1, GBPS), 7.0);
    assert_eq!(super::number(&done.files[1].1, GBPS), 15.0);
    let only = Options {
        only: vec![("threads".to_owned(), "4".to_owned())],
        ..Options::default()
    };
    let done = run(Kind::Bandwidth, &only, &[("t.txt", &text)]);
    assert_eq!(done.number(GBPS), 15.0);
    assert!(
        done.file().contains("STREAM Triad 15000 MB/s, 4 threads"),
        "{}",
        done.file()
    );
    // The same number once more is the same thing.
    let text = stream(4, 7000.0) + &stream(4, 15000.0);
    assert_eq!(import(&text).number(GBPS), 15.0);
}

/// To see it fail, do not read them.
#[test]
fn other_programs_are_read_or_refused_by_line() {
    let babel = |implementation: &str, unit: &str| {
        format!(
            "BabelStream\nVersion: 5.0\nImplementation: {implementation}\nFunction    {unit}  Min (sec)   Max         Average\n\
             Copy        12000.0     0.044       0.045       0.044\nDot         15000.0     0.035       0.036       0.036\n"
        )
    };
    let done = import(&babel("OpenMP", "MBytes/sec"));
    assert_eq!((done.number(GBPS), done.number(PORT)), (15.0, 15.0));
    let done = import(&babel("CUDA", "MBytes/sec"));
    assert_eq!(done.number("engines.gpu.port_gbps"), 15.0);
    let mebi = import(&babel("OpenMP", "MiBytes/sec")).number(GBPS);
    assert!((mebi - 15.728_64).abs() < 1e-4, "{mebi}");
    let done = import(&babel("OpenCL", "MBytes/sec"));
    assert!(done.files.is_empty(), "{}", done.said());
    done.says(
        NoteKind::Skipped,
        "t.txt:3: BabelStream's `OpenCL` runs on CPUs and on GPUs",
    );
    // One after the other, on two engines.
    let both = import(&(babel("OpenMP", "MBytes/sec") + &babel("CUDA", "MBytes/sec")));
    assert_eq!(both.files.len(), 2, "{}", both.said());

    let mbw = "0\tMethod: MEMCPY\tElapsed: 0.25000\tMiB: 1024.00000\tCopy: 4000.000 MiB/s\n\
               AVG\tMethod: MEMCPY\tElapsed: 0.25000\tMiB: 1024.00000\tCopy: 4096.000 MiB/s\n\
               AVG\tMethod: MCBLOCK\tElapsed: 0.02500\tMiB: 1024.00000\tCopy: 40960.000 MiB/s\n";
    let done = import(mbw);
    assert!(
        (done.number(GBPS) - 2.0 * 4096.0 * 1_048_576e-9).abs() < 1e-5,
        "{}",
        done.file()
    );
    done.says(
        NoteKind::Skipped,
        "t.txt:1: mbw's `MEMCPY`: of its runs the average",
    );
    done.says(NoteKind::Skipped, "t.txt:3: mbw's `MCBLOCK`");
    done.says(NoteKind::Read, "mbw MEMCPY 4096 MiB/s");

    for line in [
        "stress-ng: info:  [12] stream: memory rate: 12345.67 MB read/sec, 8230.45 MB write/sec, 1028.81 double precision Mflop/sec (instance 0)",
        "stress-ng: info:  [12] stress-ng-stream: memory rate: 9483.52 MB/sec, 3793.41 Mflop/sec (instance 0)",
    ] {
        let done = import(&format!("a log\n{line}\n"));
        assert!(done.files.is_empty(), "{line}");
        done.says(NoteKind::Skipped, "t.txt:2: stress-ng's rate");
    }
}

/// To see it fail, take the headings above rates for nothing.
#[test]
fn rates_under_other_headings_are_of_other_boards() {
    let stream = |rate: u32| {
        format!(
            "Function    Best Rate MB/s  Avg time     Min time     Max time\nCopy:           {rate}.0     0.017    0.016    0.017\n\n"
        )
    };
    let two = format!(
        "## Toy Rock\n\n{}## Toy Pi\n\n{}",
        stream(8000),
        stream(4000)
    );
    let done = import(&two);
    let names: Vec<&str> = done.files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["toy-rock/soc.toml", "toy-pi/soc.toml"]);
    assert_eq!(super::number(&done.files[1].1, GBPS), 4.0);
    done.says(NoteKind::Warning, "rates stand under several headings");
    // One heading, or one above another without rates, tells nothing apart.
    let one = format!(
        "## Toy Rock\n\n### Copies\n\n{}{}",
        stream(8000),
        stream(4000)
    );
    let done = import(&one);
    assert_eq!(done.files.len(), 1);
    assert!(!done.said().contains("several headings"), "{}", done.said());
}

/// To see it fail, look for titles at the beginning of lines alone.
#[test]
fn a_report_behind_one_that_has_no_end_is_another_board() {
    let report = |name: &str, rate: u32| {
        format!(
            "# {name}\n\nTested with sbc-bench v0.9.72 on Mon. Full info: x\n\nmemcpy: {rate}.0 MB/s\n\n  * Kernel 6.1 / CONFIG_HZ=300"
        )
    };
    let done = import(&(report("Toy Pi", 4000) + &report("Toy Rock", 8000)));
    let names: Vec<&str> = done.files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["toy-pi/soc.toml", "toy-rock/soc.toml"]);
    assert_eq!(super::number(&done.files[0].1, GBPS), 8.0);
}
