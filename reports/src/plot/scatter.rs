//! Predicted against measured, with bands of relative error.

use std::fmt::Write as _;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::draw::{self, Stand, TITLE};
use super::{Drawn, Plot};

const WIDTH: u32 = 620;
const HEIGHT: u32 = 560;

/// A number that was both measured and predicted.
#[derive(Clone, Debug, Default)]
pub struct Point {
    /// What it belongs to; points of a group look the same.
    pub group: String,
    /// Measured, above 0.
    pub measured: f64,
    /// Predicted, above 0.
    pub predicted: f64,
    /// Interval of what was predicted.
    pub interval: Option<(f64, f64)>,
    /// Whether numbers may be fitted to what was measured: drawn, and not counted as a prediction.
    pub calibration: bool,
}

/// Predicted against measured on logarithmic axes. Points that are not above 0 are not drawn, and
/// counted in the text.
#[derive(Clone, Debug, Default)]
pub struct Scatter {
    /// Title.
    pub title: String,
    /// What was measured.
    pub what: String,
    /// Its unit; empty for a bare number.
    pub unit: String,
    /// Half-width of the band around equality: 0.1 for ± 10 %.
    pub band: f64,
    /// The points.
    pub points: Vec<Point>,
}

impl Scatter {
    fn drawn(&self) -> impl Iterator<Item = &Point> {
        let fits = |x: f64| x.is_finite() && x > 0.0;
        self.points
            .iter()
            .filter(move |point| fits(point.measured) && fits(point.predicted))
    }

    fn groups(&self) -> Vec<String> {
        let mut list: Vec<String> = Vec::new();
        for point in self.drawn() {
            if !list.contains(&point.group) {
                list.push(point.group.clone());
            }
        }
        list
    }

    fn range(&self) -> (f64, f64) {
        let values = || {
            self.drawn()
                .flat_map(|point| [point.measured, point.predicted])
        };
        let low = values().fold(f64::INFINITY, f64::min);
        let high = values().fold(0.0, f64::max);
        if high > 0.0 {
            (low / 1.5, high * 1.5)
        } else {
            (0.1, 10.0)
        }
    }

    /// Predictions that are drawn: points that are not of calibration.
    fn predictions(&self) -> impl Iterator<Item = &Point> {
        self.drawn().filter(|point| !point.calibration)
    }

    /// Predictions within the band.
    pub fn within(&self) -> usize {
        let off = |point: &Point| (point.predicted / point.measured - 1.0).abs();
        let near = self.predictions().filter(|point| off(point) <= self.band);
        near.count()
    }

    fn axis_title(&self, side: &str) -> String {
        match self.unit.as_str() {
            "" => format!("{side} {}", self.what),
            unit => format!("{side} {}, {unit}", self.what),
        }
    }
}

impl Plot for Scatter {
    fn size(&self) -> (u32, u32) {
        (
            WIDTH,
            HEIGHT + draw::legend_height(&self.groups(), WIDTH - 40),
        )
    }

    fn describe(&self) -> String {
        let (drawn, predictions) = (self.drawn().count(), self.predictions().count());
        let (fitted, left) = (drawn - predictions, self.points.len() - drawn);
        let mut text = match predictions {
            0 => format!("{}: no prediction of {}", self.title, self.what),
            _ => format!(
                "{}: {} of {predictions} predictions of {} are within {:.0} % of what was measured",
                self.title,
                self.within(),
                self.what,
                100.0 * self.band
            ),
        };
        if fitted > 0 {
            let rows = if fitted == 1 { "row" } else { "rows" };
            _ = write!(text, "; {fitted} calibration {rows} not counted");
        }
        if left > 0 {
            _ = write!(text, "; {left} are not above 0 and not drawn");
        }
        text + "."
    }

