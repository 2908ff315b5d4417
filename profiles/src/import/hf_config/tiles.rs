//! Towers of one size that take a larger picture in tiles.

use serde_json::Value;

use super::super::Options;
use super::super::model::Known;
use super::count;
use super::processor::SPLITTING;
use super::vision::{Tower, shuffled, side};

/// The largest side that Idefics3's processor brings a picture to.
const SIDE_MAX: f64 = 4096.0;

/// How Idefics3's processor, which is `SmolVLM`'s too, cuts pictures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Tiles {
    /// What the longer side is brought to, pixels.
    pub(crate) longest: f64,
    /// Side of a tile, pixels.
    pub(crate) tile: f64,
}

impl Tiles {
    /// Tiles of a picture, and the whole beside them: `resize`, `resize_for_vision_encoder` and `split_images` of
    /// transformers.
    pub(crate) fn pictures(self, width: f64, height: f64) -> f64 {
        let longest = self.longest.min(SIDE_MAX);
        let ratio = width.max(height) / width.min(height);
        // The shorter side is cut to a whole number, and that brought to an even one.
        let shorter = (longest / ratio).floor();
        let shorter = (shorter + shorter % 2.0).max(1.0);
        let along = (longest / self.tile).ceil();
        let across = (along * self.tile / (longest / shorter)).floor();
        let tiles = along * (across / self.tile).ceil().max(1.0);
        if tiles > 1.0 { tiles + 1.0 } else { 1.0 }
    }

    /// Tiles of a square picture, the most that there are, and the whole.
    pub(crate) fn most(self) -> f64 {
        self.pictures(1.0, 1.0)
    }
}

/// What the processor's file says of it.
enum Splitting {
    Off,
    On(Tiles),
    /// It is on, and into what is not stated.
    Unknown,
}

