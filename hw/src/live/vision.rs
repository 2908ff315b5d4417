//! What computes a vision tower, and the tower itself: through ONNX Runtime or through RKNN.

use std::path::Path;

use sim::world::StreamId;

use super::{Models, frames::Frames};
use crate::engine::EngineError;
use crate::onnx::{self, Provider};
#[cfg(feature = "rknn")]
use crate::rknn::{self, Rknn};

/// Rows and columns of a frame, if the tower takes any.
const SIDE: u32 = 224;

/// What computes a vision tower.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VisionDevice {
    /// A provider of ONNX Runtime.
    Onnx(Provider),
    /// Rockchip's NPU.
    #[cfg(feature = "rknn")]
    Rknn(Rknn),
}

impl Default for VisionDevice {
    /// The CPU.
    fn default() -> Self {
        Self::Onnx(Provider::Cpu)
    }
}

impl VisionDevice {
    /// Reads a device of vision towers: `rknn:cores=0_1`, or what [`Provider`] reads. `None`: it is a device of
    /// llama.cpp.
    pub fn named(text: &str) -> Option<Result<Self, String>> {
        #[cfg(feature = "rknn")]
        let rknn = Rknn::named(text).map(|read| read.map(Self::Rknn));
        #[cfg(not(feature = "rknn"))]
        let rknn = (text.split(':').next() == Some("rknn"))
            .then(|| Err("not compiled in: build with `--features rknn`".to_owned()));
        rknn.or_else(|| Provider::named(text).map(|read| read.map(Self::Onnx)))
    }

    /// The file of its tower.
    pub(super) fn file<'a>(&'a self, models: &'a Models) -> Option<&'a Path> {
        match self {
            Self::Onnx(_) => models.vision.as_deref(),
            #[cfg(feature = "rknn")]
            Self::Rknn(rknn) => rknn.model.as_deref().or(models.vision.as_deref()),
        }
    }

    /// Whether it can be of use with these files; they are not looked into.
    #[cfg_attr(
        not(feature = "rknn"),
        expect(clippy::unnecessary_wraps, reason = "as where it is compiled in")
    )]
    pub(super) fn takes(&self, models: &Models) -> Result<(), String> {
        match (self, self.file(models)) {
            #[cfg(feature = "rknn")]
            (Self::Rknn(_), Some(file)) if !rknn::is_model(file) => Err(format!(
                "it takes a `.rknn` file, not `{}`: `hw/models/to-rknn` converts an ONNX tower; then give `--vision \
                 FILE`, or `rknn:model=FILE` for engines on this device alone",
                file.display()
            )),
            _ => Ok(()),
        }
    }

    /// Version of what computes it.
    pub(super) fn version(&self) -> String {
        match self {
            Self::Onnx(_) => onnx::BINDINGS.to_owned(),
            #[cfg(feature = "rknn")]
            Self::Rknn(rknn) => match rknn.probe() {
                Ok(runtime) => runtime.to_string(),
                Err(_) => "librknnrt, not usable".to_owned(),
            },
        }
    }
}

/// A vision tower: a frame in, numbers out.
#[derive(Debug)]
pub(super) enum Tower {
    Onnx(onnx::Tower),
    #[cfg(feature = "rknn")]
    Rknn(rknn::Tower),
}

impl Tower {
    pub(super) fn load(
        device: &VisionDevice,
        models: &Models,
        threads: u32,
    ) -> Result<Self, EngineError> {
        let path = device
            .file(models)
            .ok_or_else(|| EngineError::Contract("there is no vision tower".into()))?;
        match device {
            VisionDevice::Onnx(provider) => {
                let library = models.onnx_runtime.as_deref();
                let tower = onnx::Tower::load(path, library, threads, SIDE, provider);
                tower.map(Self::Onnx).map_err(backend)
            }
            #[cfg(feature = "rknn")]
            VisionDevice::Rknn(rknn) => rknn::Tower::load(path, rknn)
                .map(Self::Rknn)
                .map_err(backend),
        }
    }

    /// Encodes a frame, whose reading and scaling is part of it.
    pub(super) fn encode(
        &mut self,
        frames: &Frames,
        stream: StreamId,
        frame: u32,
    ) -> Result<Vec<f32>, EngineError> {
        match self {
            Self::Onnx(tower) => {
                let image = frames.image(stream, frame, tower.size())?;
                tower.encode(&image).map_err(backend)
            }
            #[cfg(feature = "rknn")]
            Self::Rknn(tower) => {
                let image = frames.pixels(stream, frame, tower.size())?;
                tower.encode(&image).map_err(backend)
            }
        }
    }
}

fn backend(error: impl std::error::Error) -> EngineError {
    EngineError::Backend(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_device_goes_to_what_computes_it() {
        let read = |text| VisionDevice::named(text).map(|read| read.map_err(|says| says.len()));
        assert_eq!(read("Vulkan0"), None);
        assert_eq!(
            read("coreml"),
            Some(Ok(VisionDevice::Onnx(Provider::CoreMl)))
        );
        #[cfg(feature = "rknn")]
        assert_eq!(read("rknn"), Some(Ok(VisionDevice::Rknn(Rknn::default()))));
        let wrong = VisionDevice::named("rknn:5").unwrap().unwrap_err();
        #[cfg(feature = "rknn")]
        assert!(wrong.contains("KEY=VALUE"), "{wrong}");
        #[cfg(not(feature = "rknn"))]
        assert!(wrong.contains("--features rknn"), "{wrong}");
    }
}
