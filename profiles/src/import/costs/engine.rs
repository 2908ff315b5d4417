//! The costs on one engine.

mod form;
mod told;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom;

use super::super::Options;
use super::super::fit::{Point, TERMS};
use super::super::note::{NoteKind, Notes};
use super::super::row::{ENCODE_CORES, ENCODE_QUANT, Identity, NOT_STATED, Row, Spread, Test};
use super::super::stats::trend;
use super::super::text::slug;
use super::super::toml_text::{number, origin, quantity};
use super::Group;
use form::{FORM_ERROR_MAX, SLOPES, attend, choose, covering, drift, how, scaled, table, wider};

/// Samples that a profile lists.
const SAMPLES_MAX: usize = 1000;

/// Writes the costs on one engine.
pub(super) struct Engine<'a> {
    name: String,
    rows: Vec<Row>,
    identity: &'a Identity,
    options: &'a Options,
    cold: bool,
    pub(super) body: String,
    pub(super) origins: String,
}

impl<'a> Engine<'a> {
    pub(super) fn new(group: &'a Group, options: &'a Options, cold: bool) -> Self {
        let rows = group.rows.iter().filter_map(|row| {
            let mut row = row.clone();
            if cold {
                row.secs = row.cold_s?;
                row.spread = Spread::Unknown;
                row.shown = format!("{} s, the first run", number(row.secs));
            }
            Some(row)
        });
        Self {
            name: name(&group.identity),
            rows: rows.collect(),
            identity: &group.identity,
            options,
            cold,
            body: String::new(),
            origins: String::new(),
        }
    }

    /// Whether anything came out.
    pub(super) fn write(&mut self, notes: &mut Notes) -> bool {
        let prefill = self.points(|test| match test {
            Test::Prefill { tokens, depth } => Some((*tokens, *depth)),
            _ => None,
        });
        let decode = self.points(|test| match test {
            Test::Decode { tokens, depth } => Some((*tokens, *depth)),
            _ => None,
        });
        let prefill = self.sized("prefill", &prefill, None, notes);
        let slope = prefill.map(|form| form[2]);
        let decode = self.sized("decode", &decode, slope, notes);
        self.encode(notes);
        self.runs(notes);
        if !self.cold {
            self.check_both(prefill, decode, notes);
            self.missing(prefill.is_some(), decode.is_some(), notes);
        }
        !self.body.is_empty()
    }

    /// Rows of a kind with their sizes.
    fn points(&self, size: fn(&Test) -> Option<(u64, u64)>) -> Vec<(Point, Row)> {
        let rows = self.rows.iter().filter_map(|row| {
            let (tokens, depth) = size(&row.test)?;
            let point = Point {
                tokens: tokens as f64,
                depth: depth as f64,
                secs: row.secs,
            };
            Some((point, row.clone()))
        });
        rows.collect()
    }

    /// Writes the stages of one kind; returns the fitted form.
    fn sized(
        &mut self,
        kind: &str,
        points: &[(Point, Row)],
        slope: Option<f64>,
        notes: &mut Notes,
    ) -> Option<[f64; TERMS]> {
        let stages: &[&str] = match kind {
            "prefill" => &["ingest", "query_prefill"],
            _ => &["decode"],
        };
        let rows: Vec<&Row> = points.iter().map(|(_, row)| row).collect();
        let points: Vec<Point> = points.iter().map(|(point, _)| *point).collect();
        let contexts = points.iter().any(|point| point.depth > 0.0);
        let least = |value: fn(&Point) -> f64| points.iter().map(value).fold(f64::MAX, f64::min);
        let most = |value: fn(&Point) -> f64| points.iter().map(value).fold(0.0, f64::max);
        let stated = rows.iter().all(|row| row.stated);
        let (mut form, mut worst) = choose(kind, &points)?;
        let tabled = kind == "prefill" && worst > FORM_ERROR_MAX && !contexts;
        if worst > 0.1 && !tabled && !self.cold {
            let text = format!(
                "{kind}: no form of the cost comes within {:.0} % of every row; the interval covers them",
                100.0 * worst
            );
            let place = &rows.first()?.place;
            notes.add(NoteKind::Warning, &place.file, Some(place.line), text);
        }
        self.said(stages, &rows, notes);
        if stated && !self.cold {
            self.deep(kind, &points, &rows, notes);
        }
        if stated && !tabled && !self.cold {
            self.near(kind, (&points, &rows), &form, notes);
        }
        let key = format!("{}_{kind}", self.name);
        let mut text = String::new();
        // What a token of context costs a generated one, where only the prefill's rows tell.
        let assumed = slope
            .filter(|slope| kind == "decode" && !contexts && *slope > 0.0)
            .and_then(|slope| attend(&points, (&form, worst), slope));
        if let Some(with) = assumed {
            (form, worst) = with;
            self.assume_slope(&mut text, &key, form[2]);
        }
        if tabled {
            text += &table(&points, &key);
        } else {
            let factors = wider(drift(&rows), covering(&points, &form));
            for (name, value) in ["fixed_s", "per_token_s", "per_token_context_s"]
                .iter()
                .zip(form)
            {
                let written = assumed.is_some() && name == &"per_token_context_s";
                if value > 0.0 && !written {
                    _ = writeln!(text, "{name} = {}", scaled(value, &key, factors));
                }
            }
            if stated {
                let (low, high) = (least(|p| p.tokens), most(|p| p.tokens));
                _ = writeln!(
                    text,
                    "measured_tokens = [{}, {}]",
                    number(low),
                    number(high)
                );
            }
        }
        let within = match kind {
            "decode" => most(|point| point.depth + point.tokens),
            _ if form[2] > 0.0 => most(|point| point.depth + point.tokens),
            _ => most(|point| point.depth),
        };
        if stated {
            _ = writeln!(
                text,
                "measured_context = [{}, {}]",
                number(least(|point| point.depth)),
                number(within)
            );
        }
        text += &self.bytes(kind);
        text += &self.spread(&rows, &format!("{key}_spread"));
        for stage in stages {
            _ = write!(
                self.body,
                "\n[engines.{}.stages.{stage}]\n{text}",
                self.name
            );
        }
        let how = how(points.len(), tabled, assumed.is_some(), &form, worst);
        let fitted = points.len() > 1 && !tabled;
        if stated {
            self.origin(&key, fitted, &rows, &how);
        } else {
            let how = format!(
                "{how}; at which length and context the rate was reached is not stated, so it has no measured range"
            );
            self.origins += &origin(&key, "derived", &sources(&rows), &how);
        }
        // A table is followed by its form only roughly: what is checked with it must not rest on that.
        (!tabled || worst <= 0.1).then_some(form)
    }

