//! The report that a sceptic reads: what was measured and by whom, what was fitted, what was predicted
//! and how far off, what is not covered and why. Markdown, made of sections that modules give; a
//! screen shows the same text (`reports::table::markdown`).

use std::fmt::Write as _;

mod corun;
mod figures;
mod fit;
mod fits;
mod live;
mod markdown;
mod oracles;
mod played;
mod published;
mod table;

pub use corun::corun;
pub use figures::{Figure, Measured, figures, in_no_figure};
pub use fit::fit;
pub use fits::fitted;
pub use live::live;
pub use markdown::escape;
pub use oracles::oracles;
pub use published::{error_text, published, verdict};
pub use table::{Table, significant};

/// A part of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its heading.
    pub title: String,
    /// Its text, Markdown.
    pub body: String,
}

impl Section {
    /// A section of paragraphs and tables.
    pub fn new(title: impl Into<String>, parts: &[String]) -> Self {
        let parts = parts.iter().map(|part| part.trim_end());
        let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
        Self {
            title: title.into(),
            body: parts.join("\n\n"),
        }
    }
}

/// The whole document; headings are one level below `title`.
pub fn document(title: &str, sections: &[Section]) -> String {
    let mut text = format!("# {title}\n");
    for section in sections {
        _ = write!(text, "\n## {}\n\n{}\n", section.title, section.body);
    }
    text
}
