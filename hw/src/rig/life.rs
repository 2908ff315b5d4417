//! Starting lanes and ending them.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};

use sim::time::Instant;
use sim::workload::Workload;
use sim::world::{LaneId, World};

use super::{Lane, Options, Outcome, Rig, StartError};
use crate::cancel::{CancelToken, Signal};
use crate::clock::Clock;
use crate::cpu_time::CpuTime;
use crate::engine::Engine;
use crate::tickets::Tickets;
use crate::worker::{Report, Worker};

/// A task and a wake-up may be under way to a lane at once.
const MESSAGES: usize = 2;

impl<'w> Rig<'w> {
    /// Starts a thread per lane, waits until every engine is ready, and starts the clock.
    ///
    /// `engines` are the workers of the world's lanes, in order.
    pub fn start(
        world: &'w World,
        engines: Vec<Box<dyn Engine>>,
        options: &Options,
    ) -> Result<Self, StartError> {
        if engines.len() != world.lanes.len() {
            return Err(StartError::Engines {
                lanes: world.lanes.len(),
                given: engines.len(),
            });
        }
        // A lane tells at most that it waits and that it ended before the driver acts on either.
        let (sender, reports) = sync_channel(4 * engines.len().max(1));
        let mut rig = Self {
            world,
            workload: Workload::new(
                &world.streams,
                world.seed,
                options.run,
                world.horizon,
                world.prediction,
            ),
            clock: Clock::new(options.pace),
            task_deadline: options.task_deadline,
            grace: options.grace,
            lanes: Vec::with_capacity(engines.len()),
            mailboxes: world.engines.iter().map(|_| Arc::default()).collect(),
            reports,
            tickets: Tickets::new(world),
            last: Instant::ZERO,
            outcome: Outcome::default(),
            cpu_time: None,
        };
        for (index, engine) in engines.into_iter().enumerate() {
            rig.add_lane(LaneId(index as u8), engine, sender.clone())?;
        }
        drop(sender);
        rig.await_engines()?;
        rig.clock.start();
        rig.cpu_time = CpuTime::now();
        Ok(rig)
    }

    fn add_lane(
        &mut self,
        lane: LaneId,
        engine: Box<dyn Engine>,
        reports: SyncSender<Report>,
    ) -> Result<(), StartError> {
        let name = &self.world.lanes[lane.0 as usize].name;
        let on = self.world.engine_of(lane);
        let (sender, messages) = sync_channel(MESSAGES);
        let signal = Arc::<Signal>::default();
        let worker = Worker {
            lane,
            engine,
            mailbox: self.mailboxes[on.0 as usize].clone(),
            messages,
            clock: self.clock.clone(),
            token: CancelToken::new(signal.clone(), self.clock.clone(), lane, reports.clone()),
            reports,
        };
        let thread = std::thread::Builder::new()
            .name(name.clone())
            .spawn(move || worker.serve())
            .map_err(|error| StartError::Thread {
                lane: name.clone(),
                error,
            })?;
        self.lanes.push(Lane {
            engine: on,
            messages: Some(sender),
            signal,
            thread: Some(thread),
            running: None,
            ended: None,
            waits: None,
            woken: false,
        });
        Ok(())
    }

    fn await_engines(&mut self) -> Result<(), StartError> {
        for _ in 0..self.lanes.len() {
            // Every worker reports once before anything else, so there is always one more to come.
            if let Ok(Report::Entered {
                lane,
                outcome: Err(error),
            }) = self.reports.recv()
            {
                return Err(StartError::Engine {
                    lane: self.world.lanes[lane.0 as usize].name.clone(),
                    error,
                });
            }
        }
        Ok(())
    }

    /// Ends all lanes and says what the run left. Never waits longer than [`Options::grace`].
    pub fn shutdown(mut self) -> Outcome {
        let looks = CpuTime::now().zip(self.cpu_time);
        self.outcome.cpu_time = looks.map(|(now, began)| now.since(began));
        self.stop();
        std::mem::take(&mut self.outcome)
    }

    fn stop(&mut self) {
        for lane in &mut self.lanes {
            lane.messages = None;
            lane.signal.cancel();
        }
        let give_up = std::time::Instant::now() + self.grace;
        loop {
            let left = give_up.saturating_duration_since(std::time::Instant::now());
            match self.reports.recv_timeout(left) {
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => break,
                // Every engine is gone.
                Err(RecvTimeoutError::Disconnected) => {
                    for thread in self.lanes.iter_mut().filter_map(|lane| lane.thread.take()) {
                        let _ = thread.join();
                    }
                    return;
                }
            }
        }
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            match lane.thread.take() {
                Some(thread) if thread.is_finished() => {
                    let _ = thread.join();
                }
                Some(_) => self.outcome.stuck.push(LaneId(index as u8)),
                None => {}
            }
        }
    }
}

impl Drop for Rig<'_> {
    fn drop(&mut self) {
        self.stop();
    }
}
