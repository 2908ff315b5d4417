//! A sink that checks the numbered invariants on any trace, simulated, live or replayed.
//!
//! It keeps its own books from the inputs alone and compares: versions and digests with the serial
//! order of each stream, the ends of requests with their arrivals, lanes with what was started on them.
//!
//! The serial order is that in which items joined the context: frames by arrival, and answers that join by question,
//! each as soon as no earlier one is open. Frames are still ingested while an answer is generated, so where it comes
//! among them is the run's, and the serial reference replays that.

use std::collections::BTreeMap;

use crate::dispatch::{Effect, Input, answer_digest, frame_digest, joined_digest, stream_digest};
use crate::drive::Sink;
use crate::spec::model::StageKind;
use crate::spec::scenario::Binding;
use crate::time::Instant;
use crate::world::{StreamId, World};

/// Most violations that are kept.
const KEEP: usize = 20;

/// The books of a run.
#[derive(Debug)]
pub struct Check<'w> {
    world: &'w World,
    last: Instant,
    running: Vec<Option<Instant>>,
    busy: Vec<u64>,
    bytes: u64,
    streams: Vec<Books>,
    queries: BTreeMap<(u16, u32), QueryBooks>,
    violations: Vec<String>,
    closed: bool,
}

#[derive(Debug, Default)]
struct Books {
    /// Digest of each version, by the serial order of what was accepted.
    digests: Vec<u64>,
    /// Index of the frame that makes each version after 0; `None`: an answer.
    items: Vec<Option<u32>>,
    published: u32,
    /// Questions whose answers may join, by number.
    turns: BTreeMap<u32, Question>,
}

#[derive(Clone, Copy, Debug)]
enum Question {
    Open,
    /// Its answer joins with so many tokens.
    Joins(u32),
    Ended,
}

impl Books {
    /// Answers whose turn has come become items.
    fn join_in_turn(&mut self) {
        while let Some(first) = self.turns.first_entry()
            && !matches!(first.get(), Question::Open)
        {
            let (index, question) = first.remove_entry();
            if let Question::Joins(tokens) = question {
                let digest = self.digests[self.digests.len() - 1];
                self.digests.push(joined_digest(digest, index, tokens));
                self.items.push(None);
            }
        }
    }

    fn end_question(&mut self, index: u32, joins: Option<u32>) {
        if let Some(question) = self.turns.get_mut(&index) {
            *question = joins.map_or(Question::Ended, Question::Joins);
        }
    }
}

#[derive(Debug)]
struct QueryBooks {
    ticket: u32,
    prompt: u32,
    accepted_before: u32,
    published_before: u32,
    bound: Option<u32>,
    started: bool,
    ended: bool,
}

impl<'w> Check<'w> {
    /// Books for a run of a world.
    pub fn new(world: &'w World) -> Self {
        let streams = world
            .streams
            .iter()
            .map(|stream| Books {
                digests: vec![stream_digest(&stream.name)],
                items: Vec::new(),
                published: 0,
                turns: BTreeMap::new(),
            })
            .collect();
        Self {
            world,
            last: Instant::ZERO,
            running: vec![None; world.lanes.len()],
            busy: vec![0; world.lanes.len()],
            bytes: 0,
            streams,
            queries: BTreeMap::new(),
            violations: Vec::new(),
            closed: false,
        }
    }

    /// What was violated, after the run: empty if nothing.
    pub fn violations(mut self) -> Vec<String> {
        let unended: Vec<_> = self
            .queries
            .iter()
            .filter(|(_, query)| !query.ended)
            .map(|(&key, _)| key)
            .collect();
        for (stream, index) in unended {
            self.violate(format!(
                "INV-1: query {index} of stream {stream} never ended"
            ));
        }
        if !self.closed {
            self.violate("INV-1: the run was not closed".into());
        }
        let end = self.last.0;
        for (lane, busy) in self.busy.clone().into_iter().enumerate() {
            if busy > end {
                self.violate(format!(
                    "INV-3: lane {lane} was busy for {busy} ns of {end}"
                ));
            }
        }
        // Stages may be played faster than their mean by noise, so only undisturbed runs are bounded.
        let seconds = self.last.as_secs_f64();
        if !self.world.noise
            && !self.world.contention_off
            && self.bytes as f64 > self.world.memory.bandwidth * seconds * (1.0 + 1e-6) + 1.0
        {
            self.violate(format!("INV-4: {} bytes moved in {seconds} s", self.bytes));
        }
        self.violations
    }

    fn violate(&mut self, text: String) {
        if self.violations.len() < KEEP {
            self.violations.push(text);
        }
    }

    fn books(&mut self, stream: StreamId) -> &mut Books {
        &mut self.streams[stream.0 as usize]
    }

    fn stop(&mut self, now: Instant, lane: usize) {
        match self.running[lane].take() {
            Some(since) => self.busy[lane] += now.saturating_since(since).0,
            None => self.violate(format!(
                "INV-3: lane {lane} ended a task that it did not run, at {now}"
            )),
        }
    }

    fn bound(&mut self, stream: StreamId, index: u32, version: u32) {
        let published = self.books(stream).published;
        let binding = self.world.binding;
        let Some(query) = self.queries.get_mut(&(stream.0, index)) else {
            return self.violate(format!(
                "query {index} of stream {} was bound before it came",
                stream.0
            ));
        };
        let expected = match binding {
            Binding::Arrived => query.accepted_before,
            Binding::Published => query.published_before,
            Binding::AtDispatch => published,
        };
        let before = query.bound.replace(version);
        if before.is_some() || version != expected {
            self.violate(format!(
                "INV-5: query {index} of stream {} bound to {version}, then {before:?}; expected {expected}",
                stream.0
            ));
        }
    }

