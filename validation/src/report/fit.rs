//! A fit as sections.

use std::collections::BTreeSet;

use super::markdown::{code, escape};
use super::published::error_text;
use super::{Section, Table, significant};
use crate::fit::{Fit, Identified};
use crate::published::{Compared, Comparison};
use crate::words::{count, plain, tenths};

/// The sections: parameters, residuals, predictions.
pub fn fit(fit: &Fit) -> Vec<Section> {
    vec![parameters(fit), residuals(fit), predictions(fit)]
}

/// What was fitted, what the rows identify and what they do not: of every fit that was run, with those that the
/// measurements do not serve.
pub fn fitted(fits: &[Fit], without_rows: &[String], comparison: &Comparison) -> Section {
    let mut table = Table::new(&[
        "fit",
        ">rows",
        ">numbers",
        ">identified",
        ">from one side",
        ">not",
        ">worst residual",
        "profile",
    ]);
    for fit in fits {
        let of = |wanted: &[Identified]| {
            let parameters = fit.parameters.iter();
            let found = parameters.filter(|parameter| wanted.contains(&parameter.identified));
            found.count().to_string()
        };
        let moved = fit
            .parameters
            .iter()
            .filter(|parameter| !parameter.was_so());
        table.row([
            fit.title.clone(),
            fit.rows.len().to_string(),
            fit.parameters.len().to_string(),
            of(&[Identified::Both]),
            of(&[Identified::Below, Identified::Above]),
            of(&[Identified::No]),
            worst(fit),
            match moved.count() {
                0 => "holds what is found".to_owned(),
                moved => format!("HOLDS OTHER VALUES for {moved}"),
            },
        ]);
    }
    let intro = "Every fit is run anew for this report, on rows with `role = \"calibration\"` alone; outcomes take no \
                 part. What a fit leaves open is in the profiles as an interval, and so in the predictions'.";
    let mut parts = vec![intro.to_owned(), table.markdown()];
    if fits.is_empty() {
        parts = vec!["No fit was run.".to_owned()];
    }
    if !without_rows.is_empty() {
        parts.push(format!(
            "Not run, because the file has none of their rows: {}.",
            escape(&without_rows.join(", "))
        ));
    }
    parts.extend(by_hand(fits, comparison));
    for fit in fits {
        parts.push(format!("### {}", escape(&fit.title)));
        parts.push(parameters(fit).body);
    }
    Section::new("What was fitted", &parts)
}

/// The worst residual, and for how many numbers residuals say nothing.
fn worst(fit: &Fit) -> String {
    let numbers = fit.bare().map(|group| group.parameters.len());
    match (fit.freedom, numbers.sum::<usize>()) {
        (0, _) => "none left: as many numbers as rows".to_owned(),
        (_, 0) => format!("{} %", tenths(fit.worst())),
        (_, bare) => format!(
            "{} %, none left for {}",
            tenths(fit.worst()),
            count(bare, "number")
        ),
    }
}

/// Groups of numbers that have no more rows than they are.
fn bare(fit: &Fit) -> String {
    if fit.freedom == 0 {
        return String::new();
    }
    let groups = fit.bare().map(|group| {
        format!(
            "{} rest on {} alone, which no other number moves: no more rows than numbers, so the residuals are small \
             whatever is true, and nothing is left to judge this part of the fit by.",
            escape(&group.parameters.join(", ")),
            count(group.rows, "row"),
        )
    });
    groups.collect::<Vec<_>>().join("\n\n")
}

/// Origins that say *fitted* and are of no fit that was run.
fn by_hand(fits: &[Fit], comparison: &Comparison) -> Option<String> {
    let predictions = comparison.rows.iter().filter_map(Compared::prediction);
    let origins = predictions.flat_map(|prediction| &prediction.basis.calibrated);
    let others = origins.filter(|(key, says)| {
        let of_fit = |fit: &Fit| key.ends_with(&format!(", {}", fit.origin));
        says.starts_with("fitted") && !fits.iter().any(of_fit)
    });
    let others: BTreeSet<&str> = others.map(|(key, _)| key.as_str()).collect();
    if others.is_empty() {
        return None;
    }
    let others: Vec<&str> = others.into_iter().collect();
    Some(format!(
        "Predictions also rest on numbers that were fitted elsewhere and not found anew here: {}.",
        escape(&others.join("; "))
    ))
}

