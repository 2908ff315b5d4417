//! llama.cpp's log: kept off the screen, its last complaint kept for error messages.

use std::ffi::{CStr, c_char, c_void};
use std::sync::{Mutex, Once, PoisonError};

use llama_cpp_sys_2 as sys;

static LAST: Mutex<String> = Mutex::new(String::new());

/// Initialises llama.cpp and takes over its log, once a process.
pub(super) fn init() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: both may be called at any time, here once; the callback is a plain function.
        unsafe {
            sys::llama_log_set(Some(keep), std::ptr::null_mut());
            sys::llama_backend_init();
        }
    });
}

/// The last warning or error since the last call.
pub(super) fn last_words() -> String {
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let words = std::mem::take(&mut *last);
    if words.is_empty() {
        "llama.cpp gives no reason".into()
    } else {
        words
    }
}

extern "C" fn keep(level: sys::ggml_log_level, text: *const c_char, _: *mut c_void) {
    if level != sys::GGML_LOG_LEVEL_ERROR && level != sys::GGML_LOG_LEVEL_WARN || text.is_null() {
        return;
    }
    // SAFETY: llama.cpp passes a terminated string that lives as long as the call.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    let text = text.trim();
    if !text.is_empty() {
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        text.clone_into(&mut last);
    }
}
