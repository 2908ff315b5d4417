//! What is said beside a multimodal table of how its encoder ran. The precision in a column's head, `RK3588(w8a8)`, is
//! the language model's; the encoder's, and the NPU cores that it had, stand in a remark above or below the table.

use std::collections::BTreeSet;

use super::super::note::{NoteKind, Notes};
use super::super::row::{ENCODE_CORES, ENCODE_QUANT, Identity, Row, Test};
use super::super::text::short;
use super::whole::chips;
use crate::roofline::chip::{self, Chip};

/// Words for numbers of cores.
const NUMBERS: [(&str, u32); 11] = [
    ("single", 1),
    ("one", 1),
    ("dual", 2),
    ("both", 2),
    ("two", 2),
    ("triple", 3),
    ("three", 3),
    ("quad", 4),
    ("four", 4),
    ("six", 6),
    ("eight", 8),
];

/// Cores of an NPU that the encoder had.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cores {
    /// All that the chip has.
    All,
    Count(u32),
}

impl Cores {
    /// As part of an identity: of a chip that is known, all are so many.
    fn of(&self, soc: Option<&String>) -> String {
        let chip = soc.and_then(|soc| Chip::find(chip::shipped(), soc));
        let units = chip.and_then(|chip| chip.engines.get("npu")?.units);
        match (self, units) {
            (Self::Count(count), _) => count.to_string(),
            (Self::All, Some(count)) => count.to_string(),
            (Self::All, None) => "all".to_owned(),
        }
    }
}

/// A remark on the encoder.
#[derive(Clone, Debug)]
struct Remark {
    line: u64,
    section: u64,
    precision: Option<String>,
    cores: Option<Cores>,
    /// Its text, in small letters.
    text: String,
}

impl Remark {
    /// Whether it is of this row: a remark may name one model or chip.
    fn holds(&self, row: &Row, models: &BTreeSet<String>) -> bool {
        let chips = chips(&self.text);
        let soc = row.identity.get("soc");
        let chip = chips.is_empty() || soc.is_some_and(|soc| chips.contains(soc));
        let mut named = models.iter().filter(|model| self.text.contains(*model));
        let own = row.identity.get("model").map(|model| model.to_lowercase());
        let any = named.clone().next().is_none();
        chip && (any || named.any(|model| Some(model) == own.as_ref()))
    }
}

/// A multimodal table.
#[derive(Clone, Debug)]
struct Table {
    block: u64,
    section: u64,
}

/// The multimodal tables of a file and the remarks on their encoders.
#[derive(Clone, Debug, Default)]
pub(super) struct Encoders {
    section: u64,
    tables: Vec<Table>,
    remarks: Vec<Remark>,
    /// Lines on the encoder of which nothing was understood.
    unread: Vec<(u64, String)>,
}

impl Encoders {
    /// Takes a line that is no row of a table.
    pub(super) fn line(&mut self, number: u64, line: &str) {
        if line.trim_start().starts_with('#') {
            self.section += 1;
            return;
        }
        let text = line.to_lowercase();
        let encoder = ["encoder", "imgenc", "vision tower", "vision model"]
            .iter()
            .any(|word| text.contains(word));
        if !encoder {
            return;
        }
        let (precision, cores) = (precision(&text), cores(&text));
        if precision.is_none() && cores.is_none() {
            self.unread.push((number, short(line.trim())));
            return;
        }
        self.remarks.push(Remark {
            line: number,
            section: self.section,
            precision,
            cores,
            text,
        });
    }

    /// Takes the header of a multimodal table.
    pub(super) fn table(&mut self, block: u64) {
        self.tables.push(Table {
            block,
            section: self.section,
        });
    }

