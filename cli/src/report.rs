//! `crossinfer report`: one page of what `run` and `compare` wrote.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use reports::html::{self, Folder};

use crate::failure::{Failure, say};
use crate::options::read;

/// Documents with the details beside them, in the order in which they are shown.
const PAIRS: [(&str, &str); 2] = [
    ("compare.json", "compare-detail.json"),
    ("summary.json", "detail.json"),
];

/// Make one HTML page of results.
///
/// The page holds the scenario in words, the answer, tables, plots, a timeline to zoom into and where the
/// time of each request went, what was assumed and how to reproduce it. It is one file that needs no
/// network. Several folders are shown side by side.
#[derive(Debug, Args)]
#[command(
    after_long_help = "Example:\n  crossinfer compare scenarios/two-cameras-rk3588.toml --out out\n  crossinfer report out"
)]
pub(crate) struct Arguments {
    /// Folders that `crossinfer run --out` or `crossinfer compare --out` wrote.
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,

    /// File for the page [default: report.html in the first folder].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Replace FILE even if it is no report.
    #[arg(long)]
    force: bool,
}

pub(crate) fn main(arguments: &Arguments) -> Result<(), Failure> {
    let mut folders = Vec::new();
    for path in &arguments.folders {
        results(path, &mut folders)?;
    }
    for lacks in folders.iter().filter_map(Folder::lacks) {
        say(&format!("warning: {lacks}"));
    }
    let page = html::page(&folders).map_err(Failure::internal)?;
    let out = match (&arguments.out, arguments.folders.first()) {
        (Some(out), _) => out.clone(),
        (None, Some(first)) => first.join("report.html"),
        (None, None) => PathBuf::from("report.html"),
    };
    if !arguments.force
        && fs::read(&out).is_ok_and(|old| !html::is_page(&String::from_utf8_lossy(&old)))
    {
        return Err(Failure::usage(
            format!(
                "`{}` is there and is no report of crossinfer",
                out.display()
            ),
            "choose another file with --out, or add --force",
        ));
    }
    fs::write(&out, &page).map_err(|error| Failure::write(out.display(), &error))?;
    say(&format!(
        "wrote {} ({} kB)",
        out.display(),
        page.len().div_ceil(1000)
    ));
    Ok(())
}

/// Every result of a folder.
fn results(path: &Path, folders: &mut Vec<Folder>) -> Result<(), Failure> {
    let name = path.to_string_lossy();
    let before = folders.len();
    for (document, detail) in PAIRS {
        let file = path.join(document);
        if !file.is_file() {
            continue;
        }
        let text = read(&file)?;
        let beside = path.join(detail);
        let beside_text = if beside.is_file() {
            Some(read(&beside)?)
        } else {
            None
        };
        let folder = Folder::read(
            &name,
            (&file.to_string_lossy(), &text),
            beside_text
                .as_deref()
                .map(|text| (beside.to_string_lossy(), text))
                .as_ref()
                .map(|(name, text)| (name.as_ref(), *text)),
        )
        .map_err(|error| {
            Failure::usage(
                error.to_string(),
                "write it again with `crossinfer run --out` or `compare --out`",
            )
        })?;
        folders.push(folder);
    }
    if folders.len() == before {
        return Err(Failure::usage(
            format!("`{name}` holds no results: neither summary.json nor compare.json"),
            "give a folder that `crossinfer run --out DIR` or `crossinfer compare --out DIR` wrote",
        ));
    }
    Ok(())
}
