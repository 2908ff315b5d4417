//! A grid of cells over two quantities: a choice (the decision map) or a number (a heat map).

use std::collections::BTreeMap;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::draw::{self, LABEL, Stand, TITLE};
use super::{Drawn, Plot};

const TOP: i32 = 62;
const ROW: i32 = 34;
const COLUMN: i32 = 62;
/// Widest column, where its name is long.
const COLUMN_MAX: i32 = 130;
const LEFT: i32 = 100;
/// Most room for the names of rows.
const LEFT_MAX: i32 = 200;
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
    /// What else is to be known of it, as what is the same in all cells; may be empty.
    pub note: String,
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
    /// Places of their colours in the palette of all plots; a choice without one has that of its own place.
    pub colours: Vec<usize>,
}

impl Map {
    fn colour(&self, choice: usize) -> RGBColor {
        draw::colour(self.colours.get(choice).copied().unwrap_or(choice))
    }

    fn width(&self) -> u32 {
        let cells = self.left() + self.column() * draw::px(self.columns.len()) + 24;
        cells.cast_unsigned().max(WIDTH_MIN)
    }

    /// Width of a column: enough for its name and what its cells say, within bounds.
    fn column(&self) -> i32 {
        let cells = self.cells.iter().flatten().filter_map(|cell| match cell {
            Cell::Choice(index) => self.names.get(*index),
            Cell::Shade(_, text) | Cell::Empty(text) => Some(text),
        });
        let texts = self.columns.iter().chain(cells);
        let widest = texts.map(|text| draw::width(text, LABEL)).max();
        let widest = widest.unwrap_or(0).cast_signed();
        (widest + 12).clamp(COLUMN, COLUMN_MAX)
    }

    /// Where the columns start: beside the names of the rows.
    fn left(&self) -> i32 {
        let names = self.rows.iter().map(|name| draw::width(name, LABEL));
        let widest = names.max().unwrap_or(0).cast_signed();
        (widest + 28).clamp(LEFT, LEFT_MAX)
    }

    fn top(&self) -> i32 {
        TOP + if self.note.is_empty() { 0 } else { 22 }
    }

    /// The least and the greatest number with their places, and how many cells have none, by reason.
    fn shades(&self) -> Vec<String> {
        let (mut numbers, mut empty) = (Vec::new(), BTreeMap::<&str, usize>::new());
        for (row, name) in self.cells.iter().zip(&self.rows) {
            for (cell, column) in row.iter().zip(&self.columns) {
                match cell {
                    Cell::Shade(share, text) => numbers.push((*share, text, column, name)),
                    Cell::Empty(why) => *empty.entry(why).or_default() += 1,
                    Cell::Choice(_) => {}
                }
            }
        }
        if numbers.is_empty() {
            return Vec::new();
        }
        let least = numbers.iter().min_by(|a, b| a.0.total_cmp(&b.0));
        let most = numbers.iter().max_by(|a, b| a.0.total_cmp(&b.0));
        let ends = [("least", least), ("most", most)];
        let ends = ends.into_iter().filter_map(|(which, end)| {
            let (_, text, column, row) = end?;
            Some(format!("{which} {text} at {column} and {row}"))
        });
        let empty = empty.iter().map(|(why, count)| format!("{why} in {count}"));
        ends.chain(empty).collect()
    }

    fn bottom(&self) -> i32 {
        self.top() + ROW * draw::px(self.rows.len())
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
        parts.extend(self.shades());
        let note = match self.note.as_str() {
            "" => String::new(),
            note => format!(" ({note})"),
        };
        format!(
            "{}{note}: {} by {}, {} cells: {}.",
            self.title,
            self.y,
            self.x,
            cells().count(),
            parts.join(", ")
        )
    }

    fn draw<DB: DrawingBackend>(&self, root: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let bottom = self.bottom();
        let (start, wide) = (self.left(), self.column());
        let title = draw::fit(&self.title, TITLE, self.width() - 40);
        draw::text(root, &title, (20, 20), TITLE, BLACK, Stand::Left)?;
        let note = draw::fit(&self.note, LABEL, self.width() - 40);
        draw::text(root, &note, (20, 44), LABEL, BLACK, Stand::Left)?;
        for (row, (name, cells)) in self.rows.iter().zip(&self.cells).enumerate() {
            let top = bottom - ROW * (draw::px(row) + 1);
            let name = draw::fit(name, LABEL, (start - 16).cast_unsigned());
            let beside = (start - 8, top + ROW / 2);
            draw::text(root, &name, beside, LABEL, BLACK, Stand::Right)?;
            for (column, cell) in cells.iter().enumerate() {
                let left = start + wide * draw::px(column);
                let area = [(left, top), (left + wide - 2, top + ROW - 2)];
                let (fill, text) = match cell {
                    Cell::Choice(index) => {
                        let name = self.names.get(*index).cloned().unwrap_or_default();
                        (self.colour(*index), name)
                    }
                    Cell::Shade(share, text) => (shade(*share), text.clone()),
                    Cell::Empty(text) => (RGBColor(232, 232, 232), text.clone()),
                };
                root.draw(&Rectangle::new(area, fill.filled()))?;
                let text = draw::fit(&text, LABEL, (wide - 6).cast_unsigned());
                let middle = (left + wide / 2 - 1, top + ROW / 2 - 1);
                draw::text(root, &text, middle, LABEL, draw::ink(fill), Stand::Middle)?;
            }
        }
        for (column, name) in self.columns.iter().enumerate() {
            let middle = (start + wide * draw::px(column) + wide / 2, bottom + 12);
            let name = draw::fit(name, LABEL, (wide - 6).cast_unsigned());
            draw::text(root, &name, middle, LABEL, BLACK, Stand::Middle)?;
        }
        let x = draw::fit(&self.x, LABEL, self.width() - 40);
        // Below the middle of the columns, as far as a long title has room there.
        let half = draw::width(&x, LABEL).cast_signed() / 2 + 20;
        let right = start + wide * draw::px(self.columns.len());
        let middle = i32::midpoint(start, right).clamp(half, self.width().cast_signed() - half);
        let below = (middle, bottom + 34);
        draw::text(root, &x, below, LABEL, BLACK, Stand::Middle)?;
        let y = draw::fit(&self.y, LABEL, self.width() - 40);
        let above = (20, self.top() - 12);
        draw::text(root, &y, above, LABEL, BLACK, Stand::Left)?;
        let at = (20, bottom + AXIS);
        draw::legend(root, &self.names, at, self.width() - 40, |index, area| {
            root.draw(&Rectangle::new(area, self.colour(index).filled()))
        })
    }
}
