//! What the `transformers` library takes for keys that a configuration leaves out. It writes only what differs from
//! these, so real configurations of some families state little.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::{Value, json};

use super::NESTED;

/// Defaults of the configuration classes of transformers 5.24, by `model_type`.
fn of(model_type: &str) -> Value {
    match model_type {
        "gemma3_text" => json!({
            "num_hidden_layers": 26, "hidden_size": 2304, "intermediate_size": 9216, "num_attention_heads": 8,
            "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262_208, "max_position_embeddings": 131_072,
            "sliding_window": 4096, "sliding_window_pattern": 6
        }),
        "llama" => json!({
            "num_hidden_layers": 32, "hidden_size": 4096, "intermediate_size": 11008, "num_attention_heads": 32,
            "vocab_size": 32000, "max_position_embeddings": 2048
        }),
        "mistral" => json!({
            "num_hidden_layers": 32, "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
            "num_key_value_heads": 8, "vocab_size": 32000, "max_position_embeddings": 131_072, "sliding_window": 4096
        }),
        "qwen2" => json!({
            "num_hidden_layers": 32, "hidden_size": 4096, "intermediate_size": 22016, "num_attention_heads": 32,
            "num_key_value_heads": 32, "vocab_size": 151_936, "max_position_embeddings": 32768,
            "use_sliding_window": false
        }),
        _ => Value::Null,
    }
}

/// Families by what their class takes for `tie_word_embeddings`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tied {
    untied: BTreeSet<String>,
    tied: BTreeSet<String>,
}

/// Whether the head is the embedding where `tie_word_embeddings` is left out, and who says so: what the class of the
/// whole takes, or of its language model; `None` where neither is known here.
pub(super) fn tied<'a>(root: &'a Value, language: &'a Value) -> Option<(bool, &'a str)> {
    static READ: OnceLock<Tied> = OnceLock::new();
    let known = READ.get_or_init(|| toml::from_str(include_str!("tied.toml")).unwrap_or_default());
    [root, language].into_iter().find_map(|table| {
        let family = table.get("model_type")?.as_str()?;
        if known.untied.contains(family) {
            Some((false, family))
        } else {
            known.tied.contains(family).then_some((true, family))
        }
    })
}

/// Fills a nested language model's table in; returns the keys that were filled, with their values.
pub(super) fn fill(root: &mut Value) -> Vec<(String, Value)> {
    let mut filled = Vec::new();
    let Some(table) = NESTED
        .iter()
        .find(|key| root.get(**key).is_some_and(Value::is_object))
    else {
        return filled;
    };
    let Some(Value::Object(table)) = root.get_mut(*table) else {
        return filled;
    };
    let model_type = table
        .get("model_type")
        .and_then(Value::as_str)
        .unwrap_or("")
        .to_owned();
    let Value::Object(defaults) = of(&model_type) else {
        return filled;
    };
    for (key, value) in defaults {
        // The pattern says nothing where the layers are listed.
        let listed = key == "sliding_window_pattern"
            && (table.contains_key("layer_types") || table.contains_key("_sliding_window_pattern"));
        if !table.contains_key(&key) && !listed {
            table.insert(key.clone(), value.clone());
            filled.push((key, value));
        }
    }
    filled
}
