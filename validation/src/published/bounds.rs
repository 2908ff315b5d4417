//! How far off the predictions of published outcomes may be: what this project set itself to reach,
//! by table and configuration. No measured value stands here.

use super::experiments::{holds, recognised};
use super::rows::Row;

/// How far off a prediction may be.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Bound {
    /// Largest error: per cent of the value, or points of a share or change.
    pub most: f64,
    /// Whether the bound is on what remains, in per cent of it, not on the change in points: a fall of
    /// 68 % leaves 0.32.
    pub of_what_remains: bool,
}

struct Published {
    id: &'static str,
    about: &'static [&'static str],
    config: &'static str,
    metric: &'static str,
    bound: Bound,
}

const fn within(
    id: &'static str,
    about: &'static [&'static str],
    config: &'static str,
    metric: &'static str,
    most: f64,
) -> Published {
    Published {
        id,
        about,
        config,
        metric,
        bound: Bound {
            most,
            of_what_remains: false,
        },
    }
}

/// Table or figure, words of the row's model or setting, configuration, metric, and the bound.
const BOUNDS: &[Published] = &[
    within("table1a", &[], "crossinfer", "completion", 8.0),
    within("table1a", &[], "crossinfer", "gpu_busy", 12.0),
    within("table1a", &[], "crossinfer", "ane_busy", 12.0),
    within("table5", &["128-token"], "overlap", "throughput", 6.0),
    within("table7", &[], "D", "completion", 2.0),
    within("table7", &[], "D", "ttft_mean", 5.0),
    within("table9", &[], "crossinfer", "throughput", 10.0),
    within("table12", &["112-token"], "crossinfer", "throughput", 8.0),
    within("table12", &["112-token"], "crossinfer", "ttft_mean", 15.0),
    within("table12", &["112-token"], "naive", "throughput", 8.0),
    within("table12", &["112-token"], "naive", "ttft_mean", 15.0),
    within("table14", &["32 tokens"], "cpu+metal", "decode", 3.0),
    within("fig16", &[], "reuse over rebuild", "throughput_ratio", 8.0),
    Published {
        bound: Bound {
            most: 8.0,
            of_what_remains: true,
        },
        ..within("fig16", &[], "reuse over rebuild", "ttft_mean_change", 8.0)
    },
    within(
        "fig11c",
        &[],
        "import over recompute",
        "first_token_latency_ratio",
        25.0,
    ),
];

impl Bound {
    /// Of a row: its own, or the published experiment's.
    pub fn of(row: &Row) -> Option<Self> {
        if row.max_error.is_some() || !recognised(row) {
            return row.max_error.map(|most| Self {
                most,
                of_what_remains: false,
            });
        }
        let mut all = BOUNDS.iter();
        let found = all.find(|known| {
            known.config == row.config
                && known.metric == row.metric
                && holds(row, known.id, known.about)
        });
        found.map(|known| known.bound)
    }

    /// Whether a prediction, in the row's unit, is within it.
    pub fn met(self, row: &Row, predicted: f64) -> bool {
        self.error(row, predicted).abs() <= self.most
    }

    /// The error that it bounds.
    fn error(self, row: &Row, predicted: f64) -> f64 {
        let factor = || row.metric()?.dimension().factor(&row.unit);
        match factor() {
            Some(factor) if self.of_what_remains => {
                let remains = |change: f64| 1.0 + change * factor;
                (remains(predicted) / remains(row.value) - 1.0) * 100.0
            }
            _ => row.error_of(predicted),
        }
    }
}

impl Row {
    /// Whether a prediction, in the row's unit, says of a ratio or change that it is a gain or a loss as
    /// measured; `None` for what is neither.
    pub fn same_direction(&self, predicted: f64) -> Option<bool> {
        let dimension = self.metric().as_ref().filter(|m| m.compares())?.dimension();
        let even = if dimension.in_points() { 0.0 } else { 1.0 };
        let side = |value: f64| Some((value * dimension.factor(&self.unit)?).total_cmp(&even));
        Some(side(predicted)? == side(self.value)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::{EXPERIMENTS, Metric, read_measurements};

    fn row(id: &str, setting: &str, config: &str, metric: &str, unit: &str, value: f64) -> Row {
        let known = EXPERIMENTS.iter().find(|known| known.id == id);
        let platform = known.map_or("p", |known| known.platform);
        let text = format!(
            "[[measurement]]\nid = '{id}'\nplatform = '{platform}'\nsetting = '{setting}'\nconfig = '{config}'\n\
             metric = '{metric}'\nunit = '{unit}'\nvalue = {value:?}\nrole = 'outcome'\n"
        );
        read_measurements("m.toml", &text).unwrap().rows.remove(0)
    }

    #[test]
    fn every_bound_is_of_an_experiment_and_a_metric() {
        for known in BOUNDS {
            let played = EXPERIMENTS.iter().any(|experiment| {
                (experiment.id, experiment.config) == (known.id, known.config)
                    && known
                        .about
                        .iter()
                        .all(|word| experiment.about.contains(word))
            });
            assert!(played, "{} {}", known.id, known.config);
            assert!(
                Metric::published(known.metric).is_some(),
                "{}",
                known.metric
            );
        }
    }

    #[test]
    fn bounds_are_on_the_error_or_on_what_remains() {
        let share = row("table1a", "2 frames", "crossinfer", "gpu_busy", "%", 50.0);
        let bound = Bound::of(&share).unwrap();
        assert!(bound.met(&share, 62.0) && !bound.met(&share, 62.1));
        let fall = row(
            "fig16",
            "",
            "reuse over rebuild",
            "ttft_mean_change",
            "%",
            -75.0,
        );
        let bound = Bound::of(&fall).unwrap();
        // A quarter remains; 8 per cent of that are 2 points.
        assert!(bound.met(&fall, -73.1) && !bound.met(&fall, -72.9));
        assert_eq!(fall.same_direction(-1.0), Some(true));
        assert_eq!(fall.same_direction(1.0), Some(false));
        let short = row(
            "table5",
            "32-token answers",
            "overlap",
            "throughput",
            "req/s",
            1.0,
        );
        assert_eq!(Bound::of(&short), None);
        assert_eq!(short.same_direction(2.0), None);
    }
}
