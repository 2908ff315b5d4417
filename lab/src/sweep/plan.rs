//! Which values every cell has.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use super::Error;
use super::axis::{Axis, Value};
use super::row::{Column, measured_columns};
use super::sample::{self, SOBOL_DIMENSIONS, Sobol};

/// How sampled keys are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// The first so many points of a Sobol sequence.
    Sobol(u32),
    /// A Latin hypercube of so many points.
    LatinHypercube(u32),
}

impl Sampling {
    /// Reads `sobol:N` or `lhs:N`.
    ///
    /// # Errors
    ///
    /// Anything else.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "give `sobol:N` or `lhs:N`, N from 1 to 4294967295".to_owned();
        let (kind, count) = text.split_once(':').ok_or_else(wrong)?;
        let count = count
            .parse()
            .ok()
            .filter(|&count| count > 0)
            .ok_or_else(wrong)?;
        match kind {
            "sobol" => Ok(Self::Sobol(count)),
            "lhs" => Ok(Self::LatinHypercube(count)),
            _ => Err(wrong()),
        }
    }

    fn count(self) -> u32 {
        match self {
            Self::Sobol(count) | Self::LatinHypercube(count) => count,
        }
    }
}

/// Every combination of the listed values, each with every point of the sample.
#[derive(Clone, Debug)]
pub struct Plan {
    axes: Vec<Axis>,
    sampling: Option<Sampling>,
    seed: u64,
    sobol: Sobol,
    cells: u64,
}

impl Plan {
    /// A plan; `seed` is the sample's.
    ///
    /// # Errors
    ///
    /// No keys, the same key twice, a sample without keys to choose or the other way round, or more
    /// than 2³² cells.
    pub fn new(axes: Vec<Axis>, sampling: Option<Sampling>, seed: u64) -> Result<Self, Error> {
        if axes.is_empty() {
            return Err(Error::asked(
                "nothing is varied",
                "name a key with `--vary KEY=VALUES`",
            ));
        }
        for (at, axis) in axes.iter().enumerate() {
            let before = axes[..at].iter().map(|other| &other.key);
            if let Some(other) = before.into_iter().find(|other| other.may_be(&axis.key)) {
                return Err(if *other.to_string() == axis.key.to_string() {
                    Error::asked(
                        format!("`{}` is varied twice", axis.key),
                        "give all its values in one list",
                    )
                } else {
                    Error::asked(
                        format!("`{other}` and `{}` may be the same key", axis.key),
                        "write both in the same way, by name or by place",
                    )
                });
            }
        }
        // A row of the journal is a line.
        if let Some(axis) = axes.iter().find(|axis| axis.breaks_lines()) {
            return Err(Error::asked(
                format!("a value of `{}` goes over several lines", axis.key),
                "write it in one; a list of TOML may stand in one line",
            ));
        }
        let sampled: Vec<_> = axes.iter().filter(|axis| axis.count().is_none()).collect();
        match (sampling, sampled.first()) {
            (None, Some(axis)) => {
                return Err(Error::asked(
                    format!("`{}` has ends but no values between them", axis.key),
                    "write `/N` behind them for a range of N values, or add `--sample sobol:N`",
                ));
            }
            (Some(_), None) => {
                return Err(Error::asked(
                    "there is nothing to sample",
                    "give a key as `KEY=LOW..HIGH`, without `/N`",
                ));
            }
            (Some(Sampling::Sobol(_)), _) if sampled.len() > SOBOL_DIMENSIONS => {
                return Err(Error::asked(
                    format!(
                        "{} keys are more than Sobol's {SOBOL_DIMENSIONS}",
                        sampled.len()
                    ),
                    "use `--sample lhs:N`",
                ));
            }
            _ => {}
        }
        let points = sampling.map_or(1, Sampling::count);
        let cells = axes
            .iter()
            .filter_map(Axis::count)
            .try_fold(u64::from(points), u64::checked_mul)
            .filter(|&cells| cells <= 1 << 32)
            .ok_or_else(|| Error::asked("these are more than 2³² cells", "vary fewer values"))?;
        let sobol = Sobol::new(sampled.len().min(SOBOL_DIMENSIONS), seed);
        Ok(Self {
            axes,
            sampling,
            seed,
            sobol,
            cells,
        })
    }

    /// How many cells.
    pub fn cells(&self) -> u64 {
        self.cells
    }

    /// The keys.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// A column for each key, named after it: `scenario:replications` where a measured column has the key's name.
    pub fn columns(&self) -> Vec<Column> {
        let measured = measured_columns();
        let column = |axis: &Axis| {
            let mut name = axis.key.to_string();
            if measured.iter().any(|column| column.name == name) {
                name.insert_str(0, "scenario:");
            }
            Column::new(name, axis.column_type())
        };
        self.axes.iter().map(column).collect()
    }

