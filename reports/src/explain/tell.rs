//! The text of what was seen.

use std::fmt::Write as _;

use screen::{Head, Table, hanging, paragraph as say};
use sim::dispatch::{Completion, Reason, Task};
use sim::spec::scenario::Keep;
use sim::time::{Duration, Instant};
use sim::world::{LaneId, World};

use super::wait;
use super::watch::{Asked, End, Ran, Seen, Stretch};
use crate::detail::Class;
use crate::number::{ABSENT, bytes, percent, quantity, short};
use crate::requests::preparation_name;

/// The story of a request; `number`: how many came before it.
pub(super) fn story(world: &World, run: u32, number: u64, seen: &Seen, asked: &[Asked]) -> String {
    let mut out = String::new();
    let stream = &world.streams[seen.stream.0 as usize].name;
    say(
        &mut out,
        &format!(
            "Query {} of `{stream}` (arrival {number}, both counted from 0): {}; policy {}, replication {run}, seed {}",
            seen.index, world.title, world.policy, world.seed
        ),
    );
    out.push('\n');
    arrival(&mut out, world, seen);
    version(&mut out, seen);
    choice(&mut out, world, asked);
    let last = asked.last();
    let placed = last.and_then(|asked| asked.decision.lane().map(|_| asked.at));
    let (mut told, mut window_told) = (None, false);
    for (waited, stage) in wait::before(world, seen, placed).iter().zip(&seen.stages) {
        if let Some(text) = wait::text(world, waited, lane(world, stage.lane)) {
            say(&mut out, &text);
        }
        evictions(&mut out, world, seen, stage, told);
        slid(&mut out, world, seen, stage, &mut window_told);
        told = Some(stage.since);
        ran(&mut out, world, stage);
    }
    end(&mut out, world, seen, asked);
    out
}

fn clock(at: Instant) -> String {
    format!("{:.3} s", at.as_secs_f64())
}

pub(super) fn span(span: Duration) -> String {
    quantity(span.as_secs_f64(), "s")
}

pub(super) fn lane(world: &World, lane: LaneId) -> &str {
    &world.lanes[lane.0 as usize].name
}

pub(super) fn task(world: &World, task: &Task) -> String {
    format!(
        "{} of `{}` v{}",
        world.stages[task.stage.0 as usize].name,
        world.streams[task.stream.0 as usize].name,
        task.version
    )
}

fn arrival(out: &mut String, world: &World, seen: &Seen) {
    let mut text = format!(
        "It arrived at {} with {} prompt tokens; the policy expects {} answer tokens.",
        clock(seen.arrived),
        seen.prompt,
        seen.predicted
    );
    if let Some(deadline) = seen.deadline {
        _ = write!(text, " It is due at {}.", clock(deadline));
    }
    let (waiting, answering) = seen.others;
    _ = write!(
        text,
        " {} waited then, and {} in work.",
        match waiting {
            0 => "No other query".to_owned(),
            1 => "1 other query".to_owned(),
            n => format!("{n} other queries"),
        },
        match answering {
            1 => "1 was".to_owned(),
            n => format!("{n} were"),
        },
    );
    let mut running = Vec::new();
    for index in 0..world.lanes.len() as u8 {
        let id = LaneId(index);
        let what = seen.running.iter().find(|(lane, _)| *lane == id);
        running.push(what.map_or_else(
            || format!("{} was idle", lane(world, id)),
            |(_, what)| format!("{} ran {}", lane(world, id), task(world, what)),
        ));
    }
    _ = write!(text, " Of the lanes, {}.", running.join(", "));
    if seen.throttled > 0 {
        _ = write!(text, " The SoC was throttled, step {}.", seen.throttled);
    }
    say(out, &text);
}

