//! The trace: every input and effect with its time, one JSON object a line.
//!
//! It holds every [`Input`], so it is the complete cause of the effects: [`replay`] feeds the inputs
//! to a fresh scheduler and finds the first effect that differs. A live run that replays without
//! difference was scheduled by the same scheduler that is simulated.
//!
//! Line 1 is a header, `{"trace":"crossinfer","version":2,…}`; the rest are `{"t":ns,"in":…}` and
//! `{"t":ns,"do":…}` in order.

use std::fmt::Write as _;
use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use crate::diag::Faults;
use crate::dispatch::{Dispatcher, Effect, Effects, Input};
use crate::drive::Sink;
use crate::spec::scenario::Policy;
use crate::time::Instant;
use crate::world::{LaneId, StreamId, World};

/// Version of the trace format.
pub const VERSION: u32 = 2;

/// First line of a trace: names for the ids in the rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Always `crossinfer`.
    pub trace: String,
    /// [`VERSION`].
    pub version: u32,
    /// The scenario's title.
    pub title: String,
    /// The dispatch policy in short text, with the lanes that `fixed` names.
    pub policy: String,
    /// Root seed.
    pub seed: u64,
    /// Replication.
    pub run: u32,
    /// Engine names by id.
    pub engines: Vec<String>,
    /// Lane names by id, with their engine's id.
    pub lanes: Vec<(String, u8)>,
    /// Stage names by id.
    pub stages: Vec<String>,
    /// Stream names by id.
    pub streams: Vec<String>,
}

impl Header {
    /// The header of a world's replication.
    pub fn of(world: &World, run: u32) -> Self {
        Self {
            trace: "crossinfer".into(),
            version: VERSION,
            title: world.title.clone(),
            policy: policy(&world.policy),
            seed: world.seed,
            run,
            engines: world
                .engines
                .iter()
                .map(|engine| engine.name.clone())
                .collect(),
            lanes: world
                .lanes
                .iter()
                .map(|lane| (lane.name.clone(), lane.engine.0))
                .collect(),
            stages: world
                .stages
                .iter()
                .map(|stage| stage.name.clone())
                .collect(),
            streams: world
                .streams
                .iter()
                .map(|stream| stream.name.clone())
                .collect(),
        }
    }
}

fn policy(policy: &Policy) -> String {
    let mut text = policy.to_string();
    if let Policy::Fixed { lanes } = policy {
        for (stream, lane) in lanes {
            _ = write!(text, ", {stream}: {lane}");
        }
    }
    text
}

/// A line of a trace after the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// Something happened.
    #[serde(rename = "in")]
    Input(Input),
    /// The scheduler asked for something.
    #[serde(rename = "do")]
    Effect(Effect),
}

#[derive(Serialize, Deserialize)]
struct Line {
    t: Instant,
    #[serde(flatten)]
    record: Record,
}

/// Writes a trace as it happens. The first error is kept and ends the writing.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    error: Option<io::Error>,
}

impl<W: Write> Writer<W> {
    /// Writes the header.
    pub fn new(mut out: W, header: &Header) -> io::Result<Self> {
        serde_json::to_writer(&mut out, header)?;
        out.write_all(b"\n")?;
        Ok(Self { out, error: None })
    }

    /// Flushes, and says whether everything was written.
    pub fn finish(mut self) -> io::Result<W> {
        if let Some(error) = self.error {
            return Err(error);
        }
        self.out.flush()?;
        Ok(self.out)
    }

    fn line(&mut self, t: Instant, record: Record) {
        if self.error.is_some() {
            return;
        }
        let written = serde_json::to_writer(&mut self.out, &Line { t, record })
            .map_err(io::Error::from)
            .and_then(|()| self.out.write_all(b"\n"));
        self.error = written.err();
    }
}

impl<W: Write> Sink for Writer<W> {
    fn input(&mut self, now: Instant, input: &Input) {
        self.line(now, Record::Input(*input));
    }

    fn effect(&mut self, now: Instant, effect: &Effect) {
        self.line(now, Record::Effect(*effect));
    }
}

/// Keeps a trace in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorder {
    /// The records, in order.
    pub records: Vec<(Instant, Record)>,
}

impl Sink for Recorder {
    fn input(&mut self, now: Instant, input: &Input) {
        self.records.push((now, Record::Input(*input)));
    }

    fn effect(&mut self, now: Instant, effect: &Effect) {
        self.records.push((now, Record::Effect(*effect)));
    }
}

/// Why a text is not a trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The text is empty or its first line is not a trace's.
    #[error("line 1 is not a crossinfer trace header: {0}")]
    Header(String),
    /// The trace was written in another version of the format.
    #[error("the trace has format version {0}, this program reads {VERSION}")]
    Version(u32),
    /// A line is not a record.
    #[error("line {line} is not a trace record: {cause}")]
    Line {
        /// Line number, from 1.
        line: usize,
        /// What is wrong with it.
        cause: String,
    },
}

#[derive(Deserialize)]
struct Format {
    trace: String,
    version: u32,
}

