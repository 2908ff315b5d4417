//! The heat map of a finished sweep: one number over two of its keys.

use std::collections::BTreeMap;
use std::path::Path;

use reports::metric::{Better, COMPARED, Metric};
use reports::number::short;
use reports::plot::{Cell, Map};

use super::edit::split_at;
use super::journal::failed;
use super::row::ERROR;
use super::table::CSV;
use super::{Error, Plan};

/// Most values of a key along a side: more cannot be told apart.
const SIDE_MAX: usize = 60;

/// Which number over which keys, as `KEY,KEY,NUMBER`.
#[derive(Clone, Debug)]
pub struct Grid {
    x: String,
    y: String,
    metric: Metric,
}

impl Grid {
    /// Reads it from text.
    ///
    /// # Errors
    ///
    /// What is wrong, and what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let known = || {
            let keys: Vec<&str> = COMPARED.iter().map(|metric| metric.key).collect();
            format!(
                "give two keys that vary and one of {}, with commas between",
                keys.join(", ")
            )
        };
        let split = || {
            let (x, rest) = split_at(text, ',')?;
            let (y, number) = split_at(rest, ',')?;
            Some((x.trim(), y.trim(), number.trim()))
        };
        let (x, y, number) = split().ok_or_else(known)?;
        if x == y {
            return Err(format!("`{x}` is given twice; {}", known()));
        }
        let metric = COMPARED.iter().find(|metric| metric.key == number);
        let metric = metric.ok_or_else(|| format!("unknown number `{number}`; {}", known()))?;
        Ok(Self {
            x: x.to_owned(),
            y: y.to_owned(),
            metric: *metric,
        })
    }

    /// Checks, before anything runs, that `at` leaves one cell of `plan` for each pair of values.
    ///
    /// # Errors
    ///
    /// A key that does not vary, or one beside the two that varies and has no value in `at`.
    pub fn fits(&self, plan: &Plan, at: &[(String, String)]) -> Result<(), Error> {
        let columns = plan.columns();
        let keys: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        self.check(&keys, at)
    }

    fn check(&self, keys: &[&str], at: &[(String, String)]) -> Result<(), Error> {
        let vary = || format!("these vary: {}", keys.join(", "));
        let fixed = at.iter().map(|(key, _)| key);
        for key in [&self.x, &self.y].into_iter().chain(fixed) {
            if !keys.contains(&key.as_str()) {
                return Err(Error::asked(
                    format!("`{key}` of the map does not vary"),
                    vary(),
                ));
            }
        }
        for (index, (key, _)) in at.iter().enumerate() {
            let sides = *key == self.x || *key == self.y;
            if sides || at[..index].iter().any(|(other, _)| other == key) {
                return Err(Error::asked(
                    format!("`{key}` is fixed and has a side of the map, or is fixed twice"),
                    "fix each of the other keys once",
                ));
            }
        }
        let open = keys.iter().find(|key| {
            **key != self.x && **key != self.y && !at.iter().any(|(fixed, _)| fixed == *key)
        });
        match open {
            None => Ok(()),
            Some(key) => Err(Error::asked(
                format!("`{key}` varies too: cells of the map would stand for several"),
                format!("fix it with `--map-at {key}=VALUE`"),
            )),
        }
    }
}

/// Reads `KEY=VALUE`.
///
/// # Errors
///
/// Text without a key or a value.
pub fn fixed(text: &str) -> Result<(String, String), String> {
    match split_at(text, '=') {
        Some((key, value)) if !key.trim().is_empty() && !value.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("give `KEY=VALUE`".to_owned()),
    }
}

/// The values of a side in order, with their texts as the table has them.
struct Side(Vec<String>);

impl Side {
    /// Numbers by size, else as they come.
    fn of(key: &str, mut values: Vec<String>) -> Result<Self, Error> {
        if values.len() > SIDE_MAX {
            return Err(Error::asked(
                format!(
                    "`{key}` has {} values: a map shows {SIDE_MAX}",
                    values.len()
                ),
                "list the values of its keys, as in `KEY=LOW..HIGH/12`, instead of sampling them",
            ));
        }
        let number = |text: &String| text.parse::<f64>().ok();
        if values.iter().all(|value| number(value).is_some()) {
            values.sort_by(|a, b| {
                let (a, b) = (number(a).unwrap_or(0.0), number(b).unwrap_or(0.0));
                a.total_cmp(&b)
            });
        }
        Ok(Self(values))
    }

    fn place(&self, value: &str) -> Option<usize> {
        self.0.iter().position(|other| other == value)
    }

