//! What limits a load, and what one per cent more of each resource buys.

use reports::interval::Estimate;
use sim::diag::Faults;
use sim::world::World;

use super::Case;
use super::axis::Axis;
use super::probe::{Probe, Verdict};
use super::scale::Resource;
use super::search::{Edge, Look};
use super::target::Target;

/// How much more of a resource is tried: enough to stand out of what a run's events round away.
const STEP: f64 = 1.05;
/// Change of a metric for 1 % more of a resource below which it counts as none, %: what a table rounds to 0.
const NONE: f64 = 0.005;

/// What more of a resource does.
#[derive(Clone, Debug)]
pub struct Buys {
    /// The resource.
    pub resource: Resource,
    /// Change of the binding metric, % for 1 % more of it, over replications on the same arrivals; negative is less.
    pub metric: Option<Estimate>,
    /// Load that it buys at the same metric, % for 1 %; absent where the change cannot be told from none.
    pub load: Option<f64>,
}

/// What limits.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The load just beyond the edge at which this was seen.
    pub load: f64,
    /// Text of the target that is missed there.
    pub target: String,
    /// Why the load is not carried there, whatever the target; absent where the metric's value misses.
    pub reason: Option<String>,
    /// What limits: an engine, the bandwidth, memory or the policy, with the number that says so.
    pub because: Vec<String>,
    /// The load at which that was seen: `load`, or the one that meets where `load` is not carried.
    pub buys_at: f64,
    /// What one per cent more of each resource buys there, the most first.
    pub buys: Vec<Buys>,
    /// Why some of that has no number, in words.
    pub untold: Vec<String>,
}

/// What limits the load beyond an edge.
///
/// # Errors
///
/// What a policy's script stopped a run with.
pub fn limits(
    case: &Case<'_>,
    axis: Axis,
    targets: &[Target],
    edge: &Edge,
) -> Result<Option<Limits>, Faults> {
    let low = edge.meets;
    let Some(beyond) = beyond(axis, targets, edge) else {
        return Ok(None);
    };
    let high = beyond.load;
    if let Some(why) = &beyond.refused {
        return Ok(Some(Limits {
            load: high,
            target: "every target".to_owned(),
            reason: Some(why.clone()),
            because: Vec::new(),
            buys_at: high,
            buys: Vec::new(),
            untold: Vec::new(),
        }));
    }
    let mut held = beyond.held.iter();
    let Some(missed) = held.position(|held| held.verdict == Verdict::Misses) else {
        return Ok(None);
    };
    let target = &targets[missed];
    let reason = beyond.held[missed].reason.clone();
    let mut because = Vec::new();
    let world = case.world(Some((axis, high)), None).ok();
    if let Some(world) = &world {
        if reason.is_some() {
            let longest = world.model.max_context_tokens;
            because.extend(reports::warning::refusals(longest, &beyond.runs));
        }
        because.extend(other_policy(case, axis, high, targets, world)?);
        because.extend(busy(world, beyond));
    }
    let seen = low;
    // Beyond what is carried a metric is that of the runs' length.
    let at = low.filter(|_| reason.is_some()).unwrap_or(high);
    let low = low.unwrap_or(high);
    let mut buys = match &world {
        Some(world) => sensitivities(case, axis, targets, missed, at, (low, high), world)?,
        None => Vec::new(),
    };
    if reason.is_some() {
        // The metric's value is not what ends at the edge, so its slope says nothing of the load.
        for buys in &mut buys {
            buys.load = None;
        }
    } else if let Some(most) = buys.first() {
        because.push(if most.tells() {
            match tied(&buys).as_slice() {
                [] => format!("{} moves `{}` most", most.resource, target.metric),
                others => format!(
                    "of {} and {}, which moves `{}` most is not told: their intervals overlap",
                    most.resource,
                    others.join(" and "),
                    target.metric
                ),
            }
        } else {
            format!("no resource is seen to move `{}`", target.metric)
        });
    }
    let untold = untold(&buys, seen, reason.is_some(), target);
    Ok(Some(Limits {
        load: high,
        target: target.text.clone(),
        reason,
        because,
        buys_at: at,
        buys,
        untold,
    }))
}

/// Why what is bought has no number where it has none: of the metric, and of the load where the metric has one.
fn untold(buys: &[Buys], meets: Option<f64>, overloaded: bool, target: &Target) -> Vec<String> {
    let mut list = Vec::new();
    if buys.iter().any(|buys| buys.metric.is_none()) {
        list.push(format!(
            "no value: no run there has a `{}`, with or without more of the resource",
            target.metric
        ));
    }
    if buys.iter().any(|buys| buys.tells() && buys.load.is_none()) {
        list.push(if overloaded {
            "no load: the next load is not carried, whatever the target, so the metric's value is not what ends there".to_owned()
        } else if meets.is_none() {
            "no load: none meets the targets, so how the metric moves from one load to the next is not known".to_owned()
        } else {
            format!(
                "no load: that `{}` moves with the load at all is not told between the two ends",
                target.metric
            )
        });
    }
    list
}

