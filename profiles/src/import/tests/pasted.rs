//! Results as people paste them: escaped by forums, with numbers of other countries, objects one at a time.

use super::super::text::{leading_number, point};
use super::super::{Kind, NoteKind, Options};
use super::run;
use super::samples::{JSONL, RKLLAMA, RKLLM, TABLE};

const PER_TOKEN: &str = "engines.cpu.stages.ingest.per_token_s";

fn bench(name: &str, text: &str) -> super::Done {
    run(Kind::LlamaBench, &Options::default(), &[(name, text)])
}

fn objects() -> (&'static str, &'static str) {
    JSONL.trim_end().split_once('\n').expect("there are two")
}

#[test]
fn an_object_with_no_number_is_left_out_by_its_line_and_the_others_stay() {
    let (prefill, decode) = objects();
    let whole = bench("t.jsonl", JSONL);
    for word in ["NaN", "nan", "-nan", "inf", "-inf", "Infinity", "-nan(ind)"] {
        let faulty = prefill.replace("\"stddev_ns\": 10", &format!("\"stddev_ns\": {word}"));
        let layouts = [
            ("t.jsonl", format!("{faulty}\n{prefill}\n{decode}\n"), 1),
            ("t.json", format!("[{prefill}, {faulty}, {decode}]"), 1),
            (
                "t.json",
                format!("[\n{prefill},\n{faulty},\n{decode}\n]\n"),
                3,
            ),
            (
                "t.json",
                format!("[\n{},\n{prefill},\n{decode}]", spread(&faulty)),
                2,
            ),
        ];
        for (name, text, line) in layouts {
            let done = bench(name, &text);
            let says = format!(
                "{name}:{line}: the object that starts here has `stddev_ns` = `{word}`, which is no number"
            );
            done.says(NoteKind::Skipped, &says);
            assert_eq!(done.number(PER_TOKEN), whole.number(PER_TOKEN), "{text}");
            let path = "engines.cpu.stages.decode.per_token_s";
            assert_eq!(done.number(path), whole.number(path), "{text}");
        }
    }
    // A word within a text is none, and a fault is told at the line of the file.
    let named = prefill.replace("\"Toy\"", "\"a: nan, \\\" {inf}\"");
    assert!(!bench("t.jsonl", &named).said().contains("no number"));
    let faulty = spread(prefill).replace("\"n_gen\": 0", "\"n_gen\": zero");
    let done = bench("t.json", &format!("a log\n[\n{faulty},\n{decode}\n]\n"));
    let line = 1
        + faulty
            .lines()
            .position(|line| line.contains("zero"))
            .expect("it is there")
        + 2;
    let says = format!(
        "t.json:3: the object that starts here is no JSON: expected value (line {line}, column "
    );
    done.says(NoteKind::Skipped, &says);
    assert_eq!(done.files.len(), 1, "{}", done.said());
}

/// An object with one field a line.
fn spread(object: &str) -> String {
    object
        .replacen('{', "{\n  ", 1)
        .replace(", \"", ",\n  \"")
        .replace('}', "\n}")
}

#[test]
fn a_single_object_is_read_on_one_line_or_on_many() {
    let (prefill, decode) = objects();
    let plain = bench("t.jsonl", prefill).number(PER_TOKEN);
    for text in [
        prefill.to_owned(),
        spread(prefill),
        format!(
            "load_backend: loaded CPU backend\n{}\n[1] 12 aborted\n",
            spread(prefill)
        ),
    ] {
        let done = bench("t.json", &text);
        assert_eq!(done.number(PER_TOKEN), plain, "{text}");
    }
    // One after the other, as `jq '.[]'` writes them.
    let done = bench(
        "t.json",
        &format!("{}\n{}\n", spread(prefill), spread(decode)),
    );
    assert_eq!(done.number("engines.cpu.stages.decode.per_token_s"), 0.1);
    // One that is cut off, after one that is not.
    let text = spread(decode);
    let done = bench(
        "t.json",
        &format!("{}\n{}", spread(prefill), &text[..text.len() / 2]),
    );
    done.says(NoteKind::Skipped, "the object that starts here is cut off");
    assert_eq!(done.number(PER_TOKEN), plain);
}

