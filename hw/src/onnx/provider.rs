//! What computes a vision tower: ONNX Runtime's execution providers.

use std::path::PathBuf;

use ort::session::builder::SessionBuilder;

use super::{Loaded, OnnxError};
use crate::devices;

/// What computes a vision tower.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Provider {
    /// ONNX Runtime's own kernels on the CPU.
    #[default]
    Cpu,
    /// Qualcomm's NPU, or its simulator.
    Qnn(Qnn),
    /// Apple's Core ML: neural engine, GPU or CPU, as that decides.
    CoreMl,
}

/// How Qualcomm's NPU is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Qnn {
    /// Folder of the plugin and its backends, `onnxruntime_qnn` of the wheel of that name on `PyPI`; `None`:
    /// [`QNN_FOLDER`] of [`devices::cache_folder`].
    pub folder: Option<PathBuf>,
    /// Options of the provider, by its names: `soc_model` (93: QCS6490), `htp_arch` (68: Hexagon v68), …
    pub options: Vec<(String, String)>,
}

/// Name of the folder in the cache.
pub const QNN_FOLDER: &str = "onnxruntime_qnn";

impl Provider {
    /// Reads `qnn`, `qnn:soc_model=93,htp_arch=68` (`folder=…` too) or `coreml`. `None`: it names none of
    /// these, and is a device of llama.cpp.
    pub fn named(text: &str) -> Option<Result<Self, String>> {
        let (name, options) = text.split_once(':').unwrap_or((text, ""));
        match name {
            "qnn" => Some(Qnn::read(options).map(Self::Qnn)),
            "coreml" if options.is_empty() => Some(Ok(Self::CoreMl)),
            "coreml" => Some(Err("`coreml` takes no options".into())),
            _ => None,
        }
    }

    /// The builder with this provider, and no other to fall back to.
    pub(super) fn apply(
        &self,
        builder: SessionBuilder,
        loaded: &mut Loaded,
    ) -> Result<SessionBuilder, OnnxError> {
        match self {
            Self::Cpu => cpu(builder, loaded),
            Self::Qnn(qnn) => qnn.apply(builder, loaded),
            Self::CoreMl => core_ml(builder),
        }
    }
}

impl Qnn {
    fn read(text: &str) -> Result<Self, String> {
        let mut qnn = Self::default();
        for option in text.split(',').filter(|option| !option.is_empty()) {
            let (key, value) = option
                .split_once('=')
                .ok_or_else(|| format!("`{option}` is no KEY=VALUE"))?;
            if key == "folder" {
                qnn.folder = Some(value.into());
            } else {
                qnn.options.push((key.into(), value.into()));
            }
        }
        Ok(qnn)
    }

    /// Where the plugin is, if it is there.
    pub fn plugin(&self) -> Result<PathBuf, OnnxError> {
        let fail = |says: String| OnnxError::Provider {
            provider: "QNN",
            says,
        };
        let cached = || devices::cache_folder().map(|cache| cache.join(QNN_FOLDER));
        let folder = self.folder.clone().or_else(cached);
        let folder = folder.ok_or_else(|| {
            fail("neither CROSSINFER_MODELS nor HOME is set; give `qnn:folder=…`".into())
        })?;
        let library = folder.join(format!(
            "{}onnxruntime_providers_qnn{}",
            std::env::consts::DLL_PREFIX,
            std::env::consts::DLL_SUFFIX
        ));
        if library.exists() {
            return Ok(library);
        }
        Err(fail(format!(
            "there is no `{}`: `hw/models/fetch --qnn` gets it, and `qnn:folder=…` names another folder",
            library.display()
        )))
    }

