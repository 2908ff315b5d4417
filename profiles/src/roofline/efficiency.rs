//! How near engines come to their peaks: factors fitted over chips, for each runtime and kind of engine.
//!
//! A stage takes `Σ factor·bound` over the bounds of [`Work`]. Which factors are fitted is the same for every chip:
//!
//! | engine | prefill and encode | decode |
//! | --- | --- | --- |
//! | NPU | compute at its peak + weights at 0.9 of the DRAM + **feed** | **stream** + **host** a layer |
//! | CPU | **compute**, by data type + weights at 0.9 of the DRAM | **compute**, by data type + bytes at 0.9 of the DRAM |
//! | GPU | **compute** + weights at 0.9 of the DRAM | **stream** |
//!
//! Prefills and encodes have factors of their own. Where a runtime's encodes have not been measured, those of its
//! prefills stand in, with an interval as wide as they missed where encodes were.
//!
//! The bold ones are least squares of relative errors in which every chip counts the same. An NPU's prefill is far
//! from its peak because vectors between the matrices (norms, requantisation, softmax) pass the ports of its
//! cores; its decode waits for the CPU that submits every layer (rknn-llm issues 29 and 263).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use super::profile::{Decode, Prefill};
use super::stage::Work;

/// The factors that come with the project.
const FITTED: &str = include_str!("efficiency.toml");
/// Time over the time at the DRAM's peak that everything sustained takes.
const SUSTAINED: f64 = 1.0 / 0.9;

/// Prefill, decode, or a frame through a vision tower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Many tokens at once.
    Prefill,
    /// One by one.
    Decode,
    /// A frame through the vision tower.
    Encode,
}

impl Phase {
    /// All.
    pub const ALL: [Self; 3] = [Self::Prefill, Self::Decode, Self::Encode];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Encode => "encode",
        }
    }
}

/// A runtime on a kind of engine: what shares factors.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Family {
    /// Its name: `rkllm/npu`, `llama.cpp/cpu+i8mm`, `llama.cpp/metal`.
    pub key: String,
    /// `cpu`, `gpu` or `npu`.
    pub kind: String,
}

/// What stands before a bound.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Factor {
    Fixed(f64),
    Fitted,
    ByType,
}

fn form(kind: &str, phase: Phase) -> [Factor; 4] {
    use Factor::{ByType, Fitted, Fixed};
    match (kind, phase) {
        ("npu", Phase::Prefill | Phase::Encode) => {
            [Fixed(1.0), Fixed(SUSTAINED), Fitted, Fixed(0.0)]
        }
        ("npu", Phase::Decode) => [Fixed(0.0), Fitted, Fixed(0.0), Fitted],
        ("cpu", _) => [ByType, Fixed(SUSTAINED), Fixed(0.0), Fixed(0.0)],
        (_, Phase::Prefill | Phase::Encode) => [Fitted, Fixed(SUSTAINED), Fixed(0.0), Fixed(0.0)],
        (_, Phase::Decode) => [Fixed(0.0), Fitted, Fixed(0.0), Fixed(0.0)],
    }
}

/// Factors of a family and a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Factors {
    /// Of the four bounds of [`Work`], in order; where one goes by data type it is 0 here.
    pub bounds: [f64; 4],
    /// Of `compute` by data type of the weights.
    #[serde(default)]
    pub compute: BTreeMap<String, f64>,
    /// Chips behind them.
    pub chips: Vec<String>,
}

/// Data type of the weights of vision towers.
pub(super) const TOWER: &str = "f16";
/// Key of the spread of encodes that factors of prefills predict.
pub(super) const STAND_IN: &str = "encode by prefill";

/// Key of the spread of CPUs that factors of another instruction set predict.
pub(super) const ANOTHER_ISA: &str = "cpu by another isa";

/// A measurement with what bounds it.
#[derive(Clone, Debug)]
pub struct Case {
    /// What shares factors with it.
    pub family: Family,
    /// Key of its chip.
    pub chip: String,
    /// Data type of the weights.
    pub datatype: String,
    /// What was timed.
    pub phase: Phase,
    /// Its bounds.
    pub work: Work,
    /// How a profile would state it.
    pub(super) written: Written,
    /// What was measured, s.
    pub secs: f64,
    /// Where it stands.
    pub place: String,
}

/// What a written stage is made of, and the size at which it was measured.
#[derive(Clone, Copy, Debug)]
pub(super) enum Written {
    /// A number: the bounds of the case.
    Once,
    /// Bounds of a prefill of 0 or 1 tokens on 0 or 1 of context, tokens first; tokens and context.
    Prefill([[Work; 2]; 2], f64, f64),
    /// Bounds of one token on 0 or 1 of context; tokens and context.
    Decode([Work; 2], f64, f64),
}

