//! A library with the interface of librknnrt.so and no NPU, compiled by the tests: it checks what it is given, keeps a
//! log, computes something of the image, and fails as the "model", a text, says:
//!
//! ```text
//! RKNN
//! log FILE               every call is appended there
//! input FMT TYPE D D …   attributes of the input        output TYPE N    N numbers
//! count IN OUT           tensors                         spoil short|null|nan   what comes out
//! init CODE              the call's return value         mask CODE, query CODE
//! fail CALL NTH CODE     of `set`, `run`, `get`, `release`
//! slow MS                each run
//! ```
//!
//! Structures are written after rknn_api.h once more, not shared with what is tested.

#![allow(non_camel_case_types, reason = "the header's names")]

use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::io::Write;
use std::sync::{Arc, LazyLock, Mutex};

#[unsafe(no_mangle)]
pub static STANDIN_VERSION: [u8; 36] = *b"librknnrt version: 9.9.9 (stand-in)\0";

#[repr(C)]
pub struct rknn_input_output_num {
    n_input: u32,
    n_output: u32,
}

#[repr(C)]
pub struct rknn_tensor_attr {
    index: u32,
    n_dims: u32,
    dims: [u32; 16],
    name: [c_char; 256],
    n_elems: u32,
    size: u32,
    fmt: c_int,
    r#type: c_int,
    qnt_type: c_int,
    fl: i8,
    zp: i32,
    scale: f32,
    w_stride: u32,
    size_with_stride: u32,
    pass_through: u8,
    h_stride: u32,
}

#[repr(C)]
pub struct rknn_sdk_version {
    api_version: [c_char; 256],
    drv_version: [c_char; 256],
}

#[repr(C)]
pub struct rknn_input {
    index: u32,
    buf: *mut c_void,
    size: u32,
    pass_through: u8,
    r#type: c_int,
    fmt: c_int,
}

#[repr(C)]
pub struct rknn_output {
    want_float: u8,
    is_prealloc: u8,
    index: u32,
    buf: *mut c_void,
    size: u32,
}

const PARAM_INVALID: c_int = -5;
const MODEL_INVALID: c_int = -6;
const CTX_INVALID: c_int = -7;
const INPUT_INVALID: c_int = -8;
const OUTPUT_INVALID: c_int = -9;
const UINT8: c_int = 3;
const NHWC: c_int = 1;

#[derive(Default)]
struct Model {
    log: String,
    init: c_int,
    mask: c_int,
    query: c_int,
    count: (u32, u32),
    input: (c_int, c_int, Vec<u32>),
    output: (c_int, u32),
    fails: Vec<(String, u32, c_int)>,
    slow: u64,
    spoil: String,
    calls: HashMap<String, u32>,
    image: Option<Vec<u8>>,
    done: Option<Vec<f32>>,
    out: Option<Box<[f32]>>,
}

impl Model {
    fn read(text: &str) -> Option<Self> {
        let mut model = Self {
            count: (1, 1),
            ..Self::default()
        };
        let mut lines = text.lines();
        (lines.next()? == "RKNN").then_some(())?;
        for line in lines {
            let mut words = line.split(' ');
            let mut word = || words.next();
            match word()? {
                "log" => model.log = word()?.to_owned(),
                "init" => model.init = word()?.parse().ok()?,
                "mask" => model.mask = word()?.parse().ok()?,
                "query" => model.query = word()?.parse().ok()?,
                "count" => model.count = (word()?.parse().ok()?, word()?.parse().ok()?),
                "output" => model.output = (word()?.parse().ok()?, word()?.parse().ok()?),
                "slow" => model.slow = word()?.parse().ok()?,
                "spoil" => model.spoil = word()?.to_owned(),
                "fail" => {
                    let fail = (
                        word()?.to_owned(),
                        word()?.parse().ok()?,
                        word()?.parse().ok()?,
                    );
                    model.fails.push(fail);
                }
                "input" => {
                    model.input.0 = word()?.parse().ok()?;
                    model.input.1 = word()?.parse().ok()?;
                    model.input.2 = words.map_while(|word| word.parse().ok()).collect();
                }
                _ => return None,
            }
        }
        Some(model)
    }

