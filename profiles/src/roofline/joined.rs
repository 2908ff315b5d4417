//! Measured costs beside derived ones: of each engine and stage what was measured is taken, what nobody measured is
//! derived, and every number keeps its origin. What was measured of another thing is refused, and of two measured
//! values for one thing neither is taken.

mod file;
mod growth;
mod same;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use toml_edit::{InlineTable, Value};

use super::chip::Chip;
use super::profile::{self, Asked, Costs, number, text};
use super::soc;
use super::stage::Placed;
use crate::import::stated;
use file::{File, texts};

/// Stages of the language model: an engine that has all runs it.
const LANGUAGE: [&str; 3] = ["ingest", "query_prefill", "decode"];

/// Measured costs of a chip and a model.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    files: Vec<File>,
    threads: BTreeMap<String, u32>,
    /// What is to be known of them.
    pub remarks: Vec<String>,
}

/// One thing of an engine, and the file that it is from.
type Taken = BTreeMap<String, (String, InlineTable)>;

impl Measured {
    /// Cost files by name and text, as `crossinfer import` writes them, of what is asked; `chips` are all that are known.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with a file, or of another board, clock, runtime, model or quantisation.
    pub fn read(
        files: &[(String, String)],
        of: &Asked<'_>,
        chips: &[Chip],
    ) -> Result<Self, Vec<String>> {
        let mut all = Self::default();
        let mut faults = Vec::new();
        for (name, text) in files {
            match File::read(name, text) {
                Ok(file) => {
                    same::as_asked(&file, of, chips, &mut faults, &mut all.remarks);
                    all.files.push(file);
                }
                Err(fault) => faults.push(fault),
            }
        }
        same::among(&all.files, &mut faults, &mut all.remarks);
        for file in &all.files {
            for (engine, identity) in &file.identities {
                let threads = identity.get("threads").and_then(|text| text.parse().ok());
                if let Some(threads) = threads
                    && of.chip.engines.get(engine).is_some_and(|e| e.kind == "cpu")
                {
                    all.threads.insert(engine.clone(), threads);
                }
            }
        }
        if faults.is_empty() {
            Ok(all)
        } else {
            Err(faults)
        }
    }

    /// Threads that CPUs were measured on.
    pub fn threads(&self) -> &BTreeMap<String, u32> {
        &self.threads
    }

    /// The derived costs with the measured ones in their places.
    ///
    /// # Errors
    ///
    /// Values for one thing that contradict each other, with both.
    pub fn join(&self, derived: Costs, of: &Asked<'_>) -> Result<Costs, Vec<String>> {
        if self.files.is_empty() {
            return Ok(derived);
        }
        let mut conflicts = Vec::new();
        let mut out = Joined::default();
        for file in &self.files {
            let renamed = out.origins(file);
            for (name, engine) in &file.engines {
                let into = out.engines.entry(name.clone()).or_default();
                for (things, taken) in [
                    (&engine.stages, &mut into.stages),
                    (&engine.others, &mut into.others),
                    (&engine.unsupported, &mut into.unsupported),
                ] {
                    for (thing, value) in things {
                        let mut value = value.clone();
                        file::rename(&mut value, &renamed);
                        let what = format!("engine `{name}`, {thing}");
                        if let Some((other, there)) = taken.get(thing) {
                            conflicts.extend(differ(&what, (other, there), (&file.name, &value)));
                        } else {
                            taken.insert(thing.clone(), (file.name.clone(), value));
                        }
                    }
                }
                for (thing, (other, _)) in &into.stages {
                    if let Some((none, why)) = into.unsupported.get(thing) {
                        conflicts.push(format!(
                            "engine `{name}`, {thing}: measured in {other}, and unsupported in {none} ({})",
                            texts(why).join("; ")
                        ));
                    }
                }
            }
        }
        if !conflicts.is_empty() {
            return Err(conflicts);
        }
        let base = File::read("", &derived.toml).map_err(|fault| vec![fault])?;
        Ok(self.beside(out, &base, &derived, of))
    }

