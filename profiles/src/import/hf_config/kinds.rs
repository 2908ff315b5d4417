//! Which layers of a language model keep what: families write it in many ways, and a file that says it in a way
//! that is not known here must not be counted as if it said nothing.

use serde_json::Value;

use super::{Config, Fault, count};

/// What a layer keeps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// The KV of every token.
    Full,
    /// The KV of a window.
    Window,
    /// A state of fixed size: linear attention, Mamba, a convolution, a recurrence.
    Fixed,
    /// Both: the KV of every token, and a state (Falcon-H1, Zamba2).
    Both,
    /// The KV of the picture alone, which no token of text adds to (Mllama).
    Picture,
    /// Nothing: an MLP alone (Nemotron-H).
    Nothing,
}

/// Keys that say of which kind layers are, in the order in which they are asked.
const MARKERS: [&str; 15] = [
    "layer_types",
    "layers_block_type",
    "hybrid_override_pattern",
    "attn_type_list",
    "attn_layer_indices",
    "full_attn_idxs",
    "cross_attention_layers",
    "attn_layer_period",
    "attn_layer_offset",
    "block_types",
    "_block_types",
    "full_attention_interval",
    "sliding_window_pattern",
    "_sliding_window_pattern",
    "no_rope_layers",
];
/// Keys whose names look like a marker's and that say nothing of what layers keep.
const HARMLESS: [&str; 8] = [
    // Which layers differ in their positions: Llama 4 has `attention_chunk_size` beside it.
    "no_rope_layer_interval",
    "num_mem_blocks",
    // The tower's, where a file is flat.
    "vision_feature_layer",
    "mm_vision_select_layer",
    "fullatt_block_indexes",
    // Said by the number of KV heads.
    "multi_query",
    "multi_query_attention",
    "multi_query_group_num",
];

/// The kinds of a model's layers.
pub(super) struct Kinds<'a, 'c> {
    pub(super) config: &'a Config<'c>,
    pub(super) table: &'a Value,
    pub(super) layers: usize,
}

impl Kinds<'_, '_> {
    fn fault<T>(&self, key: &str, what: &str) -> Result<T, Fault> {
        let (path, line) = self.config.place(key);
        Err((line, format!("`{path}` {what}")))
    }

    fn there(&self, key: &str) -> Option<&Value> {
        self.table.get(key).filter(|value| !value.is_null())
    }

    fn family(&self) -> &str {
        let name = self.table.get("model_type").and_then(Value::as_str);
        name.unwrap_or("")
    }

    /// Tokens of the window that the file states.
    pub(super) fn window(&self) -> Option<f64> {
        [
            "sliding_window",
            "attention_chunk_size",
            "attention_window_size",
        ]
        .iter()
        .find_map(|key| count(self.table, key))
    }

    /// The kind of each layer, and what is not certain.
    ///
    /// # Errors
    ///
    /// A list that does not fit the layers, or a word of it that is not known.
    pub(super) fn each(&self) -> Result<(Vec<Kind>, Option<String>), Fault> {
        let listed = self
            .named()
            .transpose()
            .or_else(|| self.pattern().transpose())
            .or_else(|| self.numbered().transpose())
            .or_else(|| self.indexed().transpose())
            .or_else(|| self.repeated().transpose());
        match listed {
            Some(kinds) => Ok((kinds?, None)),
            None if self.family() == "falcon_h1" => Ok((vec![Kind::Both; self.layers], None)),
            None => Ok(self.windowed()),
        }
    }

    /// `layer_types`: a word for each layer.
    fn named(&self) -> Result<Option<Vec<Kind>>, Fault> {
        for key in ["layer_types", "layers_block_type"] {
            let Some(value) = self.there(key) else {
                continue;
            };
            let Value::Array(list) = value else {
                return self.fault(key, "is no list of a kind a layer");
            };
            self.fits(key, list.len())?;
            let kinds = list.iter().map(|name| self.kind(key, name));
            return kinds.collect::<Result<_, _>>().map(Some);
        }
        Ok(None)
    }

