//! Shapes of models: what decides operations and bytes.

use std::sync::OnceLock;

use serde::Deserialize;

const MODELS: &str = include_str!("models.toml");

/// Shape of a decoder with attention and a gated MLP.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Name for people.
    pub name: String,
    /// Layers.
    pub layers: f64,
    /// Layers that attend over the whole context.
    pub attending: f64,
    /// Width of the model.
    pub hidden: f64,
    /// Width of all query heads together.
    pub query: f64,
    /// Width of all KV heads together.
    pub kv: f64,
    /// Width of the MLP that a token goes through.
    pub inner: f64,
    /// Parameters of the layers that a token reads.
    pub active: f64,
    /// Parameters of all layers.
    pub stored: f64,
    /// Parameters of the output head.
    pub head: f64,
    /// Whether the head is the embedding.
    pub tied: bool,
    /// Bytes of all weights, where a file states them.
    pub weights_bytes: Option<f64>,
    /// Longest context, tokens.
    pub max_context: Option<f64>,
    /// Vision tower.
    pub vision: Option<Vision>,
    /// Bytes of the tower's weights, which a model's file states whatever a frame's size is.
    pub tower_bytes: f64,
    /// `model_type` of a `config.json`.
    pub model_type: Option<String>,
    /// `general.architecture` of a GGUF file, which is what llama-bench calls a model.
    pub architecture: Option<String>,
}

/// A vision tower.
#[derive(Clone, Debug, PartialEq)]
pub struct Vision {
    /// Parameters.
    pub parameters: f64,
    /// Patches of a picture that goes through it at once.
    pub patches: f64,
    /// Pictures of that size that a frame is cut into.
    pub tiles: f64,
    /// Parameters of its mergers, which go over merged patches.
    pub merging: f64,
    /// Patches that are merged into one.
    pub merged: f64,
    /// Width.
    pub hidden: f64,
    /// Layers.
    pub depth: f64,
    /// Layers of them that attend within windows.
    pub windowed: f64,
    /// Patches of a window.
    pub window: f64,
    /// Tokens that a frame becomes.
    pub tokens: f64,
}

/// Dimensions as a `config.json` states them.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dimensions {
    /// Layers.
    pub layers: f64,
    /// Width.
    pub hidden: f64,
    /// Query heads.
    pub heads: f64,
    /// KV heads.
    pub kv_heads: f64,
    /// Width of a head.
    pub head: f64,
    /// Width of the MLP.
    pub inner: f64,
    /// Entries of the vocabulary.
    pub vocabulary: f64,
    /// Whether the output head is the embedding.
    pub tied: bool,
}

impl Shape {
    /// The shape of a dense decoder.
    pub fn dense(name: &str, of: &Dimensions) -> Self {
        let (query, kv) = (of.heads * of.head, of.kv_heads * of.head);
        let layer = of.hidden * (2.0 * query + 2.0 * kv) + 3.0 * of.hidden * of.inner;
        Self {
            name: name.to_owned(),
            layers: of.layers,
            attending: of.layers,
            hidden: of.hidden,
            query,
            kv,
            inner: of.inner,
            active: of.layers * layer,
            stored: of.layers * layer,
            head: of.hidden * of.vocabulary,
            tied: of.tied,
            weights_bytes: None,
            max_context: None,
            vision: None,
            tower_bytes: 0.0,
            model_type: None,
            architecture: None,
        }
    }

    /// This shape, of a `config.json`, with the weights of a GGUF file of the same model.
    ///
    /// # Errors
    ///
    /// What tells that they are not of one model.
    pub fn with_weights_of(self, file: &Self) -> Result<Self, String> {
        for (what, own, other, apart) in [
            ("layers", self.layers, file.layers, 0.0),
            ("width", self.hidden, file.hidden, 0.0),
            ("width of all query heads", self.query, file.query, 0.0),
            ("width of all KV heads", self.kv, file.kv, 0.0),
            ("width of the MLP", self.inner, file.inner, 0.0),
            // A vocabulary may be padded.
            ("parameters of the head", self.head, file.head, 0.03),
        ] {
            if (own / other - 1.0).abs() > apart {
                return Err(format!(
                    "they are not of one model: {what} {own} in the config.json and {other} in the GGUF file"
                ));
            }
        }
        Ok(Self {
            // Whether the head has weights of its own is what the file has.
            tied: file.tied,
            weights_bytes: file.weights_bytes,
            architecture: file.architecture.clone(),
            // A config.json alone says no name but that of its family.
            name: if self.name == "config"
                || (self.model_type.as_ref()).is_some_and(|family| family.starts_with(&self.name))
            {
                file.name.clone()
            } else {
                self.name
            },
            ..self
        })
    }