    /// Puts what is derived where nothing was measured.
    fn beside(&self, mut out: Joined, base: &File, derived: &Costs, of: &Asked<'_>) -> Costs {
        let mut done = Costs::default();
        let renamed = out.origins(base);
        let mut filled = false;
        for (name, engine) in &base.engines {
            let into = out.engines.entry(name.clone()).or_default();
            let measured: BTreeMap<&str, BTreeSet<&str>> = into.stages.iter().fold(
                BTreeMap::new(),
                |mut files: BTreeMap<&str, BTreeSet<&str>>, (stage, (file, _))| {
                    files.entry(file).or_default().insert(stage);
                    files
                },
            );
            let mut remark: Vec<String> = measured
                .iter()
                .map(|(file, stages)| format!("{} measured ({file})", list(stages)))
                .collect();
            filled |= bytes(into, name, of, &self.threads);
            remark.extend(growth::add(&mut into.stages, &engine.stages, &renamed));
            let mut added = BTreeSet::new();
            for (stage, value) in &engine.stages {
                if into.stages.contains_key(stage) || into.unsupported.contains_key(stage) {
                    continue;
                }
                let mut value = value.clone();
                file::rename(&mut value, &renamed);
                added.insert(stage.as_str());
                into.stages.insert(stage.clone(), (String::new(), value));
            }
            for (stage, why) in &engine.unsupported {
                if !into.stages.contains_key(stage) && !into.unsupported.contains_key(stage) {
                    let entry = (String::new(), why.clone());
                    into.unsupported.insert(stage.clone(), entry);
                }
            }
            let whole = LANGUAGE
                .iter()
                .all(|stage| into.stages.contains_key(*stage));
            done.able += usize::from(whole);
            let own = derived.remarks.iter().find(|(engine, _)| engine == name);
            let own = own.map_or("", |(_, text)| text.as_str());
            if remark.is_empty() {
                remark.push(own.to_owned());
            } else {
                if !added.is_empty() {
                    remark.push(format!("{} derived", list(&added)));
                }
                if !whole {
                    remark.push(own.to_owned());
                }
            }
            done.remarks.push((name.clone(), remark.join("; ")));
        }
        if filled {
            out.origins.entry(BYTES.to_owned()).or_insert_with(|| {
                let mut table = InlineTable::new();
                table.insert("kind", "derived".into());
                table.insert("note", BYTES_NOTE.into());
                table
            });
        }
        done.toml = out.write(&self.files, of);
        done
    }
}

/// Origin of bytes that a measurement does not state.
const BYTES: &str = "joined-bytes";
const BYTES_NOTE: &str = "What was measured does not state them: weights that a stage or a token of an answer reads, the KV before it once, and 16-bit activations once";

/// Adds the DRAM bytes that a measured stage does not state, which follow from the model's shape alone.
fn bytes(into: &mut Merged, name: &str, of: &Asked<'_>, threads: &BTreeMap<String, u32>) -> bool {
    let mut filled = false;
    let Some(engine) = of.chip.engines.get(name) else {
        return false;
    };
    let threads = soc::threads(name, engine, threads);
    let placed = Placed::new(of.chip, name, engine, of.shape, of.datatype, threads);
    let Ok(placed) = placed else {
        return false;
    };
    for (stage, keys) in profile::bytes(&placed) {
        let Some((_, table)) = into.stages.get_mut(stage) else {
            continue;
        };
        for (key, value) in keys {
            if table.contains_key(key) {
                continue;
            }
            let mut quantity = InlineTable::new();
            // As it is written: six digits.
            let value: f64 = number(value).parse().unwrap_or(value);
            quantity.insert("value", value.into());
            quantity.insert("origin", BYTES.into());
            table.insert(key, Value::InlineTable(quantity));
            filled = true;
        }
    }
    filled
}

