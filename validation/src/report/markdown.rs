//! What a user wrote, as text of a Markdown document: nothing in it is markup that acts.

use std::fmt::Write as _;

/// The same words in Markdown: no tag, no entity, no link, no picture, no line end, and marks that steer a
/// terminal or turn the direction of reading written out (`\u{202e}`). Emphasis is left alone.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '<' => out += "&lt;",
            '&' if entity(&text[at + 1..]) => out += "&amp;",
            // `](` makes a link or a picture.
            '(' if before == ']' => out += "\\(",
            '\n' | '\r' | '\t' => out.push(' '),
            c if c.is_control() || steers(c) => _ = write!(out, "{}", c.escape_unicode()),
            c => out.push(c),
        }
        before = c;
    }
    out
}

/// A file's name as code, where that can hold it.
pub(super) fn code(name: &str) -> String {
    let text = escape(name);
    if text == name && !name.contains('`') {
        format!("`{name}`")
    } else {
        text
    }
}

/// Whether what follows `&` could be read as an entity.
fn entity(text: &str) -> bool {
    let name = text.split_once(';').map_or("", |(name, _)| name);
    let name = name.strip_prefix('#').unwrap_or(name);
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric())
}

/// Marks that turn the direction of what follows, or end a line.
fn steers(c: char) -> bool {
    matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_becomes_text_and_words_stay() {
        for (text, escaped) in [
            (
                "four questions, batch > 1 & R&D, 5 µs",
                "four questions, batch > 1 & R&D, 5 µs",
            ),
            ("<script>x()</script>", "&lt;script>x()&lt;/script>"),
            ("&lt;b&gt; &#60; &x", "&amp;lt;b&amp;gt; &amp;#60; &x"),
            (
                "![a](http://b) [c](javascript:d)",
                "![a]\\(http://b) [c]\\(javascript:d)",
            ),
            ("a\u{202e}b\u{1b}[2Jc", "a\\u{202e}b\\u{1b}[2Jc"),
            ("one\n# two\r\n", "one # two  "),
        ] {
            assert_eq!(escape(text), escaped);
        }
        assert_eq!(code("board.toml"), "`board.toml`");
        assert_eq!(code("a`b"), "a`b");
        assert_eq!(code("<img>.toml"), "&lt;img>.toml");
    }
}
