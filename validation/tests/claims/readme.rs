//! The README's figures, each at the precision that it is stated with.

use validation::published::{Compared, Draws, Role};

use crate::rows::{comparison, find, readme, root};

/// The numbers of a text, each with the digits after its point.
fn numbers(text: &str) -> Vec<(f64, i32)> {
    let text = text.replace('−', "-");
    let part = |c: char| c.is_ascii_digit() || c == '.' || c == '-';
    let words = text.split(|c: char| !part(c));
    let words = words.map(|word| word.trim_matches('.'));
    let numbers = words.filter_map(|word| {
        let digits = word.split_once('.').map_or(0, |(_, after)| after.len());
        let digits = i32::try_from(digits).unwrap();
        Some((word.parse().ok()?, digits))
    });
    numbers.collect()
}

/// Whether a text states these numbers, each as far as it does.
fn states(text: &str, wanted: &[f64]) -> bool {
    let stated = numbers(text);
    let pairs = || stated.iter().zip(wanted);
    let near = |((stated, digits), wanted): (&(f64, i32), &f64)| {
        (stated - wanted).abs() <= 0.5 * 10_f64.powi(-digits) * (1.0 + 1e-6)
    };
    stated.len() == wanted.len() && pairs().all(near)
}

/// Beginning of a line of the table, with rows (id, words, configuration, metric) in the order of its figures.
type Line = (&'static str, Vec<[&'static str; 4]>);

fn lines() -> Vec<Line> {
    let (here, both) = ("crossinfer", ["throughput", "ttft_mean"]);
    let two = |id, words, config| both.map(|metric| [id, words, config, metric]).to_vec();
    let frames = [", 2 frames", ", 4 frames", ", 8 frames", ", 16 frames"];
    vec![
        (
            "M4 Max, table 14, two lanes decoding",
            vec![["table14", "of 32 tokens", "cpu+metal", "decode"]],
        ),
        (
            "M4 Max, table 7 D",
            vec![
                ["table7", "", "D", "completion"],
                ["table7", "", "D", "ttft_mean"],
            ],
        ),
        (
            "M4 Max, table 5, overlapped, 128 tokens",
            ["0.8B", "4B"]
                .map(|model| ["table5", model, "overlap", "throughput"])
                .to_vec(),
        ),
        (
            "M4 Max, table 1a, pipelined: completion",
            frames
                .map(|frames| ["table1a", frames, here, "completion"])
                .to_vec(),
        ),
        (
            "RK3588, table 9, FastVLM",
            two("table9", "FastVLM-0.5B", here),
        ),
        (
            "RK3588, table 9, OneVision 7B",
            two("table9", "OneVision-7B", here),
        ),
        (
            "RK3588, table 12, CrossInfer",
            two("table12", "112-token", here),
        ),
        (
            "RK3588, table 12, naive",
            two("table12", "112-token", "naive"),
        ),
        (
            "RK3588, figure 9b",
            vec![[
                "fig9b",
                "",
                "state-aware dispatch",
                "query_completion_time_change",
            ]],
        ),
        (
            "RK3588, figure 11c",
            vec![[
                "fig11c",
                "",
                "import over recompute",
                "first_token_latency_ratio",
            ]],
        ),
    ]
}

#[test]
fn its_table_is_what_comes_out() {
    let Some(comparison) = comparison(0, |_, role| role == Role::Outcome) else {
        println!("no published measurements here");
        return;
    };
    let text = std::fs::read_to_string(root().join("README.md")).unwrap();
    let mut wrong = Vec::new();
    let mut hold = |begins: &str, predicted: &[f64], errors: &[f64]| {
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("| {begins}")));
        let line = line.unwrap_or_else(|| panic!("the README has no line `{begins}`"));
        let cells: Vec<&str> = line.split('|').collect();
        // What comes after a colon is said in words.
        let error = cells[4].split(':').next().unwrap();
        if !states(cells[2], predicted) || !states(error, errors) {
            wrong.push(format!("{line}\nis {predicted:.4?} {errors:+.2?}"));
        }
    };
    for (begins, rows) in lines() {
        let rows: Vec<&Compared> = rows.into_iter().map(|row| find(&comparison, row)).collect();
        let predicted = rows.iter().map(|row| row.prediction().unwrap().value);
        let errors = rows.iter().map(|row| row.error().unwrap());
        hold(
            begins,
            &predicted.collect::<Vec<_>>(),
            &errors.collect::<Vec<_>>(),
        );
    }
    let shares = |metric: &str| {
        let rows = comparison.predicted(Role::Outcome);
        let rows = rows.filter(|compared| compared.row.metric == metric);
        let values = rows.map(|compared| compared.prediction().unwrap().value);
        let values: Vec<f64> = values.collect();
        [
            values.iter().copied().fold(f64::INFINITY, f64::min),
            values.iter().copied().fold(0.0, f64::max),
        ]
    };
    let errors = comparison.errors(Role::Outcome, true);
    let m4max = |errors: &[(Option<&str>, validation::published::Errors)]| {
        errors
            .iter()
            .find(|(soc, _)| *soc == Some("m4max"))
            .unwrap()
            .1
    };
    hold(
        "M4 Max, table 1a, pipelined: busy shares",
        &[shares("gpu_busy"), shares("ane_busy")].concat(),
        &[m4max(&errors).worst],
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // And the sentences around it.
    let per_cent = comparison.errors(Role::Outcome, false);
    let rk3588 = per_cent
        .iter()
        .find(|(soc, _)| *soc == Some("rk3588"))
        .unwrap()
        .1;
    let reuse = find(
        &comparison,
        ["fig16", "", "reuse over rebuild", "throughput_ratio"],
    );
    let met = comparison.bounds().filter(|(.., met)| *met).count();
    let readme = readme();
    for says in [
        format!(
            "M4 Max: median error {:.1} % over nine values and {:.1} points over eight shares; RK3588: {:.0} % over ten.",
            m4max(&per_cent).median,
            m4max(&errors).median,
            rk3588.median
        ),
        format!(
            "Of {} bounds that were set on single errors, {met} are met",
            comparison.bounds().count()
        ),
        format!(
            "(reuse {:.2} times rebuild,",
            reuse.prediction().unwrap().value
        ),
    ] {
        assert!(readme.contains(&says), "the README lacks: {says}");
    }
}

