//! One file: parsed, checked against its shape and read into its raw type.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::cured::{self, Stand};
use super::document::{Document, Place};
use super::numbers::Numbers;
use super::shape::Shape;
use super::{Kind, provenance, schema_check};
use crate::diag::{Diagnostic, Faults};
use crate::world::Provenance;

/// A file whose structure is right.
#[derive(Debug)]
pub(super) struct File<T> {
    document: Arc<Document>,
    /// What it says.
    pub(super) raw: T,
    /// Its numbers with their origins.
    pub(super) provenance: Vec<Provenance>,
}

impl<T> File<T> {
    /// The whole file.
    pub(super) fn root(&self) -> Place<'_> {
        self.document.root()
    }

    /// Name of the file.
    pub(super) fn name(&self) -> &str {
        &self.document.name
    }

    /// Text of the file.
    pub(super) fn text(&self) -> &str {
        &self.document.text
    }
}

impl<T: DeserializeOwned> File<T> {
    /// The same file with other numbers; `None` if none of them is in it. Places stay those of the file
    /// as it is written.
    pub(super) fn with_numbers(&self, numbers: &Numbers) -> Option<Result<Self, Diagnostic>> {
        let changes = numbers.of(self.name())?;
        let mut text = self.document.text.clone();
        for (start, (end, value)) in changes.iter().rev() {
            // The shortest text that reads back as the same number.
            text.replace_range(*start..*end, &format!("{value:?}"));
        }
        let mut provenance = self.provenance.clone();
        for number in &mut provenance {
            if let Some((_, value)) = changes.get(&number.span.start) {
                number.value = *value;
            }
        }
        Some(match toml::from_str(&text) {
            Ok(raw) => Ok(Self {
                document: Arc::clone(&self.document),
                raw,
                provenance,
            }),
            Err(error) => Err(self.root().fault(
                format!("cannot be read with other numbers: {}", error.message()),
                "in this file",
            )),
        })
    }
}

/// What came of reading a file.
#[derive(Debug)]
pub(super) enum Reading<T> {
    /// Its form is right.
    Sound(File<T>),
    /// Read in spite of faults of form, with small and with large numbers where they are wrong.
    Cured(Box<[File<T>; 2]>),
    /// Not at all.
    Lost,
}

impl<T> Reading<T> {
    /// The file, if its form is right.
    pub(super) fn sound(self) -> Option<File<T>> {
        match self {
            Self::Sound(file) => Some(file),
            Self::Cured(_) | Self::Lost => None,
        }
    }

    /// The file as far as it can be read.
    pub(super) fn with(&self, stand: Stand) -> Option<&File<T>> {
        match self {
            Self::Sound(file) => Some(file),
            Self::Cured(files) => Some(&files[stand as usize]),
            Self::Lost => None,
        }
    }
}

/// Faults of several files, with the texts that they point into.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    sources: Vec<(String, String)>,
    /// File and bytes of what was left out or replaced.
    cured: Vec<(String, std::ops::Range<usize>)>,
    /// Faults so far.
    pub(super) faults: Vec<Diagnostic>,
}

impl Ledger {
    /// Parses and checks `text`.
    pub(super) fn read<T: DeserializeOwned>(
        &mut self,
        kind: Kind,
        name: &str,
        text: &str,
    ) -> Reading<T> {
        match self.parse(name, text) {
            Some(document) => self.check(kind, document),
            None => Reading::Lost,
        }
    }

    /// Takes the faults of meaning that `look` finds whichever number stands for a wrong one, and that are not of what
    /// was left out or replaced.
    pub(super) fn look(&mut self, look: impl Fn(Stand, &mut Vec<Diagnostic>)) {
        let [small, large] = [Stand::Small, Stand::Large].map(|stand| {
            let mut faults = Vec::new();
            look(stand, &mut faults);
            faults
        });
        let elsewhere = |fault: &Diagnostic| {
            let mut cured = self.cured.iter();
            !cured.any(|(file, span)| *file == fault.file && cured::overlap(span, &fault.span))
        };
        let both = small.into_iter().filter(|fault| large.contains(fault));
        let found: Vec<_> = both.filter(elsewhere).collect();
        self.faults.extend(found);
    }

