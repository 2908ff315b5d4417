//! The parts of the page that say what the numbers stand on.

use maud::{Markup, html};
use serde_json::Value;

use super::read::Folder;
use super::sections::text;
use crate::number::{ABSENT, short};

/// What was assumed.
pub(super) fn assumed(folders: &[Folder]) -> Markup {
    html! {
        section aria-labelledby="assumed" {
            h2 #assumed { "What was assumed" }
            @for folder in folders {
                @let a = &folder.document["assumptions"];
                p {
                    @if folders.len() > 1 { (folder.name) ": " }
                    (a["count"]) " of the " (a["of"]) " numbers that went in are assumed."
                }
                @let list = a["list"].as_array().map(Vec::as_slice).unwrap_or_default();
                @if !list.is_empty() {
                    details {
                        summary { "Each of them, and why" }
                        div.wide tabindex="0" role="region" aria-label="Assumed numbers" {
                            table {
                                thead { tr { th.text scope="col" { "number" } th scope="col" { "value" } th scope="col" { "within" }
                                    th.text scope="col" { "why" } } }
                                tbody { @for number in list { tr {
                                    td.text { (text(number, "path")) br; span.soft { (text(number, "file")) } }
                                    td { (number["value"].as_f64().map_or_else(|| ABSENT.into(), short)) }
                                    td { (interval(&number["interval"])) }
                                    td.text { (text(number, "note")) }
                                } } }
                            }
                        }
                    }
                }
                @let far = folder.runs().iter().any(|(_, fields)| fields["unmeasured"].as_array().is_some_and(|l| !l.is_empty()));
                @if far {
                    p { "These stages ran outside the range in which they were measured, so their times are extrapolated, or a measured grid's edge holds:" }
                    ul { @for (policy, fields) in folder.runs() {
                        @let list = fields["unmeasured"].as_array().map(Vec::as_slice).unwrap_or_default();
                        @if !list.is_empty() { li { (policy) ": "
                            (list.iter().map(|row| format!("{} on {} ({} times)", text(row, "stage"), text(row, "engine"), row["times"]))
                                .collect::<Vec<_>>().join(", "))
                        } }
                    } }
                }
            }
        }
    }
}

fn interval(value: &Value) -> String {
    match (value[0].as_f64(), value[1].as_f64()) {
        (Some(low), Some(high)) => format!("{} to {}", short(low), short(high)),
        _ => ABSENT.into(),
    }
}

/// How to get the same again.
pub(super) fn reproduce(folders: &[Folder]) -> Markup {
    html! {
        section aria-labelledby="reproduce" {
            h2 #reproduce { "How to reproduce it" }
            @for folder in folders {
                @if folders.len() > 1 { h3 { (folder.name) } }
                @match &folder.detail {
                    Some(detail) => {
                        pre { (detail.reproduce.command) }
                        p { "with crossinfer " (detail.reproduce.version) ", seed " (folder.document["seed"])
                            "; results are the same to the bit on any machine." }
                        details {
                            summary { "SHA-256 of the " (detail.reproduce.inputs.len()) " files that went in" }
                            div.wide tabindex="0" role="region" aria-label="Files" {
                                table {
                                    thead { tr { th scope="col" { "file" } th scope="col" { "bytes" } th.text scope="col" { "SHA-256" } } }
                                    tbody { @for file in &detail.reproduce.inputs { tr {
                                        td { (file.name) } td { (file.bytes) } td.text { code { (file.sha256) } }
                                    } } }
                                }
                            }
                        }
                    }
                    None => p { "crossinfer " (text(&folder.document, "tool.version")) ", scenario "
                        (text(&folder.document, "scenario.file")) ", seed " (folder.document["seed"])
                        "; the command and the files that went in are not known." }
                }
            }
        }
    }
}
