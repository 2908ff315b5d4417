//! The costs on one engine.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::super::Options;
use super::super::fit::{Point, TERMS, fit};
use super::super::note::{NoteKind, Notes};
use super::super::row::{Identity, Row, Spread, Test};
use super::super::stats::trend;
use super::super::text::slug;
use super::super::toml_text::{number, origin, quantity};
use super::Group;

/// A form that misses a measured time by more than this is not used where a table can be.
const FORM_ERROR_MAX: f64 = 0.05;
/// A token of context costs a generated token so many times what it costs one of a prefill.
const SLOPES: f64 = 2.0;
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
        let (mut form, worst) = choose(kind, &points)?;
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
        let key = format!("{}_{kind}", self.name);
        let mut text = String::new();
        // What a token of context costs a generated one, where only the prefill's rows tell.
        let assumed = slope
            .filter(|slope| kind == "decode" && !contexts && *slope > 0.0)
            .and_then(|slope| attend(&points, &form, slope));
        if let Some(with) = assumed {
            form = with;
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
        let how = how(points.len(), tabled, &form, worst);
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

    /// Says which rows became which stages.
    fn said(&self, stages: &[&str], rows: &[&Row], notes: &mut Notes) {
        let Some(first) = rows.first().filter(|_| !self.cold) else {
            return;
        };
        let text = format!(
            "engine `{}`: {} of {}",
            self.name,
            stages.join(" and "),
            sources(rows)
        );
        notes.add(
            NoteKind::Read,
            &first.place.file,
            Some(first.place.line),
            text,
        );
    }

    /// Warns where no row is without a context beyond what it goes through itself: what it costs there is not measured.
    fn deep(&self, kind: &str, points: &[Point], rows: &[&Row], notes: &mut Notes) {
        let least = points.iter().map(|p| p.depth).fold(f64::MAX, f64::min);
        let tokens = points.iter().map(|p| p.tokens).fold(0.0, f64::max);
        let Some(first) = rows.first().filter(|_| least > tokens) else {
            return;
        };
        let several = points.iter().any(|point| point.depth > least);
        let text = format!(
            "engine `{}`, {kind}: no row has a context below {least} tokens; there {}: `llama-bench -d 0,{least}` measures it",
            self.name,
            if several {
                "the line through the deeper rows goes on, as nobody measured"
            } else {
                "the cost is taken to be the same, which is more than it is"
            }
        );
        notes.add(
            NoteKind::Warning,
            &first.place.file,
            Some(first.place.line),
            text,
        );
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
            let list: Vec<String> = samples
                .iter()
                .take(SAMPLES_MAX)
                .map(|x| number(*x))
                .collect();
            let kind = if self.options.ours {
                "measured"
            } else {
                "published"
            };
            let note = format!("Repeats of `{}` in their order", row.test);
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
        self.origin(&key, false, &refs, "Time of a frame in the vision tower");
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

    /// Compares prompt and generation timed together with what the separate rows make of it.
    fn check_both(
        &self,
        prefill: Option<[f64; TERMS]>,
        decode: Option<[f64; TERMS]>,
        notes: &mut Notes,
    ) {
        for row in &self.rows {
            let Test::Both {
                prompt,
                tokens,
                depth,
            } = row.test
            else {
                continue;
            };
            let (file, line) = (&row.place.file, row.place.line);
            let (Some(prefill), Some(decode)) = (prefill, decode) else {
                notes.skip(
                    file,
                    line,
                    format!("`{}` is prompt and generation in one time; without rows of each it cannot be told apart", row.test),
                );
                continue;
            };
            let at = |tokens: u64, depth: u64, form| {
                let point = Point {
                    tokens: tokens as f64,
                    depth: depth as f64,
                    secs: 1.0,
                };
                point.at(form)
            };
            let predicted = at(prompt, depth, &prefill) + at(tokens, depth + prompt, &decode);
            let text = format!(
                "`{}` is not used; the separate rows predict {} s, measured {} s ({:+.1} %)",
                row.test,
                number(predicted),
                number(row.secs),
                100.0 * (predicted / row.secs - 1.0)
            );
            notes.add(NoteKind::Read, file, Some(line), text);
        }
    }

    /// What the profile lacks, and what would supply it.
    fn missing(&self, prefill: bool, decode: bool, notes: &mut Notes) {
        let whole = self.rows.iter().all(|row| matches!(row.test, Test::Run(_)));
        if whole {
            return;
        }
        let depths: BTreeSet<u64> = self
            .rows
            .iter()
            .filter_map(|row| match row.test {
                Test::Prefill { depth, .. } | Test::Decode { depth, .. } => Some(depth),
                _ => None,
            })
            .collect();
        let encode = self
            .rows
            .iter()
            .any(|row| matches!(row.test, Test::Encode { .. }));
        let lacks = [
            (!prefill, "no prefill: `llama-bench -p 512` measures it"),
            (!decode, "no decode: `llama-bench -n 128` measures it"),
            (
                (prefill || decode) && depths.len() < 2,
                "one context length only, so the cost of a longer context is unknown: `llama-bench -d 0,4096` measures it",
            ),
            (
                !encode,
                "no vision tower: `crossinfer import ort-profile` or an `rkllm` multimodal table supplies it",
            ),
        ];
        for (lack, text) in lacks {
            if lack {
                notes.add(
                    NoteKind::Missing,
                    "",
                    None,
                    format!("engine `{}`: {text}", self.name),
                );
            }
        }
    }
}

/// The form of the points and its largest relative error. One row tells one number, and a fixed part shows only
/// between sizes.
fn choose(kind: &str, points: &[Point]) -> Option<([f64; TERMS], f64)> {
    if points.len() == 1 {
        return fit(points, [false, true, false]);
    }
    let sizes: BTreeSet<u64> = points.iter().map(|point| point.tokens as u64).collect();
    let plain = fit(points, [false, true, true])?;
    let more = points.len() > 3 || plain.1 > FORM_ERROR_MAX;
    if kind == "prefill" && sizes.len() > 1 && more {
        return fit(points, [true, true, true]);
    }
    Some(plain)
}

/// Times by size.
fn table(points: &[Point], key: &str) -> String {
    let mut pairs: Vec<(f64, f64)> = points.iter().map(|p| (p.tokens, p.secs)).collect();
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let list = |values: Vec<f64>| {
        let texts: Vec<String> = values.into_iter().map(number).collect();
        texts.join(", ")
    };
    let sizes = list(pairs.iter().map(|pair| pair.0).collect());
    let times = list(pairs.iter().map(|pair| pair.1).collect());
    format!("table = {{ size = [{sizes}], time_s = [{times}], origin = \"{key}\" }}\n")
}

/// How a cost was had from so many rows.
fn how(rows: usize, tabled: bool, form: &[f64; TERMS], worst: f64) -> String {
    match (rows, tabled) {
        (1, _) => "The time of the row by its tokens".to_owned(),
        (_, true) => format!(
            "Times by size, interpolated in time; no form came within {:.0} % ({:.0} %)",
            100.0 * FORM_ERROR_MAX,
            100.0 * worst
        ),
        (count, false) => format!(
            "{} numbers to {count} rows, least squares of relative errors, none negative; worst residual {:.1} %",
            form.iter().filter(|value| **value > 0.0).count(),
            100.0 * worst
        ),
    }
}

/// A form that meets the same times with the slope of a prefill, `SLOPES` times; none where nothing is left for the
/// tokens themselves.
fn attend(points: &[Point], form: &[f64; TERMS], slope: f64) -> Option<[f64; TERMS]> {
    let slope = SLOPES * slope;
    let longest = points.iter().map(|point| point.tokens).fold(0.0, f64::max);
    let rest = form[1] - slope * (longest - 1.0) / 2.0;
    (rest > form[1] / 2.0).then_some([form[0], rest, slope])
}

/// How far repeats that drift go below and above their mean, as factors: all of them, not only what the drift's two
/// ends come to.
fn drift(rows: &[&Row]) -> Option<(f64, f64)> {
    rows.iter().fold(None, |widest, row| match &row.spread {
        Spread::Samples(samples) if trend(samples).is_some() => {
            let factors = samples.iter().map(|secs| secs / row.secs);
            let all = factors.fold((1.0_f64, 1.0_f64), |(low, high), factor| {
                (low.min(factor), high.max(factor))
            });
            wider(widest, Some(all))
        }
        _ => widest,
    })
}

/// The factors that hold both.
fn wider(a: Option<(f64, f64)>, b: Option<(f64, f64)>) -> Option<(f64, f64)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (a, b) => a.or(b),
    }
}

/// A cost with an interval that is stated in factors on it.
fn scaled(value: f64, key: &str, factors: Option<(f64, f64)>) -> String {
    let interval = factors.map(|(low, high)| (low * value, high * value));
    quantity(value, key, interval)
}

/// Factors on a form within which every measured time lies, where it does not meet them all.
fn covering(points: &[Point], form: &[f64; TERMS]) -> Option<(f64, f64)> {
    let ratios = || points.iter().map(|point| point.secs / point.at(form));
    let (low, high) = (ratios().fold(1.0, f64::min), ratios().fold(1.0, f64::max));
    (high - low > 0.001).then_some((low, high))
}

/// The name of the engine that an identity is of.
pub(super) fn name(identity: &Identity) -> String {
    key(identity.get("engine").map_or("engine", String::as_str))
}

/// A name as a key of a table.
fn key(name: &str) -> String {
    slug(name).replace(['.', '-'], "_")
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
