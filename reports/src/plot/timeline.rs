//! Lanes over time: whose stage ran when, what for, on which version, and how much slower than alone.

use std::fmt::Write as _;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::draw::{self, LABEL, Stand, TITLE};
use super::{Drawn, Plot};
use crate::detail::{Class, Detail, Run};
use crate::number::quantity;

/// Most stages that are drawn; a plot of more could not be read.
const SLICES_MAX: usize = 80;
/// How many streams of one colour can be told apart.
const LAPS: usize = 4;
const WIDTH: u32 = 1200;
/// Left of the plane, for names.
const LEFT: i32 = 120;
const RIGHT: i32 = 24;
/// Above the rows: the title, and what part of the run it is.
const TOP: i32 = 44;
const NOTE: i32 = 22;
/// Height of a row: marks of versions, then its bars.
const ROW: i32 = 58;
const BAR: i32 = 30;
const MARKS: i32 = 20;
/// Below the plane: ticks, the axis' title.
const AXIS: i32 = 54;
/// How much of a stage's colour shows where it ran slower than alone.
const PALE: f64 = 0.3;
/// Size of versions' labels.
const SMALL: u32 = 13;

/// The first stages of a run, or of a part of it, on the lanes of a SoC.
///
/// A bar is a stage, in its stream's colour (past the last colour with dark lines along its foot), hatched by what it is for. Its full colour is as long as the
/// stage takes alone, the pale rest is what co-running adds. A triangle marks the publication of a
/// version; queries are labelled with the version that they read.
#[derive(Clone, Debug)]
pub struct Timeline<'d> {
    detail: &'d Detail,
    run: &'d Run,
    title: &'d str,
    /// Rows of the stages drawn, in the order in which they started.
    rows: Vec<usize>,
    /// How many there are to draw.
    of: u64,
    /// Whether a part of the run was asked for.
    part: bool,
    /// Ends of the axis, ns.
    from: u64,
    to: u64,
}

impl<'d> Timeline<'d> {
    /// Of a run of `detail`, or of what it did between two instants, ns.
    pub fn new(
        detail: &'d Detail,
        run: &'d Run,
        title: &'d str,
        window: Option<(u64, u64)>,
    ) -> Self {
        let slices = &run.slices;
        let (from, until) = window.unwrap_or((0, u64::MAX));
        let inside = |&row: &usize| {
            slices.start[row] < until && slices.start[row] + slices.length[row] > from
        };
        let mut rows: Vec<usize> = (0..slices.len()).filter(inside).collect();
        rows.sort_by_key(|&row| slices.start[row]);
        let of = match window {
            None => slices.total,
            Some(_) => rows.len() as u64,
        };
        // All that started before the axis ends is drawn.
        let to = match rows.get(SLICES_MAX) {
            Some(&next) => slices.start[next],
            None => until.min(run.end_ns),
        };
        rows.truncate(SLICES_MAX);
        Self {
            detail,
            run,
            title,
            rows,
            of,
            part: window.is_some(),
            from,
            to: to.max(from + 1),
        }
    }

    /// Stages drawn.
    pub fn drawn(&self) -> usize {
        self.rows.len()
    }

    fn x(&self, ns: u64) -> i32 {
        let plane = f64::from(WIDTH.cast_signed() - LEFT - RIGHT);
        let since = ns.clamp(self.from, self.to) - self.from;
        LEFT + (since as f64 / (self.to - self.from) as f64 * plane).round() as i32
    }

    fn row(&self, lane: usize) -> i32 {
        let note = if self.note().is_some() { NOTE } else { 0 };
        TOP + note + ROW * draw::px(lane)
    }

    fn bottom(&self) -> i32 {
        self.row(self.detail.lanes.len())
    }

    /// Streams that have a stage, in order.
    fn streams(&self) -> Vec<usize> {
        let slices = &self.run.slices;
        let rows = self.rows.iter();
        let mut list: Vec<usize> = rows.map(|&row| slices.stream[row].into()).collect();
        list.sort_unstable();
        list.dedup();
        list
    }

