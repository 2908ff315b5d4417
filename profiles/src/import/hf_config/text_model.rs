//! Layers, KV and weights of the language model.

use std::fmt::Write as _;

use serde_json::Value;

use super::super::model::{Known, Layers};
use super::super::{Options, text};
use super::kinds::{Kind, Kinds};
use super::precision::{self, Precision};
use super::{Config, Fault, count};

const LAYERS_MAX: f64 = 4096.0;
const CACHE_BYTES: f64 = 2.0;

struct Shape<'a> {
    table: &'a Value,
    layers: usize,
    hidden: f64,
    heads: f64,
    kv_heads: f64,
    head: f64,
}

/// Keys that are whole numbers from 1.
const COUNTS: [&str; 16] = [
    "num_key_value_heads",
    "num_kv_heads",
    "n_head_kv",
    "multi_query_group_num",
    "head_dim",
    "attention_window_size",
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
        // EXAONE 4 writes letters.
        let letters = key.ends_with("sliding_window_pattern") && value.is_string();
        if count(table, key).is_none() && !none && !each_layer && !letters {
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
    let layers = need(&["num_hidden_layers", "n_layer", "num_layers", "n_layers"])?;
    if layers > LAYERS_MAX {
        return Err((
            config.line("num_hidden_layers"),
            format!("{layers} layers are more than any model has"),
        ));
    }
    let hidden = need(&["hidden_size", "n_embd", "d_model"])?;
    let heads = need(&["num_attention_heads", "n_head", "n_heads"])?;
    let kv_heads = kv_heads(config, table, heads)?;
    let stated = ["head_dim", "attention_head_dim", "kv_channels"]
        .iter()
        .find_map(|key| count(table, key));
    let head = match stated {
        Some(width) => width,
        None if hidden % heads == 0.0 => hidden / heads,
        None => {
            let (path, line) = config.place("hidden_size");
            let text = format!(
                "`{path}` is {hidden}, which {heads} heads do not divide, and `head_dim` is missing: how wide a head is, is unknown"
            );
            return Err((line, text));
        }
    };
    Ok(Shape {
        table,
        layers: layers as usize,
        hidden,
        heads,
        kv_heads,
        head,
    })
}

/// Heads of keys and values, by the keys of all families that do not call them `num_key_value_heads`.
fn kv_heads(config: &Config<'_>, table: &Value, heads: f64) -> Result<f64, Fault> {
    let flag = |key: &str| table.get(key).and_then(Value::as_bool);
    let family = table
        .get("model_type")
        .and_then(Value::as_str)
        .unwrap_or("");
    let listed = ["num_key_value_heads", "num_kv_heads", "n_head_kv"]
        .into_iter()
        .find_map(|key| Some((key, count(table, key)?)))
        // DBRX.
        .or_else(|| {
            Some((
                "kv_n_heads",
                count(table.get("attn_config")?, "kv_n_heads")?,
            ))
        });
    let falcon = ["falcon", "RefinedWeb", "RefinedWebModel"].contains(&family);
    let (key, kv_heads) = if falcon && flag("new_decoder_architecture") != Some(true) {
        // Falcon 7B states 71 heads beside `multi_query`, and has one.
        let one = flag("multi_query").unwrap_or(true);
        ("multi_query", if one { 1.0 } else { heads })
    } else if flag("multi_query_attention") == Some(true) {
        let Some(groups) = count(table, "multi_query_group_num") else {
            let (path, line) = config.place("multi_query_attention");
            let text = format!("`{path}` is on and `multi_query_group_num` is missing");
            return Err((line, text));
        };
        ("multi_query_group_num", groups)
    } else if let Some(listed) = listed {
        listed
    } else if flag("multi_query").unwrap_or(family == "gpt_bigcode") {
        ("multi_query", 1.0)
    } else {
        ("num_key_value_heads", heads)
    };
    if heads % kv_heads != 0.0 {
        let (path, line) = config.place(key);
        let text = format!(
            "`{path}` is {kv_heads} for {heads} heads: each KV head serves as many heads, so it divides them"
        );
        return Err((line, text));
    }
    Ok(kv_heads)
}

impl Shape<'_> {
    fn kinds<'a, 'c>(&'a self, config: &'a Config<'c>) -> Kinds<'a, 'c> {
        Kinds {
            config,
            table: self.table,
            layers: self.layers,
        }
    }

    /// Bytes of the 32-bit state of a layer that keeps one, with its convolution's; `None` where the file does not
    /// state what it is counted from.
    fn state(&self) -> Option<f64> {
        let get = |keys: &[&str]| keys.iter().find_map(|key| count(self.table, key));
        let numbers = self
            .gated_delta()
            .or_else(|| self.mamba())
            .or_else(|| {
                // LFM2's short convolutions.
                Some(self.hidden * (get(&["conv_L_cache"])? - 1.0))
            })
            .or_else(|| {
                // RecurrentGemma's gated recurrence.
                self.table
                    .get("lru_width")
                    .or(self.table.get("conv1d_width"))?;
                Some(
                    get(&["lru_width"]).unwrap_or(self.hidden)
                        * get(&["conv1d_width"]).unwrap_or(4.0),
                )
            })
            .or_else(|| {
                // MiniMax's lightning attention.
                self.table.get("attn_type_list")?;
                Some(self.heads * self.head * self.head)
            })?;
        Some(4.0 * numbers)
    }

    /// Numbers of a gated delta rule's state (Qwen3-Next, Qwen3.5).
    fn gated_delta(&self) -> Option<f64> {
        let get = |key: &str| count(self.table, key);
        let (key, value) = (get("linear_key_head_dim")?, get("linear_value_head_dim")?);
        let keys = get("linear_num_key_heads")? * key;
        let values = get("linear_num_value_heads")?;
        let kernel = get("linear_conv_kernel_dim").unwrap_or(1.0);
        Some(values * key * value + (2.0 * keys + values * value) * (kernel - 1.0))
    }

    /// Numbers of a Mamba layer's state: of the second version, whose heads are stated, the convolution also goes
    /// over what it reads and writes the state by.
    fn mamba(&self) -> Option<f64> {
        let get = |keys: &[&str]| keys.iter().find_map(|key| count(self.table, key));
        let heads = get(&["mamba_n_heads", "mamba_num_heads", "n_mamba_heads"]);
        let width = get(&["mamba_d_head", "mamba_head_dim", "mamba_headdim"]);
        let expanded = get(&["mamba_expand"]).map(|expand| expand * self.hidden);
        let inner = get(&["mamba_d_ssm"])
            .or_else(|| Some(heads? * width?))
            .or(expanded)?;
        let size = get(&["mamba_d_state", "ssm_state_size"])?;
        let kernel = get(&["mamba_d_conv", "conv_kernel"])?;
        let mixed = match heads {
            Some(_) => {
                let groups = get(&["mamba_n_groups", "n_groups", "mamba_ngroups"])?;
                inner + 2.0 * groups * size
            }
            None => inner,
        };
        Some(inner * size + mixed * (kernel - 1.0))
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
    /// Who says so, where the file does not.
    tied_by: String,
    /// Whether there are experts.
    mixture: bool,
}

impl Shape<'_> {
    /// The parameters; `None` where the file does not state what they are counted from, or its projections are
    /// shaped otherwise.
    fn parameters(&self, config: &Config<'_>) -> Result<Option<Parameters>, Fault> {
        let (kinds, _) = self.kinds(config).each()?;
        let table = self.table;
        let get = |key: &str| count(table, key);
        let Some(vocabulary) = get("vocab_size").or(get("padded_vocab_size")) else {
            return Ok(None);
        };
        let falcon = self.family() == "falcon";
        let Some(inner) = get("intermediate_size")
            .or(get("n_inner"))
            .or(get("ffn_hidden_size"))
            .or(get("moe_intermediate_size"))
            .or(falcon.then_some(4.0 * self.hidden))
        else {
            return Ok(None);
        };
        if count(table, "kv_lora_rank").is_some() {
            return Ok(None);
        }
        let tied = table
            .get("tie_word_embeddings")
            .or_else(|| config.root.get("tie_word_embeddings"));
        let stated = tied.and_then(Value::as_bool);
        let default = super::defaults::tied(config.root, table);
        let tied = stated.unwrap_or_else(|| default.is_none_or(|(tied, _)| tied));
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
        let matrices = if self.gated() { 3.0 } else { 2.0 };
        let dense = matrices * self.hidden * inner;
        let experts = get("num_experts")
            .or(get("num_local_experts"))
            .or(get("n_routed_experts"));
        let expert = get("moe_intermediate_size").unwrap_or(inner);
        // Llama 4 has a shared expert as wide as the others, and states no width for it.
        let llama4 = self.family() == "llama4_text";
        let always = get("shared_expert_intermediate_size")
            .or(llama4.then_some(expert))
            .unwrap_or(0.0);
        let of = |count: f64| matrices * self.hidden * (count * expert + always);
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
        // Of every so many layers, Llama 4 gives experts to the last, and to the others an MLP of its own width.
        let every = get("interleave_moe_layer_step").filter(|_| llama4);
        let every = every.unwrap_or(1.0) as usize;
        let between = get("intermediate_size_mlp").map(|inner| matrices * self.hidden * inner);
        for (index, kind) in kinds.into_iter().enumerate() {
            let all = if (index + 1).is_multiple_of(every) {
                all
            } else {
                let Some(between) = between else {
                    return Ok(None);
                };
                (between, between)
            };
            let mixer = match kind {
                Kind::Full | Kind::Window | Kind::Picture => attention,
                // Of other mixers the file states no more than what their states are counted from.
                Kind::Fixed if linear > 0.0 => linear,
                Kind::Fixed | Kind::Both | Kind::Nothing => return Ok(None),
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
            tied_by: match (stated, default) {
                (Some(_), _) => String::new(),
                (None, Some((_, family))) => format!(
                    ", `tie_word_embeddings` is not stated: what transformers 5.24 takes for `{family}`"
                ),
                (None, None) => ", `tie_word_embeddings` is not stated, and no class of this `model_type` is known here: assumed as in transformers 4".to_owned(),
            },
            mixture: experts.is_some(),
        }))
    }
}

