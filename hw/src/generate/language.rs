//! Language models of Qwen2's architecture.

use std::path::Path;

use super::{fill, generator};
use crate::llama::{GgufWriter, LlamaError, Tensor, WeightType};

/// What tells one model of the architecture from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    layers: u32,
    /// Numbers of a token's state.
    width: u32,
    feed_forward: u32,
    heads: u32,
    kv_heads: u32,
    vocabulary: u32,
    /// Longest context, tokens.
    context: u32,
    rope_base: u32,
}

/// Qwen/Qwen2.5-0.5B, config.json.
pub(super) const QWEN_0_5B: Shape = Shape {
    layers: 24,
    width: 896,
    feed_forward: 4864,
    heads: 14,
    kv_heads: 2,
    vocabulary: 151_936,
    context: 32_768,
    rope_base: 1_000_000,
};

/// HuggingFaceTB/SmolLM2-135M, config.json; Qwen2's architecture adds biases to three projections.
pub(super) const SMOLLM2_135M: Shape = Shape {
    layers: 30,
    width: 576,
    feed_forward: 1536,
    heads: 9,
    kv_heads: 3,
    vocabulary: 49_152,
    context: 8192,
    rope_base: 100_000,
};

pub(super) const MINI: Shape = Shape {
    layers: 4,
    width: 256,
    feed_forward: 768,
    heads: 4,
    kv_heads: 2,
    vocabulary: 4096,
    context: 4096,
    rope_base: 10_000,
};

pub(super) const TINY: Shape = Shape {
    layers: 2,
    width: 64,
    feed_forward: 128,
    heads: 4,
    kv_heads: 2,
    vocabulary: 512,
    context: 2048,
    rope_base: 10_000,
};

/// Deviation of token embeddings, which are the output's weights too.
const EMBEDDING: f32 = 0.05;
const BIAS: f32 = 0.02;

pub(super) fn write(
    shape: &Shape,
    name: &str,
    kind: WeightType,
    seed: u64,
    path: &Path,
) -> Result<(), LlamaError> {
    let mut file = GgufWriter::new()?;
    head(&mut file, shape, name, kind)?;
    vocabulary(&mut file, shape.vocabulary)?;
    let plan = tensors(shape, kind);
    for (tensor, _) in &plan {
        file.tensor(tensor.clone())?;
    }
    // Tensors are written one after the other, some rows at a time.
    let mut at = 0;
    let mut numbers = generator(seed, at);
    file.write(path, |tensor, rows| {
        if tensor.name != plan[at].0.name {
            at += 1;
            numbers = generator(seed, at);
        }
        match plan[at].1 {
            Some(deviation) => fill(&mut numbers, deviation, rows),
            None => rows.fill(1.0),
        }
    })
}

fn head(
    file: &mut GgufWriter,
    shape: &Shape,
    name: &str,
    kind: WeightType,
) -> Result<(), LlamaError> {
    file.text("general.architecture", "qwen2")?;
    file.text("general.name", &format!("{name}, random weights"))?;
    file.number("general.file_type", kind.file_type_number())?;
    for (key, value) in [
        ("context_length", shape.context),
        ("embedding_length", shape.width),
        ("block_count", shape.layers),
        ("feed_forward_length", shape.feed_forward),
        ("attention.head_count", shape.heads),
        ("attention.head_count_kv", shape.kv_heads),
    ] {
        file.number(&format!("qwen2.{key}"), value)?;
    }
    file.fraction("qwen2.rope.freq_base", shape.rope_base as f32)?;
    file.fraction("qwen2.attention.layer_norm_rms_epsilon", 1e-6)
}

/// Byte-level BPE that merges nothing: a token a byte, the rest never come up in texts.
fn vocabulary(file: &mut GgufWriter, count: u32) -> Result<(), LlamaError> {
    const NORMAL: i32 = 1;
    const CONTROL: i32 = 3;
    // GPT-2 writes the bytes that are not printable as characters from 256 on.
    let printable = |byte: u32| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    let mut above = 256..;
    let mut tokens: Vec<String> = (0..256_u32)
        .map(|byte| {
            let code = if printable(byte) {
                Some(byte)
            } else {
                above.next()
            };
            let symbol = code.and_then(char::from_u32).unwrap_or_default();
            symbol.to_string()
        })
        .collect();
    let ends = ["<|begin|>", "<|end|>"];
    let words = (count as usize).saturating_sub(tokens.len() + ends.len());
    tokens.extend((0..words).map(|word| format!("word{word}")));
    tokens.extend(ends.map(String::from));
    let mut kinds = vec![NORMAL; tokens.len() - ends.len()];
    kinds.extend([CONTROL; 2]);
    file.text("tokenizer.ggml.model", "gpt2")?;
    file.text("tokenizer.ggml.pre", "qwen2")?;
    file.texts("tokenizer.ggml.tokens", &tokens)?;
    file.numbers("tokenizer.ggml.token_type", &kinds)?;
    // There has to be one; neither half ends up in a text that is read byte by byte.
    file.texts("tokenizer.ggml.merges", &["word0 word1".into()])?;
    file.number("tokenizer.ggml.bos_token_id", count - 2)?;
    file.number("tokenizer.ggml.eos_token_id", count - 1)?;
    file.flag("tokenizer.ggml.add_bos_token", false)
}

/// All tensors, with the deviation of their numbers; `None`: all ones.
fn tensors(shape: &Shape, kind: WeightType) -> Vec<(Tensor, Option<f32>)> {
    let size = |number: u32| number as usize;
    let width = size(shape.width);
    let kv = width / size(shape.heads) * size(shape.kv_heads);
    let mut all = Vec::new();
    let mut matrix = |name: String, rows: usize, row: usize, deviation: f32| {
        let tensor = Tensor {
            name,
            kind,
            row,
            rows,
        };
        all.push((tensor, Some(deviation)));
    };
    let into = |numbers: usize| 1.0 / (numbers as f32).sqrt();
    matrix(
        "token_embd.weight".into(),
        size(shape.vocabulary),
        width,
        EMBEDDING,
    );
    let forward = size(shape.feed_forward);
    for layer in 0..shape.layers {
        for (part, rows, row) in [
            ("attn_q", width, width),
            ("attn_k", kv, width),
            ("attn_v", kv, width),
            ("attn_output", width, width),
            ("ffn_gate", forward, width),
            ("ffn_up", forward, width),
            ("ffn_down", width, forward),
        ] {
            matrix(format!("blk.{layer}.{part}.weight"), rows, row, into(row));
        }
    }
    // Vectors are never quantized.
    let mut vector = |name: String, row: usize, deviation: Option<f32>| {
        let tensor = Tensor {
            name,
            kind: WeightType::F32,
            row,
            rows: 1,
        };
        all.push((tensor, deviation));
    };
    vector("output_norm.weight".into(), width, None);
    for layer in 0..shape.layers {
        vector(format!("blk.{layer}.attn_norm.weight"), width, None);
        vector(format!("blk.{layer}.ffn_norm.weight"), width, None);
        for (part, numbers) in [("attn_q", width), ("attn_k", kv), ("attn_v", kv)] {
            vector(format!("blk.{layer}.{part}.bias"), numbers, Some(BIAS));
        }
    }
    all
}
