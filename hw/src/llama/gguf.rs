//! Writing GGUF files, with llama.cpp's own writer and quantization.

use std::ffi::CString;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::ptr::NonNull;
use std::str::FromStr;

use llama_cpp_sys_2 as sys;

use super::{LlamaError, log};

/// How the weights of a model file are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightType {
    /// 32-bit floating point.
    F32,
    /// 16-bit floating point.
    F16,
    /// 8 bits and a scale for 32 weights: 34 bytes.
    Q8_0,
    /// 4 bits and a scale for 32 weights: 18 bytes.
    Q4_0,
    /// 4 bits, a scale and a minimum for 32 weights: 20 bytes.
    Q4_1,
}

impl WeightType {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::F32, Self::F16, Self::Q8_0, Self::Q4_0, Self::Q4_1];

    /// Its name, as in names of files.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Q8_0 => "q8_0",
            Self::Q4_0 => "q4_0",
            Self::Q4_1 => "q4_1",
        }
    }

    fn raw(self) -> sys::ggml_type {
        match self {
            Self::F32 => sys::GGML_TYPE_F32,
            Self::F16 => sys::GGML_TYPE_F16,
            Self::Q8_0 => sys::GGML_TYPE_Q8_0,
            Self::Q4_0 => sys::GGML_TYPE_Q4_0,
            Self::Q4_1 => sys::GGML_TYPE_Q4_1,
        }
    }

    fn file_type(self) -> sys::llama_ftype {
        match self {
            Self::F32 => sys::LLAMA_FTYPE_ALL_F32,
            Self::F16 => sys::LLAMA_FTYPE_MOSTLY_F16,
            Self::Q8_0 => sys::LLAMA_FTYPE_MOSTLY_Q8_0,
            Self::Q4_0 => sys::LLAMA_FTYPE_MOSTLY_Q4_0,
            Self::Q4_1 => sys::LLAMA_FTYPE_MOSTLY_Q4_1,
        }
    }

    /// What llama.cpp keeps in a file's `general.file_type`.
    pub fn file_type_number(self) -> u32 {
        self.file_type()
    }
}

impl FromStr for WeightType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("`{text}` is no type of weights; there are {names}")
        })
    }
}

/// Writes a copy of a model whose weights are stored otherwise.
///
/// To a wider type no weight changes: an F32 copy of a quantized model is a trained model on which two
/// backends agree.
pub fn convert(from: &Path, to: &Path, kind: WeightType, threads: u32) -> Result<(), LlamaError> {
    log::init();
    let fail = |path: &Path, says: String| LlamaError::File {
        path: path.display().to_string(),
        says,
    };
    File::open(from).map_err(|error| fail(from, error.to_string()))?;
    let (source, target) = (c_path(from)?, c_path(to)?);
    // SAFETY: plain data.
    let mut params = unsafe { sys::llama_model_quantize_default_params() };
    params.ftype = kind.file_type();
    params.allow_requantize = true;
    params.pure_ = true;
    params.nthread = i32::try_from(threads.max(1)).unwrap_or(i32::MAX);
    let _ = log::last_words();
    // SAFETY: both names are terminated, and the parameters outlive the call.
    let code =
        unsafe { sys::llama_model_quantize(source.as_ptr(), target.as_ptr(), &raw const params) };
    if code == 0 {
        Ok(())
    } else {
        Err(fail(from, log::last_words()))
    }
}

fn c_path(path: &Path) -> Result<CString, LlamaError> {
    CString::new(path.as_os_str().as_encoded_bytes()).map_err(|_| LlamaError::File {
        path: path.display().to_string(),
        says: "its name holds a zero byte".into(),
    })
}

fn c_text(text: &str) -> Result<CString, LlamaError> {
    CString::new(text).map_err(|_| LlamaError::Invalid(format!("a zero byte in {text:?}")))
}

/// A tensor that is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// How it is stored.
    pub kind: WeightType,
    /// Numbers in a row.
    pub row: usize,
    /// Rows.
    pub rows: usize,
}

/// A GGUF file to be: keys and tensors first, numbers when it is written.
#[derive(Debug)]
pub struct GgufWriter {
    keys: NonNull<sys::gguf_context>,
    tensors: Vec<Tensor>,
}

