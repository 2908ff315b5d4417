//! The boards of a text: reports of programs, one behind another, and lists of boards.

use std::fmt::Write as _;

use super::boards::{Columns, chip_of, listed};
use super::programs::rates;
use super::stream::{self, Stream, babel_engine};
use super::{Board, Rate, by_size};
use crate::import::headings::Headings;
use crate::import::markdown::{self, cells, is_rule};
use crate::import::note::{NoteKind, Notes};
use crate::import::text::{lines, slug};

/// The boards of one file.
pub(super) fn read(file: &str, text: &str, notes: &mut Notes) -> Vec<Board> {
    if text.trim_start().starts_with(['{', '[']) {
        return by_size::json(file, text, notes);
    }
    let mut reader = Reader::new(file);
    for (line, text) in lines(text) {
        if reader.listed(line, text, notes) {
            continue;
        }
        let trimmed = text.trim().trim_start_matches("* ");
        reader.begin(line, text, trimmed, notes);
        reader.about(trimmed);
        reader.cores(trimmed);
        if !text.starts_with("# ") {
            reader.headings.take(text);
        }
        if !trimmed.is_empty() {
            reader.glued = trimmed.rsplit_once("# ").map(|(_, name)| name);
        }
        reader.rates(line, trimmed, notes);
    }
    reader.finish(notes)
}

/// What lines so far have said.
struct Reader<'a> {
    file: &'a str,
    /// The board whose report this is.
    board: Board,
    boards: Vec<Board>,
    /// Columns of the table that this is, and whether its rows are closed by a bar.
    columns: Option<(Columns, bool)>,
    stream: Stream,
    /// Whether these are the lines of `CPU cluster policy speed speed type`.
    topology: bool,
    headings: Headings,
    /// Whether rates stand under several headings: then these are a part of their names.
    apart: bool,
    /// The title that stands behind the last line of a report, where that had no end.
    glued: Option<&'a str>,
}

fn unnamed(file: &str) -> Board {
    Board {
        file: file.to_owned(),
        engine: "cpu",
        ..Board::default()
    }
}

impl<'a> Reader<'a> {
    fn new(file: &'a str) -> Self {
        Self {
            file,
            board: unnamed(file),
            boards: Vec::new(),
            columns: None,
            stream: Stream::None,
            topology: false,
            headings: Headings::default(),
            apart: false,
            glued: None,
        }
    }

    /// Reads a row of a list of boards, if the line is one.
    fn listed(&mut self, line: u64, text: &str, notes: &mut Notes) -> bool {
        let Some((cells, closed)) = cells(text) else {
            self.columns = None;
            return false;
        };
        if is_rule(&cells) {
            return true;
        }
        match &self.columns {
            Some((_, true)) if !closed => notes.skip(self.file, line, markdown::CUT),
            Some((columns, _)) => {
                let found = listed(self.file, line, columns, &cells, notes);
                self.boards.extend(found);
            }
            None => self.columns = Some((Columns::of(self.file, line, &cells, notes), closed)),
        }
        true
    }

    /// Several reports in one: another title or header behind rates is another board, another implementation may be
    /// another engine.
    fn begin(&mut self, line: u64, text: &'a str, trimmed: &'a str, notes: &mut Notes) {
        let title = text.strip_prefix("# ");
        let header = report(trimmed);
        let implementation = babel_engine(trimmed);
        let again = trimmed.starts_with("Tested with sbc-bench");
        let another = title.is_some() || header.is_some() || implementation.is_some() || again;
        if another && !self.board.rates.is_empty() {
            let done = std::mem::replace(&mut self.board, unnamed(self.file));
            self.boards.push(close(done, notes));
            (self.stream, self.topology) = (Stream::None, false);
        }
        if let Some(name) = title.or(header).or(self.glued.filter(|_| again))
            && self.board.name.is_empty()
        {
            name.trim().clone_into(&mut self.board.name);
        }
        match implementation {
            Some(Ok(engine)) => self.board.engine = engine,
            Some(Err(why)) => {
                notes.skip(self.file, line, why);
                self.stream = Stream::Other;
            }
            None => {}
        }
    }

