//! Models of random weights, in the shapes of published ones: as fast and as large as those, and
//! meaningless. For timing where weights cannot be had, and for tests.
//!
//! Everything is a function of the seed. Weights are uniform, with the deviation that keeps activations
//! of the usual size from layer to layer.

mod language;
mod proto;
mod vision;

use std::path::Path;

use sim::rng::Generator;

use crate::llama::{LlamaError, WeightType};

/// A model that can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// What it is like.
    pub about: &'static str,
    shape: Shape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Language(language::Shape),
    Vision(vision::Shape),
}

/// All that can be made.
pub const PRESETS: [Preset; 7] = [
    Preset {
        name: "qwen2.5-0.5b",
        about: "language model (GGUF), Qwen2.5-0.5B's shape: 24 layers, 494 M weights",
        shape: Shape::Language(language::QWEN_0_5B),
    },
    Preset {
        name: "smollm2-135m",
        about: "language model (GGUF), SmolLM2-135M's shape: 30 layers, 135 M weights",
        shape: Shape::Language(language::SMOLLM2_135M),
    },
    Preset {
        name: "mini",
        about: "language model (GGUF) of 4 layers and 4 M weights, for tests",
        shape: Shape::Language(language::MINI),
    },
    Preset {
        name: "tiny",
        about: "language model (GGUF) of 2 layers and 0.1 M weights, for tests",
        shape: Shape::Language(language::TINY),
    },
    Preset {
        name: "clip-vit-b32",
        about: "vision tower (ONNX), CLIP ViT-B/32's shape: 224 px, 50 tokens, 87 M weights",
        shape: Shape::Vision(vision::CLIP_B32),
    },
    Preset {
        name: "vit-s16",
        about: "vision tower (ONNX), ViT-S/16's shape: 224 px, 197 tokens, 22 M weights",
        shape: Shape::Vision(vision::VIT_S16),
    },
    Preset {
        name: "vit-tiny",
        about: "vision tower (ONNX) of 2 layers at 64 px, for tests",
        shape: Shape::Vision(vision::TINY),
    },
];

/// How weights are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Of a language model.
    Weights(WeightType),
    /// Of a vision tower: 32-bit floating point.
    Float,
    /// Of a vision tower: weights of 8 bits, activations of 16, as quantize and dequantize nodes say
    /// (QDQ): the form that integer accelerators take.
    Qdq,
}

/// Why a model was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// There is no such preset.
    #[error("there is no model `{0}` to make (there are: {list})", list = names())]
    Unknown(String),
    /// There is no such storage.
    #[error("`{storage}` is no way to store {preset}: expected {expected}")]
    Storage {
        /// What was asked.
        storage: String,
        /// Of which model.
        preset: &'static str,
        /// What there is.
        expected: String,
    },
    /// The file could not be written.
    #[error(transparent)]
    Language(#[from] LlamaError),
    /// The file could not be written.
    #[error("`{path}` cannot be written: {says}")]
    Write {
        /// The file.
        path: String,
        /// What the system says.
        says: String,
    },
}

fn names() -> String {
    PRESETS.map(|preset| preset.name).join(", ")
}

impl Preset {
    /// The preset of this name.
    pub fn named(name: &str) -> Result<Self, GenerateError> {
        let found = PRESETS.into_iter().find(|preset| preset.name == name);
        found.ok_or_else(|| GenerateError::Unknown(name.into()))
    }

    /// A way to store it, by name; `None`: the usual one (`q8_0`, `f32`).
    pub fn storage(&self, name: Option<&str>) -> Result<Storage, GenerateError> {
        let wrong = |expected: String| GenerateError::Storage {
            storage: name.unwrap_or_default().into(),
            preset: self.name,
            expected,
        };
        match (self.shape, name) {
            (Shape::Language(_), None) => Ok(Storage::Weights(WeightType::Q8_0)),
            (Shape::Language(_), Some(text)) => text
                .parse()
                .map(Storage::Weights)
                .map_err(|_| wrong(WeightType::ALL.map(WeightType::name).join(", "))),
            (Shape::Vision(_), None | Some("f32")) => Ok(Storage::Float),
            (Shape::Vision(_), Some("qdq")) => Ok(Storage::Qdq),
            (Shape::Vision(_), Some(_)) => Err(wrong("f32, qdq".into())),
        }
    }

    /// Makes it, and writes it to a file.
    pub fn write(&self, storage: Storage, seed: u64, path: &Path) -> Result<(), GenerateError> {
        let wrong = || GenerateError::Storage {
            storage: format!("{storage:?}"),
            preset: self.name,
            expected: "one that `Preset::storage` gave".into(),
        };
        match (self.shape, storage) {
            (Shape::Language(shape), Storage::Weights(kind)) => {
                Ok(language::write(&shape, self.name, kind, seed, path)?)
            }
            (Shape::Vision(shape), Storage::Float | Storage::Qdq) => {
                let model = vision::model(&shape, storage == Storage::Qdq, seed);
                std::fs::write(path, model).map_err(|error| GenerateError::Write {
                    path: path.display().to_string(),
                    says: error.to_string(),
                })
            }
            _ => Err(wrong()),
        }
    }
}

/// Where the weights of the `index`th tensor come from.
fn generator(seed: u64, index: usize) -> Generator {
    Generator::from_key(seed.rotate_left(32) ^ index as u64)
}

/// Fills with numbers uniform about 0 of this standard deviation.
fn fill(generator: &mut Generator, deviation: f32, numbers: &mut [f32]) {
    const BITS: u32 = 24;
    let half = (1_u32 << (BITS - 1)) as f32;
    let scale = deviation * 3_f32.sqrt() / half;
    let number = |bits: u64| ((bits >> (64 - BITS)) as f32 - half) * scale;
    for pair in numbers.chunks_mut(2) {
        let bits = generator.next_u64();
        pair[0] = number(bits);
        if let Some(second) = pair.get_mut(1) {
            *second = number(bits << 32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_have_the_deviation_that_was_asked() {
        let mut numbers = vec![0.0; 100_001];
        fill(&mut generator(1, 2), 0.05, &mut numbers);
        let count = numbers.len() as f32;
        let mean = numbers.iter().sum::<f32>() / count;
        let square = numbers.iter().map(|x| x * x).sum::<f32>() / count;
        assert!(mean.abs() < 1e-3, "{mean}");
        assert!((square.sqrt() - 0.05).abs() < 1e-3, "{square}");
        let mut other = vec![0.0; 9];
        fill(&mut generator(1, 2), 0.05, &mut other);
        assert_eq!(other[..], numbers[..9], "the seed says it all");
        fill(&mut generator(2, 2), 0.05, &mut other);
        assert_ne!(other[..], numbers[..9]);
    }

    #[test]
    fn what_cannot_be_made_says_what_can() {
        let error = Preset::named("qwen").unwrap_err().to_string();
        assert!(error.contains("qwen2.5-0.5b"), "{error}");
        let tower = Preset::named("vit-tiny").unwrap();
        let error = tower.storage(Some("q8_0")).unwrap_err().to_string();
        assert!(error.contains("qdq"), "{error}");
        assert!(
            tower
                .write(Storage::Weights(WeightType::F32), 1, "x".as_ref())
                .is_err()
        );
    }
}
