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

/// Whether kept runs of a script are of this `text`; it is kept at `path` with the first of them.
///
/// # Errors
///
/// They are not; or they were kept without it (`kept` says that there are some).
pub fn same_script(path: &Path, text: &str, kept: bool) -> Result<(), Stale> {
    match fs::read_to_string(path) {
        Ok(known) if known == text => Ok(()),
        Ok(_) => Err(Stale::Other(
            "runs of another text of the script".to_owned(),
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if kept {
                let says = "is not there to say of which text of the script the runs are";
                return Err(Stale::Other(says.to_owned()));
            }
            fs::write(path, text).map_err(Stale::Io)
        }
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
        let other = |kept| match same_script(&path, "fn b() {}", kept) {
            Err(Stale::Other(says)) => says,
            unexpected => panic!("{unexpected:?}"),
        };
        assert!(other(true).contains("is not there"));
        same_script(&path, "fn a() {}", false).expect("is kept");
        same_script(&path, "fn a() {}", true).expect("is the same");
        assert_eq!(other(false), "runs of another text of the script");
        assert_eq!(other(true), "runs of another text of the script");
        // What is asked again changes nothing.
        same_script(&path, "fn a() {}", true).expect("is the same");
        fs::remove_dir_all(&folder).expect("can be removed");
    }
}
