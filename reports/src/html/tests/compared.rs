//! The page of a comparison: its tables, and the points of its front.

use std::collections::BTreeSet;

use serde_json::Value;
use sim::simulation::Simulation;

use super::super::*;
use crate::facts::Facts;
use crate::interval::{Estimate, Replicated};
use crate::{json, number, toy};

/// Three policies on the same arrivals.
pub(super) fn comparison(rate_hz: f64) -> Folder {
    let text = toy::scenario(rate_hz);
    let mut world = toy::world(&text);
    let facts = Facts::of(&world, "toy.toml");
    let (mut detail, _) = toy::detail(&text, 1000);
    let first = detail.runs.remove(0);
    let policies: Vec<(String, Replicated)> = ["state_aware", "serial", "single:npu"]
        .into_iter()
        .map(|name| {
            world.policy = sim::load::parse_policy(name, &["cpu", "npu"]).expect("it is a policy");
            detail.runs.push(crate::detail::Run {
                policy: world.policy.to_string(),
                ..first.clone()
            });
            let mut simulation = Simulation::new(&world);
            let summaries = (0..3).map(|run| {
                simulation.run(run).expect("no policy stops");
                simulation.summary()
            });
            let summaries = summaries.collect();
            (world.policy.to_string(), Replicated { summaries })
        })
        .collect();
    let mut document = json::comparison(&facts, &policies);
    let own = |value: f64, bound: f64| serde_json::json!({ "value": value, "bound": bound });
    document["bounds"] = serde_json::json!({
        "policies": policies.iter().map(|(policy, _)| serde_json::json!({
            "policy": policy,
            "throughput_rps": own(0.123_45, 0.543_21),
            "ttft_s": null,
            "completion_s": own(3.456_78, 1.234_56),
        })).collect::<Vec<_>>(),
        "best_schedules_of_first_replication": [
            { "objective": "completion", "sum_s": 17.654_32, "requests": 6, "exact": true, "replays": 9 },
        ],
    });
    let change = |by: &str, difference: f64, half: f64| serde_json::json!({ "by": by, "difference": difference, "ci95": half, "steady": true });
    document["robustness"] = policies
        .iter()
        .map(|(policy, _)| {
            serde_json::json!({ "policy": policy, "disturbed": [
            change("costs ×÷2", 0.234_56, 0.012_34),
            change("lengths mean", -0.001_23, 0.045_67),
            { "by": "queues 10 s old", "difference": null, "ci95": null, "steady": false },
        ] })
        })
        .collect();
    let detail = serde_json::to_string(&detail).expect("it can be written");
    let folder = Folder::read(
        "out",
        ("compare.json", &document.to_string()),
        Some(("compare-detail.json", &detail)),
    );
    folder.expect("it can be read")
}

fn of_mean(mean: f64) -> Estimate {
    Estimate {
        mean,
        half_width: None,
        n: 0,
    }
}

/// Every number as text that a page may show of a document: those in it, as the one routine writes them.
fn written(value: &Value, own: f64, list: &mut BTreeSet<String>) {
    let mut words = |text: String| list.extend(text.split_whitespace().map(str::to_owned));
    match value {
        Value::Number(x) => {
            let x = x.as_f64().expect("it is a number");
            words(number::short(x));
            words(number::count(Some(of_mean(x))));
            words(number::percent(x));
            words(number::bytes(x));
        }
        Value::Object(fields) => {
            for (mean, half) in [("value", "ci95"), ("difference", "ci95")] {
                if let Some(mean) = value[mean].as_f64() {
                    let half_width = value[half].as_f64();
                    let estimate = Estimate {
                        mean,
                        half_width,
                        n: 0,
                    };
                    words(number::estimate(Some(estimate)));
                    words(number::difference(Some(estimate), own));
                }
            }
            for inner in fields.values() {
                written(inner, own, list);
            }
        }
        Value::Array(inner) => inner.iter().for_each(|inner| written(inner, own, list)),
        _ => {}
    }
}

