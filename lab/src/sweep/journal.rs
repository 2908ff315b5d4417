//! The append-only journal of a sweep: a line a cell, each with its checksum.
//!
//! A row is one `write` at the end of the file, so that a process that is killed at any instant leaves whole
//! lines and at most one torn one, which the next run cuts off. A line whose checksum is wrong counts as
//! missing, and its cell is run again. Where each row lies is kept in a scratch file beside the journal,
//! 8 bytes a cell, not in memory; it is made anew from the journal whenever that is opened.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::row::Column;
use super::{Error, guard};

/// First field of a journal, and the version of its form.
const MAGIC: [&str; 2] = ["crossinfer-sweep", "1"];
/// Name of the journal in its folder.
pub(super) const JOURNAL: &str = "journal";
pub(super) const INDEX: &str = "journal.index";

/// Every n-th cell: part `part` (from 1) of `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    part: u64,
    of: u64,
}

impl Shard {
    /// All cells.
    pub const WHOLE: Self = Self { part: 1, of: 1 };

    /// Cells of it, of so many in all.
    fn count(self, cells: u64) -> u64 {
        (cells + self.of - self.part) / self.of
    }

    /// Its cell at `place`.
    fn cell(self, place: u64) -> u64 {
        self.part - 1 + place * self.of
    }

    /// The place of a cell, if it is one of its own.
    fn place(self, cell: u64, cells: u64) -> Option<u64> {
        (cell < cells && cell % self.of == self.part - 1).then_some(cell / self.of)
    }
}

/// Reads `i/n`.
impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/');
        let parts = parts.and_then(|(part, of)| Some((part.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((part, of)) if (1..=of).contains(&part) && of <= 1_000_000 => {
                Ok(Self { part, of })
            }
            _ => Err("give `i/n`, i from 1 to n, n at most 1000000".into()),
        }
    }
}

impl std::fmt::Display for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.part, self.of)
    }
}

/// What a journal is of: two with equal headers have equal rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Hash of everything that the rows depend on.
    pub(super) plan: String,
    pub(super) shard: Shard,
    /// Cells of all shards.
    pub(super) cells: u64,
    pub(super) columns: Vec<Column>,
}

impl Header {
    fn line(&self) -> Vec<u8> {
        let mut fields: Vec<String> = MAGIC.map(str::to_owned).to_vec();
        fields.extend([
            self.plan.clone(),
            self.shard.to_string(),
            self.cells.to_string(),
        ]);
        fields.extend(self.columns.iter().map(Column::to_string));
        seal(&fields)
    }

    fn parse(line: &[u8]) -> Option<Self> {
        let fields = fields(unseal(line)?)?;
        let [magic, version, plan, shard, cells, columns @ ..] = fields.as_slice() else {
            return None;
        };
        if [magic.as_str(), version.as_str()] != MAGIC {
            return None;
        }
        let columns = columns.iter().map(|text| text.parse().ok());
        Some(Self {
            plan: plan.clone(),
            shard: shard.parse().ok()?,
            cells: cells.parse().ok()?,
            columns: columns.collect::<Option<_>>()?,
        })
    }

    /// Cells of this journal.
    pub(super) fn own(&self) -> u64 {
        self.shard.count(self.cells)
    }
}

/// Fields as a line with its checksum.
pub(super) fn seal(fields: &[String]) -> Vec<u8> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    // Into memory, nothing can fail.
    let written = writer.write_record(fields).is_ok();
    let mut line = writer.into_inner().unwrap_or_default();
    debug_assert!(written);
    line.pop();
    let sum = crc32fast::hash(&line);
    line.extend(format!(",{sum:08x}\n").bytes());
    line
}

/// The fields' part of a line, if its checksum is right.
pub(super) fn unseal(line: &[u8]) -> Option<&[u8]> {
    let line = line.strip_suffix(b"\n")?;
    let (body, sum) = line.split_at(line.len().checked_sub(9)?);
    let wanted = format!(",{:08x}", crc32fast::hash(body));
    (sum == wanted.as_bytes()).then_some(body)
}

/// The fields of a line without its checksum.
pub(super) fn fields(body: &[u8]) -> Option<Vec<String>> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .from_reader(body);
    let record = reader.records().next()?.ok()?;
    Some(record.iter().map(str::to_owned).collect())
}

/// An open journal.
#[derive(Debug)]
pub(super) struct Journal {
    folder: PathBuf,
    pub(super) header: Header,
    file: File,
    end: u64,
    index: File,
    /// Rows there.
    pub(super) rows: u64,
    /// Lines with a wrong checksum.
    pub(super) damaged: u64,
}

