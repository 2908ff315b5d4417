//! Plots by their structure: what is drawn is what there is.

use super::*;
use crate::detail::{Detail, Run};
use crate::interval::Estimate;
use crate::toy;

/// Values of an attribute of every element of a kind.
fn elements<'s>(svg: &'s str, name: &str) -> Vec<&'s str> {
    let open = format!("<{name} ");
    svg.split(&open)
        .skip(1)
        .map(|rest| rest.split('>').next().unwrap_or_default())
        .collect()
}

fn attribute<'s>(element: &'s str, name: &str) -> Option<&'s str> {
    let start = element
        .find(&format!(" {name}=\""))
        .map(|at| at + name.len() + 3);
    let start = start.or_else(|| {
        element
            .starts_with(&format!("{name}=\""))
            .then(|| name.len() + 2)
    })?;
    element[start..].split('"').next()
}

fn number(element: &str, name: &str) -> f64 {
    attribute(element, name)
        .and_then(|text| text.parse().ok())
        .unwrap_or(f64::NAN)
}

/// Boxes of all texts: left, top, right, bottom. Upright texts only.
fn texts(svg: &str) -> Vec<(String, [f64; 4])> {
    let mut list = Vec::new();
    for rest in svg.split("<text ").skip(1) {
        let (head, body) = rest.split_once('>').unwrap_or_default();
        if head.contains("rotate") {
            continue;
        }
        let text = body.split('<').next().unwrap_or_default().trim().to_owned();
        let size = number(head, "font-size") * 1.24;
        let width = f64::from(draw::width(&text, size.round() as u32));
        let (x, y) = (number(head, "x"), number(head, "y"));
        let left = match attribute(head, "text-anchor") {
            Some("middle") => x - width / 2.0,
            Some("end") => x - width,
            _ => x,
        };
        // Letters are about 0.7 of the font's size high, around the middle or above the base line.
        list.push((text, [left, y - 0.35 * size, left + width, y + 0.35 * size]));
    }
    list
}

fn assert_no_overlap(svg: &str) {
    let texts = texts(svg);
    assert!(texts.len() > 4);
    for (i, (a, [l1, t1, r1, b1])) in texts.iter().enumerate() {
        for (b, [l2, t2, r2, b2]) in &texts[i + 1..] {
            let apart = r1 <= l2 || r2 <= l1 || b1 <= t2 || b2 <= t1;
            assert!(apart, "`{a}` overlaps `{b}`");
        }
    }
}

fn bars<'s>(svg: &'s str, opacity: &str) -> Vec<&'s str> {
    let rects = elements(svg, "rect").into_iter();
    rects
        .filter(|rect| {
            number(rect, "height") == 30.0
                && attribute(rect, "opacity") == Some(opacity)
                && attribute(rect, "fill") != Some("none")
        })
        .collect()
}

fn short_run() -> Detail {
    let text = toy::scenario(0.2).replace("horizon_s = 120.0", "horizon_s = 20.0");
    toy::detail(&text, 1000).0
}

#[test]
fn a_timeline_has_a_bar_for_every_stage_and_spans_the_makespan() {
    let detail = short_run();
    let run = &detail.runs[0];
    let timeline = Timeline::new(&detail, run, "toy", None);
    let text = svg(&timeline).expect("it can be drawn");
    let drawn = bars(&text, "0.3");
    assert_eq!(drawn.len(), run.slices.len());
    assert_eq!(run.slices.len() as u64, run.slices.total);
    let right = drawn
        .iter()
        .map(|bar| number(bar, "x") + number(bar, "width"));
    let right = right.fold(0.0, f64::max);
    // The last event is the end of a stage, and the plane ends there.
    assert!((right - (1200.0 - 24.0)).abs() <= 1.0, "{right}");
    let labels = texts(&text);
    let ticks: Vec<f64> = labels
        .iter()
        .filter_map(|(text, _)| text.parse().ok())
        .collect();
    let last = ticks.iter().copied().fold(0.0, f64::max);
    let end = run.end_ns as f64 / 1e9;
    assert!(last <= end && last > 0.8 * end, "{last} of {end}");
    assert_no_overlap(&text);
}

