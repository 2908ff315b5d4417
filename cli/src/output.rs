//! The folder that results are written to.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use reports::decision::{choices, decision_map};
use reports::detail::{Detail, Recorder, Reproduce, Run};
use reports::perfetto::Timeline;
use reports::plot::{self, Plot, distributions};
use reports::requests::Requests;
use reports::table;
use serde_json::{Map, Value, json};
use sim::drive::Sink;
use sim::simulation::{Pace, Simulation};
use sim::time::{Duration, Instant};
use sim::trace::{Header, Writer};
use sim::world::World;

use crate::failure::{Failure, say};

const SUMMARY: &str = "summary.json";
const COMPARISON: &str = "compare.json";
const COMPARE_DETAIL: &str = "compare-detail.json";
const COMPARE_TTFT: &str = "compare-ttft.svg";
const COMPARE_COMPLETION: &str = "compare-completion.svg";
const REQUESTS: &str = "requests.csv";
const TIMELINE: &str = "trace.perfetto.json";
const DETAIL: &str = "detail.json";
const GANTT: &str = "timeline.svg";
const GANTT_PNG: &str = "timeline.png";
const DECISION: &str = "decision.svg";
const TTFT: &str = "ttft.svg";
const COMPLETION: &str = "completion.svg";
const TRACE: &str = "trace.jsonl";
/// What `run` writes.
pub(crate) const RUN_FILES: [&str; 10] = [
    SUMMARY, DETAIL, REQUESTS, TIMELINE, GANTT, GANTT_PNG, TTFT, COMPLETION, DECISION, TRACE,
];
/// What `compare` writes.
pub(crate) const COMPARE_FILES: [&str; 4] =
    [COMPARISON, COMPARE_DETAIL, COMPARE_TTFT, COMPARE_COMPLETION];
