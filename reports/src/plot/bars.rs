//! Horizontal bars: one number of several things, with its intervals.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::draw::{self, LABEL, Stand, TITLE};
use super::{Drawn, Plot};

const WIDTH: u32 = 620;
const TOP: i32 = 40;
const ROW: i32 = 30;
const BAR: i32 = 18;
/// Most room for names.
const NAMES_MAX: u32 = 190;
/// Below the bars.
const AXIS: i32 = 44;

/// A bar.
#[derive(Clone, Debug, Default)]
pub struct Bar {
    /// Name.
    pub name: String,
    /// Its length; absent: the text alone is shown.
    pub value: Option<f64>,
    /// Half-width of its interval.
    pub half_width: Option<f64>,
    /// A part of it that is filled more strongly.
    pub part: Option<f64>,
    /// What stands at its end.
    pub text: String,
}

/// Bars that start at 0.
#[derive(Clone, Debug, Default)]
pub struct Bars {
    /// Title.
    pub title: String,
    /// Title of the axis, with its unit.
    pub x: String,
    /// End of the axis; absent: that of the longest bar.
    pub end: Option<f64>,
    /// The bars, from the top.
    pub bars: Vec<Bar>,
}

impl Bars {
    fn end(&self) -> f64 {
        let ends = self
            .bars
            .iter()
            .filter_map(|bar| Some(bar.value? + bar.half_width.unwrap_or(0.0)));
        let end = self.end.unwrap_or_else(|| ends.fold(0.0, f64::max));
        if end.is_finite() && end > 0.0 {
            end
        } else {
            1.0
        }
    }

    /// Left and right end of the plane.
    fn sides(&self) -> (i32, i32) {
        let widest = |texts: &mut dyn Iterator<Item = u32>| texts.max().unwrap_or(0);
        let mut names = self.bars.iter().map(|bar| draw::width(&bar.name, LABEL));
        let mut texts = self.bars.iter().map(|bar| draw::width(&bar.text, LABEL));
        let left = widest(&mut names).min(NAMES_MAX) + 30;
        let right = WIDTH - widest(&mut texts).min(200) - 24;
        (left.cast_signed(), right.cast_signed())
    }
}

impl Plot for Bars {
    fn size(&self) -> (u32, u32) {
        let rows = ROW * draw::px(self.bars.len());
        (WIDTH, (TOP + rows + AXIS).cast_unsigned())
    }

    fn describe(&self) -> String {
        let bars: Vec<String> = self
            .bars
            .iter()
            .map(|bar| format!("{} {}", bar.name, bar.text))
            .collect();
        format!("{} ({}): {}.", self.title, self.x, bars.join("; "))
    }

    fn draw<DB: DrawingBackend>(&self, root: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let (left, right) = self.sides();
        let end = self.end();
        let x = |value: f64| left + (value / end * f64::from(right - left)).round() as i32;
        let bottom = TOP + ROW * draw::px(self.bars.len());
        let title = draw::fit(&self.title, TITLE, WIDTH - 40);
        draw::text(root, &title, (20, 20), TITLE, BLACK, Stand::Left)?;
        for at in draw::ticks(end, 5) {
            let line = [(x(at), TOP), (x(at), bottom)];
            root.draw(&PathElement::new(line, BLACK.mix(0.12)))?;
            let label = draw::tick_label(at);
            draw::text(
                root,
                &label,
                (x(at), bottom + 10),
                LABEL,
                BLACK,
                Stand::Middle,
            )?;
        }
        draw::text(
            root,
            &self.x,
            (i32::midpoint(left, right), bottom + 30),
            LABEL,
            BLACK,
            Stand::Middle,
        )?;
        for (index, bar) in self.bars.iter().enumerate() {
            let top = TOP + ROW * draw::px(index) + (ROW - BAR) / 2;
            let middle = top + BAR / 2;
            let name = draw::fit(&bar.name, LABEL, NAMES_MAX);
            draw::text(root, &name, (left - 8, middle), LABEL, BLACK, Stand::Right)?;
            let mut tip = left;
            if let Some(value) = bar.value {
                let colour = draw::colour(0);
                let whole = [(left, top), (x(value), top + BAR)];
                let strength = if bar.part.is_some() { 0.45 } else { 1.0 };
                root.draw(&Rectangle::new(whole, colour.mix(strength).filled()))?;
                // What is pale has an edge, which is seen on any ground.
                root.draw(&Rectangle::new(whole, colour.stroke_width(1)))?;
                tip = x(value);
                if let Some(part) = bar.part {
                    let area = [(left, top), (x(part), top + BAR)];
                    root.draw(&Rectangle::new(area, colour.filled()))?;
                }
                if let Some(half) = bar.half_width {
                    let (low, high) = (x((value - half).max(0.0)), x(value + half));
                    let line = PathElement::new([(low, middle), (high, middle)], BLACK);
                    root.draw(&line)?;
                    for side in [low, high] {
                        let cap = [(side, middle - 4), (side, middle + 4)];
                        root.draw(&PathElement::new(cap, BLACK))?;
                    }
                    tip = tip.max(high);
                }
            }
            draw::text(
                root,
                &bar.text,
                (tip + 6, middle),
                LABEL,
                BLACK,
                Stand::Left,
            )?;
        }
        Ok(())
    }
}
