//! One request told in sentences and numbers: what it met, what the policy expected of each lane, what was
//! chosen, and how co-running slowed it on the way.

mod tell;
#[cfg(test)]
mod tests;
mod wait;
mod watch;

use std::fmt;
use std::sync::{Arc, Mutex};

use sim::diag::Faults;
use sim::dispatch::policy::build;
use sim::dispatch::{Dispatcher, Input};
use sim::drive::Sink;
use sim::simulation::{Pace, Simulation};
use sim::time::Instant;
use sim::world::{StreamId, World};

use watch::Watcher;
pub(crate) use watch::{Log, Watching};

/// Which request is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// By order of arrival over all streams, from 0.
    Arrival(u64),
    /// By its stream's name and its number within it, from 0.
    Of(String, u32),
}

impl std::str::FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "give a number from 0, or STREAM:NUMBER".to_owned();
        match text.rsplit_once(':') {
            Some((stream, index)) => Ok(Self::Of(
                stream.to_owned(),
                index.parse().map_err(|_| wrong())?,
            )),
            None => text.parse().map(Self::Arrival).map_err(|_| wrong()),
        }
    }
}

/// Why there is nothing to tell.
#[derive(Debug, PartialEq, Eq)]
pub enum ExplainError {
    /// No stream has that name.
    NoStream(String),
    /// Fewer requests arrive: the wanted one, and how many there are.
    NoRequest(Wanted, u64),
    /// The policy stopped the run.
    Stopped(Faults),
}

impl fmt::Display for ExplainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoStream(name) => write!(f, "there is no stream `{name}`"),
            Self::NoRequest(Wanted::Arrival(number), count) => {
                write!(
                    f,
                    "there is no request {number}: {count} arrive, counted from 0"
                )
            }
            Self::Stopped(faults) => faults.fmt(f),
            Self::NoRequest(Wanted::Of(stream, index), count) => write!(
                f,
                "there is no request {index} of `{stream}`: {count} arrive, counted from 0"
            ),
        }
    }
}

impl std::error::Error for ExplainError {}

/// Finds a request among the arrivals of a run.
struct Finder {
    wanted: Wanted,
    stream: Option<StreamId>,
    seen: u64,
    arrivals: u64,
    found: Option<(StreamId, u32, u64)>,
}

impl Sink for Finder {
    fn input(&mut self, _: Instant, input: &Input) {
        let Input::Query { stream, index, .. } = *input else {
            return;
        };
        let number = self.arrivals;
        self.arrivals += 1;
        let (is_it, counts) = match self.wanted {
            Wanted::Arrival(wanted) => (wanted == number, true),
            Wanted::Of(_, wanted) => {
                let own = self.stream == Some(stream);
                (own && wanted == index, own)
            }
        };
        self.seen += u64::from(counts);
        if is_it {
            self.found = Some((stream, index, number));
        }
    }

    fn effect(&mut self, _: Instant, _: &sim::dispatch::Effect) {}
}

/// Tells a request of replication `run` in text of at most 80 columns.
pub fn explain(world: &World, run: u32, wanted: &Wanted) -> Result<String, ExplainError> {
    let mut finder = Finder {
        wanted: wanted.clone(),
        stream: None,
        seen: 0,
        arrivals: 0,
        found: None,
    };
    if let Wanted::Of(name, _) = wanted {
        let mut names = world.streams.iter().map(|stream| &stream.name);
        let Some(stream) = names.position(|known| known == name) else {
            return Err(ExplainError::NoStream(name.clone()));
        };
        finder.stream = Some(StreamId(stream as u16));
    }
    Simulation::new(world)
        .run_into(run, &mut finder)
        .map_err(ExplainError::Stopped)?;
    let Some((stream, index, number)) = finder.found else {
        return Err(ExplainError::NoRequest(wanted.clone(), finder.seen));
    };
    let log = Arc::new(Mutex::new(Log::of(stream, index)));
    let policy = Watching::new(build(world), Arc::clone(&log));
    let dispatcher = Dispatcher::with_policy(world, Box::new(policy));
    let pace = Pace::default();
    let mut watcher = Watcher::new(world, &pace, stream, index);
    Simulation::with_dispatcher(world, dispatcher)
        .run_watched(run, &pace, &mut watcher)
        .map_err(ExplainError::Stopped)?;
    let asked = log.lock().map(|log| log.asked.clone()).unwrap_or_default();
    Ok(tell::story(world, run, number, &watcher.seen, &asked))
}
