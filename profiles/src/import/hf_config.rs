//! Hugging Face `config.json`, with a nested text model or without, and mllm's flat dialect (`visual_*`).

mod defaults;
mod kinds;
mod once;
mod parameters;
mod precision;
mod processor;
mod slips;
mod text_model;
pub(super) mod tiles;
mod tower_values;
mod tower_weights;
mod vision;

use serde_json::Value;

use super::model::{self, Facts, Known};
use super::note::{NoteKind, Notes};
use super::text::Lines;
use super::{Options, Output, Source, text};

/// Model profiles of the files.
pub(crate) fn import(sources: Vec<Source>, options: &Options, notes: &mut Notes) -> Vec<Output> {
    let mut outputs = Vec::new();
    let (sources, processors) = processor::apart(sources, notes);
    for source in sources {
        let file = source.name.clone();
        let Some(text) = text::whole(source, notes) else {
            continue;
        };
        let value: Value = match serde_json::from_str(&text) {
            Ok(once::Once(value)) => value,
            Err(error) => {
                notes.refuse(
                    &file,
                    Some(error.line() as u64),
                    format!("no JSON: {error}"),
                );
                continue;
            }
        };
        let mut value = value;
        lift(&mut value);
        let config = Config {
            root: &value,
            text: &text,
        };
        if let Err((line, fault)) =
            slips::check(&config).and_then(|()| tower_values::check(&config))
        {
            notes.refuse(&file, Some(line), fault);
            continue;
        }
        processor::beside(&mut value, &file, &processors, notes);
        for (key, filled) in defaults::fill(&mut value) {
            let text = format!(
                "`{key}` is not stated: {filled}, what transformers takes for this `model_type`"
            );
            notes.add(NoteKind::Warning, &file, None, text);
        }
        let config = Config {
            root: &value,
            text: &text,
        };
        match facts(&config, &file, options, notes) {
            Ok(facts) => outputs.extend(model::output(&facts, options, notes)),
            Err((line, fault)) => notes.refuse(&file, Some(line), fault),
        }
    }
    outputs
}

/// The shape that a `config.json` states, for a roofline; `processor` is the text of the `preprocessor_config.json`
/// beside it.
///
/// # Errors
///
/// What is missing, with its line.
pub fn shape(
    file: &str,
    text: &str,
    processor: Option<&str>,
    options: &Options,
) -> Result<crate::roofline::Shape, String> {
    let once::Once(mut value) =
        serde_json::from_str(text).map_err(|error| format!("{file}: no JSON: {error}"))?;
    let fault = |(line, fault): Fault| format!("{file}:{line}: {fault}");
    lift(&mut value);
    let config = Config { root: &value, text };
    slips::check(&config).map_err(fault)?;
    tower_values::check(&config).map_err(fault)?;
    if let Some(processor) = processor {
        processor::add(&mut value, processor)?;
    }
    defaults::fill(&mut value);
    let config = Config { root: &value, text };
    decoder(&config).map_err(fault)?;
    let mut shape = parameters::roofline(&config, &name(&config, file)).map_err(fault)?;
    shape.vision = vision::roofline(&config, options);
    shape.tower_bytes = vision::bytes(&config);
    shape.model_type = config
        .language()
        .get("model_type")
        .and_then(Value::as_str)
        .map(str::to_owned);
    Ok(shape)
}

/// A configuration and its text, to find lines in.
pub(super) struct Config<'a> {
    pub(super) root: &'a Value,
    text: &'a str,
}

pub(super) type Fault = (u64, String);

impl<'a> Config<'a> {
    /// Line of a key.
    pub(super) fn line(&self, key: &str) -> u64 {
        self.text
            .find(&format!("\"{key}\""))
            .map_or(1, |at| Lines::of(self.text).at(at))
    }

