//! The file that describes a fit.

use std::ops::Range;

use schemars::JsonSchema;
use serde::Deserialize;
use sim::diag::{Diagnostic, Faults};
use toml::Spanned;

use crate::published::{Lab, Measurements, Role, Row};

/// Most parameters of one fit.
const FREE_MAX: usize = 32;
/// Most starting points.
const STARTS_MAX: u32 = 1000;

/// A fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Name of the file as the user gave it.
    pub name: String,
    /// Its text.
    pub text: String,
    /// What it is for.
    pub title: String,
    /// Error of a row that states no standard deviation, as a part of its value.
    pub relative_error: f64,
    /// Starting points: the profile's own, then others within the bounds.
    pub starts: u32,
    /// Seed of the starting points.
    pub seed: u64,
    /// Which rows; a row that any filter matches is taken.
    pub rows: Vec<Filter>,
    /// What is free.
    pub free: Vec<Free>,
    /// Bytes of the first filter's header, for faults of the whole choice.
    pub(super) rows_at: Range<usize>,
}

/// Which rows of the measurements a fit takes.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// Table, figure or series.
    pub id: Option<String>,
    /// Key of the SoC.
    pub platform: Option<String>,
    /// Words that the model must hold.
    pub model: Option<String>,
    /// Words that the setting must hold.
    pub setting: Option<String>,
    /// Configurations, any of them.
    #[serde(default)]
    pub config: Vec<String>,
    /// Metrics, any of them.
    #[serde(default)]
    pub metric: Vec<String>,
}

/// A free parameter: one number, written in one place or several.
#[derive(Clone, Debug, PartialEq)]
pub struct Free {
    /// Name for people.
    pub name: String,
    /// Least value.
    pub low: f64,
    /// Largest value.
    pub high: f64,
    /// Scale on which it is searched.
    pub scale: Scale,
    /// Why these bounds.
    pub note: Option<String>,
    /// Where it stands.
    pub sets: Vec<Target>,
}

/// Scale of a search.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Even in the number.
    #[default]
    Linear,
    /// Even in its logarithm; bounds must be above 0.
    Log,
}

/// A number of a profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Profile: `rk3588/soc`, `models/KEY`, `rk3588/KEY`, or a path ending in `.toml`.
    pub profile: String,
    /// Dotted path of the number in it.
    pub path: String,
    /// What the parameter is multiplied by there.
    pub times: f64,
    /// Sizes between which the rows measured it, tokens: written into its stage, which must say so.
    pub measured_tokens: Option<[u32; 2]>,
    pub(super) profile_at: Range<usize>,
    pub(super) path_at: Range<usize>,
}

/// A fit: what is free, and which measured rows it is to explain.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RawSpec {
    /// What it is for.
    title: String,
    /// Error of rows that state no `sd`, as a part of their values.
    #[schemars(with = "Option<f64>")]
    relative_error: Option<Spanned<f64>>,
    /// Starting points: the profile's own, then others within the bounds.
    #[schemars(with = "Option<u32>")]
    starts: Option<Spanned<u32>>,
    /// Seed of the starting points.
    #[serde(default)]
    seed: u64,
    /// Rows to explain; those that any of these filters takes.
    #[schemars(with = "Vec<Filter>")]
    rows: Vec<Spanned<Filter>>,
    /// What is free.
    parameters: Vec<RawFree>,
}

/// A free number.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RawFree {
    /// Name for people.
    #[schemars(with = "String")]
    name: Spanned<String>,
    /// The least that it could possibly be.
    #[schemars(with = "f64")]
    low: Spanned<f64>,
    /// The most that it could possibly be.
    #[schemars(with = "f64")]
    high: Spanned<f64>,
    /// Scale on which it is searched.
    #[serde(default)]
    scale: Scale,
    /// Why these bounds.
    note: Option<String>,
    /// Where it stands.
    sets: Vec<RawTarget>,
}

/// Places of a number in one profile.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RawTarget {
    /// Profile: `SOC/soc`, `models/MODEL` or `SOC/MODEL`, or a path that ends in it and `.toml`.
    #[schemars(with = "String")]
    profile: Spanned<String>,
    /// Dotted paths in it.
    #[schemars(with = "Vec<String>")]
    paths: Vec<Spanned<String>>,
    /// What the parameter is multiplied by there.
    #[schemars(with = "Option<f64>")]
    times: Option<Spanned<f64>>,
    /// Least and largest size that the rows measured, tokens.
    #[schemars(with = "Option<[u32; 2]>")]
    measured_tokens: Option<Spanned<[u32; 2]>>,
}

