//! A TOML file as a tree in which everything knows its bytes.

use std::borrow::Cow;
use std::ops::Range;

use serde::de::IgnoredAny;
use toml::de::{DeTable, DeValue};

use crate::diag::Diagnostic;

/// A parsed file.
#[derive(Debug)]
pub(super) struct Document {
    /// Name as the user gave it.
    pub(super) name: String,
    /// Its text.
    pub(super) text: String,
    root: Node,
    /// Bytes of numbers that no number of TOML can be, in order.
    beyond: Vec<Range<usize>>,
}

/// A value and its bytes.
#[derive(Debug)]
pub(super) struct Node {
    span: Range<usize>,
    pub(super) value: Value,
}

/// A value of TOML.
#[derive(Debug)]
pub(super) enum Value {
    /// Text.
    Text(String),
    /// A whole number; `None` where 64 bits cannot hold it.
    Integer(Option<i64>),
    /// A number with a fraction or exponent; may be NaN or infinite.
    Float(f64),
    /// `true` or `false`.
    Boolean,
    /// A date or time.
    Datetime,
    /// A list.
    Array(Vec<Node>),
    /// A table: keys with their bytes, sorted by key.
    Table(Vec<(String, Range<usize>, Node)>),
}

impl Document {
    /// Parses `text`; every syntax error that the parser can tell apart is a fault.
    pub(super) fn parse(name: &str, text: &str) -> Result<Self, Vec<Diagnostic>> {
        let (table, errors) = DeTable::parse_recoverable(text);
        if errors.is_empty() {
            let span = table.span();
            let root = Node {
                span,
                value: table_value(table.get_ref()),
            };
            let mut beyond = Vec::new();
            find_beyond(&root, text, &mut beyond);
            beyond.sort_by_key(|span| span.start);
            return Ok(Self {
                name: name.to_owned(),
                text: text.to_owned(),
                root,
                beyond,
            });
        }
        // One fault, where each line would be one.
        if json(text) {
            let start = text.len() - text.trim_start().len();
            return Err(vec![Diagnostic::new(
                name,
                start..start + 1,
                "JSON, and what is read here is TOML".to_owned(),
                "JSON begins here",
            )]);
        }
        Err(errors
            .iter()
            .map(|error| {
                let span = error.span().unwrap_or(0..0);
                Diagnostic::new(
                    name,
                    clamp(span, text),
                    format!("not valid TOML: {}", first_line(error.message())),
                    "syntax error here",
                )
            })
            .collect())
    }

    /// The text with 0 in place of numbers that no number of TOML can be: else the parser would read nothing of it.
    pub(super) fn readable(&self) -> Cow<'_, str> {
        let mut text = Cow::Borrowed(self.text.as_str());
        for span in self.beyond.iter().rev() {
            text.to_mut().replace_range(span.clone(), "0");
        }
        text
    }

    /// The whole file.
    pub(super) fn root(&self) -> Place<'_> {
        let first_line = self.text.find('\n').unwrap_or(self.text.len());
        Place {
            document: self,
            node: Some(&self.root),
            span: 0..first_line,
            key_span: 0..first_line,
            path: String::new(),
        }
    }
}

/// Whether a text, or its first line, is JSON.
fn json(text: &str) -> bool {
    let text = text.trim();
    let whole = |text: &str| serde_json::from_str::<IgnoredAny>(text).is_ok();
    text.starts_with(['{', '[']) && (whole(text) || text.lines().next().is_some_and(whole))
}

/// A key as a path has it: in quotes where it could be taken for several, or for what is around it.
fn shown_key(key: &str) -> Cow<'_, str> {
    let apart = |c: char| c.is_whitespace() || c.is_control() || "\"'`,=[]{}".contains(c);
    if key.is_empty() || key.contains(apart) {
        Cow::Owned(format!("{key:?}"))
    } else {
        Cow::Borrowed(key)
    }
}

/// Adds the bytes of the numbers within that the parser tells apart and cannot read.
fn find_beyond(node: &Node, text: &str, beyond: &mut Vec<Range<usize>>) {
    match &node.value {
        Value::Integer(None) => beyond.push(clamp(node.span.clone(), text)),
        Value::Float(value) if value.is_infinite() => {
            let span = clamp(node.span.clone(), text);
            if text
                .get(span.clone())
                .is_some_and(|number| !number.contains("inf"))
            {
                beyond.push(span);
            }
        }
        Value::Array(items) => {
            for item in items {
                find_beyond(item, text, beyond);
            }
        }
        Value::Table(entries) => {
            for (_, _, item) in entries {
                find_beyond(item, text, beyond);
            }
        }
        _ => {}
    }
}

fn first_line(message: &str) -> String {
    message.lines().collect::<Vec<_>>().join(", ")
}

/// Keeps a span within the text.
fn clamp(span: Range<usize>, text: &str) -> Range<usize> {
    let end = span.end.min(text.len());
    span.start.min(end)..end
}

