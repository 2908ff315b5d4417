//! Room for contexts: what can never be held is a fault, what will not be held for long a warning.

use super::compile::Parts;
use super::document::Place;
use super::graph::Stages;
use super::lengths;
use super::soc::Soc;
use super::streams::first_plan;
use super::suggest::counted;
use crate::cost::CostTable;
use crate::diag::Diagnostic;
use crate::memory::gigabytes;
use crate::spec::scenario::Keep;
use crate::time::Instant;
use crate::workload::{FramePlan, StreamPlan};
use crate::world::{LaneId, ModelSizes, StageId};

/// What engines may hold, by what they do with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    sizes: ModelSizes,
    /// Largest KV budget of an engine that ingests, bytes.
    ingest: u64,
    /// Of one that answers.
    answer: u64,
    /// Whether engines keep contexts between requests.
    kept: bool,
}

impl Room {
    pub(super) fn of(
        parts: &Parts<'_>,
        soc: &Soc,
        stages: &Stages,
        table: &CostTable,
        placement: &[Option<LaneId>],
        sizes: ModelSizes,
    ) -> Self {
        let largest = |needed: &[StageId]| {
            let able = soc.lanes.iter().enumerate().filter(|(index, lane)| {
                needed.iter().all(|stage| {
                    let stage = stage.0 as usize;
                    let here = placement[stage].is_none_or(|fixed| fixed.0 as usize == *index);
                    here && table.rows[lane.engine.0 as usize][stage].is_some()
                })
            });
            let budgets = able.map(|(_, lane)| soc.engines[lane.engine.0 as usize].kv_budget);
            budgets.max().unwrap_or(0)
        };
        let frame = &stages.frame;
        Self {
            sizes,
            ingest: largest(&[frame.stages[frame.bound_at as usize]]),
            answer: largest(&stages.bound()),
            kept: parts.scenario.raw.modes.context_reuse,
        }
    }

    fn bytes(&self, tokens: u64) -> u64 {
        tokens.saturating_mul(self.sizes.kv_bytes_per_token)
    }

    /// Tokens that `budget` bytes hold.
    fn tokens(&self, budget: u64) -> u64 {
        budget / self.sizes.kv_bytes_per_token.max(1)
    }

    fn longest(&self) -> u64 {
        self.sizes.max_context_tokens.into()
    }
}

/// Tokens of the shortest query with its longest answer.
fn shortest_query(plan: &StreamPlan) -> Option<u64> {
    let queries = plan.queries.as_ref()?;
    Some(u64::from(lengths::least(&queries.prompt)) + u64::from(queries.output_max))
}

/// Each table of `streams`, with the first plan that it makes.
fn tables<'p>(
    parts: &'p Parts<'_>,
    plans: &'p [StreamPlan],
) -> impl Iterator<Item = (Place<'p>, &'p str, &'p StreamPlan)> {
    let place = parts.scenario.root().key("streams");
    let raw = parts.scenario.raw.streams.iter().enumerate();
    raw.filter_map(move |(index, stream)| {
        let plan = first_plan(plans, stream)?;
        Some((place.index(index), stream.name.as_str(), plan))
    })
}

/// Checks that the smallest context of each stream can be held.
pub(super) fn check(
    parts: &Parts<'_>,
    plans: &[StreamPlan],
    room: &Room,
    faults: &mut Vec<Diagnostic>,
) {
    let system = u64::from(room.sizes.system_tokens);
    if system >= room.longest() {
        return;
    }
    for (place, name, plan) in tables(parts, plans) {
        let frames = plan.frames.as_ref();
        let frame = frames.map_or(0, |frames| u64::from(frames.tokens));
        let query = shortest_query(plan).unwrap_or(0);
        let tokens = system + frame + query;
        let at = if plan.queries.is_some() {
            place.key("queries")
        } else {
            place.key("frames")
        };
        let first_parts = format!("{system} of system prompt, {frame} of one frame");
        let parts_text =
            format!("{first_parts}, {query} of the shortest query with its longest answer");
        if tokens > room.longest() {
            faults.push(
                at.key_fault(
                    format!("a context of stream `{name}` is longer than the model allows"),
                    format!("{tokens} tokens, of at most {}", room.longest()),
                )
                .help(parts_text),
            );
            continue;
        }
        // What engines hold at least: a frame where it is ingested, all of it where it is answered.
        let ingested = (room.kept && frames.is_some()).then_some((system + frame, room.ingest));
        let answered = plan.queries.is_some().then_some((tokens, room.answer));
        let found = [
            answered.map(|(tokens, most)| (tokens, most, at, "answers", parts_text)),
            ingested
                .map(|(tokens, most)| (tokens, most, place.key("frames"), "ingests", first_parts)),
        ]
        .into_iter()
        .flatten()
        .find(|(tokens, most, ..)| room.bytes(*tokens) > *most && *most > 0);
        if let Some((tokens, most, at, does, parts_text)) = found {
            faults.push(
                at.key_fault(
                    format!("no engine that {does} can hold a context of stream `{name}`"),
                    format!(
                        "{} of KV, of at most {}",
                        gigabytes(room.bytes(tokens) as f64),
                        gigabytes(most as f64)
                    ),
                )
                .help(format!("{tokens} tokens: {parts_text}")),
            );
        }
    }
}

