//! Targets, loads and resources.

use super::search::Look;
use super::target::targets;

fn one(text: &str) -> Result<Target, String> {
    Target::parse(text)
}

#[test]
fn targets_have_units() {
    for (text, bound) in [
        ("ttft_p95 <= 2s", 2.0),
        ("ttft_p95<=2000ms", 2.0),
        ("staleness_p95 ≤ 1 s", 1.0),
        ("energy <= 5 W", 5.0),
        ("memory <= 6GiB", 6.0 * 1_073_741_824.0),
        ("memory <= 6e9 B", 6e9),
        ("throughput >= 30 req/min", 0.5),
        ("refused <= 1 %", 0.01),
    ] {
        let target = one(text).expect(text);
        assert!(
            (target.bound / bound - 1.0).abs() < 1e-12,
            "{text}: {}",
            target.bound
        );
    }
}

/// To see it fail, take any bound.
#[test]
fn no_share_is_more_than_all() {
    assert!(one("refused <= 100 %").is_ok());
    for text in ["refused <= 200%", "late <= 1.5 1"] {
        let fault = one(text).expect_err("it bounds nothing");
        assert!(fault.contains("no more than 100 %"), "{fault}");
    }
}

#[test]
fn what_is_no_target_says_what_would_be_right() {
    for (text, says) in [
        ("ttft_p95 <= 2", "a unit is missing: one of s, ms"),
        ("ttft_p95 <= 2 W", "`W` is no unit of `ttft_p95`"),
        ("ttft_p59 <= 2s", "did you mean `ttft_p"),
        ("ttft_p95 >= 2s", "is bounded with `<=`"),
        ("throughput <= 2 req/s", "is bounded with `>=`"),
        ("ttft_p95 < 2s", "a bound is `<=`"),
        ("ttft_p95", "no `<=`"),
        ("ttft_p95 <= 2,5s", "not a comma"),
        ("ttft_p95 <= fast", "does not start with a number"),
        ("ttft_p95 <= -1s", "finite and not negative"),
        ("ttft_p95 <= 1e999s", "finite and not negative"),
        ("", "no `<=`"),
        ("<= 2s", "unknown metric"),
    ] {
        let fault = one(text).expect_err(text);
        assert!(fault.contains(says), "{text}: {fault}");
    }
}

#[test]
fn two_bounds_of_one_metric_contradict() {
    let texts = ["ttft_p95 <= 2s and ttft_p95 <= 1s".to_owned()];
    let faults = targets(&texts).expect_err("two bounds");
    assert!(faults[0].contains("bound the same metric"), "{faults:?}");
    assert!(targets(&[]).is_err());
}

use proptest::prelude::*;
use reports::interval::Replicated;

use super::{Axis, Edge, Probe, Range, Target, Verdict, search};

#[test]
fn more_streams_leave_a_policy_as_it_is() {
    let streams = Axis::parse("streams").expect("it is a load");
    for policy in [
        "{ state_aware = { terms = 'w' } }",
        "{ single = { lane = 'a' } }",
    ] {
        let text = format!("policy = {policy}\n[[streams]]\nname = 'door'\n");
        let more = streams.at(&text, 3.0).expect("streams can be copied");
        assert!(more.contains(policy) && !more.contains("fixed"), "{more}");
    }
}

/// A search over a law that says which loads meet.
fn found(axis: Axis, target: &str, range: Range, law: impl Fn(f64) -> Verdict) -> (Edge, usize) {
    searched(axis, target, range, |load, _| law(load))
}

fn searched(
    axis: Axis,
    target: &str,
    range: Range,
    law: impl Fn(f64, Look) -> Verdict,
) -> (Edge, usize) {
    let targets = [Target::parse(target).expect("it is a target")];
    let mut looked = 0;
    let edge = search(axis, &targets, range, |load, look| {
        looked += 1;
        Ok(Probe {
            load,
            held: Vec::new(),
            verdict: law(load, look),
            seed: 1,
            runs: Replicated::default(),
            refused: None,
        })
    })
    .expect("no probe fails");
    (edge, looked)
}