    fn log(&self, line: &str) {
        let file = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(&self.log);
        if let Ok(mut file) = file {
            let _ = writeln!(file, "{line}");
        }
    }

    /// Logs a call, and returns what the script has it return.
    fn call(&mut self, name: &str) -> c_int {
        self.log(name);
        let nth = self.calls.entry(name.to_owned()).or_default();
        *nth += 1;
        let fail = self
            .fails
            .iter()
            .find(|(call, at, _)| call == name && at == nth);
        fail.map_or(0, |(.., code)| *code)
    }

    fn compute(&self, image: &[u8]) -> Vec<f32> {
        let number = |k: usize| {
            let terms = image.iter().enumerate().map(|(at, &byte)| {
                let weight = ((at * 31 + k * 17) % 7) as f32 - 3.0;
                f32::from(byte) * weight / 255.0
            });
            terms.sum()
        };
        (0..self.output.1 as usize).map(number).collect()
    }
}

static CONTEXTS: LazyLock<Mutex<HashMap<u64, Arc<Mutex<Model>>>>> = LazyLock::new(Mutex::default);

/// Runs with a context's model; others are not kept waiting.
fn with(context: u64, run: impl FnOnce(&mut Model) -> c_int) -> c_int {
    let Some(model) = CONTEXTS.lock().unwrap().get(&context).cloned() else {
        return CTX_INVALID;
    };
    let mut model = model.lock().unwrap();
    run(&mut model)
}

fn write<T>(info: *mut c_void, size: u32, value: T) -> c_int {
    if size as usize != size_of::<T>() {
        return PARAM_INVALID;
    }
    unsafe { info.cast::<T>().write(value) };
    0
}

