//! What a played workload consists of: images, prompts, and visual tokens, all a function of their numbers.
//!
//! A workload says how long a prompt is, not what it asks. So prompts are pieces of a fixed text, exactly as
//! long as they must be, and frames are synthetic images. The language model that is at hand has no
//! projector for the vision tower's output; [`project`] stands in for one. It gives as many embeddings as
//! the frame has visual tokens, of the model's width and usual magnitude, and they depend on the image. So
//! times, KV and state are those of a real visual language model; what the answer says is not.

use sim::rng::Generator;
use sim::world::StreamId;

use crate::llama::{LlamaError, Model, Token};

/// Root mean square of a stand-in embedding: about that of trained token embeddings.
const EMBEDDING_RMS: f32 = 0.1;
/// Numbers of the tower's output that enter each number of an embedding.
const TAPS: u64 = 16;
/// Mean and standard deviation of the channels that vision towers are trained on (`ImageNet`).
pub(super) const CHANNELS: [(f32, f32); 3] = [(0.485, 0.229), (0.456, 0.224), (0.406, 0.225)];

const SYSTEM: &str = "<|im_start|>system\nYou are a helpful assistant that watches a camera and answers \
    questions about what it has seen, briefly and truly.<|im_end|>\n";
const TEXT: &str = "What has changed since the last picture? How many people are there at the door, and \
    what are they carrying? Is the gate open or closed? Describe the vehicle that came into the yard. \
    Where did the dog go after it crossed the road? Has anything been left behind on the bench? Say in \
    one sentence what the person in the blue coat is doing now, and whether it is getting dark outside. \
    What should I look at first when I come home, and why? ";

/// Texts as tokens of a model.
#[derive(Clone, Debug)]
pub(super) struct Texts {
    system: Vec<Token>,
    text: Vec<Token>,
}

impl Texts {
    pub(super) fn new(model: &Model) -> Result<Self, LlamaError> {
        let texts = Self {
            system: model.tokenize(SYSTEM, true)?,
            text: model.tokenize(TEXT, false)?,
        };
        if texts.text.is_empty() {
            return Err(LlamaError::Tokenize);
        }
        Ok(texts)
    }

    /// A system prompt of exactly `count` tokens: cut, or continued with text.
    pub(super) fn system(&self, count: u32) -> Vec<Token> {
        let rest = self.text.iter().cycle();
        self.system
            .iter()
            .chain(rest)
            .take(count as usize)
            .copied()
            .collect()
    }

    /// A prompt of exactly `count` tokens, for the query of this number.
    pub(super) fn prompt(&self, stream: StreamId, query: u32, count: u32) -> Vec<Token> {
        let start = Generator::from_key(key(stream, query)).below(self.text.len() as u64);
        self.text
            .iter()
            .cycle()
            .skip(start as usize)
            .take(count as usize)
            .copied()
            .collect()
    }
}

fn key(stream: StreamId, index: u32) -> u64 {
    (u64::from(stream.0) << 32) | u64::from(index)
}

/// A synthetic frame, as a vision tower takes it: three normalized channels of rows of columns.
pub(super) fn image(stream: StreamId, frame: u32, size: (u32, u32)) -> Vec<f32> {
    let mut image = picture(stream, frame, size);
    let channel = (image.len() / CHANNELS.len()).max(1);
    for (channel, (mean, deviation)) in image.chunks_exact_mut(channel).zip(CHANNELS) {
        for value in channel {
            *value = (*value - mean) / deviation;
        }
    }
    image
}

/// The same frame as bytes: rows of columns of red, green and blue.
#[cfg(feature = "rknn")]
pub(super) fn pixels(stream: StreamId, frame: u32, size: (u32, u32)) -> Vec<u8> {
    let picture = picture(stream, frame, size);
    let count = picture.len() / CHANNELS.len();
    let mut pixels = Vec::with_capacity(picture.len());
    for pixel in 0..count {
        let channels = picture.iter().skip(pixel).step_by(count);
        pixels.extend(channels.map(|value| (value * 255.0).round() as u8));
    }
    pixels
}

