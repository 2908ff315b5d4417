//! Stages that ran outside what their costs were measured for, and how much of their times comes from there.

use sim::spec::scenario::Keep;
use sim::world::World;

use super::probe::Probe;

/// What is to be said of the stages that a probe ran outside of their measured ranges.
pub(super) fn remarks(world: &World, probe: &Probe) -> Vec<String> {
    let outside = reports::json::outside(&probe.runs);
    let longest = longest(world);
    let said = outside.iter().filter_map(|(engine, stage, _)| {
        let row = world.engines.iter().position(|known| known.name == *engine)?;
        let column = world.stages.iter().position(|known| known.name == *stage)?;
        let cost = &world.costs.rows.get(row)?.get(column)?.as_ref()?.alone;
        let whole = |value: f64| format!("{value:.0}");
        let (from, to) = cost.measured_context;
        let mut parts = Vec::new();
        let (least, most) = cost.measured_tokens;
        if most.is_finite() {
            parts.push(format!("{} to {} tokens", whole(least), whole(most)));
        }
        if to.is_finite() {
            parts.push(format!("on contexts of {} to {}", whole(from), whole(to)));
        }
        let far = longest.filter(|longest| to.is_finite() && *longest > to).map(|longest| {
            let (near, far) = (cost.at(1.0, to).secs, cost.at(1.0, longest).secs);
            let adds = if far > near {
                format!(
                    "{:.0} % of a token's time is what a straight line adds beyond that",
                    100.0 * (far - near) / far
                )
            } else {
                "a token is taken to cost no more than there: no row tells what a longer context adds".to_owned()
            };
            format!("; contexts reach {} tokens of frames, where {adds}", whole(longest))
        });
        Some(format!(
            "{stage}@{engine} ran outside what was measured ({}), and no interval says how far off its times are there{}",
            parts.join(" "),
            far.unwrap_or_default()
        ))
    });
    said.collect()
}

/// Tokens of frames that the longest context has; `None` where no stream has frames.
fn longest(world: &World) -> Option<f64> {
    let plans = world
        .streams
        .iter()
        .filter_map(|stream| stream.frames.as_ref());
    let tokens = plans.map(|plan| {
        let most = plan.most(world.horizon);
        let kept = match world.keep {
            Keep::Window { frames } => most.min(frames.into()),
            Keep::Sinks { first, recent } => most.min(u64::from(first) + u64::from(recent)),
            Keep::All => most,
        };
        kept as f64 * f64::from(plan.tokens)
    });
    let most = f64::from(world.model.max_context_tokens);
    tokens.reduce(f64::max).map(|tokens| tokens.min(most))
}
