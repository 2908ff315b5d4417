//! The frames of a played workload: pictures of a folder, or synthetic ones.

use std::path::{Path, PathBuf};

use image::imageops::FilterType;
use sim::world::StreamId;

use super::SetupError;
use super::content::{self, CHANNELS};
use crate::engine::EngineError;

/// Where frames come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frames {
    /// Empty: synthetic.
    pictures: Vec<PathBuf>,
    streams: usize,
}

impl Frames {
    /// Lists the pictures (PNG, JPEG) of a folder; each is read when its turn comes.
    pub(super) fn open(folder: Option<&Path>, streams: usize) -> Result<Self, SetupError> {
        let mut pictures = Vec::new();
        if let Some(folder) = folder {
            let fail = |says: String| SetupError::Frames {
                path: folder.display().to_string(),
                says,
            };
            let entries = std::fs::read_dir(folder).map_err(|error| fail(error.to_string()))?;
            for entry in entries {
                let path = entry.map_err(|error| fail(error.to_string()))?.path();
                let ending = path.extension().map(std::ffi::OsStr::to_ascii_lowercase);
                if ending.is_some_and(|ending| ["png", "jpg", "jpeg"].iter().any(|x| ending == *x))
                {
                    pictures.push(path);
                }
            }
            if pictures.is_empty() {
                return Err(fail("it has no .png, .jpg or .jpeg".into()));
            }
            pictures.sort();
        }
        Ok(Self { pictures, streams })
    }

    /// A frame as a vision tower takes it: three normalized channels of rows of columns. Streams begin at
    /// different pictures, and begin again after the last. Reading one is part of the encoding.
    pub(super) fn image(
        &self,
        stream: StreamId,
        frame: u32,
        size: (u32, u32),
    ) -> Result<Vec<f32>, EngineError> {
        let picture = self.picture(stream, frame, size)?;
        Ok(picture.map_or_else(
            || content::image(stream, frame, size),
            |picture| normalized(&picture),
        ))
    }

    /// The same frame as bytes: rows of columns of red, green and blue.
    #[cfg(feature = "rknn")]
    pub(super) fn pixels(
        &self,
        stream: StreamId,
        frame: u32,
        size: (u32, u32),
    ) -> Result<Vec<u8>, EngineError> {
        let picture = self.picture(stream, frame, size)?;
        Ok(picture.map_or_else(
            || content::pixels(stream, frame, size),
            image::RgbImage::into_raw,
        ))
    }

    /// A frame's picture, stretched to the tower's size; `None`: frames are synthetic.
    fn picture(
        &self,
        stream: StreamId,
        frame: u32,
        (height, width): (u32, u32),
    ) -> Result<Option<image::RgbImage>, EngineError> {
        let count = self.pictures.len();
        if count == 0 {
            return Ok(None);
        }
        let first = count * usize::from(stream.0) / self.streams.max(1);
        let path = &self.pictures[(first + frame as usize) % count];
        let picture = image::open(path).map_err(|error| {
            EngineError::Backend(format!("frame `{}`: {error}", path.display()))
        })?;
        let picture = picture.into_rgb8();
        let stretched = image::imageops::resize(&picture, width, height, FilterType::Triangle);
        Ok(Some(stretched))
    }
}

/// Normalized as towers are trained.
fn normalized(picture: &image::RgbImage) -> Vec<f32> {
    let mut numbers = Vec::with_capacity(picture.as_raw().len());
    for (channel, (mean, deviation)) in CHANNELS.into_iter().enumerate() {
        let values = picture.pixels().map(|pixel| f32::from(pixel[channel]));
        numbers.extend(values.map(|value| (value / 255.0 - mean) / deviation));
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("crossinfer-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn pictures_come_in_order_and_again() {
        let folder = folder("frames");
        for (name, grey) in [("b.png", 128), ("a.JPG", 255), ("c.jpeg", 0)] {
            let picture = image::RgbImage::from_pixel(6, 4, image::Rgb([grey; 3]));
            picture.save(folder.join(name)).unwrap();
        }
        std::fs::write(folder.join("notes.txt"), "no picture").unwrap();
        let frames = Frames::open(Some(&folder), 2).unwrap();
        let grey = |stream, frame| {
            let image = frames.image(StreamId(stream), frame, (2, 3)).unwrap();
            assert_eq!(image.len(), 3 * 2 * 3);
            let (mean, deviation) = CHANNELS[0];
            ((image[0] * deviation + mean) * 255.0).round() as u8
        };
        assert_eq!(
            [grey(0, 0), grey(0, 1), grey(0, 2), grey(0, 3)],
            [255, 128, 0, 255]
        );
        assert_eq!(grey(1, 0), 128, "another stream begins elsewhere");
        #[cfg(feature = "rknn")]
        {
            let pixels = frames.pixels(StreamId(0), 1, (2, 3)).unwrap();
            assert_eq!(pixels, [128; 2 * 3 * 3]);
        }

        std::fs::write(folder.join("b.png"), "no picture").unwrap();
        let error = frames
            .image(StreamId(0), 1, (2, 3))
            .unwrap_err()
            .to_string();
        assert!(error.contains("b.png"), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(Frames::open(Some(&folder), 1).is_err());
    }

    #[test]
    fn channels_rows_and_columns_are_where_towers_expect_them() {
        let mut picture = image::RgbImage::new(2, 2);
        picture.put_pixel(1, 0, image::Rgb([255, 0, 0]));
        let numbers = normalized(&picture);
        let brightest = (0..12).max_by(|&a, &b| numbers[a].total_cmp(&numbers[b]));
        assert_eq!(brightest, Some(1), "red, row 0, column 1");
    }
}
