//! Live runs: played, or read back from the folder in which an interrupted validation left them.

use std::fs;
use std::path::{Path, PathBuf};

use hw::calibrate::{Measured, Measurer, Plan};
use hw::cpu_time::CpuTime;
use hw::live::{Live, Mismatch, Reference};
use hw::rig::{Options, Outcome, Rig};
use sim::check::Check;
use sim::dispatch::{Dispatcher, Effects};
use sim::drive::{Sink, drive};
use sim::metrics::{Metrics, Summary};
use sim::time::Instant;
use sim::trace::{self, Header, Record, Recorder, Writer, replay};
use sim::world::{LaneId, STAGES_MAX, World};
use validation::live::{Elsewhere, Played, StageTimes, Stale, same_script};

use super::Setup;
use super::engines::{again, engine, live, start};
use crate::failure::{Failure, say};
use crate::options::read;

/// A live run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Play {
    pub(super) run: u32,
    pub(super) repeat: u32,
}

/// Where runs are kept.
#[derive(Debug)]
pub(super) struct Plays {
    folder: Option<PathBuf>,
    /// Engines of the last run: models are loaded once.
    loaded: Option<Live>,
}

/// What live runs depend on.
#[derive(Debug)]
pub(super) struct Head {
    /// The machine and its engines, a line each.
    pub(super) machine: [String; 2],
    /// Scenario and profile.
    pub(super) inputs: String,
}

impl Plays {
    /// A folder for runs of this kind alone.
    pub(super) fn open(out: Option<&Path>, head: &Head) -> Result<Self, Failure> {
        let Some(out) = out else {
            return Ok(Self {
                folder: None,
                loaded: None,
            });
        };
        let folder = out.join("live");
        fs::create_dir_all(&folder).map_err(|error| Failure::write(folder.display(), &error))?;
        let path = folder.join("of.txt");
        let head = format!("{}\n{}", head.machine.join("\n"), head.inputs);
        if !path.exists() {
            fs::write(&path, head).map_err(|error| Failure::write(path.display(), &error))?;
        } else if read(&path)? != head {
            return Err(of_something_else(&folder));
        }
        Ok(Self {
            folder: Some(folder),
            loaded: None,
        })
    }

    /// The runs that a folder holds, played on whatever machine, which is told.
    pub(super) fn kept(out: &Path, head: &Head) -> Result<(Self, String), Failure> {
        let folder = out.join("live");
        let text = read(&folder.join("of.txt"))?;
        let mut lines = text.splitn(head.machine.len() + 1, '\n');
        let host = lines.next().unwrap_or_default().to_owned();
        if lines.nth(head.machine.len() - 1) != Some(head.inputs.as_str()) {
            return Err(of_something_else(&folder));
        }
        let plays = Self {
            folder: Some(folder),
            loaded: None,
        };
        Ok((plays, host))
    }

    /// Whether the folder holds a run.
    pub(super) fn has(&self, world: &World, play: Play) -> bool {
        let paths = self.paths(world, play);
        paths.is_some_and(|paths| paths.iter().all(|path| path.exists()))
    }

    /// Its trace, and what is beside it.
    fn paths(&self, world: &World, play: Play) -> Option<[PathBuf; 2]> {
        let folder = self.folder.as_ref()?;
        let name = format!("{}.{}.{}", file_name(world), play.run, play.repeat);
        Some(["trace.jsonl", "json"].map(|ending| folder.join(format!("{name}.{ending}"))))
    }

