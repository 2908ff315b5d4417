//! Where imported and derived profiles go: all of them, or none.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use profiles::import::Sink;
use tempfile::NamedTempFile;

use crate::failure::{Failure, say};

/// Standard output, a file, or a folder. Files are there under their names only after [`Target::commit`].
pub(crate) struct Target {
    out: Option<PathBuf>,
    folder: bool,
    force: bool,
    /// Files that are being written, each with what it is to be called.
    pending: Vec<(NamedTempFile, PathBuf)>,
    /// Folders that were made for them, inner ones last.
    made: Vec<PathBuf>,
    written: Vec<PathBuf>,
    /// The file that was touched last.
    last: Option<PathBuf>,
}

impl Target {
    pub(crate) fn new(out: Option<&Path>, force: bool) -> Self {
        let is_file = |path: &Path| {
            let named = path
                .extension()
                .is_some_and(|end| end == "toml" || end == "csv");
            path.is_file() || (named && !path.is_dir())
        };
        Self {
            out: out.map(Path::to_owned),
            folder: out.is_some_and(|path| !is_file(path)),
            force,
            pending: Vec::new(),
            made: Vec::new(),
            written: Vec::new(),
            last: None,
        }
    }

    /// What a fault is of.
    pub(crate) fn shown(&self) -> String {
        let out = self.last.as_ref().or(self.out.as_ref());
        out.map_or_else(
            || "standard output".to_owned(),
            |path| path.display().to_string(),
        )
    }

    /// Files that are there.
    pub(crate) fn written(&self) -> &[PathBuf] {
        &self.written
    }

    /// Gives all files their names. Where one cannot have its own, none of the new ones stays.
    pub(crate) fn commit(&mut self) -> io::Result<()> {
        let mut new = Vec::new();
        for (file, path) in std::mem::take(&mut self.pending) {
            self.last = Some(path.clone());
            let there = path.exists();
            let done = if self.force {
                file.persist(&path)
            } else {
                file.persist_noclobber(&path)
            };
            if let Err(error) = done {
                for path in &new {
                    fs::remove_file(path)?;
                }
                self.written.clear();
                return Err(error.error);
            }
            if !there {
                new.push(path.clone());
            }
            self.written.push(path);
        }
        self.made.clear();
        Ok(())
    }

    /// Writes all files or, if one of them is there with other content, none; those that are there as they are stay.
    pub(crate) fn write_all(&mut self, files: &[(String, Vec<u8>)]) -> Result<(), Failure> {
        let mut changed = Vec::new();
        for (name, bytes) in files {
            let path = self.path(name);
            let there = path.as_ref().and_then(|path| fs::read(path).ok());
            match (path, there) {
                (Some(path), Some(there)) if there == *bytes => {
                    say(&format!("unchanged: {}", path.display()));
                }
                (Some(path), Some(_)) if !self.force => {
                    return Err(Failure::usage(
                        format!(
                            "`{}` exists with other content; nothing is written",
                            path.display()
                        ),
                        "add --force to replace it, or give another --out",
                    ));
                }
                _ => changed.push((name, bytes)),
            }
        }
        let write = || {
            for (name, bytes) in changed {
                let mut file = self.create(name)?;
                file.write_all(bytes)?;
                file.flush()?;
            }
            self.commit()
        };
        let written = write();
        written.map_err(|error| Failure::write(self.shown(), &error))
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        let out = self.out.as_ref()?;
        Some(if self.folder {
            out.join(name)
        } else {
            out.clone()
        })
    }

    /// Makes a folder, and remembers what had to be made.
    fn make(&mut self, folder: &Path) -> io::Result<()> {
        let missing: Vec<PathBuf> = folder
            .ancestors()
            .take_while(|path| !path.as_os_str().is_empty() && !path.exists())
            .map(Path::to_owned)
            .collect();
        fs::create_dir_all(folder)?;
        self.made.extend(missing.into_iter().rev());
        Ok(())
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.pending.clear();
        for folder in self.made.iter().rev() {
            // One that holds something by now stays.
            _ = fs::remove_dir(folder);
        }
    }
}

impl Sink for Target {
    fn many(&self) -> bool {
        self.folder
    }

