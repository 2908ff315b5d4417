//! Vision towers on Rockchip's NPU through the RKNN runtime, whose library is loaded when the program runs.
//!
//! ONNX Runtime's provider `rknpu` knows the RK1808 only, so this is a way of its own: a `.rknn` file, which
//! `hw/models/to-rknn` makes of an ONNX tower, and `librknnrt.so`. A tower has a context of its own, which may be
//! tied to some of the NPU's cores; images go in as bytes, and normalization is part of the model.
//!
//! It has not met a board yet: it is tested against a library of the same interface (`hw/tests/rknn`).

mod api;
mod board;
mod tower;

use std::ffi::c_int;
use std::fmt;
use std::path::{Path, PathBuf};

pub use board::{Board, board};
pub use tower::{Sdk, Tower};

/// How Rockchip's NPU is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rknn {
    /// The runtime's library; `None`: what `RKNN_DYLIB_PATH` names, else the loader's.
    pub library: Option<PathBuf>,
    /// The vision tower of engines on this device; `None`: that of all engines.
    pub model: Option<PathBuf>,
    /// What `rknn_set_core_mask` is told; `None`: it is not called, as for NPUs with one core.
    pub cores: Option<Cores>,
}

/// NPU cores of a RK3588 that a context may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cores {
    /// One that is idle, for each run anew.
    Auto,
    /// The first.
    Zero,
    /// The second.
    One,
    /// The third.
    Two,
    /// The first two together.
    ZeroOne,
    /// All three together.
    ZeroOneTwo,
}

impl Cores {
    /// Name in a device, and `rknn_core_mask`.
    const ALL: [(Self, &'static str, u32); 6] = [
        (Self::Auto, "auto", 0),
        (Self::Zero, "0", 1),
        (Self::One, "1", 2),
        (Self::Two, "2", 4),
        (Self::ZeroOne, "0_1", 3),
        (Self::ZeroOneTwo, "0_1_2", 7),
    ];

    fn read(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(_, name, _)| *name == text);
        found.map(|(cores, ..)| *cores).ok_or_else(|| {
            let names = Self::ALL.map(|(_, name, _)| name).join(", ");
            format!("`cores={text}` is none of {names}")
        })
    }

    fn mask(self) -> u32 {
        let found = Self::ALL.iter().find(|(cores, ..)| *cores == self);
        found.map_or(0, |(.., mask)| *mask)
    }
}

impl Rknn {
    /// Reads `rknn`, or `rknn:cores=0_1,model=FILE,library=FILE`. `None`: it names another device.
    pub fn named(text: &str) -> Option<Result<Self, String>> {
        let (name, options) = text.split_once(':').unwrap_or((text, ""));
        (name == "rknn").then(|| Self::read(options))
    }

    fn read(text: &str) -> Result<Self, String> {
        let mut rknn = Self::default();
        for option in text.split(',').filter(|option| !option.is_empty()) {
            let (key, value) = option
                .split_once('=')
                .filter(|(_, value)| !value.is_empty())
                .ok_or_else(|| format!("`{option}` is no KEY=VALUE"))?;
            match key {
                "cores" => rknn.cores = Some(Cores::read(value)?),
                "library" => rknn.library = Some(value.into()),
                "model" => rknn.model = Some(value.into()),
                _ => {
                    return Err(format!(
                        "`rknn` has no option `{key}`: it has `cores`, `library` and `model`"
                    ));
                }
            }
        }
        Ok(rknn)
    }

    /// The library to load.
    pub fn library(&self) -> PathBuf {
        if let Some(path) = &self.library {
            return path.clone();
        }
        match std::env::var_os("RKNN_DYLIB_PATH") {
            Some(path) if !path.is_empty() => path.into(),
            _ => "librknnrt.so".into(),
        }
    }

    /// Loads the library if it is not loaded, and returns where it is from and its version, as far as its file
    /// tells; a model is needed to ask the library itself ([`Tower::sdk`]).
    pub fn probe(&self) -> Result<Runtime, RknnError> {
        let library = self.library();
        let api = api::load(&library)?;
        let file = board::file_of(api.address()).unwrap_or(library);
        let version = board::version_in(&file);
        Ok(Runtime { file, version })
    }
}

/// The RKNN runtime that was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runtime {
    /// Its library.
    pub file: PathBuf,
    /// Version and build, as `2.3.2 (429f97ae6b@2025-04-09T09:09:27)`, if its file says it.
    pub version: Option<String>,
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.version.as_deref().unwrap_or("of unknown version");
        write!(f, "librknnrt {version}, `{}`", self.file.display())
    }
}

/// Why the RKNN runtime did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RknnError {
    /// The library was not found or is none.
    #[error(
        "the RKNN runtime's library is not usable (`{}`: {says}); set RKNN_DYLIB_PATH to a librknnrt.so for this \
         processor, or give `rknn:library=FILE`: Rockchip's images have it in /usr/lib, and the repository \
         airockchip/rknn-toolkit2 under rknpu2/runtime/Linux/librknn_api",
        library.display()
    )]
    Library {
        /// What was to be loaded.
        library: PathBuf,
        /// What is wrong with it.
        says: String,
    },
    /// A file is no model for the NPU.
    #[error("`{}` {says}; `hw/models/to-rknn` makes a `.rknn` file of an ONNX tower", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        says: String,
    },
    /// A model could not be loaded, or not be tied to its cores.
    #[error("`{}` could not be loaded: {failed}", path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// The call that failed.
        failed: Failed,
    },
    /// The model is not one that turns an image into numbers.
    #[error("`{}` is no vision tower: {says}", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// What is not as expected.
        says: String,
    },
    /// A call failed while an image was encoded.
    #[error("the vision tower failed: {0}")]
    Run(Failed),
    /// What went in or came out of a run is not as the model says.
    #[error("the vision tower failed: {0}")]
    Data(String),
}

