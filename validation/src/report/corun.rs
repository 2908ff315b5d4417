//! Contention models held against a co-run matrix, as a section.

use super::markdown::{code, escape};
use super::{Section, Table, significant};
use crate::corun::Score;
use crate::words::plain;

/// The number that a peak bounds.
const BANDWIDTH: &str = "bandwidth_gbps";

/// How every model fares, and what was fitted; `peak`: the memory's, GB/s, if one was given. `matrix`: the file, with what
/// its comments say of the chip and of who measured.
pub fn corun(scores: &[Score], peak: Option<f64>, matrix: (&str, &[String])) -> Section {
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
            .map(|fitted| {
                let free = peak.is_none() && fitted.name == BANDWIDTH;
                let free = if free { " (free: no peak given)" } else { "" };
                format!("{} {}{free}", fitted.name, significant(fitted.value))
            })
            .collect();
        numbers.row([score.model.to_owned(), fitted.join(", ")]);
    }
    let explanation = "Mean absolute errors in points of relative speed (achieved ÷ alone × 100). \
                       In sample: fitted to all points. Out of sample: fitted to a random quarter, on \
                       the rest, mean and range over the quarters. Sub-grid: fitted to every second row \
                       and column. Bias: mean of predicted − measured, out of sample.";
    Section::new(
        "Contention",
        &[
            measured(matrix),
            explanation.to_owned(),
            bound(scores, peak),
            table.markdown(),
            numbers.markdown(),
        ],
    )
}

/// What was measured, as far as the file says.
fn measured((file, comments): (&str, &[String])) -> String {
    let says = if comments.is_empty() {
        "which does not say of which chip it is nor who measured it (lines that begin with `#` would)".to_owned()
    } else {
        let says: Vec<String> = comments.iter().map(|line| escape(line)).collect();
        format!("which says: {}", says.join(" "))
    };
    format!("The matrix is {}, {says}.", code(file))
}

/// What bounds the fitted bandwidth.
fn bound(scores: &[Score], peak: Option<f64>) -> String {
    if let Some(peak) = peak {
        let peak = plain(peak);
        return format!("No fitted bandwidth is above the memory's peak, {peak} GB/s.");
    }
    let mut fitted = scores.iter().flat_map(|score| &score.fitted);
    let most = fitted.find(|fitted| fitted.name == BANDWIDTH);
    let most = most.map_or_else(String::new, |fitted| {
        format!(", up to {} GB/s", significant(fitted.high))
    });
    format!(
        "NO PEAK OF THE MEMORY WAS GIVEN: the fitted bandwidth is free{most} (the largest demands together). Where it \
         comes out above what the memory can give, the errors of water-filling below are better than a physical model's."
    )
}

fn points(x: f64) -> String {
    // Not −0.00.
    let x = if x.abs() < 0.005 { 0.0 } else { x };
    format!("{x:.2}").replace('-', "−")
}
