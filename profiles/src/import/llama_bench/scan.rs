//! The lines of a text, and who reads on at each.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::costs::{OF_ENGINE, board_of};
use super::super::markdown;
use super::super::note::{NoteKind, Notes};
use super::super::row::Row;
use super::super::text::{Lines, lines, short};
use super::command;
use super::context::{self, Context, Line};
use super::fields::{self, Csv};
use super::json;
use super::other::{self, Timings};
use super::record;
use super::sweep::{Frontiers, Sweep};
use super::table::Table;

/// A table that rows may follow.
struct Open {
    table: Kind,
    line: u64,
    rows: usize,
    /// Whether its header or a row before is closed by a bar, so that one that is not is cut off.
    closed: bool,
    /// Whether lines of a log or blank ones have come since: a header may follow as well as a row.
    paused: bool,
}

/// What its columns mean.
enum Kind {
    Tests(Table),
    Sweep(Sweep),
    Unusable,
}

/// All rows of a text.
pub(super) fn rows(file: &str, text: &str, notes: &mut Notes) -> Vec<Row> {
    let mut scan = Scan {
        file,
        places: Lines::of(text),
        notes,
        rows: Vec::new(),
        context: Context::default(),
        open: None,
        csv: None,
        frontiers: None,
        timings: Timings::default(),
        block: 0,
        unbuilt: 0,
        after_build: false,
        orphan_noted: false,
        fenced: false,
        continued: None,
        prose: Vec::new(),
    };
    if let Some(rows) = scan.document(text) {
        return rows;
    }
    // Bytes of the text up to which a JSON array has been read.
    let mut done = 0;
    let mut at = 0;
    let mut statement: Option<(u64, String)> = None;
    let all: Vec<(u64, &str)> = lines(text).collect();
    for (index, &(number, line)) in all.iter().enumerate() {
        // `lines` drops the end, which may be two bytes.
        let start = text[at..].find(line).map_or(at, |found| at + found);
        at = start + line.len();
        if start < done {
            continue;
        }
        let trimmed = markdown::unquoted(line).trim_end();
        if let Some((first, mut sql)) = statement.take() {
            sql.push(' ');
            sql += trimmed;
            if trimmed.ends_with(';') {
                scan.sql(first, &sql);
            } else {
                statement = Some((first, sql));
            }
            continue;
        }
        if trimmed.len() >= 11
            && trimmed.is_char_boundary(11)
            && trimmed[..11].eq_ignore_ascii_case("INSERT INTO")
        {
            if trimmed.ends_with(';') {
                scan.sql(number, trimmed);
            } else {
                statement = Some((number, trimmed.to_owned()));
            }
            continue;
        }
        if trimmed.starts_with("[{") || trimmed == "[" {
            done = scan.array(text, start + line.find('[').unwrap_or(0));
            continue;
        }
        if trimmed.starts_with('{') {
            let brace = start + line.find('{').unwrap_or(0);
            if json::is_result(&text[brace..]) {
                done = scan.object(text, brace);
                continue;
            }
        }
        let next = all.get(index + 1).map_or("", |(_, line)| line);
        scan.line(number, line, trimmed, next);
    }
    if let Some((first, sql)) = statement {
        scan.notes.skip(
            file,
            first,
            format!("the statement is cut off: `{}`", short(&sql)),
        );
    }
    scan.close();
    scan.finish()
}

struct Scan<'a> {
    file: &'a str,
    places: Lines,
    notes: &'a mut Notes,
    rows: Vec<Row>,
    context: Context,
    open: Option<Open>,
    csv: Option<Csv>,
    frontiers: Option<Frontiers>,
    timings: Timings,
    block: u64,
    /// Rows from here on have no build line yet.
    unbuilt: usize,
    /// Whether the build of the context came before the table that is open or just closed.
    after_build: bool,
    orphan_noted: bool,
    /// Whether the line is within a fence of code, where `#` marks no heading.
    fenced: bool,
    /// A command that goes on in the next line, without the sign that says so.
    continued: Option<String>,
    /// Lines of prose, with the boards that they name.
    prose: Vec<(u64, Vec<String>)>,
}

