//! Published measurements, and what the simulator predicts in their place.
//!
//! A published row names a table or figure, a configuration and a metric. [`EXPERIMENTS`] says which
//! scenario of `scenarios/published/` it is, and under which policy; [`Lab`] plays it and reads the
//! metric. The published numbers themselves are not part of this crate: the caller brings them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sim::check::Check;
use sim::contention::Load;
use sim::dispatch::{Completion, Effect, Input};
use sim::drive::Sink;
use sim::load::Inputs;
use sim::metrics::Summary;
use sim::simulation::Simulation;
use sim::time::Instant;
use sim::world::{EngineId, LaneId, World};

use crate::folder::{Disk, Folder};

/// What a published row may be used for.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A single-engine, serial or microbenchmark figure that profiles may be fitted to.
    Calibration,
    /// What the simulator must predict; nothing is fitted to it.
    Outcome,
}

/// A published row.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Table or figure.
    pub id: String,
    /// Key of the SoC.
    pub platform: String,
    /// Model, as published.
    #[serde(default)]
    pub model: String,
    /// What was done.
    pub setting: String,
    /// Row of the table.
    pub config: String,
    /// Column of the table.
    pub metric: String,
    /// Unit of the value.
    pub unit: String,
    /// Published value.
    pub value: f64,
    /// Its standard deviation, if published.
    pub sd: Option<f64>,
    /// What it may be used for.
    pub role: Role,
    /// What was read into it.
    pub note: Option<String>,
}

#[derive(Deserialize)]
struct Measurements {
    measurement: Vec<Row>,
}

/// Reads rows from TOML, `[[measurement]]` each.
pub fn read_rows(text: &str) -> Result<Vec<Row>, Failure> {
    let file: Measurements = toml::from_str(text).map_err(|e| Failure(e.to_string()))?;
    Ok(file.measurement)
}

/// Why a prediction could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failure(String);

/// A scenario under a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Play {
    /// File in `scenarios/published/`, without `.toml`.
    pub scenario: &'static str,
    /// Policy as on the command line; `None`: the file's own.
    pub policy: Option<&'static str>,
}

/// Which rows a scenario predicts.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Table or figure.
    pub id: &'static str,
    /// What the row's model or setting must hold, all of it.
    pub about: &'static [&'static str],
    /// Row of the table.
    pub config: &'static str,
    /// What to play; several where the metric compares.
    pub plays: &'static [Play],
}

const fn own(scenario: &'static str) -> Play {
    Play {
        scenario,
        policy: None,
    }
}

const fn under(scenario: &'static str, policy: &'static str) -> Play {
    Play {
        scenario,
        policy: Some(policy),
    }
}

const CPU: &str = "single:cpu";
const GPU: &str = "single:gpu";

macro_rules! experiments {
    ($($id:literal [$($about:literal),*] $config:literal => $($play:expr),+;)*) => {
        &[$(Experiment { id: $id, about: &[$($about),*], config: $config, plays: &[$($play),+] }),*]
    };
}

