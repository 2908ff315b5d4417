//! Events of a profile put together to runs, within bounded memory.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::super::text::short;
use super::event::Event;

/// Nodes outside of any run that are held at once: more than a run of a model has.
pub(super) const OPEN_MAX: usize = 200_000;
/// Runs that are held at once; when there are more, every other one goes.
pub(super) const RUNS_MAX: usize = 16_384;

/// A run of the model.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// Whether it is the first of its session.
    pub(super) first: bool,
    pub(super) start: f64,
    pub(super) end: f64,
    pub(super) line: u64,
    pub(super) nodes: u64,
    /// Kernel time by provider, µs.
    pub(super) kernels: Vec<f64>,
}

/// A node, or several of one subgraph, that no run encloses yet.
#[derive(Clone, Debug)]
pub(super) struct Open {
    start: f64,
    end: f64,
    nodes: u64,
    provider: usize,
    kernels: Vec<f64>,
}

/// Runs in the order of the file: all of them, or every `step`-th if those are more than [`RUNS_MAX`].
#[derive(Debug)]
pub(super) struct Runs {
    pub(super) kept: Vec<Run>,
    /// The newest run, to which nodes may still belong.
    newest: Option<Run>,
    /// Runs so far.
    pub(super) count: u64,
    pub(super) step: u64,
}

impl Default for Runs {
    fn default() -> Self {
        Self {
            kept: Vec::new(),
            newest: None,
            count: 0,
            step: 1,
        }
    }
}

impl Runs {
    fn push(&mut self, run: Run) {
        self.settle();
        self.newest = Some(run);
        self.count += 1;
    }

    /// Keeps the newest run, or lets it go.
    pub(super) fn settle(&mut self) {
        let Some(run) = self.newest.take() else {
            return;
        };
        if !(self.count - 1).is_multiple_of(self.step) {
            return;
        }
        if self.kept.len() == RUNS_MAX {
            let mut even = false;
            self.kept.retain(|_| {
                even = !even;
                even
            });
            self.step *= 2;
            if !(self.count - 1).is_multiple_of(self.step) {
                return;
            }
        }
        self.kept.push(run);
    }
}

/// What of a profile has been read.
#[derive(Debug, Default)]
pub(super) struct Profile {
    /// The line that is being read.
    line: Rc<Cell<u64>>,
    pub(super) events: u64,
    session: u64,
    /// Session of the newest run.
    ran: Option<u64>,
    pub(super) load: f64,
    pub(super) runs: Runs,
    pub(super) open: BTreeMap<u64, Vec<Open>>,
    /// Nodes in `open`.
    waiting: usize,
    /// Nodes for which `open` had no room.
    pub(super) lost: u64,
    pub(super) providers: Vec<String>,
    pub(super) overlapping: bool,
    /// Runs without a time.
    pub(super) faulty_runs: Faulty,
    /// Other events without one.
    pub(super) faulty_others: Faulty,
}

/// Events that tell no time.
#[derive(Debug, Default)]
pub(super) struct Faulty {
    pub(super) count: u64,
    /// Line of the first, and what is wrong with it.
    pub(super) first: Option<(u64, String)>,
}

/// What an event is of.
#[derive(Clone, Copy)]
enum What {
    Run,
    Start,
    Load,
    Node,
}

impl Profile {
    /// Nothing yet, of a file whose lines are counted in `line`.
    pub(super) fn new(line: Rc<Cell<u64>>) -> Self {
        Self {
            line,
            ..Self::default()
        }
    }