    fn names(&self) -> Vec<String> {
        let name = |text: &String| match text.parse::<f64>() {
            // The steps of a range may have many digits.
            Ok(number) if text.len() > 8 => short(number),
            Ok(number) => number.to_string(),
            Err(_) => text.clone(),
        };
        self.0.iter().map(name).collect()
    }
}

/// Whether a value of the table is the one that was asked for.
fn same(value: &str, asked: &str) -> bool {
    match (value.parse::<f64>(), asked.parse::<f64>()) {
        (Ok(value), Ok(asked)) => value == asked,
        _ => value == asked,
    }
}

/// A row of the table: its place on both sides, and its number or why it has none.
type Found = ((String, String), Result<f64, &'static str>);

/// The cells in `results.csv` of a folder, those alone whose other keys have the values of `at`.
///
/// # Errors
///
/// As [`Grid::fits`]; a value that no cell has; more values than a map can show; a file that cannot be read.
pub fn map(folder: &Path, grid: &Grid, at: &[(String, String)]) -> Result<Map, Error> {
    let path = folder.join(CSV);
    let error = |error: csv::Error| failed(&path, "read", error.into());
    let mut reader = csv::Reader::from_path(&path).map_err(error)?;
    let header = reader.headers().map_err(error)?.clone();
    let column = |name: &str| header.iter().position(|column| column == name);
    let keys: Vec<&str> = header
        .iter()
        .take(column(ERROR).unwrap_or(0))
        .filter(|key| *key != "cell")
        .collect();
    grid.check(&keys, at)?;
    let number = column(&grid.metric.key.replace('.', "_"));
    let (verdict, fault) = (column("verdict"), column(ERROR));
    let mut found: Vec<Found> = Vec::new();
    let mut others = vec![Vec::<String>::new(); at.len()];
    for row in reader.records() {
        let row = row.map_err(error)?;
        let text = |column: Option<usize>| column.and_then(|at| row.get(at)).unwrap_or_default();
        let mut chosen = true;
        for ((key, asked), seen) in at.iter().zip(&mut others) {
            let value = text(column(key));
            chosen &= same(value, asked);
            if seen.len() < SIDE_MAX && !seen.iter().any(|known| known == value) {
                seen.push(value.to_owned());
            }
        }
        if !chosen {
            continue;
        }
        let value = text(number).parse::<f64>().ok();
        let value = if !text(fault).is_empty() {
            Err("fault")
        } else if grid.metric.steady_only && text(verdict) == "saturated" {
            Err("grows")
        } else {
            value.filter(|value| value.is_finite()).ok_or("none")
        };
        let place = [&grid.x, &grid.y].map(|key| text(column(key)).to_owned());
        let [x, y] = place;
        found.push(((x, y), value));
    }
    if found.is_empty() {
        let asked: Vec<String> = at
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let there = at.iter().zip(&others);
        let there: Vec<String> = there
            .map(|((key, _), values)| format!("`{key}` has {}", values.join(", ")))
            .collect();
        return Err(Error::asked(
            format!("no cell has {}", asked.join(" and ")),
            there.join("; "),
        ));
    }
    drawn(grid, at, &found)
}

fn drawn(grid: &Grid, at: &[(String, String)], found: &[Found]) -> Result<Map, Error> {
    let (mut xs, mut ys) = (Vec::<String>::new(), Vec::<String>::new());
    for ((x, y), _) in found {
        for (value, known) in [(x, &mut xs), (y, &mut ys)] {
            // Beyond the limit only their number counts.
            if !known.contains(value) && known.len() < 1000 {
                known.push(value.clone());
            }
        }
    }
    let (x, y) = (Side::of(&grid.x, xs)?, Side::of(&grid.y, ys)?);
    let numbers = || found.iter().filter_map(|(_, value)| value.ok());
    let low = numbers().fold(f64::INFINITY, f64::min);
    let high = numbers().fold(f64::NEG_INFINITY, f64::max);
    let share = |value: f64| {
        if high > low {
            (value - low) / (high - low)
        } else {
            0.0
        }
    };
    let mut cells = BTreeMap::new();
    for ((column, row), value) in found {
        if let Some(place) = x.place(column).zip(y.place(row)) {
            let cell = match value {
                Ok(value) => Cell::Shade(share(*value), short(*value)),
                Err(why) => Cell::Empty((*why).to_owned()),
            };
            cells.insert(place, cell);
        }
    }
    let better = match grid.metric.better {
        Better::Higher => "more is better",
        Better::Lower => "less is better",
    };
    let fixed: Vec<String> = at
        .iter()
        .map(|(key, value)| format!("{key} = {value}"))
        .collect();
    let row = |row| {
        let cell = |column| cells.get(&(column, row)).cloned();
        let cell = |column| cell(column).unwrap_or_else(|| Cell::Empty("none".to_owned()));
        (0..x.0.len()).map(cell).collect()
    };
    Ok(Map {
        title: format!("{} ({better})", grid.metric.title),
        note: fixed.join(", "),
        x: grid.x.clone(),
        y: grid.y.clone(),
        columns: x.names(),
        rows: y.names(),
        cells: (0..y.0.len()).map(row).collect(),
        names: Vec::new(),
        colours: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str, rows: &[&str]) -> std::path::PathBuf {
        let folder =
            std::env::temp_dir().join(format!("crossinfer-map-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder can be made");
        let head = "cell,policy,seed,rate,error,verdict,ttft_s_mean,throughput_rps";
        let text = format!("{head}\n{}\n", rows.join("\n"));
        std::fs::write(folder.join("results.csv"), text).expect("a file can be written");
        folder
    }

    fn at(list: &[(&str, &str)]) -> Vec<(String, String)> {
        let own = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
        list.iter().map(own).collect()
    }

    const ROWS: [&str; 6] = [
        "0,serial,1,0.5,,steady,2.0,1.0",
        "1,serial,1,10.0,,saturated,9.0,1.5",
        "2,serial,2,0.5,,steady,4.0,1.0",
        "3,serial,2,10.0,no lane,,,",
        "4,naive,1,0.5,,steady,3.0,1.0",
        "5,naive,1,2.0,,steady,,1.0",
    ];

    #[test]
    fn cells_are_in_order_and_none_is_made_up() {
        let folder = table("cells", &ROWS);
        let grid = Grid::parse("rate,seed,ttft_s.mean").expect("it is a grid");
        let map = map(&folder, &grid, &at(&[("policy", "serial")])).expect("it can be drawn");
        assert_eq!(
            (map.columns, map.rows),
            (at2(["0.5", "10"]), at2(["1", "2"]))
        );
        let empty = |why: &str| Cell::Empty(why.to_owned());
        let shade = |share, text: &str| Cell::Shade(share, text.to_owned());
        // A queue that grows has no latency, and a cell that is no scenario nothing.
        assert_eq!(
            map.cells,
            [
                vec![shade(0.0, "2.00"), empty("grows")],
                vec![shade(1.0, "4.00"), empty("fault")]
            ]
        );
        assert_eq!(map.note, "policy = serial");
        // Throughput is one even there; what no cell has is said.
        let grid = Grid::parse("policy,rate,throughput_rps").expect("it is a grid");
        let map = super::map(&folder, &grid, &at(&[("seed", "1.0")])).expect("it can be drawn");
        assert_eq!(map.columns, at2(["serial", "naive"]));
        assert_eq!(map.cells[1], [empty("none"), shade(0.0, "1.00")]);
        assert_eq!(map.cells[2], [shade(1.0, "1.50"), empty("none")]);
        std::fs::remove_dir_all(folder).expect("it can be removed");
    }

    fn at2<const N: usize>(list: [&str; N]) -> Vec<String> {
        list.map(str::to_owned).into()
    }

    #[test]
    fn keys_that_vary_besides_are_fixed_or_refused() {
        let folder = table("keys", &ROWS);
        let grid = Grid::parse("rate,seed,ttft_s.mean").expect("it is a grid");
        for (list, says) in [
            (&[][..], "`policy` varies too"),
            (&[("policy", "fixed")], "no cell has policy=fixed"),
            (
                &[("run", "1"), ("policy", "naive")],
                "`run` of the map does not vary",
            ),
            (
                &[("seed", "1"), ("policy", "naive")],
                "has a side of the map",
            ),
        ] {
            let error = map(&folder, &grid, &at(list)).expect_err("it is refused");
            assert!(error.to_string().contains(says), "{error}");
        }
        for text in ["rate,seed", "rate,rate,ttft_s.mean", "rate,seed,colour"] {
            assert!(Grid::parse(text).is_err(), "{text}");
        }
        let many: Vec<String> = (0..200)
            .map(|i| format!("{i},serial,1,{i}.5,,steady,2.0,1.0"))
            .collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let sampled = table("many", &many);
        let error = map(&sampled, &grid, &at(&[("policy", "serial")])).expect_err("it is refused");
        assert!(error.to_string().contains("has 200 values"), "{error}");
        for folder in [folder, sampled] {
            std::fs::remove_dir_all(folder).expect("it can be removed");
        }
    }
}
