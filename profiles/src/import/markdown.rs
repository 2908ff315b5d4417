//! Tables of Markdown within any text: posts, logs, terminals.

use std::borrow::Cow;

/// Why a row without its closing bar is left out where the table has them.
pub(crate) const CUT: &str =
    "the row is cut off within its last cell: no `|` closes it, as the table's other lines";

/// A line without the signs that quote it in a post, and its indentation.
pub(crate) fn unquoted(line: &str) -> &str {
    line.trim_start_matches(['>', ' ', '\t'])
}

/// The cells of a line that is a row of a table, trimmed; `None` if it is none. A quoted post's `>` is passed
/// over. The flag tells whether the row is closed by a bar: one that is not may have been cut.
pub(crate) fn cells(line: &str) -> Option<(Vec<String>, bool)> {
    let line = unquoted(line).trim_end();
    // Some forums escape every bar of a table.
    let unescaped;
    let line = if line.starts_with("\\|") {
        unescaped = line.replace("\\|", "|");
        &unescaped
    } else {
        line
    };
    let mut parts = split(line.strip_prefix('|')?);
    let closed = parts.len() > 1 && parts.last().is_some_and(|last| last.is_empty());
    if closed {
        parts.pop();
    }
    Some((parts.into_iter().map(clean).collect(), closed))
}

/// A text whose tables have bars at both ends of their lines, which GitHub lets people leave out. Such a table is one by
/// its rule, `--- | ---:`, of as many cells as the line above; it ends with the first line that has no bar.
pub(crate) fn framed(text: &str) -> Cow<'_, str> {
    if !text.lines().any(is_bare_rule) {
        return Cow::Borrowed(text);
    }
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut whole = String::with_capacity(text.len() + lines.len());
    let mut within = false;
    for (index, line) in lines.iter().enumerate() {
        let begins = || {
            let rule = lines.get(index + 1).filter(|next| is_bare_rule(next))?;
            (bare(line)?.1.len() == bare(rule)?.1.len()).then_some(())
        };
        within = within && line.contains('|') || begins().is_some();
        match bare(line).filter(|_| within) {
            Some((quote, cells)) => {
                whole += quote;
                for cell in cells {
                    whole += "|";
                    whole += cell;
                }
                whole += "|\n";
            }
            None => whole += line,
        }
    }
    Cow::Owned(whole)
}

/// The sign of a quotation, and the cells of a line that has bars but does not begin with one.
fn bare(line: &str) -> Option<(&str, Vec<&str>)> {
    let row = unquoted(line);
    let quote = &line[..line.len() - row.len()];
    let row = row.trim_end();
    let cells = split(row.strip_suffix('|').unwrap_or(row));
    (!row.starts_with(['|', '\\']) && cells.len() > 1).then_some((quote, cells))
}

fn is_bare_rule(line: &str) -> bool {
    let cells = bare(line).map(|(_, cells)| cells.into_iter().map(|cell| cell.trim().to_owned()));
    cells.is_some_and(|cells| is_rule(&cells.collect::<Vec<_>>()))
}

/// What stands between bars; one behind a backslash is a character of its cell.
fn split(row: &str) -> Vec<&str> {
    let mut escaped = false;
    let bar = |c: char| {
        let is = c == '|' && !escaped;
        escaped = c == '\\' && !escaped;
        is
    };
    row.split(bar).collect()
}

/// A cell without emphasis, signs that only decorate, escapes of terminals and of Markdown, and entities of HTML, as
/// forums write them.
fn clean(cell: &str) -> String {
    let cell = html_escape::decode_html_entities(cell);
    let mut text = String::new();
    let mut chars = cell.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.peek().is_some_and(char::is_ascii_punctuation) => {
                text.extend(chars.next());
            }
            // `392*392` is a size and no emphasis.
            '*' if text.ends_with(|c: char| c.is_ascii_digit())
                && chars.peek().is_some_and(char::is_ascii_digit) =>
            {
                text.push(c);
            }
            '\u{1b}' => {
                // A terminal's colour: up to its letter.
                for c in chars.by_ref() {
                    if c.is_ascii_alphabetic() {
                        break;
                    }
                }
            }
            '~' if chars.peek() == Some(&'~') => {
                chars.next();
            }
            '*' | '`' | '🟢' | '🟡' | '🔴' | '⭐' | '✅' | '⚠' | '❌' | '\u{fe0f}' => {}
            '\u{a0}' => text.push(' '),
            c => text.push(c),
        }
    }
    text.trim().to_owned()
}

/// Whether these cells separate a header from its rows: hyphens, and colons for the alignment.
pub(crate) fn is_rule(cells: &[String]) -> bool {
    let rule = |cell: &String| {
        !cell.is_empty() && cell.contains('-') && cell.chars().all(|c| matches!(c, '-' | ':' | ' '))
    };
    !cells.is_empty() && cells.iter().all(rule)
}

/// A value with its deviation, `25.25 ± 0.11`; also as `+/-` and in a wrongly decoded text.
pub(crate) fn with_deviation(cell: &str) -> (String, Option<String>) {
    for sign in ["Â±", "±", "+/-", "+-"] {
        if let Some((value, deviation)) = cell.split_once(sign) {
            return (value.trim().to_owned(), Some(deviation.trim().to_owned()));
        }
    }
    (cell.trim().to_owned(), None)
}
