//! A fit as sections.

use std::collections::BTreeSet;

use super::markdown::{code, escape};
use super::published::error_text;
use super::{Section, Table, significant};
use crate::fit::{Fit, FittedRow, Identified, Parameter, Side};
use crate::words::{count, plain};

/// The sections: parameters, residuals, predictions.
pub fn fit(fit: &Fit) -> Vec<Section> {
    vec![parameters(fit), residuals(fit), predictions(fit)]
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

/// The numbers of a fit, with what the rows say of them.
pub(super) fn parameters(fit: &Fit) -> Section {
    let intro = format!(
        "{}. {}, fitted to {} of {} by weighted least squares \
         ({}, {} predictions of all rows). The interval is that of the profile likelihood: how far the \
         number can go while the others make up for it.{}",
        escape(&fit.title),
        count(fit.seen().count(), "number"),
        count(fit.rows.len(), "calibration row"),
        who(fit),
        code(&fit.spec),
        fit.evaluations,
        assumed(fit),
    );
    let table = parameter_table(fit);
    let quality = if fit.freedom == 0 {
        format!(
            "There are no more rows than numbers: sum of squares {}, and nothing is left to judge the \
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
    let quality = format!("{quality}{}", contradiction(fit));
    let solved = fit.starts.iter().flatten().count();
    let others = solved.saturating_sub(fit.came + fit.apart);
    let worse = others.saturating_sub(fit.unsettled);
    let starts = format!(
        "Of {} starts, {} came to {}{}{}{}.",
        fit.starts.len(),
        fit.came,
        minimum(fit),
        match worse {
            0 => String::new(),
            worse => format!("; {worse} to minima that explain the rows worse"),
        },
        match fit.apart {
            0 => String::new(),
            apart => format!(
                "; {apart} to another that explains the rows nearly as well: the intervals reach to it"
            ),
        },
        match (fit.unsettled, fit.starts.len() - solved) {
            (0, 0) => String::new(),
            (unsettled, 0) => stuck(unsettled),
            (unsettled, failed) => format!(
                "{}; at {failed} the rows could not be predicted ({})",
                stuck(unsettled),
                escape(&fit.start_failures.join("; "))
            ),
        }
    );
    Section::new(
        "Parameters",
        &[
            intro,
            table.markdown(),
            unseen(fit),
            quality,
            at_bounds(fit),
            bare(fit),
            starts,
            weak(fit),
        ],
    )
}

/// Parameters that no row sees: what becomes of them.
fn unseen(fit: &Fit) -> String {
    let unseen = fit.unseen().map(|parameter| {
        format!(
            "{}, {}",
            escape(&parameter.name),
            significant(parameter.was)
        )
    });
    let unseen: Vec<String> = unseen.collect();
    if unseen.is_empty() {
        return String::new();
    }
    format!(
        "Not fitted, since no row changes with them within their bounds: {}. The profile keeps its own values, with the \
         origins that they have; they count neither in the degrees of freedom nor in any range of the fit.",
        unseen.join("; ")
    )
}

/// That the rows cannot all be true of the model, and which of them.
fn contradiction(fit: &Fit) -> String {
    let furthest = fit.furthest();
    if furthest.is_empty() || !(fit.contradicted() || fit.freedom == 0) {
        return String::new();
    }
    let rows = furthest.iter().map(|fitted| {
        let label = escape(&fitted.row.label());
        format!("{label} ({} σ)", sigmas(fitted))
    });
    format!(
        " THE ROWS ARE NOT EXPLAINED: they contradict each other, or the model with these bounds cannot give them. \
         Furthest off: {}. Check their values and units.",
        rows.collect::<Vec<_>>().join("; ")
    )
}

/// Numbers whose best value is a bound, and numbers that the profile has outside the bounds.
fn at_bounds(fit: &Fit) -> String {
    let pulled =
        |parameter: &&Parameter| parameter.identified != Identified::No || fit.misfit > 1.0;
    let at = fit.parameters.iter().filter(|parameter| parameter.seen);
    let at = at.filter(pulled).filter_map(|parameter| {
        let (side, bound) = match parameter.at_bound? {
            Side::Low => ("lower", parameter.bounds[0]),
            Side::High => ("upper", parameter.bounds[1]),
        };
        Some(format!(
            "{} ended at its {side} bound, {}: the rows pull it beyond, so the value is the bound's and not the rows'.",
            escape(&parameter.name),
            significant(bound)
        ))
    });
    let outside = fit
        .parameters
        .iter()
        .filter(|parameter| parameter.was_outside());
    let outside = outside.map(|parameter| {
        let [low, high] = parameter.bounds;
        format!(
            "The profile's {}, {}, lies outside the bounds, {} … {}: the first start is at the bound.",
            escape(&parameter.name),
            significant(parameter.was),
            significant(low),
            significant(high)
        )
    });
    at.chain(outside).collect::<Vec<_>>().join(" ")
}

/// Starts that ended where their search could not go on.
fn stuck(starts: usize) -> String {
    match starts {
        0 => String::new(),
        starts => format!(
            "; {starts} ended without a minimum, where the search could not go on (left out)"
        ),
    }
}

/// What starts come to: a point, or one of many that are as good.
fn minimum(fit: &Fit) -> String {
    if !fit.flat {
        return "this minimum".to_owned();
    }
    let (rows, numbers) = (fit.rows.len(), fit.seen().count());
    let few = (rows < numbers).then(|| format!(" ({} for {numbers} numbers)", count(rows, "row")));
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
            says(parameter).to_owned(),
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
        "The rows pin down every combination of the numbers.".to_owned()
    } else {
        let because = if fit.flat {
            ""
        } else {
            ", taken as uncertain as they are badly explained,"
        };
        format!(
            "Combinations that the rows{because} do not pin down (steps on the numbers' scales):\n\n{}",
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

fn says(parameter: &Parameter) -> &'static str {
    match parameter.identified {
        Identified::Both => "identified",
        Identified::Below => "bounded from below alone",
        Identified::Above => "bounded from above alone",
        Identified::No if !parameter.seen => "NO ROW SEES IT: the profile's",
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
            sigmas(fitted),
        ]);
    }
    let held = fit.held_out.iter().map(|row| escape(&row.label()));
    let held = listed(
        "Outcomes that the filters match were held out",
        held,
        LISTED_MAX,
    );
    let held = held.unwrap_or_else(|| "The filters match no outcome.".to_owned());
    let left = fit.left_out.iter();
    let left = left.map(|(row, why)| format!("{}: {}", escape(&row.label()), escape(why)));
    let left = listed(
        "Calibration rows that the filters match and that take no part",
        left,
        LISTED_MAX,
    );
    let unmatched = fit.unmatched.iter().map(|says| escape(says));
    let unmatched = listed(
        "Filters that match no row of the file",
        unmatched,
        LISTED_MAX,
    );
    let others = fit.not_taken.iter().map(|row| escape(&row.label()));
    let others = listed(
        "Calibration rows that no filter matches",
        others,
        LISTED_MAX,
    );
    let parts = [Some(table.markdown()), Some(held), left, unmatched, others];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    Section::new("Fitted rows", &parts)
}

/// Most entries of a list of rows that no fit was made to.
const LISTED_MAX: usize = 12;

/// A list under a heading, if there is anything to list.
fn listed(heading: &str, all: impl Iterator<Item = String>, most: usize) -> Option<String> {
    let mut all: Vec<String> = all.map(|says| format!("- {says}")).collect();
    if all.is_empty() {
        return None;
    }
    if all.len() > most {
        let more = all.split_off(most).len();
        all.push(format!("- and {more} more"));
    }
    Some(format!("{heading}:\n\n{}", all.join("\n")))
}

/// How far off a row is, in its standard deviations.
fn sigmas(fitted: &FittedRow) -> String {
    format!("{:+.2}", fitted.sigmas()).replace('-', "−")
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
            format!(
                "{} … {}{}",
                significant(held.low),
                significant(held.high),
                if held.hidden.is_some() { ", more" } else { "" }
            ),
            error_text(row, held.error()),
        ]);
    }
    let text = if table.is_empty() {
        "No outcome reads a fitted number."
    } else {
        "Outcomes that read a fitted number; they took no part. The range is over the fit's 95 % confidence \
         set alone: what else is uncertain in the profiles comes on top (`validate published`)."
    };
    let hidden = fit.predicted.iter().filter_map(|held| {
        let hidden = held.hidden.as_ref()?;
        let on = fit
            .unseen()
            .filter(|parameter| hidden.parameters.contains(&parameter.name));
        let on = on.map(|parameter| {
            let [low, high] = parameter.bounds;
            format!(
                "{} ({} in the profile, {} … {} by its bounds)",
                escape(&parameter.name),
                significant(parameter.was),
                significant(low),
                significant(high)
            )
        });
        Some(format!(
            "{}: {} … {} with {}",
            escape(&held.row.label()),
            significant(hidden.low),
            significant(hidden.high),
            on.collect::<Vec<_>>().join(", ")
        ))
    });
    let hidden = listed(
        "*More*: these also rest on numbers that no row sees, so the fit says nothing of how far those move them. With \
         them anywhere within their bounds the range is",
        hidden,
        fit.predicted.len(),
    );
    let parts = [Some(text.to_owned()), Some(table.markdown()), hidden];
    Section::new(
        "Predictions",
        &parts.into_iter().flatten().collect::<Vec<_>>(),
    )
}
