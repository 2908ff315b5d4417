//! The report: one HTML file that needs nothing else, from what `run --out` and `compare --out` wrote.
//!
//! Tables and plots are made here and stay readable without scripts; the script adds the timeline, the
//! filters and the list of requests. `maud` escapes every text; data goes in as JSON without `<`.

mod answer;
mod data;
mod document;
mod limits;
mod origins;
mod plots;
mod read;
mod sections;
#[cfg(test)]
mod tests;
mod unpaired;

use maud::{DOCTYPE, Markup, PreEscaped, html};

pub use data::expected_samples;
pub use document::document;
pub use read::{Folder, ReadError};

use crate::plot::DrawError;

const STYLE: &str = include_str!("style.css");
const SCRIPT: [&str; 3] = [
    include_str!("format.js"),
    include_str!("timeline.js"),
    include_str!("main.js"),
];
/// Nothing is fetched, whatever the page's texts say.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

/// The page for the results of one or more folders.
pub fn page(folders: &[Folder]) -> Result<String, DrawError> {
    let entries = read::entries(folders);
    let title = match folders {
        [one] => one.title().to_owned(),
        _ => format!(
            "{} and {} more",
            folders.first().map_or("", Folder::title),
            folders.len().saturating_sub(1)
        ),
    };
    let interactive = folders.iter().any(|folder| folder.detail.is_some());
    let plots = plots::all(folders, &entries)?;
    let text = html! {
        (DOCTYPE)
        html lang="en" {
            (head(&title, POLICY))
            body {
                a.skip href="#answer" { "Skip to the answer" }
                header {
                    h1 { (title) }
                    (contents(interactive))
                }
                main {
                    (answer::answers(folders, &entries))
                    (sections::scenarios(folders))
                    (sections::tables(folders, &entries))
                    @if interactive {
                        (timeline())
                        (plots.over_time)
                        (sections::parts(&entries))
                    }
                    (plots.compared)
                    (origins::assumed(folders))
                    (origins::reproduce(folders))
                }
                div #tip hidden {}
                p #live .skip aria-live="polite" {}
                @if interactive {
                    script #data type="application/json" { (PreEscaped(data::json(folders, &entries))) }
                    script { (PreEscaped(script())) }
                }
            }
        }
    };
    Ok(text.into_string())
}

/// The head of a page that may do what `policy` (Content-Security-Policy) lets it.
fn head(title: &str, policy: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta http-equiv="Content-Security-Policy" content=(policy);
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="generator" content=(GENERATOR);
            title { (title) " – crossinfer" }
            style { (PreEscaped(STYLE)) }
        }
    }
}

/// Says that a file is a report.
const GENERATOR: &str = concat!("crossinfer ", env!("CARGO_PKG_VERSION"));

/// Whether a text is a page that [`page`] made, in any version.
pub fn is_page(text: &str) -> bool {
    text.contains("<meta name=\"generator\" content=\"crossinfer ")
}

/// The script, whose parts share one scope of their own.
fn script() -> String {
    format!("(() => {{\n\"use strict\";\n{}\n}})();", SCRIPT.join("\n"))
}

fn contents(interactive: bool) -> Markup {
    html! {
        nav aria-label="Contents" {
            a href="#answer" { "Answer" }
            a href="#scenario" { "What was simulated" }
            a href="#numbers" { "Numbers" }
            @if interactive {
                a href="#timeline" { "Timeline" }
                a href="#time" { "Where the time went" }
            }
            a href="#plots" { "Plots" }
            a href="#assumed" { "Assumed" }
            a href="#reproduce" { "Reproduce" }
        }
    }
}

fn timeline() -> Markup {
    html! {
        section aria-labelledby="timeline" {
            h2 #timeline { "Timeline" }
            p.soft {
                "First replication. A bar is a stage in its stream's colour, with dark lines along its foot where there are more streams than \
                 colours; its full colour is as long as the stage takes \
                 alone, the pale rest is what co-running adds. Ingest is lined, transfers are crossed, queries are plain and \
                 carry the version that they read where there is room; a triangle marks the publication of a version. Hover or tap for the \
                 numbers; drag to move, Ctrl, Shift or ⌘ with the wheel to zoom. Keys: + − zoom, ← → move, Home all of those shown, n and p \
                 the next and previous stage, Esc none."
            }
            noscript { p { "The timeline needs scripts; the plots and tables do not." } }
            div #filters .controls {}
            div #zoom .controls {}
            div #timelines {}
        }
    }
}
