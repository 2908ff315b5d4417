//! A fit as a function: parameters in, weighted residuals out.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;

use sim::diag::{Diagnostic, Faults};
use sim::load::{Numbers, Source};
use sim::world::Provenance;

use super::account::playable;
use super::check::nearest;
use super::result::{Fit, FittedRow, Parameter};
use super::spec::{Spec, Target};
use super::{identify, likelihood, result, solve};
use crate::folder::Stock;
use crate::published::{Bench, Configuration, Draws, Lab, Measurements, Metric, Role, Row};
use crate::report::significant;
use crate::words::count;

/// A start that ended without a minimum is lower than all minima where its sum of squares is by this part.
const UNSETTLED: f64 = 1e-3;

/// A fit as a function.
pub(super) struct Problem<'p> {
    pub(super) spec: &'p Spec,
    bench: Bench<'p>,
    /// Calibration rows that it is to explain.
    pub(super) rows: Vec<Observation<'p>>,
    /// Places of each parameter: file, bytes and multiple.
    places: Vec<Vec<Place>>,
    /// Profiles that they stand in: name and text.
    texts: Vec<(String, String)>,
    evaluations: Cell<u64>,
}

/// Where a parameter stands.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) number: Provenance,
    pub(super) times: f64,
    pub(super) measured_tokens: Option<[u32; 2]>,
}

/// A row and what plays it.
#[derive(Debug)]
pub(super) struct Observation<'p> {
    pub(super) row: &'p Row,
    pub(super) metric: Metric,
    pub(super) configurations: Vec<Configuration>,
    /// Standard deviation that it is weighted by, in the row's unit.
    pub(super) sigma: f64,
}

/// Fits a specification to the calibration rows of `file`.
///
/// # Errors
///
/// Faults of the specification, of what its rows name, or of the profiles; a specification whose rows
/// no scenario plays, or that names a number that its scenarios do not read, is one, and so is what the file names
/// wrongly ([`Lab::check`]).
pub fn fit(stock: &dyn Stock, spec: &Spec, file: &Measurements) -> Result<Fit, Faults> {
    Lab::new(stock, Draws { count: 0, seed: 0 }).check(file)?;
    let problem = Problem::new(stock, spec, file)?;
    let starts = solve::starts(&problem);
    let solved: Vec<Option<solve::Best>> = starts
        .iter()
        .map(|start| solve::minimise(&problem, start, &[]))
        .collect();
    let mut failed: Vec<String> = starts
        .iter()
        .zip(&solved)
        .filter(|(_, best)| best.is_none())
        .filter_map(|(start, _)| problem.why(&solve::begin(start, &[])))
        .collect();
    failed.sort_unstable();
    failed.dedup();
    let fault = |message: &str, label: &str, help: &str| {
        let fault = Diagnostic::new(&spec.name, spec.rows_at.clone(), message, label);
        spec.faults(vec![fault.help(help)])
    };
    let ended: Vec<solve::Best> = solved.iter().flatten().cloned().collect();
    let Some(lowest) = ended.iter().min_by(|a, b| a.chi2.total_cmp(&b.chi2)) else {
        return Err(fault(
            "the rows cannot be predicted at any starting point",
            failed.first().map_or("these rows", String::as_str),
            "the bounds may hold values at which the scenarios answer nothing, have no steady latency or do not load",
        ));
    };
    let minima: Vec<solve::Best> = ended.iter().filter(|best| best.settled).cloned().collect();
    let least = minima
        .iter()
        .map(|best| best.chi2)
        .fold(f64::INFINITY, f64::min);
    if least > lowest.chi2 * (1.0 + UNSETTLED) + UNSETTLED {
        let at = problem.values(&lowest.parts);
        let at = spec.free.iter().zip(at);
        let at: Vec<String> = at
            .map(|(free, value)| format!("{} {}", free.name, significant(value)))
            .collect();
        return Err(fault(
            &format!(
                "no minimum was found: the lowest of {} ended where its search could not go on",
                count(ended.len(), "start")
            ),
            &format!(
                "sum of squares {} at {}",
                significant(lowest.chi2),
                at.join(", ")
            ),
            "beside it the rows cannot be predicted, or every step leads elsewhere: narrow the bounds around it, or \
             lengthen the scenarios' runs",
        ));
    }
    let Some(profiled) = likelihood::profile_all(&problem, &minima) else {
        return Err(fault(
            "no minimum was found",
            "these rows",
            "narrow the bounds",
        ));
    };
    let shape = identify::shape(&problem, &profiled);
    let found = result::build(&problem, file, &solved, failed, &profiled, shape)?;
    let beyond = |p: &&Parameter| !p.seen && !(p.bounds[0]..=p.bounds[1]).contains(&p.was);
    if let Some(free) = found.parameters.iter().find(beyond) {
        // The profile's value would stay, and is none that the bounds allow.
        return Err(fault(
            &format!(
                "no row sees `{}`, and the profile's value is outside its bounds",
                free.name
            ),
            &format!(
                "these rows; the profile has {}, the bounds are {} to {}",
                significant(free.was),
                significant(free.bounds[0]),
                significant(free.bounds[1])
            ),
            "leave the parameter out, or add a row that it changes",
        ));
    }
    Ok(found)
}