#[test]
fn a_slowed_stage_is_longer_than_its_full_colour() {
    let detail = short_run();
    let run = &detail.runs[0];
    let slowed = (0..run.slices.len()).filter(|&row| {
        run.slices.alone[row].is_some_and(|alone| alone * 10 < run.slices.length[row] * 9)
    });
    assert!(slowed.count() > 0, "something is slowed by a tenth");
    let text = svg(&Timeline::new(&detail, run, "toy", None)).expect("it can be drawn");
    let sum = |opacity| {
        bars(&text, opacity)
            .iter()
            .map(|bar| number(bar, "width"))
            .sum::<f64>()
    };
    let (whole, alone) = (sum("0.3"), sum("1"));
    let ratio =
        |column: &dyn Fn(usize) -> u64| (0..run.slices.len()).map(column).sum::<u64>() as f64;
    let want =
        ratio(&|row| run.slices.alone[row].unwrap_or(0)) / ratio(&|row| run.slices.length[row]);
    assert!(
        (alone / whole / want - 1.0).abs() < 0.02,
        "{alone} {whole} {want}"
    );
}

#[test]
fn queries_and_publications_say_their_version() {
    let detail = short_run();
    let run = &detail.runs[0];
    let text = svg(&Timeline::new(&detail, run, "toy", None)).expect("it can be drawn");
    let labels = texts(&text);
    for row in (0..run.slices.len()).filter(|&row| run.slices.query[row].is_some()) {
        let wide = run.slices.length[row] as f64 / run.end_ns as f64 > 0.05;
        let label = format!("v{}", run.slices.version[row]);
        assert!(
            !wide || labels.iter().any(|(text, _)| *text == label),
            "{label}"
        );
    }
    let marks = elements(&text, "polygon").len();
    assert_eq!(marks, run.versions.at.len() + 1, "one is the legend's");
}

#[test]
fn names_are_escaped() {
    let mut detail = short_run();
    detail.streams[0] = "<script>alert(1)</script>&".into();
    let text = svg(&Timeline::new(&detail, &detail.runs[0], "<b>", None)).expect("it can be drawn");
    assert!(!text.contains("<script>") && !text.contains("<b>"));
    assert!(text.contains("&lt;script&gt;"));
}

/// A run of another policy's name.
fn named(run: &Run, policy: &str) -> Run {
    Run {
        policy: policy.into(),
        ..run.clone()
    }
}

fn example() -> (Curves, Curves, Bars, Scatter, Map) {
    let detail = short_run();
    let run = &detail.runs[0];
    let runs: Vec<Run> = (0..9).map(|i| named(run, &format!("policy {i}"))).collect();
    let bar = |i: u32| {
        let estimate = Estimate::of(&[f64::from(i), f64::from(i) + 1.0]);
        Bar {
            name: format!("policy {i}"),
            value: estimate.map(|e| e.mean),
            half_width: Some(0.3),
            part: Some(f64::from(i) / 2.0),
            text: crate::number::estimate(estimate),
        }
    };
    let point = |i: u32| Point {
        group: format!("table {}", i % 3),
        measured: f64::from(i + 1),
        predicted: f64::from(i + 1) * (1.0 + 0.019 * f64::from(i)),
        interval: Some((f64::from(i) + 0.8, f64::from(i) + 1.4)),
        calibration: false,
    };
    (
        distributions(&runs, false),
        over_time(
            "Power",
            "W",
            1.0,
            [("a", run.series.watts.as_ref().expect("has power"))],
        ),
        Bars {
            title: "TTFT".into(),
            x: "s".into(),
            end: None,
            bars: (0..5).map(bar).collect(),
        },
        Scatter {
            title: "Table 7".into(),
            what: "TTFT".into(),
            unit: "s".into(),
            band: 0.1,
            points: (0..12).map(point).chain([Point::default()]).collect(),
        },
        Map {
            title: "Which lane".into(),
            note: String::new(),
            x: "context, tokens".into(),
            y: "queries queued".into(),
            columns: (1..8).map(|i| (i * 1000).to_string()).collect(),
            rows: (0..4).map(|i| i.to_string()).collect(),
            cells: vec![
                vec![
                    Cell::Choice(0),
                    Cell::Choice(1),
                    Cell::Empty("–".into()),
                    Cell::Shade(0.9, "9".into())
                ];
                4
            ],
            names: vec!["cpu".into(), "gpu".into()],
            colours: vec![2],
        },
    )
}