    /// What the legend says: streams, classes, slowdown and publication.
    fn legend(&self) -> Vec<String> {
        let streams = self.streams();
        let mut names: Vec<String> = streams
            .iter()
            .map(|&stream| draw::fit(&self.detail.streams[stream], LABEL, 200))
            .collect();
        names.extend(Class::ALL.map(|class| class.name().to_owned()));
        names.push("pale: slower than alone".into());
        names.push("version published".into());
        if let Some(&last) = streams.last()
            && last >= draw::COLOURS.len() * LAPS
        {
            let told = draw::COLOURS.len() * LAPS;
            names.push(format!(
                "colours and lines start again after {told} streams"
            ));
        }
        names
    }

    /// What part of the run it is, where it is a part.
    fn note(&self) -> Option<String> {
        let (drawn, total) = (self.rows.len(), self.run.slices.total);
        let secs = |ns: u64| quantity(ns as f64 / 1e9, "s");
        let whole = drawn as u64 == self.of;
        if whole && !self.part {
            return None;
        }
        let mut text = format!(
            "from {} to {} of {}: {drawn} of {total} stages",
            secs(self.from),
            secs(self.to),
            secs(self.run.end_ns)
        );
        if !whole {
            _ = write!(text, "; more than {SLICES_MAX} could not be read");
        }
        if !self.part {
            text += " (`run --window START..END` draws others)";
        }
        Some(text)
    }

    fn axis<DB: DrawingBackend>(&self, root: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let bottom = self.bottom();
        let right = WIDTH.cast_signed() - RIGHT;
        for (lane, name) in self.detail.lanes.iter().enumerate() {
            let top = self.row(lane);
            let engine = &self.detail.engines[self.detail.lane_engines[lane]];
            let middle = top + MARKS + BAR / 2;
            let most = (LEFT - 16).cast_unsigned();
            let name = draw::fit(name, LABEL, most);
            if name == *engine {
                draw::text(root, &name, (LEFT - 10, middle), LABEL, BLACK, Stand::Right)?;
            } else {
                let engine = draw::fit(&format!("on {engine}"), SMALL, most);
                let grey = RGBColor(90, 90, 90);
                draw::text(
                    root,
                    &name,
                    (LEFT - 10, middle - 9),
                    LABEL,
                    BLACK,
                    Stand::Right,
                )?;
                draw::text(
                    root,
                    &engine,
                    (LEFT - 10, middle + 9),
                    SMALL,
                    grey,
                    Stand::Right,
                )?;
            }
            let line = top + MARKS + BAR;
            let style = RGBColor(210, 210, 210);
            root.draw(&PathElement::new([(LEFT, line), (right, line)], style))?;
        }
        root.draw(&PathElement::new([(LEFT, bottom), (right, bottom)], BLACK))?;
        let middle = i32::midpoint(LEFT, right);
        if self.rows.is_empty() && self.run.end_ns == 0 {
            // An axis without anything has no scale.
            let at = (middle, bottom + 15);
            return draw::text(root, "nothing ran", at, LABEL, BLACK, Stand::Middle);
        }
        let (from, to) = (self.from as f64 / 1e9, self.to as f64 / 1e9);
        for at in draw::ticks_between(from, to, 10) {
            let x = self.x((at * 1e9) as u64);
            root.draw(&PathElement::new([(x, bottom), (x, bottom + 5)], BLACK))?;
            let label = draw::tick_label(at);
            draw::text(root, &label, (x, bottom + 15), LABEL, BLACK, Stand::Middle)?;
        }
        draw::text(
            root,
            "time, s",
            (middle, bottom + 36),
            LABEL,
            BLACK,
            Stand::Middle,
        )
    }

    fn bar<DB: DrawingBackend>(&self, root: &DrawingArea<DB, Shift>, row: usize) -> Drawn<DB> {
        let slices = &self.run.slices;
        let top = self.row(slices.lane[row].into()) + MARKS;
        let (from, to) = (slices.start[row], slices.start[row] + slices.length[row]);
        let left = self.x(from);
        let right = self.x(to).max(left + 1);
        let colour = draw::colour(slices.stream[row].into());
        let whole = [(left, top), (right, top + BAR)];
        root.draw(&Rectangle::new(whole, colour.mix(PALE).filled()))?;
        let alone = slices.alone[row].unwrap_or(slices.length[row]);
        let full = self.x(from + alone.min(slices.length[row])).min(right);
        if full > left {
            let done = [(left, top), (full, top + BAR)];
            root.draw(&Rectangle::new(done, colour.filled()))?;
        }
        hatch(root, whole, self.detail.class(slices, row))?;
        laps(root, whole, slices.stream[row].into())?;
        if right - left > 4 {
            root.draw(&Rectangle::new(whole, WHITE.stroke_width(1)))?;
        }
        if self.labelled_inside(row) {
            let ink = if 2 * (full - left) > right - left {
                draw::ink(colour)
            } else {
                BLACK
            };
            let label = format!("v{}", slices.version[row]);
            let at = (i32::midpoint(left, right), top + BAR / 2);
            draw::text(root, &label, at, SMALL, ink, Stand::Middle)?;
        }
        Ok(())
    }

