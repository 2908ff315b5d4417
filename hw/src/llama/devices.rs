//! The devices that this build of llama.cpp can use here.

use std::ffi::{CStr, c_char};

use llama_cpp_sys_2 as sys;

use super::{LlamaError, log};

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// The CPU.
    Cpu,
    /// A GPU, with memory of its own or not.
    Gpu,
    /// Something else.
    Other,
}

/// A device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// llama.cpp's name of it: `CPU`, `Vulkan0`, …
    pub name: String,
    /// What it is, in its driver's words.
    pub description: String,
    /// Its kind.
    pub kind: DeviceKind,
    /// Bytes of its memory; 0 if unknown.
    pub memory_bytes: u64,
}

/// All devices, in llama.cpp's order.
pub fn devices() -> Vec<Device> {
    log::init();
    // SAFETY: the registry is filled by the first call and read-only after.
    let count = unsafe { sys::ggml_backend_dev_count() };
    (0..count)
        .map(|index| {
            let (mut free, mut total) = (0, 0);
            // SAFETY: `index` is below the count, so the device is valid and lives as long as the
            // process, as do its strings.
            let (name, description, kind) = unsafe {
                let device = sys::ggml_backend_dev_get(index);
                sys::ggml_backend_dev_memory(device, &raw mut free, &raw mut total);
                (
                    text(sys::ggml_backend_dev_name(device)),
                    text(sys::ggml_backend_dev_description(device)),
                    sys::ggml_backend_dev_type(device),
                )
            };
            Device {
                name,
                description,
                kind: match kind {
                    sys::GGML_BACKEND_DEVICE_TYPE_CPU => DeviceKind::Cpu,
                    sys::GGML_BACKEND_DEVICE_TYPE_GPU | sys::GGML_BACKEND_DEVICE_TYPE_IGPU => {
                        DeviceKind::Gpu
                    }
                    _ => DeviceKind::Other,
                },
                memory_bytes: total as u64,
            }
        })
        .collect()
}

/// Instruction sets and switches that llama.cpp was compiled with.
pub fn system_info() -> String {
    log::init();
    // SAFETY: returns a string that lives as long as the process.
    unsafe { text(sys::llama_print_system_info()) }
}

/// The device of this name.
pub(super) fn by_name(name: &str) -> Result<sys::ggml_backend_dev_t, LlamaError> {
    log::init();
    let all = devices();
    let Some(index) = all.iter().position(|device| device.name == name) else {
        let found: Vec<_> = all.into_iter().map(|device| device.name).collect();
        return Err(LlamaError::Device {
            name: name.into(),
            found: found.join(", "),
        });
    };
    // SAFETY: `index` is below the count.
    Ok(unsafe { sys::ggml_backend_dev_get(index) })
}

/// # Safety
///
/// `text` is null or a terminated string.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}
