//! What is done to every source before an importer reads it: a compressed file is named as one, a byte order mark
//! goes, and UTF-16, as PowerShell's `>` writes it, becomes UTF-8.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use super::note::Notes;
use super::{Kind, Source};

/// Bytes from which it is told what a file is.
const START: u64 = 4096;

/// The sources that can be read, with text in UTF-8. What cannot is refused.
pub(crate) fn all(kind: Kind, sources: Vec<Source>, notes: &mut Notes) -> Vec<Source> {
    let mut opened = Vec::new();
    for source in sources {
        let name = source.name.clone();
        match open(kind, source) {
            Ok(source) => opened.push(source),
            Err(reason) => notes.refuse(&name, None, reason),
        }
    }
    opened
}

fn open(kind: Kind, source: Source) -> Result<Source, String> {
    let Source { name, mut reader } = source;
    let mut start = Vec::new();
    reader
        .by_ref()
        .take(START)
        .read_to_end(&mut start)
        .map_err(|error| format!("cannot be read: {error}"))?;
    if let Some(packed) = Packed::of(&start) {
        return Err(packed.advice(kind, &name));
    }
    let big = match start.as_slice() {
        _ if kind == Kind::Gguf => None,
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => {
            return Err(encoded("UTF-32", "UTF-32", kind, &name));
        }
        [0xff, 0xfe, ..] => Some(false),
        [0xfe, 0xff, ..] => Some(true),
        [first, 0, ..] if *first != 0 => {
            let what = "UTF-16 (little-endian) without a byte order mark";
            return Err(encoded(what, "UTF-16LE", kind, &name));
        }
        [0, second, ..] if *second != 0 => {
            let what = "UTF-16 (big-endian) without a byte order mark";
            return Err(encoded(what, "UTF-16BE", kind, &name));
        }
        _ => None,
    };
    let mark: &[u8] = match big {
        Some(false) => &[0xff, 0xfe],
        Some(true) => &[0xfe, 0xff],
        None if kind == Kind::Gguf => &[],
        None => &[0xef, 0xbb, 0xbf],
    };
    if start.starts_with(mark) {
        start.drain(..mark.len());
    }
    let whole = Cursor::new(start).chain(reader);
    let reader: Box<dyn BufRead> = match big {
        Some(big) => Box::new(BufReader::new(Utf16::new(whole, big))),
        None => Box::new(whole),
    };
    Ok(Source { name, reader })
}

fn encoded(what: &str, iconv: &str, kind: Kind, name: &str) -> String {
    format!(
        "is text in {what}: save it as UTF-8, or `iconv -f {iconv} -t UTF-8 {}`",
        into_import(kind, name)
    )
}

/// The file as the last argument of a command whose output is imported.
fn into_import(kind: Kind, name: &str) -> String {
    let name = match name {
        "-" => String::new(),
        plain
            if plain
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"/._-+:,@%".contains(&byte)) =>
        {
            format!("{plain} ")
        }
        other => format!("'{}' ", other.replace('\'', r"'\''")),
    };
    format!("{name}| crossinfer import {} -", kind.name())
}

/// A compression, by the bytes that its files start with.
#[derive(Clone, Copy)]
struct Packed {
    name: &'static str,
    magic: &'static [u8],
    command: &'static str,
}

const PACKED: [Packed; 5] = [
    Packed {
        name: "gzip",
        magic: &[0x1f, 0x8b],
        command: "gzip -dc",
    },
    Packed {
        name: "zstd",
        magic: &[0x28, 0xb5, 0x2f, 0xfd],
        command: "zstd -dc",
    },
    Packed {
        name: "xz",
        magic: &[0xfd, b'7', b'z', b'X', b'Z', 0],
        command: "xz -dc",
    },
    Packed {
        name: "bzip2",
        magic: b"BZh",
        command: "bzip2 -dc",
    },
    Packed {
        name: "zip",
        magic: b"PK\x03\x04",
        command: "unzip -p",
    },
];

impl Packed {
    fn of(start: &[u8]) -> Option<Self> {
        let packed = PACKED.into_iter().find(|it| start.starts_with(it.magic))?;
        // Text may begin with its three letters; a block follows them and a digit.
        let block = |rest: &[u8]| matches!(rest, [b'1'..=b'9', 0x31, 0x41, 0x59, ..]);
        (packed.name != "bzip2" || block(&start[3..])).then_some(packed)
    }

    fn advice(self, kind: Kind, name: &str) -> String {
        let Self {
            name: packed,
            command,
            ..
        } = self;
        let sheet = [".xlsx", ".ods", ".numbers"]
            .iter()
            .any(|end| name.to_ascii_lowercase().ends_with(end));
        if packed == "zip" && sheet {
            return "is a spreadsheet: save its sheet as CSV".to_owned();
        }
        // `unzip` takes no standard input.
        let from = if packed == "zip" && name == "-" {
            into_import(kind, "FILE.zip")
        } else {
            into_import(kind, name)
        };
        format!("is compressed by {packed}: `{command} {from}`")
    }
}

/// UTF-16 as UTF-8, a piece at a time.
struct Utf16<R> {
    inner: R,
    big: bool,
    /// First half of a character whose second half has not been read.
    half: Option<u16>,
    text: String,
    /// Bytes of `text` that have been given.
    given: usize,
    line: u64,
}

impl<R: Read> Utf16<R> {
    fn new(inner: R, big: bool) -> Self {
        Self {
            inner,
            big,
            half: None,
            text: String::new(),
            given: 0,
            line: 1,
        }
    }

    fn fault(&self) -> io::Error {
        let text = format!(
            "it begins as UTF-16 text and does not go on so in line {}",
            self.line
        );
        io::Error::new(io::ErrorKind::InvalidData, text)
    }

    /// Decodes the next piece; there is none where the text stays empty.
    fn piece(&mut self) -> io::Result<()> {
        self.text.clear();
        self.given = 0;
        let mut bytes = Vec::new();
        self.inner.by_ref().take(1 << 13).read_to_end(&mut bytes)?;
        let end = bytes.len() < 1 << 13;
        let (pairs, rest) = bytes.as_chunks::<2>();
        let mut units: Vec<u16> = self.half.take().into_iter().collect();
        units.extend(pairs.iter().map(|&pair| {
            if self.big {
                u16::from_be_bytes(pair)
            } else {
                u16::from_le_bytes(pair)
            }
        }));
        if !end
            && units
                .last()
                .is_some_and(|unit| (0xd800..0xdc00).contains(unit))
        {
            self.half = units.pop();
        }
        for decoded in char::decode_utf16(units) {
            let c = decoded.map_err(|_| self.fault())?;
            self.line += u64::from(c == '\n');
            self.text.push(c);
        }
        if rest.is_empty() {
            Ok(())
        } else {
            Err(self.fault())
        }
    }
}

impl<R: Read> Read for Utf16<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.given == self.text.len() {
            self.piece()?;
        }
        let left = &self.text.as_bytes()[self.given..];
        let count = left.len().min(to.len());
        to[..count].copy_from_slice(&left[..count]);
        self.given += count;
        Ok(count)
    }
}