    fn create(&mut self, name: &str) -> io::Result<Box<dyn Write + '_>> {
        let Some(path) = self.path(name) else {
            return Ok(Box::new(BufWriter::new(io::stdout().lock())));
        };
        self.last = Some(path.clone());
        let there = fs::metadata(&path).ok();
        if there.is_some() && !self.force {
            let text = "it exists, so nothing is written; add --force to replace it";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        if there.as_ref().is_some_and(fs::Metadata::is_dir) {
            return Err(io::Error::new(
                io::ErrorKind::IsADirectory,
                "it is a folder",
            ));
        }
        if there.as_ref().is_some_and(|there| !there.is_file()) {
            // A pipe or a device is no file that another could take the place of.
            self.written.push(path.clone());
            return Ok(Box::new(BufWriter::new(File::create(&path)?)));
        }
        // What a link points to is replaced, not the link.
        let path = fs::canonicalize(&path).unwrap_or(path);
        let parent = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new(".")).to_owned();
        if self.pending.iter().any(|(_, pending)| *pending == path) {
            let text = "two results have this name, so nothing is written: import them apart";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        self.make(&parent)?;
        let file = temporary(&parent)?;
        if let Some(there) = there {
            file.as_file().set_permissions(there.permissions())?;
        }
        self.pending.push((file, path));
        match self.pending.last() {
            Some((file, _)) => Ok(Box::new(BufWriter::new(file.as_file()))),
            None => Err(io::Error::other("it was just added")),
        }
    }

    fn discard(&mut self, name: &str) -> io::Result<()> {
        let Some(path) = self.path(name) else {
            // What is on the screen stays there; the exit status says that it is not whole.
            return Ok(());
        };
        let path = fs::canonicalize(&path).unwrap_or(path);
        self.pending.retain(|(_, pending)| *pending != path);
        self.written.retain(|written| *written != path);
        Ok(())
    }
}

/// A file under a name of its own, with the permissions of any other new file.
fn temporary(folder: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".crossinfer-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}

/// Results held back until all of them are there.
#[derive(Default)]
pub(crate) struct Held(pub(crate) Vec<(String, Vec<u8>)>);

impl Sink for Held {
    fn many(&self) -> bool {
        true
    }

    fn create(&mut self, name: &str) -> io::Result<Box<dyn Write + '_>> {
        self.0.push((name.to_owned(), Vec::new()));
        match self.0.last_mut() {
            Some((_, bytes)) => Ok(Box::new(bytes)),
            None => Err(io::Error::other("it was just added")),
        }
    }

    fn discard(&mut self, name: &str) -> io::Result<()> {
        self.0.retain(|(known, _)| known != name);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(target: &mut Target, name: &str, text: &str) -> io::Result<()> {
        let mut file = target.create(name)?;
        file.write_all(text.as_bytes())?;
        file.flush()
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("it is there").flatten();
        let mut names: Vec<String> = entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn all_files_are_written_or_none() {
        let folder = tempfile::tempdir().expect("there is room");
        let out = folder.path();
        fs::write(out.join("b.toml"), "old").expect("it can be written");
        let mut target = Target::new(Some(out), false);
        write(&mut target, "new/a.toml", "a").expect("nothing is in its way");
        let error = write(&mut target, "b.toml", "b").expect_err("it exists");
        assert!(error.to_string().contains("nothing is written"), "{error}");
        assert!(target.shown().ends_with("b.toml") && target.written().is_empty());
        drop(target);
        assert_eq!(names(out), ["b.toml"]);
        // One that comes into being meanwhile takes all back.
        let mut target = Target::new(Some(out), false);
        write(&mut target, "a.toml", "a").expect("nothing is in its way");
        write(&mut target, "c.toml", "c").expect("nothing is in its way");
        assert_eq!(
            names(out)
                .iter()
                .filter(|name| !name.starts_with('.'))
                .count(),
            1
        );
        fs::write(out.join("c.toml"), "another's").expect("it can be written");
        target.commit().expect_err("it exists now");
        drop(target);
        assert_eq!(names(out), ["b.toml", "c.toml"]);
        // With leave to replace, all are there, and as readable as before.
        let mut target = Target::new(Some(out), true);
        for name in ["a.toml", "b.toml", "new/d.toml"] {
            write(&mut target, name, name).expect("it may be replaced");
        }
        write(&mut target, "b.toml", "b").expect_err("two have one name");
        target.commit().expect("nothing is in their way");
        drop(target);
        assert_eq!(names(out), ["a.toml", "b.toml", "c.toml", "new"]);
        assert_eq!(
            fs::read(out.join("b.toml")).expect("it is there"),
            b"b.toml"
        );
        let mode = |name: &str| {
            fs::metadata(out.join(name))
                .expect("it is there")
                .permissions()
        };
        assert_eq!(mode("a.toml"), mode("c.toml"));
    }

    #[test]
    fn what_is_taken_back_is_not_there() {
        let folder = tempfile::tempdir().expect("there is room");
        let mut target = Target::new(Some(folder.path()), false);
        for name in ["a.csv", "b.csv"] {
            write(&mut target, name, name).expect("nothing is in its way");
        }
        target.discard("a.csv").expect("it was written");
        target.commit().expect("nothing is in its way");
        assert_eq!(names(folder.path()), ["b.csv"]);
    }
}
