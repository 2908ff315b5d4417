//! Parameters of the language model, counted from its shapes, and their bytes.

use std::fmt::Write as _;

use serde_json::Value;

use super::super::Options;
use super::super::model::Known;
use super::kinds::Kind;
use super::precision::{self, Precision};
use super::text_model::{GLOBAL_HEAD, Shape, shape};
use super::{Config, Fault, count};

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
        let Some(inner) = self.inner() else {
            return Ok(None);
        };
        // Latent attention; Gemma 4's layers of several shapes; embeddings of each layer.
        let other = ["kv_lora_rank", GLOBAL_HEAD, "hidden_size_per_layer_input"];
        if other.iter().any(|key| count(table, key).is_some()) {
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
            .or(get("n_routed_experts"))
            .or(self.dbrx("moe_num_experts"));
        let expert = get("moe_intermediate_size").unwrap_or(inner);
        // Llama 4 has a shared expert as wide as the others, and states no width for it.
        let llama4 = self.family() == "llama4_text";
        let always = get("shared_expert_intermediate_size")
            .or(llama4.then_some(expert))
            .unwrap_or(0.0);
        let of = |count: f64| matrices * self.hidden * (count * expert + always);
        let (all, width) = match experts {
            Some(experts) => {
                let chosen = get("num_experts_per_tok").or(self.dbrx("moe_top_k"));
                let chosen = chosen.unwrap_or(experts);
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

/// Families whose MLP is four times as wide as a token where no width is stated.
const FOURFOLD: [&str; 8] = [
    "bloom",
    "codegen",
    "falcon",
    "gpt2",
    "gpt_bigcode",
    "gpt_neo",
    "gptj",
    "mpt",
];

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
    /// Width of the MLP, by the names that families give it.
    fn inner(&self) -> Option<f64> {
        let names = [
            "intermediate_size",
            "n_inner",
            "ffn_hidden_size",
            "ffn_dim",
            "moe_intermediate_size",
        ];
        let stated = names.iter().find_map(|key| count(self.table, key));
        let times = count(self.table, "expansion_ratio").filter(|_| self.family() == "mpt");
        let fourfold = FOURFOLD.contains(&self.family()).then_some(4.0);
        let scaled = || Some(times.or(fourfold)? * self.hidden);
        // These state the gate's and the other matrix's width together.
        let both = ["molmo", "qwen"].contains(&self.family());
        stated
            .map(|width| if both { width / 2.0 } else { width })
            .or_else(|| self.dbrx("ffn_hidden_size"))
            .or_else(scaled)
    }

    /// What DBRX states in a table of its own.
    fn dbrx(&self, key: &str) -> Option<f64> {
        count(self.table.get("ffn_config")?, key)
    }

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
        tower_bytes: 0.0,
        model_type: None,
        architecture: None,
    })
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
