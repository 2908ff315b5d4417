//! Profile likelihood: how far each parameter can move while the others make up for it.

use super::identify::standard_errors;
use super::problem::Problem;
use super::solve::{Best, minimise};
use super::unseen::{rested, unseen};

/// By how much the sum of squares may rise: the 95 % quantile of χ² with one degree of freedom.
pub(super) const RISE: f64 = 3.841_458_820_694_124;
/// Steps of a walk; they double, so that this many cross any range.
const STEPS_MAX: u32 = 40;
/// A step into values at which nothing can be predicted is shortened by this, and no further than to the least.
const SHORTER: f64 = 0.25;
/// Least step, as a part of a parameter's scale.
const STEP_MIN: f64 = 1e-5;
/// Steps towards an end that is between two points.
const NARROWINGS: u32 = 8;
/// An end is found when the root of the rise is this near, relatively.
const CLOSE: f64 = 0.01;
/// A minimum is better if it is lower by this part of the rise.
const BETTER: f64 = 1e-3;
/// The rows are explained nearly as well where the sum rises by no more than this part of it.
const NEARLY: f64 = 0.1;
/// A minimum is another where a parameter lies beyond its ends by this part of its scale.
const APART: f64 = 0.01;
/// How often a walk may find a better minimum and begin again.
const RESTARTS: u32 = 3;
/// Points of the walks at which it is tried whether rows see a parameter.
const LOOKED_AT_MAX: usize = 16;

/// The minimum with its surroundings.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Profiled {
    /// The minimum.
    pub(super) best: Best,
    /// Largest sum of squares of the confidence set.
    pub(super) most: f64,
    /// Rise of the sum of squares that is allowed: larger where the fit is worse than its rows' errors.
    pub(super) rise: f64,
    /// Ends of each parameter.
    pub(super) ends: Vec<Ends>,
    /// Points within the rise that the walks visited, the minimum first.
    pub(super) within: Vec<Vec<f64>>,
    /// Starts that ended at another minimum within the rise, beyond the ends of the walks.
    pub(super) apart: usize,
    /// Parameters that no row sees. All points above hold them at the profiles' own values.
    pub(super) unseen: Vec<usize>,
}

/// Ends of a parameter's interval, as parts of its scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ends {
    /// Lower end.
    pub(super) low: f64,
    /// Whether the data give it, not the bound.
    pub(super) low_found: bool,
    /// Upper end.
    pub(super) high: f64,
    /// Whether the data give it, not the bound.
    pub(super) high_found: bool,
}

impl Ends {
    /// Those of a parameter that no row sees.
    const BOUNDS: Self = Self {
        low: 0.0,
        low_found: false,
        high: 1.0,
        high_found: false,
    };
}

/// Walks every parameter that the rows see both ways from the best of these minima. A walk does not cross a ridge: minima of
/// other starts that are as good as the rise allows extend the ends to themselves.
pub(super) fn profile_all(problem: &Problem<'_>, minima: &[Best]) -> Option<Profiled> {
    let best = minima.iter().min_by(|a, b| a.chi2.total_cmp(&b.chi2))?;
    // What another minimum that is as good sees, the rows see.
    let as_good = minima.iter().filter(|other| {
        let rise = RISE * misfit(problem, best, 0);
        other.chi2 <= best.chi2 + rise
    });
    let as_good = as_good.map(|other| &other.parts);
    let blind = unseen(problem, as_good, 0..best.parts.len());
    let mut profiled = walk_all(problem, best.clone(), blind);
    for other in minima {
        if other.chi2 > profiled.best.chi2 + profiled.rise {
            continue;
        }
        let parts = rested(problem, &other.parts, &profiled.unseen);
        let mut apart = false;
        for (ends, &part) in profiled.ends.iter_mut().zip(&parts) {
            apart |= part < ends.low - APART || part > ends.high + APART;
            ends.low = ends.low.min(part);
            ends.high = ends.high.max(part);
        }
        if apart {
            profiled.apart += 1;
            profiled.within.push(parts);
        }
    }
    keep_open(problem, &mut profiled);
    Some(profiled)
}

fn walk_all(problem: &Problem<'_>, best: Best, blind: Vec<usize>) -> Profiled {
    let (mut best, mut blind) = (best, blind);
    let mut restarts = 0;
    loop {
        best.parts = rested(problem, &best.parts, &blind);
        let rise = RISE * misfit(problem, &best, blind.len());
        let errors = standard_errors(problem, &best.parts);
        let mut profiled = Profiled {
            within: vec![best.parts.clone()],
            ends: Vec::new(),
            apart: 0,
            most: best.chi2 + rise,
            rise,
            best,
            unseen: blind,
        };
        let mut better: Option<Best> = None;
        for (at, error) in errors.into_iter().enumerate() {
            if profiled.unseen.contains(&at) {
                profiled.ends.push(Ends::BOUNDS);
                continue;
            }
            let mut sides = [(0.0, false); 2];
            for (side, direction) in sides.iter_mut().zip([-1.0, 1.0]) {
                let mut walk = Walk {
                    problem,
                    profiled: &mut profiled,
                    better: &mut better,
                    at,
                };
                *side = walk.end(direction, error);
            }
            let [(low, low_found), (high, high_found)] = sides;
            profiled.ends.push(Ends {
                low,
                low_found,
                high,
                high_found,
            });
        }
        let step = profiled.within.len().div_ceil(LOOKED_AT_MAX).max(1);
        let visited = profiled.within.iter().step_by(step);
        blind = unseen(problem, visited, profiled.unseen.iter().copied());
        if blind.len() < profiled.unseen.len() {
            // Where the others can go, rows see one of these after all.
            best = profiled.best;
            continue;
        }
        match better.and_then(|better| minimise(problem, &better.parts, &[])) {
            Some(lower)
                if lower.settled
                    && restarts < RESTARTS
                    && lower.chi2 < profiled.best.chi2 - BETTER * profiled.rise =>
            {
                best = lower;
                restarts += 1;
            }
            _ => return profiled,
        }
    }
}

