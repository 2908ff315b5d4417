//! What a profile predicts of samples that no fit used: engines all at once, and a prefix imported or
//! prefilled again.

use sim::dispatch::Task;
use sim::soc::{Beside, corun};
use sim::spec::model::StageKind;
use sim::world::{EngineId, LaneId, StageId, StreamId, World};

use super::plan::Plan;
use super::point::{Measured, Point};

/// An engine's slowdown while a lane of every other engine is busy.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Engine that is watched.
    pub victim: String,
    /// What it does.
    pub does: StageKind,
    /// Engines at once, with it.
    pub engines: usize,
    /// Time beside the others ÷ time alone.
    pub measured: f64,
    /// What its samples leave open of it (half of 95 %), as a share; `None` of too few.
    pub noise: Option<f64>,
    /// The same as predicted.
    pub predicted: f64,
}

/// A prefix brought to another engine.
#[derive(Clone, Debug, PartialEq)]
pub struct Prefix {
    /// Engine that has it.
    pub from: String,
    /// Engine that is to have it.
    pub to: String,
    /// Its tokens.
    pub tokens: u32,
    /// Time to prefill it again ÷ time to import it.
    pub measured: f64,
    /// What its samples leave open of it (half of 95 %), as a share; `None` of too few.
    pub noise: Option<f64>,
    /// The same as predicted.
    pub predicted: f64,
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checks {
    /// Engines at once.
    pub groups: Vec<Group>,
    /// Prefixes.
    pub prefixes: Vec<Prefix>,
}

/// The kind's stage in a world.
pub(super) fn stage(world: &World, kind: StageKind) -> Option<StageId> {
    let index = world.stages.iter().position(|stage| stage.kind == kind);
    index.map(|index| StageId(index as u8))
}

fn runs(world: &World, lane: LaneId, kind: StageKind) -> bool {
    let stage = stage(world, kind);
    stage.is_some_and(|stage| world.costs.get(world.engine_of(lane), stage).is_some())
}

/// The first lane of each engine, with what it does while all are busy: it decodes if it can, else it encodes.
pub(super) fn members(world: &World) -> Vec<(LaneId, StageKind)> {
    let mut members: Vec<(LaneId, StageKind)> = Vec::new();
    for index in 0..world.lanes.len() {
        let lane = LaneId(index as u8);
        let engine = world.engine_of(lane);
        let known = members
            .iter()
            .any(|(other, _)| world.engine_of(*other) == engine);
        let kinds = [StageKind::Decode, StageKind::Encode];
        let kind = kinds.into_iter().find(|&kind| runs(world, lane, kind));
        if let Some(kind) = kind.filter(|_| !known) {
            members.push((lane, kind));
        }
    }
    members
}

fn lane_of(world: &World, engine: &str) -> Option<LaneId> {
    let lane = world
        .lanes
        .iter()
        .position(|lane| world.engines[usize::from(lane.engine.0)].name == engine);
    lane.map(|lane| LaneId(lane as u8))
}

/// Holds a calibrated world against the checks that were measured under `plan`.
pub fn checks(world: &World, plan: &Plan, measured: &Measured) -> Checks {
    let median = |point: &Point| measured.series.get(point)?.median();
    // Of a ratio of two means.
    let noise = |points: [&Point; 2]| {
        let half = |point: &Point| measured.series.get(point)?.half_width();
        Some(half(points[0])?.hypot(half(points[1])?))
    };
    let task = |kind, size, context, source| {
        let stage = stage(world, kind)?;
        Some(Task {
            stage,
            ticket: 0,
            stream: StreamId(0),
            size,
            context,
            version: 0,
            source,
        })
    };
    let mut checks = Checks::default();
    let members = members(world);
    let depth = world.model.system_tokens + plan.frames.first().copied().unwrap_or(0);
    let tasks: Option<Vec<Beside>> = members
        .iter()
        .map(|&(lane, kind)| {
            let (size, context) = match kind {
                StageKind::Decode => (plan.beside.1 - 1, depth + plan.beside.0),
                _ => (1, 0),
            };
            let task = task(kind, size, context, EngineId(0))?;
            Some(Beside { lane, task })
        })
        .collect();
    if let Some(tasks) = tasks {
        for (&(lane, does), predicted) in members.iter().zip(corun(world, &tasks)) {
            let victim = world.engines[usize::from(world.engine_of(lane).0)]
                .name
                .clone();
            let point = |busy| Point::Group {
                victim: victim.clone(),
                does,
                busy,
            };
            if let Some((beside, alone)) = median(&point(true)).zip(median(&point(false))) {
                checks.groups.push(Group {
                    does,
                    engines: members.len(),
                    measured: beside / alone,
                    noise: noise([&point(true), &point(false)]),
                    predicted: predicted.slowdown,
                    victim,
                });
            }
        }
    }
    for point in measured.series.keys() {
        let Point::Prefix {
            from,
            to,
            tokens,
            imported: true,
        } = point
        else {
            continue;
        };
        let again = Point::Prefix {
            from: from.clone(),
            to: to.clone(),
            tokens: *tokens,
            imported: false,
        };
        let secs = |kind| {
            let (lane, source) = (lane_of(world, to)?, lane_of(world, from)?);
            let task = task(kind, *tokens, 0, world.engine_of(source))?;
            world.costs.get(world.engine_of(lane), task.stage)?;
            Some(corun(world, &[Beside { lane, task }])[0].alone_s)
        };
        // Means, as costs are: copies take little, and vary much.
        let mean = |point: &Point| measured.series.get(point)?.mean();
        let times = [mean(&again), mean(point)];
        let predicted = [secs(StageKind::Reconstruct), secs(StageKind::Import)];
        if let ([Some(prefill), Some(import)], [Some(prefills), Some(imports)]) = (times, predicted)
        {
            checks.prefixes.push(Prefix {
                from: from.clone(),
                to: to.clone(),
                tokens: *tokens,
                measured: prefill / import,
                noise: noise([&again, point]),
                predicted: prefills / imports,
            });
        }
    }
    checks
}
