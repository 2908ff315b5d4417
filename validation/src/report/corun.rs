//! Contention models held against a co-run matrix, as a section.

use super::{Section, Table, significant};
use crate::corun::Score;

/// How every model fares, and what was fitted.
pub fn corun(scores: &[Score]) -> Section {
    let mut table = Table::new(&[
        "model",
        ">parameters",
        ">in sample",
        ">out of sample",
        ">random quarters",
        ">sub-grid",
        ">bias",
    ]);
    for score in scores {
        table.row([
            score.model.to_owned(),
            score.parameters.to_string(),
            points(score.in_sample),
            points(score.out_of_sample),
            format!("{} to {}", points(score.out_best), points(score.out_worst)),
            points(score.sub_grid),
            points(score.bias),
        ]);
    }
    let mut numbers = Table::new(&["model", "fitted to all points"]);
    // The knots of a grid say nothing one by one.
    for score in scores
        .iter()
        .filter(|score| (1..=8).contains(&score.parameters))
    {
        let fitted: Vec<String> = score
            .fitted
            .iter()
            .map(|fitted| format!("{} {}", fitted.name, significant(fitted.value)))
            .collect();
        numbers.row([score.model.to_owned(), fitted.join(", ")]);
    }
    let explanation = "Mean absolute errors in points of relative speed (achieved ÷ alone × 100). \
                       In sample: fitted to all points. Out of sample: fitted to a random quarter, on \
                       the rest, mean and range over the quarters. Sub-grid: fitted to every second row \
                       and column. Bias: mean of predicted − measured, out of sample.";
    Section::new(
        "Contention",
        &[explanation.to_owned(), table.markdown(), numbers.markdown()],
    )
}

fn points(x: f64) -> String {
    // Not −0.00.
    let x = if x.abs() < 0.005 { 0.0 } else { x };
    format!("{x:.2}").replace('-', "−")
}
