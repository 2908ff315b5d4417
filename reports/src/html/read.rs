//! What a folder holds, checked before anything is shown.

use std::fmt;

use screen::visible;
use serde_json::Value;

use crate::detail::{self, Detail, Run};
use crate::interval::{self, Estimate};
use crate::json::SCHEMA_VERSION;

/// The results of one folder.
#[derive(Clone, Debug)]
pub struct Folder {
    /// Its name, as the user gave it.
    pub name: String,
    /// `summary.json` or `compare.json`.
    pub document: Value,
    /// `detail.json`, if there is one.
    pub detail: Option<Detail>,
}

/// Why a file of results cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is no JSON, or lacks a field.
    #[error("`{file}` is not what crossinfer writes: {cause}")]
    Bad {
        /// The file.
        file: String,
        /// What is wrong.
        cause: String,
    },
    /// It was written in another version of the format.
    #[error("`{file}` has schema version {found}, this program reads {expected}")]
    Version {
        /// The file.
        file: String,
        /// Its version.
        found: String,
        /// What is read.
        expected: u32,
    },
}

impl Folder {
    /// From the texts of `summary.json` or `compare.json`, and of `detail.json`, each with its path. Control
    /// characters of their texts are written out, as on a terminal.
    pub fn read(
        name: &str,
        (file, document): (&str, &str),
        detail: Option<(&str, &str)>,
    ) -> Result<Self, ReadError> {
        let document = parse(file, document)?;
        version(file, &document, SCHEMA_VERSION)?;
        if !["summary", "comparison"].contains(&document["kind"].as_str().unwrap_or_default()) {
            return Err(bad(file, "`kind` is neither `summary` nor `comparison`"));
        }
        let folder = Self {
            name: visible(name).into_owned(),
            document,
            detail: detail
                .map(|(file, text)| read_detail(file, text))
                .transpose()?,
        };
        if folder.runs().is_empty() {
            return Err(bad(file, "it has no `policies`"));
        }
        if let (Some(detail), Some((file, _))) = (&folder.detail, detail)
            && detail
                .runs
                .iter()
                .any(|run| !folder.runs().iter().any(|(name, _)| *name == run.policy))
        {
            return Err(bad(
                file,
                "its policies are not those of the results beside it",
            ));
        }
        Ok(folder)
    }

    /// The scenario's title.
    pub fn title(&self) -> &str {
        self.document["scenario"]["title"]
            .as_str()
            .unwrap_or("untitled")
    }

    /// What is not shown of it, why, and what would bring it, in a sentence; `None`: it is whole.
    pub fn lacks(&self) -> Option<String> {
        if self.detail.is_some() {
            return None;
        }
        let (file, command) = match self.document["kind"].as_str() {
            Some("comparison") => ("compare-detail.json", "compare"),
            _ => ("detail.json", "run"),
        };
        let scenario = self.document["scenario"]["file"].as_str();
        Some(format!(
            "`{}` has no {file}, so that no request and no stage of it is shown (its timeline, where its time went, its \
             distributions, its courses over time and its decision map are left out), nor its command and the files \
             that went in; `crossinfer {command} {} --out DIR` writes them, with the options that it had.",
            self.name,
            scenario.unwrap_or("SCENARIO"),
        ))
    }

    /// Policies with their measured fields.
    pub fn runs(&self) -> Vec<(&str, &Value)> {
        match self.document["policies"].as_array() {
            Some(list) => list
                .iter()
                .filter_map(|run| Some((run["policy"].as_str()?, run)))
                .collect(),
            None => self.document["policy"]
                .as_str()
                .map(|policy| (policy, &self.document))
                .into_iter()
                .collect(),
        }
    }
}

fn bad(file: &str, cause: impl fmt::Display) -> ReadError {
    ReadError::Bad {
        file: file.to_owned(),
        cause: cause.to_string(),
    }
}

fn parse(file: &str, text: &str) -> Result<Value, ReadError> {
    let value = serde_json::from_str(text).map_err(|error| bad(file, error))?;
    Ok(all_visible(value))
}

/// A value with the control characters of all its texts written out.
fn all_visible(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(visible(&text).into_owned()),
        Value::Array(list) => list.into_iter().map(all_visible).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(key, value)| (visible(&key).into_owned(), all_visible(value)))
            .collect(),
        other => other,
    }
}

fn version(file: &str, document: &Value, expected: u32) -> Result<(), ReadError> {
    let found = &document["schema_version"];
    if *found == expected {
        return Ok(());
    }
    Err(ReadError::Version {
        file: file.to_owned(),
        found: found.to_string(),
        expected,
    })
}

fn read_detail(file: &str, text: &str) -> Result<Detail, ReadError> {
    let value = parse(file, text)?;
    version(file, &value, detail::SCHEMA_VERSION)?;
    let detail: Detail = serde_json::from_value(value).map_err(|error| bad(file, error))?;
    detail.check().map_err(|cause| bad(file, cause))?;
    Ok(detail)
}