    /// What a report says of its board.
    fn about(&mut self, line: &str) {
        if line.starts_with("Tested with sbc-bench") {
            let about = line.split(". Full info").next().unwrap_or(line);
            self.board.about.push(about.to_owned());
        }
        if line.starts_with("Kernel ") && line.contains("CONFIG_HZ") {
            self.board.about.push(line.to_owned());
        }
        if line.contains(", Kernel:") && self.board.chip.is_none() {
            let (chip, id) = chip_of(line.split(", Kernel:").next().unwrap_or(""));
            self.board.chip = Some(chip.to_owned());
            let id = id.map(|id| format!("Chip ID: {id}"));
            self.board.about.extend(id);
        }
    }

    /// Counts cores, a line each.
    fn cores(&mut self, line: &str) {
        if line.starts_with("CPU ") && line.contains("policy") {
            self.topology = true;
        } else if self.topology {
            let number = line.split_whitespace().next().map(str::parse::<u64>);
            if number == Some(Ok(self.board.cores)) {
                self.board.cores += 1;
            } else {
                self.topology = false;
            }
        }
    }

    fn rates(&mut self, line: u64, text: &str, notes: &mut Notes) {
        let found = rates(self.file, line, text, notes);
        let stated = self.stream.row(self.file, line, text, notes);
        if !(found.is_empty() && stated.is_none()) {
            // Rates under another heading are of another board, or of another setting.
            let section = self.headings.path(None);
            if !self.board.rates.is_empty() && self.board.section != section {
                self.apart = true;
                self.part(true, notes);
            }
            self.board.section = section;
        }
        self.board.rates.extend(found);
        if let Some(threads) = stream::threads(text) {
            // Rates of other threads are of another thing, on the same board.
            if !self.board.rates.is_empty() && self.board.threads != Some(threads) {
                self.part(false, notes);
            }
            self.board.threads = Some(threads);
        }
        if let Some(mut rate) = stated {
            if let Some(threads) = self.board.threads {
                _ = write!(rate.what, ", {threads} threads");
            }
            self.board.rates.push(rate);
        }
    }

    /// Sets the rates so far apart from those that follow, of the same board.
    fn part(&mut self, under: bool, notes: &mut Notes) {
        let next = Board {
            rates: Vec::<Rate>::new(),
            ..self.board.clone()
        };
        let mut done = std::mem::replace(&mut self.board, next);
        if under {
            done.under();
        }
        self.boards.push(close(done, notes));
    }

    fn finish(mut self, notes: &mut Notes) -> Vec<Board> {
        if !self.board.rates.is_empty() {
            if self.apart {
                self.board.under();
            }
            self.boards.push(close(self.board, notes));
        }
        if self.apart {
            let text = "rates stand under several headings, and nothing says that these are of one board and setting: each is an output of its own (`--only board=NAME`)";
            notes.add(NoteKind::Warning, self.file, None, text);
        }
        self.boards
    }
}

impl Board {
    /// Has its headings as a part of its name.
    fn under(&mut self) {
        if let Some(section) = &self.section {
            self.name = if self.name.is_empty() {
                section.clone()
            } else {
                format!("{}, {section}", self.name)
            };
        }
    }
}

/// The board of the line that a log of sbc-bench begins with: `sbc-bench v0.9.72 Radxa ROCK 5B (Tue, 12 May 2026 …)`.
fn report(line: &str) -> Option<&str> {
    let (version, rest) = line.strip_prefix("sbc-bench v")?.split_once(' ')?;
    let numbered = version.starts_with(|c: char| c.is_ascii_digit());
    // A date stands behind it in brackets.
    let name = match rest.rsplit_once(" (") {
        Some((name, date)) if date.contains(':') => name,
        _ => rest,
    };
    (numbered && !name.trim().is_empty()).then(|| name.trim())
}

/// A board whose report is over, under a name.
fn close(mut board: Board, notes: &mut Notes) -> Board {
    if board.name.is_empty() {
        let file = board.file.rsplit(['/', '\\']).next();
        board.name = slug(file.unwrap_or(&board.file));
    }
    let text = format!("{}: {} rates", board.name, board.rates.len());
    notes.add(NoteKind::Read, &board.file, None, text);
    board
}
