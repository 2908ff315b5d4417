//! The vision tower: its weights, and how many tokens a frame becomes.

use serde_json::Value;

use super::super::Options;
use super::super::model::{Facts, Known};
use super::processor::BESIDE;
use super::{Config, count};

/// Reads what there is of a vision tower; returns what to know of it.
pub(super) fn read(config: &Config<'_>, options: &Options, facts: &mut Facts) -> Vec<String> {
    let tower = Tower {
        root: config.root,
        table: config.root.get("vision_config"),
    };
    facts.sees = tower.sees();
    let mut remarks = Vec::new();
    if !facts.sees {
        return remarks;
    }
    facts.tokens_per_frame = tower.tokens(options);
    // A frame's size is asked for where it would tell.
    let square = Options {
        frame: Some((448, 448)),
        ..options.clone()
    };
    facts.tokens_from = if options.frame.is_none() && tower.tokens(&square).is_some() {
        "the tower's tokens depend on the frame's size: `--frame 448x448`, or `--tokens-per-frame N`"
    } else {
        "there is a vision tower, and the file does not state how many tokens it makes of a frame in a way that is known here: `--tokens-per-frame N`"
    }
    .into();
    facts.vision_weights = tower.weights();
    if facts.vision_weights.is_none() {
        remarks.push(
            "the file does not state the vision tower's shape: its weights are not counted"
                .to_owned(),
        );
    }
    let given = options.tokens_per_frame.is_some();
    if !given && tower.is_beside_the_context() {
        remarks.push(
            "a frame's tokens are no part of the context: layers of `cross_attention_layers` attend to them, from beside it; a run ingests as many as the model's file states, so give what a frame adds to a prompt (`--tokens-per-frame 1`)".to_owned(),
        );
    }
    let uncut = tower.uncut(options).filter(|_| !given);
    let tiled = uncut.is_some();
    remarks.extend(uncut);
    if let Some((width, height)) = options.frame
        && !tiled
        && !given
        && facts.tokens_per_frame == tower.tokens(&Options::default())
        && facts.tokens_per_frame.is_some()
    {
        remarks.push(format!(
            "`--frame {width}x{height}` changes nothing: this tower takes pictures of one size"
        ));
    }
    remarks
}

/// Bytes of the tower's weights as the model's file states them; none where they are not counted.
pub(super) fn bytes(config: &Config<'_>) -> f64 {
    let tower = Tower {
        root: config.root,
        table: config.root.get("vision_config"),
    };
    let weights = tower.weights().filter(|_| tower.sees());
    weights.map_or(0.0, |known| known.value)
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
    let frame = options
        .frame
        .map(|(width, height)| (f64::from(width), f64::from(height)));
    let any_size = tower.get("spatial_merge_size").is_some();
    let (width, height) = match (tower.size(), frame) {
        (Some(size), _) if !any_size => (size, size),
        (_, Some(frame)) => frame,
        (Some(size), None) => (size, size),
        (None, None) => return None,
    };
    let merge = tower.get("spatial_merge_size").unwrap_or(1.0);
    let patches = if any_size {
        let (columns, rows) = tower.resized(width, height, patch * merge);
        columns * rows * merge * merge
    } else {
        (width / patch).floor() * (height / patch).floor()
    };
    let patches = patches * tower.filled().unwrap_or(1.0);
    let (windowed, window) = tower.windows(patch).unwrap_or((0.0, 0.0));
    Some(crate::roofline::shape::Vision {
        windowed,
        window,
        parameters: tower.weights()?.value / 2.0 - tower.tables(),
        merging: tower.merging().unwrap_or(0.0),
        merged: merge * merge,
        patches: (patches >= 1.0).then_some(patches)?,
        tiles: tower.pictures(options),
        hidden: tower.first(&["embed_dim", "hidden_size"])?,
        depth: tower.depth()?,
        tokens: tower.tokens(options)?.value,
    })
}

pub(super) struct Tower<'a> {
    pub(super) root: &'a Value,
    pub(super) table: Option<&'a Value>,
}

/// A count that may be written as a pair of equal ones.
pub(super) fn side(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Array(list) => list.first()?.as_f64()?,
        other => other.as_f64()?,
    };
    (1.0..=65536.0).contains(&number).then_some(number)
}

/// Tokens of a picture of `cells` patches a side after a reduction of its sides.
pub(super) fn shuffled(table: &Value, key: &str, cells: f64) -> Option<(f64, f64)> {
    let ratio = table.get(key)?.as_f64()?;
    let fine = ratio > 0.0 && ratio <= 1.0;
    fine.then(|| ((cells * ratio).floor().powi(2), ratio))
}

