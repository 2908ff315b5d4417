//! The scheduler's books, added up again from scratch: the slow and obvious version of every counter.
//!
//! Tests call it after each input; nothing in a run does.

use super::Dispatcher;
use super::state::{Class, Item, JobId, Part};
use crate::world::{EngineId, StreamId};

impl Dispatcher<'_> {
    /// What does not add up, in words: empty if the books are right.
    ///
    /// # Panics
    ///
    /// Never on a scheduler whose ids are its own.
    pub fn audit(&self) -> Vec<String> {
        let mut faults = Vec::new();
        self.audit_memory(&mut faults);
        self.audit_lanes(&mut faults);
        self.audit_streams(&mut faults);
        faults
    }

    /// KV bytes held on an engine.
    pub fn kv_bytes(&self, engine: EngineId) -> u64 {
        self.state.kv_used[engine.0 as usize]
    }

    /// KV bytes of contexts that stay on an engine for later requests.
    pub fn resident_bytes(&self, engine: EngineId) -> u64 {
        (0..self.state.streams.len())
            .map(|stream| self.state.resident(engine, StreamId(stream as u16)).tokens)
            .map(|tokens| self.state.kv_bytes(tokens))
            .sum()
    }

    /// Frames, queries and joining answers in the system.
    pub fn jobs(&self) -> usize {
        self.state.jobs.iter().filter(|job| !job.free).count()
    }

    fn held(&self) -> impl Iterator<Item = (EngineId, Item)> {
        let world = self.state.world;
        let lanes = world.lanes.iter().zip(&self.state.lanes);
        lanes.flat_map(|(lane, state)| {
            let parts = state.held.into_iter().chain(state.paused);
            parts.map(|part| (lane.engine, part))
        })
    }

    fn audit_memory(&self, faults: &mut Vec<String>) {
        let state = &self.state;
        let world = state.world;
        let mut total = 0;
        for (index, engine) in world.engines.iter().enumerate() {
            let id = EngineId(index as u8);
            let mut bytes = self.resident_bytes(id);
            for (on, item) in self.held() {
                if on == id && item.part == Part::Bound {
                    bytes += state.job(item.job).private_bytes;
                }
            }
            for job in state.jobs.iter().filter(|job| !job.free) {
                if job.rebuilt_on == Some(id) {
                    bytes += job.rebuilt_bytes;
                }
            }
            let used = state.kv_used[index];
            if used != bytes {
                faults.push(format!(
                    "INV-5: `{}` counts {used} bytes of KV and holds {bytes}",
                    engine.name
                ));
            }
            if used > engine.kv_budget {
                faults.push(format!(
                    "INV-5: `{}` holds {used} bytes of KV, of at most {}",
                    engine.name, engine.kv_budget
                ));
            }
            total += used;
            for stream in 0..state.streams.len() {
                self.audit_pins(id, StreamId(stream as u16), faults);
            }
        }
        if total != state.kv_total || total > world.memory.kv_budget {
            faults.push(format!(
                "INV-5: {} bytes of KV are counted and {total} held, of at most {}",
                state.kv_total, world.memory.kv_budget
            ));
        }
    }

    fn audit_pins(&self, engine: EngineId, stream: StreamId, faults: &mut Vec<String>) {
        let state = &self.state;
        let resident = state.resident(engine, stream);
        let mut pins = 0;
        for (on, item) in self.held().filter(|(_, item)| item.part == Part::Bound) {
            let job = state.job(item.job);
            if job.stream != stream || !state.world.modes.context_reuse {
                continue;
            }
            pins += u32::from(on == engine);
            pins += u32::from(job.plan.source_pinned && job.plan.source == engine.0);
        }
        if resident.pins != pins {
            faults.push(format!(
                "INV-5: stream {} on engine {} has {} pins and {pins} users",
                stream.0, engine.0, resident.pins
            ));
        }
        if !resident.present && pins == 0 && resident.tokens > 0 {
            faults.push(format!(
                "INV-5: stream {} is not on engine {}, but takes {} tokens there",
                stream.0, engine.0, resident.tokens
            ));
        }
        if resident.present && pins == 0 {
            let real = state
                .stream(stream)
                .resident_tokens(resident, state.world.keep);
            if real != resident.tokens {
                faults.push(format!(
                    "INV-5: stream {} spans {real} tokens on engine {}, and {} are counted",
                    stream.0, engine.0, resident.tokens
                ));
            }
        }
    }

    fn audit_lanes(&self, faults: &mut Vec<String>) {
        let state = &self.state;
        let mut busy = 0;
        let mut groups = 0;
        for (index, lane) in state.lanes.iter().enumerate() {
            busy += u32::from(lane.held.is_some());
            if lane.running {
                let engine = state.world.lanes[index].engine;
                let mask = state.world.exclusive[engine.0 as usize][lane.stage.0 as usize];
                if groups & mask != 0 {
                    faults.push(format!("lane {index} runs what another lane excludes"));
                }
                groups |= mask;
            }
            let all: u64 = lane.queued().map(|item| item.estimate).sum();
            let queries = lane.queries.iter();
            let queries: u64 = queries.map(|item| item.estimate).sum();
            if (all, queries) != (lane.backlog, lane.backlog_queries) {
                faults.push(format!(
                    "lane {index} has a backlog of {all} ns, {queries} of queries, and counts {} and {}",
                    lane.backlog, lane.backlog_queries
                ));
            }
            let gone = |id: JobId| state.job(id).free;
            if lane
                .queued()
                .chain(&lane.held)
                .chain(&lane.paused)
                .any(|item| gone(item.job))
            {
                faults.push(format!("lane {index} has a part of a job that ended"));
            }
            if lane.failed && (lane.held.is_some() || !lane.queue_is_empty()) {
                faults.push(format!("lane {index} failed and still has work"));
            }
        }
        if (busy, groups) != (state.lanes_busy, state.exclusive_running) {
            faults.push(format!(
                "{busy} lanes are held and {} counted; groups {groups:b} run and {:b} are counted",
                state.lanes_busy, state.exclusive_running
            ));
        }
    }

    fn audit_streams(&self, faults: &mut Vec<String>) {
        let state = &self.state;
        let jobs = || state.jobs.iter().filter(|job| !job.free && !job.gone);
        let queries = jobs().filter(|job| job.class == Class::Query).count();
        if queries != state.requests as usize {
            faults.push(format!(
                "{queries} requests are in the system and {} counted",
                state.requests
            ));
        }
        let mut answering = 0;
        for (index, stream) in state.streams.iter().enumerate() {
            let id = StreamId(index as u16);
            let own = |item: &Item| state.job(item.job).stream == id;
            let answers = |item: &Item| own(item) && item.query && item.part == Part::Bound;
            let held = self.held().filter(|(_, item)| answers(item)).count();
            let ingests = |item: &Item| own(item) && (!item.query || item.part == Part::Rebuild);
            let ingesting = self.held().filter(|(_, item)| ingests(item)).count();
            let placed = state.lanes.iter().flat_map(super::state::LaneState::queued);
            let ready = placed.filter(|item| answers(item)).count()
                + state
                    .ready
                    .iter()
                    .filter(|r| state.job(r.job).stream == id)
                    .count();
            let frames = jobs()
                .filter(|job| job.class == Class::Frame && job.stream == id)
                .count();
            answering += held;
            let counted = [
                stream.answering,
                stream.ingesting,
                stream.ready_answers,
                stream.pending_frames,
            ];
            if counted.map(|count| count as usize) != [held, ingesting, ready, frames] {
                faults.push(format!(
                    "stream {index} counts {counted:?} answers, ingests, ready answers and frames, and has {:?}",
                    [held, ingesting, ready, frames]
                ));
            }
        }
        if answering != state.answers_running as usize {
            faults.push(format!(
                "{answering} answers run and {} are counted",
                state.answers_running
            ));
        }
    }
}
