//! What a task costs on a lane, before its own noise.

use crate::contention::Load;
use crate::cost::{At, Noise, StageCosts};
use crate::dispatch::{Task, intensity};
use crate::spec::model::StageKind;
use crate::spec::soc::EngineKind;
use crate::time::Duration;
use crate::world::{EngineId, LaneId, StageId, World};

/// Costs remembered, a power of two.
const REMEMBERED: usize = 128;

/// What a task costs on a lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Played {
    /// Number of the lookup that found it: where it is the same, so is all else. From 1.
    pub(super) id: u64,
    /// Seconds alone, and the same in whole ns.
    pub(super) secs: f64,
    pub(super) alone_ns: f64,
    /// DRAM bytes, and the same in whole bytes.
    pub(super) bytes: f64,
    pub(super) whole_bytes: u64,
    /// Its load alone.
    pub(super) load: Load,
    /// Its time while another lane is busy ÷ its time alone, contention left out.
    pub(super) corun_ratio: f64,
    pub(super) lane: LaneId,
    /// CPU cores that it keeps busy, its lane's own included.
    pub(super) cores: f64,
    /// Share of its time that suffers when the CPU is oversubscribed.
    pub(super) cpu_share: f64,
    pub(super) watts: f64,
    /// Whether size and context lie within what was measured.
    pub(super) measured: bool,
    pub(super) noisy: bool,
}

/// What a cost depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    lane: LaneId,
    stage: StageId,
    source: EngineId,
    stream: u16,
    size: u32,
    context: u32,
}

/// Costs, remembered exactly: a steady workload asks for the same again and again.
#[derive(Debug)]
pub(super) struct Costs {
    remembered: Vec<(Key, Played)>,
    /// Costs looked up so far.
    lookups: u64,
}

impl Costs {
    pub(super) fn new() -> Self {
        let no_key = Key {
            lane: LaneId(u8::MAX),
            stage: StageId(0),
            source: EngineId(0),
            stream: 0,
            size: 0,
            context: 0,
        };
        Self {
            remembered: vec![(no_key, Played::NOTHING); REMEMBERED],
            lookups: 0,
        }
    }

    /// A task's cost on a lane, where a decode generates so many `tokens`.
    #[inline]
    pub(super) fn of(
        &mut self,
        world: &World,
        lane: LaneId,
        task: &Task,
        kind: StageKind,
        tokens: u32,
    ) -> &Played {
        let key = Key {
            lane,
            stage: task.stage,
            source: task.source,
            stream: if kind == StageKind::Encode {
                task.stream.0
            } else {
                0
            },
            size: if kind == StageKind::Decode {
                tokens
            } else {
                task.size
            },
            context: task.context,
        };
        let hash = (key.size ^ key.context.rotate_left(12))
            .wrapping_add(u32::from(key.stage.0) << 8 | u32::from(lane.0))
            .wrapping_mul(0x9e37_79b9);
        let slot = &mut self.remembered[(hash >> 25) as usize % REMEMBERED];
        if slot.0 != key {
            self.lookups += 1;
            let played = Played::look_up(world, lane, task, kind, tokens, self.lookups);
            *slot = (key, played);
        }
        &slot.1
    }
}

impl Played {
    /// What an idle lane plays.
    pub(super) const NOTHING: Self = Self {
        id: 0,
        secs: 0.0,
        alone_ns: 0.0,
        bytes: 0.0,
        whole_bytes: 0,
        load: Load::NONE,
        corun_ratio: 1.0,
        lane: LaneId(0),
        cores: 0.0,
        cpu_share: 0.0,
        watts: 0.0,
        measured: true,
        noisy: false,
    };

    #[cold]
    #[inline(never)]
    fn look_up(
        world: &World,
        lane: LaneId,
        task: &Task,
        kind: StageKind,
        tokens: u32,
        id: u64,
    ) -> Self {
        let engine = world.engine_of(lane);
        let Some(costs) = world.costs.get(engine, task.stage) else {
            // The scheduler starts only what the cost table has.
            unreachable!("stage {} has no cost on engine {}", task.stage.0, engine.0)
        };
        let (n, times) = size(world, task, kind, tokens);
        let port = world.engines[engine.0 as usize].port_bytes_per_s;
        let copy = (kind == StageKind::Import)
            .then(|| world.costs.copy(world.transfer, task.source, engine, n))
            .flatten();
        let alone = copy.unwrap_or_else(|| costs.alone.at(n, task.context.into()));
        let whole = At {
            secs: alone.secs * times,
            bytes: alone.bytes * times,
            measured: alone.measured,
        };
        let At {
            secs,
            bytes,
            measured,
        } = whole;
        let load = Load {
            engine,
            mu: intensity(whole, port),
        };
        let on_cpu = world.engines[engine.0 as usize].kind == EngineKind::Cpu;
        Self {
            id,
            secs,
            alone_ns: Duration::from_secs_f64(secs).0 as f64,
            bytes,
            whole_bytes: (bytes + 0.5) as u64,
            load,
            corun_ratio: costs.corun_ratio,
            lane,
            cores: world.lanes[lane.0 as usize].cores + costs.host_cores,
            cpu_share: if on_cpu { 1.0 } else { costs.host_share },
            watts: watts(world, engine, costs),
            measured,
            noisy: world.noise && costs.noise != Noise::None,
        }
    }
}

/// The size that a task's cost is looked up at, and how many times over.
fn size(world: &World, task: &Task, kind: StageKind, tokens: u32) -> (f64, f64) {
    match kind {
        StageKind::Encode => {
            let frames = &world.streams[task.stream.0 as usize].frames;
            (
                frames.as_ref().map_or(1.0, |frames| frames.megapixels),
                task.size.into(),
            )
        }
        StageKind::Decode => (tokens.into(), 1.0),
        StageKind::Import => (
            f64::from(task.size) * world.model.kv_bytes_per_token as f64,
            1.0,
        ),
        _ => (task.size.into(), 1.0),
    }
}

fn watts(world: &World, engine: EngineId, costs: &StageCosts) -> f64 {
    let own = world.engines[engine.0 as usize].power;
    costs
        .active_w
        .or(own.map(|power| power.active_w))
        .unwrap_or(0.0)
}
