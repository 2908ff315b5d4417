//! The Pareto front of a finished sweep: its cells by two numbers.

use std::path::Path;

use reports::metric::{COMPARED, Metric};
use reports::plot::{Choice, Front};

use super::Error;
use super::journal::failed;
use super::row::ERROR;
use super::table::CSV;

/// The two numbers of a front, as `completion_s.mean,energy_per_request_j`.
#[derive(Clone, Copy, Debug)]
pub struct Goals(Metric, Metric);

impl Goals {
    /// Reads them from text.
    ///
    /// # Errors
    ///
    /// What is wrong, and what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let known = || {
            let keys: Vec<&str> = COMPARED.iter().map(|metric| metric.key).collect();
            format!("give two of {}, with a comma between", keys.join(", "))
        };
        let find = |key: &str| {
            let found = COMPARED.iter().find(|metric| metric.key == key.trim());
            found
                .copied()
                .ok_or_else(|| format!("unknown number `{}`; {}", key.trim(), known()))
        };
        let (x, y) = text.split_once(',').ok_or_else(known)?;
        let (x, y) = (find(x)?, find(y)?);
        if x.key == y.key {
            return Err(format!("`{}` is given twice; {}", x.key, known()));
        }
        Ok(Self(x, y))
    }
}

/// The cells in `results.csv` of a folder.
///
/// # Errors
///
/// A file that cannot be read.
pub fn front(folder: &Path, goals: &Goals) -> Result<Front, Error> {
    let path = folder.join(CSV);
    let error = |error: csv::Error| failed(&path, "read", error.into());
    let mut reader = csv::Reader::from_path(&path).map_err(error)?;
    let header = reader.headers().map_err(error)?.clone();
    let column = |name: &str| header.iter().position(|column| column == name);
    // The keys come first.
    let keys = column(ERROR).unwrap_or(0);
    let (verdict, x, y) = (
        column("verdict"),
        column(&goals.0.key.replace('.', "_")),
        column(&goals.1.key.replace('.', "_")),
    );
    let mut found = Front {
        title: "Cells that no other beats in both".into(),
        goals: ((&goals.0).into(), (&goals.1).into()),
        choices: Vec::new(),
        left_out: 0,
    };
    for row in reader.records() {
        let row = row.map_err(error)?;
        let text = |column: Option<usize>| {
            column
                .and_then(|column| row.get(column))
                .unwrap_or_default()
        };
        let grows = text(verdict) == "saturated";
        let number = |metric: &Metric, column| {
            let value = text(column)
                .parse::<f64>()
                .ok()
                .filter(|value| value.is_finite())?;
            (!grows || !metric.steady_only).then_some(value)
        };
        let Some(at) = number(&goals.0, x).zip(number(&goals.1, y)) else {
            found.left_out += 1;
            continue;
        };
        let name: Vec<String> = header
            .iter()
            .zip(row.iter())
            .take(keys)
            .filter(|(key, _)| *key != "cell")
            .map(|(key, value)| format!("{} {value}", key.rsplit('.').next().unwrap_or(key)))
            .collect();
        found.choices.push(Choice {
            name: name.join(", "),
            at,
        });
    }
    Ok(found)
}
