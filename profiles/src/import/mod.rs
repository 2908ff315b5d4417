//! Importers: what people already have becomes profiles, models and traces.
//!
//! An importer never guesses. It says what it read, what it skipped and why, by file and line. Rates become
//! times. Rows of different boards, clocks, builds, quantisations, back ends or thread counts are different
//! things and never meet in one profile. Two values for one thing are shown, and neither is used.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead, Write};

pub mod ai_hub;
pub mod bandwidth;
pub(crate) mod costs;
mod fit;
pub mod gguf;
mod headings;
pub mod hf_config;
pub mod llama_bench;
mod markdown;
mod model;
mod note;
mod open;
pub mod ort_profile;
pub mod rkllm;
mod row;
pub(crate) mod stated;
mod stats;
#[cfg(test)]
mod tests;
pub(crate) mod text;
mod toml_text;
pub mod trace;
mod yaml;

pub use note::{Note, NoteKind, Notes};
pub use row::{Identity, Place, Row, Spread, Test};
pub use stats::{Trend, trend};

/// Kind of file to import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// llama.cpp's llama-bench in any of its five formats, and logs and posts that hold its tables.
    LlamaBench,
    /// RKLLM benchmark tables and multimodal stage tables.
    Rkllm,
    /// Qualcomm AI Hub `perf.yaml`.
    AiHub,
    /// ONNX Runtime profiling JSON.
    OrtProfile,
    /// GGUF model files; headers only.
    Gguf,
    /// Hugging Face `config.json`.
    HfConfig,
    /// Recorded arrivals of requests.
    Trace,
    /// Memory bandwidth: sbc-bench, STREAM and the like.
    Bandwidth,
}

impl Kind {
    /// The word that the command takes for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::LlamaBench => "llama-bench",
            Self::Rkllm => "rkllm",
            Self::AiHub => "ai-hub",
            Self::OrtProfile => "ort-profile",
            Self::Gguf => "gguf",
            Self::HfConfig => "hf-config",
            Self::Trace => "trace",
            Self::Bandwidth => "bandwidth",
        }
    }
}

/// A file, or standard input.
pub struct Source {
    /// Its name, for messages and origins.
    pub name: String,
    /// What it holds.
    pub reader: Box<dyn BufRead>,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Source {
    /// A source of this name and content.
    pub fn new(name: impl Into<String>, reader: impl BufRead + 'static) -> Self {
        Self {
            name: name.into(),
            reader: Box::new(reader),
        }
    }
}

/// What the user knows beyond the files.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Key of the SoC.
    pub soc: Option<String>,
    /// Key of the model.
    pub model: Option<String>,
    /// Name of the engine that ran what was measured.
    pub engine: Option<String>,
    /// Name of the stage that an ONNX Runtime profile or an AI Hub model is.
    pub stage: Option<String>,
    /// Identities to keep: all that have this value for this key (letter case does not matter).
    pub only: Vec<(String, String)>,
    /// Keys that make no difference to the user; rows that differ in nothing else are put together.
    pub ignore: Vec<String>,
    /// Width and height of a frame, pixels.
    pub frame: Option<(u32, u32)>,
    /// Visual tokens of a frame.
    pub tokens_per_frame: Option<u32>,
    /// Bits of a weight, where the file states the parameters but not their precision.
    pub weight_bits: Option<f64>,
    /// What states these bits; `None`: the option `--weight-bits`.
    pub weight_bits_by: Option<String>,
    /// Whether a trace is imported without its faulty rows; otherwise one of them refuses it.
    pub skip_bad_rows: bool,
    /// Whether the user measured this, so that origins say `measured` rather than `published`.
    pub ours: bool,
}

/// Where results go.
pub trait Sink {
    /// Whether more than one file can be taken.
    fn many(&self) -> bool;

    /// Opens the file `name`, a relative path such as `rk3588/qwen2-0.5b-w8a8.toml`.
    fn create(&mut self, name: &str) -> io::Result<Box<dyn Write + '_>>;

    /// Takes back what was written to `name`: its input turned out faulty.
    fn discard(&mut self, name: &str) -> io::Result<()>;
}

/// A finished text.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    /// Relative path.
    pub(crate) name: String,
    /// What tells it from the others, for the user to choose by.
    pub(crate) identity: String,
    /// Its TOML.
    pub(crate) text: String,
    /// Written only beside others, never alone (costs of a cold start).
    pub(crate) aside: bool,
}