fn version(out: &mut String, seen: &Seen) {
    let text = match (seen.version, seen.published) {
        (None, _) => "It was bound to no version.".to_owned(),
        (Some(0), _) => match seen.frames {
            0 => "It reads version 0: there is no frame yet.".to_owned(),
            1 => {
                "It reads version 0, which holds no frame: one had arrived, but was not published."
                    .to_owned()
            }
            n => format!(
                "It reads version 0, which holds no frame: {n} had arrived, but none of them was published."
            ),
        },
        (Some(version), None) => format!("It reads version {version}, which was never published."),
        (Some(version), Some(at)) if at <= seen.arrived => {
            format!("It reads version {version}, published at {}.", clock(at))
        }
        (Some(version), Some(at)) => format!(
            "It reads version {version}, which was published only at {}: it waited {} for it.",
            clock(at),
            span(at.saturating_since(seen.arrived))
        ),
    };
    say(out, &text);
}

/// What the policy could choose between.
fn choice(out: &mut String, world: &World, asked: &[Asked]) {
    out.push('\n');
    let Some(last) = asked.last() else {
        say(out, "The policy was never asked where it should go.");
        return;
    };
    if let [first, .., _] = asked {
        let waits = asked.len() - 1;
        say(
            out,
            &format!(
                "The policy was first asked at {}, and let it wait {}.",
                clock(first.at),
                if waits == 1 {
                    "once".to_owned()
                } else {
                    format!("{waits} times")
                }
            ),
        );
    }
    let text = match last.decision.lane() {
        Some(id) => format!("chose {}", lane(world, id)),
        None => "let it wait".to_owned(),
    };
    say(
        out,
        &format!(
            "At {} the policy {text}. What it expected of each lane, s:",
            clock(last.at)
        ),
    );
    let heads = ["W", "P", "S alone", "S beside", "harm", "W+P+S+harm"];
    let mut rows = Table::new(std::iter::once(Head::text("lane")).chain(heads.map(Head::number)));
    for (id, e) in &last.candidates {
        let secs = |ns: u64| {
            // What cannot be done counts as practically for ever.
            if ns >= 1 << 46 {
                ABSENT.to_owned()
            } else {
                short(Duration(ns).as_secs_f64())
            }
        };
        let total = e
            .wait
            .saturating_add(e.prepare)
            .saturating_add(e.beside)
            .saturating_add(e.harm);
        let mark = if last.decision.lane() == Some(*id) {
            "→ "
        } else {
            "  "
        };
        rows.row([
            format!("{mark}{}", lane(world, *id)),
            secs(e.wait),
            secs(e.prepare),
            secs(e.alone),
            secs(e.beside),
            secs(e.harm),
            secs(total),
        ]);
    }
    _ = write!(out, "{rows}");
    say(
        out,
        "W: until the lane is free; P: preparation of the version there; S: prefill and decode, alone and beside what runs \
         then; harm: the delay that it causes to others.",
    );
    out.push('\n');
}

/// What left the engines before a stage, since `told`: the request's own context, and what made room as it
/// started.
fn evictions(out: &mut String, world: &World, seen: &Seen, stage: &Ran, told: Option<Instant>) {
    let engine = world.engine_of(stage.lane);
    let tokens = |count: u32| match count {
        1 => "1 token".to_owned(),
        _ => format!("{count} tokens"),
    };
    for &(at, from, stream, count) in &seen.evicted {
        let name = &world.engines[from.0 as usize].name;
        if Some(at) <= told || at > stage.since {
            continue;
        }
        if stream == seen.stream {
            let text = format!(
                "{}: its stream's context on {name}, {}, was evicted.",
                clock(at),
                tokens(count)
            );
            say(out, &text);
        } else if at == stage.since && from == engine {
            let text = format!(
                "{}: room was made on {name}: the context of `{}`, {}, was evicted.",
                clock(at),
                world.streams[stream.0 as usize].name,
                tokens(count)
            );
            say(out, &text);
        }
    }
}