    fn fits(&self, key: &str, entries: usize) -> Result<(), Fault> {
        if entries == self.layers {
            return Ok(());
        }
        let what = format!("has {entries} entries for {} layers", self.layers);
        self.fault(key, &what)
    }

    /// The kind that a word of a list names.
    fn kind(&self, key: &str, name: &Value) -> Result<Kind, Fault> {
        Ok(match name.as_str().unwrap_or("") {
            "full_attention" | "attention" => Kind::Full,
            "sliding_attention" | "chunked_attention" => match self.window() {
                Some(_) => Kind::Window,
                None => {
                    return self.fault(key, "has sliding layers and `sliding_window` is missing");
                }
            },
            "linear_attention" | "conv" | "mamba" | "mamba2" | "recurrent" => Kind::Fixed,
            "hybrid" => Kind::Both,
            "mlp" | "moe" => Kind::Nothing,
            other => return self.fault(key, &format!("has `{other}`, which is not known")),
        })
    }

    /// Nemotron-H: `M` Mamba, `*` attention, `-` and `E` an MLP.
    fn pattern(&self) -> Result<Option<Vec<Kind>>, Fault> {
        const KEY: &str = "hybrid_override_pattern";
        let Some(value) = self.there(KEY) else {
            return Ok(None);
        };
        let Some(pattern) = value.as_str() else {
            return self.fault(KEY, "is no text of a letter a layer");
        };
        self.fits(KEY, pattern.chars().count())?;
        let kind = |letter| match letter {
            'M' => Ok(Kind::Fixed),
            '*' => Ok(Kind::Full),
            '-' | 'E' => Ok(Kind::Nothing),
            other => self.fault(KEY, &format!("has `{other}`, which is not known")),
        };
        pattern
            .chars()
            .map(kind)
            .collect::<Result<_, _>>()
            .map(Some)
    }

    /// `MiniMax`: 1 is attention, 0 linear attention.
    fn numbered(&self) -> Result<Option<Vec<Kind>>, Fault> {
        const KEY: &str = "attn_type_list";
        let Some(value) = self.there(KEY) else {
            return Ok(None);
        };
        let Value::Array(list) = value else {
            return self.fault(KEY, "is no list of a number a layer");
        };
        self.fits(KEY, list.len())?;
        let kind = |number: &Value| match number.as_u64() {
            Some(0) => Ok(Kind::Fixed),
            Some(1) => Ok(Kind::Full),
            _ => self.fault(KEY, &format!("has {number}, which is not known")),
        };
        list.iter().map(kind).collect::<Result<_, _>>().map(Some)
    }

    /// Lists of the layers that attend (Bamba, LFM2), or that attend to the picture (Mllama); Jamba's period.
    fn indexed(&self) -> Result<Option<Vec<Kind>>, Fault> {
        for (key, those, others) in [
            ("attn_layer_indices", Kind::Full, Kind::Fixed),
            ("full_attn_idxs", Kind::Full, Kind::Fixed),
            ("cross_attention_layers", Kind::Picture, Kind::Full),
        ] {
            let Some(value) = self.there(key) else {
                continue;
            };
            let Value::Array(list) = value else {
                return self.fault(key, "is no list of layers");
            };
            let mut kinds = vec![others; self.layers];
            for index in list {
                let at = index.as_u64().and_then(|at| kinds.get_mut(at as usize));
                let Some(kind) = at else {
                    return self.fault(key, &format!("has {index}, of {} layers", self.layers));
                };
                *kind = those;
            }
            return Ok(Some(kinds));
        }
        if self.there("attn_layer_period").is_none() {
            return Ok(None);
        }
        let Some(period) = count(self.table, "attn_layer_period") else {
            return self.fault("attn_layer_period", "is no count");
        };
        let offset = self
            .there("attn_layer_offset")
            .map_or(Some(0), Value::as_u64);
        let Some(offset) = offset.filter(|offset| (*offset as f64) < period) else {
            return self.fault("attn_layer_offset", "is no layer of the period");
        };
        let kind = |layer: usize| {
            if layer % period as usize == offset as usize {
                Kind::Full
            } else {
                Kind::Fixed
            }
        };
        Ok(Some((0..self.layers).map(kind).collect()))
    }

