//! The log of RKLLM's multimodal demo: how long its vision tower took on a frame.

use super::super::note::NoteKind;
use super::super::row::{ENCODE_CORES, NOT_STATED, Test};
use super::super::text::{leading_number, short};
use super::Reader;

/// What the log said so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Demo {
    /// Width and height of the tower's input, pixels.
    pixels: Option<(u64, u64)>,
    /// The block of its frames, once there is one.
    block: Option<u64>,
}

/// `model input height=392, width=392, channel=3`.
fn input(line: &str) -> Option<(u64, u64)> {
    let (_, rest) = line.split_once("model input height=")?;
    let (height, rest) = rest.split_once(", width=")?;
    let width = rest.split(',').next()?;
    let side = |text: &str| text.trim().parse().ok().filter(|side| *side > 0_u64);
    Some((side(width)?, side(height)?))
}

impl Reader<'_> {
    /// Whether a line is one of the demo's on its vision tower: `main: ImgEnc Model inference took 2934.41 ms`.
    pub(super) fn demo(&mut self, number: u64, line: &str) -> bool {
        if let Some(pixels) = input(line) {
            self.demo.pixels = Some(pixels);
            return true;
        }
        let Some((_, rest)) = line.split_once("ImgEnc Model ") else {
            return false;
        };
        let Some((_, time)) = rest.split_once("inference took ") else {
            let text = format!("`{}` is no time on a frame: not used", short(line.trim()));
            self.notes.skip(self.file, number, text);
            return true;
        };
        let secs = leading_number(time).and_then(|read| {
            let (number, unit) = read.ok_or_else(|| format!("`{}` is no time", short(time)))?;
            let factor = match unit.split_whitespace().next() {
                Some("ms") => 1e-3,
                Some("s") => 1.0,
                _ => return Err(format!("`{}` has no unit, ms or s", short(time))),
            };
            let secs = number * factor;
            (secs > 0.0)
                .then_some(secs)
                .ok_or_else(|| format!("`{}` is no time", short(time)))
        });
        let secs = match secs {
            Ok(secs) => secs,
            Err(reason) => {
                self.notes
                    .skip(self.file, number, format!("the encoder's time: {reason}"));
                return true;
            }
        };
        let block = self.demo.block.unwrap_or_else(|| {
            self.block += 1;
            let text = "in which precision and on how many NPU cores the encoder ran is not stated: the log's are the language model's";
            self.notes
                .add(NoteKind::Warning, self.file, Some(number), text);
            self.block
        });
        self.demo.block = Some(block);
        let now = std::mem::replace(&mut self.block, block);
        let mut identity = self.identity();
        self.loaded.put_into(&mut identity);
        // The language model's cores are not the tower's.
        if identity.contains_key("cores") {
            identity.insert(ENCODE_CORES.to_owned(), NOT_STATED.to_owned());
        }
        let test = Test::Encode {
            pixels: self.demo.pixels,
        };
        self.push(number, &identity, test, secs, time.trim().to_owned(), None);
        self.block = now.max(block);
        true
    }
}
