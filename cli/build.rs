//! Embeds the profiles, so that an installed command works without the repository.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let missing = |name: &str| io::Error::other(format!("{name} is not set"));
    let manifest =
        env::var_os("CARGO_MANIFEST_DIR").ok_or_else(|| missing("CARGO_MANIFEST_DIR"))?;
    let out = env::var_os("OUT_DIR").ok_or_else(|| missing("OUT_DIR"))?;
    let root = Path::new(&manifest).join("../profiles");
    println!("cargo::rerun-if-changed={}", root.display());

    let mut files = Vec::new();
    if root.is_dir() {
        collect(&root, &mut files)?;
    }
    files.sort();
    let mut text = String::from("pub(crate) static PROFILES: &[(&str, &str)] = &[\n");
    for file in files {
        let relative = file.strip_prefix(&root).map_err(io::Error::other)?;
        let name = relative.to_string_lossy().replace('\\', "/");
        let path = file.canonicalize()?;
        writeln!(text, "    ({name:?}, include_str!({:?})),", path.display())
            .map_err(io::Error::other)?;
    }
    text.push_str("];\n");
    fs::write(Path::new(&out).join("profiles.rs"), text)
}

/// TOML files below `folder`.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            files.push(path);
        }
    }
    Ok(())
}
