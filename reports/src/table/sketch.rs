//! Sketches in letters, at most 80 columns wide: a distribution, and the lanes over time.

use std::fmt::Write as _;

use screen::{WIDTH, pad, paragraph, visible, width};

use crate::detail::{Bins, Class, Detail, Run};
use crate::number::{quantity, short};

/// Width of names.
const NAME: usize = 12;
/// Bins of a histogram and of a row of lanes.
const CELLS: usize = WIDTH - NAME - 2;
/// Levels of a cell.
const LEVELS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A row of cells for shares within [0, 1]; what is not nothing is not shown as nothing.
fn cells(shares: impl Iterator<Item = f64>) -> String {
    shares
        .map(|share| {
            let level = (share.clamp(0.0, 1.0) * 8.0).round() as usize;
            LEVELS[if share > 0.0 { level.max(1) } else { level }]
        })
        .collect()
}

/// The distribution of a time in one row of cells, with its ends; empty without values.
fn histogram(name: &str, values: &[f64]) -> String {
    let (Some(&low), Some(&high)) = (
        values.iter().min_by(|a, b| a.total_cmp(b)),
        values.iter().max_by(|a, b| a.total_cmp(b)),
    ) else {
        return String::new();
    };
    let ends = [quantity(low, "s"), quantity(high, "s")];
    let count = WIDTH.saturating_sub(NAME + 4 + ends[0].chars().count() + ends[1].chars().count());
    if low == high || count < 8 {
        return format!("{}{} throughout\n", pad(name, NAME), ends[0]);
    }
    let mut counts = vec![0.0_f64; count];
    for value in values {
        let at = ((value - low) / (high - low) * count as f64) as usize;
        counts[at.min(count - 1)] += 1.0;
    }
    let most = counts.iter().copied().fold(1.0, f64::max);
    format!(
        "{}{} ▕{}▏ {}\n",
        pad(name, NAME),
        ends[0],
        cells(counts.iter().map(|count| count / most)),
        ends[1]
    )
}

/// A run in letters: its lanes over time, and how its latencies spread.
pub fn sketch(detail: &Detail, run: &Run) -> String {
    let mut out = timeline(detail, run);
    out += &histogram("TTFT", &run.ttft_s);
    out += &histogram("completion", &run.completion_s);
    out
}

/// Each lane's busy share over the run, one row a class of stages that it ran, and the queries waiting.
fn timeline(detail: &Detail, run: &Run) -> String {
    let mut out = format!(
        "{}busy shares from 0 to {}, first replication\n",
        pad("lanes", NAME),
        quantity(run.end_ns as f64 / 1e9, "s")
    );
    for (lane, rows) in detail.lanes.iter().zip(&run.series.busy) {
        let mut name = visible(lane).into_owned();
        if width(&name) >= NAME {
            paragraph(&mut out, &name);
            name.replace_range(.., " ");
        }
        for (class, bins) in Class::ALL.into_iter().zip(rows) {
            if bins.mean.iter().all(|share| *share == 0.0) {
                continue;
            }
            let row = cells(means(bins, run.end_ns).into_iter());
            _ = writeln!(out, "{}▕{row}▏{}", pad(&name, NAME), class.name());
            name.clear();
        }
        if !name.is_empty() {
            _ = writeln!(out, "{}▕{}▏idle", pad(&name, NAME), " ".repeat(CELLS - 8));
        }
    }
    let waiting = means(&run.series.waiting, run.end_ns);
    let most = waiting.iter().copied().fold(0.0, f64::max);
    if most > 0.0 {
        let row = cells(waiting.iter().map(|count| count / most));
        _ = writeln!(out, "{}▕{row}▏≤ {}", pad("waiting", NAME), short(most));
    }
    out
}

/// Bins as the cells of a row.
fn means(bins: &Bins, end: u64) -> Vec<f64> {
    let count = CELLS - 8;
    let width = end.max(1) as f64 / count as f64;
    (0..count)
        .map(|cell| {
            let (from, to) = (cell as f64 * width, (cell + 1) as f64 * width);
            let first = (from / bins.width_ns as f64) as usize;
            let last = ((to / bins.width_ns as f64).ceil() as usize).max(first + 1);
            let part = (first..last).map(|bin| {
                let (low, high) = (
                    bin as f64 * bins.width_ns as f64,
                    (bin + 1) as f64 * bins.width_ns as f64,
                );
                let shared = (to.min(high) - from.max(low)).max(0.0);
                bins.mean.get(bin).copied().unwrap_or(0.0) * shared
            });
            part.sum::<f64>() / width
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toy;

    #[test]
    fn sketches_fit_80_columns_and_hold_the_means() {
        let (detail, summary) = toy::detail(&toy::scenario(0.5), 10);
        let run = &detail.runs[0];
        let text = sketch(&detail, run);
        assert!(
            text.lines().all(|line| line.chars().count() <= WIDTH),
            "{text}"
        );
        assert_eq!(text.lines().count(), 1 + 2 * 3 + 1 + 2, "{text}");
        let of = means(&run.series.busy[0][1], run.end_ns);
        let mean = of.iter().sum::<f64>() / of.len() as f64;
        let stages = summary.engines[0].stages_s.iter();
        let query = stages.filter(|(name, _)| name == "decode" || name == "query_prefill");
        let busy: f64 = query.map(|(_, secs)| secs).sum::<f64>() / summary.makespan_s;
        // The summary leaves the warm-up out.
        assert!((mean / busy - 1.0).abs() < 0.15, "{mean} {busy}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn histograms_show_where_values_are() {
        let text = histogram("TTFT", &[1.0, 1.0, 1.0, 2.0]);
        assert!(text.starts_with("TTFT        1.00 s ▕█"), "{text}");
        assert!(text.trim_end().ends_with("▃▏ 2.00 s"), "{text}");
        assert!(text.chars().count() <= WIDTH + 1);
        assert_eq!(histogram("TTFT", &[]), "");
        assert_eq!(
            histogram("TTFT", &[2.0, 2.0]),
            "TTFT        2.00 s throughout\n"
        );
    }
}