    /// Bytes of all weights at this precision: the file's own where known.
    pub fn weights(&self, datatype: &str) -> Option<f64> {
        let bits = bits(datatype);
        let counted = bits.map(|bits| {
            let tables = if self.tied { 1.0 } else { 2.0 };
            (self.stored + tables * self.head) * bits / 8.0
        });
        self.weights_bytes.or(counted)
    }

    /// Bytes of the weights that one token of an answer reads: of an embedding of its own one row alone, of
    /// experts those that the token is sent to.
    pub fn read_a_token(&self, datatype: &str) -> Option<f64> {
        let all = self.weights(datatype)?;
        let tables = if self.tied { 1.0 } else { 2.0 };
        let parameters = self.stored + tables * self.head;
        Some(all * (self.active + self.head) / parameters)
    }

    /// KV bytes of a token at 16 bits.
    pub fn kv_bytes(&self) -> f64 {
        2.0 * 2.0 * self.kv * self.attending
    }

    /// Operations to prefill `tokens` on a context of `context`: two for each parameter and token, and scores and
    /// sums of the attention, four for each query width, token and token before it; one token through the head.
    pub fn prefill_ops(&self, tokens: f64, context: f64) -> f64 {
        2.0 * self.active * tokens + self.attention_ops() * pairs(tokens, context) + 2.0 * self.head
    }

    /// Operations of attention for each pair of a token and a token before it.
    pub fn attention_ops(&self) -> f64 {
        4.0 * self.query * self.attending
    }

    /// Operations of one token of an answer, without attention.
    pub fn token_ops(&self) -> f64 {
        2.0 * (self.active + self.head)
    }

    /// Bytes of 16-bit activations that a prefilled token's layers read and write: the stream twice in and out, the
    /// queries, keys and values twice, and three of the MLP's width.
    pub fn activation_bytes(&self) -> f64 {
        2.0 * self.layers
            * (4.0 * self.hidden + 2.0 * (self.query + 2.0 * self.kv) + 3.0 * self.inner)
    }
}

impl Vision {
    /// Operations of a frame: every parameter for every patch, or merged ones, and the attention of each patch to all of
    /// a picture, or to those of its window.
    pub fn ops(&self) -> f64 {
        let each = self.parameters - self.merging + self.merging / self.merged;
        let seen = (self.depth - self.windowed) * self.patches
            + self.windowed * self.window.min(self.patches);
        let picture = 2.0 * each * self.patches + 4.0 * self.hidden * self.patches * seen;
        self.tiles * picture
    }

    /// Bytes of 16-bit activations that the layers read and write for a frame, twelve of the width for each patch.
    pub fn activation_bytes(&self) -> f64 {
        2.0 * 12.0 * self.hidden * self.depth * self.patches * self.tiles
    }
}

/// Pairs of a token and one before it when `tokens` follow `context`.
pub fn pairs(tokens: f64, context: f64) -> f64 {
    tokens * context + tokens * (tokens - 1.0) / 2.0
}

/// The names that [`bits`] knows, for people.
pub const DATA_TYPES: &str = "w4a16, w8a8 and the like (also with groups, as w8a8_g128), f32, f16, bf16, q8_0, q6_k, \
                              q5_k_m, q5_k_s, q5_0, q4_k_m, q4_k_s, q4_0, q3_k_m, q2_k, int8, int4";