/// Imports `sources` and gives what comes out to `sink`.
///
/// Faults of the input are notes: [`Notes::wrote`] tells whether anything came out.
///
/// # Errors
///
/// Only where `sink` fails.
pub fn import(
    kind: Kind,
    sources: Vec<Source>,
    options: &Options,
    sink: &mut dyn Sink,
) -> io::Result<Notes> {
    let mut notes = Notes::default();
    if !named(options, &mut notes) {
        return Ok(notes);
    }
    let sources = open::all(kind, sources, &mut notes);
    if sources.is_empty() && notes.any(NoteKind::Refused) {
        return Ok(notes);
    }
    let outputs = match kind {
        Kind::Trace => {
            trace::import(sources, options, sink, &mut notes)?;
            return Ok(notes);
        }
        Kind::LlamaBench => costs::outputs(
            text::each(sources, &mut notes, llama_bench::read),
            options,
            &mut notes,
        ),
        Kind::Rkllm => costs::outputs(
            text::each(sources, &mut notes, rkllm::read),
            options,
            &mut notes,
        ),
        Kind::AiHub => costs::outputs(
            text::each(sources, &mut notes, ai_hub::read),
            options,
            &mut notes,
        ),
        Kind::OrtProfile => {
            let mut rows = Vec::new();
            for source in sources {
                rows.extend(ort_profile::read(source, &mut notes));
            }
            costs::outputs(rows, options, &mut notes)
        }
        Kind::Gguf => gguf::import(sources, options, &mut notes),
        Kind::HfConfig => hf_config::import(sources, options, &mut notes),
        Kind::Bandwidth => bandwidth::import(sources, options, &mut notes),
    };
    write(outputs, sink, &mut notes)?;
    Ok(notes)
}

/// Whether the names that were given can be a profile's; says where its file's is another.
fn named(options: &Options, notes: &mut Notes) -> bool {
    let mut fine = true;
    for (option, name) in [("--soc", &options.soc), ("--model", &options.model)] {
        let Some(name) = name else {
            continue;
        };
        let key = text::slug(name);
        if !name.is_ascii() || !name.contains(|c: char| c.is_ascii_alphanumeric()) {
            let text = format!(
                "`{option} '{}'` is no key of a profile: write letters a to z, digits, `.` and `-`, as `rk3588`",
                text::short(name)
            );
            notes.refuse("", None, text);
            fine = false;
        } else if key != *name {
            let text = format!(
                "`{option} '{}'`: in file names it is `{key}`",
                text::short(name)
            );
            notes.add(NoteKind::Warning, "", None, text);
        }
    }
    fine
}

/// The outputs without those of which several would be one file: none of these is written over another.
fn apart(outputs: Vec<Output>, notes: &mut Notes) -> Vec<Output> {
    let mut alike: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for output in &outputs {
        let things = alike.entry(output.name.clone()).or_default();
        things.push(output.identity.clone());
    }
    alike.retain(|_, things| things.len() > 1);
    for (name, things) in &alike {
        one_name(name, things, "`--model KEY` or `--soc KEY`", notes);
    }
    let mut outputs = outputs;
    outputs.retain(|output| !alike.contains_key(&output.name));
    outputs
}

/// Says that several things would be one file.
fn one_name(name: &str, things: &[String], keys: &str, notes: &mut Notes) {
    let more = things.len().saturating_sub(8);
    let text = format!(
        "`{name}` would be the file of {} things, and none of them is written: import them apart, with {keys}:\n    {}{}",
        things.len(),
        things[..things.len() - more].join("\n    "),
        match more {
            0 => String::new(),
            more => format!("\n    and {more} more"),
        }
    );
    notes.add(NoteKind::Conflict, "", None, text);
}

fn write(outputs: Vec<Output>, sink: &mut dyn Sink, notes: &mut Notes) -> io::Result<()> {
    let outputs = if sink.many() {
        apart(outputs, notes)
    } else {
        outputs
    };
    let main = outputs.iter().filter(|output| !output.aside).count();
    if main > 1 && !sink.many() {
        let list: Vec<&str> = outputs
            .iter()
            .filter(|output| !output.aside)
            .map(|output| output.identity.as_str())
            .collect();
        notes.add(
            NoteKind::Refused,
            "",
            None,
            format!(
                "these are {main} different things, and none is written: give `--out FOLDER` for all, or \
                 choose with `--only KEY=VALUE`:\n    {}",
                list.join("\n    ")
            ),
        );
        return Ok(());
    }
    for output in outputs {
        if output.aside && !sink.many() {
            notes.add(
                NoteKind::Warning,
                "",
                None,
                format!(
                    "`{}` is written only to a folder: `--out FOLDER`",
                    output.name
                ),
            );
            continue;
        }
        sink.create(&output.name)?
            .write_all(output.text.as_bytes())?;
        notes.wrote += 1;
    }
    Ok(())
}
