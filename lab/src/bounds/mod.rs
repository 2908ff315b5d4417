//! What no schedule beats: a lower bound of every request's latency, and an upper one of the answers per
//! second.
//!
//! Both are of a run as it was drawn: its arrivals, lengths and the spread of its stage times. They keep the
//! engines, the costs alone and the order of stages, and relax all else: transfers, memory, modes, queues. So
//! they hold for every policy, and a gap to them need not be one that any policy could close; on small cases
//! [`crate::oracle`] says what could.

mod throughput;

use std::collections::BTreeMap;

use rayon::prelude::*;
use sim::contention::Load;
use sim::diag::Faults;
use sim::dispatch::{Completion, Dispatcher, Effect, Effects, Input, Task};
use sim::drive::{Executor, drive};
use sim::soc::Soc;
use sim::spec::model::StageKind;
use sim::spec::scenario::Binding;
use sim::time::Instant;
use sim::world::{EngineId, Graph, LaneId, StageId, World};
use throughput::Job;

/// A request with its bounds. Times in seconds from its arrival.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounded {
    /// Time to the first token.
    pub ttft_s: f64,
    /// No schedule has it earlier.
    pub ttft_bound_s: f64,
    /// Time to the last token.
    pub completion_s: f64,
    /// No schedule has it earlier.
    pub completion_bound_s: f64,
    /// On its lane: the least time alone from query prefill to the last token.
    pub service_bound_s: f64,
    /// Whether it arrived after the warm-up.
    pub counts: bool,
}

/// A run beside its bounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// Requests that were answered, in order of their ends.
    pub requests: Vec<Bounded>,
    /// Answers per second between the end of the warm-up and the horizon (where no source asks until then: the last
    /// answer), whenever their queries arrived.
    pub throughput_rps: Option<f64>,
    /// No schedule answers them at a higher rate: the linear program of [`Run::work_s`].
    pub throughput_bound_rps: Option<f64>,
    /// Least time, s, in which the stages that began after the warm-up can be done on all lanes together: those of
    /// those answers, and of frames published in that time.
    pub work_s: f64,
}

/// Plays replication `run` and bounds it.
///
/// # Errors
///
/// What the policy stopped the run with.
pub fn run(world: &World, run: u32) -> Result<Run, Faults> {
    Ok(Watching::new(world, run).play()?.close())
}

/// A request that was answered, for the search of the best schedule.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    /// Stream and number.
    pub(crate) key: (u16, u32),
    pub(crate) arrived: Instant,
    pub(crate) bounded: Bounded,
    /// The stages that share a lane, in order.
    pub(crate) bound: Vec<Stage>,
}

/// Every request that was answered.
pub(crate) fn requests(world: &World, run: u32) -> Result<Vec<Answered>, Faults> {
    let mut executor = Watching::new(world, run);
    executor.book.kept = Some(Vec::new());
    let book = executor.play()?;
    let keys = book.keys.into_iter().zip(book.kept.unwrap_or_default());
    Ok(keys
        .zip(book.requests)
        .map(|(((stream, index, arrived), bound), bounded)| Answered {
            key: (stream, index),
            arrived,
            bounded,
            bound,
        })
        .collect())
}

/// Prices of stages by the time alone that they take on each lane, by stage and lane: whatever runs together, what
/// is done in a second costs no more than one. See [`throughput`].
pub(crate) fn prices(world: &World, requests: &[Vec<Stage>]) -> Vec<(StageId, Vec<f64>)> {
    let stages = requests.iter().flatten().cloned();
    let jobs: Vec<Job> = stages.map(Job::from).collect();
    throughput::prices(world, &jobs)
        .into_iter()
        .map(|(class, prices)| (StageId(class), prices))
        .collect()
}

/// Every replication of a world, on the threads of the current pool.
///
/// # Errors
///
/// What the policy stopped the first run with that it did stop.
pub fn runs(world: &World) -> Result<Vec<Run>, Faults> {
    let runs: Vec<_> = (0..world.replications)
        .into_par_iter()
        .map(|index| run(world, index))
        .collect();
    runs.into_iter().collect()
}

/// A stage of a request or frame: its time alone on every lane, ns (infinite where a lane cannot), and the load
/// that it puts there.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    pub(crate) id: StageId,
    /// Whether it began after the warm-up.
    counts: bool,
    pub(crate) alone: Vec<(f64, Load)>,
}

impl From<Stage> for Job {
    fn from(stage: Stage) -> Self {
        Self {
            class: stage.id.0,
            alone: stage.alone,
        }
    }
}

impl Stage {
    fn least(&self) -> f64 {
        let all = self.alone.iter().map(|(ns, _)| *ns);
        all.fold(f64::INFINITY, f64::min)
    }
}

const NO_LOAD: Load = Load {
    engine: EngineId(0),
    mu: 0.0,
};

/// The simulated SoC, asked what each task would have taken elsewhere.
struct Watching<'w> {
    soc: Soc<'w>,
    book: Book<'w>,
}

