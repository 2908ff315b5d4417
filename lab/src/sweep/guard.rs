//! A sweep writes over nothing that it did not write.
//!
//! A journal that is there says whose folder it is. Results are the same bytes whenever the same sweep writes them,
//! so what is other than that is somebody else's, or was changed.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use super::Error;
use super::journal::{INDEX, JOURNAL, failed};
use super::table::{CSV, PARQUET, part};

/// Makes a folder for a sweep, or sees that one without a journal holds no file that the sweep would write.
pub(super) fn folder(folder: &Path) -> Result<(), Error> {
    if folder.is_file() {
        return Err(Error::asked(
            format!("`{}` is a file", folder.display()),
            "give a folder; it is made if missing",
        ));
    }
    fs::create_dir_all(folder).map_err(|source| failed(folder, "made", source))?;
    let journal = folder.join(JOURNAL);
    match fs::symlink_metadata(&journal) {
        // Even if it is empty: results are compared before they are replaced.
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(source) => return Err(failed(&journal, "read", source)),
    }
    let results = [CSV, PARQUET].map(|name| folder.join(name));
    let mut others = results.to_vec();
    others.extend(results.iter().map(|path| part(path)));
    others.push(folder.join(INDEX));
    match others
        .iter()
        .find(|path| fs::symlink_metadata(path).is_ok())
    {
        None => Ok(()),
        Some(path) => Err(Error::asked(
            format!(
                "`{}` is there without the journal of a sweep: it would be written over",
                path.display()
            ),
            "give another folder, or move the file away",
        )),
    }
}

/// Puts each new file in the place of the older one, unless one of those holds something else: then none.
pub(super) fn replace(files: &[(&Path, &Path)]) -> Result<(), Error> {
    for (new, old) in files {
        let same = same(new, old).map_err(|source| failed(old, "read", source))?;
        if !same {
            for (new, _) in files {
                // It is made anew of the journal whenever that is asked for.
                _ = fs::remove_file(new);
            }
            return Err(Error::asked(
                format!(
                    "`{}` is not what this sweep writes: it is another file, or was changed",
                    old.display()
                ),
                "move it away and give the command again: the rows are in the journal",
            ));
        }
    }
    for (new, old) in files {
        fs::rename(new, old).map_err(|source| failed(old, "written", source))?;
    }
    Ok(())
}

/// Whether two files hold the same, or the second is missing.
fn same(new: &Path, old: &Path) -> io::Result<bool> {
    let old = match File::open(old) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        old => old?,
    };
    let new = File::open(new)?;
    if new.metadata()?.len() != old.metadata()?.len() {
        return Ok(false);
    }
    let (mut new, mut old) = (BufReader::new(new), BufReader::new(old));
    loop {
        let (left, right) = (new.fill_buf()?, old.fill_buf()?);
        let count = left.len().min(right.len());
        if count == 0 {
            return Ok(left.len() == right.len());
        }
        if left[..count] != right[..count] {
            return Ok(false);
        }
        new.consume(count);
        old.consume(count);
    }
}