impl Case {
    /// Its time by these factors, of the stage as a profile states it and the simulator evaluates it, s; `None` where
    /// no chip with this data type was measured.
    pub fn time(&self, factors: &Factors) -> Option<f64> {
        let one = |work: Work| {
            let secs = factors.time(work, &self.datatype).ok_or(());
            secs.map(|secs| Predicted::around(secs, 0.0))
        };
        let at = |size: f64| usize::from(size > 0.0);
        match self.written {
            Written::Once => factors.time(self.work, &self.datatype),
            Written::Prefill(points, tokens, context) => {
                let form = Prefill::of(|n, c| one(points[at(n)][at(c)])).ok()?;
                Some(form.secs(tokens, context))
            }
            Written::Decode(points, tokens, context) => {
                let form = Decode::of(|_, c| one(points[at(c)])).ok()?;
                Some(form.secs(tokens, context))
            }
        }
    }
}

impl Factors {
    /// Time of a stage, s; `None` where no chip with this data type was measured.
    pub fn time(&self, work: Work, datatype: &str) -> Option<f64> {
        let mut secs = 0.0;
        for (factor, bound) in self.bounds.iter().zip(work.terms()) {
            secs += factor * bound;
        }
        if !self.compute.is_empty() {
            secs += self.compute.get(&datatype.to_lowercase())? * work.compute;
        }
        (secs.is_finite() && secs > 0.0).then_some(secs)
    }

    /// The factors of these cases, all of one family and phase; `None` where there is nothing to fit.
    pub fn fit(cases: &[&Case]) -> Option<Self> {
        let first = cases.first()?;
        let form = form(&first.family.kind, first.phase);
        let chips: BTreeSet<&str> = cases.iter().map(|case| case.chip.as_str()).collect();
        let mut factors = Self {
            chips: chips.iter().map(|chip| (*chip).to_owned()).collect(),
            ..Self::default()
        };
        for (bound, factor) in factors.bounds.iter_mut().zip(form) {
            if let Factor::Fixed(value) = factor {
                *bound = value;
            }
        }
        let free: Vec<usize> = (0..4).filter(|&at| form[at] == Factor::Fitted).collect();
        if form.contains(&Factor::ByType) {
            let types: BTreeSet<&str> = cases.iter().map(|case| case.datatype.as_str()).collect();
            for datatype in types {
                let own: Vec<&Case> = cases
                    .iter()
                    .filter(|case| case.datatype == datatype)
                    .copied()
                    .collect();
                let [value] = least_squares(&own, &factors.bounds, [0])?;
                if value > 0.0 {
                    factors.compute.insert(datatype.to_lowercase(), value);
                }
            }
            return (!factors.compute.is_empty()).then_some(factors);
        }
        match *free.as_slice() {
            [only] => {
                let [value] = least_squares(cases, &factors.bounds, [only])?;
                factors.bounds[only] = value.max(0.0);
            }
            [one, other] => {
                let both = least_squares(cases, &factors.bounds, [one, other])?;
                if both[0] >= 0.0 && both[1] >= 0.0 {
                    factors.bounds[one] = both[0];
                    factors.bounds[other] = both[1];
                } else {
                    // A time cannot be negative: the other one explains it alone.
                    let alone = usize::from(both[0] < 0.0);
                    let at = [one, other][alone];
                    let [value] = least_squares(cases, &factors.bounds, [at])?;
                    factors.bounds[at] = value.max(0.0);
                }
            }
            _ => return None,
        }
        Some(factors)
    }
}

/// Factors of the bounds `at` beside fixed ones, by least squares of relative errors; each chip counts the same.
fn least_squares<const N: usize>(
    cases: &[&Case],
    fixed: &[f64; 4],
    at: [usize; N],
) -> Option<[f64; N]> {
    let mut count: BTreeMap<&str, f64> = BTreeMap::new();
    for case in cases {
        *count.entry(&case.chip).or_default() += 1.0;
    }
    let mut normal = [[0.0; N]; N];
    let mut right = [0.0; N];
    for case in cases {
        let terms = case.work.terms();
        let known: f64 = fixed.iter().zip(terms).map(|(f, bound)| f * bound).sum();
        let rest = 1.0 - known / case.secs;
        let weight = 1.0 / count[case.chip.as_str()];
        let row = at.map(|index| terms[index] / case.secs);
        for i in 0..N {
            right[i] += weight * row[i] * rest;
            for j in 0..N {
                normal[i][j] += weight * row[i] * row[j];
            }
        }
    }
    let solved = if N == 1 {
        vec![right[0] / normal[0][0]]
    } else {
        let determinant = normal[0][0] * normal[1][1] - normal[0][1] * normal[1][0];
        if determinant.abs() < 1e-12 * normal[0][0] * normal[1][1] {
            // One chip, or all of one shape: the two cannot be told apart.
            return None;
        }
        vec![
            (right[0] * normal[1][1] - right[1] * normal[0][1]) / determinant,
            (right[1] * normal[0][0] - right[0] * normal[1][0]) / determinant,
        ]
    };
    let mut result = [0.0; N];
    for (to, from) in result.iter_mut().zip(&solved) {
        if !from.is_finite() {
            return None;
        }
        *to = *from;
    }
    Some(result)
}

