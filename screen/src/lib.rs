//! Text for a terminal: lines and tables of at most 80 columns, readable without colour.
//!
//! Nothing is cut off: what is too long goes on in the next line, and a table that is too wide is printed in
//! several, one below the other.
#![forbid(unsafe_code)]

mod table;

use std::borrow::Cow;

pub use table::{Head, Table};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Widest line of any text.
pub const WIDTH: usize = 80;
/// Width of the labels on the left.
pub const LABEL: usize = 12;
/// Holds words together that a line break should not part; it is shown as a space.
pub const GLUE: char = '\u{a0}';
/// Behind these a word that is too long is broken rather than elsewhere.
const SEAMS: [char; 9] = ['/', ':', ',', ';', '_', '-', '+', '.', '='];

/// Columns that a line takes: wide characters, as of Chinese, take two.
pub fn width(text: &str) -> usize {
    text.width()
}

/// `text` with its control characters written out (`\u{1b}`), so that no name can steer a terminal or turn
/// the words around it; line ends stay.
pub fn visible(text: &str) -> Cow<'_, str> {
    let steers = |c: char| c != '\n' && (c.is_control() || is_format(c));
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if steers(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Marks that turn the direction of what follows.
fn is_format(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `text` with spaces up to `columns`.
pub fn pad(text: &str, columns: usize) -> String {
    let missing = columns.saturating_sub(width(text));
    format!("{text}{}", " ".repeat(missing))
}

/// Lines of at most `columns`, broken at spaces; a longer word is broken too.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    lines(text, columns.max(2), true)
}

/// Lines of at most `columns`, broken at spaces; a longer word is broken too, but for paths (what has a `/`),
/// which stay whole.
pub fn fold(text: &str, columns: usize) -> Vec<String> {
    lines(text, columns.max(2), false)
}

fn lines(text: &str, columns: usize, part: bool) -> Vec<String> {
    let text = visible(text);
    let mut lines: Vec<String> = Vec::new();
    let (mut line, mut used) = (String::new(), 0);
    for word in text.split([' ', '\n']).filter(|word| !word.is_empty()) {
        let whole = !part && word.contains('/');
        for (at, piece) in pieces(word, if whole { usize::MAX } else { columns })
            .into_iter()
            .enumerate()
        {
            let wide = width(piece);
            let gap = usize::from(used > 0 && at == 0);
            if used > 0 && (at > 0 || used + gap + wide > columns) {
                lines.push(std::mem::take(&mut line));
                used = 0;
            } else if gap > 0 {
                line.push(' ');
                used += 1;
            }
            line.push_str(piece);
            used += wide;
        }
    }
    if !line.is_empty() || lines.is_empty() {
        lines.push(line);
    }
    for line in &mut lines {
        if line.contains(GLUE) {
            *line = line.replace(GLUE, " ");
        }
    }
    lines
}

/// A word in pieces of at most `columns`; broken behind a seam where that leaves no short piece.
fn pieces(word: &str, columns: usize) -> Vec<&str> {
    if width(word) <= columns {
        return vec![word];
    }
    let mut pieces = Vec::new();
    let (mut start, mut used, mut seam) = (0, 0, None);
    for (at, c) in word.char_indices() {
        let wide = c.width().unwrap_or(0);
        if used + wide > columns && at > start {
            let end = seam.take().unwrap_or(at);
            pieces.push(&word[start..end]);
            start = end;
            used = width(&word[start..at]);
        }
        used += wide;
        if SEAMS.contains(&c) && 2 * used > columns {
            seam = Some(at + c.len_utf8());
        }
    }
    pieces.push(&word[start..]);
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

/// Appends a paragraph.
pub fn paragraph(out: &mut String, text: &str) {
    for line in wrap(text, WIDTH) {
        out.push_str(&line);
        out.push('\n');
    }
}

/// Appends `label` and `text`, wrapped beside it.
pub fn labelled(out: &mut String, label: &str, text: &str) {
    let mut label = visible(label);
    for part in wrap(text, WIDTH - LABEL) {
        if width(&label) >= LABEL {
            paragraph(out, &label);
            label = Cow::Borrowed("");
        }
        out.push_str(&pad(&label, LABEL));
        out.push_str(&part);
        out.push('\n');
        label = Cow::Borrowed("");
    }
}

/// `text` in lines that begin `indent` columns to the right, and two further from the second on; words such as
/// paths stay whole.
pub fn hanging(text: &str, indent: usize) -> String {
    let mut out = String::new();
    for (row, line) in fold(text, WIDTH.saturating_sub(indent + 2))
        .iter()
        .enumerate()
    {
        out.push_str(&" ".repeat(indent + if row > 0 { 2 } else { 0 }));
        out.push_str(line);
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_break_at_spaces_and_within_long_words() {
        assert_eq!(wrap("a bc def", 4), ["a bc", "def"]);
        assert_eq!(wrap("abcdefghij k", 4), ["abcd", "efgh", "ij k"]);
        assert_eq!(
            wrap("script:policy.rhai", 10),
            ["script:", "policy.", "rhai"].map(str::to_owned)[..].to_vec()
        );
        assert_eq!(wrap("深度学习", 4), ["深度", "学习"]);
        assert_eq!(wrap("", 4), [""]);
        assert_eq!(
            fold("see a/long/path now", 6),
            ["see", "a/long/path", "now"]
        );
    }

    #[test]
    fn control_characters_are_written_out() {
        assert_eq!(wrap("\u{1b}[31mred\u{7}", 40), ["\\u{1b}[31mred\\u{7}"]);
        assert_eq!(visible("a\u{202e}b\tc\nd é"), "a\\u{202e}b\\u{9}c\nd é");
        assert!(matches!(visible("plain ✓"), Cow::Borrowed(_)));
    }

    #[test]
    fn what_hangs_is_whole_and_indented() {
        let text = hanging(&"word ".repeat(40), 4);
        assert!(text.lines().all(|line| width(line) <= WIDTH));
        assert!(
            text.starts_with("    word") && text.lines().nth(1).unwrap().starts_with("      word")
        );
        assert_eq!(text.split_whitespace().count(), 40);
    }

    /// A title of a megabyte is wrapped at once: time grows with its length.
    #[test]
    fn a_very_long_word_takes_no_time() {
        let long = "x".repeat(1 << 20);
        assert_eq!(wrap(&long, 80).concat(), long);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_nothing_is_wider(text in "[a-z:/ é深]{0,200}", columns in 2..90_usize) {
            let lines = wrap(&text, columns);
            prop_assert!(lines.iter().all(|line| width(line) <= columns));
            let letters = |text: &str| text.split_whitespace().collect::<String>();
            prop_assert_eq!(letters(&lines.join(" ")), letters(&text));
            for line in fold(&text, columns) {
                prop_assert!(width(&line) <= columns || line.contains('/'), "{}", line);
            }
            for path in text.split_whitespace().filter(|word| word.contains('/')) {
                prop_assert!(fold(&text, columns).join(" ").contains(path));
            }
            prop_assert_eq!(letters(&hanging(&text, 3)), letters(&text));
        }
    }
}
