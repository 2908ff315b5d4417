//! Predicted against measured as figures: plain data, for whoever draws them.

use crate::published::{Comparison, Role, Row};

/// One kind of number, measured and predicted.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Short name, fit for a file: `time`, `request-rate`.
    pub name: &'static str,
    /// What was measured.
    pub what: String,
    /// The unit that all points share; empty for a bare number.
    pub unit: &'static str,
    /// The points.
    pub points: Vec<Measured>,
}

/// A number that was both measured and predicted.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// SoC and role.
    pub group: String,
    /// Whether it was predicted, or of what profiles may be fitted to.
    pub role: Role,
    /// Measured.
    pub measured: f64,
    /// Predicted.
    pub predicted: f64,
    /// Interval of what was predicted.
    pub interval: Option<(f64, f64)>,
}

/// A figure for each kind of number that at least two rows with a prediction have; changes, which may be
/// negative, are in none. Outcomes come first.
pub fn figures(comparison: &Comparison) -> Vec<Figure> {
    let mut figures: Vec<Figure> = Vec::new();
    for role in [Role::Outcome, Role::Calibration] {
        for compared in comparison.predicted(role) {
            let row = &compared.row;
            let (Some(metric), Some(prediction)) = (row.metric(), compared.prediction()) else {
                continue;
            };
            let dimension = metric.dimension();
            let (Some(name), Some(factor)) = (dimension.name(), dimension.factor(&row.unit)) else {
                continue;
            };
            let says = match role {
                Role::Outcome => "predicted",
                Role::Calibration => "calibration",
            };
            let point = Measured {
                group: format!("{}, {says}", row.platform),
                role,
                measured: row.value * factor,
                predicted: prediction.value * factor,
                interval: prediction
                    .interval
                    .map(|interval| (interval.low * factor, interval.high * factor)),
            };
            match figures.iter_mut().find(|figure| figure.name == name) {
                Some(figure) => figure.points.push(point),
                None => figures.push(Figure {
                    name,
                    what: name.replace('-', " "),
                    unit: dimension.symbol(),
                    points: vec![point],
                }),
            }
        }
    }
    figures.retain(|figure| figure.points.len() > 1);
    figures
}

/// Rows with a prediction that are in no figure.
pub fn in_no_figure(comparison: &Comparison) -> Vec<&Row> {
    let figures = figures(comparison);
    let drawn = |row: &Row| {
        let name = row.metric().and_then(|metric| metric.dimension().name());
        name.is_some_and(|name| figures.iter().any(|figure| figure.name == name))
    };
    let rows = [Role::Outcome, Role::Calibration]
        .into_iter()
        .flat_map(|role| comparison.predicted(role));
    rows.map(|compared| &compared.row)
        .filter(|row| !drawn(row))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::{Basis, Compared, Predicted, Prediction, read_measurements};

    #[test]
    fn units_become_one_and_single_points_are_left_out() {
        let row = |metric: &str, unit: &str, role: &str| {
            format!(
                "[[measurement]]\nid = '{metric}{unit}'\nplatform = 'p'\nconfig = 'c'\nmetric = '{metric}'\n\
                 unit = '{unit}'\nvalue = 2\nrole = '{role}'\n"
            )
        };
        let text = row("ttft_mean", "ms", "calibration")
            + &row("ttft_p95", "s", "outcome")
            + &row("throughput", "req/s", "outcome")
            + &row("throughput_change", "%", "outcome");
        let file = read_measurements("m.toml", &text).unwrap();
        let rows = file.rows.into_iter().map(|row| Compared {
            row,
            predicted: Predicted::Value(Box::new(Prediction {
                value: 4.0,
                interval: None,
                failed: Vec::new(),
                replications: 1,
                uncertain: 0,
                basis: Basis::default(),
                missing: Vec::new(),
                played: Vec::new(),
            })),
        });
        let comparison = Comparison {
            file: file.name,
            source: None,
            rows: rows.collect(),
            replaced: Vec::new(),
        };
        let undrawn = in_no_figure(&comparison);
        let undrawn: Vec<_> = undrawn.iter().map(|row| row.metric.as_str()).collect();
        assert_eq!(undrawn, ["throughput", "throughput_change"]);
        let figures = figures(&comparison);
        assert_eq!(figures.len(), 1);
        let points: Vec<_> = figures[0]
            .points
            .iter()
            .map(|point| (point.group.as_str(), point.measured, point.predicted))
            .collect();
        assert_eq!(
            points,
            [("p, predicted", 2.0, 4.0), ("p, calibration", 0.002, 0.004)]
        );
        assert_eq!((figures[0].what.as_str(), figures[0].unit), ("time", "s"));
        let roles: Vec<_> = figures[0].points.iter().map(|point| point.role).collect();
        assert_eq!(roles, [Role::Outcome, Role::Calibration]);
    }
}
