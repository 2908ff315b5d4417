//! A vision tower in the NPU: an image in, numbers out.

use std::path::Path;

use super::api::{self, Context, NCHW, NHWC, TensorAttr};
use super::{Rknn, RknnError, is_model};

/// What the file of a model begins with; of an encrypted one, a few bytes later.
const MAGIC: &[u8] = b"RKNN";

/// Versions, as the runtime says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sdk {
    /// Of the runtime.
    pub runtime: String,
    /// Of the kernel's driver.
    pub driver: String,
}

/// A vision tower, in a context of its own.
#[derive(Debug)]
pub struct Tower {
    context: Context,
    height: u32,
    width: u32,
    /// Of its output.
    numbers: usize,
    sdk: Sdk,
}

impl Tower {
    /// Loads a `.rknn` file with one input, an image of three channels, and one output. All of it is computed by the
    /// NPU and by what the converter left to the CPU.
    pub fn load(path: &Path, by: &Rknn) -> Result<Self, RknnError> {
        let model = read(path)?;
        let api = api::load(&by.library())?;
        let context = Context::new(api, path, model)?;
        let load = |failed| RknnError::Load {
            path: path.to_path_buf(),
            failed,
        };
        if let Some(cores) = by.cores {
            let set = context.set_core_mask(cores.mask());
            let set = set.map_err(|says| RknnError::Library {
                library: by.library(),
                says,
            })?;
            set.map_err(load)?;
        }
        let versions = context.versions().map_err(load)?;
        let wrong = |says: String| RknnError::Shape {
            path: path.to_path_buf(),
            says,
        };
        let count = context.in_out().map_err(load)?;
        if count.inputs != 1 {
            return Err(wrong(format!(
                "{} inputs, expected one image",
                count.inputs
            )));
        }
        if count.outputs != 1 {
            return Err(wrong(format!(
                "{} outputs, expected one: `hw/models/to-rknn --output NAME` keeps one",
                count.outputs
            )));
        }
        let input = context.input().map_err(load)?;
        let (height, width) = size(&input).map_err(wrong)?;
        let output = context.output().map_err(load)?;
        if output.n_elems == 0 {
            return Err(wrong(format!("{} is empty", told("output", &output))));
        }
        Ok(Self {
            context,
            height,
            width,
            numbers: output.n_elems as usize,
            sdk: Sdk {
                runtime: versions.api(),
                driver: versions.driver(),
            },
        })
    }

    /// Rows and columns of its image.
    pub fn size(&self) -> (u32, u32) {
        (self.height, self.width)
    }

    /// What computes it.
    pub fn sdk(&self) -> &Sdk {
        &self.sdk
    }

    /// Runs it on one image of [`Self::size`], rows of columns of red, green and blue, and returns its output, flat.
    pub fn encode(&mut self, image: &[u8]) -> Result<Vec<f32>, RknnError> {
        let expected = 3 * self.height as usize * self.width as usize;
        if image.len() != expected {
            return Err(RknnError::Data(format!(
                "an image of {} bytes, expected {expected}",
                image.len()
            )));
        }
        let numbers = self.context.run(image, self.numbers)?;
        let none = numbers.iter().filter(|number| !number.is_finite()).count();
        if none > 0 {
            // Half precision ends at 65504, and vision transformers have activations beyond.
            return Err(RknnError::Data(format!(
                "{none} of {} numbers are infinite or none: if the model computes in FP16, quantize it (`hw/models/to-rknn \
                 --dtype w8a8`)",
                numbers.len()
            )));
        }
        Ok(numbers)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, RknnError> {
    let fail = |says: String| RknnError::File {
        path: path.to_path_buf(),
        says,
    };
    if !is_model(path) {
        return Err(fail("is no `.rknn` file".into()));
    }
    let model = std::fs::read(path).map_err(|error| fail(format!("cannot be read: {error}")))?;
    let head = &model[..model.len().min(16)];
    if !head.windows(MAGIC.len()).any(|part| part == MAGIC) {
        return Err(fail("does not begin as `.rknn` files do".into()));
    }
    Ok(model)
}

/// Rows and columns of an image that goes in.
fn size(input: &TensorAttr) -> Result<(u32, u32), String> {
    let told = || told("input", input);
    let dims = input
        .dims()
        .and_then(|dims| <[u32; 4]>::try_from(dims).ok());
    let [batch, channels, height, width] = match (input.fmt, dims) {
        (NHWC, Some([batch, height, width, channels])) => [batch, channels, height, width],
        (NCHW, Some(dims)) => dims,
        _ => {
            return Err(format!(
                "{}, expected four dimensions as NHWC or NCHW",
                told()
            ));
        }
    };
    if batch != 1 {
        return Err(format!("{}, expected one image at a time", told()));
    }
    if channels != 3 {
        return Err(format!("{}, expected 3 channels", told()));
    }
    let bytes = u64::from(height) * u64::from(width) * 3;
    if bytes == 0 || bytes > u64::from(u32::MAX) {
        return Err(format!("{}, which is no size of an image", told()));
    }
    Ok((height, width))
}

fn told(what: &str, attr: &TensorAttr) -> String {
    let dims = attr.dims().map_or_else(
        || "more dimensions than there can be".to_owned(),
        |dims| {
            let dims: Vec<String> = dims.iter().map(u32::to_string).collect();
            dims.join(" × ")
        },
    );
    let format = match attr.fmt {
        NCHW => "NCHW",
        NHWC => "NHWC",
        _ => "no order that is known",
    };
    format!(
        "{what} `{}` is {dims} in {format} of {}",
        attr.name(),
        attr.type_name()
    )
}
