//! Recorded arrivals as this program's own trace: `time_s`, and lengths where there are any.
//!
//! CSV and JSON Lines are read by `sim`'s own reader, a piece at a time, so that a file of any size takes bounded
//! memory: each piece stands behind the header, the first row, from which wall-clock layouts count, and the last two
//! before it, which no time may precede.
//! Query times of video benchmarks (`StreamingBench`, OVO-Bench) become one trace a video.

mod questions;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, BufRead, Read as _, Write};
use std::ops::Range;

use sim::diag::Diagnostic;
use sim::workload::trace_file::{self, SoundRows};

use super::note::{NoteKind, Notes};
use super::text::{misspelt, slug};
use super::{Options, Output, Sink, Source};

/// Bytes of a piece.
const PIECE: usize = 1 << 20;
/// Faults of rows that are listed; the rest is counted.
const LISTED: usize = 10;
/// The longest line: a request with its token ids.
const LINE_MAX: u64 = 64 << 20;

/// Imports every source, each a trace of its own.
pub(crate) fn import(
    sources: Vec<Source>,
    options: &Options,
    sink: &mut dyn Sink,
    notes: &mut Notes,
) -> io::Result<()> {
    if sources.len() > 1 && !sink.many() {
        let text = format!(
            "{} files are as many traces: import one, or give `--out FOLDER`",
            sources.len()
        );
        notes.refuse("", None, text);
        return Ok(());
    }
    let mut alike: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in &sources {
        let files = alike.entry(stem(&source.name)).or_default();
        files.push(source.name.clone());
    }
    alike.retain(|_, files| files.len() > 1);
    for (stem, files) in &alike {
        super::one_name(&format!("{stem}.csv"), files, "`--out FILE`", notes);
    }
    for source in sources {
        let stem = stem(&source.name);
        if !alike.contains_key(&stem) {
            one(source, &stem, options, sink, notes)?;
        }
    }
    Ok(())
}

/// What the trace of a file is called.
fn stem(file: &str) -> String {
    let name = file.rsplit(['/', '\\']).next().unwrap_or("trace");
    match name.rsplit_once('.').map_or(name, |(stem, _)| stem) {
        "-" => "trace".to_owned(),
        stem => slug(stem),
    }
}

fn one(
    mut source: Source,
    stem: &str,
    options: &Options,
    sink: &mut dyn Sink,
    notes: &mut Notes,
) -> io::Result<()> {
    let start = match source.reader.fill_buf() {
        Ok(buffer) => String::from_utf8_lossy(&buffer[..buffer.len().min(4096)]).into_owned(),
        Err(error) => {
            notes.refuse(&source.name, None, format!("cannot be read: {error}"));
            return Ok(());
        }
    };
    let start = start.trim_start();
    let header = start.lines().next().unwrap_or("");
    if start.starts_with('[') || (!start.starts_with('{') && questions::is_header(header)) {
        let outputs = questions::import(source, stem, options, notes);
        return write(outputs, sink, notes);
    }
    if let Some((key, value)) = options.only.first() {
        let text = format!(
            "`--only {key}={value}`: a trace of requests has nothing to choose by, only questions of videos do (`--only video=NAME`): import it without, or remove the other rows first"
        );
        notes.refuse(&source.name, None, text);
        return Ok(());
    }
    let name = format!("{stem}.csv");
    let mut writer = sink.create(&name)?;
    let done = {
        let mut convert = Convert::new(&source.name, options.skip_bad_rows, notes);
        let mut reader = source.reader;
        convert.all(&mut *reader, &mut *writer)?
    };
    writer.flush()?;
    drop(writer);
    if done {
        notes.wrote += 1;
    } else {
        sink.discard(&name)?;
    }
    Ok(())
}