/// Families whose MLP has no gate: two matrices rather than three.
const UNGATED: [&str; 18] = [
    "apertus",
    "arcee",
    "bloom",
    "codegen",
    "falcon",
    "gpt2",
    "gpt_bigcode",
    "gpt_neo",
    "gpt_neox",
    "gptj",
    "mpt",
    "nemotron",
    "nemotron_h",
    "opt",
    "persimmon",
    "phi",
    "phi-msft",
    "starcoder2",
];

impl Shape<'_> {
    fn family(&self) -> &str {
        let name = self.table.get("model_type").and_then(Value::as_str);
        name.unwrap_or("")
    }

    /// Whether the MLP has a gate beside up and down: by the family, and of others by an activation that no gate has.
    fn gated(&self) -> bool {
        let act = ["hidden_act", "activation_function", "hidden_activation"]
            .iter()
            .find_map(|key| self.table.get(key)?.as_str())
            .unwrap_or("");
        let plain = ["gelu_new", "gelu_fast", "quick_gelu", "relu", "relu2"];
        !UNGATED.contains(&self.family()) && !plain.contains(&act)
    }
}

/// The shape that a roofline starts from.
pub(super) fn roofline(config: &Config<'_>, name: &str) -> Result<crate::roofline::Shape, Fault> {
    let shape = shape(config)?;
    shape.kinds(config).unread()?;
    let Some(parameters) = shape.parameters(config)? else {
        return Err((
            1,
            "`vocab_size` or `intermediate_size` is missing, attention is latent, or layers mix in another way: operations cannot be counted".to_owned(),
        ));
    };
    let (kinds, _) = shape.kinds(config).each()?;
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

/// How the layers keep their context; `doubts` are keys that look as if they said something of it and are not known.
pub(super) fn layers(config: &Config<'_>, doubts: &mut Vec<Fault>) -> Result<Layers, Fault> {
    let shape = shape(config)?;
    let (kinds, doubt) = shape.kinds(config).each()?;
    doubts.extend(shape.kinds(config).unread()?);
    let shared = count(shape.table, "num_kv_shared_layers")
        .map_or(0, |n| n as usize)
        .min(shape.layers);
    let window = shape.kinds(config).window().unwrap_or(0.0) as u64;
    let mut layers = Layers {
        shared: shared as u64,
        doubt,
        ..Layers::default()
    };
    for kind in kinds.iter().take(shape.layers - shared) {
        if [Kind::Fixed, Kind::Both].contains(kind) {
            layers.fixed.0 += 1;
            layers.fixed.1 += shape.state().unwrap_or(0.0);
        }
        match kind {
            Kind::Full | Kind::Both => layers.growing.push(shape.kv()),
            Kind::Window => layers.windowed.push((shape.kv(), window)),
            Kind::Picture => layers.pictures += 1,
            Kind::Fixed | Kind::Nothing => {}
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
        tied_by,
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
        "{:.4}e9 parameters, counted from the shapes ({} MLP, {} embedding{}), at {at}: {source}{note}",
        (layers + embedding + heading) / 1e9,
        if shape.gated() { "gated" } else { "plain" },
        if tied { "tied" } else { "untied" },
        tied_by
    );
    let stored = layers * bits + embedding * embedded + heading * head;
    Ok(Some(Known::new(stored / 8.0, how)))
}
