//! Where an error comes from: how long stages took, alone and beside others, against their cost alone.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sim::dispatch::{Effect, Input, Task};
use sim::drive::Sink;
use sim::spec::model::StageKind;
use sim::time::Instant;
use sim::world::{EngineId, World};

/// Times of one kind of stage on one engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageRow {
    /// Engine.
    pub engine: String,
    /// Stage.
    pub stage: String,
    /// Tasks during which no other lane worked.
    pub solo: u64,
    /// Their time, s.
    pub solo_s: f64,
    /// Their time by the cost table, s.
    pub solo_alone_s: f64,
    /// Their time ÷ the cost table's: 1 where the table is right.
    pub solo_ratio: Option<f64>,
    /// Tasks during which another lane worked for some of the time.
    pub shared: u64,
    /// Their time ÷ the cost table's alone: the slowdown, where the table is right.
    pub shared_ratio: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Total {
    count: u64,
    secs: f64,
    alone: f64,
}

impl Total {
    fn ratio(self) -> Option<f64> {
        (self.alone > 0.0).then(|| self.secs / self.alone)
    }
}

/// Collects the times of a run's tasks, live or simulated.
#[derive(Debug)]
pub struct StageTimes<'w> {
    world: &'w World,
    running: Vec<Option<(Task, Instant, bool)>>,
    /// By engine and stage: alone, beside others.
    totals: BTreeMap<(u8, u8), [Total; 2]>,
}

impl<'w> StageTimes<'w> {
    /// Nothing yet.
    pub fn new(world: &'w World) -> Self {
        Self {
            world,
            running: vec![None; world.lanes.len()],
            totals: BTreeMap::new(),
        }
    }

    /// By engine, then stage.
    pub fn rows(&self) -> Vec<StageRow> {
        self.totals
            .iter()
            .map(|(&(engine, stage), [solo, shared])| StageRow {
                engine: self.world.engines[usize::from(engine)].name.clone(),
                stage: self.world.stages[usize::from(stage)].name.clone(),
                solo: solo.count,
                solo_s: solo.secs,
                solo_alone_s: solo.alone,
                solo_ratio: solo.ratio(),
                shared: shared.count,
                shared_ratio: shared.ratio(),
            })
            .collect()
    }

    /// Time of a task by the cost table, alone; a decode generated `tokens`.
    fn alone(&self, engine: EngineId, task: &Task, tokens: u32) -> Option<f64> {
        let world = self.world;
        let cost = world.costs.get(engine, task.stage)?;
        let context = f64::from(task.context);
        let size = f64::from(task.size);
        let megapixels = || {
            let stream = &world.streams[task.stream.0 as usize];
            stream
                .frames
                .as_ref()
                .map_or(1.0, |frames| frames.megapixels)
        };
        let kv = size * world.model.kv_bytes_per_token as f64;
        Some(match world.stages[task.stage.0 as usize].kind {
            StageKind::Encode => size * cost.alone.at(megapixels(), context).secs,
            StageKind::Decode => cost.alone.at(f64::from(tokens), context).secs,
            StageKind::Import => {
                let out = world.costs.get(task.source, world.transfer.export);
                let out = out.map_or(0.0, |out| out.alone.at(kv, 0.0).secs);
                cost.alone.at(kv, 0.0).secs + out
            }
            _ => cost.alone.at(size, context).secs,
        })
    }
}

impl Sink for StageTimes<'_> {
    fn input(&mut self, now: Instant, input: &Input) {
        let (lane, tokens) = match *input {
            Input::Finish { lane, tokens, .. } => (lane, tokens),
            Input::Fail { lane } => {
                self.running[lane.0 as usize] = None;
                return;
            }
            _ => return,
        };
        let Some((task, began, shared)) = self.running[lane.0 as usize].take() else {
            return;
        };
        let engine = self.world.engine_of(lane);
        let Some(alone) = self.alone(engine, &task, tokens) else {
            return;
        };
        let both = self.totals.entry((engine.0, task.stage.0)).or_default();
        let total = &mut both[usize::from(shared)];
        total.count += 1;
        total.secs += now.saturating_since(began).as_secs_f64();
        total.alone += alone;
    }

    fn effect(&mut self, now: Instant, effect: &Effect) {
        let Effect::Start { lane, task } = *effect else {
            return;
        };
        let mut shared = false;
        for other in self.running.iter_mut().flatten() {
            // What starts when the other ends has not met it; that end came before this in the trace.
            other.2 = true;
            shared = true;
        }
        self.running[lane.0 as usize] = Some((task, now, shared));
    }
}
