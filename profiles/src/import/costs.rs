//! Rows to cost files: one thing a file, every number with the line it came from.

mod encoder;
mod engine;
mod repeats;
mod sections;
mod titles;

pub(super) use titles::board_of;
pub(crate) use titles::{NAMED, named};

/// The key of the engine that an identity is of.
pub(crate) fn engine_of(identity: &Identity) -> String {
    engine::name(identity)
}

use std::collections::{BTreeMap, BTreeSet};

use super::note::{NoteKind, Notes};
use super::row::{Identity, Row};
use super::stated;
use super::text::{out_of_bounds, slug};
use super::toml_text::string;
use super::{Options, Output};
use engine::Engine;
use repeats::settle;

/// Keys of an identity that belong to an engine rather than to the board, model and build: a cost file holds
/// several engines.
pub(super) const OF_ENGINE: [&str; 4] = ["engine", "backend", "threads", "ngl"];

/// Key of the heading or sentence before a table.
pub(super) const SECTION: &str = "section";

/// Times that a measurement may have, s: from a nanosecond to ten days.
const SECONDS: std::ops::RangeInclusive<f64> = 1e-9..=1e6;

/// The rows of one engine of one thing, by test.
struct Group {
    identity: Identity,
    rows: Vec<Row>,
}

/// Cost files of all rows.
pub(crate) fn outputs(rows: Vec<Row>, options: &Options, notes: &mut Notes) -> Vec<Output> {
    let groups = groups(rows, options, notes);
    if groups.is_empty() {
        if !notes.any(NoteKind::Refused) {
            notes.refuse("", None, "no rows: there is nothing to make a profile of");
        }
        return Vec::new();
    }
    if !one_each(&groups, options, notes) {
        return Vec::new();
    }
    let files = files(groups);
    let all = varying(files.iter().flatten());
    let mut written: Vec<(&[Group], Output)> = Vec::new();
    for groups in &files {
        let Some(first) = groups.first() else {
            continue;
        };
        let identity = differing(&first.identity, &all, groups.len() > 1);
        if let Some(output) = write(groups, options, false, &identity, notes) {
            written.push((groups, output));
        }
    }
    let names = names(&written, notes);
    advise(&written, &names, notes);
    let mut outputs = Vec::new();
    for ((groups, mut output), name) in written.into_iter().zip(names) {
        output.name = format!("{name}.toml");
        let aside = write(groups, options, true, &output.identity, notes);
        outputs.push(output);
        if let Some(mut aside) = aside {
            aside.name = format!("{name}-cold.toml");
            outputs.push(aside);
        }
    }
    outputs
}

/// Whether a name that the user gave is of one thing: `--soc` for rows of two boards would hide which is which.
fn one_each(groups: &[Group], options: &Options, notes: &mut Notes) -> bool {
    let names = [
        ("soc", &options.soc, &["soc"][..]),
        ("model", &options.model, &["model", "quant"][..]),
    ];
    let mut fine = true;
    for (option, given, keys) in names {
        if given.is_none() {
            continue;
        }
        for key in keys {
            let values: BTreeSet<&str> = groups
                .iter()
                .filter_map(|group| group.identity.get(*key))
                .map(String::as_str)
                .collect();
            if values.len() > 1 {
                let shown: Vec<&str> = values.iter().copied().take(8).collect();
                let text = format!(
                    "`--{option}` names one, and the rows have {} of `{key}` ({}): choose one with `--only {key}=…`",
                    values.len(),
                    shown.join("; ")
                );
                notes.refuse("", None, text);
                fine = false;
            }
        }
    }
    fine
}

/// Says of files with more than a SoC and a model in their names that a scenario must name them.
fn advise(written: &[(&[Group], Output)], names: &[String], notes: &mut Notes) {
    let longer: Vec<String> = written
        .iter()
        .zip(names)
        .filter(|((_, output), name)| output.name.trim_end_matches(".toml") != *name)
        .map(|(_, name)| format!("{name}.toml"))
        .collect();
    let Some(first) = longer.first() else {
        return;
    };
    let keys = varying(written.iter().flat_map(|(groups, _)| groups.iter()));
    let section = if keys.contains(SECTION) {
        "; `--ignore section` puts its sections together"
    } else {
        ""
    };
    let text = format!(
        "{} files have more than a SoC and a model in their names, being one of several of them: a scenario names the one it means, `costs = \"{first}\"`, or choose one with `--only KEY=VALUE`{section}",
        longer.len()
    );
    notes.add(NoteKind::Warning, "", None, text);
}

