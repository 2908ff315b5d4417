//! A text in Markdown as a terminal shows it: paragraphs and tables within its width.

use std::fmt::Write as _;
use std::mem;

use pulldown_cmark::{Alignment, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use screen::{Head, Table, hanging, paragraph};

/// Headings keep their `#`, lists their `-` and code its backquotes; marks of emphasis fall away.
pub fn markdown(text: &str) -> String {
    let mut page = Page::default();
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        page.take(event);
    }
    page.out
}

#[derive(Default)]
struct Page {
    out: String,
    /// What is being read: a paragraph, an item, a cell.
    part: String,
    /// How deep in lists.
    depth: usize,
    /// Whether each column of the table is of numbers.
    columns: Vec<bool>,
    row: Vec<String>,
    table: Option<Table>,
}

impl Page {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.part += &text,
            Event::Code(text) => _ = write!(self.part, "`{text}`"),
            Event::SoftBreak | Event::HardBreak => self.part.push(' '),
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            _ => {}
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { level, .. } => {
                self.apart();
                let marks = match level {
                    HeadingLevel::H1 => 1,
                    HeadingLevel::H2 => 2,
                    _ => 3,
                };
                self.part = format!("{} ", "#".repeat(marks));
            }
            Tag::Paragraph if self.depth == 0 => self.apart(),
            Tag::List(_) => {
                self.item();
                if self.depth == 0 {
                    self.apart();
                }
                self.depth += 1;
            }
            Tag::CodeBlock(_) => self.apart(),
            Tag::Table(columns) => {
                self.apart();
                self.columns = columns
                    .iter()
                    .map(|alignment| *alignment == Alignment::Right)
                    .collect();
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph if self.depth > 0 => {}
            TagEnd::Heading(_) | TagEnd::Paragraph => {
                let part = mem::take(&mut self.part);
                paragraph(&mut self.out, &part);
            }
            TagEnd::Item => self.item(),
            TagEnd::List(_) => self.depth = self.depth.saturating_sub(1),
            TagEnd::CodeBlock => {
                let part = mem::take(&mut self.part);
                for line in part.lines() {
                    _ = writeln!(self.out, "    {line}");
                }
            }
            TagEnd::TableCell => self.row.push(mem::take(&mut self.part)),
            TagEnd::TableHead => {
                let heads = mem::take(&mut self.row);
                let heads = heads.iter().zip(&self.columns);
                self.table = Some(Table::new(heads.map(|(head, number)| {
                    if *number {
                        Head::number(head)
                    } else {
                        Head::text(head)
                    }
                })));
            }
            TagEnd::TableRow => {
                let row = mem::take(&mut self.row);
                if let Some(table) = &mut self.table {
                    table.row(row);
                }
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    _ = write!(self.out, "{table}");
                }
            }
            _ => {}
        }
    }

    /// Leaves a line empty before what comes.
    fn apart(&mut self) {
        if !self.out.is_empty() {
            self.out.push('\n');
        }
    }

    /// Writes the item of a list that has been read, if any.
    fn item(&mut self) {
        let part = mem::take(&mut self.part);
        if self.depth > 0 && !part.trim().is_empty() {
            self.out += &hanging(&format!("- {part}"), 2 * (self.depth - 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use screen::{WIDTH, width};

    use super::*;

    #[test]
    fn it_reads_well_within_the_width() {
        let text = "# Title\n\n## Part\n\nSome **strong** words and `code`, \
                    that go on for longer than any line of a terminal should ever be.\n\n- one\n- two, \
                    which is also so long that it has to go on in the next line of the terminal\n\n\
                    | row | measured | why |\n| --- | --:| --- |\n| a\\|b | 1.00 | x |\n| c | −2.00 | no scenario \
                    covers the setting of this row, so that there is nothing to hold it against |\n";
        let shown = markdown(text);
        assert!(shown.lines().all(|line| width(line) <= WIDTH), "{shown}");
        insta::assert_snapshot!(shown);
    }
}