/// Resources whose change cannot be told from that of the first, which changes the metric most.
fn tied(buys: &[Buys]) -> Vec<String> {
    let reach = |buys: &Buys| {
        let change = buys.metric.filter(|_| buys.tells())?;
        Some((change.mean.abs(), change.half_width.unwrap_or(0.0)))
    };
    let Some((most, others)) = buys.split_first() else {
        return Vec::new();
    };
    let Some((mean, half)) = reach(most) else {
        return Vec::new();
    };
    let near = others
        .iter()
        .filter(|buys| reach(buys).is_some_and(|(other, own)| other + own >= mean - half));
    near.map(|buys| buys.resource.to_string()).collect()
}

/// The load at which is told what limits: the smallest that misses beyond the edge. Where none meets and more load may
/// be better, the one that comes nearest.
fn beyond<'a>(axis: Axis, targets: &[Target], edge: &'a Edge) -> Option<&'a Probe> {
    let high = edge.probe(edge.misses?);
    if edge.meets.is_some() || targets.iter().all(|target| axis.monotone(target.metric)) {
        return high;
    }
    // How many times the bound is missed by the target that is missed most.
    let excess = |probe: &Probe| {
        let by = targets.iter().zip(&probe.held).map(|(target, held)| {
            let value = held.value.filter(|_| held.reason.is_none());
            value.map_or(f64::INFINITY, |value| target.excess(value.mean))
        });
        by.fold(0.0, f64::max)
    };
    let misses = edge.probes.iter().filter(|probe| {
        probe.verdict == Verdict::Misses && probe.refused.is_none() && excess(probe).is_finite()
    });
    misses
        .min_by(|a, b| excess(a).total_cmp(&excess(b)))
        .or(high)
}

/// How full lanes, the memory's bandwidth and its capacity are.
fn busy(world: &World, probe: &Probe) -> Vec<String> {
    let mut list = Vec::new();
    let mut engines: Vec<(f64, &str)> = world
        .engines
        .iter()
        .enumerate()
        .filter_map(|(index, engine)| {
            let share = probe
                .runs
                .estimate(|run| run.engines.get(index).map(|engine| engine.busy))?;
            Some((share.mean, engine.name.as_str()))
        })
        .collect();
    engines.sort_by(|a, b| b.0.total_cmp(&a.0));
    if let Some((share, name)) = engines.first() {
        list.push(format!(
            "engine {name} is busy {:.0} % of the time",
            100.0 * share
        ));
    }
    let drawn = probe.runs.estimate(|run| Some(run.mean_bandwidth_gbps));
    if let Some(drawn) = drawn {
        let all = world.memory.bandwidth / 1e9;
        list.push(format!(
            "DRAM: {:.3} of {all:.3} GB/s on average ({:.0} %)",
            drawn.mean,
            100.0 * drawn.mean / all
        ));
    }
    let held = probe
        .runs
        .estimate(|run| Some(run.peak_memory_bytes as f64));
    if let Some(held) = held {
        let all = world.memory.capacity as f64;
        list.push(format!(
            "memory: {:.2} of {:.2} GB at most ({:.0} %)",
            held.mean / 1e9,
            all / 1e9,
            100.0 * held.mean / all
        ));
    }
    list
}

/// Another policy that carries the load: then the policy limits, not the chip.
fn other_policy(
    case: &Case<'_>,
    axis: Axis,
    load: f64,
    targets: &[Target],
    world: &World,
) -> Result<Option<String>, Faults> {
    let Ok(text) = axis.at(&case.text, load) else {
        return Ok(None);
    };
    let inputs = sim::load::Inputs::read(&case.name, &text, case.library, case.files);
    let Ok(inputs) = inputs else {
        return Ok(None);
    };
    let mine = world.policy.to_string();
    let mut names: Vec<String> = [
        "state_aware:w+p+s",
        "state_aware:w+p",
        "state_aware:w",
        "serial",
        "idle_first",
        "reuse_first",
        "shortest_job_first",
        "earliest_deadline_first",
    ]
    .map(str::to_owned)
    .to_vec();
    names.extend(inputs.lanes().iter().map(|lane| format!("single:{lane}")));
    for name in names.iter().filter(|name| **name != mine) {
        let Ok(mut other) = inputs.with_policy_text(name) else {
            continue;
        };
        if let Some(seed) = case.seed {
            other.seed = seed;
        }
        let probe = Probe::run(&other, load, case.count(&other, false), None, targets)?;
        if probe.verdict == Verdict::Meets {
            return Ok(Some(format!(
                "the policy: `{name}` meets every target at this load, `{mine}` does not"
            )));
        }
    }
    Ok(None)
}