    /// Plays a world live, unless it was played already.
    pub(super) fn of(
        &mut self,
        world: &World,
        setup: &Setup,
        play: Play,
        stages: &mut StageTimes<'_>,
    ) -> Result<(Summary, Played), Failure> {
        if let (Some(folder), Some(script)) = (&self.folder, &world.script) {
            same_text(folder, &file_name(world), script.text())?;
        }
        let paths = self.paths(world, play);
        let kept = match &paths {
            Some([trace, beside]) if self.has(world, play) => {
                Some(kept(world, play, trace, beside)?)
            }
            _ => None,
        };
        let (records, beside) = if let Some(kept) = kept {
            kept
        } else {
            say(&format!(
                "live: replication {}, run {}, {}",
                play.run, play.repeat, world.policy
            ));
            let live = match &self.loaded {
                Some(loaded) => again(loaded, world)?,
                None => warm(world, &live(world, setup)?)?,
            };
            let (records, outcome) = run(world, &live, play.run)?;
            let beside = beside(world, &live, &outcome, play)?;
            self.loaded = Some(live);
            if let Some(paths) = &paths {
                keep(world, play, &records, &beside, paths)?;
            }
            (records, beside)
        };
        let mut metrics = Metrics::new(world);
        let mut dispatcher = Dispatcher::new(world);
        // The peak is the scheduler's; the rest is in the trace.
        let replayed = replay(&mut dispatcher, &records).map_err(Failure::Faults)?;
        if let Some(difference) = replayed {
            return Err(Failure::internal(format!(
                "the live trace does not replay: {}",
                difference.tell(&Header::of(world, play.run))
            )));
        }
        feed(&records, &mut (&mut metrics, stages));
        let unmeasured = vec![[0; STAGES_MAX]; world.engines.len()];
        let summary = metrics.summary(dispatcher.peak_kv_bytes(), &unmeasured, None);
        Ok((summary, beside))
    }
}

/// The policy, as names of files have it.
fn file_name(world: &World) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '.';
    world.policy.to_string().replace(|c: char| !plain(c), "_")
}

fn of_something_else(folder: &Path) -> Failure {
    Failure::usage(
        format!("`{}` holds runs of something else", folder.display()),
        "delete it, or give another folder",
    )
}

/// Has loaded engines run each stage, which is not kept.
fn warm(world: &World, live: &Live) -> Result<Live, Failure> {
    let measurer = Measurer::start(
        world,
        live.engines(),
        live.registry(),
        Plan::warm_up(world),
        Measured::default(),
        |_| (),
    );
    let measured = measurer.and_then(Measurer::measure);
    measured.map_err(|error| engine(&error))?;
    again(live, world)
}

fn feed(records: &[(Instant, Record)], sink: &mut impl Sink) {
    for &(at, record) in records {
        match record {
            Record::Input(input) => sink.input(at, &input),
            Record::Effect(effect) => sink.effect(at, &effect),
        }
    }
}

/// Kept runs of a script go on only with the text that they were played with, which is kept beside them.
fn same_text(folder: &Path, policy: &str, text: &str) -> Result<(), Failure> {
    let path = folder.join(format!("{policy}.script"));
    let fail = |error: std::io::Error| Failure::write(path.display(), &error);
    let mut kept = false;
    for entry in fs::read_dir(folder).map_err(fail)? {
        let name = entry.map_err(fail)?.file_name();
        let name = name.to_string_lossy();
        let of_policy = name.strip_prefix(policy);
        let numbers = of_policy.and_then(|rest| rest.strip_suffix(".json"));
        kept |= numbers.is_some_and(|numbers| numbers.starts_with('.'));
    }
    same_script(&path, text, kept).map_err(|stale| match stale {
        Stale::Io(error) => Failure::write(path.display(), &error),
        Stale::Other(says) => Failure::usage(
            format!("`{}`: {says}", path.display()),
            "delete it and the runs of that name to play them again, or give another folder",
        ),
    })
}

type Records = Vec<(Instant, Record)>;

fn kept(
    world: &World,
    play: Play,
    path: &Path,
    beside: &Path,
) -> Result<(Records, Played), Failure> {
    let wrong = |path: &Path, says: String| {
        Failure::usage(
            format!("`{}`: {says}", path.display()),
            "delete it to play that run again",
        )
    };
    let (header, records) =
        trace::read(&read(path)?).map_err(|error| wrong(path, error.to_string()))?;
    if header != Header::of(world, play.run) {
        return Err(wrong(path, "a trace of something else".into()));
    }
    let text = read(beside)?;
    let beside = serde_json::from_str(&text).map_err(|error| wrong(beside, error.to_string()))?;
    Ok((records, beside))
}

