//! The header of a GGUF file: keys and values, and the shapes of tensors.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead};

use super::super::model::Known;
use super::super::note::{NoteKind, Notes};
use super::types;

/// More keys or tensors than any model has.
const COUNT_MAX: u64 = 1 << 20;
/// Text of a value that is kept.
const TEXT_MAX: u64 = 1 << 16;
/// Numbers of an array that are kept: one a layer.
const NUMBERS_MAX: u64 = 1 << 12;

/// A value that may be of use.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Number(f64),
    Text(String),
    Numbers(Vec<f64>),
    /// How many there are of what is not kept.
    Count(u64),
}

/// What a header says.
#[derive(Clone, Debug, Default)]
pub(super) struct Header {
    values: BTreeMap<String, Value>,
    /// Number of tensors.
    pub(super) tensors: u64,
    /// Whether the file is big-endian.
    pub(super) big_endian: bool,
    /// Bytes by type name.
    bytes: BTreeMap<&'static str, f64>,
    /// Bytes of the embedding.
    embedding: f64,
    head: bool,
    unknown: Option<(String, u32)>,
    names: BTreeSet<String>,
}

impl Header {
    /// The number of a key.
    pub(super) fn number(&self, key: &str) -> Option<f64> {
        match self.values.get(key)? {
            Value::Number(number) if number.is_finite() => Some(*number),
            _ => None,
        }
    }

    /// The numbers of a key, one a layer; a single one is all layers'.
    pub(super) fn numbers(&self, key: &str) -> Option<Vec<f64>> {
        match self.values.get(key)? {
            Value::Number(number) => Some(vec![*number]),
            Value::Numbers(numbers) => Some(numbers.clone()),
            _ => None,
        }
    }

    /// The text of a key.
    pub(super) fn text(&self, key: &str) -> Option<String> {
        match self.values.get(key)? {
            Value::Text(text) if !text.is_empty() => Some(text.clone()),
            _ => None,
        }
    }

    /// Elements of an array.
    pub(super) fn list_length(&self, key: &str) -> Option<f64> {
        match self.values.get(key)? {
            Value::Count(count) => Some(*count as f64),
            Value::Numbers(list) => Some(list.len() as f64),
            _ => None,
        }
    }

    /// Whether there is an output head beside the embedding.
    pub(super) fn has_head(&self) -> bool {
        self.head
    }

    /// How many layers have tensors.
    pub(super) fn blocks(&self) -> usize {
        let numbers = self.names.iter().filter_map(|name| {
            let (number, _) = name.strip_prefix("blk.")?.split_once('.')?;
            number.parse::<u64>().ok()
        });
        numbers.collect::<BTreeSet<_>>().len()
    }

    /// Whether a key is there.
    pub(super) fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    /// Adds the tensors of another shard; a tensor that both have.
    pub(super) fn join(&mut self, other: Self) -> Option<String> {
        if let Some(name) = self.names.intersection(&other.names).next() {
            return Some(name.clone());
        }
        for (name, bytes) in other.bytes {
            *self.bytes.entry(name).or_default() += bytes;
        }
        self.tensors += other.tensors;
        self.embedding += other.embedding;
        self.head |= other.head;
        self.unknown = self.unknown.take().or(other.unknown);
        self.names.extend(other.names);
        None
    }

    /// Bytes of all tensors, of so many files; nothing where a type is unknown.
    pub(super) fn weights(&self, file: &str, files: usize, notes: &mut Notes) -> Option<Known> {
        if let Some((tensor, id)) = &self.unknown {
            let text = format!(
                "tensor `{tensor}` is of type {id}, which is not known: the weights' size is not either"
            );
            notes.add(NoteKind::Warning, file, None, text);
            return None;
        }
        let total: f64 = self.bytes.values().sum();
        let mut list: Vec<(&str, f64)> = self
            .bytes
            .iter()
            .map(|(name, bytes)| (*name, *bytes))
            .collect();
        list.sort_by(|a, b| b.1.total_cmp(&a.1));
        let list: Vec<String> = list
            .iter()
            .map(|(name, bytes)| format!("{name} {:.0} %", 100.0 * bytes / total))
            .collect();
        let embedding = if self.embedding > 0.0 {
            let tied = if self.head {
                "beside an output head of its own"
            } else {
                "which is the output head too"
            };
            format!("; the embedding has {} bytes, {tied}", self.embedding)
        } else {
            String::new()
        };
        let how = format!(
            "Sum over {} tensors of {} ({}){embedding}",
            self.tensors,
            match files {
                1 => "the header".to_owned(),
                files => format!("the headers of {files} shards"),
            },
            list.join(", ")
        );
        Some(Known::new(total, how))
    }
}

