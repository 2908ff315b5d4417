//! What is wrong with a file or an option is said for what it is.

use super::super::{Kind, NoteKind, Options};
use super::run;

fn bench(text: &str, options: &Options) -> super::Done {
    run(Kind::LlamaBench, options, &[("t.csv", text)])
}

const HEAD: &str = "build_commit,cpu_info,model_type,n_threads,n_prompt,n_gen,avg_ts,stddev_ts\n";

#[test]
fn columns_parted_by_semicolons_are_named() {
    let text = format!("{HEAD}a,board,toy 1B Q4_0,4,512,0,32.0,0.1\n");
    let done = bench(&text.replace(',', ";"), &Options::default());
    assert!(done.files.is_empty());
    done.says(NoteKind::Refused, "the columns are parted by `;`");
    assert!(!bench(&text, &Options::default()).files.is_empty());
}

#[test]
fn quoted_numbers_are_numbers_and_a_comma_that_may_be_two_things_is_none() {
    let row =
        |rate: &str| format!("{HEAD}a,board,toy 1B Q4_0,4,\"512\",\"0\",\"{rate}\",\"0.1\"\n");
    let per_token = |rate: &str| {
        let done = bench(&row(rate), &Options::default());
        let text = done.file().to_owned();
        text.lines()
            .find(|line| line.starts_with("per_token_s"))
            .map(str::to_owned)
    };
    assert_eq!(per_token("32.5"), per_token("32,5"));
    assert!(per_token("32.5").is_some() && per_token("32.5") != per_token("32.0"));
    for (rate, says) in [
        (
            "1,374",
            "`avg_ts` is `1,374`: `1,374` is 1374 or 1.374: write it without a comma",
        ),
        ("fast", "`avg_ts` is `fast`: not a number"),
    ] {
        let done = bench(&row(rate), &Options::default());
        assert!(done.files.is_empty(), "{rate}");
        done.says(NoteKind::Skipped, says);
    }
    let trace =
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,\"1,374\",44\n";
    let done = run(Kind::Trace, &Options::default(), &[("t.csv", trace)]);
    done.says(
        NoteKind::Refused,
        "write `1374` where the comma parts thousands",
    );
}

#[test]
fn a_spread_that_is_none_is_not_quoted() {
    let text = "| model | size | backend | threads | test | t/s |\n| --- | --- | --- | --- | --- | --- |\n\
                | toy 1B Q4_0 | 1.00 GiB | CPU | 4 | pp512 | 32.00 ± nan |\n\
                | toy 1B Q4_0 | 1.00 GiB | CPU | 4 | pp4096 | 25.00 ± 0.10 |\n";
    let done = bench(text, &Options::default());
    assert!(!done.file().contains("nan"), "{}", done.file());
    assert!(done.file().contains("`pp512` 32.00 t/s") && done.file().contains("25.00 ± 0.10 t/s"));
}

#[test]
fn a_key_that_no_row_has_is_named_with_those_there_are() {
    let text = format!("{HEAD}a,board,toy 1B Q4_0,4,512,0,32.0,0.1\n");
    let options = |ignore: &str, only: &str| Options {
        ignore: vec![ignore.to_owned()],
        only: vec![(only.to_owned(), "4".to_owned())],
        ..Options::default()
    };
    let done = bench(&text, &options("foo", "bar"));
    done.says(
        NoteKind::Warning,
        "`--ignore foo`: no row has that key, only build, ",
    );
    done.says(
        NoteKind::Warning,
        "`--only bar`: no row has that key, only build, ",
    );
    let done = bench(&text, &options("build", "threads"));
    assert!(
        !done.said().contains("no row has that key"),
        "{}",
        done.said()
    );
    assert!(!done.files.is_empty());
}