    /// The table of the language model: nested, or the whole file.
    pub(super) fn language(&self) -> &'a Value {
        self.nested().map_or(self.root, |(_, table)| table)
    }

    /// The nested table of the language model, if there is one.
    fn nested(&self) -> Option<(&'static str, &'a Value)> {
        let of = |fits: fn(&Value) -> bool| {
            NESTED.iter().find_map(|key| {
                let table = self.root.get(key).filter(|value| fits(value))?;
                Some((*key, table))
            })
        };
        // One that lacks its layers is named where they are missing.
        of(is_model).or_else(|| {
            let other = !is_model(self.root);
            of(Value::is_object).filter(|_| other)
        })
    }

    /// Path of a key of the language model, and its line.
    pub(super) fn place(&self, key: &str) -> (String, u64) {
        let Some((table, _)) = self.nested() else {
            return (key.to_owned(), self.line(key));
        };
        // The same key may be the vision tower's, before or behind this table.
        let from = self.text.find(&format!("\"{table}\"")).unwrap_or(0);
        let line = self.text[from..]
            .find(&format!("\"{key}\""))
            .map_or_else(|| self.line(key), |at| Lines::of(self.text).at(from + at));
        (format!("{table}.{key}"), line)
    }
}

/// Where the language model's table may be.
const NESTED: [&str; 4] = ["text_config", "llm_config", "language_config", "llm_cfg"];

/// Puts the tables of Qwen2.5-Omni's thinker and of NVILA where those of other families are.
fn lift(root: &mut Value) {
    let Value::Object(table) = root else { return };
    if let Some(Value::Object(thinker)) = table.get("thinker_config").cloned() {
        for key in ["text_config", "vision_config"] {
            if let (Some(inner), false) = (thinker.get(key), table.contains_key(key)) {
                table.insert(key.to_owned(), inner.clone());
            }
        }
    }
    if let (Some(tower), false) = (
        table
            .get("vision_tower_cfg")
            .filter(|value| value.is_object())
            .cloned(),
        table.contains_key("vision_config"),
    ) {
        table.insert("vision_config".to_owned(), tower);
    }
}

/// Whether a table is a language model's.
fn is_model(table: &Value) -> bool {
    text_model::LAYERS
        .iter()
        .any(|key| table.get(key).is_some())
}

/// A whole number from 1 to 2^32 of a table.
pub(super) fn count(table: &Value, key: &str) -> Option<f64> {
    let number = table.get(key)?.as_f64()?;
    ((1.0..=4_294_967_295.0).contains(&number) && number.fract() == 0.0).then_some(number)
}

fn facts(
    config: &Config<'_>,
    file: &str,
    options: &Options,
    notes: &mut Notes,
) -> Result<Facts, Fault> {
    let language = config.language();
    let model_type = config
        .root
        .get("model_type")
        .and_then(Value::as_str)
        .unwrap_or("");
    if config.root.get("image_cfg").is_some() {
        let text = "this is the configuration of a vision tower alone: give the config.json of the model that it belongs to";
        return Err((config.line("image_cfg"), text.to_owned()));
    }
    decoder(config)?;
    let mut doubts = Vec::new();
    let layers = text_model::layers(config, &mut doubts)?;
    for (line, doubt) in doubts {
        notes.add(NoteKind::Warning, file, Some(line), doubt);
    }
    let mut facts = Facts {
        name: name(config, file),
        file: file.to_owned(),
        layers,
        weights: parameters::weights(config, options)?,
        max_context: [
            "max_position_embeddings",
            "n_positions",
            "seq_length",
            "max_sequence_length",
            "max_seq_len",
            "n_ctx",
        ]
        .iter()
        .find_map(|key| Some((key, count(language, key)?)))
        .map(|(key, tokens)| Known::new(tokens, format!("`{key}`"))),
        weights_from: if precision::of(config, options).is_some() {
            "the file does not state all that parameters are counted from, or has layers that are not counted here: `import gguf` of the model's file".into()
        } else {
            precision::advice(config).into()
        },
        ..Facts::default()
    };
    if let Some(cache) = count(config.root, "max_cache_length")
        && let Some(context) = &mut facts.max_context
        && cache < context.value
    {
        *context = Known::new(
            cache,
            "`max_cache_length`: the runtime's cache, less than the model's context",
        );
    }
    for remark in vision::read(config, options, &mut facts) {
        notes.add(NoteKind::Warning, file, None, remark);
    }
    let text = format!(
        "{}, {} layers{}",
        if model_type.is_empty() {
            "config without `model_type`"
        } else {
            model_type
        },
        text_model::shape(config)?.layers,
        if facts.sees {
            ", with a vision tower"
        } else {
            ""
        }
    );
    notes.add(NoteKind::Read, file, None, text);
    Ok(facts)
}