#[test]
fn every_plot_is_legible_and_says_what_it_shows() {
    let (cdf, power, bars, scatter, map) = example();
    let check = |text: Result<String, DrawError>, says: String, what: &str| {
        assert_no_overlap(&text.expect("it can be drawn"));
        assert!(says.contains(what), "{says}");
    };
    check(svg(&cdf), cdf.describe(), "policy 3: half within");
    check(svg(&power), power.describe(), "a: means of ");
    check(svg(&bars), bars.describe(), "policy 1 1.50 ± 6.35");
    check(svg(&scatter), scatter.describe(), "6 of 12 predictions");
    check(svg(&map), map.describe(), "cpu in 4");
    // The first choice has the third colour, the second its own.
    let picture = svg(&map).expect("it can be drawn");
    let has = |colour: &str| picture.contains(colour);
    assert!(has("#009E73") && has("#D55E00") && !has("#0072B2"));
    assert!(scatter.describe().contains("1 are not above 0"));
    // Colours start again after seven, so the others are dashed.
    let lines = elements(&svg(&cdf).expect("it can be drawn"), "polyline").len();
    assert!(lines > 30, "{lines}");
}

#[test]
fn heat_maps_of_any_size_are_legible_to_the_edges() {
    for (columns, rows) in [(1, 1), (2, 12), (9, 3), (60, 4)] {
        let cell = |column: usize, row: usize| match (column + row) % 5 {
            3 => Cell::Empty("grows".into()),
            place => Cell::Shade(place as f64 / 4.0, format!("−{place}2345.678")),
        };
        let map = Map {
            title: "Mean time to the last token, s (less is better)".into(),
            note: "seed = 2, soc:memory.bandwidth_gbps = 27.5".into(),
            x: "streams.front-door.queries.arrivals.poisson.rate_hz".into(),
            y: "streams.front-door.queries.output_tokens.log_normal.mean".into(),
            columns: (0..columns).map(|i| format!("0.01{i:04}")).collect(),
            rows: (0..rows)
                .map(|i| format!("state_aware:w+p+s {i}"))
                .collect(),
            cells: (0..rows)
                .map(|row| (0..columns).map(|column| cell(column, row)).collect())
                .collect(),
            names: Vec::new(),
            colours: Vec::new(),
        };
        let picture = svg(&map).expect("it can be drawn");
        assert_no_overlap(&picture);
        let (width, height) = map.size();
        let texts = texts(&picture);
        // Two titles, the note, the second key, and a text for each column, row and cell.
        assert_eq!(texts.len(), 4 + columns + rows + columns * rows);
        for (text, [left, top, right, bottom]) in texts {
            let inside = left >= 0.0 && right <= f64::from(width);
            assert!(inside, "{text}: {left} to {right} of {width}");
            let inside = top >= 0.0 && bottom <= f64::from(height);
            assert!(inside, "{text}: {top} to {bottom} of {height}");
            // Numbers are whole, wherever their column is wide enough for them.
            assert!(!text.ends_with('…') || !text.starts_with('−'), "{text}");
        }
    }
}

/// Each stream has its entry in the legend, and none looks like another. To see it fail, leave out the lines that tell
/// apart streams of one colour.
#[test]
fn more_streams_than_colours_can_be_told_apart() {
    let text = toy::scenario(0.2).replace("copies = 2", "copies = 8");
    let (mut detail, _) = toy::detail(&text, 10_000);
    // A stage of each.
    let slices = &mut detail.runs[0].slices;
    for row in 0..8 {
        slices.stream[row] = row as u16;
    }
    let drawing = svg(&Timeline::new(&detail, &detail.runs[0], "toy", None)).expect("it is drawn");
    // Samples of the legend are 22 pixels wide and stand before its names, in order.
    let (_, legend) = drawing
        .split_once("time, s")
        .expect("the axis has its title");
    let mut styles = Vec::new();
    let mut sample = Vec::new();
    for element in legend.split('<').skip(1) {
        let of = |name: &str| {
            let (_, rest) = element.split_once(&format!(" {name}=\""))?;
            rest.split('"').next().map(str::to_owned)
        };
        if element.starts_with("rect") && of("width").as_deref() == Some("22") {
            sample.push((of("fill"), of("height")));
        } else if element.starts_with("text") {
            let style = std::mem::take(&mut sample);
            if element.contains("front") {
                styles.push(style);
            }
        }
    }
    assert_eq!(styles.len(), 8, "{legend}");
    let all = styles.len();
    styles.sort();
    styles.dedup();
    assert_eq!(styles.len(), all, "{styles:?}");
}

