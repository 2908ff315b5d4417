//! The schemas that editors use, and that what passes them can be read.
#![expect(
    clippy::disallowed_methods,
    reason = "expected text is kept in files, which these tests read and refresh"
)]

use std::path::PathBuf;

use serde::de::DeserializeOwned;

use crate::load::document::Document;
use crate::load::shape::{Choice, Shape};
use crate::load::{Kind, schema, schema_check};
use crate::spec::costs::CostsFile;
use crate::spec::model::ModelFile;
use crate::spec::scenario::{Length, ScenarioFile};
use crate::spec::soc::SocFile;

#[test]
fn committed_schemas_are_current() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../schemas");
    for kind in Kind::ALL {
        let path = folder.join(format!("{kind}.schema.json"));
        let wanted = schema(kind);
        if std::env::var_os("UPDATE_SCHEMAS").is_some() {
            std::fs::create_dir_all(&folder).expect("the folder can be made");
            std::fs::write(&path, &wanted).expect("the schema can be written");
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == wanted,
            "schemas/{kind}.schema.json differs from the raw types; refresh it with `UPDATE_SCHEMAS=1 cargo test -p crossinfer-sim schemas`"
        );
    }
}

/// Values of a shape that use every key and, one after another, every alternative of every choice.
fn values(shape: &Shape) -> Vec<String> {
    match shape {
        Shape::Text => vec!["\"text\"".to_owned()],
        Shape::Scalar => ["1", "1.5", "true", "\"text\""].map(str::to_owned).into(),
        Shape::Flag => vec!["true".to_owned()],
        Shape::Integer(_) => vec!["1".to_owned()],
        Shape::Number(_) => vec!["1.0".to_owned(), "1".to_owned()],
        Shape::Quantity(_) => vec![
            "1".to_owned(),
            "1.0".to_owned(),
            "{ value = 1, origin = \"o\", low = 1, high = 1e0 }".to_owned(),
        ],
        Shape::List { item, len, .. } => values(item)
            .into_iter()
            .map(|value| format!("[{}]", vec![value; len.unwrap_or(2)].join(", ")))
            .collect(),
        Shape::Map(value) => values(value)
            .into_iter()
            .map(|value| format!("{{ a = {value}, b = {value} }}"))
            .collect(),
        Shape::Table(fields) => {
            let columns: Vec<(&String, Vec<String>)> = fields
                .iter()
                .map(|(key, field)| (key, values(&field.shape)))
                .collect();
            let rows = columns.iter().map(|(_, c)| c.len()).max().unwrap_or(1);
            (0..rows)
                .map(|row| {
                    let parts: Vec<String> = columns
                        .iter()
                        .map(|(key, column)| format!("{key} = {}", column[row % column.len()]))
                        .collect();
                    format!("{{ {} }}", parts.join(", "))
                })
                .collect()
        }
        Shape::Choice(Choice {
            words,
            tagged,
            wide,
            plain,
        }) => {
            let mut all: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
            all.extend(wide.values().flat_map(values));
            for (tag, shape) in tagged {
                all.extend(values(shape).iter().map(|v| format!("{{ {tag} = {v} }}")));
            }
            all.extend(plain.iter().flat_map(|plain| values(plain)));
            all
        }
    }
}

fn every_form_can_be_read<T: DeserializeOwned>(kind: Kind) {
    let shape = Shape::of(kind);
    let all = values(shape);
    assert!(!all.is_empty());
    for value in all {
        let text = format!("file = {value}");
        let document = Document::parse("form", &text).expect("valid TOML");
        let findings = schema_check::check(&document.root().key("file"), shape);
        assert_eq!(findings.faults, [], "{text}");
        let table: toml::Table = toml::from_str(&text).expect("valid TOML");
        if let Err(error) = table["file"].clone().try_into::<T>() {
            panic!("{error}\n{text}");
        }
    }
}

#[test]
fn every_form_that_fits_can_be_read() {
    every_form_can_be_read::<ScenarioFile>(Kind::Scenario);
    every_form_can_be_read::<SocFile>(Kind::Soc);
    every_form_can_be_read::<ModelFile>(Kind::Model);
    every_form_can_be_read::<CostsFile>(Kind::Costs);
}

#[test]
fn lengths_have_every_form() {
    for form in [
        "n = 4",
        "n = { uniform = { low = 1, high = 2 } }",
        "n = { log_normal = { mean = 3, cv = 0.5 } }",
        "n = { geometric = { mean = 3.5 } }",
        "n = { empirical = { tokens = [1, 2] } }",
    ] {
        let table: toml::Table = toml::from_str(form).expect("valid TOML");
        assert!(table["n"].clone().try_into::<Length>().is_ok(), "{form}");
    }
}