    /// Kinds that repeat: `RecurrentGemma`'s blocks, every so many layers, Llama 4's chunks.
    fn repeated(&self) -> Result<Option<Vec<Kind>>, Fault> {
        for key in ["block_types", "_block_types"] {
            let Some(value) = self.there(key) else {
                continue;
            };
            let list = value.as_array().filter(|list| !list.is_empty());
            let Some(list) = list else {
                return self.fault(key, "is no list of kinds");
            };
            let window = count(self.table, "attention_window_size");
            let kinds = (0..self.layers).map(|layer| {
                let kind = self.kind(key, &list[layer % list.len()])?;
                Ok(match (kind, window) {
                    (Kind::Full, Some(_)) => Kind::Window,
                    (kind, _) => kind,
                })
            });
            return kinds.collect::<Result<_, _>>().map(Some);
        }
        let every = |every: f64, other: Kind| {
            let kind = |layer| {
                if (layer + 1) % every as usize == 0 {
                    Kind::Full
                } else {
                    other
                }
            };
            (0..self.layers).map(kind).collect()
        };
        if let Some(interval) = count(self.table, "full_attention_interval") {
            return Ok(Some(every(interval, Kind::Fixed)));
        }
        for key in ["sliding_window_pattern", "_sliding_window_pattern"] {
            if let (Some(pattern), Some(_)) = (count(self.table, key), self.short_window()) {
                return Ok(Some(every(pattern, Kind::Window)));
            }
            // EXAONE 4: `L` is local, `G` global.
            let letters = self.there(key).and_then(Value::as_str);
            if let (Some(letters), Some(_)) = (letters, self.short_window()) {
                let letters: Vec<char> = letters.chars().collect();
                let kind = |layer: usize| match letters.get(layer % letters.len().max(1)) {
                    Some('L') => Ok(Kind::Window),
                    Some('G') => Ok(Kind::Full),
                    _ => self.fault(key, "is no pattern of `L` and `G`"),
                };
                let kinds = (0..self.layers).map(kind);
                return kinds.collect::<Result<_, _>>().map(Some);
            }
        }
        self.chunked()
    }

    /// Llama 4: layers with rotary positions attend within a chunk.
    fn chunked(&self) -> Result<Option<Vec<Kind>>, Fault> {
        const KEY: &str = "no_rope_layers";
        if count(self.table, "attention_chunk_size").is_none() {
            return Ok(None);
        }
        if let Some(Value::Array(list)) = self.there(KEY)
            && !list.is_empty()
        {
            self.fits(KEY, list.len())?;
            let kind = |flag: &Value| match flag.as_u64() {
                Some(0) => Ok(Kind::Full),
                Some(1) => Ok(Kind::Window),
                _ => self.fault(KEY, &format!("has {flag}, neither 0 nor 1")),
            };
            return list.iter().map(kind).collect::<Result<_, _>>().map(Some);
        }
        let every = count(self.table, "no_rope_layer_interval").unwrap_or(4.0) as usize;
        let kind = |layer: usize| {
            if (layer + 1).is_multiple_of(every) {
                Kind::Full
            } else {
                Kind::Window
            }
        };
        Ok(Some((0..self.layers).map(kind).collect()))
    }

    /// The window, unless it is as long as the whole context, which is none.
    fn short_window(&self) -> Option<f64> {
        let longest = count(self.table, "max_position_embeddings");
        count(self.table, "sliding_window")
            .filter(|window| longest.is_none_or(|longest| *window < longest))
    }