/// Leaves each parameter that the rows see and do not identify at the profile's own value where that explains them nearly as
/// well: where a search happened to end is no better. The others make up for it.
fn keep_open(problem: &Problem<'_>, profiled: &mut Profiled) {
    // Not widened by a misfit: rows that contradict each other do not make another point as good.
    let most = profiled.best.chi2 + NEARLY * RISE;
    let own = problem.own_parts();
    let mut held = profiled.unseen.clone();
    let mut kept = profiled.best.clone();
    for (at, ends) in profiled.ends.iter().enumerate() {
        if ends.low_found || ends.high_found || profiled.unseen.contains(&at) {
            continue;
        }
        let mut parts = kept.parts.clone();
        parts[at] = own[at];
        // As they are if that is enough, else with the others moved.
        let alone = problem.chi2(&parts).map(|chi2| Best {
            parts: parts.clone(),
            chi2,
            settled: true,
        });
        let with: Vec<usize> = held.iter().copied().chain([at]).collect();
        let within = |best: &Best| best.chi2 <= most;
        let found = alone.filter(within);
        let found = found.or_else(|| minimise(problem, &parts, &with).filter(within));
        if let Some(found) = found {
            kept = found;
            held.push(at);
        }
    }
    profiled.within[0].clone_from(&kept.parts);
    profiled.best = kept;
}

/// By what factor the rows' errors must be larger than stated for the fit to be as good as they say;
/// at least 1. `unseen` parameters explain nothing.
pub(super) fn misfit(problem: &Problem<'_>, best: &Best, unseen: usize) -> f64 {
    match freedom(problem, unseen) {
        0 => 1.0,
        freedom => (best.chi2 / freedom as f64).max(1.0),
    }
}

/// Rows less parameters that they see; 0 where there are no more rows than those.
pub(super) fn freedom(problem: &Problem<'_>, unseen: usize) -> usize {
    let seen = problem.spec.free.len().saturating_sub(unseen);
    problem.rows.len().saturating_sub(seen)
}

struct Walk<'w, 'p> {
    problem: &'w Problem<'p>,
    profiled: &'w mut Profiled,
    better: &'w mut Option<Best>,
    at: usize,
}

/// A point of a walk: the other parameters at their best, and the root of the rise there, which grows
/// evenly along a parabola.
struct Point {
    parts: Vec<f64>,
    part: f64,
    root: f64,
}

impl Walk<'_, '_> {
    /// Where the sum of squares has risen as far as it may, else the bound: the part and whether it was
    /// found.
    fn end(&mut self, direction: f64, error: Option<f64>) -> (f64, bool) {
        let bound = if direction > 0.0 { 1.0 } else { 0.0 };
        let most = self.profiled.rise.sqrt();
        let parts = self.profiled.best.parts.clone();
        let mut inside = Point {
            part: parts[self.at],
            parts,
            root: 0.0,
        };
        let mut step = error.unwrap_or(0.1).clamp(1e-4, 0.1) * most;
        for _ in 0..STEPS_MAX {
            if inside.part == bound {
                return (bound, false);
            }
            let next = (inside.part + direction * step).clamp(0.0, 1.0);
            match self.look(&inside.parts, next) {
                Some(reached) if reached.root <= most => {
                    inside = reached;
                    step *= 2.0;
                }
                Some(beyond) => {
                    return (self.bracket(inside, next, Some(beyond), most), true);
                }
                // From nearer the others may make up for it.
                None if step > STEP_MIN => step *= SHORTER,
                // The rows have values, so they exclude what gives none.
                None => return (inside.part, true),
            }
        }
        // Not found: so it is the bound.
        (bound, false)
    }

    /// The end between a point that is within and a part that is not (or where nothing can be
    /// predicted).
    fn bracket(&mut self, inside: Point, next: f64, beyond: Option<Point>, most: f64) -> f64 {
        let (mut inside, mut outside) = (inside, (next, beyond.map(|point| point.root)));
        for _ in 0..NARROWINGS {
            let width = outside.0 - inside.part;
            let ahead = match outside.1 {
                // Not at the ends, lest one of them stays for ever.
                Some(root) => ((most - inside.root) / (root - inside.root)).clamp(0.1, 0.9),
                None => 0.5,
            };
            let part = inside.part + width * ahead;
            match self.look(&inside.parts, part) {
                Some(reached) if (reached.root / most - 1.0).abs() < CLOSE => return part,
                Some(reached) if reached.root <= most => inside = reached,
                beyond => outside = (part, beyond.map(|point| point.root)),
            }
        }
        f64::midpoint(inside.part, outside.0)
    }

    /// The other parameters at their best while this one is at `part`; `None` where nothing can be
    /// predicted.
    fn look(&mut self, from: &[f64], part: f64) -> Option<Point> {
        let mut start = from.to_vec();
        start[self.at] = part;
        let mut held = self.profiled.unseen.clone();
        held.push(self.at);
        let found = minimise(self.problem, &start, &held)?;
        let rise = found.chi2 - self.profiled.best.chi2;
        let known = self.better.as_ref().unwrap_or(&self.profiled.best);
        if found.chi2 < known.chi2 {
            *self.better = Some(found.clone());
        }
        if rise <= self.profiled.rise {
            self.profiled.within.push(found.parts.clone());
        }
        Some(Point {
            parts: found.parts,
            part,
            root: rise.max(0.0).sqrt(),
        })
    }
}