impl<'w> Watching<'w> {
    fn new(world: &'w World, run: u32) -> Self {
        let book = Book {
            world,
            arrived: BTreeMap::new(),
            tasks: BTreeMap::new(),
            versions: vec![BTreeMap::new(); world.streams.len()],
            published: vec![Instant::ZERO; world.streams.len()],
            jobs: Vec::new(),
            asked: vec![0; world.streams.len()],
            requests: Vec::new(),
            keys: Vec::new(),
            kept: None,
            answers: Vec::new(),
        };
        Self {
            soc: Soc::new(world, run),
            book,
        }
    }

    /// Plays the run.
    fn play(mut self) -> Result<Book<'w>, Faults> {
        let mut dispatcher = Dispatcher::new(self.book.world);
        drive(&mut self, &mut dispatcher, &mut Effects::new(), &mut ())?;
        Ok(self.book)
    }
}

impl Executor for Watching<'_> {
    fn next(&mut self) -> Option<(Instant, Input)> {
        let next = self.soc.next();
        match next {
            Some((now, Input::Frame { ticket, .. })) => {
                self.book.arrived.insert(ticket, now);
            }
            Some((_, Input::Query { stream, .. })) => self.book.asked[stream.0 as usize] += 1,
            _ => {}
        }
        next
    }

    fn apply(&mut self, now: Instant, effect: &Effect) {
        if let Effect::Start { task, .. } = effect {
            let lanes = 0..self.book.world.lanes.len();
            let alone = lanes.map(|lane| {
                let alone = self.soc.alone(LaneId(lane as u8), task);
                alone.unwrap_or((f64::INFINITY, NO_LOAD))
            });
            let alone = alone.collect();
            self.book.starts(now, task, alone);
        } else {
            self.book.effect(now, effect);
        }
        self.soc.apply(now, effect);
    }
}

struct Book<'w> {
    world: &'w World,
    /// Arrivals of frames that are under way, by ticket.
    arrived: BTreeMap<u32, Instant>,
    /// Stages of what is under way, by ticket.
    tasks: BTreeMap<u32, Vec<Stage>>,
    /// By stream and version: before this, it cannot have been published.
    versions: Vec<BTreeMap<u32, Instant>>,
    /// The same of the newest version.
    published: Vec<Instant>,
    /// Stages of answers and of frames, those that began after the warm-up, with the time of answer or publication.
    jobs: Vec<(Instant, Job)>,
    /// Queries that arrived, by stream.
    asked: Vec<u64>,
    requests: Vec<Bounded>,
    /// Stream, number and arrival of each.
    keys: Vec<(u16, u32, Instant)>,
    /// The bound stages of each, where they are asked for.
    kept: Option<Vec<Vec<Stage>>>,
    /// Times of the answers after the warm-up.
    answers: Vec<Instant>,
}