fn keep(
    world: &World,
    play: Play,
    records: &Records,
    beside: &Played,
    [path, beside_path]: &[PathBuf; 2],
) -> Result<(), Failure> {
    let fail = |error: std::io::Error| Failure::write(path.display(), &error);
    let mut text = Vec::new();
    let mut writer = Writer::new(&mut text, &Header::of(world, play.run)).map_err(fail)?;
    feed(records, &mut writer);
    writer.finish().map_err(fail)?;
    fs::write(path, text).map_err(fail)?;
    // Comes last: with it, the run counts.
    let text = serde_json::to_string_pretty(beside).map_err(Failure::internal)?;
    fs::write(beside_path, text + "\n")
        .map_err(|error| Failure::write(beside_path.display(), &error))
}

/// Runs live, and checks what must hold of every live run.
fn run(world: &World, live: &Live, run: u32) -> Result<(Records, Outcome), Failure> {
    let options = Options {
        run,
        ..Options::default()
    };
    let mut rig = Rig::start(world, live.engines(), &options).map_err(|error| start(&error))?;
    let mut sink = (Recorder::default(), Check::new(world));
    let mut dispatcher = Dispatcher::new(world);
    let driven = drive(&mut rig, &mut dispatcher, &mut Effects::new(), &mut sink);
    let outcome = rig.shutdown();
    driven.map_err(Failure::Faults)?;
    for failure in &outcome.failures {
        let lane = &world.lanes[failure.lane.0 as usize].name;
        say(&format!("warning: lane {lane} failed: {}", failure.error));
    }
    let (recorder, check) = sink;
    match check.violations().first() {
        Some(violation) => Err(Failure::internal(violation)),
        None => Ok((recorder.records, outcome)),
    }
}

/// What no trace holds; of a replication's first run also whether its answers are the serial reference's.
fn beside(world: &World, live: &Live, outcome: &Outcome, play: Play) -> Result<Played, Failure> {
    let mut beside = Played {
        arrivals_late_s: outcome.arrivals.mean().as_secs_f64(),
        ends_late_s: outcome.ends.mean().as_secs_f64(),
        answers: outcome.answers.len(),
        stolen: outcome.cpu_time.and_then(CpuTime::stolen_share),
        ..Played::default()
    };
    if play.repeat > 0 {
        return Ok(beside);
    }
    beside.checked = outcome.answers.len();
    let differ = tell(
        &mut live.reference(),
        outcome,
        "warning: against the serial reference",
    )?;
    beside.differ = differ.len();
    // Engines that compute differently differ here, and legitimately; it is said, never hidden.
    let mut seen = Vec::new();
    for answer in &outcome.answers {
        let engine = world.engine_of(answer.completion.lane);
        if !seen.contains(&engine) {
            seen.push(engine);
        }
    }
    if seen.len() > 1 {
        for id in seen {
            let lane = world.lanes.iter().position(|lane| lane.engine == id);
            let lane = LaneId(lane.unwrap_or(0) as u8);
            let engine = world.engines[id.0 as usize].name.clone();
            let name = format!("all on `{engine}`");
            let differ = tell(&mut live.reference_on(lane), outcome, &name)?;
            let tokens = differ.iter().map(|answer| answer.at);
            let gaps = differ.iter().map(|answer| f64::from(answer.gap));
            beside.elsewhere.push(Elsewhere {
                engine,
                differ: differ.len(),
                earliest_token: tokens.min(),
                widest_gap: gaps.reduce(f64::max),
            });
        }
    }
    Ok(beside)
}

/// Holds the answers against a reference, and says what differs.
fn tell(
    reference: &mut Reference,
    outcome: &Outcome,
    name: &str,
) -> Result<Vec<Mismatch>, Failure> {
    let differ = reference.check(outcome).map_err(|error| engine(&error))?;
    if let Some(text) = Mismatch::tell(&differ, outcome.answers.len()) {
        say(&format!("{name}: {text}"));
    }
    Ok(differ)
}
