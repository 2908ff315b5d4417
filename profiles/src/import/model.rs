//! What a model file comes down to, and the profile that is written of it.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::note::{NoteKind, Notes};
use super::text::{BYTES_MAX, slug};
use super::toml_text::{comment, number, origin, quantity, string};
use super::{Options, Output};

/// A number with how it was had.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Known {
    /// The number.
    pub(crate) value: f64,
    /// What it may be instead.
    pub(crate) interval: Option<(f64, f64)>,
    /// How it was had.
    pub(crate) how: String,
}

impl Known {
    pub(crate) fn new(value: f64, how: impl Into<String>) -> Self {
        Self {
            value,
            interval: None,
            how: how.into(),
        }
    }
}

/// How the layers of a language model keep their context.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Layers {
    /// Bytes a token of each layer whose KV grows with the context.
    pub(crate) growing: Vec<f64>,
    /// Bytes a token of each layer that keeps a window, and the window in tokens.
    pub(crate) windowed: Vec<(f64, u64)>,
    /// Layers that keep a state of fixed size, and its bytes together; 0 where the file does not tell.
    pub(crate) fixed: (u64, f64),
    /// Layers that keep the KV of pictures alone.
    pub(crate) pictures: u64,
    /// Layers that use another layer's KV.
    pub(crate) shared: u64,
    /// What is not certain.
    pub(crate) doubt: Option<String>,
}

impl Layers {
    /// KV bytes that each further token costs once every window is full; up to the smallest window, each costs
    /// the windowed layers' as well, which is the upper end.
    fn kv(&self) -> Option<Known> {
        let growing: f64 = self.growing.iter().sum();
        let windowed: f64 = self.windowed.iter().map(|(bytes, _)| bytes).sum();
        let mut how = format!(
            "{} layers keep the KV of every token (16-bit)",
            self.growing.len()
        );
        if let Some(window) = self.windowed.iter().map(|(_, window)| *window).max() {
            let held: f64 = self
                .windowed
                .iter()
                .map(|(bytes, window)| bytes * *window as f64)
                .sum();
            _ = write!(
                how,
                "; {} keep a window of {window} tokens, {} bytes at most in all, {}",
                self.windowed.len(),
                number(held),
                if growing > 0.0 {
                    "which are not in this number and are its upper end"
                } else {
                    "and no other grows: the number is what a token costs until the window is full, and none beyond"
                }
            );
        }
        if self.fixed.0 > 0 && self.fixed.1 <= 0.0 {
            _ = write!(
                how,
                "; {} keep a state of fixed size, whose bytes the file does not tell and which are not in this number",
                self.fixed.0
            );
        } else if self.fixed.0 > 0 {
            _ = write!(
                how,
                "; {} keep a state of fixed size, {} bytes a context, which is not in this number",
                self.fixed.0,
                number(self.fixed.1)
            );
        }
        if self.pictures > 0 {
            _ = write!(
                how,
                "; {} attend to the picture alone, whose KV does not grow with the text and is not in this number",
                self.pictures
            );
        }
        if self.shared > 0 {
            _ = write!(how, "; {} use another layer's", self.shared);
        }
        if let Some(doubt) = &self.doubt {
            _ = write!(how, "; {doubt}");
        }
        // Windows alone: a long context costs nothing more, a short one all of it.
        let (value, low) = if growing > 0.0 {
            (growing, growing)
        } else {
            (windowed, 0.0)
        };
        let interval = (windowed > 0.0).then_some((low, growing + windowed));
        (value > 0.0 && value.is_finite()).then_some(Known {
            value,
            interval,
            how,
        })
    }
}

/// A model, as far as files tell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) name: String,
    /// The file that told.
    pub(crate) file: String,
    /// The file that told of the vision tower, where it is another one.
    pub(crate) tower_file: Option<String>,
    pub(crate) layers: Layers,
    pub(crate) weights: Option<Known>,
    pub(crate) vision_weights: Option<Known>,
    pub(crate) tokens_per_frame: Option<Known>,
    pub(crate) max_context: Option<Known>,
    /// Numbers of a token's embedding: of the model's, or of those that a projector makes.
    pub(crate) width: Option<f64>,
    /// Whether it has a vision tower at all.
    pub(crate) sees: bool,
    /// How to supply a missing number of tokens a frame, of a model that has a vision tower.
    pub(crate) tokens_from: Cow<'static, str>,
    /// How to supply a missing weight size.
    pub(crate) weights_from: Cow<'static, str>,
}