/// One configuration of one folder: a row of every table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'f> {
    pub(super) folder: usize,
    /// The first folder of the same scenario: only what shares it may be ranked.
    pub(super) like: usize,
    pub(super) of_many: bool,
    pub(super) name: &'f str,
    pub(super) policy: &'f str,
    /// How many there are of it.
    pub(super) replications: usize,
    /// Its measured fields.
    pub(super) fields: &'f Value,
    pub(super) detail: Option<(&'f Detail, &'f Run)>,
}

/// Names of folders as they are shown: their last parts where these tell them apart.
fn short_names(folders: &[Folder]) -> Vec<&str> {
    let last = |folder: &'_ Folder| -> usize {
        let name = folder.name.trim_end_matches(['/', '\\']);
        name.rfind(['/', '\\']).map_or(0, |at| at + 1)
    };
    let ends: Vec<&str> = folders
        .iter()
        .map(|folder| folder.name[last(folder)..].trim_end_matches(['/', '\\']))
        .collect();
    let full = |index: usize| folders[index].name.as_str();
    let clear = |index: usize| {
        let alike = ends.iter().enumerate();
        let mut alike =
            alike.filter(|(other, end)| **end == ends[index] && full(*other) != full(index));
        !ends[index].is_empty() && alike.next().is_none()
    };
    (0..folders.len())
        .map(|index| {
            if clear(index) {
                ends[index]
            } else {
                full(index)
            }
        })
        .collect()
}

/// The first folder whose results are of the same scenario: its title, SoC, model and streams.
fn like(folders: &[Folder], index: usize) -> usize {
    let scenario = |folder: &Folder| {
        let d = &folder.document;
        [
            &d["scenario"]["title"],
            &d["soc"],
            &d["model"],
            &d["streams"],
        ]
        .map(Clone::clone)
    };
    let own = folders.get(index).map(scenario);
    let mut all = folders.iter();
    all.position(|other| Some(scenario(other)) == own)
        .unwrap_or(index)
}

/// Whether there are results of more than one scenario.
pub(super) fn mixed(entries: &[Entry<'_>]) -> bool {
    entries.windows(2).any(|two| two[0].like != two[1].like)
}

/// All configurations, in order.
pub(super) fn entries(folders: &[Folder]) -> Vec<Entry<'_>> {
    let names = short_names(folders);
    let mut list = Vec::new();
    for (index, folder) in folders.iter().enumerate() {
        for (policy, fields) in folder.runs() {
            let run = folder.detail.as_ref().and_then(|detail| {
                let run = detail.runs.iter().find(|run| run.policy == policy)?;
                Some((detail, run))
            });
            list.push(Entry {
                folder: index,
                like: like(folders, index),
                of_many: folders.len() > 1,
                name: names[index],
                policy,
                replications: replications(&folder.document),
                fields,
                detail: run,
            });
        }
    }
    list
}

impl Entry<'_> {
    /// Its name among all of the report.
    pub(super) fn label(&self) -> String {
        if self.of_many {
            format!("{}: {}", self.name, self.policy)
        } else {
            self.policy.to_owned()
        }
    }

    /// Whether there are steady latencies.
    pub(super) fn steady(&self) -> bool {
        self.fields["steady"].as_bool().unwrap_or(true)
    }

    /// What stands for a latency where there is no steady one, as in the tables of text.
    pub(super) fn unsteady(&self) -> Option<String> {
        unsteady(self.fields, self.replications)
    }

    /// A number over replications, by its path: `ttft_s.mean`.
    pub(super) fn number(&self, path: &str) -> Option<Estimate> {
        number(self.fields, path)
    }
}

/// Replications of a document.
pub(super) fn replications(document: &Value) -> usize {
    document["replications"].as_u64().unwrap_or(0) as usize
}

/// What stands for a latency of a policy, or of one whose beliefs are wrong, where there is no steady one: `grows`, or
/// `4/6 grow` of `all` replications.
pub(super) fn unsteady(fields: &Value, all: usize) -> Option<String> {
    if fields["steady"] != false {
        return None;
    }
    let growing = fields["load"]["saturated_replications"].as_u64();
    let growing = growing.or_else(|| fields["saturated_replications"].as_u64());
    let said = growing.and_then(|growing| interval::unsteady(growing as usize, all));
    Some(said.unwrap_or_else(|| interval::GROWS.to_owned()))
}

/// A number over replications of a document.
pub(super) fn number(fields: &Value, path: &str) -> Option<Estimate> {
    let value = path
        .split('.')
        .try_fold(fields, |value, key| value.get(key))?;
    Some(Estimate {
        mean: value["value"].as_f64()?,
        half_width: value["ci95"].as_f64(),
        n: value["n"].as_u64().unwrap_or(0) as usize,
    })
}
