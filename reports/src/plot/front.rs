//! Configurations in a plane of two numbers, with those marked that no other beats in both: the Pareto front.

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use super::draw::{self, LABEL, Stand, TITLE};
use super::{DrawError, Drawn, Mark, Plot, failed};
use crate::metric::{Better, Metric};
use crate::number::short;

const WIDTH: u32 = 620;
const HEIGHT: u32 = 420;
/// Widest name beside a point, pixels.
const NAME: u32 = 190;
/// Most members of the front that the text names.
const NAMED: usize = 12;
/// Most members in the table.
const LISTED: usize = 1000;
/// Most configurations that are drawn one by one.
const SINGLE: usize = 2000;
/// Most configurations of which the beaten ones have names too.
const FEW: usize = 30;
/// How black the least of the marks is: three times as light or dark as what is behind it.
const FAINT: f64 = 0.5;
/// Of circles around what is beaten.
const BEATEN: RGBAColor = RGBAColor(0, 0, 0, 0.6);
/// What the two marks mean.
const LEGEND: [&str; 2] = [
    "not beaten",
    "beaten: another is as good in both, and better in one",
];
/// Side of a square that stands for the configurations within, pixels.
const SQUARE: i32 = 8;

/// A number of every configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Goal {
    /// Its name, with its unit.
    pub title: String,
    /// Which way is better.
    pub better: Better,
}

impl From<&Metric> for Goal {
    fn from(metric: &Metric) -> Self {
        Self {
            title: metric.title.to_owned(),
            better: metric.better,
        }
    }
}

impl Goal {
    /// The better of two first; numbers are finite.
    fn order(&self, a: f64, b: f64) -> Ordering {
        let order = a.partial_cmp(&b).unwrap_or(Ordering::Equal);
        match self.better {
            Better::Higher => order.reverse(),
            Better::Lower => order,
        }
    }

    /// Whether `a` is at least as good as `b`.
    fn reaches(&self, a: f64, b: f64) -> bool {
        match self.better {
            Better::Higher => a >= b,
            Better::Lower => a <= b,
        }
    }
}

/// A configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Its name.
    pub name: String,
    /// Its two numbers; both finite.
    pub at: (f64, f64),
}

/// Configurations by two numbers.
#[derive(Clone, Debug)]
pub struct Front {
    /// Title.
    pub title: String,
    /// The number along x, then along y.
    pub goals: (Goal, Goal),
    /// The configurations.
    pub choices: Vec<Choice>,
    /// Configurations that lack one of the numbers.
    pub left_out: usize,
}

impl Front {
    /// Whether no other is at least as good in both numbers and better in one, by [`Self::choices`].
    fn unbeaten(&self) -> Vec<bool> {
        let (x, y) = &self.goals;
        let mut order: Vec<usize> = (0..self.choices.len()).collect();
        order.sort_by(|&a, &b| {
            let (a, b) = (self.choices[a].at, self.choices[b].at);
            x.order(a.0, b.0).then(y.order(a.1, b.1))
        });
        let mut unbeaten = vec![false; order.len()];
        // Nobody later in this order beats anybody earlier: who is not better in y than the last member is beaten
        // by it, or its equal.
        let mut last: Option<(f64, f64)> = None;
        for index in order {
            let at = self.choices[index].at;
            unbeaten[index] = last.is_none_or(|last| at == last || !y.reaches(last.1, at.1));
            if unbeaten[index] {
                last = Some(at);
            }
        }
        unbeaten
    }

    /// Those that no other beats, x rising.
    pub fn members(&self) -> Vec<&Choice> {
        let all = self.choices.iter().zip(self.unbeaten());
        let mut list: Vec<&Choice> = all
            .filter_map(|(one, unbeaten)| unbeaten.then_some(one))
            .collect();
        list.sort_by(|a, b| a.at.0.total_cmp(&b.at.0));
        list
    }

    /// Those that another beats, by [`Self::choices`].
    fn beaten(&self) -> Vec<&Choice> {
        let all = self.choices.iter().zip(self.unbeaten());
        all.filter_map(|(one, unbeaten)| (!unbeaten).then_some(one))
            .collect()
    }