impl Place {
    /// Whether it is this number.
    fn is(&self, number: &Provenance) -> bool {
        (&self.number.file, &self.number.span) == (&number.file, &number.span)
    }
}

impl<'p> Problem<'p> {
    fn new(stock: &'p dyn Stock, spec: &'p Spec, file: &'p Measurements) -> Result<Self, Faults> {
        let bench = Bench::new(stock);
        let mut rows = Vec::new();
        for row in spec.chosen(file, Role::Calibration) {
            // What is left out so is listed (`Account`).
            let Ok(()) = playable(file, row) else {
                continue;
            };
            let Ok(configurations) = Lab::configurations(file, row) else {
                continue;
            };
            let Some(metric) = row.metric() else { continue };
            bench.open(file, row, &configurations)?;
            let sigma = row.sd.unwrap_or(spec.relative_error * row.value.abs());
            if sigma <= 0.0 {
                let fault = Diagnostic::new(
                    &file.name,
                    row.at.metric.clone(),
                    "a calibration row of 0 without a spread",
                    "a relative error of 0 says nothing",
                );
                let help = "state the row's `sd`, or leave it out with the filters of `rows`";
                return Err(file.faults(fault.help(help)));
            }
            rows.push(Observation {
                row,
                metric,
                configurations,
                sigma,
            });
        }
        if rows.is_empty() {
            let fault = Diagnostic::new(
                &spec.name,
                spec.rows_at.clone(),
                "no calibration row to fit to",
                "these filters take none that a scenario plays",
            )
            .help("`id`, `config` and `metric` are as in the measurements; only `role = \"calibration\"` is taken");
            return Err(spec.faults(vec![fault]));
        }
        let mut problem = Self {
            spec,
            bench,
            rows,
            places: Vec::new(),
            texts: Vec::new(),
            evaluations: Cell::new(0),
        };
        problem.places = problem.locate(stock)?;
        for target in spec.free.iter().flat_map(|free| &free.sets) {
            let read = |file: &str| {
                let mut places = problem.places.iter().flatten();
                places.any(|place| plain(&place.number.file) == file)
            };
            if let Some(Source { name, text }) = problem.profile(stock, &target.profile, read)
                && !problem.texts.iter().any(|(known, _)| *known == name)
            {
                problem.texts.push((name, text));
            }
        }
        Ok(problem)
    }

    /// Finds every number that the parameters set among those that the scenarios read.
    fn locate(&self, stock: &dyn Stock) -> Result<Vec<Vec<Place>>, Faults> {
        let mut numbers: BTreeMap<(String, String), Provenance> = BTreeMap::new();
        for configuration in self.rows.iter().flat_map(|row| &row.configurations) {
            for number in self
                .bench
                .world(configuration, &Numbers::default())?
                .provenance
            {
                let key = (plain(&number.file), number.path.clone());
                numbers.entry(key).or_insert(number);
            }
        }
        let mut faults = Vec::new();
        let mut all = Vec::new();
        for free in &self.spec.free {
            let mut places = Vec::new();
            for target in &free.sets {
                match self.find(stock, target, &numbers) {
                    Ok(place) => places.push(place),
                    Err(fault) => faults.push(fault),
                }
            }
            all.push(places);
        }
        let mut taken: Vec<&Place> = Vec::new();
        for (free, places) in self.spec.free.iter().zip(&all) {
            for (target, place) in free.sets.iter().zip(places) {
                if taken.iter().any(|taken| taken.is(&place.number)) {
                    faults.push(self.fault(
                        &target.path_at,
                        format!("`{}` is set twice", target.path),
                        "by this parameter too",
                        "a number has one parameter",
                    ));
                }
                taken.push(place);
            }
        }
        if faults.is_empty() {
            return Ok(all);
        }
        Err(self.spec.faults(faults))
    }