/// What a policy's row may show: its own numbers, those between it and the reference, and how it fared otherwise.
fn known(folder: &Folder, policy: &str) -> BTreeSet<String> {
    let (_, fields) = folder
        .runs()
        .into_iter()
        .find(|run| run.0 == policy)
        .expect("it is there");
    let mut list = BTreeSet::new();
    written(fields, 0.0, &mut list);
    let (_, reference) = folder.runs()[0];
    for path in [
        "throughput_rps",
        "ttft_s.mean",
        "ttft_s.p95",
        "completion_s.mean",
    ] {
        let scale = read::number(reference, path).map_or(0.0, |own| own.mean);
        written(&fields["difference"][path], scale, &mut list);
    }
    let refused: f64 = fields["counts"]["refused"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(_, count)| count["value"].as_f64())
        .sum();
    list.insert(number::count(Some(of_mean(refused))));
    let own = read::number(fields, "completion_s.mean").map_or(0.0, |own| own.mean);
    let of = |list: &Value| {
        list.as_array()
            .into_iter()
            .flatten()
            .find(|one| one["policy"] == policy)
            .cloned()
    };
    for part in [
        of(&folder.document["bounds"]["policies"]),
        of(&folder.document["robustness"]),
    ] {
        written(&part.unwrap_or_default(), own, &mut list);
    }
    list
}

/// The text of elements that begin so and end so.
fn between<'p>(page: &'p str, from: &str, to: &str) -> Vec<&'p str> {
    let all = page.split(from).skip(1);
    all.filter_map(|rest| rest.split(to).next()).collect()
}

/// Whatever the load, a table has no number that the document does not hold, in the digits of the one routine.
/// To see it fail, write a number of `sections.rs` with another routine or of another field's scale.
#[test]
fn no_table_has_a_number_of_its_own() {
    for rate in [0.03, 0.1, 0.2, 0.6, 2.0] {
        let folder = comparison(rate);
        let page = page(std::slice::from_ref(&folder)).expect("it can be drawn");
        let numbers = between(&page, "aria-labelledby=\"numbers\"", "</section>")[0];
        let mut seen = 0;
        for table in between(numbers, "<table>", "</table>") {
            let heads: Vec<&str> = between(table, "<th scope=\"col\">", "</th>");
            for row in between(table, "<tr><th scope=\"row\">", "</tr>") {
                let name = row.split('<').next().unwrap_or_default();
                for (column, cell) in between(row, "<td", "</td>").into_iter().enumerate() {
                    // Of robustness, columns are policies.
                    let policy = if heads[0] == "wrong" {
                        heads[column + 1]
                    } else {
                        name
                    };
                    let known = known(&folder, policy);
                    let text = cell.split_once('>').expect("a tag ends").1;
                    let text = text.replace("&lt;", "<").replace("&gt;", ">");
                    let of = [
                        "of",
                        "≠",
                        "*",
                        "±",
                        "grows",
                        number::ABSENT,
                        "%",
                        "cpu",
                        "npu",
                    ];
                    let words = text
                        .split([' ', ','])
                        .filter(|word| !word.is_empty() && !of.contains(word));
                    for word in words.filter(|word| word.chars().any(|c| c.is_ascii_digit())) {
                        seen += 1;
                        assert!(
                            known.contains(word),
                            "{rate}: {policy}: `{word}` of `{text}`, {heads:?}"
                        );
                    }
                }
            }
        }
        assert!(seen > 40, "{rate}: {seen}");
    }
}

