//! CSV with a header, its cells with their places.

use std::borrow::Cow;
use std::ops::Range;

use super::cells::{Cell, Place, Row};
use super::{Layout, Reader};

/// Reads `text` from byte `start` on.
pub(super) fn read(text: &str, start: usize, reader: &mut Reader<'_>) {
    let mut records = Records {
        text,
        at: start,
        separator: separator(&text[start..]),
    };
    let mut cells = Vec::new();
    let Some(header) = records.next(&mut cells, reader) else {
        return;
    };
    let names: Vec<&str> = cells.iter().map(|cell| cell.text.trim()).collect();
    let Some(layout) = reader.columns(&names, header) else {
        return;
    };
    for (place, cell) in cells.iter().enumerate() {
        let name = cell.text.trim();
        let again = names[..place].contains(&name);
        if again && [layout.time, layout.prompt, layout.output].contains(&name) {
            let message = format!("column `{name}` is given twice");
            reader.fault(cell.span.clone(), message, "the second", None);
            reader.fatal = true;
        }
    }
    let column = |name| names.iter().position(|&column| column == name);
    let columns = [layout.time, layout.prompt, layout.output].map(column);
    let width = names.len();
    let mut row_cells = Vec::new();
    while let Some(span) = records.next(&mut row_cells, reader) {
        read_row(layout, columns, width, &row_cells, span, reader);
    }
}

fn read_row(
    layout: &Layout,
    columns: [Option<usize>; 3],
    width: usize,
    cells: &[Place<'_>],
    span: Range<usize>,
    reader: &mut Reader<'_>,
) {
    if cells.len() != width {
        let message = format!("the row has {} cells, the header {width}", cells.len());
        reader.fault(span, message, "this row", None);
        reader.bad_row();
        return;
    }
    let [time, prompt, output] =
        columns.map(|column| match column.and_then(|column| cells.get(column)) {
            Some(cell) => Cell::Text(cell.clone()),
            None => Cell::Absent(span.clone()),
        });
    let row = Row {
        time,
        prompt,
        output,
        span,
    };
    reader.row(layout, &row);
}

/// The separator that the first line uses most, a comma if it uses none.
fn separator(text: &str) -> u8 {
    let line = text.trim_start().lines().next().unwrap_or("");
    let uses = |separator: u8| line.bytes().filter(|&byte| byte == separator).count();
    [b'\t', b';', b',']
        .into_iter()
        .max_by_key(|&separator| uses(separator))
        .unwrap_or(b',')
}

/// The records of a text.
#[derive(Debug)]
struct Records<'a> {
    text: &'a str,
    at: usize,
    separator: u8,
}

impl<'a> Records<'a> {
    /// Puts the next record that is not blank into `cells`; returns its place.
    fn next(
        &mut self,
        cells: &mut Vec<Place<'a>>,
        reader: &mut Reader<'_>,
    ) -> Option<Range<usize>> {
        while self.at < self.text.len() {
            let start = self.at;
            cells.clear();
            while self.cell(cells, reader) {}
            let end = cells.last().map_or(start, |cell| cell.span.end);
            if !self.text[start..end].trim().is_empty() {
                return Some(start..end);
            }
        }
        None
    }

    /// Takes one cell; whether the record goes on.
    fn cell(&mut self, cells: &mut Vec<Place<'a>>, reader: &mut Reader<'_>) -> bool {
        let bytes = self.text.as_bytes();
        let ends = |at: usize| {
            bytes
                .get(at)
                .is_none_or(|&byte| byte == self.separator || byte == b'\n')
        };
        let start = self.at;
        let mut end = start;
        let mut text = Cow::Borrowed("");
        if bytes.get(start) == Some(&b'"') {
            // Up to the quote that no second quote follows.
            let mut from = start + 1;
            loop {
                let Some(length) = self.text[from..].find('"') else {
                    let message = "the quote is never closed".to_owned();
                    reader.fault(start..start + 1, message, "opens here", None);
                    // How many rows are lost in it nobody can say.
                    reader.fatal = true;
                    end = self.text.len();
                    break;
                };
                let quote = from + length;
                text += &self.text[from..quote];
                if bytes.get(quote + 1) == Some(&b'"') {
                    text += "\"";
                    from = quote + 2;
                    continue;
                }
                end = quote + 1;
                break;
            }
        }
        // What is not quoted, and what a careless hand wrote after the quote.
        let from = end;
        while !ends(end) {
            end += 1;
        }
        let goes_on = bytes.get(end) == Some(&self.separator);
        self.at = (end + 1).min(self.text.len());
        if !goes_on && self.text[from..end].ends_with('\r') {
            end -= 1;
        }
        text += &self.text[from..end];
        cells.push(Place {
            text,
            span: start..end,
        });
        goes_on
    }
}