fn chars(text: &str) -> [c_char; 256] {
    let mut chars = [0; 256];
    for (char, byte) in chars.iter_mut().zip(text.bytes()) {
        *char = byte as c_char;
    }
    chars
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rknn_init(
    context: *mut u64,
    model: *mut c_void,
    size: u32,
    flag: u32,
    extend: *mut c_void,
) -> c_int {
    if size == 0 || flag != 0 || !extend.is_null() {
        return PARAM_INVALID;
    }
    let bytes = unsafe { std::slice::from_raw_parts(model.cast::<u8>(), size as usize) };
    let Some(model) = std::str::from_utf8(bytes).ok().and_then(Model::read) else {
        return MODEL_INVALID;
    };
    model.log("init");
    if model.init != 0 {
        return model.init;
    }
    let mut contexts = CONTEXTS.lock().unwrap();
    // Beyond 32 bits: a handle that is cut is not found.
    let handle = (0x00A5_0000_0001..)
        .find(|handle| !contexts.contains_key(handle))
        .unwrap();
    contexts.insert(handle, Arc::new(Mutex::new(model)));
    unsafe { context.write(handle) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rknn_destroy(context: u64) -> c_int {
    let code = with(context, |model| {
        model.log(if model.out.is_some() {
            "destroy, an output not released"
        } else {
            "destroy"
        });
        0
    });
    CONTEXTS.lock().unwrap().remove(&context);
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rknn_query(
    context: u64,
    cmd: c_uint,
    info: *mut c_void,
    size: u32,
) -> c_int {
    with(context, |model| {
        if model.query != 0 {
            return model.query;
        }
        let attr = |name: &str, fmt, r#type, shape: &[u32], n_elems| {
            let mut dims = [0; 16];
            for (dim, size) in dims.iter_mut().zip(shape) {
                *dim = *size;
            }
            rknn_tensor_attr {
                index: 0,
                n_dims: shape.len() as u32,
                dims,
                name: chars(name),
                n_elems,
                size: n_elems,
                fmt,
                r#type,
                qnt_type: 2,
                fl: 0,
                zp: -14,
                scale: 0.018,
                w_stride: shape.get(2).copied().unwrap_or(0),
                size_with_stride: n_elems,
                pass_through: 0,
                h_stride: 0,
            }
        };
        match cmd {
            0 => {
                let (n_input, n_output) = model.count;
                write(info, size, rknn_input_output_num { n_input, n_output })
            }
            1 | 2 => {
                // The index goes in.
                if size as usize == size_of::<rknn_tensor_attr>()
                    && unsafe { info.cast::<u32>().read() } != 0
                {
                    return PARAM_INVALID;
                }
                let (fmt, r#type, shape) = &model.input;
                let (out_type, out) = model.output;
                write(
                    info,
                    size,
                    match cmd {
                        1 => attr("pixels", *fmt, *r#type, shape, shape.iter().product()),
                        _ => attr("embedding", 3, out_type, &[1, out], out),
                    },
                )
            }
            5 => {
                let versions = rknn_sdk_version {
                    api_version: chars("9.9.9 (stand-in)"),
                    drv_version: chars("0.9.8"),
                };
                write(info, size, versions)
            }
            _ => PARAM_INVALID,
        }
    })
}

#[cfg(masks)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rknn_set_core_mask(context: u64, mask: c_int) -> c_int {
    with(context, |model| {
        model.log(&format!("mask {mask}"));
        model.mask
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rknn_inputs_set(
    context: u64,
    count: u32,
    inputs: *mut rknn_input,
) -> c_int {
    with(context, |model| {
        let code = model.call("set");
        if code != 0 {
            return code;
        }
        let input = unsafe { &*inputs };
        let bytes: u32 = model.input.2.iter().product();
        let right = count == 1
            && (input.index, input.pass_through) == (0, 0)
            && (input.r#type, input.fmt) == (UINT8, NHWC)
            && (input.buf.is_null(), input.size) == (false, bytes);
        if !right {
            return INPUT_INVALID;
        }
        let image = unsafe { std::slice::from_raw_parts(input.buf.cast::<u8>(), bytes as usize) };
        model.image = Some(image.to_vec());
        0
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rknn_run(context: u64, extend: *mut c_void) -> c_int {
    with(context, |model| {
        let code = model.call("run");
        if code != 0 || !extend.is_null() {
            return if code != 0 { code } else { PARAM_INVALID };
        }
        let Some(image) = model.image.take() else {
            return INPUT_INVALID;
        };
        std::thread::sleep(std::time::Duration::from_millis(model.slow));
        model.done = Some(model.compute(&image));
        0
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rknn_outputs_get(
    context: u64,
    count: u32,
    outputs: *mut rknn_output,
    extend: *mut c_void,
) -> c_int {
    with(context, |model| {
        let code = model.call("get");
        if code != 0 {
            return code;
        }
        let output = unsafe { &mut *outputs };
        let right = count == 1
            && extend.is_null()
            && (output.want_float, output.is_prealloc, output.index) == (1, 0, 0)
            && model.out.is_none();
        let Some(mut numbers) = model.done.take().filter(|_| right) else {
            return OUTPUT_INVALID;
        };
        if model.spoil == "nan" {
            numbers[1] = f32::INFINITY;
        }
        let mut numbers = numbers.into_boxed_slice();
        output.buf = numbers.as_mut_ptr().cast();
        output.size = size_of_val(&*numbers) as u32;
        match &*model.spoil {
            "short" => output.size -= 1,
            "null" => output.buf = std::ptr::null_mut(),
            _ => {}
        }
        model.out = Some(numbers);
        0
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rknn_outputs_release(
    context: u64,
    count: u32,
    outputs: *mut rknn_output,
) -> c_int {
    with(context, |model| {
        let code = model.call("release");
        if code != 0 {
            return code;
        }
        let buf = unsafe { (*outputs).buf };
        let Some(mut numbers) = model.out.take().filter(|_| count == 1) else {
            return OUTPUT_INVALID;
        };
        if !buf.is_null() && buf != numbers.as_mut_ptr().cast() {
            return OUTPUT_INVALID;
        }
        // Whoever still reads it finds no numbers.
        numbers.fill(f32::NAN);
        0
    })
}
