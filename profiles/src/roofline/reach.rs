//! Within one chip and model: long contexts from short ones, and a prompt with its answer from separate rows.

use std::collections::BTreeMap;

use crate::import::{Identity, Row, Spread, Test};

/// Spread beyond which a measured value cannot speak of errors of some per cent.
const SCATTER: f64 = 0.1;

/// A measured rate beside one that others give.
#[derive(Clone, Debug, PartialEq)]
pub struct Reached {
    /// File of the row.
    pub file: String,
    /// What was predicted, and of which rows.
    pub what: String,
    /// Predicted rate less the measured one, over the measured one.
    pub error: f64,
    /// Why the rows scatter too much for the error to say anything.
    pub scatters: Option<String>,
    /// What the rows do not hold that the prediction would need.
    pub lacks: Option<String>,
}

/// Rows by what they are of; the table that they stand in does not matter.
fn groups(rows: &[Row]) -> BTreeMap<&Identity, Vec<&Row>> {
    let mut groups: BTreeMap<&Identity, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        groups.entry(&row.identity).or_default().push(row);
    }
    groups
}

fn cv(row: &Row) -> f64 {
    match &row.spread {
        Spread::Cv(cv) => *cv,
        Spread::Samples(list) => {
            let mean = list.iter().sum::<f64>() / list.len().max(1) as f64;
            let squares: f64 = list.iter().map(|x| (x - mean) * (x - mean)).sum();
            (squares / (list.len().max(2) - 1) as f64).sqrt() / mean
        }
        Spread::Unknown => 0.0,
    }
}

/// Why a session says nothing: one of its rows scatters.
fn scatters(rows: &[&Row]) -> Option<String> {
    let widest = rows.iter().max_by(|a, b| cv(a).total_cmp(&cv(b)))?;
    let cv = cv(widest);
    (cv > SCATTER).then(|| format!("{} has a deviation of {:.0} %", widest.test, 100.0 * cv))
}

/// Mean context of a token of the test, and time of one.
fn point(row: &Row) -> Option<(bool, f64, f64)> {
    let (decode, tokens, depth) = match row.test {
        Test::Prefill { tokens, depth } => (false, tokens, depth),
        Test::Decode { tokens, depth } => (true, tokens, depth),
        _ => return None,
    };
    let tokens = tokens as f64;
    Some((
        decode,
        depth as f64 + (tokens - 1.0) / 2.0,
        row.secs / tokens,
    ))
}

/// Context before the first token of a test.
fn depth(row: &Row) -> u64 {
    match row.test {
        Test::Prefill { depth, .. } | Test::Decode { depth, .. } => depth,
        _ => 0,
    }
}

/// `a + b·context` through points, least squares of relative errors, `b` not negative.
fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let mut sums = [0.0; 5];
    for &(context, secs) in points {
        let weight = 1.0 / (secs * secs);
        let terms = [1.0, context, context * context, secs, context * secs];
        for (sum, term) in sums.iter_mut().zip(terms) {
            *sum += weight * term;
        }
    }
    let [ones, x, xx, y, xy] = sums;
    let determinant = ones * xx - x * x;
    if determinant <= 1e-9 * ones * xx {
        return None;
    }
    let slope = (ones * xy - x * y) / determinant;
    if slope < 0.0 {
        return Some((y / ones, 0.0));
    }
    Some(((xx * y - x * xy) / determinant, slope))
}

