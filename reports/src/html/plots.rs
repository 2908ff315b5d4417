//! The plots of the page, each with its text.

use maud::{Markup, PreEscaped, html};

use super::read::{Entry, Folder, mixed};
use crate::decision::decision_map;
use crate::detail::Run;
use crate::interval::GROWS;
use crate::metric::{COMPLETION, ENERGY_PER_REQUEST, Metric, THROUGHPUT};
use crate::number::{self, percent};
use crate::plot::{Bar, Bars, Choice, DrawError, Front, Mark, Plot, distributions, over_time, svg};

/// Plots by section.
pub(super) struct Plots {
    pub(super) compared: Markup,
    pub(super) over_time: Markup,
}

/// Least size of a plot on a screen, in percent of its own: its labels, of 12 pixels, have 9 then.
const LEGIBLE: u32 = 75;
/// Most points of a plot that a keyboard stops at; those of the front come first.
const FOCUSABLE: usize = 60;

/// Whether a plot of this width may be wider than its frame, even in a wide window.
fn scrolls(width: u32) -> bool {
    width > 700
}

/// A plot with its text instead of its picture for those who cannot see it.
pub(super) fn figure(plot: &impl Plot) -> Result<Markup, DrawError> {
    let picture = svg(plot)?;
    let says = plot.describe();
    let marks = plot.marks()?;
    let (width, height) = plot.size();
    // On a narrow screen a plot keeps the size at which its text can be read, and moves within its frame.
    let size = format!("min-width:{}px", LEGIBLE * width / 100);
    Ok(html! {
        figure tabindex=[scrolls(width).then_some("0")] {
            div.plot style=(size) {
                div role="img" aria-label=(says) { div aria-hidden="true" { (PreEscaped(picture)) } }
                @if !marks.is_empty() { (points(&marks, (width, height))) }
            }
        }
    })
}

/// Points over a picture, each with a text that shows while it is pointed at or has the focus.
fn points(marks: &[Mark], (width, height): (u32, u32)) -> Markup {
    let share = |at: i32, of: u32| 100.0 * f64::from(at) / f64::from(of);
    html! {
        ul.points aria-label="Points of the plot" {
            @for (index, mark) in marks.iter().enumerate() {
                @let (x, y) = (share(mark.at.0, width), share(mark.at.1, height));
                // The text opens towards the middle, so that it stays within the picture.
                li.west[x > 50.0].north[y > 50.0] tabindex=[(index < FOCUSABLE).then_some("0")]
                    style=(format!("left:{x:.2}%;top:{y:.2}%")) {
                    div {
                        strong { (mark.name) }
                        " " span { (mark.rank) }
                        @for (title, number) in &mark.numbers { " " span { (title) " " b { (number) } } }
                    }
                }
            }
        }
    }
}

