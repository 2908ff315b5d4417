//! `crossinfer generate`: models of random weights.

use std::path::PathBuf;

use clap::Args;

use crate::failure::Failure;
#[cfg(feature = "live")]
use crate::failure::say;

/// Write a model of random weights in the shape of a published one, for timing and for tests.
///
/// Language models (GGUF): `qwen2.5-0.5b`, `smollm2-135m`, and `mini` and `tiny` for tests, stored as `q8_0`,
/// `q4_0`, `q4_1`, `f16` or `f32`. Vision towers (ONNX): `clip-vit-b32`, `vit-s16`, and `vit-tiny` for tests,
/// stored as `f32` or `qdq` (8-bit weights, 16-bit activations, for integer accelerators). They take as long as
/// the published ones, and mean nothing. The same seed gives the same file.
#[derive(Debug, Args)]
#[command(
    after_long_help = "Example:\n  crossinfer generate qwen2.5-0.5b --store q4_0 --out qwen.gguf"
)]
pub(crate) struct Arguments {
    /// Which model.
    #[arg(value_name = "MODEL")]
    pub(crate) model: String,

    /// How its weights are stored [default: `q8_0` or `f32`].
    #[arg(long, value_name = "TYPE")]
    pub(crate) store: Option<String>,

    /// Seed of the weights.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// File to write.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
}

#[cfg(feature = "live")]
pub(crate) fn main(arguments: &Arguments) -> Result<(), Failure> {
    let usage = |error: hw::generate::GenerateError| {
        Failure::usage(error.to_string(), "`crossinfer generate --help` lists all")
    };
    let preset = hw::generate::Preset::named(&arguments.model).map_err(usage)?;
    let storage = preset.storage(arguments.store.as_deref()).map_err(usage)?;
    let written = preset.write(storage, arguments.seed, &arguments.out);
    written.map_err(usage)?;
    say(&format!(
        "wrote {}: {}",
        arguments.out.display(),
        preset.about
    ));
    Ok(())
}

#[cfg(not(feature = "live"))]
pub(crate) fn main(_: &Arguments) -> Result<(), Failure> {
    Err(crate::live::not_built())
}