fn resources(world: &World) -> Vec<Resource> {
    let mut list = vec![Resource::Bandwidth, Resource::Memory];
    let engines = world.engines.iter().map(|engine| engine.name.clone());
    list.extend(engines.map(|name| Resource::Compute(Some(name))));
    list
}

/// The binding metric with more of each resource on the same arrivals, and by its slope with the load, what that is
/// worth in load.
fn sensitivities(
    case: &Case<'_>,
    axis: Axis,
    targets: &[Target],
    missed: usize,
    at: f64,
    (low, high): (f64, f64),
    world: &World,
) -> Result<Vec<Buys>, Faults> {
    let values = |load: f64, change: Option<(&Resource, f64)>| {
        let probe = case.probe(Some((axis, load)), change, targets, Look::First)?;
        let value = |run| {
            let value = targets[missed].metric.of(run);
            value.filter(|value| *value > 0.0)
        };
        let values: Vec<_> = probe.runs.summaries.iter().map(value).collect();
        Ok::<_, Faults>(values)
    };
    // Means of the logarithms of ratios, run by run: both sides met the same arrivals and lengths.
    let ratio = |from: &[Option<f64>], to: &[Option<f64>], by: f64| {
        let pairs = from.iter().zip(to);
        let values: Vec<f64> = pairs
            .filter_map(|(from, to)| Some(((*to)? / (*from)?).ln() / by.ln()))
            .collect();
        Estimate::of(&values)
    };
    let here = values(at, None)?;
    // Elasticity of the metric in the load.
    let slope = if high > low {
        let other = if at == high { low } else { high };
        ratio(&here, &values(other, None)?, other / at)
    } else {
        None
    };
    let slope =
        slope.filter(|slope| slope.excludes_zero() != Some(false) && slope.mean.abs() > 1e-3);
    let mut list: Vec<Buys> = resources(world)
        .into_iter()
        .map(|resource| {
            let metric = ratio(&here, &values(at, Some((&resource, STEP)))?, STEP);
            let mut buys = Buys {
                resource,
                metric,
                load: None,
            };
            if buys.tells()
                && let (Some(metric), Some(slope)) = (metric, slope)
            {
                buys.load = Some(-metric.mean / slope.mean);
            }
            Ok(buys)
        })
        .collect::<Result<_, Faults>>()?;
    let size = |buys: &Buys| {
        let change = buys.metric.map_or(0.0, |change| change.mean.abs());
        (buys.tells(), change)
    };
    list.sort_by(|a, b| {
        let (a, b) = (size(a), size(b));
        b.0.cmp(&a.0).then(b.1.total_cmp(&a.1))
    });
    Ok(list)
}

impl Buys {
    /// Whether the change can be told from none.
    pub fn tells(&self) -> bool {
        self.metric.is_some_and(|change| {
            change.excludes_zero() != Some(false) && change.mean.abs() >= NONE
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buys(resource: Resource, mean: f64, half: f64) -> Buys {
        Buys {
            resource,
            metric: Some(Estimate {
                mean,
                half_width: Some(half),
                n: 8,
            }),
            load: None,
        }
    }

    /// To see it fail, leave the words out.
    #[test]
    fn what_has_no_number_has_words() {
        let target = Target::parse("ttft_p95 <= 2s").expect("a target");
        let told = [buys(Resource::Bandwidth, -0.8, 0.1)];
        let of = |meets, overloaded| untold(&told, meets, overloaded, &target).concat();
        assert!(of(None, false).contains("none meets the targets"));
        assert!(of(Some(2.0), true).contains("is not carried"));
        assert!(of(Some(2.0), false).contains("between the two ends"));
        let mut whole = told.clone();
        whole[0].load = Some(0.5);
        assert!(untold(&whole, Some(2.0), false, &target).is_empty());
        let none = [Buys {
            metric: None,
            ..buys(Resource::Memory, 0.0, 0.0)
        }];
        let said = untold(&none, None, false, &target);
        assert_eq!(said.len(), 1);
        assert!(said[0].contains("no run there has a `ttft_p95`"));
    }

    /// To see it fail, name the first whatever the intervals are.
    #[test]
    fn a_resource_ties_with_the_first_where_their_intervals_overlap() {
        let first = || buys(Resource::Bandwidth, -0.8, 0.1);
        let of = |other: Buys| tied(&[first(), other]);
        assert_eq!(of(buys(Resource::Memory, -0.75, 0.1)).len(), 1);
        assert_eq!(of(buys(Resource::Memory, 0.75, 0.1)).len(), 1);
        assert!(of(buys(Resource::Memory, -0.3, 0.1)).is_empty());
        // What is not told from none is no rival.
        assert!(of(buys(Resource::Memory, -0.7, 0.8)).is_empty());
        assert!(tied(&[first()]).is_empty() && tied(&[]).is_empty());
    }
}
