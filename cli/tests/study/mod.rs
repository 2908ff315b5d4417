//! The study that the transcripts play, as a copy in a folder of a test's own.

use std::fs;
use std::path::{Path, PathBuf};

/// A copy in an empty folder, whose files are `changed` on the way.
pub(crate) fn copy(name: &str, changed: impl Fn(String) -> String) -> PathBuf {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    _ = fs::remove_dir_all(&out);
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cmd/study.in");
    for file in [
        "toy.toml",
        "profiles/models/vlm.toml",
        "profiles/toy/soc.toml",
        "profiles/toy/vlm.toml",
    ] {
        let to = out.join(file);
        fs::create_dir_all(to.parent().expect("it has a folder")).expect("a folder can be made");
        let text = fs::read_to_string(from.join(file)).expect("a file can be read");
        fs::write(to, changed(text)).expect("a file can be written");
    }
    out
}
