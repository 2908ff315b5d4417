//! `calibrate`: files, progress and what is printed. The work is `hw`'s.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use hw::calibrate::check::{Checks, checks};
use hw::calibrate::profile::{Profile, Provenance, profile};
use hw::calibrate::watch::{Watch, warnings};
use hw::calibrate::{Event, Measured, Measurer, Plan, journal};
use indicatif::{ProgressBar, ProgressStyle};
use sim::load::{Inputs, Kind, Library, Source};
use sim::world::World;
use validation::live::Check;
use validation::live::text::{self, QualityRow};

use super::engines::{engine, live, provenance};
use super::{Effort, Setup};
use crate::calibrate as arguments;
use crate::failure::{Failure, print, say};
use crate::library::{Disk, Profiles};
use crate::options::{inputs, read, world};

pub(crate) fn calibrate(arguments: &arguments::Arguments) -> Result<(), Failure> {
    let world = world(&inputs(&arguments.scenario)?, None)?;
    let plan = arguments.effort.plan(&world);
    let work = Work {
        scenario: &arguments.scenario,
        world: &world,
        setup: &arguments.setup,
        plan: &plan,
        out: Some(&arguments.out),
        refresh: arguments.refresh,
    };
    let (library, checks) = work.measured()?;
    print(&library.quality)?;
    print(&text::checks(&checks))
}

impl Effort {
    pub(super) fn plan(self, world: &World) -> Plan {
        match self {
            Self::Smoke => Plan::smoke(world),
            Self::Quick => Plan::quick(world),
            Self::Thorough => Plan::thorough(world),
        }
    }
}

/// What is to be measured.
#[derive(Debug)]
pub(super) struct Work<'a> {
    pub(super) scenario: &'a Path,
    pub(super) world: &'a World,
    pub(super) setup: &'a Setup,
    pub(super) plan: &'a Plan,
    /// Folder of the profile and the samples; `None`: they are not kept.
    pub(super) out: Option<&'a Path>,
    /// Whether the folder's calibration is brought up to date instead.
    pub(super) refresh: bool,
}

impl Work<'_> {
    /// Measures, and writes the profile and the samples to a folder if there is one.
    pub(super) fn measured(&self) -> Result<(Calibrated, Vec<Check>), Failure> {
        let Self {
            scenario,
            world,
            out,
            ..
        } = *self;
        let base = Profiles::beside(scenario);
        let soc = base.soc(&world.soc_key).ok_or_else(|| {
            Failure::usage(
                format!(
                    "the profile of `{}` was not found by its key",
                    world.soc_key
                ),
                "put it into a `profiles` folder beside the scenario",
            )
        })?;
        let provenance = provenance(self.setup);
        if let Some(out) = out {
            fs::create_dir_all(out).map_err(|error| Failure::write(out.display(), &error))?;
        }
        let (measured, later) = self.samples(&provenance)?;
        let profile = profile(world, &measured, later.as_ref(), &soc.text, &provenance)
            .map_err(Failure::internal)?;
        let quality = text::quality(&quality_rows(&profile));
        if let Some(out) = out {
            for (path, text) in files(out, world)
                .into_iter()
                .zip([&profile.soc, &profile.costs])
            {
                let fail = |error: std::io::Error| Failure::write(path.display(), &error);
                if let Some(folder) = path.parent() {
                    fs::create_dir_all(folder).map_err(fail)?;
                }
                fs::write(&path, text).map_err(fail)?;
                say(&format!("wrote {}", path.display()));
            }
        }
        let library = Calibrated::new(base, world, [profile.soc, profile.costs], quality);
        let world = library.inputs(scenario)?.world().map_err(Failure::Faults)?;
        let checks = rows(&checks(&world, self.plan, &measured));
        Ok((library, checks))
    }

    /// What the fit uses, and what was measured after it.
    fn samples(&self, provenance: &Provenance) -> Result<(Measured, Option<Measured>), Failure> {
        // Samples of another plan, machine or build are not mixed.
        let head = format!(
            "# {} {} {} {} {:?} {:?}",
            self.world.soc_key,
            self.world.model_key,
            provenance.host,
            provenance.versions,
            self.setup,
            self.plan
        );
        let kept = self.out.map(|out| out.join("samples.tsv"));
        let (Some(path), true) = (&kept, self.refresh) else {
            return Ok((self.measure(self.plan, &head, kept.as_deref())?, None));
        };
        let before = earlier(path, &head)?;
        if before.series.is_empty() {
            return Err(Failure::usage(
                format!("`{}` has no sample to begin with", path.display()),
                "calibrate first, without `--refresh`",
            ));
        }
        let later = path.with_file_name("later.tsv");
        if later.exists() {
            fs::remove_file(&later).map_err(|error| Failure::write(later.display(), &error))?;
        }
        let plan = self.plan.clone().briefly();
        let later = self.measure(&plan, &head, Some(&later))?;
        Ok((before, Some(later)))
    }

    /// Measures a world's lanes; samples go to, and come from, a file.
    fn measure(
        &self,
        plan: &Plan,
        head: &str,
        samples: Option<&Path>,
    ) -> Result<Measured, Failure> {
        let world = self.world;
        let live = live(world, self.setup)?;
        let earlier = samples.map_or(Ok(Measured::default()), |path| earlier(path, head))?;
        let mut file = samples.map(|path| open(path, head)).transpose()?;
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
        let watch = Watch::start();
        let measurer = Measurer::start(
            world,
            live.engines(),
            live.registry(),
            plan.clone(),
            earlier,
            listener,
        )
        .map_err(|error| engine(&error))?;
        let measured = measurer.measure().map_err(|error| engine(&error))?;
        bar.finish_and_clear();
        for warning in warnings(world, &measured, &watch) {
            say(&format!("warning: {warning}"));
        }
        Ok(measured)
    }
}

