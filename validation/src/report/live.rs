//! Live runs beside their predictions as a section.

use std::fmt::Write as _;

use super::{Section, Table, escape};
use crate::live::{Document, Played, Row};

/// Validations on real engines, each with its machine.
pub fn live(documents: &[Document]) -> Section {
    let intro = "A scenario on real engines, under the same scheduler as simulated, after its costs were measured on \
                 the same machine. Noise is what repeats of one replication leave of the measured mean (95 %): an \
                 error within it is not the model's. The parts of an error are what it would lose if the simulation \
                 had stages alone, transfers, slowdowns and the driver's delay as they were measured; the rest is \
                 noise, and what the model lacks.";
    let mut parts = vec![intro.to_owned()];
    for document in documents {
        let Document {
            scenario,
            date,
            host,
            engines,
            comparison,
            ..
        } = document;
        parts.push(format!(
            "**{}**, {}, {}, {}: median error {:.1} %, worst {:.1} %, {}.",
            escape(scenario),
            escape(date),
            escape(host),
            escape(engines),
            100.0 * comparison.median,
            100.0 * comparison.worst,
            if comparison.holds {
                "within the bound"
            } else {
                "PAST THE BOUND"
            }
        ));
        parts.push(errors(&comparison.rows));
        parts.push(answers(document));
        let mut checks = Table::new(&[
            "not used by any fit",
            ">measured",
            ">predicted",
            ">error %",
            ">noise %",
        ]);
        for check in &document.checks {
            checks.row([
                check.what.clone(),
                format!("{:.3}", check.measured),
                format!("{:.3}", check.predicted),
                signed(check.predicted / check.measured - 1.0),
                noise(check.noise),
            ]);
        }
        parts.push(checks.markdown());
    }
    Section::new("Live runs", &parts)
}

/// How many values their intervals hold, and what of the answers differs.
fn answers(document: &Document) -> String {
    let played = || document.runs.iter().map(|run| &run.played);
    let sum = |of: fn(&Played) -> usize| played().map(of).sum::<usize>();
    let (inside, all) = document.comparison.inside;
    let mut text = format!(
        "{inside} of {all} measured values lie within the 95 % interval of their prediction. {} live runs; {} answers, of {} \
         held against the serial reference of their placement {} differ.",
        document.runs.len(),
        sum(|one| one.answers),
        sum(|one| one.checked),
        sum(|one| one.differ),
    );
    let elsewhere = played().flat_map(|one| one.elsewhere.iter().map(move |other| (one, other)));
    for (one, other) in elsewhere.filter(|(_, other)| other.differ > 0) {
        let gap = other.widest_gap.map_or_else(String::new, |gap| {
            format!(", which preferred its own token by a logit of {gap:.3} at most")
        });
        _ = write!(
            text,
            " {} of {} differ from those of {} alone{gap}.",
            other.differ,
            one.answers,
            escape(&other.engine)
        );
    }
    text
}

fn noise(share: Option<f64>) -> String {
    share.map_or_else(String::new, |share| format!("± {:.1}", 100.0 * share))
}

fn errors(rows: &[Row]) -> String {
    let mut table = Table::new(&[
        "policy",
        "metric",
        ">runs",
        ">measured",
        ">predicted",
        "95 %",
        ">error %",
        ">noise %",
        ">stage cost",
        ">transfer",
        ">contention",
        ">delay",
        ">rest",
    ]);
    for row in rows {
        let mut cells = vec![
            row.policy.clone(),
            row.metric.label().to_owned(),
            row.runs.to_string(),
            format!("{:.4}", row.measured),
            format!("{:.4}", row.predicted),
            row.interval
                .map_or_else(String::new, |(low, high)| format!("{low:.4}–{high:.4}")),
            signed(row.error),
            noise(row.noise),
        ];
        if let Some(causes) = row.causes {
            let parts = [
                causes.stage_cost,
                causes.transfer,
                causes.contention,
                causes.delay,
                causes.rest,
            ];
            cells.extend(parts.map(signed));
        }
        table.row(cells);
    }
    table.markdown()
}

fn signed(value: f64) -> String {
    format!("{:+.1}", 100.0 * value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::{Bound, Causes, Check, Comparison, Elsewhere, Metric, Ran};

    fn document() -> Document {
        let row = Row {
            policy: "naive".into(),
            metric: Metric::Ttft,
            runs: 4,
            measured: 0.5,
            predicted: 0.52,
            interval: Some((0.48, 0.55)),
            error: 0.04,
            error_half_width: None,
            repeat_cv: Some(0.01),
            noise: Some(0.021),
            causes: Some(Causes {
                stage_cost: 0.03,
                rest: 0.01,
                ..Causes::default()
            }),
        };
        Document {
            kind: Document::KIND.into(),
            version: Document::VERSION,
            scenario: "two.toml".into(),
            date: "1 January 2026".into(),
            host: "a machine".into(),
            engines: "mock".into(),
            comparison: Comparison {
                rows: vec![row],
                median: 0.04,
                worst: 0.04,
                inside: (1, 1),
                bound: Bound::default(),
                holds: true,
            },
            live_stages: Vec::new(),
            simulated_stages: Vec::new(),
            checks: vec![Check {
                what: "import".into(),
                measured: 500.0,
                noise: Some(0.071),
                predicted: 450.0,
            }],
            runs: vec![Ran {
                policy: "naive".into(),
                played: Played {
                    answers: 18,
                    checked: 18,
                    differ: 3,
                    elsewhere: vec![Elsewhere {
                        engine: "gpu".into(),
                        differ: 4,
                        earliest_token: Some(0),
                        widest_gap: Some(0.037),
                    }],
                    ..Played::default()
                },
                ..Ran::default()
            }],
        }
    }

    #[test]
    fn a_result_that_was_kept_is_shown() {
        let text = serde_json::to_string(&document()).expect("it is written");
        let read = Document::read(&text).expect("it is read");
        assert_eq!(read, document());
        let section = live(&[read]);
        for part in [
            "two.toml",
            "a machine",
            "within the bound",
            "0.4800–0.5500",
            "+4.0",
            "± 2.1",
            "-10.0",
            "± 7.1",
            "1 of 1 measured values",
            "of 18 held against the serial reference of their placement 3 differ",
            "4 of 18 differ from those of gpu alone, which preferred its own token by a logit of 0.037",
        ] {
            assert!(
                section.body.contains(part),
                "no `{part}` in {}",
                section.body
            );
        }
    }

    #[test]
    fn what_the_project_keeps_is_read() {
        for text in [
            include_str!("../../live/x86-host.json"),
            include_str!("../../live/x86-own-cores.json"),
        ] {
            let kept = Document::read(text).expect("it is read");
            assert_eq!(kept.comparison.rows.len(), 16);
            // It says of itself whether it holds, and is not made better.
            let Bound { median, worst } = kept.comparison.bound;
            let holds = kept.comparison.median <= median && kept.comparison.worst <= worst;
            assert_eq!(kept.comparison.holds, holds);
            assert!(kept.runs.iter().all(|run| run.played.differ == 0));
        }
    }

    #[test]
    fn what_is_no_result_is_refused() {
        let mut old = document();
        old.version = 1;
        let text = serde_json::to_string(&old).expect("it is written");
        let error = Document::read(&text).expect_err("another version");
        assert!(error.contains("version 1"), "{error}");
        assert!(Document::read("{}").is_err());
    }
}
