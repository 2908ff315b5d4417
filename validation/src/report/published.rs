//! Measurements beside their predictions, as sections.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::figures::in_no_figure;
use super::markdown::{code, escape};
use super::played::played;
use super::{Section, Table, significant};
use crate::published::{
    Bound, Compared, Comparison, Errors, Interval, Prediction, Role, Row, experiment,
};
use crate::words::{plain, tenths};

/// The sections: errors in short, who measured, outcomes, calibration rows, what is not covered, and what the
/// predictions rest on.
pub fn published(comparison: &Comparison) -> Vec<Section> {
    let notes = Notes::of(comparison);
    vec![
        summary(comparison),
        sources(comparison),
        predictions(comparison, &notes),
        residuals(comparison, &notes),
        played(comparison),
        not_covered(comparison),
        basis(comparison, &notes),
    ]
}

fn summary(comparison: &Comparison) -> Section {
    let mut table = Table::new(&[
        "SoC",
        "rows",
        ">n",
        ">median",
        ">90th perc.",
        ">worst",
        ">within interval",
    ]);
    let kinds = [
        (Role::Outcome, "predicted"),
        (Role::Calibration, "calibration"),
    ];
    for (role, name) in kinds {
        for (points, unit) in [(false, "%"), (true, "points")] {
            for (platform, errors) in comparison.errors(role, points) {
                table.row(summary_row(platform, name, unit, &errors));
            }
        }
    }
    let who = format!("Measured values are those of {}.", code(&comparison.file));
    let text = "Errors are predicted less measured, in per cent of the measured value; of shares and of \
                changes, which are per cent themselves, in points. The table holds their sizes.";
    let parts = [
        who,
        replaced(comparison),
        text.to_owned(),
        table.markdown(),
        bounds(comparison),
        in_no_plot(comparison),
    ];
    Section::new("Errors in short", &parts)
}

/// Which profiles are not those that come with crossinfer.
fn replaced(comparison: &Comparison) -> String {
    if comparison.replaced.is_empty() {
        return String::new();
    }
    let files = comparison.replaced.iter().map(|(file, fits)| {
        let fits = match fits.as_slice() {
            [] => String::new(),
            fits => format!(" (fitted: {})", escape(&fits.join(", "))),
        };
        format!("- {}{fits}", code(file))
    });
    format!(
        "Profiles of this folder take the place of those that come with crossinfer, for published rows too:\n\n{}",
        files.collect::<Vec<_>>().join("\n")
    )
}

/// Rows that the plots leave out.
fn in_no_plot(comparison: &Comparison) -> String {
    let rows = in_no_figure(comparison);
    if rows.is_empty() {
        return String::new();
    }
    let rows: Vec<String> = rows.iter().map(|row| escape(&row.label())).collect();
    format!(
        "In no plot, since a change may be negative and one number of its kind is no picture: {}.",
        rows.join("; ")
    )
}

/// Whose the measured values are.
fn sources(comparison: &Comparison) -> Section {
    let mut by: BTreeMap<(&str, String), (usize, usize)> = BTreeMap::new();
    for compared in &comparison.rows {
        let row = &compared.row;
        let says = row.source.as_deref();
        let key = (says.unwrap_or("the file does not say"), row.series());
        let (outcomes, calibration) = by.entry(key).or_default();
        match row.role {
            Role::Outcome => *outcomes += 1,
            Role::Calibration => *calibration += 1,
        }
    }
    let mut table = Table::new(&[
        "measured by",
        "table or series",
        ">outcomes",
        ">calibration rows",
    ]);
    for ((who, series), (outcomes, calibration)) in by {
        table.row([
            who.to_owned(),
            series,
            outcomes.to_string(),
            calibration.to_string(),
        ]);
    }
    let text = "As each row says, else its file; rows that say nothing and are recognised by id and SoC as those of a \
                publication have that as their source.";
    Section::new("Who measured", &[text.to_owned(), table.markdown()])
}

