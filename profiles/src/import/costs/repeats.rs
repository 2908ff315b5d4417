//! Repeats of one measurement: put together where they follow each other, compared where they do not.

use std::collections::{BTreeMap, BTreeSet};

use super::super::note::{NoteKind, Notes};
use super::super::row::{Row, Spread, Test};
use super::super::stats::{cold, cv, mean, quantile, trend};
use super::super::toml_text::number;

/// Share by which values of one thing may differ, beyond their spreads, and still be repeats in time.
const STEP_MAX: f64 = 0.15;

/// A value as it stood: one of several that follow each other.
struct Part {
    secs: f64,
    sd: f64,
    line: u64,
    shown: String,
}

impl Part {
    fn of(row: &Row) -> Self {
        Self {
            secs: row.secs,
            sd: sd(row),
            line: row.place.line,
            shown: row.shown.clone(),
        }
    }
}

/// Puts repeats together, takes conflicts out, and cold starts and drifts apart.
pub(super) fn settle(rows: Vec<Row>, notes: &mut Notes) -> Vec<Row> {
    let mut kept: Vec<(Row, Vec<Part>)> = Vec::new();
    let mut index: BTreeMap<String, usize> = BTreeMap::new();
    let mut conflicts: BTreeSet<String> = BTreeSet::new();
    let mut last: Option<(Test, u64)> = None;
    for row in rows {
        let key = (row.test.clone(), row.block);
        let adjacent = last.as_ref() == Some(&key);
        last = Some(key);
        let at = *index.entry(row.test.to_string()).or_insert(kept.len());
        let Some((known, parts)) = kept.get_mut(at) else {
            let part = Part::of(&row);
            kept.push((row, vec![part]));
            continue;
        };
        if adjacent && known.place.file == row.place.file {
            repeat(known, &row);
            parts.push(Part::of(&row));
            continue;
        }
        if agree(known, &row) {
            let text = format!(
                "`{}` again: agrees with {} ({}), which is used",
                row.test, known.place, known.shown
            );
            notes.skip(&row.place.file, row.place.line, text);
            continue;
        }
        let text = format!(
            "`{}` is {} here and {} at {}: neither is used; tell the two apart with `--only`, or import one of the files",
            row.test, row.shown, known.shown, known.place
        );
        notes.add(
            NoteKind::Conflict,
            &row.place.file,
            Some(row.place.line),
            text,
        );
        conflicts.insert(row.test.to_string());
    }
    for (row, parts) in &kept {
        let Some((before, after)) = step(parts) else {
            continue;
        };
        let text = format!(
            "`{}` is {} here and {} at {}:{}: too far apart for repeats in time, so neither is used; tell the two apart with `--only`, or import one of them",
            row.test, after.shown, before.shown, row.place.file, before.line
        );
        notes.add(NoteKind::Conflict, &row.place.file, Some(after.line), text);
        conflicts.insert(row.test.to_string());
    }
    kept.retain(|(row, _)| !conflicts.contains(&row.test.to_string()));
    for (row, parts) in &mut kept {
        describe(row, parts.len(), notes);
    }
    kept.into_iter().map(|(row, _)| row).collect()
}

/// Adds a repeat in time to a row.
fn repeat(known: &mut Row, row: &Row) {
    let samples = |row: &Row| match &row.spread {
        Spread::Samples(samples) => samples.clone(),
        _ => vec![row.secs],
    };
    let mut all = samples(known);
    all.extend(samples(row));
    known.secs = mean(&all);
    known.spread = Spread::Samples(all);
}

