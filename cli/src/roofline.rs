//! `crossinfer roofline`: profiles of a chip and a model that nobody has measured together.

use std::fs;
use std::io::BufReader;
use std::path::PathBuf;

use clap::Args;
use profiles::import::{Kind, Options, Source, gguf, hf_config, import};
use profiles::roofline::shape::DATA_TYPES;
use profiles::roofline::{Chip, Efficiencies, Shape, chip, profile};

use crate::failure::{Failure, print, say};
use crate::import::{open, processor, report, size};
use crate::options::read;
use crate::target::{Held, Target};

/// Derive a profile from a chip's datasheet and a model's file.
///
/// Time and DRAM bytes of every stage by a roofline, with efficiencies fitted on chips that have been
/// measured and their spread as intervals (docs/plan.md). What the chip cannot do is said: a data type
/// that an engine lacks, weights beyond its addresses or the memory. Without --out it prints the costs.
/// Exit status 1 if no engine can run the model.
#[derive(Debug, Args)]
#[command(
    after_long_help = "Example:\n  crossinfer roofline rk3576 config.json --type w4a16 --frame 448x448 --out profiles/"
)]
pub(crate) struct Arguments {
    /// Chip: a key of profiles/src/roofline/chips.toml, or of --chips.
    #[arg(value_name = "CHIP")]
    chip: String,

    /// Model: its config.json or GGUF file.
    #[arg(value_name = "MODEL")]
    model: PathBuf,

    /// Data type of the weights, as `w8a8`, `w4a16`, `q4_0`, `q4_k_m`, `f16`; of a
    /// GGUF file its own.
    #[arg(long = "type", value_name = "TYPE")]
    datatype: Option<String>,

    /// Runtime of the NPU, whose efficiency is taken.
    #[arg(long, value_name = "NAME", default_value = "rkllm")]
    runtime: String,

    /// Key of the model [default: after its name].
    #[arg(long, value_name = "KEY")]
    key: Option<String>,

    /// Width and height of a frame, pixels.
    #[arg(long, value_name = "WxH", value_parser = size)]
    frame: Option<(u32, u32)>,

    /// Visual tokens of a frame, of a model whose files do not say.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    tokens_per_frame: Option<u32>,

    /// Datasheet figures of chips (TOML), instead of those that come with crossinfer.
    #[arg(long, value_name = "FILE")]
    chips: Option<PathBuf>,

    /// Folder that profiles are written to, laid out as `profiles/` is.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Replace files that are there.
    #[arg(long, requires = "out")]
    force: bool,
}

pub(crate) fn main(arguments: &Arguments) -> Result<(), Failure> {
    let own = arguments.chips.as_ref().map(|path| {
        chip::parse(&read(path)?).map_err(|error| {
            Failure::usage(
                format!("`{}`: {error}", path.display()),
                "profiles/src/roofline/chips.toml is the layout",
            )
        })
    });
    let own = own.transpose()?;
    let chips = own.as_deref().unwrap_or_else(|| chip::shipped());
    let chip = Chip::find(chips, &arguments.chip).ok_or_else(|| {
        let keys: Vec<&str> = chips.iter().map(|chip| chip.key.as_str()).collect();
        Failure::usage(
            format!("no datasheet of chip `{}`", arguments.chip),
            format!(
                "there are {}; more in a file of your own: --chips",
                keys.join(", ")
            ),
        )
    })?;
    let options = Options {
        frame: arguments.frame,
        tokens_per_frame: arguments.tokens_per_frame,
        model: arguments.key.clone(),
        ..Options::default()
    };
    let (shape, datatype, kind) = model(arguments, &options)?;
    let key = arguments.key.clone().unwrap_or_else(|| plain(&shape.name));
    let costs = profile::costs(
        chip,
        &key,
        &shape,
        &datatype,
        &arguments.runtime,
        Efficiencies::shipped(),
    );
    for remark in &costs.remarks {
        say(remark);
    }
    if costs.able == 0 {
        return Err(Failure::No);
    }
    let Some(out) = &arguments.out else {
        return print(&costs.toml);
    };
    let mut held = Held(vec![
        (
            format!("{}/soc.toml", chip.key),
            profile::soc(chip).into_bytes(),
        ),
        (format!("{}/{key}.toml", chip.key), costs.toml.into_bytes()),
    ]);
    // The model's own profile, as `import` writes it, at the precision of this data type.
    let bits = shape.weights(&datatype).map(|bytes| {
        let tables = if shape.tied { 1.0 } else { 2.0 };
        8.0 * bytes / (shape.stored + tables * shape.head)
    });
    let options = Options {
        model: Some(key),
        weight_bits: bits,
        ..options
    };
    let mut sources = Vec::new();
    open(&arguments.model, &mut sources)?;
    if let Some(beside) = processor(&arguments.model).filter(|_| kind == Kind::HfConfig) {
        open(&beside, &mut sources)?;
    }
    let notes = import(kind, sources, &options, &mut held).map_err(Failure::internal)?;
    let mut target = Target::new(Some(out), arguments.force);
    if notes.wrote == 0 {
        report(&notes, &target);
        return Err(Failure::Reported);
    }
    target.write_all(&held.0)?;
    report(&notes, &target);
    Ok(())
}

fn model(arguments: &Arguments, options: &Options) -> Result<(Shape, String, Kind), Failure> {
    let path = &arguments.model;
    let name = path.to_string_lossy().into_owned();
    let help = "give the model's config.json or GGUF file";
    if path
        .extension()
        .is_some_and(|extension| extension == "gguf")
    {
        let file = fs::File::open(path)
            .map_err(|error| Failure::usage(format!("`{name}` cannot be read: {error}"), help))?;
        let (shape, own) = gguf::shape(Source::new(name, BufReader::new(file)))
            .map_err(|error| Failure::usage(error, help))?;
        let datatype = arguments.datatype.clone().unwrap_or(own);
        return Ok((shape, datatype, Kind::Gguf));
    }
    let beside = processor(path).map(|path| read(&path)).transpose()?;
    let shape = hf_config::shape(&name, &read(path)?, beside.as_deref(), options)
        .map_err(|error| Failure::usage(error, help))?;
    let Some(datatype) = arguments.datatype.clone() else {
        return Err(Failure::usage(
            "the data type of the weights is missing",
            format!("as in `--type w8a8`; there are {DATA_TYPES}"),
        ));
    };
    Ok((shape, datatype, Kind::HfConfig))
}

/// A name as a key.
fn plain(name: &str) -> String {
    let kept = name.to_lowercase();
    let kept = kept.replace(
        |c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '-'),
        "-",
    );
    kept.trim_matches('-').to_owned()
}
