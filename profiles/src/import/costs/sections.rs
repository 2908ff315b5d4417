//! Sections of a post: what tells measurements apart, and what is prose between tables of one thing.

use std::collections::{BTreeMap, BTreeSet};

use super::super::note::{NoteKind, Notes};
use super::super::row::{Identity, Row};
use super::{OF_ENGINE, SECTION};

/// Words that a board's, a computer's or a chip's name begins with; what follows is its kind.
const MAKERS: [&str; 26] = [
    "banana",
    "beagle",
    "dimensity",
    "dragon",
    "exynos",
    "jetson",
    "khadas",
    "kirin",
    "milk",
    "nanopc",
    "nanopi",
    "odroid",
    "orange",
    "pi",
    "pixel",
    "poco",
    "radxa",
    "raspberry",
    "rock",
    "rockchip",
    "rpi",
    "ryzen",
    "snapdragon",
    "steam",
    "tegra",
    "visionfive",
];
/// Words within such a name.
const KINDS: [&str; 21] = [
    "agx", "ai", "b", "cm", "core", "deck", "elite", "gen", "itx", "lite", "max", "mini", "nano",
    "nx", "orin", "plus", "pro", "super", "ultra", "xavier", "zero",
];
/// How the number of a chip begins.
const CHIPS: [&str; 12] = [
    "a", "bcm", "imx", "mt", "qcm", "qcs", "rk", "s", "sa", "sc", "sm", "x1e",
];

/// Takes the section out of what was measured where it tells nothing apart: no test is in two sections of one thing,
/// and no two of its sections name different boards or clocks. Sentences before the tables of a post are sections as
/// well.
pub(super) fn join(rows: &mut [Row], notes: &mut Notes) {
    let without = |row: &Row| {
        let mut identity = row.identity.clone();
        identity.remove(SECTION);
        identity
    };
    // Engines of one board go into one file, so their sections must not contradict each other either.
    let board = |row: &Row| {
        let mut identity = without(row);
        identity.retain(|key, _| !OF_ENGINE.contains(&key.as_str()));
        identity
    };
    let mut things: BTreeMap<Identity, BTreeMap<String, BTreeSet<Option<String>>>> =
        BTreeMap::new();
    let mut named: BTreeMap<Identity, [BTreeSet<Vec<String>>; 2]> = BTreeMap::new();
    for row in rows.iter() {
        let section = row.identity.get(SECTION);
        let tests = things.entry(without(row)).or_default();
        let sections = tests.entry(row.test.to_string()).or_default();
        sections.insert(section.cloned());
        if let Some(section) = section {
            let names = named.entry(board(row)).or_default();
            for (names, name) in names
                .iter_mut()
                .zip([board_of(section), clocks_of(section)])
            {
                names.extend((!name.is_empty()).then_some(name));
            }
        }
    }
    let mut joined: BTreeSet<String> = BTreeSet::new();
    for row in rows {
        let apart = named
            .get(&board(row))
            .is_some_and(|names| names.iter().any(|names| names.len() > 1));
        let thing = things.get(&without(row));
        if !apart
            && thing.is_some_and(|tests| tests.values().all(|sections| sections.len() == 1))
            && let Some(section) = row.identity.remove(SECTION)
        {
            joined.insert(section);
        }
    }
    if joined.len() > 1 {
        let list: Vec<String> = joined
            .iter()
            .take(8)
            .map(|name| format!("`{name}`"))
            .collect();
        let text = format!(
            "the sections {} are taken as of one thing: no test of one engine is in two of them (`--only section=…` chooses one)",
            list.join(", ")
        );
        notes.add(NoteKind::Warning, "", None, text);
    }
}

fn words(section: &str) -> Vec<String> {
    section
        .to_lowercase()
        .split(|c: char| !c.is_alphanumeric() && c != '.')
        .map(|word| word.trim_matches('.').to_owned())
        .filter(|word| !word.is_empty())
        .collect()
}

/// Boards and chips that a section's title names, in the order of their words.
fn board_of(section: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut within = false;
    for word in words(section) {
        let chip = CHIPS.iter().any(|start| {
            let number = word.strip_prefix(start).unwrap_or("");
            number.len() >= 3 && number.starts_with(|c: char| c.is_ascii_digit())
        });
        // Of a name alone: a number such as `5`, `5b` or `m5`, no test such as `pp64`, no amount such as `8gb` or `25w`.
        let number = word.len() <= 4
            && word.chars().take(2).any(|c| c.is_ascii_digit())
            && !["gb", "w", "t"].iter().any(|unit| word.ends_with(unit));
        within = MAKERS.contains(&word.as_str())
            || chip
            || (within && (number || KINDS.contains(&word.as_str())));
        if within {
            names.push(word);
        }
    }
    names
}

/// Clocks that a section's title names, in MHz.
fn clocks_of(section: &str) -> Vec<String> {
    let words = words(section);
    let clock = |(at, word): (usize, &String)| {
        [("ghz", 1000.0), ("mhz", 1.0)]
            .into_iter()
            .find_map(|(unit, mhz)| {
                let number = match word.strip_suffix(unit)? {
                    "" => words.get(at.checked_sub(1)?)?,
                    number => number,
                };
                Some(format!("{:.0}", number.parse::<f64>().ok()? * mhz))
            })
    };
    words.iter().enumerate().filter_map(clock).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boards_and_clocks_are_read_from_titles() {
        for (title, board, clocks) in [
            ("Raspberry Pi 5", "raspberry pi 5", ""),
            ("Radxa Rock 5B (RK3588), pp512", "radxa rock 5b rk3588", ""),
            ("on a Raspberry Pi 5 8GB, CPU", "raspberry pi 5", ""),
            ("Jetson Orin Nano at 25W", "jetson orin nano", ""),
            ("CPU at 2.4 GHz, DDR 2133MHz", "", "2400 2133"),
            ("7B gen 128", "", ""),
            ("Got it today! What I see", "", ""),
            ("then with vulkan", "", ""),
        ] {
            assert_eq!(board_of(title).join(" "), board, "{title}");
            assert_eq!(clocks_of(title).join(" "), clocks, "{title}");
        }
    }
}