/// Every row that a scenario predicts: table or figure, words of its model or setting, its
/// configuration, and what to play.
#[rustfmt::skip]
pub const EXPERIMENTS: &[Experiment] = experiments! {
    "table1a" [", 2 frames"] "mlx-gpu-only" => own("table1a-2-gpu");
    "table1a" [", 2 frames"] "crossinfer" => own("table1a-2-pipelined");
    "table1a" [", 4 frames"] "mlx-gpu-only" => own("table1a-4-gpu");
    "table1a" [", 4 frames"] "crossinfer" => own("table1a-4-pipelined");
    "table1a" [", 8 frames"] "mlx-gpu-only" => own("table1a-8-gpu");
    "table1a" [", 8 frames"] "crossinfer" => own("table1a-8-pipelined");
    "table1a" [", 16 frames"] "mlx-gpu-only" => own("table1a-16-gpu");
    "table1a" [", 16 frames"] "crossinfer" => own("table1a-16-pipelined");
    "table3" [] "mlx" => own("table3-gpu");
    "table3" [] "crossinfer" => own("table3-pipelined");
    "table5" ["0.8B", "32-token"] "serial" => under("table5-0.8b-32", "serial");
    "table5" ["0.8B", "32-token"] "overlap" => own("table5-0.8b-32");
    "table5" ["0.8B", "128-token"] "serial" => under("table5-0.8b-128", "serial");
    "table5" ["0.8B", "128-token"] "overlap" => own("table5-0.8b-128");
    "table5" ["2B", "32-token"] "serial" => under("table5-2b-32", "serial");
    "table5" ["2B", "32-token"] "overlap" => own("table5-2b-32");
    "table5" ["2B", "128-token"] "serial" => under("table5-2b-128", "serial");
    "table5" ["2B", "128-token"] "overlap" => own("table5-2b-128");
    "table5" ["4B", "32-token"] "serial" => under("table5-4b-32", "serial");
    "table5" ["4B", "32-token"] "overlap" => own("table5-4b-32");
    "table5" ["4B", "128-token"] "serial" => under("table5-4b-128", "serial");
    "table5" ["4B", "128-token"] "overlap" => own("table5-4b-128");
    "table5" ["9B", "32-token"] "serial" => under("table5-9b-32", "serial");
    "table5" ["9B", "32-token"] "overlap" => own("table5-9b-32");
    "table5" ["9B", "128-token"] "serial" => under("table5-9b-128", "serial");
    "table5" ["9B", "128-token"] "overlap" => own("table5-9b-128");
    // The contention model alone; the scenario only brings the SoC.
    "table6" ["64 MiB"] "cpu" => own("table8");
    "table6" ["64 MiB"] "gpu" => own("table8");
    "table6" ["64 MiB"] "npu" => own("table8");
    "table6" ["64 MiB"] "cpu+gpu" => own("table8");
    "table6" ["64 MiB"] "cpu+npu" => own("table8");
    "table7" [] "A" => own("table7-a");
    "table7" [] "B" => own("table7-b");
    "table7" [] "C" => own("table7-c");
    "table7" [] "D" => own("table7-d");
    "table8" [] "cpu-only" => under("table8", CPU);
    "table8" [] "gpu-only" => under("table8", GPU);
    "table8" [] "crossinfer" => own("table8");
    "table9" ["OneVision-7B"] "cpu-only" => under("table9-7b", CPU);
    "table9" ["OneVision-7B"] "gpu-only" => under("table9-7b", GPU);
    "table9" ["OneVision-7B"] "crossinfer" => own("table9-7b");
    "table9" ["FastVLM-0.5B"] "cpu-only" => under("table9-fastvlm", CPU);
    "table9" ["FastVLM-0.5B"] "gpu-only" => under("table9-fastvlm", GPU);
    "table9" ["FastVLM-0.5B"] "crossinfer" => own("table9-fastvlm");
    "table10" ["OneVision-0.5B"] "cpu-only" => under("table10-onevision-0.5b", CPU);
    "table10" ["OneVision-0.5B"] "gpu-only" => under("table10-onevision-0.5b", GPU);
    "table10" ["OneVision-0.5B"] "crossinfer" => own("table10-onevision-0.5b");
    "table10" ["FastVLM-0.5B"] "cpu-only" => under("table10-fastvlm-0.5b", CPU);
    "table10" ["FastVLM-0.5B"] "gpu-only" => under("table10-fastvlm-0.5b", GPU);
    "table10" ["FastVLM-0.5B"] "crossinfer" => own("table10-fastvlm-0.5b");
    "table10" ["FastVLM-1.5B"] "cpu-only" => under("table10-fastvlm-1.5b", CPU);
    "table10" ["FastVLM-1.5B"] "gpu-only" => under("table10-fastvlm-1.5b", GPU);
    "table10" ["FastVLM-1.5B"] "crossinfer" => own("table10-fastvlm-1.5b");
    "table12" ["112-token"] "naive" => under("table12", "naive");
    "table12" ["112-token"] "cpu-only" => under("table12", CPU);
    "table12" ["112-token"] "gpu-only" => under("table12", GPU);
    "table12" ["112-token"] "crossinfer" => own("table12");
    // Its rows on decode and prefill are those of table 14's lanes alone.
    "table13" ["sequential_read"] "cpu" => own("table14-32");
    "table13" ["sequential_read"] "metal" => own("table14-32");
    "table13" ["prefill_1024"] "cpu" => under("table14-1024", CPU);
    "table13" ["prefill_1024"] "metal" => under("table14-1024", GPU);
    "table13" ["decode_prefix32"] "cpu" => under("table14-32", CPU);
    "table13" ["decode_prefix32"] "metal" => under("table14-32", GPU);
    "table14" ["of 32 tokens"] "cpu" => under("table14-32", CPU);
    "table14" ["of 32 tokens"] "metal" => under("table14-32", GPU);
    "table14" ["of 32 tokens"] "cpu+metal" => own("table14-32");
    "table14" ["of 1024 tokens"] "cpu" => under("table14-1024", CPU);
    "table14" ["of 1024 tokens"] "metal" => under("table14-1024", GPU);
    "table14" ["of 1024 tokens"] "cpu+metal" => own("table14-1024");
    "fig9b" [] "state-aware dispatch" =>
        own("fig9b-short"), under("fig9b-short", CPU), under("fig9b-short", GPU),
        own("fig9b-medium"), under("fig9b-medium", CPU), under("fig9b-medium", GPU),
        own("fig9b-long"), under("fig9b-long", CPU), under("fig9b-long", GPU);
    "fig11c" [] "import over recompute" => own("fig11c-import"), own("fig11c-recompute");
    "fig16" [] "reuse over rebuild" => own("fig16-reuse"), own("fig16-rebuild");
};