    fn draw<DB: DrawingBackend>(&self, root: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let (low, high) = self.range();
        let (plane, _) = root.split_vertically(HEIGHT);
        let title = draw::fit(&self.title, TITLE, WIDTH - 40);
        draw::text(&plane, &title, (20, 20), TITLE, BLACK, Stand::Left)?;
        let axis = || (low..high).log_scale().with_key_points(ticks(low, high));
        let mut chart = draw::plane(&plane, 40).build_cartesian_2d(axis(), axis())?;
        let titles = ["measured", "predicted"].map(|side| self.axis_title(side));
        draw::axes(&mut chart, (&titles[0], &titles[1]), (11, 11))?;
        let factors = [(1.0, 0.8), (1.0 + self.band, 0.55), (1.0 - self.band, 0.55)];
        for (factor, strength) in factors.into_iter().filter(|(factor, _)| *factor > 0.0) {
            // The part of the line within the plane.
            let (from, to) = (low.max(low / factor), high.min(high / factor));
            let line = [(from, from * factor), (to, to * factor)];
            chart.draw_series(LineSeries::new(line, BLACK.mix(strength)))?;
        }
        let groups = self.groups();
        for point in self.drawn() {
            let group = groups.iter().position(|name| *name == point.group);
            let colour = draw::colour(group.unwrap_or(0));
            let at = (point.measured, point.predicted);
            if let Some((from, to)) = point.interval.filter(|(from, _)| *from > 0.0) {
                let ends = [(at.0, from.max(low)), (at.0, to.min(high))];
                chart.draw_series([PathElement::new(ends, colour)])?;
            }
            if group.unwrap_or(0).is_multiple_of(2) {
                chart.draw_series([Circle::new(at, 4, colour.filled())])?;
            } else {
                chart.draw_series([TriangleMarker::new(at, 6, colour.filled())])?;
            }
        }
        let at = (20, HEIGHT.cast_signed());
        draw::legend(root, &groups, at, WIDTH - 40, |index, area| {
            let [(left, top), (right, bottom)] = area;
            let middle = (i32::midpoint(left, right), i32::midpoint(top, bottom));
            let style = draw::colour(index).filled();
            if index.is_multiple_of(2) {
                root.draw(&Circle::new(middle, 5, style))
            } else {
                root.draw(&TriangleMarker::new(middle, 7, style))
            }
        })
    }
}

/// Round values of a logarithmic axis: 1, 2 and 5 times powers of ten, or the powers alone where those
/// would be many.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let of = |factors: &'static [f64]| -> Vec<f64> {
        let all = powers
            .clone()
            .flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)));
        all.filter(|tick| (low..=high).contains(tick)).collect()
    };
    let fine = of(&[1.0, 2.0, 5.0]);
    if fine.len() <= 9 { fine } else { of(&[1.0]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_not_fitted_is_counted() {
        let point = |predicted: f64, calibration: bool| Point {
            group: "a".into(),
            measured: 1.0,
            predicted,
            interval: None,
            calibration,
        };
        let mut scatter = Scatter {
            title: "T".into(),
            what: "share".into(),
            unit: String::new(),
            band: 0.1,
            points: vec![point(1.0, true); 3],
        };
        let says = "T: no prediction of share; 3 calibration rows not counted.";
        assert_eq!(scatter.describe(), says);
        scatter
            .points
            .extend([point(1.05, false), point(2.0, false)]);
        assert_eq!(
            scatter.describe(),
            "T: 1 of 2 predictions of share are within 10 % of what was measured; 3 calibration rows not counted."
        );
        assert_eq!(scatter.axis_title("measured"), "measured share");
        scatter.unit = "s".into();
        assert_eq!(scatter.axis_title("measured"), "measured share, s");
    }

    #[test]
    fn a_logarithmic_axis_has_several_round_ticks() {
        assert_eq!(ticks(1.4, 90.0), [2.0, 5.0, 10.0, 20.0, 50.0]);
        assert_eq!(ticks(0.9e-3, 2e6).len(), 10);
        assert_eq!(ticks(0.1, 10.0).len(), 7);
    }
}
