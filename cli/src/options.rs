//! What `run` and `compare` have in common: the scenario, how often, with what seed, and to where.

use std::io::Read as _;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::{env, fs, io};

use clap::{Args, ValueEnum};
use lab::sweep::Axis;
use reports::detail::Reproduce;
use sim::cost::Noise;
use sim::load::{Inputs, Source, parse_policy, script_path};
use sim::spec::scenario::LengthPrediction;
use sim::workload::seed_matters;
use sim::world::World;

use crate::failure::Failure;
use crate::library::{Disk, Profiles};

/// Form of the result on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text for people.
    Table,
    /// A document for programs: `docs/results.md` and `docs/validate.md`
    /// describe them.
    Json,
}

/// What is simulated, how often, and with what seed.
#[derive(Debug, Args)]
pub(crate) struct Simulated {
    /// Scenario file (TOML).
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenario: PathBuf,

    /// Root seed of every random draw, instead of the scenario's.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = seed)]
    pub(crate) seed: Option<u64>,

    /// Independent runs, instead of the scenario's number; intervals need two.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = replications)]
    pub(crate) replications: Option<NonZeroU32>,

    /// Threads that replications run on; results do not depend on it [default: one
    /// per core].
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = jobs)]
    pub(crate) jobs: Option<NonZeroUsize>,
}

impl Simulated {
    /// That what the command line sets for all cells is not varied as well.
    pub(crate) fn leaves(&self, vary: &[Axis]) -> Result<(), Failure> {
        let set = [
            ("seed", self.seed.is_some()),
            ("replications", self.replications.is_some()),
        ];
        for (key, _) in set.into_iter().filter(|(_, set)| *set) {
            let scenarios = format!("scenario:{key}");
            if vary
                .iter()
                .any(|axis| [key, &scenarios].contains(&axis.key.to_string().as_str()))
            {
                return Err(Failure::usage(
                    format!("`{key}` is varied, and set for all by `--{key}`"),
                    format!("leave out `--{key}`, or do not vary it"),
                ));
            }
        }
        Ok(())
    }

    /// Puts seed and replications into a world. Where nothing is random, one replication is all there is.
    pub(crate) fn apply(&self, world: &mut World) {
        if let Some(seed) = self.seed {
            world.seed = seed;
        }
        if let Some(replications) = self.replications {
            world.replications = replications.get();
        }
        if random(world) {
            return;
        }
        let mut warn = |text: &str| {
            let text = format!("nothing is drawn at random: {text}");
            world.warnings.push(text);
        };
        if self.seed.is_some() {
            warn("`--seed` has no effect");
        }
        if self.replications.is_some_and(|count| count.get() > 1) {
            warn("`--replications` has no effect, 1 replication is enough");
        }
        world.replications = 1;
    }
}

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    simulated: Simulated,

    /// Form of the result on standard output.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

impl std::ops::Deref for Options {
    type Target = Simulated;

    fn deref(&self) -> &Simulated {
        &self.simulated
    }
}

impl Options {
    /// Reads the scenario and what it names.
    pub(crate) fn inputs(&self) -> Result<Inputs, Failure> {
        inputs(&self.scenario)
    }

    /// The scenario's file as the user gave it.
    pub(crate) fn file(&self) -> String {
        self.scenario.to_string_lossy().into_owned()
    }
}

/// Whether anything differs between replications.
pub(crate) fn random(world: &World) -> bool {
    let mut costs = world.costs.rows.iter().flatten().flatten();
    let noisy = world.noise && costs.any(|costs| costs.noise != Noise::None);
    let guessed = matches!(world.prediction, LengthPrediction::Noisy { .. });
    seed_matters(&world.streams, noisy || guessed)
}

/// Reads a scenario and what it names.
pub(crate) fn inputs(path: &Path) -> Result<Inputs, Failure> {
    let text = read(path)?;
    let name = path.to_string_lossy();
    Inputs::read(&name, &text, &Profiles::beside(path), &Disk).map_err(Failure::Faults)
}

/// The world with the scenario's own policy, or with the one of `--policy`; every key that the scenario sets changes
/// something under one of the two.
pub(crate) fn world(inputs: &Inputs, policy: Option<&str>) -> Result<World, Failure> {
    let mut worlds = vec![match policy {
        None => inputs.world().map_err(Failure::Faults)?,
        Some(text) => with_policy(inputs, "--policy", text)?,
    }];
    // Another policy may serve where the file's own cannot.
    if policy.is_some() {
        worlds.extend(inputs.world());
    }
    inputs.read_by(&worlds).map_err(Failure::Faults)?;
    Ok(worlds.swap_remove(0))
}

/// How to get the same again: this command, and the files that it read.
pub(crate) fn reproduce(inputs: &Inputs) -> Reproduce {
    let words: Vec<String> = env::args_os()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let command = std::iter::once("crossinfer".to_owned()).chain(words);
    Reproduce::new(&command.collect::<Vec<_>>(), inputs.sources())
}

