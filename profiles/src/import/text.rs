//! Bytes to text, and text to numbers.

use std::borrow::Cow;
use std::io::Read;

use super::markdown;
use super::note::Notes;
use super::row::Row;
use super::{NoteKind, Source};

/// Largest file that is read whole: none of these kinds comes near.
pub(crate) const WHOLE_MAX: u64 = 256 << 20;

/// Rows of every source by `read`, each with its text, whose tables have all their bars.
pub(crate) fn each(
    sources: Vec<Source>,
    notes: &mut Notes,
    read: fn(&str, &str, &mut Notes) -> Vec<Row>,
) -> Vec<Row> {
    let mut rows = Vec::new();
    for source in sources {
        let name = source.name.clone();
        if let Some(text) = whole(source, notes) {
            rows.extend(read(&name, &markdown::framed(&text), notes));
        }
    }
    rows
}

/// The whole text of a source.
pub(crate) fn whole(source: Source, notes: &mut Notes) -> Option<String> {
    let Source { name, reader } = source;
    let mut bytes = Vec::new();
    if let Err(error) = reader.take(WHOLE_MAX + 1).read_to_end(&mut bytes) {
        notes.refuse(&name, None, format!("cannot be read: {error}"));
        return None;
    }
    if bytes.len() as u64 > WHOLE_MAX {
        notes.refuse(
            &name,
            None,
            "is larger than 256 MiB, which no file of this kind is",
        );
        return None;
    }
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let line = error.as_bytes()[..at].split(|&byte| byte == b'\n').count();
            notes.refuse(&name, Some(line as u64), "is not UTF-8 text from here on");
            return None;
        }
    };
    if text.trim().is_empty() {
        notes.add(NoteKind::Refused, &name, Some(1), "the file is empty");
        return None;
    }
    Some(text)
}

/// Numbered lines, from 1.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (u64, &str)> {
    (1..).zip(text.lines())
}

/// Where the lines of a text begin, to find the line of a byte at once.
#[derive(Clone, Debug)]
pub(crate) struct Lines(Vec<usize>);

impl Lines {
    /// The lines of `text`.
    pub(crate) fn of(text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self(ends.map(|(at, _)| at).collect())
    }

    /// Line of a byte, from 1.
    pub(crate) fn at(&self, byte: usize) -> u64 {
        self.0.partition_point(|end| *end < byte) as u64 + 1
    }
}

/// A finite number above zero.
pub(crate) fn positive(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let text = &*point(text)?;
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        Ok(number) => Err(format!("`{number}` is not a positive number")),
        Err(_) if text.is_empty() => Err("there is no value".to_owned()),
        Err(_) => Err(format!("`{}` is not a number", short(text))),
    }
}

/// A number as a program reads it: a decimal comma becomes a point, and what parts thousands (`1,025.25`, `1.025,25`,
/// `1 025`, `1'025`) goes. One comma before exactly three digits may do either, so it is not guessed at. What is no
/// number stays as it is.
pub(crate) fn point(text: &str) -> Result<Cow<'_, str>, String> {
    let parts: Vec<&str> = text.split(|c: char| !c.is_ascii_digit()).collect();
    let marks: Vec<char> = text.chars().filter(|c| !c.is_ascii_digit()).collect();
    let plain = Ok(Cow::Borrowed(text));
    let known = |mark: &char| {
        matches!(
            mark,
            ',' | '.' | ' ' | '\'' | '’' | '\u{a0}' | '\u{2009}' | '\u{202f}'
        )
    };
    if marks.is_empty() || marks == ['.'] || !marks.iter().all(known) || parts.contains(&"") {
        return plain;
    }
    let decimal = |mark: char| matches!(mark, ',' | '.');
    let grouped = |parts: &[&str]| {
        let (first, rest) = (parts[0].len(), &parts[1..]);
        (1..=3).contains(&first) && rest.iter().all(|part| part.len() == 3)
    };
    let alike = |marks: &[char]| marks.windows(2).all(|two| two[0] == two[1]);
    match (marks.as_slice(), parts.as_slice()) {
        ([','], [whole, rest]) if rest.len() == 3 && whole.len() <= 3 && *whole != "0" => {
            Err(format!(
                "`{}` is {whole}{rest} or {whole}.{rest}: write it without a comma",
                short(text)
            ))
        }
        ([','], [whole, rest]) => Ok(Cow::Owned(format!("{whole}.{rest}"))),
        (marks, parts) if alike(marks) && grouped(parts) => Ok(Cow::Owned(parts.concat())),
        ([groups @ .., last], [whole @ .., rest])
            if decimal(*last) && !groups.contains(last) && alike(groups) && grouped(whole) =>
        {
            Ok(Cow::Owned(format!("{}.{rest}", whole.concat())))
        }
        _ => plain,
    }
}

