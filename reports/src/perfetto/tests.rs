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
    Simulation::new(&world)
        .run_into(0, &mut timeline)
        .expect("no policy stops");
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
            if slice["pid"] == STREAMS {
                continue;
            }
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
        let of_kind = |kind: &'static str, phase| {
            of(&events, phase).filter(move |event| event["cat"] == kind)
        };
        let mut starts: BTreeMap<u64, &Value> = BTreeMap::new();
        for start in of_kind("version", "s") {
            let id = start["id"].as_u64().expect("arrows have ids");
            assert!(starts.insert(id, start).is_none(), "one start each");
        }
        // Without reuse nothing is ingested ahead, so there is nothing for arrows to start from.
        let ingested = slices.iter().any(|slice| slice["name"] == "ingest");
        assert_eq!(!starts.is_empty(), ingested);
        for end in of_kind("version", "f") {
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
        for (kind, from, to) in [
            ("frame", "frame", "ingest"),
            ("answer", "decode", "complete"),
        ] {
            let starts: BTreeMap<u64, &Value> = of_kind(kind, "s")
                .map(|start| (start["id"].as_u64().expect("arrows have ids"), start))
                .collect();
            let ends: Vec<&Value> = of_kind(kind, "f").collect();
            assert_eq!(starts.len(), ends.len());
            for end in ends {
                let start = starts[&end["id"].as_u64().expect("arrows have ids")];
                assert_eq!(around(start)["name"], from);
                assert_eq!(around(end)["name"], to);
            }
        }
        let completed = slices.iter().filter(|slice| slice["name"] == "complete");
        assert_eq!(of_kind("answer", "s").count(), completed.count());
    }
}

