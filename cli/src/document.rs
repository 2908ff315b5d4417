//! Results of validation as a document: printed, or written with its plots.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use reports::html;
use reports::plot::{Plot, Point, Scatter, svg};
use validation::published::Role;
use validation::report::{self, Figure, Section};

use crate::failure::{Failure, say};

/// Half-width of the band around equality.
const BAND: f64 = 0.1;

/// A document with its plots.
#[derive(Debug, Default)]
pub(crate) struct Document {
    pub(crate) title: &'static str,
    pub(crate) sections: Vec<Section>,
    pub(crate) figures: Vec<Figure>,
}

impl Document {
    /// As a terminal shows it, without plots.
    pub(crate) fn shown(&self) -> String {
        reports::table::markdown(&self.text())
    }

    /// Its Markdown, without plots.
    fn text(&self) -> String {
        report::document(self.title, &self.sections)
    }

    /// Writes it where the user wants it, if anywhere: as one page if that ends in `.html`, else as
    /// Markdown with the plots in files beside it.
    pub(crate) fn save(&self, path: Option<&Path>) -> Result<(), Failure> {
        let Some(path) = path else { return Ok(()) };
        let plots: Vec<Scatter> = self.figures.iter().map(scatter).collect();
        let page = path
            .extension()
            .is_some_and(|ending| ending.eq_ignore_ascii_case("html"));
        if page {
            let text = html::document(self.title, &self.text(), &plots);
            return write(path, &text.map_err(Failure::internal)?);
        }
        let mut pictures = Vec::new();
        for (figure, plot) in self.figures.iter().zip(&plots) {
            let beside = beside(path, figure.name);
            write(&beside, &svg(plot).map_err(Failure::internal)?)?;
            say(&format!("wrote {}", beside.display()));
            let name = beside.file_name().unwrap_or_default().to_string_lossy();
            let name = name.replace('<', "%3C").replace('>', "%3E");
            pictures.push(format!("![{}](<{name}>)", plot.describe()));
        }
        let mut text = self.text();
        if !pictures.is_empty() {
            _ = write!(text, "\n## Figures\n\n{}\n", pictures.join("\n\n"));
        }
        write(path, &text)
    }
}

/// Whether a document can be written there, before any of it is worked out.
pub(crate) fn check(path: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    let ending = path.extension().unwrap_or_default().to_string_lossy();
    if !["md", "markdown", "html"].contains(&ending.to_ascii_lowercase().as_str()) {
        return Err(Failure::usage(
            format!("`{}` names no form of document", path.display()),
            "end it in `.html` for one page, or in `.md` for Markdown with the plots beside it",
        ));
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        return Err(Failure::usage(
            format!("there is no folder `{}`", folder.display()),
            "make it first, or name another",
        ));
    }
    if path.is_dir() {
        return Err(Failure::usage(
            format!("`{}` is a folder", path.display()),
            "name a file in it",
        ));
    }
    Ok(())
}

fn scatter(figure: &Figure) -> Scatter {
    let points = figure.points.iter().map(|point| Point {
        group: point.group.clone(),
        measured: point.measured,
        predicted: point.predicted,
        interval: point.interval,
        calibration: point.role == Role::Calibration,
    });
    Scatter {
        title: "Predicted against measured".to_owned(),
        what: figure.what.clone(),
        unit: figure.unit.to_owned(),
        band: BAND,
        points: points.collect(),
    }
}

/// The file of a plot: `out.md` has its plot of times in `out-time.svg`.
fn beside(path: &Path, name: &str) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-{name}.svg"))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|error| Failure::write(path.display(), &error))
}
