//! All fits of a report, in short and then each.

use std::collections::BTreeSet;

use super::fit::parameters;
use super::markdown::escape;
use super::{Section, Table};
use crate::fit::{Fit, Identified};
use crate::published::{Compared, Comparison};
use crate::words::{count, tenths};

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
            let found = fit
                .seen()
                .filter(|parameter| wanted.contains(&parameter.identified));
            found.count().to_string()
        };
        let moved = fit
            .parameters
            .iter()
            .filter(|parameter| !parameter.was_so());
        table.row([
            fit.title.clone(),
            fit.rows.len().to_string(),
            fit.seen().count().to_string(),
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
