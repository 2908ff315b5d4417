//! Keys that are likely misspelt: without the one that is meant, another model would be counted.

use serde_json::Value;

use super::super::text::{misspelt, unknown_for};
use super::{Config, Fault, NESTED};

/// Keys of a language model that change what is counted.
const LANGUAGE: [&str; 29] = [
    "num_hidden_layers",
    "hidden_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "intermediate_size",
    "moe_intermediate_size",
    "shared_expert_intermediate_size",
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
    "num_experts_per_tok",
    "vocab_size",
    "tie_word_embeddings",
    "max_position_embeddings",
    "layer_types",
    "sliding_window",
    "sliding_window_pattern",
    "use_sliding_window",
    "max_window_layers",
    "full_attention_interval",
    "attention_chunk_size",
    "num_kv_shared_layers",
    "kv_lora_rank",
    "qk_rope_head_dim",
    "linear_num_key_heads",
    "linear_num_value_heads",
    "linear_key_head_dim",
    "linear_value_head_dim",
];

/// Keys of the whole.
const ROOT: [&str; 5] = [
    "model_type",
    "text_config",
    "vision_config",
    "quantization_config",
    "torch_dtype",
];

/// Keys of a vision tower.
const VISION: [&str; 10] = [
    "depth",
    "hidden_size",
    "num_hidden_layers",
    "intermediate_size",
    "patch_size",
    "image_size",
    "spatial_merge_size",
    "temporal_patch_size",
    "out_hidden_size",
    "embed_dim",
];

/// Keys of their own meaning that look like one of those above.
const OTHERS: [&str; 10] = [
    "v_head_dim",
    "q_head_dim",
    "k_head_dim",
    "qk_head_dim",
    "qk_nope_head_dim",
    "head_dims",
    "hidden_sizes",
    "image_sizes",
    "patch_sizes",
    "depths",
];

/// Refuses a table that lacks a key and has one that is likely meant for it.
pub(super) fn check(config: &Config<'_>) -> Result<(), Fault> {
    let root = config.root;
    let whole = [&LANGUAGE[..], &ROOT[..]].concat();
    table(config, root, &whole)?;
    // A nested table in which the number of layers is misspelt is not known as one.
    for nested in NESTED.iter().filter_map(|key| root.get(*key)) {
        table(config, nested, &LANGUAGE)?;
    }
    root.get("vision_config")
        .map_or(Ok(()), |vision| table(config, vision, &VISION))
}

fn table(config: &Config<'_>, table: &Value, wanted: &[&str]) -> Result<(), Fault> {
    let Some(table) = table.as_object() else {
        return Ok(());
    };
    let known = |name: &&str| {
        let name = name.trim_start_matches('_');
        [&LANGUAGE[..], &ROOT, &VISION, &OTHERS]
            .iter()
            .any(|list| list.contains(&name))
    };
    let unknown = table.keys().map(String::as_str).filter(|name| !known(name));
    let missing = wanted.iter().filter(|key| !table.contains_key(**key));
    match unknown_for(unknown, &missing.copied()) {
        None => Ok(()),
        Some((name, key)) => Err((config.line(name), misspelt(key, name))),
    }
}
