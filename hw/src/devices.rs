//! What real engines this build has, what is found on this machine, and why something is not usable.

#[cfg(feature = "rknn")]
use std::path::Path;
use std::path::PathBuf;

/// A part of the live mode: an engine family, a device, a library, a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What it is.
    pub what: String,
    /// Whether it can be used.
    pub usable: bool,
    /// Details, or why not and what to do.
    pub says: String,
}

impl Found {
    fn yes(what: impl Into<String>, says: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            usable: true,
            says: says.into(),
        }
    }

    fn no(what: impl Into<String>, says: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            usable: false,
            says: says.into(),
        }
    }
}

/// Everything, in the order that people read it. Loads the libraries of ONNX Runtime and RKNN, no models.
pub fn find() -> Vec<Found> {
    let mut all = vec![host()];
    language(&mut all);
    vision(&mut all);
    #[cfg(feature = "rknn")]
    all.push(rknn(
        crate::rknn::Rknn::default().probe(),
        crate::rknn::board(Path::new("/")),
    ));
    models(&mut all);
    all
}

fn host() -> Found {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let processor = processor().unwrap_or_else(|| "unknown processor".into());
    Found::yes(
        "host",
        format!(
            "{} {}, {processor}, {cores} usable core{}",
            std::env::consts::OS,
            std::env::consts::ARCH,
            if cores == 1 { "" } else { "s" }
        ),
    )
}

/// The processor's name, where the system tells.
fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let named = ["model name", "Model", "Hardware"];
    let of = |key: &str| {
        let line = text.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    named.into_iter().find_map(of)
}

#[cfg(feature = "live-llama")]
fn language(all: &mut Vec<Found>) {
    use crate::llama::{self, DeviceKind};

    all.push(Found::yes(
        "language: llama.cpp",
        format!("{}; {}", llama::BINDINGS, llama::system_info().trim()),
    ));
    let found = llama::devices();
    #[cfg(feature = "vulkan")]
    if !found.iter().any(|device| device.kind == DeviceKind::Gpu) {
        all.push(Found::no(
            "  Vulkan",
            "compiled in, but there is no device: install the GPU's driver with its Vulkan part and \
             libvulkan1 (VK_DRIVER_FILES names a driver elsewhere); a driver in software is left out unless \
             GGML_VK_VISIBLE_DEVICES=0 is set",
        ));
    }
    for device in found {
        let what = format!("  device {}", device.name);
        let memory = device.memory_bytes as f64 / 1e9;
        let says = if memory > 0.0 {
            format!("{}, {memory:.1} GB", device.description)
        } else {
            device.description
        };
        let says = match device.kind {
            DeviceKind::Cpu => format!("{says}; used by lanes that name no device"),
            DeviceKind::Gpu | DeviceKind::Other => says,
        };
        all.push(Found::yes(what, says));
    }
}

#[cfg(not(feature = "live-llama"))]
fn language(all: &mut Vec<Found>) {
    all.push(Found::no(
        "language: llama.cpp",
        "not compiled in: build with `--features live` (needs cmake, a C++ compiler and libclang)",
    ));
}

#[cfg(feature = "live-ort")]
fn vision(all: &mut Vec<Found>) {
    use crate::onnx;

    let library = library();
    all.push(match onnx::probe(library.as_deref()) {
        Ok(build) => Found::yes(
            "vision: ONNX Runtime",
            format!(
                "{}; `{}`: {build}",
                onnx::BINDINGS,
                onnx::library(library.as_deref()).display()
            ),
        ),
        Err(error) => Found::no("vision: ONNX Runtime", error.to_string()),
    });
    #[cfg(feature = "qnn")]
    qnn(all);
}

#[cfg(feature = "qnn")]
fn qnn(all: &mut Vec<Found>) {
    let what = "  QNN provider";
    all.push(match crate::onnx::Qnn::default().plugin() {
        Ok(plugin) => Found::yes(
            what,
            format!(
                "`{}`, loaded when an engine's device is `qnn`",
                plugin.display()
            ),
        ),
        Err(error) => Found::no(what, error.to_string()),
    });
}

