//! `crossinfer import`: files that people already have become profiles, models and traces.

use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use profiles::import::{self, NoteKind, Notes, Options, Source};

use crate::failure::{Failure, say};
use crate::target::Target;

/// Turn benchmark logs, model files and traces into profiles, models and traces.
///
/// What was read, what was skipped and why goes to standard error, by line; results go to standard output or
/// to --out. Rows of different boards, clocks, builds, quantisations, back ends or settings are different
/// things: one file each, or chosen by --only. Exit status 1 if values contradict each other (neither is used),
/// 2 if nothing can be made of the input.
#[derive(Debug, Args)]
#[command(
    after_long_help = "Examples:\n  crossinfer import llama-bench posts/ --soc rk3588 --out profiles/\n  \
                       llama-bench -m m.gguf -o json | crossinfer import llama-bench - --measured"
)]
pub(crate) struct Arguments {
    /// Kind of file.
    #[arg(value_enum, value_name = "KIND")]
    kind: Name,

    /// Files, folders of such files, or - for standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// File to write, or a folder for all results; existing files are replaced only
    /// with --force.
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,

    /// Replace files that exist.
    #[arg(long)]
    force: bool,

    /// Key of the `SoC`, instead of the name in the files.
    #[arg(long, value_name = "KEY")]
    soc: Option<String>,

    /// Key of the model, instead of the name in the files.
    #[arg(long, value_name = "KEY")]
    model: Option<String>,

    /// Engine that ran what was measured, instead of the back end's.
    #[arg(long, value_name = "NAME")]
    engine: Option<String>,

    /// Stage that an ONNX Runtime or AI Hub network is.
    #[arg(long, value_name = "NAME")]
    stage: Option<String>,

    /// Keep only what has this value, such as threads=4, or none (`section=`); may be
    /// repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    only: Vec<(String, String)>,

    /// Put together what differs in nothing but this; may be repeated.
    #[arg(long, value_name = "KEY")]
    ignore: Vec<String>,

    /// Size of a frame in pixels, such as 448x448, where its tokens depend on it.
    #[arg(long, value_name = "WxH", value_parser = size)]
    frame: Option<(u32, u32)>,

    /// Visual tokens of a frame.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    tokens_per_frame: Option<u32>,

    /// Bits of a weight with its scales, where a configuration does not say.
    #[arg(long, value_name = "BITS", value_parser = bits)]
    weight_bits: Option<f64>,

    /// Import a trace without its faulty rows, which otherwise refuse it: it then has
    /// fewer arrivals than were recorded.
    #[arg(long)]
    skip_bad_rows: bool,

