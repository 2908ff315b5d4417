//! Recorded arrivals: the text of a trace file becomes times and, where it has them, lengths.
//!
//! A trace is CSV with a header (comma, semicolon or tab) or JSONL (one object a line); which of the
//! two is told by its first character, then by the file's name. Columns are found by name, in any
//! order. A file whose columns are those of a public trace is read without conversion:
//!
//! | layout | time | prompt | answer |
//! | --- | --- | --- | --- |
//! | this program's | `time_s`, s | `prompt_tokens` | `output_tokens` |
//! | Azure LLM inference | `TIMESTAMP`, date and time, from the first row | `ContextTokens` | `GeneratedTokens` |
//! | `BurstGPT` | `Timestamp`, s, from the first row | `Request tokens` | `Response tokens` |
//! | Mooncake | `timestamp`, ms | `input_length` | `output_length` |
//! | Vidur | `arrived_at`, s | `num_prefill_tokens` | `num_decode_tokens` |
//! | `LLMServingSim` | `arrival_time_ns`, ns | `input_toks` | `output_toks` |
//!
//! Names are case-sensitive, since two layouts differ by nothing else. This program's layout needs
//! its time column only; the others are recognised by their time and at least one length.
//! Where the table says so, times count from the first row: those layouts hold wall-clock times.
//! Other columns of the public layouts are passed over; any further column gives a warning.

use std::ops::Range;

use self::cells::{Cell, Row};
use self::layout::{LAYOUTS, Layout, Unit};
use crate::diag::Diagnostic;
use crate::spec::quantity::SECONDS_MAX;
use crate::time::{Instant, NANOS_PER_SEC};

mod cells;
mod csv;
mod jsonl;
mod layout;
#[cfg(test)]
mod tests;

/// Faults of one file that are listed; the rest is counted.
const FAULTS_MAX: usize = 20;

/// Latest first time of a trace whose times count from the start of the run, ns: what any other time of a scenario may
/// be, 32 years. Clocks that count from 1970 are beyond it.
const LATEST_NS: i128 = (SECONDS_MAX * NANOS_PER_SEC) as i128;

/// Unknown columns that are named.
const UNKNOWN_MAX: usize = 20;

/// A trace file, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceFile {
    /// Whose columns it has, for people.
    pub layout: &'static str,
    /// When each row arrived, rising (equal times are possible).
    pub times: Vec<Instant>,
    /// Prompt length of each row, tokens.
    pub prompt_tokens: Option<Vec<u32>>,
    /// Answer length of each row, tokens.
    pub output_tokens: Option<Vec<u32>>,
    /// What the user should know: unknown columns, answers without tokens.
    pub warnings: Vec<String>,
    /// Columns that are not used, each with the absent column of the layout that it is likely a slip of.
    pub misspelt: Vec<(String, &'static str)>,
}

impl TraceFile {
    /// Names of the columns that its lengths come from.
    pub fn length_columns(&self) -> impl Iterator<Item = &'static str> {
        let layout = LAYOUTS.iter().find(|layout| layout.name == self.layout);
        let (prompt, output) = layout.map_or(("", ""), |layout| (layout.prompt, layout.output));
        let prompt = self.prompt_tokens.is_some().then_some(prompt);
        let output = self.output_tokens.is_some().then_some(output);
        prompt.into_iter().chain(output)
    }
}

/// The rows of a trace file that are sound, and what is wrong with the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SoundRows {
    /// The sound rows. Its warnings are of columns alone.
    pub trace: TraceFile,
    /// Where each of them stands in the text.
    pub spans: Vec<Range<usize>>,
    /// Faults of the other rows, in their order, up to twenty.
    pub faults: Vec<Diagnostic>,
    /// Rows that are not sound.
    pub bad_rows: usize,
    /// Where the last row that is sound by itself stands, if it is earlier than the one before: only one behind it would
    /// tell which of the two is at fault. It is none of the above.
    pub open: Option<Range<usize>>,
}

/// Reads the text of the trace `file`.
///
/// On failure, every fault of the file, in its order: up to twenty, and one more that counts the
/// rest.
pub fn parse(file: &str, text: &str) -> Result<TraceFile, Vec<Diagnostic>> {
    let reader = read(file, text, false);
    reader.finish(text)
}