/// A name for each file, without its ending: those of one SoC and model are told apart by what differs between them.
fn names(written: &[(&[Group], Output)], notes: &mut Notes) -> Vec<String> {
    let mut alike: BTreeMap<&str, Vec<&[Group]>> = BTreeMap::new();
    for (groups, output) in written {
        alike.entry(&output.name).or_default().push(groups);
    }
    let differ: BTreeMap<&str, BTreeSet<String>> = alike
        .iter()
        .map(|(name, files)| (*name, varying(files.iter().copied().flatten())))
        .collect();
    let mut taken: BTreeSet<String> = BTreeSet::new();
    let mut names: Vec<String> = Vec::new();
    for (groups, output) in written {
        let stem = output.name.trim_end_matches(".toml");
        let mut name = stem.to_owned();
        let several = alike
            .get(output.name.as_str())
            .is_some_and(|files| files.len() > 1);
        if let (true, Some(first), Some(keys)) =
            (several, groups.first(), differ.get(output.name.as_str()))
        {
            // The engine follows from its back end.
            let values = keys.iter().filter(|key| *key != "engine").map(|key| {
                let value = first.identity.get(key).map_or("none", String::as_str);
                format!("{key} {value}")
            });
            let values: Vec<String> = values.collect();
            name = format!("{stem}-{}", slug(&values.join(" ")));
        }
        // Values may differ in nothing that a file name can show.
        let plain = name.clone();
        let mut number = names.len() + 1;
        while !taken.insert(name.clone()) {
            name = format!("{plain}-{number}");
            number += 1;
        }
        if name != plain {
            let text = format!(
                "`{name}.toml` is of another thing than `{plain}.toml`, though their names would be one: {}",
                output.identity
            );
            notes.add(NoteKind::Warning, "", None, text);
        }
        names.push(name);
    }
    names
}

/// Rows of equal identity together, repeats put together, conflicts out.
fn groups(rows: Vec<Row>, options: &Options, notes: &mut Notes) -> Vec<Group> {
    let mut groups: BTreeMap<Identity, (usize, Vec<Row>)> = BTreeMap::new();
    let mut left_out = 0;
    let files: BTreeSet<&str> = rows.iter().map(|row| row.place.file.as_str()).collect();
    let several = files.len() > 1;
    let mut kept: Vec<Row> = Vec::new();
    let mut known: BTreeSet<String> = BTreeSet::new();
    for mut row in rows {
        let cold = row.cold_s.unwrap_or(row.secs);
        if !(SECONDS.contains(&row.secs) && SECONDS.contains(&cold)) {
            let text = format!("`{}`: {}", row.test, out_of_bounds(row.secs));
            notes.skip(&row.place.file, row.place.line, text);
            continue;
        }
        // Two files that do not say on what, or with what, they were measured need not agree in it.
        let board = options.soc.is_some() || row.identity.contains_key("soc");
        let build = ["build", "version"]
            .iter()
            .any(|key| row.identity.contains_key(*key));
        if several && !(board && build) {
            let file = row.place.file.clone();
            row.identity.insert("file".to_owned(), file);
        }
        known.extend(row.identity.keys().cloned());
        for key in &options.ignore {
            row.identity.remove(key);
        }
        if let Some(engine) = &options.engine {
            row.identity.insert("engine".to_owned(), engine.clone());
        }
        kept.push(row);
    }
    let mut kept = encoder::beside(kept);
    // A section may be chosen by its own name or by that of all that are of its setup.
    let mut joined = kept.clone();
    sections::join(&mut joined, &mut Notes::default());
    let mut names = joined
        .into_iter()
        .map(|mut row| row.identity.remove(SECTION));
    kept.retain(|row| {
        let name = names.next().flatten();
        let chosen = options.only.iter().all(|(key, value)| {
            let is = |found: Option<&String>| match found {
                Some(found) => found.eq_ignore_ascii_case(value),
                None => value.is_empty(),
            };
            is(row.identity.get(key)) || (key == SECTION && is(name.as_ref()) && name.is_some())
        });
        left_out += usize::from(!chosen);
        chosen
    });
    // A key that no row has was meant to do something.
    let given = options.ignore.iter().map(|key| ("--ignore", key));
    let given = given.chain(options.only.iter().map(|(key, _)| ("--only", key)));
    let sections = [SECTION, "engine"];
    for (option, key) in given {
        if !known.is_empty() && !known.contains(key) && !sections.contains(&key.as_str()) {
            let list: Vec<&str> = known.iter().map(String::as_str).collect();
            let text = format!(
                "`{option} {}`: no row has that key, only {}",
                super::text::short(key),
                list.join(", ")
            );
            notes.add(NoteKind::Warning, "", None, text);
        }
    }
    sections::join(&mut kept, notes);
    for row in kept {
        let order = groups.len();
        let (_, rows) = groups
            .entry(row.identity.clone())
            .or_insert((order, Vec::new()));
        rows.push(row);
    }
    let mut groups: Vec<(usize, Group)> = groups
        .into_iter()
        .map(|(identity, (order, rows))| (order, Group { identity, rows }))
        .collect();
    groups.sort_by_key(|(order, _)| *order);
    let mut groups: Vec<Group> = groups.into_iter().map(|(_, group)| group).collect();
    if left_out > 0 {
        let text = format!("{left_out} rows that `--only` does not choose");
        notes.add(NoteKind::Skipped, "", None, text);
    }
    for group in &mut groups {
        let rows = std::mem::take(&mut group.rows);
        group.rows = settle(rows, notes);
    }
    groups.retain(|group| !group.rows.is_empty());
    groups
}

