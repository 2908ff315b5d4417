//! A timeline for <https://ui.perfetto.dev> (Chrome's JSON trace format), written as the run goes.
//!
//! Each engine is a process with a thread per lane, on which every stage is a slice. A further process
//! holds a thread per stream with its frames, queries, versions and answers. Arrows lead from the frame
//! to its ingest, from the ingest that published a version to each prefill that reads it, and from the
//! decode to the answer. Counters: requests, context and KV that engines keep, and by lane the memory
//! traffic and the power of its stages, each stage's spread evenly over its time; by engine its idle power,
//! drawn while none of its lanes runs; and the base power. All power counters together are the run's energy.

pub(crate) mod book;

use std::fmt;
use std::io::{self, Write};

use book::{Book, Slice};
use serde_json::{Value, json};
use sim::dispatch::{Completion, Effect, Input};
use sim::drive::Sink;
use sim::spec::model::StageKind;
use sim::time::Instant;
use sim::world::{ENGINES_MAX, EngineId, LaneId, StreamId, World};

use crate::requests::preparation_name;

/// Process of the streams; engines have their id plus 1.
const STREAMS: u64 = 1000;

/// A sink that writes the timeline. The first error is kept and ends the writing.
pub struct Timeline<'w, W: Write> {
    world: &'w World,
    out: W,
    book: Book,
    first: bool,
    flows: u64,
    /// Time of the last input.
    last: Instant,
    /// By engine, whether its counter shows its idle power; `None`: it has shown nothing yet.
    idle: [Option<bool>; ENGINES_MAX],
    error: Option<io::Error>,
}

impl<W: Write> fmt::Debug for Timeline<'_, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timeline")
            .field("flows", &self.flows)
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

