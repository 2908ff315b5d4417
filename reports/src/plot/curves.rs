//! Lines: distributions, courses over time, and a number against load with its intervals.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::draw::{self, LABEL, Stand, TITLE};
use super::{Drawn, Plot};
use crate::detail::{Bins, Run};
use crate::number::{percent, quantity, short};

const WIDTH: u32 = 620;
const HEIGHT: u32 = 330;

/// Stands where there are no points.
const NOTHING: &str = "there is nothing to show";

/// A line of a plot.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// Name.
    pub name: String,
    /// Points, x rising.
    pub points: Vec<(f64, f64)>,
    /// Half-widths of the intervals of the points' y; empty: none.
    pub half_widths: Vec<Option<f64>>,
}

/// Lines in one plane whose y starts at 0.
#[derive(Clone, Debug, Default)]
pub struct Curves {
    /// Title.
    pub title: String,
    /// Title of the x axis, with its unit.
    pub x: String,
    /// Title of the y axis, with its unit.
    pub y: String,
    /// Whether a value holds until the next point, instead of changing evenly.
    pub steps: bool,
    /// Whether the points are means over the time up to the next one, in which the value may have been higher.
    pub means: bool,
    /// Whether points are marked.
    pub marks: bool,
    /// Where the x axis ends; absent: at the largest value. What lies beyond is not drawn.
    pub end: Option<f64>,
    /// The lines.
    pub curves: Vec<Curve>,
}

/// How many times the smallest 99th percentile another may be before the axis leaves it out.
const FAR: f64 = 20.0;

/// Where the axis of distributions ends so that all that are of one size can be read: the largest 99th
/// percentile of those that have not grown far beyond the smallest one, as they do where a queue grows.
/// Absent if none has. `values` rise.
fn end_of_axis(values: &[&[f64]]) -> Option<f64> {
    let p99 = |values: &&[f64]| {
        let rank = (0.99 * values.len() as f64).ceil() as usize;
        values.get(rank.checked_sub(1)?).copied()
    };
    let ends: Vec<f64> = values.iter().filter_map(p99).collect();
    let least = ends.iter().copied().fold(f64::INFINITY, f64::min);
    let near = |end: &f64| *end <= FAR * least;
    if ends.iter().all(near) {
        return None;
    }
    let most = ends.into_iter().filter(near).fold(0.0, f64::max);
    Some(most).filter(|&most| most > 0.0)
}

/// Distributions of the time to first token (or, with `completion`, to the last) of several runs.
pub fn distributions(runs: &[Run], completion: bool) -> Curves {
    let (what, title) = if completion {
        ("completion time", "Completion time")
    } else {
        ("time to first token", "Time to first token")
    };
    let values: Vec<&[f64]> = runs
        .iter()
        .map(|run| {
            if completion {
                run.completion_s.as_slice()
            } else {
                run.ttft_s.as_slice()
            }
        })
        .collect();
    let end = end_of_axis(&values);
    let cut = end.map_or_else(String::new, |end| {
        format!("; cut at {}, % beyond in brackets", short(end))
    });
    let curve = |(run, values): (&Run, &&[f64])| {
        let count = values.len() as f64;
        let points = values.iter().enumerate();
        let mut points: Vec<_> = points
            .map(|(i, &value)| (value, (i + 1) as f64 / count))
            .collect();
        if let Some(&(first, _)) = points.first() {
            points.insert(0, (first, 0.0));
        }
        let beyond = end.map_or(0, |end| values.iter().filter(|&&value| value > end).count());
        let name = if beyond > 0 {
            format!("{} ({})", run.policy, percent(beyond as f64 / count))
        } else {
            run.policy.clone()
        };
        Curve {
            name,
            points,
            half_widths: Vec::new(),
        }
    };
    Curves {
        title: format!("{title}: share of answers within"),
        x: format!("{what}, s{cut}"),
        y: "share of answers".into(),
        steps: true,
        means: false,
        marks: false,
        end,
        curves: runs.iter().zip(&values).map(curve).collect(),
    }
}

/// The course of a rate over time for several runs; `scale` takes it to the unit of `y`.
pub fn over_time<'r>(
    title: &str,
    y: &str,
    scale: f64,
    runs: impl IntoIterator<Item = (&'r str, &'r Bins)>,
) -> Curves {
    Curves {
        title: title.into(),
        x: "time, s".into(),
        y: y.into(),
        steps: true,
        means: true,
        marks: false,
        end: None,
        curves: runs
            .into_iter()
            .map(|(name, bins)| Curve {
                name: name.to_owned(),
                points: bins
                    .mean
                    .iter()
                    .enumerate()
                    .map(|(bin, value)| {
                        let at = bin as f64 * bins.width_ns as f64 / 1e9;
                        (at, value * scale)
                    })
                    .collect(),
                half_widths: Vec::new(),
            })
            .collect(),
    }
}

