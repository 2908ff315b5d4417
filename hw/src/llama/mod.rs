//! llama.cpp behind a small safe face: models, contexts, sequence state. All `unsafe` code that llama.cpp needs.
//!
//! Over the bare bindings rather than the crate `llama-cpp-2`, because an engine needs what that hides:
//! batches of embeddings (visual tokens), the abort callback (deadlines), and sequence state as bytes.
//!
//! KV is FP16 everywhere. State moves only between contexts that agree on flash attention. Without it, values
//! lie transposed, and copying state out of a device takes thousands of small reads; with it, logits depend
//! on how a prefill was cut into batches, so whoever compares answers must cut alike.

#![expect(unsafe_code, reason = "calls into C")]

mod context;
mod devices;
mod gguf;
mod log;
mod model;

pub use context::{Context, ContextOptions};
pub use devices::{Device, DeviceKind, devices, system_info};
pub use gguf::{GgufWriter, Tensor, WeightType, convert};
pub use model::{Model, ModelOptions};

use crate::engine::EngineError;

/// Version of the bindings, which fixes that of llama.cpp.
pub const BINDINGS: &str = "llama-cpp-sys-2 0.1.161";

/// A token of a model's vocabulary.
pub type Token = i32;

/// Why llama.cpp did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LlamaError {
    /// A model file could not be loaded.
    #[error("`{path}` could not be loaded as a GGUF model: {says}")]
    Load {
        /// The file.
        path: String,
        /// llama.cpp's last words.
        says: String,
    },
    /// A file could not be read or written.
    #[error("`{path}`: {says}")]
    File {
        /// The file.
        path: String,
        /// What the system or llama.cpp says.
        says: String,
    },
    /// There is no such device.
    #[error("there is no device `{name}` (there are: {found})")]
    Device {
        /// The name asked for.
        name: String,
        /// The names of those that exist.
        found: String,
    },
    /// A context could not be made.
    #[error("a context of {tokens} tokens could not be made: {says}")]
    Context {
        /// Its size.
        tokens: u32,
        /// llama.cpp's last words.
        says: String,
    },
    /// A text could not be turned into tokens.
    #[error("the text could not be tokenized")]
    Tokenize,
    /// No room for further tokens.
    #[error("the context has no room for {tokens} tokens more")]
    Full {
        /// How many were to be added.
        tokens: u32,
    },
    /// The abort callback said so.
    #[error("cancelled")]
    Aborted,
    /// A computation failed.
    #[error("llama_decode failed with {code}: {says}")]
    Decode {
        /// Its return value.
        code: i32,
        /// llama.cpp's last words.
        says: String,
    },
    /// A batch, position or state that cannot be right.
    #[error("{0}")]
    Invalid(String),
    /// A sequence's state was not taken.
    #[error("a state of {bytes} bytes was not taken: {says}")]
    State {
        /// Its size.
        bytes: usize,
        /// llama.cpp's last words.
        says: String,
    },
}

impl LlamaError {
    /// As an engine's error; `bytes_per_token` is KV, for what a full context would have needed.
    pub fn into_engine(self, bytes_per_token: u64) -> EngineError {
        match self {
            Self::Aborted => EngineError::Cancelled,
            Self::Full { tokens } => EngineError::OutOfMemory {
                bytes: u64::from(tokens) * bytes_per_token,
            },
            other => EngineError::Backend(other.to_string()),
        }
    }
}