    /// The configuration of the front that beats `one`, which is not on it.
    fn beater<'c>(&self, one: &Choice, members: &[&'c Choice]) -> Option<&'c Choice> {
        let (x, y) = &self.goals;
        let better = |other: &&&Choice| {
            x.reaches(other.at.0, one.at.0) && y.reaches(other.at.1, one.at.1) && other.at != one.at
        };
        members.iter().find(better).copied()
    }

    /// The front as a table in Markdown; of more than a thousand members, the first of them.
    pub fn table(&self) -> String {
        // In a cell, a `|` stands for itself behind a `\`.
        let plain = |text: &str| text.replace('\n', " ").replace('|', "\\|");
        // Code ends at as many backquotes as it begins with.
        let code = |name: &str| {
            let quotes = name.split(|c| c != '`').map(str::len).max().unwrap_or(0);
            let (fence, gap) = ("`".repeat(quotes + 1), if quotes > 0 { " " } else { "" });
            format!("{fence}{gap}{}{gap}{fence}", plain(name))
        };
        let (x, y) = (plain(&self.goals.0.title), plain(&self.goals.1.title));
        let mut text = format!("| configuration | {x} | {y} |\n| --- | ---: | ---: |\n");
        let members = self.members();
        for one in members.iter().take(LISTED) {
            let (x, y) = (short(one.at.0), short(one.at.1));
            _ = writeln!(text, "| {} | {x} | {y} |", code(&one.name));
        }
        if members.len() > LISTED {
            _ = writeln!(text, "\nand {} more.", members.len() - LISTED);
        }
        text
    }

    /// Range of an axis: the values with a little room on both sides.
    fn range(&self, get: impl Fn(&Choice) -> f64) -> (f64, f64) {
        let values = || self.choices.iter().map(&get);
        let low = values().fold(f64::INFINITY, f64::min);
        let high = values().fold(f64::NEG_INFINITY, f64::max);
        if low > high {
            return (0.0, 1.0);
        }
        let room = if high > low {
            0.08 * (high - low)
        } else {
            (0.5 * low.abs()).max(0.5)
        };
        // No number here is negative.
        ((low - room).max(0.0), high + room)
    }

    /// Rows of pixels above the plane.
    fn top(&self) -> u32 {
        // Below it stands how many have a name.
        if self.caption().is_some() { 84 } else { 62 }
    }

    /// The coordinates of the plane, above the legend.
    fn chart<'a, DB: DrawingBackend + 'a>(
        &self,
        plane: &'a DrawingArea<DB, Shift>,
    ) -> Result<Chart<'a, DB>, DrawingAreaErrorKind<DB::ErrorType>> {
        let (left, right) = self.range(|one| one.at.0);
        let (low, high) = self.range(|one| one.at.1);
        draw::plane(plane, self.top()).build_cartesian_2d(left..right, low..high)
    }

    /// Paints what the marks mean.
    fn legend<DB: DrawingBackend>(&self, root: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let names = LEGEND.map(str::to_owned);
        let at = (20, HEIGHT.cast_signed());
        let dense = self.caption().is_some();
        draw::legend(root, &names, at, WIDTH - 40, |index, [from, to]| {
            let (x, y) = (i32::midpoint(from.0, to.0), i32::midpoint(from.1, to.1));
            if index == 0 {
                root.draw(&Circle::new((x, y), 6, draw::colour(0).filled()))
            } else if dense {
                let area = [(x - 4, y - 4), (x + 3, y + 3)];
                root.draw(&Rectangle::new(area, BEATEN.filled()))
            } else {
                root.draw(&Circle::new((x, y), 4, BEATEN))
            }
        })
    }

    /// The stairs between the members: what they reach.
    fn stairs(&self, members: &[&Choice]) -> Vec<(f64, f64)> {
        let mut line: Vec<(f64, f64)> = Vec::new();
        for one in members {
            if let Some(&(x, y)) = line.last() {
                // The corner that is no better than either.
                let corner = match self.goals.0.better {
                    Better::Lower => (one.at.0, y),
                    Better::Higher => (x, one.at.1),
                };
                line.push(corner);
            }
            line.push(one.at);
        }
        line
    }

    /// How those are drawn that are beaten, where they are too many for a circle each.
    fn caption(&self) -> Option<String> {
        (self.choices.len() > SINGLE).then(|| {
            format!(
                "{} configurations: squares are the darker the more lie there",
                self.choices.len()
            )
        })
    }
}

