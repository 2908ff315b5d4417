//! Names that files give to things.

use super::document::Place;
use crate::diag::Diagnostic;

/// Names become columns, file names and `stage@engine`, so they are plain.
pub(super) fn check(place: &Place<'_>, what: &str, name: &str, faults: &mut Vec<Diagnostic>) {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || !name.chars().all(plain) {
        faults.push(
            place
                .fault(
                    format!("{what} name `{}` is not plain", name.escape_debug()),
                    "must be letters, digits, `_`, `-` and `.`",
                )
                .help("for example `cam-front`"),
        );
    }
}
