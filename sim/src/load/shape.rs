//! What a file may hold: a JSON Schema with its references followed, as a tree that is quick to walk.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use schemars::JsonSchema;
use serde_json::{Map, Value};

use super::{Kind, schema};

/// What may stand in a place.
#[derive(Debug)]
pub(super) enum Shape {
    /// A string.
    Text,
    /// `true` or `false`.
    Flag,
    /// A whole number without a point.
    Integer(Bounds),
    /// A number.
    Number(Bounds),
    /// A number of a profile, plain or with its origin.
    Quantity(Bounds),
    /// A number, a flag or a text.
    Scalar,
    /// A list.
    List {
        /// What each item is.
        item: Box<Self>,
        /// How many items, if that is fixed.
        len: Option<usize>,
        /// Whether its numbers are of a profile, and so need an origin.
        numbers: bool,
    },
    /// A table with keys of the user's choice.
    Map(Box<Self>),
    /// A table with known keys.
    Table(BTreeMap<String, Field>),
    /// One of several words, or a table with one of several keys, or something else.
    Choice(Choice),
}

/// A known key of a table.
#[derive(Debug)]
pub(super) struct Field {
    /// What it holds.
    pub(super) shape: Shape,
    /// Whether it must be there.
    pub(super) required: bool,
    /// First sentence of its description.
    pub(super) summary: String,
}

/// Alternatives.
#[derive(Debug, Default)]
pub(super) struct Choice {
    /// Words.
    pub(super) words: Vec<String>,
    /// What the table under each key holds.
    pub(super) tagged: BTreeMap<String, Shape>,
    /// Whole tables with several keys, each known by one that it must have.
    pub(super) wide: BTreeMap<String, Shape>,
    /// An alternative that is neither.
    pub(super) plain: Option<Box<Shape>>,
}

/// Limits of a number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Bounds {
    /// At least this.
    pub(super) least: Option<f64>,
    /// More than this.
    pub(super) above: Option<f64>,
    /// At most this.
    pub(super) most: Option<f64>,
    /// Whether it must be whole.
    pub(super) whole: bool,
}

