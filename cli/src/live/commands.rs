//! `calibrate` and `validate live`: files, progress and what is printed. The work is `hw`'s and
//! `validation`'s.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use hw::calibrate::profile::{Profile, Provenance, profile};
use hw::calibrate::{Event, Measured, Measurer, Plan, journal};
use hw::engine::EngineError;
use hw::live::{Live, LiveOptions, Mismatch, Models, Reference, SetupError};
use hw::rig::{Options as RigOptions, Outcome, Rig, StartError};
use indicatif::{ProgressBar, ProgressStyle};
use sim::check::Check;
use sim::dispatch::{Dispatcher, Effects};
use sim::drive::drive;
use sim::load::{Inputs, Kind, Library, Source};
use sim::metrics::{Metrics, Summary};
use sim::soc::Soc;
use sim::trace::{Header, Recorder, replay};
use sim::world::{LaneId, STAGES_MAX, World};
use validation::live::{Bound, Pair, StageTimes, compare};

use super::Setup;
use crate::failure::{Failure, print, say};
use crate::library::{Disk, Profiles};
use crate::options::{inputs, read, with_policy};
use crate::{calibrate as calibrate_args, validate_live};

pub(crate) fn calibrate(arguments: &calibrate_args::Arguments) -> Result<(), Failure> {
    let world = inputs(&arguments.scenario)?
        .world()
        .map_err(Failure::Faults)?;
    let plan = if arguments.thorough {
        Plan::thorough()
    } else {
        Plan::quick()
    };
    let out = &arguments.out;
    let folder = out.join("profiles").join(&world.soc_key);
    fs::create_dir_all(&folder).map_err(|error| Failure::write(folder.display(), &error))?;
    let samples = out.join("samples.tsv");
    let setup = &arguments.setup;
    let profile = measure(&arguments.scenario, &world, setup, plan, Some(&samples))?;
    let write = |name: String, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| Failure::write(path.display(), &error))?;
        say(&format!("wrote {}", path.display()));
        Ok(())
    };
    write("soc.toml".into(), &profile.soc)?;
    write(format!("{}.toml", world.model_key), &profile.costs)?;
    print(&validation::live::text::quality(&quality_rows(&profile)))
}

fn quality_rows(profile: &Profile) -> Vec<validation::live::text::QualityRow> {
    profile
        .quality
        .iter()
        .map(|quality| {
            let worst = |errors: &[f64]| errors.iter().map(|error| error.abs()).fold(0.0, f64::max);
            validation::live::text::QualityRow {
                engine: quality.engine.clone(),
                stage: hw::calibrate::profile::kind_name(quality.kind).to_owned(),
                points: quality.fit.points,
                samples: quality.samples,
                cv: quality.cv,
                worst: worst(&quality.fit.residuals),
                left_out: (!quality.fit.left_out.is_empty()).then(|| worst(&quality.fit.left_out)),
            }
        })
        .collect()
}

/// Measures a world's lanes; samples go to, and come from, a file.
fn measure(
    scenario: &Path,
    world: &World,
    setup: &Setup,
    plan: Plan,
    samples: Option<&Path>,
) -> Result<Profile, Failure> {
    let live = live(world, setup)?;
    let provenance = provenance();
    // Samples of another plan, machine or build are not mixed.
    let head = format!(
        "# {} {} {} {} {plan:?}",
        world.soc_key, world.model_key, provenance.host, provenance.versions
    );
    let earlier = samples.map_or(Ok(Measured::default()), |path| earlier(path, &head))?;
    let mut file = samples.map(|path| open(path, &head)).transpose()?;
    let bar = bar()?;
    let listener = |event: &Event| match event {
        Event::Part { what, number, of } => {
            bar.set_length(u64::from(*of));
            bar.set_position(u64::from(*number - 1));
            bar.set_message(what.clone());
        }
        Event::Sample { point, timed } => {
            bar.tick();
            if let Some(file) = &mut file {
                // If the disk is full, the measurement goes on and is not resumable.
                _ = writeln!(file, "{}", journal::line(point, timed));
            }
        }
    };
    let load = load_average();
    let measurer = Measurer::start(
        world,
        live.engines(),
        live.registry(),
        plan,
        earlier,
        listener,
    )
    .map_err(|error| engine(&error))?;
    let measured = measurer.measure().map_err(|error| engine(&error))?;
    bar.finish_and_clear();
    warn(&measured, load);
    let library = Profiles::beside(scenario);
    let soc = library.soc(&world.soc_key).ok_or_else(|| {
        Failure::usage(
            format!(
                "the profile of `{}` was not found by its key",
                world.soc_key
            ),
            "put it into a `profiles` folder beside the scenario",
        )
    })?;
    profile(world, &measured, &soc.text, &provenance).map_err(Failure::internal)
}