/// Everything that is drawn.
pub(super) fn all(_: &[Folder], entries: &[Entry<'_>]) -> Result<Plots, DrawError> {
    let mut compared = Vec::new();
    for (title, unit, path, steady_only) in [
        ("Time to first token, mean", "s", "ttft_s.mean", true),
        ("Completion time, mean", "s", "completion_s.mean", true),
        ("Throughput", "answers/s", "throughput_rps", false),
        ("Energy of an answer", "J", "energy_per_request_j", false),
    ] {
        let bars: Vec<Bar> = entries
            .iter()
            .filter_map(|entry| bar(entry, path, steady_only))
            .collect();
        if bars.iter().any(|bar| bar.value.is_some()) {
            compared.push(figure(&Bars {
                title: title.into(),
                x: unit.into(),
                end: None,
                bars,
            })?);
        }
    }
    if let Some(front) = front(entries) {
        compared.push(figure(&front)?);
    }
    let runs: Vec<Run> = entries
        .iter()
        .filter_map(|entry| {
            let (_, run) = entry.detail?;
            Some(Run {
                policy: entry.label(),
                ..run.clone()
            })
        })
        .collect();
    if !runs.is_empty() {
        compared.push(figure(&distributions(&runs, false))?);
        compared.push(figure(&distributions(&runs, true))?);
    }
    Ok(Plots {
        compared: html! {
            section aria-labelledby="plots" {
                h2 #plots { "Plots" }
                p.soft { "Bars are means over replications with their 95 % intervals; distributions are of the first replication."
                    @if mixed(entries) { " The scenarios differ, so that bars of different scenarios are not to be compared." } }
                div.plots { @for plot in &compared { (plot) } }
            }
        },
        over_time: courses(entries)?,
    })
}

/// Configurations of one scenario by completion time and energy or, without power, answers per second.
fn front(entries: &[Entry<'_>]) -> Option<Front> {
    if mixed(entries) {
        return None;
    }
    let number = |entry: &Entry<'_>, metric: &Metric| {
        let value = entry.number(metric.key)?.mean;
        (entry.steady() || !metric.steady_only).then_some(value)
    };
    let powered = entries
        .iter()
        .any(|entry| number(entry, &ENERGY_PER_REQUEST).is_some());
    let y = if powered {
        ENERGY_PER_REQUEST
    } else {
        THROUGHPUT
    };
    let choices: Vec<Choice> = entries
        .iter()
        .filter_map(|entry| {
            Some(Choice {
                name: entry.label(),
                at: (number(entry, &COMPLETION)?, number(entry, &y)?),
            })
        })
        .collect();
    // Of two, a table says as much.
    (choices.len() > 2).then(|| Front {
        title: "Which configurations no other beats in both".into(),
        goals: ((&COMPLETION).into(), (&y).into()),
        left_out: entries.len() - choices.len(),
        choices,
    })
}

fn bar(entry: &Entry<'_>, path: &str, steady_only: bool) -> Option<Bar> {
    if let Some(unsteady) = entry.unsteady().filter(|_| steady_only) {
        return Some(Bar {
            name: entry.label(),
            text: if unsteady == GROWS {
                "queue grows".into()
            } else {
                unsteady
            },
            ..Bar::default()
        });
    }
    let estimate = entry.number(path)?;
    Some(Bar {
        name: entry.label(),
        value: Some(estimate.mean),
        half_width: estimate.half_width,
        part: None,
        text: number::estimate(Some(estimate)),
    })
}

/// What a run's engines did, and its courses over time.
fn courses(entries: &[Entry<'_>]) -> Result<Markup, DrawError> {
    let mut groups = Vec::new();
    for entry in entries {
        let Some((detail, run)) = entry.detail else {
            continue;
        };
        let busy = detail
            .engines
            .iter()
            .zip(&run.engines)
            .map(|(name, share)| Bar {
                name: name.clone(),
                value: Some(share.active),
                half_width: None,
                part: Some(share.corun),
                text: format!("{}, {} co-run", percent(share.active), percent(share.corun)),
            });
        let one = |title: &str, unit: &str, scale: f64, bins| {
            figure(&over_time(title, unit, scale, [("", bins)]))
        };
        let series = &run.series;
        let mut plots = vec![
            figure(&Bars {
                title: "Engines: running, and (dark) beside another".into(),
                x: "share of the run".into(),
                end: Some(1.0),
                bars: busy.collect(),
            })?,
            figure(&over_time(
                "Queries in the system",
                "queries",
                1.0,
                [
                    ("waiting", &series.waiting),
                    ("answering", &series.answering),
                ],
            ))?,
            one(
                "KV of the contexts that engines keep",
                "MB",
                1e-6,
                &series.context_bytes,
            )?,
        ];
        // Profiles need not say what stages move.
        if series.bytes_per_s.mean.iter().any(|rate| *rate > 0.0) {
            plots.push(one("Memory traffic", "GB/s", 1e-9, &series.bytes_per_s)?);
        }
        if let Some(watts) = &series.watts {
            plots.push(one("Power", "W", 1.0, watts)?);
        }
        if let Some(celsius) = &series.celsius {
            plots.push(one("Temperature", "°C", 1.0, celsius)?);
        }
        if let Some(map) = decision_map(detail, run) {
            plots.push(figure(&map)?);
        }
        groups.push((entry.label(), plots));
    }
    Ok(html! {
        section aria-labelledby="courses" {
            h2 #courses { "Over time" }
            p.soft { "First replication, of the policies chosen above. Lines are means of short stretches of time: within one, the value may have been higher." }
            @for (index, (label, plots)) in groups.iter().enumerate() {
                div data-run=(index) {
                    h3 { (label) }
                    div.plots { @for plot in plots { (plot) } }
                }
            }
        }
    })
}