/// Rows that no scenario predicts: table or figure, words of the row, and why.
const NOT_COVERED: &[(&str, &[&str], &str)] = &[
    (
        "table3",
        &["llama.cpp"],
        "the costs of this model are of the other runtimes, which draw less power",
    ),
    (
        "table5",
        &["peak_rss"],
        "a process's resident memory holds its runtime's buffers, which no profile has",
    ),
    (
        "table6",
        &["256 MiB"],
        "the profile holds the rates at 64 MiB",
    ),
    (
        "table12",
        &["EOS"],
        "how long the answers were is not published",
    ),
];

/// The experiment that predicts a row, or why none does.
pub fn experiment(row: &Row) -> Result<&'static Experiment, &'static str> {
    let holds = |id: &str, words: &[&str]| {
        let parts = [&row.model, &row.setting, &row.config, &row.metric];
        row.id == id
            && words
                .iter()
                .all(|word| parts.iter().any(|part| part.contains(word)))
    };
    if let Some((.., why)) = NOT_COVERED.iter().find(|(id, words, _)| holds(id, words)) {
        return Err(why);
    }
    EXPERIMENTS
        .iter()
        .find(|experiment| {
            experiment.config == row.config && holds(experiment.id, experiment.about)
        })
        .ok_or("no scenario of this experiment")
}

/// The rows that no scenario predicts, each with the reason.
pub fn not_covered(rows: &[Row]) -> Vec<(&Row, &'static str)> {
    rows.iter()
        .filter_map(|row| Some((row, experiment(row).err()?)))
        .collect()
}

/// What a play showed.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The run in numbers.
    pub summary: Summary,
    /// Joules by engine; absent where the profile has no power.
    pub energy_j: Option<BTreeMap<String, f64>>,
    /// Tokens a second that each lane decoded while it did.
    pub decode_rates: BTreeMap<String, f64>,
    /// Tokens a second that each lane prefilled for its answers, missing context included.
    pub prefill_rates: BTreeMap<String, f64>,
    /// Invariants that did not hold.
    pub violations: Vec<String>,
}

/// Plays scenarios, each once however many rows it predicts.
#[derive(Debug)]
pub struct Lab {
    scenarios: PathBuf,
    profiles: Folder,
    inputs: BTreeMap<&'static str, Inputs>,
    outcomes: BTreeMap<Play, Outcome>,
}