fn earlier(path: &Path, head: &str) -> Result<Measured, Failure> {
    if !path.exists() {
        return Ok(Measured::default());
    }
    let text = read(path)?;
    if text.lines().next() != Some(head) {
        return Err(Failure::usage(
            format!("`{}` holds samples of another calibration", path.display()),
            "delete it, or give another folder",
        ));
    }
    let measured = journal::read(&text).map_err(|line| {
        Failure::usage(
            format!("`{}`: line {line} is no sample", path.display()),
            "delete the file to measure again",
        )
    })?;
    say(&format!("going on with the samples of {}", path.display()));
    Ok(measured)
}

fn open(path: &Path, head: &str) -> Result<File, Failure> {
    let fail = |error: std::io::Error| Failure::write(path.display(), &error);
    let fresh = !path.exists();
    let options = File::options().append(true).create(true).open(path);
    let mut file = options.map_err(fail)?;
    if fresh {
        writeln!(file, "{head}").map_err(fail)?;
    }
    Ok(file)
}

fn bar() -> Result<ProgressBar, Failure> {
    let style = "{spinner} {pos} of {len}: {msg} {wide_bar} {elapsed}";
    let style = ProgressStyle::with_template(style).map_err(Failure::internal)?;
    Ok(ProgressBar::new(1).with_style(style))
}

/// Says what may have spoilt a measurement.
fn warn(measured: &Measured, load: Option<f64>) {
    let (disturbed, known) = measured.disturbed();
    if disturbed * 20 > known {
        say(&format!(
            "warning: in {disturbed} of {known} samples the lane's thread had to wait for its core: other software is running, and the profile is slower than the machine"
        ));
    }
    if let Some(load) = load.filter(|&load| load > 0.5) {
        say(&format!("warning: load average before it began: {load}"));
    }
}

fn load_average() -> Option<f64> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

fn provenance() -> Provenance {
    let host = hw::devices::find().into_iter().next();
    Provenance {
        date: jiff::Timestamp::now().strftime("%-d %B %Y").to_string(),
        host: host.map_or_else(String::new, |host| host.says),
        versions: format!("{}, {}", hw::llama::BINDINGS, hw::onnx::BINDINGS),
    }
}

fn live(world: &World, setup: &Setup) -> Result<Live, Failure> {
    let cached = Models::cached();
    let language = setup.language.clone();
    let language = language.or_else(|| cached.as_ref().map(|models| models.language.clone()));
    let language = language.ok_or_else(|| {
        Failure::usage(
            "no language model is given",
            "give --language FILE, or run hw/models/fetch",
        )
    })?;
    let models = Models {
        language,
        vision: setup
            .vision
            .clone()
            .or_else(|| cached.as_ref().and_then(|models| models.vision.clone())),
        onnx_runtime: cached.and_then(|models| models.onnx_runtime),
    };
    let options = LiveOptions {
        context_tokens: setup.context.unwrap_or(0),
        chunk: setup.chunk,
        devices: setup.device.iter().cloned().collect(),
        frames: setup.frames.clone(),
    };
    Live::new(world, models, options).map_err(setup)
}

fn setup(error: SetupError) -> Failure {
    Failure::usage(error.to_string(), "`crossinfer devices` lists what is here")
}

fn engine(error: &EngineError) -> Failure {
    Failure::internal(error)
}

fn start(error: &StartError) -> Failure {
    let cause = std::error::Error::source(error);
    let cause = cause.map_or_else(String::new, |cause| format!(": {cause}"));
    Failure::usage(
        format!("{error}{cause}"),
        "`crossinfer devices` lists what is here",
    )
}

