//! What is known of a cell: its columns, and the texts in them. An empty text stands for nothing.

use std::fmt;
use std::str::FromStr;

use reports::interval::Replicated;
use reports::json::verdict_name;
use reports::metric::{COMPARED, refused};
use sim::metrics::{LoadVerdict, Summary};

/// Type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// 64-bit integers.
    Int,
    /// 64-bit floating-point numbers.
    Float,
    /// Switches.
    Bool,
    /// Text.
    Text,
}

/// A column of the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: Type,
}

impl Column {
    /// A column.
    pub fn new(name: impl Into<String>, kind: Type) -> Self {
        Self {
            name: name.into(),
            kind,
        }
    }
}

/// As a journal's first line holds it.
impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Type::Int => "int",
            Type::Float => "float",
            Type::Bool => "bool",
            Type::Text => "text",
        };
        write!(f, "{kind} {}", self.name)
    }
}

impl FromStr for Column {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (kind, name) = text.split_once(' ').ok_or(())?;
        let kind = match kind {
            "int" => Type::Int,
            "float" => Type::Float,
            "bool" => Type::Bool,
            "text" => Type::Text,
            _ => return Err(()),
        };
        Ok(Self::new(name, kind))
    }
}

/// Name of the column that says why a cell has no numbers.
pub(super) const ERROR: &str = "error";

/// The columns behind those of the keys.
pub(super) fn measured_columns() -> Vec<Column> {
    let mut columns = vec![
        Column::new(ERROR, Type::Text),
        Column::new("verdict", Type::Text),
    ];
    let counts = [
        "replications",
        "saturated_replications",
        "arrived",
        "completed",
        "refused",
        "late",
    ];
    columns.extend(counts.map(|name| Column::new(name, Type::Int)));
    columns.push(Column::new("busiest_lane", Type::Float));
    for metric in COMPARED {
        let name = metric.key.replace('.', "_");
        columns.push(Column::new(name.clone(), Type::Float));
        columns.push(Column::new(format!("{name}_ci95"), Type::Float));
    }
    columns
}

/// The texts of [`measured_columns`].
pub(super) fn measured(found: &Result<Replicated, String>) -> Vec<String> {
    let runs = match found {
        Ok(runs) => runs,
        Err(message) => {
            // A row is a line.
            let line: Vec<&str> = message.split_whitespace().collect();
            let mut row = vec![line.join(" ")];
            row.resize(measured_columns().len(), String::new());
            return row;
        }
    };
    let sum = |get: fn(&Summary) -> u64| runs.summaries.iter().map(get).sum::<u64>().to_string();
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:?}"));
    let mut row = vec![
        String::new(),
        verdict_name(runs.verdict()).to_owned(),
        runs.count().to_string(),
        runs.verdicts(LoadVerdict::Saturated).to_string(),
        sum(|s| s.arrived),
        sum(|s| s.completed),
        sum(refused),
        sum(|s| s.late),
        number(runs.estimate(|s| Some(s.busiest_lane)).map(|e| e.mean)),
    ];
    for metric in COMPARED {
        let estimate = runs.estimate(metric.get);
        let steady = !metric.steady_only || runs.steady();
        row.push(number(estimate.map(|estimate| estimate.mean)));
        row.push(number(
            estimate.and_then(|e| e.half_width).filter(|_| steady),
        ));
    }
    row
}