fn table_value(table: &DeTable<'_>) -> Value {
    Value::Table(
        table
            .iter()
            .map(|(key, value)| {
                (
                    key.get_ref().to_string(),
                    key.span(),
                    node(value.span(), value.get_ref()),
                )
            })
            .collect(),
    )
}

fn node(span: Range<usize>, value: &DeValue<'_>) -> Node {
    let value = match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(integer) => {
            Value::Integer(i64::from_str_radix(integer.as_str(), integer.radix()).ok())
        }
        DeValue::Float(float) => Value::Float(float.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(_) => Value::Boolean,
        DeValue::Datetime(_) => Value::Datetime,
        DeValue::Array(items) => Value::Array(
            items
                .iter()
                .map(|item| node(item.span(), item.get_ref()))
                .collect(),
        ),
        DeValue::Table(table) => table_value(table),
    };
    Node { span, value }
}

/// A place in a document: a value that is there, or where a missing one would go.
#[derive(Clone, Debug)]
pub(super) struct Place<'d> {
    document: &'d Document,
    node: Option<&'d Node>,
    span: Range<usize>,
    key_span: Range<usize>,
    path: String,
}

impl<'d> Place<'d> {
    /// The place of `key` in this table.
    pub(super) fn key(&self, key: &str) -> Self {
        let shown = shown_key(key);
        let path = if self.path.is_empty() {
            shown.into_owned()
        } else {
            format!("{}.{shown}", self.path)
        };
        if let Some(Value::Table(entries)) = self.value()
            && let Ok(at) = entries.binary_search_by(|(name, ..)| name.as_str().cmp(key))
        {
            let (_, key_span, node) = &entries[at];
            return self.child(path, key_span.clone(), node);
        }
        self.missing(path)
    }

    /// The place of the item at `index` of this list.
    pub(super) fn index(&self, index: usize) -> Self {
        let path = format!("{}[{index}]", self.path);
        match self.value() {
            Some(Value::Array(items)) if index < items.len() => {
                self.child(path, items[index].span.clone(), &items[index])
            }
            _ => self.missing(path),
        }
    }

    fn child(&self, path: String, key_span: Range<usize>, node: &'d Node) -> Self {
        let text = &self.document.text;
        // The bytes of a table written under a header are the header's alone or, where a dotted key
        // made it, none: then its key stands for it.
        let span = if node.span.is_empty() {
            key_span.clone()
        } else {
            node.span.clone()
        };
        Self {
            document: self.document,
            node: Some(node),
            span: clamp(span, text),
            key_span: clamp(key_span, text),
            path,
        }
    }

    fn missing(&self, path: String) -> Self {
        Self {
            document: self.document,
            node: None,
            span: self.key_span.clone(),
            key_span: self.key_span.clone(),
            path,
        }
    }

    /// What is here.
    pub(super) fn value(&self) -> Option<&'d Value> {
        self.node.map(|node| &node.value)
    }

    /// Whether something is here.
    pub(super) fn is_present(&self) -> bool {
        self.node.is_some()
    }

    /// The text that is here, if it is text.
    pub(super) fn text(&self) -> Option<&'d str> {
        match self.value() {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Keys of the table that is here, sorted.
    pub(super) fn keys(&self) -> impl Iterator<Item = &'d str> + use<'d> {
        let entries = match self.value() {
            Some(Value::Table(entries)) => entries.as_slice(),
            _ => &[],
        };
        entries.iter().map(|(key, ..)| key.as_str())
    }

    /// Number of items of the list that is here.
    pub(super) fn len(&self) -> usize {
        match self.value() {
            Some(Value::Array(items)) => items.len(),
            _ => 0,
        }
    }

    /// Dotted path, for people; empty for the whole file.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The path in backticks, or words for the whole file.
    pub(super) fn quoted(&self) -> String {
        if self.path.is_empty() {
            "the file".to_owned()
        } else {
            format!("`{}`", self.path)
        }
    }

    /// Name of the file.
    pub(super) fn file(&self) -> &'d str {
        &self.document.name
    }

    /// The bytes of the value as the file has them.
    pub(super) fn source(&self) -> &'d str {
        self.slice(&self.span)
    }

    /// Some bytes of the file.
    pub(super) fn slice(&self, span: &Range<usize>) -> &'d str {
        self.document.text.get(span.clone()).unwrap_or("")
    }

    /// A fault of the value.
    pub(super) fn fault(&self, message: impl Into<String>, label: impl Into<String>) -> Diagnostic {
        Diagnostic::new(self.file(), self.span.clone(), message, label)
    }

    /// A fault of the key.
    pub(super) fn key_fault(
        &self,
        message: impl Into<String>,
        label: impl Into<String>,
    ) -> Diagnostic {
        Diagnostic::new(self.file(), self.key_span.clone(), message, label)
    }
}
