//! The plot of where targets are met.

use std::fs;
use std::path::Path;

use lab::plan::{self, Axis, Case, Plan, Range, Target};
use reports::plot;

use super::{Arguments, failed, writable};
use crate::failure::Failure;
use crate::output::png;

/// Whether a plot can be written there, before anything is computed for it.
pub(super) fn drawable(file: &Path) -> Result<(), Failure> {
    let ending = file.extension().and_then(|extension| extension.to_str());
    if !matches!(ending, Some("svg" | "png")) {
        return Err(Failure::usage(
            format!("`{}` is neither .svg nor .png", file.display()),
            "name the plot after its form",
        ));
    }
    writable(file)
}

/// Refuses a plot whose second load is the first, or that would be of several chips.
pub(super) fn drawn_against(by: &str, axis: Axis, cases: usize) -> Result<(), Failure> {
    if second(by)? == axis {
        return Err(Failure::usage(
            format!("`--by {by}` is what is made as large as possible already"),
            "the second load of a plot is another one",
        ));
    }
    if cases > 1 {
        return Err(Failure::usage(
            format!("`--by` draws one chip and model, and there are {cases}"),
            "name one of them; without `--by` they are drawn side by side",
        ));
    }
    Ok(())
}

/// The second load of a plot.
pub(super) fn second(by: &str) -> Result<Axis, Failure> {
    Axis::parse(by).map_err(|text| Failure::usage(text, "as in `--by query_rate`"))
}

/// Columns and rows of the plot.
const CELLS: usize = 9;

pub(super) fn draw(
    file: &Path,
    arguments: &Arguments,
    cases: &[(String, Case<'_>)],
    targets: &[Target],
    plans: &[Plan],
) -> Result<(), Failure> {
    let Some(first) = plans.first() else {
        return Ok(());
    };
    let axis = first.axis;
    let edges = plans
        .iter()
        .flat_map(|plan| [plan.edge.meets, plan.edge.misses]);
    let top = edges.flatten().fold(0.0, f64::max);
    // No more is drawn than was asked for, nor where a load changes nothing.
    let ranges = || plans.iter().map(|plan| plan.edge.range);
    let least = ranges().map(|range| range.low).fold(f64::MAX, f64::min);
    let most = ranges().map(|range| range.high).fold(0.0, f64::max);
    let around = |axis: Axis, middle: f64, (least, most): (f64, f64)| {
        let low = if axis.whole() { 1.0 } else { middle / 4.0 };
        let high = if axis.whole() {
            (middle * 1.5).max(4.0)
        } else {
            middle * 4.0
        };
        let (low, high) = (low.max(least), high.min(most));
        plan::grid(axis, Range { low, high }, CELLS)
    };
    let columns = around(axis, top, (least, most));
    let (y, rows) = if let Some(by) = &arguments.by {
        let by = second(by)?;
        let (_, case) = &cases[0];
        let now = by
            .now(&case.text)
            .map_err(|text| Failure::usage(text, "check the scenario"))?;
        let loads = around(by, now, (0.0, f64::MAX));
        let all = plan::verdicts(case, targets, (axis, &columns), (by, &loads)).map_err(failed)?;
        let names = loads.iter().map(|load| format!("{load:.4}"));
        (by.unit().to_owned(), names.zip(all).collect())
    } else {
        let mut rows = Vec::new();
        for (title, case) in cases {
            rows.push((
                title.clone(),
                plan::row(case, targets, axis, &columns).map_err(failed)?,
            ));
        }
        (String::new(), rows)
    };
    let targets: Vec<&str> = targets.iter().map(|target| target.text.as_str()).collect();
    let map = plan::region(&targets.join(" and "), axis, &columns, &y, &rows);
    let bytes = if file.extension().is_some_and(|ending| ending == "svg") {
        plot::svg(&map).map_err(Failure::internal)?.into_bytes()
    } else {
        png(&file.to_string_lossy(), &map)?
    };
    fs::write(file, bytes).map_err(|error| Failure::write(file.display(), &error))
}