#[test]
fn what_was_asked_for_beside_is_shown() {
    let folder = comparison(0.1);
    let own = |folder: &Folder| page(std::slice::from_ref(folder)).expect("it can be drawn");
    let text = own(&folder);
    let (_, first) = folder.runs()[0];
    for path in [
        "ttft_s.p50",
        "ttft_s.p99",
        "completion_s.p99",
        "completion_s.max",
    ] {
        let cell = number::estimate(read::number(first, path));
        assert!(cell.contains('±'), "{path}: {cell}");
        assert!(text.contains(&format!("<td>{cell}</td>")), "{path}: {cell}");
    }
    for part in [
        "<td>0.123 of 0.543</td>",
        "<td>3.46 of 1.23</td>",
        "has a completion of 17.7 s in all.",
        "<th scope=\"row\">costs ×÷2</th>",
        "<td>+0.235 ± 0.012 *</td>",
        "<td>grows</td>",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    // Of several folders each has its own.
    let mut other = folder.clone();
    other.name = "other".into();
    other.document["robustness"] = Value::Null;
    let both = page(&[folder.clone(), other]).expect("it can be drawn");
    assert_eq!(both.matches("aria-label=\"Robustness\"").count(), 1);
    assert!(both.contains("<caption>out: Where beliefs are wrong"));
    assert_eq!(both.matches("<td>0.123 of 0.543</td>").count(), 6);
    // What was not asked for has no table.
    let mut bare = folder;
    for part in ["bounds", "robustness"] {
        bare.document[part] = Value::Null;
    }
    let bare = own(&bare);
    assert!(!bare.contains("aria-label=\"Bounds\"") && !bare.contains("aria-label=\"Robustness\""));
}

/// The points of a front can be asked what they are, by hand and by keyboard, and say whether they are beaten.
#[test]
fn points_of_the_front_say_what_they_are() {
    let folder = comparison(0.1);
    let page = page(&[folder]).expect("it can be drawn");
    let points = between(&page, "<ul class=\"points\"", "</ul>");
    assert_eq!(points.len(), 1);
    let items = between(points[0], "<li", "</li>");
    assert_eq!(items.len(), 3);
    assert!(items.iter().all(|item| item.contains("tabindex=\"0\"")));
    let ranked = |words: &str| items.iter().filter(|item| item.contains(words)).count();
    let front = ranked("no other beats it in both");
    assert!(front >= 1);
    assert_eq!(front + ranked("beaten by "), 3);
    assert!(page.contains("beaten: another is as good in both"));
}

/// Where some replications grow, the page says of how many, everywhere, as the text does. To see it fail, take `steady`
/// alone for a queue that grows.
#[test]
fn what_is_open_is_said_to_be_open() {
    let mut folder = comparison(0.1);
    folder.document["replications"] = 20.into();
    let open = &mut folder.document["policies"][2];
    open["steady"] = false.into();
    open["load"]["verdict"] = "near".into();
    open["load"]["saturated_replications"] = 8.into();
    for policy in 0..3 {
        let disturbed = &mut folder.document["robustness"][policy]["disturbed"][2];
        disturbed["saturated_replications"] = 5.into();
    }
    let text = page(std::slice::from_ref(&folder)).expect("it can be drawn");
    assert!(
        text.contains("is open, and a longer run may tell, with single:npu (8/20 grow)"),
        "{text}"
    );
    assert!(!text.contains("Queues grow") && !text.contains("queue grows"));
    assert!(!text.contains("grows</td>"), "{text}");
    assert!(text.contains("<td>8/20 grow</td>") && text.contains("<td>5/20 grow</td>"));
    // Bars have it too.
    assert!(
        between(&text, "<text", "</text>")
            .iter()
            .any(|label| label.contains("8/20 grow"))
    );
    // Where most grow, they do.
    folder.document["policies"][2]["load"]["saturated_replications"] = 17.into();
    let text = page(&[folder]).expect("it can be drawn");
    assert!(text.contains(
        "Queues grow, or too much is refused, so that there is no steady latency, with single:npu."
    ));
    assert!(text.contains("<td>grows</td>") && text.contains("queue grows"));
}