#[test]
fn a_key_that_is_meant_for_another_is_told() {
    let (prefill, _) = objects();
    for (right, wrong) in [
        ("n_depth", "n_deph"),
        ("n_depth", "nDepth"),
        ("samples_ns", "sample_ns"),
        ("model_size", "model_sizes"),
        ("n_prompt", "n_promt"),
    ] {
        let done = bench(
            "t.jsonl",
            &prefill.replace(&format!("\"{right}\""), &format!("\"{wrong}\"")),
        );
        assert!(done.files.is_empty(), "{wrong}\n{}", done.said());
        let says = format!("t.jsonl:1: column `{right}` is missing; the nearest is `{wrong}`");
        done.says(NoteKind::Skipped, &says);
    }
    // What is merely new is part of what was measured.
    let new = prefill.replace("\"n_threads\"", "\"n_prefetch\": 3, \"n_threads\"");
    assert_eq!(bench("t.jsonl", &new).files.len(), 1);
    let csv = "build_commit,cpu_info,model_type,n_threads,n_prompt,n_gen,n_dept,avg_ts,stddev_ts\na,b,toy 1B Q4_0,4,512,0,4096,32.0,0.1\n";
    let done = bench("t.csv", csv);
    done.says(
        NoteKind::Skipped,
        "t.csv:2: column `n_depth` is missing; the nearest is `n_dept`",
    );
}

#[test]
fn what_a_forum_escapes_is_what_it_was() {
    let plain = bench("t.md", TABLE);
    let text = |escape: &dyn Fn(&str) -> String| TABLE.lines().map(escape).collect::<Vec<_>>();
    let in_tables = |change: fn(&str) -> String| {
        text(&move |line| {
            if line.starts_with('|') {
                change(line)
            } else {
                line.to_owned()
            }
        })
        .join("\n")
    };
    for changed in [
        in_tables(|line| line.replace('±', "&plusmn;")),
        in_tables(|line| line.replace('±', "&#177;")),
        in_tables(|line| line.replace('±', "&#xB1;").replace(" @ ", "&nbsp;\\@ ")),
        in_tables(|line| line.replace(" @ ", " &commat; ").replace('+', "&#43;")),
        in_tables(|line| {
            line.replace('_', "\\_")
                .replace('+', "\\+")
                .replace('-', "\\-")
        }),
        in_tables(|line| line.replace('|', "\\|")),
    ] {
        let done = bench("t.md", &changed);
        assert_eq!(done.said(), plain.said(), "{changed}");
        assert_eq!(done.files, plain.files, "{changed}");
    }
    // A bar within a cell is a part of it.
    let named = in_tables(|line| line.replace("OpenCL", "OpenCL\\|A"));
    let done = bench("t.md", &named);
    assert!(done.file().contains("OpenCL|A"), "{}", done.file());
    let named = in_tables(|line| line.replace("toy 1B", "toy &amp; 1B"));
    let done = bench("t.md", &named);
    assert!(done.files[0].0.contains("toy-1b"), "{}", done.files[0].0);
}

#[test]
fn parted_thousands_are_read_where_they_mean_nothing_else() {
    for (text, number) in [
        ("1,025.25", "1025.25"),
        ("1.025,25", "1025.25"),
        ("1 025.25", "1025.25"),
        ("1 025,25", "1025.25"),
        ("1'025.25", "1025.25"),
        ("1\u{202f}025", "1025"),
        ("1,025,250", "1025250"),
        ("1.025.250", "1025250"),
        ("1,025,250.5", "1025250.5"),
        ("1025,25", "1025.25"),
        ("12,5", "12.5"),
        ("0,512", "0.512"),
        ("1234,567", "1234.567"),
        ("1.025", "1.025"),
        ("nan", "nan"),
        ("1e-5", "1e-5"),
    ] {
        assert_eq!(point(text).as_deref(), Ok(number), "{text}");
    }
    // Neither is a number, and neither becomes one.
    for text in [
        "1,02,5",
        "12,34.5",
        "1,025.2.5",
        "1 02",
        "1,,5",
        ",5",
        "1,025,25",
        "1'25",
    ] {
        assert_eq!(point(text).as_deref(), Ok(text));
    }
    for text in ["1,025", "12,345", "999,000"] {
        let why = point(text).expect_err("it may be two things");
        assert!(why.contains("write it without a comma"), "{why}");
    }
    assert_eq!(leading_number("1,5 ms"), Ok(Some((1.5, "ms"))));
    assert_eq!(leading_number("12, 5"), Ok(Some((12.0, ", 5"))));
    assert_eq!(
        leading_number("3,593.8 MB/s, x"),
        Ok(Some((3593.8, "MB/s, x")))
    );
    assert!(leading_number("3,593 MB/s").is_err());

    let table = |rate: &str, size: &str| {
        let head = "| model | size | backend | threads | test | t/s |\n|-|-|-|-|-|-|\n";
        bench(
            "t.md",
            &format!("{head}| toy 1B Q8_0 | {size} | CPU | 4 | pp512 | {rate} |\n"),
        )
    };
    let plain = table("1025.25 ± 3.1", "1.50 GiB");
    for (rate, size) in [
        ("1,025.25 ± 3.1", "1,50 GiB"),
        ("1.025,25 ± 3,1", "1.50 GiB"),
    ] {
        let done = table(rate, size);
        assert_eq!(done.number(PER_TOKEN), plain.number(PER_TOKEN));
        let cv = |done: &super::Done| {
            done.file()
                .split("cv = ")
                .nth(1)
                .map(|rest| rest[..8].to_owned())
        };
        assert_eq!(cv(&done), cv(&plain));
    }
    for (rate, size, says) in [
        ("1,025 ± 3", "1.50 GiB", "`1,025` is 1025 or 1.025"),
        ("2025.25 ± 1,025", "1.50 GiB", "`1,025` is 1025 or 1.025"),
        (
            "25.25 ± 1",
            "1,536 MiB",
            "the size `1,536` is 1536 or 1.536",
        ),
    ] {
        let done = table(rate, size);
        assert!(done.files.is_empty(), "{rate}, {size}");
        done.says(NoteKind::Skipped, says);
    }
}