#[test]
fn pngs_hold_the_same_picture() {
    let detail = short_run();
    let timeline = Timeline::new(&detail, &detail.runs[0], "toy", None);
    let file = png(&timeline).expect("it can be drawn");
    let decoder = png::Decoder::new(std::io::Cursor::new(file));
    let mut reader = decoder.read_info().expect("it is a PNG");
    let mut pixels = vec![0; reader.output_buffer_size().expect("it is small")];
    let info = reader.next_frame(&mut pixels).expect("it has a picture");
    assert_eq!((info.width, info.height), timeline.size());
    let is = |pixel: &[u8], RGBColor(r, g, b): RGBColor| pixel == [r, g, b];
    let of = |colour| pixels.chunks(3).filter(|pixel| is(pixel, colour)).count();
    for stream in 0..2 {
        assert!(of(draw::colour(stream)) > 300, "stream {stream}");
    }
    // Text is there, so the embedded font works: the first label of the axis.
    let dark = pixels
        .chunks(3)
        .filter(|pixel| pixel.iter().all(|&c| c < 60))
        .count();
    assert!(dark > 1000, "{dark}");
}

#[test]
fn nothing_is_drawn_empty() {
    let (mut detail, _) = toy::detail(&toy::scenario(0.2), 0);
    let run = detail.runs.remove(0);
    assert!(svg(&Timeline::new(&detail, &run, "", None)).is_ok_and(|text| text.contains("<svg")));
    assert!(svg(&Curves::default()).is_ok());
    assert!(svg(&Bars::default()).is_ok());
    assert!(svg(&Scatter::default()).is_ok());
    assert!(svg(&Map::default()).is_ok());
}

#[test]
fn a_policy_whose_queue_grows_does_not_press_the_others_onto_the_axis() {
    let rising = |most: f64| (1..=200).map(|i| most * f64::from(i) / 200.0).collect();
    let example = short_run().runs.remove(0);
    let of = |policy: &str, most: f64| Run {
        policy: policy.into(),
        ttft_s: rising(most),
        ..example.clone()
    };
    let mut runs = vec![of("steady", 1.0), of("slower", 3.0)];
    let plain = distributions(&runs, false);
    assert_eq!(
        (plain.end, plain.x.as_str()),
        (None, "time to first token, s")
    );
    runs.push(of("grows", 600.0));
    let cut = distributions(&runs, false);
    // 99 % of the slower one's answers fit.
    assert_eq!(cut.end, Some(2.97));
    assert!(cut.x.contains("cut at 2.97"), "{}", cut.x);
    let names: Vec<&str> = cut.curves.iter().map(|curve| curve.name.as_str()).collect();
    assert_eq!(names, ["steady", "slower (1 %)", "grows (100 %)"]);
    assert!(cut.describe().contains("half within 300"));
    let svg = svg(&cut).expect("it can be drawn");
    let right = f64::from(cut.size().0);
    for (text, [left, _, end, _]) in texts(&svg) {
        assert!(left >= 0.0 && end <= right, "{text}: {left} {end}");
    }
    for (index, least) in [(0, 90.0), (1, 400.0)] {
        let RGBColor(r, g, b) = draw::colour(index);
        let colour = format!("#{r:02X}{g:02X}{b:02X}");
        let lines = elements(&svg, "polyline");
        let xs = lines
            .iter()
            .filter(|line| attribute(line, "stroke") == Some(&colour))
            .filter_map(|line| attribute(line, "points"))
            .flat_map(str::split_whitespace)
            .filter_map(|point| point.split(',').next()?.parse().ok());
        let xs: Vec<f64> = xs.collect();
        let low = xs.iter().copied().fold(f64::MAX, f64::min);
        let high = xs.iter().copied().fold(0.0, f64::max);
        // The lines use the width, and none leaves the plot.
        assert!(high - low > least && high < right, "{index}: {low} {high}");
    }
    assert_eq!(path_of_one_beyond(), vec![(0.0, 0.0), (1.0, 0.0)]);
}

#[test]
fn a_plot_of_nothing_says_so_and_has_no_axis() {
    let none = over_time("Power", "W", 1.0, [("", &crate::detail::Bins::default())]);
    let text = svg(&none).expect("it can be drawn");
    let said: Vec<String> = texts(&text).into_iter().map(|(text, _)| text).collect();
    assert_eq!(said, ["Power", "there is nothing to show"]);
    assert!(none.describe().ends_with(": there is nothing to show."));
}

/// The line of a curve that lies wholly beyond the end of the axis.
fn path_of_one_beyond() -> Vec<(f64, f64)> {
    let curve = Curve {
        points: vec![(5.0, 0.0), (5.0, 1.0)],
        ..Curve::default()
    };
    let curves = Curves {
        steps: true,
        end: Some(1.0),
        ..Curves::default()
    };
    curves.path(&curve, 1.0)
}