fn step(load: f64, edge: f64) -> Verdict {
    if load <= edge {
        Verdict::Meets
    } else {
        Verdict::Misses
    }
}

proptest! {
    #[test]
    fn any_text_is_a_target_or_says_why_not(text in "\\PC{0,40}", number in -1e30..1e30_f64) {
        _ = Target::parse(&text);
        _ = Target::parse(&format!("ttft_p95 <= {text}"));
        _ = Target::parse(&format!("ttft_p95 <= {number}{text}"));
        _ = Axis::parse(&text);
    }

    #[test]
    fn a_whole_edge_is_found_exactly(edge in 1..900_u32) {
        let range = Range { low: 1.0, high: 1024.0 };
        let (found, looked) = found(Axis::Streams, "ttft_p95 <= 1s", range, |load| step(load, f64::from(edge)));
        prop_assert_eq!(found.meets, Some(f64::from(edge)));
        prop_assert_eq!(found.misses, Some(f64::from(edge + 1)));
        prop_assert!(found.monotone && looked < 60, "{} looks", looked);
    }

    #[test]
    fn a_rate_is_found_within_two_per_cent(edge in 0.02..50.0_f64) {
        let range = Range { low: 0.01, high: 100.0 };
        let (found, _) = found(Axis::QueryRate, "ttft_p95 <= 1s", range, |load| step(load, edge));
        let (low, high) = (found.meets.expect("it meets"), found.misses.expect("it misses"));
        prop_assert!(low <= edge && edge <= high && high / low < 1.021, "{} in {} to {}", edge, low, high);
    }

    #[test]
    fn an_island_is_found_where_more_may_be_better(low in 0.05..1.0_f64, times in 2.0..20.0_f64) {
        let range = Range { low: 0.01, high: 100.0 };
        let law = |load: f64| if load < low { Verdict::Misses } else { step(load, low * times) };
        let (found, _) = found(Axis::FrameRate, "staleness_p95 <= 1s", range, law);
        let top = found.meets.expect("it meets");
        prop_assert!(top <= low * times && top > low * times / 1.021, "{} of {}", top, low * times);
        prop_assert!(!found.monotone && !found.remarks.is_empty());
    }
}

/// Loads that come out on the wrong side by chance when the search looks, and not when it looks again.
#[test]
fn an_edge_that_fresh_draws_do_not_show_is_none() {
    let range = Range {
        low: 1.0,
        high: 64.0,
    };
    let law = |load: f64, look: Look| match (load, look) {
        (_, Look::Fresh) => step(load, 20.0),
        // 21 and 22 are lucky.
        _ => step(load, 22.0),
    };
    let (edge, _) = searched(Axis::Streams, "ttft_p95 <= 1s", range, law);
    assert_eq!((edge.meets, edge.misses), (Some(20.0), Some(23.0)));
    assert!(
        edge.remarks[0].contains("22, 21 streams"),
        "{:?}",
        edge.remarks
    );
    // 18 to 20 are unlucky.
    let law = |load: f64, look: Look| match look {
        Look::Fresh => step(load, 20.0),
        _ => step(load, 17.0),
    };
    let (edge, _) = searched(Axis::Streams, "ttft_p95 <= 1s", range, law);
    assert_eq!((edge.meets, edge.misses), (Some(17.0), Some(21.0)));
    let unclear = |load: f64| edge.probe(load).map(|probe| probe.verdict);
    assert_eq!(unclear(18.0), Some(Verdict::Unclear));
    // Nothing is confirmed: then nothing is claimed.
    let law = |_, look: Look| match look {
        Look::Fresh => Verdict::Unclear,
        _ => Verdict::Meets,
    };
    let (edge, _) = searched(Axis::Streams, "ttft_p95 <= 1s", range, law);
    assert_eq!((edge.meets, edge.misses), (None, None));
}

