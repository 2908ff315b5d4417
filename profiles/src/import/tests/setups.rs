//! Headings, commands and other tables above tables: what tells two setups apart.

use super::super::{Kind, NoteKind, Options};
use super::{Done, run, run_bytes};

const HEAD: &str = "| model | size | params | backend | threads | test | t/s |\n| --- | --- | --- | --- | --- | --- | --- |\n";

fn table(above: &str, test: &str) -> String {
    format!(
        "{above}\n\n{HEAD}| toy 1B Q4_0 | 1.00 GiB | 1.00 B | CPU | 4 | {test} | 25.00 ± 0.10 |\n\n"
    )
}

fn post(first: &str, second: &str) -> String {
    table(first, "pp512") + &table(second, "tg128")
}

fn alone(text: &str, options: &Options) -> Done {
    run_bytes(
        Kind::LlamaBench,
        options,
        &[("post.md", text.as_bytes())],
        false,
    )
}

/// To see it fail, let two sections be one where no test is in both.
#[test]
fn whatever_differs_above_two_tables_keeps_them_apart() {
    for (first, second) in [
        ("At 16 W:", "At 25 W:"),
        ("q4_0 KV cache", "f16 KV cache"),
        ("", "f16 KV cache"),
        ("driver 570", "driver 580"),
        ("## Mesa 24.3", "## Mesa 25.1"),
        ("kernel 5.10", "kernel 6.1"),
        ("run 1 (cold)", "run 2"),
        ("### Snapdragon X Elite", "### Snapdragon X Plus"),
        ("**Elite**", "**Elite+**"),
        (
            "$ ./llama-bench -m a.gguf -ngl 0 -p 512",
            "$ ./llama-bench -m a.gguf -ngl 99 -n 128",
        ),
        (
            "$ ./llama-bench -m a.gguf -ctk q8_0",
            "$ ./llama-bench -m a.gguf -ctk f16",
        ),
        (
            "$ ./llama-bench -m a.gguf --flash-attn=1",
            "$ ./llama-bench -m a.gguf",
        ),
        (
            "$ ./llama-bench -m a.gguf \\\n  -b 64",
            "$ ./llama-bench -m a.gguf \\\n  -b 128",
        ),
        ("$ ./llama-bench -m a.gguf", "$ ./llama-bench -m b.gguf"),
        (
            "$ git checkout v1\n$ ./llama-bench",
            "$ git checkout v2\n$ ./llama-bench",
        ),
        (
            "$ echo powersave | sudo tee governor\n$ ./llama-bench",
            "$ echo performance | sudo tee governor\n$ ./llama-bench",
        ),
        // What stands further up.
        ("# Pi 5\n\n## Prefill", "# Rock 5\n\n## Decode"),
        ("At 16 W\nResults", "At 25 W\nResults"),
        ("**At 16 W**\n\n**Results**", "**At 25 W**\n\n**Results**"),
        // A table that is no result.
        (
            "| Board | RAM |\n|---|---|\n| Pi 5 | 8 |",
            "| Board | RAM |\n|---|---|\n| Pi 4 | 8 |",
        ),
    ] {
        let text = post(first, second);
        let done = alone(&text, &Options::default());
        assert!(done.files.is_empty(), "{first}, {second}\n{}", done.said());
        done.says(
            NoteKind::Refused,
            "these are 2 different things, and none is written",
        );
        let lines: Vec<usize> = (1..)
            .zip(text.lines())
            .filter(|(_, line)| line.contains("± 0.10"))
            .map(|(number, _)| number)
            .collect();
        let of = |at: usize| format!("(post.md:{})", lines[at]);
        for part in [
            of(0),
            of(1),
            "--only section=".to_owned(),
            "--ignore section".to_owned(),
        ] {
            done.says(NoteKind::Warning, &part);
        }
        let one = Options {
            ignore: vec!["section".to_owned()],
            ..Options::default()
        };
        let done = alone(&text, &one);
        assert_eq!(done.files.len(), 1, "{first}, {second}\n{}", done.said());
        assert!(done.file().contains("stages.decode"));
    }
}

