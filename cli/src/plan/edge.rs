//! The scenario of an edge, written for `crossinfer run`.

use std::fs;
use std::path::Path;

use lab::plan::Case;

use super::{failed, writable};
use crate::failure::Failure;
use crate::library::Profiles;

/// Whether the scenario of an edge can be written there.
pub(super) fn replayable(file: &Path, scenario: &Path, plans: usize) -> Result<(), Failure> {
    if plans != 1 {
        return Err(Failure::usage(
            format!("`--edge` writes one scenario, and there are {plans} plans"),
            "plan one SoC and one model, or take `scenarios` from `--format json`",
        ));
    }
    let same = |a: &Path, b: &Path| {
        a.canonicalize()
            .ok()
            .is_some_and(|a| b.canonicalize().ok() == Some(a))
    };
    if same(file, scenario) {
        return Err(Failure::usage(
            format!("`{}` is the scenario itself", file.display()),
            "name another file",
        ));
    }
    writable(file)
}

/// Writes the scenario of an edge, if it reads the same from there.
pub(super) fn write_edge(file: &Path, case: &Case<'_>, text: &str) -> Result<(), Failure> {
    let library = Profiles::beside(file);
    let there = Case {
        name: file.to_string_lossy().into_owned(),
        text: text.to_owned(),
        library: &library,
        ..*case
    };
    case.reads_as(&there).map_err(failed)?;
    fs::write(file, text).map_err(|error| Failure::write(file.display(), &error))
}