fn write(outputs: Vec<Output>, sink: &mut dyn Sink, notes: &mut Notes) -> io::Result<()> {
    if outputs.len() > 1 && !sink.many() {
        let shown: Vec<&str> = outputs
            .iter()
            .take(10)
            .map(|output| output.identity.as_str())
            .collect();
        let dots = if outputs.len() > shown.len() {
            ", …"
        } else {
            ""
        };
        let text = format!(
            "{} videos are as many traces: `--out FOLDER` for all, or one by `--only video=NAME` ({}{dots})",
            outputs.len(),
            shown.join(", ")
        );
        notes.refuse("", None, text);
        return Ok(());
    }
    super::write(outputs, sink, notes)
}

/// The last sound row, until those behind it show that its time is right.
struct Held {
    /// What is written for it.
    row: String,
    line: u64,
    /// Whether its answer has no token.
    empty: bool,
}

/// Converts one stream.
struct Convert<'a> {
    file: &'a str,
    notes: &'a mut Notes,
    /// Header of a CSV with its line end; empty of JSON Lines.
    header: String,
    /// The first and the last two sound rows so far, each once: by these two it is told which of two times that fall is
    /// wrong, and a row given twice would count twice.
    ends: Vec<String>,
    held: Option<Held>,
    /// A row that is earlier than that one, and its line: those behind it will show which of the two is wrong.
    open: Option<(String, u64)>,
    piece: String,
    /// Where the piece begins in the text that is read.
    piece_at: usize,
    /// Whether a quote of CSV is open at its end.
    quoted: bool,
    /// Line of the piece's first row, and of the next one.
    piece_line: u64,
    line: u64,
    rows: u64,
    /// Whether faulty rows are left out; otherwise one refuses the file.
    skip: bool,
    bad_rows: usize,
    /// Faults that have been listed.
    listed: usize,
    /// Sound rows whose answer has no token.
    empty_answers: u64,
    columns: Option<[bool; 2]>,
    layout: &'static str,
    output: &'static str,
}

impl<'a> Convert<'a> {
    fn new(file: &'a str, skip: bool, notes: &'a mut Notes) -> Self {
        Self {
            file,
            notes,
            header: String::new(),
            ends: Vec::new(),
            held: None,
            open: None,
            piece: String::new(),
            piece_at: 0,
            quoted: false,
            piece_line: 1,
            line: 0,
            rows: 0,
            skip,
            bad_rows: 0,
            listed: 0,
            empty_answers: 0,
            columns: None,
            layout: "",
            output: "",
        }
    }

    /// Whether everything was converted.
    fn all(&mut self, reader: &mut dyn BufRead, writer: &mut dyn Write) -> io::Result<bool> {
        let mut bytes = Vec::new();
        let mut is_json = None;
        loop {
            bytes.clear();
            let count = match reader.take(LINE_MAX).read_until(b'\n', &mut bytes) {
                Ok(count) => count,
                Err(error) => {
                    self.notes.refuse(
                        self.file,
                        Some(self.line + 1),
                        format!("cannot be read: {error}"),
                    );
                    return Ok(false);
                }
            };
            if count == 0 {
                break;
            }
            self.line += 1;
            if count as u64 == LINE_MAX {
                self.notes
                    .refuse(self.file, Some(self.line), "the line is longer than 64 MiB");
                return Ok(false);
            }
            let Ok(text) = std::str::from_utf8(&bytes) else {
                self.notes
                    .refuse(self.file, Some(self.line), "is not UTF-8 text");
                return Ok(false);
            };
            if is_json.is_none() {
                if text.trim().is_empty() {
                    continue;
                }
                let json = text.trim_start().starts_with('{');
                is_json = Some(json);
                if !json {
                    text.clone_into(&mut self.header);
                    self.piece_line = self.line + 1;
                    continue;
                }
                self.piece_line = self.line;
            }
            if self.piece.is_empty() {
                self.piece_line = self.line;
            }
            self.piece.push_str(text);
            self.quoted ^= open_quote(text) && is_json == Some(false);
            // A quoted cell may hold line ends: a piece ends where no quote is open.
            if self.piece.len() >= PIECE && !self.quoted {
                if !self.convert(writer, true)? {
                    return Ok(false);
                }
            } else if self.piece.len() as u64 > 2 * LINE_MAX {
                self.notes.refuse(
                    self.file,
                    Some(self.piece_line),
                    "a quote is open over more than 64 MiB",
                );
                return Ok(false);
            }
        }
        let none = self.rows == 0 && self.bad_rows == 0;
        if (!self.piece.trim().is_empty() || none || self.open.is_some())
            && !self.convert(writer, false)?
        {
            return Ok(false);
        }
        if !self.whole() {
            return Ok(false);
        }
        if let Some(held) = self.held.take() {
            writer.write_all(held.row.as_bytes())?;
        }
        let lengths = match self.columns {
            Some([true, true]) => "times, prompt and answer lengths",
            Some([true, false]) => "times and prompt lengths",
            Some([false, true]) => "times and answer lengths",
            _ => "times",
        };
        let text = format!("{} rows of layout {}: {lengths}", self.rows, self.layout);
        self.notes.add(NoteKind::Read, self.file, None, text);
        Ok(true)
    }