impl Tower<'_> {
    /// Whether pictures are cut as Idefics3's are.
    fn splits(&self) -> bool {
        ["idefics3", "smolvlm"].contains(&self.family())
    }

    fn splitting(&self) -> Option<Splitting> {
        let table = self.root.get(SPLITTING)?;
        if table.get("on").and_then(Value::as_bool) == Some(false) {
            return Some(Splitting::Off);
        }
        let both = count(table, "longest").zip(count(table, "tile"));
        Some(both.map_or(Splitting::Unknown, |(longest, tile)| {
            Splitting::On(Tiles { longest, tile })
        }))
    }

    /// Tokens of Idefics3 and `SmolVLM`: of one tile, as a frame of a video is, or of all tiles of a still picture.
    pub(super) fn split(&self, options: &Options) -> Option<Known> {
        if !self.splits() {
            return None;
        }
        let (size, patch) = (self.size()?, self.first(&["patch_size"])?);
        let scale = count(self.root, "scale_factor")?;
        let each = ((size / patch).floor() / scale).floor().powi(2);
        let tile = format!(
            "{each} a tile of {size} x {size}, {scale} x {scale} patches of {patch} a token"
        );
        let tiles = match self.splitting() {
            Some(Splitting::On(tiles)) => tiles,
            Some(Splitting::Off) => {
                return Some(Known::new(
                    each,
                    format!("{tile}: one, `do_image_splitting` is off"),
                ));
            }
            Some(Splitting::Unknown) | None => {
                return Some(Known::new(each, format!("{tile}: one is assumed")));
            }
        };
        let Some((width, height)) = options.frame else {
            let most = tiles.most();
            return Some(Known {
                value: each,
                interval: (most > 1.0).then_some((each, each * most)),
                how: format!(
                    "{tile}: one, as frames of a video are; a still picture has up to {most} (`do_image_splitting`)"
                ),
            });
        };
        let pictures = tiles.pictures(f64::from(width), f64::from(height));
        Some(Known {
            value: each * pictures,
            interval: (pictures > 1.0).then_some((each, each * pictures)),
            how: format!(
                "{tile}: a still picture of {width} x {height} (`--frame`) has {pictures} (`do_image_splitting`, its longer side {} pixels), the lower end is a frame of a video",
                tiles.longest.min(SIDE_MAX)
            ),
        })
    }

    /// What to know where how pictures are cut into tiles is not known, or not what `--frame` says.
    pub(super) fn uncut(&self, options: &Options) -> Option<String> {
        let splitting = self.splitting();
        if !self.splits() {
            let on = splitting.is_some_and(|splitting| !matches!(splitting, Splitting::Off));
            // Of these, tiles are counted from `config.json`.
            let counted =
                self.flag("dynamic_image_size") || self.root.get("image_grid_pinpoints").is_some();
            return (on && !counted).then(|| {
                "`do_image_splitting` of the processor is on, and how this family cuts pictures is not known here: the tokens are those of one tile".to_owned()
            });
        }
        if let (Some(Splitting::On(tiles)), Some(size)) = (&splitting, self.size())
            && tiles.tile != size
        {
            return Some(format!(
                "the processor cuts tiles of {} pixels (`max_image_size.longest_edge`), and the tower takes {size} (`image_size`): the tokens of a tile are those of the tower's size",
                tiles.tile
            ));
        }
        match splitting {
            None => Some(
                "1 tile a frame is assumed, as of a video; into how many the processor cuts a still picture stands in preprocessor_config.json (`do_image_splitting`, `size`, `max_image_size`), which is not beside this file or does not say it".to_owned(),
            ),
            Some(Splitting::Unknown) => Some(
                "1 tile a frame is assumed, as of a video: preprocessor_config.json cuts still pictures (`do_image_splitting`) and does not state `size.longest_edge` and `max_image_size.longest_edge`".to_owned(),
            ),
            Some(Splitting::On(tiles)) if options.frame.is_none() => Some(format!(
                "1 tile a frame is assumed, as of a video; of a still picture give the size (`--frame 1280x720`): it has up to {}",
                tiles.most()
            )),
            Some(Splitting::On(_) | Splitting::Off) => None,
        }
    }

    /// LLaVA-NeXT: the whole at low resolution, and the tiles of the best of the listed sizes without what the frame
    /// leaves empty, a token more at the end of each row.
    pub(super) fn any_resolution(&self, grid: &[Value], options: &Options) -> Option<Known> {
        let (size, patch) = (self.size()?, self.first(&["patch_size"])?);
        let cells = (size / patch).floor();
        let (width, height) = options.frame.map(|(w, h)| (f64::from(w), f64::from(h)))?;
        let sizes = grid.iter().filter_map(|pair| {
            let [high, wide] = pair.as_array()?.as_slice() else {
                return None;
            };
            Some((side(wide)?, side(high)?))
        });
        // The most of the frame's own pixels, then the least waste.
        let score = |&(wide, high): &(f64, f64)| {
            let scale = (wide / width).min(high / height);
            let kept = ((width * scale).floor() * (height * scale).floor()).min(width * height);
            (kept, kept - wide * high)
        };
        let best = sizes.max_by(|a, b| {
            let (a, b) = (score(a), score(b));
            a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
        });
        let (wide, high) = best?;
        let mut columns = (wide / size).floor() * cells;
        let mut rows = (high / size).floor() * cells;
        if width / height > columns / rows {
            let kept = (height * columns / width).floor();
            rows -= 2.0 * ((rows - kept) / 2.0).floor();
        } else {
            let kept = (width * rows / height).floor();
            columns -= 2.0 * ((columns - kept) / 2.0).floor();
        }
        let how = format!(
            "{width} x {height} pixels (`--frame`) in tiles of {wide} x {high} (`image_grid_pinpoints`): {columns} x {rows} patches and an end a row, and {} of the whole",
            cells * cells
        );
        Some(Known::new(rows * columns + rows + cells * cells, how))
    }

    /// `InternVL`: a frame of a video is one tile; a picture is cut to tiles nearest to its proportions.
    pub(super) fn dynamic(&self, options: &Options) -> Option<Known> {
        let (size, patch) = (self.size()?, self.first(&["patch_size"])?);
        let cells = (size / patch).floor();
        let (each, _) =
            shuffled(self.root, "downsample_ratio", cells).unwrap_or((cells * cells, 1.0));
        let most = count(self.root, "max_dynamic_patch").unwrap_or(12.0);
        let thumbnail = f64::from(u8::from(self.flag("use_thumbnail") && most > 1.0));
        let tile = format!("{each} a tile of {size} x {size} (`dynamic_image_size`)");
        let Some((width, height)) = options.frame else {
            return Some(Known {
                value: each,
                interval: Some((each, each * (most + thumbnail))),
                how: format!(
                    "{tile}: one, as frames of a video are; a still picture has up to {}",
                    most + thumbnail
                ),
            });
        };
        let tiles = self.pictures(options);
        Some(Known {
            value: each * tiles,
            interval: (tiles > 1.0).then_some((each, each * tiles)),
            how: format!(
                "{tile}: a still picture of {width} x {height} (`--frame`) has {tiles}, the lower end is a frame of a video"
            ),
        })
    }

    /// Pictures of the tower's own size that a frame becomes.
    pub(super) fn pictures(&self, options: &Options) -> f64 {
        let (Some((width, height)), Some(size)) = (options.frame, self.size()) else {
            return 1.0;
        };
        let (width, height) = (f64::from(width), f64::from(height));
        if let (true, Some(Splitting::On(splitting))) = (self.splits(), self.splitting()) {
            return splitting.pictures(width, height);
        }
        if !self.flag("dynamic_image_size") {
            return 1.0;
        }
        let least = count(self.root, "min_dynamic_patch").unwrap_or(1.0) as u32;
        let most = count(self.root, "max_dynamic_patch")
            .unwrap_or(12.0)
            .min(1024.0) as u32;
        let mut shapes: Vec<(u32, u32)> = (1..=most)
            .flat_map(|wide| (1..=most).map(move |high| (wide, high)))
            .filter(|(wide, high)| (least..=most).contains(&(wide * high)))
            .collect();
        shapes.sort_by_key(|(wide, high)| wide * high);
        let mut best = (f64::MAX, 1.0);
        for (wide, high) in shapes {
            let (wide, high) = (f64::from(wide), f64::from(high));
            let gap = (width / height - wide / high).abs();
            // Of equal proportions more tiles where the frame has pixels for half of them.
            let fills = width * height > 0.5 * size * size * wide * high;
            if gap < best.0 || (gap <= best.0 && fills) {
                best = (gap, wide * high);
            }
        }
        let thumbnail = self.flag("use_thumbnail") && best.1 > 1.0;
        best.1 + f64::from(u8::from(thumbnail))
    }
}
