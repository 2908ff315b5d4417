//! Bits of a weight, with the scales that quantisation stores beside them.

use serde_json::Value;

use super::super::Options;
use super::Config;

/// Bits of a weight by where it is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Precision {
    /// Of the layers.
    pub(super) linear: f64,
    /// Of the embedding; it is the head's as well where the two are tied.
    pub(super) embedding: f64,
    /// Of a head of its own.
    pub(super) head: f64,
    /// Where that is said.
    pub(super) source: String,
}

impl Precision {
    /// All weights alike.
    fn all(bits: f64, source: String) -> Self {
        Self {
            linear: bits,
            embedding: bits,
            head: bits,
            source,
        }
    }

    /// Quantised layers between an embedding and a head that are not.
    fn layers(linear: f64, rest: f64, source: String) -> Self {
        Self {
            linear,
            embedding: rest,
            head: rest,
            source,
        }
    }
}

/// The quantisation of a configuration, if it states one.
fn quantisation<'a>(config: &Config<'a>) -> Option<&'a Value> {
    [config.root, config.language()]
        .into_iter()
        .flat_map(|table| [table.get("quantization_config"), table.get("quantization")])
        .flatten()
        .find(|table| table.is_object())
}

/// How to supply a size that cannot be counted.
pub(super) fn advice(config: &Config<'_>) -> &'static str {
    if quantisation(config).is_some() {
        "the bits of a weight do not follow from the file's `quantization_config`: `--weight-bits 4.5`, or `import gguf` of the model's file"
    } else {
        "the file does not state the weights' precision (`torch_dtype`): `--weight-bits 4.5`, or `import gguf` of the model's file"
    }
}

/// The precision of the weights; `None` where the file leaves it open.
pub(super) fn of(config: &Config<'_>, options: &Options) -> Option<Precision> {
    if let Some(bits) = options.weight_bits {
        let by = options.weight_bits_by.as_deref();
        return Some(Precision::all(
            bits,
            by.unwrap_or("`--weight-bits`").to_owned(),
        ));
    }
    if let Some(table) = quantisation(config) {
        // What is not quantised has the type that the model is computed in.
        let rest = dtype(config).map_or(16.0, |(bits, _)| bits);
        return quantised(table, rest);
    }
    if let Some(kernel) = config.root.get("linear_impl_type").and_then(Value::as_str) {
        let four = kernel.contains("w4") || kernel.contains("i4c32");
        let text = format!("`linear_impl_type` {kernel}: 4 bits and a 16-bit scale a group of 32");
        return four.then(|| Precision::all(4.5, text));
    }
    let (bits, name) = dtype(config)?;
    Some(Precision::all(bits, format!("`torch_dtype` {name}")))
}

/// The type that the file states.
fn dtype<'a>(config: &Config<'a>) -> Option<(f64, &'a str)> {
    let table = config.language();
    let name = ["torch_dtype", "dtype"].iter().find_map(|key| {
        table
            .get(key)
            .or_else(|| config.root.get(key))
            .and_then(Value::as_str)
    })?;
    let bits = match name.trim_start_matches("torch.") {
        "float32" | "fp32" => 32.0,
        "bfloat16" | "float16" | "fp16" | "bf16" | "half" => 16.0,
        "float8_e4m3fn" | "int8" => 8.0,
        _ => return None,
    };
    Some((bits, name))
}

fn quantised(table: &Value, rest: f64) -> Option<Precision> {
    let number = |keys: &[&str]| keys.iter().find_map(|key| table.get(key)?.as_f64());
    let flag = |key: &str| table.get(key).and_then(Value::as_bool).unwrap_or(false);
    let method = table.get("quant_method").and_then(Value::as_str);
    let bits = number(&["bits", "w_bit"]).filter(|bits| *bits > 0.0);
    // A whole column is a group where the size is -1: its scale is nothing.
    let group = number(&["group_size", "q_group_size"]).filter(|size| *size > 0.0);
    let each = |stored: f64| group.map_or(0.0, |group| stored / group);
    let shown = |text: &str| format!("`quantization_config`, {text}");
    match method {
        Some("awq" | "gptq") => {
            let bits = bits?;
            let mut precision = Precision::layers(
                bits + each(16.0 + bits),
                rest,
                shown("with a 16-bit scale and a zero a group"),
            );
            if flag("lm_head") {
                precision.head = precision.linear;
            }
            Some(precision)
        }
        Some("fp8" | "fbgemm_fp8") => Some(Precision::layers(
            8.0,
            rest,
            shown("8-bit floats in the layers"),
        )),
        Some("bitsandbytes") | None if flag("load_in_4bit") => {
            // Blocks of 64 with a 32-bit scale; quantised once more it has 8 bits, and 32 for 256 blocks.
            let (scale, text) = if flag("bnb_4bit_use_double_quant") {
                (
                    8.0 / 64.0 + 32.0 / (64.0 * 256.0),
                    "4 bits in the layers with quantised scales, a block of 64 each",
                )
            } else {
                (
                    32.0 / 64.0,
                    "4 bits in the layers with a 32-bit scale a block of 64",
                )
            };
            Some(Precision::layers(4.0 + scale, rest, shown(text)))
        }
        Some("bitsandbytes") | None if flag("load_in_8bit") => {
            Some(Precision::layers(8.0, rest, shown("8 bits in the layers")))
        }
        None if table.get("w_bit").is_some() => {
            let bits = bits?;
            let text = shown("with a 16-bit scale and a zero a group");
            Some(Precision::layers(bits + each(16.0 + bits), rest, text))
        }
        // MLX. Layers that it treats on their own are tables or truth values beside the rest.
        None => {
            let own = table
                .as_object()?
                .values()
                .any(|value| value.is_object() || value.is_boolean());
            if own || group.is_none() {
                return None;
            }
            let (stored, text) = match table.get("mode").and_then(Value::as_str) {
                None | Some("affine") => (32.0, "with a 16-bit scale and bias a group"),
                Some("mxfp4" | "mxfp8" | "nvfp4") => (8.0, "with an 8-bit scale a group"),
                Some(_) => return None,
            };
            Some(Precision::all(bits? + each(stored), shown(text)))
        }
        Some(_) => None,
    }
}