/// Where a bound is missed, the report says by how much, what was measured and predicted, and what is not known.
#[test]
fn what_is_missed_says_what_is_missing() {
    let Some(comparison) = comparison(0, |_, role| role == Role::Outcome) else {
        println!("no published measurements here");
        return;
    };
    let text = validation::report::published(&comparison)[0].body.clone();
    let missed: Vec<&str> = text
        .lines()
        .filter(|line| line.contains(", bound "))
        .collect();
    let beyond = comparison.bounds().filter(|(.., met)| !met).count();
    assert_eq!(missed.len(), beyond, "{text}");
    for line in missed {
        let parts = ["Measured ", ", predicted ", "Missing: "];
        assert!(parts.iter().all(|part| line.contains(part)), "{line}");
    }
}

/// What is said of calibration rows, and of a direction.
#[test]
fn its_sentences_on_fits_are_what_comes_out() {
    let Some(comparison) = comparison(0, |_, _| true) else {
        println!("no published measurements here");
        return;
    };
    let rows = || comparison.predicted(Role::Calibration);
    let worst = |take: &dyn Fn(&Compared) -> bool| {
        let errors = rows().filter(|compared| take(compared));
        let errors = errors.map(|compared| compared.error().unwrap().abs());
        errors.fold(0.0, f64::max)
    };
    let of = |compared: &Compared, ids: &[&str]| ids.contains(&compared.row.id.as_str());
    let within = |most: f64, says: &str, take: &dyn Fn(&Compared) -> bool| {
        let worst = worst(take);
        assert!(worst <= most && worst > 0.0, "{says}: {worst}");
        assert!(readme().contains(says), "the README lacks: {says}");
    };
    within(
        5.0,
        "those of tables 5, 7 to 10, 12 and 14 come out within 5 %",
        &|c| {
            let ids = [
                "table5", "table7", "table8", "table9", "table10", "table12", "table14",
            ];
            of(c, &ids) && !c.in_points() && !c.row.setting.contains("EOS")
        },
    );
    within(3.0, "table 1a's completion within 3 %", &|c| {
        of(c, &["table1a"]) && c.row.metric == "completion"
    });
    let energy = worst(&|c| of(c, &["table3"]));
    let says = format!("table 3's energies are up to {energy:.0} % off");
    assert!(readme().contains(&says), "the README lacks: {says}");
    let shares = rows().filter(|c| of(c, &["table1a"]) && c.in_points());
    let shares: Vec<f64> = shares.map(|c| c.error().unwrap()).collect();
    let ends = |pick: fn(f64, f64) -> f64, from: f64| shares.iter().copied().fold(from, pick);
    let says = format!(
        "its busy shares come out {:.0} to {:.0} points high",
        ends(f64::min, f64::INFINITY),
        ends(f64::max, 0.0)
    );
    assert!(readme().contains(&says), "the README lacks: {says}");
    let completion = |role: Role, config: &str| {
        let mut rows = comparison.predicted(role);
        let row = rows.find(|c| {
            let row = &c.row;
            of(c, &["table1a"])
                && row.setting.contains(", 16 frames")
                && (row.config.as_str(), row.metric.as_str()) == (config, "completion")
        });
        let row = row.unwrap();
        [row.row.value, row.prediction().unwrap().value]
    };
    let [both, alone] = [
        completion(Role::Outcome, "crossinfer"),
        completion(Role::Calibration, "mlx-gpu-only"),
    ];
    let says = format!(
        "pipeline at 16 frames {:.0} % faster than the GPU alone, where it comes out {:.0} % slower",
        (1.0 - both[0] / alone[0]) * 100.0,
        (both[1] / alone[1] - 1.0) * 100.0
    );
    assert!(readme().contains(&says), "the README lacks: {says}");
}

#[test]
fn its_intervals_hold_as_many_values_as_it_says() {
    let of_chip = |soc: &str, role: Role| soc == "rk3588" && role == Role::Outcome;
    let Some(comparison) = comparison(Draws::default().count, of_chip) else {
        println!("no published measurements here");
        return;
    };
    let rows = || {
        comparison
            .predicted(Role::Outcome)
            .filter_map(Compared::inside)
    };
    let says = format!(
        "hold {} of {} measured",
        rows().filter(|inside| *inside).count(),
        rows().count()
    );
    assert!(readme().contains(&says), "the README lacks: {says}");
}

#[test]
fn a_number_is_stated_as_far_as_its_digits_go() {
    assert!(states("24.6 s, 6.45 s", &[24.587, 6.4496]));
    assert!(states("+1.2 %, −3.5 %", &[1.21, -3.459]));
    assert!(!states("+3.4 %", &[3.459]));
    assert!(!states("24.6", &[24.6, 1.0]));
}
