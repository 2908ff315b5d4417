//! Lines around and between the rows of a table, and what is said of every row.

use super::super::{Kind, NoteKind, Options};
use super::samples::samples;
use super::{run, run_bytes};

const HEAD: &str = "| model | size | params | backend | threads | test | t/s |\n| --- | --- | --- | --- | --- | --- | --- |\n";

fn row(test: &str, rate: f64) -> String {
    format!("| toy 1B Q4_0 | 1.00 GiB | 1.00 B | CPU | 4 | {test} | {rate:.2} ± 0.10 |\n")
}

fn import(text: &str) -> super::Done {
    run(Kind::LlamaBench, &Options::default(), &[("t.md", text)])
}

#[test]
fn whatever_stands_above_a_table_may_name_another_board() {
    let post = |first: &str, second: &str| {
        let table = |test: &str| format!("{HEAD}{}", row(test, 25.0));
        format!(
            "{first}\n\n{}\n{second}\n\n{}",
            table("pp512"),
            table("tg128")
        )
    };
    for (first, second) in [
        ("Pixel 8 Pro", "Galaxy S24 Ultra"),
        ("**M2 Pro MacBook**", "**M3 Max MacBook**"),
        ("Jetson Orin Nano", "Jetson AGX Orin"),
        ("NanoPC-T6 (RK3588, 16GB)", "Khadas VIM4 (A311D2)"),
        ("<summary>Pixel 8</summary>", "<summary>Pixel 9</summary>"),
        (
            "$ taskset -c 4-7 ./llama-bench -p 512 -n 0",
            "$ taskset -c 0-3 ./llama-bench -p 0 -n 128",
        ),
        (
            "pi@pi5:~$ ./llama-bench -p 512 -n 0",
            "pi@pi4:~$ ./llama-bench -p 0 -n 128",
        ),
        ("governor = performance", "governor = powersave"),
        ("at 15W", "at 25W"),
        ("32-bit LPDDR4X", "64-bit LPDDR5"),
        ("Rock mit 2,4 GHz", "Rock mit 1,4 GHz"),
        ("With commit ab12 (b3000)", "With commit cd34 (b4000)"),
        (
            "## Pixel 8 Pro\n\nIt was warm that day.",
            "## Galaxy S24\n\nIt was not.",
        ),
        (
            "## Pixel 8 Pro\n\nload_backend: loaded CPU backend",
            "## Galaxy S24",
        ),
    ] {
        let post = post(first, second);
        let options = Options::default();
        let files: [(&str, &[u8]); 1] = [("post.md", post.as_bytes())];
        let done = run_bytes(Kind::LlamaBench, &options, &files, false);
        assert!(done.files.is_empty(), "{first}, {second}\n{}", done.said());
        done.says(NoteKind::Refused, "these are 2 different things");
        assert_eq!(import(&post).files.len(), 2, "{first}, {second}");
    }
    // So does what names none, and what has no heading.
    for (first, second, says) in [
        (
            "My board",
            "Results of a friend",
            "`My board` (t.md:5), `Results of a friend` (t.md:11)",
        ),
        (
            "",
            "Results of a friend",
            "rows under no heading (t.md:5), `Results of a friend` (t.md:11)",
        ),
        (
            "It is my own board.",
            "**Other**",
            "rows under no heading (t.md:5), `Other` (t.md:11)",
        ),
    ] {
        let done = import(&post(first, second));
        assert_eq!(done.files.len(), 2, "{first}, {second}\n{}", done.said());
        done.says(NoteKind::Warning, says);
    }
    // A command that says no more than its table.
    let done = import(&post(
        "$ ./llama-bench -p 512 -n 0",
        "$ ./llama-bench -p 0 -n 128",
    ));
    assert_eq!(done.files.len(), 1, "{}", done.said());
    assert!(!done.said().contains("the sections"), "{}", done.said());
}

