//! Keys that a scenario sets and that its policy never reads.

use super::compile::Parts;
use super::document::Place;
use crate::diag::Diagnostic;
use crate::dispatch::{Dispatcher, lanes_of, policy};
use crate::spec::scenario::{LengthPrediction, Policy, StateTransfer};
use crate::time::Instant;
use crate::world::{EngineId, Graph, LaneId, World};

/// A key that is set, and why it changes nothing under a world's policy.
pub(super) struct Unread<'d> {
    pub(super) place: Place<'d>,
    why: String,
}

impl Unread<'_> {
    /// The warning of one world.
    pub(super) fn warning(&self) -> String {
        format!("{} has no effect: {}", self.place.quoted(), self.why)
    }

    /// The fault where no policy that is asked for reads it.
    pub(super) fn fault(&self) -> Diagnostic {
        let title = format!("{} has no effect", self.place.quoted());
        self.place
            .key_fault(title, self.why.clone())
            .help("leave the key out, or choose a policy that reads it")
    }
}

/// Keys of the scenario, other than at their defaults, that the world's policy does not read.
pub(super) fn of<'d>(parts: &Parts<'d>, world: &World) -> Vec<Unread<'d>> {
    let root = parts.scenario.root();
    let mut found = unasked(&root, world);
    let mut unread = |table: &str, key: &str, why: Option<String>| {
        let place = root.key(table).key(key);
        if let Some(why) = why.filter(|_| place.is_present()) {
            found.push(Unread { place, why });
        }
    };
    let asks = world.streams.iter().any(|stream| stream.queries.is_some());
    let transfer = world.modes.context_reuse && world.modes.state_transfer != StateTransfer::Auto;
    let lengths = world.prediction != LengthPrediction::Mean;
    if !asks || world.modes.concurrent_generation && !transfer && !lengths {
        return found;
    }
    let reach = Reach::of(world);
    if transfer {
        unread("modes", "state_transfer", reach.no_transfer(world));
    }
    if !world.modes.concurrent_generation {
        let why = reach.never_concurrent(world);
        unread("modes", "concurrent_generation", why);
    }
    if lengths {
        unread("beliefs", "output_tokens", reach.no_lengths(world));
    }
    found
}

/// Parameters that the scenario gives a script which never asks for them.
fn unasked<'d>(root: &Place<'d>, world: &World) -> Vec<Unread<'d>> {
    let (Policy::Script { script, params }, Some(program)) = (&world.policy, &world.script) else {
        return Vec::new();
    };
    let given = root.key("policy").key("params");
    let unasked = params.keys().filter(|name| !program.may_ask_for(name));
    let unread = unasked.map(|name| Unread {
        place: given.key(name),
        why: format!("`{script}` never asks for `param(\"{name}\")`"),
    });
    unread.filter(|unread| unread.place.is_present()).collect()
}

/// The lanes between which a policy, or the scheduler for it, chooses.
struct Reach {
    policy: Box<dyn policy::Policy>,
    answer: Vec<LaneId>,
    ingest: Vec<LaneId>,
    /// Most lanes of a stage that is placed by itself.
    free: usize,
}

impl Reach {
    fn of(world: &World) -> Self {
        let dispatcher = Dispatcher::new(world);
        let view = dispatcher.view(Instant::ZERO);
        let frames = world.streams.iter().any(|stream| stream.frames.is_some());
        let free = |graph: &Graph| {
            let stages = graph.stages.iter().enumerate();
            let free = stages.filter(|(position, _)| graph.free & (1 << position) != 0);
            let lanes =
                free.map(|(_, stage)| lanes_of(view.state.stage_lanes[stage.0 as usize]).count());
            lanes.max().unwrap_or(0)
        };
        let ingests = frames || world.answers_join_history;
        Self {
            policy: policy::build(world),
            answer: view.answer_lanes().collect(),
            ingest: view.ingest_lanes().filter(|_| ingests).collect(),
            free: free(&world.query_graph).max(if frames { free(&world.frame_graph) } else { 0 }),
        }
    }

    fn no_transfer(&self, world: &World) -> Option<String> {
        if self.policy.transfer().is_some() {
            return Some(format!(
                "policy `{}` moves no KV between engines",
                world.policy
            ));
        }
        let mut engines: Vec<EngineId> = self
            .answer
            .iter()
            .chain(&self.ingest)
            .map(|&lane| world.engine_of(lane))
            .collect();
        engines.sort_unstable();
        engines.dedup();
        (engines.len() < 2).then(|| {
            format!(
                "under policy `{}` one engine holds all contexts",
                world.policy
            )
        })
    }

    fn never_concurrent(&self, world: &World) -> Option<String> {
        if self.policy.serial() {
            return Some(format!("policy `{}` runs one part at a time", world.policy));
        }
        (self.answer.len() < 2)
            .then(|| format!("under policy `{}` one lane gives all answers", world.policy))
    }

    /// Expected lengths matter where something is chosen by expected times, or by the lengths themselves.
    fn no_lengths(&self, world: &World) -> Option<String> {
        let (answers, ingests) = match world.policy {
            Policy::Single { .. } | Policy::IdleFirst => (false, true),
            Policy::Naive | Policy::Fixed { .. } | Policy::RoundRobin => (false, false),
            // What an ingest takes by itself depends on no answer.
            Policy::Serial => (true, false),
            Policy::ReuseFirst | Policy::EarliestDeadlineFirst => (true, true),
            // Others order requests by them, or may let one wait for a better time.
            _ => return None,
        };
        // What finds no room where it was placed goes to the best of the others.
        let moves = self.answer.len() > 2 || self.ingest.len() > 2;
        let chooses = answers && self.answer.len() > 1
            || ingests && self.ingest.len() > 1
            || self.free > 1
            || moves;
        (!chooses).then(|| {
            format!(
                "policy `{}` chooses nothing here by how long answers are",
                world.policy
            )
        })
    }
}
