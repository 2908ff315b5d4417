//! Tables with `test` and `t/s`, llama-bench's Markdown and its relatives.

use super::super::markdown::with_deviation;
use super::super::note::Notes;
use super::super::row::{Identity, Place, Row, Spread, Test};
use super::super::stats::stated_cv;
use super::super::text::{BYTES_MAX, nearest, point, positive, short, size_bytes};
use super::context::Context;
use super::{place, test, tokens};

/// What a column is.
#[derive(Clone, Debug, PartialEq)]
enum Column {
    Test,
    /// A rate in tokens a second, of the build that the header names.
    Rate(Option<String>),
    Size,
    /// Part of the identity, by this key.
    Key(String),
    /// Says nothing that the others do not.
    Nothing,
}

/// A table whose header has been read.
#[derive(Clone, Debug)]
pub(super) struct Table {
    columns: Vec<Column>,
    context: Context,
    block: u64,
}

impl Table {
    /// Whether these cells can only be a header.
    pub(super) fn is_header(cells: &[String]) -> bool {
        cells.iter().any(|cell| is_rate(cell))
    }

    /// The table under this header, or why it says nothing.
    pub(super) fn new(cells: &[String], context: &Context, block: u64) -> Result<Self, String> {
        let columns: Vec<Column> = cells.iter().map(|cell| column(cell)).collect();
        let has = |wanted: fn(&Column) -> bool| columns.iter().any(wanted);
        let missing = [
            ("test", has(|column| *column == Column::Test)),
            ("t/s", has(|column| matches!(column, Column::Rate(_)))),
        ];
        for (name, there) in missing {
            if !there {
                let list: Vec<&str> = cells.iter().map(String::as_str).collect();
                let near = nearest(name, list.iter().copied())
                    .map_or_else(String::new, |near| format!("; the nearest is `{near}`"));
                return Err(format!(
                    "a table without a column `{name}`, so what was timed is unknown (columns: {}){near}",
                    short(&list.join(", "))
                ));
            }
        }
        Ok(Self {
            columns,
            context: context.clone(),
            block,
        })
    }

    /// A device that was named between the header and the first row.
    pub(super) fn on(&mut self, device: &str) {
        self.context.device = Some(device.to_owned());
    }

    /// The measurements of a row: one a rate.
    pub(super) fn row(
        &self,
        file: &str,
        line: u64,
        cells: &[String],
        closed: bool,
        notes: &mut Notes,
    ) -> Vec<Row> {
        // A bar too many at the end says nothing.
        let cells = match cells {
            [cells @ .., last] if last.is_empty() && cells.len() == self.columns.len() => cells,
            cells => cells,
        };
        if cells.len() != self.columns.len() {
            let cut = if closed && cells.len() > self.columns.len() {
                ""
            } else {
                ": it is cut off"
            };
            let text = format!(
                "the row has {} cells, the header {}{cut}",
                cells.len(),
                self.columns.len()
            );
            notes.skip(file, line, text);
            return Vec::new();
        }
        let mut identity = Identity::new();
        let mut timed = None;
        let mut weights = None;
        for (column, cell) in self.columns.iter().zip(cells) {
            match column {
                Column::Test => timed = test(cell).map(|test| (test, cell)),
                Column::Size => {
                    weights = match size_bytes(cell) {
                        Ok(weights) => weights,
                        Err(reason) => {
                            notes.skip(file, line, format!("the size {reason}"));
                            return Vec::new();
                        }
                    };
                    if weights.is_some_and(|bytes| bytes > BYTES_MAX) {
                        let text = format!("the size `{}` is out of all bounds", short(cell));
                        notes.skip(file, line, text);
                        return Vec::new();
                    }
                    if !cell.is_empty() {
                        identity.insert("size".to_owned(), cell.clone());
                    }
                }
                Column::Key(key) if !cell.is_empty() => {
                    identity.insert(key.clone(), cell.clone());
                }
                _ => {}
            }
        }
        let Some((test, _)) = timed else {
            let name = self
                .columns
                .iter()
                .zip(cells)
                .find(|(column, _)| **column == Column::Test);
            let name = name.map_or("", |(_, cell)| cell);
            notes.skip(
                file,
                line,
                format!(
                    "`{}` is no test such as `pp512` or `tg128 @ d4096`",
                    short(name)
                ),
            );
            return Vec::new();
        };
        let mut rows = Vec::new();
        for (column, cell) in self.columns.iter().zip(cells) {
            let Column::Rate(build) = column else {
                continue;
            };
            let mut identity = identity.clone();
            if let Some(build) = build {
                identity.insert("build".to_owned(), build.clone());
            }
            self.context.put_into(&mut identity);
            match self.rate(&test, cell, &identity, weights, (file, line)) {
                Ok(row) => rows.push(row),
                Err(reason) if cell.is_empty() && !closed => {
                    notes.skip(file, line, format!("the row is cut off: {reason}"));
                }
                Err(reason) => notes.skip(file, line, format!("`{test}`: {reason}")),
            }
        }
        rows
    }

    fn rate(
        &self,
        test: &Test,
        cell: &str,
        identity: &Identity,
        weights_bytes: Option<f64>,
        (file, line): (&str, u64),
    ) -> Result<Row, String> {
        let (rate, deviation) = with_deviation(cell);
        let rate = positive(&rate)?;
        let mut identity = identity.clone();
        place(&mut identity)?;
        let secs = tokens(test) as f64 / rate;
        if !(1e-9..=1e9).contains(&secs) {
            return Err(format!("`{}` t/s is out of all bounds", short(cell)));
        }
        // Two decimals: a deviation of 0.00 is one run, or rounded away.
        let mut shown = format!("{cell} t/s");
        let deviation = match &deviation {
            Some(text) => Some(point(text)?.parse::<f64>()),
            None => None,
        };
        let spread = match deviation {
            Some(Ok(sd)) if sd.is_finite() && sd != 0.0 => Spread::Cv(stated_cv(sd, rate)?),
            Some(Err(_)) => return Err(format!("the row is cut off at `{}`", short(cell))),
            // Of one run there is none, whatever is printed in its place.
            Some(Ok(sd)) if !sd.is_finite() => {
                shown = format!("{} t/s", with_deviation(cell).0);
                Spread::Unknown
            }
            _ => Spread::Unknown,
        };
        Ok(Row {
            identity,
            test: test.clone(),
            secs,
            spread,
            cold_s: None,
            stated: true,
            weights_bytes,
            place: Place {
                file: file.to_owned(),
                line,
            },
            shown,
            block: self.block,
        })
    }
}

fn is_rate(name: &str) -> bool {
    let name = name.to_lowercase();
    name == "t/s" || name.starts_with("t/s ") || name == "tok/s" || name == "tokens/s"
}

fn column(name: &str) -> Column {
    let lower = name.to_lowercase();
    if is_rate(&lower) {
        let build = name
            .split_once(' ')
            .map(|(_, build)| build.trim().to_owned());
        return Column::Rate(build.filter(|build| !build.is_empty() && !build.starts_with('(')));
    }
    match lower.as_str() {
        "test" => Column::Test,
        "size" | "model size" | "model_size" => Column::Size,
        "speedup" | "" => Column::Nothing,
        "n_gpu_layers" => Column::Key("ngl".to_owned()),
        "n_threads" => Column::Key("threads".to_owned()),
        "flash_attn" => Column::Key("fa".to_owned()),
        "cpu" | "gpu" | "device" => Column::Key("soc".to_owned()),
        _ => Column::Key(lower.replace(' ', "_")),
    }
}