/// To see it fail, end the search where no miss is left.
#[test]
fn a_miss_that_fresh_draws_deny_is_sought_higher() {
    let range = Range {
        low: 1.0,
        high: 64.0,
    };
    // 2 to 4 are too near to tell; the first look takes them for misses.
    let law = |load: f64, look: Look| match look {
        Look::Fresh if (2.0..=4.0).contains(&load) => Verdict::Unclear,
        _ => step(load, 1.0),
    };
    let (edge, _) = searched(Axis::Streams, "ttft_p95 <= 1s", range, law);
    assert_eq!((edge.meets, edge.misses), (Some(1.0), Some(5.0)));
    // None meets, and the least is denied too.
    let law = |load: f64, look: Look| match look {
        Look::Fresh if load < 3.0 => Verdict::Unclear,
        _ => Verdict::Misses,
    };
    let (edge, _) = searched(Axis::Streams, "ttft_p95 <= 1s", range, law);
    assert_eq!((edge.meets, edge.misses), (None, Some(4.0)));
}

#[test]
fn what_is_never_or_always_met_is_said() {
    let range = Range {
        low: 1.0,
        high: 64.0,
    };
    let (never, _) = found(Axis::Streams, "ttft_p95 <= 1s", range, |_| Verdict::Misses);
    assert_eq!((never.meets, never.misses), (None, Some(1.0)));
    let (always, _) = found(Axis::Streams, "ttft_p95 <= 1s", range, |_| Verdict::Meets);
    assert_eq!((always.meets, always.misses), (Some(64.0), None));
    let (unclear, _) = found(Axis::Streams, "ttft_p95 <= 1s", range, |_| Verdict::Unclear);
    assert_eq!((unclear.meets, unclear.misses), (None, None));
}

const SCENARIO: &str = "title = \"x\"\nsoc = \"s\"\nmodel = \"m\"\n\n[policy.fixed]\nlanes = { a = \"cpu\", b = \"gpu\" }\n\n[[streams]]\nname = \"a\"\n[streams.frames]\nclock = { periodic = { rate_hz = 0.5 } }\n[streams.queries]\narrivals = { poisson = { rate_hz = 0.1 } }\nprompt_tokens = 8\noutput_tokens = 8\n\n[[streams]]\nname = \"b\"\ncopies = 2\n[streams.queries]\narrivals = { periodic = { period_s = 4 } }\n";

fn streams(text: &str) -> Vec<toml::Table> {
    let table: toml::Table = text
        .parse()
        .unwrap_or_else(|error| panic!("{error}\n{text}"));
    let list = table["streams"].as_array().expect("they are a list");
    list.iter()
        .map(|stream| stream.as_table().expect("a table").clone())
        .collect()
}

#[test]
fn streams_are_taken_in_turn_with_names_of_their_own() {
    assert_eq!(Axis::Streams.now(SCENARIO), Ok(3.0));
    let one = Axis::Streams.at(SCENARIO, 1.0).expect("one stream");
    assert_eq!(streams(&one).len(), 1);
    assert!(
        !one.contains("b ="),
        "a lane of a stream that is gone\n{one}"
    );
    let seven = streams(&Axis::Streams.at(SCENARIO, 7.0).expect("seven streams"));
    let names: Vec<&str> = seven.iter().filter_map(|s| s["name"].as_str()).collect();
    assert_eq!(names, ["a", "b", "b-2", "a-2", "b-3", "b-4", "a-3"]);
    let starts: Vec<f64> = seven
        .iter()
        .filter_map(|s| s.get("frames")?.get("start_s")?.as_float())
        .collect();
    assert_eq!(starts.len(), 2, "copies start later");
    assert!(
        starts.iter().all(|start| *start > 0.0 && *start < 2.0),
        "{starts:?}"
    );
}

