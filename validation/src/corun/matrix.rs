//! A measured co-run matrix: what an engine achieves by its own demand and that of all others.

use csv::{ReaderBuilder, StringRecord, Trim};

use crate::words::exact;

/// Most by which a cell may exceed the demand of its row: what measuring scatters.
const SCATTER: f64 = 1.05;

/// A measured co-run matrix, in GB/s.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// The engine's demand alone, rising, one a row.
    pub own: Vec<f64>,
    /// Demand of the others, rising, one a column.
    pub external: Vec<f64>,
    /// What the engine achieves, row by row.
    pub achieved: Vec<f64>,
}

/// A cell of a [`Matrix`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The engine's demand alone, GB/s.
    pub own: f64,
    /// Demand of the others, GB/s.
    pub external: f64,
    /// Achieved ÷ demand alone, in points: 100 is as fast as alone.
    pub speed: f64,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct MatrixError {
    /// Line of the file, from 1.
    pub line: u64,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl Matrix {
    /// What the comments of a CSV say, a line each.
    pub fn comments(text: &str) -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.strip_prefix('#'));
        let lines = lines.map(|line| line.trim().to_owned());
        lines.filter(|line| !line.is_empty()).collect()
    }

    /// Reads a CSV: a head line whose first cell is a name and whose others are the external demands,
    /// then a line for each own demand, which comes first. Lines that start with `#` are comments.
    pub fn read(text: &str) -> Result<Self, MatrixError> {
        let mut reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .comment(Some(b'#'))
            .trim(Trim::All)
            .from_reader(text.as_bytes());
        let mut lines = Vec::new();
        for record in reader.records() {
            let record = record.map_err(|error| MatrixError {
                line: error.position().map_or(1, csv::Position::line),
                message: error.to_string(),
            })?;
            lines.push(record);
        }
        let Some((head, rows)) = lines.split_first() else {
            return Err(MatrixError {
                line: 1,
                message: "nothing here; give a head line with the external demands".to_owned(),
            });
        };
        let external = numbers(head)?;
        rises(&external, "external demands", 2, line(head))?;
        let mut matrix = Self {
            own: Vec::new(),
            external,
            achieved: Vec::new(),
        };
        for row in rows {
            matrix.add(row)?;
        }
        rises(&matrix.own, "own demands", 2, lines.last().map_or(1, line))?;
        Ok(matrix)
    }

    fn add(&mut self, row: &StringRecord) -> Result<(), MatrixError> {
        let fail = |message| {
            Err(MatrixError {
                line: line(row),
                message,
            })
        };
        if row.len() != self.external.len() + 1 {
            let (cells, columns) = (row.len(), self.external.len() + 1);
            return fail(format!("{cells} cells where the head has {columns}"));
        }
        let own = number(row, 0)?;
        self.own.push(own);
        rises(&self.own, "own demands", 0, line(row))?;
        for (cell, achieved) in numbers(row)?.into_iter().enumerate() {
            if achieved > own * SCATTER {
                return fail(format!(
                    "cell {} is {}, more than the {} that are asked for alone",
                    cell + 2,
                    exact(achieved),
                    exact(own)
                ));
            }
            self.achieved.push(achieved);
        }
        Ok(())
    }

    /// Every cell, row by row.
    pub fn points(&self) -> Vec<Point> {
        let columns = self.external.len();
        let points = self.achieved.iter().enumerate().map(|(at, achieved)| {
            let own = self.own[at / columns];
            Point {
                own,
                external: self.external[at % columns],
                speed: achieved / own * 100.0,
            }
        });
        points.collect()
    }
}

fn line(record: &StringRecord) -> u64 {
    record.position().map_or(1, csv::Position::line)
}

/// Every cell but the first.
fn numbers(record: &StringRecord) -> Result<Vec<f64>, MatrixError> {
    (1..record.len()).map(|at| number(record, at)).collect()
}

fn number(record: &StringRecord, at: usize) -> Result<f64, MatrixError> {
    let cell = &record[at];
    let value = cell.parse().ok();
    value
        .filter(|value: &f64| value.is_finite() && *value > 0.0)
        .ok_or_else(|| MatrixError {
            line: line(record),
            message: format!("cell {} is `{cell}`, must be GB/s above 0", at + 1),
        })
}

fn rises(axis: &[f64], what: &str, least: usize, line: u64) -> Result<(), MatrixError> {
    let message = if axis.len() < least {
        format!("{} {what}, must be {least} or more", axis.len())
    } else if let Some((before, after)) = (axis.iter().zip(&axis[1..])).find(|(a, b)| a >= b) {
        format!(
            "{what} must rise: {} comes before {}",
            exact(*before),
            exact(*after)
        )
    } else {
        return Ok(());
    };
    Err(MatrixError { line, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_read_row_by_row() {
        let matrix = Matrix::read("# c\nx\\y, 1, 2\n4,4,3\n8,6,5\n").unwrap();
        assert_eq!(matrix.own, [4.0, 8.0]);
        assert_eq!(matrix.external, [1.0, 2.0]);
        let speeds: Vec<f64> = matrix.points().iter().map(|point| point.speed).collect();
        assert_eq!(speeds, [100.0, 75.0, 75.0, 62.5]);
    }

    #[test]
    fn faults_have_a_line() {
        for (text, expected) in [
            (
                "",
                "line 1: nothing here; give a head line with the external demands",
            ),
            ("x,1\n", "line 1: 1 external demands, must be 2 or more"),
            (
                "x,2,1\n",
                "line 1: external demands must rise: 2 comes before 1",
            ),
            ("# c\nx,1,2\n4,4\n", "line 3: 2 cells where the head has 3"),
            (
                "x,1,2\n4,4,y\n",
                "line 2: cell 3 is `y`, must be GB/s above 0",
            ),
            (
                "x,1,2\n4,4,0\n",
                "line 2: cell 3 is `0`, must be GB/s above 0",
            ),
            (
                "x,1,2\n4,5,4\n",
                "line 2: cell 2 is 5, more than the 4 that are asked for alone",
            ),
            (
                "x,1,2\n4,4,4\n4,4,4\n",
                "line 3: own demands must rise: 4 comes before 4",
            ),
            ("x,1,2\n4,4,4\n", "line 2: 1 own demands, must be 2 or more"),
        ] {
            assert_eq!(Matrix::read(text).unwrap_err().to_string(), expected);
        }
    }
}
