//! The least time in which given stages can be done on all lanes together.
//!
//! A stage may be parted among lanes and run at any time beside any other. What remains is a linear program:
//! how long each set of stages runs together (a *co-run set*: on each lane a stage or none), so that the stages
//! get done at the rates that contention leaves them, in the least time. Its dual prices a second alone of
//! stage k on lane l at v: at most 1 for every co-run set, Σ v ÷ slowdown ≤ 1, and the time is at least
//! Σ over jobs of min over lanes of v·t. *Any* such prices give a true bound, so the solver's rounding cannot
//! make it wrong: prices come from a linear program over the jobs' totals, refined by cutting planes (Kelley
//! 1960), and the bound is evaluated from them.

use microlp::{ComparisonOp, OptimizationDirection, Problem, Variable};
use sim::contention::Load;
use sim::world::World;

/// Most co-run sets; where there are more, contention is left out.
const SETS_MAX: usize = 4096;
/// Most rounds of cuts.
const ROUNDS_MAX: usize = 60;
/// Gap, relative, at which refining ends.
const GAP: f64 = 1e-4;

/// A stage to be done.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// Stages of one class have one price a lane.
    pub(super) class: u8,
    /// By lane, ns alone (infinite where it cannot run) and load.
    pub(super) alone: Vec<(f64, Load)>,
}

/// Lower bound of the time that the jobs take, ns.
pub(super) fn least_time(world: &World, jobs: &[Job]) -> f64 {
    priced(world, jobs).0
}

/// The prices that give the best bound of [`least_time`]: by class, of a second alone on each lane.
pub(super) fn prices(world: &World, jobs: &[Job]) -> Vec<(u8, Vec<f64>)> {
    priced(world, jobs).1
}

fn priced(world: &World, jobs: &[Job]) -> (f64, Vec<(u8, Vec<f64>)>) {
    // A job without a lane would have no bound.
    let jobs: Vec<&Job> = jobs
        .iter()
        .filter(|job| job.alone.iter().any(|(ns, _)| ns.is_finite() && *ns > 0.0))
        .collect();
    let lanes = world.lanes.len();
    let mut classes: Vec<u8> = jobs.iter().map(|job| job.class).collect();
    classes.sort_unstable();
    classes.dedup();
    if classes.is_empty() {
        return (0.0, Vec::new());
    }
    let index = |job: &Job| classes.partition_point(|&class| class < job.class);
    let sets = sets(world, &classes, &jobs, lanes);
    // Times as parts of all, so that coefficients are near 1.
    let scale: f64 = jobs.iter().map(|job| best(job)).sum();
    // What each cut assigns: by class and lane, the time of the jobs whose cheapest lane it was.
    let assign = |price: &dyn Fn(usize, usize) -> f64| {
        let mut cut = vec![vec![0.0; lanes]; classes.len()];
        for job in &jobs {
            let class = index(job);
            let all = job
                .alone
                .iter()
                .enumerate()
                .filter(|(_, (ns, _))| ns.is_finite());
            let cost = |lane: usize, ns: f64| price(class, lane) * ns;
            let cheapest = all.min_by(|a, b| cost(a.0, a.1.0).total_cmp(&cost(b.0, b.1.0)));
            if let Some((lane, (ns, _))) = cheapest {
                cut[class][lane] += ns / scale;
            }
        }
        cut
    };
    let mut cuts = vec![assign(&|_, _| 1.0)];
    let (mut bound, mut best_prices) = (0.0_f64, Vec::new());
    for _ in 0..ROUNDS_MAX {
        let Some((prices, promised)) = solve(&sets, &cuts, classes.len(), lanes) else {
            break;
        };
        // As the solver meets them only nearly.
        let dearest = sets.iter().map(|set| {
            let terms = set
                .iter()
                .map(|&(class, lane, slowdown)| prices[class][lane] / slowdown);
            terms.sum::<f64>()
        });
        let dearest = dearest.fold(1.0, f64::max);
        let cut = assign(&|class, lane| prices[class][lane]);
        let value: f64 = cut
            .iter()
            .zip(&prices)
            .flat_map(|(times, prices)| times.iter().zip(prices))
            .map(|(time, price)| time * price)
            .sum();
        if value / dearest > bound {
            bound = value / dearest;
            let true_ones = |of: &Vec<f64>| of.iter().map(|price| price / dearest).collect();
            best_prices = prices.iter().map(true_ones).collect();
        }
        if promised - value <= GAP * value {
            break;
        }
        cuts.push(cut);
    }
    (
        bound * scale,
        classes.into_iter().zip(best_prices).collect(),
    )
}

fn best(job: &Job) -> f64 {
    let all = job.alone.iter().map(|(ns, _)| *ns);
    all.fold(f64::INFINITY, f64::min)
}

/// A co-run set: class, lane, and how much slower it is there than alone.
type Set = Vec<(usize, usize, f64)>;

