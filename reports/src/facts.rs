//! What was simulated: the part of every report that does not come from the run itself.

use sim::spec::quantity::OriginKind;
use sim::spec::scenario::{Binding, Keep, Modes, StateTransfer};
use sim::time::Instant;
use sim::workload::{QueryPlan, QueryTimes, StreamPlan, describe};
use sim::world::{Provenance, World};

use crate::conditions;

/// What was simulated.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The scenario's file, as the user gave it.
    pub file: String,
    /// The scenario's title.
    pub title: String,
    /// Key and name of the SoC.
    pub soc: (String, String),
    /// Key and name of the model.
    pub model: (String, String),
    /// The policy, as the command line takes it.
    pub policy: String,
    /// Name of the contention model.
    pub contention: String,
    /// Modes in words.
    pub modes: Vec<String>,
    /// What contexts keep, and which version a query reads, in words.
    pub context: Vec<String>,
    /// What else differs from the defaults or is assumed, in words: other software, limits, placement,
    /// exclusions, beliefs, noise, heat.
    pub conditions: Vec<String>,
    /// Root seed.
    pub seed: u64,
    /// No arrivals from here on, s; absent: when every source has ended.
    pub horizon_s: Option<f64>,
    /// Requests that arrive earlier are left out, s.
    pub warm_up_s: f64,
    /// Streams with their arrival processes in words.
    pub streams: Vec<(String, Vec<String>)>,
    /// Most queries in the system, `limits.max_requests`.
    pub max_requests: u32,
    /// Most frames of a stream that wait, `limits.max_pending_frames`.
    pub max_pending_frames: u32,
    /// Longest context of the model, tokens.
    pub longest_context: u32,
    /// Queries per second that the sources ask on average; absent where users wait for answers.
    pub offered_rps: Option<f64>,
    /// Assumed numbers, with their reasoning.
    pub assumed: Vec<Provenance>,
    /// Numbers in all.
    pub numbers: usize,
    /// Numbers of each kind of origin, the measured ones first.
    pub origins: Vec<(&'static str, usize)>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// How many numbers came from where; kinds without any are left out.
fn origins(world: &World) -> Vec<(&'static str, usize)> {
    [
        ("measured", OriginKind::Measured),
        ("published", OriginKind::Published),
        ("derived", OriginKind::Derived),
        ("fitted", OriginKind::Fitted),
        ("assumed", OriginKind::Assumed),
    ]
    .into_iter()
    .map(|(name, kind)| {
        let of_kind = world.provenance.iter().filter(|number| number.kind == kind);
        (name, of_kind.count())
    })
    .filter(|&(_, count)| count > 0)
    .collect()
}

/// What differs from the defaults or is assumed of a world beside its workload, in words.
pub fn conditions_of(world: &World) -> Vec<String> {
    conditions::of(world)
}

impl Facts {
    /// The facts of worlds that differ in their policy: those of the first, with the conditions of all.
    pub fn of_all(worlds: &[World], file: &str) -> Option<Self> {
        Some(Self {
            conditions: conditions::of_all(worlds),
            ..Self::of(worlds.first()?, file)
        })
    }

    /// The facts of a world that was loaded from `file`.
    pub fn of(world: &World, file: &str) -> Self {
        let horizon = Some(world.horizon).filter(|&horizon| horizon != Instant::NEVER);
        let assumed = world
            .provenance
            .iter()
            .filter(|number| number.kind == OriginKind::Assumed);
        Self {
            file: file.to_owned(),
            title: world.title.clone(),
            soc: (world.soc_key.clone(), world.soc_name.clone()),
            model: (world.model_key.clone(), world.model_name.clone()),
            policy: world.policy.to_string(),
            contention: world.contention.name().to_owned(),
            modes: modes(&world.modes),
            context: context(world),
            conditions: conditions::of(world),
            seed: world.seed,
            horizon_s: horizon.map(Instant::as_secs_f64),
            warm_up_s: world.warm_up.as_secs_f64(),
            streams: world
                .streams
                .iter()
                .map(|stream| (stream.name.clone(), describe(stream)))
                .collect(),
            max_requests: world.max_requests,
            max_pending_frames: world.max_pending_frames,
            longest_context: world.model.max_context_tokens,
            offered_rps: offered_rps(&world.streams, world.horizon),
            assumed: assumed.cloned().collect(),
            numbers: world.provenance.len(),
            origins: origins(world),
            warnings: world.warnings.clone(),
        }
    }
}

fn modes(modes: &Modes) -> Vec<String> {
    let switch = |name: &str, on: bool| {
        if on {
            name.to_owned()
        } else {
            format!("no {name}")
        }
    };
    let transfer = match modes.state_transfer {
        StateTransfer::Auto => "auto",
        StateTransfer::Import => "import",
        StateTransfer::Reconstruct => "reconstruct",
    };
    vec![
        switch("context reuse", modes.context_reuse),
        switch(
            "ingestion during generation",
            modes.ingest_during_generation,
        ),
        switch("concurrent generation", modes.concurrent_generation),
        format!("state transfer {transfer}"),
        switch("embedding cache", modes.embedding_cache),
    ]
}

fn context(world: &World) -> Vec<String> {
    let frames = |count: u32| {
        if count == 1 {
            "1 frame".to_owned()
        } else {
            format!("{count} frames")
        }
    };
    let keep = match world.keep {
        Keep::All => "keeps all frames".to_owned(),
        Keep::Window { frames: newest } => format!("keeps the newest {}", frames(newest)),
        Keep::Sinks { first, recent } => {
            format!("keeps the first {} and the newest {recent}", frames(first))
        }
    };
    let binding = match world.binding {
        Binding::Arrived => "queries read all frames that arrived before them",
        Binding::Published => "queries read the newest version published at their arrival",
        Binding::AtDispatch => "queries read the newest version published at their start",
    };
    let mut list = vec![keep, binding.to_owned()];
    if world.answers_join_history {
        list.push("answers join it".to_owned());
    }
    list
}

/// Mean rate at which the sources ask, if none of them waits for its answers.
fn offered_rps(streams: &[StreamPlan], horizon: Instant) -> Option<f64> {
    let queries = streams.iter().filter_map(|stream| stream.queries.as_ref());
    let waits = |plan: &QueryPlan| matches!(plan.arrivals, QueryTimes::ClosedLoop { .. });
    if queries.clone().any(waits) {
        return None;
    }
    open_rps(streams, horizon)
}

/// Mean rate at which those sources ask that do not wait for their answers, if each has one.
fn open_rps(streams: &[StreamPlan], horizon: Instant) -> Option<f64> {
    let rate = |times: &QueryTimes| match times {
        QueryTimes::Listed(times) => {
            let last = times.last()?.min(&horizon).as_secs_f64();
            let count = times.iter().filter(|&&time| time < horizon).count();
            (last > 0.0).then(|| count as f64 / last)
        }
        QueryTimes::ClosedLoop { .. } => Some(0.0),
        other => other.mean_rate_hz(),
    };
    let mut total = 0.0;
    for plan in streams.iter().filter_map(|stream| stream.queries.as_ref()) {
        total += rate(&plan.arrivals)?;
    }
    (total > 0.0 && total.is_finite()).then_some(total)
}
