//! What is wrong with the file of a fit, as far as it can be told without measurements.

use std::collections::BTreeSet;

use sim::diag::{Diagnostic, Faults};
use sim::load::{self, Kind, Source};
use sim::world::Provenance;

use super::problem::{COUNTS, count_of, profile};
use super::spec::Spec;
use crate::folder::Stock;

/// A fit's file without faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Numbers that its parameters set.
    pub numbers: usize,
    /// Profiles that are not found from the file: whether the rows' scenarios find them, only a fit tells.
    pub absent: BTreeSet<String>,
}

/// Whether a text looks like the file of a fit, by its top-level keys.
pub fn is_spec(text: &str) -> bool {
    let table: Option<toml::Table> = text.parse().ok();
    table.is_some_and(|table| {
        let list = |key: &str| table.get(key).is_some_and(toml::Value::is_array);
        list("parameters") && !table.contains_key("soc")
    })
}

impl Spec {
    /// Checks that the profiles that are found from the file hold the numbers that it sets.
    ///
    /// # Errors
    ///
    /// Numbers that they do not have, numbers that are set twice, and faults of these profiles.
    pub fn check(&self, stock: &dyn Stock) -> Result<Checked, Faults> {
        let mut all = Faults::default();
        let mut absent = BTreeSet::new();
        let mut taken: BTreeSet<(String, String)> = BTreeSet::new();
        let mut numbers = 0;
        for target in self.free.iter().flat_map(|free| &free.sets) {
            numbers += 1;
            let fault = |message: String, label: &str, help: &str| {
                let at = target.path_at.clone();
                self.faults(vec![
                    Diagnostic::new(&self.name, at, message, label).help(help),
                ])
            };
            let Some(Source { name, text }) = profile(stock, &self.name, &target.profile) else {
                absent.insert(target.profile.clone());
                continue;
            };
            if !taken.insert((name.clone(), target.path.clone())) {
                let message = format!("`{}` is set twice", target.path);
                all.add(fault(
                    message,
                    "by this parameter too",
                    "a number has one parameter",
                ));
                continue;
            }
            if let Some(why) = count_of(&target.path) {
                all.add(fault(why, "cannot be free", COUNTS));
                continue;
            }
            match numbers_of(&name, &text) {
                Err(faults) => all.add(faults),
                Ok(found) if found.iter().any(|number| number.path == target.path) => {}
                Ok(found) => all.add(fault(
                    format!("`{}` has no number `{}`", target.profile, target.path),
                    "not there",
                    &nearest(
                        found.iter().map(|number| number.path.as_str()),
                        &target.path,
                    ),
                )),
            }
        }
        if all.list.is_empty() {
            return Ok(Checked { numbers, absent });
        }
        Err(all)
    }
}

/// The numbers of a profile, whatever kind it is.
pub(super) fn numbers_of(name: &str, text: &str) -> Result<Vec<Provenance>, Faults> {
    match load::detect_kind(text) {
        Some(Kind::Soc) => load::check_soc(name, text),
        Some(Kind::Model) => load::check_model(name, text),
        _ => load::check_costs(name, text),
    }
}

/// The paths that are most like this one, in words.
pub(super) fn nearest<'p>(paths: impl Iterator<Item = &'p str>, wanted: &str) -> String {
    let near = paths.map(|path| (strsim::levenshtein(path, wanted), path));
    let mut near: Vec<(usize, &str)> = near.collect();
    near.sort_unstable();
    let near: Vec<&str> = near.into_iter().take(3).map(|(_, path)| path).collect();
    format!("the nearest are {}", near.join(", "))
}