/// Where two values for one thing differ, both shown.
fn differ(what: &str, a: (&str, &InlineTable), b: (&str, &InlineTable)) -> Option<String> {
    let (left, right) = (file::plain(a.1), file::plain(b.1));
    let keys: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
    let of = |side: &BTreeMap<String, String>, key: &str| {
        side.get(key)
            .cloned()
            .unwrap_or_else(|| "not stated".to_owned())
    };
    let list: Vec<String> = keys
        .into_iter()
        .filter(|key| left.get(*key) != right.get(*key))
        .map(|key| {
            format!(
                "`{key}` is {} in {} and {} in {}",
                of(&left, key),
                a.0,
                of(&right, key),
                b.0
            )
        })
        .collect();
    (!list.is_empty()).then(|| format!("{what}: {}", list.join("; ")))
}

fn list(of: &BTreeSet<&str>) -> String {
    of.iter().copied().collect::<Vec<_>>().join(", ")
}

/// An engine's things by name, each with the file that it is from.
#[derive(Clone, Debug, Default)]
struct Merged {
    stages: Taken,
    others: Taken,
    unsupported: Taken,
}

/// A cost file that is put together.
#[derive(Clone, Debug, Default)]
struct Joined {
    engines: BTreeMap<String, Merged>,
    origins: BTreeMap<String, InlineTable>,
}

impl Joined {
    /// Takes a file's origins; says what each is called here.
    fn origins(&mut self, file: &File) -> BTreeMap<String, String> {
        let mut renamed = BTreeMap::new();
        for (key, table) in &file.origins {
            let mut name = key.clone();
            let mut next = 2;
            while self
                .origins
                .get(&name)
                .is_some_and(|there| there.to_string() != table.to_string())
            {
                name = format!("{key}-{next}");
                next += 1;
            }
            self.origins.insert(name.clone(), table.clone());
            renamed.insert(key.clone(), name);
        }
        renamed
    }

    fn write(&self, files: &[File], of: &Asked<'_>) -> String {
        let mut out = stated::HEAD.to_owned();
        let mut seen = BTreeSet::new();
        for line in files.iter().flat_map(|file| &file.lines) {
            if seen.insert(line) {
                _ = writeln!(out, "# {line}");
            }
        }
        if seen.is_empty() {
            out.clear();
        }
        _ = writeln!(
            out,
            "soc = {}\nmodel = {}\n",
            text(&of.chip.key),
            text(of.key)
        );
        let mut used = BTreeSet::new();
        for (name, engine) in &self.engines {
            if !engine.others.is_empty() {
                _ = writeln!(out, "[engines.{name}]");
                for (key, (_, table)) in &engine.others {
                    for (_, value) in table {
                        _ = writeln!(out, "{key} = {}", file::shown(value));
                    }
                    file::uses(&Value::InlineTable(table.clone()), &mut used);
                }
                out.push('\n');
            }
            for (stage, (_, table)) in &engine.stages {
                _ = writeln!(out, "[engines.{name}.stages.{stage}]");
                for (key, value) in table {
                    _ = writeln!(out, "{key} = {}", file::shown(value));
                }
                file::uses(&Value::InlineTable(table.clone()), &mut used);
                out.push('\n');
            }
            if !engine.unsupported.is_empty() {
                _ = writeln!(out, "[engines.{name}.unsupported]");
                for (stage, (_, why)) in &engine.unsupported {
                    _ = writeln!(out, "{stage} = {}", text(&texts(why).join("; ")));
                }
                out.push('\n');
            }
        }
        for (key, table) in self.origins.iter().filter(|(key, _)| used.contains(*key)) {
            _ = writeln!(out, "[origins.{key}]");
            for (name, value) in table {
                _ = writeln!(out, "{name} = {}", file::shown(value));
            }
            out.push('\n');
        }
        out.trim_end().to_owned() + "\n"
    }
}