    /// Whether a slice is of a query, and wide enough for its label.
    fn labelled_inside(&self, row: usize) -> bool {
        let slices = &self.run.slices;
        let (from, to) = (slices.start[row], slices.start[row] + slices.length[row]);
        let label = format!("v{}", slices.version[row]);
        self.detail.class(slices, row) == Class::Query
            && draw::width(&label, SMALL).cast_signed() + 6 <= self.x(to) - self.x(from)
    }

    /// Triangles of versions, and labels above queries that are too narrow for them. A label that would
    /// touch the one before it is left out.
    fn marks<DB: DrawingBackend>(&self, root: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let (slices, versions) = (&self.run.slices, &self.run.versions);
        for lane in 0..self.detail.lanes.len() {
            let on = |id: &u8| usize::from(*id) == lane;
            let published = (0..versions.at.len())
                .filter(|&row| versions.lane[row].as_ref().is_some_and(on))
                .filter(|&row| (self.from..=self.to).contains(&versions.at[row]))
                .map(|row| {
                    (
                        self.x(versions.at[row]),
                        versions.version[row],
                        Some(versions.stream[row]),
                    )
                });
            // A query's stages follow each other on a lane; its first one carries the label for all.
            let rows = self.rows.iter().copied();
            let of_lane: Vec<usize> = rows.filter(|&row| on(&slices.lane[row])).collect();
            let same = |a: usize, b: usize| {
                (slices.stream[a], slices.query[a]) == (slices.stream[b], slices.query[b])
            };
            let queries = of_lane.chunk_by(|&a, &b| same(a, b)).filter_map(|rows| {
                let (&first, &last) = (rows.first()?, rows.last()?);
                let inside = rows.iter().any(|&row| self.labelled_inside(row));
                let end = slices.start[last] + slices.length[last];
                let middle = i32::midpoint(self.x(slices.start[first]), self.x(end));
                (slices.query[first].is_some() && !inside)
                    .then(|| (middle, slices.version[last], None))
            });
            let mut marks: Vec<(i32, u32, Option<u16>)> = published.chain(queries).collect();
            marks.sort_by_key(|mark| (mark.0, mark.2));
            let y = self.row(lane) + MARKS - 1;
            let mut free = LEFT;
            for (at, (x, version, stream)) in marks.iter().enumerate() {
                let label = format!("v{version}");
                let needs = draw::width(&label, SMALL).cast_signed();
                let next = marks[at + 1..].iter().find(|mark| mark.2.is_some());
                let wall = next.map_or(i32::MAX, |mark| mark.0 - 5);
                let (from, to) = match stream {
                    Some(_) => (x - 8 - needs, x + 5),
                    None => (x - needs / 2, x + needs / 2),
                };
                if from > free && (stream.is_some() || to < wall) {
                    let left = (from, y - 7);
                    draw::text(root, &label, left, SMALL, BLACK, Stand::Left)?;
                    free = to + 3;
                }
                if let Some(stream) = stream {
                    let colour = draw::colour((*stream).into());
                    let corners = vec![(x - 5, y - 8), (x + 5, y - 8), (*x, y)];
                    root.draw(&Polygon::new(corners, colour.filled()))?;
                    for lap in 0..lap((*stream).into()) {
                        let y = y - 10 - 3 * lap;
                        root.draw(&PathElement::new([(x - 5, y), (x + 5, y)], BLACK))?;
                    }
                    free = free.max(x + 8);
                }
            }
        }
        Ok(())
    }
}