/// A call of the runtime that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The function.
    pub call: &'static str,
    /// What it returned.
    pub code: c_int,
}

/// Names of the error codes -1, -2, …, and what would help.
const ERRORS: [(&str, &str); 13] = [
    (
        "RKNN_ERR_FAIL",
        "the runtime says why on the terminal (`E RKNN: …`; more with RKNN_LOG_LEVEL=4)",
    ),
    (
        "RKNN_ERR_TIMEOUT",
        "the NPU did not answer in time: `dmesg | grep -i rknpu` says whether it was reset",
    ),
    (
        "RKNN_ERR_DEVICE_UNAVAILABLE",
        "no RKNPU driver answers: it is part of Rockchip's kernels, not of others (`dmesg | grep -i rknpu`), and its \
         device may be open to root alone",
    ),
    (
        "RKNN_ERR_MALLOC_FAIL",
        "there is no memory left that the NPU can use",
    ),
    (
        "RKNN_ERR_PARAM_INVALID",
        "it does not take what it was given, which may be new to it: take a newer librknnrt.so",
    ),
    (
        "RKNN_ERR_MODEL_INVALID",
        "the file is damaged, or of a newer rknn-toolkit2 than this librknnrt.so: take both of one version",
    ),
    ("RKNN_ERR_CTX_INVALID", "its context is gone"),
    (
        "RKNN_ERR_INPUT_INVALID",
        "the model does not take such an image: convert it with one input of three channels",
    ),
    (
        "RKNN_ERR_OUTPUT_INVALID",
        "the model has no such output: convert it with one output",
    ),
    (
        "RKNN_ERR_DEVICE_UNMATCH",
        "the driver and librknnrt.so do not fit: update both from one release",
    ),
    (
        "RKNN_ERR_INCOMPATILE_PRE_COMPILE_MODEL",
        "the model was compiled for another driver: convert it anew",
    ),
    (
        "RKNN_ERR_INCOMPATILE_OPTIMIZATION_LEVEL_VERSION",
        "the model's optimization level is not known to the driver: convert it anew, or update the driver",
    ),
    (
        "RKNN_ERR_TARGET_PLATFORM_UNMATCH",
        "the model was converted for another chip: convert it with `hw/models/to-rknn --target` of this one",
    ),
];

impl Failed {
    fn check(call: &'static str, code: c_int) -> Result<(), Self> {
        if code == 0 {
            return Ok(());
        }
        Err(Self { call, code })
    }

    fn known(&self) -> Option<(&'static str, &'static str)> {
        let index = usize::try_from(-i64::from(self.code))
            .ok()?
            .checked_sub(1)?;
        ERRORS.get(index).copied()
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, code } = self;
        let Some((name, help)) = self.known() else {
            return write!(f, "{call} returned {code}, which rknn_api.h does not name");
        };
        write!(f, "{call} returned {name} ({code}): {help}")?;
        if *call == "rknn_init" && *code == -1 {
            // What is not told apart by code, from reports of users of librknnrt 1.3 to 2.3.
            f.write_str(
                "; known causes: no RKNPU driver, its device open to root alone, a model of a newer rknn-toolkit2 \
                 than this librknnrt.so",
            )?;
        }
        Ok(())
    }
}

impl std::error::Error for Failed {}

/// Whether a file may be a model, by its name.
pub fn is_model(path: &Path) -> bool {
    path.extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("rknn"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_read_whole_or_refused() {
        assert_eq!(Rknn::named("Vulkan0"), None);
        assert_eq!(Rknn::named("rknn2"), None);
        assert_eq!(Rknn::named("rknn"), Some(Ok(Rknn::default())));
        let named = Rknn::named("rknn:cores=0_1,library=/opt/librknnrt.so,model=tower.rknn");
        let expected = Rknn {
            library: Some("/opt/librknnrt.so".into()),
            model: Some("tower.rknn".into()),
            cores: Some(Cores::ZeroOne),
        };
        assert_eq!(named, Some(Ok(expected)));
        for (device, says) in [
            ("rknn:0", "KEY=VALUE"),
            ("rknn:library=", "KEY=VALUE"),
            ("rknn:core=0", "no option `core`"),
            ("rknn:cores=3", "auto, 0, 1, 2, 0_1, 0_1_2"),
            ("rknn:cores=0_2", "none of"),
        ] {
            let error = Rknn::named(device).unwrap().unwrap_err();
            assert!(error.contains(says), "{device}: {error}");
        }
    }

    #[test]
    fn masks_have_one_bit_a_core() {
        for (cores, name, mask) in Cores::ALL {
            assert_eq!(Cores::read(name), Ok(cores));
            assert_eq!(cores.mask(), mask);
            let bits = name.split('_').filter_map(|core| core.parse::<u32>().ok());
            assert_eq!(bits.map(|core| 1 << core).sum::<u32>(), mask, "{name}");
        }
    }

    #[test]
    fn codes_have_the_headers_names() {
        let name = |code| {
            let call = "rknn_run";
            Failed { call, code }.to_string()
        };
        assert!(name(-1).contains("RKNN_ERR_FAIL (-1)"));
        assert!(name(-3).contains("RKNN_ERR_DEVICE_UNAVAILABLE (-3)"));
        assert!(name(-13).contains("RKNN_ERR_TARGET_PLATFORM_UNMATCH (-13)"));
        for code in [-14, 1, c_int::MIN, c_int::MAX] {
            assert!(name(code).contains("does not name"), "{}", name(code));
        }
        assert_eq!(Failed::check("rknn_run", 0), Ok(()));
    }
}
