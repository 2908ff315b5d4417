//! Calibration of engines that pretend: what is measured is what they took, and the profile says so.

#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "../common/mod.rs"]
mod common;
mod fitted;
mod walked;

use hw::calibrate::Point;
use sim::world::{EngineId, StageId, World};

/// Time of a point by the world's table, s.
fn truth(world: &World, point: &Point) -> f64 {
    let Point::Stage {
        engine,
        kind,
        size,
        context,
    } = point
    else {
        panic!("{point:?} is no stage")
    };
    let of = |kind| {
        let index = world.stages.iter().position(|stage| stage.kind == kind);
        StageId(index.unwrap() as u8)
    };
    let on = world.engines.iter().position(|other| other.name == *engine);
    let on = EngineId(on.unwrap() as u8);
    let cost = world.costs.get(on, of(*kind)).unwrap();
    cost.alone.at(*size as f64, f64::from(*context)).secs
}