/// Reads what rows of the trace `file` are sound. A row that is earlier than the sound one before it is not,
/// unless those after it are, too: then the one before is not.
///
/// With `more`, other rows of the file follow the text.
///
/// On failure, the faults: of the columns, or that of which rows there are cannot be told.
pub fn sound_rows(file: &str, text: &str, more: bool) -> Result<SoundRows, Vec<Diagnostic>> {
    let mut reader = read(file, text, true);
    if reader.rows == 0 || reader.fatal || reader.layout.is_none() {
        return Err(match reader.finish(text) {
            Ok(_) => Vec::new(),
            Err(faults) => faults,
        });
    }
    let mut open = None;
    if let (Some(last), Some(layout)) = (reader.suspect.take(), reader.layout) {
        if more {
            open = Some(last.span);
        } else {
            reader.bad_time(falls(layout, last.cell));
        }
    }
    let mut faults = std::mem::take(&mut reader.faults);
    faults.sort_by_key(|fault| fault.span.start);
    let spans = std::mem::take(&mut reader.spans);
    let bad_rows = reader.bad;
    reader.faults_beyond = 0;
    reader.empty_answers = 0;
    let trace = reader.finish(text)?;
    Ok(SoundRows {
        trace,
        spans,
        faults,
        bad_rows,
        open,
    })
}

fn read<'a>(file: &'a str, text: &str, lenient: bool) -> Reader<'a> {
    let mut reader = Reader::new(file, lenient);
    // A byte order mark is no part of the first name.
    let start = text.len() - text.trim_start_matches('\u{feff}').len();
    if is_jsonl(file, &text[start..]) {
        jsonl::read(text, start, &mut reader);
    } else {
        csv::read(text, start, &mut reader);
    }
    reader
}

/// Whether the text is JSONL rather than CSV.
fn is_jsonl(file: &str, text: &str) -> bool {
    match text.trim_start().chars().next() {
        Some('{' | '[') => true,
        // A header cannot be told from a broken first line, so the name decides.
        _ => [".jsonl", ".ndjson", ".json"]
            .iter()
            .any(|ending| file.to_ascii_lowercase().ends_with(ending)),
    }
}

/// A row that is sound by itself.
#[derive(Debug)]
struct Kept {
    time: Option<i128>,
    prompt: Option<u32>,
    output: Option<u32>,
    /// Where its time stands.
    cell: Range<usize>,
    span: Range<usize>,
}