impl Shape {
    /// The shape of a kind of file.
    pub(super) fn of(kind: Kind) -> &'static Self {
        static SHAPES: [OnceLock<Shape>; 4] = [const { OnceLock::new() }; 4];
        SHAPES[kind as usize].get_or_init(|| {
            let root = schema::value(kind);
            Self::from_schema(&root, &root)
        })
    }

    /// The shape of another type of file.
    pub(super) fn of_type<T: JsonSchema>() -> Self {
        let root = schema::generate::<T>("");
        Self::from_schema(&root, &root)
    }

    /// # Panics
    ///
    /// If the schema uses a form that the raw types do not need; a test builds every shape.
    fn from_schema(root: &Value, schema: &Value) -> Self {
        let merged = resolved(root, schema);
        let bounds = Bounds::of(&merged);
        if merged.contains_key("x-quantity") {
            return Self::Quantity(bounds);
        }
        for alternatives in ["oneOf", "anyOf"] {
            if let Some(Value::Array(options)) = merged.get(alternatives) {
                let mut choice = Choice::default();
                for option in options {
                    choice.add(root, option);
                }
                return Self::Choice(choice);
            }
        }
        if merged.contains_key("const") || merged.contains_key("enum") {
            let mut choice = Choice::default();
            choice.add(root, schema);
            return Self::Choice(choice);
        }
        if let Some(Value::Array(_)) = merged.get("type") {
            return Self::Scalar;
        }
        match merged.get("type").and_then(Value::as_str) {
            Some("string") => Self::Text,
            Some("boolean") => Self::Flag,
            Some("integer") => Self::Integer(Bounds {
                whole: true,
                ..bounds
            }),
            Some("number") => Self::Number(bounds),
            Some("array") => Self::List {
                item: Box::new(Self::from_schema(root, &merged["items"])),
                len: merged
                    .get("minItems")
                    .and_then(Value::as_u64)
                    .map(|len| len as usize),
                numbers: merged.contains_key("x-numbers"),
            },
            Some("object") => Self::table(root, &merged),
            _ => panic!("no shape for the schema {schema}"),
        }
    }

    fn table(root: &Value, schema: &Map<String, Value>) -> Self {
        if let Some(values @ Value::Object(_)) = schema.get("additionalProperties") {
            return Self::Map(Box::new(Self::from_schema(root, values)));
        }
        let required: Vec<&str> = strings(schema.get("required"));
        let Some(Value::Object(properties)) = schema.get("properties") else {
            return Self::Table(BTreeMap::new());
        };
        Self::Table(
            properties
                .iter()
                .map(|(key, value)| {
                    let description = resolved(root, value)
                        .get("description")
                        .and_then(Value::as_str)
                        .map_or(String::new(), first_sentence);
                    let field = Field {
                        shape: Self::from_schema(root, value),
                        required: required.contains(&key.as_str()),
                        summary: description,
                    };
                    (key.clone(), field)
                })
                .collect(),
        )
    }

    /// What may stand here, in words.
    pub(super) fn expected(&self) -> String {
        match self {
            Self::Text => "a string".to_owned(),
            Self::Flag => "`true` or `false`".to_owned(),
            Self::Integer(_) => "a whole number".to_owned(),
            Self::Number(_) => "a number".to_owned(),
            Self::Quantity(_) => "a number, or a table with `value`".to_owned(),
            Self::Scalar => "a number, a string, `true` or `false`".to_owned(),
            Self::List { len: None, .. } => "a list".to_owned(),
            Self::List { len: Some(len), .. } => format!("a list of {len} items"),
            Self::Map(_) | Self::Table(_) => "a table".to_owned(),
            Self::Choice(choice) => {
                let mut parts = Vec::new();
                if let Some(plain) = &choice.plain {
                    parts.push(plain.expected());
                }
                if !choice.words.is_empty() {
                    parts.push("a word".to_owned());
                }
                if !choice.tagged.is_empty() || !choice.wide.is_empty() {
                    parts.push("a table".to_owned());
                }
                parts.join(" or ")
            }
        }
    }

    /// A value that may stand here.
    pub(super) fn example(&self) -> String {
        match self {
            Self::Text => "\"text\"".to_owned(),
            Self::Flag => "true".to_owned(),
            Self::Scalar => "1.0".to_owned(),
            Self::Integer(bounds) => bounds.example().to_string(),
            Self::Number(bounds) | Self::Quantity(bounds) => format!("{:?}", bounds.example()),
            Self::List { item, len, .. } => {
                let item = item.example();
                format!("[{}]", vec![item; len.unwrap_or(1)].join(", "))
            }
            Self::Map(value) => format!("{{ name = {} }}", value.example()),
            Self::Table(fields) => {
                let parts: Vec<String> = fields
                    .iter()
                    .filter(|(_, field)| field.required)
                    .map(|(key, field)| format!("{key} = {}", field.shape.example()))
                    .collect();
                if parts.is_empty() {
                    "{}".to_owned()
                } else {
                    format!("{{ {} }}", parts.join(", "))
                }
            }
            Self::Choice(choice) => choice.example(),
        }
    }
}

