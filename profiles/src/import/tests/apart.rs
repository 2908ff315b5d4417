//! What is one thing, and what is told apart.

use super::super::{Kind, NoteKind, Options};
use super::samples::TABLE;
use super::{run, run_bytes};

fn plain(kind: Kind, name: &str, text: &str) -> super::Done {
    run(kind, &Options::default(), &[(name, text)])
}

#[test]
fn sentences_above_tables_are_setups_until_someone_says_that_they_are_one() {
    let table = |title: &str, backend: &str, rate: f64| {
        format!(
            "{title}\n\n| model | size | params | backend | threads | test | t/s |\n| --- | --- | --- | --- | --- | --- | --- |\n\
             | toy 1B Q4_0 | 1.00 GiB | 1.00 B | {backend} | 4 | pp512 | {rate:.2} ± 0.10 |\n\n"
        )
    };
    let mut options = Options {
        soc: Some("board".to_owned()),
        model: Some("toy".to_owned()),
        ..Options::default()
    };
    let post = table("Got it today! What I see:", "CPU", 25.0)
        + &table("then with vulkan:", "Vulkan", 50.0);
    let done = run(Kind::LlamaBench, &options, &[("post.md", &post)]);
    assert_eq!(done.files.len(), 2, "{}", done.said());
    done.says(
        NoteKind::Warning,
        "the sections `Got it today! What I see` (post.md:5), `then with vulkan` (post.md:11) are taken as of 2 setups",
    );
    options.ignore.push("section".to_owned());
    let done = run(Kind::LlamaBench, &options, &[("post.md", &post)]);
    assert_eq!(done.files[0].0, "board/toy.toml", "{}", done.said());
    assert!(done.file().contains("[engines.cpu.") && done.file().contains("[engines.gpu."));
    options.ignore.clear();
    // What says no more than the columns is no setup.
    let post =
        table("Now with the CPU:", "CPU", 25.0) + &table("then with vulkan:", "Vulkan", 50.0);
    let done = run(Kind::LlamaBench, &options, &[("post.md", &post)]);
    assert_eq!(done.files.len(), 1, "{}", done.said());
    done.says(NoteKind::Read, "are taken as of one setup");
    // One test in two sections: they say on what.
    let post = table("With a fan:", "CPU", 25.0) + &table("Without:", "CPU", 15.0);
    let done = run(Kind::LlamaBench, &options, &[("post.md", &post)]);
    assert_eq!(done.files.len(), 2, "{}", done.said());
    assert_eq!(done.files[0].0, "board/toy-section-with-a-fan.toml");
    done.says(
        NoteKind::Warning,
        "costs = \"board/toy-section-with-a-fan.toml\"",
    );
    done.says(NoteKind::Warning, "--ignore section");
}

#[test]
fn sections_that_name_different_boards_or_clocks_are_different_things() {
    const HEAD: &str = "| model | size | params | backend | threads | test | t/s |\n| --- | --- | --- | --- | --- | --- | --- |\n";
    let table = |title: &str, backend: &str, test: &str| {
        format!(
            "## {title}\n\n{HEAD}| toy 1B Q4_0 | 1.00 GiB | 1.00 B | {backend} | 4 | {test} | 25.00 ± 0.10 |\n\n"
        )
    };
    for (first, second, apart) in [
        ("Raspberry Pi 5", "Radxa Rock 5B (RK3588)", true),
        ("Raspberry Pi 5", "Orange Pi 5", true),
        ("CPU at 1.8 GHz", "CPU at 2400 MHz", true),
        ("Raspberry Pi 5: prompts", "Raspberry Pi 5: answers", false),
        ("At 2.4 GHz, prompts", "At 2.4 GHz, answers", false),
        ("Prompts", "Answers", false),
    ] {
        for backend in ["CPU", "Vulkan"] {
            let post = table(first, "CPU", "pp512") + &table(second, backend, "tg128");
            let options = Options::default();
            let done = run_bytes(
                Kind::LlamaBench,
                &options,
                &[("post.md", post.as_bytes())],
                false,
            );
            if apart {
                assert!(done.files.is_empty(), "{first}, {second}: {}", done.said());
                done.says(NoteKind::Refused, &format!("section={first}"));
                done.says(NoteKind::Refused, &format!("section={second}"));
                let done = plain(Kind::LlamaBench, "post.md", &post);
                assert_eq!(done.files.len(), 2, "{first}, {second}: {}", done.said());
            } else {
                assert_eq!(done.files.len(), 1, "{first}, {second}: {}", done.said());
            }
        }
    }
}

