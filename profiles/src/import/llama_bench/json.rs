//! JSON objects of llama-bench within any text, of which one that is faulty takes no other with it.

use serde_json::Value;

use super::super::text::{Lines, short};
use super::fields;

/// Fields of llama-bench that make an object a result of it.
const ENOUGH: usize = 5;
/// Quoted and other parts of an object that are looked at for them.
const PARTS: usize = 400;

/// An object that cannot be read.
#[derive(Debug)]
pub(super) struct Fault {
    /// What is wrong with it.
    pub(super) why: String,
    /// Byte of the text from which to read on.
    pub(super) next: usize,
}

/// Whether a result of llama-bench starts with the `{` at the start of `text`, on one line or with one field a line: by
/// its own fields, those before any object within it.
pub(super) fn is_result(text: &str) -> bool {
    let first = text.lines().next().unwrap_or("");
    let text = if first.trim() == "{" { text } else { first };
    let inner = |(start, part, quoted): &(usize, &str, bool)| {
        !quoted && part[usize::from(*start == 0)..].contains(['{', '}'])
    };
    let own = parts(text).take(PARTS).take_while(|part| !inner(part));
    let known = own.filter(|(_, part, quoted)| *quoted && fields::is_known(part));
    known.take(ENOUGH).count() == ENOUGH
}

/// The object that starts at byte `at`, and the byte behind it.
pub(super) fn object(text: &str, at: usize, places: &Lines) -> Result<(Value, usize), Fault> {
    let rest = &text[at..];
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
    let error = match values.next() {
        Some(Ok(value)) => return Ok((value, at + values.byte_offset())),
        Some(Err(error)) => error,
        None => {
            return Err(Fault {
                why: "is empty".to_owned(),
                next: text.len(),
            });
        }
    };
    // The next object, if any, starts a line; or this one is closed before.
    let next_line = next_object(rest).unwrap_or(rest.len());
    let own = &rest[..next_line];
    let end = closing(own).unwrap_or(next_line);
    let why = if let Some((key, word)) = no_number(&own[..end]) {
        format!("has `{key}` = `{word}`, which is no number")
    } else if error.is_eof() {
        "is cut off".to_owned()
    } else {
        let message = error.to_string();
        let message = message.split(" at line").next().unwrap_or("");
        let line = places.at(at) + error.line() as u64 - 1;
        format!(
            "is no JSON: {message} (line {line}, column {})",
            error.column()
        )
    };
    Err(Fault {
        why,
        next: at + end,
    })
}

/// Byte of the next line that starts an object.
fn next_object(text: &str) -> Option<usize> {
    let mut next = 0;
    loop {
        next += text[next..].find('\n')? + 1;
        if text[next..].trim_start_matches(' ').starts_with('{') {
            return Some(next);
        }
    }
}

/// Parts of a text that lie within quotes, and others, with the byte at which each starts.
fn parts(text: &str) -> impl Iterator<Item = (usize, &str, bool)> {
    let mut at = 0;
    let mut quoted = false;
    std::iter::from_fn(move || {
        if at > text.len() {
            return None;
        }
        let start = at;
        let mut escaped = false;
        let end = text[start..].find(|c| {
            let is = c == '"' && !escaped;
            escaped = quoted && c == '\\' && !escaped;
            is
        });
        let end = end.map_or(text.len(), |end| start + end);
        at = end + 1;
        let within = quoted;
        quoted = !quoted;
        Some((start, &text[start..end], within))
    })
}

/// Byte behind the brace that closes the first one.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (start, part, quoted) in parts(text) {
        if quoted {
            continue;
        }
        for (at, c) in part.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth <= 1 => return Some(start + at + 1),
                '}' => depth -= 1,
                _ => {}
            }
        }
    }
    None
}

/// The first value that programs print for what is no number, and its key.
fn no_number(text: &str) -> Option<(String, String)> {
    const WORDS: [&str; 6] = ["nan", "inf", "infinity", "nan(ind)", "1.#inf", "1.#ind"];
    let mut key = "";
    for (_, part, quoted) in parts(text) {
        if quoted {
            key = part;
            continue;
        }
        let mut words = part.split(|c: char| c.is_whitespace() || ":,{}[]".contains(c));
        let word = words.find(|word| {
            let plain = word.trim_start_matches(['+', '-']).to_ascii_lowercase();
            WORDS.contains(&plain.as_str())
        });
        if let Some(word) = word {
            return Some((short(key), word.to_owned()));
        }
    }
    None
}
