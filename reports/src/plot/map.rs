//! A grid of cells over two quantities: a choice (the decision map) or a number (a heat map).

use plotters::coord::Shift;
use plotters::prelude::*;

use super::draw::{self, LABEL, Stand, TITLE};
use super::{Drawn, Plot};

const TOP: i32 = 62;
const ROW: i32 = 34;
const COLUMN: i32 = 62;
const LEFT: i32 = 100;
const AXIS: i32 = 56;
const WIDTH_MIN: u32 = 620;

/// What a cell shows.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// One of [`Map::names`].
    Choice(usize),
    /// A number, with its place between the smallest (0) and the largest (1).
    Shade(f64, String),
    /// Nothing, and why.
    Empty(String),
}

/// Cells over two quantities.
#[derive(Clone, Debug, Default)]
pub struct Map {
    /// Title.
    pub title: String,
    /// Title of the columns, with its unit.
    pub x: String,
    /// Title of the rows, with its unit.
    pub y: String,
    /// Names of the columns, from the left.
    pub columns: Vec<String>,
    /// Names of the rows, from the bottom.
    pub rows: Vec<String>,
    /// Cells by row, from the bottom.
    pub cells: Vec<Vec<Cell>>,
    /// What choices are called.
    pub names: Vec<String>,
}

impl Map {
    fn width(&self) -> u32 {
        let cells = LEFT + COLUMN * draw::px(self.columns.len()) + 24;
        cells.cast_unsigned().max(WIDTH_MIN)
    }

    fn bottom(&self) -> i32 {
        TOP + ROW * draw::px(self.rows.len())
    }
}

/// From a pale to a dark blue: a scale that also reads in grey.
fn shade(share: f64) -> RGBColor {
    let mix = |low: f64, high: f64| (low + (high - low) * share.clamp(0.0, 1.0)) as u8;
    RGBColor(mix(235.0, 8.0), mix(243.0, 48.0), mix(250.0, 107.0))
}

impl Plot for Map {
    fn size(&self) -> (u32, u32) {
        let below = draw::legend_height(&self.names, self.width() - 40);
        (
            self.width(),
            (self.bottom() + AXIS).cast_unsigned() + below + 6,
        )
    }

    fn describe(&self) -> String {
        let cells = || self.cells.iter().flatten();
        let mut parts: Vec<String> = self
            .names
            .iter()
            .enumerate()
            .map(|(index, name)| {
                let count = cells().filter(|cell| **cell == Cell::Choice(index)).count();
                format!("{name} in {count}")
            })
            .collect();
        let texts = cells().filter_map(|cell| match cell {
            Cell::Shade(_, text) => Some(text.clone()),
            _ => None,
        });
        parts.extend(texts);
        format!(
            "{}: {} by {}, {} cells: {}.",
            self.title,
            self.y,
            self.x,
            cells().count(),
            parts.join(", ")
        )
    }

    fn draw<DB: DrawingBackend>(&self, root: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let bottom = self.bottom();
        let title = draw::fit(&self.title, TITLE, self.width() - 40);
        draw::text(root, &title, (20, 20), TITLE, BLACK, Stand::Left)?;
        for (row, (name, cells)) in self.rows.iter().zip(&self.cells).enumerate() {
            let top = bottom - ROW * (draw::px(row) + 1);
            draw::text(
                root,
                name,
                (LEFT - 8, top + ROW / 2),
                LABEL,
                BLACK,
                Stand::Right,
            )?;
            for (column, cell) in cells.iter().enumerate() {
                let left = LEFT + COLUMN * draw::px(column);
                let area = [(left, top), (left + COLUMN - 2, top + ROW - 2)];
                let (fill, text) = match cell {
                    Cell::Choice(index) => {
                        let name = self.names.get(*index).cloned().unwrap_or_default();
                        (draw::colour(*index), name)
                    }
                    Cell::Shade(share, text) => (shade(*share), text.clone()),
                    Cell::Empty(text) => (RGBColor(232, 232, 232), text.clone()),
                };
                root.draw(&Rectangle::new(area, fill.filled()))?;
                let text = draw::fit(&text, LABEL, (COLUMN - 6).cast_unsigned());
                let middle = (left + COLUMN / 2 - 1, top + ROW / 2 - 1);
                draw::text(root, &text, middle, LABEL, draw::ink(fill), Stand::Middle)?;
            }
        }
        for (column, name) in self.columns.iter().enumerate() {
            let middle = LEFT + COLUMN * draw::px(column) + COLUMN / 2;
            draw::text(
                root,
                name,
                (middle, bottom + 12),
                LABEL,
                BLACK,
                Stand::Middle,
            )?;
        }
        let right = LEFT + COLUMN * draw::px(self.columns.len());
        let middle = i32::midpoint(LEFT, right);
        draw::text(
            root,
            &self.x,
            (middle, bottom + 34),
            LABEL,
            BLACK,
            Stand::Middle,
        )?;
        draw::text(root, &self.y, (20, TOP - 12), LABEL, BLACK, Stand::Left)?;
        let at = (20, bottom + AXIS);
        draw::legend(root, &self.names, at, self.width() - 40, |index, area| {
            root.draw(&Rectangle::new(area, draw::colour(index).filled()))
        })
    }
}
