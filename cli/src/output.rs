//! The folder that results are written to.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use reports::perfetto::Timeline;
use reports::plot::{self, Slices};
use reports::requests::Requests;
use serde_json::{Map, Value, json};
use sim::simulation::Simulation;
use sim::trace::{Header, Writer};
use sim::world::World;

use crate::failure::Failure;

const SUMMARY: &str = "summary.json";
const COMPARISON: &str = "compare.json";
const REQUESTS: &str = "requests.csv";
const TIMELINE: &str = "trace.perfetto.json";
const GANTT: &str = "timeline.svg";
const LATENCY: &str = "latency.svg";
const TRACE: &str = "trace.jsonl";
/// What `run` writes.
pub(crate) const RUN_FILES: [&str; 6] = [SUMMARY, REQUESTS, TIMELINE, GANTT, LATENCY, TRACE];
/// What `compare` writes.
pub(crate) const COMPARE_FILES: [&str; 1] = [COMPARISON];
/// Says which files of a folder crossinfer wrote, and what they were then.
const MARKER: &str = "crossinfer-out.json";

/// A folder for results.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// By name, what each file held when it was written, this time or earlier.
    listed: Map<String, Value>,
    /// What was written this time.
    written: Vec<&'static str>,
}

impl Folder {
    /// Makes the folder for `files`, unless it holds what is not ours, and clears the way for them.
    ///
    /// A file is ours if the marker lists it and it has not changed since. Only such are deleted, and of
    /// them only `files`: an earlier result must not be taken for this one's.
    pub(crate) fn open(path: &Path, files: &[&str], force: bool) -> Result<Self, Failure> {
        fs::create_dir_all(path).map_err(|error| Failure::write(path.display(), &error))?;
        let mut folder = Self {
            path: path.to_owned(),
            listed: marker(path),
            written: Vec::new(),
        };
        let entries = fs::read_dir(path).map_err(|error| Failure::write(path.display(), &error))?;
        let mut names: Vec<String> = entries
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| name != MARKER)
            .collect();
        names.sort();
        for name in names.iter().filter(|_| !force) {
            let Some(then) = folder.listed.get(name) else {
                return Err(Failure::usage(
                    format!(
                        "`{}` holds `{name}`, which crossinfer did not write",
                        path.display()
                    ),
                    "choose another folder, or add --force",
                ));
            };
            if files.contains(&name.as_str())
                && content(&path.join(name)).ok().as_ref() != Some(then)
            {
                return Err(Failure::usage(
                    format!(
                        "`{}` has changed since crossinfer wrote it",
                        path.join(name).display()
                    ),
                    "choose another folder, or add --force to lose the changes",
                ));
            }
        }
        for name in files {
            let Some(then) = folder.listed.shift_remove(*name) else {
                continue;
            };
            let file = path.join(name);
            if content(&file).is_ok_and(|now| now == then) {
                fs::remove_file(file).map_err(|error| folder.failed(name, &error))?;
            }
        }
        Ok(folder)
    }

    /// Writes everything about a configuration; all but the summary are of the first replication.
    pub(crate) fn write(
        &mut self,
        world: &World,
        summary: &Value,
        trace: bool,
    ) -> Result<(), Failure> {
        self.json(SUMMARY, summary)?;
        let this = &*self;
        let failed = |name: &'static str| move |error: io::Error| this.failed(name, &error);
        let mut rows = Requests::new(world, self.create(REQUESTS)?).map_err(failed(REQUESTS))?;
        let mut timeline =
            Timeline::new(world, self.create(TIMELINE)?).map_err(failed(TIMELINE))?;
        let mut slices = Slices::new(world);
        let mut writer = if trace {
            let header = Header::of(world, 0);
            Some(Writer::new(self.create(TRACE)?, &header).map_err(failed(TRACE))?)
        } else {
            None
        };
        let mut simulation = Simulation::new(world);
        let mut sinks = (&mut rows, (&mut timeline, &mut slices));
        let metrics = match &mut writer {
            Some(writer) => simulation.run_into(0, &mut (writer, &mut sinks)),
            None => simulation.run_into(0, &mut sinks),
        };
        let gantt = plot::timeline(world, &slices).map_err(Failure::internal)?;
        let latency = plot::latencies(world, metrics).map_err(Failure::internal)?;
        rows.finish().map_err(failed(REQUESTS))?;
        timeline.finish().map_err(failed(TIMELINE))?;
        if let Some(writer) = writer {
            writer.finish().map_err(failed(TRACE))?;
        }
        self.text(GANTT, &gantt)?;
        self.text(LATENCY, &latency)?;
        self.list(if trace { &RUN_FILES } else { &RUN_FILES[..5] })
    }

    /// Writes a comparison.
    pub(crate) fn comparison(&mut self, document: &Value) -> Result<(), Failure> {
        self.json(COMPARISON, document)?;
        self.list(&COMPARE_FILES)
    }

    /// What was written, in a line.
    pub(crate) fn contents(&self) -> String {
        format!(
            "wrote {} to {}",
            self.written.join(", "),
            self.path.display()
        )
    }

    /// Lists files that were written in the marker.
    fn list(&mut self, files: &[&'static str]) -> Result<(), Failure> {
        for name in files {
            let now = content(&self.path.join(name)).map_err(|error| self.failed(name, &error))?;
            self.listed.insert((*name).to_owned(), now);
            self.written.push(name);
        }
        let marker = json!({
            "tool": "crossinfer",
            "note": "files here that crossinfer wrote, and may replace while they are unchanged",
            "files": self.listed,
        });
        self.json(MARKER, &marker)
    }

    fn json(&self, name: &str, value: &Value) -> Result<(), Failure> {
        self.text(name, &format!("{value:#}\n"))
    }

    fn text(&self, name: &str, text: &str) -> Result<(), Failure> {
        let mut file = self.create(name)?;
        file.write_all(text.as_bytes())
            .and_then(|()| file.flush())
            .map_err(|error| self.failed(name, &error))
    }

    fn create(&self, name: &str) -> Result<BufWriter<File>, Failure> {
        let file = File::create(self.path.join(name));
        file.map(BufWriter::new)
            .map_err(|error| self.failed(name, &error))
    }

    fn failed(&self, name: &str, error: &io::Error) -> Failure {
        Failure::write(self.path.join(name).display(), error)
    }
}

/// What the marker of a folder lists; nothing where there is none.
fn marker(path: &Path) -> Map<String, Value> {
    let text = fs::read(path.join(MARKER)).unwrap_or_default();
    match serde_json::from_slice::<Value>(&text) {
        Ok(Value::Object(mut marker)) => match marker.remove("files") {
            Some(Value::Object(files)) => files,
            _ => Map::new(),
        },
        _ => Map::new(),
    }
}

/// Size and hash (FNV-1a, 64 bits) of a file.
fn content(path: &Path) -> io::Result<Value> {
    let mut file = File::open(path)?;
    let (mut bytes, mut hash) = (0_u64, 0xcbf2_9ce4_8422_2325_u64);
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(json!({ "bytes": bytes, "fnv1a": format!("{hash:016x}") }));
        }
        bytes += count as u64;
        for &byte in &buffer[..count] {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
