//! `detail.json`: what plots and the HTML report draw of the first replication. `docs/results.md` says
//! what each field means.
//!
//! Lists are columns of equal length. They are bounded: past their limit, stages are left out from some
//! time on, requests are thinned evenly, and [`Series`] still covers the whole run.

mod bins;
mod bounds;
mod recorder;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use sim::spec::model::StageKind;
use sim::world::World;

pub use bins::Bins;
pub use recorder::Recorder;

/// Version of the fields; it rises when one is renamed, removed or changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// The first replication of one or more policies, in detail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Detail {
    /// Always `detail`.
    pub kind: String,
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// How to get the same again.
    pub reproduce: Reproduce,
    /// The scenario's notes.
    pub notes: Vec<String>,
    /// Engine names.
    pub engines: Vec<String>,
    /// Lane names.
    pub lanes: Vec<String>,
    /// Engine of each lane.
    pub lane_engines: Vec<usize>,
    /// Stage names.
    pub stages: Vec<String>,
    /// What each stage is.
    pub stage_kinds: Vec<StageKind>,
    /// Stream names.
    pub streams: Vec<String>,
    /// A run of each policy.
    pub runs: Vec<Run>,
}

/// How to get the same again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reproduce {
    /// The command, quoted for a shell.
    pub command: String,
    /// Version of the program.
    pub version: String,
    /// The files that went in.
    pub inputs: Vec<InputFile>,
}

/// A file that went in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InputFile {
    /// Name.
    pub name: String,
    /// Length.
    pub bytes: usize,
    /// SHA-256, hexadecimal.
    pub sha256: String,
}

impl Reproduce {
    /// From the words of a command line, and the name and text of each file that it read.
    pub fn new(command: &[String], inputs: &[(String, String)]) -> Self {
        let words: Vec<String> = command.iter().map(|word| quoted(word)).collect();
        Self {
            command: words.join(" "),
            version: env!("CARGO_PKG_VERSION").into(),
            inputs: inputs
                .iter()
                .map(|(name, text)| InputFile {
                    name: name.clone(),
                    bytes: text.len(),
                    sha256: hex(&Sha256::digest(text.as_bytes())),
                })
                .collect(),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        _ = write!(text, "{byte:02x}");
        text
    })
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,+=@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Policy, as the command line takes it.
    pub policy: String,
    /// Time of the last event, ns.
    pub end_ns: u64,
    /// End of the warm-up, ns.
    pub warm_up_ns: u64,
    /// Stages that ran.
    pub slices: Slices,
    /// Versions that were published.
    pub versions: Versions,
    /// Requests that ended.
    pub requests: Requests,
    /// Means of the four parts of a completion time over all answers after the warm-up, s.
    pub parts_s: Option<Parts>,
    /// Curves over the whole run.
    pub series: Series,
    /// Shares of each engine from the end of the warm-up to the end of the run.
    pub engines: Vec<EngineShare>,
    /// Distribution of the time to first token, s: the 1/200, 2/200, … quantiles.
    pub ttft_s: Vec<f64>,
    /// The same of the completion time.
    pub completion_s: Vec<f64>,
    /// Which lane the policy picks; absent where no stream has frames and queries.
    #[serde(default)]
    pub choices: Option<Choices>,
}

/// Which lane a policy picks for a query of a stream, by the context that it reads and by how many queries
/// came just before it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Choices {
    /// The stream.
    pub stream: u16,
    /// Contexts, tokens: the columns.
    pub context: Vec<u32>,
    /// Queries that came just before, none of them answered yet: the rows.
    pub backlog: Vec<u32>,
    /// Lane by row and column; `null`: it lets the query wait.
    pub lane: Vec<Vec<Option<u8>>>,
}

/// Stages that ran, in the order in which they ended. Times are in ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Slices {
    /// How many ran; more than there are rows if some were left out.
    pub total: u64,
    /// Lane.
    pub lane: Vec<u8>,
    /// Stage.
    pub stage: Vec<u8>,
    /// Stream.
    pub stream: Vec<u16>,
    /// Start.
    pub start: Vec<u64>,
    /// Length.
    pub length: Vec<u64>,
    /// Length alone, as the executor knows it; `null` where it does not.
    pub alone: Vec<Option<u64>>,
    /// Number of the query, within its stream; `null` for a stage of a frame.
    pub query: Vec<Option<u32>>,
    /// Version that it reads or makes.
    pub version: Vec<u32>,
    /// Size: tokens, or frames of `encode`; of a decode the tokens that it generated or, where it failed, the most
    /// that it might have; 1 of custom stages.
    pub size: Vec<u32>,
    /// Tokens of context before it.
    pub context: Vec<u32>,
    /// Rows that failed.
    pub failed: Vec<usize>,
}

impl Slices {
    /// Rows.
    pub fn len(&self) -> usize {
        self.lane.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.lane.is_empty()
    }

    /// Whether stages were left out.
    pub fn cut(&self) -> bool {
        self.total > self.len() as u64
    }
}

/// Versions that were published, as far as there are [`Slices`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Versions {
    /// Stream.
    pub stream: Vec<u16>,
    /// Version.
    pub version: Vec<u32>,
    /// When, ns.
    pub at: Vec<u64>,
    /// Tokens of the context.
    pub tokens: Vec<u32>,
    /// Lane of the ingest that completed it; `null` if no stage did.
    pub lane: Vec<Option<u8>>,
}