#[test]
fn counters_end_at_nothing_and_every_query_ends_once() {
    for scenario in scenarios() {
        let events = events(&scenario);
        let named = |name: &str| {
            let points = of(&events, "i").chain(of(&events, "X"));
            points.filter(|event| event["name"] == name).count()
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

/// Every field that the format's specification ("Trace Event Format", JSON) has for the phases in use:
/// an unknown phase or field, a wrong type or a missing field is an error.
#[derive(serde::Deserialize)]
#[serde(tag = "ph", deny_unknown_fields)]
#[expect(dead_code, reason = "fields are there to be checked")]
enum Event {
    #[serde(rename = "M")]
    Metadata {
        name: MetadataName,
        pid: u64,
        tid: u64,
        args: MetadataArgs,
    },
    #[serde(rename = "X")]
    Complete {
        name: String,
        ts: f64,
        dur: f64,
        pid: u64,
        tid: u64,
        args: serde_json::Map<String, Value>,
    },
    #[serde(rename = "i")]
    Instant {
        name: String,
        ts: f64,
        s: Scope,
        pid: u64,
        tid: u64,
        args: serde_json::Map<String, Value>,
    },
    #[serde(rename = "C")]
    Counter {
        name: String,
        ts: f64,
        pid: u64,
        tid: u64,
        args: BTreeMap<String, f64>,
    },
    #[serde(rename = "s")]
    FlowStart {
        name: String,
        cat: String,
        id: u64,
        ts: f64,
        pid: u64,
        tid: u64,
    },
    #[serde(rename = "f")]
    FlowEnd {
        name: String,
        cat: String,
        id: u64,
        ts: f64,
        pid: u64,
        tid: u64,
        bp: Binding,
    },
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum MetadataName {
    ProcessName,
    ThreadName,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "fields are there to be checked")]
struct MetadataArgs {
    name: String,
}

#[derive(serde::Deserialize)]
enum Scope {
    #[serde(rename = "t")]
    Thread,
}

#[derive(serde::Deserialize)]
enum Binding {
    #[serde(rename = "e")]
    Enclosing,
}

#[test]
fn every_event_is_of_the_format() {
    for scenario in scenarios() {
        let mut tracks = std::collections::BTreeSet::new();
        for value in events(&scenario) {
            let event: Event = serde_json::from_value(value.clone())
                .unwrap_or_else(|error| panic!("{error}: {value}"));
            let track = (value["pid"].as_u64(), value["tid"].as_u64());
            if let Event::Metadata {
                name: MetadataName::ThreadName,
                ..
            } = event
            {
                tracks.insert(track);
            } else if matches!(value["ph"].as_str(), Some("X" | "i" | "s" | "f")) {
                assert!(tracks.contains(&track), "a track without name: {value}");
            }
            let times = [&value["ts"], &value["dur"]];
            let times = times.into_iter().filter_map(Value::as_f64);
            assert!(times.into_iter().all(|time| time >= 0.0), "{value}");
        }
    }
}

#[test]
fn traffic_and_energy_of_the_counters_are_the_runs() {
    let text = toy::scenario(0.5).replace("warm_up_s = 10.0", "warm_up_s = 0.0");
    let world = toy::world(&text);
    let mut simulation = Simulation::new(&world);
    simulation.run(0).expect("no policy stops");
    let summary = simulation.summary();
    let events = events(&text);
    // Each stage raises its counter at its start and lowers it at its end.
    let integral = |prefix: &str, unit: &str| {
        let counters: Vec<&Value> = of(&events, "C")
            .filter(|event| {
                event["name"]
                    .as_str()
                    .is_some_and(|name| name.starts_with(prefix))
            })
            .collect();
        let areas = counters.chunks(2).map(|pair| {
            assert_eq!(pair[1]["args"][unit], 0.0);
            let height = pair[0]["args"][unit].as_f64().expect("a number");
            height * (nanos(pair[1], "ts") - nanos(pair[0], "ts")) as f64 / 1e9
        });
        areas.sum::<f64>()
    };
    let moved = summary.mean_bandwidth_gbps * summary.run_s;
    let cpu = integral("memory traffic cpu", "GB/s");
    let npu = integral("memory traffic npu", "GB/s");
    assert!(
        ((cpu + npu) / moved - 1.0).abs() < 1e-6,
        "{cpu} + {npu} of {moved}"
    );
    assert!(integral("power cpu", "W") > 0.0);
    // All power counters: each holds until its next event.
    let mut watts: BTreeMap<String, Vec<(u64, f64)>> = BTreeMap::new();
    for event in of(&events, "C") {
        if let Some(height) = event["args"]["W"].as_f64() {
            let name = event["name"].as_str().expect("a name").to_owned();
            watts
                .entry(name)
                .or_default()
                .push((nanos(event, "ts"), height));
        }
    }
    let names: Vec<&str> = watts.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "base power",
            "idle power cpu",
            "idle power npu",
            "power cpu",
            "power npu"
        ]
    );
    let joules: f64 = watts
        .values_mut()
        .map(|events| {
            events.sort_by_key(|event| event.0);
            let pairs = events.windows(2);
            pairs
                .map(|two| two[0].1 * (two[1].0 - two[0].0) as f64 / 1e9)
                .sum::<f64>()
        })
        .sum();
    let energy = summary.energy_j.expect("the toy has power");
    assert!((joules / energy - 1.0).abs() < 1e-6, "{joules} of {energy}");
    for (name, events) in &watts {
        assert_eq!(events.last().map(|event| event.1), Some(0.0), "{name}");
    }
}

/// After the last stage, an engine holds what the versions say. To see it fail, keep what an ingest had before older
/// frames went.
#[test]
fn the_context_that_stays_is_that_of_the_newest_versions() {
    for frames in [1, 4] {
        let window = format!("window = {{ frames = {frames} }}");
        let text = toy::scenario(0.1).replace("window = { frames = 4 }", &window);
        let text = text.replace("[context]", "[policy.single]\nlane = \"npu\"\n[context]");
        let events = events(&text);
        let mut tokens: BTreeMap<u64, u64> = BTreeMap::new();
        for publish in of(&events, "i").filter(|event| event["name"] == "publish") {
            let stream = publish["tid"].as_u64().expect("a stream");
            tokens.insert(stream, publish["args"]["tokens"].as_u64().expect("tokens"));
        }
        let held = of(&events, "C").filter(|event| event["name"] == "resident context");
        let last = held.last().expect("it is counted");
        assert_eq!(last["args"]["tokens"], tokens.values().sum::<u64>());
    }
}