type Chart<'a, DB> = ChartContext<'a, DB, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Names with their numbers: the first of many.
fn listing(list: &[&Choice]) -> String {
    let mut text = String::new();
    for (index, one) in list.iter().take(NAMED).enumerate() {
        let before = if index == 0 { ": " } else { "; " };
        let (x, y) = (short(one.at.0), short(one.at.1));
        _ = write!(text, "{before}{} {x} and {y}", one.name);
    }
    if list.len() > NAMED {
        _ = write!(text, "; and {} more", list.len() - NAMED);
    }
    text
}

impl Plot for Front {
    fn size(&self) -> (u32, u32) {
        let names = LEGEND.map(str::to_owned);
        (WIDTH, HEIGHT + draw::legend_height(&names, WIDTH - 40))
    }

    /// A mark for each configuration that is drawn by itself, the front first.
    fn marks(&self) -> Result<Vec<Mark>, DrawError> {
        if self.caption().is_some() {
            return Ok(Vec::new());
        }
        let mut text = String::new();
        let root = SVGBackend::with_string(&mut text, self.size()).into_drawing_area();
        let (plane, _) = root.split_vertically(HEIGHT);
        let chart = self.chart(&plane).map_err(failed)?;
        let members = self.members();
        let mark = |one: &Choice, rank: String| {
            let (x, y) = (&self.goals.0.title, &self.goals.1.title);
            Mark {
                at: chart.backend_coord(&one.at),
                name: one.name.clone(),
                numbers: [(x, one.at.0), (y, one.at.1)].map(|(title, x)| (title.clone(), short(x))),
                rank,
            }
        };
        let front = members
            .iter()
            .map(|one| mark(one, "no other beats it in both".into()));
        let beaten = self.beaten();
        let beaten = beaten.iter().map(|one| {
            let by = self.beater(one, &members);
            let by = by.map_or_else(String::new, |by| format!(" by {}", by.name));
            mark(one, format!("beaten{by}"))
        });
        Ok(front.chain(beaten).collect())
    }

    fn describe(&self) -> String {
        let members = self.members();
        let (x, y) = (&self.goals.0.title, &self.goals.1.title);
        let mut text = format!(
            "{}: {} of {} configurations are not beaten in both {x} and {y}",
            self.title,
            members.len(),
            self.choices.len()
        );
        text += &listing(&members);
        let beaten = self.beaten();
        if !beaten.is_empty() {
            _ = write!(text, ". Beaten{}", listing(&beaten));
        }
        if self.left_out > 0 {
            _ = write!(
                text,
                "; {} without one of the numbers are not drawn",
                self.left_out
            );
        }
        if let Some(caption) = self.caption() {
            _ = write!(text, "; {caption}");
        }
        text + "."
    }

    fn draw<DB: DrawingBackend>(&self, root: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let title = draw::fit(&self.title, TITLE, WIDTH - 40);
        draw::text(root, &title, (20, 20), TITLE, BLACK, Stand::Left)?;
        let better = |goal: &Goal| match goal.better {
            Better::Higher => format!("{} (more is better)", goal.title),
            Better::Lower => format!("{} (less is better)", goal.title),
        };
        let caption = self.caption();
        if let Some(caption) = &caption {
            draw::text(root, caption, (20, 44), LABEL, BLACK, Stand::Left)?;
        }
        let (above, _) = root.split_vertically(HEIGHT);
        let mut chart = self.chart(&above)?;
        let titles = (better(&self.goals.0), better(&self.goals.1));
        draw::axes(&mut chart, (&titles.0, &titles.1), (7, 6))?;
        let members = self.members();
        let stairs = self.stairs(&members);
        let mut line: Vec<(i32, i32)> = stairs.iter().map(|at| chart.backend_coord(at)).collect();
        line.dedup();
        root.draw(&PathElement::new(line, draw::colour(0).stroke_width(2)))?;
        let beaten = self.choices.iter().zip(self.unbeaten());
        let beaten = beaten.filter_map(|(one, unbeaten)| (!unbeaten).then_some(one.at));
        if caption.is_some() {
            density(root, beaten.map(|at| chart.backend_coord(&at)))?;
        } else {
            // Hollow, so that shape alone tells it.
            chart.draw_series(beaten.map(|at| Circle::new(at, 4, BEATEN)))?;
        }
        let mut marks: Vec<(i32, i32)> = Vec::new();
        for one in &members {
            let at = chart.backend_coord(&one.at);
            // Where many lie in one place, one mark shows them.
            if caption.is_none() || marks.last() != Some(&at) {
                marks.push(at);
            }
        }
        for at in &marks {
            root.draw(&Circle::new(*at, 6, draw::colour(0).filled()))?;
        }
        let (across, down) = chart.plotting_area().get_pixel_range();
        let plane = [across.start, down.start, across.end, down.end];
        let mut taken: Vec<Place> = marks
            .iter()
            .map(|&(x, y)| [x - 7, y - 7, x + 7, y + 7])
            .collect();
        let mut named = 0;
        for one in &members {
            let name = draw::fit(&one.name, LABEL, NAME);
            let at = chart.backend_coord(&one.at);
            let Some(place) = room(at, draw::width(&name, LABEL).cast_signed(), plane, &taken)
            else {
                continue;
            };
            let start = (place[0], i32::midpoint(place[1], place[3]));
            draw::text(root, &name, start, LABEL, BLACK, Stand::Left)?;
            taken.push(place);
            named += 1;
        }
        if named < members.len() {
            let note = format!(
                "{named} of the {} on the front have room for their names",
                members.len()
            );
            let at = (20, self.top().cast_signed() - 18);
            draw::text(root, &note, at, LABEL, BLACK, Stand::Left)?;
        }
        if self.choices.len() <= FEW {
            let beaten = self.beaten();
            let beaten = beaten
                .iter()
                .map(|one| (chart.backend_coord(&one.at), one.name.as_str()));
            name_beaten(root, &beaten.collect::<Vec<_>>(), plane, taken)?;
        }
        self.legend(root)
    }
}

