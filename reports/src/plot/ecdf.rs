//! Distributions of the times to the first and last token.

use plotters::prelude::*;
use sim::metrics::{Metrics, Sample};
use sim::world::World;

use super::{DrawError, failed};

/// Points of a curve.
const POINTS: usize = 200;

/// Empirical distributions of TTFT and completion as SVG.
pub fn latencies(world: &World, metrics: &Metrics<'_>) -> Result<String, DrawError> {
    let curves: Vec<_> = [
        ("time to first token", &metrics.ttft, RGBColor(0, 114, 178)),
        ("completion", &metrics.completion, RGBColor(213, 94, 0)),
    ]
    .into_iter()
    .filter_map(|(name, sample, colour)| Some((name, curve(sample)?, colour)))
    .collect();
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (800, 480)).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        let answers = metrics.completed();
        let caption = format!("{}: {answers} answers, first replication", world.title);
        let end = curves
            .iter()
            .filter_map(|(_, points, _)| points.last())
            .map(|(x, _)| *x)
            .fold(0.0, f64::max)
            .max(1e-9);
        let mut chart = ChartBuilder::on(&root)
            .caption(caption, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..end, 0.0..1.0)
            .map_err(failed)?;
        chart
            .configure_mesh()
            .x_desc("s")
            .label_style(("sans-serif", 15))
            .y_desc("share of answers")
            .light_line_style(TRANSPARENT)
            .draw()
            .map_err(failed)?;
        for (name, mut points, colour) in curves {
            // All of them ended by then, and still have at the right edge.
            points.push((end, 1.0));
            chart
                .draw_series(LineSeries::new(points, colour.stroke_width(2)))
                .map_err(failed)?
                .label(name)
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(2))
                });
        }
        chart
            .configure_series_labels()
            .label_font(("sans-serif", 14))
            .position(SeriesLabelPosition::LowerRight)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .draw()
            .map_err(failed)?;
        root.present().map_err(failed)?;
    }
    Ok(text)
}

/// Steps of the distribution function; `None` without values.
fn curve(sample: &Sample) -> Option<Vec<(f64, f64)>> {
    let share: [f64; POINTS] = std::array::from_fn(|i| (i + 1) as f64 / POINTS as f64);
    let values = sample.quantiles_s(share)?;
    let mut points = Vec::with_capacity(2 * POINTS);
    let mut below = 0.0;
    for (value, share) in values.into_iter().zip(share) {
        points.push((value, below));
        points.push((value, share));
        below = share;
    }
    Some(points)
}