impl Scan<'_> {
    /// A text that is one JSON document of another benchmark's.
    fn document(&mut self, text: &str) -> Option<Vec<Row>> {
        if !text.trim_start().starts_with('{') {
            return None;
        }
        let value: Value = serde_json::from_str(text).ok()?;
        if json::is_result(text.trim_start()) {
            return None;
        }
        Some(other::document(self.file, text, &value, self.notes))
    }

    fn sql(&mut self, line: u64, statement: &str) {
        self.block += 1;
        for fields in fields::sql(self.file, line, statement, self.notes) {
            self.record(line, fields);
        }
    }

    fn record(&mut self, line: u64, fields: Vec<(String, fields::Field)>) {
        let row = record::row(self.file, line, self.block, fields, self.notes);
        if let Some(mut row) = row {
            if let Some(section) = self.context.section(&row.identity) {
                row.identity.entry("section".to_owned()).or_insert(section);
            }
            self.rows.push(row);
        }
        self.context.used();
    }

    /// Reads the JSON object at byte `start`; returns where to read on.
    fn object(&mut self, text: &str, start: usize) -> usize {
        self.close();
        // Lines that follow each other are of one session.
        if self.block == 0 {
            self.block = 1;
        }
        self.result(text, start).0
    }

    /// Reads the result at byte `start`; returns where to read on, and whether it is an object.
    fn result(&mut self, text: &str, start: usize) -> (usize, bool) {
        let line = self.places.at(start);
        match json::object(text, start, &self.places) {
            Ok((value, end)) => {
                let fields = fields::fields(&value);
                self.record(line, fields);
                (end, true)
            }
            Err(json::Fault { why, next }) => {
                let text = format!("the object that starts here {why}");
                self.notes.skip(self.file, line, text);
                (next, false)
            }
        }
    }

    /// Reads a JSON array from byte `start` on; returns where it ends.
    fn array(&mut self, text: &str, start: usize) -> usize {
        self.close();
        self.block += 1;
        let mut at = start + 1;
        let mut count = 0;
        loop {
            let rest = &text[at..];
            at += rest.len() - rest.trim_start().len();
            let rest = &text[at..];
            let line = self.places.at(at);
            if rest.starts_with(']') {
                if count == 0 {
                    self.notes.skip(self.file, line, "the JSON array is empty");
                }
                return at + 1;
            }
            if let Some(rest) = rest.strip_prefix(',') {
                at = text.len() - rest.len();
                continue;
            }
            if rest.is_empty() {
                self.notes.skip(
                    self.file,
                    line,
                    if count == 0 {
                        "the JSON array ends after its bracket: llama-bench stopped before its first result"
                    } else {
                        "the JSON array is not closed: llama-bench was stopped here"
                    },
                );
                return at;
            }
            if !rest.starts_with('{') {
                // Log lines between results.
                if count == 0 && !rest.contains("\"n_prompt\"") {
                    return start + 1;
                }
                let end = rest.find('\n').map_or(text.len(), |end| at + end + 1);
                self.notes.skip(
                    self.file,
                    line,
                    format!("within the JSON array: `{}`", short(&text[at..end])),
                );
                at = end;
                continue;
            }
            let (next, is_object) = self.result(text, at);
            at = next;
            count += usize::from(is_object);
        }
    }

    /// A line that is no JSON and no SQL.
    fn line(&mut self, number: u64, line: &str, trimmed: &str, next: &str) {
        if let Some(csv) = &mut self.csv {
            if trimmed.starts_with('"') || (trimmed.contains(',') && csv.looks_like_row(trimmed)) {
                let fields = csv.row(self.file, number, trimmed, self.notes);
                if let Some(fields) = fields {
                    self.record(number, fields);
                }
                return;
            }
            self.csv = None;
        }
        if let Some(frontiers) = &self.frontiers {
            if trimmed.starts_with(|c: char| c.is_ascii_digit()) {
                let new = frontiers.row(self.file, number, trimmed, self.notes);
                self.rows.extend(new);
                return;
            }
            self.frontiers = None;
        }
        if trimmed.starts_with("ctx_tokens,") {
            self.close();
            self.block += 1;
            self.frontiers = Frontiers::new(trimmed, self.block);
            return;
        }
        if fields::is_header(trimmed) {
            self.close();
            self.block += 1;
            self.csv = Csv::new(self.file, number, trimmed, self.notes);
            return;
        }
        if let Some((cells, closed)) = markdown::cells(line) {
            self.cells(number, &cells, closed, next);
            return;
        }
        let whole = match self.continued.take() {
            Some(before) => format!("{before} {trimmed}"),
            None => trimmed.to_owned(),
        };
        if let Some(start) = whole.strip_suffix('\\')
            && command::read(start).is_some()
        {
            self.continued = Some(start.trim_end().to_owned());
            return;
        }
        let what = match context::line(&whole) {
            Line::Heading(level, text) if self.fenced && level < context::BOLD => Line::Title(text),
            what => what,
        };
        self.fenced ^= trimmed.starts_with("```");
        // A log may run between the rows of its own table, and a post may part them.
        if what == Line::Passing {
            if let Some(open) = &mut self.open {
                open.paused = true;
            }
            self.timings.line(number, trimmed, &self.context);
            return;
        }
        if let (Line::Device(device), Some(open)) = (&what, &mut self.open) {
            let same = self.context.device.as_ref() == Some(device);
            if let (Kind::Tests(table), 0) = (&mut open.table, open.rows) {
                table.on(device);
            }
            if same || open.rows == 0 {
                open.paused = true;
                self.context.take(number, what);
                return;
            }
        }
        self.close();
        if let Some(build) = trimmed.strip_prefix("build:") {
            self.build(build.trim());
            return;
        }
        if !self.timings.line(number, trimmed, &self.context) {
            if what == Line::Prose {
                self.prose.push((number, board_of(trimmed)));
            }
            self.context.take(number, what);
        }
    }

    /// A build line: of the tables since the last one, or of the next if there are none.
    fn build(&mut self, build: &str) {
        let build: String = build.chars().take(80).collect();
        let pending = self.rows.len() > self.unbuilt;
        if pending {
            for row in &mut self.rows[self.unbuilt..] {
                if row.identity.contains_key("build") {
                    continue;
                }
                row.identity.insert("build".to_owned(), build.clone());
            }
            self.unbuilt = self.rows.len();
            // A build that came before the table and is said again after it is used up; another is the next one's.
            let again = self.context.build.as_ref() == Some(&build);
            if self.after_build && !again {
                self.context.build = Some(build);
            } else {
                self.context.build = None;
                self.after_build = false;
            }
            return;
        }
        self.context.build = Some(build);
        self.after_build = true;
    }

    fn cells(&mut self, number: u64, cells: &[String], closed: bool, next: &str) {
        if markdown::is_rule(cells) {
            return;
        }
        let rule_next = markdown::cells(next).is_some_and(|(cells, _)| markdown::is_rule(&cells));
        let free = self.open.as_ref().is_none_or(|open| open.paused);
        if rule_next || (free && Table::is_header(cells)) {
            self.close();
            self.block += 1;
            let table = match Sweep::new(cells, &self.context, self.block) {
                Some(sweep) => Kind::Sweep(sweep),
                None => match Table::new(cells, &self.context, self.block) {
                    Ok(table) => Kind::Tests(table),
                    Err(reason) => {
                        self.notes.skip(self.file, number, reason);
                        // It may say on what the next ones were measured.
                        self.context.take(number, Line::Title(cells.join(", ")));
                        Kind::Unusable
                    }
                },
            };
            let rows = usize::from(matches!(table, Kind::Unusable));
            self.open = Some(Open {
                table,
                line: number,
                rows,
                closed,
                paused: false,
            });
            return;
        }
        if let Some(open) = &mut self.open {
            open.rows += 1;
            open.paused = false;
            let cut = open.closed && !closed;
            open.closed |= closed;
            let mut new = match &open.table {
                Kind::Tests(table) => table.row(self.file, number, cells, closed, self.notes),
                Kind::Sweep(sweep) => sweep.row(self.file, number, cells, self.notes),
                Kind::Unusable => {
                    self.context.take(number, Line::Title(cells.join(", ")));
                    Vec::new()
                }
            };
            if cut && !new.is_empty() {
                self.notes.skip(self.file, number, markdown::CUT);
                new.clear();
            }
            self.rows.extend(new);
            return;
        }
        if !self.orphan_noted || self.rows.is_empty() {
            let text = "a row without a header: what its columns mean is unknown";
            self.notes.skip(self.file, number, text);
        }
        self.orphan_noted = true;
        self.context.take(number, Line::Title(cells.join(", ")));
    }

    /// Ends the open table.
    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            if open.rows == 0 {
                self.notes.add(
                    NoteKind::Skipped,
                    self.file,
                    Some(open.line),
                    "no rows: the table ends after its header, so llama-bench stopped before its first result",
                );
            }
            if !matches!(open.table, Kind::Unusable) {
                self.context.used();
            }
            self.orphan_noted = false;
        }
    }

    fn finish(mut self) -> Vec<Row> {
        self.block += 1;
        let timings = std::mem::take(&mut self.timings);
        let rows = timings.rows(self.file, self.block, &self.context, self.notes);
        self.rows.extend(rows);
        self.beside_prose();
        self.rows
    }

    /// Remarks prose between tables that are taken as of one setup: it may say otherwise.
    fn beside_prose(&mut self) {
        let board = |row: &Row| {
            let mut identity = row.identity.clone();
            identity.retain(|key, _| !OF_ENGINE.contains(&key.as_str()));
            identity
        };
        let mut known: BTreeSet<String> = BTreeSet::new();
        let mut told: BTreeSet<(u64, bool)> = BTreeSet::new();
        for (line, boards) in &self.prose {
            let after = self.rows.partition_point(|row| row.place.line < *line);
            let before = after.checked_sub(1).and_then(|at| self.rows.get(at));
            let mut own = known.clone();
            let stated: Vec<&str> = before
                .into_iter()
                .flat_map(|row| ["soc", "section"].map(|key| row.identity.get(key)))
                .flatten()
                .map(String::as_str)
                .collect();
            for text in &stated {
                own.extend(board_of(text));
            }
            known.extend(boards.iter().cloned());
            let (Some(before), Some(after)) = (before, self.rows.get(after)) else {
                continue;
            };
            let other = !boards.iter().all(|name| own.contains(name));
            if board(before) != board(after) || !told.insert((after.place.line, other)) {
                continue;
            }
            let under = match &stated[..] {
                [] => "no board".to_owned(),
                stated => format!("`{}`", short(&stated.join(", "))),
            };
            let what = if other {
                format!("prose names `{}`", boards.join(" "))
            } else {
                "prose stands".to_owned()
            };
            let text = format!(
                "{what} between rows that were read under {under}, those before it in line {} and behind it in line {}: all are taken as of one {}; if they are not, put a heading above each table",
                before.place.line,
                after.place.line,
                if other { "board" } else { "setup" }
            );
            self.notes
                .add(NoteKind::Warning, self.file, Some(*line), text);
        }
    }
}
