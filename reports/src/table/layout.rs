//! Wrapped lines, aligned columns and the parts that `run` and `compare` share.

use std::borrow::Cow;
use std::fmt::Write as _;

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};

use super::WIDTH;
use crate::facts::Facts;
use crate::number::short;

/// Width of the labels on the left.
pub(super) const LABEL: usize = 12;
/// Most groups of streams that are listed.
const STREAMS_MAX: usize = 12;

/// Appends `label` and `text`, wrapped beside it.
pub(super) fn line(out: &mut String, label: &str, text: &str) {
    let mut label = label;
    for part in wrap(text, WIDTH - LABEL) {
        out.push_str(&pad(&visible(label), LABEL));
        out.push_str(&part);
        out.push('\n');
        label = "";
    }
}

/// `text` with its control characters written out (`\u{1b}`), so that no name can steer a terminal or turn
/// the words around it; line ends stay.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    let steers = |c: char| c != '\n' && (c.is_control() || is_format(c));
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if steers(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Marks that turn the direction of what follows.
fn is_format(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `text` with spaces up to `width` columns.
pub(super) fn pad(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(text.chars().count());
    format!("{text}{}", " ".repeat(missing))
}

/// Holds words together that a line break should not part; it is shown as a space.
pub(super) const GLUE: char = '\u{a0}';

/// Lines of at most `width` columns, broken at spaces; a longer word is broken anywhere.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    let text = visible(text);
    for word in text.split([' ', '\n']).filter(|word| !word.is_empty()) {
        let mut letters: Vec<char> = word.chars().collect();
        if used > 0 && used + 1 + letters.len() > width {
            lines.push(String::new());
            used = 0;
        }
        while letters.len() > width {
            let rest = letters.split_off(width);
            lines.push(letters.into_iter().collect());
            letters = rest;
            used = 0;
            lines.push(String::new());
        }
        let line = lines
            .last_mut()
            .expect("`lines` starts with one and only grows");
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        line.extend(&letters);
        used += letters.len();
    }
    lines.retain(|line| !line.is_empty());
    for line in &mut lines {
        *line = line.replace(GLUE, " ");
    }
    if lines.is_empty() {
        lines.push(String::new());
    }
    lines
}

/// A table without frame: the first column on the left, numbers on the right.
pub(crate) fn table<T: AsRef<str>>(header: &[T]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header.iter().map(AsRef::as_ref));
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 1));
        if index == 0 {
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(LABEL as u16)));
        } else {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Appends a table, without the spaces at line ends.
pub(crate) fn append(out: &mut String, table: &Table) {
    for line in visible(&table.to_string()).lines() {
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

/// Appends what was simulated; `policies` in words.
pub(super) fn facts(out: &mut String, facts: &Facts, policies: &str, replications: usize) {
    for part in wrap(&facts.title, WIDTH) {
        out.push_str(&part);
        out.push('\n');
    }
    let named = |(key, name): &(String, String)| format!("{name} ({key})");
    line(out, "SoC", &named(&facts.soc));
    line(out, "Model", &named(&facts.model));
    line(out, "Policy", policies);
    line(
        out,
        "Modes",
        &format!(
            "{}; contention {}",
            facts.modes.join(", "),
            facts.contention
        ),
    );
    line(out, "Context", &facts.context.join("; "));
    if !facts.conditions.is_empty() {
        line(out, "Conditions", &facts.conditions.join("; "));
    }
    line(out, "Runs", &runs(facts, replications));
    streams(out, &facts.streams);
    let origins: Vec<String> = facts
        .origins
        .iter()
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    line(
        out,
        "Numbers",
        &format!(
            "{}: {}; `crossinfer check {}` gives the reasons of the assumed ones",
            facts.numbers,
            origins.join(", "),
            facts.file
        ),
    );
}

fn runs(facts: &Facts, replications: usize) -> String {
    let mut text = match replications {
        1 => "1 replication (no intervals)".to_owned(),
        n => format!("{n} replications, ± is the 95 % interval of the mean"),
    };
    _ = write!(text, "; seed {}", facts.seed);
    if let Some(horizon) = facts.horizon_s {
        _ = write!(text, "; arrivals until {} s", short(horizon));
    }
    if facts.warm_up_s > 0.0 {
        _ = write!(text, "; the first {} s left out", short(facts.warm_up_s));
    }
    text
}

/// Streams; neighbours of the same kind together.
fn streams(out: &mut String, streams: &[(String, Vec<String>)]) {
    let groups: Vec<_> = streams.chunk_by(|a, b| a.1 == b.1).collect();
    let mut label = if streams.len() == 1 {
        "Stream"
    } else {
        "Streams"
    };
    for group in groups.iter().take(STREAMS_MAX) {
        let (first, last) = (&group[0].0, &group[group.len() - 1].0);
        let name = match group.len() {
            1 => first.clone(),
            2 => format!("{first}, {last}"),
            n => format!("{first} … {last} ({n} streams)"),
        };
        let each = if group.len() > 1 { ", each" } else { "" };
        line(out, label, &format!("{name}{each}"));
        for arrivals in &group[0].1 {
            line(out, "", arrivals);
        }
        label = "";
    }
    if groups.len() > STREAMS_MAX {
        line(
            out,
            "",
            &format!("and {} more kinds of streams", groups.len() - STREAMS_MAX),
        );
    }
}

/// Appends warnings, one a paragraph.
pub(super) fn warnings(out: &mut String, list: &[String]) {
    for warning in list {
        out.push('\n');
        line(out, "warning:", warning);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_spaces_and_within_long_words() {
        assert_eq!(wrap("a bc def", 4), ["a bc", "def"]);
        assert_eq!(wrap("abcdefghij k", 4), ["abcd", "efgh", "ij k"]);
        assert_eq!(wrap("", 4), [""]);
    }

    #[test]
    fn control_characters_are_written_out() {
        assert_eq!(wrap("\u{1b}[31mred\u{7}", 40), ["\\u{1b}[31mred\\u{7}"]);
        assert_eq!(visible("a\u{202e}b\tc\nd é"), "a\\u{202e}b\\u{9}c\nd é");
        assert!(matches!(visible("plain ✓"), Cow::Borrowed(_)));
        let mut out = String::new();
        let mut rows = table(&["name", "s"]);
        rows.add_row(["\u{1b}[2J", "1"]);
        append(&mut out, &rows);
        assert!(out.contains("\\u{1b}[2J") && !out.contains('\u{1b}'));
    }
}