/// Reads a trace.
pub fn read(text: &str) -> Result<(Header, Vec<(Instant, Record)>), ReadError> {
    let mut lines = text.lines().enumerate();
    let (_, first) = lines
        .next()
        .ok_or_else(|| ReadError::Header("the text is empty".into()))?;
    let not_header = |error: serde_json::Error| ReadError::Header(error.to_string());
    // First which format it is: another one's header has other fields.
    let Format { trace, version } = serde_json::from_str(first).map_err(not_header)?;
    if trace != "crossinfer" {
        return Err(ReadError::Header(format!(
            "`trace` is `{trace}`, expected `crossinfer`"
        )));
    }
    if version != VERSION {
        return Err(ReadError::Version(version));
    }
    let header: Header = serde_json::from_str(first).map_err(not_header)?;
    let mut records = Vec::new();
    for (index, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        let Line { t, record } = serde_json::from_str(line).map_err(|error| ReadError::Line {
            line: index + 1,
            cause: error.to_string(),
        })?;
        records.push((t, record));
    }
    Ok((header, records))
}

/// The first place where a replay differs from its trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Record number, from 0.
    pub record: usize,
    /// When.
    pub at: Instant,
    /// What the trace has; `None`: nothing more at that point.
    pub recorded: Option<Effect>,
    /// What the scheduler asked for; `None`: nothing more.
    pub replayed: Option<Effect>,
}

impl Difference {
    /// The difference in words, with the names of the trace's header.
    pub fn tell(&self, header: &Header) -> String {
        let told = |effect: &Option<Effect>| match effect {
            Some(effect) => header.tell(effect),
            None => "nothing more".to_owned(),
        };
        let (recorded, replayed) = (told(&self.recorded), told(&self.replayed));
        let mut text = format!(
            "record {} at {}: the trace has {recorded}, the scheduler asks for {replayed}",
            self.record, self.at
        );
        if recorded == replayed {
            _ = write!(text, " ({:?} against {:?})", self.recorded, self.replayed);
        }
        text
    }
}

impl Header {
    /// What a scheduler asks for, with names.
    fn tell(&self, effect: &Effect) -> String {
        fn name(names: &[String], id: usize) -> &str {
            names.get(id).map_or("an unknown one", String::as_str)
        }
        let lane = |id: LaneId| {
            let lane = self.lanes.get(id.0 as usize);
            lane.map_or("an unknown lane", |(name, _)| name.as_str())
        };
        let stream = |id: StreamId| name(&self.streams, id.0 as usize);
        match effect {
            Effect::Start { lane: on, task } => format!(
                "start of `{}` (size {}, context {}, version {}) of stream `{}` on lane `{}`",
                name(&self.stages, task.stage.0 as usize),
                task.size,
                task.context,
                task.version,
                stream(task.stream),
                lane(*on)
            ),
            Effect::Bind {
                stream: of,
                index,
                version,
            } => format!(
                "query {index} of `{}` bound to version {version}",
                stream(*of)
            ),
            Effect::Publish {
                stream: of,
                version,
                tokens,
                ..
            } => format!(
                "version {version} of `{}` with {tokens} tokens",
                stream(*of)
            ),
            Effect::Evict {
                engine,
                stream: of,
                tokens,
            } => format!(
                "{tokens} tokens of `{}` evicted from `{}`",
                stream(*of),
                name(&self.engines, engine.0 as usize)
            ),
            Effect::Abandon { stream: of, after } => {
                format!("no version of `{}` after {after}", stream(*of))
            }
            Effect::Complete(done) => format!(
                "the answer to query {} of `{}` on lane `{}`",
                done.index,
                stream(done.stream),
                lane(done.lane)
            ),
            Effect::Refuse {
                stream: of,
                index,
                query,
                reason,
                ..
            } => format!(
                "{} {index} of `{}` refused (`{}`)",
                if *query { "query" } else { "frame" },
                stream(*of),
                reason.name()
            ),
        }
    }
}

/// Feeds a trace's inputs to a fresh scheduler and compares every effect. `None`: they are identical.
///
/// # Errors
///
/// As [`drive`](crate::drive::drive).
pub fn replay(
    dispatcher: &mut Dispatcher<'_>,
    records: &[(Instant, Record)],
) -> Result<Option<Difference>, Faults> {
    let mut effects = Effects::new();
    let mut index = 0;
    while index < records.len() {
        let (at, record) = records[index];
        let Record::Input(input) = record else {
            let Record::Effect(effect) = record else {
                return Ok(None);
            };
            return Ok(Some(Difference {
                record: index,
                at,
                recorded: Some(effect),
                replayed: None,
            }));
        };
        index += 1;
        dispatcher.handle(at, input, &mut effects);
        if let Some(faults) = dispatcher.take_fault() {
            return Err(faults);
        }
        for effect in effects.drain() {
            let recorded = match records.get(index) {
                Some(&(_, Record::Effect(effect))) => Some(effect),
                _ => None,
            };
            if recorded != Some(effect) {
                return Ok(Some(Difference {
                    record: index,
                    at,
                    recorded,
                    replayed: Some(effect),
                }));
            }
            index += 1;
        }
    }
    Ok(None)
}
