//! The part of `rknn_api.h` that an encoder needs, over a library that is loaded when the program runs. All `unsafe`
//! code of [`crate::rknn`].
//!
//! Written after the header that `airockchip/rknn_model_zoo` has at commit bad6c73
//! (`3rdparty/rknpu2/include/rknn_api.h`), whose structures are those of the `bindgen` output in `rknpu2-sys` 0.0.2
//! too. Not over one of the crates: `rknpu2` 0.0.9 takes no notice when `rknn_set_core_mask` fails and takes errors that
//! it does not know for `RKNN_ERR_FAIL`; `rknn-runtime` 0.1.1 has contexts of 32 bits and other numbers for types,
//! which are a RV1106's.

#![expect(unsafe_code, reason = "calls into C")]

use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint, c_void};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Mutex, PoisonError};

use libloading::Library;

use super::{Failed, RknnError};

/// `rknn_context`.
#[cfg(target_arch = "arm")]
type Handle = u32;
/// `rknn_context`.
#[cfg(not(target_arch = "arm"))]
type Handle = u64;

/// `rknn_query_cmd`: how many inputs and outputs there are.
const QUERY_IN_OUT_NUM: c_uint = 0;
/// `rknn_query_cmd`: the attributes of an input.
const QUERY_INPUT_ATTR: c_uint = 1;
/// `rknn_query_cmd`: the attributes of an output.
const QUERY_OUTPUT_ATTR: c_uint = 2;
/// `rknn_query_cmd`: the versions of the runtime and the driver.
const QUERY_SDK_VERSION: c_uint = 5;

/// `rknn_tensor_type`: the names that the header's `get_type_string` has for its values.
const TYPES: [&str; 12] = [
    "FP32", "FP16", "INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "BOOL", "INT4",
    "BF16",
];
/// `RKNN_TENSOR_UINT8`.
const TYPE_UINT8: c_uint = 3;
/// `RKNN_TENSOR_NCHW`.
pub(super) const NCHW: c_uint = 0;
/// `RKNN_TENSOR_NHWC`.
pub(super) const NHWC: c_uint = 1;

const MAX_DIMS: usize = 16;
const MAX_NAME: usize = 256;

/// `rknn_input_output_num`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct InOutNum {
    pub(super) inputs: u32,
    pub(super) outputs: u32,
}

/// `rknn_tensor_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct TensorAttr {
    index: u32,
    n_dims: u32,
    dims: [u32; MAX_DIMS],
    name: [u8; MAX_NAME],
    pub(super) n_elems: u32,
    size: u32,
    pub(super) fmt: c_uint,
    type_: c_uint,
    qnt_type: c_uint,
    fl: i8,
    zp: i32,
    scale: f32,
    w_stride: u32,
    size_with_stride: u32,
    pass_through: u8,
    h_stride: u32,
}

impl TensorAttr {
    /// Sizes of its dimensions; `None`: it says that it has more than there can be.
    pub(super) fn dims(&self) -> Option<&[u32]> {
        self.dims.get(..self.n_dims as usize)
    }

    pub(super) fn name(&self) -> String {
        text(&self.name)
    }

    /// Type of its numbers, in the header's words.
    pub(super) fn type_name(&self) -> &'static str {
        TYPES.get(self.type_ as usize).copied().unwrap_or("unknown")
    }
}

/// `rknn_sdk_version`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct SdkVersion {
    api: [u8; 256],
    driver: [u8; 256],
}

impl SdkVersion {
    pub(super) fn api(&self) -> String {
        text(&self.api)
    }

    pub(super) fn driver(&self) -> String {
        text(&self.driver)
    }
}

/// Up to the zero byte, or all of it.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0);
    let bytes = &bytes[..end.unwrap_or(bytes.len())];
    String::from_utf8_lossy(bytes).trim().to_owned()
}

/// `rknn_input`.
#[repr(C)]
#[derive(Debug)]
struct Input {
    index: u32,
    buf: *mut c_void,
    size: u32,
    pass_through: u8,
    type_: c_uint,
    fmt: c_uint,
}

/// `rknn_output`.
#[repr(C)]
#[derive(Debug)]
struct Output {
    want_float: u8,
    is_prealloc: u8,
    index: u32,
    buf: *mut c_void,
    size: u32,
}

