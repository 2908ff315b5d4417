//! The data that the page's script reads: the details, bounded so that the file stays small.

use serde_json::{Value, json};

use super::read::{Entry, Folder};
use crate::detail::Detail;
use crate::number::quantity;
use crate::plot::COLOURS;

/// Most stages of all runs together: about 3 MB.
const SLICES_MAX: usize = 40_000;
/// Most requests of all runs together: about 3 MB.
const REQUESTS_MAX: usize = 20_000;

/// The data as JSON that may stand in a script element: it has no `<`.
pub(super) fn json(folders: &[Folder], entries: &[Entry<'_>]) -> String {
    let runs = entries
        .iter()
        .filter(|entry| entry.detail.is_some())
        .count()
        .max(1);
    let mut details: Vec<Detail> = Vec::new();
    let mut places: Vec<Option<usize>> = Vec::new();
    for folder in folders {
        places.push(folder.detail.as_ref().map(|_| details.len()));
        if let Some(detail) = &folder.detail {
            let mut detail = detail.clone();
            for run in &mut detail.runs {
                run.slices.truncate(SLICES_MAX / runs);
                let kept = run.slices.end();
                run.versions.truncate_after(kept);
                run.requests.thin_to(REQUESTS_MAX / runs);
                // Rust has drawn these.
                run.ttft_s.clear();
                run.completion_s.clear();
            }
            details.push(detail);
        }
    }
    let list: Vec<Value> = entries
        .iter()
        .filter_map(|entry| {
            let (detail, of) = entry.detail?;
            let run = detail.runs.iter().position(|run| run.policy == of.policy)?;
            Some(json!({
                "name": entry.label(),
                "detail": places[entry.folder],
                "run": run,
            }))
        })
        .collect();
    let colours: Vec<String> = COLOURS
        .iter()
        .map(|colour| format!("#{:02x}{:02x}{:02x}", colour.0, colour.1, colour.2))
        .collect();
    let value = json!({
        "runs": list,
        "details": details,
        "colours": colours,
        "samples": samples(),
    });
    value
        .to_string()
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}

/// Numbers that tests show with the script's routines and with ours.
fn samples() -> Vec<(f64, &'static str)> {
    vec![
        (0.0, "s"),
        (0.012_345, "s"),
        (0.999_6, "s"),
        (9.996, "s"),
        (99.96, "s"),
        (1_234_567.0, "s"),
        (-0.25, "s"),
        (0.000_001_5, "s"),
        (4e-9, "s"),
        (0.5, "W"),
        (1234.5, "GB/s"),
        (1235.5, "GB/s"),
        (1.125, "W"),
        (999_600.0, "J"),
        (1_500_000_008.0, "J"),
        (5e-8, "W"),
    ]
}

/// What the script must make of the numbers that the page holds for tests.
pub fn expected_samples() -> String {
    let texts: Vec<String> = samples()
        .into_iter()
        .map(|(x, unit)| quantity(x, unit))
        .collect();
    texts.join("|")
}
