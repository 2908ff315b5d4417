//! The Pareto front by its members, its picture and its words.

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
    // And one of each in the legend.
    assert_eq!(circles("6"), front.members().len() + 1);
    assert_eq!(circles("6") + circles("4"), 30 + 2);
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
        let marks = picture.matches(" r=\"6\"").count() - 1;
        assert!(marks >= 1 && marks <= front.members().len(), "{marks}");
        assert_eq!(front.marks().expect("they can be placed"), []);
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
    // The legend has a square of its own.
    shades.retain(|shade| *shade != BEATEN.3);
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
    let bars = |line: &str| line.replace("\\|", "").matches('|').count();
    assert!(table.lines().all(|line| bars(line) == 4), "{table}");
    let page = crate::html::document("T", &format!("# T\n\n{table}"), &[front]);
    let page = page.expect("it can be drawn");
    assert!(
        page.contains("<td><code>&lt;script&gt;|`x`</code></td>"),
        "{page}"
    );
    assert!(!page.contains("<script"), "{page}");
}

/// Every point says what it is, where it is drawn: on the front, or beaten and by which.
#[test]
fn every_point_has_its_words() {
    let points = [(1.0, 9.0), (2.0, 5.0), (3.0, 6.0), (4.0, 1.0)];
    let front = front((Lower, Lower), &points);
    let marks = front.marks().expect("they can be placed");
    let said: Vec<(&str, &str)> = marks
        .iter()
        .map(|mark| (mark.name.as_str(), mark.rank.as_str()))
        .collect();
    assert_eq!(
        said,
        [
            ("cell 0", "no other beats it in both"),
            ("cell 1", "no other beats it in both"),
            ("cell 3", "no other beats it in both"),
            ("cell 2", "beaten by cell 1"),
        ]
    );
    let numbers = marks[3]
        .numbers
        .clone()
        .map(|(title, x)| format!("{title} {x}"));
    assert_eq!(numbers, ["TTFT, s 3.00", "J/answer 6.00"]);
    let picture = svg(&front).expect("it can be drawn");
    for mark in &marks {
        let (x, y) = mark.at;
        let drawn = format!("cx=\"{x}\" cy=\"{y}\"");
        assert!(picture.contains(&drawn), "{drawn}\n{picture}");
    }
    assert!(picture.contains("cell 2 (beaten)"));
    let words = front.describe();
    assert!(
        words.contains("; cell 3 4.00 and 1.00. Beaten: cell 2 3.00 and 6.00."),
        "{words}"
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