/// The world with another policy, which the user gave to `option`.
pub(crate) fn with_policy(inputs: &Inputs, option: &str, text: &str) -> Result<World, Failure> {
    if let Some(path) = script_path(text) {
        let inputs = with_script(inputs, path)?;
        return inputs.with_policy_text(text).map_err(Failure::internal);
    }
    let lanes = inputs.lanes();
    let policy = parse_policy(text, &lanes)
        .map_err(|message| Failure::usage(message, "`crossinfer run --help` lists the policies"))?;
    // The scenario is right with its own policy, so a fault is this policy's and has no place in a file.
    inputs.with_policy(&policy).map_err(|faults| {
        let causes: Vec<String> = faults
            .list
            .iter()
            .map(|fault| format!("{}: {}", fault.message, fault.label))
            .collect();
        let able: Vec<String> = lanes
            .iter()
            .map(|lane| format!("single:{lane}"))
            .filter(|name| inputs.with_policy_text(name).is_ok())
            .map(|name| format!("`{name}`"))
            .collect();
        let help = if text.trim().starts_with("single") && !able.is_empty() {
            format!("{} can serve this scenario", able.join(" or "))
        } else {
            "`crossinfer run --help` lists the policies".to_owned()
        };
        Failure::usage(format!("`{option} {text}`: {}", causes.join("; ")), help)
    })
}

/// The same with the scripts that the policies of a sweep or a search name, from the folder that the user is in; else
/// the scenario's own of that path is meant.
pub(crate) fn with_scripts(mut inputs: Inputs, axes: &[Axis]) -> Result<Inputs, Failure> {
    for path in axes.iter().flat_map(Axis::policies).filter_map(script_path) {
        if Path::new(path).exists() || !inputs.has_script(path) {
            inputs = with_script(&inputs, path)?;
        }
    }
    Ok(inputs)
}

fn with_script(inputs: &Inputs, path: &str) -> Result<Inputs, Failure> {
    let source = Source {
        name: path.to_owned(),
        text: read(Path::new(path))?,
    };
    inputs.with_script(source).map_err(Failure::Faults)
}

/// The text of a file that the user named.
pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    let bytes = bytes(path).map_err(|error| {
        Failure::usage(
            format!("`{}` cannot be read: {error}", path.display()),
            "give the path of a text file, relative to the folder that you are in",
        )
    })?;
    utf8(bytes).map_err(|cause| {
        Failure::usage(
            format!("`{}` {cause}", path.display()),
            "give a text file, and save it as UTF-8",
        )
    })
}

/// Most that is read of what is no regular file: a device or a pipe may never end.
const ENDLESS: u64 = 256 << 20;

/// All of a file, or of a pipe or device that ends.
pub(crate) fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let file = fs::File::open(path)?;
    let mut bytes = Vec::new();
    if file.metadata()?.is_file() {
        (&file).read_to_end(&mut bytes)?;
        return Ok(bytes);
    }
    (&file).take(ENDLESS + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > ENDLESS {
        return Err(io::Error::other(format!(
            "it is no regular file, and gives more than {} MiB",
            ENDLESS >> 20
        )));
    }
    Ok(bytes)
}

/// Bytes as text, or where they are none.
pub(crate) fn utf8(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let bytes = error.as_bytes();
        let line = bytes[..at].split(|&byte| byte == b'\n').count();
        format!(
            "is not UTF-8 text: line {line} has byte 0x{:02x} at offset {at} of the file",
            bytes[at]
        )
    })
}

fn seed(text: &str) -> Result<u64, String> {
    whole(text, 0, u64::MAX)
}

/// As many as a scenario file may ask for: what each found is kept in memory.
const REPLICATIONS_MAX: u32 = 1_000_000;

fn replications(text: &str) -> Result<NonZeroU32, String> {
    let count: NonZeroU32 = whole(text, 1, REPLICATIONS_MAX.into())?;
    if count.get() > REPLICATIONS_MAX {
        return Err(format!("give a whole number from 1 to {REPLICATIONS_MAX}"));
    }
    Ok(count)
}

fn jobs(text: &str) -> Result<NonZeroUsize, String> {
    whole(text, 1, usize::MAX as u64)
}

/// A whole number, or what would be right.
fn whole<T: FromStr>(text: &str, least: u64, most: u64) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("give a whole number from {least} to {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_text_has_a_place() {
        assert_eq!(utf8(b"a\nb".to_vec()).as_deref(), Ok("a\nb"));
        let cause = utf8(b"a\nb\nc\xff".to_vec()).expect_err("it is no text");
        assert!(cause.contains("line 3"), "{cause}");
        assert!(cause.contains("0xff at offset 5"), "{cause}");
    }

    #[test]
    fn numbers_say_what_would_be_right() {
        assert_eq!(seed("0"), Ok(0));
        let wrong = [seed("-1").err(), replications("0").err(), jobs("x").err()];
        for message in wrong {
            let message = message.expect("it is refused");
            assert!(
                message.starts_with("give a whole number from "),
                "{message}"
            );
        }
    }
}
