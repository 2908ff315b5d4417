//! Whether an edge is one of the scenario, or of runs of its length alone.

use sim::diag::Faults;
use sim::spec::scenario::Keep;
use sim::time::Instant;
use sim::workload::{FramePlan, FrameTimes};
use sim::world::World;

use super::Case;
use super::axis::Axis;
use super::probe::{Probe, Verdict};
use super::scale::Resource;
use super::search::Edge;
use super::target::Target;

/// How many times as long the other runs are.
const LONGER: f64 = 2.0;
/// Share of a value by which it is worse in longer runs before that is told.
const RISE: f64 = 0.05;

/// A metric that is worse in longer runs: its edge holds for runs of one length.
#[derive(Clone, Debug)]
pub struct Rise {
    /// The target, as the user wrote it.
    pub target: String,
    /// The load, or the times of a resource, at which this was seen: of the edge, the end that meets, else the other.
    pub load: f64,
    /// Length of the runs, s.
    pub run_s: f64,
    /// Length of the longer runs, s.
    pub longer_s: f64,
    /// Means over runs of either length, in the metric's own unit.
    pub means: (f64, f64),
    /// What the targets say of the longer runs.
    pub verdict: Verdict,
    /// Why, as far as the scenario tells, and what would mend it.
    pub cause: String,
}

/// Targets whose metrics get worse as runs of the load at the edge last longer, on the same draws. They are told where
/// the 95 % interval of the difference does not span 0, and it is more than 5 %.
///
/// # Errors
///
/// What a policy's script stopped a run with.
pub(super) fn rises(
    case: &Case<'_>,
    axis: Axis,
    targets: &[Target],
    edge: &Edge,
) -> Result<Vec<Rise>, Faults> {
    let at = edge.meets.or(edge.misses);
    let Some(load) = at.filter(|load| {
        let known = edge.probe(*load);
        known.is_some_and(|probe| probe.refused.is_none())
    }) else {
        return Ok(Vec::new());
    };
    rises_at(case, Some((axis, load)), None, targets)
}

/// The same of one load, or of the scenario as it is with some times of a resource.
pub(super) fn rises_at(
    case: &Case<'_>,
    axis: Option<(Axis, f64)>,
    change: Option<(&Resource, f64)>,
    targets: &[Target],
) -> Result<Vec<Rise>, Faults> {
    let load = axis.map_or_else(|| change.map_or(1.0, |(_, times)| times), |(_, load)| load);
    let Some((world, longer)) = both(case, axis, change) else {
        return Ok(Vec::new());
    };
    let runs = case.count(&world, true);
    let here = Probe::run(&world, load, runs, None, targets)?;
    let there = Probe::run(&longer, load, runs, None, targets)?;
    let worse = |(index, target): (usize, &Target)| {
        let difference = there
            .runs
            .difference(&here.runs, |run| target.metric.of(run))?;
        let means = (here.value(index)?, there.value(index)?);
        let rise = if target.metric.rises() {
            -difference.mean
        } else {
            difference.mean
        };
        let told = difference.excludes_zero() == Some(true) && rise > RISE * means.0.abs();
        told.then(|| Rise {
            target: target.text.clone(),
            load,
            run_s: world.horizon.as_secs_f64(),
            longer_s: longer.horizon.as_secs_f64(),
            means,
            verdict: there.verdict,
            cause: cause(&world),
        })
    };
    Ok(targets.iter().enumerate().filter_map(worse).collect())
}

/// The world at a load or with some times of a resource, and the same for longer, on draws that no search has seen;
/// `None` where nothing but its sources' counts ends a run.
fn both(
    case: &Case<'_>,
    axis: Option<(Axis, f64)>,
    change: Option<(&Resource, f64)>,
) -> Option<(World, World)> {
    let text = match axis {
        Some((axis, load)) => axis.at(&case.text, load).ok()?,
        None => case.text.clone(),
    };
    let of = |text: String| {
        let own = Case {
            name: case.name.clone(),
            text,
            ..*case
        };
        let mut world = own.world(None, change).ok()?;
        world.seed = Case::fresh_seed(&world);
        Some(world)
    };
    let mut document: toml_edit::DocumentMut = text.parse().ok()?;
    let world = of(text)?;
    if world.horizon == Instant::NEVER {
        return None;
    }
    document["run"]["horizon_s"] = toml_edit::value(LONGER * world.horizon.as_secs_f64());
    Some((world, of(document.to_string())?))
}

/// What of the scenario makes times rise with the length of its runs.
fn cause(world: &World) -> String {
    let plans = || world.streams.iter().filter_map(|s| s.frames.as_ref());
    match world.keep {
        Keep::All if plans().next().is_some() => {
            "contexts grow as long as frames arrive: bound them with `keep` in [context]".to_owned()
        }
        Keep::Window { frames } | Keep::Sinks { recent: frames, .. } => {
            let filled = |plan: &&FramePlan| plan.most(world.horizon) > u64::from(frames);
            let periods = plans().filter(filled).filter_map(|plan| match &plan.clock {
                FrameTimes::Periodic { period_s, .. } => {
                    Some(plan.start.as_secs_f64() + f64::from(frames) * period_s)
                }
                FrameTimes::Listed(list) => {
                    let last = list.get(frames.saturating_sub(1) as usize)?;
                    Some(last.as_secs_f64())
                }
            });
            let full = periods.fold(0.0, f64::max);
            let warm_up = world.warm_up.as_secs_f64();
            if full > warm_up {
                return format!(
                    "a window of {frames} frames is full only after {full:.0} s, and the first {warm_up} s are left out: lengthen the run and its `warm_up_s`"
                );
            }
            LENGTHEN.to_owned()
        }
        Keep::All => LENGTHEN.to_owned(),
    }
}

const LENGTHEN: &str = "lengthen the run until that changes nothing";
