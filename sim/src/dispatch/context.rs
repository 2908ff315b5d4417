//! Versioned contexts, which engine holds what of them, and the memory that this takes.
//!
//! A stream's context is a row of *items*: its frames and, if asked, its answers, in order. Version v
//! is the context after the first v items. It keeps the items after `low(v)`, and the attention sinks.

use std::collections::VecDeque;

use super::message::{Effect, Effects};
use super::state::{JobId, Plan, State};
use crate::spec::scenario::{Keep, StateTransfer};
use crate::time::Instant;
use crate::world::{EngineId, StreamId};

/// One item of a context, and the version that it completes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContextItem {
    /// Tokens of all items up to this one, the system prompt included.
    pub(crate) total: u64,
    /// Items up to this one are dropped from this version, but for the sinks.
    pub(crate) low: u32,
    /// Frames among the items up to this one (refused ones are in no item).
    pub(crate) frames: u32,
    /// Arrival of the newest frame among them.
    pub(crate) newest_frame: Option<Instant>,
    /// Hash chain over the items up to this one.
    pub(crate) digest: u64,
}

/// A stream's context, its pending frames and waiting queries.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamState {
    /// Versions `base..`, the first being `items[0]`.
    pub(crate) items: VecDeque<ContextItem>,
    pub(crate) base: u32,
    /// Newest version that any accepted item makes.
    pub(crate) accepted: u32,
    /// Newest published version.
    pub(crate) published: u32,
    /// Versions that frames (not answers) made, newest last, as far as a window needs them.
    recent_frames: VecDeque<u32>,
    /// Tokens up to the last sink item.
    sink_total: u64,
    /// Jobs of the unpublished items, in order.
    pub(crate) pending: VecDeque<JobId>,
    /// Queries whose version is not published yet.
    pub(crate) waiting: Vec<JobId>,
    /// Queries that could start, have not, and would be delayed by ingestion.
    pub(crate) ready_answers: u32,
    /// Queries of this stream that hold a lane.
    pub(crate) answering: u32,
    /// Frame stages and rebuilds of this stream that hold a lane.
    pub(crate) ingesting: u32,
    /// Frames that arrived, refused ones included.
    pub(crate) frames: u32,
    /// Frames accepted but not yet published.
    pub(crate) pending_frames: u32,
}

/// What an engine holds of a stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Resident {
    /// Whether it holds anything (the system prompt at least).
    pub(crate) present: bool,
    /// Newest version that it holds.
    pub(crate) version: u32,
    /// Items up to this one are gone, but for the sinks.
    pub(crate) low: u32,
    /// Tokens counted against the budget, those on their way included.
    pub(crate) tokens: u64,
    /// Jobs that read or extend it.
    pub(crate) pins: u32,
    /// When it was last used.
    pub(crate) used: Instant,
}