/// Where a time is at fault, with message, label and help.
type Fall = (Range<usize>, String, &'static str, Option<String>);

fn falls(layout: &Layout, span: Range<usize>) -> Fall {
    let message = format!("`{}` falls", layout.time);
    let help = Some("sort the rows by time".to_owned());
    (span, message, "is earlier than the row before", help)
}

/// What both formats feed: columns once, then rows.
#[derive(Debug)]
struct Reader<'a> {
    file: &'a str,
    layout: Option<&'static Layout>,
    /// Time of each row before it is made relative, ns.
    times: Vec<i128>,
    prompts: Option<Vec<u32>>,
    outputs: Option<Vec<u32>>,
    previous: Option<i128>,
    /// Time of the row before that.
    before: Option<i128>,
    /// The last row, and the next one where that is earlier.
    last: Option<Kept>,
    suspect: Option<Kept>,
    empty_answers: usize,
    rows: usize,
    /// Whether rows that are faulty are left out and the others kept.
    lenient: bool,
    /// Rows that are faulty.
    bad: usize,
    /// Faults by the end of the last row.
    faults_before: usize,
    /// Whether a fault is of the whole file rather than of a row.
    fatal: bool,
    /// Where each sound row stands; kept only if others are left out.
    spans: Vec<Range<usize>>,
    /// Columns without a meaning, each warned of once.
    unknown: Vec<String>,
    warnings: Vec<String>,
    misspelt: Vec<(String, &'static str)>,
    faults: Vec<Diagnostic>,
    faults_beyond: usize,
    /// Where the first uncounted fault is.
    beyond_at: Range<usize>,
}

impl<'a> Reader<'a> {
    fn new(file: &'a str, lenient: bool) -> Self {
        Self {
            file,
            layout: None,
            times: Vec::new(),
            prompts: None,
            outputs: None,
            previous: None,
            before: None,
            last: None,
            suspect: None,
            empty_answers: 0,
            rows: 0,
            lenient,
            bad: 0,
            faults_before: 0,
            fatal: false,
            spans: Vec::new(),
            unknown: Vec::new(),
            warnings: Vec::new(),
            misspelt: Vec::new(),
            faults: Vec::new(),
            faults_beyond: 0,
            beyond_at: 0..0,
        }
    }

    /// Notes a fault.
    fn fault(&mut self, span: Range<usize>, message: String, label: &str, help: Option<String>) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(Diagnostic {
                file: self.file.to_owned(),
                span,
                message,
                label: label.to_owned(),
                help,
            });
        } else {
            if self.faults_beyond == 0 {
                self.beyond_at = span;
            }
            self.faults_beyond += 1;
        }
    }

    /// Chooses the layout by the names of the columns, which stand at `span`. Without a layout there
    /// is a fault, and no row can be read.
    fn columns(&mut self, names: &[&str], span: Range<usize>) -> Option<&'static Layout> {
        let Some(layout) = LAYOUTS.iter().find(|layout| layout.fits(names)) else {
            let (label, help) = layout::missing(names);
            self.fault(span, "the trace has no time column".into(), &label, help);
            self.fatal = true;
            return None;
        };
        for name in names {
            self.unknown_column(layout, name);
        }
        self.layout = Some(layout);
        self.prompts = names.contains(&layout.prompt).then(Vec::new);
        self.outputs = names.contains(&layout.output).then(Vec::new);
        Some(layout)
    }

    /// Warns of a column that means nothing here.
    fn unknown_column(&mut self, layout: &Layout, name: &str) {
        let known = layout.knows(name) || self.unknown.iter().any(|unknown| unknown == name);
        if known || self.unknown.len() >= UNKNOWN_MAX {
            return;
        }
        self.unknown.push(name.to_owned());
        self.warnings.push(layout.warning(name));
        let guess = layout.guess(name).map(|column| (name.to_owned(), column));
        self.misspelt.extend(guess);
        if self.unknown.len() == UNKNOWN_MAX {
            self.warnings
                .push("further columns may be unused".to_owned());
        }
    }

    /// Counts a row that cannot be read, and whose fault is noted.
    fn bad_row(&mut self) {
        self.rows += 1;
        self.bad += 1;
        self.faults_before = self.faults.len() + self.faults_beyond;
    }

    /// Takes one row.
    fn row(&mut self, layout: &Layout, row: &Row<'_>) {
        self.rows += 1;
        let time = match layout.unit {
            Unit::DateTime => row.time.date_time(layout.time),
            Unit::PerSecond(per_second) => row.time.time(layout.time, per_second),
        };
        let time = self.keep(time);
        if let Some(time) = time {
            // The first of them tells it of all.
            if !layout.relative && self.previous.is_none() && !self.fatal && time > LATEST_NS {
                self.fault(
                    row.time.place().span,
                    format!("the trace starts {:.1e} s after the start of the run", time as f64 * 1e-9),
                    "must be at most 10^9 s",
                    Some(format!(
                        "is `{}` a wall-clock time, counted from 1970? subtract that of the first row",
                        layout.time
                    )),
                );
                self.fatal = true;
            }
            if !self.lenient && self.previous.is_some_and(|previous| time < previous) {
                self.fault_of(falls(layout, row.time.place().span));
            }
        }
        let prompt = self.length(self.prompts.is_some(), layout.prompt, &row.prompt);
        let output = self.length(self.outputs.is_some(), layout.output, &row.output);
        let faults = self.faults.len() + self.faults_beyond;
        if faults > self.faults_before {
            self.faults_before = faults;
            self.bad += 1;
            if !self.lenient {
                self.previous = time.or(self.previous);
            }
            return;
        }
        self.empty_answers += usize::from(output == Some(0));
        let kept = Kept {
            time,
            prompt,
            output,
            cell: row.time.place().span,
            span: row.span.clone(),
        };
        if self.lenient {
            self.keep_sound(layout, kept);
        } else {
            self.take(kept);
        }
    }

    /// Keeps a row that is sound by itself, if its time fits: of two times that fall, the row after them tells which one
    /// is wrong. One clock that jumped ahead must not cost all rows behind it.
    fn keep_sound(&mut self, layout: &Layout, row: Kept) {
        if let Some(second) = self.suspect.take() {
            let first = self.last.as_ref().and_then(|last| last.time);
            if row.time < first {
                self.drop_last(layout);
                self.take(second);
            } else {
                self.bad_time(falls(layout, second.cell));
            }
        }
        if row.time >= self.previous {
            self.take(row);
        } else if row.time >= self.before {
            self.suspect = Some(row);
        } else {
            self.bad_time(falls(layout, row.cell));
        }
    }

    /// Counts a row whose time is at fault.
    fn bad_time(&mut self, fault: Fall) {
        self.fault_of(fault);
        self.bad += 1;
        self.faults_before = self.faults.len() + self.faults_beyond;
    }

    fn fault_of(&mut self, (span, message, label, help): Fall) {
        self.fault(span, message, label, help);
    }

    /// Takes the last row back: those behind it are earlier.
    fn drop_last(&mut self, layout: &Layout) {
        let Some(last) = self.last.take() else {
            return;
        };
        self.times.pop();
        self.spans.pop();
        for list in [&mut self.prompts, &mut self.outputs].into_iter().flatten() {
            list.pop();
        }
        self.previous = self.before.take();
        let message = format!("`{}` jumps ahead", layout.time);
        self.bad_time((last.cell, message, "is later than the rows after it", None));
    }

    fn take(&mut self, row: Kept) {
        self.before = self.previous;
        self.previous = row.time;
        if self.lenient {
            self.spans.push(row.span.clone());
        }
        self.times.extend(row.time);
        if let Some(prompts) = &mut self.prompts {
            prompts.extend(row.prompt);
        }
        if let Some(outputs) = &mut self.outputs {
            outputs.extend(row.output);
        }
        self.last = Some(row);
    }

    /// A length of a row. Either all rows have it, or none.
    fn length(&mut self, expected: bool, column: &str, cell: &Cell<'_>) -> Option<u32> {
        if expected {
            return self.keep(cell.tokens(column));
        }
        if let Cell::Text(place) = cell {
            let message = format!("the first row has no `{column}`");
            let help = Some("give it in all rows or in none".to_owned());
            self.fault(place.span.clone(), message, "this row has one", help);
        }
        None
    }

    /// The value, or its fault noted.
    fn keep<T>(&mut self, value: Result<T, cells::Fault>) -> Option<T> {
        match value {
            Ok(value) => Some(value),
            Err(fault) => {
                self.fault(fault.span, fault.message, fault.label, fault.help);
                None
            }
        }
    }

    fn finish(mut self, text: &str) -> Result<TraceFile, Vec<Diagnostic>> {
        if self.rows == 0 && self.faults.is_empty() {
            let help = "write a header with `time_s`, then one row per arrival".to_owned();
            let end = text.len();
            self.fault(
                end..end,
                "the trace has no rows".into(),
                "ends here",
                Some(help),
            );
        }
        self.faults.sort_by_key(|fault| fault.span.start);
        if self.faults_beyond > 0 {
            self.faults.push(Diagnostic {
                file: self.file.to_owned(),
                span: self.beyond_at,
                message: format!("{} more faults in this file", self.faults_beyond),
                label: "the next one".to_owned(),
                help: None,
            });
        }
        let Some(layout) = self.layout.filter(|_| self.faults.is_empty()) else {
            return Err(self.faults);
        };
        if self.empty_answers > 0 {
            self.warnings.push(format!(
                "{} of {} rows have 0 `{}`: they are played with 1",
                self.empty_answers, self.rows, layout.output
            ));
        }
        let first = self.times.first().copied().unwrap_or(0);
        let zero = if layout.relative { first } else { 0 };
        let since = |time: &i128| Instant(u64::try_from(time - zero).unwrap_or(u64::MAX));
        let (no_prompts, no_outputs) = (self.prompts.is_none(), self.outputs.is_none());
        Ok(TraceFile {
            layout: layout.name,
            times: self.times.iter().map(since).collect(),
            prompt_tokens: self.prompts,
            output_tokens: self.outputs,
            warnings: self.warnings,
            misspelt: self
                .misspelt
                .into_iter()
                .filter(|(_, column)| {
                    (*column == layout.prompt && no_prompts)
                        || (*column == layout.output && no_outputs)
                })
                .collect(),
        })
    }
}
