//! Configurations in a plane of two numbers, with those marked that no other beats in both: the Pareto front.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::draw::{self, LABEL, Stand, TITLE};
use super::{Drawn, Plot};
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

    /// The front as a table in Markdown; of more than a thousand members, the first of them.
    pub fn table(&self) -> String {
        let plain = |text: &str| text.replace(['|', '\n', '`'], " ");
        let (x, y) = (plain(&self.goals.0.title), plain(&self.goals.1.title));
        let mut text = format!("| configuration | {x} | {y} |\n| --- | ---: | ---: |\n");
        let members = self.members();
        for one in members.iter().take(LISTED) {
            let (x, y) = (short(one.at.0), short(one.at.1));
            _ = writeln!(text, "| `{}` | {x} | {y} |", plain(&one.name));
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

impl Plot for Front {
    fn size(&self) -> (u32, u32) {
        (WIDTH, HEIGHT)
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
        for (index, one) in members.iter().take(NAMED).enumerate() {
            let before = if index == 0 { ": " } else { "; " };
            _ = write!(
                text,
                "{before}{} {} and {}",
                one.name,
                short(one.at.0),
                short(one.at.1)
            );
        }
        if members.len() > NAMED {
            _ = write!(text, "; and {} more", members.len() - NAMED);
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
        let (left, right) = self.range(|one| one.at.0);
        let (low, high) = self.range(|one| one.at.1);
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
        // Below it stands how many have a name.
        let top = if caption.is_some() { 84 } else { 62 };
        let mut chart = draw::plane(root, top).build_cartesian_2d(left..right, low..high)?;
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
            chart.draw_series(beaten.map(|at| Circle::new(at, 4, BLACK.mix(0.55))))?;
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
            let at = (20, top.cast_signed() - 18);
            draw::text(root, &note, at, LABEL, BLACK, Stand::Left)?;
        }
        Ok(())
    }
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
        let shade = BLACK.mix(0.15 + 0.55 * f64::from(count).ln() / scale);
        let area = [(x, y), (x + SQUARE - 1, y + SQUARE - 1)];
        root.draw(&Rectangle::new(area, shade.filled()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Better::{Higher, Lower};
    use super::*;
    use crate::plot::svg;

    fn front(better: (Better, Better), points: &[(f64, f64)]) -> Front {
        let goal = |title: &str, better| Goal {
            title: title.into(),
            better,
        };
        let choices = points.iter().enumerate();
        Front {
            title: "cells".into(),
            goals: (goal("TTFT, s", better.0), goal("J/answer", better.1)),
            choices: choices
                .map(|(index, &at)| Choice {
                    name: format!("cell {index}"),
                    at,
                })
                .collect(),
            left_out: 0,
        }
    }

    /// Whether one is at least as good in both and better in one.
    fn beats(front: &Front, a: &Choice, b: &Choice) -> bool {
        let (x, y) = &front.goals;
        x.reaches(a.at.0, b.at.0) && y.reaches(a.at.1, b.at.1) && a.at != b.at
    }

    #[test]
    fn members_are_those_that_none_beats() {
        let points = [
            (1.0, 9.0),
            (2.0, 5.0),
            (3.0, 6.0),
            (4.0, 1.0),
            (4.0, 2.0),
            (2.0, 5.0),
        ];
        let names = |better| {
            let front = front(better, &points);
            let names = front.members().into_iter().map(|one| one.name.clone());
            names.collect::<Vec<_>>()
        };
        // Equals stay together; `cell 4` is as fast as `cell 3`, and dearer.
        assert_eq!(
            names((Lower, Lower)),
            ["cell 0", "cell 1", "cell 5", "cell 3"]
        );
        assert_eq!(names((Higher, Higher)), ["cell 0", "cell 2", "cell 4"]);
        assert_eq!(names((Higher, Lower)), ["cell 3"]);
    }

    #[test]
    fn every_choice_is_drawn_and_the_members_are_marked() {
        assert!(svg(&front((Lower, Lower), &[])).is_ok());
        let points: Vec<(f64, f64)> = (0..30)
            .map(|i| (f64::from(i), f64::from(i * 7 % 30)))
            .collect();
        let front = front((Lower, Lower), &points);
        let picture = svg(&front).expect("it can be drawn");
        let circles = |radius: &str| picture.matches(&format!(" r=\"{radius}\"")).count();
        assert_eq!(circles("6"), front.members().len());
        assert_eq!(circles("6") + circles("4"), 30);
        assert!(
            front
                .describe()
                .contains("1 of 30 configurations are not beaten")
        );
    }

    /// A hundred thousand: scattered, all of them on the front, or all alike.
    #[test]
    fn many_are_drawn_as_a_density() {
        let count = 100_000;
        let scattered = |i: u32| {
            let random = f64::from(i.wrapping_mul(2_654_435_761) % 99_991) / 99_991.0;
            (f64::from(i % 997) / 997.0, random)
        };
        let line = |i: u32| (f64::from(i), f64::from(count - i));
        let alike = |_: u32| (1.0, 2.0);
        for points in [
            (0..count).map(scattered).collect::<Vec<_>>(),
            (0..count).map(line).collect(),
            (0..count).map(alike).collect(),
        ] {
            let front = front((Lower, Lower), &points);
            let picture = svg(&front).expect("it can be drawn");
            assert!(picture.len() < 1_000_000, "{} bytes", picture.len());
            assert!(picture.contains("100000 configurations: squares"));
            assert!(front.describe().contains("100000 configurations: squares"));
            let marks = picture.matches(" r=\"6\"").count();
            assert!(marks >= 1 && marks <= front.members().len(), "{marks}");
            assert_eq!(picture.matches(" r=\"4\"").count(), 0);
            assert!(front.table().len() < 100_000);
        }
        // The more lie in a square, the darker it is.
        let mut points: Vec<_> = (0..3000).map(|i| (1.0 + f64::from(i % 2), 5.0)).collect();
        points.extend([(0.0, 0.0), (9.0, 9.0)]);
        points.retain(|at| *at != (2.0, 5.0) || at.0 < 2.0);
        points.extend([(2.0, 5.0); 600]);
        let picture = svg(&front((Lower, Lower), &points)).expect("it can be drawn");
        let squares = picture
            .split("<rect")
            .filter(|rect| rect.contains("width=\"7\"") && rect.contains("height=\"7\""));
        let mut shades: Vec<f64> = squares
            .filter_map(|rect| {
                rect.split("opacity=\"")
                    .nth(1)?
                    .split('"')
                    .next()?
                    .parse()
                    .ok()
            })
            .collect();
        shades.sort_by(f64::total_cmp);
        assert_eq!(shades.len(), 3, "1500, 600 and 1: {shades:?}");
        assert!(shades[0] < shades[1] && shades[1] < shades[2], "{shades:?}");
    }

    #[test]
    fn names_are_escaped() {
        let mut front = front((Lower, Higher), &[(1.0, 2.0), (2.0, 3.0)]);
        front.choices[1].name = "<script>|`x`".into();
        front.title = "<script>".into();
        let picture = svg(&front).expect("it can be drawn");
        assert!(!picture.contains("<script>") && picture.contains("&lt;script&gt;"));
        // In the table a name ends neither its cell nor its row.
        let table = front.table();
        assert_eq!(table.lines().count(), 4, "{table}");
        assert!(
            table.lines().all(|line| line.matches('|').count() == 4),
            "{table}"
        );
    }

    proptest! {
        /// The members are those that nobody beats.
        #[test]
        fn the_front_beats_the_rest(
            points in prop::collection::vec((0_u8..20, 0_u8..20), 1..40),
            higher in (any::<bool>(), any::<bool>()),
        ) {
            let side = |higher| if higher { Higher } else { Lower };
            let points: Vec<_> = points.iter().map(|&(x, y)| (f64::from(x), f64::from(y))).collect();
            let front = front((side(higher.0), side(higher.1)), &points);
            let members = front.members();
            prop_assert!(!members.is_empty());
            for one in &front.choices {
                let beaten = front.choices.iter().any(|other| beats(&front, other, one));
                prop_assert_eq!(beaten, !members.contains(&one));
            }
            // Along the front, what is gained in one number is lost in the other.
            for pair in members.windows(2) {
                let (x, y) = &front.goals;
                let (a, b) = (pair[0].at, pair[1].at);
                prop_assert!(a == b || x.reaches(a.0, b.0) != y.reaches(a.1, b.1));
            }
        }
    }
}
