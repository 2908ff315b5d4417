//! Numbers of a vision tower that none has: left out, another tower would be counted.

use serde_json::Value;

use super::vision::{Tower, side};
use super::{Config, Fault};

/// Sizes and counts of a tower: whole numbers, or pairs of them.
const SIZES: [&str; 14] = [
    "depth",
    "embed_dim",
    "hidden_size",
    "image_size",
    "intermediate_size",
    "num_attention_heads",
    "num_heads",
    "num_hidden_layers",
    "out_hidden_size",
    "patch_size",
    "spatial_merge_size",
    "spatial_patch_size",
    "temporal_patch_size",
    "window_size",
];

/// Layers that attend to the whole picture.
const WHOLE: [&str; 2] = ["fullatt_block_indexes", "global_attn_indexes"];

/// Refuses a size that is not above 0, and a layer that is not there.
pub(super) fn check(config: &Config<'_>) -> Result<(), Fault> {
    let tower = Tower {
        root: config.root,
        table: config.root.get("vision_config"),
    };
    for key in SIZES {
        let Some((path, key, value)) = stated(&tower, key) else {
            continue;
        };
        let number = value.is_number() || value.is_array();
        if number && side(value).is_none_or(|size| size.fract() != 0.0) {
            let fault = format!(
                "`{path}` is {value}: a tower has a whole number from 1 to 65536 of them, or a pair"
            );
            return Err((config.line(&key), fault));
        }
    }
    for key in WHOLE {
        let (Some((path, key, value)), Some(depth)) = (stated(&tower, key), tower.depth()) else {
            continue;
        };
        let layers = value.as_array().into_iter().flatten();
        let missing = layers.into_iter().find(|index| {
            let layer = index.as_u64();
            layer.is_none_or(|layer| layer as f64 >= depth)
        });
        if let Some(index) = missing {
            let fault = format!(
                "`{path}` names layer {index}, and the tower has {depth}: layers count from 0"
            );
            return Err((config.line(&key), fault));
        }
    }
    Ok(())
}

/// A key's path, its name in the file and its value: in the tower's own table, or flat with mllm's prefix.
fn stated<'a>(tower: &Tower<'a>, key: &str) -> Option<(String, String, &'a Value)> {
    let nested = tower.table.and_then(|table| table.get(key));
    let nested = nested.map(|value| (format!("vision_config.{key}"), key.to_owned(), value));
    nested.or_else(|| {
        let flat = format!("visual_{key}");
        let value = tower.root.get(&flat)?;
        Some((flat.clone(), flat, value))
    })
}