    fn refused(&mut self, stream: StreamId, index: u32, query: bool) {
        if query {
            self.books(stream).end_question(index, None);
            self.ends(stream, index);
            return;
        }
        // A refused frame makes no version; neither does what was accepted after it and never published.
        let books = self.books(stream);
        if let Some(at) = books.items.iter().rposition(|&item| item == Some(index)) {
            books.items.truncate(at);
            books.digests.truncate(at + 1);
        }
    }

    fn ends(&mut self, stream: StreamId, index: u32) {
        let ended = self
            .queries
            .get_mut(&(stream.0, index))
            .map(|query| std::mem::replace(&mut query.ended, true));
        if ended != Some(false) {
            self.violate(format!(
                "INV-1: query {index} of stream {} ended twice, or never came",
                stream.0
            ));
        }
    }
}

impl Sink for Check<'_> {
    fn input(&mut self, now: Instant, input: &Input) {
        if now < self.last {
            self.violate(format!("INV-2: time fell from {} to {now}", self.last));
        }
        self.last = now;
        for books in &mut self.streams {
            books.join_in_turn();
        }
        match *input {
            Input::Frame {
                stream,
                index,
                tokens,
                ..
            } => {
                let books = self.books(stream);
                let digest = books.digests[books.digests.len() - 1];
                books.digests.push(frame_digest(digest, index, tokens));
                books.items.push(Some(index));
            }
            Input::Query {
                ticket,
                stream,
                index,
                prompt,
                ..
            } => {
                let join = self.world.answers_join_history;
                let books = self.books(stream);
                if join {
                    books.turns.insert(index, Question::Open);
                }
                let (accepted, published) = (books.items.len() as u32, books.published);
                self.queries.insert(
                    (stream.0, index),
                    QueryBooks {
                        ticket,
                        prompt,
                        accepted_before: accepted,
                        published_before: published,
                        bound: None,
                        started: false,
                        ended: false,
                    },
                );
            }
            Input::Finish { lane, bytes, .. } => {
                self.bytes = self.bytes.saturating_add(bytes);
                self.stop(now, lane.0 as usize);
            }
            Input::Fail { lane } => {
                self.running[lane.0 as usize] = None;
            }
            Input::Throttle { level } => {
                let steps = self.world.heat.as_ref().map_or(0, |heat| heat.steps.len());
                if usize::from(level) > steps {
                    self.violate(format!("throttle step {level} of {steps} at {now}"));
                }
            }
            Input::Close => self.closed = true,
        }
    }

    fn effect(&mut self, now: Instant, effect: &Effect) {
        match *effect {
            Effect::Start { lane, task } => {
                if self.running[lane.0 as usize].replace(now).is_some() {
                    self.violate(format!(
                        "INV-3: lane {} was given a second task at {now}",
                        lane.0
                    ));
                }
                let kind = self.world.stages[task.stage.0 as usize].kind;
                if kind == StageKind::QueryPrefill {
                    let published = self.books(task.stream).published;
                    if task.version > published {
                        self.violate(format!(
                            "INV-5: version {} of stream {} was read before it was published",
                            task.version, task.stream.0
                        ));
                    }
                    for query in self.queries.values_mut().filter(|query| !query.ended) {
                        if query.ticket == task.ticket {
                            query.started = true;
                        }
                    }
                }
            }
            Effect::Bind {
                stream,
                index,
                version,
            } => self.bound(stream, index, version),
            Effect::Publish {
                stream,
                version,
                digest,
                ticket,
                ..
            } => {
                let books = self.books(stream);
                if books.items.len() < version as usize {
                    books.join_in_turn();
                }
                books.published += 1;
                let expected = books.digests.get(version as usize).copied();
                let in_order = books.published == version;
                let is_frame = books.items.get(version as usize - 1).map(Option::is_some);
                if !in_order || expected != Some(digest) || is_frame != Some(ticket.is_some()) {
                    self.violate(format!(
                        "INV-5: version {version} of stream {} differs from the serial one",
                        stream.0
                    ));
                }
            }
            Effect::Complete(done) => {
                self.ends(done.stream, done.index);
                let reference = self.streams[done.stream.0 as usize]
                    .digests
                    .get(done.version as usize);
                let Some(query) = self.queries.get(&(done.stream.0, done.index)) else {
                    return;
                };
                let expected =
                    reference.map(|&digest| answer_digest(digest, done.index, query.prompt));
                let right = expected == Some(done.digest)
                    && query.bound == Some(done.version)
                    && query.started
                    && done.arrived <= done.started
                    && done.started <= done.first_token
                    && done.first_token <= now;
                if !right {
                    self.violate(format!(
                        "INV-5: the answer to query {} of stream {} differs from the serial one: {done:?}",
                        done.index, done.stream.0
                    ));
                }
                let joins = done.joins.then_some(done.prompt + done.output);
                self.books(done.stream).end_question(done.index, joins);
            }
            Effect::Refuse {
                stream,
                index,
                query,
                ..
            } => self.refused(stream, index, query),
            Effect::Abandon { stream, after } => {
                let books = self.books(stream);
                books.items.truncate(after as usize);
                books.digests.truncate(after as usize + 1);
                for question in books.turns.values_mut() {
                    if let Question::Joins(_) = *question {
                        *question = Question::Ended;
                    }
                }
            }
            Effect::Evict { .. } => {}
        }
    }
}