impl Journal {
    /// Opens or begins the journal of a folder, for this process alone.
    pub(super) fn open(folder: &Path, header: Header) -> Result<Self, Error> {
        guard::folder(folder)?;
        let path = folder.join(JOURNAL);
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|source| failed(&path, "opened", source))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::asked(
                    format!("another sweep is writing to `{}`", folder.display()),
                    "wait for it, or give another folder",
                ));
            }
            // Some network file systems have no locks.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(source)) => return Err(failed(&path, "locked", source)),
        }
        let end = begin(&mut file, folder, &header)?;
        let index_path = folder.join(INDEX);
        let index = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&index_path)
            .map_err(|source| failed(&index_path, "made", source))?;
        let mut journal = Self {
            folder: folder.to_owned(),
            header,
            file,
            end,
            index,
            rows: 0,
            damaged: 0,
        };
        journal.read_rows()?;
        Ok(journal)
    }

    fn path(&self) -> PathBuf {
        self.folder.join(JOURNAL)
    }

    /// Finds every row, and cuts a torn end off.
    fn read_rows(&mut self) -> Result<(), Error> {
        let path = self.path();
        let error = |source| failed(&path, "read", source);
        let own = self.header.own();
        self.index.set_len(own * 8).map_err(error)?;
        self.file.seek(SeekFrom::Start(self.end)).map_err(error)?;
        let mut reader = BufReader::new(self.file.try_clone().map_err(error)?);
        let mut line = Vec::new();
        loop {
            line.clear();
            if reader.read_until(b'\n', &mut line).map_err(error)? == 0 {
                break;
            }
            if !line.ends_with(b"\n") {
                self.file.set_len(self.end).map_err(error)?;
                break;
            }
            match place(&self.header, &line) {
                Some(at) => self.note(at).map_err(error)?,
                None => self.damaged += 1,
            }
            self.end += line.len() as u64;
        }
        self.file.seek(SeekFrom::Start(self.end)).map_err(error)?;
        Ok(())
    }

    /// Notes that the row of the cell at `place` begins at the end.
    fn note(&mut self, place: u64) -> io::Result<()> {
        let at = SeekFrom::Start(place * 8);
        let mut known = [0; 8];
        self.index.seek(at)?;
        self.index.read_exact(&mut known)?;
        if known == [0; 8] {
            self.rows += 1;
        }
        self.index.seek(at)?;
        // The header is before every row, so none begins at 0.
        self.index.write_all(&self.end.to_le_bytes())
    }

    /// Whether the cell that a whole line is of has no row yet.
    pub(super) fn lacks(&mut self, line: &[u8]) -> Result<bool, Error> {
        let Some(place) = place(&self.header, line) else {
            return Ok(true);
        };
        let mut known = [0; 8];
        let read = self
            .index
            .seek(SeekFrom::Start(place * 8))
            .and_then(|_| self.index.read_exact(&mut known));
        read.map_err(|source| failed(&self.folder.join(INDEX), "read", source))?;
        Ok(known == [0; 8])
    }

    /// Appends a row, the first field of which is the cell.
    pub(super) fn append(&mut self, line: &[u8]) -> Result<(), Error> {
        let path = self.path();
        let Some(at) = place(&self.header, line) else {
            let source = io::Error::other("a row of another sweep");
            return Err(failed(&path, "written", source));
        };
        self.file
            .write_all(line)
            .and_then(|()| self.note(at))
            .map_err(|source| failed(&path, "written", source))?;
        self.end += line.len() as u64;
        Ok(())
    }

    /// Cells whose rows are missing, in order. Those that are taken from it may be appended meanwhile.
    pub(super) fn missing(&self) -> Result<impl Iterator<Item = io::Result<u64>> + use<>, Error> {
        let shard = self.header.shard;
        let offsets = self.offsets()?;
        let places = offsets
            .enumerate()
            .filter_map(move |(place, offset)| match offset {
                Ok(0) => Some(Ok(shard.cell(place as u64))),
                Ok(_) => None,
                Err(error) => Some(Err(error)),
            });
        Ok(places)
    }

    fn offsets(&self) -> Result<impl Iterator<Item = io::Result<u64>> + use<>, Error> {
        let path = self.folder.join(INDEX);
        let file = File::open(&path).map_err(|source| failed(&path, "read", source))?;
        let mut reader = BufReader::new(file);
        let own = self.header.own();
        Ok((0..own).map(move |_| {
            let mut offset = [0; 8];
            reader.read_exact(&mut offset)?;
            Ok(u64::from_le_bytes(offset))
        }))
    }

    /// Shows every row in order, without its checksum.
    pub(super) fn each(
        &self,
        mut row: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let path = self.path();
        let error = |source| failed(&path, "read", source);
        let mut reader = BufReader::new(File::open(&path).map_err(error)?);
        let (mut line, mut at) = (Vec::new(), 0_u64);
        for offset in self.offsets()? {
            let offset = offset.map_err(error)?;
            let step = offset.wrapping_sub(at).cast_signed();
            reader.seek_relative(step).map_err(error)?;
            line.clear();
            reader.read_until(b'\n', &mut line).map_err(error)?;
            at = offset + line.len() as u64;
            let Some(body) = unseal(&line).filter(|_| offset > 0) else {
                return Err(error(io::Error::other("a row was changed meanwhile")));
            };
            row(body)?;
        }
        Ok(())
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // It is of no use to the next run, and no harm if it stays.
        _ = fs::remove_file(self.folder.join(INDEX));
    }
}