    /// Says what rows are faulty, if any; whether the others are a trace of their own.
    fn whole(&mut self) -> bool {
        let (bad, all) = (self.bad_rows, self.rows + self.bad_rows as u64);
        if bad > 0 && (!self.skip || self.rows == 0) {
            let help = if self.rows == 0 {
                ""
            } else {
                "; --skip-bad-rows leaves them out"
            };
            let text = format!("{bad} of {all} rows are faulty{help}");
            self.notes.refuse(self.file, None, text);
            return false;
        }
        if bad > 0 {
            let text = format!(
                "{bad} of {all} rows are faulty and left out: the trace has fewer arrivals than were recorded"
            );
            self.notes.add(NoteKind::Warning, self.file, None, text);
        }
        if self.empty_answers > 0 {
            let text = format!(
                "{} of {} rows have 0 `{}`: they are played with 1",
                self.empty_answers, self.rows, self.output
            );
            self.notes.add(NoteKind::Warning, self.file, None, text);
        }
        true
    }

    /// Converts the piece that is there and empties it; a row of which only those behind it tell whether it is sound waits
    /// for them. `more`: whether other pieces follow.
    fn convert(&mut self, writer: &mut dyn Write, more: bool) -> io::Result<bool> {
        let mut text = self.header.clone();
        for row in &self.ends {
            text += row;
            text.push('\n');
        }
        let before = text.len();
        if let Some((row, _)) = &self.open {
            text += row;
            text.push('\n');
        }
        self.piece_at = text.len();
        text += &self.piece;
        self.piece.clear();
        let sound = match trace_file::sound_rows(self.file, &text, more) {
            Ok(sound) => sound,
            Err(faults) => {
                for fault in &faults {
                    self.fault(NoteKind::Refused, &text, before, fault);
                }
                return Ok(false);
            }
        };
        if let Some((name, column)) = sound.trace.misspelt.first() {
            let text = format!("column {} these lengths", misspelt(column, name));
            self.notes.refuse(self.file, Some(1), text);
            return Ok(false);
        }
        for warning in &sound.trace.warnings {
            let known = self.notes.list.iter().any(|note| note.text == *warning);
            if !known {
                self.notes
                    .add(NoteKind::Warning, self.file, None, warning.clone());
            }
        }
        self.bad_rows += sound.bad_rows;
        for fault in &sound.faults {
            if self.listed < LISTED {
                self.listed += 1;
                let kind = if self.skip {
                    NoteKind::Skipped
                } else {
                    NoteKind::Refused
                };
                self.fault(kind, &text, before, fault);
            }
        }
        self.rows(&text, before, &sound, writer)?;
        let open = sound.open.filter(|span| span.start >= before);
        self.open = open.map(|span| {
            let line = self.line_of(&text, before, span.start);
            (text[span].to_owned(), line)
        });
        Ok(true)
    }

