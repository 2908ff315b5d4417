//! What the intervals of a profile's stage times leave open: the same search with all of them at one end.

use std::collections::BTreeMap;

use sim::diag::Faults;
use sim::load::{Inputs, Kind, Numbers};
use sim::spec::quantity::OriginKind;
use sim::world::{Provenance, World};

use super::probe::Verdict;
use super::scale::Resource;
use super::search::{Look, Range, search};
use super::target::Target;
use super::{Axis, Case, PlanError, need};

/// At which end of their intervals stage times are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Times {
    /// As they are stated.
    #[default]
    Stated,
    /// All at the end at which stages take long.
    Slow,
    /// All at the end at which they are short.
    Fast,
}

/// What of the stage times of a cost file is not known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Doubt {
    /// Numbers with an interval, and all.
    pub numbers: (usize, usize),
    /// Least and greatest end of an interval, in times of what is stated; 1 where there is none.
    pub span: (f64, f64),
    /// Whether any of them was measured, published or fitted to such times, and not derived or assumed.
    pub measured: bool,
}

/// What two searches with all stage times at one end found.
#[derive(Clone, Debug, PartialEq)]
pub struct Ends<T> {
    /// With stages that take long.
    pub slow: T,
    /// With stages that are short.
    pub fast: T,
}

/// The largest load that meets the targets and the smallest larger one that misses one, if there are.
pub type Edges = Ends<(Option<f64>, Option<f64>)>;

/// Stage times of the cost file.
fn times<'a>(world: &'a World, inputs: &'a Inputs) -> impl Iterator<Item = (&'a Provenance, bool)> {
    let file = inputs.file(Kind::Costs).0;
    let own = world
        .provenance
        .iter()
        .filter(move |number| number.file == file);
    own.filter_map(|number| {
        let (stage, key) = number.path.rsplit_once('.')?;
        let rate = key == "gbps";
        let time = [
            "fixed_s",
            "per_token_s",
            "per_token_context_s",
            "per_context_s",
        ]
        .contains(&key)
            || key.starts_with("time_s");
        (stage.contains(".stages.") && (rate || time)).then_some((number, rate))
    })
}

impl Doubt {
    /// Of a world and its files.
    pub fn of(world: &World, inputs: &Inputs) -> Self {
        let mut doubt = Self {
            numbers: (0, 0),
            span: (1.0, 1.0),
            measured: false,
        };
        // What `reconstruct` takes over from `ingest` stands in the file once.
        let mut seen = Vec::new();
        for (number, _) in times(world, inputs).filter(|(number, _)| number.value > 0.0) {
            if seen.contains(&number.span.start) {
                continue;
            }
            seen.push(number.span.start);
            doubt.numbers.1 += 1;
            // A fit is to times that somebody took.
            doubt.measured |= matches!(
                number.kind,
                OriginKind::Measured | OriginKind::Published | OriginKind::Fitted
            );
            if let Some((low, high)) = number.interval.filter(|(low, high)| low < high) {
                doubt.numbers.0 += 1;
                doubt.span.0 = doubt.span.0.min(low / number.value);
                doubt.span.1 = doubt.span.1.max(high / number.value);
            }
        }
        doubt
    }

    /// A condition of every result, where no time was measured.
    pub fn condition(&self) -> Option<String> {
        let none = !self.measured && self.numbers.1 > 0;
        none.then(|| "no stage time was measured: all are derived or assumed".to_owned())
    }
}

/// The stage times at an end of their intervals.
pub(super) fn numbers(world: &World, inputs: &Inputs, at: Times) -> Numbers {
    let mut numbers = Numbers::default();
    for (number, rate) in times(world, inputs) {
        let Some((low, high)) = number.interval else {
            continue;
        };
        // A greater rate is a shorter time.
        match (at, rate) {
            (Times::Stated, _) => {}
            (Times::Slow, false) | (Times::Fast, true) => numbers.set(number, high),
            (Times::Slow, true) | (Times::Fast, false) => numbers.set(number, low),
        }
    }
    numbers
}

fn both<T>(of: impl Fn(Times) -> Result<T, PlanError>) -> Result<Ends<T>, PlanError> {
    Ok(Ends {
        slow: of(Times::Slow)?,
        fast: of(Times::Fast)?,
    })
}

fn with<'a>(case: &Case<'a>, times: Times) -> Case<'a> {
    Case {
        name: case.name.clone(),
        text: case.text.clone(),
        times,
        ..*case
    }
}

/// The edges with all stage times at one end. Every load is simulated with as many replications as were asked for: these
/// intervals are wider than what more of them would tell.
///
/// # Errors
///
/// What a policy's script stopped a run with.
pub(super) fn edges(
    case: &Case<'_>,
    axis: Axis,
    targets: &[Target],
    range: Range,
) -> Result<Edges, PlanError> {
    both(|times| {
        let case = with(case, times);
        let mut known = BTreeMap::new();
        let edge = search(axis, targets, range, |load, _| {
            if let Some(probe) = known.get(&load.to_bits()) {
                return Ok(Clone::clone(probe));
            }
            let probe = case.probe(Some((axis, load)), None, targets, Look::First)?;
            known.insert(load.to_bits(), probe.clone());
            Ok(probe)
        });
        let edge = edge.map_err(PlanError::Stopped)?;
        Ok((edge.meets, edge.misses))
    })
}

/// The least times of a resource that meet the targets with all stage times at one end; `None` where none was found.
///
/// # Errors
///
/// What a policy's script stopped a run with.
pub(super) fn least(
    case: &Case<'_>,
    resource: &Resource,
    targets: &[Target],
) -> Result<Ends<Option<f64>>, PlanError> {
    both(|times| {
        let case = with(case, times);
        let mut known: BTreeMap<u64, Verdict> = BTreeMap::new();
        let verdict = |times: f64, _: Look| {
            if let Some(verdict) = known.get(&times.to_bits()) {
                return Ok(*verdict);
            }
            let probe = case.probe(None, Some((resource, times)), targets, Look::First)?;
            known.insert(times.to_bits(), probe.verdict);
            Ok::<_, Faults>(probe.verdict)
        };
        let ((_, meets), _) = need::least(verdict).map_err(PlanError::Stopped)?;
        Ok(meets)
    })
}