    pub(super) fn event(&mut self, event: &Event) {
        self.events += 1;
        let name = event.name.as_str();
        let what = match event.cat.as_str() {
            "Session" if name == "model_run" => What::Run,
            "Session" if name == "session_initialization" => What::Start,
            "Session" if name.starts_with("model_loading") => What::Load,
            "Node" if !name.ends_with("_fence_before") && !name.ends_with("_fence_after") => {
                What::Node
            }
            _ => return,
        };
        if matches!(what, What::Start) {
            self.session += 1;
        }
        let start = event.ts.sound(f64::NEG_INFINITY);
        let start = start.map_err(|why| format!("`ts` {why}"));
        let took = event.dur.sound(0.0);
        let took = took.map_err(|why| format!("`dur` {why}"));
        let (start, took) = match start.and_then(|start| Ok((start, took?))) {
            Ok(times) => times,
            Err(why) => return self.faulty(name, &why),
        };
        match what {
            What::Run => self.run(start, took),
            What::Start | What::Load => self.load += took,
            What::Node => self.node(event, start, took),
        }
    }

    /// Counts an event that tells no time.
    fn faulty(&mut self, name: &str, why: &str) {
        let line = self.line.get();
        let kind = if name == "model_run" {
            &mut self.faulty_runs
        } else {
            &mut self.faulty_others
        };
        kind.count += 1;
        if kind.first.is_none() {
            kind.first = Some((line, format!("`{}`: {why}", short(name))));
        }
    }

    fn node(&mut self, event: &Event, start: f64, took: f64) {
        let name = event
            .args
            .provider
            .clone()
            .unwrap_or_else(|| "(no provider)".to_owned());
        let provider = match self.providers.iter().position(|known| *known == name) {
            Some(index) => index,
            None if self.providers.len() < 64 => {
                self.providers.push(name);
                self.providers.len() - 1
            }
            None => 63,
        };
        let end = start + took;
        // A file sorted by start time has the run before its nodes.
        if let Some(run) = &mut self.runs.newest
            && start >= run.start
            && end <= run.end
        {
            run.nodes += 1;
            add(&mut run.kernels, provider, took);
            return;
        }
        let open = self.open.entry(event.tid).or_default();
        let mut new = Open {
            start,
            end,
            nodes: 1,
            provider,
            kernels: Vec::new(),
        };
        let mut inside = 0.0;
        while let Some(last) = open.last()
            && last.start >= start
            && last.end <= end
        {
            inside += last.end - last.start;
            new.nodes += last.nodes;
            for (index, time) in last.kernels.iter().enumerate() {
                add(&mut new.kernels, index, *time);
            }
            open.pop();
            self.waiting -= 1;
        }
        add(&mut new.kernels, provider, (took - inside).max(0.0));
        // Sorted by start time, the node that encloses comes first: its own part shrinks.
        if let Some(last) = open.last_mut()
            && start >= last.start
            && end <= last.end
        {
            let outer = last.provider;
            add(&mut last.kernels, outer, -took);
            add(&mut last.kernels, provider, took);
            last.nodes += 1;
            return;
        }
        if self.waiting < OPEN_MAX {
            open.push(new);
            self.waiting += 1;
        } else {
            self.lost += new.nodes;
        }
    }

    fn run(&mut self, start: f64, took: f64) {
        let end = start + took;
        let mut run = Run {
            first: self.ran.replace(self.session) != Some(self.session),
            start,
            end,
            line: self.line.get(),
            nodes: 0,
            kernels: Vec::new(),
        };
        for open in self.open.values_mut() {
            open.retain(|node| {
                let within = node.start >= start && node.end <= end;
                if within {
                    run.nodes += node.nodes;
                    for (index, time) in node.kernels.iter().enumerate() {
                        add(&mut run.kernels, index, *time);
                    }
                }
                // What ended before this run belongs to none that is complete.
                !within && node.end > start
            });
        }
        self.open.retain(|_, nodes| !nodes.is_empty());
        self.waiting = self.open.values().map(Vec::len).sum();
        if self
            .runs
            .newest
            .as_ref()
            .is_some_and(|last| last.end > start && last.start < end)
        {
            self.overlapping = true;
        }
        if end > start {
            self.runs.push(run);
        } else {
            // No inference takes less than the clock can tell.
            self.faulty("model_run", &format!("`dur` is {took}: it took no time"));
        }
    }
}

fn add(list: &mut Vec<f64>, index: usize, value: f64) {
    if list.len() <= index {
        list.resize(index + 1, 0.0);
    }
    list[index] += value;
}