/// Numbers that are made, quantized and written at a time.
const AT_ONCE: usize = 1 << 20;

impl GgufWriter {
    /// A file without anything.
    pub fn new() -> Result<Self, LlamaError> {
        log::init();
        // SAFETY: makes an empty one, or returns null without memory.
        let keys = NonNull::new(unsafe { sys::gguf_init_empty() });
        Ok(Self {
            keys: keys.ok_or_else(|| LlamaError::Invalid("no memory for a GGUF file".into()))?,
            tensors: Vec::new(),
        })
    }

    /// Sets a key to a number.
    pub fn number(&mut self, key: &str, value: u32) -> Result<(), LlamaError> {
        let key = c_text(key)?;
        // SAFETY: the key is terminated, and is copied.
        unsafe { sys::gguf_set_val_u32(self.keys.as_ptr(), key.as_ptr(), value) };
        Ok(())
    }

    /// Sets a key to a fraction.
    pub fn fraction(&mut self, key: &str, value: f32) -> Result<(), LlamaError> {
        let key = c_text(key)?;
        // SAFETY: as in `number`.
        unsafe { sys::gguf_set_val_f32(self.keys.as_ptr(), key.as_ptr(), value) };
        Ok(())
    }

    /// Sets a key to true or false.
    pub fn flag(&mut self, key: &str, value: bool) -> Result<(), LlamaError> {
        let key = c_text(key)?;
        // SAFETY: as in `number`.
        unsafe { sys::gguf_set_val_bool(self.keys.as_ptr(), key.as_ptr(), value) };
        Ok(())
    }

    /// Sets a key to a text.
    pub fn text(&mut self, key: &str, value: &str) -> Result<(), LlamaError> {
        let (key, value) = (c_text(key)?, c_text(value)?);
        // SAFETY: both are terminated, and are copied.
        unsafe { sys::gguf_set_val_str(self.keys.as_ptr(), key.as_ptr(), value.as_ptr()) };
        Ok(())
    }

    /// Sets a key to a list of texts.
    pub fn texts(&mut self, key: &str, values: &[String]) -> Result<(), LlamaError> {
        let key = c_text(key)?;
        let texts: Vec<CString> = values
            .iter()
            .map(|text| c_text(text))
            .collect::<Result<_, _>>()?;
        let mut pointers: Vec<_> = texts.iter().map(|text| text.as_ptr()).collect();
        // SAFETY: as many terminated texts as it says, all copied.
        unsafe {
            sys::gguf_set_arr_str(
                self.keys.as_ptr(),
                key.as_ptr(),
                pointers.as_mut_ptr(),
                pointers.len(),
            );
        }
        Ok(())
    }

    /// Sets a key to a list of numbers.
    pub fn numbers(&mut self, key: &str, values: &[i32]) -> Result<(), LlamaError> {
        let key = c_text(key)?;
        // SAFETY: pointer and length are those of `values`, of the type named; they are copied.
        unsafe {
            sys::gguf_set_arr_data(
                self.keys.as_ptr(),
                key.as_ptr(),
                sys::GGUF_TYPE_INT32,
                values.as_ptr().cast(),
                values.len(),
            );
        }
        Ok(())
    }

    /// Adds a tensor. Rows must be whole blocks of its type.
    pub fn tensor(&mut self, tensor: Tensor) -> Result<(), LlamaError> {
        // SAFETY: a known type.
        let block = unsafe { sys::ggml_blck_size(tensor.kind.raw()) };
        let block = usize::try_from(block).unwrap_or(1);
        if tensor.row == 0 || tensor.rows == 0 || !tensor.row.is_multiple_of(block) {
            return Err(LlamaError::Invalid(format!(
                "tensor {} has {} rows of {}, expected rows of a multiple of {block} for {}",
                tensor.name,
                tensor.rows,
                tensor.row,
                tensor.kind.name()
            )));
        }
        self.tensors.push(tensor);
        Ok(())
    }