/// Bits of a weight by the name of a quantisation, with the scales stored beside it; `None` where the name does not
/// say.
pub fn bits(datatype: &str) -> Option<f64> {
    let name = datatype.to_lowercase().replace([' ', '-'], "");
    let group = |text: &str| text.parse::<f64>().ok().filter(|size| *size > 0.0);
    if let Some(rest) = name.strip_prefix('w') {
        let (width, rest) = rest.split_once('a')?;
        let width: f64 = width.parse().ok().filter(|width| *width > 0.0)?;
        let scale = rest
            .split_once("_g")
            .map_or(Some(0.0), |(_, size)| group(size).map(|size| 16.0 / size))?;
        return Some(width + scale);
    }
    // Blocks of ggml; mixtures at what their files come to.
    Some(match name.trim_end_matches("_0_0") {
        "f32" | "fp32" => 32.0,
        "f16" | "fp16" | "bf16" => 16.0,
        "q8_0" => 8.5,
        "q6_k" => 6.5625,
        "q5_k_m" | "q5_kmedium" => 5.7,
        "q5_k_s" | "q5_0" => 5.5,
        "q4_k_m" | "q4_kmedium" => 4.85,
        "q4_k_s" | "q4_ksmall" | "q4_0" => 4.55,
        "q3_k_m" | "q3_kmedium" => 3.9,
        "q2_k" => 3.35,
        "int8" => 8.0,
        "int4" => 4.5,
        _ => return None,
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Catalogue {
    model: Vec<Entry>,
    tower: Vec<Tower>,
}

/// A vision tower, as a `config.json` states it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tower {
    called: Vec<String>,
    #[expect(
        dead_code,
        reason = "for readers of the file, and the reader insists on it"
    )]
    source: String,
    depth: f64,
    hidden: f64,
    inner: f64,
    /// Whether the MLP has a gate.
    gated: bool,
    /// Pixels of a patch's side.
    patch: f64,
    /// Frames of a patch.
    frames: f64,
    /// Learned positions.
    positions: f64,
    /// Patches a side that one token covers, where a merger puts them together.
    merge: f64,
    /// Mergers: one at the end, and those within.
    mergers: f64,
    /// Width that they give.
    out: f64,
    /// Layers that attend within windows, and pixels of a window's side.
    #[serde(default)]
    windowed: f64,
    #[serde(default)]
    window: f64,
}

fn catalogue() -> &'static Catalogue {
    static READ: OnceLock<Catalogue> = OnceLock::new();
    READ.get_or_init(|| {
        // A test reads it too, so it is never empty because of a fault.
        toml::from_str(MODELS).unwrap_or(Catalogue {
            model: Vec::new(),
            tower: Vec::new(),
        })
    })
}

/// The published tower of a model that a benchmark names, on a picture of `width` x `height` pixels.
pub fn tower(name: &str, width: f64, height: f64) -> Option<Vision> {
    let wanted = plain(name);
    let named = |tower: &&Tower| tower.called.iter().any(|called| plain(called) == wanted);
    let tower = catalogue().tower.iter().find(named)?;
    let &Tower { depth, hidden, .. } = tower;
    let mlp = if tower.gated { 3.0 } else { 2.0 } * hidden * tower.inner;
    let wide = hidden * tower.merge * tower.merge;
    let merging = tower.mergers * (wide * wide + wide * tower.out);
    let patches = (width / tower.patch).floor() * (height / tower.patch).floor();
    let merged = tower.merge * tower.merge;
    (patches >= 1.0).then_some(Vision {
        parameters: depth * (4.0 * hidden * hidden + mlp)
            + 3.0 * tower.patch * tower.patch * tower.frames * hidden
            + tower.positions * hidden
            + merging,
        patches,
        tiles: 1.0,
        merging,
        merged,
        hidden,
        depth,
        windowed: tower.windowed,
        window: (tower.window / tower.patch).floor().powi(2),
        tokens: patches / merged,
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    called: Vec<String>,
    #[expect(
        dead_code,
        reason = "for readers of the file, and the reader insists on it"
    )]
    source: String,
    shape: Dimensions,
}

fn plain(name: &str) -> String {
    name.to_lowercase()
        .chars()
        .filter(|c| !c.is_whitespace() && *c != '-' && *c != '_')
        .collect()
}

/// The published shape of a model that a benchmark names.
pub fn known(name: &str) -> Option<Shape> {
    let wanted = plain(name);
    let entry = catalogue()
        .model
        .iter()
        .find(|entry| entry.called.iter().any(|called| plain(called) == wanted))?;
    Some(Shape::dense(name, &entry.shape))
}
