//! The vision tower: its weights, and how many tokens a frame becomes.

use serde_json::Value;

use super::super::Options;
use super::super::model::{Facts, Known};
use super::{Config, count};

/// Reads what there is of a vision tower.
pub(super) fn read(config: &Config<'_>, options: &Options, facts: &mut Facts) {
    let tower = Tower {
        root: config.root,
        table: config.root.get("vision_config"),
    };
    facts.sees = tower.sees();
    if !facts.sees {
        return;
    }
    facts.tokens_per_frame = tower.tokens(options);
    facts.vision_weights = tower.weights();
}

/// The tower's shape, where its operations can be counted: a transformer, or its weights over its patches.
pub(super) fn roofline(
    config: &Config<'_>,
    options: &Options,
) -> Option<crate::roofline::shape::Vision> {
    let tower = Tower {
        root: config.root,
        table: config.root.get("vision_config"),
    };
    if !tower.sees() {
        return None;
    }
    let patch = tower.first(&["patch_size", "spatial_patch_size"])?;
    let (width, height) = match (tower.get("image_size"), options.frame) {
        (_, Some((width, height))) => (f64::from(width), f64::from(height)),
        (Some(size), None) => (size, size),
        (None, None) => return None,
    };
    let patches = (width / patch).floor() * (height / patch).floor();
    Some(crate::roofline::shape::Vision {
        parameters: tower.weights()?.value / 2.0,
        patches: (patches >= 1.0).then_some(patches)?,
        hidden: tower.first(&["embed_dim", "hidden_size"])?,
        depth: tower.first(&["depth", "num_hidden_layers"])?,
        tokens: tower.tokens(options)?.value,
    })
}

struct Tower<'a> {
    root: &'a Value,
    table: Option<&'a Value>,
}

/// A count that may be written as a pair of equal ones.
fn side(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Array(list) => list.first()?.as_f64()?,
        other => other.as_f64()?,
    };
    (1.0..=65536.0).contains(&number).then_some(number)
}