    /// These are measurements of your own: origins say `measured`.
    #[arg(long)]
    measured: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Name {
    /// llama.cpp's llama-bench: tables, CSV, JSON, JSONL, SQL, also within posts.
    LlamaBench,
    /// Benchmark and multimodal tables of RKLLM.
    Rkllm,
    /// perf.yaml of Qualcomm AI Hub.
    AiHub,
    /// Profiling JSON of ONNX Runtime.
    OrtProfile,
    /// Headers of GGUF model files.
    Gguf,
    /// Hugging Face config.json.
    HfConfig,
    /// Arrivals: Azure, `BurstGPT`, Mooncake, Vidur, `LLMServingSim`, `StreamingBench`, OVO-Bench.
    Trace,
    /// sbc-bench, tinymembench, mbw, STREAM, `BabelStream`.
    Bandwidth,
}

pub(crate) fn main(arguments: &Arguments) -> Result<(), Failure> {
    let kind = match arguments.kind {
        Name::LlamaBench => import::Kind::LlamaBench,
        Name::Rkllm => import::Kind::Rkllm,
        Name::AiHub => import::Kind::AiHub,
        Name::OrtProfile => import::Kind::OrtProfile,
        Name::Gguf => import::Kind::Gguf,
        Name::HfConfig => import::Kind::HfConfig,
        Name::Trace => import::Kind::Trace,
        Name::Bandwidth => import::Kind::Bandwidth,
    };
    let options = Options {
        soc: arguments.soc.clone(),
        model: arguments.model.clone(),
        engine: arguments.engine.clone(),
        stage: arguments.stage.clone(),
        only: arguments.only.clone(),
        ignore: arguments.ignore.clone(),
        frame: arguments.frame,
        tokens_per_frame: arguments.tokens_per_frame,
        weight_bits: arguments.weight_bits,
        weight_bits_by: None,
        skip_bad_rows: arguments.skip_bad_rows,
        ours: arguments.measured,
    };
    let mut sources = Vec::new();
    for path in &arguments.files {
        open(path, &mut sources)?;
        if matches!(kind, import::Kind::HfConfig)
            && let Some(beside) = processor(path)
            && !arguments.files.contains(&beside)
        {
            open(&beside, &mut sources)?;
        }
    }
    let mut target = Target::new(arguments.out.as_deref(), arguments.force);
    let notes = import::import(kind, sources, &options, &mut target)
        .and_then(|notes| target.commit().map(|()| notes))
        .map_err(|error| Failure::write(target.shown(), &error))?;
    report(&notes, &target);
    if notes.any(NoteKind::Conflict) {
        Err(Failure::No)
    } else if notes.wrote == 0 {
        Err(Failure::Reported)
    } else {
        Ok(())
    }
}

/// Says every note, and what was written.
pub(crate) fn report(notes: &Notes, target: &Target) {
    for note in &notes.list {
        say(&note.to_string());
    }
    if notes.unlisted() > 0 {
        say(&format!("and {} more remarks", notes.unlisted()));
    }
    for path in target.written() {
        say(&format!("wrote: {}", path.display()));
    }
}

/// The `preprocessor_config.json` beside a `config.json`, where there is one.
pub(crate) fn processor(config: &Path) -> Option<PathBuf> {
    let plain = config.file_name().is_some_and(|name| name == "config.json");
    let beside = config.with_file_name("preprocessor_config.json");
    (plain && beside.is_file()).then_some(beside)
}

/// Adds a file, or the files of a folder in the order of their names.
pub(crate) fn open(path: &Path, sources: &mut Vec<Source>) -> Result<(), Failure> {
    if path == Path::new("-") {
        sources.push(Source::new("-", BufReader::new(io::stdin())));
        return Ok(());
    }
    let failed = |error: io::Error| {
        Failure::usage(
            format!("`{}` cannot be read: {error}", path.display()),
            "give the path of a file or folder, or - for standard input",
        )
    };
    if path.is_dir() {
        let entries = fs::read_dir(path).map_err(failed)?;
        let mut inside: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        inside.sort();
        let files = inside.iter().filter(|path| {
            let name = path.file_name().map(|name| name.to_string_lossy());
            !name.is_some_and(|name| name.starts_with('.'))
        });
        for file in files {
            // A link may lead back up.
            if !(file.is_dir() && file.is_symlink()) {
                open(file, sources)?;
            }
        }
        return Ok(());
    }
    let file = File::open(path).map_err(failed)?;
    sources.push(Source::new(
        path.to_string_lossy(),
        BufReader::with_capacity(1 << 16, file),
    ));
    Ok(())
}

fn pair(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let (key, value) = parts.ok_or("give a key and a value, such as threads=4")?;
    Ok((key.to_owned(), value.to_owned()))
}

pub(crate) fn size(text: &str) -> Result<(u32, u32), String> {
    let side = |text: &str| {
        text.parse::<u32>()
            .ok()
            .filter(|side| (1..=65536).contains(side))
    };
    text.split_once('x')
        .and_then(|(width, height)| Some((side(width)?, side(height)?)))
        .ok_or_else(|| "give width and height in pixels, such as 448x448".to_owned())
}

fn bits(text: &str) -> Result<f64, String> {
    let bits = text
        .parse::<f64>()
        .ok()
        .filter(|bits| (0.5..=64.0).contains(bits));
    bits.ok_or_else(|| "give a number from 0.5 to 64, such as 4.5".to_owned())
}