#[test]
fn rates_and_contexts_are_set_everywhere() {
    let text = Axis::QueryRate.at(SCENARIO, 0.25).expect("a rate");
    let all = streams(&text);
    let law = |at: usize| all[at]["queries"]["arrivals"].clone();
    assert_eq!(law(0)["poisson"]["rate_hz"].as_float(), Some(0.25));
    assert_eq!(law(1)["periodic"]["period_s"].as_float(), Some(4.0));
    let text = Axis::Context.at(SCENARIO, 9.0).expect("a context");
    let table: toml::Table = text.parse().expect("it is TOML");
    assert_eq!(
        table["context"]["keep"]["window"]["frames"].as_integer(),
        Some(9)
    );
    let closed = SCENARIO.replace(
        "poisson = { rate_hz = 0.1 }",
        "closed_loop = { users = 1, think_s = 1 }",
    );
    let fault = Axis::QueryRate
        .at(&closed, 1.0)
        .expect_err("it has no rate");
    assert!(fault.contains("stream `a`"), "{fault}");
    assert!(Axis::Streams.at("title = 1", 1.0).is_err());
    assert!(Axis::Context.now(SCENARIO).is_err());
}

/// Unclear below the least that misses: then that is not the least that was tried. To see it fail, say so anyway.
#[test]
fn what_is_said_of_no_edge_is_true_to_the_table() {
    let plan_of = |edge: Edge| super::Plan {
        title: "x".to_owned(),
        axis: Axis::Streams,
        targets: vec![Target::parse("ttft_p95 <= 1s").expect("it is a target")],
        doubt: super::Doubt {
            numbers: (0, 1),
            span: (1.0, 1.0),
            measured: true,
        },
        doubtful: None,
        conditions: Vec::new(),
        taken: 0,
        edge,
        reach: None,
        rises: Vec::new(),
        scenarios: (None, None),
        limits: None,
    };
    let range = Range {
        low: 1.0,
        high: 8.0,
    };
    let said = |law: fn(f64) -> Verdict| {
        let (edge, _) = found(Axis::Streams, "ttft_p95 <= 1s", range, law);
        let text = super::table(&[plan_of(edge)], &[]);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let text = said(|load| {
        if load < 3.0 {
            Verdict::Unclear
        } else {
            Verdict::Misses
        }
    });
    assert!(
        text.contains("3 streams miss one, and of less (1 to 2) replications do not tell"),
        "{text}"
    );
    let text = said(|_| Verdict::Misses);
    assert!(
        text.contains("the least that was tried, 1 (streams), misses one"),
        "{text}"
    );
    let text = said(|_| Verdict::Unclear);
    assert!(
        text.contains("no load is seen to meet the targets, and none to miss one"),
        "{text}"
    );
    // What is unclear above the least that misses, as in a scan.
    let mut edge = found(Axis::Streams, "ttft_p95 <= 1s", range, |_| Verdict::Unclear).0;
    edge.probes[0].verdict = Verdict::Misses;
    edge.misses = Some(1.0);
    let text = super::table(&[plan_of(edge)], &[]);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("no load is seen to meet the targets: the least that was tried, 1 (streams), misses one, and of larger ones (2 to 8) replications do not tell"),
        "{text}"
    );
    let text = said(|_| Verdict::Meets);
    assert!(text.contains("8 streams meet every target, and no larger load was seen to miss one; the range ended there"), "{text}");
    let text = said(|load| {
        if load < 5.0 {
            Verdict::Meets
        } else {
            Verdict::Unclear
        }
    });
    assert!(
        text.contains("of larger loads replications do not tell (5 to 8)"),
        "{text}"
    );
}

/// An unclear load is looked at with more runs before it is said that none meets.
#[test]
fn no_load_is_given_up_on_a_few_runs() {
    let range = Range {
        low: 1.0,
        high: 8.0,
    };
    let law = |load: f64, look: Look| match look {
        Look::First if load < 3.0 => Verdict::Unclear,
        _ => step(load, 2.0),
    };
    let (edge, _) = searched(Axis::Streams, "ttft_p95 <= 1s", range, law);
    assert_eq!((edge.meets, edge.misses), (Some(2.0), Some(3.0)));
}
