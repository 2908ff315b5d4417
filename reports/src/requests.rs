//! One CSV row per request, as requests end.

use std::collections::BTreeMap;
use std::io::{self, Write};

use sim::dispatch::{Completion, Effect, Input, Preparation, Reason};
use sim::drive::Sink;
use sim::time::{Duration, Instant};
use sim::world::{StreamId, World};

/// Columns, in order.
const COLUMNS: [&str; 19] = [
    "stream",
    "index",
    "arrived_s",
    "started_s",
    "first_token_s",
    "completed_s",
    "ttft_s",
    "completion_s",
    "tpot_s",
    "lane",
    "preparation",
    "version",
    "frames_behind",
    "staleness_s",
    "prompt_tokens",
    "output_tokens",
    "late",
    "warm_up",
    "refused",
];

/// Writes a row per request. What a request does not have is empty, never 0. The first error is kept
/// and ends the writing.
#[derive(Debug)]
pub struct Requests<'w, W: Write> {
    world: &'w World,
    out: csv::Writer<W>,
    /// Prompt tokens of the queries in the system: a refusal does not repeat them.
    prompts: BTreeMap<(StreamId, u32), u32>,
    error: Option<io::Error>,
}

impl<'w, W: Write> Requests<'w, W> {
    /// Writes the header.
    pub fn new(world: &'w World, out: W) -> io::Result<Self> {
        let mut out = csv::Writer::from_writer(out);
        out.write_record(COLUMNS)?;
        Ok(Self {
            world,
            out,
            prompts: BTreeMap::new(),
            error: None,
        })
    }

    /// Flushes, and says whether everything was written.
    pub fn finish(mut self) -> io::Result<()> {
        match self.error {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }

    fn write(&mut self, row: [String; COLUMNS.len()]) {
        if self.error.is_none() {
            self.error = self.out.write_record(row).err().map(io::Error::from);
        }
    }

    fn stream(&self, stream: StreamId) -> String {
        self.world.streams[stream.0 as usize].name.clone()
    }

    fn answered(&mut self, now: Instant, done: &Completion) {
        self.prompts.remove(&(done.stream, done.index));
        let per_token = (done.output > 1).then(|| {
            let later = now.saturating_since(done.first_token).0;
            Duration(later / u64::from(done.output - 1))
        });
        let staleness = done.staleness();
        self.write([
            self.stream(done.stream),
            done.index.to_string(),
            secs(done.arrived.0),
            secs(done.started.0),
            secs(done.first_token.0),
            secs(now.0),
            secs(done.first_token.saturating_since(done.arrived).0),
            secs(now.saturating_since(done.arrived).0),
            per_token.map_or_else(String::new, |span| secs(span.0)),
            self.world.lanes[done.lane.0 as usize].name.clone(),
            preparation_name(done.preparation).to_owned(),
            done.version.to_string(),
            if staleness.is_some() {
                done.frames_behind.to_string()
            } else {
                String::new()
            },
            staleness.map_or_else(String::new, |span| secs(span.0)),
            done.prompt.to_string(),
            done.output.to_string(),
            done.late.to_string(),
            (done.arrived < self.world.warm_up).to_string(),
            String::new(),
        ]);
    }

    fn refused(&mut self, stream: StreamId, index: u32, arrived: Instant, reason: Reason) {
        let prompt = self.prompts.remove(&(stream, index));
        let mut row: [String; COLUMNS.len()] = Default::default();
        row[0] = self.stream(stream);
        row[1] = index.to_string();
        row[2] = secs(arrived.0);
        row[14] = prompt.map_or_else(String::new, |prompt| prompt.to_string());
        row[17] = (arrived < self.world.warm_up).to_string();
        reason.name().clone_into(&mut row[18]);
        self.write(row);
    }
}

impl<W: Write> Sink for Requests<'_, W> {
    fn input(&mut self, _: Instant, input: &Input) {
        if let Input::Query {
            stream,
            index,
            prompt,
            ..
        } = *input
        {
            self.prompts.insert((stream, index), prompt);
        }
    }

    fn effect(&mut self, now: Instant, effect: &Effect) {
        match *effect {
            Effect::Complete(done) => self.answered(now, &done),
            Effect::Refuse {
                stream,
                index,
                query: true,
                arrived,
                reason,
                ..
            } => self.refused(stream, index, arrived, reason),
            _ => {}
        }
    }
}

/// A preparation, as in results.
pub fn preparation_name(preparation: Preparation) -> &'static str {
    match preparation {
        Preparation::Reuse => "reuse",
        Preparation::Import => "import",
        Preparation::Reconstruct => "reconstruct",
        Preparation::ImportAndReconstruct => "import_and_reconstruct",
    }
}

/// Nanoseconds as exact seconds.
fn secs(nanos: u64) -> String {
    format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use sim::simulation::Simulation;

    use super::*;
    use crate::toy;

    fn rows(scenario: &str) -> (String, sim::metrics::Summary) {
        let world = toy::world(scenario);
        let mut text = Vec::new();
        let mut requests = Requests::new(&world, &mut text).expect("memory can be written");
        let mut simulation = Simulation::new(&world);
        simulation
            .run_into(0, &mut requests)
            .expect("no policy stops");
        requests.finish().expect("memory can be written");
        let text = String::from_utf8(text).expect("CSV is text");
        (text, simulation.summary())
    }

    #[test]
    fn rows_agree_with_the_summary() {
        let limits = "[limits]\nmax_requests = 3\n[context]";
        let scenario = toy::scenario(1.0).replace("[context]", limits);
        let (text, summary) = rows(&scenario);
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let (mut answered, mut refused, mut total) = (0, 0, 0.0);
        for row in reader.records() {
            let row = row.expect("rows have the header's columns");
            if &row[17] == "true" {
                continue;
            }
            if row[18].is_empty() {
                answered += 1;
                total += row[6].parse::<f64>().expect("an answer has a TTFT");
            } else {
                refused += 1;
                assert!(row[6].is_empty() && row[15].is_empty());
                assert_eq!((&row[14], &row[18]), ("20", "queue_full"));
            }
        }
        assert_eq!(answered, summary.completed);
        assert_eq!(refused, crate::metric::refused(&summary));
        assert!(refused > 0);
        let mean = summary.ttft_s.mean.expect("there are answers");
        assert!((total / answered as f64 / mean - 1.0).abs() < 1e-9);
    }

    #[test]
    fn rows_of_a_small_run() {
        let short = toy::scenario(0.2).replace("horizon_s = 120.0", "horizon_s = 20.0");
        insta::assert_snapshot!(rows(&short).0);
    }
}
