//! Engines on their lanes' threads, told what to do one task at a time, and timed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sim::world::LaneId;

use crate::engine::{CancelToken, Done, Engine, EngineError, Notice, Order, Owner, next};
use crate::registry::KvStore;

/// How long a task took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timed {
    /// By the clock, s; of a task, from when it was sent, as a scheduler counts.
    pub wall_s: f64,
    /// On the lane's thread's CPU, s; `None` where the system does not tell. Less than the clock's where
    /// the thread waited: for others on its core, or for threads of its own.
    pub cpu_s: Option<f64>,
}

#[derive(Debug)]
enum Command {
    /// A task, and when it was sent.
    Do(Order, Instant),
    Tell(Notice),
    /// These again and again, until the flag is up; sent when the first has begun.
    Loop(Vec<Order>, Arc<AtomicBool>),
    Time(fn() -> f64),
    /// Copy a context out, up to a version, without what is held; and when that was sent.
    Export(Arc<dyn KvStore>, Owner, u32, Option<u32>, Instant),
}

type Reply = Result<(Timed, Done), EngineError>;

#[derive(Debug)]
struct Worker {
    commands: Option<SyncSender<Command>>,
    replies: Receiver<Reply>,
    token: CancelToken,
    thread: Option<JoinHandle<()>>,
}

/// The lanes of a world, ready to be measured.
#[derive(Debug)]
pub struct Bench {
    lanes: Vec<Worker>,
}

/// A lane that is kept busy.
#[derive(Debug)]
#[must_use = "it is busy until it is stopped"]
pub struct Busy {
    lane: LaneId,
    stop: Arc<AtomicBool>,
}

fn gone() -> EngineError {
    EngineError::Crashed("its thread is gone".into())
}

impl Bench {
    /// Starts a thread a lane, and waits until all engines are ready.
    pub fn start(engines: Vec<Box<dyn Engine>>) -> Result<Self, EngineError> {
        let lanes = engines
            .into_iter()
            .enumerate()
            .map(|(index, engine)| Worker::start(index, engine))
            .collect::<Result<Vec<_>, _>>()?;
        let bench = Self { lanes };
        for lane in &bench.lanes {
            lane.replies.recv().map_err(|_| gone())??;
        }
        Ok(bench)
    }

    /// Does a task, and says how long it took.
    pub fn run(&self, lane: LaneId, order: Order) -> Result<(Timed, Done), EngineError> {
        self.ask(lane, Command::Do(order, Instant::now()))
    }

    /// Tells a lane's processor something.
    pub fn tell(&self, lane: LaneId, notice: Notice) -> Result<(), EngineError> {
        self.ask(lane, Command::Tell(notice)).map(drop)
    }

    /// Runs a measurement on a lane's thread, and so on its cores.
    pub fn time(&self, lane: LaneId, measure: fn() -> f64) -> Result<f64, EngineError> {
        self.ask(lane, Command::Time(measure))
            .map(|(timed, _)| timed.wall_s)
    }

    /// Copies a context out of a store on a lane's thread, as that lane's imports do, and forgets it.
    pub fn export(
        &self,
        lane: LaneId,
        store: Arc<dyn KvStore>,
        owner: Owner,
        version: u32,
        held: Option<u32>,
    ) -> Result<Timed, EngineError> {
        let command = Command::Export(store, owner, version, held, Instant::now());
        self.ask(lane, command).map(|(timed, _)| timed)
    }

    /// Starts a measurement on several lanes at once, and waits for all.
    pub fn time_together(
        &self,
        lanes: &[LaneId],
        measure: fn() -> f64,
    ) -> Result<Vec<f64>, EngineError> {
        for &lane in lanes {
            self.send(lane, Command::Time(measure))?;
        }
        lanes
            .iter()
            .map(|&lane| Ok(self.hear(lane)?.0.wall_s))
            .collect()
    }

    /// Keeps a lane busy with these tasks, over and over. It has begun when this returns.
    pub fn busy(&self, lane: LaneId, orders: Vec<Order>) -> Result<Busy, EngineError> {
        let stop = Arc::new(AtomicBool::new(false));
        self.send(lane, Command::Loop(orders, stop.clone()))?;
        self.hear(lane)?;
        Ok(Busy { lane, stop })
    }

    /// Lets a lane end the task at hand and rest.
    pub fn rest(&self, busy: &Busy) -> Result<(), EngineError> {
        busy.stop.store(true, Ordering::Release);
        self.hear(busy.lane).map(drop)
    }

