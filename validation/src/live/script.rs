//! Which text of a script kept runs are of.

use std::path::Path;
use std::{fs, io};

/// Runs that cannot be gone on with.
#[derive(Debug)]
pub enum Stale {
    /// They are of another text of the script, or nobody knows of which.
    Other(String),
    /// The text that they are of can be neither read nor kept.
    Io(io::Error),
}

/// Whether kept runs of a script are of this `text`; it is written to `path` before the first of them.
///
/// # Errors
///
/// They are not, or they were kept without it. `kept` says that there are some.
pub fn same_script(path: &Path, text: &str, kept: bool) -> Result<(), Stale> {
    if !kept {
        return fs::write(path, text).map_err(Stale::Io);
    }
    match fs::read_to_string(path) {
        Ok(known) if known == text => Ok(()),
        Ok(_) => Err(Stale::Other(
            "runs of another text of the script".to_owned(),
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Stale::Other(
            "is not there to say of which text of the script the runs are".to_owned(),
        )),
        Err(error) => Err(Stale::Io(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_another_text_are_told() {
        let folder = std::env::temp_dir().join(format!("crossinfer-script-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("can be made");
        let path = folder.join("script_p.rhai");
        let other = |text: &str| match same_script(&path, text, true) {
            Err(Stale::Other(says)) => says,
            unexpected => panic!("{unexpected:?}"),
        };
        assert!(other("fn b() {}").contains("is not there"));
        same_script(&path, "fn a() {}", false).expect("is kept");
        same_script(&path, "fn a() {}", true).expect("is the same");
        assert_eq!(other("fn b() {}"), "runs of another text of the script");
        // What is asked again changes nothing, and a text without runs binds nobody.
        same_script(&path, "fn a() {}", true).expect("is the same");
        same_script(&path, "fn b() {}", false).expect("is kept");
        same_script(&path, "fn b() {}", true).expect("is the same");
        fs::remove_dir_all(&folder).expect("can be removed");
    }
}