/// To see it fail, compare headings letter by letter.
#[test]
fn what_the_tables_state_themselves_keeps_nothing_apart() {
    for (first, second) in [
        ("## Prefill", "## Decode"),
        ("## pp", "## tg"),
        ("prompt processing:", "text generation:"),
        ("## Toy 1B (Q4_0), prompts", "## Toy 1B (Q4_0), answers"),
        ("# Pi 5\n\n## pp512", "## tg128"),
        ("# Pi 5", ""),
        ("At 16 W:", ""),
        (
            "$ ./llama-bench -m a.gguf -t 4 -p 512",
            "$ ./llama-bench -m b/a.gguf -n 128",
        ),
        (
            "$ ./llama-bench -m a.gguf \\\n  -p 512 -n 0",
            "$ ./llama-bench -m a.gguf \\\n  -p 0 -n 128",
        ),
        // Within a fence, `#` begins a comment.
        ("# Pi 5\n\n## Prefill", "```\n# decode\n```"),
        (
            "$ ./llama-bench -m a.gguf",
            "$ cd ..\n$ ./llama-bench -m a.gguf",
        ),
        ("4 threads", "threads 4"),
    ] {
        let done = alone(&post(first, second), &Options::default());
        assert_eq!(done.files.len(), 1, "{first}, {second}\n{}", done.said());
        assert!(!done.said().contains("setups"), "{}", done.said());
    }
    // A board is named to the end.
    let done = alone(&post("# Pi 5\n\n## pp512", "## tg128"), &Options::default());
    assert!(done.file().contains("section = pi 5"), "{}", done.file());
}

/// To see it fail, choose by the first name alone.
#[test]
fn a_setup_is_chosen_by_its_name_or_its_sections() {
    let text = table("Pi 5: prompts", "pp512")
        + &table("Pi 5: answers", "tg128")
        + &table("Pi 4: prompts", "pp512")
        + &table("", "tg64");
    let only = |value: &str| Options {
        only: vec![("section".to_owned(), value.to_owned())],
        ..Options::default()
    };
    let done = alone(&text, &Options::default());
    done.says(NoteKind::Refused, "section=pi 5");
    let whole = alone(&text, &only("pi 5"));
    assert!(whole.file().contains("stages.decode") && whole.file().contains("stages.ingest"));
    let part = alone(&text, &only("Pi 5: prompts"));
    assert!(!part.file().contains("stages.decode"), "{}", part.file());
    // The last one stands under what the one before it stands under: nothing came between.
    let done = alone(&text, &only("Pi 4: prompts"));
    assert!(done.file().contains("stages.decode"), "{}", done.file());
    let text = table("", "tg64") + &table("Pi 4: prompts", "pp512");
    let done = alone(&text, &only(""));
    assert!(!done.file().contains("stages.ingest"), "{}", done.file());
}

/// To see it fail, read sections of tables alone.
#[test]
fn headings_of_records_and_logs_count_as_those_of_tables() {
    let csv = |above: &str, prompt: u64, generated: u64| {
        format!(
            "{above}\nbuild_commit,build_number,backends,model_type,n_threads,n_prompt,n_gen,avg_ns\nab,1,CPU,toy 1B Q4_0,4,{prompt},{generated},1000000000\n\n"
        )
    };
    let log = |above: &str, factor: u64| {
        format!(
            "{above}\nllama_print_timings: prompt eval time = {} ms / 30 tokens\nllama_print_timings: eval time = 10000.00 ms / 100 runs\n\n",
            1500 * factor
        )
    };
    for (first, second) in [
        (csv("## Pi 5", 512, 0), csv("## Pi 4", 0, 128)),
        (log("## Pi 5", 1), log("## Pi 4", 2)),
    ] {
        let done = alone(&(first + &second), &Options::default());
        assert!(done.files.is_empty(), "{}", done.said());
        done.says(NoteKind::Refused, "section=Pi 4");
    }
}