    /// Writes the file. `fill` makes the numbers of a tensor, some rows at a time, in order.
    pub fn write(
        self,
        path: &Path,
        mut fill: impl FnMut(&Tensor, &mut [f32]),
    ) -> Result<(), LlamaError> {
        let file = |error: std::io::Error| LlamaError::File {
            path: path.display().to_string(),
            says: error.to_string(),
        };
        let head = self.head()?;
        let mut out = BufWriter::new(File::create(path).map_err(file)?);
        out.write_all(&head).map_err(file)?;
        // SAFETY: the context is valid.
        let alignment = unsafe { sys::gguf_get_alignment(self.keys.as_ptr()) }.max(1);
        let mut numbers = Vec::new();
        let mut bytes = Vec::new();
        for tensor in &self.tensors {
            let rows_at_once = (AT_ONCE / tensor.row).max(1);
            let mut written = 0;
            for first in (0..tensor.rows).step_by(rows_at_once) {
                let rows = rows_at_once.min(tensor.rows - first);
                numbers.resize(rows * tensor.row, 0.0);
                fill(tensor, &mut numbers);
                quantize(tensor, &numbers, rows, &mut bytes);
                out.write_all(&bytes).map_err(file)?;
                written += bytes.len();
            }
            let padding = written.next_multiple_of(alignment) - written;
            out.write_all(&vec![0; padding]).map_err(file)?;
        }
        out.into_inner()
            .map_err(|error| file(error.into_error()))?
            .sync_all()
            .map_err(file)
    }

    /// Everything before the tensors' numbers.
    fn head(&self) -> Result<Vec<u8>, LlamaError> {
        // SAFETY: a context of descriptions alone; freed below.
        let descriptions = unsafe {
            sys::ggml_init(sys::ggml_init_params {
                mem_size: sys::ggml_tensor_overhead() * (self.tensors.len() + 1),
                mem_buffer: std::ptr::null_mut(),
                no_alloc: true,
            })
        };
        let described = self.describe(descriptions);
        // SAFETY: the writer has copied what it needs.
        unsafe { sys::ggml_free(descriptions) };
        described?;
        // SAFETY: the buffer has the size that the writer asks for, and is all written.
        unsafe {
            let size = sys::gguf_get_meta_size(self.keys.as_ptr());
            let mut head = vec![0_u8; size];
            sys::gguf_get_meta_data(self.keys.as_ptr(), head.as_mut_ptr().cast());
            Ok(head)
        }
    }

    fn describe(&self, descriptions: *mut sys::ggml_context) -> Result<(), LlamaError> {
        if descriptions.is_null() {
            return Err(LlamaError::Invalid("no memory for tensors".into()));
        }
        for tensor in &self.tensors {
            let name = c_text(&tensor.name)?;
            let length = |count: usize| {
                i64::try_from(count)
                    .map_err(|_| LlamaError::Invalid(format!("{} is too large", tensor.name)))
            };
            let (row, rows) = (length(tensor.row)?, length(tensor.rows)?);
            // SAFETY: the context has room for as many tensors as there are; names are copied.
            unsafe {
                let raw = if tensor.rows == 1 {
                    sys::ggml_new_tensor_1d(descriptions, tensor.kind.raw(), row)
                } else {
                    sys::ggml_new_tensor_2d(descriptions, tensor.kind.raw(), row, rows)
                };
                sys::ggml_set_name(raw, name.as_ptr());
                sys::gguf_add_tensor(self.keys.as_ptr(), raw);
            }
        }
        Ok(())
    }
}

fn quantize(tensor: &Tensor, numbers: &[f32], rows: usize, bytes: &mut Vec<u8>) {
    let kind = tensor.kind.raw();
    // Both are below AT_ONCE, or a single row.
    let (row, count) = (tensor.row.cast_signed() as i64, rows.cast_signed() as i64);
    // SAFETY: `numbers` has `rows` rows, whole blocks; `bytes` gets the size that they take.
    unsafe {
        bytes.resize(sys::ggml_row_size(kind, row) * rows, 0);
        sys::ggml_quantize_chunk(
            kind,
            numbers.as_ptr(),
            bytes.as_mut_ptr().cast(),
            0,
            count,
            row,
            std::ptr::null(),
        );
    }
}

impl Drop for GgufWriter {
    fn drop(&mut self) {
        // SAFETY: nobody else has the pointer.
        unsafe { sys::gguf_free(self.keys.as_ptr()) }
    }
}
