//! Everything that is wrong with a file of measurements, at once: its values, and the names that it gives of scenarios,
//! policies, engines and lanes.

use std::collections::{BTreeMap, BTreeSet};

use sim::diag::{Diagnostic, Faults};
use sim::load::Numbers;
use sim::world::World;

use super::bench::{Configuration, Scenario};
use super::lab::{Lab, own};
use super::read::read;
use super::rows::{Measurements, Row};

impl Lab<'_> {
    /// Reads a file of measurements, called `name`, and checks what it says and names.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the file's form; if its form is right, everything that is wrong with what it says
    /// and with the scenarios that it names.
    pub fn read(&self, name: &str, text: &str) -> Result<Measurements, Faults> {
        let (file, list) = read(name, text)?;
        let sources = if list.is_empty() {
            Vec::new()
        } else {
            vec![(name.to_owned(), text.to_owned())]
        };
        let mut all = Faults { list, sources };
        self.add_faults(&file, &mut all);
        if all.list.is_empty() {
            return Ok(file);
        }
        Err(all)
    }

    /// Checks what the rows of a file name: scenarios that load and are of the row's SoC, policies that they can play,
    /// engines and lanes that they have; and that each key that such a scenario sets changes something under one of the
    /// policies that the rows play it with, or under its own.
    ///
    /// # Errors
    ///
    /// All that is wrong.
    pub fn check(&self, file: &Measurements) -> Result<(), Faults> {
        let mut all = Faults::default();
        self.add_faults(file, &mut all);
        if all.list.is_empty() {
            return Ok(());
        }
        Err(all)
    }

    /// Adds what the rows name wrongly to what else is wrong.
    fn add_faults(&self, file: &Measurements, all: &mut Faults) {
        let mut own_first = Faults::default();
        for row in &file.rows {
            // What nothing plays is listed as not covered.
            let Ok(configurations) = Self::configurations(file, row) else {
                continue;
            };
            match self.bench().open(file, row, &configurations) {
                Err(faults) => own_first.add(faults),
                Ok(worlds) => {
                    if let Some(fault) = unknown(file, row, &worlds) {
                        own_first.add(file.faults(fault));
                    }
                }
            }
        }
        own_first.add(self.without_effect(file));
        all.add(own_first);
        // Those of this file in the order of their places, then those of what it names.
        all.list.sort_by_key(|fault| {
            let other = fault.file != file.name;
            (other, if other { 0 } else { fault.span.start })
        });
    }

    /// Keys of the file's scenarios that change nothing.
    fn without_effect(&self, file: &Measurements) -> Faults {
        let mut asked: BTreeMap<Scenario, BTreeSet<Option<String>>> = BTreeMap::new();
        for named in file.rows.iter().filter_map(|row| row.own.as_ref()) {
            for play in std::iter::once(&named.this).chain(&named.against) {
                let Configuration { scenario, policy } = own(file, play);
                let policies = asked.entry(scenario).or_default();
                policies.extend([None, policy]);
            }
        }
        let mut all = Faults::default();
        for (scenario, policies) in asked {
            let worlds = policies.into_iter().map(|policy| {
                let scenario = scenario.clone();
                let configuration = Configuration { scenario, policy };
                self.bench().world(&configuration, &Numbers::default())
            });
            // What cannot be played is a fault of the row that asks for it.
            let worlds: Vec<World> = worlds.filter_map(Result::ok).collect();
            if let Err(faults) = self.bench().read_by(&scenario, &worlds) {
                all.add(faults);
            }
        }
        all
    }
}

/// An engine or lane that a row's metric or configuration names and that one of its worlds lacks.
fn unknown(file: &Measurements, row: &Row, worlds: &[World]) -> Option<Diagnostic> {
    // Rows of publications may name what no scenario has: those are not covered.
    let metric = row.metric().filter(|_| row.own.is_some())?;
    let of_metric = |why| {
        let at = row.at.metric.clone();
        Diagnostic::new(&file.name, at, why, "cannot be read")
    };
    let wrong = worlds.iter().find_map(|world| metric.unknown(world));
    wrong.map(of_metric).or_else(|| {
        let why = metric.unread(worlds.first()?, &row.config)?;
        let at = row.at.config.clone();
        let fault = Diagnostic::new(&file.name, at, why, "cannot be read");
        Some(fault.help(format!(
            "the `config` of a `{}` row names the engines that read, as `cpu+gpu`",
            row.metric
        )))
    })
}
