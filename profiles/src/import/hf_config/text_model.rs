//! Layers, KV and weights of the language model.

use std::fmt::Write as _;

use serde_json::Value;

use super::super::model::{Known, Layers};
use super::super::{Options, text};
use super::precision::{self, Precision};
use super::{Config, Fault, count};

const LAYERS_MAX: f64 = 4096.0;
const CACHE_BYTES: f64 = 2.0;

/// How a layer attends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Full,
    Window,
    Linear,
}

struct Shape<'a> {
    table: &'a Value,
    layers: usize,
    hidden: f64,
    heads: f64,
    kv_heads: f64,
    head: f64,
}

/// Keys that are whole numbers from 1.
const COUNTS: [&str; 12] = [
    "num_key_value_heads",
    "head_dim",
    "sliding_window",
    "max_position_embeddings",
    "vocab_size",
    "n_inner",
    "full_attention_interval",
    "sliding_window_pattern",
    "_sliding_window_pattern",
    "attention_chunk_size",
    "linear_key_head_dim",
    "linear_value_head_dim",
];
/// Keys that are whole numbers, 0 where a model has none of it.
const NONE_OR_COUNTS: [&str; 14] = [
    "num_kv_shared_layers",
    "kv_lora_rank",
    "qk_rope_head_dim",
    "intermediate_size",
    "moe_intermediate_size",
    "shared_expert_intermediate_size",
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
    "num_experts_per_tok",
    "max_window_layers",
    "linear_num_key_heads",
    "linear_num_value_heads",
    "linear_conv_kernel_dim",
];

/// Refuses a key that is there and cannot be read: as if it were absent, another model would be counted.
fn readable(config: &Config<'_>) -> Result<(), Fault> {
    let table = config.language();
    let counts = COUNTS.iter().map(|key| (*key, 1));
    let all = counts.chain(NONE_OR_COUNTS.iter().map(|key| (*key, 0)));
    for (key, least) in all {
        let Some(value) = table.get(key).filter(|value| !value.is_null()) else {
            continue;
        };
        // Widths layer by layer: what they are counted for is then missing, and said to be.
        let each_layer = key == "intermediate_size" && value.is_array();
        let none = least == 0 && value.as_f64() == Some(0.0);
        if count(table, key).is_none() && !none && !each_layer {
            let (path, line) = config.place(key);
            let shown = text::short(&value.to_string());
            let text = format!(
                "`{path}` is {shown}: write a whole number from {least}, or leave the key out"
            );
            return Err((line, text));
        }
    }
    Ok(())
}

fn shape<'a>(config: &Config<'a>) -> Result<Shape<'a>, Fault> {
    let table = config.language();
    let need = |names: &[&str]| {
        names
            .iter()
            .find_map(|name| count(table, name))
            .ok_or_else(|| {
                let there = names
                    .iter()
                    .any(|name| table.get(name).is_some_and(|value| !value.is_null()));
                let what = if there { "is no count" } else { "is missing" };
                (config.line(names[0]), format!("`{}` {what}", names[0]))
            })
    };
    readable(config)?;
    let layers = need(&["num_hidden_layers", "n_layer", "num_layers"])?;
    if layers > LAYERS_MAX {
        return Err((
            config.line("num_hidden_layers"),
            format!("{layers} layers are more than any model has"),
        ));
    }
    let hidden = need(&["hidden_size", "n_embd", "d_model"])?;
    let heads = need(&["num_attention_heads", "n_head"])?;
    let kv_heads = count(table, "num_key_value_heads").unwrap_or(heads);
    if heads % kv_heads != 0.0 {
        let (path, line) = config.place("num_key_value_heads");
        let text = format!(
            "`{path}` is {kv_heads} for {heads} heads: each KV head serves as many heads, so it divides them"
        );
        return Err((line, text));
    }
    let head = count(table, "head_dim").unwrap_or(hidden / heads);
    Ok(Shape {
        table,
        layers: layers as usize,
        hidden,
        heads,
        kv_heads,
        head,
    })
}

