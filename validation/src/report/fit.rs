//! A fit as sections.

use super::published::{error_text, plain};
use super::{Section, Table, significant};
use crate::fit::{Fit, Identified};

/// The sections: parameters, residuals, predictions.
pub fn fit(fit: &Fit) -> Vec<Section> {
    vec![parameters(fit), residuals(fit), predictions(fit)]
}

fn parameters(fit: &Fit) -> Section {
    let mut table = Table::new(&["parameter", ">was", ">fitted", ">95 % interval", "", "sets"]);
    for parameter in &fit.parameters {
        table.row([
            parameter.name.clone(),
            significant(parameter.was),
            significant(parameter.value),
            format!(
                "{} … {}",
                significant(parameter.low),
                significant(parameter.high)
            ),
            says(parameter.identified).to_owned(),
            first(&parameter.sets),
        ]);
    }
    let who = fit.source.as_ref().map_or_else(
        || format!("`{}`", fit.measurements),
        |source| format!("{source} (`{}`)", fit.measurements),
    );
    let intro = format!(
        "{}. {} numbers, fitted to {} calibration rows of {who} by weighted least squares \
         (`{}`, {} predictions of all rows). The interval is that of the profile likelihood: how far the \
         number can go while the others make up for it.",
        fit.title,
        fit.parameters.len(),
        fit.rows.len(),
        fit.spec,
        fit.evaluations,
    );
    let quality = if fit.freedom == 0 {
        format!(
            "There are no more rows than parameters: sum of squares {}, and nothing is left to judge the \
             fit by.",
            significant(fit.chi2)
        )
    } else {
        format!(
            "Sum of squares {} at {} degrees of freedom{}.",
            significant(fit.chi2),
            fit.freedom,
            if fit.misfit > 1.0 {
                ": worse than the rows' errors say, so the intervals are those of errors as large as the residuals"
            } else {
                ""
            }
        )
    };
    let solved: Vec<f64> = fit.starts.iter().copied().flatten().collect();
    let near = solved
        .iter()
        .filter(|chi2| **chi2 <= fit.chi2 + 0.1 * fit.misfit);
    let starts = format!(
        "Of {} starts, {} came to this minimum{}.",
        fit.starts.len(),
        near.count(),
        match fit.starts.len() - solved.len() {
            0 => String::new(),
            failed => format!("; at {failed} the rows could not be predicted"),
        }
    );
    let weak = fit.weak.iter().map(|direction| {
        let weights = direction.weights.iter();
        let weights: Vec<String> = weights
            .map(|(name, weight)| format!("{weight:+.2} {name}").replace('-', "−"))
            .collect();
        format!("- {}", weights.join(", "))
    });
    let weak: Vec<String> = weak.collect();
    let weak = if weak.is_empty() {
        "The rows pin down every combination of the parameters.".to_owned()
    } else {
        format!(
            "Combinations that the rows do not pin down (steps on the parameters' scales):\n\n{}",
            weak.join("\n")
        )
    };
    Section::new(
        "Parameters",
        &[intro, table.markdown(), quality, starts, weak],
    )
}

/// The first, and how many more.
fn first(sets: &[String]) -> String {
    match sets {
        [] => String::new(),
        [one] => one.clone(),
        [one, more @ ..] => format!("{one} and {} more", more.len()),
    }
}

fn says(identified: Identified) -> &'static str {
    match identified {
        Identified::Both => "identified",
        Identified::Below => "bounded from below alone",
        Identified::Above => "bounded from above alone",
        Identified::No => "NOT IDENTIFIED: its bounds",
    }
}

fn residuals(fit: &Fit) -> Section {
    let mut table = Table::new(&[
        "row",
        "model",
        "config",
        "metric",
        ">measured",
        ">fitted",
        ">error",
        ">in σ",
    ]);
    for fitted in &fit.rows {
        let row = &fitted.row;
        table.row([
            row.id.clone(),
            row.model.clone(),
            row.config.clone(),
            row.metric.clone(),
            format!(
                "{} ± {} {}",
                plain(row.value),
                significant(fitted.sigma),
                row.unit
            ),
            significant(fitted.fitted),
            error_text(row, fitted.error()),
            format!("{:+.2}", (fitted.fitted - row.value) / fitted.sigma).replace('-', "−"),
        ]);
    }
    let held: Vec<String> = fit
        .held_out
        .iter()
        .map(|row| format!("- {}", row.label()))
        .collect();
    let held = if held.is_empty() {
        "The filters match no outcome.".to_owned()
    } else {
        format!(
            "Outcomes that the filters match were held out:\n\n{}",
            held.join("\n")
        )
    };
    Section::new("Fitted rows", &[table.markdown(), held])
}

fn predictions(fit: &Fit) -> Section {
    let mut table = Table::new(&[
        "row",
        "model",
        "config",
        "metric",
        ">measured",
        ">predicted",
        ">range of the fit",
        ">error",
    ]);
    for held in &fit.predicted {
        let row = &held.row;
        table.row([
            row.id.clone(),
            row.model.clone(),
            row.config.clone(),
            row.metric.clone(),
            format!("{} {}", plain(row.value), row.unit),
            significant(held.value),
            format!("{} … {}", significant(held.low), significant(held.high)),
            error_text(row, held.error()),
        ]);
    }
    let text = if table.is_empty() {
        "No outcome reads a fitted number."
    } else {
        "Outcomes that read a fitted number; they took no part. The range is over the fit's 95 % confidence \
         set alone: what else is uncertain in the profiles comes on top (`validate published`)."
    };
    Section::new("Predictions", &[text.to_owned(), table.markdown()])
}
