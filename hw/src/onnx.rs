//! Vision towers through ONNX Runtime, whose library is loaded when the program runs.

mod provider;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ort::environment::Environment;
use ort::session::Session;
use ort::session::builder::SessionBuilder;
use ort::value::{TensorRef, ValueType};
pub use provider::{Provider, QNN_FOLDER, Qnn};

/// Version of the bindings.
pub const BINDINGS: &str = "ort 2.0.0-rc.14";

/// Why ONNX Runtime did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OnnxError {
    /// The library was not found or is none.
    #[error(
        "ONNX Runtime's library is not usable ({says}); set ORT_DYLIB_PATH to a libonnxruntime of version \
         1.24 or later: `hw/models/fetch` gets one, and so do the PyPI wheel `onnxruntime` (in its `capi` \
         folder) and the release archives of ONNX Runtime"
    )]
    Library {
        /// What the loader says.
        says: String,
    },
    /// A model could not be loaded.
    #[error("`{path}` could not be loaded as an ONNX model: {says}")]
    Load {
        /// The file.
        path: String,
        /// What ONNX Runtime says.
        says: String,
    },
    /// The model is not one that turns an image into numbers.
    #[error("`{path}` is no vision tower: {says}")]
    Shape {
        /// The file.
        path: String,
        /// What is not as expected.
        says: String,
    },
    /// What was to compute it is not usable.
    #[error("{provider} is not usable: {says}")]
    Provider {
        /// The execution provider.
        provider: &'static str,
        /// Why not, and what to do.
        says: String,
    },
    /// A run failed.
    #[error("the vision tower failed: {0}")]
    Run(String),
}

/// The environment; one a process.
static ENVIRONMENT: Mutex<Option<Loaded>> = Mutex::new(None);

struct Loaded {
    environment: Environment,
    /// Plugins are loaded once.
    #[cfg(feature = "qnn")]
    plugins: Vec<PathBuf>,
}

/// The library to load: `path`, else what `ORT_DYLIB_PATH` names, else the loader's.
pub fn library(path: Option<&Path>) -> PathBuf {
    if let Some(path) = path {
        return path.to_path_buf();
    }
    match std::env::var_os("ORT_DYLIB_PATH") {
        Some(path) if !path.is_empty() => path.into(),
        _ => format!(
            "{}onnxruntime{}",
            std::env::consts::DLL_PREFIX,
            std::env::consts::DLL_SUFFIX
        )
        .into(),
    }
}

fn with_environment<T>(
    path: Option<&Path>,
    run: impl FnOnce(&mut Loaded) -> Result<T, OnnxError>,
) -> Result<T, OnnxError> {
    let mut slot = ENVIRONMENT.lock().unwrap_or_else(PoisonError::into_inner);
    if slot.is_none() {
        let library = library(path);
        let fail = |says: String| OnnxError::Library {
            says: format!("`{}`: {says}", library.display()),
        };
        // The crate panics where what the loader found has no entry of that name.
        let init = AssertUnwindSafe(|| {
            let builder = ort::init_from(&library).map_err(|error| error.to_string())?;
            builder.build().map_err(|error| error.to_string())
        });
        let environment = catch_unwind(init)
            .unwrap_or_else(|_| Err("it is no ONNX Runtime".into()))
            .map_err(fail)?;
        *slot = Some(Loaded {
            environment,
            #[cfg(feature = "qnn")]
            plugins: Vec::new(),
        });
    }
    match &mut *slot {
        Some(loaded) => run(loaded),
        None => unreachable!("it was made above"),
    }
}

/// Loads the library if it is not, and returns its build's description.
pub fn probe(path: Option<&Path>) -> Result<String, OnnxError> {
    with_environment(path, |_| Ok(ort::info().to_owned()))
}

fn builder(environment: &Environment, threads: u32) -> ort::Result<SessionBuilder> {
    Ok(Session::builder(environment)?
        .with_intra_threads(threads.max(1) as usize)?
        .with_inter_threads(1)?
        // A spinning pool would take a core from another lane.
        .with_intra_op_spinning(false)?)
}

/// A vision tower: an image in, numbers out.
#[derive(Debug)]
pub struct Tower {
    session: Session,
    height: u32,
    width: u32,
}

impl Tower {
    /// Loads a tower that takes one image as `f32` in the order channel, row, column. Sizes that it leaves
    /// open are `default_side`. All of it is computed by the provider: what that does not take fails here.
    pub fn load(
        path: &Path,
        library: Option<&Path>,
        threads: u32,
        default_side: u32,
        by: &Provider,
    ) -> Result<Self, OnnxError> {
        let name = path.display().to_string();
        let fail = |says: String| OnnxError::Load {
            path: name.clone(),
            says,
        };
        std::fs::File::open(path).map_err(|error| fail(error.to_string()))?;
        let session = with_environment(library, |loaded| {
            let says = |error: ort::Error| fail(error.to_string());
            let plain = builder(&loaded.environment, threads).map_err(says)?;
            let mut builder = by.apply(plain, loaded)?;
            builder.commit_from_file(path).map_err(says)
        })?;
        let wrong = |says: String| OnnxError::Shape {
            path: name.clone(),
            says,
        };
        let [input] = session.inputs() else {
            return Err(wrong(format!(
                "{} inputs, expected one image",
                session.inputs().len()
            )));
        };
        let ValueType::Tensor { shape, .. } = input.dtype() else {
            return Err(wrong("its input is no tensor".into()));
        };
        let [_, channels, height, width] = shape[..] else {
            return Err(wrong(format!(
                "its input has {} dimensions, expected 4: image, channel, row, column",
                shape.len()
            )));
        };
        if channels != 3 && channels != -1 {
            return Err(wrong(format!("{channels} channels, expected 3")));
        }
        let side = |stated: i64| u32::try_from(stated).unwrap_or(default_side);
        let (height, width) = (side(height), side(width));
        Ok(Self {
            session,
            height,
            width,
        })
    }

    /// Rows and columns of its image.
    pub fn size(&self) -> (u32, u32) {
        (self.height, self.width)
    }

    /// Runs it on one image: three channels of [`Self::size`], and returns its first output, flat.
    pub fn encode(&mut self, image: &[f32]) -> Result<Vec<f32>, OnnxError> {
        let run = |error: ort::Error| OnnxError::Run(error.to_string());
        let shape = [1, 3, i64::from(self.height), i64::from(self.width)];
        let input = TensorRef::from_array_view((shape, image)).map_err(run)?;
        let outputs = self.session.run(ort::inputs![input]).map_err(run)?;
        let (_, first) = outputs
            .iter()
            .next()
            .ok_or_else(|| OnnxError::Run("it has no output".into()))?;
        let (_, numbers) = first.try_extract_tensor::<f32>().map_err(run)?;
        Ok(numbers.to_vec())
    }
}