/// Writes the names of those that are beaten where there is room.
fn name_beaten<DB: DrawingBackend>(
    root: &DrawingArea<DB, Shift>,
    beaten: &[((i32, i32), &str)],
    plane: Place,
    mut taken: Vec<Place>,
) -> Drawn<DB> {
    taken.extend(
        beaten
            .iter()
            .map(|&((x, y), _)| [x - 5, y - 5, x + 5, y + 5]),
    );
    for &(at, name) in beaten {
        let name = draw::fit(name, LABEL, NAME) + " (beaten)";
        let wide = draw::width(&name, LABEL).cast_signed();
        if let Some(place) = room(at, wide, plane, &taken) {
            let start = (place[0], i32::midpoint(place[1], place[3]));
            draw::text(root, &name, start, LABEL, BLACK, Stand::Left)?;
            taken.push(place);
        }
    }
    Ok(())
}

/// Left, top, right and bottom, pixels.
type Place = [i32; 4];

/// Where a name of this width has room beside its point: within the plane, and over nothing that is there.
fn room((x, y): (i32, i32), width: i32, plane: Place, taken: &[Place]) -> Option<Place> {
    let right = [(x + 10, y - 20), (x + 10, y + 2), (x + 10, y - 9)];
    let left = right.map(|(_, top)| (x - 10 - width, top));
    let places = right.into_iter().chain(left);
    let mut places = places.map(|(left, top)| [left, top, left + width, top + 18]);
    places.find(|place| {
        let inside = place[0] > plane[0]
            && place[1] >= plane[1]
            && place[2] < plane[2]
            && place[3] <= plane[3];
        inside
            && taken.iter().all(|other| {
                place[2] < other[0]
                    || other[2] < place[0]
                    || place[3] < other[1]
                    || other[3] < place[1]
            })
    })
}

/// Paints how many points lie where: a square each, the darker the more (by the logarithm).
fn density<DB: DrawingBackend>(
    root: &DrawingArea<DB, Shift>,
    points: impl Iterator<Item = (i32, i32)>,
) -> Drawn<DB> {
    let mut squares: BTreeMap<(i32, i32), u32> = BTreeMap::new();
    for (x, y) in points {
        *squares.entry((x / SQUARE, y / SQUARE)).or_default() += 1;
    }
    let most = squares.values().max().copied().unwrap_or(1);
    let scale = f64::from(most).ln().max(f64::MIN_POSITIVE);
    for ((x, y), count) in squares {
        let (x, y) = (x * SQUARE, y * SQUARE);
        let shade = BLACK.mix(FAINT + (0.9 - FAINT) * f64::from(count).ln() / scale);
        let area = [(x, y), (x + SQUARE - 1, y + SQUARE - 1)];
        root.draw(&Rectangle::new(area, shade.filled()))?;
    }
    Ok(())
}
