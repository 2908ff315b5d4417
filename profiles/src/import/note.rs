//! What an importer has to say, with its place.

use std::collections::BTreeMap;
use std::fmt;

/// What a note is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoteKind {
    /// Taken.
    Read,
    /// Left out, with the reason.
    Skipped,
    /// Two values for one thing; neither is used.
    Conflict,
    /// Repeats that drift, as under thermal throttling.
    Trend,
    /// What the user should know of a number that was taken.
    Warning,
    /// What the result lacks, and what would supply it.
    Missing,
    /// Why nothing came out.
    Refused,
}

impl NoteKind {
    /// The word that starts the line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Skipped => "skipped",
            Self::Conflict => "conflict",
            Self::Trend => "trend",
            Self::Warning => "warning",
            Self::Missing => "missing",
            Self::Refused => "refused",
        }
    }
}

/// A remark on a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// What it is about.
    pub kind: NoteKind,
    /// The file, empty if it is about all of them.
    pub file: String,
    /// The line, from 1.
    pub line: Option<u64>,
    /// The remark.
    pub text: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.kind.word())?;
        match (self.file.as_str(), self.line) {
            ("", _) => {}
            (file, None) => write!(f, "{file}: ")?,
            (file, Some(line)) => write!(f, "{file}:{line}: ")?,
        }
        f.write_str(&self.text)
    }
}

/// Notes of one kind that are kept; the rest is counted.
const KEPT: usize = 1000;

/// All remarks, in the order in which they arose.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// The remarks.
    pub list: Vec<Note>,
    /// Files written.
    pub wrote: usize,
    kept: BTreeMap<NoteKind, usize>,
    beyond: usize,
}

impl Notes {
    pub(crate) fn add(
        &mut self,
        kind: NoteKind,
        file: &str,
        line: Option<u64>,
        text: impl Into<String>,
    ) {
        let kept = self.kept.entry(kind).or_default();
        if *kept >= KEPT && kind < NoteKind::Missing {
            self.beyond += 1;
            return;
        }
        *kept += 1;
        self.list.push(Note {
            kind,
            file: file.to_owned(),
            line,
            text: text.into(),
        });
    }

    pub(crate) fn skip(&mut self, file: &str, line: u64, text: impl Into<String>) {
        self.add(NoteKind::Skipped, file, Some(line), text);
    }

    pub(crate) fn refuse(&mut self, file: &str, line: Option<u64>, text: impl Into<String>) {
        self.add(NoteKind::Refused, file, line, text);
    }

    /// Whether something of this kind was said.
    pub fn any(&self, kind: NoteKind) -> bool {
        self.list.iter().any(|note| note.kind == kind)
    }

    /// Remarks beyond those that are listed.
    pub fn unlisted(&self) -> usize {
        self.beyond
    }
}
