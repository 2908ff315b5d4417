//! Recorded arrivals as this program's own trace: `time_s`, and lengths where there are any.
//!
//! CSV and JSON Lines are read by `sim`'s own reader, a piece at a time, so that a file of any size takes bounded
//! memory: each piece stands behind the header and the first row, from which wall-clock layouts count.
//! Query times of video benchmarks (`StreamingBench`, OVO-Bench) become one trace a video.

mod questions;

use std::io::{self, BufRead, Read as _, Write};

use sim::diag::Diagnostic;
use sim::workload::trace_file::{self, TraceFile};

use super::note::{NoteKind, Notes};
use super::text::slug;
use super::{Options, Output, Sink, Source};

/// Bytes of a piece.
const PIECE: usize = 1 << 20;
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
    for source in sources {
        let stem = source.name.rsplit(['/', '\\']).next().unwrap_or("trace");
        let stem = stem.rsplit_once('.').map_or(stem, |(stem, _)| stem);
        let stem = if stem == "-" {
            "trace".to_owned()
        } else {
            slug(stem)
        };
        one(source, &stem, options, sink, notes)?;
    }
    Ok(())
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
    let name = format!("{stem}.csv");
    let mut writer = sink.create(&name)?;
    let done = {
        let mut convert = Convert::new(&source.name, notes);
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

/// Converts one stream.
struct Convert<'a> {
    file: &'a str,
    notes: &'a mut Notes,
    /// Header of a CSV with its line end; empty of JSON Lines.
    header: String,
    first: Option<String>,
    piece: String,
    /// Whether a quote of CSV is open at its end.
    quoted: bool,
    /// Line of the piece's first row, and of the next one.
    piece_line: u64,
    line: u64,
    last: Option<u64>,
    rows: u64,
    columns: Option<[bool; 2]>,
    layout: &'static str,
}

impl<'a> Convert<'a> {
    fn new(file: &'a str, notes: &'a mut Notes) -> Self {
        Self {
            file,
            notes,
            header: String::new(),
            first: None,
            piece: String::new(),
            quoted: false,
            piece_line: 1,
            line: 0,
            last: None,
            rows: 0,
            columns: None,
            layout: "",
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
            if self.first.is_none() && !text.trim().is_empty() && !self.quoted {
                self.first = Some(self.piece.clone());
            }
            // A quoted cell may hold line ends: a piece ends where no quote is open.
            if self.piece.len() >= PIECE && !self.quoted {
                if !self.convert(writer)? {
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
        if (!self.piece.trim().is_empty() || self.rows == 0) && !self.convert(writer)? {
            return Ok(false);
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

    /// Converts the piece that is there and empties it.
    fn convert(&mut self, writer: &mut dyn Write) -> io::Result<bool> {
        let later = self.rows > 0;
        let mut text = self.header.clone();
        if later && let Some(first) = &self.first {
            text += first;
            if !first.ends_with('\n') {
                text.push('\n');
            }
        }
        let before = text.len();
        text += &self.piece;
        self.piece.clear();
        let parsed = match trace_file::parse(self.file, &text) {
            Ok(parsed) => parsed,
            Err(faults) => {
                for fault in &faults {
                    self.fault(&text, before, fault);
                }
                return Ok(false);
            }
        };
        if let Some((name, column)) = parsed.misspelt.first() {
            let text = format!(
                "column `{column}` is missing; the nearest is `{name}`: rename it, or take it out to import without these lengths"
            );
            self.notes.refuse(self.file, Some(1), text);
            return Ok(false);
        }
        for warning in &parsed.warnings {
            let known = self.notes.list.iter().any(|note| note.text == *warning);
            if !known {
                self.notes
                    .add(NoteKind::Warning, self.file, None, warning.clone());
            }
        }
        self.rows(&parsed, usize::from(later), writer)
    }

    fn rows(
        &mut self,
        parsed: &TraceFile,
        from: usize,
        writer: &mut dyn Write,
    ) -> io::Result<bool> {
        let columns = [
            parsed.prompt_tokens.is_some(),
            parsed.output_tokens.is_some(),
        ];
        if self.columns.is_none() {
            self.columns = Some(columns);
            self.layout = parsed.layout;
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
        for index in from..parsed.times.len() {
            let time = parsed.times[index].0;
            if self.last.is_some_and(|last| time < last) {
                self.notes.refuse(
                    self.file,
                    Some(self.piece_line + (index - from) as u64),
                    "the time is earlier than the row before: sort the rows by time",
                );
                return Ok(false);
            }
            self.last = Some(time);
            write!(writer, "{}", seconds(time))?;
            for list in [&parsed.prompt_tokens, &parsed.output_tokens]
                .into_iter()
                .flatten()
            {
                write!(writer, ",{}", list[index])?;
            }
            writeln!(writer)?;
            self.rows += 1;
        }
        Ok(true)
    }

    fn fault(&mut self, text: &str, before: usize, fault: &Diagnostic) {
        let at = fault.span.start;
        let ends = |range: &str| range.bytes().filter(|&byte| byte == b'\n').count() as u64;
        let line = if at < before {
            1
        } else {
            self.piece_line + ends(text.get(before..at.min(text.len())).unwrap_or(""))
        };
        let help = fault
            .help
            .as_ref()
            .map_or_else(String::new, |help| format!("; {help}"));
        let text = format!("{}: {}{help}", fault.message, fault.label);
        self.notes.refuse(self.file, Some(line), text);
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
