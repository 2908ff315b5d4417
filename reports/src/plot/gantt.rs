//! Lanes over time, coloured by the kind of stage.

use std::fmt::Write as _;

use plotters::coord::Shift;
use plotters::prelude::*;
use sim::dispatch::{Effect, Input};
use sim::drive::Sink;
use sim::spec::model::StageKind;
use sim::time::Instant;
use sim::world::{LANES_MAX, LaneId, World};

use super::{DrawError, failed};
use crate::number::short;

/// Most slices that are drawn; a plot of more could not be read.
const SLICES_MAX: usize = 300;
/// Height of a lane, pixels.
const LANE: u32 = 48;
const WIDTH: u32 = 1200;

/// Every kind with its name and colour (Okabe and Ito's palette, which colour-blind people can tell
/// apart).
const KINDS: [(StageKind, &str, RGBColor); 9] = [
    (StageKind::Encode, "encode", RGBColor(230, 159, 0)),
    (StageKind::Project, "project", RGBColor(240, 228, 66)),
    (StageKind::Ingest, "ingest", RGBColor(86, 180, 233)),
    (
        StageKind::QueryPrefill,
        "query prefill",
        RGBColor(0, 114, 178),
    ),
    (StageKind::Decode, "decode", RGBColor(0, 158, 115)),
    (StageKind::Import, "import", RGBColor(204, 121, 167)),
    (StageKind::Export, "export", RGBColor(150, 90, 130)),
    (StageKind::Reconstruct, "reconstruct", RGBColor(213, 94, 0)),
    (StageKind::Custom, "other", RGBColor(153, 153, 153)),
];

/// The first stages that ran, in bounded memory.
#[derive(Debug)]
pub struct Slices {
    kinds: Vec<StageKind>,
    running: [Option<(Instant, StageKind)>; LANES_MAX],
    list: Vec<(LaneId, Instant, Instant, StageKind)>,
    /// Stages that came after the last one kept.
    dropped: u64,
}

impl Slices {
    /// Nothing yet.
    pub fn new(world: &World) -> Self {
        Self {
            kinds: world.stages.iter().map(|stage| stage.kind).collect(),
            running: [None; LANES_MAX],
            list: Vec::new(),
            dropped: 0,
        }
    }

    /// How many are drawn.
    pub fn drawn(&self) -> usize {
        self.list.len()
    }

    fn stop(&mut self, now: Instant, lane: LaneId) {
        let Some((since, kind)) = self.running[lane.0 as usize].take() else {
            return;
        };
        if self.list.len() < SLICES_MAX {
            self.list.push((lane, since, now, kind));
        } else {
            self.dropped += 1;
        }
    }
}

impl Sink for Slices {
    fn input(&mut self, now: Instant, input: &Input) {
        if let Input::Finish { lane, .. } | Input::Fail { lane } = *input {
            self.stop(now, lane);
        }
    }

    fn effect(&mut self, now: Instant, effect: &Effect) {
        if let Effect::Start { lane, task } = effect {
            let kind = self.kinds[task.stage.0 as usize];
            self.running[lane.0 as usize] = Some((now, kind));
        }
    }
}

/// The lane timeline as SVG.
pub fn timeline(world: &World, slices: &Slices) -> Result<String, DrawError> {
    let mut text = String::new();
    let lanes = world.lanes.len() as u32;
    let height = 110 + LANE * lanes;
    {
        let root = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        draw(&root, world, slices).map_err(failed)?;
        root.present().map_err(failed)?;
    }
    Ok(text)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type DrawResult<'a> =
    Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

fn draw<'a>(root: &Area<'a>, world: &World, slices: &Slices) -> DrawResult<'a> {
    root.fill(&WHITE)?;
    let end = slices
        .list
        .iter()
        .map(|(_, _, to, _)| to.as_secs_f64())
        .fold(0.0, f64::max)
        .max(1e-9);
    let mut caption = format!("{}: first replication", world.title);
    if slices.dropped > 0 {
        _ = write!(
            caption,
            ", first {} s ({} of {} stages)",
            short(end),
            slices.list.len(),
            slices.list.len() as u64 + slices.dropped
        );
    }
    let lanes = world.lanes.len() as f64;
    let mut chart = ChartBuilder::on(root)
        .caption(caption, ("sans-serif", 18))
        .margin(10)
        .margin_right(24)
        .margin_bottom(34)
        .x_label_area_size(34)
        .y_label_area_size(90)
        .build_cartesian_2d(0.0..end, 0.0..lanes)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_desc("time, s")
        .label_style(("sans-serif", 15))
        .light_line_style(TRANSPARENT)
        .draw()?;
    let plane = chart.plotting_area();
    for (row, lane) in world.lanes.iter().enumerate() {
        let (x, y) = plane.map_coordinate(&(0.0, top(lanes, row) - 0.5));
        let name = Text::new(lane.name.clone(), (x - 84, y - 7), ("sans-serif", 15));
        root.draw(&name)?;
    }
    for &(lane, from, to, kind) in &slices.list {
        let high = top(lanes, lane.0 as usize);
        plane.draw(&Rectangle::new(
            [
                (from.as_secs_f64(), high - 0.15),
                (to.as_secs_f64(), high - 0.85),
            ],
            colour(kind).filled(),
        ))?;
    }
    legend(root, slices)?;
    Ok(())
}

/// Upper edge of a lane's row: the first lane is the uppermost.
fn top(lanes: f64, row: usize) -> f64 {
    lanes - row as f64
}

fn colour(kind: StageKind) -> RGBColor {
    KINDS
        .iter()
        .find(|(known, ..)| *known == kind)
        .map_or(BLACK, |(_, _, colour)| *colour)
}

/// Kinds that occur, below the plot.
fn legend<'a>(root: &Area<'a>, slices: &Slices) -> DrawResult<'a> {
    let (_, height) = root.dim_in_pixel();
    let y = height.cast_signed() - 28;
    let mut x = 100;
    for (kind, name, colour) in KINDS {
        if !slices.list.iter().any(|(.., seen)| *seen == kind) {
            continue;
        }
        root.draw(&Rectangle::new([(x, y), (x + 14, y + 14)], colour.filled()))?;
        root.draw(&Text::new(name, (x + 20, y), ("sans-serif", 14)))?;
        x += 40 + 8 * (name.len() as u32).cast_signed();
    }
    Ok(())
}