/// A word on each stream whose context outgrows what can be held while frames still come.
pub(super) fn warnings(parts: &Parts<'_>, plans: &[StreamPlan], room: &Room) -> Vec<String> {
    let mut found = Vec::new();
    for (place, name, plan) in tables(parts, plans) {
        let Some(frames) = &plan.frames else { continue };
        let growth = Growth::of(parts, frames, room);
        let keep = parts.scenario.root().key("context").key("keep");
        let at = if keep.is_present() && growth.kept < growth.come {
            keep.quoted()
        } else {
            place.key("frames").quoted()
        };
        let last = growth.last_frame(room);
        if last < growth.come {
            let why = if growth.most(room.longest()) <= last {
                format!("the longest context is {} tokens", room.longest())
            } else {
                let bytes = gigabytes(room.ingest as f64);
                format!(
                    "engines that ingest hold at most {bytes} of KV, and a window slides only after the next"
                )
            };
            found.push(format!(
                "{at}: the context of stream `{name}` is full after {} of the {} that come ({why}): every further \
                 one is refused; let `context.keep` keep fewer",
                counted(last as usize, "frame"),
                growth.come
            ));
        }
        let Some(query) = shortest_query(plan) else {
            continue;
        };
        // What answers read is never more than what was ingested.
        let most = room.longest().min(room.tokens(room.answer));
        let (full, seen) = (growth.tokens(last), growth.kept.min(last));
        if full + query > most {
            found.push(format!(
                "{at}: once the context of stream `{name}` has {}, no engine that answers can hold it ({full} \
                 tokens) with the shortest query and its longest answer ({query}), at most {most}: such queries \
                 are refused",
                counted(seen as usize, "frame"),
            ));
        }
    }
    found
}

/// How a context grows, frame by frame.
struct Growth {
    system: u64,
    frame: u64,
    /// Frames that come until the end of the run, as far as that can be told.
    come: u64,
    /// Of them, kept at most.
    kept: u64,
}

impl Growth {
    fn of(parts: &Parts<'_>, frames: &FramePlan, room: &Room) -> Self {
        let scenario = &parts.scenario.raw;
        let horizon = scenario.run.horizon_s;
        let come = frames.expected(horizon.map_or(Instant::NEVER, Instant::from_secs_f64));
        let kept = match scenario.context.keep {
            Keep::All => u64::MAX,
            Keep::Window { frames } => frames.into(),
            Keep::Sinks { first, recent } => u64::from(first) + u64::from(recent),
        };
        Self {
            system: room.sizes.system_tokens.into(),
            frame: frames.tokens.into(),
            come,
            kept: kept.min(come),
        }
    }

    /// Tokens of the context after so many frames.
    fn tokens(&self, frames: u64) -> u64 {
        let kept = self.kept.min(frames);
        self.system.saturating_add(kept.saturating_mul(self.frame))
    }

    /// Frames that so many tokens hold.
    fn most(&self, tokens: u64) -> u64 {
        tokens.saturating_sub(self.system) / self.frame.max(1)
    }

    /// The last frame that is taken: all of them, or until the context is full.
    fn last_frame(&self, room: &Room) -> u64 {
        let by_length = self.most(room.longest());
        // A window slides only after the ingest: for a moment it holds one frame more.
        let by_memory = if room.kept {
            self.most(room.tokens(room.ingest))
        } else {
            u64::MAX
        };
        let slides = self.kept < self.come;
        if self.kept <= by_length && self.kept.saturating_add(slides.into()) <= by_memory {
            self.come
        } else {
            by_length.min(by_memory)
        }
    }
}