impl<'w, W: Write> Timeline<'w, W> {
    /// Writes the names of engines, lanes and streams.
    pub fn new(world: &'w World, out: W) -> io::Result<Self> {
        let mut timeline = Self {
            world,
            out,
            book: Book::new(world),
            first: true,
            flows: 0,
            last: Instant::ZERO,
            idle: [None; ENGINES_MAX],
            error: None,
        };
        timeline
            .out
            .write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[")?;
        timeline.names();
        timeline.base_power(Instant::ZERO, 1.0);
        match timeline.error.take() {
            Some(error) => Err(error),
            None => Ok(timeline),
        }
    }

    /// Ends the file, and says whether everything was written.
    pub fn finish(mut self) -> io::Result<W> {
        let end = self.last;
        self.idle_power(end, |_| false);
        self.base_power(end, 0.0);
        if let Some(error) = self.error {
            return Err(error);
        }
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn names(&mut self) {
        let world = self.world;
        for (index, engine) in world.engines.iter().enumerate() {
            self.name("process_name", index as u64 + 1, 0, &engine.name);
        }
        for (index, lane) in world.lanes.iter().enumerate() {
            let process = engine_process(lane.engine);
            self.name("thread_name", process, index as u64 + 1, &lane.name);
        }
        self.name("process_name", STREAMS, 0, "streams");
        for (index, stream) in world.streams.iter().enumerate() {
            self.name("thread_name", STREAMS, index as u64 + 1, &stream.name);
        }
    }

    fn name(&mut self, what: &str, process: u64, thread: u64, name: &str) {
        self.write(&json!({
            "ph": "M", "name": what, "pid": process, "tid": thread, "args": { "name": name },
        }));
    }

    fn write(&mut self, event: &Value) {
        if self.error.is_some() {
            return;
        }
        let separator: &[u8] = if self.first { b"\n" } else { b",\n" };
        self.first = false;
        let written = self
            .out
            .write_all(separator)
            .and_then(|()| serde_json::to_writer(&mut self.out, event).map_err(io::Error::from));
        self.error = written.err();
    }

    fn lane_thread(&self, lane: LaneId) -> (u64, u64) {
        let engine = self.world.engine_of(lane);
        (engine_process(engine), u64::from(lane.0) + 1)
    }

    fn instant(&mut self, now: Instant, stream: StreamId, name: &str, args: &Value) {
        self.write(&json!({
            "ph": "i", "s": "t", "name": name, "ts": micros(now),
            "pid": STREAMS, "tid": u64::from(stream.0) + 1, "args": args,
        }));
    }

    /// A slice without length on a stream's track: unlike an instant, arrows can lead to it.
    fn point(&mut self, now: Instant, stream: StreamId, name: &str, args: &Value) {
        let (process, thread) = stream_thread(stream);
        self.write(&json!({
            "ph": "X", "name": name, "ts": micros(now), "dur": 0.001,
            "pid": process, "tid": thread, "args": args,
        }));
    }

    fn counter(&mut self, now: Instant, process: u64, name: &str, args: &Value) {
        self.write(&json!({
            "ph": "C", "name": name, "ts": micros(now), "pid": process, "tid": 0, "args": args,
        }));
    }

    fn requests(&mut self, now: Instant) {
        let (waiting, answering) = self.book.requests();
        let args = json!({ "waiting": waiting, "answering": answering });
        self.counter(now, STREAMS, "requests", &args);
    }

    fn resident(&mut self, now: Instant, engine: EngineId) {
        let tokens = self.book.resident_tokens(engine);
        let process = engine_process(engine);
        self.counter(
            now,
            process,
            "resident context",
            &json!({ "tokens": tokens }),
        );
        let bytes = tokens * self.world.model.kv_bytes_per_token;
        self.counter(
            now,
            process,
            "resident KV",
            &json!({ "MB": bytes as f64 / 1e6 }),
        );
    }

    fn slice(&mut self, now: Instant, lane: LaneId, slice: &Slice, failed: bool) {
        let world = self.world;
        let task = slice.task;
        let stage = &world.stages[task.stage.0 as usize];
        let (process, thread) = self.lane_thread(lane);
        let mut args = json!({
            "stream": world.streams[task.stream.0 as usize].name,
            "version": task.version,
            "context_tokens": task.context,
        });
        match (stage.kind, failed) {
            // How far it came is not known.
            (StageKind::Decode, true) => args["tokens_at_most"] = task.size.into(),
            (StageKind::Encode, _) => args["frames"] = task.size.into(),
            (StageKind::Custom, _) => {}
            _ => args["tokens"] = task.size.into(),
        }
        if let Some(query) = slice.query {
            args["query"] = query.into();
            args["preparation"] = preparation_name(slice.preparation).into();
        }
        if stage.kind == StageKind::Import {
            args["from"] = world.engines[task.source.0 as usize].name.clone().into();
        }
        if failed {
            args["failed"] = true.into();
        }
        self.write(&json!({
            "ph": "X", "name": stage.name, "ts": micros(slice.since),
            "dur": now.saturating_since(slice.since).0 as f64 / 1e3,
            "pid": process, "tid": thread, "args": args,
        }));
        if stage.kind == StageKind::QueryPrefill && !failed {
            self.flow(lane, slice);
        }
        if stage.kind == StageKind::Ingest
            && !failed
            && let Some(arrived) = self.book.ingested_frame(task.ticket)
        {
            let from = (stream_thread(task.stream), arrived);
            self.arrow("frame", from, ((process, thread), slice.since));
        }
    }

    /// What a stage moved and drew, evenly over its time.
    fn rates(&mut self, now: Instant, lane: LaneId, slice: &Slice, bytes: u64, nanojoules: u64) {
        let length = now.saturating_since(slice.since).as_secs_f64();
        if length <= 0.0 {
            return;
        }
        let (process, _) = self.lane_thread(lane);
        let world = self.world;
        let name = &world.lanes[lane.0 as usize].name;
        let traffic = format!("memory traffic {name}");
        let power = format!("power {name}");
        let gbps = bytes as f64 / 1e9 / length;
        let watts = nanojoules as f64 * 1e-9 / length;
        for (at, share) in [(slice.since, 1.0), (now, 0.0)] {
            self.counter(at, process, &traffic, &json!({ "GB/s": share * gbps }));
            if world.power.is_some() {
                self.counter(at, process, &power, &json!({ "W": share * watts }));
            }
        }
    }

    /// What is drawn whatever runs.
    fn base_power(&mut self, at: Instant, share: f64) {
        if let Some(power) = self.world.power {
            let watts = share * power.base_w;
            self.counter(at, STREAMS, "base power", &json!({ "W": watts }));
        }
    }

    /// Idle power of the engines that are idle, where that changed.
    fn idle_power(&mut self, at: Instant, idle: impl Fn(EngineId) -> bool) {
        let world = self.world;
        if world.power.is_none() {
            return;
        }
        for (index, engine) in world.engines.iter().enumerate() {
            let id = EngineId(index as u8);
            let now = idle(id);
            if let Some(power) = engine.power
                && self.idle[index].replace(now) != Some(now)
            {
                let name = format!("idle power {}", engine.name);
                let watts = if now { power.idle_w } else { 0.0 };
                self.counter(at, engine_process(id), &name, &json!({ "W": watts }));
            }
        }
    }

    /// Shows what has been so since the last input, once time goes on.
    fn advance(&mut self, now: Instant) {
        if now > self.last {
            let (world, at) = (self.world, self.last);
            let running: Vec<EngineId> = self
                .book
                .lanes_running()
                .map(|lane| world.engine_of(lane))
                .collect();
            self.idle_power(at, |engine| !running.contains(&engine));
            self.last = now;
        }
    }

    /// An arrow from the ingest that published the version to the prefill that reads it.
    fn flow(&mut self, lane: LaneId, reader: &Slice) {
        let Some(published) = self.book.published(reader.task.stream, reader.task.version) else {
            return;
        };
        // Arrows attach to the slice around them, so this one leaves just before the ingest ends.
        let last = Instant(published.at.0.saturating_sub(1)).max(published.since);
        let from = (self.lane_thread(published.lane), last);
        let to = (self.lane_thread(lane), reader.since);
        self.arrow("version", from, to);
    }

    /// An arrow between two points on tracks (process and thread), each within a slice.
    fn arrow(&mut self, name: &str, from: ((u64, u64), Instant), to: ((u64, u64), Instant)) {
        self.flows += 1;
        for (((process, thread), at), phase) in [(from, "s"), (to, "f")] {
            let mut event = json!({
                "ph": phase, "name": name, "cat": name, "id": self.flows,
                "ts": micros(at), "pid": process, "tid": thread,
            });
            if phase == "f" {
                event["bp"] = "e".into();
            }
            self.write(&event);
        }
    }

    fn completed(&mut self, now: Instant, done: &Completion) {
        let args = json!({
            "query": done.index,
            "version": done.version,
            "preparation": preparation_name(done.preparation),
            "ttft_s": done.first_token.saturating_since(done.arrived).as_secs_f64(),
            "completion_s": now.saturating_since(done.arrived).as_secs_f64(),
            "output_tokens": done.output,
            "late": done.late,
        });
        self.point(now, done.stream, "complete", &args);
        if let Some(last) = self.book.answered(done.ticket) {
            let from = (self.lane_thread(done.lane), last);
            let to = (stream_thread(done.stream), now);
            self.arrow("answer", from, to);
        }
        self.book.ended(done.ticket);
        self.requests(now);
    }
}

impl<W: Write> Sink for Timeline<'_, W> {
    fn input(&mut self, now: Instant, input: &Input) {
        self.advance(now);
        match *input {
            Input::Frame {
                ticket,
                stream,
                index,
                tokens,
            } => {
                self.book.frame(ticket, now);
                let args = json!({ "frame": index, "tokens": tokens });
                self.point(now, stream, "frame", &args);
            }
            Input::Query {
                ticket,
                stream,
                index,
                prompt,
                ..
            } => {
                self.book.asked(ticket, stream, index);
                let args = json!({ "query": index, "prompt_tokens": prompt });
                self.instant(now, stream, "query", &args);
                self.requests(now);
            }
            Input::Finish {
                lane,
                tokens,
                bytes,
                nanojoules,
            } => {
                let engine = self.world.engine_of(lane);
                if let Some(slice) = self.book.stopped(self.world, now, lane, tokens) {
                    self.slice(now, lane, &slice, false);
                    self.rates(now, lane, &slice, bytes, nanojoules);
                    self.resident(now, engine);
                }
            }
            Input::Fail { lane } => {
                if let Some(slice) = self.book.failed(lane) {
                    self.slice(now, lane, &slice, true);
                }
            }
            Input::Throttle { level } => {
                self.counter(now, STREAMS, "throttle step", &json!({ "level": level }));
            }
            Input::Close => {}
        }
    }

    fn effect(&mut self, now: Instant, effect: &Effect) {
        match *effect {
            Effect::Start { lane, task } => {
                if self.book.started(self.world, now, lane, task) {
                    self.requests(now);
                }
            }
            Effect::Bind {
                stream,
                index,
                version,
            } => {
                self.book.bound(stream, index, version);
                let args = json!({ "query": index, "version": version });
                self.instant(now, stream, "bind", &args);
            }
            Effect::Publish {
                stream,
                version,
                tokens,
                ticket,
                ..
            } => {
                let made = self.book.publish(self.world, stream, version, tokens);
                let made_by = if ticket.is_some() { "frame" } else { "answer" };
                let args = json!({ "version": version, "tokens": tokens, "made_by": made_by });
                self.instant(now, stream, "publish", &args);
                if let Some(lane) = made {
                    self.resident(now, self.world.engine_of(lane));
                }
            }
            Effect::Evict {
                engine,
                stream,
                tokens,
            } => {
                self.book.evicted(engine, stream);
                let from = &self.world.engines[engine.0 as usize].name;
                let args = json!({ "engine": from, "tokens": tokens });
                self.instant(now, stream, "evict", &args);
                self.resident(now, engine);
            }
            Effect::Abandon { stream, after } => {
                self.instant(now, stream, "abandon", &json!({ "last_version": after }));
            }
            Effect::Complete(done) => self.completed(now, &done),
            Effect::Refuse {
                ticket,
                stream,
                index,
                query,
                reason,
                ..
            } => {
                let what = if query { "query" } else { "frame" };
                let args = json!({ what: index, "reason": reason.name() });
                self.instant(now, stream, "refuse", &args);
                if query {
                    self.book.ended(ticket);
                    self.requests(now);
                } else {
                    self.book.ingested_frame(ticket);
                }
            }
        }
    }
}

/// Process and thread of a stream.
fn stream_thread(stream: StreamId) -> (u64, u64) {
    (STREAMS, u64::from(stream.0) + 1)
}

fn engine_process(engine: EngineId) -> u64 {
    u64::from(engine.0) + 1
}

/// Microseconds, the format's unit; nanoseconds are its decimals.
fn micros(at: Instant) -> f64 {
    at.0 as f64 / 1e3
}

#[cfg(test)]
mod tests;