    fn ask(&self, lane: LaneId, command: Command) -> Reply {
        self.send(lane, command)?;
        self.hear(lane)
    }

    fn send(&self, lane: LaneId, command: Command) -> Result<(), EngineError> {
        let worker = &self.lanes[lane.0 as usize];
        let commands = worker.commands.as_ref().ok_or_else(gone)?;
        commands.send(command).map_err(|_| gone())
    }

    fn hear(&self, lane: LaneId) -> Reply {
        let worker = &self.lanes[lane.0 as usize];
        worker.replies.recv().map_err(|_| gone())?
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        for lane in &mut self.lanes {
            lane.token.cancel();
            lane.commands = None;
        }
        for lane in &mut self.lanes {
            if let Some(thread) = lane.thread.take() {
                // What it panicked with was a reply.
                let _ = thread.join();
            }
        }
    }
}

impl Worker {
    fn start(index: usize, mut engine: Box<dyn Engine>) -> Result<Self, EngineError> {
        let (commands, orders) = sync_channel::<Command>(1);
        let (answers, replies) = sync_channel::<Reply>(1);
        let token = CancelToken::standalone();
        let own = token.clone();
        let thread = std::thread::Builder::new()
            .name(format!("lane {index}"))
            .spawn(move || {
                let ready = engine.enter().map(|()| rested());
                let mut serves = ready.is_ok() && answers.send(ready.clone()).is_ok();
                if let Err(error) = ready {
                    let _ = answers.send(Err(error));
                }
                while serves {
                    let reply = match next(&orders, &mut *engine) {
                        Ok(Some(command)) => obey(&mut *engine, command, &own, &answers),
                        Ok(None) => return,
                        Err(error) => Err(error),
                    };
                    serves = answers.send(reply).is_ok();
                }
            })
            .map_err(|error| EngineError::Backend(error.to_string()))?;
        Ok(Self {
            commands: Some(commands),
            replies,
            token,
            thread: Some(thread),
        })
    }
}

fn rested() -> (Timed, Done) {
    let timed = Timed {
        wall_s: 0.0,
        cpu_s: None,
    };
    (timed, Done::default())
}

fn obey(
    engine: &mut dyn Engine,
    command: Command,
    token: &CancelToken,
    answers: &SyncSender<Reply>,
) -> Reply {
    match command {
        Command::Do(order, sent) => timed(sent, || engine.run(&order, token)),
        Command::Export(store, owner, version, held, sent) => {
            let (timed, _) = timed(sent, || store.export(owner, version, held))?;
            Ok((timed, Done::default()))
        }
        Command::Tell(notice) => {
            engine.notice(&notice)?;
            Ok(rested())
        }
        Command::Loop(orders, stop) => {
            let mut begun = false;
            while !stop.load(Ordering::Acquire) {
                for order in &orders {
                    if !begun {
                        begun = true;
                        if answers.send(Ok(rested())).is_err() {
                            return Err(gone());
                        }
                    }
                    engine.run(order, token)?;
                    if stop.load(Ordering::Acquire) {
                        break;
                    }
                }
            }
            Ok(rested())
        }
        Command::Time(measure) => {
            let timed = Timed {
                wall_s: measure(),
                cpu_s: None,
            };
            Ok((timed, Done::default()))
        }
    }
}

fn timed<T>(
    sent: Instant,
    run: impl FnOnce() -> Result<T, EngineError>,
) -> Result<(Timed, T), EngineError> {
    let cpu = thread_cpu();
    let done = run()?;
    let wall_s = sent.elapsed().as_secs_f64();
    let spent = thread_cpu().zip(cpu);
    let cpu_s = spent.map(|(after, before)| after.saturating_sub(before).as_secs_f64());
    Ok((Timed { wall_s, cpu_s }, done))
}

/// CPU time of the calling thread.
#[cfg(all(unix, any(feature = "live-llama", feature = "live-ort")))]
#[expect(clippy::unnecessary_wraps, reason = "other systems do not tell")]
fn thread_cpu() -> Option<Duration> {
    let at = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Some(Duration::new(at.tv_sec as u64, at.tv_nsec as u32))
}

/// Nobody tells.
#[cfg(not(all(unix, any(feature = "live-llama", feature = "live-ort"))))]
fn thread_cpu() -> Option<Duration> {
    None
}