/// A synthetic frame: three channels of rows of columns, from 0 to 1.
fn picture(stream: StreamId, frame: u32, (height, width): (u32, u32)) -> Vec<f32> {
    let mut generator = Generator::from_key(key(stream, frame));
    let mut image = Vec::with_capacity(3 * height as usize * width as usize);
    let unit = |generator: &mut Generator| generator.unit() as f32;
    for _ in CHANNELS {
        let (base, down, right) = (
            unit(&mut generator),
            unit(&mut generator),
            unit(&mut generator),
        );
        for row in 0..height {
            for column in 0..width {
                let slope =
                    down * row as f32 / height as f32 + right * column as f32 / width as f32;
                let grain = 0.2 * unit(&mut generator);
                image.push((base + slope + grain) / 3.2);
            }
        }
    }
    image
}

/// As many embeddings of `width` numbers as there are `tokens`, from a tower's output: the output is cut
/// into as many pieces, and each number of an embedding is a fixed random combination of its piece.
pub(super) fn project(output: &[f32], tokens: u32, width: usize) -> Vec<f32> {
    let piece = (output.len() / tokens.max(1) as usize).max(1);
    let mut taps = Generator::from_key(width as u64);
    let pattern: Vec<(u64, f32)> = (0..width as u64 * TAPS)
        .map(|_| {
            let bits = taps.next_u64();
            (bits >> 1, if bits & 1 == 0 { 1.0 } else { -1.0 })
        })
        .collect();
    let mut embeddings = Vec::with_capacity(tokens as usize * width);
    for token in 0..tokens as usize {
        // A tower may give fewer numbers than there are tokens; then pieces come again.
        let first = (token * piece) % output.len().max(1);
        let piece = output.get(first..(first + piece).min(output.len()));
        let piece = piece.filter(|piece| !piece.is_empty()).unwrap_or(&[1.0]);
        let start = embeddings.len();
        embeddings.extend(pattern.chunks_exact(TAPS as usize).map(|taps| {
            let sum: f32 = taps
                .iter()
                .map(|&(tap, sign)| sign * piece[(tap % piece.len() as u64) as usize])
                .sum();
            sum
        }));
        normalize(&mut embeddings[start..]);
    }
    embeddings
}

/// The embeddings of a frame that no tower sees.
pub(super) fn blind(stream: StreamId, frame: u32, tokens: u32, width: usize) -> Vec<f32> {
    let mut generator = Generator::from_key(key(stream, frame));
    let output: Vec<f32> = (0..tokens as usize * TAPS as usize)
        .map(|_| generator.normal() as f32)
        .collect();
    project(&output, tokens, width)
}

fn normalize(embedding: &mut [f32]) {
    let square: f32 = embedding.iter().map(|x| x * x).sum();
    let rms = (square / embedding.len().max(1) as f32).sqrt();
    if rms > 0.0 {
        for x in embedding {
            *x *= EMBEDDING_RMS / rms;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_projection_has_the_tokens_the_width_and_the_magnitude_asked_for() {
        let output: Vec<f32> = image(StreamId(0), 3, (16, 16));
        for tokens in [1, 7, 49, 2000] {
            let embeddings = project(&output, tokens, 24);
            assert_eq!(embeddings.len(), tokens as usize * 24);
            for embedding in embeddings.chunks(24) {
                let square: f32 = embedding.iter().map(|x| x * x).sum();
                assert!(((square / 24.0).sqrt() - EMBEDDING_RMS).abs() < 1e-3);
            }
        }
    }

    #[test]
    #[cfg(feature = "rknn")]
    fn bytes_are_the_same_picture_in_another_order() {
        let (height, width) = (5, 7);
        let numbers = image(StreamId(1), 2, (height, width));
        let pixels = pixels(StreamId(1), 2, (height, width));
        assert_eq!(pixels.len(), numbers.len());
        for (at, &byte) in pixels.iter().enumerate() {
            let (pixel, channel) = (at / 3, at % 3);
            let (mean, deviation) = CHANNELS[channel];
            let value = numbers[channel * (height * width) as usize + pixel] * deviation + mean;
            assert!((f32::from(byte) - value * 255.0).abs() < 0.51, "{at}");
        }
    }

    #[test]
    fn frames_differ_and_come_again_alike() {
        let at = |stream, frame| image(StreamId(stream), frame, (8, 8));
        assert_eq!(at(0, 1), at(0, 1));
        assert_ne!(at(0, 1), at(0, 2));
        assert_ne!(at(0, 1), at(1, 1));
        assert_ne!(
            project(&at(0, 1), 4, 8),
            project(&at(0, 2), 4, 8),
            "what is seen is heard"
        );
    }
}