impl Shape<'_> {
    /// The kind of each layer, and what is not certain.
    fn kinds(&self, config: &Config<'_>) -> Result<(Vec<Kind>, Option<String>), Fault> {
        // A window as long as the whole context is none.
        let longest = count(self.table, "max_position_embeddings");
        let window = count(self.table, "sliding_window")
            .filter(|window| longest.is_none_or(|longest| *window < longest));
        let listed = count(self.table, "sliding_window");
        if let Some(Value::Array(list)) = self.table.get("layer_types") {
            if list.len() != self.layers {
                let text = format!(
                    "`layer_types` has {} entries for {} layers",
                    list.len(),
                    self.layers
                );
                return Err((config.line("layer_types"), text));
            }
            let mut kinds = Vec::with_capacity(list.len());
            for name in list {
                kinds.push(match name.as_str().unwrap_or("") {
                    "full_attention" | "attention" => Kind::Full,
                    "sliding_attention" | "chunked_attention" => {
                        match listed.or(count(self.table, "attention_chunk_size")) {
                            Some(_) => Kind::Window,
                            None => return Err((
                                config.line("sliding_window"),
                                "`layer_types` has sliding layers and `sliding_window` is missing"
                                    .to_owned(),
                            )),
                        }
                    }
                    "linear_attention" | "conv" | "mamba" | "recurrent" => Kind::Linear,
                    other => {
                        let text = format!("`layer_types` has `{other}`, which is not known");
                        return Err((config.line("layer_types"), text));
                    }
                });
            }
            return Ok((kinds, None));
        }
        let every = |every: f64, other: Kind| {
            let every = every as usize;
            (0..self.layers)
                .map(|layer| {
                    if (layer + 1) % every == 0 {
                        Kind::Full
                    } else {
                        other
                    }
                })
                .collect()
        };
        if let Some(interval) = count(self.table, "full_attention_interval") {
            return Ok((every(interval, Kind::Linear), None));
        }
        let pattern = count(self.table, "sliding_window_pattern")
            .or(count(self.table, "_sliding_window_pattern"));
        if let (Some(pattern), Some(_)) = (pattern, window) {
            return Ok((every(pattern, Kind::Window), None));
        }
        // Qwen's switch: where it is off, the window beside it means nothing.
        let switch = self
            .table
            .get("use_sliding_window")
            .and_then(Value::as_bool);
        match (window, switch) {
            (None, _) | (_, Some(false)) => Ok((vec![Kind::Full; self.layers], None)),
            (Some(_), Some(true)) => {
                let from = self
                    .table
                    .get("max_window_layers")
                    .and_then(Value::as_u64)
                    .unwrap_or(0) as usize;
                let kinds = (0..self.layers).map(|layer| {
                    if layer >= from {
                        Kind::Window
                    } else {
                        Kind::Full
                    }
                });
                Ok((kinds.collect(), None))
            }
            (Some(_), None) => {
                let model = self
                    .table
                    .get("model_type")
                    .and_then(Value::as_str)
                    .unwrap_or("");
                if ["mistral", "mixtral", "phi3", "starcoder2"].contains(&model) {
                    return Ok((vec![Kind::Window; self.layers], None));
                }
                let doubt = "`sliding_window` is there and of which layers is not said: all are counted as growing";
                Ok((vec![Kind::Full; self.layers], Some(doubt.to_owned())))
            }
        }
    }

    /// Bytes of the state of a linear-attention layer: 32-bit state, and its convolution.
    fn state(&self) -> f64 {
        let get = |key: &str| count(self.table, key).unwrap_or(0.0);
        let keys = get("linear_num_key_heads") * get("linear_key_head_dim");
        let values = get("linear_num_value_heads") * get("linear_value_head_dim");
        let state = get("linear_num_value_heads")
            * get("linear_key_head_dim")
            * get("linear_value_head_dim");
        4.0 * (state + (2.0 * keys + values) * (get("linear_conv_kernel_dim") - 1.0).max(0.0))
    }

    /// Bytes that a token costs in an attention layer's cache.
    fn kv(&self) -> f64 {
        match (
            count(self.table, "kv_lora_rank"),
            count(self.table, "qk_rope_head_dim"),
        ) {
            // Latent attention keeps one compressed vector and its rotary part.
            (Some(rank), rotary) => (rank + rotary.unwrap_or(0.0)) * CACHE_BYTES,
            _ => 2.0 * self.kv_heads * self.head * CACHE_BYTES,
        }
    }
}

/// Parameters of the language model, counted from its shapes.
struct Parameters {
    /// Of all layers.
    layers: f64,
    /// Of what a token goes through of them.
    active: f64,
    /// Width of the MLPs that it goes through.
    inner: f64,
    /// Of the embedding, and of a head of its own.
    embedding: f64,
    /// Whether the head is the embedding.
    tied: bool,
    /// Whether there are experts.
    mixture: bool,
}