/// Rockchip's NPU, by its library and what the system tells of its driver.
#[cfg(feature = "rknn")]
fn rknn(
    runtime: Result<crate::rknn::Runtime, crate::rknn::RknnError>,
    board: Option<crate::rknn::Board>,
) -> Found {
    let what = "vision: RKNN";
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return Found::no(what, error.to_string()),
    };
    let Some(board) = board else {
        return Found::no(
            what,
            format!(
                "{runtime}: there is no RKNPU driver. It is part of Rockchip's kernels; others have `rocket`, which \
                 librknnrt.so does not use"
            ),
        );
    };
    let driver = board.driver.map_or_else(
        || "a driver whose version is told to root alone".to_owned(),
        |version| format!("driver {version}"),
    );
    let cores = match board.cores {
        0 => "an unknown number of NPU cores".to_owned(),
        1 => "1 NPU core".to_owned(),
        cores => format!("{cores} NPU cores"),
    };
    let says = format!("{runtime}; {driver}; {cores}; used when an engine's device is `rknn`");
    Found::yes(what, says)
}

#[cfg(not(feature = "live-ort"))]
fn vision(all: &mut Vec<Found>) {
    all.push(Found::no(
        "vision: ONNX Runtime",
        "not compiled in: build with `--features live`",
    ));
}

/// The cached library, unless `ORT_DYLIB_PATH` names one.
#[cfg(feature = "live-ort")]
fn library() -> Option<PathBuf> {
    let named = std::env::var_os("ORT_DYLIB_PATH").is_some_and(|path| !path.is_empty());
    let cached = cache_folder()?.join(LIBRARY);
    (!named && cached.exists()).then_some(cached)
}

/// Name of the cached library.
#[cfg(feature = "live-ort")]
pub(crate) const LIBRARY: &str = "libonnxruntime.so";
/// Name of the cached language model.
pub(crate) const LANGUAGE: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
/// Name of the cached vision tower.
pub(crate) const VISION: &str = "vit_s_focus.onnx";

fn models(all: &mut Vec<Found>) {
    let Some(folder) = cache_folder() else {
        all.push(Found::no(
            "models",
            "neither CROSSINFER_MODELS nor HOME is set",
        ));
        return;
    };
    for name in [LANGUAGE, VISION] {
        let path = folder.join(name);
        all.push(match std::fs::metadata(&path) {
            Ok(file) => Found::yes(
                format!("model {name}"),
                format!("{}, {:.1} MB", path.display(), file.len() as f64 / 1e6),
            ),
            Err(_) => Found::no(
                format!("model {name}"),
                format!("not in {}: run `hw/models/fetch`", folder.display()),
            ),
        });
    }
}

/// Where `hw/models/fetch` keeps what it fetched: `$CROSSINFER_MODELS`, or `crossinfer` in the user's cache
/// folder. `None`: neither is known.
pub fn cache_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(folder) = set("CROSSINFER_MODELS") {
        return Some(folder.into());
    }
    let base = match set("XDG_CACHE_HOME") {
        Some(base) => PathBuf::from(base),
        None => PathBuf::from(set("HOME")?).join(".cache"),
    };
    Some(base.join("crossinfer"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(feature = "rknn")]
    fn an_npu_needs_a_library_and_a_driver() {
        use crate::rknn::{Board, Rknn, Runtime};

        let runtime = Runtime {
            file: "/usr/lib/librknnrt.so".into(),
            version: Some("2.3.2 (429f97ae6b)".into()),
        };
        let board = |driver: Option<&str>, cores| Board {
            driver: driver.map(str::to_owned),
            cores,
        };
        let found = rknn(Ok(runtime.clone()), Some(board(Some("0.9.8"), 3)));
        assert!(found.usable);
        for says in ["librknnrt 2.3.2", "/usr/lib", "driver 0.9.8", "3 NPU cores"] {
            assert!(found.says.contains(says), "{found:?}");
        }
        let found = rknn(Ok(runtime.clone()), Some(board(None, 1)));
        assert!(
            found.usable && found.says.contains("root alone; 1 NPU core;"),
            "{found:?}"
        );
        let found = rknn(Ok(runtime), None);
        assert!(
            !found.usable && found.says.contains("no RKNPU driver"),
            "{found:?}"
        );
        let missing = Rknn {
            library: Some("/no/such.so".into()),
            ..Rknn::default()
        };
        let found = rknn(missing.probe(), Some(board(None, 3)));
        assert!(
            !found.usable && found.says.contains("RKNN_DYLIB_PATH"),
            "{found:?}"
        );
    }

    #[test]
    fn what_is_not_usable_says_what_to_do() {
        let all = find();
        assert!(all.iter().any(|found| found.what == "host" && found.usable));
        for found in all.iter().filter(|found| !found.usable) {
            let helps = [
                "build with",
                "hw/models/fetch",
                "is set",
                "ORT_DYLIB_PATH",
                "RKNN_DYLIB_PATH",
                "Rockchip's kernels",
            ];
            assert!(
                helps.iter().any(|help| found.says.contains(help)),
                "{found:?}"
            );
        }
    }
}