/// The number that a text starts with, and what follows it; `None` if it starts with none.
///
/// # Errors
///
/// A comma that may be two things.
pub(crate) fn leading_number(text: &str) -> Result<Option<(f64, &str)>, String> {
    let text = text.trim_start();
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let part = |at: usize| match bytes[at] {
        b',' => at > 0 && digit(at - 1) && digit(at + 1),
        byte => byte == b'.' || byte.is_ascii_digit(),
    };
    let end = (0..bytes.len())
        .find(|at| !part(*at))
        .unwrap_or(bytes.len());
    // An exponent belongs to the number only if digits follow.
    let end = exponent_end(text, end);
    let number = point(&text[..end])?.parse::<f64>().ok();
    let number = number.filter(|number| number.is_finite());
    Ok(number.map(|number| (number, text[end..].trim_start())))
}

fn exponent_end(text: &str, end: usize) -> usize {
    let Some(rest) = text[end..].strip_prefix(['e', 'E']) else {
        return end;
    };
    let digits = rest.strip_prefix(['+', '-']).unwrap_or(rest);
    let count = digits.bytes().take_while(u8::is_ascii_digit).count();
    if count == 0 || end == 0 {
        return end;
    }
    end + 1 + (rest.len() - digits.len()) + count
}

/// A time above zero with its unit (`ns`, `us`, `ms`, `s`), in seconds.
///
/// # Errors
///
/// Why it is none: without a unit there is none.
pub(crate) fn duration_s(text: &str) -> Result<f64, String> {
    let none = || format!("`{}` is no time with its unit", short(text));
    let (number, unit) = leading_number(text)?.ok_or_else(none)?;
    let scale = match unit.trim().to_ascii_lowercase().as_str() {
        "ns" => 1e-9,
        "us" | "µs" | "μs" => 1e-6,
        "ms" => 1e-3,
        "s" | "sec" | "seconds" => 1.0,
        _ => return Err(none()),
    };
    if number > 0.0 {
        Ok(number * scale)
    } else {
        Err(format!("`{}` is not positive", short(text)))
    }
}

/// Bytes beyond which a size is not to be believed.
pub(crate) const BYTES_MAX: f64 = 9e15;

/// A size with its unit, in bytes, if it is one: binary (`MiB`) and decimal (`MB`) units are what they say. It may be
/// out of all bounds, and not finite.
///
/// # Errors
///
/// A comma that may be two things.
pub(crate) fn size_bytes(text: &str) -> Result<Option<f64>, String> {
    let Some((number, unit)) = leading_number(text)? else {
        return Ok(None);
    };
    let scale = match unit.trim().to_ascii_lowercase().as_str() {
        "b" => 1.0,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        _ => return Ok(None),
    };
    Ok((number > 0.0).then_some(number * scale))
}

/// The start of a text, for messages.
pub(crate) fn short(text: &str) -> String {
    let mut shown: String = text.chars().take(60).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown.replace(['\n', '\r'], " ")
}

/// What is wrong with a time that no measurement takes.
pub(crate) fn out_of_bounds(secs: f64) -> String {
    if secs.is_finite() {
        format!("{secs:e} s is out of all bounds")
    } else {
        "a time beyond all numbers is out of all bounds".to_owned()
    }
}

/// A name as a key: lower-case letters, digits, dots and hyphens. At least one character.
pub(crate) fn slug(text: &str) -> String {
    let mut key = String::new();
    for c in text.chars() {
        match c {
            'a'..='z' | '0'..='9' => key.push(c),
            'A'..='Z' => key.push(c.to_ascii_lowercase()),
            '.' if !key.is_empty() => key.push(c),
            _ if !key.is_empty() && !key.ends_with(['-', '.']) => key.push('-'),
            _ => {}
        }
        if key.len() >= 80 {
            break;
        }
    }
    let key = key.trim_end_matches(['-', '.']);
    if key.is_empty() {
        "unnamed".to_owned()
    } else {
        key.to_owned()
    }
}

/// The known name nearest to `name`, if any is near.
pub(crate) fn nearest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    known
        .into_iter()
        .map(|known| {
            (
                strsim::jaro_winkler(&name.to_lowercase(), &known.to_lowercase()),
                known,
            )
        })
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

/// Of names without a meaning the first that is likely a slip of one that is missing, and which: the same but for letter
/// case and what parts words, or a letter or two off.
pub(crate) fn unknown_for<'n, 'k>(
    unknown: impl Iterator<Item = &'n str>,
    missing: &(impl Iterator<Item = &'k str> + Clone),
) -> Option<(&'n str, &'k str)> {
    let plain = |name: &str| -> String {
        let letters = name.chars().filter(char::is_ascii_alphanumeric);
        letters.map(|c| c.to_ascii_lowercase()).collect()
    };
    let slip = |name: &'n str| {
        let own = plain(name);
        let near = missing.clone().find(|key| {
            let key = plain(key);
            let most = if key.len() < 12 { 1 } else { 2 };
            strsim::damerau_levenshtein(&own, &key) <= most
        });
        Some((name, near?))
    };
    unknown.filter(|name| name.len() < 100).find_map(slip)
}

/// What is said of a key that is missing and of one that is likely meant for it.
pub(crate) fn misspelt(key: &str, name: &str) -> String {
    format!(
        "`{key}` is missing; the nearest is `{}`: rename it, or take it out to import without",
        short(name)
    )
}