#[test]
fn stage_tables_take_decimal_commas() {
    let rkllm = |text: &str| run(Kind::Rkllm, &Options::default(), &[("r.md", text)]);
    let plain = rkllm(RKLLM);
    let comma = RKLLM
        .replace("3.28s", "3,28s")
        .replace("632.6ms", "632,6 ms")
        .replace("16.0 tokens/s", "16,0 tokens/s");
    let done = rkllm(&comma);
    let numbers = |done: &super::Done| -> Vec<String> {
        let lines = done.files.iter().flat_map(|(_, text)| text.lines());
        let own = lines.filter(|line| !line.starts_with("source ="));
        own.map(str::to_owned).collect()
    };
    assert_eq!(numbers(&done), numbers(&plain));
    let done = rkllm(&RKLLM.replace("632.6ms", "1,025 ms"));
    done.says(
        NoteKind::Skipped,
        "`Prefill(len=196)` RK3588(w8a8): `1,025` is 1025 or 1.025: write it without a comma",
    );
}

/// To see it fail, read a text as it is.
#[test]
fn a_table_may_lack_the_bars_at_its_ends() {
    let bare = |text: &'static str| {
        // A first cell that is empty needs the bar before it.
        let row = |line: &'static str| line.strip_prefix('|').filter(|row| !row.starts_with(" |"));
        let lines = text.lines().map(|line| match row(line) {
            Some(row) => row.strip_suffix('|').unwrap_or(row).trim(),
            None => line,
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    let quoted = |text: &str| text.replace('\n', "\n> ");
    for (kind, text) in [(Kind::LlamaBench, TABLE), (Kind::Rkllm, RKLLM)] {
        let read = |text: &str| run(kind, &Options::default(), &[("t.md", text)]);
        let whole = read(text);
        for text in [
            bare(text),
            quoted(&bare(text)),
            bare(text).replace('\n', "\r\n"),
        ] {
            let done = read(&text);
            assert_eq!(done.files, whole.files, "{text}");
            assert_eq!(done.said(), whole.said(), "{text}");
        }
    }
    // Bars make no table without a rule of as many cells.
    for rule in ["", "--- | ---\n", "--- | --- | --- | 5\n"] {
        let text = format!("model | test | n | t/s\n{rule}a | pp512 | 1 | 25\n");
        let done = bench("t.md", &text);
        assert!(done.files.is_empty(), "{text}: {}", done.said());
    }
}

/// To see it fail, take any deviation.
#[test]
fn a_deviation_that_no_repeats_have_is_refused_by_line() {
    for (deviation, says) in [
        (
            "400.00",
            "t.md:6: `pp512`: a deviation of 400 is 3.125 times the rate: five repeats",
        ),
        (
            "-0.50",
            "t.md:6: `pp512`: a deviation of -0.5 is less than nothing",
        ),
    ] {
        let done = bench(
            "t.md",
            &TABLE.replace("128.00 ± 0.50", &format!("128.00 ± {deviation}")),
        );
        done.says(NoteKind::Skipped, says);
    }
    let text = RKLLAMA.replace("128.0±0.1", "128.0±300");
    let done = run(Kind::Rkllm, &Options::default(), &[("t.md", &text)]);
    done.says(
        NoteKind::Skipped,
        "t.md:5: `pp (tok/s)`: a deviation of 300 is 2.344 times the rate",
    );
}