    /// Puts what the remarks say into the encoders' rows, and says what remains unknown.
    pub(super) fn put_into(&self, rows: &mut [Row], file: &str, notes: &mut Notes) {
        // Prose of a file without such a table is not of one.
        if self.tables.is_empty() {
            return;
        }
        for (line, text) in &self.unread {
            let text = format!(
                "`{text}` is of the encoder, and neither a precision (`FP16`) nor a number of NPU cores (`3 NPU cores`, `all NPU cores`) is found in it"
            );
            notes.skip(file, *line, text);
        }
        for table in &self.tables {
            self.encoders_of(table, rows, file, notes);
        }
    }

    /// The tables that a remark stands beside: of its own section, else the last above it, else the first.
    fn beside(&self, remark: &Remark) -> Option<u64> {
        let of = |wanted: u64| {
            let tables = self.tables.iter();
            tables.rev().find(|table| table.section == wanted)
        };
        let section = |table: &Table| table.section;
        let own = of(remark.section).map(section);
        let above = || {
            let above = self.tables.iter().map(section);
            above.filter(|section| *section < remark.section).max()
        };
        own.or_else(above)
            .or_else(|| self.tables.first().map(section))
    }

    fn encoders_of(&self, table: &Table, rows: &mut [Row], file: &str, notes: &mut Notes) {
        let ours =
            |row: &&mut Row| row.block == table.block && matches!(row.test, Test::Encode { .. });
        let models: BTreeSet<String> = rows
            .iter()
            .filter(|row| row.block == table.block)
            .filter_map(|row| row.identity.get("model"))
            .map(|model| model.to_lowercase())
            .collect();
        let remarks: Vec<&Remark> = self
            .remarks
            .iter()
            .filter(|remark| self.beside(remark) == Some(table.section))
            .collect();
        let mut unknown: Option<(u64, Vec<&str>)> = None;
        let mut contrary: BTreeSet<u64> = BTreeSet::new();
        for row in rows.iter_mut().filter(ours) {
            let soc = row.identity.get("soc").cloned();
            let held: Vec<&Remark> = remarks
                .iter()
                .copied()
                .filter(|remark| remark.holds(row, &models))
                .collect();
            let mut precisions: BTreeSet<String> = held
                .iter()
                .filter_map(|remark| remark.precision.clone())
                .collect();
            let mut counts: BTreeSet<String> = held
                .iter()
                .filter_map(|remark| Some(remark.cores.as_ref()?.of(soc.as_ref())))
                .collect();
            // What the table itself says is nearer than a remark.
            let column = row.identity.keys().any(|key| key.contains("core"));
            if column {
                counts.clear();
            }
            let cell = row.identity.contains_key(ENCODE_QUANT);
            if cell {
                precisions.clear();
            }
            if precisions.len() > 1 || counts.len() > 1 {
                contrary.extend(held.iter().map(|remark| remark.line));
            }
            let mut lacks = Vec::new();
            for (key, values, stated, what) in [
                (ENCODE_QUANT, precisions, cell, "in which precision"),
                (ENCODE_CORES, counts, column, "on how many NPU cores"),
            ] {
                let only = values.first().filter(|_| values.len() == 1);
                if let Some(value) = only {
                    row.identity.insert(key.to_owned(), value.clone());
                } else if !stated {
                    lacks.push(what);
                }
            }
            if !lacks.is_empty() && unknown.is_none() {
                unknown = Some((row.place.line, lacks));
            }
        }
        if let Some(line) = contrary.first() {
            let others: Vec<String> = contrary.iter().skip(1).map(u64::to_string).collect();
            let text = format!(
                "what this line and line {} say of the encoder of one table contradicts each other: neither is used",
                others.join(", ")
            );
            notes.add(NoteKind::Warning, file, Some(*line), text);
        }
        if let Some((line, lacks)) = unknown {
            let text = format!(
                "{} the encoder ran is not stated: a precision in a column's head is the language model's",
                lacks.join(" and ")
            );
            notes.add(NoteKind::Warning, file, Some(line), text);
        }
    }
}