    /// Writes a decode's slope that was taken from the prefill's.
    fn assume_slope(&mut self, text: &mut String, key: &str, slope: f64) {
        let key = format!("{key}_slope");
        let interval = Some((slope / SLOPES, slope * 1.5));
        _ = writeln!(
            text,
            "per_token_context_s = {}",
            quantity(slope, &key, interval)
        );
        let note = "No row has a context. Twice what a token of context costs in the prefill: generating, the KV is read for one token at a time; boards with rows of both have two to three times";
        self.origins += &origin(&key, "assumed", "", note);
    }

    fn origin(&mut self, key: &str, fitted: bool, rows: &[&Row], how: &str) {
        let kind = match (fitted, self.options.ours) {
            (true, _) => "fitted",
            (false, true) => "measured",
            (false, false) => "published",
        };
        let source = sources(rows);
        self.origins += &origin(key, kind, &source, how);
    }

    /// Bytes of the weights that the stage reads. A mixture of experts reads some of them, which no table says.
    fn bytes(&mut self, kind: &str) -> String {
        let Some(weights) = self.rows.iter().find_map(|row| row.weights_bytes) else {
            return String::new();
        };
        let model = self
            .identity
            .get("model")
            .map_or("", String::as_str)
            .to_lowercase();
        let experts = model.contains("moe")
            || model.contains("mixtral")
            || model.contains("8x")
            || model.split([' ', '.', '-', '_']).any(active);
        if experts {
            return String::new();
        }
        let key = format!("{}_weights", self.name);
        if !self.origins.contains(&format!("[origins.{key}]")) {
            let note = "The model's size as the file states it: all weights are read once for a generated token, and once for a micro-batch of a prompt";
            self.origins += &origin(&key, "derived", "", note);
        }
        let name = if kind == "decode" {
            "bytes_per_token"
        } else {
            "bytes"
        };
        format!("{name} = {}\n", quantity(weights, &key, None))
    }

    /// The spread of the row that tells it best: the most samples, else the widest deviation.
    fn spread(&mut self, rows: &[&Row], key: &str) -> String {
        let mut best: Option<(&Row, &Vec<f64>)> = None;
        for row in rows {
            if let Spread::Samples(samples) = &row.spread
                && samples.len() >= 2
                && trend(samples).is_none()
                && best.is_none_or(|(_, known)| samples.len() > known.len())
            {
                best = Some((row, samples));
            }
        }
        if let Some((row, samples)) = best {
            let list: Vec<String> = listed(samples).into_iter().map(number).collect();
            let kind = if self.options.ours {
                "measured"
            } else {
                "published"
            };
            let drawn = if samples.len() > SAMPLES_MAX {
                format!(", {SAMPLES_MAX} of {} drawn at random", samples.len())
            } else {
                String::new()
            };
            let note = format!("Repeats of `{}` in their order{drawn}", row.test);
            self.origins += &origin(key, kind, &sources(&[row]), &note);
            return format!("samples_s = [{}]\norigin = \"{key}\"\n", list.join(", "));
        }
        let mut widest: Option<(f64, &Row)> = None;
        for row in rows {
            if let Spread::Cv(cv) = row.spread
                && cv > 0.0
                && widest.is_none_or(|(known, _)| cv > known)
            {
                widest = Some((cv, row));
            }
        }
        let Some((cv, row)) = widest else {
            return String::new();
        };
        let note = format!(
            "The widest of the rows, `{}`: standard deviation over mean, of whole runs",
            row.test
        );
        let kind = if self.options.ours {
            "measured"
        } else {
            "published"
        };
        self.origins += &origin(key, kind, &sources(&[row]), &note);
        format!("cv = {}\n", quantity(cv.min(100.0), key, None))
    }

