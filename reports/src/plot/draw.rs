//! Colours, text and legends that all plots share.

use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::Shift;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::Drawn;

/// The font that is embedded.
pub(super) const FONT: &str = "sans-serif";
/// Size of labels, pixels.
pub(super) const LABEL: u32 = 15;
/// Size of titles, pixels.
pub(super) const TITLE: u32 = 18;
/// Height of a row of a legend, pixels.
const LEGEND_ROW: u32 = 22;
/// Width of a legend's sample, pixels.
const SAMPLE: u32 = 22;

/// Okabe and Ito's colours, which colour-blind people can tell apart, without black and yellow.
pub(crate) const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(110, 110, 110),
];

/// The colour of a thing by its number; after the last they start again.
pub(super) fn colour(index: usize) -> RGBColor {
    COLOURS[index % COLOURS.len()]
}

/// A count as a number of pixels.
pub(super) fn px(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// White or black, whichever is read more easily on a colour. This black stays so on a dark page, where the
/// [`BLACK`] of what stands on the page's own ground becomes light.
pub(super) fn ink(RGBColor(r, g, b): RGBColor) -> RGBColor {
    let luma = 0.299 * f64::from(r) + 0.587 * f64::from(g) + 0.114 * f64::from(b);
    if luma > 140.0 {
        RGBColor(1, 1, 1)
    } else {
        WHITE
    }
}

/// Width of a text, pixels. The embedded font is wider than those that viewers of an SVG are likely to have.
pub(super) fn width(text: &str, size: u32) -> u32 {
    let measured = (FONT, size).into_font().box_size(text);
    let letters = text.chars().count();
    // The font has no wide letters, as of Chinese: its box for them is narrower than a viewer's glyph.
    let wide = screen::width(text).saturating_sub(letters) as u32;
    measured.map_or(letters as u32 * size / 2, |(width, _)| width) + wide * size / 2
}

/// `text` cut to `most` pixels.
pub(super) fn fit(text: &str, size: u32, most: u32) -> String {
    // A letter takes a pixel or more, so of a long text only the beginning is measured.
    let beginning: Vec<char> = text.chars().take(most as usize + 1).collect();
    if beginning.len() <= most as usize && width(text, size) <= most {
        return text.to_owned();
    }
    let cut = |count: usize| beginning[..count].iter().collect::<String>() + "…";
    // As many letters as have room.
    let counts: Vec<usize> = (0..=beginning.len()).collect();
    match counts.partition_point(|&count| width(&cut(count), size) <= most) {
        0 => String::new(),
        room => cut(room - 1),
    }
}

/// Where a text stands relative to its point.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stand {
    /// Right of it.
    Left,
    /// Around it.
    Middle,
    /// Left of it.
    Right,
}

/// Paints a text whose vertical middle is at `y`.
pub(super) fn text<DB: DrawingBackend>(
    root: &DrawingArea<DB, Shift>,
    text: &str,
    (x, y): (i32, i32),
    size: u32,
    colour: RGBColor,
    stand: Stand,
) -> Drawn<DB> {
    let horizontal = match stand {
        Stand::Left => HPos::Left,
        Stand::Middle => HPos::Center,
        Stand::Right => HPos::Right,
    };
    let style = TextStyle::from((FONT, size).into_font())
        .color(&colour)
        .pos(Pos::new(horizontal, VPos::Center));
    root.draw(&Text::new(text.to_owned(), (x, y), style))
}

/// Rows of a legend, each with its items and where they start.
pub(super) fn legend_rows(names: &[String], width_px: u32) -> Vec<Vec<(usize, u32)>> {
    let mut rows: Vec<Vec<(usize, u32)>> = vec![Vec::new()];
    let mut x = 0;
    for (index, name) in names.iter().enumerate() {
        let needs = SAMPLE + 8 + width(name, LABEL) + 18;
        if x > 0 && x + needs > width_px {
            rows.push(Vec::new());
            x = 0;
        }
        if let Some(row) = rows.last_mut() {
            row.push((index, x));
        }
        x += needs;
    }
    rows
}

/// Height of a legend, pixels.
pub(super) fn legend_height(names: &[String], width_px: u32) -> u32 {
    if names.is_empty() {
        0
    } else {
        LEGEND_ROW * legend_rows(names, width_px).len() as u32
    }
}

/// Paints a legend with its upper left corner at `(x, y)`; `sample` paints an item's sample into a box of
/// 22 × 14 pixels.
pub(super) fn legend<DB: DrawingBackend>(
    root: &DrawingArea<DB, Shift>,
    names: &[String],
    (x, y): (i32, i32),
    width_px: u32,
    mut sample: impl FnMut(usize, [(i32, i32); 2]) -> Drawn<DB>,
) -> Drawn<DB> {
    let mut top = y;
    for row in legend_rows(names, width_px) {
        for (index, at) in row {
            let left = x + at.cast_signed();
            let right = left + SAMPLE.cast_signed();
            sample(index, [(left, top + 3), (right, top + 17)])?;
            let name = &names[index];
            text(root, name, (right + 8, top + 10), LABEL, BLACK, Stand::Left)?;
        }
        top += LEGEND_ROW.cast_signed();
    }
    Ok(())
}

/// The plane of a chart below a title, `top` pixels from the upper edge, with room for the labels of its axes.
pub(super) fn plane<'b, DB: DrawingBackend>(
    root: &DrawingArea<DB, Shift>,
    top: u32,
) -> ChartBuilder<'_, 'b, DB> {
    let mut builder = ChartBuilder::on(root);
    builder
        .margin(12)
        .margin_top(top)
        .margin_right(22)
        .x_label_area_size(42)
        .y_label_area_size(64);
    builder
}

/// Paints a chart's axes and their titles, with about so many `labels` along x and y.
pub(super) fn axes<DB, X, Y>(
    chart: &mut ChartContext<'_, DB, Cartesian2d<X, Y>>,
    (x, y): (&str, &str),
    labels: (usize, usize),
) -> Drawn<DB>
where
    DB: DrawingBackend,
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    chart
        .configure_mesh()
        .x_desc(x)
        .y_desc(y)
        .x_labels(labels.0)
        .y_labels(labels.1)
        .x_label_formatter(&|x| tick_label(*x))
        .y_label_formatter(&|y| tick_label(*y))
        .label_style((FONT, LABEL))
        .axis_desc_style((FONT, LABEL))
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .draw()
}

/// Steps of an axis from 0 to `end`: about `count` round values.
pub(super) fn ticks(end: f64, count: u32) -> Vec<f64> {
    if !(end.is_finite() && end > 0.0) {
        return vec![0.0];
    }
    let rough = end / f64::from(count.max(1));
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= rough)
        .unwrap_or(10.0 * power);
    let steps = (end / step + 1e-9) as u32;
    (0..=steps).map(|i| f64::from(i) * step).collect()
}

/// The same of an axis that starts at `from`.
pub(super) fn ticks_between(from: f64, to: f64, count: u32) -> Vec<f64> {
    let steps = ticks(to - from, count);
    let Some(&step) = steps.get(1).filter(|_| from > 0.0) else {
        return ticks(to, count);
    };
    let first = (from / step - 1e-9).ceil() as u64;
    let last = (to / step + 1e-9).floor() as u64;
    (first..=last).map(|i| i as f64 * step).collect()
}

/// A tick's value, as short as its step allows.
pub(super) fn tick_label(x: f64) -> String {
    let text = format!("{x:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text.is_empty() || text == "-0" {
        "0".into()
    } else {
        text.to_owned()
    }
}