impl Tower<'_> {
    /// Whether layers of their own attend to pictures, as Mllama's do.
    fn is_beside_the_context(&self) -> bool {
        let text = self.root.get("text_config").unwrap_or(self.root);
        let layers = text.get("cross_attention_layers");
        layers
            .and_then(Value::as_array)
            .is_some_and(|layers| !layers.is_empty())
    }

    fn sees(&self) -> bool {
        let nested = self.table.is_some_and(|table| !table.is_null());
        let named = [
            "mm_vision_tower",
            "vision_tower",
            "visual_patch_size",
            "img_processor",
            // Molmo 2, Qwen-VL, Ovis, Phi-4-multimodal.
            "vit_config",
            "visual",
            "visual_tokenizer_config",
            "visual_tokenizer",
            "embd_layer",
        ];
        // These state nothing of it.
        let families = ["molmo", "molmo2", "phi4mm", "phi4_multimodal"];
        nested
            || families.contains(&self.family())
            || named
                .iter()
                .any(|key| self.root.get(key).is_some_and(|value| !value.is_null()))
    }

    /// A number of the tower: in its own table, or flat with mllm's prefix.
    pub(super) fn get(&self, key: &str) -> Option<f64> {
        let nested = self.table.and_then(|table| table.get(key)).and_then(side);
        nested.or_else(|| self.root.get(format!("visual_{key}")).and_then(side))
    }

    pub(super) fn first(&self, keys: &[&str]) -> Option<f64> {
        keys.iter().find_map(|key| self.get(key))
    }

    /// Side of the pictures that the tower takes, where it takes them of one size only.
    pub(super) fn size(&self) -> Option<f64> {
        let forced = self.root.get("force_image_size").and_then(side);
        forced.or_else(|| self.get("image_size"))
    }

    pub(super) fn family(&self) -> &str {
        let name = self.root.get("model_type").and_then(Value::as_str);
        name.unwrap_or("")
    }

    pub(super) fn flag(&self, key: &str) -> bool {
        self.root.get(key).and_then(Value::as_bool).unwrap_or(false)
    }

    fn tokens(&self, options: &Options) -> Option<Known> {
        if let Some(grid) = self.grid() {
            return self.any_resolution(grid, options);
        }
        if self.takes_any_size() {
            return self.rows_of_patches(options);
        }
        if let Some(known) = self.tiled(options) {
            return Some(known);
        }
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
        // PaliGemma says it of its parts.
        for part in ["vision_config", "text_config"] {
            let tokens = self
                .root
                .get(part)
                .and_then(|part| count(part, "num_image_tokens"));
            if let Some(tokens) = tokens {
                return Some(Known::new(tokens, format!("`{part}.num_image_tokens`")));
            }
        }
        if let Some(known) = self.named() {
            return Some(known);
        }
        let patch = self.first(&["patch_size", "spatial_patch_size"])?;
        if let Some(merge) = self.get("spatial_merge_size") {
            // As many tokens as the frame has cells.
            let (width, height) = options.frame?;
            let cell = patch * merge;
            let (columns, rows) = self.resized(f64::from(width), f64::from(height), cell);
            let beside = self.root.get(BESIDE).and_then(Value::as_str);
            let bounds = match (self.pixels(), beside) {
                ((None, None), None) => {
                    "; no least and most pixels are applied: preprocessor_config.json states them, which is not beside this file".to_owned()
                }
                ((None, None), Some(class)) => format!(
                    "; no least and most pixels are applied: preprocessor_config.json ({}) states none as `min_pixels` and `max_pixels`, and of this class no other key is known here to be them",
                    if class.is_empty() { "no class" } else { class }
                ),
                _ => ", within `min_pixels` and `max_pixels`".to_owned(),
            };
            let how = format!(
                "{width} x {height} pixels (`--frame`), a token covers {cell} x {cell}: {columns} x {rows}{bounds}"
            );
            return Some(Known::new(columns * rows, how));
        }
        let size = self.size()?;
        let cells = (size / patch).floor();
        for key in ["scale_factor", "downsample_factor"] {
            if let Some(scale) = count(self.root, key) {
                let how = format!("({size} / {patch}) squared, {scale} x {scale} patches a token");
                return Some(Known::new((cells / scale).floor().powi(2), how));
            }
        }
        if let Some((tokens, ratio)) = shuffled(self.root, "downsample_ratio", cells) {
            let how = format!("({size} / {patch}) squared, reduced by {ratio} a side");
            return Some(Known::new(tokens, how));
        }
        if let Some((tokens, ratio)) = self
            .table
            .and_then(|table| shuffled(table, "pixel_shuffle_ratio", cells))
        {
            let how = format!(
                "({size} / {patch}) squared, reduced by {ratio} a side, of a picture of one tile; the processor's `max_patches` allows more tiles, each as many again"
            );
            return Some(Known::new(tokens, how));
        }
        if self.family().starts_with("llava_onevision") {
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

    /// Whether it is Pixtral's, which takes pictures of any size up to the one that it states.
    fn takes_any_size(&self) -> bool {
        let family = self.table.and_then(|table| table.get("model_type"));
        family.and_then(Value::as_str) == Some("pixtral")
    }

    /// Pixtral: the longer side brought to what the tower takes at most, a token a cell, and one at the end of each row
    /// (`PixtralProcessor` of transformers).
    fn rows_of_patches(&self, options: &Options) -> Option<Known> {
        let (width, height) = options.frame.map(|(w, h)| (f64::from(w), f64::from(h)))?;
        let (size, patch) = (self.size()?, self.first(&["patch_size"])?);
        let merged = count(self.root, "spatial_merge_size");
        let cell = patch * merged.or(self.get("spatial_merge_size")).unwrap_or(1.0);
        let shrink = (width.max(height) / size).max(1.0);
        let cells = |pixels: f64| ((pixels / shrink).floor() / cell).ceil();
        let (columns, rows) = (cells(width), cells(height));
        Some(Known::new(
            rows * (columns + 1.0),
            format!(
                "{width} x {height} pixels (`--frame`), at most {size} a side, a token covers {cell} x {cell}: {columns} x {rows}, and an end a row"
            ),
        ))
    }

    /// The least and the most pixels of a frame, where the file states them.
    fn pixels(&self) -> (Option<f64>, Option<f64>) {
        let of = |key: &str| {
            let nested = self.table.and_then(|table| count(table, key));
            nested.or_else(|| count(self.root, key))
        };
        (of("min_pixels"), of("max_pixels"))
    }

    /// Columns and rows of cells of a frame as transformers' `smart_resize` has them: rounded as Python does, half to
    /// even, and within the pixels that the file states.
    fn resized(&self, width: f64, height: f64, cell: f64) -> (f64, f64) {
        let near = |pixels: f64| (pixels / cell).round_ties_even().max(1.0);
        let (columns, rows) = (near(width), near(height));
        let area = columns * rows * cell * cell;
        let (least, most) = self.pixels();
        if let Some(most) = most.filter(|most| area > *most) {
            let shrink = (width * height / most).sqrt();
            let fit = |pixels: f64| (pixels / shrink / cell).floor().max(1.0);
            (fit(width), fit(height))
        } else if let Some(least) = least.filter(|least| area < *least) {
            let grow = (least / (width * height)).sqrt();
            let fit = |pixels: f64| (pixels * grow / cell).ceil();
            (fit(width), fit(height))
        } else {
            (columns, rows)
        }
    }

    /// The sizes that LLaVA-NeXT cuts pictures to.
    fn grid(&self) -> Option<&Vec<Value>> {
        let grid = self.root.get("image_grid_pinpoints")?.as_array();
        grid.filter(|_| self.family() == "llava_next")
    }

    /// Tokens of towers that resample a picture or cut it into tiles of one size.
    fn tiled(&self, options: &Options) -> Option<Known> {
        if let Some(queries) = count(self.root, "query_num") {
            let slices = self.root.get("slice_config");
            let slices = slices.and_then(|table| count(table, "max_slice_nums"));
            let slices = slices.filter(|_| self.flag("slice_mode"));
            let most = slices.map_or(queries, |slices| queries * (slices + 1.0));
            let how = "`query_num`: the resampler's, of a frame that is not sliced; the upper end is `max_slice_nums` slices and the whole";
            return Some(Known {
                value: queries,
                interval: (most > queries).then_some((queries, most)),
                how: how.to_owned(),
            });
        }
        let processor = self.root.get("img_processor");
        if let Some(each) = processor.and_then(|table| count(table, "num_img_tokens")) {
            // Phi-3-vision: crops and the whole, a separator, and one more token at the end of each row of 12.
            let of = |wide: f64, high: f64| {
                (wide * high + 1.0) * each + 1.0 + (high + 1.0) * each.sqrt()
            };
            let how = format!(
                "`img_processor.num_img_tokens` {each}: one crop and the whole with separators; the upper end is 16 crops (`num_crops` of preprocessor_config.json)"
            );
            return Some(Known {
                value: of(1.0, 1.0),
                interval: Some((of(1.0, 1.0), of(1.0, 16.0))),
                how,
            });
        }
        if self.flag("dynamic_image_size") {
            return self.dynamic(options);
        }
        self.split(options)
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
}