/// One step of a hash chain (`SplitMix64`'s finaliser over the sum).
#[inline]
pub(crate) fn chain(digest: u64, item: u64) -> u64 {
    let mut z = digest
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(item)
        .wrapping_add(1);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The item of a frame in the hash chain.
#[inline]
pub(crate) fn frame_item(index: u32, tokens: u32) -> u64 {
    (u64::from(index) << 32) | u64::from(tokens)
}

/// The item of an answer in the hash chain: told apart from frames by the top bit.
#[inline]
pub(crate) fn answer_item(query: u32, tokens: u32) -> u64 {
    (1 << 63) | frame_item(query, tokens)
}

impl StreamState {
    /// Empties the context; version 0 holds the system prompt.
    pub(crate) fn reset(&mut self, system_tokens: u32, stream_digest: u64) {
        self.items.clear();
        self.recent_frames.clear();
        self.pending.clear();
        self.waiting.clear();
        self.items.push_back(ContextItem {
            total: u64::from(system_tokens),
            low: 0,
            frames: 0,
            newest_frame: None,
            digest: stream_digest,
        });
        self.base = 0;
        self.accepted = 0;
        self.published = 0;
        self.sink_total = u64::from(system_tokens);
        self.ready_answers = 0;
        self.answering = 0;
        self.ingesting = 0;
        self.frames = 0;
        self.pending_frames = 0;
    }

    #[inline(always)]
    pub(crate) fn item(&self, version: u32) -> &ContextItem {
        &self.items[(version - self.base) as usize]
    }

    /// Tokens of the context at `version`.
    #[inline(always)]
    pub(crate) fn tokens(&self, version: u32, keep: Keep) -> u64 {
        let item = self.item(version);
        self.span(item.low, item.total, keep)
    }

    /// Tokens from `low` (exclusive) to a running total, sinks and system prompt included.
    #[inline(always)]
    fn span(&self, low: u32, total: u64, keep: Keep) -> u64 {
        if low == 0 {
            return total;
        }
        match keep {
            Keep::All => total,
            Keep::Window { .. } => total - self.item(low).total + self.sink_total,
            Keep::Sinks { first, .. } => {
                if low <= first {
                    total
                } else {
                    total - self.item(low).total + self.sink_total
                }
            }
        }
    }

    /// Tokens that a resident spans.
    pub(crate) fn resident_tokens(&self, resident: &Resident, keep: Keep) -> u64 {
        if resident.present {
            self.span(resident.low, self.item(resident.version).total, keep)
        } else {
            0
        }
    }

    /// Tokens of version `version + 1` if an item of `tokens` were accepted now: an upper bound for
    /// the check against the longest context.
    pub(crate) fn tokens_with(&self, tokens: u32, keep: Keep) -> u64 {
        let newest = self.item(self.accepted);
        match keep {
            Keep::All => newest.total + u64::from(tokens),
            Keep::Window { frames } | Keep::Sinks { recent: frames, .. } => {
                let low = if self.recent_frames.len() >= frames as usize {
                    self.recent_frames.front().copied().unwrap_or(0)
                } else {
                    newest.low
                };
                self.span(low.max(newest.low), newest.total, keep) + u64::from(tokens)
            }
        }
    }

    /// Accepts an item and returns the version that it will make.
    pub(crate) fn accept(
        &mut self,
        frame: Option<Instant>,
        tokens: u32,
        content: u64,
        keep: Keep,
    ) -> u32 {
        let last = *self.item(self.accepted);
        self.accepted += 1;
        let version = self.accepted;
        let mut low = last.low;
        if frame.is_some() {
            let window = match keep {
                Keep::All => None,
                Keep::Window { frames } => Some(frames),
                Keep::Sinks { recent, .. } => Some(recent),
            };
            if let Some(window) = window {
                self.recent_frames.push_back(version);
                while self.recent_frames.len() > window as usize {
                    if let Some(dropped) = self.recent_frames.pop_front() {
                        low = low.max(dropped);
                    }
                }
            }
        }
        let total = last.total + u64::from(tokens);
        if let Keep::Sinks { first, .. } = keep
            && version <= first
        {
            self.sink_total = total;
        }
        self.items.push_back(ContextItem {
            total,
            low,
            frames: last.frames + u32::from(frame.is_some()),
            newest_frame: frame.or(last.newest_frame),
            digest: chain(last.digest, content),
        });
        version
    }

    /// Whether a resident holds all of `version`, seen at a glance; a resident may also hold all that
    /// counts of a version without it, which [`Self::missing`] finds.
    #[inline(always)]
    pub(crate) fn covers(&self, resident: &Resident, version: u32) -> bool {
        resident.present
            && resident.version >= version
            && (resident.low == 0 || resident.low <= self.item(version).low)
    }

    /// Tokens of `version` that a resident lacks.
    #[inline(always)]
    pub(crate) fn missing(&self, resident: &Resident, version: u32, keep: Keep) -> u64 {
        if self.covers(resident, version) {
            return 0;
        }
        self.missing_in_detail(resident, version, keep)
    }

    #[inline(never)]
    fn missing_in_detail(&self, resident: &Resident, version: u32, keep: Keep) -> u64 {
        let item = self.item(version);
        let whole = self.span(item.low, item.total, keep);
        if !resident.present {
            return whole;
        }
        // Tokens of the items after `from` and up to `to`.
        let between = |from: u32, to: u32| {
            if from < to {
                self.item(to).total - self.item(from).total
            } else {
                0
            }
        };
        let sinks = match keep {
            Keep::Sinks { first, .. } => first,
            Keep::All | Keep::Window { .. } => 0,
        };
        let held_sinks = sinks.min(resident.version);
        let low = item.low.max(held_sinks);
        // Sinks that it never had, frames that left its window, and what came after it.
        between(held_sinks, sinks.min(item.low))
            + between(low, resident.low.min(version))
            + between(resident.version.max(low), version)
    }

    /// Takes back the items after `version`, which will never be published.
    pub(crate) fn forget_after(&mut self, version: u32) {
        self.items.truncate((version + 1 - self.base) as usize);
        self.recent_frames.retain(|&frame| frame <= version);
        self.accepted = version;
    }

    /// Forgets items that no version in use needs: those below `keep_from`.
    pub(crate) fn prune(&mut self, keep_from: u32) {
        while self.base < keep_from && self.items.len() > 1 {
            self.items.pop_front();
            self.base += 1;
        }
    }
}

impl State<'_> {
    /// Tokens of a stream's context at a version.
    #[inline(always)]
    pub(crate) fn context_tokens(&self, stream: StreamId, version: u32) -> u64 {
        self.stream(stream).tokens(version, self.world.keep)
    }

    /// The cheapest allowed way to make `version` usable on `engine`, by the policy's estimates, with
    /// its expected time in ns.
    #[inline(always)]
    pub(crate) fn plan(&self, stream: StreamId, version: u32, engine: EngineId) -> (Plan, u64) {
        let resident = self.resident(engine, stream);
        if self.stream(stream).covers(resident, version) {
            return (Plan::default(), 0);
        }
        self.plan_for_missing(stream, version, engine, self.transfer)
    }

    /// Apart from [`Self::plan`], which most requests end at: their version is resident.
    #[inline(never)]
    pub(crate) fn plan_for_missing(
        &self,
        stream: StreamId,
        version: u32,
        engine: EngineId,
        transfer: StateTransfer,
    ) -> (Plan, u64) {
        let keep = self.world.keep;
        let context = self.stream(stream);
        let resident = self.resident(engine, stream);
        let missing = context.missing(resident, version, keep);
        if missing == 0 {
            return (Plan::default(), 0);
        }
        let whole = context.tokens(version, keep);
        let base = (whole - missing) as u32;
        let rebuild = Plan {
            encode: self.frames_among(stream, version, missing),
            rebuild: missing as u32,
            context: base,
            ..Plan::default()
        };
        let rebuild_time = self.rebuild_time(engine, missing as u32, base)
            + self.encode_time(stream, rebuild.encode, engine);
        if transfer == StateTransfer::Reconstruct {
            return (rebuild, rebuild_time);
        }
        let mut best = (rebuild, rebuild_time);
        let mut imported = 0;
        for index in 0..self.world.engines.len() {
            let source = EngineId(index as u8);
            let held = self.resident(source, stream);
            if source == engine
                || self.is_dead(source)
                || !held.present
                || held.low > context.item(version).low
            {
                continue;
            }
            let rest = context.missing(held, version, keep);
            if rest >= missing {
                continue;
            }
            let tokens = (missing - rest) as u32;
            let Some(copy) = self.import_time(source, engine, tokens) else {
                continue;
            };
            let encode = self.frames_among(stream, version, rest);
            let time = copy
                + self.rebuild_time(engine, rest as u32, (whole - rest) as u32)
                + self.encode_time(stream, encode, engine);
            let better = match transfer {
                StateTransfer::Import => tokens > imported || (tokens == imported && time < best.1),
                _ => time < best.1,
            };
            if better {
                imported = tokens;
                best = (
                    Plan {
                        encode,
                        import: tokens,
                        source: source.0,
                        rebuild: rest as u32,
                        context: (whole - rest) as u32,
                        source_pinned: false,
                    },
                    time,
                );
            }
        }
        best
    }

    /// KV bytes of `tokens`.
    #[inline]
    pub(crate) fn kv_bytes(&self, tokens: u64) -> u64 {
        tokens * self.world.model.kv_bytes_per_token
    }

    /// Whether `bytes` more fit the budget of an engine, and that of the SoC.
    #[inline(always)]
    fn fits(&self, engine: EngineId, bytes: u64) -> (bool, bool) {
        let e = engine.0 as usize;
        (
            self.kv_used[e] + bytes <= self.world.engines[e].kv_budget,
            self.kv_total + bytes <= self.world.memory.kv_budget,
        )
    }

    /// Makes room for `bytes` more on `engine` by evicting what nobody uses, least recently used
    /// first, other than `stream`'s. Evicts nothing unless that is enough.
    #[inline(always)]
    pub(crate) fn make_room(
        &mut self,
        engine: EngineId,
        stream: StreamId,
        bytes: u64,
        effects: &mut Effects,
    ) -> bool {
        let (here, all) = self.fits(engine, bytes);
        here && all || self.make_room_by_evicting(engine, stream, bytes, effects)
    }

    #[inline(never)]
    fn make_room_by_evicting(
        &mut self,
        engine: EngineId,
        stream: StreamId,
        bytes: u64,
        effects: &mut Effects,
    ) -> bool {
        let (mut here, mut all) = self.fits(engine, bytes);
        if !self.could_fit(engine, stream, bytes) {
            return false;
        }
        while !(here && all) {
            // Where only the SoC is short, any engine's memory helps.
            let Some(victim) =
                self.least_recently_used(if here { None } else { Some(engine) }, engine, stream)
            else {
                return false;
            };
            self.evict(victim.0, victim.1, effects);
            (here, all) = self.fits(engine, bytes);
        }
        true
    }

    /// Whether what `e` holds of `s` stays when room is made for `stream` on `engine`: what is already
    /// there, and what an engine that cannot rebuild must copy.
    fn spared(&self, e: EngineId, s: StreamId, engine: EngineId, stream: StreamId) -> bool {
        s == stream && (e == engine || self.rebuilders & (1 << engine.0) == 0)
    }

    /// Whether evicting everything that nobody uses would be enough.
    fn could_fit(&self, engine: EngineId, stream: StreamId, bytes: u64) -> bool {
        let (mut here, mut all) = (0, 0);
        for index in 0..self.world.engines.len() {
            for s in 0..self.streams.len() {
                let at = (EngineId(index as u8), StreamId(s as u16));
                let resident = self.resident(at.0, at.1);
                let idle = resident.present && resident.pins == 0;
                if idle && !self.spared(at.0, at.1, engine, stream) {
                    let freed = self.kv_bytes(resident.tokens);
                    all += freed;
                    if at.0 == engine {
                        here += freed;
                    }
                }
            }
        }
        let e = engine.0 as usize;
        self.kv_used[e] + bytes <= self.world.engines[e].kv_budget + here
            && self.kv_total + bytes <= self.world.memory.kv_budget + all
    }

    fn least_recently_used(
        &self,
        on: Option<EngineId>,
        engine: EngineId,
        stream: StreamId,
    ) -> Option<(EngineId, StreamId)> {
        let mut oldest: Option<(Instant, EngineId, StreamId)> = None;
        for index in 0..self.world.engines.len() {
            let e = EngineId(index as u8);
            if on.is_some_and(|only| only != e) {
                continue;
            }
            for s in 0..self.streams.len() {
                let s = StreamId(s as u16);
                let resident = self.resident(e, s);
                let idle = resident.present && resident.pins == 0;
                if !idle || self.spared(e, s, engine, stream) {
                    continue;
                }
                if oldest.is_none_or(|(used, ..)| resident.used < used) {
                    oldest = Some((resident.used, e, s));
                }
            }
        }
        oldest.map(|(_, e, s)| (e, s))
    }

    pub(crate) fn evict(&mut self, engine: EngineId, stream: StreamId, effects: &mut Effects) {
        let resident = *self.resident(engine, stream);
        self.take_kv(engine, self.kv_bytes(resident.tokens));
        *self.resident_mut(engine, stream) = Resident {
            used: resident.used,
            ..Resident::default()
        };
        effects.push(Effect::Evict {
            engine,
            stream,
            tokens: resident.tokens as u32,
        });
    }

    /// Gives up a context rebuilt for one request alone.
    pub(crate) fn drop_rebuilt(&mut self, id: JobId) {
        let job = self.job_mut(id);
        let bytes = std::mem::take(&mut job.rebuilt_bytes);
        if let Some(engine) = job.rebuilt_on.take() {
            self.take_kv(engine, bytes);
        }
    }

    /// Counts bytes in.
    #[inline(always)]
    pub(crate) fn give_kv(&mut self, engine: EngineId, bytes: u64) {
        self.kv_used[engine.0 as usize] += bytes;
        self.kv_total += bytes;
        self.kv_peak = self.kv_peak.max(self.kv_total);
        debug_assert!(
            self.kv_total <= self.world.memory.kv_budget,
            "INV-5: KV of {} bytes exceeds the budget",
            self.kv_total
        );
    }

    /// Counts bytes out.
    #[inline(always)]
    pub(crate) fn take_kv(&mut self, engine: EngineId, bytes: u64) {
        debug_assert!(
            self.kv_used[engine.0 as usize] >= bytes,
            "INV-5: KV accounting underflows"
        );
        self.kv_used[engine.0 as usize] -= bytes;
        self.kv_total -= bytes;
    }

    /// Makes a resident hold `version`, and corrects its bytes where a reservation overlapped another.
    pub(crate) fn settle(
        &mut self,
        engine: EngineId,
        stream: StreamId,
        version: u32,
        now: Instant,
    ) {
        let low = self.stream(stream).item(version).low;
        let resident = self.resident_mut(engine, stream);
        if !resident.present {
            resident.present = true;
            resident.version = version;
            resident.low = low;
        } else if resident.version < version {
            if resident.version <= low {
                resident.low = low;
            } else {
                resident.low = resident.low.min(low);
            }
            resident.version = version;
        } else if version > resident.low {
            resident.low = resident.low.min(low);
        }
        // Else the version is older than anything that stays: its reader alone has it, while it reads.
        resident.used = now;
    }

    /// Drops one pin; the last one lets a window slide.
    #[inline(always)]
    pub(crate) fn unpin(&mut self, engine: EngineId, stream: StreamId, now: Instant) {
        let keep = self.world.keep;
        let dead = self.is_dead(engine);
        let resident = self.resident_mut(engine, stream);
        debug_assert!(resident.pins > 0, "INV-5: unpinned twice");
        resident.pins -= 1;
        resident.used = now;
        if resident.pins > 0 {
            return;
        }
        if dead {
            let bytes = self.kv_bytes(self.resident(engine, stream).tokens);
            self.take_kv(engine, bytes);
            *self.resident_mut(engine, stream) = Resident::default();
            return;
        }
        if keep == Keep::All && resident.present {
            // Nothing slides; only a doubled reservation can differ.
            let (version, counted) = (resident.version, resident.tokens);
            let real = self.stream(stream).item(version).total;
            if real != counted {
                self.recount(engine, stream, real, counted);
            }
            return;
        }
        let mut slid = *resident;
        let context = self.stream(stream);
        if slid.present {
            slid.low = slid.low.max(context.item(slid.version).low);
        }
        let (real, counted) = (context.resident_tokens(&slid, keep), slid.tokens);
        self.resident_mut(engine, stream).low = slid.low;
        self.recount(engine, stream, real, counted);
    }

    fn recount(&mut self, engine: EngineId, stream: StreamId, real: u64, counted: u64) {
        if real > counted {
            self.give_kv(engine, self.kv_bytes(real - counted));
        } else {
            self.take_kv(engine, self.kv_bytes(counted - real));
        }
        self.resident_mut(engine, stream).tokens = real;
    }
}
