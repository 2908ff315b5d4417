//! Commands over real engines, and what to say where this build has none.

#[cfg(feature = "live")]
mod engines;
#[cfg(feature = "live")]
mod measure;
#[cfg(feature = "live")]
mod plays;
#[cfg(feature = "live")]
mod validate;

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[cfg(feature = "live")]
pub(crate) use self::measure::calibrate;
#[cfg(feature = "live")]
pub(crate) use self::validate::validate;

#[cfg(not(feature = "live"))]
use crate::failure::Failure;

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Effort {
    /// Everything once: whether it runs. Its numbers are not to be trusted.
    Smoke,
    /// About two minutes for a small model.
    Quick,
    /// Deeper contexts, more sizes and narrower intervals.
    Thorough,
}

/// Which models the engines load, and how they work.
#[derive(Debug, Args)]
pub(crate) struct Setup {
    /// Language model (GGUF) [default: what `hw/models/fetch` fetched].
    #[arg(long, value_name = "FILE")]
    pub(crate) language: Option<PathBuf>,

    /// Vision tower (ONNX; `.rknn` where the device is `rknn`) [default: what
    /// `hw/models/fetch` fetched].
    #[arg(long, value_name = "FILE")]
    pub(crate) vision: Option<PathBuf>,

    /// Tokens that each context has room for [default: the model's longest].
    #[arg(long, value_name = "TOKENS")]
    pub(crate) context: Option<u32>,

    /// Most tokens of one computation of a prefill.
    #[arg(long, value_name = "TOKENS", default_value_t = 32)]
    pub(crate) chunk: u32,

    /// Device of an engine, as `crossinfer devices` names it: `gpu=Vulkan0`; of one
    /// that encodes frames also `npu=qnn:soc_model=93,htp_arch=68`, `ane=coreml` or
    /// `npu=rknn:cores=0_1,model=FILE`. Other engines compute on the CPU.
    #[arg(long, value_name = "ENGINE=DEVICE", value_parser = device)]
    pub(crate) device: Vec<(String, String)>,

    /// Folder of pictures (PNG, JPEG) that are the frames, in order of their names
    /// [default: synthetic frames].
    #[arg(long, value_name = "DIR")]
    pub(crate) frames: Option<PathBuf>,

    /// Whether attention is fused, on all engines alike [default: on if a language model
    /// computes on a device].
    #[arg(long, value_enum, value_name = "SWITCH")]
    pub(crate) flash_attention: Option<Switch>,

    /// Have engines on a device compute a token now and then while they have nothing to
    /// do, so that clocks do not fall and times do not depend on how long they idled.
    #[arg(long)]
    pub(crate) keep_warm: bool,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

fn device(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .map(|(engine, device)| (engine.to_owned(), device.to_owned()))
        .ok_or_else(|| "give ENGINE=DEVICE, for example gpu=Vulkan0".into())
}

/// The failure of commands that need real engines.
#[cfg(not(feature = "live"))]
pub(crate) fn not_built() -> Failure {
    Failure::usage(
        "this build has no real engines",
        "build one with `cargo build --release -p crossinfer-cli --features live`; docs/live.md says what it needs",
    )
}