fn parameters(fit: &Fit) -> Section {
    let intro = format!(
        "{}. {}, fitted to {} of {} by weighted least squares \
         ({}, {} predictions of all rows). The interval is that of the profile likelihood: how far the \
         number can go while the others make up for it.{}",
        escape(&fit.title),
        count(fit.parameters.len(), "number"),
        count(fit.rows.len(), "calibration row"),
        who(fit),
        code(&fit.spec),
        fit.evaluations,
        assumed(fit),
    );
    let table = parameter_table(fit);
    let quality = if fit.freedom == 0 {
        format!(
            "There are no more rows than parameters: sum of squares {}, and nothing is left to judge the \
             fit by.",
            significant(fit.chi2)
        )
    } else {
        format!(
            "Sum of squares {} at {} of freedom{}.",
            significant(fit.chi2),
            count(fit.freedom, "degree"),
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
        "Of {} starts, {} came to {}{}{}.",
        fit.starts.len(),
        near.count(),
        minimum(fit),
        match fit.apart {
            0 => String::new(),
            apart => format!(
                "; {apart} to another that explains the rows nearly as well: the intervals reach to it"
            ),
        },
        match fit.starts.len() - solved.len() {
            0 => String::new(),
            failed => format!("; at {failed} the rows could not be predicted"),
        }
    );
    Section::new(
        "Parameters",
        &[
            intro,
            table.markdown(),
            quality,
            bare(fit),
            starts,
            weak(fit),
        ],
    )
}

/// What starts come to: a point, or one of many that are as good.
fn minimum(fit: &Fit) -> String {
    if fit.weak.is_empty() {
        return "this minimum".to_owned();
    }
    let few = fit.rows.len() < fit.parameters.len();
    let few = few.then(|| {
        let (rows, numbers) = (fit.rows.len(), fit.parameters.len());
        format!(" ({} for {numbers} numbers)", count(rows, "row"))
    });
    format!(
        "a sum of squares as low as this, which is no one point{}: along the combinations below it hardly rises, and the \
         values above are one choice of many",
        few.unwrap_or_default()
    )
}

/// The numbers with their intervals, and whether the rows identify them.
fn parameter_table(fit: &Fit) -> Table {
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
    table
}

/// Whose the fitted rows are.
fn who(fit: &Fit) -> String {
    let by = fit
        .rows
        .iter()
        .filter_map(|fitted| fitted.row.source.as_deref());
    let by: BTreeSet<&str> = by.collect();
    if by.is_empty() {
        return code(&fit.measurements);
    }
    let by: Vec<&str> = by.into_iter().collect();
    format!("{} ({})", escape(&by.join("; ")), code(&fit.measurements))
}

/// That some rows' errors are taken, not measured.
fn assumed(fit: &Fit) -> String {
    match fit.assumed() {
        0 => String::new(),
        rows => format!(
            " {rows} of the rows state no spread: they are *assumed* to be known to {} %, and intervals are no \
             better than that.",
            plain(fit.assumed_error * 100.0)
        ),
    }
}

/// Combinations of parameters that the rows leave open.
fn weak(fit: &Fit) -> String {
    let weak = fit.weak.iter().map(|direction| {
        let weights = direction.weights.iter();
        let weights: Vec<String> = weights
            .map(|(name, weight)| {
                let weight = format!("{weight:+.2}").replace('-', "−");
                format!("{weight} {}", escape(name))
            })
            .collect();
        format!("- {}", weights.join(", "))
    });
    let weak: Vec<String> = weak.collect();
    if weak.is_empty() {
        "The rows pin down every combination of the parameters.".to_owned()
    } else {
        format!(
            "Combinations that the rows do not pin down (steps on the parameters' scales):\n\n{}",
            weak.join("\n")
        )
    }
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
        ">weighted as",
        ">in σ",
    ]);
    for fitted in &fit.rows {
        let row = &fitted.row;
        table.row([
            row.id.clone(),
            row.model.clone(),
            row.config.clone(),
            row.metric.clone(),
            row.measured(),
            significant(fitted.fitted),
            error_text(row, fitted.error()),
            match row.sd {
                Some(_) => "its spread".to_owned(),
                None => format!("{} % assumed", plain(fit.assumed_error * 100.0)),
            },
            format!("{:+.2}", (fitted.fitted - row.value) / fitted.sigma).replace('-', "−"),
        ]);
    }
    let held: Vec<String> = fit
        .held_out
        .iter()
        .map(|row| format!("- {}", escape(&row.label())))
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
            row.measured(),
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