/// Which bounds are met, and which are not.
fn bounds(comparison: &Comparison) -> String {
    let all = comparison.bounds().count();
    if all == 0 {
        return String::new();
    }
    let missed: Vec<String> = comparison
        .bounds()
        .filter(|(.., met)| !met)
        .map(|(compared, bound, _)| {
            let error = compared
                .error()
                .map(|error| error_text(&compared.row, error));
            let error = error.unwrap_or_else(|| "0 was measured".to_owned());
            let label = escape(&compared.row.label());
            let missing = compared.prediction().map(|p| escape(&p.missing.join("; ")));
            let missing = missing.filter(|missing| !missing.is_empty());
            let missing = missing.map(|missing| format!(". Missing: {missing}"));
            format!(
                "- {label}: {error}, bound {}. Measured {}, predicted {}{}{}",
                bound_text(bound, &compared.row),
                compared.row.measured(),
                compared.prediction().map(predicted).unwrap_or_default(),
                match compared.inside() {
                    Some(true) => ", which holds what was measured",
                    Some(false) => ", which does not hold what was measured",
                    None => "",
                },
                missing.unwrap_or_default()
            )
        })
        .collect();
    let met = all - missed.len();
    let mut text = format!(
        "Bounds on single errors: {met} of {all} met{}",
        if missed.is_empty() {
            "."
        } else {
            "; missed:\n\n"
        }
    );
    text += &missed.join("\n");
    text
}

/// A prediction, with its interval if it has one.
fn predicted(prediction: &Prediction) -> String {
    let value = significant(prediction.value);
    prediction.interval.map_or(value.clone(), |interval| {
        let (low, high) = (significant(interval.low), significant(interval.high));
        format!("{value} (90 % interval {low} … {high})")
    })
}

fn bound_text(bound: Bound, row: &Row) -> String {
    let most = plain(bound.most);
    match (bound.of_what_remains, row.in_points()) {
        (true, _) => format!("{most} % of what remains"),
        (false, true) => format!("{most} pt"),
        (false, false) => format!("{most} %"),
    }
}

/// A row's bound with whether it is met; of a ratio or change that misses it, also the direction.
pub fn verdict(compared: &Compared) -> String {
    let Some((bound, met)) = compared.bound() else {
        return String::new();
    };
    let predicted = compared.prediction().map(|prediction| prediction.value);
    let direction = predicted.and_then(|value| compared.row.same_direction(value));
    let says = match (met, direction) {
        (true, _) => "met",
        (false, None) => "MISSED",
        (false, Some(true)) => "MISSED, direction right",
        (false, Some(false)) => "MISSED, direction wrong",
    };
    format!("{}: {says}", bound_text(bound, &compared.row))
}

fn summary_row(platform: Option<&str>, name: &str, unit: &str, errors: &Errors) -> [String; 7] {
    let size = |x: f64| format!("{} {unit}", tenths(x));
    [
        platform.unwrap_or("all").to_owned(),
        name.to_owned(),
        errors.rows.to_string(),
        size(errors.median),
        size(errors.p90),
        size(errors.worst),
        format!("{} of {}", errors.inside, errors.with_interval),
    ]
}

fn predictions(comparison: &Comparison, notes: &Notes<'_>) -> Section {
    let table = rows_table(comparison, Role::Outcome, notes);
    let mut rows = comparison.rows.iter().map(|compared| &compared.row);
    let published = rows.any(|row| row.own.is_none() && experiment(row).is_ok());
    let seen = "The published rows were not all unseen: the workload of figure 16 was inferred with its ratio in view, the \
                split of table 1a between encode and prefill was revised once after its outcomes had been seen, and \
                intervals on the RK3588 were widened and its export was made dearer after its misses had been seen \
                (profiles/INFERENCES.md). ";
    let text = format!(
        "No fit reads these rows. {}The interval is the 5th to the 95th percentile of what comes out when every \
         number with an interval in the profiles is drawn within it (a Latin hypercube), one replication a draw; \
         measured values count as within if they are, give or take two standard deviations of their own. *Stated \
         outside* marks a prediction that itself lies outside its interval: what is uncertain moves it to one side \
         nearly always, so it lies near an end, with these draws beyond it, and the interval says more than the value. \
         Letters point to what the stages' costs were calibrated on, below.",
        if published { seen } else { "" }
    );
    let none = table.is_empty().then(|| "There are none.".to_owned());
    Section::new(
        "Predicted",
        &[
            text,
            notes.shared(comparison, Role::Outcome),
            table.markdown(),
            none.unwrap_or_default(),
            failed(comparison, Role::Outcome),
        ],
    )
}

