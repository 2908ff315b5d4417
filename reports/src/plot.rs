//! Plots over plain data, each as SVG text or as a PNG file by the same drawing code.

mod bars;
mod curves;
mod draw;
mod front;
mod map;
mod scatter;
#[cfg(test)]
mod tests;
mod timeline;

use std::fmt;
use std::sync::OnceLock;

use ab_glyph::{Font, FontRef};
use plotters::coord::Shift;
use plotters::prelude::*;
use screen::visible;

pub use bars::{Bar, Bars};
pub use curves::{Curve, Curves, distributions, over_time};
pub(crate) use draw::COLOURS;
pub use front::{Choice, Front, Goal};
pub use map::{Cell, Map};
pub use scatter::{Point, Scatter};
pub use timeline::Timeline;

/// Why a plot could not be drawn.
#[derive(Debug)]
pub struct DrawError(String);

impl fmt::Display for DrawError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the plot could not be drawn: {}", self.0)
    }
}

impl std::error::Error for DrawError {}

/// Text of a drawing error, whatever its type.
fn failed(error: impl fmt::Display) -> DrawError {
    DrawError(error.to_string())
}

/// What drawing on a backend gives.
type Drawn<DB> = Result<(), DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;

/// A point of a plot, with what it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Where it is drawn, pixels from the upper left corner.
    pub at: (i32, i32),
    /// Its name.
    pub name: String,
    /// Its numbers as text, each with its title.
    pub numbers: [(String, String); 2],
    /// How it does among the others.
    pub rank: String,
}

/// A plot over plain data.
pub trait Plot {
    /// Width and height in pixels.
    fn size(&self) -> (u32, u32);

    /// What it shows, in a sentence or two, for those who cannot see it.
    fn describe(&self) -> String;

    /// Points that say more where somebody looks closer: none, unless a plot has some.
    fn marks(&self) -> Result<Vec<Mark>, DrawError> {
        Ok(Vec::new())
    }

    /// Draws it on an area of [`Self::size`].
    fn draw<DB: DrawingBackend>(&self, root: &DrawingArea<DB, Shift>) -> Drawn<DB>;
}

/// A plot as SVG text.
pub fn svg(plot: &impl Plot) -> Result<String, DrawError> {
    register_font()?;
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, plot.size()).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        plot.draw(&root).map_err(failed)?;
        root.present().map_err(failed)?;
    }
    // A name may hold what XML does not allow, or what turns the words after it.
    Ok(visible(&text).into_owned())
}

/// Letters of a plot for which its PNG has no glyph, each once: it shows them as boxes. An SVG leaves them to the
/// fonts of whoever looks at it.
pub fn without_glyph(plot: &impl Plot) -> Result<Vec<char>, DrawError> {
    let font = FontRef::try_from_slice(epaint_default_fonts::HACK_REGULAR).map_err(failed)?;
    let mut list: Vec<char> = svg(plot)?
        .chars()
        .filter(|c| !c.is_control() && font.glyph_id(*c).0 == 0)
        .collect();
    list.sort_unstable();
    list.dedup();
    Ok(list)
}

/// A plot as a PNG file.
pub fn png(plot: &impl Plot) -> Result<Vec<u8>, DrawError> {
    register_font()?;
    let (width, height) = plot.size();
    let mut pixels = vec![0; 3 * width as usize * height as usize];
    {
        let root = BitMapBackend::with_buffer(&mut pixels, plot.size()).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        plot.draw(&root).map_err(failed)?;
        root.present().map_err(failed)?;
    }
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(&pixels).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(file)
}

/// Makes the embedded font (Hack, MIT licence) known, once: text is measured and painted with it, whatever
/// the machine has.
fn register_font() -> Result<(), DrawError> {
    static DONE: OnceLock<bool> = OnceLock::new();
    let done = DONE.get_or_init(|| {
        let font = epaint_default_fonts::HACK_REGULAR;
        plotters::style::register_font(draw::FONT, FontStyle::Normal, font).is_ok()
    });
    if *done {
        Ok(())
    } else {
        Err(DrawError("the embedded font is broken".into()))
    }
}