    fn rows(
        &mut self,
        text: &str,
        before: usize,
        sound: &SoundRows,
        writer: &mut dyn Write,
    ) -> io::Result<()> {
        let SoundRows { trace, spans, .. } = sound;
        let from = spans.partition_point(|span| span.start < before);
        let new = spans.get(from..).unwrap_or_default();
        let Some(last) = new.last() else {
            return Ok(());
        };
        // The rows of this piece may have shown that the last before it is wrong.
        if let Some(held) = self.held.take() {
            if from == self.ends.len() {
                writer.write_all(held.row.as_bytes())?;
            } else {
                self.rows -= 1;
                self.empty_answers -= u64::from(held.empty);
            }
        }
        self.ends.truncate(from);
        let row = |span: &Range<usize>| text[span.clone()].to_owned();
        if self.ends.is_empty() {
            self.ends.extend(new.first().map(row));
            self.ends
                .extend(new[1..].iter().skip(new.len().saturating_sub(3)).map(row));
        } else {
            self.ends
                .extend(new.iter().skip(new.len().saturating_sub(2)).map(row));
        }
        let beyond = self.ends.len().saturating_sub(2);
        if beyond > 1 {
            self.ends.drain(1..beyond);
        }
        self.rows += (trace.times.len() - from) as u64;
        let outputs = trace.output_tokens.as_ref().map(|list| &list[from..]);
        let outputs = outputs.unwrap_or_default();
        self.empty_answers += outputs.iter().filter(|tokens| **tokens == 0).count() as u64;
        if self.bad_rows > 0 && !self.skip {
            // Nothing will come of it; only the faults of the rest are wanted.
            return Ok(());
        }
        let columns = [trace.prompt_tokens.is_some(), trace.output_tokens.is_some()];
        if self.columns.is_none() {
            self.columns = Some(columns);
            self.layout = trace.layout;
            self.output = trace.length_columns().last().unwrap_or("");
            let names = ["time_s", "prompt_tokens", "output_tokens"];
            let there = [true, columns[0], columns[1]];
            let header: Vec<&str> = names
                .iter()
                .zip(there)
                .filter(|(_, there)| *there)
                .map(|(name, _)| *name)
                .collect();
            writeln!(writer, "{}", header.join(","))?;
        }
        for index in from..trace.times.len() {
            let mut row = seconds(trace.times[index].0);
            for list in [&trace.prompt_tokens, &trace.output_tokens]
                .into_iter()
                .flatten()
            {
                _ = write!(row, ",{}", list[index]);
            }
            row.push('\n');
            if index + 1 == trace.times.len() {
                self.held = Some(Held {
                    row,
                    line: self.line_of(text, before, last.start),
                    empty: outputs.last() == Some(&0),
                });
            } else {
                writer.write_all(row.as_bytes())?;
            }
        }
        Ok(())
    }

    /// Line of a byte of a piece, which begins at `before`; of the rows before it the last one is meant.
    fn line_of(&self, text: &str, before: usize, at: usize) -> u64 {
        if at < before {
            let held = self.held.as_ref().map(|held| held.line);
            // Faults of columns are the header's.
            return held.filter(|_| at >= self.header.len()).unwrap_or(1);
        }
        if let Some((_, line)) = self.open.as_ref().filter(|_| at < self.piece_at) {
            return *line;
        }
        let range = text.get(self.piece_at..at.min(text.len()));
        let range = range.unwrap_or("");
        self.piece_line + range.bytes().filter(|&byte| byte == b'\n').count() as u64
    }

    fn fault(&mut self, kind: NoteKind, text: &str, before: usize, fault: &Diagnostic) {
        let line = self.line_of(text, before, fault.span.start);
        let help = fault
            .help
            .as_ref()
            .map_or_else(String::new, |help| format!("; {help}"));
        let text = format!("{}: {}{help}", fault.message, fault.label);
        self.notes.add(kind, self.file, Some(line), text);
    }
}

/// Whether a line opens a quote of CSV without closing it, or closes one.
fn open_quote(line: &str) -> bool {
    line.bytes().filter(|&byte| byte == b'"').count() % 2 == 1
}

/// Nanoseconds as seconds, exactly.
pub(super) fn seconds(ns: u64) -> String {
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
