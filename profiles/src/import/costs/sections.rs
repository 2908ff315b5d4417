//! Sections of a post: two headings or commands that differ in anything are two setups, unless they differ only in what
//! their own tables state.

use std::collections::{BTreeMap, BTreeSet};

use super::super::llama_bench::test;
use super::super::note::{NoteKind, Notes};
use super::super::row::{Identity, Place, Row};
use super::super::text::short;
use super::titles::named;
use super::{OF_ENGINE, SECTION};

/// Words that tell no setups apart: tests by any name, and what joins words.
const NEUTRAL: [&str; 48] = [
    "a",
    "an",
    "and",
    "answer",
    "answers",
    "are",
    "benchmark",
    "benchmarks",
    "decode",
    "decoding",
    "for",
    "generation",
    "here",
    "in",
    "is",
    "llama-bench",
    "llama.cpp",
    "llm",
    "model",
    "models",
    "multimodal",
    "my",
    "now",
    "numbers",
    "of",
    "on",
    "or",
    "output",
    "pp",
    "prefill",
    "processing",
    "prompt",
    "prompts",
    "result",
    "results",
    "speed",
    "test",
    "text",
    "tg",
    "the",
    "then",
    "this",
    "token",
    "tokens",
    "vlm",
    "was",
    "were",
    "with",
];

/// Sections of one board, model and build.
#[derive(Default)]
struct Sections {
    all: BTreeMap<Option<String>, Under>,
    /// The sections of each test of one engine.
    tests: BTreeMap<(Identity, String), BTreeSet<Option<String>>>,
}

/// What stands in a section.
#[derive(Default)]
struct Under {
    /// Its first row.
    place: Option<Place>,
    /// What its rows state.
    stated: BTreeSet<(String, String)>,
}

/// Sections that say the same, by what they say, and one name for them all; none where nothing need be said.
struct Class {
    names: Vec<Option<String>>,
    said: Option<String>,
}

/// Gives sections of one setup one name, or none where it would tell nothing: they differ only in words for tests, for
/// engines, or in what their tables state, and no test of one engine is in two of them. Others stay apart, which is said
/// with both lines.
pub(super) fn join(rows: &mut [Row], notes: &mut Notes) {
    let mut boards: BTreeMap<Identity, Sections> = BTreeMap::new();
    for row in rows.iter() {
        let name = row.identity.get(SECTION).cloned();
        let sections = boards.entry(board(row)).or_default();
        let under = sections.all.entry(name.clone()).or_default();
        under.place.get_or_insert_with(|| row.place.clone());
        let pairs = row.identity.iter().filter(|(key, _)| *key != SECTION);
        under
            .stated
            .extend(pairs.map(|(key, value)| (key.clone(), value.clone())));
        let of = (without(row), row.test.to_string());
        sections.tests.entry(of).or_default().insert(name);
    }
    let mut said = BTreeSet::new();
    let mut renamed: BTreeMap<Identity, BTreeMap<Option<String>, Option<String>>> = BTreeMap::new();
    for (board, sections) in boards {
        let classes = sections.classes();
        for (kind, text) in sections.remarks(&classes) {
            if said.insert(text.clone()) {
                notes.add(kind, "", None, text);
            }
        }
        let names = classes.into_iter().flat_map(|class| {
            let said = class.said;
            class
                .names
                .into_iter()
                .map(move |name| (name, said.clone()))
        });
        renamed.insert(board, names.collect());
    }
    for row in rows {
        let name = row.identity.get(SECTION).cloned();
        let names = renamed.get(&board(row));
        if let Some(new) = names.and_then(|names| names.get(&name)) {
            row.identity.remove(SECTION);
            let new = new.clone().map(|new| (SECTION.to_owned(), new));
            row.identity.extend(new);
        }
    }
}

/// What a row is of beside its section.
fn without(row: &Row) -> Identity {
    let mut identity = row.identity.clone();
    identity.remove(SECTION);
    identity
}

/// That without what is its engine's: engines of one board go into one file, so their sections must be of one setup.
fn board(row: &Row) -> Identity {
    let mut identity = without(row);
    identity.retain(|key, _| !OF_ENGINE.contains(&key.as_str()));
    identity
}

impl Sections {
    fn classes(&self) -> Vec<Class> {
        let mut classes: BTreeMap<Vec<String>, Vec<Option<String>>> = BTreeMap::new();
        for (name, under) in &self.all {
            let words = name
                .as_deref()
                .map_or_else(Vec::new, |name| told(name, &under.stated));
            classes.entry(words).or_default().push(name.clone());
        }
        let only = classes.len() == 1;
        let mut list = Vec::new();
        for (words, names) in classes {
            // What is in two of them was measured twice: under which of them matters.
            let twice = self
                .tests
                .values()
                .any(|of| names.iter().filter(|name| of.contains(*name)).count() > 1);
            if twice {
                list.extend(names.into_iter().map(|name| Class {
                    said: name.clone(),
                    names: vec![name],
                }));
                continue;
            }
            let said = match &names[..] {
                [one] => one.clone(),
                _ => Some(words.join(" ")).filter(|text| !text.is_empty()),
            };
            // The only one is no matter of telling apart, but it may say which board that is.
            let names_any = |text: &String| named(text).iter().any(|found| !found.is_empty());
            let said = said.filter(|text| !only || names_any(text));
            list.push(Class { names, said });
        }
        // In the order of the text.
        let begins = |name: &Option<String>| {
            let place = self.all.get(name).and_then(|under| under.place.as_ref());
            place.map(|place| (place.file.clone(), place.line))
        };
        for class in &mut list {
            class.names.sort_by_key(begins);
        }
        list.sort_by_key(|class| class.names.first().and_then(begins));
        list
    }