/// What had left the window of a version that was bound long before a stage that makes it usable.
fn slid(out: &mut String, world: &World, seen: &Seen, stage: &Ran, told: &mut bool) {
    let kind = world.stages[stage.task.stage.0 as usize].kind;
    let (Some(version), false) = (seen.version, *told) else {
        return;
    };
    // Which versions answers make is not known here.
    if world.answers_join_history || Class::of(kind, true) != Class::Transfer {
        return;
    }
    let (sinks, window) = match world.keep {
        Keep::All => return,
        Keep::Window { frames } => (0, frames),
        Keep::Sinks { first, recent } => (first, recent),
    };
    let low = |version: u32| version.saturating_sub(window).max(sinks);
    let left = low(stage.newest).min(version).saturating_sub(low(version));
    if left > 0 {
        *told = true;
        let frames = match left {
            1 => "1 frame".to_owned(),
            _ => format!("{left} frames"),
        };
        let text = format!(
            "{}: version {} was the newest by then, and {frames} of its own, version {version}, had left the window: \
             what the engine lacks of them is made anew for it.",
            clock(stage.since),
            stage.newest,
        );
        say(out, &text);
    }
}

/// A stage, and how co-running and heat changed its speed.
fn ran(out: &mut String, world: &World, stage: &Ran) {
    let name = &world.stages[stage.task.stage.0 as usize].name;
    let mut text = format!(
        "{}: {name} on {}",
        clock(stage.since),
        lane(world, stage.lane)
    );
    match stage.ended {
        None => text += " did not end: its lane went out of service.",
        Some((at, alone)) => {
            let took = at.saturating_since(stage.since);
            _ = write!(text, " took {}", span(took));
            if took == alone {
                text += ", as alone.";
            } else if alone.0 > 0 {
                let factor = took.0 as f64 / alone.0 as f64;
                _ = write!(
                    text,
                    ", alone {}: {} times that.",
                    span(alone),
                    short(factor)
                );
            } else {
                text.push('.');
            }
        }
    }
    say(out, &text);
    let changes = stage
        .pace
        .iter()
        .any(|stretch| short(stretch.slowdown) != short(1.0));
    if changes {
        for stretch in &stage.pace {
            let line = format!(
                "  until {}: {}",
                clock(stretch.until),
                pace(world, stage.lane, stretch)
            );
            *out += &hanging(line.trim_start(), 2);
        }
    }
}

fn pace(world: &World, on: LaneId, stretch: &Stretch) -> String {
    let beside: Vec<String> = stretch
        .beside
        .iter()
        .map(|(id, what)| format!("{} on {}", task(world, what), lane(world, *id)))
        .collect();
    let beside = if beside.is_empty() {
        "alone".to_owned()
    } else {
        format!("beside {}", beside.join(" and "))
    };
    let engine = world.engine_of(on).0 as usize;
    let heat = world.heat.as_ref();
    let speed = heat.map_or(1.0, |heat| heat.speed(stretch.throttled)[engine]);
    let hot = if speed < 1.0 {
        let name = &world.engines[engine].name;
        format!(", {name} throttled to {} of full speed", percent(speed))
    } else {
        String::new()
    };
    format!("slowdown {}, {beside}{hot}", short(stretch.slowdown))
}

fn end(out: &mut String, world: &World, seen: &Seen, asked: &[Asked]) {
    out.push('\n');
    match seen.end {
        None => say(out, "It never ended."),
        Some(End::Refused(reason, at)) => say(
            out,
            &format!(
                "It was refused at {}: {}, {}.",
                clock(at),
                reason.name(),
                why(world, seen, reason)
            ),
        ),
        Some(End::Answered(done, at)) => {
            answered(out, seen, &done, at);
            parts(out, world, seen, at);
            if let Some(last) = asked.last()
                && let Some(chosen) = last.decision.lane()
                && let Some((_, e)) = last.candidates.iter().find(|(id, _)| *id == chosen)
            {
                let expected = last.at + Duration(e.wait + e.prepare + e.beside);
                let (early, late) = (expected.saturating_since(at), at.saturating_since(expected));
                let off = if late.0 > 0 {
                    format!("{} later", span(late))
                } else {
                    format!("{} earlier", span(early))
                };
                say(
                    out,
                    &format!(
                        "The policy had expected that at {}; it came {off}.",
                        clock(expected)
                    ),
                );
            }
        }
    }
}