type Init = unsafe extern "C" fn(*mut Handle, *mut c_void, u32, u32, *mut c_void) -> c_int;
type Destroy = unsafe extern "C" fn(Handle) -> c_int;
type Query = unsafe extern "C" fn(Handle, c_uint, *mut c_void, u32) -> c_int;
type SetCoreMask = unsafe extern "C" fn(Handle, c_uint) -> c_int;
type InputsSet = unsafe extern "C" fn(Handle, u32, *mut Input) -> c_int;
type Run = unsafe extern "C" fn(Handle, *mut c_void) -> c_int;
type OutputsGet = unsafe extern "C" fn(Handle, u32, *mut Output, *mut c_void) -> c_int;
type OutputsRelease = unsafe extern "C" fn(Handle, u32, *mut Output) -> c_int;

/// The functions of a library.
#[derive(Debug)]
pub(super) struct Api {
    init: Init,
    destroy: Destroy,
    query: Query,
    /// Runtimes for NPUs with one core may lack it.
    set_core_mask: Result<SetCoreMask, String>,
    inputs_set: InputsSet,
    run: Run,
    outputs_get: OutputsGet,
    outputs_release: OutputsRelease,
    /// Where they are.
    _library: Library,
}

impl Api {
    /// Where one of its functions lies, which tells whose file it is from.
    pub(super) fn address(&self) -> usize {
        self.init as usize
    }
}

/// What was loaded. It stays until the process ends: the runtime may have threads of its own.
static LOADED: Mutex<BTreeMap<PathBuf, &'static Api>> = Mutex::new(BTreeMap::new());

/// Loads a library, once.
pub(super) fn load(path: &Path) -> Result<&'static Api, RknnError> {
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(api) = loaded.get(path) {
        return Ok(api);
    }
    let api = open(path).map_err(|says| RknnError::Library {
        library: path.to_path_buf(),
        says,
    })?;
    let api: &'static Api = Box::leak(Box::new(api));
    loaded.insert(path.to_path_buf(), api);
    Ok(api)
}

fn open(path: &Path) -> Result<Api, String> {
    // SAFETY: what the library does when it is loaded is up to it: it is Rockchip's, or what the user names.
    let library = unsafe { Library::new(path) }.map_err(|error| error.to_string())?;
    // SAFETY: `rknn_api.h` declares each function with the type that its name has here.
    unsafe {
        Ok(Api {
            init: function(&library, "rknn_init")?,
            destroy: function(&library, "rknn_destroy")?,
            query: function(&library, "rknn_query")?,
            set_core_mask: function(&library, "rknn_set_core_mask"),
            inputs_set: function(&library, "rknn_inputs_set")?,
            run: function(&library, "rknn_run")?,
            outputs_get: function(&library, "rknn_outputs_get")?,
            outputs_release: function(&library, "rknn_outputs_release")?,
            _library: library,
        })
    }
}

/// # Safety
///
/// `F` is the type of the function that the library has under this name, and is not called when the library is gone.
unsafe fn function<F: Copy>(library: &Library, name: &str) -> Result<F, String> {
    // SAFETY: as the caller says.
    let found = unsafe { library.get::<F>(name) };
    found.map(|symbol| *symbol).map_err(|error| {
        format!("it has no `{name}`, so it is no RKNN runtime of a RK3588 ({error})")
    })
}

/// Plain data that `rknn_query` fills in.
///
/// # Safety
///
/// Any bytes are a value of it.
unsafe trait Answer {}

// SAFETY: numbers.
unsafe impl Answer for InOutNum {}
// SAFETY: numbers.
unsafe impl Answer for TensorAttr {}
// SAFETY: bytes.
unsafe impl Answer for SdkVersion {}

/// A model in the NPU.
#[derive(Debug)]
pub(super) struct Context {
    api: &'static Api,
    handle: Handle,
}

/// Contexts are made and destroyed one at a time: that the runtime can do it otherwise is not known. They run side by
/// side.
static MAKING: Mutex<()> = Mutex::new(());