    /// What a reader is told: sections taken as of one setup, and those that are not.
    fn remarks(&self, classes: &[Class]) -> Vec<(NoteKind, String)> {
        const SHOWN: usize = 8;
        let at = |name: &Option<String>| {
            let place = self.all.get(name).and_then(|under| under.place.as_ref());
            let place = place.map_or_else(String::new, |place| format!(" ({place})"));
            match name {
                Some(name) => format!("`{}`{place}", short(name)),
                None => format!("rows under no heading{place}"),
            }
        };
        let list = |names: &mut dyn Iterator<Item = &Option<String>>| {
            let mut shown: Vec<String> = names.map(at).collect();
            let more = shown.len().saturating_sub(SHOWN);
            shown.truncate(SHOWN);
            if more > 0 {
                shown.push(format!("{more} more"));
            }
            shown.join(", ")
        };
        let mut remarks = Vec::new();
        for class in classes.iter().filter(|class| class.names.len() > 1) {
            let text = format!(
                "the sections {} are taken as of one setup: they differ only in what their tables state (`--only section=…` chooses one)",
                list(&mut class.names.iter())
            );
            remarks.push((NoteKind::Read, text));
        }
        if classes.len() > 1 {
            let text = format!(
                "the sections {} are taken as of {} setups, for nothing says that they are one: `--only section=…` chooses one (`--only section=` that of no heading), `--ignore section` says that they are one",
                list(&mut classes.iter().filter_map(|class| class.names.first())),
                classes.len()
            );
            remarks.push((NoteKind::Warning, text));
        }
        remarks
    }
}

/// What a section says that tells setups apart: its words without those for tests and engines; nothing where all that is
/// left its own rows state.
fn told(section: &str, stated: &BTreeSet<(String, String)>) -> Vec<String> {
    let all = words(section);
    let of_engine: BTreeSet<String> = stated
        .iter()
        .filter(|(key, _)| key == "engine" || key == "backend")
        .flat_map(|(_, value)| words(value))
        .collect();
    let number = |word: &str| word.parse::<f64>().is_ok();
    // `4 threads` and `threads 4`, where that is the column.
    let pair = |a: &str, b: &str| {
        let of = |key: &str, value: &str| {
            let there = stated
                .iter()
                .find(|(known, _)| known == key || known.strip_suffix('s') == Some(key));
            there.is_some_and(|(_, known)| known == value)
        };
        of(a, b) || of(b, a)
    };
    let test_of = |word: &str| ["pp", "tg"].contains(&word);
    let mut left = Vec::new();
    for (at, word) in all.iter().enumerate() {
        let before = at.checked_sub(1).map_or("", |at| all[at].as_str());
        let after = all.get(at + 1).map_or("", String::as_str);
        let neutral = NEUTRAL.contains(&word.as_str())
            || of_engine.contains(word)
            || test(word).is_some()
            || (number(word) && test_of(before))
            || pair(before, word)
            || pair(word, after);
        if !neutral {
            left.push(word.clone());
        }
    }
    let values: BTreeSet<String> = stated.iter().flat_map(|(_, value)| words(value)).collect();
    let known = |word: &String| values.contains(word) && !number(word);
    if left.iter().all(known) {
        left.clear();
    }
    left
}

/// Words in lower case, without the signs around them.
fn words(text: &str) -> Vec<String> {
    let parts = text.split(|c: char| c.is_whitespace() || ",;()[]\"'`*".contains(c));
    parts
        .map(|part| {
            part.trim_matches(['.', ':', '-', '/', '–', '—', '=', '?', '!'])
                .to_lowercase()
        })
        .filter(|part| !part.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// To see it fail, take a number for one of the columns'.
    #[test]
    fn words_of_tests_engines_and_columns_tell_nothing_apart() {
        let stated: BTreeSet<(String, String)> = [
            ("model", "toy 1B Q4_0"),
            ("backend", "Vulkan"),
            ("engine", "gpu"),
            ("threads", "4"),
            ("ngl", "99"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        for (section, wanted) in [
            ("Prefill", ""),
            ("pp 512", ""),
            ("tg128 @ d4096", "@ d4096"),
            ("Results with Vulkan:", ""),
            ("Toy 1B (Q4_0)", ""),
            ("4 threads, ngl 99", ""),
            ("run 4", "run 4"),
            ("Toy 4", "toy 4"),
            ("At 16 W:", "at 16 w"),
            ("q4_0 KV cache", "q4_0 kv cache"),
            ("Pi 5: prompts", "pi 5"),
            ("Elite+", "elite+"),
        ] {
            assert_eq!(told(section, &stated).join(" "), wanted, "{section}");
        }
    }
}
