//! A context: the KV of sequences, and the computation over it.

use std::ffi::c_void;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use llama_cpp_sys_2 as sys;

use super::{LlamaError, Model, Token, log};
use crate::engine::CancelToken;

/// The sequence that a context is for.
const MAIN: i32 = 0;
/// The sequence through which parts of it come and go.
const PART: i32 = 1;

/// How a context is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextOptions {
    /// Tokens that it has room for.
    pub tokens: u32,
    /// Most tokens of one computation; between two, others may read the KV.
    pub chunk: u32,
    /// Threads. They run on the cores of the calling thread.
    pub threads: u32,
    /// Whether a device other than the CPU computes.
    pub offload: bool,
    /// Whether attention is fused. State moves only between contexts that agree on it.
    pub flash_attention: bool,
}

/// One sequence of tokens with its KV.
///
/// A context per sequence, and not one for all: the sequence then lies in the cache's first cells, without
/// gaps, whatever others do, and the same tokens give the same bits. (In a cache that sequences share, the
/// order of sums depends on where the others' cells lie.)
#[derive(Debug)]
pub struct Context {
    raw: NonNull<sys::llama_context>,
    model: Arc<Model>,
    options: ContextOptions,
    /// Tokens of the sequence.
    length: u32,
}

// SAFETY: a llama.cpp context may be used from any thread, by one at a time: `&mut self` sees to that.
unsafe impl Send for Context {}

/// llama.cpp's making of contexts is not known to be thread-safe.
static MAKING: Mutex<()> = Mutex::new(());

impl Context {
    /// An empty context.
    pub fn new(model: &Arc<Model>, options: ContextOptions) -> Result<Self, LlamaError> {
        let _one_at_a_time = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
        let threads = i32::try_from(options.threads.max(1))
            .map_err(|_| LlamaError::Invalid(format!("{} threads", options.threads)))?;
        if options.chunk == 0 || options.tokens == 0 {
            return Err(LlamaError::Invalid(format!(
                "a context of {} tokens with chunks of {}, expected at least 1 each",
                options.tokens, options.chunk
            )));
        }
        // SAFETY: plain data.
        let mut params = unsafe { sys::llama_context_default_params() };
        params.n_ctx = options.tokens;
        params.n_batch = options.chunk;
        params.n_ubatch = options.chunk;
        params.n_seq_max = 2;
        params.n_threads = threads;
        params.n_threads_batch = threads;
        // Never "auto": contexts between which state moves must agree.
        params.flash_attn_type = if options.flash_attention {
            sys::LLAMA_FLASH_ATTN_TYPE_ENABLED
        } else {
            sys::LLAMA_FLASH_ATTN_TYPE_DISABLED
        };
        params.type_k = sys::GGML_TYPE_F16;
        params.type_v = sys::GGML_TYPE_F16;
        params.kv_unified = true;
        params.offload_kqv = options.offload;
        params.op_offload = options.offload;
        params.no_perf = true;
        let _ = log::last_words();
        // SAFETY: the model is valid, and `Self` keeps it so.
        let raw = unsafe { sys::llama_init_from_model(model.as_ptr(), params) };
        let raw = NonNull::new(raw).ok_or_else(|| LlamaError::Context {
            tokens: options.tokens,
            says: log::last_words(),
        })?;
        Ok(Self {
            raw,
            model: model.clone(),
            options,
            length: 0,
        })
    }

