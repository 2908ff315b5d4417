//! One file: parsed, checked against its shape and read into its raw type.

use std::sync::Arc;

use serde::de::DeserializeOwned;

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

/// Faults of several files, with the texts that they point into.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    sources: Vec<(String, String)>,
    /// Faults so far.
    pub(super) faults: Vec<Diagnostic>,
}

impl Ledger {
    /// Parses and checks `text`; `None` if it cannot be read into `T`.
    pub(super) fn read<T: DeserializeOwned>(
        &mut self,
        kind: Kind,
        name: &str,
        text: &str,
    ) -> Option<File<T>> {
        let document = self.parse(name, text)?;
        self.check(kind, document)
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
    ) -> Option<File<T>> {
        let root = document.root();
        let findings = schema_check::check(&root, Shape::of(kind));
        let fits = findings.faults.is_empty();
        self.faults.extend(findings.faults);
        let provenance = if kind == Kind::Scenario {
            Vec::new()
        } else {
            provenance::resolve(&root, &findings.numbers, &mut self.faults)
        };
        let raw = self.raw(&document, fits)?;
        Some(File {
            document: Arc::new(document),
            raw,
            provenance,
        })
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