#[test]
fn prose_between_tables_of_one_heading_is_remarked() {
    let done = run(
        Kind::LlamaBench,
        &Options::default(),
        &[(
            "post.md",
            &post("## Pi 5", "I then set it to more watts, and ran it again."),
        )],
    );
    done.says(
        NoteKind::Warning,
        "post.md:7: prose stands between rows that were read under `Pi 5`, those before it in line 5 and behind it in line 11: all are taken as of one setup",
    );
}

/// To see it fail, warn of depths alone.
#[test]
fn a_slope_from_two_near_lengths_is_told() {
    let rows = |rows: &[(&str, f64)]| {
        let rows = rows.iter().map(|(test, rate)| {
            format!("| toy 1B Q4_0 | 1.00 GiB | 1.00 B | CPU | 4 | {test} | {rate:.3} ± 0.00 |\n")
        });
        format!("{HEAD}{}", rows.collect::<String>())
    };
    let read = |list: &[(&str, f64)]| {
        run(
            Kind::LlamaBench,
            &Options::default(),
            &[("t.md", &rows(list))],
        )
    };
    let done = read(&[("tg128", 10.0), ("tg512", 9.0)]);
    done.says(
        NoteKind::Warning,
        "t.md:3: engine `cpu`, decode: the cost of context comes from two near lengths alone, 64 and 256 tokens on average (10.0 % of a token's time apart)",
    );
    for list in [
        &[("tg128", 10.0), ("tg128 @ d4096", 8.0)][..],
        &[("tg128", 10.0), ("tg256", 9.9), ("tg512", 9.7)],
        &[("tg128", 10.0), ("tg512", 10.0)],
        &[("tg128", 10.0)],
    ] {
        let said = read(list).said();
        assert!(!said.contains("two near lengths"), "{list:?}: {said}");
    }
}

/// To see it fail, look at the chip in a heading alone.
#[test]
fn headings_of_rkllm_tables_keep_setups_apart() {
    let table = |heading: &str, length: u32, rate: u32| {
        format!(
            "### {heading}\n\n| model | dtype | Seqlen | New_tokens | TTFT(ms) | Tokens/s |\n|---|---|---|---|---|---|\n| Toy 1B | w8a8 | {length} | 64 | 300 | {rate}.0 |\n\n"
        )
    };
    let import = |first: &str, second: &str| {
        let text = table(first, 128, 12) + &table(second, 512, 32);
        run(Kind::Rkllm, &Options::default(), &[("t.md", &text)])
    };
    for (first, second) in [
        ("RK3588 at 600MHz DDR", "RK3588 at max clocks"),
        (
            "Toy Pi (RK3588), driver 0.9.6",
            "Toy Rock (RK3588), driver 0.9.8",
        ),
    ] {
        let done = import(first, second);
        assert_eq!(done.files.len(), 2, "{}", done.said());
        done.says(NoteKind::Warning, "--ignore section");
    }
    let done = import("RK3588", "RK3588");
    assert_eq!(done.files.len(), 1, "{}", done.said());
    let stated = "section";
    assert!(!done.file().contains(stated), "{}", done.file());
}

/// To see it fail, let what llama-bench says of itself take the place of a column.
#[test]
fn a_column_of_ones_own_is_kept_beside_what_is_read_from_others() {
    for column in ["soc", "build", "engine", "threads", "size"] {
        let head = format!(
            "build_commit,build_number,cpu_info,backends,model_type,model_size,n_threads,{column},n_prompt,n_gen,avg_ns"
        );
        let row = |own: &str, test: &str| {
            format!("abc,1,Toy CPU,CPU,toy 1B Q4_0,1000000,4,{own},{test},1000000000")
        };
        let text = format!(
            "{head}\n{}\n{}\n",
            row("first", "512,0"),
            row("second", "0,128")
        );
        let done = run(Kind::LlamaBench, &Options::default(), &[("t.csv", &text)]);
        assert_eq!(done.files.len(), 2, "{column}: {}", done.said());
    }
}
