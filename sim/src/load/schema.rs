//! JSON Schemas of the four kinds of file, derived from the raw types: what editors complete from and
//! what the loader checks against are the same.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use super::Kind;
use crate::spec::costs::CostsFile;
use crate::spec::model::ModelFile;
use crate::spec::scenario::ScenarioFile;
use crate::spec::soc::SocFile;

/// The JSON Schema (draft 7) of a kind of file, as text.
pub fn schema(kind: Kind) -> String {
    let mut text = format!("{:#}", value(kind));
    text.push('\n');
    text
}

/// The JSON Schema (draft 7) of another crate's file type, as text.
pub fn schema_of<T: JsonSchema>(title: &str) -> String {
    let mut text = format!("{:#}", generate::<T>(title));
    text.push('\n');
    text
}

/// The JSON Schema of a kind of file.
pub(super) fn value(kind: Kind) -> Value {
    match kind {
        Kind::Scenario => generate::<ScenarioFile>("crossinfer scenario"),
        Kind::Soc => generate::<SocFile>("crossinfer SoC profile"),
        Kind::Model => generate::<ModelFile>("crossinfer model"),
        Kind::Costs => generate::<CostsFile>("crossinfer costs of a model on a SoC"),
    }
}

/// The JSON Schema of a type.
pub(super) fn generate<T: JsonSchema>(title: &str) -> Value {
    let mut schema = SchemaSettings::draft07()
        .with_transform(RecursiveTransform(without_null))
        .with_transform(RecursiveTransform(bounded_integers))
        .with_transform(RecursiveTransform(words_as_tables))
        .into_generator()
        .into_root_schema_for::<T>();
    schema.insert("title".to_owned(), title.into());
    schema.to_value()
}

/// Drops `null`, which TOML cannot say: an optional key is left out instead.
fn without_null(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".to_owned(), only);
        }
    }
    if object.get("default") == Some(&Value::Null) {
        object.remove("default");
    }
    let Some(Value::Array(options)) = object.get_mut("anyOf") else {
        return;
    };
    let before = options.len();
    options.retain(|option| option.get("type") != Some(&json!("null")));
    if before == options.len() || options.len() != 1 {
        return;
    }
    let only = options.remove(0);
    object.remove("anyOf");
    match only {
        Value::Object(inner) if !inner.contains_key("$ref") => {
            for (key, value) in inner {
                object.entry(key).or_insert(value);
            }
        }
        reference => {
            object.insert("allOf".to_owned(), json!([reference]));
        }
    }
}

/// States the upper end of 32-bit counts, which schemars leaves to the format.
fn bounded_integers(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    let maximum = match object.get("format").and_then(Value::as_str) {
        Some("uint32") => u64::from(u32::MAX),
        Some("uint64") => i64::MAX as u64,
        _ => return,
    };
    object
        .entry("maximum")
        .or_insert_with(|| Value::from(maximum));
}

/// Lets a variant without parameters be written `policy = "serial"` and, as those with parameters,
/// `[policy.serial]`.
fn words_as_tables(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    // Where one alternative has several keys it is `anyOf`.
    let key = ["oneOf", "anyOf"]
        .into_iter()
        .find(|key| object.contains_key(*key));
    let Some(Value::Array(options)) = key.and_then(|key| object.get_mut(key)) else {
        return;
    };
    if !options
        .iter()
        .any(|option| option.get("properties").is_some())
    {
        return;
    }
    let tables: Vec<Value> = options
        .iter()
        .flat_map(|option| {
            let words: Vec<&Value> = match (option.get("const"), option.get("enum")) {
                (Some(word), _) => vec![word],
                (None, Some(Value::Array(words))) => words.iter().collect(),
                _ => vec![],
            };
            words
                .into_iter()
                .filter_map(Value::as_str)
                .map(|word| {
                    let mut properties = Map::new();
                    properties.insert(
                        word.to_owned(),
                        json!({ "type": "object", "additionalProperties": false }),
                    );
                    let mut table = Map::new();
                    if let Some(description) = option.get("description") {
                        table.insert("description".to_owned(), description.clone());
                    }
                    table.insert("type".to_owned(), "object".into());
                    table.insert("properties".to_owned(), Value::Object(properties));
                    table.insert("required".to_owned(), json!([word]));
                    table.insert("additionalProperties".to_owned(), Value::Bool(false));
                    Value::Object(table)
                })
                .collect::<Vec<_>>()
        })
        .collect();
    options.extend(tables);
}