/// Profiles with a calibrated one in front.
#[derive(Debug)]
struct Calibrated {
    base: Profiles,
    keys: (String, String),
    soc: Source,
    costs: Source,
}

impl Library for Calibrated {
    fn soc(&self, key: &str) -> Option<Source> {
        if key == self.keys.0 {
            Some(self.soc.clone())
        } else {
            self.base.soc(key)
        }
    }

    fn model(&self, key: &str) -> Option<Source> {
        self.base.model(key)
    }

    fn costs(&self, soc: &str, model: &str) -> Option<Source> {
        if (soc, model) == (&self.keys.0, &self.keys.1) {
            Some(self.costs.clone())
        } else {
            self.base.costs(soc, model)
        }
    }

    fn names(&self, kind: Kind) -> Vec<String> {
        self.base.names(kind)
    }
}

fn calibrated(arguments: &validate_live::Arguments, world: &World) -> Result<Calibrated, Failure> {
    let (soc, costs) = if let Some(folder) = &arguments.profile {
        let folder = folder.join("profiles").join(&world.soc_key);
        let of = |name: String| read(&folder.join(name));
        (
            of("soc.toml".into())?,
            of(format!("{}.toml", world.model_key))?,
        )
    } else {
        let plan = Plan::quick();
        let profile = measure(&arguments.scenario, world, &arguments.setup, plan, None)?;
        print(&validation::live::text::quality(&quality_rows(&profile)))?;
        (profile.soc, profile.costs)
    };
    let source = |name: &str, text| Source {
        name: format!("calibrated {name}"),
        text,
    };
    Ok(Calibrated {
        base: Profiles::beside(&arguments.scenario),
        keys: (world.soc_key.clone(), world.model_key.clone()),
        soc: source("soc.toml", soc),
        costs: source("costs", costs),
    })
}

pub(crate) fn validate(arguments: &validate_live::Arguments) -> Result<(), Failure> {
    let bound = Bound {
        median: arguments.median / 100.0,
        worst: arguments.worst / 100.0,
    };
    let first = inputs(&arguments.scenario)?
        .world()
        .map_err(Failure::Faults)?;
    let library = calibrated(arguments, &first)?;
    let text = read(&arguments.scenario)?;
    let name = arguments.scenario.to_string_lossy();
    let inputs = Inputs::read(&name, &text, &library, &Disk).map_err(Failure::Faults)?;
    let worlds = arguments
        .policies
        .iter()
        .map(|policy| with_policy(&inputs, "--policies", policy.trim()))
        .collect::<Result<Vec<World>, _>>()?;
    let Some(world) = worlds.first() else {
        return Err(Failure::usage("there is no policy to run", "name one"));
    };
    let own_costs = |number: &sim::world::Provenance| number.file == library.costs.name;
    if !world.provenance.iter().any(own_costs) {
        return Err(Failure::usage(
            "the scenario names costs of its own, so that calibrated ones have no effect",
            "remove its `costs` key",
        ));
    }
    let (mut live_stages, mut simulated_stages) = (StageTimes::new(world), StageTimes::new(world));
    let mut pairs = Vec::new();
    let mut late = Vec::new();
    let mut loaded: Option<Live> = None;
    for run in 0..arguments.replications.get() {
        for world in &worlds {
            let policy = world.policy.to_string();
            say(&format!("live: replication {run}, {policy}"));
            // Models are loaded once.
            let engines = match &loaded {
                Some(earlier) => earlier.again(world).map_err(setup)?,
                None => live(world, &arguments.setup)?,
            };
            let (summary, outcome) = play(world, &engines, run, &mut live_stages)?;
            if run == 0 {
                equal_reference(world, &engines, &outcome)?;
            }
            loaded = Some(engines);
            late.push(outcome.ends.mean().as_secs_f64());
            late.push(outcome.arrivals.mean().as_secs_f64());
            let simulated = simulate(world, run, &mut simulated_stages);
            pairs.push(Pair {
                policy,
                live: summary,
                simulated,
            });
        }
    }
    let comparison = compare(&pairs, bound);
    let late = late.iter().sum::<f64>() / late.len().max(1) as f64;
    let stages = (live_stages.rows(), simulated_stages.rows());
    print(&validation::live::text::comparison(
        &comparison,
        &stages.0,
        &stages.1,
        late,
    ))?;
    if let Some(path) = &arguments.out {
        let provenance = provenance();
        let document = serde_json::json!({
            "kind": "crossinfer live validation",
            "version": 1,
            "scenario": name,
            "date": provenance.date,
            "host": provenance.host,
            "engines": provenance.versions,
            "comparison": comparison,
            "live_stages": stages.0,
            "simulated_stages": stages.1,
            "mean_lateness_s": late,
        });
        fs::write(path, format!("{document:#}\n"))
            .map_err(|error| Failure::write(path.display(), &error))?;
    }
    if comparison.holds {
        Ok(())
    } else {
        Err(Failure::No)
    }
}