#[test]
fn rows_go_on_after_a_log_and_a_blank_line() {
    let rows = [("pp512", 25.0), ("pp512 @ d4096", 20.0), ("tg128", 10.0)];
    let with = |between: &str| {
        let rows: Vec<String> = rows.iter().map(|(test, rate)| row(test, *rate)).collect();
        format!("{HEAD}{between}{}", rows.join(between))
    };
    let plain = import(&with(""));
    for between in [
        "\n",
        "load_backend: loaded CPU backend\n",
        "ggml_vulkan: Found 1 Vulkan devices:\n\n",
        "[New LWP 12]\n",
    ] {
        let done = import(&with(between));
        let numbers = |text: &str| -> Vec<String> {
            let lines = text.lines().filter(|line| line.contains("value ="));
            lines.map(str::to_owned).collect()
        };
        assert_eq!(numbers(done.file()), numbers(plain.file()), "{between}");
    }
    // The device that is named there is the rows'.
    let done = import(&with("ggml_vulkan: 0 = Toy GPU | uma: 1\n"));
    assert!(done.file().contains("soc = Toy GPU"), "{}", done.file());
    // After prose, rows are of no known table; a header after a blank line is one.
    let text = format!(
        "{HEAD}{}And then I ran it once more.\n{}",
        row("pp512", 25.0),
        row("tg128", 10.0)
    );
    import(&text).says(NoteKind::Skipped, "t.md:5: a row without a header");
    let text = format!(
        "{HEAD}{}\n| test | t/s |\n| tg128 | 10.00 |\n",
        row("pp512", 25.0)
    );
    assert_eq!(import(&text).files.len(), 2);
}

#[test]
fn costs_from_deep_rows_alone_are_said_to_be() {
    let deep = |rows: &str| import(&format!("{HEAD}{}{rows}", row("pp512", 25.0)));
    let done = deep(&row("tg128 @ d4096", 8.0));
    done.says(
        NoteKind::Warning,
        "t.md:4: engine `cpu`, decode: no row has a context below 4096 tokens; there the cost is taken to be the same",
    );
    assert!(
        done.file().contains("measured_context = [4096, 4224]"),
        "{}",
        done.file()
    );
    let done = deep(&(row("tg128 @ d4096", 8.0) + &row("tg128 @ d8192", 6.0)));
    done.says(
        NoteKind::Warning,
        "the line through the deeper rows goes on",
    );
    let done = deep(&(row("tg128", 10.0) + &row("tg128 @ d4096", 8.0)));
    assert!(
        !done.said().contains("no row has a context below"),
        "{}",
        done.said()
    );
}

#[test]
fn every_import_says_what_became_of_what() {
    for (kind, name, text) in samples() {
        let done = run(kind, &Options::default(), &[(name, &text)]);
        let said = |note: &&super::Note| note.kind == NoteKind::Read && note.file == name;
        assert!(
            done.notes.list.iter().any(|note| said(&note)),
            "{name}\n{}",
            done.said()
        );
        let costs = !matches!(
            kind,
            Kind::Trace | Kind::Gguf | Kind::HfConfig | Kind::Bandwidth
        );
        if costs {
            let line = |note: &&super::Note| said(note) && note.line.is_some();
            assert!(
                done.notes.list.iter().any(|note| line(&note)),
                "{name}\n{}",
                done.said()
            );
            done.says(NoteKind::Read, "engine `");
        }
    }
    let done = import(&format!("{HEAD}{}", row("pp512", 25.6)));
    done.says(
        NoteKind::Read,
        "t.md:3: engine `cpu`: ingest and query_prefill of t.md line 3 `pp512` 25.60 ± 0.10 t/s",
    );
    // What has no place in a profile is said as well.
    let text = "| Model | Dtype | Seqlen | New_Tokens | TTFT(ms) | Tokens/s | Memory(MB) | Platform |\n|-|-|-|-|-|-|-|-|\n| Toy 1B | w8a8 | 128 | 64 | 512.0 | 16.0 | 900 | RK3588 |\n";
    let done = run(Kind::Rkllm, &Options::default(), &[("r.md", text)]);
    done.says(
        NoteKind::Skipped,
        "r.md:1: no time, so not used: Memory(MB)",
    );
    let text =
        "| model | Stage | RK3588(w8a8) |\n|-|-|-|\n| Toy-VL | img-encoder(392*392) | 3.28s |\n";
    let done = run(Kind::Rkllm, &Options::default(), &[("r.md", text)]);
    done.says(
        NoteKind::Read,
        "encode of r.md line 3 `encode 392x392` 3.28s",
    );
}
