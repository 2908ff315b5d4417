//! No key passes silently: each key of the schemas changes what a run does or reports, or is reported.
//!
//! `keys/rows.txt` has a block for each: its schema and path, edits of the files beside it (`given` ones on both
//! sides), and what is to be seen: nothing stated means another trace or another `summary.json` (assumptions and
//! warnings left out, where any number shows), `> listed` another list of numbers as `check` has it, and another
//! text a fault with these words. A key without a block fails.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use reports::facts::Facts;
use reports::interval::Replicated;
use reports::json;
use serde_json::{Map, Value};
use sim::diag::Faults;
use sim::load::{self, Kind};
use sim::simulation::Simulation;
use sim::trace::{Header, Writer};
use sim::world::World;
use validation::inline::Inline;

const PAIRS: &str = r#"[contention]
model = "pairwise"
[[contention.pairs]]
victim = "cpu"
aggressor = "npu"
victim_mu = [0.0, 1.0]
aggressor_mu = [0.0, 1.0]
slowdown = [[1.0, 1.2], [1.0, 1.6]]
[[contention.pairs]]
victim = "npu"
aggressor = "cpu"
victim_mu = [0.0, 1.0]
aggressor_mu = [0.0, 1.0]
slowdown = [[1.0, 1.1], [1.0, 1.3]]"#;

const CURVE: &str = "normal_from_gbps = 2.0
intensive_from_gbps = 14.0
minor_loss = 0.05
balance_gbps = 15.0
onset_gbps = 16.0
normal_rate = 0.02
intensive_rate = 0.03
";

const HEAT: &str = r"[heat]
ambient_c = 25.0
kelvin_per_watt = 8.0
time_constant_s = 4.0
[[heat.steps]]
from_c = 45.0
until_c = 44.0
speed = { cpu = 0.5 }";

fn read(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/keys");
    fs::read_to_string(folder.join(name)).expect("the test's files are there")
}

/// Schema and path of every key that holds a value, with `*` for names of the user's choice.
fn keys() -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    for kind in Kind::ALL {
        let root: Value = serde_json::from_str(&load::schema(kind)).expect("schemas are JSON");
        let mut paths = BTreeSet::new();
        walk(&root, &root, "", &mut paths);
        found.extend(paths.into_iter().map(|path| (kind.to_string(), path)));
    }
    found
}

fn resolved(root: &Value, schema: &Value) -> Map<String, Value> {
    let mut merged = schema.as_object().cloned().unwrap_or_default();
    let all = schema["allOf"].as_array().into_iter().flatten();
    for one in all.chain([schema]) {
        if let Some(name) = one["$ref"].as_str() {
            let target = root.pointer(name.trim_start_matches('#'));
            for (key, value) in resolved(root, target.expect("references lead somewhere")) {
                merged.entry(key).or_insert(value);
            }
        }
    }
    merged
}

fn walk(root: &Value, schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    let schema = resolved(root, schema);
    let alternatives = ["oneOf", "anyOf"].iter().find_map(|key| schema.get(*key));
    if schema.contains_key("x-quantity") {
        found.insert(path.to_owned());
    } else if let Some(alternatives) = alternatives.and_then(Value::as_array) {
        for one in alternatives {
            if one["type"] != "null" {
                walk(root, one, path, found);
            }
        }
    } else if let Some(Value::Object(properties)) = schema.get("properties") {
        for (key, value) in properties {
            let dot = if path.is_empty() { "" } else { "." };
            walk(root, value, &format!("{path}{dot}{key}"), found);
        }
    } else if let Some(any @ Value::Object(_)) = schema.get("additionalProperties") {
        walk(root, any, &format!("{path}.*"), found);
    } else if let Some(item) = schema.get("items")
        && resolved(root, item).contains_key("properties")
    {
        walk(root, item, &format!("{path}[]"), found);
    } else {
        found.insert(path.to_owned());
    }
}

/// The files of one side.
#[derive(Clone)]
struct Side {
    texts: BTreeMap<String, String>,
    further: Vec<(String, String)>,
}

impl Side {
    fn edit(&mut self, line: &str) {
        let (file, change) = line.split_once(": ").expect("`file: change`");
        let change = change.replace("\\n", "\n");
        if let Some(whole) = change.strip_prefix("= ") {
            let text = self.texts.get(whole).map_or(whole, String::as_str);
            self.further.push((file.to_owned(), text.to_owned()));
            return;
        }
        let text = self.texts.get_mut(file).expect("a file of the test");
        if let Some(more) = change.strip_prefix("+ ") {
            text.push_str(more);
            text.push('\n');
            return;
        }
        let (old, new) = change.split_once(" ==>").expect("`old ==> new`");
        assert!(text.contains(old), "`{old}` is not in {file}:\n{text}");
        let new = new.strip_prefix(' ').unwrap_or(new);
        let pccs = format!(
            "[contention]\nmodel = \"pccs\"\n[contention.pccs.cpu]\n{CURVE}[contention.pccs.npu]\n{CURVE}"
        );
        let new = new.replace("PAIRS", PAIRS).replace("PCCS", &pccs);
        *text = text.replacen(old, &new.replace("HEAT", HEAT), 1);
    }