/// The SoC's file and the cost file of a calibration's folder.
fn files(out: &Path, world: &World) -> [PathBuf; 2] {
    let folder = out.join("profiles").join(&world.soc_key);
    [
        folder.join("soc.toml"),
        folder.join(format!("{}.toml", world.model_key)),
    ]
}

fn quality_rows(profile: &Profile) -> Vec<QualityRow> {
    let worst = |errors: &[f64]| errors.iter().map(|error| error.abs()).fold(0.0, f64::max);
    let rows = profile.quality.iter().map(|quality| QualityRow {
        engine: quality.engine.clone(),
        stage: hw::calibrate::kind_name(quality.kind).to_owned(),
        points: quality.fit.points,
        samples: quality.samples,
        stalled: (quality.stalls.count, quality.stalls.longest_s),
        cv: quality.cv,
        worst: worst(&quality.fit.residuals),
        left_out: (!quality.fit.left_out.is_empty()).then(|| worst(&quality.fit.left_out)),
        cold: quality.cold,
        now: quality.refreshed.map(|now| (now.ratio, now.factor())),
    });
    rows.collect()
}

/// Checks as rows.
fn rows(checks: &Checks) -> Vec<Check> {
    let groups = checks.groups.iter().map(|group| Check {
        what: format!(
            "{} {} beside {} busy engines: slowdown",
            group.victim,
            hw::calibrate::kind_name(group.does),
            group.engines - 1
        ),
        measured: group.measured,
        noise: group.noise,
        predicted: group.predicted,
    });
    let prefixes = checks.prefixes.iter().map(|prefix| Check {
        what: format!(
            "{} to {}, {} tokens: prefill ÷ import",
            prefix.from, prefix.to, prefix.tokens
        ),
        measured: prefix.measured,
        noise: prefix.noise,
        predicted: prefix.predicted,
    });
    groups.chain(prefixes).collect()
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
    } else {
        // A process that was killed may have left a part of a line.
        let whole = read(path)?.rfind('\n').map_or(0, |end| end + 1);
        file.set_len(whole as u64).map_err(fail)?;
    }
    Ok(file)
}

fn bar() -> Result<ProgressBar, Failure> {
    let style = "{spinner} {pos} of {len}: {msg} {wide_bar} {elapsed}";
    let style = ProgressStyle::with_template(style).map_err(Failure::internal)?;
    Ok(ProgressBar::new(1).with_style(style))
}

/// Profiles with a calibrated one in front.
#[derive(Debug)]
pub(super) struct Calibrated {
    base: Profiles,
    keys: (String, String),
    soc: Source,
    costs: Source,
    /// How well its forms fit, for people; empty of one that was read.
    pub(super) quality: String,
}

impl Calibrated {
    fn new(base: Profiles, world: &World, [soc, costs]: [String; 2], quality: String) -> Self {
        let source = |name: &str, text| Source {
            name: format!("calibrated {name}"),
            text,
        };
        Self {
            base,
            keys: (world.soc_key.clone(), world.model_key.clone()),
            soc: source("soc.toml", soc),
            costs: source("costs", costs),
            quality,
        }
    }

    /// The profile in a folder that `calibrate` wrote.
    pub(super) fn read(scenario: &Path, world: &World, folder: &Path) -> Result<Self, Failure> {
        let [soc, costs] = files(folder, world);
        let texts = [read(&soc)?, read(&costs)?];
        let base = Profiles::beside(scenario);
        Ok(Self::new(base, world, texts, String::new()))
    }

    /// A scenario with this profile.
    pub(super) fn inputs(&self, scenario: &Path) -> Result<Inputs, Failure> {
        let text = read(scenario)?;
        let name = scenario.to_string_lossy();
        Inputs::read(&name, &text, self, &Disk).map_err(Failure::Faults)
    }

    /// Name of the cost file, as origins of numbers give it.
    pub(super) fn costs_name(&self) -> &str {
        &self.costs.name
    }

    /// Text of both files.
    pub(super) fn texts(&self) -> [&str; 2] {
        [&self.soc.text, &self.costs.text]
    }
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