    fn find(
        &self,
        stock: &dyn Stock,
        target: &Target,
        numbers: &BTreeMap<(String, String), Provenance>,
    ) -> Result<Place, Diagnostic> {
        let read = |file: &str| numbers.keys().any(|(known, _)| known == file);
        let file = self.profile(stock, &target.profile, read);
        let file = file.map(|file| plain(&file.name));
        let of_file = |number: &&(String, String)| Some(&number.0) == file.as_ref();
        if !numbers.keys().any(|number| of_file(&number)) {
            let mut files: Vec<&str> = numbers.keys().map(|(file, _)| file.as_str()).collect();
            files.dedup();
            return Err(self.fault(
                &target.profile_at,
                format!(
                    "no scenario of the rows reads the profile `{}`",
                    target.profile
                ),
                "not read",
                &format!("they read {}", files.join(", ")),
            ));
        }
        let key = (file.clone().unwrap_or_default(), target.path.clone());
        let Some(number) = numbers.get(&key) else {
            let paths = numbers
                .keys()
                .filter(of_file)
                .map(|(_, path)| path.as_str());
            let help = nearest(paths, &target.path);
            return Err(self.fault(
                &target.path_at,
                format!("`{}` has no number `{}`", target.profile, target.path),
                "not there",
                &help,
            ));
        };
        if let Some(why) = count_of(&target.path) {
            return Err(self.fault(&target.path_at, why, "cannot be free", COUNTS));
        }
        Ok(Place {
            number: number.clone(),
            times: target.times,
            measured_tokens: target.measured_tokens,
        })
    }

    /// The profile that the specification calls `key`: the one beside it if the rows' scenarios `read`
    /// that, else the one that they do, as when they are built in.
    fn profile(&self, stock: &dyn Stock, key: &str, read: impl Fn(&str) -> bool) -> Option<Source> {
        let scenarios = self.rows.iter().flat_map(|row| &row.configurations);
        let scenarios = scenarios.filter_map(|play| self.bench.name(&play.scenario));
        let near = std::iter::once(self.spec.name.clone()).chain(scenarios);
        let mut found = near.filter_map(|path| profile(stock, &path, key));
        found.find(|source| read(&plain(&source.name)))
    }

    fn fault(&self, at: &Range<usize>, message: String, label: &str, help: &str) -> Diagnostic {
        Diagnostic::new(&self.spec.name, at.clone(), message, label).help(help)
    }

    /// Where the parameters stand, in their order.
    pub(super) fn places(&self) -> &[Vec<Place>] {
        &self.places
    }

    /// Profiles that they stand in: name and text.
    pub(super) fn texts(&self) -> &[(String, String)] {
        &self.texts
    }

    /// Values of the parameters at these parts of their scales.
    pub(super) fn values(&self, parts: &[f64]) -> Vec<f64> {
        let free = self.spec.free.iter().zip(parts);
        free.map(|(free, &part)| free.scale.at(free.low, free.high, part))
            .collect()
    }

    /// The parts at which the profiles' own values lie, within the bounds.
    pub(super) fn own_parts(&self) -> Vec<f64> {
        let free = self.spec.free.iter().zip(&self.places);
        free.map(|(free, places)| {
            let value = places
                .first()
                .map_or(free.low, |place| place.number.value / place.times);
            let value = value.clamp(free.low, free.high);
            free.scale.part(free.low, free.high, value)
        })
        .collect()
    }

    /// The profiles' numbers with these parts.
    fn numbers(&self, parts: &[f64]) -> Numbers {
        let mut numbers = Numbers::default();
        for (value, places) in self.values(parts).into_iter().zip(&self.places) {
            for place in places {
                numbers.set(&place.number, value * place.times);
            }
        }
        numbers
    }

