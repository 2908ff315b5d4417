//! Layers and KV of the language model.

use serde_json::Value;

use super::super::model::Layers;
use super::super::text;
use super::kinds::{Kind, Kinds};
use super::{Config, Fault, count};

const LAYERS_MAX: f64 = 4096.0;
const CACHE_BYTES: f64 = 2.0;

/// Width of a head in the layers without a window, where it is another than in those with one.
pub(super) const GLOBAL_HEAD: &str = "global_head_dim";
/// The number of layers, by the names that families give it.
pub(super) const LAYERS: [&str; 4] = ["num_hidden_layers", "n_layer", "num_layers", "n_layers"];
/// The width of a token.
const HIDDEN: [&str; 5] = ["hidden_size", "n_embd", "n_embed", "d_model", "dim"];
/// The number of heads of queries.
const HEADS: [&str; 4] = ["num_attention_heads", "n_head", "n_heads", "num_heads"];

pub(super) struct Shape<'a> {
    pub(super) table: &'a Value,
    pub(super) layers: usize,
    pub(super) hidden: f64,
    pub(super) heads: f64,
    pub(super) kv_heads: f64,
    pub(super) head: f64,
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

pub(super) fn shape<'a>(config: &Config<'a>) -> Result<Shape<'a>, Fault> {
    let table = config.language();
    let need = |names: &[&str]| {
        let found = names.iter().find_map(|name| count(table, name));
        found.ok_or_else(|| absent(config, names))
    };
    readable(config)?;
    let layers = need(&LAYERS)?;
    if layers > LAYERS_MAX {
        let there = LAYERS.into_iter().find(|name| table.get(name).is_some());
        let text = format!("{layers} layers are more than any model has");
        return Err((config.place(there.unwrap_or(LAYERS[0])).1, text));
    }
    let hidden = need(&HIDDEN)?;
    let heads = need(&HEADS)?;
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

/// Why there is no count under any of these names.
fn absent(config: &Config<'_>, names: &[&str]) -> Fault {
    let table = config.language();
    let there = |name: &&&str| table.get(**name).is_some_and(|value| !value.is_null());
    if let Some(name) = names.iter().find(there) {
        let (path, line) = config.place(name);
        let value = text::short(&table[*name].to_string());
        let text = format!("`{path}` is {value}: it must be a whole number from 1");
        return (line, text);
    }
    let (path, line) = config.place(names[0]);
    let others: Vec<String> = names[1..].iter().map(|name| format!("`{name}`")).collect();
    let keys = table.as_object().into_iter().flat_map(|table| table.keys());
    let near = text::nearest(names[0], keys.map(String::as_str));
    let near = near.map_or_else(String::new, |near| format!("; the nearest key is `{near}`"));
    let text = format!(
        "`{path}` is missing, as are its other names {}{near}",
        others.join(", ")
    );
    (line, text)
}

/// Heads of keys and values, by the keys of all families that do not call them `num_key_value_heads`.
fn kv_heads(config: &Config<'_>, table: &Value, heads: f64) -> Result<f64, Fault> {
    let flag = |key: &str| table.get(key).and_then(Value::as_bool);
    let family = table
        .get("model_type")
        .and_then(Value::as_str)
        .unwrap_or("");
    let listed = [
        "num_key_value_heads",
        "num_kv_heads",
        "n_kv_heads",
        "n_head_kv",
    ]
    .into_iter()
    .find_map(|key| Some((key, count(table, key)?)))
    // DBRX and MPT.
    .or_else(|| {
        let attention = table.get("attn_config")?;
        let kind = attention.get("attn_type").and_then(Value::as_str);
        match count(attention, "kv_n_heads") {
            Some(heads) => Some(("kv_n_heads", heads)),
            None if kind == Some("multiquery_attention") => Some(("attn_type", 1.0)),
            None => None,
        }
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
    pub(super) fn kinds<'a, 'c>(&'a self, config: &'a Config<'c>) -> Kinds<'a, 'c> {
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

    /// The same in a layer without a window, whose heads Gemma 4 makes wider and fewer.
    fn kv_of_all(&self) -> f64 {
        let Some(head) = count(self.table, GLOBAL_HEAD) else {
            return self.kv();
        };
        let heads = count(self.table, "num_global_key_value_heads").unwrap_or(self.kv_heads);
        2.0 * heads * head * CACHE_BYTES
    }
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
            Kind::Full | Kind::Both => layers.growing.push(shape.kv_of_all()),
            Kind::Window => layers.windowed.push((shape.kv(), window)),
            Kind::Picture => layers.pictures += 1,
            Kind::Fixed | Kind::Nothing => {}
        }
    }
    Ok(layers)
}