impl Curves {
    /// Ends of both axes: the largest values, a little room above.
    fn ends(&self) -> (f64, f64) {
        let all = || self.curves.iter().flat_map(|curve| &curve.points);
        let x = all().map(|point| point.0).fold(0.0, f64::max);
        let tops = self.curves.iter().flat_map(|curve| {
            curve.points.iter().enumerate().map(|(i, point)| {
                point.1 + curve.half_widths.get(i).copied().flatten().unwrap_or(0.0)
            })
        });
        let y = tops.fold(0.0, f64::max);
        let x = self.end.unwrap_or(x);
        (x.max(1e-9), if y > 0.0 { y * 1.04 } else { 1.0 })
    }

    fn names(&self) -> Vec<String> {
        if self.curves.len() < 2 {
            return Vec::new();
        }
        let names = self.curves.iter();
        names
            .map(|curve| draw::fit(&curve.name, LABEL, 260))
            .collect()
    }
}

impl Plot for Curves {
    fn size(&self) -> (u32, u32) {
        (
            WIDTH,
            HEIGHT + draw::legend_height(&self.names(), WIDTH - 40),
        )
    }

    fn describe(&self) -> String {
        let lines: Vec<String> = self
            .curves
            .iter()
            .filter_map(|curve| {
                let last = curve.points.last()?;
                let most = curve.points.iter().map(|point| point.1).fold(0.0, f64::max);
                let text = if self.steps && most <= 1.0 && self.y.starts_with("share") {
                    let half = curve.points.iter().find(|point| point.1 >= 0.5)?;
                    format!("half within {}", short(half.0))
                } else {
                    let (most, last) = (short(most), short(last.1));
                    match curve.points.as_slice() {
                        [first, second, ..] if self.means => format!(
                            "means of {}, up to {most}, the last {last}",
                            quantity(second.0 - first.0, "s")
                        ),
                        _ if self.means => format!("mean {most}"),
                        _ => format!("at most {most}, at last {last}"),
                    }
                };
                Some(if curve.name.is_empty() {
                    text
                } else {
                    format!("{}: {text}", curve.name)
                })
            })
            .collect();
        let text = if lines.is_empty() {
            NOTHING.to_owned()
        } else {
            lines.join("; ")
        };
        format!("{} ({} over {}): {text}.", self.title, self.y, self.x)
    }

    fn draw<DB: DrawingBackend>(&self, root: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let (end, top) = self.ends();
        let (plane, _) = root.split_vertically(HEIGHT);
        let title = draw::fit(&self.title, TITLE, WIDTH - 40);
        draw::text(&plane, &title, (20, 20), TITLE, BLACK, Stand::Left)?;
        if self.curves.iter().all(|curve| curve.points.is_empty()) {
            // An axis without anything has no scale.
            let middle = (WIDTH.cast_signed() / 2, HEIGHT.cast_signed() / 2);
            return draw::text(&plane, NOTHING, middle, LABEL, BLACK, Stand::Middle);
        }
        let mut chart = draw::plane(&plane, 40).build_cartesian_2d(0.0..end, 0.0..top)?;
        draw::axes(&mut chart, (&self.x, &self.y), (7, 6))?;
        for (index, curve) in self.curves.iter().enumerate() {
            let style = draw::colour(index).stroke_width(2);
            let points = self.path(curve, end);
            if index < draw::COLOURS.len() {
                chart.draw_series(LineSeries::new(points, style))?;
            } else {
                // Colours start again, so lines differ in another way too.
                chart.draw_series(DashedLineSeries::new(points, 7, 5, style))?;
            }
            if self.marks {
                let circles = curve
                    .points
                    .iter()
                    .map(|&point| Circle::new(point, 4, style.filled()));
                chart.draw_series(circles)?;
            }
            for (&(x, y), half) in curve.points.iter().zip(&curve.half_widths) {
                let Some(half) = half else { continue };
                let ends = [(x, (y - half).max(0.0)), (x, y + half)];
                chart.draw_series([PathElement::new(ends, style)])?;
            }
        }
        let at = (20, HEIGHT.cast_signed());
        draw::legend(root, &self.names(), at, WIDTH - 40, |index, area| {
            let [(left, top), (right, bottom)] = area;
            let middle = i32::midpoint(top, bottom);
            let style = draw::colour(index).stroke_width(3);
            let line = |from, to| PathElement::new([(from, middle), (to, middle)], style);
            if index < draw::COLOURS.len() {
                root.draw(&line(left, right))
            } else {
                root.draw(&line(left, left + 8))?;
                root.draw(&line(right - 8, right))
            }
        })
    }
}

impl Curves {
    /// A curve's points as they are drawn, up to the right edge.
    pub(super) fn path(&self, curve: &Curve, end: f64) -> Vec<(f64, f64)> {
        if !self.steps {
            return curve.points.clone();
        }
        let mut path: Vec<(f64, f64)> = Vec::with_capacity(2 * curve.points.len());
        for &(x, y) in curve.points.iter().take_while(|point| point.0 <= end) {
            if let Some(&(_, before)) = path.last() {
                path.push((x, before));
            }
            path.push((x, y));
        }
        // All of it may lie beyond the end.
        let (_, last) = *path.last().unwrap_or(&(0.0, 0.0));
        if path.is_empty() && !curve.points.is_empty() {
            path.push((0.0, last));
        }
        if !path.is_empty() {
            path.push((end, last));
        }
        path
    }
}