impl Context {
    /// Loads a model, the bytes of the file `path`. The runtime has copied them when this returns.
    pub(super) fn new(
        api: &'static Api,
        path: &Path,
        mut model: Vec<u8>,
    ) -> Result<Self, RknnError> {
        // A size of 0 would have it take the address for that of a path.
        let size = u32::try_from(model.len()).ok().filter(|&size| size > 0);
        let size = size.ok_or_else(|| RknnError::File {
            path: path.to_path_buf(),
            says: format!("has {} bytes", model.len()),
        })?;
        let _one_at_a_time = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
        let mut handle: Handle = 0;
        // SAFETY: the handle and the model are valid for as many bytes while this runs; without extensions.
        let code = unsafe {
            (api.init)(
                &raw mut handle,
                model.as_mut_ptr().cast(),
                size,
                0,
                ptr::null_mut(),
            )
        };
        match Failed::check("rknn_init", code) {
            Ok(()) => Ok(Self { api, handle }),
            Err(failed) => Err(RknnError::Load {
                path: path.to_path_buf(),
                failed,
            }),
        }
    }

    fn query<T: Answer>(&self, what: c_uint, mut answer: T) -> Result<T, Failed> {
        let size = size_of::<T>() as u32;
        // SAFETY: the context is valid, and so are `size` bytes of the answer, whatever is written there.
        let code = unsafe { (self.api.query)(self.handle, what, (&raw mut answer).cast(), size) };
        Failed::check("rknn_query", code)?;
        Ok(answer)
    }

    pub(super) fn in_out(&self) -> Result<InOutNum, Failed> {
        let none = InOutNum {
            inputs: 0,
            outputs: 0,
        };
        self.query(QUERY_IN_OUT_NUM, none)
    }

    /// The attributes of the first input.
    pub(super) fn input(&self) -> Result<TensorAttr, Failed> {
        self.query(QUERY_INPUT_ATTR, FIRST)
    }

    /// The attributes of the first output.
    pub(super) fn output(&self) -> Result<TensorAttr, Failed> {
        self.query(QUERY_OUTPUT_ATTR, FIRST)
    }

    pub(super) fn versions(&self) -> Result<SdkVersion, Failed> {
        let none = SdkVersion {
            api: [0; 256],
            driver: [0; 256],
        };
        self.query(QUERY_SDK_VERSION, none)
    }

    /// Ties the context to cores; the error is what the library lacks.
    pub(super) fn set_core_mask(&self, mask: u32) -> Result<Result<(), Failed>, String> {
        let set = self.api.set_core_mask.clone()?;
        // SAFETY: the context is valid.
        let code = unsafe { set(self.handle, mask) };
        Ok(Failed::check("rknn_set_core_mask", code))
    }

    /// Runs the model with one input, rows of columns of channels, and takes `count` numbers of one output.
    pub(super) fn run(&mut self, image: &[u8], count: usize) -> Result<Vec<f32>, RknnError> {
        let wrong = |says: String| RknnError::Data(says);
        let size = u32::try_from(image.len())
            .map_err(|_| wrong(format!("an image of {} bytes", image.len())))?;
        let mut input = Input {
            index: 0,
            // It is read only.
            buf: image.as_ptr().cast_mut().cast(),
            size,
            pass_through: 0,
            type_: TYPE_UINT8,
            fmt: NHWC,
        };
        let call = |name, code| Failed::check(name, code).map_err(RknnError::Run);
        // SAFETY: the context is valid; one input, whose buffer lives until this function returns.
        let code = unsafe { (self.api.inputs_set)(self.handle, 1, &raw mut input) };
        call("rknn_inputs_set", code)?;
        // SAFETY: the context is valid; without extensions it returns when the run has ended.
        let code = unsafe { (self.api.run)(self.handle, ptr::null_mut()) };
        call("rknn_run", code)?;
        let mut output = Output {
            want_float: 1,
            is_prealloc: 0,
            index: 0,
            buf: ptr::null_mut(),
            size: 0,
        };
        // SAFETY: the context is valid; one output, whose buffer is the runtime's.
        let code =
            unsafe { (self.api.outputs_get)(self.handle, 1, &raw mut output, ptr::null_mut()) };
        call("rknn_outputs_get", code)?;
        let bytes = output.size as usize;
        let numbers = if output.buf.is_null() || bytes / size_of::<f32>() < count {
            Err(wrong(format!(
                "the output has {bytes} bytes, expected {count} numbers of 4"
            )))
        } else {
            let mut numbers = vec![0.0_f32; count];
            // SAFETY: the runtime's buffer has at least as many bytes, and is its own until it is released. As bytes:
            // nobody says how it is aligned.
            unsafe {
                ptr::copy_nonoverlapping(
                    output.buf.cast::<u8>(),
                    numbers.as_mut_ptr().cast::<u8>(),
                    count * size_of::<f32>(),
                );
            }
            Ok(numbers)
        };
        // SAFETY: the output is as it came, and is not looked at any more.
        let code = unsafe { (self.api.outputs_release)(self.handle, 1, &raw mut output) };
        let numbers = numbers?;
        call("rknn_outputs_release", code)?;
        Ok(numbers)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let _one_at_a_time = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the context is valid, and this is the last that is done with it. What it returns helps nobody now.
        let _ = unsafe { (self.api.destroy)(self.handle) };
    }
}

