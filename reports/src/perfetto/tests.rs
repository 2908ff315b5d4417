//! Laws of the timeline, on whole runs.

use std::collections::BTreeMap;

use serde_json::Value;
use sim::simulation::Simulation;

use super::*;
use crate::toy;

/// The events of a run of a scenario.
fn events(scenario: &str) -> Vec<Value> {
    let world = toy::world(scenario);
    let mut timeline = Timeline::new(&world, Vec::new()).expect("memory can be written");
    Simulation::new(&world).run_into(0, &mut timeline);
    let text = timeline.finish().expect("memory can be written");
    let document: Value = serde_json::from_slice(&text).expect("the timeline is JSON");
    let list = document["traceEvents"].as_array();
    list.expect("there is a list of events").clone()
}

/// Scenarios whose timelines must keep the laws.
fn scenarios() -> [String; 4] {
    let base = toy::scenario(0.2);
    [
        base.clone(),
        toy::scenario(2.0),
        base.replace("[context]", "[modes]\ncontext_reuse = false\n[context]"),
        base.replace(
            "[context]",
            "[policy.round_robin]\n[context]\nanswers_join_history = true\nbinding = \"at_dispatch\"",
        ),
    ]
}

fn nanos(event: &Value, key: &str) -> u64 {
    (event[key].as_f64().expect("a number") * 1e3).round() as u64
}

fn of<'e>(events: &'e [Value], phase: &'e str) -> impl Iterator<Item = &'e Value> {
    events.iter().filter(move |event| event["ph"] == phase)
}

#[test]
fn slices_of_a_lane_never_overlap() {
    for scenario in scenarios() {
        let events = events(&scenario);
        let mut lanes: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
        for slice in of(&events, "X") {
            let from = nanos(slice, "ts");
            let lane = format!("{}/{}", slice["pid"], slice["tid"]);
            let list = lanes.entry(lane).or_default();
            list.push((from, from + nanos(slice, "dur")));
        }
        assert_eq!(lanes.len(), 2);
        for (lane, mut slices) in lanes {
            slices.sort_unstable();
            for pair in slices.windows(2) {
                assert!(pair[0].1 <= pair[1].0, "{lane}: {pair:?}");
            }
        }
    }
}

#[test]
fn arrows_pair_up_and_lie_in_an_ingest_and_a_prefill_of_one_version() {
    for scenario in scenarios() {
        let events = events(&scenario);
        let slices: Vec<&Value> = of(&events, "X").collect();
        let around = |end: &Value| {
            let at = nanos(end, "ts");
            let found = slices.iter().find(|slice| {
                let from = nanos(slice, "ts");
                slice["pid"] == end["pid"]
                    && slice["tid"] == end["tid"]
                    && (from..from + nanos(slice, "dur")).contains(&at)
            });
            *found.expect("an arrow lies in a slice")
        };
        let mut starts: BTreeMap<u64, &Value> = BTreeMap::new();
        for start in of(&events, "s") {
            let id = start["id"].as_u64().expect("arrows have ids");
            assert!(starts.insert(id, start).is_none(), "one start each");
        }
        // Without reuse nothing is ingested ahead, so there is nothing for arrows to start from.
        let ingested = slices.iter().any(|slice| slice["name"] == "ingest");
        assert_eq!(!starts.is_empty(), ingested);
        for end in of(&events, "f") {
            let id = end["id"].as_u64().expect("arrows have ids");
            let start = starts.remove(&id).expect("an end has a start");
            let (from, to) = (around(start), around(end));
            assert_eq!(from["name"], "ingest");
            assert_eq!(to["name"], "query_prefill");
            for key in ["stream", "version"] {
                assert_eq!(from["args"][key], to["args"][key]);
            }
            assert!(nanos(start, "ts") < nanos(end, "ts"));
        }
        assert!(starts.is_empty(), "every start has an end");
    }
}

#[test]
fn counters_end_at_nothing_and_every_query_ends_once() {
    for scenario in scenarios() {
        let events = events(&scenario);
        let named = |name: &str| {
            let instants = of(&events, "i");
            instants.filter(|event| event["name"] == name).count()
        };
        let refused = of(&events, "i").filter(|event| event["args"]["query"].is_u64());
        let refused = refused.filter(|event| event["name"] == "refuse").count();
        assert!(named("query") > 0);
        assert_eq!(named("query"), named("complete") + refused);
        let counters = of(&events, "C").filter(|event| event["name"] == "requests");
        let last = counters.last().expect("queries came");
        assert_eq!(last["args"], json!({ "waiting": 0, "answering": 0 }));
    }
}