/// The values on both sides of a step, if there is one: all before it lie on one side of all after it, by more than
/// the spreads, `STEP_MAX`, and what either side scatters or drifts. Two settings look so; noise crosses, a drift
/// goes on, and a cold start is the first of three and more.
fn step(parts: &[Part]) -> Option<(&Part, &Part)> {
    let secs: Vec<f64> = parts.iter().map(|part| part.secs).collect();
    let parts = &parts[usize::from(cold(&secs))..];
    let count = parts.len();
    // Least and greatest of the values from each place on.
    let mut after = vec![(f64::MAX, f64::MIN); count + 1];
    for (index, part) in parts.iter().enumerate().rev() {
        let (low, high) = after[index + 1];
        after[index] = (low.min(part.secs), high.max(part.secs));
    }
    let (mut low, mut high) = (f64::MAX, f64::MIN);
    for (index, pair) in parts.windows(2).enumerate() {
        let [a, b] = pair else {
            continue;
        };
        low = low.min(a.secs);
        high = high.max(a.secs);
        let (least, most) = after[index + 1];
        let gap = (least - high).max(low - most);
        let spread = 2.0 * (a.sd.powi(2) + b.sd.powi(2)).sqrt();
        let within = (high - low).max(most - least);
        if gap > spread && gap > STEP_MAX * low.min(least) && gap > within {
            return Some((a, b));
        }
    }
    None
}

/// Standard deviation of a row's repeats, s.
fn sd(row: &Row) -> f64 {
    match &row.spread {
        Spread::Unknown => 0.0,
        Spread::Cv(cv) => cv * row.secs,
        Spread::Samples(samples) => cv(samples).unwrap_or(0.0) * row.secs,
    }
}

/// Whether two values are the same up to their spread.
fn agree(a: &Row, b: &Row) -> bool {
    let spread = (sd(a).powi(2) + sd(b).powi(2)).sqrt();
    (a.secs - b.secs).abs() <= (2.0 * spread).max(0.01 * a.secs.min(b.secs))
}

/// Says what repeats show: a cold start, a drift, a spread.
fn describe(row: &mut Row, repeats: usize, notes: &mut Notes) {
    let (file, line) = (row.place.file.clone(), row.place.line);
    let Spread::Samples(samples) = &mut row.spread else {
        return;
    };
    if cold(samples) {
        let first = samples.remove(0);
        row.cold_s = Some(first);
        row.secs = mean(samples);
        row.shown = format!("{} s without the first run", number(row.secs));
        let text = format!(
            "`{}`: the first run took {} s, {:.1} times the later mean: a cold start, kept apart",
            row.test,
            number(first),
            first / row.secs
        );
        notes.add(NoteKind::Warning, &file, Some(line), text);
    }
    if repeats > 1 {
        if row.cold_s.is_none() {
            row.shown = format!("{} s, mean of {repeats} repeats", number(row.secs));
        }
        let text = format!("`{}` {repeats} times in a row: repeats in time", row.test);
        notes.add(NoteKind::Read, &file, Some(line), text);
    }
    if let [first, second] = samples.as_slice()
        && *first > 1.5 * second
        && row.cold_s.is_none()
    {
        let text = format!(
            "`{}`: two runs, and the first took {:.1} times the second: a cold start or noise, which two do not tell; both are in the mean: repeat it, `llama-bench -r 5`",
            row.test,
            first / second
        );
        notes.add(NoteKind::Warning, &file, Some(line), text);
    }
    if let Some(trend) = trend(samples) {
        let text = format!(
            "`{}`: times {} over {} repeats: a mean of {} s in the first third, of {} s in the last ({:+.0} %): {}; this is no noise, so all of it, {} to {} s, is given as an interval",
            row.test,
            if trend.last > trend.first {
                "rise"
            } else {
                "fall"
            },
            samples.len(),
            number(trend.first),
            number(trend.last),
            100.0 * (trend.last / trend.first - 1.0),
            if trend.last > trend.first {
                "throttling"
            } else {
                "warming up"
            },
            number(quantile(samples, 0.0)),
            number(quantile(samples, 1.0)),
        );
        notes.add(NoteKind::Trend, &file, Some(line), text);
    } else if samples.len() >= 2 {
        let text = format!(
            "`{}`: {} samples, mean {} s, p50 {} s, p99 {} s",
            row.test,
            samples.len(),
            number(row.secs),
            number(quantile(samples, 0.5)),
            number(quantile(samples, 0.99)),
        );
        notes.add(NoteKind::Read, &file, Some(line), text);
    }
}
