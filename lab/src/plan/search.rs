//! The largest load that meets the targets.

use std::cell::RefCell;

use sim::diag::Faults;

use super::axis::Axis;
use super::probe::{Probe, Verdict};
use super::target::Target;

/// Loads between which an edge lies closer than this are told apart no further.
const CLOSE: f64 = 0.02;
/// Most probes of a search.
const PROBES_MAX: usize = 80;
/// Points of a scan where more load is not always worse.
const SCAN: usize = 25;

/// Where to look.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// Least load; for whole numbers at least 1.
    pub low: f64,
    /// Greatest load.
    pub high: f64,
}

/// What a search found.
#[derive(Clone, Debug)]
pub struct Edge {
    /// The largest load that was seen to meet every target, twice; `None` if none was.
    pub meets: Option<f64>,
    /// The smallest larger load that was seen to miss one, twice; `None` if none was.
    pub misses: Option<f64>,
    /// Whether more load was never better where it was looked at; if not, loads below the edge may miss.
    pub monotone: bool,
    /// What is to be said of it.
    pub remarks: Vec<String>,
    /// Every load that was simulated, rising; the two ends as on the fresh draws that confirmed them.
    pub probes: Vec<Probe>,
    /// Where was looked.
    pub range: Range,
}

impl Edge {
    /// The probe of a load.
    pub fn probe(&self, load: f64) -> Option<&Probe> {
        self.probes.iter().find(|probe| probe.load == load)
    }
}

/// How a load is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// With as many replications as were asked for.
    First,
    /// With more of them.
    Deep,
    /// On draws that no other look has seen, with yet more of them and a margin: as many as in a deep look are to come
    /// out the same.
    Fresh,
}

/// Simulates loads, each once at each depth.
///
/// Where many loads are looked at, one near the edge may meet the targets by chance, and it is the largest such that a
/// search returns. So both ends of the edge are looked at again, on fresh draws, and must come out there by a margin
/// ([`Probe::run`]): whoever simulates the load once more is to find the same. One that does not is unclear, and the
/// search goes on from there.
///
/// # Errors
///
/// The first of a probe.
pub fn search(
    axis: Axis,
    targets: &[Target],
    range: Range,
    mut probe: impl FnMut(f64, Look) -> Result<Probe, Faults>,
) -> Result<Edge, Faults> {
    let mut probes: Vec<(Probe, bool)> = Vec::new();
    let probe = RefCell::new(&mut probe);
    let again = |load: f64| (probe.borrow_mut())(load, Look::Fresh);
    let mut look = |load: f64, deep: bool, probes: &mut Probes| -> Result<Verdict, Faults> {
        if let Some((known, was)) = probes.iter().find(|(known, _)| known.load == load)
            && (*was || !deep)
        {
            return Ok(known.verdict);
        }
        let found = (probe.borrow_mut())(load, if deep { Look::Deep } else { Look::First })?;
        let verdict = found.verdict;
        probes.retain(|(known, _)| known.load != load);
        probes.push((found, deep));
        Ok(verdict)
    };
    let unruly: Vec<&Target> = targets
        .iter()
        .filter(|target| !axis.monotone(target.metric))
        .collect();
    let mut remarks = Vec::new();
    if unruly.is_empty() {
        bracket(axis, range, &mut look, &mut probes)?;
    } else {
        let names: Vec<String> = unruly
            .iter()
            .map(|target| target.metric.to_string())
            .collect();
        remarks.push(format!(
            "{} may fall as well as rise with {axis}: loads were scanned, not bisected",
            names.join(" and ")
        ));
        let mut beyond = 0;
        for load in grid(axis, range, SCAN) {
            look(load, false, &mut probes)?;
            // A queue that grows does not stop growing under more load.
            let last = probes.iter().find(|(probe, _)| probe.load == load);
            let grows = last.is_some_and(|(probe, _)| probe.overloaded());
            beyond = if grows { beyond + 1 } else { 0 };
            if beyond == 2 {
                break;
            }
        }
    }
    // Beyond the edge and below it: a search that halves would not see islands.
    if let Some(top) = largest(&probes) {
        for factor in [0.25, 0.5, 0.75, 1.5, 2.0] {
            let load = settle(axis, top * factor, range);
            if load >= range.low && load <= range.high {
                look(load, false, &mut probes)?;
            }
        }
    }
    let mut confirmed: Vec<f64> = Vec::new();
    let mut doubted: Vec<f64> = Vec::new();
    loop {
        refine(axis, &mut look, &mut probes)?;
        let low = largest(&probes);
        let high = above(&probes, low.unwrap_or(f64::NEG_INFINITY));
        let mut ends = [low, high].into_iter().flatten();
        let Some(end) = ends.find(|end| !confirmed.contains(end)) else {
            // Fresh draws may have denied the only load that missed.
            if high.is_none() && unruly.is_empty() && upward(axis, range, &mut look, &mut probes)? {
                continue;
            }
            break;
        };
        let known = probes.iter_mut().find(|(probe, _)| probe.load == end);
        let Some((known, deep)) = known.filter(|(known, _)| known.refused.is_none()) else {
            // What has no world has none under other draws.
            confirmed.push(end);
            continue;
        };
        let before = known.verdict;
        *known = again(end)?;
        *deep = true;
        if known.verdict == before {
            confirmed.push(end);
        } else {
            known.verdict = Verdict::Unclear;
            doubted.push(end);
        }
    }
    if !doubted.is_empty() {
        let list: Vec<String> = doubted.iter().map(f64::to_string).collect();
        remarks.push(format!(
            "fresh draws do not confirm them by a margin, so unclear: {} {}",
            list.join(", "),
            axis.unit()
        ));
    }
    Ok(finish(axis, range, probes, remarks, unruly.is_empty()))
}