fn residuals(comparison: &Comparison, notes: &Notes<'_>) -> Section {
    let table = rows_table(comparison, Role::Calibration, notes);
    let text = "Rows that profiles may be fitted to: how well the fit explains what it was given. A small \
                residual here is no evidence for the simulator.";
    let none = table.is_empty().then(|| "There are none.".to_owned());
    Section::new(
        "Residuals of calibration rows",
        &[
            text.to_owned(),
            notes.shared(comparison, Role::Calibration),
            table.markdown(),
            none.unwrap_or_default(),
            failed(comparison, Role::Calibration),
        ],
    )
}

/// Why draws could not be played, with the rows that lack them.
fn failed(comparison: &Comparison, role: Role) -> String {
    let mut reasons: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for compared in comparison.predicted(role) {
        for failed in compared.prediction().into_iter().flat_map(|p| &p.failed) {
            let draws = if failed.draws == 1 { "draw" } else { "draws" };
            let says = format!("{} {draws}: {}", failed.draws, escape(&failed.why));
            let label = escape(&compared.row.label());
            reasons.entry(says).or_default().push(label);
        }
    }
    if reasons.is_empty() {
        return String::new();
    }
    let list = reasons.iter();
    let list = list.map(|(says, rows)| format!("- {says} ({})", rows.join("; ")));
    format!(
        "Draws that could not be played, so that intervals leave them out:\n\n{}",
        list.collect::<Vec<_>>().join("\n")
    )
}

fn rows_table(comparison: &Comparison, role: Role, notes: &Notes<'_>) -> Table {
    let mut table = Table::new(&[
        "row",
        "model",
        "setting",
        "config",
        "metric",
        ">measured",
        ">predicted",
        ">90 % interval",
        ">error",
        "",
        "bound",
        "on",
    ]);
    for compared in comparison.predicted(role) {
        let Some(prediction) = compared.prediction() else {
            continue;
        };
        let row = &compared.row;
        let inside = match compared.inside() {
            Some(true) => "within",
            Some(false) => "outside",
            None => "",
        };
        table.row([
            row.series(),
            row.model.clone(),
            notes.setting(row),
            row.config.clone(),
            row.metric.clone(),
            row.measured(),
            significant(prediction.value),
            interval_text(prediction),
            compared
                .error()
                .map(|error| error_text(row, error))
                .unwrap_or_default(),
            inside.to_owned(),
            verdict(compared),
            notes.letters(prediction.basis.calibrated.keys()),
        ]);
    }
    table
}

/// With one decimal and its sign; what rounds to 0 has none.
fn signed(x: f64) -> String {
    match tenths(x).as_str() {
        "0.0" | "−0.0" => "0.0".to_owned(),
        size if x > 0.0 => format!("+{size}"),
        text => text.to_owned(),
    }
}

fn interval_text(prediction: &Prediction) -> String {
    let Some(Interval {
        low, high, failed, ..
    }) = prediction.interval
    else {
        return String::new();
    };
    let mut text = format!("{} … {}", significant(low), significant(high));
    if failed > 0 {
        _ = write!(text, " ({failed} draws failed)");
    }
    if prediction.beside_itself() {
        text += " *stated outside*";
    }
    text
}

/// An error with its unit.
pub fn error_text(row: &Row, error: f64) -> String {
    let unit = if row.in_points() { "pt" } else { "%" };
    if error.is_finite() {
        format!("{} {unit}", signed(error))
    } else {
        format!("∞ {unit}")
    }
}

fn not_covered(comparison: &Comparison) -> Section {
    let mut table = Table::new(&[
        "row",
        "model",
        "setting",
        "config",
        "metric",
        ">measured",
        "why",
    ]);
    for (row, why) in comparison.not_covered() {
        table.row([
            row.series(),
            row.model.clone(),
            row.setting.clone(),
            row.config.clone(),
            row.metric.clone(),
            row.measured(),
            why.to_owned(),
        ]);
    }
    let none = table
        .is_empty()
        .then(|| "Every row has a prediction.".to_owned());
    Section::new(
        "Not covered",
        &[
            none.unwrap_or_else(|| "Rows without a prediction, with the reason.".to_owned()),
            table.markdown(),
        ],
    )
}