    /// As `run` takes it.
    fn world(&self) -> Result<World, String> {
        let files = Inline {
            soc: self.texts["soc"].clone(),
            model: self.texts["model"].clone(),
            costs: self.texts["costs"].clone(),
            files: self.further.clone(),
        };
        let read = || {
            let inputs = files.inputs(&self.texts["scenario"])?;
            let world = inputs.world()?;
            inputs.read_by(std::slice::from_ref(&world))?;
            Ok(world)
        };
        read().map_err(|faults: Box<Faults>| faults.to_string())
    }
}

/// What a run does and reports.
fn played(world: &World) -> String {
    let mut simulation = Simulation::new(world);
    let (mut summaries, mut seen) = (Vec::new(), world.notes.join("\n"));
    for run in 0..world.replications {
        let mut trace = Writer::new(Vec::new(), &Header::of(world, run)).expect("memory takes it");
        simulation.run_into(run, &mut trace).expect("it runs");
        let bytes = trace.finish().expect("memory takes it");
        seen += &String::from_utf8(bytes).expect("a trace is text");
        summaries.push(simulation.summary());
    }
    let facts = Facts::of(world, "s.toml");
    let mut summary = json::summary(&facts, &Replicated { summaries });
    for told in ["assumptions", "warnings"] {
        summary.as_object_mut().and_then(|all| all.remove(told));
    }
    seen + &summary.to_string()
}

/// The numbers of all files as `check` lists them.
fn listed(world: &World) -> String {
    let numbers = world.provenance.iter();
    let line = |n: &sim::world::Provenance| {
        format!(
            "{} {} {:?} {} {:?} {:?}\n",
            n.path, n.value, n.kind, n.origin, n.source, n.note
        )
    };
    numbers.map(line).collect()
}

/// What is wrong with a row, if anything is.
fn failure(base: &Side, lines: &[&str]) -> Option<String> {
    let (mut plain, mut expected) = (base.clone(), None);
    let mut edits = Vec::new();
    for line in lines {
        if let Some(text) = line.strip_prefix("> ") {
            expected = Some(text);
        } else if let Some(edit) = line.strip_prefix("given ") {
            plain.edit(edit);
        } else {
            edits.push(line);
        }
    }
    let mut changed = plain.clone();
    for edit in edits {
        changed.edit(edit);
    }
    let before = match plain.world() {
        Ok(world) => world,
        Err(faults) => return Some(format!("the base has faults: {faults}")),
    };
    let after = changed.world();
    match expected {
        None | Some("listed") => {
            let after = match after {
                Ok(world) => world,
                Err(faults) => return Some(faults),
            };
            let shown = if expected.is_none() { played } else { listed };
            (shown(&before) == shown(&after)).then(|| "changes nothing".to_owned())
        }
        Some(text) => {
            let said = after.err().unwrap_or_default();
            (!said.contains(text)).then(|| format!("says `{said}`"))
        }
    }
}

#[test]
fn every_key_has_an_effect_or_is_reported() {
    let files = ["scenario", "soc", "model", "costs"];
    let texts = files.map(|kind| (kind.to_owned(), read(&format!("{kind}.toml"))));
    let mut texts = BTreeMap::from(texts);
    texts.insert("policy".to_owned(), read("policy.rhai"));
    let base = Side {
        texts,
        further: Vec::new(),
    };
    let mut missing = keys();
    let known = missing.clone();
    assert!(known.len() > 180, "{} keys", known.len());
    let mut wrong = Vec::new();
    for block in read("rows.txt").split("\n\n") {
        let mut lines = block.trim().lines();
        let head = lines.next().expect("a block has a head");
        let (kind, path) = head.split_once(' ').expect("schema and path");
        let key = (kind.to_owned(), path.to_owned());
        if !known.contains(&key) {
            wrong.push(format!("{head}: no such key"));
        }
        missing.remove(&key);
        let lines: Vec<&str> = lines.collect();
        wrong.extend(failure(&base, &lines).map(|why| format!("{head}: {why}\n  {lines:?}")));
    }
    wrong.extend(
        missing
            .iter()
            .map(|(kind, path)| format!("{kind} {path}: has no row")),
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