    /// A window and nothing that says of which layers.
    fn windowed(&self) -> (Vec<Kind>, Option<String>) {
        // Qwen's switch: where it is off, the window beside it means nothing.
        let switch = self
            .table
            .get("use_sliding_window")
            .and_then(Value::as_bool);
        match (self.short_window(), switch) {
            (None, _) | (_, Some(false)) => (vec![Kind::Full; self.layers], None),
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
                (kinds.collect(), None)
            }
            (Some(_), None) => {
                // Every so many layers go without a window, which these families do not state.
                let every = match self.family() {
                    "gemma2" => Some(2),
                    "gemma3_text" => Some(6),
                    _ => None,
                };
                if let Some(every) = every {
                    let kinds = (1..=self.layers).map(|layer: usize| {
                        if layer.is_multiple_of(every) {
                            Kind::Full
                        } else {
                            Kind::Window
                        }
                    });
                    return (kinds.collect(), None);
                }
                if ["mistral", "mixtral", "phi3", "starcoder2"].contains(&self.family()) {
                    return (vec![Kind::Window; self.layers], None);
                }
                let doubt = "`sliding_window` is there and of which layers is not said: all are counted as growing";
                (vec![Kind::Full; self.layers], Some(doubt.to_owned()))
            }
        }
    }

    /// Keys that look as if they said what layers keep and that are not known here.
    ///
    /// # Errors
    ///
    /// One that marks layers one by one: without it the KV would be a guess.
    pub(super) fn unread(&self) -> Result<Vec<Fault>, Fault> {
        let mut doubts = Vec::new();
        for (key, value) in self.table.as_object().into_iter().flatten() {
            let known = MARKERS.contains(&key.as_str()) || HARMLESS.contains(&key.as_str());
            // Which of Zamba2's layers share one block, as `layers_block_type` says too.
            let known =
                known || (key == "hybrid_layer_ids" && self.there("layers_block_type").is_some());
            let said = !value.is_null() && *value != Value::Bool(false);
            // DBRX and MPT: heads, and MPT's window for all layers, which is not counted here.
            let heads = key == "attn_config" && count(value, "sliding_window_size").is_none();
            if known || heads || !said || !marks(key) {
                continue;
            }
            let (path, line) = self.config.place(key);
            let layers = match value {
                Value::Array(list) => {
                    let index = |entry: &Value| {
                        entry.as_u64().is_some_and(|at| (at as usize) < self.layers)
                    };
                    list.len() == self.layers || (!list.is_empty() && list.iter().all(index))
                }
                Value::String(text) => text.len() == self.layers,
                // Kimi Linear's lists, which count from 1.
                Value::Object(table) => table.iter().any(|(key, value)| {
                    let list = value.as_array().filter(|list| !list.is_empty());
                    let index =
                        |entry: &Value| entry.as_u64().is_some_and(|at| at as usize <= self.layers);
                    key.contains("layer") && list.is_some_and(|list| list.iter().all(index))
                }),
                _ => false,
            };
            if layers {
                let text = format!(
                    "`{path}` tells layers apart in a way that is not known here, and without it the KV would be a guess: `import gguf` of the model's file counts it"
                );
                return Err((line, text));
            }
            doubts.push((
                line,
                format!(
                    "`{path}` looks as if it told layers apart and is not known here: the KV is counted without it"
                ),
            ));
        }
        Ok(doubts)
    }
}

/// Whether a key's name is a marker's: it speaks of attention, layers or blocks and of which ones.
fn marks(key: &str) -> bool {
    let key = key.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| key.contains(word));
    let other = [
        "moe", "mlp", "expert", "ffn", "norm", "vision", "visual", "mm_", "quant",
    ];
    let what = ["attn", "attention", "block", "layer", "hybrid", "mixer"];
    let which = [
        "pattern", "type", "period", "offset", "indices", "indexes", "idx", "interval", "_ids",
        "config", "_list",
    ];
    !has(&other) && (key.contains("multi_query") || (has(&what) && has(&which)))
}