/// As near to the edge as replications can tell.
fn refine(
    axis: Axis,
    look: &mut impl FnMut(f64, bool, &mut Probes) -> Result<Verdict, Faults>,
    probes: &mut Probes,
) -> Result<(), Faults> {
    while probes.len() < PROBES_MAX {
        let Some(low) = largest(probes) else {
            // More runs may tell that what is unclear meets the targets.
            let unclear =
                |(probe, deep): &&(Probe, bool)| probe.verdict == Verdict::Unclear && !*deep;
            let loads = probes.iter().filter(unclear).map(|(probe, _)| probe.load);
            match loads.reduce(f64::min) {
                Some(load) => look(load, true, probes)?,
                None => return Ok(()),
            };
            continue;
        };
        look(low, true, probes)?;
        let high = above(probes, low);
        let deep = |load: f64, probes: &Probes| {
            let mut all = probes.iter();
            all.any(|(probe, deep)| probe.load == load && *deep)
        };
        // Between the two there may be loads that are unclear: both ends of them are sought.
        let inside = |(probe, _): &&(Probe, bool)| {
            probe.load > low && high.is_none_or(|high| probe.load < high)
        };
        let loads = || probes.iter().filter(inside).map(|(probe, _)| probe.load);
        let Some(first) = loads().reduce(f64::min).or(high) else {
            return Ok(());
        };
        let last = loads().reduce(f64::max).unwrap_or(low);
        let beyond = high.and_then(|high| between(axis, last, high));
        let next = [between(axis, low, first), beyond]
            .into_iter()
            .flatten()
            .chain([low, first, last])
            .chain(high)
            .find(|load| !deep(*load, probes));
        match next {
            Some(load) => look(load, true, probes)?,
            None => return Ok(()),
        };
    }
    Ok(())
}

/// Doubles from the greatest load that was simulated until one misses; whether any was left to simulate.
fn upward(
    axis: Axis,
    range: Range,
    look: &mut impl FnMut(f64, bool, &mut Probes) -> Result<Verdict, Faults>,
    probes: &mut Probes,
) -> Result<bool, Faults> {
    let mut looked = false;
    while probes.len() < PROBES_MAX {
        let loads = probes.iter().map(|(probe, _)| probe.load);
        let high = loads.fold(range.low, f64::max);
        let next = settle(axis, high * 2.0, range);
        if next <= high {
            break;
        }
        looked = true;
        if look(next, false, probes)? == Verdict::Misses {
            break;
        }
    }
    Ok(looked)
}