/// To see it fail, take the only section out as well: then nothing tells of which board the table is.
#[test]
fn the_only_heading_is_kept_where_it_names_a_board_or_a_setting() {
    for (heading, kept) in [
        ("Raspberry Pi 5", true),
        ("CPU @ 1.2 GHz", true),
        ("governor powersave", true),
        ("My results", false),
    ] {
        let done = plain(
            Kind::LlamaBench,
            "post.md",
            &format!("## {heading}\n\n{TABLE}"),
        );
        let stated = done.file().contains(&format!("section = {heading}"));
        assert_eq!(stated, kept, "{heading}: {}", done.file());
    }
}

#[test]
fn models_of_one_type_and_two_sizes_stay_apart() {
    let record = |ns: u64, size: u64, params: u64| {
        format!(
            "{{\"build_commit\": \"ab12\", \"build_number\": 7, \"cpu_info\": \"Toy\", \"backends\": \"CPU\", \"model_filename\": \"m.gguf\", \"model_type\": \"toy 1B Q4_0\", \"model_size\": {size}, \"model_n_params\": {params}, \"n_threads\": 4, \"n_prompt\": 512, \"n_gen\": 0, \"avg_ns\": {ns}, \"stddev_ns\": 0}}"
        )
    };
    for (size, params) in [(700, 1000), (600, 1100)] {
        let first = record(1_000_000_000, 600_000_000, 1_000_000_000);
        let second = record(1_010_000_000, size * 1_000_000, params * 1_000_000);
        let done = plain(Kind::LlamaBench, "t.json", &format!("[{first},\n{second}]"));
        assert_eq!(done.files.len(), 2, "{}", done.said());
    }
}

#[test]
fn values_far_apart_are_no_repeats_in_time() {
    let table = |rates: &[f64]| {
        let rows = rates.iter().map(|rate| {
            format!("| toy 1B Q4_0 | 1.00 GiB | 1.00 B | CPU | 4 | pp512 | {rate:.2} ± 0.10 |\n")
        });
        format!(
            "| model | size | params | backend | threads | test | t/s |\n| --- | --- | --- | --- | --- | --- | --- |\n{}",
            rows.collect::<String>()
        )
    };
    for rates in [
        &[25.25, 50.0][..],
        &[50.0, 25.25],
        &[50.0, 50.1, 25.0, 25.1],
    ] {
        let done = plain(Kind::LlamaBench, "t.md", &table(rates));
        assert!(done.files.is_empty(), "{rates:?}\n{}", done.said());
        done.says(NoteKind::Conflict, "too far apart");
    }
    // A drift, noise, and a cold start before warm runs.
    for rates in [
        &[25.25, 24.0, 23.0, 22.0, 21.0][..],
        &[25.0, 18.0, 26.0, 19.0],
        &[10.0, 25.0, 25.1],
        &[25.0, 24.0],
    ] {
        let done = plain(Kind::LlamaBench, "t.md", &table(rates));
        assert!(!done.notes.any(NoteKind::Conflict), "{}", done.said());
        assert!(!done.files.is_empty(), "{rates:?}\n{}", done.said());
    }
    // Settings that the user put together.
    let two = table(&[51.2])
        + &table(&[102.4])
            .lines()
            .nth(2)
            .unwrap_or("")
            .replace("| 4 |", "| 8 |");
    let options = Options {
        ignore: vec!["threads".to_owned()],
        ..Options::default()
    };
    let done = run(Kind::LlamaBench, &options, &[("t.md", &two)]);
    done.says(NoteKind::Conflict, "too far apart");
}

#[test]
fn a_size_out_of_all_bounds_is_no_size() {
    for size in ["1e308 MiB", "1e20 B"] {
        let text = format!(
            "| model | size | backend | threads | test | t/s |\n| --- | --- | --- | --- | --- | --- |\n\
             | toy 1B Q4_0 | {size} | CPU | 4 | pp512 | 25.00 ± 0.10 |\n"
        );
        let done = plain(Kind::LlamaBench, "t.md", &text);
        assert!(done.files.is_empty(), "{size}");
        done.says(NoteKind::Skipped, "t.md:3: the size");
    }
}