impl Lab {
    /// A lab over a folder that holds `scenarios/published/` and `profiles/`.
    pub fn new(root: &Path) -> Self {
        Self {
            scenarios: root.join("scenarios/published"),
            profiles: Folder::new(root.join("profiles")),
            inputs: BTreeMap::new(),
            outcomes: BTreeMap::new(),
        }
    }

    /// What the simulator says in place of a row; `None` where no scenario predicts it.
    pub fn predict(&mut self, row: &Row) -> Result<Option<f64>, Failure> {
        let Ok(experiment) = experiment(row) else {
            return Ok(None);
        };
        if let Some(rate) = self.read_kernel(row, experiment.plays[0])? {
            return Ok(Some(rate));
        }
        let outcomes = experiment
            .plays
            .iter()
            .map(|&play| self.outcome(play).cloned())
            .collect::<Result<Vec<Outcome>, Failure>>()?;
        Ok(read(&row.metric, &outcomes))
    }

    /// What a play showed.
    pub fn outcome(&mut self, play: Play) -> Result<&Outcome, Failure> {
        if !self.outcomes.contains_key(&play) {
            let world = self.world(play)?;
            self.outcomes.insert(play, run(&world));
        }
        Ok(&self.outcomes[&play])
    }

    /// The world of a play.
    pub fn world(&mut self, play: Play) -> Result<World, Failure> {
        if !self.inputs.contains_key(play.scenario) {
            let path = self.scenarios.join(format!("{}.toml", play.scenario));
            let name = path.display().to_string();
            let text = std::fs::read_to_string(&path)
                .map_err(|error| Failure(format!("{name}: {error}")))?;
            let inputs = Inputs::read(&name, &text, &self.profiles, &Disk)
                .map_err(|faults| Failure(faults.to_string()))?;
            self.inputs.insert(play.scenario, inputs);
        }
        let inputs = &self.inputs[play.scenario];
        match play.policy {
            Some(policy) => inputs.with_policy_text(policy).map_err(Failure),
            None => inputs.world().map_err(|faults| Failure(faults.to_string())),
        }
    }

    /// Rows of kernels that read memory, alone or side by side: ports and contention, GB/s.
    fn read_kernel(&mut self, row: &Row, play: Play) -> Result<Option<f64>, Failure> {
        let read = match row.metric.strip_prefix("read_bandwidth_") {
            Some(engine) => engine,
            None if row.metric.starts_with("sequential_read") => row.config.as_str(),
            None => return Ok(None),
        };
        let world = self.world(play)?;
        let engine = |name: &str| {
            let name = if name == "metal" { "gpu" } else { name };
            let at = world.engines.iter().position(|engine| engine.name == name);
            at.map(|at| EngineId(at as u8))
        };
        let Some(victim) = engine(read) else {
            return Ok(None);
        };
        let mut loads = Vec::new();
        for name in row.config.split('+') {
            let Some(engine) = engine(name) else {
                return Ok(None);
            };
            loads.push(Load { engine, mu: 1.0 });
        }
        let mut slowdowns = vec![1.0; loads.len()];
        world.contention.slowdowns(&loads, &mut slowdowns);
        let at = loads.iter().position(|load| load.engine == victim);
        let port = world.engines[victim.0 as usize].port_bytes_per_s;
        Ok(at.map(|at| port * 1e-9 / slowdowns[at]))
    }
}