/// Sees that a journal has this header, or begins it. Returns where its rows begin.
fn begin(file: &mut File, folder: &Path, header: &Header) -> Result<u64, Error> {
    let path = folder.join(JOURNAL);
    let error = |source| failed(&path, "read", source);
    let mut line = Vec::new();
    BufReader::new(file.try_clone().map_err(error)?)
        .read_until(b'\n', &mut line)
        .map_err(error)?;
    if line.ends_with(b"\n") {
        let (message, help) = match Header::parse(&line) {
            Some(found) if found == *header => return Ok(line.len() as u64),
            Some(found) if found.shard != header.shard => (
                format!("`{}` holds shard {}", folder.display(), found.shard),
                "give each shard a folder of its own",
            ),
            Some(_) => (
                format!(
                    "`{}` holds another sweep: its scenario, profiles, keys, values, seed or program differ",
                    folder.display()
                ),
                "give another folder",
            ),
            None => (
                format!(
                    "`{}` is no journal of a sweep, or its first line is damaged",
                    path.display()
                ),
                "give another folder",
            ),
        };
        return Err(Error::asked(message, help));
    }
    // Nothing, or killed as it began.
    let first = header.line();
    if !first.starts_with(&line) {
        return Err(Error::asked(
            format!("`{}` is no journal of a sweep", path.display()),
            "give another folder",
        ));
    }
    file.set_len(0).map_err(error)?;
    file.seek(SeekFrom::Start(0)).map_err(error)?;
    file.write_all(&first).map_err(error)?;
    Ok(first.len() as u64)
}

/// Place of the cell that a line is of, if it is whole and of this journal.
fn place(header: &Header, line: &[u8]) -> Option<u64> {
    let body = unseal(line)?;
    let end = body.iter().position(|&byte| byte == b',')?;
    let cell = str::from_utf8(&body[..end]).ok()?.parse().ok()?;
    header.shard.place(cell, header.cells)
}

/// The header of a folder's journal, and its lines behind it. Fails while a sweep writes there.
pub(super) fn read(
    folder: &Path,
) -> Result<(Header, impl Iterator<Item = io::Result<Vec<u8>>>), Error> {
    let path = folder.join(JOURNAL);
    let error = |source| failed(&path, "read", source);
    let file = File::open(&path).map_err(error)?;
    if let Err(TryLockError::WouldBlock) = file.try_lock_shared() {
        return Err(Error::asked(
            format!("a sweep is still writing to `{}`", folder.display()),
            "merge when all shards are done",
        ));
    }
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line).map_err(error)?;
    let Some(header) = Header::parse(&line) else {
        return Err(Error::asked(
            format!("`{}` is no journal of a sweep", path.display()),
            "name the folders that `sweep --shard` wrote",
        ));
    };
    let lines = std::iter::from_fn(move || {
        let mut line = Vec::new();
        match reader.read_until(b'\n', &mut line) {
            Ok(0) => None,
            Ok(_) => Some(Ok(line)),
            Err(error) => Some(Err(error)),
        }
    });
    Ok((header, lines))
}

pub(super) fn failed(path: &Path, what: &'static str, source: io::Error) -> Error {
    Error::File {
        path: path.to_owned(),
        what,
        source,
    }
}

/// Whether shards are all of one sweep, each once; the header of the whole.
pub(super) fn whole(headers: &[Header]) -> Result<Header, Error> {
    let Some(first) = headers.first() else {
        return Err(Error::asked(
            "there is nothing to merge",
            "name the folders of all shards",
        ));
    };
    let same = |header: &&Header| {
        (&header.plan, header.cells, &header.columns, header.shard.of)
            == (&first.plan, first.cells, &first.columns, first.shard.of)
    };
    if headers.iter().filter(same).count() != headers.len() {
        return Err(Error::asked(
            "these folders are of different sweeps",
            "name the shards of one sweep, all run by the same program on the same files",
        ));
    }
    let mut parts: Vec<u64> = headers.iter().map(|header| header.shard.part).collect();
    parts.sort_unstable();
    if !parts.iter().copied().eq(1..=first.shard.of) {
        return Err(Error::asked(
            format!("these are shards {parts:?} of {}", first.shard.of),
            "name each shard once",
        ));
    }
    Ok(Header {
        shard: Shard::WHOLE,
        ..first.clone()
    })
}

#[cfg(test)]
mod tests;
