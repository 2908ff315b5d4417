//! The published rows, where they are at hand, and their predictions.

use std::path::{Path, PathBuf};

use validation::folder::{Checkout, Stock};
use validation::published::{
    Compared, Comparison, Draws, Lab, Measurements, Role, compare, read_measurements,
};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn measurements() -> Option<Measurements> {
    let path = root().join("../shared/paper/measurements.toml");
    let text = std::fs::read_to_string(path).ok()?;
    Some(read_measurements("measurements.toml", &text).unwrap_or_else(|faults| panic!("{faults}")))
}

pub(crate) fn comparison(draws: u32, take: impl Fn(&str, Role) -> bool) -> Option<Comparison> {
    compared(&Checkout::new(&root()), draws, take)
}

pub(crate) fn compared(
    stock: &dyn Stock,
    draws: u32,
    take: impl Fn(&str, Role) -> bool,
) -> Option<Comparison> {
    let mut file = measurements()?;
    file.rows.retain(|row| take(&row.platform, row.role));
    let draws = Draws {
        count: draws,
        ..Draws::default()
    };
    let mut lab = Lab::new(stock, draws);
    Some(compare(&mut lab, &file).unwrap_or_else(|faults| panic!("{faults}")))
}

/// The README in one line.
pub(crate) fn readme() -> String {
    one_line("README.md")
}

pub(crate) fn one_line(file: &str) -> String {
    let text = std::fs::read_to_string(root().join(file)).unwrap();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// An outcome by id, words of its model or setting, configuration and metric.
pub(crate) fn find<'c>(
    comparison: &'c Comparison,
    [id, words, config, metric]: [&str; 4],
) -> &'c Compared {
    let mut rows = comparison.predicted(Role::Outcome);
    let found = rows.find(|compared| {
        let row = &compared.row;
        (row.id.as_str(), row.config.as_str(), row.metric.as_str()) == (id, config, metric)
            && (row.model.contains(words) || row.setting.contains(words))
    });
    found.unwrap_or_else(|| panic!("no outcome {id} {words} {config} {metric}"))
}
