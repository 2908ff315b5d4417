//! Weights of a vision tower, and which of its layers attend within windows.

use serde_json::Value;

use super::super::model::Known;
use super::count;
use super::vision::Tower;

impl Tower<'_> {
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

    /// Layers, with those that Mllama puts behind the others.
    pub(super) fn depth(&self) -> Option<f64> {
        let depth = self.first(&["depth", "num_hidden_layers"])?;
        Some(depth + self.get("num_global_layers").unwrap_or(0.0))
    }

    /// Layers that attend within windows, and patches of a window: of Qwen2.5-VL all but `fullatt_block_indexes`, its
    /// window in pixels a side; of SAM all but `global_attn_indexes`, its window in patches a side.
    pub(super) fn windows(&self, patch: f64) -> Option<(f64, f64)> {
        let list = |key: &str| {
            let nested = self.table.and_then(|table| table.get(key));
            let value = nested.or_else(|| self.root.get(format!("visual_{key}")))?;
            value.as_array()
        };
        let window = self.get("window_size")?;
        let (whole, side) = match list("fullatt_block_indexes") {
            Some(whole) => (whole, (window / patch).floor()),
            None => (list("global_attn_indexes")?, window),
        };
        let depth = self.depth()?;
        let within = |index: &&Value| index.as_u64().is_some_and(|at| (at as f64) < depth);
        let mut whole: Vec<_> = whole.iter().filter(within).map(Value::as_u64).collect();
        whole.sort_unstable();
        whole.dedup();
        (side >= 1.0).then_some((depth - whole.len() as f64, side * side))
    }

    /// Whether it is the tower of GLM-4.1V, of the same layout in GLM-4.5V.
    fn is_glm(&self) -> bool {
        ["glm4v", "glm4v_moe", "glm46v"].contains(&self.family())
    }

    /// Width of the MLP.
    fn inner(&self, hidden: f64) -> f64 {
        // GLM's `intermediate_size` is its merger's: the layers have the width of what comes out.
        let own = self.get(if self.is_glm() {
            "out_hidden_size"
        } else {
            "intermediate_size"
        });
        own.or_else(|| self.get("mlp_ratio").map(|ratio| ratio * hidden))
            .unwrap_or(4.0 * hidden)
    }

    /// Learned positions.
    fn positions(&self) -> f64 {
        let stated = self.get("num_position_embeddings");
        let cells = || {
            let (size, patch) = (self.size()?, self.get("patch_size")?);
            Some((size / patch).floor().powi(2))
        };
        let Some(tiles) = self.mllama_tiles() else {
            let own = stated.or_else(|| cells().filter(|_| self.is_glm()));
            return own.unwrap_or(0.0);
        };
        // A class token, each position again for each tile of each proportion, and a tile's own before and behind.
        (cells().unwrap_or(0.0) + 1.0) * (1.0 + tiles) + 2.0 * tiles + 1.0
    }

    /// Tiles of each proportion of Mllama, and of none.
    fn mllama_tiles(&self) -> Option<f64> {
        self.get("num_global_layers")?;
        let tiles = self.get("max_num_tiles").unwrap_or(4.0);
        let proportions = self
            .table
            .and_then(|table| table.get("supported_aspect_ratios")?.as_array())
            .map_or(8, Vec::len);
        Some((proportions as f64 + 1.0) * tiles)
    }

    /// Tiles of a picture that go through Mllama's tower together: it is filled up to so many, whatever its size.
    pub(super) fn filled(&self) -> Option<f64> {
        self.get("num_global_layers")?;
        Some(self.get("max_num_tiles").unwrap_or(4.0))
    }

    /// Parameters of tables for every tile of every proportion, of which a picture takes those of its own.
    pub(super) fn tables(&self) -> f64 {
        let hidden = self.first(&["embed_dim", "hidden_size"]);
        match (self.mllama_tiles(), hidden) {
            (Some(_), Some(hidden)) => self.positions() * hidden,
            _ => 0.0,
        }
    }

    /// Bytes of the tower's weights at 16 bits, where its shape is stated.
    pub(super) fn weights(&self) -> Option<Known> {
        let hidden = self.first(&["embed_dim", "hidden_size"])?;
        let depth = self.depth()?;
        let patch = self.first(&["patch_size", "spatial_patch_size"])?;
        let inner = self.inner(hidden);
        let mlp = if self.gated() { 3.0 } else { 2.0 } * hidden * inner;
        let frames = self.get("temporal_patch_size").unwrap_or(1.0);
        let mut total =
            depth * (4.0 * hidden * hidden + mlp) + 3.0 * patch * patch * frames * hidden;
        total += self.positions() * hidden;
        total += self.merging().unwrap_or(0.0);
        let how = format!(
            "{:.3}e9 parameters, counted from the tower's shapes, at 16 bits",
            total / 1e9
        );
        Some(Known::new(total * 2.0, how))
    }

    /// Parameters of the mergers, where there are any.
    pub(super) fn merging(&self) -> Option<f64> {
        let hidden = self.first(&["embed_dim", "hidden_size"])?;
        if self.mllama_tiles().is_some() {
            // One matrix to the language model's width.
            let out = count(self.root.get("text_config")?, "hidden_size")?;
            return Some(self.get("vision_output_dim")? * out);
        }
        let merge = self.get("spatial_merge_size")?;
        // Qwen2-VL's tower calls the language model's width `hidden_size`.
        let out = self
            .get("out_hidden_size")
            .or_else(|| self.get("embed_dim").and_then(|_| self.get("hidden_size")))
            // Flat, that width is the file's.
            .or_else(|| self.flat().then(|| count(self.root, "hidden_size"))?)?;
        if self.is_glm() {
            let inner = self.get("intermediate_size")?;
            return Some(hidden * merge * merge * out + out * out + 3.0 * out * inner);
        }
        // Qwen3-VL merges the output of some layers within as well, each by a merger of its own.
        let deep = self
            .table
            .and_then(|table| table.get("deepstack_visual_indexes")?.as_array())
            .map_or(0, Vec::len);
        let wide = hidden * merge * merge;
        Some((1.0 + deep as f64) * (wide * wide + wide * out))
    }
}
