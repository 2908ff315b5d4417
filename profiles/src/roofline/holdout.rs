//! How far predictions are off for a chip that was left out: its datasheet and the model's shape alone, with factors
//! fitted on the others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::chip::Chip;
use super::efficiency::{
    ANOTHER_ISA, Case, Efficiencies, Factors, Family, Phase, Predicted, STAND_IN,
};
use super::reach::{self, Reached};
use super::rows;
use crate::import::{Notes, Row, llama_bench, rkllm};

/// A measured value beside its prediction.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// What shares factors with it.
    pub family: String,
    /// The chip that was left out.
    pub chip: String,
    /// What was timed.
    pub phase: Phase,
    /// Data type of the weights.
    pub datatype: String,
    /// Measured time, s.
    pub secs: f64,
    /// Predicted time.
    pub predicted: Predicted,
    /// Where the measured value stands.
    pub place: String,
}

impl Prediction {
    /// Predicted rate less the measured one, over the measured one.
    pub fn error(&self) -> f64 {
        self.secs / self.predicted.secs - 1.0
    }

    /// Whether the interval holds the measured value.
    pub fn inside(&self) -> bool {
        (self.predicted.low..=self.predicted.high).contains(&self.secs)
    }
}

/// What came of all samples.
#[derive(Clone, Debug, Default)]
pub struct Holdout {
    /// Every value that can be predicted without its own chip.
    pub predictions: Vec<Prediction>,
    /// Rows without a prediction: how many by reason.
    pub left_out: BTreeMap<String, usize>,
    /// Rates at long contexts from those at short ones.
    pub long: Vec<Reached>,
    /// Rows at several contexts of which none can be predicted from shorter ones, with the reason.
    pub unjudged: Vec<String>,
    /// Rows of a prompt and an answer from separate rows.
    pub combined: Vec<Reached>,
    /// CPUs by factors of another instruction set: chip, values, and how many times the worst is off.
    pub isas: Vec<(String, usize, f64)>,
    /// Factors over all chips, with the spread of the predictions above.
    pub efficiencies: Efficiencies,
    /// Files read.
    pub files: usize,
}

/// Holds out every chip of the benchmark files below a folder: `llama-bench/`, `apple/` and `rkllm/`.
///
/// # Errors
///
/// Where the folder cannot be read.
pub fn over(folder: &Path, chips: &[Chip]) -> io::Result<Holdout> {
    let mut all = Vec::new();
    let mut holdout = Holdout::default();
    for (name, runtime) in [
        ("llama-bench", "llama.cpp"),
        ("apple", "llama.cpp"),
        ("rkllm", "rkllm"),
    ] {
        let below = folder.join(name);
        if !below.is_dir() {
            continue;
        }
        let mut files = Vec::new();
        list(&below, &mut files)?;
        // A later release repeats an earlier one's table: only the newest is taken.
        if runtime == "rkllm" {
            newest(&mut files);
        }
        for file in files {
            let Ok(text) = fs::read_to_string(&file) else {
                continue;
            };
            holdout.files += 1;
            let shown = file
                .strip_prefix(folder)
                .unwrap_or(&file)
                .display()
                .to_string();
            let mut notes = Notes::default();
            let rows = if runtime == "rkllm" {
                rkllm::read(&shown, &text, &mut notes)
            } else {
                llama_bench::read(&shown, &text, &mut notes)
            };
            // llama.cpp's port for the NPU is in tables of the other kind.
            let runtime = if rows.iter().any(|row| row.identity.contains_key("backend")) {
                "llama.cpp"
            } else {
                runtime
            };
            all.push((runtime, rows));
        }
    }
    of(&all, chips, &mut holdout);
    Ok(holdout)
}

/// The files below a folder, in order of names.
fn list(folder: &Path, to: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<_>>()?;
    entries.sort();
    for path in entries {
        if path.is_dir() {
            list(&path, to)?;
        } else {
            to.push(path);
        }
    }
    Ok(())
}

/// Of files that differ in a version at the end of the name alone (`…_v1.2.1.md`) the last.
fn newest(files: &mut Vec<PathBuf>) {
    let stem = |path: &PathBuf| {
        let name = path.to_string_lossy().into_owned();
        name.rsplit_once("_v").map(|(stem, _)| stem.to_owned())
    };
    let all = files.clone();
    files.retain(|file| {
        let own = stem(file);
        own.is_none() || !all.iter().any(|other| stem(other) == own && other > file)
    });
}

