//! The folder that results are written to.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use reports::perfetto::Timeline;
use reports::plot::{self, Slices};
use reports::requests::Requests;
use serde_json::Value;
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
/// Every file that is ever written.
const OURS: [&str; 7] = [
    SUMMARY, COMPARISON, REQUESTS, TIMELINE, GANTT, LATENCY, TRACE,
];

/// A folder for results.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes the folder, unless it holds what is not ours.
    pub(crate) fn open(path: &Path, force: bool) -> Result<Self, Failure> {
        let folder = Self {
            path: path.to_owned(),
        };
        fs::create_dir_all(path).map_err(|error| Failure::write(path.display(), &error))?;
        let entries = fs::read_dir(path).map_err(|error| Failure::write(path.display(), &error))?;
        let mut foreign: Vec<String> = entries
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| !OURS.contains(&name.as_str()))
            .collect();
        foreign.sort();
        if let Some(first) = foreign.first()
            && !force
        {
            return Err(Failure::usage(
                format!(
                    "`{}` holds `{first}`, which crossinfer did not write",
                    path.display()
                ),
                "choose another folder, or add --force",
            ));
        }
        // What an earlier run left must not be taken for this one's.
        for name in OURS {
            match fs::remove_file(folder.path.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(folder.failed(name, &error));
                }
                _ => {}
            }
        }
        Ok(folder)
    }

    /// Writes everything about a configuration; all but the summary are of the first replication.
    pub(crate) fn write(&self, world: &World, summary: &Value, trace: bool) -> Result<(), Failure> {
        self.json(SUMMARY, summary)?;
        let failed = |name: &'static str| move |error: io::Error| self.failed(name, &error);
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
        self.text(LATENCY, &latency)
    }

    /// Writes a comparison.
    pub(crate) fn comparison(&self, document: &Value) -> Result<(), Failure> {
        self.json(COMPARISON, document)
    }

    /// What was written, in a line.
    pub(crate) fn contents(&self) -> String {
        let names: Vec<&str> = OURS
            .into_iter()
            .filter(|name| self.path.join(name).is_file())
            .collect();
        format!("wrote {} to {}", names.join(", "), self.path.display())
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
