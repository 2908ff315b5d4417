//! What became of the rows of a file in a fit: none is dropped without a word.

use super::spec::{Filter, Spec};
use crate::published::{Lab, Measurements, Role, Row};

/// Calibration rows that take no part, with what the filters say of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    /// Taken by a filter, but no scenario plays them; with the reason.
    pub(super) left_out: Vec<(Row, String)>,
    /// Taken by no filter.
    pub(super) not_taken: Vec<Row>,
    /// Filters, or what they list, that no row of the file has.
    pub(super) unmatched: Vec<String>,
}

/// What plays a row, or why nothing can.
pub(super) fn playable(file: &Measurements, row: &Row) -> Result<(), String> {
    Lab::configurations(file, row)?;
    let metric = row.metric().ok_or("its metric is not known")?;
    let unit = metric.dimension().factor(&row.unit);
    unit.ok_or("its unit is not known")?;
    Ok(())
}

impl Account {
    pub(super) fn of(spec: &Spec, file: &Measurements) -> Self {
        let mut account = Self::default();
        let calibration = file.rows.iter().filter(|row| row.role == Role::Calibration);
        for row in calibration {
            if !spec.rows.iter().any(|filter| filter.takes(row)) {
                account.not_taken.push(row.clone());
            } else if let Err(why) = playable(file, row) {
                account.left_out.push((row.clone(), why));
            }
        }
        for (at, filter) in spec.rows.iter().enumerate() {
            let takes = |filter: &Filter| file.rows.iter().any(|row| filter.takes(row));
            let place = format!("`[[rows]]` {}", at + 1);
            if !takes(filter) && filter.config.len() + filter.metric.len() < 2 {
                account.unmatched.push(format!("{place}{}", says(filter)));
                continue;
            }
            for (key, list) in [("config", &filter.config), ("metric", &filter.metric)] {
                for entry in list {
                    let mut alone = filter.clone();
                    let one = vec![entry.clone()];
                    match key {
                        "config" => alone.config = one,
                        _ => alone.metric = one,
                    }
                    if !takes(&alone) {
                        account
                            .unmatched
                            .push(format!("{place}, `{key}`: \"{entry}\""));
                    }
                }
            }
        }
        account
    }
}

/// What a filter asks for.
fn says(filter: &Filter) -> String {
    let one = |key: &str, value: &Option<String>| {
        let value = value.as_ref()?;
        Some(format!("`{key}`: \"{value}\""))
    };
    let many = |key: &str, values: &[String]| {
        let value = values.first()?;
        Some(format!("`{key}`: \"{value}\""))
    };
    let parts = [
        one("id", &filter.id),
        one("platform", &filter.platform),
        one("model", &filter.model),
        one("setting", &filter.setting),
        many("config", &filter.config),
        many("metric", &filter.metric),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        String::new()
    } else {
        format!(", {}", parts.join(", "))
    }
}