/// Holds out every chip of these rows.
pub fn of(all: &[(&str, Vec<Row>)], chips: &[Chip], holdout: &mut Holdout) {
    let mut cases = Vec::new();
    for (runtime, rows) in all {
        let (long, unjudged) = reach::long(rows);
        holdout.long.extend(long);
        holdout.unjudged.extend(unjudged);
        holdout.combined.extend(reach::combined(rows));
        for row in rows {
            match rows::case(row, chips, runtime) {
                Ok(case) => cases.push(case),
                Err(reason) => *holdout.left_out.entry(reason).or_default() += 1,
            }
        }
    }
    let mut efficiencies = Efficiencies::fit(&cases);
    for phase in Phase::ALL {
        if let Some(spread) = spread(&cases, phase, None) {
            efficiencies.spread.insert(phase.name().to_owned(), spread);
        }
    }
    let stands_in = residuals(&cases, Phase::Encode, Phase::Prefill, None);
    if let Some(spread) = half_width(&means(&stands_in), &variances(&stands_in)) {
        efficiencies.spread.insert(STAND_IN.to_owned(), spread);
    }
    let isas = other_isas(&cases);
    if let Some(spread) = half_width(&means(&isas), &variances(&isas)) {
        efficiencies.spread.insert(ANOTHER_ISA.to_owned(), spread);
    }
    holdout.isas = by_chip(&isas)
        .into_iter()
        .map(|((family, chip), values)| {
            let worst = values.iter().copied().fold(0.0, |a: f64, b| a.max(b.abs()));
            (
                format!("{chip} ({})", family.key),
                values.len(),
                worst.exp(),
            )
        })
        .collect();
    holdout.efficiencies = efficiencies;
    for chip in named(&cases) {
        // Neither the factors nor their spread have seen the chip.
        let spreads = Phase::ALL.map(|phase| spread(&cases, phase, Some(chip)));
        for case in cases.iter().filter(|case| case.chip == chip) {
            let at = Phase::ALL.iter().position(|phase| *phase == case.phase);
            let spread = at.and_then(|at| spreads[at]);
            let secs = without(&cases, case, None);
            if let (Some(secs), Some(spread)) = (secs, spread) {
                holdout.predictions.push(Prediction {
                    family: case.family.key.clone(),
                    chip: case.chip.clone(),
                    phase: case.phase,
                    datatype: case.datatype.clone(),
                    secs: case.secs,
                    predicted: Predicted::around(secs, spread),
                    place: case.place.clone(),
                });
                continue;
            }
            let reason = format!(
                "no other chip has been measured with {} in {}",
                case.datatype, case.family.key
            );
            *holdout.left_out.entry(reason).or_default() += 1;
        }
    }
}

fn named(cases: &[Case]) -> BTreeSet<&str> {
    cases.iter().map(|case| case.chip.as_str()).collect()
}

/// The time of a case by factors of the other chips, `also` left out too.
fn without(cases: &[Case], of: &Case, also: Option<&str>) -> Option<f64> {
    let others: Vec<&Case> = cases
        .iter()
        .filter(|case| case.family == of.family && case.phase == of.phase)
        .filter(|case| case.chip != of.chip && Some(case.chip.as_str()) != also)
        .collect();
    of.time(&Factors::fit(&others)?)
}

/// Logarithm of measured over predicted time.
struct Residual<'a> {
    family: &'a Family,
    chip: &'a str,
    value: f64,
}

/// Residuals of a phase with every chip left out in turn, as if `unseen` had never been measured; the factors are
/// those of the phase `by`.
fn residuals<'a>(
    cases: &'a [Case],
    phase: Phase,
    by: Phase,
    unseen: Option<&str>,
) -> Vec<Residual<'a>> {
    // One fit for each family and chip: the rows of a chip share it.
    let mut fits: BTreeMap<(&Family, &str), Option<Factors>> = BTreeMap::new();
    let mut list = Vec::new();
    let seen = |case: &&Case| Some(case.chip.as_str()) != unseen;
    for case in cases.iter().filter(seen).filter(|case| case.phase == phase) {
        let key = (&case.family, case.chip.as_str());
        let factors = fits.entry(key).or_insert_with(|| {
            let others: Vec<&Case> = cases
                .iter()
                .filter(seen)
                .filter(|other| other.family == case.family && other.phase == by)
                .filter(|other| other.chip != case.chip)
                .collect();
            Factors::fit(&others)
        });
        if let Some(secs) = factors.as_ref().and_then(|factors| case.time(factors)) {
            list.push(Residual {
                family: &case.family,
                chip: &case.chip,
                value: (case.secs / secs).ln(),
            });
        }
    }
    list
}

/// Residuals of CPUs by factors of another instruction set, of data types that both have been measured with.
fn other_isas(cases: &[Case]) -> Vec<Residual<'_>> {
    let cpus: Vec<&Case> = cases
        .iter()
        .filter(|case| case.family.kind == "cpu")
        .collect();
    let families: BTreeSet<&Family> = cpus.iter().map(|case| &case.family).collect();
    let mut list = Vec::new();
    for family in families {
        for phase in [Phase::Prefill, Phase::Decode] {
            let of = |case: &&&Case| case.family == *family && case.phase == phase;
            let own: Vec<&Case> = cpus.iter().filter(of).copied().collect();
            let Some(factors) = Factors::fit(&own) else {
                continue;
            };
            let others = cpus.iter().filter(|case| {
                let runtime = |key: &str| key.split("cpu+").next().map(str::to_owned);
                case.phase == phase
                    && case.family != *family
                    && runtime(&case.family.key) == runtime(&family.key)
            });
            list.extend(others.filter_map(|case| {
                Some(Residual {
                    family: &case.family,
                    chip: &case.chip,
                    value: (case.secs / case.time(&factors)?).ln(),
                })
            }));
        }
    }
    list
}