impl Tower<'_> {
    fn sees(&self) -> bool {
        let nested = self.table.is_some_and(|table| !table.is_null());
        let named = ["mm_vision_tower", "vision_tower", "visual_patch_size"];
        nested
            || named
                .iter()
                .any(|key| self.root.get(key).is_some_and(|value| !value.is_null()))
    }

    /// A number of the tower: in its own table, or flat with mllm's prefix.
    fn get(&self, key: &str) -> Option<f64> {
        let nested = self.table.and_then(|table| table.get(key)).and_then(side);
        nested.or_else(|| self.root.get(format!("visual_{key}")).and_then(side))
    }

    fn first(&self, keys: &[&str]) -> Option<f64> {
        keys.iter().find_map(|key| self.get(key))
    }

    fn tokens(&self, options: &Options) -> Option<Known> {
        // Said outright.
        for key in [
            "mm_tokens_per_image",
            "vision_soft_tokens_per_image",
            "image_seq_length",
        ] {
            if let Some(tokens) = count(self.root, key) {
                return Some(Known::new(tokens, format!("`{key}`")));
            }
        }
        if let Some(known) = self.named() {
            return Some(known);
        }
        let patch = self.first(&["patch_size", "spatial_patch_size"])?;
        if let Some(merge) = self.get("spatial_merge_size") {
            // As many tokens as the frame has cells.
            let (width, height) = options.frame?;
            let cells = |pixels: u32| (f64::from(pixels) / (patch * merge)).round().max(1.0);
            let how = format!(
                "{width} x {height} pixels (`--frame`), a token covers {} x {0}",
                patch * merge
            );
            return Some(Known::new(cells(width) * cells(height), how));
        }
        let size = self.get("image_size")?;
        let cells = (size / patch).floor();
        if let Some(scale) = count(self.root, "scale_factor") {
            let how = format!("({size} / {patch}) squared, {scale} x {scale} patches a token");
            return Some(Known::new((cells / scale).floor().powi(2), how));
        }
        if let Some(ratio) = self
            .root
            .get("downsample_ratio")
            .and_then(Value::as_f64)
            .filter(|r| *r > 0.0 && *r <= 1.0)
        {
            let how = format!("({size} / {patch}) squared, reduced by {ratio} a side");
            return Some(Known::new((cells * ratio).floor().powi(2), how));
        }
        let model = self
            .root
            .get("model_type")
            .and_then(Value::as_str)
            .unwrap_or("");
        if model.starts_with("llava_onevision") {
            // Frames of a video are pooled by two; a still picture keeps all, and more tiles.
            let pooled = (cells / 2.0).ceil().powi(2);
            let how = format!(
                "A video frame: {cells} x {cells} patches pooled by 2; a still picture has {} a tile",
                cells * cells
            );
            return Some(Known {
                value: pooled,
                interval: Some((pooled, cells * cells)),
                how,
            });
        }
        Some(Known::new(
            cells * cells,
            format!("({size} / {patch}) squared, each patch a token"),
        ))
    }

    /// `FastVLM`'s tower, whose size is in its name only.
    fn named(&self) -> Option<Known> {
        let name = ["mm_vision_tower", "vision_tower"]
            .iter()
            .find_map(|key| self.root.get(key)?.as_str())?;
        let (_, size) = name.rsplit_once("mobileclip_l_")?;
        let size: f64 = size
            .parse()
            .ok()
            .filter(|size| (64.0..=8192.0).contains(size))?;
        let how = format!(
            "`{name}`: {size} pixels by the name, patches of 64 (apple/ml-fastvlm, mobileclip_l.json)"
        );
        Some(Known::new((size / 64.0).floor().powi(2), how))
    }

    /// Whether the tower's keys lie beside the language model's (mllm).
    fn flat(&self) -> bool {
        self.table.is_none() && self.root.get("visual_patch_size").is_some()
    }

    /// Whether the tower's MLP is gated, of three matrices: its activation says so, or the family, Qwen2.5-VL's.
    fn gated(&self) -> bool {
        let text = |table: &Value, key: &str| table.get(key)?.as_str().map(str::to_owned);
        let act = match self.table {
            Some(table) => text(table, "hidden_act"),
            None => text(self.root, "visual_hidden_act"),
        };
        if let Some(act) = act {
            return act == "silu";
        }
        let names = self.root.get("architectures").and_then(Value::as_array);
        let mut names: Vec<String> = names
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        names.extend(text(self.root, "model_type"));
        names.iter().any(|name| {
            let plain = name.to_lowercase().replace('_', "");
            plain.starts_with("qwen25vl")
        })
    }

    /// Bytes of the tower's weights at 16 bits, where its shape is stated.
    fn weights(&self) -> Option<Known> {
        let hidden = self.first(&["embed_dim", "hidden_size"])?;
        let depth = self.first(&["depth", "num_hidden_layers"])?;
        let patch = self.first(&["patch_size", "spatial_patch_size"])?;
        let inner = self
            .get("intermediate_size")
            .or_else(|| self.get("mlp_ratio").map(|ratio| ratio * hidden))
            .unwrap_or(4.0 * hidden);
        let mlp = if self.gated() { 3.0 } else { 2.0 } * hidden * inner;
        let frames = self.get("temporal_patch_size").unwrap_or(1.0);
        // Qwen2-VL's tower calls the language model's width `hidden_size`.
        let out = self
            .get("out_hidden_size")
            .or_else(|| self.get("embed_dim").and_then(|_| self.get("hidden_size")))
            // Flat, that width is the file's.
            .or_else(|| self.flat().then(|| count(self.root, "hidden_size"))?);
        let mut total =
            depth * (4.0 * hidden * hidden + mlp) + 3.0 * patch * patch * frames * hidden;
        if let (Some(merge), Some(out)) = (self.get("spatial_merge_size"), out) {
            let wide = hidden * merge * merge;
            total += wide * wide + wide * out;
        }
        let how = format!(
            "{:.3}e9 parameters, counted from the tower's shapes, at 16 bits",
            total / 1e9
        );
        Some(Known::new(total * 2.0, how))
    }
}