/// What refused it, with the limit where there is one.
fn why(world: &World, seen: &Seen, reason: Reason) -> String {
    match reason {
        Reason::QueueFull => format!(
            "`limits.max_requests` = {} queries were in the system",
            world.max_requests
        ),
        Reason::FramesPending => format!(
            "`limits.max_pending_frames` = {} frames of its stream waited or were being ingested",
            world.max_pending_frames
        ),
        Reason::ContextTooLong => format!(
            "context, prompt and longest answer exceed the model's `max_context_tokens` = {}",
            world.model.max_context_tokens
        ),
        Reason::NeverFits => {
            let budgets = world.engines.iter();
            let budgets: Vec<String> = budgets
                .map(|engine| format!("{} {}", engine.name, bytes(engine.kv_budget as f64)))
                .collect();
            let needs = seen.context.map_or_else(String::new, |context| {
                let own = u64::from(seen.prompt) + u64::from(seen.max_output);
                let tokens = u64::from(context) + own;
                let needed = tokens * world.model.kv_bytes_per_token;
                format!(
                    ", {} with its longest answer ({tokens} tokens),",
                    bytes(needed as f64)
                )
            });
            format!(
                "its KV{needs} exceeds what any engine that could serve it may hold (KV budgets: {})",
                budgets.join(", ")
            )
        }
        Reason::ContextLost => {
            "no engine that could serve it can have its context any more".to_owned()
        }
        Reason::EngineFailed => "every lane that could serve it is out of service".to_owned(),
        Reason::Unserved => "the run ended, and no policy had placed it".to_owned(),
    }
}

fn answered(out: &mut String, seen: &Seen, done: &Completion, at: Instant) {
    let late = if done.late {
        ", after its deadline"
    } else {
        ""
    };
    say(
        out,
        &format!(
            "Its first token came at {}, {} after its arrival, and the last of {} at {}, {} after it{late}. Its context was \
             made usable by {}.",
            clock(done.first_token),
            span(done.first_token.saturating_since(seen.arrived)),
            done.output,
            clock(at),
            span(at.saturating_since(seen.arrived)),
            preparation_name(done.preparation).replace('_', " "),
        ),
    );
}

/// Where its time went; the parts are those of `detail.json`.
fn parts(out: &mut String, world: &World, seen: &Seen, at: Instant) {
    let (mut preparing, mut service, mut took, mut covered) = (0, 0, 0, 0);
    for stage in &seen.stages {
        let Some((end, alone)) = stage.ended else {
            continue;
        };
        let length = end.saturating_since(stage.since).0;
        let counted = end.0.saturating_sub(stage.since.0.max(covered));
        covered = covered.max(end.0);
        took += counted;
        let alone = if counted == length {
            alone.0
        } else {
            (alone.0 as f64 * counted as f64 / length.max(1) as f64) as u64
        };
        let kind = world.stages[stage.task.stage.0 as usize].kind;
        if Class::of(kind, true) == Class::Transfer {
            preparing += alone;
        } else {
            service += alone;
        }
    }
    let total = at.saturating_since(seen.arrived).0;
    let slowdown = took.saturating_sub(preparing + service);
    let text = format!(
        "Of these {}, it waited {}, was prepared for {}, was slowed down by {} and was served for {}.",
        span(Duration(total)),
        span(Duration(total.saturating_sub(took))),
        span(Duration(preparing)),
        span(Duration(slowdown)),
        span(Duration(service)),
    );
    say(out, &text);
}
