use sim::simulation::Simulation;

use super::*;
use crate::toy;

fn document(replications: u32) -> Value {
    let world = toy::world(&toy::scenario(0.2));
    let mut simulation = Simulation::new(&world);
    let summaries = (0..replications).map(|run| {
        simulation.run(run).expect("no policy stops");
        simulation.summary()
    });
    let runs = Replicated {
        summaries: summaries.collect(),
    };
    summary(&Facts::of(&world, "toy.toml"), &runs)
}

/// Calls `see` with every number over replications and its path.
fn numbers(value: &Value, path: &str, see: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(object) if object.contains_key("ci95") => see(path, value),
        Value::Object(object) => {
            for (key, value) in object {
                numbers(value, &format!("{path}.{key}"), see);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| numbers(value, path, see)),
        _ => {}
    }
}

#[test]
fn intervals_are_absent_for_one_replication_and_there_for_more() {
    for replications in [1, 4] {
        let text = document(replications).to_string();
        let parsed: Value = serde_json::from_str(&text).expect("it is JSON");
        let mut count = 0;
        numbers(&parsed, "", &mut |path, number| {
            count += 1;
            assert!(number["value"].is_f64(), "{path}");
            assert_eq!(number["ci95"].is_null(), replications == 1, "{path}");
        });
        assert!(count > 30, "{count}");
    }
}

#[test]
fn what_a_run_lacks_is_null() {
    let facts = Facts::of(&toy::world(&toy::scenario(0.2)), "toy.toml");
    let empty = Replicated {
        summaries: vec![Summary::default()],
    };
    let document = summary(&facts, &empty);
    for key in ["energy_j", "frames_behind"] {
        assert!(document[key].is_null(), "{key}");
    }
    assert!(document["ttft_s"]["mean"].is_null());
    assert_eq!(document["counts"]["refused"]["queue_full"]["value"], 0.0);
}

fn runs(world: &sim::world::World, replications: u32) -> Replicated {
    let mut simulation = Simulation::new(world);
    let summaries = (0..replications).map(|run| {
        simulation.run(run).expect("no policy stops");
        simulation.summary()
    });
    Replicated {
        summaries: summaries.collect(),
    }
}

#[test]
fn a_saturated_run_has_values_without_intervals() {
    let world = toy::world(&toy::scenario(2.0));
    let facts = Facts::of(&world, "toy.toml");
    let document = summary(&facts, &runs(&world, 3));
    assert_eq!(document["load"]["verdict"], "saturated");
    let overload = document["load"]["overload"].as_array().expect("is a list");
    assert!(overload.contains(&"queries_wait".into()), "{overload:?}");
    assert_eq!(document["steady"], false);
    for key in ["ttft_s", "completion_s", "queueing_s", "staleness_s"] {
        assert!(document[key]["mean"]["value"].is_f64(), "{key}");
        assert!(document[key]["mean"]["ci95"].is_null(), "{key}");
    }
    assert!(document["tpot_s"]["mean"]["ci95"].is_f64());
    assert!(document["throughput_rps"]["ci95"].is_f64());
    let both = [("a".into(), runs(&world, 3)), ("b".into(), runs(&world, 3))];
    let policies = &comparison(&facts, &both)["policies"];
    assert_eq!(policies[1]["steady"], false);
    let difference = &policies[1]["difference"];
    assert_eq!(
        difference["ttft_s.mean"],
        json!({
            "value": 0.0,
            "ci95": null,
            "excludes_zero": null,
            "p_holm": null,
            "differs": null,
        })
    );
    assert_eq!(difference["throughput_rps"]["ci95"], 0.0);
}

#[test]
fn a_full_context_is_warned_of() {
    let text = toy::scenario(0.2).replace("{ window = { frames = 4 } }", "\"all\"");
    let world = toy::world(&text.replace("rate_hz = 0.5", "rate_hz = 2.0"));
    let facts = Facts::of(&world, "toy.toml");
    let runs = runs(&world, 1);
    let document = summary(&facts, &runs);
    let refused = &document["counts"]["frames_refused_by"];
    let count = refused["context_too_long"]["value"]
        .as_f64()
        .expect("is there");
    assert!(count > 0.0, "{refused}");
    let says =
        format!("{count} frames were refused: the context is full (longest context 8192 tokens)");
    let warnings = document["warnings"].as_array().expect("is a list");
    let mut texts = warnings.iter().filter_map(Value::as_str);
    assert!(texts.any(|text| text.starts_with(&says)), "{warnings:?}");
    let table = crate::table::run(&facts, &runs);
    assert!(table.contains("frames were refused: the context is full"));
    let policies = [("naive".into(), runs)];
    let document = comparison(&facts, &policies).to_string();
    assert!(document.contains(&format!("naive: {says}")));
}

#[test]
fn differences_are_to_the_first_policy() {
    let world = toy::world(&toy::scenario(0.2));
    let facts = Facts::of(&world, "toy.toml");
    let of = |throughput_rps| Replicated {
        summaries: vec![
            Summary {
                throughput_rps,
                ..Summary::default()
            };
            2
        ],
    };
    let document = comparison(
        &facts,
        &[("a".into(), of(Some(1.0))), ("b".into(), of(Some(3.0)))],
    );
    assert_eq!(document["reference"], "a");
    assert!(document["policies"][0]["difference"].is_null());
    assert_eq!(
        document["policies"][1]["difference"]["throughput_rps"],
        json!({
            "value": 2.0,
            "ci95": 0.0,
            "excludes_zero": true,
            "p_holm": 0.0,
            "differs": true,
        })
    );
}

/// Six digits of every number: the last ones are no result.
fn rounded(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let digits = format!("{:.5e}", number.as_f64().unwrap_or(f64::NAN));
            *value = digits.parse::<f64>().unwrap_or(f64::NAN).into();
        }
        Value::Array(list) => list.iter_mut().for_each(rounded),
        Value::Object(object) => object.values_mut().for_each(rounded),
        _ => {}
    }
}

#[test]
fn the_document_of_a_small_run() {
    let mut document = document(4);
    rounded(&mut document);
    document["tool"]["version"] = "[VERSION]".into();
    insta::assert_snapshot!(format!("{document:#}"));
}