/// Families that encode a text without generating one.
const ENCODERS: [&str; 22] = [
    "albert",
    "bert",
    "bigbird",
    "camembert",
    "convbert",
    "deberta",
    "deberta-v2",
    "distilbert",
    "electra",
    "ernie",
    "esm",
    "funnel",
    "layoutlm",
    "longformer",
    "megatron-bert",
    "modernbert",
    "mpnet",
    "nomic_bert",
    "roberta",
    "roformer",
    "xlm-roberta",
    "xlm-roberta-xl",
];

/// Families whose decoder attends to an encoder's output as well.
const PAIRS: [&str; 19] = [
    "bart",
    "blenderbot",
    "florence2",
    "led",
    "longt5",
    "m2m_100",
    "marian",
    "mbart",
    "moonshine",
    "mt5",
    "nllb-moe",
    "pegasus",
    "prophetnet",
    "speech_to_text",
    "switch_transformers",
    "t5",
    "t5gemma",
    "umt5",
    "whisper",
];

/// Refuses what is no decoder: its context is no KV that grows by every token of a stream.
fn decoder(config: &Config<'_>) -> Result<(), Fault> {
    for table in [config.root, config.language()] {
        let flag = |key: &str| table.get(key).and_then(Value::as_bool).unwrap_or(false);
        let family = table
            .get("model_type")
            .and_then(Value::as_str)
            .unwrap_or("");
        if flag("is_encoder_decoder") || PAIRS.contains(&family) {
            let key = if PAIRS.contains(&family) {
                "model_type"
            } else {
                "is_encoder_decoder"
            };
            let text = format!(
                "`{family}` is an encoder and a decoder, which keeps the encoder's output beside its KV: only decoders are imported"
            );
            return Err((config.line(key), text));
        }
        let masked = table
            .get("architectures")
            .and_then(Value::as_array)
            .is_some_and(|list| {
                list.iter()
                    .filter_map(Value::as_str)
                    .any(|name| name.ends_with("ForMaskedLM"))
            });
        if (ENCODERS.contains(&family) || masked) && !flag("is_decoder") {
            let key = if masked {
                "architectures"
            } else {
                "model_type"
            };
            let text =
                format!("`{family}` does not attend causally: it embeds text and generates none");
            return Err((config.line(key), text));
        }
    }
    Ok(())
}

/// What to call the model.
fn name(config: &Config<'_>, file: &str) -> String {
    let given = config
        .root
        .get("_name_or_path")
        .and_then(Value::as_str)
        .unwrap_or("");
    let given = given.rsplit('/').next().unwrap_or("");
    if !given.is_empty() {
        return given.to_owned();
    }
    let mut parts = file.rsplit(['/', '\\']);
    let stem = parts.next().unwrap_or(file).trim_end_matches(".json");
    let stem = stem.trim_end_matches(".config");
    // A plain `config.json` lies in a folder of the model's name.
    let stem = if stem == "config" {
        parts.next().unwrap_or(stem)
    } else {
        stem
    };
    let stem = stem.rsplit("--").next().unwrap_or(stem);
    // Neither the file nor a folder says a name.
    let family = config.root.get("model_type").and_then(Value::as_str);
    let stem = match (stem, family) {
        ("" | "." | ".." | "-" | "config", Some(family)) => family,
        _ => stem,
    };
    if stem.is_empty() {
        "model".to_owned()
    } else {
        stem.to_owned()
    }
}