impl Plot for Timeline<'_> {
    fn size(&self) -> (u32, u32) {
        let below = draw::legend_height(&self.legend(), WIDTH - 40);
        (WIDTH, (self.bottom() + AXIS).cast_unsigned() + below + 8)
    }

    fn describe(&self) -> String {
        let by = |class: Class| {
            let rows = self.rows.iter();
            rows.filter(|&&row| self.detail.class(&self.run.slices, row) == class)
                .count()
        };
        format!(
            "Timeline of {}: {} stages on {} lanes, {}: {} of ingest, {} of queries, {} of transfers.",
            self.run.policy,
            self.rows.len(),
            self.detail.lanes.len(),
            self.note()
                .unwrap_or_else(|| format!("the whole {}", quantity(self.to as f64 / 1e9, "s"))),
            by(Class::Ingest),
            by(Class::Query),
            by(Class::Transfer),
        )
    }

    fn draw<DB: DrawingBackend>(&self, root: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let caption = format!("{}: {}", self.title, self.run.policy);
        let caption = draw::fit(&caption, TITLE, WIDTH - 40);
        draw::text(root, &caption, (20, 20), TITLE, BLACK, Stand::Left)?;
        if let Some(note) = self.note() {
            draw::text(root, &note, (20, 44), LABEL, BLACK, Stand::Left)?;
        }
        self.axis(root)?;
        for &row in &self.rows {
            self.bar(root, row)?;
        }
        self.marks(root)?;
        let names = self.legend();
        let streams = self.streams();
        let named = streams.len();
        let at = (20, self.bottom() + AXIS);
        draw::legend(root, &names, at, WIDTH - 40, |index, area| {
            let grey = RGBColor(120, 120, 120);
            if index < named {
                let colour = draw::colour(streams[index]);
                root.draw(&Rectangle::new(area, colour.filled()))?;
                laps(root, area, streams[index])
            } else if let Some(&class) = Class::ALL.get(index - named) {
                root.draw(&Rectangle::new(area, grey.filled()))?;
                hatch(root, area, class)
            } else if index - named == Class::ALL.len() {
                let [(left, top), (right, bottom)] = area;
                let middle = i32::midpoint(left, right);
                root.draw(&Rectangle::new(area, grey.mix(PALE).filled()))?;
                root.draw(&Rectangle::new(
                    [(left, top), (middle, bottom)],
                    grey.filled(),
                ))
            } else if index - named == Class::ALL.len() + 1 {
                let [(left, top), (right, bottom)] = area;
                let (x, y) = (i32::midpoint(left, right), i32::midpoint(top, bottom) + 4);
                let corners = vec![(x - 5, y - 8), (x + 5, y - 8), (x, y)];
                root.draw(&Polygon::new(corners, grey.filled()))
            } else {
                Ok(())
            }
        })
    }
}

/// How often the colours have started again before a stream's: 0 to 3, and then again.
fn lap(stream: usize) -> i32 {
    draw::px(stream / draw::COLOURS.len() % LAPS)
}

/// Dark lines along the foot of a bar, as many as [`lap`] says: they tell apart streams of one colour.
fn laps<DB: DrawingBackend>(
    root: &DrawingArea<DB, Shift>,
    [(left, _), (right, bottom)]: [(i32, i32); 2],
    stream: usize,
) -> Drawn<DB> {
    for lap in 0..lap(stream) {
        let foot = bottom - 1 - 4 * lap;
        let line = [(left, foot - 2), (right, foot)];
        root.draw(&Rectangle::new(line, RGBColor(1, 1, 1).filled()))?;
    }
    Ok(())
}

/// Lines over a bar: none for queries, rising for ingest, crossed for transfers.
fn hatch<DB: DrawingBackend>(
    root: &DrawingArea<DB, Shift>,
    [(left, top), (right, bottom)]: [(i32, i32); 2],
    class: Class,
) -> Drawn<DB> {
    if class == Class::Query || right - left < 3 {
        return Ok(());
    }
    let height = bottom - top;
    let style = WHITE.mix(0.75).stroke_width(1);
    let mut start = left - height + 4;
    while start < right {
        // The line from (start, bottom) to (start + height, top), clipped to the bar.
        let (from, to) = (start.max(left), (start + height).min(right));
        if from < to {
            let y = |x: i32| bottom - (x - start);
            root.draw(&PathElement::new([(from, y(from)), (to, y(to))], style))?;
            if class == Class::Transfer {
                let y = |x: i32| top + (x - start);
                root.draw(&PathElement::new([(from, y(from)), (to, y(to))], style))?;
            }
        }
        start += 8;
    }
    Ok(())
}