fn basis(comparison: &Comparison, notes: &Notes<'_>) -> Section {
    let mut origins = Table::new(&["", "file, origin", "what it says"]);
    for (key, letter, says) in &notes.origins {
        origins.row([letter.clone(), (*key).to_owned(), (*says).to_owned()]);
    }
    let mut kinds: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for compared in &comparison.rows {
        if let Some(prediction) = compared.prediction() {
            let most = kinds.entry(&compared.row.platform).or_default();
            for (kind, count) in &prediction.basis.numbers {
                let known = most.entry(kind).or_default();
                *known = (*known).max(*count);
            }
        }
    }
    let order = ["measured", "published", "derived", "fitted", "assumed"];
    let mut counts = Table::new(&[
        "SoC",
        ">measured",
        ">published",
        ">derived",
        ">fitted",
        ">assumed",
    ]);
    for (platform, of_kind) in kinds {
        let numbers = order.map(|kind| of_kind.get(kind).copied().unwrap_or(0).to_string());
        counts.row([platform.to_owned()].into_iter().chain(numbers));
    }
    let text = "Numbers of a profile by origin, the most that one prediction rests on:";
    Section::new(
        "What the predictions rest on",
        &[
            "What the stages' costs were calibrated on, by the letters of the tables above. (The numbers of the SoC itself and whatever is assumed: `crossinfer check`.)".to_owned(),
            origins.markdown(),
            text.to_owned(),
            counts.markdown(),
        ],
    )
}

/// What the tables say in short: a letter for each fit, and of settings what differs.
struct Notes<'c> {
    origins: Vec<(&'c str, String, &'c str)>,
    common: BTreeMap<&'c str, Vec<&'c str>>,
}

impl<'c> Notes<'c> {
    fn of(comparison: &'c Comparison) -> Self {
        let mut origins: BTreeMap<&str, &str> = BTreeMap::new();
        for prediction in comparison.rows.iter().filter_map(Compared::prediction) {
            let says = prediction.basis.calibrated.iter();
            origins.extend(says.map(|(key, says)| (key.as_str(), says.as_str())));
        }
        let origins = origins.into_iter().enumerate();
        let origins = origins.map(|(at, (key, says))| (key, letter(at), says));
        let mut common: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for row in comparison.rows.iter().map(|compared| &compared.row) {
            let parts: Vec<&str> = parts(&row.setting).collect();
            common
                .entry(&row.id)
                .and_modify(|known| known.retain(|part| parts.contains(part)))
                .or_insert(parts);
        }
        Self {
            origins: origins.collect(),
            common,
        }
    }

    /// The parts of a row's setting that not all rows of its table have.
    fn setting(&self, row: &Row) -> String {
        let common = self.common.get(row.id.as_str());
        let own =
            parts(&row.setting).filter(|part| !common.is_some_and(|common| common.contains(part)));
        own.collect::<Vec<_>>().join(", ")
    }

    /// The parts of settings that the table leaves out, since all rows of a table or series have them.
    fn shared(&self, comparison: &Comparison, role: Role) -> String {
        let mut by: BTreeMap<String, String> = BTreeMap::new();
        for compared in comparison.predicted(role) {
            let common = self.common.get(compared.row.id.as_str());
            if let Some(common) = common.filter(|common| !common.is_empty()) {
                by.insert(compared.row.series(), escape(&common.join(", ")));
            }
        }
        if by.is_empty() {
            return String::new();
        }
        let list = by
            .iter()
            .map(|(series, says)| format!("- {}: {says}", escape(series)));
        format!(
            "The setting that all rows of one table share, which is not repeated below:\n\n{}",
            list.collect::<Vec<_>>().join("\n")
        )
    }

    fn letters<'k>(&self, keys: impl Iterator<Item = &'k String>) -> String {
        let letters = keys.filter_map(|key| {
            let found = self.origins.iter().find(|(known, ..)| known == key);
            found.map(|(_, letter, _)| letter.as_str())
        });
        letters.collect::<Vec<_>>().join(" ")
    }
}

fn parts(setting: &str) -> impl Iterator<Item = &str> {
    setting
        .split([',', ';'])
        .map(str::trim)
        .filter(|part| !part.is_empty())
}

/// a, b, …, z, aa, ab, …
fn letter(at: usize) -> String {
    let last = char::from(b'a' + (at % 26) as u8);
    match at / 26 {
        0 => last.to_string(),
        more => format!("{}{last}", letter(more - 1)),
    }
}
