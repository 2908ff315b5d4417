//! Faults in input files, as plain data. Rendering belongs to the command.

use std::fmt;
use std::ops::Range;

/// One fault of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file's name as the user gave it.
    pub file: String,
    /// Bytes of the file that are at fault.
    pub span: Range<usize>,
    /// What is wrong, naming the key or value.
    pub message: String,
    /// Short text beside the marked place.
    pub label: String,
    /// What would be right.
    pub help: Option<String>,
}

impl Diagnostic {
    /// A fault of the bytes `span` of `file`.
    pub fn new(
        file: impl Into<String>,
        span: Range<usize>,
        message: impl Into<String>,
        label: impl Into<String>,
    ) -> Self {
        Self {
            file: file.into(),
            span,
            message: message.into(),
            label: label.into(),
            help: None,
        }
    }

    /// The same with what would be right.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// Every fault found, at least one.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// The faults, in the order of their files and places.
    pub list: Vec<Diagnostic>,
    /// Text of each file that a fault points into, by name.
    pub sources: Vec<(String, String)>,
}

impl Faults {
    /// Takes up others; what two files find in a third is one fault.
    pub fn add(&mut self, others: Self) {
        for (name, text) in others.sources {
            if !self.sources.iter().any(|(known, _)| *known == name) {
                self.sources.push((name, text));
            }
        }
        for fault in others.list {
            if !self.list.contains(&fault) {
                self.list.push(fault);
            }
        }
    }

    /// The text of `file`, empty if it could not be read.
    pub fn source(&self, file: &str) -> &str {
        self.sources
            .iter()
            .find(|(name, _)| name == file)
            .map_or("", |(_, text)| text)
    }
}

/// Line and column, both from 1, of byte `offset` of `text`.
pub fn line_column(text: &str, offset: usize) -> (usize, usize) {
    let mut at = offset.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let before = &text[..at];
    let line = before.matches('\n').count() + 1;
    let column = before
        .rsplit('\n')
        .next()
        .map_or(0, |tail| tail.chars().count())
        + 1;
    (line, column)
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.list.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            let (line, column) = line_column(self.source(&fault.file), fault.span.start);
            write!(
                f,
                "{}:{line}:{column}: {}: {}",
                fault.file, fault.message, fault.label
            )?;
            if let Some(help) = &fault.help {
                write!(f, " (help: {help})")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}
