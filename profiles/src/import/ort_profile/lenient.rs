//! JSON as ONNX Runtime writes it.

use std::cell::Cell;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Text {
    Outside,
    Inside,
    Escaped,
}

/// Drops commas right before a closing bracket, as ONNX Runtime writes them for sequences of tensors, and counts
/// lines.
pub(super) struct Lenient {
    inner: Box<dyn BufRead>,
    /// A comma with the blanks after it, until it is known what follows.
    held: Vec<u8>,
    at: usize,
    text: Text,
    line: Rc<Cell<u64>>,
    pub(super) dropped: Rc<Cell<u64>>,
}

impl Lenient {
    /// The bytes of `inner`, counting its lines in `line`.
    pub(super) fn new(inner: Box<dyn BufRead>, line: Rc<Cell<u64>>) -> Self {
        Self {
            inner,
            held: Vec::new(),
            at: 0,
            text: Text::Outside,
            line,
            dropped: Rc::default(),
        }
    }

    fn byte(&mut self) -> io::Result<Option<u8>> {
        let buffer = self.inner.fill_buf()?;
        let Some(&byte) = buffer.first() else {
            return Ok(None);
        };
        self.inner.consume(1);
        if byte == b'\n' {
            self.line.set(self.line.get() + 1);
        }
        Ok(Some(byte))
    }

    fn next(&mut self) -> io::Result<Option<u8>> {
        if let Some(&byte) = self.held.get(self.at) {
            self.at += 1;
            return Ok(Some(byte));
        }
        let Some(byte) = self.byte()? else {
            return Ok(None);
        };
        match (self.text, byte) {
            (Text::Outside, b'"') => self.text = Text::Inside,
            (Text::Inside, b'"') | (Text::Escaped, _) => {
                self.text = if self.text == Text::Escaped {
                    Text::Inside
                } else {
                    Text::Outside
                };
            }
            (Text::Inside, b'\\') => self.text = Text::Escaped,
            (Text::Outside, b',') => return self.comma(),
            _ => {}
        }
        Ok(Some(byte))
    }

    /// What a comma turns into by what follows it.
    fn comma(&mut self) -> io::Result<Option<u8>> {
        self.held.clear();
        self.at = 0;
        loop {
            match self.byte()? {
                Some(blank) if blank.is_ascii_whitespace() => {
                    // Blanks mean nothing, and there may be many.
                    if self.held.is_empty() {
                        self.held.push(b' ');
                    }
                }
                Some(b',') => self.held.push(b','),
                Some(close @ (b']' | b'}')) => {
                    self.dropped.set(self.dropped.get() + 1);
                    return Ok(Some(close));
                }
                Some(other) => {
                    if other == b'"' {
                        self.text = Text::Inside;
                    }
                    self.held.push(other);
                    return Ok(Some(b','));
                }
                None => return Ok(Some(b',')),
            }
            if self.held.len() > 64 {
                return Ok(Some(b','));
            }
        }
    }
}

impl Read for Lenient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // serde_json asks for single bytes; more are not needed.
        match (buffer.first_mut(), self.next()?) {
            (Some(place), Some(byte)) => {
                *place = byte;
                Ok(1)
            }
            _ => Ok(0),
        }
    }
}