    /// Tokens that it holds.
    pub fn len(&self) -> u32 {
        self.length
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// How it was made.
    pub fn options(&self) -> ContextOptions {
        self.options
    }

    fn memory(&mut self) -> sys::llama_memory_t {
        // SAFETY: the context is valid; its memory lives as long.
        unsafe { sys::llama_get_memory(self.raw.as_ptr()) }
    }

    /// Appends tokens; at most [`ContextOptions::chunk`]. `logits`: those after the last are wanted.
    pub fn push_tokens(
        &mut self,
        tokens: &[Token],
        logits: bool,
        token: &CancelToken,
    ) -> Result<(), LlamaError> {
        self.compute(tokens.len(), logits, token, |batch| {
            // llama.cpp reads the tokens only.
            batch.token = tokens.as_ptr().cast_mut();
        })
    }

    /// Appends tokens given as embeddings, one after the other; at most [`ContextOptions::chunk`].
    pub fn push_embeddings(
        &mut self,
        embeddings: &[f32],
        token: &CancelToken,
    ) -> Result<(), LlamaError> {
        let width = self.model.embedding();
        if width == 0 || !embeddings.len().is_multiple_of(width) {
            return Err(LlamaError::Invalid(format!(
                "{} numbers are no whole embeddings of {width}",
                embeddings.len()
            )));
        }
        self.compute(embeddings.len() / width, false, token, |batch| {
            // llama.cpp reads the embeddings only.
            batch.embd = embeddings.as_ptr().cast_mut();
        })
    }

    fn compute(
        &mut self,
        count: usize,
        logits: bool,
        token: &CancelToken,
        fill: impl FnOnce(&mut sys::llama_batch),
    ) -> Result<(), LlamaError> {
        let added = u32::try_from(count)
            .ok()
            .filter(|&added| added <= self.options.chunk)
            .ok_or_else(|| {
                LlamaError::Invalid(format!(
                    "a batch of {count} tokens, expected at most {}",
                    self.options.chunk
                ))
            })?;
        if added == 0 {
            return Ok(());
        }
        if self.length + added > self.options.tokens {
            return Err(LlamaError::Full { tokens: added });
        }
        let start = self.length.cast_signed();
        let mut positions: Vec<i32> = (start..start + added.cast_signed()).collect();
        let mut counts = vec![1; count];
        let mut main = MAIN;
        let mut sequences = vec![&raw mut main; count];
        let mut wanted = vec![0_i8; count];
        if logits && let Some(last) = wanted.last_mut() {
            *last = 1;
        }
        let mut batch = sys::llama_batch {
            n_tokens: added.cast_signed(),
            token: std::ptr::null_mut(),
            embd: std::ptr::null_mut(),
            pos: positions.as_mut_ptr(),
            n_seq_id: counts.as_mut_ptr(),
            seq_id: sequences.as_mut_ptr(),
            logits: wanted.as_mut_ptr(),
        };
        fill(&mut batch);
        let raw = self.raw.as_ptr();
        let _ = log::last_words();
        // SAFETY: every array of the batch has `count` elements and outlives the call, and so does the
        // token, to which the callback is set back before this returns.
        let code = unsafe {
            sys::llama_set_abort_callback(raw, Some(aborts), (&raw const *token) as *mut c_void);
            let code = sys::llama_decode(raw, batch);
            sys::llama_synchronize(raw);
            sys::llama_set_abort_callback(raw, None, std::ptr::null_mut());
            code
        };
        if code == 0 {
            self.length += added;
            return Ok(());
        }
        // What was computed before it failed is of no use.
        let length = self.length;
        self.truncate(length)?;
        Err(match code {
            1 => LlamaError::Full { tokens: added },
            2 => LlamaError::Aborted,
            code => LlamaError::Decode {
                code,
                says: log::last_words(),
            },
        })
    }

    /// The logits after the last token, if they were wanted.
    pub fn logits(&mut self) -> Option<&[f32]> {
        // SAFETY: llama.cpp returns null, or as many numbers as the vocabulary has tokens, which the next
        // computation, and so a mutable borrow, may change.
        unsafe {
            let first = sys::llama_get_logits_ith(self.raw.as_ptr(), -1);
            (!first.is_null()).then(|| std::slice::from_raw_parts(first, self.model.vocabulary()))
        }
    }

    /// Drops the tokens from `length` on.
    pub fn truncate(&mut self, length: u32) -> Result<(), LlamaError> {
        let from = if length == 0 {
            -1
        } else {
            length.cast_signed()
        };
        let memory = self.memory();
        // SAFETY: the memory is valid.
        let done = unsafe { sys::llama_memory_seq_rm(memory, MAIN, from, -1) };
        if !done {
            return Err(LlamaError::Invalid(format!(
                "the model's memory cannot be cut back to {length} tokens"
            )));
        }
        self.length = self.length.min(length);
        Ok(())
    }

    /// The state of the tokens in `range`, for a context of the same model that holds those before.
    pub fn export(&mut self, range: Range<u32>) -> Result<Vec<u8>, LlamaError> {
        if range.start > range.end || range.end > self.length {
            return Err(LlamaError::Invalid(format!(
                "tokens {} to {} were asked of a context of {}",
                range.start, range.end, self.length
            )));
        }
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let memory = self.memory();
        // SAFETY: the memory is valid; both sequences are below the number that the context was made for.
        // Sequences of one cache share cells, so this marks them and copies nothing.
        unsafe {
            sys::llama_memory_seq_cp(
                memory,
                MAIN,
                PART,
                range.start.cast_signed(),
                range.end.cast_signed(),
            );
        }
        let state = self.state_of_part();
        self.drop_part();
        state
    }

    fn state_of_part(&mut self) -> Result<Vec<u8>, LlamaError> {
        let raw = self.raw.as_ptr();
        // SAFETY: the context is valid.
        let size = unsafe { sys::llama_state_seq_get_size(raw, PART) };
        let mut state = Vec::<u8>::with_capacity(size);
        // SAFETY: `state` has room for `size` bytes; as many as the call says are initialised.
        unsafe {
            let written = sys::llama_state_seq_get_data(raw, state.as_mut_ptr(), size, PART);
            state.set_len(written.min(size));
        }
        if state.is_empty() {
            return Err(LlamaError::State {
                bytes: size,
                says: log::last_words(),
            });
        }
        Ok(state)
    }

    /// Appends tokens by their state, as [`Self::export`] gave it: `range` is where they were there.
    pub fn import(&mut self, range: Range<u32>, state: &[u8]) -> Result<(), LlamaError> {
        if range.start != self.length {
            return Err(LlamaError::Invalid(format!(
                "a state that begins at token {} cannot follow {} tokens",
                range.start, self.length
            )));
        }
        if range.is_empty() {
            return Ok(());
        }
        if range.end > self.options.tokens {
            return Err(LlamaError::Full {
                tokens: range.end - range.start,
            });
        }
        let _ = log::last_words();
        // SAFETY: pointer and length are those of `state`; llama.cpp checks what it reads.
        let read = unsafe {
            let raw = self.raw.as_ptr();
            sys::llama_state_seq_set_data(raw, state.as_ptr(), state.len(), PART)
        };
        let memory = self.memory();
        // SAFETY: the memory is valid.
        let (first, last) = unsafe {
            (
                sys::llama_memory_seq_pos_min(memory, PART),
                sys::llama_memory_seq_pos_max(memory, PART),
            )
        };
        let fits = first == range.start.cast_signed() && last + 1 == range.end.cast_signed();
        if read != state.len() || !fits {
            self.drop_part();
            return Err(LlamaError::State {
                bytes: state.len(),
                says: if read == 0 {
                    log::last_words()
                } else {
                    format!("it holds tokens {first} to {last}, not {range:?}")
                },
            });
        }
        // SAFETY: as in `export`.
        unsafe { sys::llama_memory_seq_cp(memory, PART, MAIN, -1, -1) };
        self.drop_part();
        self.length = range.end;
        Ok(())
    }

    fn drop_part(&mut self) {
        let memory = self.memory();
        // SAFETY: the memory is valid; a whole sequence can always be removed.
        let _always = unsafe { sys::llama_memory_seq_rm(memory, PART, -1, -1) };
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: nobody else has the pointer.
        unsafe { sys::llama_free(self.raw.as_ptr()) }
    }
}

/// Whether the task was given up; llama.cpp asks between two operations of its graph, on the CPU.
extern "C" fn aborts(token: *mut c_void) -> bool {
    // SAFETY: `compute` passes a token that outlives the computation. Reading its flag cannot panic.
    unsafe { &*token.cast::<CancelToken>() }.is_cancelled()
}
