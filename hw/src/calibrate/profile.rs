//! Measurements to a profile: costs of a model on a SoC, and the SoC's ports and pair slowdowns.

mod costs;
mod fits;
mod soc;

use sim::dispatch::Task;
use sim::soc::Beside;
use sim::spec::model::StageKind;
use sim::world::{EngineId, LaneId, StageId, StreamId, World};

use super::point::{Measured, Point, Series};
use costs::costs_text;
use fits::fits;
pub use fits::{Quality, Refreshed};
use soc::soc_text;

/// What the notes of a profile say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// Date, as people write it.
    pub date: String,
    /// Machine.
    pub host: String,
    /// Versions of what computed.
    pub versions: String,
    /// Bytes of the language model's copy that each processor loads for itself; `None`: not known.
    pub weights_copy_bytes: Option<u64>,
}

/// A slowdown of one engine by another.
#[derive(Clone, Debug, PartialEq)]
pub struct Slowdown {
    /// Engine that is watched.
    pub victim: String,
    /// What it does.
    pub does: StageKind,
    /// Engine beside it.
    pub aggressor: String,
    /// What that does.
    pub beside: StageKind,
    /// Time beside ÷ time alone, as measured; noise may make it less than 1.
    pub factor: f64,
    /// Half its 95 % interval, as a share of it, by what turns differ by; `None`: a single turn.
    pub half_width: Option<f64>,
    /// The part of it that comes from sharing CPU cores, as the simulator has it: pins say so, and it is
    /// not the memory's.
    pub cpu: f64,
}

/// A calibrated profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The cost file.
    pub costs: String,
    /// The SoC's file, with what was measured put in.
    pub soc: String,
    /// How well each form fits.
    pub quality: Vec<Quality>,
    /// Slowdowns by pair.
    pub slowdowns: Vec<Slowdown>,
}

/// Why there is no profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The SoC's file is not one.
    #[error("the SoC's profile cannot be changed: {0}")]
    Soc(String),
    /// Nothing was measured of a stage that the profile must have.
    #[error("no sample of `{stage}` on engine `{engine}`: its cost cannot be given")]
    NoSample {
        /// Engine, by name.
        engine: String,
        /// Stage, by name.
        stage: String,
    },
}

/// Fits what was measured. `later` is what was measured again after that: each stage's form is multiplied by what
/// its samples there take of it. `soc` is the SoC's file as it is; its memory, lanes, weights and power stay.
pub fn profile(
    world: &World,
    measured: &Measured,
    later: Option<&Measured>,
    soc: &str,
    provenance: &Provenance,
) -> Result<Profile, ProfileError> {
    let fits = fits(world, measured, later)?;
    let ports = ports(world, measured);
    let costs = costs_text(world, &fits, provenance);
    let slowdowns = slowdowns(world, measured);
    let soc = soc_text(world, soc, &fits, &ports, &slowdowns, measured, provenance)?;
    Ok(Profile {
        costs,
        soc,
        quality: fits,
        slowdowns,
    })
}

/// The greatest reading rate of an engine's lanes alone, GB/s, by engine.
fn ports(world: &World, measured: &Measured) -> Vec<Option<f64>> {
    let rate = |lane: &str| {
        let point = Point::Stream {
            lane: lane.to_owned(),
            together: false,
        };
        measured.series.get(&point).and_then(Series::median)
    };
    (0..world.engines.len())
        .map(|engine| {
            let lanes = world.lanes.iter();
            lanes
                .filter(|lane| usize::from(lane.engine.0) == engine)
                .filter_map(|lane| rate(&lane.name))
                .max_by(f64::total_cmp)
        })
        .collect()
}

/// The part of a stage's slowdown beside another that comes from sharing CPU cores.
fn cpu_factor(world: &World, pair: [(&str, StageKind); 2]) -> Option<f64> {
    let beside = |(engine, kind): (&str, StageKind)| {
        let lane = world
            .lanes
            .iter()
            .position(|lane| world.engines[usize::from(lane.engine.0)].name == engine)?;
        let stage = world.stages.iter().position(|stage| stage.kind == kind)?;
        let (lane, stage) = (LaneId(lane as u8), StageId(stage as u8));
        world.costs.get(world.engine_of(lane), stage)?;
        let task = Task {
            stage,
            ticket: 0,
            stream: StreamId(0),
            size: 1,
            context: 0,
            version: 0,
            source: EngineId(0),
        };
        Some(Beside { lane, task })
    };
    let [victim, aggressor] = pair;
    let tasks = [beside(victim)?, beside(aggressor)?];
    sim::soc::corun(world, &tasks)
        .first()
        .map(|corun| corun.cpu)
}

fn slowdowns(world: &World, measured: &Measured) -> Vec<Slowdown> {
    let beside = measured.series.iter().filter_map(|(point, series)| {
        let Point::Pair {
            victim,
            does,
            aggressor,
            beside,
            busy: true,
        } = point
        else {
            return None;
        };
        let alone = Point::Pair {
            victim: victim.clone(),
            does: *does,
            aggressor: aggressor.clone(),
            beside: *beside,
            busy: false,
        };
        Some(Slowdown {
            victim: victim.clone(),
            does: *does,
            aggressor: aggressor.clone(),
            beside: *beside,
            factor: series.median()? / measured.series.get(&alone)?.median()?,
            half_width: measured.turns(&alone, point).half_width(),
            cpu: cpu_factor(world, [(victim, *does), (aggressor, *beside)])?,
        })
    });
    beside.collect()
}