/// The JSON Schema of a fit, as text.
pub fn fit_schema() -> String {
    sim::load::schema_of::<RawSpec>("crossinfer fit")
}

/// Reads and checks a fit, called `name`.
pub fn read_spec(name: &str, text: &str) -> Result<Spec, Faults> {
    let raw: RawSpec = sim::load::read_as(name, text)?;
    let mut faults = Vec::new();
    check(name, &raw, &mut faults);
    if !faults.is_empty() {
        faults.sort_by_key(|fault| fault.span.start);
        return Err(Faults {
            list: faults,
            sources: vec![(name.to_owned(), text.to_owned())],
        });
    }
    let rows_at = raw.rows.first().map(Spanned::span).unwrap_or_default();
    Ok(Spec {
        name: name.to_owned(),
        text: text.to_owned(),
        title: raw.title,
        relative_error: raw.relative_error.map_or(0.02, Spanned::into_inner),
        starts: raw.starts.map_or(8, Spanned::into_inner),
        seed: raw.seed,
        rows: raw.rows.into_iter().map(Spanned::into_inner).collect(),
        free: raw.parameters.into_iter().map(RawFree::lower).collect(),
        rows_at,
    })
}

fn check(name: &str, raw: &RawSpec, faults: &mut Vec<Diagnostic>) {
    let mut fault = |span: Range<usize>, message: String, label: &str, help: &str| {
        faults.push(Diagnostic::new(name, span, message, label).help(help));
    };
    if let Some(error) = &raw.relative_error
        && !(*error.get_ref() > 0.0 && error.get_ref().is_finite())
    {
        fault(
            error.span(),
            format!("`relative_error` is {}", error.get_ref()),
            "must be greater than 0",
            "0.02 takes a row without `sd` as known to 2 %",
        );
    }
    if let Some(starts) = &raw.starts
        && !(1..=STARTS_MAX).contains(starts.get_ref())
    {
        fault(
            starts.span(),
            format!("`starts` is {}", starts.get_ref()),
            "must be from 1 to 1000",
            "8 is enough for most fits",
        );
    }
    if raw.rows.is_empty() {
        fault(
            0..0,
            "no `[[rows]]`".to_owned(),
            "nothing to fit to",
            "add `[[rows]]` with an `id`",
        );
    }
    if raw.parameters.is_empty() || raw.parameters.len() > FREE_MAX {
        fault(
            0..0,
            format!("{} `[[parameters]]`", raw.parameters.len()),
            "from 1 to 32 are free",
            "add `[[parameters]]` with `name`, `low`, `high` and `sets`",
        );
    }
    for (at, free) in raw.parameters.iter().enumerate() {
        let high = *free.high.get_ref();
        if free.name.get_ref().trim().is_empty() {
            fault(
                free.name.span(),
                "a parameter without a name".to_owned(),
                "must say what it is",
                "as `name = \"prefill, s/token\"`",
            );
        }
        if raw.parameters[..at]
            .iter()
            .any(|f| f.name.get_ref() == free.name.get_ref())
        {
            fault(
                free.name.span(),
                format!("two parameters are called `{}`", free.name.get_ref()),
                "the second one",
                "a parameter that stands in several places lists them in `sets`",
            );
        }
        if let Some((span, says, label, help)) = bounds(free) {
            fault(span, says, label, help);
        }
        if free.sets.iter().all(|target| target.paths.is_empty()) {
            fault(
                free.name.span(),
                format!("`{}` sets nothing", free.name.get_ref()),
                "has no place in a profile",
                "add `sets = [{ profile = \"soc/model\", paths = [\"engines.cpu.stages.decode.per_token_s\"] }]`",
            );
        }
        for target in &free.sets {
            if let Some(sizes) = &target.measured_tokens
                && sizes.get_ref()[0] > sizes.get_ref()[1]
            {
                fault(
                    sizes.span(),
                    "`measured_tokens` falls".to_owned(),
                    "must be the least and the largest size",
                    "`[31, 111]`: the rows measured sizes from 31 to 111 tokens",
                );
            }
            if let Some(times) = &target.times
                && !(*times.get_ref() > 0.0 && (times.get_ref() * high).is_finite())
            {
                fault(
                    times.span(),
                    format!("`times` is {:?}", times.get_ref()),
                    "must be greater than 0, and `high` times it a finite number",
                    "it multiplies the parameter in this place",
                );
            }
        }
    }
}

