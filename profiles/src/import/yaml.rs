//! YAML as a tree with lines. Anchors are not followed: an alias within an alias grows without bound, and no file
//! of these kinds has any.

use saphyr_parser::{Event, Parser, Span};

/// A value and its line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    /// Line, from 1.
    pub(crate) line: u64,
    /// What it is.
    pub(crate) value: Value,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// A scalar as text; of `null`, in any spelling, quoted or not, the empty text.
    Text(String),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping in the order of the file.
    Map(Vec<(String, Node)>),
}

/// Nesting beyond which a document is refused.
const DEPTH_MAX: usize = 64;

impl Node {
    /// The value of a key of a mapping.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.entries()
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, node)| node)
    }

    /// Keys and values, of a mapping.
    pub(crate) fn entries(&self) -> &[(String, Self)] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// Items, of a sequence; a mapping is one item.
    pub(crate) fn items(&self) -> &[Self] {
        match &self.value {
            Value::List(items) => items,
            Value::Map(_) => std::slice::from_ref(self),
            Value::Text(_) => &[],
        }
    }

    /// The text of a scalar that is not null.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// A finite number above zero.
    pub(crate) fn positive(&self) -> Option<f64> {
        let number: f64 = self.text()?.parse().ok()?;
        (number.is_finite() && number > 0.0).then_some(number)
    }
}

/// The first document of a text, or the line of a fault and what it is.
pub(crate) fn parse(text: &str) -> Result<Node, (u64, String)> {
    let mut open: Vec<(Node, Option<String>)> = Vec::new();
    for event in Parser::new_from_str(text) {
        let (event, span) =
            event.map_err(|error| (error.marker().line() as u64, error.info().to_owned()))?;
        let line = line(span);
        let done = match event {
            Event::Alias(_) => return Err((line, "an alias, which is not followed".to_owned())),
            Event::Scalar(text, ..) => {
                let null = matches!(&*text, "null" | "~" | "Null" | "NULL");
                let text = if null {
                    String::new()
                } else {
                    text.into_owned()
                };
                Some(Node {
                    line,
                    value: Value::Text(text),
                })
            }
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                if open.len() >= DEPTH_MAX {
                    return Err((line, format!("nested more than {DEPTH_MAX} levels deep")));
                }
                let value = match event {
                    Event::SequenceStart(..) => Value::List(Vec::new()),
                    _ => Value::Map(Vec::new()),
                };
                open.push((Node { line, value }, None));
                None
            }
            Event::SequenceEnd | Event::MappingEnd => open.pop().map(|(node, _)| node),
            _ => None,
        };
        let Some(node) = done else {
            continue;
        };
        let Some((parent, key)) = open.last_mut() else {
            return Ok(node);
        };
        match &mut parent.value {
            Value::List(items) => items.push(node),
            Value::Map(entries) => match key.take() {
                Some(name) => entries.push((name, node)),
                None => match node.value {
                    Value::Text(name) => *key = Some(name),
                    _ => return Err((node.line, "a key that is no text".to_owned())),
                },
            },
            Value::Text(_) => {}
        }
    }
    Err((1, "no document".to_owned()))
}

fn line(span: Span) -> u64 {
    span.start.line() as u64
}
