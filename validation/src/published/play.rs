//! One run of a world, with what the summary does not hold.

use std::collections::BTreeMap;

use sim::check::Check;
use sim::contention::Load;
use sim::diag::Faults;
use sim::dispatch::{Completion, Effect, Input};
use sim::drive::Sink;
use sim::metrics::{LoadVerdict, Summary};
use sim::simulation::Simulation;
use sim::time::Instant;
use sim::world::{EngineId, LaneId, World};

/// What a play showed.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The run in numbers.
    pub summary: Summary,
    /// Whether a steady latency exists: the verdict on all replications of its configuration, this run's where it
    /// was played alone ([`LoadVerdict::over`]).
    pub load: LoadVerdict,
    /// Joules by engine; absent where the profile has no power.
    pub energy_j: Option<BTreeMap<String, f64>>,
    /// Names of the lanes.
    pub lanes: Vec<String>,
    /// Tokens a second that each lane decoded while it did.
    pub decode_rates: BTreeMap<String, f64>,
    /// Tokens a second that each lane prefilled for its answers, missing context included.
    pub prefill_rates: BTreeMap<String, f64>,
    /// Invariants that did not hold.
    pub violations: Vec<String>,
}

/// Plays replication `run` of a world, and checks every invariant.
///
/// # Errors
///
/// What the policy stopped the run with.
pub(crate) fn play(world: &World, run: u32) -> Result<Outcome, Faults> {
    let mut simulation = Simulation::new(world);
    let mut answers = Answers::default();
    let mut check = Check::new(world);
    simulation.run_into(run, &mut (&mut answers, &mut check))?;
    let summary = simulation.summary();
    Ok(Outcome {
        lanes: world.lanes.iter().map(|lane| lane.name.clone()).collect(),
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
        load: summary.load,
        summary,
        violations: check.violations(),
    })
}

/// The rate at which engine `victim` reads while the engines of `config` (names with `+` between) all
/// do: ports and contention, GB/s. `Err` names an engine that the SoC does not have.
pub(crate) fn read_kernel(world: &World, victim: &str, config: &str) -> Result<f64, String> {
    if let Some((first, _)) = victim.split_once('+') {
        return Err(format!(
            "of the engines that read together, `{config}`, none is named: one is, as in `read_bandwidth_{first}`"
        ));
    }
    let engine = |name: &str| {
        // Apple's name for the GPU's interface.
        let name = if name == "metal" { "gpu" } else { name };
        let at = world.engines.iter().position(|engine| engine.name == name);
        at.map(|at| EngineId(at as u8)).ok_or_else(|| {
            let names: Vec<&str> = world.engines.iter().map(|e| e.name.as_str()).collect();
            format!("the SoC has no engine `{name}`, but {}", names.join(", "))
        })
    };
    let read = engine(victim)?;
    let mut loads = Vec::new();
    for name in config.split('+') {
        let engine = engine(name)?;
        loads.push(Load { engine, mu: 1.0 });
    }
    let at = loads.iter().position(|load| load.engine == read);
    let at =
        at.ok_or_else(|| format!("`{victim}` is not among the engines that read, {config}"))?;
    let mut slowdowns = vec![1.0; loads.len()];
    world.contention.slowdowns(&loads, &mut slowdowns);
    Ok(world.engines[read.0 as usize].port_bytes_per_s * 1e-9 / slowdowns[at])
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
            let sum = self.nanojoules.entry(lane.0).or_default();
            *sum = sum.saturating_add(*nanojoules);
        }
    }

    fn effect(&mut self, now: Instant, effect: &Effect) {
        if let Effect::Complete(done) = effect {
            self.ended.push((now, *done));
        }
    }
}