type Fault = (u64, String);

/// Reads a header.
///
/// # Errors
///
/// The byte of the first fault, and what it is.
pub(super) fn read(reader: &mut dyn BufRead) -> Result<Header, Fault> {
    let mut bytes = Bytes {
        reader,
        at: 0,
        big: false,
        version: 3,
    };
    let magic: [u8; 4] = bytes.array()?;
    if &magic != b"GGUF" {
        let older = [b"lmgg", b"tjgg", b"fmgg", b"algg"]
            .iter()
            .any(|old| **old == magic);
        let hint = if older {
            ": this is the format before GGUF; convert it"
        } else {
            ""
        };
        return Err((
            0,
            format!("is no GGUF: it does not begin with `GGUF`{hint}"),
        ));
    }
    let version: [u8; 4] = bytes.array()?;
    let version = match u32::from_le_bytes(version) {
        swapped if swapped > 0xffff => {
            bytes.big = true;
            u32::from_be_bytes(version)
        }
        version => version,
    };
    if !(1..=3).contains(&version) {
        return Err((4, format!("version {version} is not known (1 to 3 are)")));
    }
    bytes.version = version;
    let tensors = bytes.count()?;
    let keys = bytes.count()?;
    for (what, count) in [("tensors", tensors), ("keys", keys)] {
        if count > COUNT_MAX {
            return Err((8, format!("{count} {what} are more than any model has")));
        }
    }
    let mut header = Header {
        tensors,
        big_endian: bytes.big,
        ..Header::default()
    };
    for _ in 0..keys {
        let key = bytes.text()?;
        let kind = bytes.u32()?;
        let value = bytes.value(kind, 0)?;
        if header.values.contains_key(&key) {
            return Err(bytes.fault(format!(
                "key `{key}` is there twice: which value holds is unknown"
            )));
        }
        header.values.insert(key, value);
    }
    for _ in 0..tensors {
        let name = bytes.tensor(&mut header)?;
        if header.names.contains(&name) {
            return Err(bytes.fault(format!(
                "tensor `{name}` is there twice: its bytes would count twice"
            )));
        }
        header.names.insert(name);
    }
    Ok(header)
}

struct Bytes<'r> {
    reader: &'r mut dyn BufRead,
    at: u64,
    big: bool,
    version: u32,
}

