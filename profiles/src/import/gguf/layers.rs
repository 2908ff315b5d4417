//! How the layers of a GGUF model keep their context.

use super::super::model::Layers;
use super::header::Header;

/// Of so many layers the last is a full one where the file has a window and no pattern (llama.cpp's own table).
const PATTERNS: [(&str, u64); 8] = [
    ("gemma2", 2),
    ("gemma3", 6),
    ("gemma3n", 5),
    ("gpt-oss", 2),
    ("cohere2", 4),
    ("exaone4", 4),
    ("olmo2", 4),
    ("llama4", 4),
];
/// More layers than any model has.
const LAYERS_MAX: f64 = 4096.0;
/// Tokens of Llama 4's chunks: `attention_chunk_size` of its config.json, and llama.cpp's own number.
const CHUNK: f64 = 8192.0;
/// Bytes of a cached number: 16 bits.
const CACHE_BYTES: f64 = 2.0;

/// Keys that are one whole number, and the least that each may be: 0 where a model has none of it.
const LENGTHS: [(&str, f64); 8] = [
    ("attention.key_length", 1.0),
    ("attention.value_length", 1.0),
    ("attention.key_length_swa", 1.0),
    ("attention.value_length_swa", 1.0),
    ("attention.kv_lora_rank", 0.0),
    ("attention.shared_kv_layers", 0.0),
    ("attention.sliding_window", 0.0),
    ("full_attention_interval", 0.0),
];

/// The layers of a model of this architecture.
pub(super) fn of(header: &Header, architecture: &str) -> Result<Layers, String> {
    let key = |name: &str| format!("{architecture}.{name}");
    let number = |name: &str| header.number(&key(name));
    let need = |name: &str| {
        let value = number(name).filter(|value| *value >= 1.0 && value.fract() == 0.0);
        value.ok_or_else(|| format!("`{}` is missing or no count", key(name)))
    };
    let count = need("block_count")?;
    if count > LAYERS_MAX {
        return Err(format!(
            "`{}` is {count}, more than any model has",
            key("block_count")
        ));
    }
    let count = count as usize;
    let each = |name: &str| each_layer(header, &key(name), count);
    let heads = each("attention.head_count")?;
    // Absent, every head has a KV of its own.
    let kv_heads = each("attention.head_count_kv")?.or_else(|| heads.clone());
    let Some(kv_heads) = kv_heads else {
        return Err(format!("`{}` is missing", key("attention.head_count")));
    };
    readable(header, architecture, heads.as_deref(), &kv_heads)?;
    let embedding = need("embedding_length")?;
    let own = |layer: usize| {
        let heads = heads.as_ref().map_or(0.0, |heads| heads[layer]);
        if heads > 0.0 { embedding / heads } else { 0.0 }
    };
    let key_length = number("attention.key_length");
    let value_length = number("attention.value_length");
    let latent =
        number("attention.kv_lora_rank").filter(|_| header.has(&key("attention.key_length_mla")));
    let bytes = |layer: usize, windowed: bool| {
        if let Some(rank) = latent {
            let rotary = number("rope.dimension_count").unwrap_or(0.0);
            return (rank + rotary) * CACHE_BYTES;
        }
        let within = |name: &str, full: Option<f64>| {
            let length = if windowed {
                number(name).or(full)
            } else {
                full
            };
            length.unwrap_or_else(|| own(layer))
        };
        let keys = within("attention.key_length_swa", key_length);
        let values = within("attention.value_length_swa", value_length);
        kv_heads[layer] * (keys + values) * CACHE_BYTES
    };
    let shared = number("attention.shared_kv_layers")
        .map_or(0, |n| n.max(0.0) as usize)
        .min(count);
    let window = number("attention.sliding_window");
    // Llama 4 attends within chunks, whose length its files do not state and llama.cpp takes as this; 0 turns it off.
    let window = match architecture {
        "llama4" => window.map_or(Some(CHUNK), |stated| (stated > 0.0).then_some(CHUNK)),
        _ => window.filter(|window| *window >= 1.0),
    };
    let pattern = window.map(|_| pattern(header, architecture, count));
    let interval = number("full_attention_interval")
        .filter(|n| *n >= 1.0)
        .map(|n| n as usize);
    let mut layers = Layers {
        shared: shared as u64,
        ..Layers::default()
    };
    let state = state(header, architecture);
    for (layer, heads) in kv_heads.iter().enumerate().take(count - shared) {
        let linear = interval.is_some_and(|interval| (layer + 1) % interval != 0);
        if linear || *heads == 0.0 {
            layers.fixed.0 += 1;
            layers.fixed.1 += state;
            continue;
        }
        let windowed = match &pattern {
            Some(Some(pattern)) => pattern[layer],
            _ => false,
        };
        match window {
            Some(window) if windowed => layers.windowed.push((bytes(layer, true), window as u64)),
            _ => layers.growing.push(bytes(layer, false)),
        }
    }
    if let Some(None) = pattern {
        layers.doubt = Some(
            "the file has a sliding window and does not say of which layers: all are counted as growing".to_owned(),
        );
    }
    Ok(layers)
}

