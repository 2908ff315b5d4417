//! Real engines for a world, and what is said of the machine.

use std::fs;
use std::path::PathBuf;

use hw::calibrate::profile::Provenance;
use hw::engine::EngineError;
use hw::live::{Live, LiveOptions, Models, SetupError};
use hw::rig::StartError;
use sim::world::World;

use super::{Setup, Switch};
use crate::failure::Failure;

/// The language model's file: the one that is given, or that was fetched.
fn language(setup: &Setup) -> Option<PathBuf> {
    let cached = || Models::cached().map(|models| models.language);
    setup.language.clone().or_else(cached)
}

/// Loads nothing yet.
pub(super) fn live(world: &World, setup: &Setup) -> Result<Live, Failure> {
    let cached = Models::cached();
    let language = language(setup).ok_or_else(|| {
        Failure::usage(
            "no language model is given",
            "give --language FILE, or run hw/models/fetch",
        )
    })?;
    let models = Models {
        language,
        vision: setup
            .vision
            .clone()
            .or_else(|| cached.as_ref().and_then(|models| models.vision.clone())),
        onnx_runtime: cached.and_then(|models| models.onnx_runtime),
    };
    Live::new(world, models, options(setup)).map_err(|error| unusable(&error))
}

fn options(setup: &Setup) -> LiveOptions {
    LiveOptions {
        context_tokens: setup.context.unwrap_or(0),
        chunk: setup.chunk,
        devices: setup.device.iter().cloned().collect(),
        frames: setup.frames.clone(),
        keep_warm: setup.keep_warm,
        flash_attention: setup.flash_attention.map(|switch| switch == Switch::On),
    }
}

/// The engines of another world, with the models that are loaded already.
pub(super) fn again(loaded: &Live, world: &World) -> Result<Live, Failure> {
    loaded.again(world).map_err(|error| unusable(&error))
}

fn unusable(error: &SetupError) -> Failure {
    Failure::usage(error.to_string(), "`crossinfer devices` lists what is here")
}

pub(super) fn provenance(setup: &Setup) -> Provenance {
    let host = hw::devices::find().into_iter().next();
    let file = language(setup).and_then(|path| fs::metadata(path).ok());
    Provenance {
        date: jiff::Timestamp::now().strftime("%-d %B %Y").to_string(),
        host: host.map_or_else(String::new, |host| host.says),
        versions: options(setup).versions(),
        weights_copy_bytes: file.map(|file| file.len()),
    }
}

pub(super) fn engine(error: &EngineError) -> Failure {
    Failure::internal(error)
}

pub(super) fn start(error: &StartError) -> Failure {
    let cause = std::error::Error::source(error);
    let cause = cause.map_or_else(String::new, |cause| format!(": {cause}"));
    Failure::usage(
        format!("{error}{cause}"),
        "`crossinfer devices` lists what is here",
    )
}
