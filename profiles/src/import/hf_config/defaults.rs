//! What the `transformers` library takes for keys that a configuration leaves out. It writes only what differs from
//! these, so real configurations of some families state little.

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
        "qwen2" => json!({
            "num_hidden_layers": 32, "hidden_size": 4096, "intermediate_size": 22016, "num_attention_heads": 32,
            "num_key_value_heads": 32, "vocab_size": 151_936, "max_position_embeddings": 32768,
            "use_sliding_window": false
        }),
        _ => Value::Null,
    }
}

/// Families whose class has a head of its own where `tie_word_embeddings` is left out.
const UNTIED: [&str; 20] = [
    "deepseek_v2",
    "deepseek_v3",
    "granite",
    "llama",
    "mistral",
    "mixtral",
    "olmo",
    "olmo2",
    "phi",
    "phi3",
    "qwen2",
    "qwen2_5_vl",
    "qwen2_5_vl_text",
    "qwen2_moe",
    "qwen2_vl",
    "qwen2_vl_text",
    "qwen3",
    "qwen3_moe",
    "qwen3_vl",
    "qwen3_vl_text",
];

/// Whether the head is the embedding where `tie_word_embeddings` is left out, in a table of its own or not: what the
/// class of this `model_type` takes, and else what `PretrainedConfig` does.
pub(super) fn tied(model_type: &str) -> bool {
    !UNTIED.contains(&model_type)
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