/// The whole numbers of a key, one a layer; `None` where the header has no such key.
fn each_layer(header: &Header, key: &str, count: usize) -> Result<Option<Vec<f64>>, String> {
    let Some(values) = header.numbers(key) else {
        return if header.has(key) {
            Err(format!(
                "`{key}` is no number: it must be a whole number, or one a layer"
            ))
        } else {
            Ok(None)
        };
    };
    let wrong = |value: &&f64| !(0.0..=1e9).contains(*value) || value.fract() != 0.0;
    if let Some(value) = values.iter().find(wrong) {
        return Err(format!(
            "`{key}` is {value}: it must be a whole number from 0 to 1e9"
        ));
    }
    match values.len() {
        1 => Ok(Some(vec![values[0]; count])),
        length if length == count => Ok(Some(values)),
        length => Err(format!("`{key}` has {length} values for {count} layers")),
    }
}

/// Refuses heads that cannot be, and a key that is there and cannot be read: as if it were absent, another model would
/// be counted.
fn readable(
    header: &Header,
    architecture: &str,
    heads: Option<&[f64]>,
    kv_heads: &[f64],
) -> Result<(), String> {
    let mut both = heads.unwrap_or_default().iter().zip(kv_heads);
    if let Some((heads, kv)) =
        both.find(|(heads, kv)| **kv > 0.0 && (kv > heads || **heads % **kv != 0.0))
    {
        return Err(format!(
            "`{architecture}.attention.head_count_kv` is {kv} for {heads} heads: each KV head serves as many heads, so it divides them"
        ));
    }
    for (name, least) in LENGTHS {
        let name = format!("{architecture}.{name}");
        let fine = header
            .number(&name)
            .is_some_and(|value| value >= least && value.fract() == 0.0);
        if header.has(&name) && !fine {
            return Err(format!("`{name}` must be a whole number from {least}"));
        }
    }
    Ok(())
}

/// Which layers have the window.
fn pattern(header: &Header, architecture: &str, count: usize) -> Option<Vec<bool>> {
    let key = format!("{architecture}.attention.sliding_window_pattern");
    let given = header.numbers(&key);
    let every = match given.as_deref() {
        Some([every]) => Some(*every as u64),
        Some(list) if list.len() == count => {
            return Some(list.iter().map(|flag| *flag != 0.0).collect());
        }
        Some(_) => return None,
        None => PATTERNS
            .iter()
            .find(|(known, _)| *known == architecture)
            .map(|(_, every)| *every),
    };
    let every = every.filter(|every| *every >= 1)?;
    Some(
        (0..count as u64)
            .map(|layer| layer % every < every - 1)
            .collect(),
    )
}

/// Bytes of the recurrent state of a layer, 32-bit: state and convolution.
fn state(header: &Header, architecture: &str) -> f64 {
    let number = |name: &str| {
        header
            .number(&format!("{architecture}.ssm.{name}"))
            .unwrap_or(0.0)
            .clamp(0.0, 1e9)
    };
    let (inner, size) = (number("inner_size"), number("state_size"));
    let mixed = inner + 2.0 * number("group_count") * size;
    4.0 * (inner * size + mixed * (number("conv_kernel") - 1.0).max(0.0))
}