#[test]
fn conflicts_are_shown_and_not_used() {
    let other = TABLE.replace("128.00 ± 0.50", "99.00 ± 0.50");
    let done = run(
        Kind::LlamaBench,
        &Options::default(),
        &[("a.md", TABLE), ("b.md", &other)],
    );
    done.says(
        NoteKind::Conflict,
        "b.md:6: `pp512` is 99.00 ± 0.50 t/s here and 128.00",
    );
}

#[test]
fn identities_never_mix() {
    let other = TABLE.replace("abc123 (4000)", "def456 (4100)");
    let done = run(
        Kind::LlamaBench,
        &Options::default(),
        &[("a.md", TABLE), ("b.md", &other)],
    );
    assert_eq!(done.files.len(), 2);
    let only = Options {
        only: vec![("build".into(), "DEF456 (4100)".into())],
        ..Options::default()
    };
    assert_eq!(
        run(
            Kind::LlamaBench,
            &only,
            &[("a.md", TABLE), ("b.md", &other)]
        )
        .files
        .len(),
        1
    );
    // Without a folder nothing is chosen for the user.
    let files: [(&str, &[u8]); 2] = [("a.md", TABLE.as_bytes()), ("b.md", other.as_bytes())];
    let done = run_bytes(Kind::LlamaBench, &Options::default(), &files, false);
    done.says(NoteKind::Refused, "build=abc123 (4000)");
}

#[test]
fn a_name_that_is_no_key_is_refused_and_another_one_told() {
    let post = TABLE;
    let with = |soc: &str| Options {
        soc: Some(soc.to_owned()),
        ..Options::default()
    };
    for soc in ["", " ", "ü 名 前", "Pi ü", "../"] {
        let done = run(Kind::LlamaBench, &with(soc), &[("post.md", post)]);
        assert!(done.files.is_empty(), "{soc}");
        done.says(NoteKind::Refused, "is no key of a profile");
    }
    let done = run(Kind::LlamaBench, &with("Toy Board"), &[("post.md", post)]);
    assert!(
        done.files[0].0.starts_with("toy-board/"),
        "{}",
        done.files[0].0
    );
    done.says(NoteKind::Warning, "in file names it is `toy-board`");
    let done = run(Kind::LlamaBench, &with("toy-board"), &[("post.md", post)]);
    assert!(!done.said().contains("file names it is"), "{}", done.said());
}

/// To see it fail, write all that there is.
#[test]
fn two_things_of_one_file_name_are_a_conflict() {
    let config = |layers: u32| {
        format!(
            "{{\"model_type\": \"llama\", \"num_hidden_layers\": {layers}, \"hidden_size\": 64, \"num_attention_heads\": 4}}"
        )
    };
    let (one, other, third) = (config(2), config(3), config(4));
    let files = [
        ("a/Toy-1B/config.json", one.as_str()),
        ("b/toy_1b/config.json", &other),
        ("c/else/config.json", &third),
    ];
    let done = run(Kind::HfConfig, &Options::default(), &files);
    done.says(
        NoteKind::Conflict,
        "`models/toy-1b.toml` would be the file of 2 things, and none of them is written: import them apart, with `--model KEY` or `--soc KEY`:\n    \
         toy-1b (a/Toy-1B/config.json)\n    toy-1b (b/toy_1b/config.json)",
    );
    let names: Vec<&str> = done.files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["models/else.toml"]);
    let trace = "time_s\n0\n1\n";
    let files = [("a/t.csv", trace), ("b/T.txt", trace), ("c/u.csv", trace)];
    let done = run(Kind::Trace, &Options::default(), &files);
    done.says(NoteKind::Conflict, "`t.csv` would be the file of 2 things");
    let names: Vec<&str> = done.files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["u.csv"]);
    // Costs of different models are told apart by a number, and that is said.
    let text = TABLE.replace("toy 1B", "toy_1B");
    let files = [("a.md", TABLE), ("b.md", text.as_str())];
    let options = Options {
        ignore: vec!["file".to_owned()],
        ..Options::default()
    };
    let done = run(Kind::LlamaBench, &options, &files);
    assert!(done.files.len() > 1, "{}", done.said());
    done.says(
        NoteKind::Warning,
        "though their names would be one: model=toy_1B",
    );
}