    /// Predictions of rows, in their units; the reason where one cannot be made.
    fn try_predict(
        &self,
        observations: &[Observation<'_>],
        parts: &[f64],
    ) -> Result<Vec<f64>, String> {
        self.evaluations.set(self.evaluations.get() + 1);
        let numbers = self.numbers(parts);
        let mut session = self.bench.session(&numbers);
        let predictions = observations.iter().map(|observation| {
            let row = observation.row;
            let factor = observation.metric.dimension().factor(&row.unit);
            let factor = factor.ok_or_else(|| format!("`{}` is no unit of it", row.unit))?;
            let read = session.read(&observation.metric, row, &observation.configurations);
            let read = read.map_err(|why| format!("{}: {why}", row.label()))?;
            Ok(read / factor)
        });
        predictions.collect()
    }

    /// Predictions of rows, in their units; `None` where one cannot be made.
    pub(super) fn predict(
        &self,
        observations: &[Observation<'_>],
        parts: &[f64],
    ) -> Option<Vec<f64>> {
        self.try_predict(observations, parts).ok()
    }

    /// Why the calibration rows cannot be predicted here; `None` where they can.
    fn why(&self, parts: &[f64]) -> Option<String> {
        self.try_predict(&self.rows, parts).err()
    }

    /// Residuals of the calibration rows, in standard deviations.
    pub(super) fn residuals(&self, parts: &[f64]) -> Option<Vec<f64>> {
        let predictions = self.predict(&self.rows, parts)?;
        let residuals = self.rows.iter().zip(predictions);
        residuals
            .map(|(row, predicted)| {
                let residual = (predicted - row.row.value) / row.sigma;
                residual.is_finite().then_some(residual)
            })
            .collect()
    }

    /// Sum of their squares; `None` where a row cannot be predicted.
    pub(super) fn chi2(&self, parts: &[f64]) -> Option<f64> {
        let residuals = self.residuals(parts)?;
        Some(residuals.iter().map(|residual| residual * residual).sum())
    }

    /// Evaluations so far.
    pub(super) fn evaluations(&self) -> u64 {
        self.evaluations.get()
    }

    /// The outcomes of the file that read a fitted number: what the fit predicts.
    pub(super) fn outcomes(&self, file: &'p Measurements) -> Result<Vec<Observation<'p>>, Faults> {
        let mut list = Vec::new();
        for row in file.rows.iter().filter(|row| row.role == Role::Outcome) {
            let Ok(configurations) = Lab::configurations(file, row) else {
                continue;
            };
            let Some(metric) = row.metric() else { continue };
            self.bench.open(file, row, &configurations)?;
            let mut reads = false;
            for configuration in &configurations {
                let world = self.bench.world(configuration, &Numbers::default())?;
                let fitted = |number| self.places.iter().flatten().any(|place| place.is(number));
                reads |= world.provenance.iter().any(fitted);
            }
            if reads {
                list.push(Observation {
                    row,
                    metric,
                    configurations,
                    sigma: row.sd.unwrap_or(0.0),
                });
            }
        }
        Ok(list)
    }

    /// The calibration rows with what the fit makes of them.
    pub(super) fn fitted(&self, parts: &[f64]) -> Vec<FittedRow> {
        let predictions = self.predict(&self.rows, parts).unwrap_or_default();
        let rows = self.rows.iter().zip(predictions);
        rows.map(|(observation, fitted)| FittedRow {
            row: observation.row.clone(),
            fitted,
            sigma: observation.sigma,
        })
        .collect()
    }
}

/// What may be free instead of a count.
pub(super) const COUNTS: &str = "a fit moves numbers a little at a time; take counts from the datasheet or the model's configuration";

/// Why the number at a path cannot be free: it counts something, so nothing lies between two of its values.
pub(super) fn count_of(path: &str) -> Option<String> {
    let key = path.rsplit('.').next().unwrap_or(path);
    let counts =
        path == "cpu.cores" || key.ends_with("_tokens") || key.ends_with("tokens_per_frame");
    counts.then(|| format!("`{path}` is a count"))
}

/// A profile by its key as the file at `near` finds it, or by its path relative to that file.
pub(super) fn profile(stock: &dyn Stock, near: &str, key: &str) -> Option<Source> {
    if std::path::Path::new(key)
        .extension()
        .is_some_and(|extension| extension == "toml")
    {
        let folder = std::path::Path::new(near).parent();
        let path = folder.map_or_else(|| key.into(), |folder| folder.join(key));
        let name = plain(&path.to_string_lossy());
        let text = stock.files().read(&name).ok()?;
        return Some(Source { name, text });
    }
    let library = stock.library(near);
    match key.split_once('/')? {
        ("models", model) => library.model(model),
        (soc, "soc") => library.soc(soc),
        (soc, model) => library.costs(soc, model),
    }
}

/// A path without `.` and without `folder/..`, so that two spellings of one file are the same.
pub(super) fn plain(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." if parts
                .last()
                .is_some_and(|last| *last != ".." && !last.is_empty()) =>
            {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}