impl Shape<'_> {
    /// The parameters; `None` where the file does not state what they are counted from, or its projections are
    /// shaped otherwise.
    fn parameters(&self, config: &Config<'_>) -> Result<Option<Parameters>, Fault> {
        let (kinds, _) = self.kinds(config)?;
        let table = self.table;
        let get = |key: &str| count(table, key);
        let Some(vocabulary) = get("vocab_size") else {
            return Ok(None);
        };
        let Some(inner) = get("intermediate_size")
            .or(get("n_inner"))
            .or(get("moe_intermediate_size"))
        else {
            return Ok(None);
        };
        if count(table, "kv_lora_rank").is_some() {
            return Ok(None);
        }
        let tied = table
            .get("tie_word_embeddings")
            .or_else(|| config.root.get("tie_word_embeddings"));
        let tied = tied.and_then(Value::as_bool).unwrap_or(true);
        let gate = table
            .get("attn_output_gate")
            .and_then(Value::as_bool)
            .unwrap_or(false);
        let (query, kv) = (self.heads * self.head, self.kv_heads * self.head);
        let attention = self.hidden * (query * if gate { 3.0 } else { 2.0 } + 2.0 * kv);
        let linear = {
            let get = |key: &str| count(table, key).unwrap_or(0.0);
            let keys = get("linear_num_key_heads") * get("linear_key_head_dim");
            let values = get("linear_num_value_heads") * get("linear_value_head_dim");
            self.hidden * (2.0 * keys + 3.0 * values + 2.0 * get("linear_num_value_heads"))
        };
        // Gate, up and down, as nearly all have.
        let dense = 3.0 * self.hidden * inner;
        let experts = get("num_experts")
            .or(get("num_local_experts"))
            .or(get("n_routed_experts"));
        let expert = get("moe_intermediate_size").unwrap_or(inner);
        let always = get("shared_expert_intermediate_size").unwrap_or(0.0);
        let of = |count: f64| 3.0 * self.hidden * (count * expert + always);
        let (all, width) = match experts {
            Some(experts) => {
                let chosen = get("num_experts_per_tok").unwrap_or(experts);
                let router = experts * self.hidden;
                (
                    (of(experts) + router, of(chosen) + router),
                    chosen * expert + always,
                )
            }
            None => ((dense, dense), inner),
        };
        let (mut layers, mut active) = (0.0, 0.0);
        for kind in kinds {
            let mixer = if kind == Kind::Linear {
                linear
            } else {
                attention
            };
            layers += mixer + all.0 + 2.0 * self.hidden;
            active += mixer + all.1 + 2.0 * self.hidden;
        }
        Ok(Some(Parameters {
            layers,
            active,
            inner: width,
            embedding: vocabulary * self.hidden,
            tied,
            mixture: experts.is_some(),
        }))
    }
}

/// The shape that a roofline starts from.
pub(super) fn roofline(config: &Config<'_>, name: &str) -> Result<crate::roofline::Shape, Fault> {
    let shape = shape(config)?;
    let Some(parameters) = shape.parameters(config)? else {
        return Err((
            1,
            "`vocab_size` or `intermediate_size` is missing, or attention is latent: operations cannot be counted".to_owned(),
        ));
    };
    let (kinds, _) = shape.kinds(config)?;
    let attending = kinds.iter().filter(|kind| **kind == Kind::Full).count();
    Ok(crate::roofline::Shape {
        name: name.to_owned(),
        layers: shape.layers as f64,
        attending: attending as f64,
        hidden: shape.hidden,
        query: shape.heads * shape.head,
        kv: shape.kv_heads * shape.head,
        inner: parameters.inner,
        active: parameters.active,
        stored: parameters.layers,
        head: parameters.embedding,
        tied: parameters.tied,
        weights_bytes: None,
        max_context: count(shape.table, "max_position_embeddings"),
        vision: None,
    })
}

/// How the layers keep their context.
pub(super) fn layers(config: &Config<'_>) -> Result<Layers, Fault> {
    let shape = shape(config)?;
    let (kinds, doubt) = shape.kinds(config)?;
    let shared = count(shape.table, "num_kv_shared_layers")
        .map_or(0, |n| n as usize)
        .min(shape.layers);
    let window =
        count(shape.table, "sliding_window").or(count(shape.table, "attention_chunk_size"));
    let mut layers = Layers {
        shared: shared as u64,
        doubt,
        ..Layers::default()
    };
    for kind in kinds.iter().take(shape.layers - shared) {
        match kind {
            Kind::Full => layers.growing.push(shape.kv()),
            Kind::Window => layers
                .windowed
                .push((shape.kv(), window.unwrap_or(0.0) as u64)),
            Kind::Linear => {
                layers.fixed.0 += 1;
                layers.fixed.1 += shape.state();
            }
        }
    }
    Ok(layers)
}

/// Bytes of the language model's weights, counted from its shapes.
pub(super) fn weights(config: &Config<'_>, options: &Options) -> Result<Option<Known>, Fault> {
    let shape = shape(config)?;
    let Some(precision) = precision::of(config, options) else {
        return Ok(None);
    };
    let Precision {
        linear: bits,
        embedding: embedded,
        head,
        source,
    } = precision;
    for each in [bits, embedded, head] {
        if !(0.1..=64.0).contains(&each) {
            return Err((
                config.line("quantization_config"),
                format!("{each} bits a weight"),
            ));
        }
    }
    let Some(parameters) = shape.parameters(config)? else {
        return Ok(None);
    };
    let Parameters {
        layers,
        embedding,
        tied,
        mixture,
        ..
    } = parameters;
    let heading = if tied { 0.0 } else { embedding };
    let note = if mixture {
        "; all experts, of which a token reads few"
    } else {
        ""
    };
    let mut at = format!("{bits} bits");
    if embedded != bits {
        _ = write!(at, ", the embedding at {embedded}");
    }
    if head != bits && !tied {
        _ = write!(at, ", the head at {head}");
    }
    let how = format!(
        "{:.4}e9 parameters, counted from the shapes (gated MLP, {} embedding), at {at}: {source}{note}",
        (layers + embedding + heading) / 1e9,
        if tied { "tied" } else { "untied" }
    );
    let stored = layers * bits + embedding * embedded + heading * head;
    Ok(Some(Known::new(stored / 8.0, how)))
}