impl Bytes<'_> {
    fn fault(&self, text: impl Into<String>) -> Fault {
        (self.at, text.into())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let mut array = [0; N];
        match self.reader.read_exact(&mut array) {
            Ok(()) => {
                self.at += N as u64;
                Ok(array)
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(self.fault("the file ends within its header"))
            }
            Err(error) => Err(self.fault(format!("cannot be read: {error}"))),
        }
    }

    fn u32(&mut self) -> Result<u32, Fault> {
        let bytes = self.array()?;
        Ok(if self.big {
            u32::from_be_bytes(bytes)
        } else {
            u32::from_le_bytes(bytes)
        })
    }

    fn u64(&mut self) -> Result<u64, Fault> {
        let bytes = self.array()?;
        Ok(if self.big {
            u64::from_be_bytes(bytes)
        } else {
            u64::from_le_bytes(bytes)
        })
    }

    /// A count or a length: 32 bits in version 1.
    fn count(&mut self) -> Result<u64, Fault> {
        if self.version == 1 {
            Ok(u64::from(self.u32()?))
        } else {
            self.u64()
        }
    }

    fn skip(&mut self, mut bytes: u64) -> Result<(), Fault> {
        while bytes > 0 {
            let buffer = match self.reader.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) => return Err((self.at, format!("cannot be read: {error}"))),
            };
            if buffer.is_empty() {
                return Err(self.fault("the file ends within its header"));
            }
            let step = bytes.min(buffer.len() as u64);
            self.reader.consume(step as usize);
            self.at += step;
            bytes -= step;
        }
        Ok(())
    }

    /// A string of at most what a key may have.
    fn text(&mut self) -> Result<String, Fault> {
        let length = self.count()?;
        if length > TEXT_MAX {
            return Err(self.fault(format!("a name of {length} bytes")));
        }
        let mut bytes = vec![0; length as usize];
        if let Err(error) = self.reader.read_exact(&mut bytes) {
            let text = if error.kind() == io::ErrorKind::UnexpectedEof {
                "the file ends within its header".to_owned()
            } else {
                format!("cannot be read: {error}")
            };
            return Err(self.fault(text));
        }
        self.at += length;
        String::from_utf8(bytes).map_err(|_| self.fault("a name that is not UTF-8"))
    }

    fn number(&mut self, kind: u32) -> Result<Option<f64>, Fault> {
        let big = self.big;
        Ok(Some(match kind {
            0 => f64::from(self.array::<1>()?[0]),
            1 => f64::from(self.array::<1>()?[0].cast_signed()),
            2 | 3 => {
                let bytes = self.array()?;
                let bits = if big {
                    u16::from_be_bytes(bytes)
                } else {
                    u16::from_le_bytes(bytes)
                };
                if kind == 2 {
                    f64::from(bits)
                } else {
                    f64::from(bits.cast_signed())
                }
            }
            4 => f64::from(self.u32()?),
            5 => f64::from(self.u32()?.cast_signed()),
            6 => f64::from(f32::from_bits(self.u32()?)),
            7 => f64::from(u8::from(self.array::<1>()?[0] != 0)),
            10 => self.u64()? as f64,
            11 => self.u64()?.cast_signed() as f64,
            12 => f64::from_bits(self.u64()?),
            _ => return Ok(None),
        }))
    }

    fn value(&mut self, kind: u32, depth: u32) -> Result<Value, Fault> {
        if let Some(number) = self.number(kind)? {
            return Ok(Value::Number(number));
        }
        match kind {
            8 => {
                let length = self.count()?;
                if length > TEXT_MAX {
                    // A chat template or a tokenizer's table.
                    self.skip(length)?;
                    return Ok(Value::Count(length));
                }
                let mut bytes = vec![0; length as usize];
                for byte in &mut bytes {
                    *byte = self.array::<1>()?[0];
                }
                Ok(Value::Text(String::from_utf8_lossy(&bytes).into_owned()))
            }
            9 if depth < 4 => self.list(depth),
            9 => Err(self.fault("arrays nested more than four deep")),
            _ => Err(self.fault(format!("value type {kind} is not known"))),
        }
    }

    fn list(&mut self, depth: u32) -> Result<Value, Fault> {
        let kind = self.u32()?;
        let count = self.count()?;
        let size = match kind {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            10..=12 => 8,
            8 => {
                for _ in 0..count {
                    let length = self.count()?;
                    self.skip(length)?;
                }
                return Ok(Value::Count(count));
            }
            9 => {
                for _ in 0..count {
                    if depth >= 4 {
                        return Err(self.fault("arrays nested more than four deep"));
                    }
                    self.list(depth + 1)?;
                }
                return Ok(Value::Count(count));
            }
            _ => return Err(self.fault(format!("array element type {kind} is not known"))),
        };
        if count > NUMBERS_MAX {
            let bytes = count
                .checked_mul(size)
                .ok_or_else(|| self.fault("an array larger than any file"))?;
            self.skip(bytes)?;
            return Ok(Value::Count(count));
        }
        let mut numbers = Vec::with_capacity(count as usize);
        for _ in 0..count {
            numbers.extend(self.number(kind)?);
        }
        Ok(Value::Numbers(numbers))
    }

    fn tensor(&mut self, header: &mut Header) -> Result<String, Fault> {
        let name = self.text()?;
        let dimensions = self.u32()?;
        if dimensions > 4 {
            return Err(self.fault(format!("tensor `{name}` has {dimensions} dimensions")));
        }
        let mut elements: u64 = 1;
        let mut first = 1;
        for index in 0..dimensions {
            let size = self.count_u64()?;
            if index == 0 {
                first = size;
            }
            elements = elements
                .checked_mul(size)
                .ok_or_else(|| self.fault(format!("tensor `{name}` is larger than any memory")))?;
        }
        let kind = self.u32()?;
        self.u64()?;
        let Some((type_name, block, size)) = types::of_tensor(kind) else {
            header.unknown.get_or_insert((name.clone(), kind));
            return Ok(name);
        };
        if first % block != 0 {
            return Err(self.fault(format!(
                "tensor `{name}`: rows of {first} are no whole blocks of {block} ({type_name})"
            )));
        }
        let bytes = elements as f64 / block as f64 * size as f64;
        *header.bytes.entry(type_name).or_default() += bytes;
        if name == "token_embd.weight" {
            header.embedding = bytes;
        }
        header.head |= name == "output.weight";
        Ok(name)
    }

    /// A dimension: 32 bits in version 1.
    fn count_u64(&mut self) -> Result<u64, Fault> {
        self.count()
    }
}