#[test]
fn a_timeline_says_what_part_it_is_and_draws_all_of_that() {
    let (detail, _) = toy::detail(&toy::scenario(0.5), 1000);
    let run = &detail.runs[0];
    let slices = &run.slices;
    let title = "long ".repeat(100);
    let beginning = Timeline::new(&detail, run, &title, None);
    assert_eq!(beginning.drawn(), 80);
    let text = svg(&beginning).expect("it can be drawn");
    let note = format!(
        "80 of {} stages; more than 80 could not be read",
        slices.total
    );
    assert!(text.contains(&note), "{text}");
    assert!(beginning.describe().contains(&note));
    assert_no_overlap(&text);
    let (from, to) = (40_000_000_000, 55_000_000_000);
    let part = Timeline::new(&detail, run, "toy", Some((from, to)));
    let text = svg(&part).expect("it can be drawn");
    let inside = (0..slices.len())
        .filter(|&row| slices.start[row] < to && slices.start[row] + slices.length[row] > from);
    let inside = inside.count();
    assert!(inside > 5 && inside <= 80, "{inside}");
    assert_eq!(bars(&text, "0.3").len(), inside);
    assert!(text.contains("from 40.0 s to 55.0 s of "), "{text}");
    // Nothing leaves the plane, and the axis says its own seconds.
    for bar in bars(&text, "0.3") {
        let (x, width) = (number(bar, "x"), number(bar, "width"));
        assert!(x >= 120.0 && x + width <= 1177.0, "{bar}");
    }
    let labels = texts(&text);
    assert!(labels.iter().any(|(label, _)| label == "42"), "{labels:?}");
    assert_no_overlap(&text);
}

#[test]
fn names_of_a_front_stand_apart_and_what_has_none_is_counted() {
    let goal = |title: &str| Goal {
        title: title.into(),
        better: crate::metric::Better::Lower,
    };
    let choices = (0..24).map(|at| Choice {
        name: format!("policy=state_aware, seed={at}"),
        at: (
            f64::from(at * at) / 9.0,
            f64::from((24 - at) * (24 - at)) / 9.0,
        ),
    });
    let front = Front {
        title: "cells".into(),
        goals: (goal("TTFT, s"), goal("J/answer")),
        choices: choices.collect(),
        left_out: 0,
    };
    let text = svg(&front).expect("it can be drawn");
    assert_no_overlap(&text);
    let names: Vec<_> = texts(&text)
        .into_iter()
        .filter(|(name, _)| name.starts_with("policy="))
        .collect();
    assert!(names.len() > 8, "{names:?}");
    let circles = elements(&text, "circle");
    for (name, [left, top, right, bottom]) in &names {
        for circle in &circles {
            let (x, y) = (number(circle, "cx"), number(circle, "cy"));
            let apart =
                x + 6.0 <= *left || x - 6.0 >= *right || y + 6.0 <= *top || y - 6.0 >= *bottom;
            assert!(apart, "`{name}` covers a point");
        }
    }
    let said = format!(
        "{} of the 24 on the front have room for their names",
        names.len()
    );
    assert!(text.contains(&said), "{text}");
}

#[test]
fn a_name_of_any_length_is_cut_at_once() {
    let long = "x".repeat(1 << 20);
    let cut = draw::fit(&long, draw::TITLE, 580);
    assert!(cut.ends_with('…') && draw::width(&cut, draw::TITLE) <= 580);
    assert_eq!(cut, draw::fit(&long[..200], draw::TITLE, 580));
    assert!(draw::width(&format!("x{cut}"), draw::TITLE) > 580);
    assert_eq!(draw::fit("short", draw::TITLE, 580), "short");
    // A wide letter takes as much as the text is high.
    assert!(draw::width("正門カメラ", draw::LABEL) >= 5 * draw::LABEL);
    assert_eq!(draw::fit("short", draw::TITLE, 3), "");
}

#[test]
fn letters_without_a_glyph_are_known() {
    let detail = short_run();
    let title = "Zwei Kameras: π ≥ 3, µs – 深度 …深";
    let timeline = Timeline::new(&detail, &detail.runs[0], title, None);
    assert_eq!(
        without_glyph(&timeline).expect("it can be drawn"),
        ['度', '深']
    );
    let timeline = Timeline::new(&detail, &detail.runs[0], "toy", None);
    assert_eq!(without_glyph(&timeline).expect("it can be drawn"), []);
}