/// Reads a published metric.
fn read(metric: &str, outcomes: &[Outcome]) -> Option<f64> {
    let first = outcomes.first()?;
    let busy = |engine: &str| {
        let engines = &first.summary.engines;
        Some(engines.iter().find(|e| e.name == engine)?.busy * 100.0)
    };
    match metric {
        "throughput" => Some(first.summary.throughput_rps),
        "ttft_mean" => first.summary.ttft_s.mean,
        // To the last answer.
        "completion" => Some(first.summary.window_s),
        "gpu_busy" => busy("gpu"),
        "ane_busy" => busy("ane"),
        "energy_gpu" => first.energy_j.as_ref()?.get("gpu").copied(),
        "energy_cpu_gpu_ane" => first.summary.energy_j,
        "mean_power" => first.summary.mean_power_w,
        "decode" | "decode_prefix32" => Some(first.decode_rates.values().sum()),
        "prefill_1024" => Some(first.prefill_rates.values().sum()),
        "throughput_ratio" => {
            Some(first.summary.throughput_rps / outcomes.get(1)?.summary.throughput_rps)
        }
        "ttft_mean_change" => change(
            first.summary.ttft_s.mean?,
            outcomes.get(1)?.summary.ttft_s.mean?,
        ),
        "first_token_latency_ratio" => {
            Some(outcomes.get(1)?.summary.ttft_s.mean? / first.summary.ttft_s.mean?)
        }
        "query_completion_time_change" => outcomes
            .chunks(3)
            .filter_map(|backlog| {
                let mean = |at: usize| backlog.get(at)?.summary.completion_s.mean;
                change(mean(0)?, mean(1)?.max(mean(2)?))
            })
            .min_by(f64::total_cmp),
        _ => None,
    }
}

/// By how many per cent `new` differs from `old`.
fn change(new: f64, old: f64) -> Option<f64> {
    (old > 0.0).then(|| (new / old - 1.0) * 100.0)
}

/// Plays a world once, and checks every invariant.
fn run(world: &World) -> Outcome {
    let mut simulation = Simulation::new(world);
    let mut answers = Answers::default();
    let mut check = Check::new(world);
    simulation.run_into(0, &mut (&mut answers, &mut check));
    let summary = simulation.summary();
    Outcome {
        energy_j: answers.energy(world, &summary),
        decode_rates: answers.rates(world, |answer, end| {
            let secs = end.saturating_since(answer.first_token).as_secs_f64();
            (answer.output > 1).then(|| f64::from(answer.output - 1) / secs)
        }),
        prefill_rates: answers.rates(world, |answer, _| {
            let secs = answer
                .first_token
                .saturating_since(answer.started)
                .as_secs_f64();
            Some(f64::from(world.model.system_tokens + answer.prompt) / secs)
        }),
        summary,
        violations: check.violations(),
    }
}

/// What the summary does not hold: answers and energy lane by lane.
#[derive(Debug, Default)]
struct Answers {
    ended: Vec<(Instant, Completion)>,
    nanojoules: BTreeMap<u8, u64>,
}

impl Answers {
    /// Mean over each lane's answers, of those that have the rate.
    fn rates(
        &self,
        world: &World,
        rate: impl Fn(&Completion, Instant) -> Option<f64>,
    ) -> BTreeMap<String, f64> {
        let mut rates = BTreeMap::new();
        for (index, lane) in world.lanes.iter().enumerate() {
            let (mut sum, mut count) = (0.0, 0.0);
            for (end, answer) in &self.ended {
                if answer.lane != LaneId(index as u8) {
                    continue;
                }
                if let Some(rate) = rate(answer, *end) {
                    sum += rate;
                    count += 1.0;
                }
            }
            if count > 0.0 {
                rates.insert(lane.name.clone(), sum / count);
            }
        }
        rates
    }

    fn energy(&self, world: &World, summary: &Summary) -> Option<BTreeMap<String, f64>> {
        world.power?;
        let mut energy = BTreeMap::new();
        for (index, engine) in world.engines.iter().enumerate() {
            let busy_s = summary.engines[index].busy * summary.run_s;
            let idle_j = engine.power?.idle_w * (summary.run_s - busy_s);
            let active: u64 = self
                .nanojoules
                .iter()
                .filter(|(lane, _)| world.engine_of(LaneId(**lane)).0 as usize == index)
                .map(|(_, nanojoules)| nanojoules)
                .sum();
            energy.insert(engine.name.clone(), idle_j + active as f64 * 1e-9);
        }
        Some(energy)
    }
}

impl Sink for Answers {
    fn input(&mut self, _now: Instant, input: &Input) {
        if let Input::Finish {
            lane, nanojoules, ..
        } = input
        {
            *self.nanojoules.entry(lane.0).or_default() += nanojoules;
        }
    }

    fn effect(&mut self, now: Instant, effect: &Effect) {
        if let Effect::Complete(done) = effect {
            self.ended.push((now, *done));
        }
    }
}
