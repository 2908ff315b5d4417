//! Repeats of one measurement: put together where they follow each other, compared where they do not.

use std::collections::{BTreeMap, BTreeSet};

use super::super::note::{NoteKind, Notes};
use super::super::row::{Row, Spread, Test};
use super::super::stats::{cold, cv, mean, quantile, trend};
use super::super::toml_text::number;

/// Puts repeats together, takes conflicts out, and cold starts and drifts apart.
pub(super) fn settle(rows: Vec<Row>, notes: &mut Notes) -> Vec<Row> {
    let mut kept: Vec<(Row, usize)> = Vec::new();
    let mut index: BTreeMap<String, usize> = BTreeMap::new();
    let mut conflicts: BTreeSet<String> = BTreeSet::new();
    let mut last: Option<(Test, u64)> = None;
    for row in rows {
        let key = (row.test.clone(), row.block);
        let adjacent = last.as_ref() == Some(&key);
        last = Some(key);
        let at = *index.entry(row.test.to_string()).or_insert(kept.len());
        let Some((known, repeats)) = kept.get_mut(at) else {
            kept.push((row, 1));
            continue;
        };
        if adjacent && known.place.file == row.place.file {
            repeat(known, &row);
            *repeats += 1;
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
    kept.retain(|(row, _)| !conflicts.contains(&row.test.to_string()));
    for (row, repeats) in &mut kept {
        describe(row, *repeats, notes);
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

/// Whether two values are the same up to their spread.
fn agree(a: &Row, b: &Row) -> bool {
    let sd = |row: &Row| match &row.spread {
        Spread::Unknown => 0.0,
        Spread::Cv(cv) => cv * row.secs,
        Spread::Samples(samples) => cv(samples).unwrap_or(0.0) * row.secs,
    };
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
        let text = format!(
            "`{}`: the first run took {} s, {:.1} times the later mean: a cold start, kept apart",
            row.test,
            number(first),
            first / row.secs
        );
        notes.add(NoteKind::Warning, &file, Some(line), text);
    }
    if repeats > 1 {
        let text = format!("`{}` {repeats} times in a row: repeats in time", row.test);
        notes.add(NoteKind::Read, &file, Some(line), text);
    }
    if let Some(trend) = trend(samples) {
        let text = format!(
            "`{}`: times {} from {} to {} s over {} repeats ({:+.0} %): {}; this is no noise, so it is given as an interval",
            row.test,
            if trend.last > trend.first {
                "rise"
            } else {
                "fall"
            },
            number(trend.first),
            number(trend.last),
            samples.len(),
            100.0 * (trend.last / trend.first - 1.0),
            if trend.last > trend.first {
                "throttling"
            } else {
                "warming up"
            },
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
