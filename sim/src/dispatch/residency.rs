//! Which engine holds what of a context, how a version reaches an engine, and the memory that this takes.

use super::message::{Effect, Effects};
use super::state::{JobId, Part, Plan, State};
use crate::spec::scenario::{Keep, StateTransfer};
use crate::time::Instant;
use crate::world::{EngineId, LaneId, StreamId};

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

impl Resident {
    /// It holds a version, of the items after `low`, from now on.
    fn settle(&mut self, version: u32, low: u32) {
        if !self.present {
            self.present = true;
            self.version = version;
            self.low = low;
        } else if self.version < version {
            if self.version <= low {
                self.low = low;
            } else {
                self.low = self.low.min(low);
            }
            self.version = version;
        } else if version > self.low {
            self.low = self.low.min(low);
        }
        // Else the version is older than anything that stays: its reader alone has it, while it reads.
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
        self.plan_for_missing(stream, version, engine, resident, self.transfer)
    }

    /// As [`Self::plan`] for what a lane would take up next, once what it runs and the queries that wait there have
    /// prepared what they read: their time is in W already.
    #[inline(always)]
    pub(crate) fn plan_on(&self, stream: StreamId, version: u32, lane: LaneId) -> (Plan, u64) {
        let engine = self.world.engine_of(lane);
        if self
            .stream(stream)
            .covers(self.resident(engine, stream), version)
        {
            return (Plan::default(), 0);
        }
        self.plan_behind(stream, version, lane, self.transfer)
    }

    /// As [`Self::plan_on`], which most requests end at, by a transfer.
    #[inline(never)]
    pub(crate) fn plan_behind(
        &self,
        stream: StreamId,
        version: u32,
        lane: LaneId,
        transfer: StateTransfer,
    ) -> (Plan, u64) {
        let engine = self.world.engine_of(lane);
        let mut resident = *self.resident(engine, stream);
        let lane = self.lane(lane);
        let work = lane.held.iter().chain(&lane.paused).chain(&lane.queries);
        // Where estimates see old queues, W does not hold this work.
        let seen = self.world.queue_delay.0 == 0;
        for item in work.filter(|_| seen) {
            let job = self.job(item.job);
            if item.part == Part::Bound && job.stream == stream && !job.gone {
                let version = self.version_for(job);
                resident.settle(version, self.stream(stream).item(version).low);
            }
        }
        self.plan_for_missing(stream, version, engine, &resident, transfer)
    }

    /// Of what an engine lacks beside `resident`. Apart from [`Self::plan`], which most requests end at: their version
    /// is resident.
    #[inline(never)]
    pub(crate) fn plan_for_missing(
        &self,
        stream: StreamId,
        version: u32,
        engine: EngineId,
        resident: &Resident,
        transfer: StateTransfer,
    ) -> (Plan, u64) {
        let keep = self.world.keep;
        let context = self.stream(stream);
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
    /// first, other than `stream`'s there. Evicts nothing unless that is enough. Where the engine
    /// `reads` a version of the stream, what that would be copied from goes last.
    #[inline(always)]
    pub(crate) fn make_room(
        &mut self,
        engine: EngineId,
        stream: StreamId,
        reads: Option<u32>,
        bytes: u64,
        effects: &mut Effects,
    ) -> bool {
        let (here, all) = self.fits(engine, bytes);
        here && all || self.make_room_by_evicting(engine, stream, reads, bytes, effects)
    }

    #[inline(never)]
    fn make_room_by_evicting(
        &mut self,
        engine: EngineId,
        stream: StreamId,
        reads: Option<u32>,
        bytes: u64,
        effects: &mut Effects,
    ) -> bool {
        let (mut here, mut all) = self.fits(engine, bytes);
        // What is there already stays, and all of the stream where the engine cannot rebuild it.
        let needed = if self.rebuilders & (1 << engine.0) == 0 {
            u8::MAX
        } else {
            1 << engine.0
        };
        let plan = reads.map_or_else(Plan::default, |version| {
            self.plan(stream, version, engine).0
        });
        let source = if plan.import > 0 { 1 << plan.source } else { 0 };
        // Without the source the version is planned anew, and prefilled again.
        let kept = [needed | source, needed]
            .into_iter()
            .find(|&kept| self.could_fit(engine, stream, kept, bytes));
        let Some(kept) = kept else {
            return false;
        };
        while !(here && all) {
            // Where only the SoC is short, any engine's memory helps.
            let Some(victim) =
                self.least_recently_used(if here { None } else { Some(engine) }, stream, kept)
            else {
                return false;
            };
            self.evict(victim.0, victim.1, effects);
            (here, all) = self.fits(engine, bytes);
        }
        true
    }

    /// Whether `engine` holds something of `stream` that nobody uses, and that may go: what the engines
    /// of `kept` hold of the stream `of` stays.
    fn may_go(&self, (engine, stream): (EngineId, StreamId), of: StreamId, kept: u8) -> bool {
        let resident = self.resident(engine, stream);
        let spared = stream == of && kept & (1 << engine.0) != 0;
        resident.present && resident.pins == 0 && !spared
    }

    /// Whether evicting everything that may go would be enough.
    fn could_fit(&self, engine: EngineId, stream: StreamId, kept: u8, bytes: u64) -> bool {
        let (mut here, mut all) = (0, 0);
        for index in 0..self.world.engines.len() {
            for s in 0..self.streams.len() {
                let at = (EngineId(index as u8), StreamId(s as u16));
                if self.may_go(at, stream, kept) {
                    let freed = self.kv_bytes(self.resident(at.0, at.1).tokens);
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
        stream: StreamId,
        kept: u8,
    ) -> Option<(EngineId, StreamId)> {
        let mut oldest: Option<(Instant, EngineId, StreamId)> = None;
        for index in 0..self.world.engines.len() {
            let e = EngineId(index as u8);
            if on.is_some_and(|only| only != e) {
                continue;
            }
            for s in 0..self.streams.len() {
                let s = StreamId(s as u16);
                if !self.may_go((e, s), stream, kept) {
                    continue;
                }
                let resident = self.resident(e, s);
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
        resident.settle(version, low);
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