/// Groups of one file each: engines of one board, build and model together where each engine is there once.
fn files(groups: Vec<Group>) -> Vec<Vec<Group>> {
    let shared = |group: &Group| {
        let mut identity = group.identity.clone();
        identity.retain(|key, _| !OF_ENGINE.contains(&key.as_str()));
        identity
    };
    let engine = |group: &Group| engine::name(&group.identity);
    let mut index: BTreeMap<Identity, usize> = BTreeMap::new();
    let mut files: Vec<Vec<Group>> = Vec::new();
    for group in groups {
        let at = *index.entry(shared(&group)).or_insert(files.len());
        if at == files.len() {
            files.push(Vec::new());
        }
        files[at].push(group);
    }
    let mut result = Vec::new();
    for groups in files {
        let engines: BTreeSet<String> = groups.iter().map(engine).collect();
        if engines.len() == groups.len() {
            result.push(groups);
        } else {
            result.extend(groups.into_iter().map(|group| vec![group]));
        }
    }
    result
}

/// Keys whose values differ between groups.
fn varying<'g>(groups: impl Iterator<Item = &'g Group>) -> BTreeSet<String> {
    let all: Vec<&Identity> = groups.map(|group| &group.identity).collect();
    let identities = || all.iter().copied();
    let keys: BTreeSet<&String> = identities().flat_map(Identity::keys).collect();
    let differs = |key: &&String| {
        let values: BTreeSet<Option<&String>> =
            identities().map(|identity| identity.get(*key)).collect();
        values.len() > 1
    };
    keys.into_iter().filter(differs).cloned().collect()
}

/// What tells this file from others.
fn differing(identity: &Identity, varying: &BTreeSet<String>, engines: bool) -> String {
    let list: Vec<String> = varying
        .iter()
        .filter(|key| !engines || !OF_ENGINE.contains(&key.as_str()))
        .map(|key| {
            let value = identity.get(key).map_or("(not stated)", String::as_str);
            format!("{key}={value}")
        })
        .collect();
    list.join(" ")
}

/// The TOML of one file; with `cold` that of its first runs.
fn write(
    groups: &[Group],
    options: &Options,
    cold: bool,
    identity: &str,
    notes: &mut Notes,
) -> Option<Output> {
    let first = groups.first()?;
    let name = |given: &Option<String>, keys: &[&str], otherwise: &str| {
        given.clone().unwrap_or_else(|| {
            let parts: Vec<&str> = keys
                .iter()
                .filter_map(|key| first.identity.get(*key))
                .map(String::as_str)
                .collect();
            if parts.is_empty() {
                otherwise.to_owned()
            } else {
                slug(&parts.join(" "))
            }
        })
    };
    let soc = name(&options.soc, &["soc"], "unnamed-soc");
    let model = name(&options.model, &["model", "quant"], "unnamed-model");
    let mut body = String::new();
    let mut origins = String::new();
    for group in groups {
        let mut engine = Engine::new(group, options, cold);
        if engine.write(notes) {
            body += &engine.body;
            origins += &engine.origins;
        }
    }
    if body.is_empty() {
        if !cold {
            let text = "nothing here can be made into the cost of a stage".to_owned();
            notes.refuse(&first.rows.first()?.place.file, None, text);
        }
        return None;
    }
    if !cold {
        for (key, option) in [(&soc, "--soc"), (&model, "--model")] {
            if key.starts_with("unnamed-") {
                let text = format!("the files do not name it: `{option} KEY` instead of `{key}`");
                notes.add(NoteKind::Missing, "", None, text);
            }
        }
    }
    let mut head = stated::HEAD.to_owned();
    let mut seen = BTreeSet::new();
    for group in groups {
        let line = stated::line(&group.identity);
        if seen.insert(line.clone()) {
            head += &line;
        }
    }
    if cold {
        head += "# First runs only, before anything was compiled, tuned or cached.\n";
    }
    let text = format!(
        "{head}soc = {}\nmodel = {}\n{body}{origins}",
        string(&soc),
        string(&model)
    );
    Some(Output {
        name: format!("{}/{}.toml", slug(&soc), slug(&model)),
        identity: if identity.is_empty() {
            format!("{soc}/{model}")
        } else {
            identity.to_owned()
        },
        text,
        aside: cold,
    })
}