/// Requests that ended, in that order. Times are in ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Requests {
    /// How many ended; every `stride`th of them has a row.
    pub total: u64,
    /// See `total`.
    pub stride: u64,
    /// Stream.
    pub stream: Vec<u16>,
    /// Number within its stream.
    pub index: Vec<u32>,
    /// Arrival.
    pub arrived: Vec<u64>,
    /// Completion or refusal.
    pub ended: Vec<u64>,
    /// Time to first token; `null` where refused, as are all below.
    pub ttft: Vec<Option<u64>>,
    /// Lane that answered.
    pub lane: Vec<Option<u8>>,
    /// Version that it read.
    pub version: Vec<Option<u32>>,
    /// How that became usable: `reuse`, `import`, `reconstruct`, `import_and_reconstruct`.
    pub preparation: Vec<Option<String>>,
    /// Prompt tokens.
    pub prompt: Vec<Option<u32>>,
    /// Answer tokens.
    pub output: Vec<Option<u32>>,
    /// Frames behind.
    pub frames_behind: Vec<Option<u32>>,
    /// Time in which none of its stages ran.
    pub waiting: Vec<Option<u64>>,
    /// Of it, until the version that it read was published.
    pub waiting_for_version: Vec<Option<u64>>,
    /// Time alone of its imports and reconstructions, what these encode again included.
    pub preparing: Vec<Option<u64>>,
    /// What its stages took more than alone, preparation included; below 0 where they took less.
    pub slowdown: Vec<Option<i64>>,
    /// Time alone of its other stages.
    pub service: Vec<Option<u64>>,
    /// Why it was refused.
    pub refused: Vec<Option<String>>,
}

impl Requests {
    /// Rows.
    pub fn len(&self) -> usize {
        self.stream.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.stream.is_empty()
    }
}

/// Where the time of an answer went, s; the parts add up to the completion time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Parts {
    /// None of its stages ran.
    pub waiting: f64,
    /// Imports and reconstructions, what these encode again included, alone.
    pub preparing: f64,
    /// What its stages took more than alone.
    pub slowdown: f64,
    /// Its other stages, alone.
    pub service: f64,
}

/// Curves over the whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// By lane, its busy share by class of stage: ingest, query, transfer.
    pub busy: Vec<[Bins; 3]>,
    /// Queries that wait for their first stage.
    pub waiting: Bins,
    /// Queries whose first stage has started.
    pub answering: Bins,
    /// KV bytes of the contexts that engines keep, without what running answers have reserved.
    pub context_bytes: Bins,
    /// DRAM bytes moved per second, each stage's spread evenly over its time.
    pub bytes_per_s: Bins,
    /// Power, W, a stage's energy spread evenly over its time; absent where the profile has no power.
    pub watts: Option<Bins>,
    /// Temperature, °C; absent where the profile has no heat, or the run was not simulated.
    #[serde(default)]
    pub celsius: Option<Bins>,
}

/// Shares of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineShare {
    /// Share of the run in which any of its lanes ran.
    pub active: f64,
    /// Share in which another engine ran too.
    pub corun: f64,
}

/// What a stage is for: the rows of a timeline tell these apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Makes a context.
    Ingest,
    /// Answers.
    Query,
    /// Makes a context usable on an engine.
    Transfer,
}

impl Class {
    /// Every class, in order.
    pub const ALL: [Self; 3] = [Self::Ingest, Self::Query, Self::Transfer];

    /// Of a kind of stage; `query`: whether it serves a query.
    pub fn of(kind: StageKind, query: bool) -> Self {
        match kind {
            StageKind::Import | StageKind::Export | StageKind::Reconstruct => Self::Transfer,
            StageKind::QueryPrefill | StageKind::Decode => Self::Query,
            // No query has these of its own: a context is rebuilt for it.
            StageKind::Encode | StageKind::Project | StageKind::Ingest if query => Self::Transfer,
            StageKind::Custom if query => Self::Query,
            StageKind::Encode | StageKind::Project | StageKind::Ingest | StageKind::Custom => {
                Self::Ingest
            }
        }
    }

    /// Name, as shown.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Query => "query",
            Self::Transfer => "transfer",
        }
    }
}

impl Detail {
    /// Names from a world, without any run.
    pub fn of(world: &World, reproduce: Reproduce) -> Self {
        Self {
            kind: "detail".into(),
            schema_version: SCHEMA_VERSION,
            reproduce,
            notes: world.notes.clone(),
            engines: world.engines.iter().map(|e| e.name.clone()).collect(),
            lanes: world.lanes.iter().map(|lane| lane.name.clone()).collect(),
            lane_engines: world
                .lanes
                .iter()
                .map(|lane| lane.engine.0.into())
                .collect(),
            stages: world
                .stages
                .iter()
                .map(|stage| stage.name.clone())
                .collect(),
            stage_kinds: world.stages.iter().map(|stage| stage.kind).collect(),
            streams: world.streams.iter().map(|s| s.name.clone()).collect(),
            runs: Vec::new(),
        }
    }

    /// Class of a slice.
    pub fn class(&self, slices: &Slices, row: usize) -> Class {
        Class::of(
            self.stage_kinds[usize::from(slices.stage[row])],
            slices.query[row].is_some(),
        )
    }
}
