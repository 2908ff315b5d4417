//! `crossinfer roofline`: profiles of a chip and a model that nobody has measured together, or not on every engine.

use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use clap::Args;
use profiles::import::{Kind, Options, Source, gguf, hf_config, import};
use profiles::roofline::joined::Measured;
use profiles::roofline::profile::{Asked, Costs};
use profiles::roofline::shape::DATA_TYPES;
use profiles::roofline::{Chip, Efficiencies, Shape, bandwidth, chip, profile, soc};

use crate::failure::{Failure, print, say};
use crate::import::{open, processor, report, size};
use crate::options::read;
use crate::target::{Held, Target};

/// Derive a profile from a chip's datasheet and a model's file.
///
/// Time and DRAM bytes of every stage by a roofline, with efficiencies fitted on chips that have been
/// measured and their spread as intervals (docs/plan.md). What was measured of this chip and model takes the
/// place of what is derived, per engine and stage (--measured). What the chip cannot do is said: a data type
/// that an engine lacks, weights beyond its addresses or the memory. Without --out it prints the costs.
/// Exit status 1 if no engine can run the model, or if measured values contradict each other.
#[derive(Debug, Args)]
#[command(
    after_long_help = "Examples:\n  crossinfer roofline rk3576 config.json --type w4a16 --frame 448x448 --out profiles/\n  \
                       crossinfer roofline rk3588 config.json model.gguf --key my-vlm \\\n    \
                       --measured measured/rk3588/my-vlm.toml --out profiles/"
)]
pub(crate) struct Arguments {
    /// Chip: a key of profiles/src/roofline/chips.toml, or of --chips.
    #[arg(value_name = "CHIP")]
    chip: String,

    /// Model: its config.json or GGUF file, or both: the shape and the vision tower
    /// of the one, the weights of the other.
    #[arg(value_name = "MODEL", required = true, num_args = 1..=2)]
    model: Vec<PathBuf>,

    /// Measured costs of this chip and model, or a SoC's measured bandwidth, as
    /// `crossinfer import` writes them, in place of what is derived; may be repeated.
    #[arg(long, value_name = "FILE")]
    measured: Vec<PathBuf>,

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
    if let Some(key) = arguments.key.as_ref().filter(|key| !chip::plain_key(key)) {
        return Err(Failure::usage(
            format!("`--key {key}` is no key of a model, which names its file"),
            "write letters a to z, digits, `.`, `-` and `_`, beginning with a letter or digit, as `my-vlm`",
        ));
    }
    let (shape, datatype, config) = model(arguments, &options)?;
    let key = arguments.key.clone().unwrap_or_else(|| plain(&shape.name));
    let asked = Asked {
        chip,
        key: &key,
        shape: &shape,
        datatype: &datatype,
        runtime: &arguments.runtime,
    };
    let (socs, files) = files(arguments)?;
    let measured = measured(&files, &asked, chips)?;
    let soc = with_bandwidth(&socs, chip, &measured, chips)?;
    let costs = costs(&measured, &asked)?;
    for (name, remark) in &costs.remarks {
        say(&format!("{name}: {remark}"));
    }
    if costs.able == 0 {
        return Err(Failure::No);
    }
    let Some(out) = &arguments.out else {
        return print(&costs.toml);
    };
    let mut held = Held(vec![
        (format!("{}/soc.toml", chip.key), soc.into_bytes()),
        (format!("{}/{key}.toml", chip.key), costs.toml.into_bytes()),
    ]);
    // The model's own profile, as `import` writes it, at the precision of this data type.
    let bits = shape.weights(&datatype).map(|bytes| {
        let tables = if shape.tied { 1.0 } else { 2.0 };
        8.0 * bytes / (shape.stored + tables * shape.head)
    });
    let options = Options {
        model: Some(key.clone()),
        weight_bits: bits,
        weight_bits_by: Some(weights_by(arguments, &datatype)),
        ..options
    };
    let mut sources = Vec::new();
    let kind = if let Some(config) = config {
        open(config, &mut sources)?;
        if let Some(beside) = processor(config) {
            open(&beside, &mut sources)?;
        }
        Kind::HfConfig
    } else {
        for path in &arguments.model {
            open(path, &mut sources)?;
        }
        Kind::Gguf
    };
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

/// What states the bits of a weight: the model's GGUF file, if the user did not choose another data type.
fn weights_by(arguments: &Arguments, datatype: &str) -> String {
    let mut files = arguments.model.iter();
    match files.find(|path| is_gguf(path)) {
        Some(file) if arguments.datatype.is_none() => {
            format!("the weights' bytes of `{}`", file.display())
        }
        _ => format!("`--type {datatype}`"),
    }
}

fn is_gguf(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "gguf")
}

/// A file's name and its text.
type Text = (String, String);

/// The measured files: SoC profiles, and costs.
fn files(arguments: &Arguments) -> Result<(Vec<Text>, Vec<Text>), Failure> {
    let mut files = Vec::new();
    for path in &arguments.measured {
        files.push((path.to_string_lossy().into_owned(), read(path)?));
    }
    let parted = files.into_iter();
    Ok(parted.partition(|(_, text)| bandwidth::is_soc(text)))
}