    fn encode(&mut self, notes: &mut Notes) {
        let rows: Vec<Row> = self
            .rows
            .iter()
            .filter(|row| matches!(row.test, Test::Encode { .. }))
            .cloned()
            .collect();
        let refs: Vec<&Row> = rows.iter().collect();
        let mut sizes: BTreeMap<u64, f64> = BTreeMap::new();
        for row in &rows {
            if let Test::Encode {
                pixels: Some((width, height)),
            } = row.test
            {
                sizes.insert(width.saturating_mul(height), row.secs);
            }
        }
        let key = format!("{}_encode", self.name);
        let Some(first) = rows.first() else {
            return;
        };
        self.said(&["encode"], &refs, notes);
        let text = if sizes.len() > 1 {
            let list = |texts: Vec<String>| texts.join(", ");
            format!(
                "table = {{ size = [{}], time_s = [{}], origin = \"{key}\" }}\n",
                list(
                    sizes
                        .keys()
                        .map(|pixels| number(*pixels as f64 / 1e6))
                        .collect()
                ),
                list(sizes.values().map(|secs| number(*secs)).collect()),
            )
        } else {
            format!("fixed_s = {}\n", scaled(first.secs, &key, drift(&refs)))
        };
        let text = text + &self.spread(&refs, &format!("{key}_spread"));
        _ = write!(self.body, "\n[engines.{}.stages.encode]\n{text}", self.name);
        let stated = |key: &str| self.identity.get(key).map(String::as_str);
        let precision = stated(ENCODE_QUANT).unwrap_or("a precision that is not stated");
        let cores = stated(ENCODE_CORES).or_else(|| stated("cores"));
        let how = format!(
            "Time of a frame in the vision tower, in {precision}, on {} of the NPU",
            match cores {
                Some("1") => "1 core".to_owned(),
                Some(count) if count != NOT_STATED => format!("{count} cores"),
                _ => "a number of cores that is not stated".to_owned(),
            }
        );
        self.origin(&key, false, &refs, &how);
    }

    fn runs(&mut self, notes: &mut Notes) {
        let is_run = |row: &&Row| matches!(row.test, Test::Run(_));
        let one = self.rows.iter().filter(is_run).count() == 1;
        for row in self.rows.clone() {
            let Test::Run(name) = &row.test else {
                continue;
            };
            let given = self.options.stage.as_ref().filter(|_| one);
            let plain = key(given.unwrap_or(name));
            let table = |stage: &str| format!("\n[engines.{}.stages.{stage}]\n", self.name);
            let mut stage = plain.clone();
            let mut number = 2;
            // Names may differ in nothing that a key can show.
            while self.body.contains(&table(&stage)) {
                stage = format!("{plain}_{number}");
                number += 1;
            }
            let head = table(&stage);
            let key = format!("{}-run-{stage}", self.name);
            let rows = [&row];
            self.said(&[&stage], &rows, notes);
            let text = format!("fixed_s = {}\n", scaled(row.secs, &key, drift(&rows)))
                + &self.spread(&rows, &format!("{key}-spread"));
            self.body += &head;
            self.body += &text;
            self.origin(&key, false, &rows, "Wall time of one inference");
        }
    }
}

/// The name of the engine that an identity is of.
pub(super) fn name(identity: &Identity) -> String {
    key(identity.get("engine").map_or("engine", String::as_str))
}

/// A name as a key of a table.
fn key(name: &str) -> String {
    slug(name).replace(['.', '-'], "_")
}

/// The samples that a profile lists, in their order: of too many some at random, as often as they come.
fn listed(samples: &[f64]) -> Vec<f64> {
    let mut numbers: Vec<usize> = (0..samples.len()).collect();
    if samples.len() > SAMPLES_MAX {
        // The same rows give the same profile.
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(0);
        numbers.shuffle(&mut rng);
        numbers.truncate(SAMPLES_MAX);
        numbers.sort_unstable();
    }
    numbers.into_iter().map(|at| samples[at]).collect()
}

/// `A3B` and the like: active parameters of a mixture of experts.
fn active(word: &str) -> bool {
    word.strip_prefix('a')
        .and_then(|rest| rest.strip_suffix('b'))
        .is_some_and(|digits| digits.parse::<f64>().is_ok())
}

/// The rows with their places, each file once.
fn sources(rows: &[&Row]) -> String {
    let mut text = String::new();
    let mut file = "";
    for (index, row) in rows.iter().enumerate() {
        if index == 20 {
            _ = write!(text, " and {} more", rows.len() - index);
            break;
        }
        if row.place.file == file {
            _ = write!(
                text,
                ", line {} `{}` {}",
                row.place.line, row.test, row.shown
            );
        } else {
            let separator = if text.is_empty() { "" } else { "; " };
            _ = write!(
                text,
                "{separator}{} line {} `{}` {}",
                row.place.file, row.place.line, row.test, row.shown
            );
            file = &row.place.file;
        }
    }
    text
}