/// Puts what a cell in small letters says of the encoder where it belongs.
pub(super) fn stated(text: &str, identity: &mut Identity) {
    if let Some(precision) = precision(text) {
        identity.insert(ENCODE_QUANT.to_owned(), precision);
    }
    if let Some(cores) = cores(text) {
        let cores = cores.of(identity.get("soc"));
        identity.insert(ENCODE_CORES.to_owned(), cores);
    }
}

/// Words of a line in small letters, with `core_0_1_2` as one.
fn words(text: &str) -> Vec<&str> {
    let parts = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    parts.filter(|part| !part.is_empty()).collect()
}

/// A data type such as `fp16`, `w8a8` or `int8`.
fn precision(text: &str) -> Option<String> {
    let mut found: BTreeSet<&str> = BTreeSet::new();
    for word in words(text) {
        let number = |start: &str| {
            let bits = word.strip_prefix(start);
            bits.is_some_and(|bits| ["4", "8", "16", "32"].contains(&bits))
        };
        let mixed = word.strip_prefix('w').and_then(|rest| {
            let (weights, rest) = rest.split_once('a')?;
            let activations = rest.split('_').next()?;
            Some(weights.parse::<u8>().is_ok() && activations.parse::<u8>().is_ok())
        });
        if mixed == Some(true) || ["fp", "bf", "int", "float", "i"].into_iter().any(number) {
            found.insert(word);
        }
    }
    match found.into_iter().collect::<Vec<_>>().as_slice() {
        [one] => Some((*one).to_owned()),
        _ => None,
    }
}

/// Cores of an NPU: `all NPU cores`, `3 cores`, `a single core`, `RKNN_NPU_CORE_0_1_2`.
fn cores(text: &str) -> Option<Cores> {
    let words = words(text);
    let is_core = |word: &&str| matches!(*word, "core" | "cores");
    for (at, word) in words.iter().enumerate() {
        if let Some((_, mask)) = word.split_once("npu_core_") {
            if mask == "all" {
                return Some(Cores::All);
            }
            let numbers: Result<Vec<u8>, _> = mask.split('_').map(str::parse).collect();
            return u32::try_from(numbers.ok()?.len()).ok().map(Cores::Count);
        }
        if !is_core(word) {
            continue;
        }
        // `core 0` names one, and `core 0 and 1` is not read.
        let named = words
            .get(at + 1)
            .is_some_and(|next| next.parse::<u8>().is_ok());
        for before in words[..at].iter().rev().take(3) {
            if *before == "all" {
                return Some(Cores::All);
            }
            let word = NUMBERS.iter().find(|(word, _)| word == before);
            let number = word.map(|(_, number)| *number);
            let number = number.or_else(|| before.parse().ok().filter(|n| (1..=64).contains(n)));
            if let Some(number) = number {
                return Some(Cores::Count(number));
            }
            if !["npu", "the", "of", "its", "available"].contains(before) {
                break;
            }
        }
        let alone = words.iter().filter(|word| is_core(word)).count() == 1
            && words
                .iter()
                .skip(at + 2)
                .all(|word| word.parse::<u8>().is_err());
        if named && alone && *word == "core" {
            return Some(Cores::Count(1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_and_precisions_are_read_from_prose() {
        for (text, found) in [
            ("runs with fp16, tested using all npu cores.", "fp16 all"),
            ("on one npu core in int8", "int8 1"),
            ("w8a8 on three of the cores", "w8a8 3"),
            ("a single core", "- 1"),
            ("both cores", "- 2"),
            ("2 npu cores", "- 2"),
            ("core_mask rknn_npu_core_0_1_2", "- 3"),
            ("rknn_npu_core_auto", "- -"),
            ("on npu core 0", "- 1"),
            ("on npu core 0 and 1", "- -"),
            ("multi-core", "- -"),
            ("fp16 or int8", "- -"),
            ("cores", "- -"),
            ("core", "- -"),
        ] {
            let precision = precision(text).unwrap_or_else(|| "-".to_owned());
            let cores = cores(text).map_or("-".to_owned(), |cores| cores.of(None));
            assert_eq!(format!("{precision} {cores}"), found, "{text}");
        }
    }
}
