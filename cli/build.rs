//! Embeds profiles, scenarios and fits, so that an installed command works without the repository.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let missing = |name: &str| io::Error::other(format!("{name} is not set"));
    let manifest =
        env::var_os("CARGO_MANIFEST_DIR").ok_or_else(|| missing("CARGO_MANIFEST_DIR"))?;
    let out = env::var_os("OUT_DIR").ok_or_else(|| missing("OUT_DIR"))?;
    let root = Path::new(&manifest).join("..");
    let folders = [
        ("PROFILES", root.join("profiles")),
        ("SCENARIOS", root.join("scenarios")),
        ("FITS", root.join("validation/fits")),
    ];
    let mut text = String::new();
    for (name, folder) in folders {
        println!("cargo::rerun-if-changed={}", folder.display());
        let mut files = Vec::new();
        if folder.is_dir() {
            collect(&folder, &mut files)?;
            // Starters lie beside the published ones, and all fits in one folder.
            if name != "PROFILES" {
                collect_here(&folder, &mut files)?;
            }
        }
        files.sort();
        writeln!(text, "pub(crate) static {name}: &[(&str, &str)] = &[")
            .map_err(io::Error::other)?;
        for file in files {
            let relative = file.strip_prefix(&folder).map_err(io::Error::other)?;
            let key = relative.to_string_lossy().replace('\\', "/");
            let path = file.canonicalize()?;
            writeln!(text, "    ({key:?}, include_str!({:?})),", path.display())
                .map_err(io::Error::other)?;
        }
        text.push_str("];\n");
    }
    fs::write(Path::new(&out).join("profiles.rs"), text)
}

/// `<folder>/<file>.toml` below the root: the profiles, and nothing of the crate that lies beside them.
fn collect(root: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(root)? {
        let folder = entry?.path();
        // A scenario with a script needs that beside it on the disk.
        if folder.is_dir() && !folder.ends_with("scenarios/policies") {
            println!("cargo::rerun-if-changed={}", folder.display());
            collect_here(&folder, files)?;
        }
    }
    Ok(())
}

/// `<file>.toml` in a folder.
fn collect_here(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let toml = |ending| ending == "toml";
        if path.is_file() && path.extension().is_some_and(toml) {
            files.push(path);
        }
    }
    Ok(())
}
