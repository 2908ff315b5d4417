//! Markdown tables whose columns line up, so that they read well on a screen too.

use std::fmt::Write as _;

use super::markdown::escape;
use crate::words::minus;

/// A table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    heads: Vec<String>,
    right: Vec<bool>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these column heads; a head that starts with `>` is of a column of numbers, set to
    /// the right.
    pub fn new(heads: &[&str]) -> Self {
        Self {
            right: heads.iter().map(|head| head.starts_with('>')).collect(),
            heads: heads
                .iter()
                .map(|head| head.trim_start_matches('>').to_owned())
                .collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; cells that are missing stay empty. What they hold is text but for emphasis and code.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells = cells
            .into_iter()
            .map(|cell| escape(&cell).replace('|', "\\|"));
        let mut row: Vec<String> = cells.take(self.heads.len()).collect();
        row.resize(self.heads.len(), String::new());
        self.rows.push(row);
    }

    /// Whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// As Markdown; nothing if it has no row.
    pub fn markdown(&self) -> String {
        if self.is_empty() {
            return String::new();
        }
        let width = |text: &str| text.chars().count();
        let lines = || std::iter::once(&self.heads).chain(&self.rows);
        let widths: Vec<usize> = (0..self.heads.len())
            .map(|column| {
                let cells = lines().map(|line| width(&line[column]));
                cells.max().unwrap_or(0).max(3)
            })
            .collect();
        let mut text = String::new();
        for (at, line) in lines().enumerate() {
            for (column, cell) in line.iter().enumerate() {
                let fill = " ".repeat(widths[column] - width(cell));
                let (left, right) = if self.right[column] {
                    (fill.as_str(), "")
                } else {
                    ("", fill.as_str())
                };
                _ = write!(text, "| {left}{cell}{right} ");
            }
            text += "|\n";
            if at == 0 {
                for (column, &width) in widths.iter().enumerate() {
                    let rule = "-".repeat(width);
                    let end = if self.right[column] { ':' } else { ' ' };
                    _ = write!(text, "| {rule}{end}");
                }
                text += "|\n";
            }
        }
        text
    }
}

/// A number with four significant digits.
pub fn significant(x: f64) -> String {
    if x == 0.0 {
        return "0".to_owned();
    }
    if !x.is_finite() {
        return if x > 0.0 { "∞" } else { "−∞" }.to_owned();
    }
    let exponent = x.abs().log10().floor() as i32;
    let text = if (-4..7).contains(&exponent) {
        let decimals = (3 - exponent).max(0) as usize;
        format!("{x:.decimals$}")
    } else {
        format!("{x:.3e}")
    };
    minus(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["name", ">value"]);
        table.row(["a|b".to_owned(), "1".to_owned()]);
        table.row(["µ".to_owned()]);
        let text = "| name | value |\n| ---- | -----:|\n| a\\|b |     1 |\n| µ    |       |\n";
        assert_eq!(table.markdown(), text);
        assert_eq!(Table::new(&["x"]).markdown(), "");
    }

    #[test]
    fn four_digits() {
        for (x, text) in [
            (0.0, "0"),
            (0.157_96, "0.1580"),
            (12.3456, "12.35"),
            (-68.61, "−68.61"),
            (463.77, "463.8"),
            (123_456.0, "123456"),
            (3.95e-7, "3.950e-7"),
        ] {
            assert_eq!(significant(x), text);
        }
    }
}
