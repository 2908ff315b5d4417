//! Events of a profile put together to runs, within bounded memory.
//!
//! Means are of sums over all runs. Of the times themselves, from which quantiles come, as many as [`RUNS_MAX`] are
//! held, drawn at random: every second, fourth, … one would always meet the same part of times that recur.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, SeedableRng};

use super::super::text::short;
use super::event::Event;

/// Nodes outside of any run that are held at once: more than a run of a model has.
pub(super) const OPEN_MAX: usize = 200_000;
/// Runs after the first of their session whose times are held: of more, so many drawn at random.
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

/// Numbers of nodes that are told apart; others count as the next smaller one.
const SIZES_MAX: usize = 4096;

/// Sums over runs from the first on.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    /// Runs, those of a warm-up with them.
    pub(super) runs: u64,
    /// First runs of their sessions, and their time, s.
    pub(super) cold: (u64, f64),
    /// The others, and their time, s.
    pub(super) warm: (u64, f64),
    /// Kernel time of the others by provider, s.
    pub(super) kernels: Vec<f64>,
}

/// Runs with the same number of nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Size {
    /// How many.
    pub(super) count: u64,
    /// Sums up to the last of them, with it.
    pub(super) until: Totals,
    /// Line of the run that follows that one; 0 of none.
    pub(super) next: u64,
}

/// The runs of a file: sums over all of them, and the times of some.
#[derive(Debug)]
pub(super) struct Runs {
    /// Runs after the first of their session with their numbers, from 0: in no order once they are drawn.
    pub(super) kept: Vec<(u64, f64)>,
    /// The newest run, to which nodes may still belong.
    newest: Option<Run>,
    /// Runs so far.
    pub(super) count: u64,
    pub(super) totals: Totals,
    /// By number of nodes.
    pub(super) sizes: BTreeMap<u64, Size>,
    /// The size of the run before, whose next one is not known yet.
    before: Option<u64>,
    /// Line and time of the first run of a session, and line of the first other one.
    pub(super) first: (Option<(u64, f64)>, Option<u64>),
    rng: Xoshiro256PlusPlus,
}

impl Default for Runs {
    fn default() -> Self {
        Self {
            kept: Vec::new(),
            newest: None,
            count: 0,
            totals: Totals::default(),
            sizes: BTreeMap::new(),
            before: None,
            first: (None, None),
            // The same file gives the same profile.
            rng: Xoshiro256PlusPlus::seed_from_u64(0),
        }
    }
}

impl Runs {
    fn push(&mut self, run: Run) {
        self.settle();
        self.newest = Some(run);
        self.count += 1;
    }

    /// Adds the newest run to what is known: no more nodes belong to it.
    pub(super) fn settle(&mut self) {
        let Some(run) = self.newest.take() else {
            return;
        };
        let secs = (run.end - run.start) * 1e-6;
        let totals = &mut self.totals;
        let number = totals.runs;
        totals.runs += 1;
        if run.first {
            totals.cold = (totals.cold.0 + 1, totals.cold.1 + secs);
            self.first.0.get_or_insert((run.line, secs));
        } else {
            totals.warm = (totals.warm.0 + 1, totals.warm.1 + secs);
            for (index, time) in run.kernels.iter().enumerate() {
                add(&mut totals.kernels, index, time * 1e-6);
            }
            self.first.1.get_or_insert(run.line);
            self.keep(number, secs);
        }
        if let Some(before) = self
            .before
            .take()
            .and_then(|size| self.sizes.get_mut(&size))
        {
            before.next = run.line;
        }
        let known = self.sizes.contains_key(&run.nodes);
        let size = if known || self.sizes.len() < SIZES_MAX {
            run.nodes
        } else {
            let smaller = self.sizes.range(..run.nodes).next_back();
            smaller.map_or(0, |(size, _)| *size)
        };
        let same = self.sizes.entry(size).or_default();
        same.count += 1;
        same.until.clone_from(&self.totals);
        same.next = 0;
        self.before = Some(size);
    }

    /// Holds a time, or lets it or another one go: each of all is held with the same probability (Vitter 1985,
    /// algorithm R).
    fn keep(&mut self, number: u64, secs: f64) {
        if self.kept.len() < RUNS_MAX {
            self.kept.push((number, secs));
            return;
        }
        let at = below(&mut self.rng, self.totals.warm.0);
        if let Some(slot) = usize::try_from(at)
            .ok()
            .and_then(|at| self.kept.get_mut(at))
        {
            *slot = (number, secs);
        }
    }
}

/// A whole number below `bound`; uneven by less than `bound` ÷ 2⁶⁴.
fn below(rng: &mut Xoshiro256PlusPlus, bound: u64) -> u64 {
    let wide = u128::from(rng.next_u64()) * u128::from(bound);
    (wide >> 64) as u64
}

/// What of a profile has been read.
#[derive(Debug, Default)]
pub(super) struct Profile {
    /// The line that is being read.
    line: Rc<Cell<u64>>,
    pub(super) events: u64,
    /// Those of them that a GPU's own profiler added.
    pub(super) kernels: u64,
    session: u64,
    /// Session of the newest run.
    ran: Option<u64>,
    pub(super) load: f64,
    pub(super) runs: Runs,
    pub(super) open: BTreeMap<u64, Vec<Open>>,
    /// Nodes in `open`.
    pub(super) waiting: usize,
    /// Nodes for which `open` had no room.
    pub(super) lost: u64,
    pub(super) providers: Vec<String>,
    /// Runs of this session by their start, µs, each with its end and line: the last [`RUNS_MAX`] of them.
    times: BTreeMap<(i64, u64), (f64, u64)>,
    pub(super) overlapping: Overlapping,
    /// Runs without a time.
    pub(super) faulty_runs: Faulty,
    /// Other events without one.
    pub(super) faulty_others: Faulty,
}

/// Runs that overlap in time, whatever their order in the file.
#[derive(Debug, Default)]
pub(super) struct Overlapping {
    /// How many begin or end within another one.
    pub(super) count: u64,
    /// Lines of the first two.
    pub(super) first: Option<(u64, u64)>,
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
        self.kernels += u64::from(event.cat == "Kernel");
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
            // Its clock may begin anew.
            self.times.clear();
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
        self.overlap(start, end);
        if end > start {
            self.runs.push(run);
        } else {
            // No inference takes less than the clock can tell.
            self.faulty("model_run", &format!("`dur` is {took}: it took no time"));
        }
    }
}

impl Profile {
    /// Counts a run that overlaps another one: of threads that run one session at once, which may stand one thread
    /// after the other in a file.
    fn overlap(&mut self, start: f64, end: f64) {
        let line = self.line.get();
        // Saturates, in microseconds.
        let key = (start as i64, self.runs.count);
        let before = self.times.range(..key).next_back();
        let before = before.filter(|(_, (ends, _))| *ends > start);
        let after = self.times.range(key..).next();
        let after = after.filter(|((starts, _), _)| (*starts as f64) < end.floor());
        if let Some((_, (_, other))) = before.or(after) {
            self.overlapping.count += 1;
            self.overlapping.first.get_or_insert((*other, line));
        }
        self.times.insert(key, (end, line));
        if self.times.len() > RUNS_MAX {
            self.times.pop_first();
        }
    }
}

fn add(list: &mut Vec<f64>, index: usize, value: f64) {
    if list.len() <= index {
        list.resize(index + 1, 0.0);
    }
    list[index] += value;
}