    /// The values of a cell, key by key. The last key changes fastest, the sample faster still.
    pub fn values(&self, cell: u64) -> Vec<Value> {
        let points = u64::from(self.sampling.map_or(1, Sampling::count));
        let (point, mut rest) = ((cell % points) as u32, cell / points);
        let mut places = vec![0; self.axes.len()];
        for (place, axis) in places.iter_mut().zip(&self.axes).rev() {
            if let Some(count) = axis.count() {
                *place = rest % count;
                rest /= count;
            }
        }
        let mut dimension = 0;
        let values = self.axes.iter().zip(places).map(|(axis, place)| {
            if axis.count().is_some() {
                return axis.at(place);
            }
            let unit = match self.sampling {
                Some(Sampling::LatinHypercube(count)) => {
                    sample::latin_hypercube(point, dimension, count, self.seed)
                }
                _ => self.sobol.unit(point, dimension),
            };
            dimension += 1;
            axis.sampled(unit)
        });
        values.collect()
    }

    /// Hash of all that results depend on: the plan, and what else the caller adds.
    pub(super) fn hash(&self, rest: &[&str]) -> String {
        let mut hash = Sha256::new();
        let mut add = |text: &str| {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        };
        add(&format!(
            "{:?} {:?} {}",
            self.axes, self.sampling, self.seed
        ));
        for text in rest {
            add(text);
        }
        let hash = hash.finalize();
        hash.iter().fold(String::new(), |mut text, byte| {
            // Into a string, nothing can fail.
            _ = write!(text, "{byte:02x}");
            text
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::Type;

    fn plan(axes: &[&str], sampling: Option<&str>) -> Result<Plan, Error> {
        let axes = axes
            .iter()
            .map(|text| Axis::parse(text))
            .collect::<Result<_, _>>()?;
        let sampling = sampling.map(|text| Sampling::parse(text).expect("is a sample"));
        Plan::new(axes, sampling, 1)
    }

    #[test]
    fn a_key_under_two_names_and_a_value_of_several_lines_are_refused() {
        let says = |axes: &[&str]| match plan(axes, None) {
            Err(Error::Asked { message, .. }) => message,
            other => panic!("{axes:?}: {other:?}"),
        };
        let (name, place) = (
            "streams.door.queries.deadline_s=1,4",
            "streams[0].queries.deadline_s=4,8",
        );
        assert!(says(&[name, place]).contains("may be the same key"));
        assert!(
            says(&[place, "streams.\"door\".queries.deadline_s=2"]).contains("may be the same key")
        );
        assert!(
            says(&[name, "streams.\"door\".queries.deadline_s=2"]).contains("may be the same key")
        );
        assert!(says(&[name, name]).contains("varied twice"));
        // Another key of the same stream, and the same of another.
        for other in [
            "streams[0].queries.prompt_tokens=1,2",
            "streams.yard.queries.deadline_s=1",
        ] {
            assert!(plan(&[name, other], None).is_ok(), "{other}");
        }
        assert!(says(&["title=\"x\\ny\",b"]).contains("several lines"));
        assert!(
            says(&["streams[0].queries.arrivals={ times_s = [1,2,\n 3] }"])
                .contains("several lines")
        );
    }

    #[test]
    fn cells_are_all_combinations() {
        let plan = plan(&["a=1,2", "b=0..1", "c=x,y,z"], Some("lhs:4")).expect("is a plan");
        assert_eq!(plan.cells(), 24);
        let mut all: Vec<String> = (0..24)
            .map(|cell| format!("{:?}", plan.values(cell)))
            .collect();
        let (first, last) = (plan.values(0), plan.values(23));
        assert_eq!(
            (&first[0], &first[2]),
            (&Value::Int(1), &Value::Text("x".into()))
        );
        assert_eq!(
            (&last[0], &last[2]),
            (&Value::Int(2), &Value::Text("z".into()))
        );
        // The same points with every combination.
        assert_eq!(plan.values(1)[1], plan.values(5)[1]);
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 24);
        assert_eq!(plan.columns()[1].kind, Type::Float);
    }

    #[test]
    fn no_two_columns_have_one_name() {
        let plan = plan(&["replications=1,2", "seed=1,2"], None).expect("is a plan");
        let keys: Vec<String> = plan.columns().into_iter().map(|c| c.name).collect();
        assert_eq!(keys, ["scenario:replications", "seed"]);
        // Both spellings are one key.
        let key = crate::sweep::Key::parse(&keys[0]).expect("is a key");
        let own = crate::sweep::Key::parse("replications").expect("is a key");
        assert_eq!(key.kind, own.kind);
        let measured = measured_columns();
        assert!(measured.iter().all(|column| !keys.contains(&column.name)));
    }

    #[test]
    fn plans_that_make_no_sense_are_refused() {
        for (axes, sampling) in [
            (&[][..], None),
            (&["a=1,2", "a=3"], None),
            (&["a=0..1"], None),
            (&["a=1"], Some("sobol:4")),
            (&["a=0..1/1000000", "b=0..1/1000000"], None),
        ] {
            assert!(plan(axes, sampling).is_err(), "{axes:?} {sampling:?}");
        }
    }
}