/// Runs live, and checks what must hold of every live run.
fn play(
    world: &World,
    live: &Live,
    run: u32,
    stages: &mut StageTimes<'_>,
) -> Result<(Summary, Outcome), Failure> {
    let options = RigOptions {
        run,
        ..RigOptions::default()
    };
    let mut rig = Rig::start(world, live.engines(), &options).map_err(|error| start(&error))?;
    let mut metrics = Metrics::new(world);
    let mut recorder = Recorder::default();
    let mut check = Check::new(world);
    let mut dispatcher = Dispatcher::new(world);
    {
        let mut sink = ((&mut metrics, stages), (&mut recorder, &mut check));
        drive(&mut rig, &mut dispatcher, &mut Effects::new(), &mut sink);
    }
    let outcome = rig.shutdown();
    for failure in &outcome.failures {
        let lane = &world.lanes[failure.lane.0 as usize].name;
        say(&format!("warning: lane {lane} failed: {}", failure.error));
    }
    if let Some(violation) = check.violations().first() {
        return Err(Failure::internal(violation));
    }
    if let Some(difference) = replay(&mut Dispatcher::new(world), &recorder.records) {
        return Err(Failure::internal(format!(
            "the live trace does not replay: {}",
            difference.tell(&Header::of(world, 0))
        )));
    }
    let peak = dispatcher.peak_kv_bytes();
    let unmeasured = vec![[0; STAGES_MAX]; world.engines.len()];
    Ok((metrics.summary(peak, &unmeasured, None), outcome))
}

/// Holds the answers against serial references, and says what differs.
fn equal_reference(world: &World, live: &Live, outcome: &Outcome) -> Result<(), Failure> {
    let tell = |reference: &mut Reference, name: &str| -> Result<(), Failure> {
        let differ = reference.check(outcome).map_err(|error| engine(&error))?;
        if let Some(text) = Mismatch::tell(&differ, outcome.answers.len()) {
            say(&format!("{name}: {text}"));
        }
        Ok(())
    };
    tell(
        &mut live.reference(),
        "warning: against the serial reference",
    )?;
    // Engines that compute differently differ here, and legitimately; it is said, never hidden.
    let mut seen = Vec::new();
    for answer in &outcome.answers {
        let lane = &world.lanes[answer.completion.lane.0 as usize];
        if !seen.contains(&lane.engine) {
            seen.push(lane.engine);
        }
    }
    if seen.len() > 1 {
        for id in seen {
            let lane = world.lanes.iter().position(|lane| lane.engine == id);
            let lane = LaneId(lane.unwrap_or(0) as u8);
            let name = format!("all on `{}`", world.engines[id.0 as usize].name);
            tell(&mut live.reference_on(lane), &name)?;
        }
    }
    Ok(())
}

fn simulate(world: &World, run: u32, stages: &mut StageTimes<'_>) -> Summary {
    let mut soc = Soc::new(world, run);
    let mut metrics = Metrics::new(world);
    let mut dispatcher = Dispatcher::new(world);
    let mut sink = (&mut metrics, stages);
    drive(&mut soc, &mut dispatcher, &mut Effects::new(), &mut sink);
    metrics.summary(dispatcher.peak_kv_bytes(), soc.unmeasured(), soc.warmth())
}