    #[cfg(feature = "qnn")]
    fn apply(
        &self,
        builder: SessionBuilder,
        loaded: &mut Loaded,
    ) -> Result<SessionBuilder, OnnxError> {
        const NAME: &str = "QNN";
        let says = |error: ort::Error| OnnxError::Provider {
            provider: NAME,
            says: error.to_string(),
        };
        let plugin = self.plugin()?;
        if loaded.plugins.is_empty() {
            let library = loaded.environment.register_ep_library(NAME, &plugin);
            // It stays until the process ends: dropping the handle unloads nothing.
            let _stays = library.map_err(says)?;
            loaded.plugins.push(plugin.clone());
        }
        if loaded.plugins[0] != plugin {
            return Err(OnnxError::Provider {
                provider: NAME,
                says: format!(
                    "`{}` cannot be loaded beside `{}`: one plugin a process",
                    plugin.display(),
                    loaded.plugins[0].display()
                ),
            });
        }
        let backend = plugin.with_file_name(format!(
            "{}QnnHtp{}",
            std::env::consts::DLL_PREFIX,
            std::env::consts::DLL_SUFFIX
        ));
        let mut options = vec![(
            format!("{NAME}.backend_path"),
            backend.display().to_string(),
        )];
        let named = self.options.iter();
        options.extend(named.map(|(key, value)| (format!("{NAME}.{key}"), value.clone())));
        let devices = loaded.environment.devices();
        let devices: Vec<_> = devices
            .filter(|device| device.ep().is_ok_and(|name| name == NAME))
            .collect();
        if devices.is_empty() {
            return Err(OnnxError::Provider {
                provider: NAME,
                says: "the plugin was loaded and finds no device".into(),
            });
        }
        let build = || -> ort::Result<SessionBuilder> {
            Ok(builder
                .with_devices(devices, Some(&options))?
                .with_config_entry("session.disable_cpu_ep_fallback", "1")?)
        };
        build().map_err(says)
    }

    #[cfg(not(feature = "qnn"))]
    #[expect(clippy::unused_self, reason = "as where it is compiled in")]
    fn apply(&self, _: SessionBuilder, _: &mut Loaded) -> Result<SessionBuilder, OnnxError> {
        Err(OnnxError::Provider {
            provider: "QNN",
            says: "not compiled in: build with `--features qnn`".into(),
        })
    }
}

/// Named, since of a session without a provider ONNX Runtime thinks that any device of the CPU will do: that of
/// a plugin too, such as a simulator's.
fn cpu(builder: SessionBuilder, loaded: &Loaded) -> Result<SessionBuilder, OnnxError> {
    let devices = loaded.environment.devices();
    let own = devices.filter(|device| device.ep().is_ok_and(|name| name == "CPUExecutionProvider"));
    let with = builder.with_devices(own, None);
    with.map_err(|error| OnnxError::Provider {
        provider: "the CPU",
        says: error.to_string(),
    })
}

#[cfg(feature = "coreml")]
fn core_ml(builder: SessionBuilder) -> Result<SessionBuilder, OnnxError> {
    // What it does not take runs on the CPU: it never takes all of a graph.
    let provider = ort::ep::CoreML::default().build().error_on_failure();
    builder
        .with_execution_providers([provider])
        .map_err(|error| OnnxError::Provider {
            provider: "CoreML",
            says: error.to_string(),
        })
}

#[cfg(not(feature = "coreml"))]
fn core_ml(_: SessionBuilder) -> Result<SessionBuilder, OnnxError> {
    Err(OnnxError::Provider {
        provider: "CoreML",
        says: "not compiled in: build with `--features coreml`".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_of_both_kinds_are_told_apart() {
        assert_eq!(Provider::named("Vulkan0"), None);
        assert_eq!(Provider::named("coreml"), Some(Ok(Provider::CoreMl)));
        assert_eq!(
            Provider::named("qnn"),
            Some(Ok(Provider::Qnn(Qnn::default())))
        );
        let named = Provider::named("qnn:folder=/opt/qnn,soc_model=93");
        let expected = Qnn {
            folder: Some("/opt/qnn".into()),
            options: vec![("soc_model".into(), "93".into())],
        };
        assert_eq!(named, Some(Ok(Provider::Qnn(expected))));
        let error = Provider::named("qnn:93").unwrap().unwrap_err();
        assert!(error.contains("KEY=VALUE"), "{error}");
    }
}