/// Tokens beyond which a file is not to be believed.
const TOKENS_MAX: f64 = 4_294_967_295.0;

/// The model profile of the facts.
pub(crate) fn output(facts: &Facts, options: &Options, notes: &mut Notes) -> Option<Output> {
    let key = options.model.clone().unwrap_or_else(|| slug(&facts.name));
    let Some(kv) = facts.layers.kv() else {
        notes.refuse(
            &facts.file,
            None,
            "no layer keeps a KV, so this is no language model with attention",
        );
        return None;
    };
    let frame = options
        .tokens_per_frame
        .map(|tokens| Known::new(f64::from(tokens), "Given by `--tokens-per-frame`"))
        .or_else(|| facts.tokens_per_frame.clone());
    if let (Some(given), Some(known)) = (options.tokens_per_frame, &facts.tokens_per_frame)
        && f64::from(given) != known.value
    {
        let text = format!(
            "`--tokens-per-frame {given}` is used instead of the {} that the file tells: {}",
            number(known.value),
            known.how
        );
        let file = facts.tower_file.as_ref().unwrap_or(&facts.file);
        notes.add(NoteKind::Warning, file, None, text);
    }
    let tower_file = facts.tower_file.as_ref().unwrap_or(&facts.file);
    let fields = [
        (
            "weights_bytes",
            &facts.weights,
            BYTES_MAX,
            facts.weights_from.as_ref(),
        ),
        ("kv_bytes_per_token", &Some(kv), BYTES_MAX, ""),
        (
            "visual_tokens_per_frame",
            &frame,
            TOKENS_MAX,
            if facts.sees {
                facts.tokens_from.as_ref()
            } else {
                "this is a language model without vision: its projector's file (`mmproj-*.gguf`, or the config.json with `vision_config`) beside it, or `--tokens-per-frame N`"
            },
        ),
        (
            "max_context_tokens",
            &facts.max_context,
            TOKENS_MAX,
            "the model's config.json states it (`max_position_embeddings`)",
        ),
    ];
    let mut text = format!("name = {}\n", string(&facts.name));
    let mut origins = String::new();
    for (name, known, most, from) in fields {
        let known = known
            .as_ref()
            .filter(|known| known.value >= 1.0 && known.value <= most);
        let Some(known) = known else {
            let note = format!("`{name}`: {from}");
            text += &comment(&format!("missing: {name}: {from}"));
            notes.add(NoteKind::Missing, &facts.file, None, note);
            continue;
        };
        let file = if name == "visual_tokens_per_frame" {
            tower_file
        } else {
            &facts.file
        };
        field(&mut text, &mut origins, name, known, file);
        said(name, known, file, notes);
    }
    if let Some(known) = facts
        .vision_weights
        .as_ref()
        .filter(|known| known.value <= BYTES_MAX)
    {
        field(
            &mut text,
            &mut origins,
            "vision_weights_bytes",
            known,
            tower_file,
        );
        said("vision_weights_bytes", known, tower_file, notes);
    }
    text += "\n# The usual stages; a projector of its own would be one more.\n\
             frame_stages = [\n  { name = \"encode\", kind = \"encode\" },\n  \
             { name = \"ingest\", kind = \"ingest\", after = [\"encode\"] },\n]\n\
             query_stages = [\n  { name = \"query_prefill\", kind = \"query_prefill\" },\n  \
             { name = \"decode\", kind = \"decode\", after = [\"query_prefill\"] },\n]\n";
    Some(Output {
        name: format!("models/{}.toml", slug(&key)),
        identity: format!("{key} ({})", facts.file),
        text: text + &origins,
        aside: false,
    })
}

/// Says what a number was had from.
fn said(name: &str, known: &Known, file: &str, notes: &mut Notes) {
    let text = format!("`{name}` {}: {}", number(known.value.round()), known.how);
    notes.add(NoteKind::Read, file, None, text);
}

fn field(text: &mut String, origins: &mut String, name: &str, known: &Known, file: &str) {
    let rounded = Known {
        value: known.value.round(),
        interval: known.interval.map(|(low, high)| (low.floor(), high.ceil())),
        how: known.how.clone(),
    };
    _ = writeln!(
        text,
        "{name} = {}",
        quantity(rounded.value, name, rounded.interval)
    );
    *origins += &origin(name, "derived", file, &known.how);
}
