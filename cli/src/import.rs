//! `crossinfer import`: files that people already have become profiles, models and traces.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use profiles::import::{self, NoteKind, Notes, Options, Sink, Source};

use crate::failure::{Failure, say};

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

    /// Keep only what has this value, such as threads=4; may be repeated.
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
    /// sbc-bench, tinymembench, STREAM.
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
        ours: arguments.measured,
    };
    let mut sources = Vec::new();
    for path in &arguments.files {
        open(path, &mut sources)?;
    }
    let mut target = Target::new(arguments.out.as_deref(), arguments.force);
    let notes = import::import(kind, sources, &options, &mut target)
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
    for path in &target.written {
        say(&format!("wrote: {}", path.display()));
    }
}

/// Adds a file, or the files of a folder in the order of their names.
fn open(path: &Path, sources: &mut Vec<Source>) -> Result<(), Failure> {
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

/// Standard output, a file, or a folder.
pub(crate) struct Target {
    out: Option<PathBuf>,
    folder: bool,
    force: bool,
    written: Vec<PathBuf>,
}

impl Target {
    pub(crate) fn new(out: Option<&Path>, force: bool) -> Self {
        let is_file = |path: &Path| {
            let named = path
                .extension()
                .is_some_and(|end| end == "toml" || end == "csv");
            path.is_file() || (named && !path.is_dir())
        };
        Self {
            out: out.map(Path::to_owned),
            folder: out.is_some_and(|path| !is_file(path)),
            force,
            written: Vec::new(),
        }
    }

    pub(crate) fn shown(&self) -> String {
        let out = self.written.last().or(self.out.as_ref());
        out.map_or_else(
            || "standard output".to_owned(),
            |path| path.display().to_string(),
        )
    }

    /// Writes all files or, if one of them is there with other content, none; those that are there as they are stay.
    pub(crate) fn write_all(&mut self, files: &[(String, Vec<u8>)]) -> Result<(), Failure> {
        let mut changed = Vec::new();
        for (name, bytes) in files {
            let path = self.path(name);
            let there = path.as_ref().and_then(|path| fs::read(path).ok());
            match (path, there) {
                (Some(path), Some(there)) if there == *bytes => {
                    say(&format!("unchanged: {}", path.display()));
                }
                (Some(path), Some(_)) if !self.force => {
                    return Err(Failure::usage(
                        format!(
                            "`{}` exists with other content; nothing is written",
                            path.display()
                        ),
                        "add --force to replace it, or give another --out",
                    ));
                }
                _ => changed.push((name, bytes)),
            }
        }
        for (name, bytes) in changed {
            let written = self.create(name).and_then(|mut file| {
                file.write_all(bytes)?;
                file.flush()
            });
            written.map_err(|error| Failure::write(self.shown(), &error))?;
        }
        Ok(())
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        let out = self.out.as_ref()?;
        Some(if self.folder {
            out.join(name)
        } else {
            out.clone()
        })
    }
}

impl Sink for Target {
    fn many(&self) -> bool {
        self.folder
    }

    fn create(&mut self, name: &str) -> io::Result<Box<dyn Write + '_>> {
        let Some(path) = self.path(name) else {
            return Ok(Box::new(BufWriter::new(io::stdout().lock())));
        };
        self.written.push(path.clone());
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let file = if self.force {
            File::create(&path)
        } else {
            File::create_new(&path)
        };
        let file = file.map_err(|error| {
            if error.kind() == io::ErrorKind::AlreadyExists {
                io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    "it exists; add --force to replace it",
                )
            } else {
                error
            }
        })?;
        Ok(Box::new(BufWriter::new(file)))
    }

    fn discard(&mut self, name: &str) -> io::Result<()> {
        let Some(path) = self.path(name) else {
            // What is on the screen stays there; the exit status says that it is not whole.
            return Ok(());
        };
        self.written.retain(|written| *written != path);
        fs::remove_file(path)
    }
}

/// Results held back until all of them are there.
#[derive(Default)]
pub(crate) struct Held(pub(crate) Vec<(String, Vec<u8>)>);

impl Sink for Held {
    fn many(&self) -> bool {
        true
    }

    fn create(&mut self, name: &str) -> io::Result<Box<dyn Write + '_>> {
        self.0.push((name.to_owned(), Vec::new()));
        match self.0.last_mut() {
            Some((_, bytes)) => Ok(Box::new(bytes)),
            None => Err(io::Error::other("it was just added")),
        }
    }

    fn discard(&mut self, name: &str) -> io::Result<()> {
        self.0.retain(|(known, _)| known != name);
        Ok(())
    }
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