/// The edge of all probes, and what lies on the wrong side of it.
fn finish(axis: Axis, range: Range, probes: Probes, mut remarks: Vec<String>, ruly: bool) -> Edge {
    let low = largest(&probes);
    let high = above(&probes, low.unwrap_or(f64::NEG_INFINITY));
    let mut probes: Vec<Probe> = probes.into_iter().map(|(probe, _)| probe).collect();
    probes.sort_by(|a, b| a.load.total_cmp(&b.load));
    let islands: Vec<f64> = probes
        .iter()
        .filter(|probe| probe.verdict == Verdict::Misses && low.is_some_and(|low| probe.load < low))
        .map(|probe| probe.load)
        .collect();
    if let (Some(first), Some(last)) = (islands.first(), islands.last()) {
        remarks.push(format!(
            "not monotone: {} smaller loads, {first} to {last} {}, miss a target too",
            islands.len(),
            axis.unit()
        ));
    }
    Edge {
        meets: low,
        misses: high,
        monotone: ruly && islands.is_empty(),
        remarks,
        probes,
        range,
    }
}

type Probes = Vec<(Probe, bool)>;

/// Doubles or halves from the least load until the edge is between two loads, then halves what is between.
fn bracket(
    axis: Axis,
    range: Range,
    look: &mut impl FnMut(f64, bool, &mut Probes) -> Result<Verdict, Faults>,
    probes: &mut Probes,
) -> Result<(), Faults> {
    let mut low = range.low;
    if look(low, false, probes)? == Verdict::Misses {
        return Ok(());
    }
    let mut high = low;
    loop {
        let next = settle(axis, high * 2.0, range);
        if next <= high {
            return Ok(());
        }
        high = next;
        if look(high, false, probes)? == Verdict::Misses {
            break;
        }
        low = high;
    }
    while probes.len() < PROBES_MAX {
        let Some(middle) = between(axis, low, high) else {
            return Ok(());
        };
        if look(middle, false, probes)? == Verdict::Misses {
            high = middle;
        } else {
            low = middle;
        }
    }
    Ok(())
}

fn settle(axis: Axis, load: f64, range: Range) -> f64 {
    let load = load.clamp(range.low, range.high);
    if axis.whole() {
        load.round()
    } else {
        plain(load)
    }
}

/// A load in four digits: what a person would type, and one load of what rounding would make two.
fn plain(load: f64) -> f64 {
    let scale = 10_f64.powi(3 - load.log10().floor() as i32);
    if scale.is_finite() && scale > 0.0 {
        (load * scale).round() / scale
    } else {
        load
    }
}

/// A load between two, if they can still be told apart.
fn between(axis: Axis, low: f64, high: f64) -> Option<f64> {
    if axis.whole() {
        let middle = low.midpoint(high).floor();
        return (middle > low && middle < high).then_some(middle);
    }
    (high / low > 1.0 + CLOSE).then(|| plain((low * high).sqrt()))
}

/// Loads from the least to the greatest, evenly in their logarithm.
pub fn grid(axis: Axis, range: Range, count: usize) -> Vec<f64> {
    let steps = count.saturating_sub(1).max(1) as f64;
    let ratio = (range.high / range.low).max(1.0);
    let mut list: Vec<f64> = (0..count)
        .map(|step| settle(axis, range.low * ratio.powf(step as f64 / steps), range))
        .collect();
    list.dedup();
    list
}

fn largest(probes: &[(Probe, bool)]) -> Option<f64> {
    let meets = probes
        .iter()
        .filter(|(probe, _)| probe.verdict == Verdict::Meets);
    meets.map(|(probe, _)| probe.load).reduce(f64::max)
}

fn above(probes: &[(Probe, bool)], low: f64) -> Option<f64> {
    let misses = probes
        .iter()
        .filter(|(probe, _)| probe.verdict == Verdict::Misses && probe.load > low);
    misses.map(|(probe, _)| probe.load).reduce(f64::min)
}
