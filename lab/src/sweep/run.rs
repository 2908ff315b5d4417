//! Runs what is missing of a sweep, and writes its results.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::journal::{self, Header, Journal, Shard, failed, seal, unseal};
use super::plan::Plan;
use super::row::{Column, Type, measured_columns};
use super::study::Study;
use super::{Error, table};

/// What a sweep or a merge came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Cells.
    pub cells: u64,
    /// Of these, found in the journal.
    pub found: u64,
    /// Lines of the journal whose checksum was wrong; their cells were run again.
    pub damaged: u64,
    /// Cells that are no valid scenario.
    pub failed: u64,
    /// Why the first of them is none.
    pub why: Option<String>,
}

/// Runs the cells of a shard that its folder's journal lacks, on the threads of the current pool, then
/// writes `results.csv` and `results.parquet`. `salt` is what results depend on beside the files and the plan;
/// `started` hears how many cells are missing, `ended` of each that is done.
///
/// # Errors
///
/// A folder that holds something else, one that cannot be written, or keys that no cell can have.
pub fn run(
    plan: &Plan,
    study: &Study<'_>,
    folder: &Path,
    shard: Shard,
    salt: &str,
    (started, ended): (&(dyn Fn(u64) + Sync), &(dyn Fn() + Sync)),
) -> Result<Outcome, Error> {
    try_some(plan, study)?;
    let mut columns = vec![Column::new("cell", Type::Int)];
    columns.extend(plan.columns());
    columns.extend(measured_columns());
    let mut depends = vec![env!("CARGO_PKG_VERSION"), salt];
    depends.extend(study.sources());
    let header = Header {
        plan: plan.hash(&depends),
        shard,
        cells: plan.cells(),
        columns,
    };
    let journal = Journal::open(folder, header)?;
    let (found, damaged) = (journal.rows, journal.damaged);
    let missing = Mutex::new(journal.missing()?);
    started(journal.header.own() - found);
    let journal = Mutex::new(journal);
    let stopped: Mutex<Option<Error>> = Mutex::new(None);
    rayon::broadcast(|_| {
        loop {
            if lock(&stopped).is_some() {
                return;
            }
            let next = lock(&missing).next();
            let done = match next {
                None => return,
                Some(Ok(cell)) => {
                    let line = seal(&study.row(plan, cell));
                    lock(&journal).append(&line)
                }
                Some(Err(source)) => Err(failed(folder, "read", source)),
            };
            match done {
                Ok(()) => ended(),
                Err(error) => {
                    lock(&stopped).get_or_insert(error);
                }
            }
        }
    });
    if let Some(error) = lock(&stopped).take() {
        return Err(error);
    }
    let journal = journal
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    finish(&journal, folder, found, damaged)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Refuses a plan of which neither the first, the middle nor the last cell is a scenario: a key is wrong.
fn try_some(plan: &Plan, study: &Study<'_>) -> Result<(), Error> {
    let last = plan.cells() - 1;
    let mut first = None;
    for cell in [0, last / 2, last] {
        match study.world(plan.axes(), &plan.values(cell)) {
            Ok(_) => return Ok(()),
            Err(message) => first.get_or_insert(message),
        };
    }
    Err(Error::asked(
        first.unwrap_or_default(),
        "neither the first, the middle nor the last cell is a valid scenario: see the keys and their values",
    ))
}

/// Joins the journals of all shards in `folder`, and writes the results as one run would have.
///
/// # Errors
///
/// Shards of different sweeps, missing or unfinished ones, or a folder that cannot be written.
pub fn merge(shards: &[PathBuf], folder: &Path) -> Result<Outcome, Error> {
    let headers = shards.iter().map(|shard| Ok(journal::read(shard)?.0));
    let headers: Vec<Header> = headers.collect::<Result<_, Error>>()?;
    let mut whole = Journal::open(folder, journal::whole(&headers)?)?;
    let mut damaged = 0;
    for (shard, header) in shards.iter().zip(&headers) {
        let path = shard.join(journal::JOURNAL);
        let mut has = 0;
        for line in journal::read(shard)?.1 {
            let line = line.map_err(|source| failed(&path, "read", source))?;
            if unseal(&line).is_none() {
                damaged += 1;
                continue;
            }
            has += 1;
            // An earlier merge may have been interrupted.
            if whole.lacks(&line)? {
                whole.append(&line)?;
            }
        }
        let needs = header.own();
        if has < needs {
            return Err(Error::asked(
                format!("`{}` has {has} of its {needs} cells", shard.display()),
                "run that shard again: it goes on where it ended",
            ));
        }
    }
    if whole.rows < whole.header.own() {
        return Err(Error::asked(
            "some cells are in no shard",
            "run the shards again: each goes on where it ended",
        ));
    }
    let found = whole.rows;
    finish(&whole, folder, found, damaged)
}

fn finish(journal: &Journal, folder: &Path, found: u64, damaged: u64) -> Result<Outcome, Error> {
    let failures = table::write(journal, folder)?;
    Ok(Outcome {
        cells: journal.header.own(),
        found,
        damaged,
        failed: failures.count,
        why: failures.first,
    })
}
