//! A model in several files, as `llama-gguf-split` writes them: `NAME-00001-of-00003.gguf` and so on. The first has the
//! model's keys, each has a part of the tensors, and `split.no`, `split.count` and `split.tensors.count` tell which.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::super::note::{NoteKind, Notes};
use super::header::Header;

/// More shards than any model has.
const SHARDS_MAX: u64 = 99_999;

/// Which shard a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shard {
    /// From 0.
    number: u64,
    pub(super) count: u64,
    /// Path without the number, and whether the path has one.
    stem: String,
    numbered: bool,
    /// Tensors of all shards together.
    tensors: Option<u64>,
}

/// The stem, number (from 1) and count of a name such as `toy-00001-of-00003.gguf`.
fn by_name(file: &str) -> Option<(&str, u64, u64)> {
    let (rest, count) = file.strip_suffix(".gguf")?.rsplit_once("-of-")?;
    let (stem, number) = rest.rsplit_once('-')?;
    let digits = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(number) || !digits(count) {
        return None;
    }
    let (number, count) = (number.parse().ok()?, count.parse().ok()?);
    (1..=count)
        .contains(&number)
        .then_some((stem, number, count))
}

/// A file's stem without its number among shards.
pub(super) fn without_number(stem: &str) -> &str {
    let file = format!("{stem}.gguf");
    by_name(&file).map_or(stem, |(short, ..)| &stem[..short.len()])
}

impl Shard {
    /// Which shard a file is; `None` of a whole model.
    ///
    /// # Errors
    ///
    /// Where its keys, or its keys and its name, say two things.
    pub(super) fn of(header: &Header, file: &str) -> Result<Option<Self>, String> {
        let whole = |key: &str| -> Result<Option<u64>, String> {
            let number = header.number(key);
            let fine = number.filter(|number| *number >= 0.0 && number.fract() == 0.0);
            match (header.has(key), fine) {
                (false, _) => Ok(None),
                (true, Some(number)) => Ok(Some(number as u64)),
                (true, None) => Err(format!("`{key}` must be a whole number from 0")),
            }
        };
        let named = by_name(file);
        let (number, count) = match (whole("split.no")?, whole("split.count")?, named) {
            (_, Some(0 | 1), _) => return Ok(None),
            (Some(number), Some(count), _) => (number, count),
            (None, Some(count), Some((_, number, _))) => (number - 1, count),
            (None, Some(count), None) => {
                return Err(format!(
                    "`split.count` is {count} and `split.no` is missing: which of the shards it is, is unknown"
                ));
            }
            (_, None, Some((_, number, count))) if count > 1 => (number - 1, count),
            (_, None, _) => return Ok(None),
        };
        if number >= count || count > SHARDS_MAX {
            return Err(format!(
                "`split.no` is {number} and `split.count` {count}: shards are numbered from 0 below their count, of at most {SHARDS_MAX}"
            ));
        }
        if let Some((_, by_name, of)) = named
            && (by_name, of) != (number + 1, count)
        {
            return Err(format!(
                "its name says that it is shard {by_name} of {of}, and its keys (`split.no`, `split.count`) that it is shard {} of {count}",
                number + 1
            ));
        }
        Ok(Some(Self {
            number,
            count,
            stem: named.map_or("", |(stem, ..)| stem).to_owned(),
            numbered: named.is_some(),
            tensors: whole("split.tensors.count")?,
        }))
    }

    /// What to call one of its fellows.
    fn fellow(&self, number: u64) -> String {
        if self.numbered {
            let file = self.stem.rsplit(['/', '\\']).next().unwrap_or_default();
            format!("`{file}-{:05}-of-{:05}.gguf`", number + 1, self.count)
        } else {
            format!("shard {} of {}", number + 1, self.count)
        }
    }
}

/// A header and what else is known of the model that it begins.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) header: Header,
    /// File of its keys.
    pub(super) file: String,
    /// Files whose tensors are in its header.
    pub(super) files: usize,
    /// Why its weights are not known, where shards are missing or do not fit together.
    pub(super) lacks: Option<String>,
}

/// A shard with its header and its file.
type Part = (Shard, Header, String);

/// Puts shards together. What lacks its first shard is refused.
pub(super) fn together(headers: Vec<(Header, String)>, notes: &mut Notes) -> Vec<Model> {
    let mut models = Vec::new();
    let mut split: BTreeMap<_, Vec<Part>> = BTreeMap::new();
    for (header, file) in headers {
        match Shard::of(&header, &file) {
            Err(fault) => notes.refuse(&file, None, fault),
            Ok(None) => models.push(Model {
                header,
                file,
                files: 1,
                lacks: None,
            }),
            Ok(Some(shard)) => {
                let key = (shard.stem.clone(), shard.count, shard.tensors);
                split.entry(key).or_default().push((shard, header, file));
            }
        }
    }
    for (_, mut shards) in split {
        shards.sort_by_key(|(shard, ..)| shard.number);
        models.extend(one(shards, notes));
    }
    models
}

/// One model of its shards, in their order.
fn one(shards: Vec<Part>, notes: &mut Notes) -> Option<Model> {
    let mut twice = shards.iter().zip(shards.iter().skip(1));
    if let Some(((shard, _, file), (.., other))) =
        twice.find(|((a, ..), (b, ..))| a.number == b.number)
    {
        let text = format!(
            "is shard {} of {}, as `{file}` is: give one of them",
            shard.number + 1,
            shard.count
        );
        notes.refuse(other, None, text);
        return None;
    }
    let given = shards.len() as u64;
    let mut numbers = shards.iter().map(|(shard, ..)| shard.number);
    let mut next = numbers.next();
    let (first, ..) = shards.first()?;
    let count = first.count;
    let mut missing = Vec::new();
    for number in 0..count {
        if next == Some(number) {
            next = numbers.next();
        } else if missing.len() < 8 {
            missing.push(first.fellow(number));
        }
    }
    let beyond = count - given - missing.len() as u64;
    let mut list = missing.join(", ");
    if beyond > 0 {
        _ = write!(list, " and {beyond} more");
    }
    let alone = first.number > 0;
    let total = first.tensors;
    let held: Vec<String> = shards
        .iter()
        .map(|(shard, ..)| (shard.number + 1).to_string())
        .collect();
    let mut shards = shards.into_iter();
    let (_, mut header, file) = shards.next()?;
    if alone {
        let text = format!(
            "is shard {} of {count} and holds tensors alone; the first has the model's keys. Missing: {list}",
            held.join(", ")
        );
        notes.refuse(&file, None, text);
        return None;
    }
    for (_, other, file) in shards {
        if let Some(tensor) = header.join(other) {
            let text =
                format!("tensor `{tensor}` is in another shard too: its bytes would count twice");
            notes.refuse(&file, None, text);
            return None;
        }
    }
    let lacks = if given < count {
        Some(format!(
            "of {count} shards {given} {} given; missing: {list}",
            if given == 1 { "is" } else { "are" }
        ))
    } else {
        total.filter(|total| *total != header.tensors).map(|total| {
            format!(
                "its {count} shards have {} tensors and `split.tensors.count` is {total}: they are not of one model, or not whole",
                header.tensors
            )
        })
    };
    if lacks.is_none() {
        let text = format!("{count} shards, {} tensors together", header.tensors);
        notes.add(NoteKind::Read, &file, None, text);
    }
    Some(Model {
        header,
        file,
        files: given as usize,
        lacks,
    })
}