/// Asks for the first input or output.
const FIRST: TensorAttr = TensorAttr {
    index: 0,
    n_dims: 0,
    dims: [0; MAX_DIMS],
    name: [0; MAX_NAME],
    n_elems: 0,
    size: 0,
    fmt: 0,
    type_: 0,
    qnt_type: 0,
    fl: 0,
    zp: 0,
    scale: 0.0,
    w_stride: 0,
    size_with_stride: 0,
    pass_through: 0,
    h_stride: 0,
};

#[cfg(test)]
mod tests {
    use std::mem::{align_of, offset_of, size_of};

    use super::*;

    /// What a C compiler makes of the header's structures, for 64 bits.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn structures_lie_as_in_c() {
        assert_eq!(size_of::<Handle>(), 8);
        assert_eq!((size_of::<InOutNum>(), align_of::<InOutNum>()), (8, 4));
        assert_eq!(offset_of!(InOutNum, outputs), 4);
        assert_eq!(
            (size_of::<SdkVersion>(), align_of::<SdkVersion>()),
            (512, 1)
        );
        assert_eq!(offset_of!(SdkVersion, driver), 256);
        assert_eq!(
            (size_of::<TensorAttr>(), align_of::<TensorAttr>()),
            (376, 4)
        );
        let attr = [
            (offset_of!(TensorAttr, index), 0),
            (offset_of!(TensorAttr, n_dims), 4),
            (offset_of!(TensorAttr, dims), 8),
            (offset_of!(TensorAttr, name), 72),
            (offset_of!(TensorAttr, n_elems), 328),
            (offset_of!(TensorAttr, size), 332),
            (offset_of!(TensorAttr, fmt), 336),
            (offset_of!(TensorAttr, type_), 340),
            (offset_of!(TensorAttr, qnt_type), 344),
            (offset_of!(TensorAttr, fl), 348),
            (offset_of!(TensorAttr, zp), 352),
            (offset_of!(TensorAttr, scale), 356),
            (offset_of!(TensorAttr, w_stride), 360),
            (offset_of!(TensorAttr, size_with_stride), 364),
            (offset_of!(TensorAttr, pass_through), 368),
            (offset_of!(TensorAttr, h_stride), 372),
        ];
        assert!(attr.iter().all(|(ours, theirs)| ours == theirs), "{attr:?}");
        assert_eq!((size_of::<Input>(), align_of::<Input>()), (32, 8));
        let input = [
            (offset_of!(Input, index), 0),
            (offset_of!(Input, buf), 8),
            (offset_of!(Input, size), 16),
            (offset_of!(Input, pass_through), 20),
            (offset_of!(Input, type_), 24),
            (offset_of!(Input, fmt), 28),
        ];
        assert!(
            input.iter().all(|(ours, theirs)| ours == theirs),
            "{input:?}"
        );
        assert_eq!((size_of::<Output>(), align_of::<Output>()), (24, 8));
        let output = [
            (offset_of!(Output, want_float), 0),
            (offset_of!(Output, is_prealloc), 1),
            (offset_of!(Output, index), 4),
            (offset_of!(Output, buf), 8),
            (offset_of!(Output, size), 16),
        ];
        assert!(
            output.iter().all(|(ours, theirs)| ours == theirs),
            "{output:?}"
        );
    }

    #[test]
    fn what_the_runtime_says_of_itself_is_not_trusted() {
        let attr = TensorAttr {
            n_dims: 17,
            name: [b'x'; MAX_NAME],
            type_: 12,
            ..FIRST
        };
        assert_eq!(attr.dims(), None);
        assert_eq!(attr.name(), "x".repeat(MAX_NAME), "without a zero byte");
        assert_eq!(attr.type_name(), "unknown");
    }
}