/// What is wrong with a parameter's bounds: where, what, its label and its help.
fn bounds(free: &RawFree) -> Option<(Range<usize>, String, &'static str, &'static str)> {
    const BOUNDS: &str = "bounds are what the number could possibly be";
    let (low, high) = (*free.low.get_ref(), *free.high.get_ref());
    if !(low.is_finite() && low >= 0.0) || free.scale == Scale::Log && low <= 0.0 {
        let label = "must be at least 0, and above 0 on a log scale";
        let help = "profiles hold no negative numbers";
        return Some((free.low.span(), format!("`low` is {low}"), label, help));
    }
    if !(high.is_finite() && high > low) {
        let says = format!("`high` is {high}");
        return Some((free.high.span(), says, "must be above `low`", BOUNDS));
    }
    if free.scale == Scale::Log && !(high / low).is_finite() {
        let says = format!("`low` is {low:e}");
        let label = "too small for a log scale up to `high`: their ratio is no finite number";
        return Some((free.low.span(), says, label, BOUNDS));
    }
    None
}

impl RawFree {
    fn lower(self) -> Free {
        let sets = self.sets.iter().flat_map(|target| {
            target.paths.iter().map(|path| Target {
                profile_at: target.profile.span(),
                path_at: path.span(),
                profile: target.profile.get_ref().clone(),
                path: path.get_ref().clone(),
                measured_tokens: target
                    .measured_tokens
                    .as_ref()
                    .map(|sizes| *sizes.get_ref()),
                times: target.times.as_ref().map_or(1.0, |times| *times.get_ref()),
            })
        });
        let sets = sets.collect();
        Free {
            name: self.name.into_inner(),
            low: self.low.into_inner(),
            high: self.high.into_inner(),
            scale: self.scale,
            note: self.note,
            sets,
        }
    }
}

impl Filter {
    /// Whether it takes a row, whatever the row's role.
    pub fn takes(&self, row: &Row) -> bool {
        let same =
            |wanted: &Option<String>, has: &str| wanted.as_ref().is_none_or(|wanted| wanted == has);
        let holds = |wanted: &Option<String>, has: &str| {
            wanted
                .as_ref()
                .is_none_or(|wanted| has.contains(wanted.as_str()))
        };
        let any = |wanted: &[String], has: &String| wanted.is_empty() || wanted.contains(has);
        same(&self.id, &row.id)
            && same(&self.platform, &row.platform)
            && holds(&self.model, &row.model)
            && holds(&self.setting, &row.setting)
            && any(&self.config, &row.config)
            && any(&self.metric, &row.metric)
    }
}

impl Spec {
    /// Key of the origin that its numbers have in a profile: `fit_` and the name of the file.
    pub fn origin(&self) -> String {
        let stem = std::path::Path::new(&self.name).file_stem();
        let stem = stem.unwrap_or_default().to_string_lossy();
        let word = |c: char| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '_'
            }
        };
        format!("fit_{}", stem.chars().map(word).collect::<String>())
    }

    /// Whether a file holds a calibration row that it takes and that a scenario plays.
    pub fn applies(&self, file: &Measurements) -> bool {
        let mut rows = self.chosen(file, Role::Calibration).into_iter();
        rows.any(|row| Lab::configurations(file, row).is_ok())
    }

    /// The rows of a role that the filters take.
    pub(super) fn chosen<'f>(&self, file: &'f Measurements, role: Role) -> Vec<&'f Row> {
        let rows = file.rows.iter().filter(|row| row.role == role);
        rows.filter(|row| self.rows.iter().any(|filter| filter.takes(row)))
            .collect()
    }

    /// A fault of this file.
    pub(super) fn faults(&self, list: Vec<Diagnostic>) -> Faults {
        Faults {
            list,
            sources: vec![(self.name.clone(), self.text.clone())],
        }
    }
}

impl Scale {
    /// The number on its scale, 0 at the low bound and 1 at the high one.
    pub(super) fn part(self, low: f64, high: f64, x: f64) -> f64 {
        match self {
            Self::Linear => (x - low) / (high - low),
            Self::Log => (x / low).ln() / (high / low).ln(),
        }
    }

    /// The number at a part of its scale.
    pub(super) fn at(self, low: f64, high: f64, part: f64) -> f64 {
        let x = match self {
            Self::Linear => low + (high - low) * part,
            Self::Log => low * (high / low).powf(part),
        };
        x.clamp(low, high)
    }
}