/// Every co-run set of two or more, and each stage by itself. Adding a stage to a set never makes another
/// faster, but may be worth it, so all are there.
fn sets(world: &World, classes: &[u8], jobs: &[&Job], lanes: usize) -> Vec<Set> {
    // The classes that each lane can run, with their loads: ends and middle of the intensities seen.
    let mut able: Vec<Vec<(usize, [Load; 3])>> = vec![Vec::new(); lanes];
    for (lane, able) in able.iter_mut().enumerate() {
        for (at, &class) in classes.iter().enumerate() {
            let of = jobs
                .iter()
                .filter(|job| job.class == class && job.alone[lane].0.is_finite());
            let loads: Vec<Load> = of.map(|job| job.alone[lane].1).collect();
            let Some(&first) = loads.first() else {
                continue;
            };
            let (low, high) = loads.iter().fold((1.0_f64, 0.0_f64), |(low, high), load| {
                (low.min(load.mu), high.max(load.mu))
            });
            let with = |mu| Load { mu, ..first };
            able.push((at, [with(low), with(0.5 * (low + high)), with(high)]));
        }
    }
    let count = able
        .iter()
        .try_fold(1_usize, |count, able| count.checked_mul(able.len() + 1))
        .unwrap_or(usize::MAX);
    let contention = count <= SETS_MAX;
    let mut sets = Vec::new();
    if !contention {
        // Lanes alone: all their dearest stages together. Without contention a set is as dear as the sum
        // of its lanes' prices, and lanes are interchangeable only through the sums, so each lane's shares
        // add up by themselves.
        return alone(&able);
    }
    let mut choice = vec![0_usize; lanes];
    loop {
        let chosen: Vec<(usize, usize, [Load; 3])> = choice
            .iter()
            .enumerate()
            .filter_map(|(lane, &at)| {
                let (class, loads) = able[lane].get(at.checked_sub(1)?)?;
                Some((*class, lane, *loads))
            })
            .collect();
        if !chosen.is_empty() {
            sets.push(slowed(world, &chosen));
        }
        // The next choice, as a number whose digits are the lanes'.
        let Some(lane) = (0..lanes).find(|&lane| choice[lane] < able[lane].len()) else {
            return sets;
        };
        choice[lane] += 1;
        choice[..lane].fill(0);
    }
}

/// A set without contention for every lane's single classes: prices of lanes must add up to 1 whichever
/// classes they run, which one set per combination would say; with too many of those, each lane gets an
/// equal part, which is a weaker bound and still true.
fn alone(able: &[Vec<(usize, [Load; 3])>]) -> Vec<Set> {
    let lanes = able.iter().filter(|able| !able.is_empty()).count() as f64;
    let lane = |(lane, able): (usize, &Vec<(usize, [Load; 3])>)| {
        let one = |&(class, _): &(usize, [Load; 3])| vec![(class, lane, 1.0 / lanes)];
        able.iter().map(one).collect::<Vec<Set>>()
    };
    able.iter().enumerate().flat_map(lane).collect()
}

/// The least slowdowns found over the intensities of the classes: exact where they are constant, and where
/// slowdown rises with intensity, as under water-filling.
fn slowed(world: &World, chosen: &[(usize, usize, [Load; 3])]) -> Set {
    let count = chosen.len();
    let mut least = vec![f64::INFINITY; count];
    let mut slowdowns = vec![1.0; count];
    let combinations = if count <= 4 {
        3_usize.pow(count as u32)
    } else {
        3
    };
    for number in 0..combinations {
        let mut digits = number;
        let loads: Vec<Load> = chosen
            .iter()
            .map(|(_, _, loads)| {
                let load = loads[digits % 3];
                // Many lanes: all at their ends or middle together.
                if count <= 4 {
                    digits /= 3;
                }
                load
            })
            .collect();
        slowdowns.fill(1.0);
        // What asks for less than alone slows others less.
        if !world.lengthens() && (count > 1 || world.memory.background_bandwidth > 0.0) {
            world.contention.slowdowns(&loads, &mut slowdowns);
        }
        for (least, slowdown) in least.iter_mut().zip(&slowdowns) {
            *least = least.min(*slowdown);
        }
    }
    chosen
        .iter()
        .zip(least)
        .map(|(&(class, lane, _), slowdown)| (class, lane, slowdown.max(1.0)))
        .collect()
}

/// Prices that meet every set and promise most under the cuts, with the promise.
fn solve(
    sets: &[Set],
    cuts: &[Vec<Vec<f64>>],
    classes: usize,
    lanes: usize,
) -> Option<(Vec<Vec<f64>>, f64)> {
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let prices: Vec<Vec<Variable>> = (0..classes)
        .map(|_| {
            (0..lanes)
                .map(|_| problem.add_var(0.0, (0.0, f64::INFINITY)))
                .collect()
        })
        .collect();
    let values: Vec<Variable> = (0..classes)
        .map(|_| problem.add_var(1.0, (0.0, f64::INFINITY)))
        .collect();
    for set in sets {
        let terms: Vec<(Variable, f64)> = set
            .iter()
            .map(|&(class, lane, slowdown)| (prices[class][lane], 1.0 / slowdown))
            .collect();
        problem.add_constraint(&terms, ComparisonOp::Le, 1.0);
    }
    for cut in cuts {
        for (class, times) in cut.iter().enumerate() {
            let mut terms = vec![(values[class], 1.0)];
            let of_lanes = times.iter().enumerate().filter(|(_, time)| **time > 0.0);
            terms.extend(of_lanes.map(|(lane, time)| (prices[class][lane], -time)));
            problem.add_constraint(&terms, ComparisonOp::Le, 0.0);
        }
    }
    let solution = problem.solve().ok()?.into_solution().ok()?;
    let promised = solution.objective();
    let prices = prices.iter().map(|row| {
        let row = row
            .iter()
            .map(|&variable| solution.var_value(variable).max(0.0));
        row.collect()
    });
    Some((prices.collect(), promised))
}