/// Every rate at a context beyond twice the longest of the shorter half, from the shorter half: time a token
/// grows in a straight line with the context before it. Then, of rows at a depth, those without a prediction and why.
pub(super) fn long(rows: &[Row]) -> (Vec<Reached>, Vec<String>) {
    let mut list = Vec::new();
    let mut unjudged = Vec::new();
    for (identity, group) in groups(rows) {
        for decode in [false, true] {
            let mut own: Vec<(&Row, f64, f64)> = group
                .iter()
                .filter_map(|row| {
                    let (is, context, secs) = point(row)?;
                    (is == decode).then_some((*row, context, secs))
                })
                .collect();
            own.sort_by(|a, b| a.1.total_cmp(&b.1));
            let Some(longest) = own.last().map(|last| last.1) else {
                continue;
            };
            // Prompts of a few hundred tokens do not fill an engine, which is no matter of context.
            let fills = |row: &Row| {
                decode || matches!(row.test, Test::Prefill { tokens, .. } if tokens >= 512)
            };
            let (short, far): (Vec<_>, Vec<_>) = own
                .iter()
                .filter(|(row, ..)| fills(row))
                .partition(|(_, context, _)| *context <= longest / 2.0);
            let points: Vec<(f64, f64)> = short.iter().map(|(_, x, y)| (*x, *y)).collect();
            let model = identity.get("model").map_or("", String::as_str);
            let Some((a, b)) = line(&points) else {
                let deepest = own.iter().rev().find(|(row, ..)| depth(row) > 0);
                if let Some((row, ..)) = deepest.filter(|_| own.len() > 1) {
                    unjudged.push(format!(
                        "{}: {model} {}: {} of its {} rows at half this context or below, and a line takes two",
                        row.place,
                        row.test,
                        points.len(),
                        own.len(),
                    ));
                }
                continue;
            };
            for one in far {
                let (row, context, secs) = one;
                list.push(Reached {
                    file: row.place.file.clone(),
                    what: format!(
                        "{}: {model} {} from {} shorter",
                        row.place,
                        row.test,
                        points.len()
                    ),
                    error: (a + b * context).recip() * secs - 1.0,
                    scatters: scatters(&group),
                    lacks: None,
                });
            }
        }
    }
    (list, unjudged)
}

/// Every combined row from the separate ones: the prompt's own row (or the line through the prompts), and the
/// answer at the depth of the prompt, whose slope with the context is twice the prompts' where no row has a depth.
pub(super) fn combined(rows: &[Row]) -> Vec<Reached> {
    let mut list = Vec::new();
    for (identity, group) in groups(rows) {
        for row in &group {
            let Test::Both {
                prompt,
                tokens,
                depth,
            } = row.test
            else {
                continue;
            };
            let exact = group.iter().find(|other| {
                other.test
                    == Test::Prefill {
                        tokens: prompt,
                        depth,
                    }
            });
            let lines = |decode: bool| -> Vec<(f64, f64)> {
                let points = group.iter().filter_map(|row| point(row));
                points
                    .filter(|point| point.0 == decode)
                    .map(|(_, x, y)| (x, y))
                    .collect()
            };
            let prefill = lines(false);
            let slope = line(&prefill).map_or(0.0, |(_, b)| b);
            let Some(first) = exact else {
                continue;
            };
            let Some(alone) = group
                .iter()
                .filter(|other| matches!(other.test, Test::Decode { .. }))
                .min_by(|a, b| {
                    let gap =
                        |row: &Row| point(row).map_or(f64::MAX, |p| (p.1 - depth as f64).abs());
                    gap(a).total_cmp(&gap(b))
                })
            else {
                continue;
            };
            let Some((_, near, secs)) = point(alone) else {
                continue;
            };
            let context = (depth + prompt) as f64 + (tokens as f64 - 1.0) / 2.0;
            let decode = lines(true);
            let own = line(&decode);
            let slope = own.map_or(2.0 * slope, |(_, b)| b);
            // What the combined row itself says, if its prompt took as long as that of its own row.
            let seen = ((row.secs - first.secs) / tokens as f64 - secs) / (context - near);
            let lacks = own.is_none().then(|| {
                format!(
                    "no row has an answer behind a context (`-n {tokens} -d {prompt}`), so each token of context adds {:.2} µs to a token, twice what it adds in prompts; in this row it added {:.2} µs",
                    1e6 * slope,
                    1e6 * seen
                )
            });
            let each = secs + slope * (context - near);
            let predicted = first.secs + tokens as f64 * each;
            let model = identity.get("model").map_or("", String::as_str);
            list.push(Reached {
                file: row.place.file.clone(),
                what: format!("{}: {model} {}", row.place, row.test),
                error: row.secs / predicted - 1.0,
                scatters: scatters(&group),
                lacks,
            });
        }
    }
    list
}