    /// Keeps a text without faults.
    pub(super) fn keep(&mut self, name: String, text: String) {
        self.sources.push((name, text));
    }

    /// Parses `text`.
    pub(super) fn parse(&mut self, name: &str, text: &str) -> Option<Document> {
        self.sources.push((name.to_owned(), text.to_owned()));
        match Document::parse(name, text) {
            Ok(document) => Some(document),
            Err(faults) => {
                self.faults.extend(faults);
                None
            }
        }
    }

    /// Takes the faults of a file that was read elsewhere.
    pub(super) fn blame(&mut self, name: String, text: String, faults: Vec<Diagnostic>) {
        self.sources.push((name, text));
        self.faults.extend(faults);
    }

    /// Checks a parsed file and reads it into its raw type.
    pub(super) fn check<T: DeserializeOwned>(
        &mut self,
        kind: Kind,
        document: Document,
    ) -> Reading<T> {
        let root = document.root();
        let findings = schema_check::check(&root, Shape::of(kind));
        let fits = findings.faults.is_empty();
        let curable = findings.cures.len() == findings.faults.len();
        self.faults.extend(findings.faults);
        let provenance = if kind == Kind::Scenario {
            Vec::new()
        } else {
            provenance::resolve(&root, &findings.numbers, &mut self.faults)
        };
        if let Some(raw) = self.raw(&document, fits) {
            return Reading::Sound(File {
                document: Arc::new(document),
                raw,
                provenance,
            });
        }
        let read = |stand| cured::read(&document.readable(), &findings.cures, stand);
        let (true, Some(small), Some(large)) = (curable, read(Stand::Small), read(Stand::Large))
        else {
            return Reading::Lost;
        };
        let spans = findings.cures.into_iter().map(|cure| cure.span);
        let name = &document.name;
        self.cured.extend(spans.map(|span| (name.clone(), span)));
        let document = Arc::new(document);
        Reading::Cured(Box::new([small, large].map(|raw| File {
            document: Arc::clone(&document),
            raw,
            provenance: provenance.clone(),
        })))
    }

    /// Reads a parsed file of any shape into its raw type.
    pub(super) fn fit<T: DeserializeOwned>(
        &mut self,
        document: &Document,
        shape: &Shape,
    ) -> Option<T> {
        let findings = schema_check::check(&document.root(), shape);
        let fits = findings.faults.is_empty();
        self.faults.extend(findings.faults);
        self.raw(document, fits)
    }

    /// The raw type of a file, if it `fits` its shape.
    fn raw<T: DeserializeOwned>(&mut self, document: &Document, fits: bool) -> Option<T> {
        match toml::from_str(&document.text) {
            Ok(raw) if fits => Some(raw),
            // What the shape lets through, the raw type should too; if it does not, say so all the same.
            Err(error) if fits => {
                let mut fault = document.root().fault(
                    format!("cannot be read: {}", error.message().replace('\n', ", ")),
                    "here",
                );
                if let Some(span) = error.span()
                    && span.end <= document.text.len()
                {
                    fault.span = span;
                }
                self.faults.push(fault);
                None
            }
            _ => None,
        }
    }

    /// The faults, by file and place.
    pub(super) fn into_faults(self) -> Faults {
        let Self {
            sources,
            faults: mut list,
            cured: _,
        } = self;
        let rank = |file: &str| sources.iter().position(|(name, _)| name == file);
        list.sort_by(|a, b| {
            (rank(&a.file), a.span.start, a.span.end).cmp(&(
                rank(&b.file),
                b.span.start,
                b.span.end,
            ))
        });
        list.dedup();
        Faults { list, sources }
    }
}