/// Factors of every family, with how far predictions of chips that were left out were off.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Efficiencies {
    /// Files with the measurements behind them.
    #[serde(default)]
    pub from: Vec<String>,
    /// Half-widths of the 90 % interval of the logarithm of a time, by phase.
    #[serde(default)]
    pub spread: BTreeMap<String, f64>,
    /// Factors by family and phase.
    #[serde(default)]
    pub family: BTreeMap<String, BTreeMap<String, Factors>>,
}

impl Efficiencies {
    /// The factors that come with the project.
    pub fn shipped() -> &'static Self {
        static READ: OnceLock<Efficiencies> = OnceLock::new();
        READ.get_or_init(|| toml::from_str(FITTED).unwrap_or_default())
    }

    /// Factors of all cases together; a family is there for a phase if two chips or more were measured.
    pub fn fit(cases: &[Case]) -> Self {
        let files: BTreeSet<&str> = cases
            .iter()
            .map(|case| case.place.rsplit_once(':').map_or("", |(file, _)| file))
            .collect();
        let mut all = Self {
            from: files.into_iter().map(str::to_owned).collect(),
            ..Self::default()
        };
        let mut groups: BTreeMap<(&Family, Phase), Vec<&Case>> = BTreeMap::new();
        for case in cases {
            groups
                .entry((&case.family, case.phase))
                .or_default()
                .push(case);
        }
        for ((family, phase), group) in groups {
            let Some(mut factors) = Factors::fit(&group) else {
                continue;
            };
            // A data type that one chip alone has explains that chip and nothing else.
            factors.compute.retain(|datatype, _| {
                let with = group
                    .iter()
                    .filter(|case| case.datatype.to_lowercase() == *datatype);
                with.map(|case| &case.chip).collect::<BTreeSet<_>>().len() >= 2
            });
            let by_type = form(&family.kind, phase).contains(&Factor::ByType);
            if factors.chips.len() < 2 || (by_type && factors.compute.is_empty()) {
                continue;
            }
            all.family
                .entry(family.key.clone())
                .or_default()
                .insert(phase.name().to_owned(), factors);
        }
        all
    }

    /// As the file that comes with the project.
    pub fn to_toml(&self) -> String {
        let head = "# Written by `crossinfer validate roofline --samples DIR --out FILE`: efficiencies fitted on chips that have been\n\
                    # measured. `bounds`: factors of compute, stream, feed and host (docs/plan.md); `spread`: half-widths of the 90 %\n\
                    # interval of the logarithm of a time, from chips that were left out.\n\n";
        // A table of plain numbers and texts has nothing that cannot be written.
        head.to_owned() + &toml::to_string(self).unwrap_or_default()
    }

    /// A predicted time with its 90 % interval, s.
    pub fn predict(
        &self,
        family: &str,
        phase: Phase,
        work: Work,
        datatype: &str,
    ) -> Option<Predicted> {
        let secs = self
            .family
            .get(family)?
            .get(phase.name())?
            .time(work, datatype)?;
        Some(Predicted::around(secs, *self.spread.get(phase.name())?))
    }

    /// Of a CPU whose kernels nobody measured with a data type, the family of another instruction set that has prefills
    /// and decodes of it; `None` where its own has them, or none does.
    pub(super) fn another_isa(&self, family: &str, datatype: &str) -> Option<&str> {
        let datatype = datatype.to_lowercase();
        let has = |phases: &BTreeMap<String, Factors>| {
            [Phase::Prefill, Phase::Decode].iter().all(|phase| {
                let factors = phases.get(phase.name());
                factors.is_some_and(|factors| factors.compute.contains_key(&datatype))
            })
        };
        let (runtime, _) = family.split_once("cpu+")?;
        if self.family.get(family).is_some_and(has) {
            return None;
        }
        let mut others = self.family.iter().filter(|(key, phases)| {
            let other = key.strip_prefix(runtime);
            other.is_some_and(|other| other.starts_with("cpu+")) && has(phases)
        });
        others.next().map(|(key, _)| key.as_str())
    }

    /// The predicted time of a frame through a vision tower: by the factors of encodes, or else by those of prefills.
    pub fn encode(&self, family: &str, work: Work) -> Option<Predicted> {
        let own = self.predict(family, Phase::Encode, work, TOWER);
        own.or_else(|| {
            let prefill = self.family.get(family)?.get(Phase::Prefill.name())?;
            let secs = prefill.time(work, TOWER)?;
            Some(Predicted::around(secs, *self.spread.get(STAND_IN)?))
        })
    }
}

/// A time with the interval in which it lies with a probability of 90 %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicted {
    /// Time, s.
    pub secs: f64,
    /// Lower end, s.
    pub low: f64,
    /// Upper end, s.
    pub high: f64,
}

impl Predicted {
    /// The same time with an interval at least so wide.
    pub(super) fn widened(self, spread: f64) -> Self {
        Self::around(self.secs, spread.max((self.high / self.secs).ln()))
    }

    /// A time with an interval of this half-width in its logarithm.
    pub(super) fn around(secs: f64, spread: f64) -> Self {
        Self {
            secs,
            low: secs * (-spread).exp(),
            high: secs * spread.exp(),
        }
    }
}
