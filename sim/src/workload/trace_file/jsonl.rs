//! JSONL, its values with their places.

use std::borrow::Cow;
use std::ops::Range;

use serde::de::IgnoredAny;

use super::cells::{Cell, Place, Row};
use super::{Layout, Reader};

/// Reads `text` from byte `start` on.
pub(super) fn read(text: &str, start: usize, reader: &mut Reader<'_>) {
    if text[start..].trim_start().starts_with('[') {
        let at = text.len() - text[start..].trim_start().len();
        reader.fault(
            at..at + 1,
            "the trace is a JSON array".into(),
            "must be an object",
            Some("write one object a line, without the brackets".into()),
        );
        reader.fatal = true;
        return;
    }
    let mut layout = None;
    let mut fields = Vec::new();
    let mut line_start = start;
    for line in text[start..].split_inclusive('\n') {
        let at = line_start + (line.len() - line.trim_start().len());
        line_start += line.len();
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        if !split(line, at, &mut fields, reader) {
            continue;
        }
        let span = at..at + line.len();
        if layout.is_none() {
            let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_ref()).collect();
            layout = reader.columns(&names, span.clone());
            if layout.is_none() {
                // Without a time column the other lines say nothing new.
                return;
            }
        }
        if let Some(layout) = layout {
            read_row(layout, &fields, span, reader);
        }
    }
}

fn read_row(
    layout: &Layout,
    fields: &[(Cow<'_, str>, Place<'_>)],
    span: Range<usize>,
    reader: &mut Reader<'_>,
) {
    for (name, _) in fields {
        reader.unknown_column(layout, name);
    }
    // Which of two is meant nobody can say.
    for (at, (name, value)) in fields.iter().enumerate() {
        let wanted = [layout.time, layout.prompt, layout.output].contains(&name.as_ref());
        if wanted && fields[..at].iter().any(|(other, _)| other == name) {
            let message = format!("`{name}` is given twice");
            reader.fault(value.span.clone(), message, "the second", None);
        }
    }
    let cell = |column: &str| match fields.iter().find(|(name, _)| name == column) {
        Some((_, value)) => Cell::Text(value.clone()),
        None => Cell::Absent(span.clone()),
    };
    let row = Row {
        time: cell(layout.time),
        prompt: cell(layout.prompt),
        output: cell(layout.output),
        span: span.clone(),
    };
    reader.row(layout, &row);
}

/// Splits the object `line`, which stands at byte `at`, into its fields; whether it is an object.
fn split<'a>(
    line: &'a str,
    at: usize,
    fields: &mut Vec<(Cow<'a, str>, Place<'a>)>,
    reader: &mut Reader<'_>,
) -> bool {
    fields.clear();
    let whole = at..at + line.len();
    if !line.starts_with('{') {
        let message = "the line is not a JSON object".to_owned();
        let help = Some("write one object a line".to_owned());
        reader.fault(whole, message, "must start with `{`", help);
        reader.bad_row();
        return false;
    }
    if let Err(error) = serde_json::from_str::<IgnoredAny>(line) {
        // serde_json's columns count bytes from 1; of an early end, one beyond.
        let mut byte = error.column().saturating_sub(1).min(line.len() - 1);
        while !line.is_char_boundary(byte) {
            byte -= 1;
        }
        let mut end = byte + 1;
        while !line.is_char_boundary(end) {
            end += 1;
        }
        let text = error.to_string();
        let what = text.split(" at line").next().unwrap_or("");
        let message = format!("the line is not JSON: {what}");
        reader.fault(at + byte..at + end, message, "here", None);
        reader.bad_row();
        return false;
    }
    // The line is valid, so each name has its colon and each value its end.
    let mut byte = 1;
    while let Some(quote) = line[byte..].find('"') {
        let name = byte + quote;
        let name_end = value_end(line, name);
        let Some(colon) = line[name_end..].find(':') else {
            break;
        };
        let after = &line[name_end + colon + 1..];
        let value = line.len() - after.trim_start().len();
        let value_end = value_end(line, value);
        let text = match &line[value..value_end] {
            "null" => Cow::Borrowed(""),
            raw => unquoted(raw),
        };
        let span = at + value..at + value_end;
        fields.push((unquoted(&line[name..name_end]), Place { text, span }));
        byte = value_end;
    }
    true
}

/// The text of a JSON string, anything else as it stands.
fn unquoted(raw: &str) -> Cow<'_, str> {
    match raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"')) {
        Some(plain) if !plain.contains('\\') => Cow::Borrowed(plain),
        Some(_) => serde_json::from_str(raw).map_or(Cow::Borrowed(raw), Cow::Owned),
        None => Cow::Borrowed(raw),
    }
}

/// Where the value that starts at byte `start` of a valid line ends.
fn value_end(line: &str, start: usize) -> usize {
    let bytes = line.as_bytes();
    let mut depth = 0_usize;
    let mut at = start;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    // An escape hides the character after it.
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                if depth == 0 {
                    return (at + 1).min(bytes.len());
                }
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' | b',' | b' ' | b'\t' | b'\r' if depth == 0 => return at,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}