/// The SoC profile of the chip, with the bandwidth that was measured of it.
fn with_bandwidth(
    socs: &[Text],
    chip: &Chip,
    measured: &Measured,
    chips: &[Chip],
) -> Result<String, Failure> {
    let derived = soc::soc(chip, measured.threads());
    if socs.is_empty() {
        return Ok(derived);
    }
    let mut known = chips.to_vec();
    known.extend_from_slice(chip::shipped());
    let (text, remarks) = bandwidth::join(&derived, socs, chip, &known).map_err(|faults| {
        Failure::usage(
            faults.join("\n  "),
            "only bandwidth that was measured on this chip can stand beside its datasheet (docs/plan.md)",
        )
    })?;
    for remark in remarks {
        say(&remark);
    }
    Ok(text)
}

/// The measured costs, all of the chip and the model that are asked.
fn measured(files: &[Text], asked: &Asked<'_>, chips: &[Chip]) -> Result<Measured, Failure> {
    // Chips of the user's own do not tell what others are called.
    let mut known = chips.to_vec();
    known.extend_from_slice(chip::shipped());
    let measured = Measured::read(files, asked, &known).map_err(|faults| {
        Failure::usage(
            faults.join("\n  "),
            "only what was measured of this chip, clock, runtime, model and quantisation can stand beside what is derived of it (docs/plan.md)",
        )
    })?;
    for remark in &measured.remarks {
        say(&format!("warning: {remark}"));
    }
    Ok(measured)
}

/// What was measured, and what is derived beside it.
fn costs(measured: &Measured, asked: &Asked<'_>) -> Result<Costs, Failure> {
    let derived = profile::costs(asked, measured.threads(), Efficiencies::shipped());
    measured.join(derived, asked).map_err(|conflicts| {
        for conflict in conflicts {
            say(&format!("conflict: {conflict}"));
        }
        say("nothing is written: leave out the file that you do not mean");
        Failure::No
    })
}

/// The shape, the data type of the weights, and the `config.json` where there is one.
fn model<'a>(
    arguments: &'a Arguments,
    options: &Options,
) -> Result<(Shape, String, Option<&'a Path>), Failure> {
    let files = arguments.model.iter();
    let (files, configs): (Vec<_>, Vec<_>) = files.partition(|path| is_gguf(path));
    let help = "give the model's config.json, its GGUF file, or one of each";
    let (file, config) = match (files.as_slice(), configs.as_slice()) {
        ([], [config]) => (None, Some(*config)),
        ([file], []) => (Some(*file), None),
        ([file], [config]) => (Some(*file), Some(*config)),
        _ => return Err(Failure::usage("two files of one kind are two models", help)),
    };
    let shape = config
        .map(|path| of_config(path, options, help))
        .transpose()?;
    let vocabulary = shape.as_ref().map(|shape| shape.head / shape.hidden);
    let weights = file
        .map(|path| of_gguf(path, vocabulary, help))
        .transpose()?;
    let missing = || {
        Failure::usage(
            "the data type of the weights is missing",
            format!("as in `--type w8a8`; there are {DATA_TYPES}"),
        )
    };
    let own = weights.as_ref().map(|(_, own)| own.clone());
    if let (Some(asked), Some(own), Some(file)) = (&arguments.datatype, &own, file)
        && !asked.eq_ignore_ascii_case(own)
    {
        return Err(Failure::usage(
            format!(
                "`--type {asked}`, and the weights of `{}` are {own}",
                file.display()
            ),
            "leave out `--type`; for another data type give the config.json alone, or the GGUF file of that type",
        ));
    }
    let datatype = arguments.datatype.clone().or(own).ok_or_else(missing)?;
    let shape = match (shape, weights) {
        (Some(shape), Some((weights, _))) => shape
            .with_weights_of(&weights)
            .map_err(|fault| Failure::usage(fault, help))?,
        (Some(shape), None) | (None, Some((shape, _))) => shape,
        // One of each kind is there at least.
        (None, None) => return Err(missing()),
    };
    Ok((shape, datatype, config.map(PathBuf::as_path)))
}

/// The shape and the data type of a GGUF file.
fn of_gguf(path: &Path, vocabulary: Option<f64>, help: &str) -> Result<(Shape, String), Failure> {
    let name = path.to_string_lossy().into_owned();
    let file = fs::File::open(path)
        .map_err(|error| Failure::usage(format!("`{name}` cannot be read: {error}"), help))?;
    gguf::shape(Source::new(name, BufReader::new(file)), vocabulary)
        .map_err(|error| Failure::usage(error, help))
}

/// The shape of a `config.json`.
fn of_config(path: &Path, options: &Options, help: &str) -> Result<Shape, Failure> {
    let beside = processor(path).map(|path| read(&path)).transpose()?;
    hf_config::shape(
        &path.to_string_lossy(),
        &read(path)?,
        beside.as_deref(),
        options,
    )
    .map_err(|error| Failure::usage(error, help))
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