/// Stages and requests that `detail.json` keeps one by one, of all policies together.
const ROWS: usize = 20_000;
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
            .filter(|name| name != MARKER && !is_report(&path.join(name)))
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

    /// A folder that holds other things too, where `files` may be written: none of them is there but as crossinfer
    /// wrote it.
    pub(crate) fn among(path: &Path, files: &[&str]) -> Result<Self, Failure> {
        let listed = marker(path);
        for name in files {
            let file = path.join(name);
            let ours = || {
                let now = content(&file).ok();
                now.is_some() && now.as_ref() == listed.get(*name)
            };
            if file.exists() && !ours() {
                return Err(Failure::usage(
                    format!(
                        "`{}` is not as crossinfer wrote it, or another's: it would be written over",
                        file.display()
                    ),
                    "give another folder, or move the file away",
                ));
            }
        }
        Ok(Self {
            path: path.to_owned(),
            listed,
            written: Vec::new(),
        })
    }

    /// Writes one of the files of [`among`](Self::among).
    pub(crate) fn put(&mut self, name: &'static str, bytes: &[u8]) -> Result<(), Failure> {
        self.bytes(name, bytes)?;
        self.list(&[name])
    }

    /// Writes everything about a configuration; all but the summary are of the first replication. What holds
    /// every event of it is written as asked for: the `timeline` for Perfetto, and the `trace` for replay. `window`:
    /// what timeline.svg shows, s.
    pub(crate) fn write(
        &mut self,
        world: &World,
        summary: &Value,
        reproduce: Reproduce,
        (timeline, trace): (bool, bool),
        window: Option<(f64, f64)>,
    ) -> Result<(), Failure> {
        self.json(SUMMARY, summary)?;
        let this = &*self;
        let failed = |name: &'static str| move |error: io::Error| this.failed(name, &error);
        let mut rows = Requests::new(world, self.create(REQUESTS)?).map_err(failed(REQUESTS))?;
        let mut drawn = if timeline {
            Some(Timeline::new(world, self.create(TIMELINE)?).map_err(failed(TIMELINE))?)
        } else {
            None
        };
        let mut writer = if trace {
            let header = Header::of(world, 0);
            Some(Writer::new(self.create(TRACE)?, &header).map_err(failed(TRACE))?)
        } else {
            None
        };
        let run = first_replication(world, ROWS, &mut (&mut rows, (&mut drawn, &mut writer)))?;
        rows.finish().map_err(failed(REQUESTS))?;
        if let Some(drawn) = drawn {
            drawn.finish().map_err(failed(TIMELINE))?;
        }
        if let Some(writer) = writer {
            writer.finish().map_err(failed(TRACE))?;
        }
        let mut detail = Detail::of(world, reproduce);
        detail.runs.push(run);
        self.detail(DETAIL, &detail)?;
        let window = window.map(|(from, to)| [from, to].map(Duration::from_secs_f64));
        let window = window.map(|ends| ends.map(|end| Instant::ZERO + end));
        // What is late in a long run has no row in its detail.
        let part = match window {
            Some([from, to]) => Some(played(world, ROWS, &mut (), Some((from, to)))?),
            None => None,
        };
        let shown = part.as_ref().unwrap_or(&detail.runs[0]);
        let window = window.map(|[from, to]| (from.0, to.0));
        let gantt = plot::Timeline::new(&detail, shown, &world.title, window);
        self.text(GANTT, &plot::svg(&gantt).map_err(Failure::internal)?)?;
        let png = png(GANTT_PNG, &gantt)?;
        self.bytes(GANTT_PNG, &png)?;
        self.plot(TTFT, &distributions(&detail.runs, false))?;
        self.plot(COMPLETION, &distributions(&detail.runs, true))?;
        if let Some(map) = decision_map(&detail, &detail.runs[0]) {
            self.plot(DECISION, &map)?;
        }
        let mut written = RUN_FILES.to_vec();
        written.retain(|name| match *name {
            TIMELINE => timeline,
            TRACE => trace,
            DECISION => detail.runs[0].choices.is_some(),
            _ => true,
        });
        self.list(&written)
    }

    /// Writes a comparison, with the first replication of each world in detail.
    pub(crate) fn comparison(
        &mut self,
        document: &Value,
        worlds: &[World],
        reproduce: Reproduce,
    ) -> Result<(), Failure> {
        self.json(COMPARISON, document)?;
        if let Some(first) = worlds.first() {
            let mut detail = Detail::of(first, reproduce);
            let rows = ROWS / worlds.len();
            let runs = worlds
                .iter()
                .map(|world| first_replication(world, rows, &mut ()));
            detail.runs = runs.collect::<Result<_, _>>()?;
            self.detail(COMPARE_DETAIL, &detail)?;
            self.plot(COMPARE_TTFT, &distributions(&detail.runs, false))?;
            self.plot(COMPARE_COMPLETION, &distributions(&detail.runs, true))?;
        }
        self.list(&COMPARE_FILES)
    }

    fn plot(&self, name: &str, plot: &impl Plot) -> Result<(), Failure> {
        self.text(name, &plot::svg(plot).map_err(Failure::internal)?)
    }

    fn detail(&self, name: &str, detail: &Detail) -> Result<(), Failure> {
        let mut file = self.create(name)?;
        serde_json::to_writer(&mut file, detail)
            .map_err(io::Error::from)
            .and_then(|()| file.write_all(b"\n"))
            .and_then(|()| file.flush())
            .map_err(|error| self.failed(name, &error))
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
        self.bytes(name, text.as_bytes())
    }

    fn bytes(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let mut file = self.create(name)?;
        file.write_all(bytes)
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

/// A plot as a PNG file; says what it cannot show.
pub(crate) fn png(name: &str, plot: &impl Plot) -> Result<Vec<u8>, Failure> {
    let missing = plot::without_glyph(plot).map_err(Failure::internal)?;
    if !missing.is_empty() {
        let letters: Vec<String> = missing.iter().take(10).map(char::to_string).collect();
        let more = if missing.len() > 10 { ", …" } else { "" };
        say(&format!(
            "note: the font of `{name}` has no glyph for {}{more} and shows boxes; an SVG leaves them to the viewer's fonts",
            letters.join(", ")
        ));
    }
    plot::png(plot).map_err(Failure::internal)
}

/// A world's first replication in letters.
pub(crate) fn sketch(world: &World) -> Result<String, Failure> {
    let detail = Detail::of(world, Reproduce::default());
    Ok(table::sketch(
        &detail,
        &first_replication(world, 0, &mut ())?,
    ))
}

/// Simulates a world's first replication in detail, showing it to `sink` too.
fn first_replication(world: &World, rows: usize, sink: &mut impl Sink) -> Result<Run, Failure> {
    played(world, rows, sink, None)
}

/// The same, with rows for the stages of a part of it alone.
fn played(
    world: &World,
    rows: usize,
    sink: &mut impl Sink,
    window: Option<(Instant, Instant)>,
) -> Result<Run, Failure> {
    let pace = Pace::default();
    let mut recorder = Recorder::new(world, Some(&pace), rows);
    if let Some(window) = window {
        recorder = recorder.within(window);
    }
    let mut simulation = Simulation::new(world);
    simulation
        .run_watched(0, &pace, &mut (&mut recorder, sink))
        .map_err(Failure::Faults)?;
    Ok(Run {
        choices: choices(world).map_err(Failure::Faults)?,
        ..recorder.finish(simulation.metrics())
    })
}

/// Whether a file is a page that `crossinfer report` made of earlier results: it stays.
fn is_report(path: &Path) -> bool {
    let html = path
        .extension()
        .is_some_and(|extension| extension == "html");
    html && fs::read(path).is_ok_and(|text| reports::html::is_page(&String::from_utf8_lossy(&text)))
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