impl Book<'_> {
    fn starts(&mut self, now: Instant, task: &Task, alone: Vec<(f64, Load)>) {
        let kind = self.world.stages[task.stage.0 as usize].kind;
        let moves = matches!(
            kind,
            StageKind::Export | StageKind::Import | StageKind::Reconstruct
        );
        if moves || task.ticket == u32::MAX {
            return;
        }
        let stage = Stage {
            id: task.stage,
            counts: now >= self.world.warm_up,
            alone,
        };
        self.tasks.entry(task.ticket).or_default().push(stage);
    }

    fn effect(&mut self, now: Instant, effect: &Effect) {
        match effect {
            Effect::Publish {
                stream,
                version,
                ticket,
                ..
            } => self.publish(now, stream.0 as usize, *version, *ticket),
            Effect::Complete(done) => self.complete(now, done),
            Effect::Refuse { ticket, .. } => {
                self.tasks.remove(ticket);
            }
            _ => {}
        }
    }

    fn publish(&mut self, now: Instant, stream: usize, version: u32, ticket: Option<u32>) {
        let mut earliest = self.published[stream];
        if let Some(ticket) = ticket {
            let stages = self.tasks.remove(&ticket).unwrap_or_default();
            let arrived = self.arrived.remove(&ticket).unwrap_or(now);
            let path = Path::of(self.world, &stages, false);
            earliest = (arrived + ns(path.before)).max(earliest) + ns(path.bound);
            let jobs = jobs(&self.world.frame_graph, stages);
            self.jobs.extend(jobs.map(|job| (now, job)));
        }
        self.published[stream] = earliest;
        self.versions[stream].insert(version, earliest);
        // A request reads no version that was old long ago.
        if self.versions[stream].len() > 1 << 16 {
            self.versions[stream].pop_first();
        }
    }

    fn complete(&mut self, now: Instant, done: &Completion) {
        let world = self.world;
        let stages = self.tasks.remove(&done.ticket).unwrap_or_default();
        // Which version a query reads depends on the schedule unless it is bound as it arrives to all frames
        // before it.
        let ready = match world.binding {
            Binding::Arrived => self.versions[done.stream.0 as usize]
                .get(&done.version)
                .copied()
                .unwrap_or_default(),
            Binding::Published | Binding::AtDispatch => Instant::ZERO,
        };
        let path = Path::of(world, &stages, true);
        let waits = ready.saturating_since(done.arrived).0 as f64;
        let begin = path.before.max(waits);
        let secs = |ns: f64| ns * 1e-9;
        let counts = done.arrived >= world.warm_up;
        self.requests.push(Bounded {
            ttft_s: done
                .first_token
                .saturating_since(done.arrived)
                .as_secs_f64(),
            ttft_bound_s: secs(begin + path.first),
            completion_s: now.saturating_since(done.arrived).as_secs_f64(),
            completion_bound_s: secs(begin + path.bound),
            service_bound_s: secs(path.bound),
            counts,
        });
        self.keys.push((done.stream.0, done.index, done.arrived));
        if let Some(kept) = &mut self.kept {
            let bound = bound_stages(&world.query_graph, &stages);
            kept.push(bound.cloned().collect());
        }
        if now >= world.warm_up {
            self.answers.push(now);
            let jobs = jobs(&world.query_graph, stages);
            self.jobs.extend(jobs.map(|job| (now, job)));
        }
    }

    fn close(mut self) -> Run {
        let last = self.answers.last().copied().unwrap_or(Instant::ZERO);
        let end = self.world.window_end(&self.asked).unwrap_or(last);
        let window = end.saturating_since(self.world.warm_up).as_secs_f64();
        let within = self.jobs.drain(..).filter(|(at, _)| *at <= end);
        let jobs: Vec<Job> = within.map(|(_, job)| job).collect();
        let answers = self.answers.iter().filter(|at| **at <= end).count() as f64;
        let work_s = throughput::least_time(self.world, &jobs) * 1e-9;
        Run {
            throughput_rps: (window > 0.0 && answers > 0.0).then(|| answers / window),
            throughput_bound_rps: (work_s > 0.0).then(|| answers / work_s),
            work_s,
            requests: self.requests,
        }
    }
}

/// What must be done after the warm-up for a request or frame, however it is prepared: a rebuild that encodes frames
/// again is the schedule's own.
fn jobs(graph: &Graph, stages: Vec<Stage>) -> impl Iterator<Item = Job> + '_ {
    let own = move |stage: &Stage| stage.counts && graph.stages.contains(&stage.id);
    stages.into_iter().filter(own).map(Job::from)
}

/// The stages that share a lane, in order.
fn bound_stages<'a>(graph: &'a Graph, stages: &'a [Stage]) -> impl Iterator<Item = &'a Stage> {
    let positions = graph.stages.iter().enumerate();
    let bound = positions.filter(|(at, _)| graph.bound >> at & 1 != 0);
    bound.flat_map(|(_, id)| stages.iter().filter(move |stage| stage.id == *id))
}

fn ns(ns: f64) -> sim::time::Duration {
    sim::time::Duration(if ns.is_finite() { ns as u64 } else { 0 })
}

/// The critical path of a request or frame, each stage on its best lane, ns.
#[derive(Clone, Copy, Debug, Default)]
struct Path {
    /// Until the stage that binds it to a lane may start.
    before: f64,
    /// From then to the first token: the bound stages up to the query's prefill.
    first: f64,
    /// All bound stages, which share a lane.
    bound: f64,
}

impl Path {
    fn of(world: &World, stages: &[Stage], query: bool) -> Self {
        let graph = if query {
            &world.query_graph
        } else {
            &world.frame_graph
        };
        let find = |id: StageId| stages.iter().filter(move |stage| stage.id == id);
        // When each position of the graph can have ended; what did not run takes no time.
        let mut ends = vec![0.0_f64; graph.stages.len()];
        for (at, &id) in graph.stages.iter().enumerate() {
            let after = (0..at).filter(|before| graph.after[at] >> before & 1 != 0);
            let ready = after.fold(0.0, |ready: f64, before| ready.max(ends[before]));
            let least: f64 = find(id).map(Stage::least).sum();
            ends[at] = ready + least;
        }
        let first = graph.bound_at as usize;
        let before = (0..first).filter(|before| graph.after[first] >> before & 1 != 0);
        let before = before.fold(0.0, |ready: f64, at| ready.max(ends[at]));
        let bound: Vec<&Stage> = bound_stages(graph, stages).collect();
        let lanes = 0..world.lanes.len();
        let on = |lane: usize| bound.iter().map(|stage| stage.alone[lane].0).sum::<f64>();
        let together = lanes.map(on).fold(f64::INFINITY, f64::min);
        Self {
            before,
            first: find(graph.stages[first]).map(Stage::least).sum(),
            bound: if bound.is_empty() || !together.is_finite() {
                0.0
            } else {
                together
            },
        }
    }
}