impl Choice {
    fn add(&mut self, root: &Value, schema: &Value) {
        let option = resolved(root, schema);
        if let Some(Value::String(word)) = option.get("const") {
            self.words.push(word.clone());
            return;
        }
        if option.contains_key("enum") {
            let words = strings(option.get("enum"));
            self.words.extend(words.into_iter().map(str::to_owned));
            return;
        }
        if let Some(Value::String(tag)) = option.get("x-tag") {
            self.wide.insert(tag.clone(), Shape::table(root, &option));
            return;
        }
        let tag = match (option.get("properties"), option.get("required")) {
            (Some(Value::Object(properties)), Some(required))
                if properties.len() == 1 && strings(Some(required)).len() == 1 =>
            {
                properties.iter().next()
            }
            _ => None,
        };
        if let Some((tag, value)) = tag {
            self.tagged
                .insert(tag.clone(), Shape::from_schema(root, value));
            return;
        }
        match Shape::from_schema(root, schema) {
            Shape::Choice(inner) => {
                self.words.extend(inner.words);
                self.tagged.extend(inner.tagged);
                self.wide.extend(inner.wide);
                self.plain = self.plain.take().or(inner.plain);
            }
            plain => self.plain = Some(Box::new(plain)),
        }
    }

    /// Names of all alternatives.
    pub(super) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.words.iter().map(String::as_str).collect();
        names.extend(
            self.tagged
                .keys()
                .map(String::as_str)
                .filter(|tag| !self.words.iter().any(|word| word == tag)),
        );
        names.extend(self.wide.keys().map(String::as_str));
        names
    }

    fn example(&self) -> String {
        if let Some(plain) = &self.plain {
            return plain.example();
        }
        if let Some(word) = self.words.first() {
            return format!("{word:?}");
        }
        self.tagged
            .iter()
            .next()
            .map_or(String::new(), |(tag, shape)| {
                format!("{{ {tag} = {} }}", shape.example())
            })
    }
}

impl Bounds {
    fn of(schema: &Map<String, Value>) -> Self {
        let number = |key: &str| schema.get(key).and_then(Value::as_f64);
        Self {
            least: number("minimum"),
            above: number("exclusiveMinimum"),
            most: number("maximum"),
            whole: number("multipleOf") == Some(1.0),
        }
    }

    /// What the number must be, if `value` is not it.
    pub(super) fn broken_by(&self, value: f64) -> Option<String> {
        if let Some(above) = self.above
            && value <= above
        {
            return Some(format!("greater than {above}"));
        }
        if let Some(least) = self.least
            && value < least
        {
            return Some(format!("at least {least}"));
        }
        if let Some(most) = self.most
            && value > most
        {
            return Some(format!("at most {most}"));
        }
        (self.whole && value.fract() != 0.0).then(|| "a whole number".to_owned())
    }

    /// A number that keeps to them.
    pub(super) fn example(&self) -> f64 {
        self.most.map_or(1.0, |most| most.min(1.0))
    }
}

/// The keywords of a schema with its references followed; outer ones win.
fn resolved(root: &Value, schema: &Value) -> Map<String, Value> {
    let Value::Object(object) = schema else {
        return Map::new();
    };
    let mut merged = object.clone();
    let mut inner = Vec::new();
    if let Some(Value::String(reference)) = merged.remove("$ref")
        && let Some(target) = root.pointer(reference.trim_start_matches('#'))
    {
        inner.push(target.clone());
    }
    if let Some(Value::Array(parts)) = merged.remove("allOf") {
        inner.extend(parts);
    }
    for part in inner {
        for (key, value) in resolved(root, &part) {
            merged.entry(key).or_insert(value);
        }
    }
    merged
}

fn strings(value: Option<&Value>) -> Vec<&str> {
    match value {
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn first_sentence(description: &str) -> String {
    let line = description.replace('\n', " ");
    let end = line.find(". ").unwrap_or(line.len());
    lowercase_first(line[..end].trim_end_matches('.'))
}

/// The text with a small first letter, unless an acronym starts it.
fn lowercase_first(text: &str) -> String {
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(first), Some(second)) if !second.is_uppercase() => {
            first.to_lowercase().collect::<String>() + &text[first.len_utf8()..]
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_shape() {
        for kind in [Kind::Scenario, Kind::Soc, Kind::Model, Kind::Costs] {
            assert!(matches!(Shape::of(kind), Shape::Table(fields) if fields.len() > 4));
        }
    }
}
