//! A language model's weights and vocabulary.

use std::ffi::CString;
use std::path::Path;
use std::ptr::NonNull;

use llama_cpp_sys_2 as sys;

use super::{LlamaError, Token, devices, log};

/// How a model is loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelOptions {
    /// Device that holds all layers, by llama.cpp's name; `None`: the CPU.
    pub device: Option<String>,
}

/// A model: weights of its own, not shared with other loads of the same file. Read-only, so lanes of one
/// processor share it.
#[derive(Debug)]
pub struct Model(NonNull<sys::llama_model>);

// SAFETY: llama.cpp never changes a loaded model, and documents its vocabulary's functions as thread-safe.
unsafe impl Send for Model {}
// SAFETY: as above.
unsafe impl Sync for Model {}

impl Model {
    /// Loads a GGUF file.
    pub fn load(path: &Path, options: &ModelOptions) -> Result<Self, LlamaError> {
        log::init();
        let fail = |says: String| LlamaError::Load {
            path: path.display().to_string(),
            says,
        };
        // Asked first, for a better message than llama.cpp's.
        std::fs::File::open(path).map_err(|error| fail(error.to_string()))?;
        let name = CString::new(path.as_os_str().as_encoded_bytes())
            .map_err(|_| fail("its name holds a zero byte".into()))?;
        let mut list = [std::ptr::null_mut(); 2];
        if let Some(device) = &options.device {
            list[0] = devices::by_name(device)?;
        }
        // SAFETY: plain data.
        let mut params = unsafe { sys::llama_model_default_params() };
        params.devices = list.as_mut_ptr();
        params.n_gpu_layers = if options.device.is_some() { 999 } else { 0 };
        // Read, not mapped: two loads of one file are two copies, as on processors that share nothing.
        params.load_mode = sys::LLAMA_LOAD_MODE_NONE;
        let _ = log::last_words();
        // SAFETY: `name` is terminated; `list`, which ends with null, outlives the call.
        let model = unsafe { sys::llama_model_load_from_file(name.as_ptr(), params) };
        NonNull::new(model)
            .map(Self)
            .ok_or_else(|| fail(log::last_words()))
    }

    pub(super) fn as_ptr(&self) -> *mut sys::llama_model {
        self.0.as_ptr()
    }

    fn vocab(&self) -> *const sys::llama_vocab {
        // SAFETY: the model is valid; its vocabulary lives as long.
        unsafe { sys::llama_model_get_vocab(self.as_ptr()) }
    }

    /// Tokens of the vocabulary.
    pub fn vocabulary(&self) -> usize {
        // SAFETY: the vocabulary is valid.
        let count = unsafe { sys::llama_vocab_n_tokens(self.vocab()) };
        usize::try_from(count).unwrap_or(0)
    }

    /// Numbers of an embedding that the model takes.
    pub fn embedding(&self) -> usize {
        // SAFETY: the model is valid.
        let count = unsafe { sys::llama_model_n_embd_inp(self.as_ptr()) };
        usize::try_from(count).unwrap_or(0)
    }

    /// Longest context that the model was trained for, tokens.
    pub fn trained_context(&self) -> u32 {
        // SAFETY: the model is valid.
        let count = unsafe { sys::llama_model_n_ctx_train(self.as_ptr()) };
        u32::try_from(count).unwrap_or(0)
    }

    /// Bytes of its weights.
    pub fn weight_bytes(&self) -> u64 {
        // SAFETY: the model is valid.
        unsafe { sys::llama_model_size(self.as_ptr()) }
    }

    /// The tokens of a text; `special`: control tokens are read, and the model's start token is added.
    pub fn tokenize(&self, text: &str, special: bool) -> Result<Vec<Token>, LlamaError> {
        let length = i32::try_from(text.len()).map_err(|_| LlamaError::Tokenize)?;
        // A token is at least one byte; two more for start and end.
        let mut tokens = vec![0; text.len() + 2];
        let room = i32::try_from(tokens.len()).map_err(|_| LlamaError::Tokenize)?;
        // SAFETY: pointers and lengths are those of `text` and `tokens`.
        let count = unsafe {
            sys::llama_tokenize(
                self.vocab(),
                text.as_ptr().cast(),
                length,
                tokens.as_mut_ptr(),
                room,
                special,
                special,
            )
        };
        tokens.truncate(usize::try_from(count).map_err(|_| LlamaError::Tokenize)?);
        Ok(tokens)
    }

    /// A token's text.
    pub fn piece(&self, token: Token) -> String {
        const ROOM: i32 = 256;
        let mut bytes = vec![0_u8; ROOM as usize];
        // SAFETY: the pointer and length are those of `bytes`.
        let count = unsafe {
            sys::llama_token_to_piece(
                self.vocab(),
                token,
                bytes.as_mut_ptr().cast(),
                ROOM,
                0,
                true,
            )
        };
        bytes.truncate(usize::try_from(count).unwrap_or(0));
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: contexts hold an `Arc` of their model, so none is left.
        unsafe { sys::llama_model_free(self.as_ptr()) }
    }
}