/// Residuals of a phase with the factors of the chip's own rows.
fn own<'a>(cases: &'a [Case], phase: Phase, unseen: Option<&str>) -> Vec<Residual<'a>> {
    let mut groups: BTreeMap<(&Family, &str), Vec<&Case>> = BTreeMap::new();
    let seen = |case: &&Case| Some(case.chip.as_str()) != unseen;
    for case in cases.iter().filter(seen).filter(|case| case.phase == phase) {
        let key = (&case.family, case.chip.as_str());
        groups.entry(key).or_default().push(case);
    }
    let mut list = Vec::new();
    for ((family, chip), group) in groups {
        let Some(factors) = Factors::fit(&group) else {
            continue;
        };
        let secs = |case: &&Case| case.time(&factors);
        let values = group
            .iter()
            .filter_map(|case| Some((case.secs / secs(case)?).ln()));
        list.extend(values.map(|value| Residual {
            family,
            chip,
            value,
        }));
    }
    list
}

/// Values by chip.
fn by_chip<'a>(residuals: &[Residual<'a>]) -> BTreeMap<(&'a Family, &'a str), Vec<f64>> {
    let mut chips: BTreeMap<(&Family, &str), Vec<f64>> = BTreeMap::new();
    for residual in residuals {
        let key = (residual.family, residual.chip);
        chips.entry(key).or_default().push(residual.value);
    }
    chips
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Mean residual of each chip.
fn means(residuals: &[Residual<'_>]) -> Vec<f64> {
    by_chip(residuals).values().map(|list| mean(list)).collect()
}

/// Variance of each chip's residuals around their mean.
fn variances(residuals: &[Residual<'_>]) -> Vec<f64> {
    let variance = |list: &Vec<f64>| {
        let centre = mean(list);
        list.iter()
            .map(|x| (x - centre) * (x - centre))
            .sum::<f64>()
            / list.len() as f64
    };
    by_chip(residuals).values().map(variance).collect()
}

/// 95 % points of Student's t for 1, 2, … degrees of freedom.
const STUDENT: [f64; 12] = [
    6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782,
];
/// The same for many.
const NORMAL: f64 = 1.645;

/// Half-width of the interval that holds 90 % of the values of one more chip, in the logarithm of a time.
///
/// Chips of a family are drawn, each with an effect of its own around 0 and values that scatter around it: the
/// half-width is Student's t, for as many chips as were left out in turn, times `√(b²·(1 + 1/n) + w²)`, with `b²` the
/// mean square of the chips' mean residuals and `w²` the mean variance within a chip.
fn half_width(chips: &[f64], within: &[f64]) -> Option<f64> {
    let n = chips.len();
    if n == 0 || within.is_empty() {
        return None;
    }
    let between = chips.iter().map(|mean| mean * mean).sum::<f64>() / n as f64;
    let within = within.iter().sum::<f64>() / within.len() as f64;
    let t = STUDENT.get(n - 1).copied().unwrap_or(NORMAL);
    Some(t * (between * (1.0 + 1.0 / n as f64) + within).sqrt())
}

/// The half-width of a phase, as if `unseen` had never been measured.
///
/// Encodes have been measured on two chips, too few to tell how chips differ in them: how they differ in prefills,
/// which the same engines compute, counts with it; the scatter within a chip is that of its own towers.
fn spread(cases: &[Case], phase: Phase, unseen: Option<&str>) -> Option<f64> {
    let list = residuals(cases, phase, phase, unseen);
    if phase != Phase::Encode {
        return half_width(&means(&list), &variances(&list));
    }
    let mut chips = means(&list);
    chips.extend(means(&residuals(
        cases,
        Phase::Prefill,
        Phase::Prefill,
        unseen,
    )));
    half_width(&chips, &variances(&own(cases, phase, unseen)))
}

/// Median and 90th percentile of absolute errors, and the share within the interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// Values.
    pub count: usize,
    /// Median absolute error of the rate.
    pub median: f64,
    /// 90th percentile.
    pub p90: f64,
    /// Share of measured values within the 90 % interval.
    pub inside: f64,
}

/// The score of some predictions; `None` of none.
pub fn score<'a>(predictions: impl IntoIterator<Item = &'a Prediction>) -> Option<Score> {
    let list: Vec<&Prediction> = predictions.into_iter().collect();
    let mut errors: Vec<f64> = list.iter().map(|one| one.error().abs()).collect();
    errors.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let index = (share * errors.len() as f64).ceil() as usize;
        errors.get(index.saturating_sub(1)).copied()
    };
    let inside = list.iter().filter(|one| one.inside()).count();
    Some(Score {
        count: list.len(),
        median: at(0.5)?,
        p90: at(0.9)?,
        inside: inside as f64 / list.len() as f64,
    })
}
